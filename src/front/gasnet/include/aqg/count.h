/*
 * Macros over argument lists: counting, splitting, and expanding per argument. None relies on an
 * empty variable part, which C99 does not allow.
 */
#ifndef AQG_COUNT_H
#define AQG_COUNT_H

#include <aqg/config.h>

#define AQG_PICK(p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15, p16, p17, n,    \
                 ...)                                                                              \
    n

/* The number of arguments that follow the first, 0 to 16. */
#define AQG_MORE(...)                                                                              \
    AQG_PICK(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0)

/* AQG_NAME_4(name, args) is name##M, where M is the number of arguments beyond the first 4. */
#define AQG_NAME_3(name, a, b, ...)                AQG_CAT(name, AQG_MORE(__VA_ARGS__))
#define AQG_NAME_4(name, a, b, c, ...)             AQG_CAT(name, AQG_MORE(__VA_ARGS__))
#define AQG_NAME_5(name, a, b, c, d, ...)          AQG_CAT(name, AQG_MORE(__VA_ARGS__))
#define AQG_NAME_6(name, a, b, c, d, e, ...)       AQG_CAT(name, AQG_MORE(__VA_ARGS__))
#define AQG_NAME_7(name, a, b, c, d, e, f, ...)    AQG_CAT(name, AQG_MORE(__VA_ARGS__))
#define AQG_NAME_8(name, a, b, c, d, e, f, g, ...) AQG_CAT(name, AQG_MORE(__VA_ARGS__))
#define AQG_NAME_V2_4(name, ...)                   AQG_CAT(AQG_NAME_4(name, __VA_ARGS__), _v2)
#define AQG_NAME_V2_5(name, ...)                   AQG_CAT(AQG_NAME_5(name, __VA_ARGS__), _v2)

/* The first argument; and the remaining ones, preceded by a comma if there are any. */
#define AQG_FIRST(...)         AQG_FIRST_(__VA_ARGS__, 0)
#define AQG_FIRST_(first, ...) first
#define AQG_REST(...)                                                                              \
    AQG_CAT(AQG_REST_,                                                                             \
            AQG_PICK(__VA_ARGS__, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0))           \
    (__VA_ARGS__)
#define AQG_REST_0(first)
#define AQG_REST_1(first, ...) , __VA_ARGS__

/* Apply F to each possible number of message arguments. */
#define AQG_EACH(F)                                                                                \
    F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15) F(16)

/* ITEM(i) for each argument, or NONE() if there are none. */
#define AQG_LIST_0(ITEM, NONE)  NONE()
#define AQG_LIST_1(ITEM, NONE)  ITEM(0)
#define AQG_LIST_2(ITEM, NONE)  AQG_LIST_1(ITEM, NONE) ITEM(1)
#define AQG_LIST_3(ITEM, NONE)  AQG_LIST_2(ITEM, NONE) ITEM(2)
#define AQG_LIST_4(ITEM, NONE)  AQG_LIST_3(ITEM, NONE) ITEM(3)
#define AQG_LIST_5(ITEM, NONE)  AQG_LIST_4(ITEM, NONE) ITEM(4)
#define AQG_LIST_6(ITEM, NONE)  AQG_LIST_5(ITEM, NONE) ITEM(5)
#define AQG_LIST_7(ITEM, NONE)  AQG_LIST_6(ITEM, NONE) ITEM(6)
#define AQG_LIST_8(ITEM, NONE)  AQG_LIST_7(ITEM, NONE) ITEM(7)
#define AQG_LIST_9(ITEM, NONE)  AQG_LIST_8(ITEM, NONE) ITEM(8)
#define AQG_LIST_10(ITEM, NONE) AQG_LIST_9(ITEM, NONE) ITEM(9)
#define AQG_LIST_11(ITEM, NONE) AQG_LIST_10(ITEM, NONE) ITEM(10)
#define AQG_LIST_12(ITEM, NONE) AQG_LIST_11(ITEM, NONE) ITEM(11)
#define AQG_LIST_13(ITEM, NONE) AQG_LIST_12(ITEM, NONE) ITEM(12)
#define AQG_LIST_14(ITEM, NONE) AQG_LIST_13(ITEM, NONE) ITEM(13)
#define AQG_LIST_15(ITEM, NONE) AQG_LIST_14(ITEM, NONE) ITEM(14)
#define AQG_LIST_16(ITEM, NONE) AQG_LIST_15(ITEM, NONE) ITEM(15)

/* Parameters, each preceded by a comma, and values for the arguments. */
#define AQG_PARAM(i) , gex_AM_Arg_t a##i
#define AQG_VALUE(i) a##i,
#define AQG_NOTHING()
#define AQG_ZERO() 0

/*
 * Define NAME with M trailing arguments, which it passes to CALL as an array after VALUES. HOW is
 * `return`, or `(void)` for a call without a result.
 */
#define AQG_UNPACK(...) __VA_ARGS__
#define AQG_NUMBERED(M, R, HOW, NAME, PARAMETERS, CALL, VALUES)                                    \
    AQG_INLINE R NAME(AQG_UNPACK PARAMETERS AQG_LIST_##M(AQG_PARAM, AQG_NOTHING))                  \
    {                                                                                              \
        const gex_AM_Arg_t aqg_args[] = {AQG_LIST_##M(AQG_VALUE, AQG_ZERO)};                       \
        HOW CALL(AQG_UNPACK VALUES, (M) != 0 ? aqg_args : NULL, M);                                \
    }

#endif
