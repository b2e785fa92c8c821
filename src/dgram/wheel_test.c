/*
 * Twin of wheel.c: a thousand timers, checked against a list; timers far in the future cost
 * nothing.
 */
#include "dgram/wheel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TIMERS = 1000 };

static struct dgram_wheel wheel;
static struct dgram_timer timers[TIMERS];
static uint64_t state;

static uint64_t any(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 20) % below;
}

static uint64_t earliest(void)
{
    uint64_t when = UINT64_MAX;
    for (unsigned i = 0; i < TIMERS; i++)
        if (timers[i].link != NULL && timers[i].when < when) when = timers[i].when;
    return when;
}

static void all_expire_in_time(void **unused)
{
    const char *seed = getenv("TEST_SEED");
    state = seed != NULL ? strtoull(seed, NULL, 0) : 1;
    uint64_t now = 5000000000;
    unsigned expired = 0;
    for (unsigned round = 0; round < 20000; round++) {
        struct dgram_timer *timer = &timers[any(TIMERS)];
        uint64_t far = UINT64_C(1) << (10 + any(28)); /* 1 us to 2 minutes */
        if (any(4) == 0)
            dgram_wheel_cancel(&wheel, timer);
        else
            dgram_wheel_set(&wheel, timer, now + any(far));
        uint64_t next = dgram_wheel_next(&wheel), first = earliest();
        assert_true(next <= first);
        assert_true(first == UINT64_MAX || next != UINT64_MAX);
        now = any(3) == 0 && next != UINT64_MAX && next > now ? next : now + any(200000);
        while ((timer = dgram_wheel_expire(&wheel, now)) != NULL) {
            assert_true(timer->when <= now && timer->link == NULL);
            expired++;
        }
        assert_true(earliest() > now);
    }
    assert_true(expired > 5000);
    for (unsigned i = 0; i < TIMERS; i++)
        dgram_wheel_cancel(&wheel, &timers[i]);
    assert_int_equal(wheel.timers, 0);
    assert_true(dgram_wheel_next(&wheel) == UINT64_MAX);
}

static void distant_timers_cause_no_wakeups(void **unused)
{
    uint64_t now = UINT64_C(1) << 40, minute = 60000000000;
    unsigned wakes = 0, expired = 0;
    for (unsigned i = 0; i < TIMERS; i++) {
        dgram_wheel_set(&wheel, &timers[i], now + i * 1000000 + minute);
        assert_null(dgram_wheel_expire(&wheel, now + i * 1000000));
    }
    while (wheel.timers != 0) {
        now = dgram_wheel_next(&wheel);
        wakes++;
        while (dgram_wheel_expire(&wheel, now) != NULL)
            expired++;
    }
    assert_int_equal(expired, TIMERS);
    assert_true(wakes < TIMERS + TIMERS / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_expire_in_time),
        cmocka_unit_test(distant_timers_cause_no_wakeups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
