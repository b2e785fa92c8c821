/* Counters: sums over running and ended threads, reuse of blocks, printing. */
#include "base/stats.h"

#include "base/capture_test.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define THREADS 4
#define ROUNDS  20000

static void every_counter_is_described(void **state)
{
    for (unsigned i = 0; i < AQI_CTR_COUNT; i++) {
        assert_non_null(aqi_counter_rows[i].name);
        assert_non_null(aqi_counter_rows[i].unit);
        assert_non_null(aqi_counter_rows[i].doc);
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(aqi_counter_rows[i].name, aqi_counter_rows[j].name);
    }
}

static void *count_many(void *arg)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        aqi_count(AQI_CTR_PUT, 1);
        aqi_count(AQI_CTR_PUT_BYTES, 8);
    }
    return aqi_counters_mine;
}

static void threads_are_summed(void **state)
{
    uint64_t puts = aqi_counter_sum(AQI_CTR_PUT), bytes = aqi_counter_sum(AQI_CTR_PUT_BYTES);
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_many, NULL), 0);
    /* A sum read while threads count lies in between. */
    uint64_t between = aqi_counter_sum(AQI_CTR_PUT) - puts;
    assert_true(between <= THREADS * ROUNDS);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(aqi_counter_sum(AQI_CTR_PUT) - puts, THREADS * ROUNDS);
    assert_int_equal(aqi_counter_sum(AQI_CTR_PUT_BYTES) - bytes, 8 * THREADS * ROUNDS);
}

/* The memory of programs that create a thread per task must not grow. */
static void blocks_are_used_again(void **state)
{
    uint64_t before = aqi_counter_sum(AQI_CTR_PUT);
    void *first = NULL;
    for (unsigned i = 0; i < 10; i++) {
        pthread_t thread;
        void *block;
        assert_int_equal(pthread_create(&thread, NULL, count_many, NULL), 0);
        pthread_join(thread, &block);
        assert_non_null(block);
        if (first == NULL) first = block;
        assert_ptr_equal(block, first);
    }
    assert_int_equal(aqi_counter_sum(AQI_CTR_PUT) - before, 10 * ROUNDS);
}

static void only_nonzero_counters_are_printed(void **state)
{
    char expected[128];
    aqi_count(AQI_CTR_BARRIER, 3);
    aqi_count(AQI_CTR_WAKE_SENT, UINT64_MAX);
    snprintf(expected, sizeof(expected), "aq[1]: barrier %llu barriers\n",
             (unsigned long long)aqi_counter_sum(AQI_CTR_BARRIER));
    struct capture capture;
    capture_start(&capture);
    assert_true(aqi_counters_print(STDERR_FILENO, "aq[1]"));
    const char *text = capture_end(&capture);
    assert_non_null(strstr(text, expected));
    assert_non_null(strstr(text, "aq[1]: wake_sent 18446744073709551615 times\n"));
    assert_null(strstr(text, "am_dropped"));
}

/* Another process sees the earlier counts of all threads, and why this thread waits. */
static void others_can_read_the_counters(void **state)
{
    uint64_t value[AQI_CTR_COUNT], before = aqi_counter_sum(AQI_CTR_GET);
    uint32_t doing;
    int fd, again;
    pthread_t thread;
    aqi_count(AQI_CTR_GET, 5);
    assert_int_equal(aqi_counters_share(&fd), AQ_OK);
    aqi_count(AQI_CTR_GET, 2);
    assert_int_equal(pthread_create(&thread, NULL, count_many, NULL), 0);
    pthread_join(thread, NULL);
    uint32_t outer = aqi_wait_enter(AQI_DOING_BARRIER), inner = aqi_wait_enter(AQI_DOING_ROOM);
    uint32_t asleep = aqi_wait_enter(AQI_DOING_ASLEEP);
    assert_true(aqi_counters_read(fd, value, &doing));
    assert_int_equal(doing, AQI_DOING_BARRIER | AQI_DOING_ASLEEP);
    aqi_wait_leave(asleep);
    aqi_wait_leave(inner);
    assert_true(aqi_counters_doing(fd, &doing));
    assert_int_equal(doing, AQI_DOING_BARRIER);
    aqi_wait_leave(outer);
    assert_true(aqi_counters_doing(fd, &doing));
    assert_int_equal(doing, AQI_DOING_WORK);
    assert_int_equal(value[AQI_CTR_GET], before + 7);
    assert_int_equal(aqi_counter_sum(AQI_CTR_GET), before + 7);
    struct capture capture;
    capture_start(&capture);
    assert_int_equal(aqi_counters_share(&again), AQ_ESTATE);
    capture_end(&capture);
    close(fd);
    assert_false(aqi_counters_read(fd, value, &doing));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_counter_is_described),
        cmocka_unit_test(threads_are_summed),
        cmocka_unit_test(blocks_are_used_again),
        cmocka_unit_test(only_nonzero_counters_are_printed),
        cmocka_unit_test(others_can_read_the_counters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
