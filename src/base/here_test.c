/* Tests here.c. net.wire (test_benchmark) shows that other namespaces have other numbers. */
#include "base/here.h"

#include "base/cmocka_test.h"

static void test_numbers(void **state)
{
    assert_true(aqi_here_boot() != 0 && aqi_here_network() != 0);
    assert_true(aqi_here_boot() == aqi_here_boot());
    assert_true(aqi_here_network() == aqi_here_network());
    assert_true(aqi_here_boot() != aqi_here_network());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
