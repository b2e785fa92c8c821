/*
 * A bounded single-producer single-consumer ring of fixed-size slots inside one process, with a
 * sequence number per slot (113 M messages/s where shared head and tail give 26:
 * docs/performance.md).
 */
#ifndef AQI_RING_H
#define AQI_RING_H

#include "base/base.h"

struct aqi_ring {
    unsigned char *slots;
    size_t stride; /* bytes per slot, a multiple of the cache line */
    uint32_t mask;
    alignas(AQI_CACHE_LINE) uint32_t tail; /* producer only */
    alignas(AQI_CACHE_LINE) uint32_t head; /* consumer only */
};

/* `slots` is a power of two, `payload` the bytes a slot must hold. */
aq_status aqi_ring_init(struct aqi_ring *ring, size_t slots, size_t payload);
void aqi_ring_destroy(struct aqi_ring *ring);

/* Producer: the next free slot, or NULL when the ring is full; then publish it. */
void *aqi_ring_reserve(struct aqi_ring *ring);
void aqi_ring_publish(struct aqi_ring *ring);

/* Consumer: the oldest published slot, or NULL; then give it back. */
void *aqi_ring_peek(struct aqi_ring *ring);
void aqi_ring_release(struct aqi_ring *ring);

#endif
