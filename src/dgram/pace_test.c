/* Twin of pace.c: timeouts, growing and shrinking windows, pacing. */
#include "dgram/pace.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PACKET = 8000, MOST = 1000000, REACH = 4000000, US = 1000, MS = 1000000, RTT = 50 * US };

static struct dgram_pace pace;
static uint64_t now;

static void begin(void)
{
    now = UINT64_C(1) << 33;
    dgram_pace_init(&pace, PACKET, MOST, REACH, 250 * US, 250 * MS);
}

/* `times` times: a window's worth is acknowledged after `rtt`, except `lost` packets. */
static void rounds(unsigned times, uint64_t rtt, unsigned lost)
{
    while (times-- > 0) {
        pace.full = true;
        size_t bytes = pace.window;
        for (unsigned i = 0; i < lost; i++)
            dgram_pace_lost(&pace, PACKET);
        now += rtt + rtt / 2;
        dgram_pace_response(&pace, rtt);
        dgram_pace_sample(&pace, rtt, 0, now);
        dgram_pace_acked(&pace, bytes - aqi_min(bytes, (size_t)lost * PACKET), now);
        assert_true(pace.window >= (pace.draining != 0 ? 1 : 2) * PACKET && pace.window <= MOST);
    }
}

static void time_outs(void **state)
{
    begin();
    assert_int_equal(dgram_pace_timeout(&pace, 0), MS); /* nothing measured yet */
    rounds(50, RTT, 0);
    assert_int_equal(dgram_pace_timeout(&pace, 0), 250 * US); /* not below the least */
    rounds(50, 2 * MS, 0);
    uint64_t rto = dgram_pace_timeout(&pace, 0);
    assert_true(rto >= 2 * MS + 100 * US && rto < 4 * MS); /* even if all take the same time */
    for (unsigned tries = 1; tries < 5; tries++)
        assert_int_equal(dgram_pace_timeout(&pace, tries), rto << tries);
    assert_int_equal(dgram_pace_timeout(&pace, 10), 250 * MS);
    assert_int_equal(dgram_pace_timeout(&pace, 1000000), 250 * MS);
    /* A late answer makes it longer, but is forgotten. */
    dgram_pace_response(&pace, 6 * MS);
    assert_true(dgram_pace_timeout(&pace, 0) > 6 * MS);
    rounds(50, 2 * MS, 0);
    assert_true(dgram_pace_timeout(&pace, 0) < 4 * MS);
}

static void tails(void **state)
{
    begin();
    assert_int_equal(dgram_pace_tail(&pace), dgram_pace_timeout(&pace, 0)); /* nothing measured */
    for (unsigned i = 0; i < 100; i++)
        dgram_pace_response(&pace, 5 * US);
    assert_in_range(dgram_pace_tail(&pace), 30 * US, 31 * US); /* a tenth of the least timeout */
    begin();
    rounds(50, RTT, 0);
    assert_in_range(dgram_pace_tail(&pace), 2 * RTT, 2 * RTT + US);
    dgram_pace_probe_needed(&pace);
    assert_in_range(dgram_pace_tail(&pace), 2 * RTT, 2 * RTT + US);
    dgram_pace_probe_spurious(&pace);
    assert_in_range(dgram_pace_tail(&pace), 4 * RTT, 4 * RTT + 2 * US);
    dgram_pace_probe_needed(&pace);
    assert_in_range(dgram_pace_tail(&pace), 2 * RTT, 2 * RTT + US);
    for (unsigned i = 0; i < 100; i++)
        dgram_pace_probe_spurious(&pace);
    assert_int_equal(dgram_pace_tail(&pace), 250 * US); /* never later than a timeout */
    /* Spurious probes are forgotten, though not soon. */
    for (unsigned i = 0; i < 100; i++)
        dgram_pace_response(&pace, RTT);
    assert_int_equal(dgram_pace_tail(&pace), 250 * US);
    for (unsigned i = 0; i < 2000; i++)
        dgram_pace_response(&pace, RTT);
    assert_true(dgram_pace_tail(&pace) < 3 * RTT);
    /* It allows for answers that vary. */
    for (unsigned i = 0; i < 100; i++)
        dgram_pace_response(&pace, i % 2 == 0 ? 5 * US : RTT);
    assert_true(dgram_pace_tail(&pace) > 2 * RTT);
}

static void the_window_grows_when_it_is_what_limits(void **state)
{
    begin();
    size_t first = pace.window;
    rounds(2, RTT, 0);
    assert_true(pace.window >= 2 * first);
    rounds(20, RTT, 0);
    assert_int_equal(pace.window, MOST);
    begin();
    for (unsigned i = 0; i < 20; i++) {
        now += 2 * RTT;
        dgram_pace_sample(&pace, RTT, 0, now);
        dgram_pace_acked(&pace, PACKET, now);
    }
    assert_int_equal(pace.window, first);
}

static void delay_and_loss_make_it_smaller(void **state)
{
    begin();
    rounds(20, RTT, 0);
    rounds(1, 4 * RTT, 0); /* a short queue: by at most half */
    assert_true(pace.window < MOST && pace.window >= MOST / 2);
    rounds(60, 20 * RTT, 0);
    assert_true(pace.window < MOST / 10);

    /* The share that is lost counts: one packet in a hundred costs half a percent. */
    begin();
    rounds(20, RTT, 0);
    rounds(1, RTT, 30); /* ends the doubling */
    size_t before = pace.window;
    assert_true(before < MOST && before >= MOST / 2);
    pace.full = false;
    dgram_pace_lost(&pace, PACKET);
    now += 2 * RTT;
    dgram_pace_acked(&pace, 99 * (size_t)PACKET, now);
    assert_in_range(before - pace.window, before / 250, before / 150);
    /* A loss among a few packets means nothing. */
    before = pace.window;
    dgram_pace_lost(&pace, PACKET);
    now += 2 * RTT;
    dgram_pace_acked(&pace, 3 * (size_t)PACKET, now);
    assert_int_equal(pace.window, before);
}

/* In the same queue a flow with a larger window yields to one with a smaller window. */
static void flows_come_to_equal_windows(void **state)
{
    struct dgram_pace flows[2];
    for (unsigned i = 0; i < 2; i++) {
        begin();
        rounds(20, RTT, 0);
        rounds(1, RTT, 30);
        pace.window = i == 0 ? 400000 : 40000;
        flows[i] = pace;
    }
    for (unsigned round = 0; round < 200; round++) {
        uint64_t queue = (flows[0].window + flows[1].window) / 2; /* 2 bytes per ns */
        for (unsigned i = 0; i < 2; i++) {
            pace = flows[i];
            rounds(1, RTT + queue, 0);
            flows[i] = pace;
        }
    }
    assert_in_range(flows[0].window, flows[1].window * 9 / 10, flows[1].window * 11 / 10);
}

/* A flow that began with a queue on the path learns the delay of the path itself when all hold
 * back. */
static void the_path_is_measured_anew(void **state)
{
    begin();
    rounds(200, 3 * RTT, 0);
    assert_int_equal(pace.base, 3 * RTT);
    size_t before = pace.window;
    for (unsigned i = 0; pace.draining == 0; i++) {
        assert_true(i < 2000);
        before = pace.window;
        rounds(1, 4 * RTT, 0); /* a little longer, so that the old delay is in doubt */
    }
    assert_int_equal(pace.window, PACKET);
    for (unsigned i = 0; pace.draining != 0; i++) {
        assert_true(i < 100);
        rounds(1, RTT, 0);
    }
    assert_int_equal(pace.base, RTT);
    assert_in_range(pace.window, before * 9 / 10, before * 6 / 5);
    /* A flow that does not fill the path need not hold back: the path is longer now. */
    for (unsigned i = 0; i < 4000; i++) {
        now += 3 * RTT;
        dgram_pace_sample(&pace, 2 * RTT, 0, now);
        dgram_pace_acked(&pace, PACKET, now);
        assert_int_equal(pace.draining, 0);
    }
    assert_int_equal(pace.base, 2 * RTT);
}

/* A round without measurements does not show that there was no queue. */
static void nothing_measured_is_no_empty_queue(void **state)
{
    begin();
    rounds(20, RTT, 0);
    rounds(20, 20 * RTT, 0);
    size_t before = pace.window;
    pace.full = true;
    now += 40 * RTT;
    dgram_pace_acked(&pace, before, now);
    assert_int_equal(pace.window, before); /* nor that there was one */
}

/* At most 1.25 windows leave per round trip, plus a burst. */
static void what_leaves_is_spread(void **state)
{
    begin();
    assert_true(dgram_pace_when(&pace, PACKET, 0, now) <= now); /* nothing known: at once */
    rounds(20, RTT, 0);
    rounds(1, RTT, 30);
    uint64_t end = now + 20 * RTT;
    size_t bytes = 0;
    while (now < end) {
        uint64_t when = dgram_pace_when(&pace, PACKET, 0, now);
        if (when <= now) {
            dgram_pace_spend(&pace, PACKET);
            bytes += PACKET;
        } else {
            now = when;
        }
    }
    size_t fair = 20 * pace.window;
    assert_in_range(bytes, fair, fair * 5 / 4 + (64u << 10) + PACKET);
}

/* Bytes that leave at once after `away` ns in which none could. */
static size_t bytes_after(uint64_t away)
{
    size_t bytes = 0;
    now += MS;
    while (dgram_pace_when(&pace, PACKET, away, now) <= now) {
        dgram_pace_spend(&pace, PACKET);
        bytes += PACKET;
    }
    return bytes;
}

/* After a pause, what could have left meanwhile leaves together: at least a burst, at most a
 * window. */
static void after_computing_a_window_leaves(void **state)
{
    begin();
    rounds(20, RTT, 0);
    rounds(1, RTT, 30); /* ends the doubling */
    size_t window = pace.window, burst = 62 << 10;
    assert_true(window > 4 * burst);
    assert_in_range(bytes_after(0), burst - PACKET, burst);
    assert_in_range(bytes_after(US), burst - PACKET, burst);
    assert_in_range(bytes_after(RTT / 2), window * 5 / 8 - PACKET, window * 5 / 8);
    assert_in_range(bytes_after(20 * MS), window - PACKET, window);
    assert_in_range(bytes_after(UINT64_MAX), window - PACKET, window);
}

static void silence_starts_anew(void **state)
{
    begin();
    size_t first = pace.window;
    rounds(30, RTT, 0);
    dgram_pace_silent(&pace);
    assert_int_equal(pace.window, first);
    assert_true(pace.growing);
}

/* As `rounds`, but limited by the reach, too, and with a receiver that polls `end_delay` ns after
 * packets arrive. */
static void rare_rounds(unsigned times, uint64_t rtt, uint64_t end_delay, unsigned lost)
{
    while (times-- > 0) {
        size_t bytes = 0;
        while (dgram_pace_open(&pace, bytes, PACKET))
            bytes += PACKET;
        for (unsigned i = 0; i < lost; i++)
            dgram_pace_lost(&pace, PACKET);
        now += rtt + end_delay;
        dgram_pace_response(&pace, rtt + end_delay);
        dgram_pace_sample(&pace, rtt, end_delay, now);
        dgram_pace_acked(&pace, bytes - aqi_min(bytes, (size_t)lost * PACKET), now);
    }
}

/*
 * Packets that wait at a receiver that computes are not a queue: all of its room is used, and the
 * timeout allows for the wait.
 */
static void a_receiver_that_computes(void **state)
{
    static const uint64_t pauses[] = {200 * US, MS, 5 * MS, 20 * MS};
    for (size_t i = 0; i < AQI_COUNT_OF(pauses); i++) {
        begin();
        rare_rounds(12, RTT, pauses[i], 0);
        assert_true(pace.srtt == RTT && pace.window >= MOST / 8 && pace.reach == REACH);
        assert_true(dgram_pace_rare(&pace) && dgram_pace_fits(&pace, REACH - PACKET, PACKET));
        assert_false(dgram_pace_fits(&pace, REACH, 1));
        assert_true(dgram_pace_timeout(&pace, 0) > RTT + pauses[i]);
        assert_true(dgram_pace_timeout(&pace, 0) < 2 * (RTT + pauses[i]) + 250 * US);
        /* A queue on the path still shrinks the window, and losses shrink the reach. */
        size_t before = pace.window;
        rare_rounds(10, 20 * RTT, pauses[i], 0);
        assert_true(pace.window < before / 2);
        before = pace.reach;
        rare_rounds(10, RTT, pauses[i], 100);
        assert_true(pace.reach < before);
        /* It polls all the time again: the window is the limit. */
        rare_rounds(40, RTT, 0, 0);
        assert_false(dgram_pace_rare(&pace) || dgram_pace_fits(&pace, pace.window, 1));
    }
}

/* Impossible times, from a peer that lies, harm nothing but the pace to that peer. */
static void times_that_cannot_be(void **state)
{
    static const uint64_t times[] = {0, 1, US, MS, UINT64_C(1) << 40, 7};
    begin();
    for (unsigned i = 0; i < 2000; i++) {
        uint64_t a = times[i % 6], b = times[i / 6 % 6];
        now += US;
        dgram_pace_response(&pace, a);
        dgram_pace_sample(&pace, a, b, now);
        (void)dgram_pace_open(&pace, i * 1000, PACKET);
        dgram_pace_acked(&pace, b % 100000, now);
        assert_true(pace.window >= PACKET && pace.window <= MOST && pace.reach <= REACH);
        assert_true(dgram_pace_timeout(&pace, i % 3) <= 250 * MS);
        assert_true(dgram_pace_when(&pace, PACKET, 0, now) >= now);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_outs),
        cmocka_unit_test(tails),
        cmocka_unit_test(the_window_grows_when_it_is_what_limits),
        cmocka_unit_test(delay_and_loss_make_it_smaller),
        cmocka_unit_test(flows_come_to_equal_windows),
        cmocka_unit_test(the_path_is_measured_anew),
        cmocka_unit_test(nothing_measured_is_no_empty_queue),
        cmocka_unit_test(what_leaves_is_spread),
        cmocka_unit_test(after_computing_a_window_leaves),
        cmocka_unit_test(silence_starts_anew),
        cmocka_unit_test(a_receiver_that_computes),
        cmocka_unit_test(times_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
