/* Time goes on, and ticks times their rate are the time. */
#include "base/clock.h"

#include "base/capture_test.h"
#include <time.h>

static void nanoseconds_are_the_monotonic_clock(void **state)
{
    (void)state;
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    uint64_t now = aqi_now_ns();
    clock_gettime(CLOCK_MONOTONIC, &b);
    assert_true(now >= (uint64_t)a.tv_sec * 1000000000u + (uint64_t)a.tv_nsec);
    assert_true(now <= (uint64_t)b.tv_sec * 1000000000u + (uint64_t)b.tv_nsec);
}

static void ticks_go_forward(void **state)
{
    (void)state;
    uint64_t last = aqi_ticks();
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t now = aqi_ticks();
        assert_true((int64_t)(now - last) >= 0);
        last = now;
    }
}

static uint64_t busy_until(uint64_t ns)
{
    uint64_t now;
    while ((now = aqi_now_ns()) < ns)
        aqi_pause();
    return now;
}

/*
 * Each tick reading is enclosed by two of the clock, so however the machine delays us, the true
 * time between the ticks is between the inner and the outer difference of the clock.
 */
static void rate_turns_ticks_into_time(void **state)
{
    (void)state;
    assert_true(aqi_ticks_per_ns() > 0);
    uint64_t outer0 = aqi_now_ns(), ticks0 = aqi_ticks(), inner0 = aqi_now_ns();
    uint64_t inner1 = busy_until(inner0 + 20000000), ticks1 = aqi_ticks(), outer1 = aqi_now_ns();
    double ns = (double)(ticks1 - ticks0) / aqi_ticks_per_ns();
    assert_true(ns > 0.99 * (double)(inner1 - inner0));
    assert_true(ns < 1.01 * (double)(outer1 - outer0));
}

static void rate_stays_once_it_is_firm(void **state)
{
    (void)state;
    busy_until(aqi_now_ns() + 11000000);
    double rate = aqi_ticks_per_ns();
    busy_until(aqi_now_ns() + 100000);
    assert_true(aqi_ticks_per_ns() == rate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nanoseconds_are_the_monotonic_clock),
        cmocka_unit_test(ticks_go_forward),
        cmocka_unit_test(rate_turns_ticks_into_time),
        cmocka_unit_test(rate_stays_once_it_is_firm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
