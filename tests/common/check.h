/* Checks that end the program with a message. The file that includes this header defines
 * check_failed(file, line, format, ...). Written in the common subset of C and C++. */
#ifndef AQT_CHECK_H
#define AQT_CHECK_H

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) check_failed(__FILE__, __LINE__, "not true: %s", #condition);            \
    } while (0)

#define CHECK_EQUAL(got, want)                                                                     \
    do {                                                                                           \
        long long check_got = (long long)(got), check_want = (long long)(want);                    \
        if (check_got != check_want)                                                               \
            check_failed(__FILE__, __LINE__, "%s is %lld, expected %s = %lld", #got, check_got,    \
                         #want, check_want);                                                       \
    } while (0)

#endif
