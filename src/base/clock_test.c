/* The clock agrees with the system's. */
#include "base/clock.h"

#include "base/capture_test.h"
#include <time.h>

static void nanoseconds_are_the_monotonic_clock(void **state)
{
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    uint64_t now = aqi_now_ns();
    clock_gettime(CLOCK_MONOTONIC, &b);
    assert_true(now >= (uint64_t)a.tv_sec * 1000000000u + (uint64_t)a.tv_nsec);
    assert_true(now <= (uint64_t)b.tv_sec * 1000000000u + (uint64_t)b.tv_nsec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nanoseconds_are_the_monotonic_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
