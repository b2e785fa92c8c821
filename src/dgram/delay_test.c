/* Two engines: for how long an acknowledgement waited at a program that computes is no time of the
 * path. */
#include "dgram/pair_test.h"

#define US 1000ull

/* It computes for a millisecond after each message that comes, and answers before it looks again.
 */
static void test_computes_before_it_sends(void **state)
{
    struct aqi_dgram_peer_info info;
    (void)state;
    pair_open(1, 10 * SECOND, 1);
    assert_int_equal(say(0, 0), AQ_OK);
    run(SECOND / 10);
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(say(0, 0), AQ_OK);
        run(20 * US);
        net.now += MS;
        assert_int_equal(say(1, 0), AQ_OK);
        run(20 * US);
        net.now += MS;
    }
    assert_true(aqi_dgram_peer_info(net.end[0], 1, &info));
    assert_in_range(info.rtt, 1, 100 * US);
    assert_int_equal(net.came[0], 50);
    assert_int_equal(net.came[1], 51);
    pair_close();
}

/* A message sent outside of progress says how long its acknowledgement waited, too: otherwise the
 * path to a program that answers all so would never be measured. */
static void test_measured_without_progress(void **state)
{
    struct aqi_dgram_peer_info info;
    (void)state;
    pair_open(1, 10 * SECOND, 1);
    assert_int_equal(say(1, 0), AQ_OK); /* connects */
    run(SECOND / 10);
    assert_true(aqi_dgram_peer_info(net.end[0], 1, &info));
    assert_int_equal(info.rtt, 0);
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(say(0, 0), AQ_OK);
        run(20 * US);
        net.now += 20 * US;
        assert_int_equal(say(1, 0), AQ_OK);
        run(20 * US);
    }
    assert_true(aqi_dgram_peer_info(net.end[0], 1, &info));
    assert_in_range(info.rtt, 1, 100 * US);
    pair_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_computes_before_it_sends),
        cmocka_unit_test(test_measured_without_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
