/*
 * The single-producer single-consumer ring. Each slot carries a sequence number: `position` while
 * it is free for the producer's turn `position`, `position + 1` once that turn is published.
 */
#include "base/ring.h"

#include "base/fail.h"
#include <stdlib.h>

struct ring_slot {
    _Atomic uint32_t sequence;
    alignas(16) unsigned char payload[];
};

static struct ring_slot *ring_slot(struct aqi_ring *ring, uint32_t position)
{
    return (struct ring_slot *)(void *)(ring->slots + (position & ring->mask) * ring->stride);
}

aq_status aqi_ring_init(struct aqi_ring *ring, size_t slots, size_t payload)
{
    /* With one slot "free for the next turn" and "published" would be the same number. */
    if (!aqi_is_power_of_two(slots) || slots < 2 || slots > UINT32_MAX / 2)
        return aqi_fail(AQ_EINVAL, "base",
                        "a ring of %zu slots is not possible: give a power of two from 2 to 2^30",
                        slots);
    size_t stride = 0, bytes = 0;
    if (__builtin_add_overflow(payload, sizeof(struct ring_slot) + AQI_CACHE_LINE - 1, &stride) ||
        __builtin_mul_overflow(stride / AQI_CACHE_LINE * AQI_CACHE_LINE, slots, &bytes))
        return aqi_fail(AQ_ENOMEM, "base", "a ring of %zu slots of %zu bytes is beyond memory",
                        slots, payload);
    void *memory = aligned_alloc(AQI_CACHE_LINE, bytes);
    if (memory == NULL)
        return aqi_fail(AQ_ENOMEM, "base", "no memory for a ring of %zu slots of %zu bytes", slots,
                        payload);
    *ring = (struct aqi_ring){
        .slots = memory,
        .stride = bytes / slots,
        .mask = (uint32_t)(slots - 1),
    };
    for (uint32_t i = 0; i <= ring->mask; i++)
        atomic_init(&ring_slot(ring, i)->sequence, i);
    return AQ_OK;
}

void aqi_ring_destroy(struct aqi_ring *ring)
{
    free(ring->slots);
    ring->slots = NULL;
}

void *aqi_ring_reserve(struct aqi_ring *ring)
{
    struct ring_slot *slot = ring_slot(ring, ring->tail);
    /* Reads the store in aqi_ring_release: the consumer is done with the payload. */
    if (atomic_load_explicit(&slot->sequence, memory_order_acquire) != ring->tail) return NULL;
    return slot->payload;
}

void aqi_ring_publish(struct aqi_ring *ring)
{
    struct ring_slot *slot = ring_slot(ring, ring->tail);
    ring->tail++;
    /* Read by the load in aqi_ring_peek. */
    atomic_store_explicit(&slot->sequence, ring->tail, memory_order_release);
}

void *aqi_ring_peek(struct aqi_ring *ring)
{
    struct ring_slot *slot = ring_slot(ring, ring->head);
    /* Reads the store in aqi_ring_publish: the payload is there. */
    if (atomic_load_explicit(&slot->sequence, memory_order_acquire) != ring->head + 1) return NULL;
    return slot->payload;
}

void aqi_ring_release(struct aqi_ring *ring)
{
    struct ring_slot *slot = ring_slot(ring, ring->head);
    /* Free for the producer's turn one lap later; read by the load in aqi_ring_reserve. */
    atomic_store_explicit(&slot->sequence, ring->head + ring->mask + 1, memory_order_release);
    ring->head++;
}
