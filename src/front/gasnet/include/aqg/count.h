/*
 * Counting macro arguments: AQG_NAME_4(name, args) is name##M where M is the number of arguments
 * beyond the first 4. Nothing relies on an empty variable part, which C99 does not have.
 */
#ifndef AQG_COUNT_H
#define AQG_COUNT_H

#include <aqg/config.h>

/* How many arguments, up to 25. */
#define AQG_PICK(p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15, p16, p17, p18,  \
                 p19, p20, p21, p22, p23, p24, p25, n, ...)                                        \
    n
#define AQG_COUNT(...)                                                                             \
    AQG_PICK(__VA_ARGS__, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, \
             6, 5, 4, 3, 2, 1, 0)

/* The number less k, as a token to paste. */
#define AQG_LESS_1_1  0
#define AQG_LESS_1_2  1
#define AQG_LESS_1_3  2
#define AQG_LESS_1_4  3
#define AQG_LESS_1_5  4
#define AQG_LESS_1_6  5
#define AQG_LESS_1_7  6
#define AQG_LESS_1_8  7
#define AQG_LESS_1_9  8
#define AQG_LESS_1_10 9
#define AQG_LESS_1_11 10
#define AQG_LESS_1_12 11
#define AQG_LESS_1_13 12
#define AQG_LESS_1_14 13
#define AQG_LESS_1_15 14
#define AQG_LESS_1_16 15
#define AQG_LESS_1_17 16
#define AQG_LESS_2_2  0
#define AQG_LESS_2_3  1
#define AQG_LESS_2_4  2
#define AQG_LESS_2_5  3
#define AQG_LESS_2_6  4
#define AQG_LESS_2_7  5
#define AQG_LESS_2_8  6
#define AQG_LESS_2_9  7
#define AQG_LESS_2_10 8
#define AQG_LESS_2_11 9
#define AQG_LESS_2_12 10
#define AQG_LESS_2_13 11
#define AQG_LESS_2_14 12
#define AQG_LESS_2_15 13
#define AQG_LESS_2_16 14
#define AQG_LESS_2_17 15
#define AQG_LESS_2_18 16
#define AQG_LESS_3_3  0
#define AQG_LESS_3_4  1
#define AQG_LESS_3_5  2
#define AQG_LESS_3_6  3
#define AQG_LESS_3_7  4
#define AQG_LESS_3_8  5
#define AQG_LESS_3_9  6
#define AQG_LESS_3_10 7
#define AQG_LESS_3_11 8
#define AQG_LESS_3_12 9
#define AQG_LESS_3_13 10
#define AQG_LESS_3_14 11
#define AQG_LESS_3_15 12
#define AQG_LESS_3_16 13
#define AQG_LESS_3_17 14
#define AQG_LESS_3_18 15
#define AQG_LESS_3_19 16
#define AQG_LESS_4_4  0
#define AQG_LESS_4_5  1
#define AQG_LESS_4_6  2
#define AQG_LESS_4_7  3
#define AQG_LESS_4_8  4
#define AQG_LESS_4_9  5
#define AQG_LESS_4_10 6
#define AQG_LESS_4_11 7
#define AQG_LESS_4_12 8
#define AQG_LESS_4_13 9
#define AQG_LESS_4_14 10
#define AQG_LESS_4_15 11
#define AQG_LESS_4_16 12
#define AQG_LESS_4_17 13
#define AQG_LESS_4_18 14
#define AQG_LESS_4_19 15
#define AQG_LESS_4_20 16
#define AQG_LESS_5_5  0
#define AQG_LESS_5_6  1
#define AQG_LESS_5_7  2
#define AQG_LESS_5_8  3
#define AQG_LESS_5_9  4
#define AQG_LESS_5_10 5
#define AQG_LESS_5_11 6
#define AQG_LESS_5_12 7
#define AQG_LESS_5_13 8
#define AQG_LESS_5_14 9
#define AQG_LESS_5_15 10
#define AQG_LESS_5_16 11
#define AQG_LESS_5_17 12
#define AQG_LESS_5_18 13
#define AQG_LESS_5_19 14
#define AQG_LESS_5_20 15
#define AQG_LESS_5_21 16
#define AQG_LESS_6_6  0
#define AQG_LESS_6_7  1
#define AQG_LESS_6_8  2
#define AQG_LESS_6_9  3
#define AQG_LESS_6_10 4
#define AQG_LESS_6_11 5
#define AQG_LESS_6_12 6
#define AQG_LESS_6_13 7
#define AQG_LESS_6_14 8
#define AQG_LESS_6_15 9
#define AQG_LESS_6_16 10
#define AQG_LESS_6_17 11
#define AQG_LESS_6_18 12
#define AQG_LESS_6_19 13
#define AQG_LESS_6_20 14
#define AQG_LESS_6_21 15
#define AQG_LESS_6_22 16
#define AQG_LESS_7_7  0
#define AQG_LESS_7_8  1
#define AQG_LESS_7_9  2
#define AQG_LESS_7_10 3
#define AQG_LESS_7_11 4
#define AQG_LESS_7_12 5
#define AQG_LESS_7_13 6
#define AQG_LESS_7_14 7
#define AQG_LESS_7_15 8
#define AQG_LESS_7_16 9
#define AQG_LESS_7_17 10
#define AQG_LESS_7_18 11
#define AQG_LESS_7_19 12
#define AQG_LESS_7_20 13
#define AQG_LESS_7_21 14
#define AQG_LESS_7_22 15
#define AQG_LESS_7_23 16
#define AQG_LESS_8_8  0
#define AQG_LESS_8_9  1
#define AQG_LESS_8_10 2
#define AQG_LESS_8_11 3
#define AQG_LESS_8_12 4
#define AQG_LESS_8_13 5
#define AQG_LESS_8_14 6
#define AQG_LESS_8_15 7
#define AQG_LESS_8_16 8
#define AQG_LESS_8_17 9
#define AQG_LESS_8_18 10
#define AQG_LESS_8_19 11
#define AQG_LESS_8_20 12
#define AQG_LESS_8_21 13
#define AQG_LESS_8_22 14
#define AQG_LESS_8_23 15
#define AQG_LESS_8_24 16

#define AQG_NAME_3(name, ...)    AQG_CAT(name, AQG_CAT(AQG_LESS_3_, AQG_COUNT(__VA_ARGS__)))
#define AQG_NAME_4(name, ...)    AQG_CAT(name, AQG_CAT(AQG_LESS_4_, AQG_COUNT(__VA_ARGS__)))
#define AQG_NAME_5(name, ...)    AQG_CAT(name, AQG_CAT(AQG_LESS_5_, AQG_COUNT(__VA_ARGS__)))
#define AQG_NAME_6(name, ...)    AQG_CAT(name, AQG_CAT(AQG_LESS_6_, AQG_COUNT(__VA_ARGS__)))
#define AQG_NAME_7(name, ...)    AQG_CAT(name, AQG_CAT(AQG_LESS_7_, AQG_COUNT(__VA_ARGS__)))
#define AQG_NAME_8(name, ...)    AQG_CAT(name, AQG_CAT(AQG_LESS_8_, AQG_COUNT(__VA_ARGS__)))
#define AQG_NAME_V2_4(name, ...) AQG_CAT(AQG_NAME_4(name, __VA_ARGS__), _v2)
#define AQG_NAME_V2_5(name, ...) AQG_CAT(AQG_NAME_5(name, __VA_ARGS__), _v2)

#endif
