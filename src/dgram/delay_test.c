/*
 * Two engines: the time that an acknowledgement waits for a program that computes does not count as
 * time on the path.
 */
#include "dgram/pair_test.h"

#define US 1000ull

/* The program computes for a millisecond after each message, and answers before it polls again. */
static void test_computes_before_it_sends(void **state)
{
    pair_open(1, 10 * SECOND, 1);
    say_and_run(0, 0, SECOND / 10);
    for (unsigned i = 0; i < 50; i++) {
        say_and_run(0, 0, 20 * US);
        net.now += MS;
        say_and_run(1, 0, 20 * US);
        net.now += MS;
    }
    assert_in_range(info_of(0).rtt, 1, 100 * US);
    assert_int_equal(net.received[0], 50);
    assert_int_equal(net.received[1], 51);
    pair_close();
}

/*
 * A message sent outside of progress also says how long its acknowledgement waited: otherwise the
 * path to a program that sends all its answers this way would never be measured.
 */
static void test_measured_without_progress(void **state)
{
    pair_open(1, 10 * SECOND, 1);
    say_and_run(1, 0, SECOND / 10); /* connects */
    assert_int_equal(info_of(0).rtt, 0);
    for (unsigned i = 0; i < 50; i++) {
        say_and_run(0, 0, 20 * US);
        net.now += 20 * US;
        say_and_run(1, 0, 20 * US);
    }
    assert_in_range(info_of(0).rtt, 1, 100 * US);
    pair_close();
}

/* Connect and exchange some quick answers, at a time far from 0. */
static void open_late(void)
{
    pair_open(1, 10 * SECOND, 1);
    net.now = 1000 * SECOND;
    for (unsigned i = 0; i < 20; i++) {
        say_and_run(0, 0, MS);
    }
}

static void close_timely(void)
{
    run(SECOND / 10);
    assert_in_range(info_of(0).rto, 1, 10 * MS);
    pair_close();
}

/* End 0 computes while 1 takes what 0 has sent and answers; then 0 takes the answers. */
static void answer(void)
{
    net.now += 20 * US;
    unsigned sent = net.flying;
    for (unsigned i = 0; i < sent; i++)
        aqi_dgram_input(net.end[1], net.wire[i].bytes, net.wire[i].len, true, 0, net.now);
    aqi_dgram_progress(net.end[1], true, net.now);
    for (unsigned i = sent; i < net.flying; i++)
        aqi_dgram_input(net.end[0], net.wire[i].bytes, net.wire[i].len, true, 0, net.now);
    net.flying = 0;
}

/* One acknowledgement for packets sent in progress and for those sent outside of it since. */
static void test_left_at_unknown_time(void **state)
{
    enum { MANY = 2000 };
    open_late();
    assert_int_equal(say(0, 0), AQ_OK);
    aqi_dgram_progress(net.end[0], true, net.now);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(say(0, 0), AQ_OK);
    assert_in_range(net.flying, 3, FLYING);
    answer();
    close_timely();
}

/*
 * One of several packets sent outside of progress is found lost before the next progress and is
 * retransmitted; then both copies arrive.
 */
static void test_lost_at_unknown_time(void **state)
{
    enum { BYTES = 16 * LARGEST };
    static unsigned char from[BYTES], to[BYTES];
    open_late();
    net.memory = from;
    net.apart = from;
    assert_int_equal(aqi_dgram_put(net.end[0], 1, (uintptr_t)to, from, BYTES, false, NULL, 0, from),
                     AQ_OK);
    assert_in_range(net.flying, 16, FLYING);
    struct copy late = net.wire[1];
    net.wire[1] = net.wire[--net.flying];
    answer();
    aqi_dgram_progress(net.end[0], true, net.now);
    net.wire[net.flying++] = late;
    answer();
    assert_int_equal(aqi_dgram_count(net.end[0], AQI_DGRAM_RESENT), 1);
    assert_int_equal(aqi_dgram_count(net.end[1], AQI_DGRAM_DUPLICATES), 1);
    assert_int_equal(net.complete, 1);
    close_timely();
}

/*
 * An acknowledgement that had arrived before its packet was retransmitted, and is read later, does
 * not show that the packets behind it are lost.
 */
static void test_read_after_retransmission(void **state)
{
    enum { SENT = 3 };
    open_late();
    for (unsigned i = 0; i < SENT; i++) {
        assert_int_equal(say(0, 0), AQ_OK);
        aqi_dgram_progress(net.end[0], true, net.now);
    }
    assert_int_equal(net.flying, SENT);
    aqi_dgram_input(net.end[1], net.wire[0].bytes, net.wire[0].len, true, 0, net.now);
    net.now += 60 * US; /* acknowledgements are delayed by 50 */
    aqi_dgram_progress(net.end[1], true, net.now);
    assert_int_equal(net.flying, SENT + 1);
    uint64_t acknowledged = net.now;
    net.now += 10 * MS;
    aqi_dgram_progress(net.end[0], true, net.now);
    assert_int_equal(aqi_dgram_count(net.end[0], AQI_DGRAM_RESENT), 1);
    net.now += 70 * US;
    aqi_dgram_input(net.end[0], net.wire[SENT].bytes, net.wire[SENT].len, true,
                    net.now - acknowledged, net.now);
    aqi_dgram_progress(net.end[0], true, net.now);
    assert_int_equal(aqi_dgram_count(net.end[0], AQI_DGRAM_RESENT), 1);
    pair_close();
}

/* End 0 computes, so that its answer to 1 takes long; then an answer that 0 waits for is lost. */
static void test_answer_lost_after_absence(void **state)
{
    open_late();
    for (unsigned i = 0; i < 5; i++) {
        say_and_run(0, 0, 20 * US);
        say_and_run(1, 0, 20 * US);
    }
    assert_int_equal(say(1, 0), AQ_OK);
    net.now += 20 * MS;
    run(MS);
    assert_in_range(info_of(1).rto, 5 * MS, SECOND);
    unsigned before = net.received[0];
    say_and_run(0, 0, 20 * US);
    assert_int_equal(say(1, 0), AQ_OK);
    net.flying = 0;
    run(2 * MS);
    assert_int_equal(net.received[0], before + 1);
    pair_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_computes_before_it_sends),
        cmocka_unit_test(test_measured_without_progress),
        cmocka_unit_test(test_left_at_unknown_time),
        cmocka_unit_test(test_lost_at_unknown_time),
        cmocka_unit_test(test_read_after_retransmission),
        cmocka_unit_test(test_answer_lost_after_absence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
