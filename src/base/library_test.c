/* Tests library.c with the C library's symbols. */
#include "base/library.h"

#include "base/base.h"
#include "base/cmocka_test.h"

#include <string.h>
#include <sys/resource.h>

static int (*library_abs)(int);
static void *(*library_none)(void);

static void test_found(void **state)
{
    const struct aqi_symbol symbols[] = {{"abs", &library_abs}};
    assert_null(aqi_library_load(NULL, symbols, AQI_COUNT_OF(symbols)));
    assert_int_equal(library_abs(-7), 7);
}

static void test_missing(void **state)
{
    static const char nowhere[] = "libaq_nowhere.so.9";
    const struct aqi_symbol symbols[] = {{"abs", &library_abs}, {"aq_no_such", &library_none}};
    assert_ptr_equal(aqi_library_load(nowhere, symbols, AQI_COUNT_OF(symbols)), nowhere);
    assert_string_equal(aqi_library_load(NULL, symbols, AQI_COUNT_OF(symbols)), "aq_no_such");
    assert_null(library_none);
}

static void test_advice(void **state)
{
    char text[320];
    struct rlimit was, limited;
    assert_non_null(aqi_library_load("libaq_nowhere.so.9", NULL, 0));
    aqi_library_advice("libaq9", sizeof(text), text);
    assert_non_null(strstr(text, "libaq_nowhere.so.9: "));
    assert_non_null(strstr(text, ": install libaq9"));
    assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
    limited = (struct rlimit){.rlim_cur = (rlim_t)1 << 60, .rlim_max = was.rlim_max};
    if (was.rlim_cur == RLIM_INFINITY) assert_null(strstr(text, "ulimit -v"));
    assert_int_equal(setrlimit(RLIMIT_AS, &limited), 0);
    assert_int_equal(getrlimit(RLIMIT_AS, &limited), 0);
    if (limited.rlim_cur != (rlim_t)1 << 60) {
        print_message("skipped: the emulator does not pass the limit on\n");
        skip();
    }
    assert_non_null(aqi_library_load("libaq_nowhere.so.9", NULL, 0));
    aqi_library_advice("libaq9", sizeof(text), text);
    assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
    assert_non_null(strstr(text, "raise the memory limit of 1125899906842624 KiB (ulimit -v)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_found), cmocka_unit_test(test_missing),
                                       cmocka_unit_test(test_advice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
