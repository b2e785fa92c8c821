/* The part of cmocka that the tests use, for systems without it (cross-compilation, musl). */
#ifndef AQ_TESTS_CMOCKA_H
#define AQ_TESTS_CMOCKA_H

#include <stddef.h>
#include <stdint.h>

typedef void (*CMUnitTestFunction)(void **state);
typedef int (*CMFixtureFunction)(void **state);
struct CMUnitTest {
    const char *name;
    CMUnitTestFunction test_func;
    CMFixtureFunction setup_func, teardown_func;
    void *initial_state;
};

#define cmocka_unit_test_setup_teardown(test, setup, teardown)                                     \
    {                                                                                              \
#test, test, setup, teardown, NULL                                                         \
    }
#define cmocka_unit_test_setup(test, setup) cmocka_unit_test_setup_teardown(test, setup, NULL)
#define cmocka_unit_test_teardown(test, teardown)                                                  \
    cmocka_unit_test_setup_teardown(test, NULL, teardown)
#define cmocka_unit_test(test) cmocka_unit_test_setup_teardown(test, NULL, NULL)
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                  \
    _cmocka_run_group_tests(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    cmocka_run_group_tests_name(#tests, tests, setup, teardown)

int _cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t count,
                            CMFixtureFunction setup, CMFixtureFunction teardown);
__attribute__((format(printf, 1, 2))) void print_message(const char *format, ...);

/* End a test that fails or is skipped, after printing why. */
__attribute__((noreturn, format(printf, 3, 4))) void aqt_fail(const char *file, int line,
                                                              const char *format, ...);
__attribute__((noreturn)) void aqt_skip(void);
void aqt_ints(uintmax_t a, uintmax_t b, int equal, const char *text, const char *file, int line);
void aqt_range(uintmax_t value, uintmax_t least, uintmax_t most, const char *text, const char *file,
               int line);
void aqt_strings(const char *a, const char *b, int equal, const char *file, int line);
void aqt_memory(const void *a, const void *b, size_t size, int equal, const char *file, int line);

#define aqt_true(holds, text)                                                                      \
    ((holds) ? (void)0 : aqt_fail(__FILE__, __LINE__, "not true: %s", text))
#define assert_true(c)     aqt_true((c), #c)
#define assert_false(c)    aqt_true(!(c), "!(" #c ")")
#define assert_non_null(p) aqt_true((p) != NULL, #p " is not NULL")
#define assert_null(p)     aqt_true((p) == NULL, #p " is NULL")
#define assert_int_equal(a, b)                                                                     \
    aqt_ints((uintmax_t)(a), (uintmax_t)(b), 1, #a ", " #b, __FILE__, __LINE__)
#define assert_int_not_equal(a, b)                                                                 \
    aqt_ints((uintmax_t)(a), (uintmax_t)(b), 0, #a ", " #b, __FILE__, __LINE__)
#define assert_in_range(value, least, most)                                                        \
    aqt_range((uintmax_t)(value), (uintmax_t)(least), (uintmax_t)(most),                           \
              #value " is in " #least " to " #most, __FILE__, __LINE__)
#define assert_ptr_equal(a, b) aqt_true((const void *)(a) == (const void *)(b), #a " is " #b)
#define assert_ptr_not_equal(a, b)                                                                 \
    aqt_true((const void *)(a) != (const void *)(b), #a " is not " #b)
#define assert_string_equal(a, b)        aqt_strings(a, b, 1, __FILE__, __LINE__)
#define assert_string_not_equal(a, b)    aqt_strings(a, b, 0, __FILE__, __LINE__)
#define assert_memory_equal(a, b, n)     aqt_memory(a, b, n, 1, __FILE__, __LINE__)
#define assert_memory_not_equal(a, b, n) aqt_memory(a, b, n, 0, __FILE__, __LINE__)
#define fail()                           aqt_fail(__FILE__, __LINE__, "failed")
#define fail_msg(...)                    aqt_fail(__FILE__, __LINE__, __VA_ARGS__)
#define skip()                           aqt_skip()

#endif
