/* How long waits stay awake, on the test's own clock. */
#include "core/state/awake.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const uint64_t us = 1000, ms = 1000000, most = 60000000;

static struct {
    struct core_awake awake;
    uint64_t now;
    uint32_t news;
} t;

static void begin(bool goes_on)
{
    core_awake_begin(&t.awake, t.news, goes_on, most, t.now);
}

/* Look at intervals of `each` until it is time to sleep or `until`; returns the time taken. */
static uint64_t stays(uint64_t each, uint64_t until)
{
    uint64_t begun = t.now;
    while (core_awake_stays(&t.awake, most) && t.now - begun < until) {
        t.now += each;
        core_awake_look(&t.awake, t.news, most, t.now);
    }
    return t.now - begun;
}

static int start(void **state)
{
    t.awake = (struct core_awake){0};
    t.news = 1;
    t.now = 12345678;
    begin(false);
    return 0;
}

static void a_wait_stays_awake_for_so_long(void **state)
{
    assert_int_equal(stays(us, 100 * ms), most);
    assert_false(core_awake_stays(&t.awake, most));
}

static void what_comes_starts_the_time_anew(void **state)
{
    for (int i = 0; i < 5; i++) {
        assert_int_equal(stays(us, 50 * ms), 50 * ms);
        t.news++;
    }
    core_awake_look(&t.awake, t.news, most, t.now);
    assert_int_equal(stays(us, 100 * ms), most);
}

static void waits_of_limited_time_share_it(void **state)
{
    uint64_t awake = 0;
    for (int i = 0; i < 100; i++) {
        awake += stays(us, 5 * ms);
        t.now += 3 * ms; /* the program computes */
        begin(true);
    }
    assert_int_equal(awake, most);
    t.news++;
    begin(true);
    assert_int_equal(stays(us, 100 * ms), most);
}

static void another_wait_has_its_own(void **state)
{
    for (int i = 0; i < 5; i++) {
        assert_int_equal(stays(us, 100 * ms), most);
        begin(false);
    }
}

/* A program that shares our core gets a slice of 3 ms with each yield. */
static void who_shares_the_core_sleeps(void **state)
{
    assert_int_equal(stays(3 * ms, 100 * ms), 3 * ms);
    begin(false);
    assert_int_equal(stays(us, 30 * ms), 30 * ms);
    t.now += 5 * ms; /* more than an eighth of the time */
    core_awake_look(&t.awake, t.news, most, t.now);
    assert_false(core_awake_stays(&t.awake, most));
}

static void a_daemon_does_no_harm(void **state)
{
    assert_int_equal(stays(us, 10 * ms), 10 * ms);
    t.now += ms;
    core_awake_look(&t.awake, t.news, most, t.now);
    assert_int_equal(stays(us, 100 * ms), most - 11 * ms);
}

/* Sleep for `ns`; then something arrives, counted or not. */
static void sleeps(uint64_t ns, bool counted)
{
    t.now += ns;
    t.news += counted;
    core_awake_slept(&t.awake, true, t.now);
}

/* A packet arrives after half a second of sleep: polling on would cost a tenth of the time. */
static void what_is_rare_is_waited_for_asleep(void **state)
{
    for (int counted = 0; counted < 2; counted++) {
        assert_int_equal(stays(us, 100 * ms), most);
        sleeps(500 * ms, counted != 0);
        core_awake_look(&t.awake, t.news, most, t.now);
        assert_false(core_awake_stays(&t.awake, most));
        sleeps(400 * ms, counted != 0);
        core_awake_look(&t.awake, t.news, most, t.now);
    }
}

/* The arrival may also end the wait. */
static void what_was_rare_is_so_for_the_next_wait(void **state)
{
    stays(us, 100 * ms);
    sleeps(500 * ms, true);
    begin(false);
    assert_false(core_awake_stays(&t.awake, most));
    begin(false);
    assert_true(core_awake_stays(&t.awake, most));
}

static void what_only_the_descriptor_tells_of_counts(void **state)
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(stays(us, 100 * ms), most);
        sleeps(40 * us, false);
        core_awake_look(&t.awake, t.news, most, t.now);
    }
    assert_int_equal(stays(us, 100 * ms), most);
    t.now += 100 * ms; /* nothing has arrived meanwhile */
    core_awake_slept(&t.awake, false, t.now);
    core_awake_look(&t.awake, t.news, most, t.now);
    assert_false(core_awake_stays(&t.awake, most));
}

static void the_least_limit_holds(void **state)
{
    assert_true(core_awake_stays(&t.awake, 1));
    assert_false(core_awake_stays(&t.awake, 0)); /* as when ranks have come to outnumber cores */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_wait_stays_awake_for_so_long, start),
        cmocka_unit_test_setup(what_comes_starts_the_time_anew, start),
        cmocka_unit_test_setup(waits_of_limited_time_share_it, start),
        cmocka_unit_test_setup(another_wait_has_its_own, start),
        cmocka_unit_test_setup(who_shares_the_core_sleeps, start),
        cmocka_unit_test_setup(a_daemon_does_no_harm, start),
        cmocka_unit_test_setup(what_is_rare_is_waited_for_asleep, start),
        cmocka_unit_test_setup(what_was_rare_is_so_for_the_next_wait, start),
        cmocka_unit_test_setup(what_only_the_descriptor_tells_of_counts, start),
        cmocka_unit_test_setup(the_least_limit_holds, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
