/*
 * Macros over lists of arguments: counting them, splitting them, and one thing for each number of
 * them. Nothing relies on an empty variable part, which C99 does not have.
 */
#ifndef AQG_COUNT_H
#define AQG_COUNT_H

#include <aqg/config.h>

#define AQG_PICK(p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15, p16, p17, n,    \
                 ...)                                                                              \
    n

/* How many arguments follow the first, 0 to 16. */
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

/* The first argument; the others, with a comma before them if there are any. */
#define AQG_FIRST(...)         AQG_FIRST_(__VA_ARGS__, 0)
#define AQG_FIRST_(first, ...) first
#define AQG_REST(...)                                                                              \
    AQG_CAT(AQG_REST_,                                                                             \
            AQG_PICK(__VA_ARGS__, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0))           \
    (__VA_ARGS__)
#define AQG_REST_0(first)
#define AQG_REST_1(first, ...) , __VA_ARGS__

/* F for each number of arguments that a message may have. */
#define AQG_EACH(F)                                                                                \
    F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15) F(16)

/* The parameters of so many arguments, with the comma before them, and their values. */
#define AQG_PARAMS_0
#define AQG_PARAMS_1  , gex_AM_Arg_t a0
#define AQG_PARAMS_2  AQG_PARAMS_1, gex_AM_Arg_t a1
#define AQG_PARAMS_3  AQG_PARAMS_2, gex_AM_Arg_t a2
#define AQG_PARAMS_4  AQG_PARAMS_3, gex_AM_Arg_t a3
#define AQG_PARAMS_5  AQG_PARAMS_4, gex_AM_Arg_t a4
#define AQG_PARAMS_6  AQG_PARAMS_5, gex_AM_Arg_t a5
#define AQG_PARAMS_7  AQG_PARAMS_6, gex_AM_Arg_t a6
#define AQG_PARAMS_8  AQG_PARAMS_7, gex_AM_Arg_t a7
#define AQG_PARAMS_9  AQG_PARAMS_8, gex_AM_Arg_t a8
#define AQG_PARAMS_10 AQG_PARAMS_9, gex_AM_Arg_t a9
#define AQG_PARAMS_11 AQG_PARAMS_10, gex_AM_Arg_t a10
#define AQG_PARAMS_12 AQG_PARAMS_11, gex_AM_Arg_t a11
#define AQG_PARAMS_13 AQG_PARAMS_12, gex_AM_Arg_t a12
#define AQG_PARAMS_14 AQG_PARAMS_13, gex_AM_Arg_t a13
#define AQG_PARAMS_15 AQG_PARAMS_14, gex_AM_Arg_t a14
#define AQG_PARAMS_16 AQG_PARAMS_15, gex_AM_Arg_t a15
#define AQG_VALUES_0  0
#define AQG_VALUES_1  a0
#define AQG_VALUES_2  AQG_VALUES_1, a1
#define AQG_VALUES_3  AQG_VALUES_2, a2
#define AQG_VALUES_4  AQG_VALUES_3, a3
#define AQG_VALUES_5  AQG_VALUES_4, a4
#define AQG_VALUES_6  AQG_VALUES_5, a5
#define AQG_VALUES_7  AQG_VALUES_6, a6
#define AQG_VALUES_8  AQG_VALUES_7, a7
#define AQG_VALUES_9  AQG_VALUES_8, a8
#define AQG_VALUES_10 AQG_VALUES_9, a9
#define AQG_VALUES_11 AQG_VALUES_10, a10
#define AQG_VALUES_12 AQG_VALUES_11, a11
#define AQG_VALUES_13 AQG_VALUES_12, a12
#define AQG_VALUES_14 AQG_VALUES_13, a13
#define AQG_VALUES_15 AQG_VALUES_14, a14
#define AQG_VALUES_16 AQG_VALUES_15, a15

/* The parameters as an array, and what to pass of it. */
#define AQG_ARRAY(M) const gex_AM_Arg_t aqg_args[] = {AQG_VALUES_##M};
#define AQG_ARGS(M)  (M) != 0 ? aqg_args : NULL, M

#endif
