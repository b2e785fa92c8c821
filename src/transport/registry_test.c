/* Tests registry.c. */
#include "transport/transport.h"

#include "base/cmocka_test.h"

#include <string.h>

/* As in src/transport/ofi/absent.c. */
static void an_absent_transport_gives_its_reason(void **unused)
{
    const struct aqi_transport absent = {.name = "absent", .absent = "built without it"};
    struct aqi_tp_params params = {.size = 1};
    struct aqi_tp *tp;
    assert_int_equal(aqi_tp_open(&absent, &params, &tp), AQ_ENOTSUP);
    assert_string_equal(aq_error_message(), "built without it");
}

static void a_table_that_lacks_a_promised_operation_is_refused(void **unused)
{
    struct aqi_transport wrong = {.name = "wrong"};
    struct aqi_tp_params params = {.size = 1};
    struct aqi_tp *tp;
    assert_int_equal(aqi_tp_open(&wrong, &params, &tp), AQ_ENOTSUP);
    assert_non_null(strstr(aq_error_message(), "wrong: operation probe and its capability bit"));
    wrong = *aqi_transport_find("loop");
    wrong.close = NULL;
    assert_int_equal(aqi_tp_open(&wrong, &params, &tp), AQ_ENOTSUP);
    assert_non_null(strstr(aq_error_message(), "loop: operation close and its capability bit"));
    wrong = *aqi_transport_find("loop");
    wrong.caps ^= AQI_CAP_PUT;
    assert_int_equal(aqi_tp_open(&wrong, &params, &tp), AQ_ENOTSUP);
    assert_non_null(strstr(aq_error_message(), "loop: operation put and its capability bit"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_absent_transport_gives_its_reason),
        cmocka_unit_test(a_table_that_lacks_a_promised_operation_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
