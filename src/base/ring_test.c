/* The ring: full, empty, order, wrap-around of the sequence numbers, and two threads. */
#include "base/ring.h"

#include "base/capture_test.h"
#include "base/fail.h"
#include <pthread.h>
#include <sched.h>
#include <string.h>

#define MESSAGES 50000u

static void full_and_empty(void **state)
{
    (void)state;
    struct aqi_ring ring;
    assert_int_equal(aqi_ring_init(&ring, 4, sizeof(uint64_t)), AQ_OK);
    for (unsigned lap = 0; lap < 5; lap++) {
        assert_null(aqi_ring_peek(&ring));
        for (uint64_t i = 0; i < 4; i++) {
            uint64_t *slot = aqi_ring_reserve(&ring);
            assert_non_null(slot);
            *slot = 10 * lap + i;
            aqi_ring_publish(&ring);
        }
        assert_null(aqi_ring_reserve(&ring));
        for (uint64_t i = 0; i < 4; i++) {
            uint64_t *slot = aqi_ring_peek(&ring);
            assert_non_null(slot);
            assert_int_equal(*slot, 10 * lap + i);
            assert_ptr_equal(aqi_ring_peek(&ring), slot);
            aqi_ring_release(&ring);
        }
    }
    aqi_ring_destroy(&ring);
}

/* Reserving without publishing, and looking without releasing, change nothing. */
static void reserve_is_no_promise(void **state)
{
    (void)state;
    struct aqi_ring ring;
    assert_int_equal(aqi_ring_init(&ring, 2, 1), AQ_OK);
    void *slot = aqi_ring_reserve(&ring);
    assert_ptr_equal(aqi_ring_reserve(&ring), slot);
    assert_null(aqi_ring_peek(&ring));
    aqi_ring_publish(&ring);
    assert_ptr_equal(aqi_ring_peek(&ring), slot);
    aqi_ring_release(&ring);
    assert_null(aqi_ring_peek(&ring));
    aqi_ring_destroy(&ring);
}

static void payloads_do_not_overlap(void **state)
{
    (void)state;
    static const size_t payloads[] = {0, 1, 48, 49, 64, 1000};
    for (size_t p = 0; p < AQI_COUNT_OF(payloads); p++) {
        struct aqi_ring ring;
        assert_int_equal(aqi_ring_init(&ring, 8, payloads[p]), AQ_OK);
        for (int i = 0; i < 8; i++) {
            void *slot = aqi_ring_reserve(&ring);
            assert_int_equal((uintptr_t)slot % 16, 0);
            memset(slot, i, payloads[p]);
            aqi_ring_publish(&ring);
        }
        for (int i = 0; i < 8; i++) {
            const unsigned char *slot = aqi_ring_peek(&ring);
            assert_non_null(slot);
            for (size_t j = 0; j < payloads[p]; j++)
                assert_int_equal(slot[j], i);
            aqi_ring_release(&ring);
        }
        aqi_ring_destroy(&ring);
    }
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t slots, payload;
        aq_status status;
    } cases[] = {
        {0, 8, AQ_EINVAL},        {1, 8, AQ_EINVAL},
        {3, 8, AQ_EINVAL},        {(size_t)1 << 31, 8, AQ_EINVAL},
        {8, SIZE_MAX, AQ_ENOMEM}, {8, SIZE_MAX / 4, AQ_ENOMEM},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct aqi_ring ring;
        struct capture capture;
        capture_start(&capture);
        aq_status status = aqi_ring_init(&ring, cases[i].slots, cases[i].payload);
        capture_end(&capture);
        assert_int_equal(status, cases[i].status);
    }
}

struct run {
    struct aqi_ring ring;
};

struct message {
    uint32_t number, square;
};

static void *produce(void *arg)
{
    struct run *run = arg;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        struct message *slot;
        while ((slot = aqi_ring_reserve(&run->ring)) == NULL)
            sched_yield();
        *slot = (struct message){.number = i, .square = i * i};
        aqi_ring_publish(&run->ring);
    }
    return NULL;
}

/* The positions wrap around at 2^32: begin shortly before it. */
static void start_at(struct aqi_ring *ring, uint32_t position)
{
    ring->head = ring->tail = position;
    for (uint32_t i = 0; i <= ring->mask; i++) {
        uint32_t turn = position + i;
        memcpy(ring->slots + (turn & ring->mask) * ring->stride, &turn, sizeof(turn));
    }
}

static void two_threads(void **state)
{
    (void)state;
    static const uint32_t starts[] = {0, UINT32_MAX - MESSAGES / 2};
    for (size_t s = 0; s < AQI_COUNT_OF(starts); s++) {
        struct run run;
        pthread_t producer;
        assert_int_equal(aqi_ring_init(&run.ring, 64, sizeof(struct message)), AQ_OK);
        start_at(&run.ring, starts[s]);
        assert_int_equal(pthread_create(&producer, NULL, produce, &run), 0);
        for (uint32_t i = 0; i < MESSAGES; i++) {
            struct message *slot;
            while ((slot = aqi_ring_peek(&run.ring)) == NULL)
                sched_yield();
            assert_int_equal(slot->number, i);
            assert_int_equal(slot->square, i * i);
            aqi_ring_release(&run.ring);
        }
        pthread_join(producer, NULL);
        assert_null(aqi_ring_peek(&run.ring));
        aqi_ring_destroy(&run.ring);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_and_empty),
        cmocka_unit_test(reserve_is_no_promise),
        cmocka_unit_test(payloads_do_not_overlap),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
