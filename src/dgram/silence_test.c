/* Two engines and a wire that can be cut: reports about a peer that does not answer. */
#include "dgram/pair_test.h"

static void begin(void)
{
    pair_open(1, 10 * SECOND, 1);
}

/* Silence was reported this many times, and only after the five seconds. */
static void expect_silent(unsigned times)
{
    assert_int_equal(net.silent[0], 0);
    assert_int_equal(net.silent[1], times);
    assert_true(times == 0 || net.waited >= 5 * SECOND);
}

/* The user is warned, then the peer is lost; also if only small packets pass. */
static void test_never_reached(void **state)
{
    for (unsigned small_passes = 0; small_passes < 2; small_passes++) {
        begin();
        net.cut[0] = !small_passes;
        net.data_cut = true;
        say_and_run(0, 0, 49 * SECOND / 10);
        expect_silent(0);
        net.now += 100 * SECOND; /* the process was stopped, so it did not wait */
        run(9 * SECOND / 10);
        expect_silent(1);
        run(3 * SECOND);
        assert_int_equal(net.lost[0] + net.lost[1], 0);
        run(3 * SECOND);
        expect_silent(1);
        assert_int_equal(net.lost[1], 1);
        assert_int_equal(net.how, AQI_DGRAM_UNREACHED);
        assert_int_equal(say(0, 0), AQ_EPEER);
        pair_close();
    }
}

/* A peer that was reached once is never lost, even if it must be connected again. */
static void test_silent_later(void **state)
{
    for (unsigned anew = 0; anew < 2; anew++) {
        begin();
        say_and_run(0, 0, anew ? 5 * SECOND : SECOND);
        assert_true(info_of(0).connected == (anew == 0) && info_of(0).reached);
        net.cut[0] = true;
        say_and_run(0, 0, 4 * SECOND);
        expect_silent(0);
        run(60 * SECOND);
        expect_silent(1);
        assert_int_equal(net.lost[0] + net.lost[1], 0);
        net.cut[0] = false;
        run(2 * SECOND);
        assert_int_equal(net.received[1], 2);
        pair_close();
    }
}

/* Nothing is reported while no answer is due, however long, nor in gaps between answers. */
static void test_not_silent(void **state)
{
    begin();
    run(60 * SECOND);
    for (unsigned i = 0; i < 10; i++) {
        net.cut[0] = true;
        say_and_run(0, 0, 3 * SECOND);
        net.cut[0] = false;
        run(3 * SECOND);
    }
    assert_int_equal(net.received[1], 10);
    expect_silent(0);
    assert_int_equal(net.lost[0] + net.lost[1], 0);
    pair_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_reached),
        cmocka_unit_test(test_silent_later),
        cmocka_unit_test(test_not_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
