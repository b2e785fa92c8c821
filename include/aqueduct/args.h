/* Arguments of messages, and how to pack them. */
#ifndef AQUEDUCT_ARGS_H
#define AQUEDUCT_ARGS_H

#include <stddef.h>
#include <stdint.h>

/** An argument of a message. */
typedef int32_t aq_arg;

/** The maximum number of arguments of a message. */
#define AQ_AM_MAX_ARGS 16

/** Pass no arguments. */
#define AQ_NO_ARGS NULL, 0u

#ifndef __cplusplus

/**
 * Pass arguments: aq_am_short(team, 1, PING, AQ_ARGS(7, AQ_ARG64(key), AQ_ARG_PTR(to)), 0).
 *
 * Each value is one argument, except AQ_ARG64 and AQ_ARG_PTR, which are two. In C a value is
 * converted to 32 bits as by assignment. In C++ integers and enums of up to 32 bits are accepted as
 * they are; other types are rejected at compile time. In C++, aq_args() makes an object from values
 * of any of these types, with 64-bit values and pointers as two arguments each: const auto args =
 * aq_args(7, key, to), then args.data() and args.size().
 */
#define AQ_ARGS(...)                                                                               \
    (const aq_arg[]){__VA_ARGS__},                                                                 \
        (unsigned)(sizeof((const aq_arg[]){__VA_ARGS__}) / sizeof(aq_arg))

/** In AQ_ARGS: pass an integer of up to 64 bits as two arguments, which aq_arg_u64 reads. C
 * evaluates it twice, C++ once. */
#define AQ_ARG64(value)                                                                            \
    (aq_arg)(uint32_t)(uint64_t)((value) | 0), (aq_arg)(uint32_t)((uint64_t)((value) | 0) >> 32)

/** In AQ_ARGS: pass a pointer as two arguments, which aq_arg_ptr reads. Evaluated as AQ_ARG64. */
#define AQ_ARG_PTR(pointer) AQ_ARG64((uintptr_t)(pointer))

#else

#define AQ_ARGS(...)                                                                               \
    aqi_args_as<false>(__VA_ARGS__).data(), decltype(aqi_args_as<false>(__VA_ARGS__))::count
#define AQ_ARG64(value)     aqi_arg64(value)
#define AQ_ARG_PTR(pointer) aqi_arg64(aqi_arg_bits(pointer))

#include <type_traits>

/* A value passed as two arguments, regardless of its type. */
struct aqi_arg64 {
    template <typename T> constexpr explicit aqi_arg64(T value) : bits(static_cast<uint64_t>(value))
    {
        static_assert((std::is_integral<T>::value || std::is_enum<T>::value) && sizeof(T) <= 8,
                      "AQ_ARG64 takes an integer or an enum of up to 64 bits");
    }
    uint64_t bits;
};

/* The number of arguments that a value of type T takes, and its bits. */
template <bool wide, typename T> struct aqi_arg_of {
    static_assert((std::is_integral<T>::value || std::is_enum<T>::value ||
                   std::is_pointer<T>::value) &&
                      sizeof(T) <= 8,
                  "an argument is an integer or enum of up to 64 bits, or a pointer");
    static_assert(wide || (sizeof(T) <= 4 && !std::is_pointer<T>::value),
                  "more than 32 bits: pass AQ_ARG64(value) or AQ_ARG_PTR(pointer)");
    static constexpr unsigned count = sizeof(T) > 4 || std::is_pointer<T>::value ? 2 : 1;
};
template <bool wide> struct aqi_arg_of<wide, aqi_arg64> {
    static constexpr unsigned count = 2;
};

template <typename T> constexpr uint64_t aqi_arg_bits(T value)
{
    return static_cast<uint64_t>(value);
}
template <typename T> uint64_t aqi_arg_bits(T *value)
{
    return reinterpret_cast<uintptr_t>(value);
}
constexpr uint64_t aqi_arg_bits(aqi_arg64 value)
{
    return value.bits;
}

template <bool wide> constexpr unsigned aqi_args_count()
{
    return 0;
}
template <bool wide, typename T, typename... Rest> constexpr unsigned aqi_args_count()
{
    return aqi_arg_of<wide, T>::count + aqi_args_count<wide, Rest...>();
}

/* Argument number `at` of a list of values. */
template <bool wide> constexpr aq_arg aqi_args_at(unsigned)
{
    return 0;
}
template <bool wide, typename T, typename... Rest>
constexpr aq_arg aqi_args_at(unsigned at, T first, Rest... rest)
{
    return at < aqi_arg_of<wide, T>::count
               ? static_cast<aq_arg>(static_cast<uint32_t>(aqi_arg_bits(first) >> (32 * at)))
               : aqi_args_at<wide>(at - aqi_arg_of<wide, T>::count, rest...);
}

/* The numbers below N as a pack. */
template <unsigned... At> struct aqi_args_pack {
};
template <unsigned N, unsigned... At> struct aqi_args_below : aqi_args_below<N - 1, N - 1, At...> {
};
template <unsigned... At> struct aqi_args_below<0, At...> {
    typedef aqi_args_pack<At...> type;
};

template <unsigned N> struct aqi_args {
    static_assert(N <= AQ_AM_MAX_ARGS, "more arguments than AQ_AM_MAX_ARGS");
    static constexpr unsigned count = N;
    constexpr const aq_arg *data() const
    {
        return values;
    }
    constexpr unsigned size() const
    {
        return N;
    }
    aq_arg values[N == 0 ? 1 : N];
};

template <bool wide, unsigned... At, typename... T>
constexpr aqi_args<sizeof...(At)> aqi_args_make(aqi_args_pack<At...>, T... values)
{
    return aqi_args<sizeof...(At)>{{aqi_args_at<wide>(At, values...)...}};
}

template <bool wide, typename... T>
constexpr aqi_args<aqi_args_count<wide, T...>()> aqi_args_as(T... values)
{
    return aqi_args_make<wide>(typename aqi_args_below<aqi_args_count<wide, T...>()>::type(),
                               values...);
}

template <typename... T> constexpr aqi_args<aqi_args_count<true, T...>()> aq_args(T... values)
{
    return aqi_args_as<true>(values...);
}

#endif
#endif
