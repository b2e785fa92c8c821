/* Bells: each ring is taken once, a sleeping owner is woken, and other memory is rejected. */
#include "base/bell.h"

#include "base/capture_test.h"
#include "base/shmem.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

enum { RINGERS = 4, RINGS = 20000, BITS = 300 };

static struct capture capture;
static struct aqi_bell bell;
static unsigned taken[AQI_BELL_BITS];

static void open_bell(void)
{
    memset(taken, 0, sizeof(taken));
    assert_int_equal(aqi_bell_open(&bell), AQ_OK);
}

static struct aqi_bell_rope rope_to(uint32_t bit)
{
    return (struct aqi_bell_rope){
        .memory = bell.memory, .bit = bit, .socket = bell.socket, .wakes = true};
}

static void ring(uint32_t bit)
{
    struct aqi_bell_rope rope = rope_to(bit);
    assert_true(aqi_bell_ring(&rope));
}

static void count(uint32_t bit)
{
    taken[bit]++;
}

static bool is_readable(void)
{
    struct pollfd fd = {.fd = bell.socket, .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

static void rings_are_taken_once(void **state)
{
    open_bell();
    assert_false(aqi_bell_is_rung(&bell));
    const uint32_t bits[] = {0, 63, 64, 299, AQI_BELL_BITS - 1};
    for (size_t i = 0; i < AQI_COUNT_OF(bits); i++)
        ring(bits[i]);
    ring(64);
    assert_true(aqi_bell_is_rung(&bell));
    aqi_bell_take(&bell, 299, count);
    assert_false(aqi_bell_is_rung(&bell));
    for (uint32_t i = 0; i < AQI_BELL_BITS; i++)
        assert_int_equal(taken[i], i == 0 || i == 63 || i == 64);
    /* Bits beyond those that the owner knows are not reported. */
    aqi_bell_take(&bell, 299, count);
    assert_int_equal(taken[64], 1);
    aqi_bell_take(&bell, AQI_BELL_BITS, count);
    assert_int_equal(taken[AQI_BELL_BITS - 1], 1);
    aqi_bell_close(&bell);
}

static void only_a_sleeper_is_woken(void **state)
{
    open_bell();
    ring(1);
    assert_false(is_readable());
    assert_false(aqi_bell_arm(&bell)); /* it has been rung */
    aqi_bell_take(&bell, BITS, count);
    assert_true(aqi_bell_arm(&bell));
    struct aqi_bell_rope far = rope_to(2);
    far.wakes = false;
    assert_true(aqi_bell_ring(&far));
    assert_false(is_readable());
    ring(3);
    assert_true(is_readable());
    aqi_bell_disarm(&bell);
    assert_false(is_readable());
    ring(4);
    assert_false(is_readable());
    aqi_bell_close(&bell);
}

static void an_owner_that_has_ended_is_noticed(void **state)
{
    struct aqi_bell ringer;
    open_bell();
    assert_int_equal(aqi_bell_open(&ringer), AQ_OK);
    assert_true(aqi_bell_arm(&bell));
    struct aqi_bell_memory *memory;
    assert_int_equal(aqi_bell_map(bell.fd, &memory), AQ_OK);
    const struct aqi_bell_rope rope = {.memory = memory, .socket = ringer.socket, .wakes = true};
    aqi_bell_close(&bell);
    assert_false(aqi_bell_ring(&rope));
    /* A name in the file system, or of an impossible length, is never used. */
    memory->wake.sun_path[0] = '/';
    atomic_store(&memory->asleep, 1);
    assert_true(aqi_bell_ring(&rope));
    memory->wake.sun_path[0] = 0;
    memory->wake_len = 4096;
    atomic_store(&memory->asleep, 1);
    assert_true(aqi_bell_ring(&rope));
    aqi_bell_unmap(memory);
    aqi_bell_close(&ringer);
}

static void other_memory_is_no_bell(void **state)
{
    struct aqi_bell_memory *memory;
    int fd;
    capture_start(&capture);
    assert_int_equal(aqi_shmem_create("small", 64, &fd), AQ_OK);
    assert_int_equal(aqi_bell_map(fd, &memory), AQ_EPROTO);
    capture_end(&capture);
    close(fd);
}

/*
 * Each ringer publishes numbers and rings after each; the owner, which sleeps in between, may miss
 * some numbers, but not the last.
 */
static _Atomic uint32_t published[RINGERS];
static uint32_t seen[RINGERS];

static void *ring_often(void *arg)
{
    uint32_t bit = (uint32_t)(uintptr_t)arg;
    struct aqi_bell_rope rope = rope_to(bit * 70);
    for (uint32_t i = 1; i <= RINGS; i++) {
        atomic_store_explicit(&published[bit], i, memory_order_relaxed);
        if (!aqi_bell_ring(&rope)) return "the owner has not ended";
    }
    return NULL;
}

static void look(uint32_t bit)
{
    seen[bit / 70] = atomic_load_explicit(&published[bit / 70], memory_order_relaxed);
}

static bool all_seen(void)
{
    for (unsigned i = 0; i < RINGERS; i++)
        if (seen[i] != RINGS) return false;
    return true;
}

static void no_ring_is_lost(void **state)
{
    pthread_t threads[RINGERS];
    void *result;
    open_bell();
    for (uintptr_t i = 0; i < RINGERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ring_often, (void *)i), 0);
    while (!all_seen()) {
        struct pollfd fd = {.fd = bell.socket, .events = POLLIN};
        if (aqi_bell_is_rung(&bell)) aqi_bell_take(&bell, AQI_BELL_BITS, look);
        if (all_seen() || !aqi_bell_arm(&bell)) continue;
        assert_int_equal(poll(&fd, 1, 60000), 1); /* a lost ring would time out */
        aqi_bell_disarm(&bell);
    }
    for (unsigned i = 0; i < RINGERS; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
    aqi_bell_close(&bell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_are_taken_once),
        cmocka_unit_test(only_a_sleeper_is_woken),
        cmocka_unit_test(an_owner_that_has_ended_is_noticed),
        cmocka_unit_test(other_memory_is_no_bell),
        cmocka_unit_test(no_ring_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
