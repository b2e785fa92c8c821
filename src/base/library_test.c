/* Unit tests of library.c, with what the C library has. */
#include "base/library.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static int (*library_abs)(int);
static void *(*library_none)(void);

static void test_found(void **state)
{
    const struct aqi_symbol symbols[] = {{"abs", &library_abs}};
    (void)state;
    assert_null(aqi_library_load(NULL, symbols, AQI_COUNT_OF(symbols)));
    assert_int_equal(library_abs(-7), 7);
}

static void test_missing(void **state)
{
    static const char nowhere[] = "libaq_nowhere.so.9";
    const struct aqi_symbol symbols[] = {{"abs", &library_abs}, {"aq_no_such", &library_none}};
    (void)state;
    assert_ptr_equal(aqi_library_load(nowhere, symbols, AQI_COUNT_OF(symbols)), nowhere);
    assert_string_equal(aqi_library_load(NULL, symbols, AQI_COUNT_OF(symbols)), "aq_no_such");
    assert_null(library_none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_found),
                                       cmocka_unit_test(test_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
