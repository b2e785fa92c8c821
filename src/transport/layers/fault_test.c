/* Tests fault.c: which specifications are valid. The effects on a transport: tests/contract. */
#include "base/cmocka_test.h"
#include "transport/layers/fault.h"
#include "transport/transport.h"

#include <string.h>

static void legal(void **state)
{
    static const char *const specs[] = {
        "again=30",         "swap=20",   "late=5",
        "hide=put+get+map", "die=1@100", "again=0,late=0,seed=18446744073709551615",
        "credits=1,depth=2"};
    for (size_t i = 0; i < AQI_COUNT_OF(specs); i++) {
        assert_int_equal(aqi_fault_configure(specs[i]), AQ_OK);
        assert_true(aqi_fault_wanted());
    }
    assert_int_equal(aqi_fault_configure(""), AQ_OK);
    assert_false(aqi_fault_wanted());
}

static void illegal(void **state)
{
    static const char *const specs[] = {
        "again",   "again=",    "again=96", "swap=96",   "again=-1", "late=1001",
        "hide=",   "hide=all",  "die=1",    "die=@5",    "die=1@0",  "seed=one",
        "color=1", "again=3 %", "=",        "credits=2", "depth=x"};
    for (size_t i = 0; i < AQI_COUNT_OF(specs); i++) {
        assert_int_equal(aqi_fault_configure(specs[i]), AQ_ESETTING);
        assert_false(aqi_fault_wanted());
        assert_non_null(strstr(aq_error_message(), "AQ_FAULT"));
    }
}

/*
 * A caller that waits for room must not sleep if the lack of room was simulated, as nothing would
 * wake it.
 */
static void invented_shortage_is_not_announced(void **state)
{
    assert_int_equal(aqi_fault_configure("late=5"), AQ_OK);
    assert_int_equal(aqi_fault_caps(AQI_CAP_ROOM | AQI_CAP_PUT), AQI_CAP_ROOM | AQI_CAP_PUT);
    assert_int_equal(aqi_fault_configure("again=1"), AQ_OK);
    assert_int_equal(aqi_fault_caps(AQI_CAP_ROOM | AQI_CAP_PUT), AQI_CAP_PUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(legal), cmocka_unit_test(illegal),
                                       cmocka_unit_test(invented_shortage_is_not_announced)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
