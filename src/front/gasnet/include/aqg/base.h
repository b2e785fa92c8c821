/* Helpers of the communication and tools headers: token pasting, strings, annotations, calls under
 * another name. */
#ifndef AQG_BASE_H
#define AQG_BASE_H

#include <gasnet_config.h>

#define AQG_STRING_(x)        #x
#define AQG_STRING(x)         AQG_STRING_(x)
#define AQG_CAT_(a, b)        a##b
#define AQG_CAT(a, b)         AQG_CAT_(a, b)
#define AQG_CAT4_(a, b, c, d) a##b##c##d
#define AQG_CAT4(a, b, c, d)  AQG_CAT4_(a, b, c, d)

#define AQG_RELEASE_STRING                                                                         \
    AQG_STRING(GASNET_RELEASE_VERSION_MAJOR)                                                       \
    "." AQG_STRING(GASNET_RELEASE_VERSION_MINOR) "." AQG_STRING(GASNET_RELEASE_VERSION_PATCH)

#define AQG_LIKELY(x)   __builtin_expect(!!(x), 1)
#define AQG_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define AQG_INLINE      static __inline__ __attribute__((__unused__))
#define AQG_MUST_USE    __attribute__((__warn_unused_result__))

/* A function that returns an expression; its inline form, with a result; and the same without
 * one. */
#define AQG_DEFINE(R, NAME, PARAMS, EXPRESSION)                                                    \
    R NAME PARAMS                                                                                  \
    {                                                                                              \
        return EXPRESSION;                                                                         \
    }
#define AQG_CALL(R, NAME, PARAMS, EXPRESSION) AQG_DEFINE(AQG_INLINE R, NAME, PARAMS, EXPRESSION)
#define AQG_VOID_CALL(NAME, PARAMS, EXPRESSION)                                                    \
    AQG_INLINE void NAME PARAMS                                                                    \
    {                                                                                              \
        (void)(EXPRESSION);                                                                        \
    }

/* Around declarations: keep the library's names visible even if a client hides its own. */
#ifdef __cplusplus
#define AQG_BEGIN                                                                                  \
    extern "C" {                                                                                   \
    _Pragma("GCC visibility push(default)")
#define AQG_END                                                                                    \
    _Pragma("GCC visibility pop")                                                                  \
    }
#else
#define AQG_BEGIN _Pragma("GCC visibility push(default)")
#define AQG_END   _Pragma("GCC visibility pop")
#endif

#endif
