/* Tests align.c: clocks that differ and drift, over a network with queues. */
#include "job/align.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SECOND 1000000000ull

static uint64_t seed = 1;

static uint64_t draw(uint64_t most)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % (most + 1);
}

/* The other clock: `ahead` in the beginning, and faster by `ppm` millionths. */
static uint64_t other(uint64_t now, int64_t ahead, int64_t ppm)
{
    return now + (uint64_t)(ahead + (int64_t)(now / 1000000) * ppm);
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* One query, over a path that takes 20 us plus these queuing delays. */
static uint64_t ask(struct aqi_align *align, uint64_t now, int64_t ahead, int64_t ppm, uint64_t far)
{
    uint64_t queue = draw(3) == 0 ? 50 : 5000;
    uint64_t heard = now + 20000 + draw(queue) * 1000, answered = heard + draw(30000);
    uint64_t got = answered + 20000 + draw(queue) * 1000;
    aqi_align_add(align, now, other(heard, ahead, ppm) + far, other(answered, ahead, ppm) + far,
                  got, far);
    return got;
}

static void test_nothing_known(void **state)
{
    struct aqi_align align = {0};
    assert_false(aqi_align_ready(&align));
    assert_true(aqi_align_error(&align, 5) == UINT64_MAX);
    assert_true(aqi_align_time(&align, 5) == 5);
}

static void test_bound_holds_and_time_grows(void **state)
{
    static const struct {
        int64_t ahead, ppm;
        uint64_t far; /* error of the other side's clock */
    } clocks[] = {{0, 0, 0}, {5000000000, 40, 0}, {-3000000, -60, 0}, {1 << 30, 90, 200000}};
    for (size_t c = 0; c < AQI_COUNT_OF(clocks); c++) {
        struct aqi_align align = {0};
        uint64_t now = 100 * SECOND, last = 0, sum = 0, looks = 0;
        for (int i = 0; i < 3000; i++) { /* an hour */
            now = ask(&align, now, clocks[c].ahead, clocks[c].ppm, clocks[c].far);
            uint64_t next = now + (aqi_align_ready(&align) ? SECOND : 0);
            for (; aqi_align_ready(&align) && now < next; now += SECOND / 4) {
                uint64_t said = aqi_align_time(&align, now), error = aqi_align_error(&align, now);
                assert_true(said > last);
                assert_true(distance(said, other(now, clocks[c].ahead, clocks[c].ppm)) <= error);
                last = said;
                sum += error;
                looks++;
            }
        }
        print_message("ahead %lld ns, %lld ppm: mean bound %llu ns\n", (long long)clocks[c].ahead,
                      (long long)clocks[c].ppm, (unsigned long long)(sum / looks));
        assert_true(sum / looks < 1500000 + clocks[c].far);
    }
}

/* Results for a past time do not change later: blocks of events are written late. */
static void test_past_stays(void **state)
{
    struct aqi_align align = {0};
    uint64_t now = SECOND, times[64], said[64];
    for (int i = 0; i < 8; i++)
        now = ask(&align, now, 12345678, 50, 0);
    for (int i = 0; i < 64; i++) {
        times[i] = now;
        said[i] = aqi_align_time(&align, now);
        now = ask(&align, now, 12345678, 50, 0) + SECOND;
    }
    for (int i = 0; i < 64; i++)
        assert_true(distance(aqi_align_time(&align, times[i]), said[i]) <= 1);
}

/* After a host was suspended, the offset steps, rather than being approached for hours. */
static void test_step(void **state)
{
    struct aqi_align align = {0};
    uint64_t now = SECOND;
    for (int i = 0; i < 2 * AQI_ALIGN_SAMPLES; i++)
        now = ask(&align, now, 0, 0, 0) + SECOND;
    for (int i = 0; i < 2 * AQI_ALIGN_SAMPLES; i++)
        now = ask(&align, now, 100 * (int64_t)SECOND, 0, 0) + SECOND;
    assert_true(distance(aqi_align_time(&align, now), now + 100 * SECOND) <=
                aqi_align_error(&align, now));
    assert_true(aqi_align_error(&align, now) < SECOND / 100);
}

static void test_invalid_samples(void **state)
{
    struct aqi_align align = {0};
    aqi_align_add(&align, 10, 5, 6, 9, 0);   /* answer arrived before the query was sent */
    aqi_align_add(&align, 10, 6, 5, 20, 0);  /* answered before it was received */
    aqi_align_add(&align, 10, 5, 50, 20, 0); /* held longer than the round trip */
    aqi_align_add(&align, 10, 12, 13, 20, UINT64_MAX); /* the other side is not aligned */
    assert_true(aqi_align_error(&align, 30) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_known),   cmocka_unit_test(test_bound_holds_and_time_grows),
        cmocka_unit_test(test_past_stays),      cmocka_unit_test(test_step),
        cmocka_unit_test(test_invalid_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
