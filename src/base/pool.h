/*
 * Object pools: fixed-size objects, allocated in chunks and recycled through a free list, so that
 * thousands of operations outstanding cost no malloc each.
 *
 * A pool belongs to one thread, or to several with `locked` set; then get and put take a spin lock.
 */
#ifndef AQI_POOL_H
#define AQI_POOL_H

#include "base/base.h"
#include "base/spin.h"

struct aqi_pool {
    void *free;           /* singly linked through the first word */
    unsigned char *fresh; /* objects of the newest chunk that were never given out */
    size_t fresh_count;
    void *chunks;       /* singly linked; freed at destroy */
    size_t object_size; /* rounded up to 16 bytes */
    size_t chunk_objects;
    size_t outstanding; /* given out and not yet put back */
    struct aqi_spin lock;
    bool locked;
};

void aqi_pool_init(struct aqi_pool *pool, size_t object_size, size_t chunk_objects, bool locked);

/* Frees all chunks, and the pool is as after init. Returns how many objects were still out (0 when
 * all came back). */
size_t aqi_pool_destroy(struct aqi_pool *pool);

/* An object, not zeroed (but its first use is zeroed memory), 16-byte aligned; NULL: no memory. */
void *aqi_pool_get_slow(struct aqi_pool *pool);
static inline void *aqi_pool_get(struct aqi_pool *pool)
{
    /* Where the pool is shared, not even a look at the list without the lock. */
    if (AQI_UNLIKELY(pool->locked)) return aqi_pool_get_slow(pool);
    void *object = pool->free;
    if (AQI_UNLIKELY(object == NULL)) return aqi_pool_get_slow(pool);
    pool->free = *(void **)object;
    pool->outstanding++;
    return object;
}

void aqi_pool_put_locked(struct aqi_pool *pool, void *object);
static inline void aqi_pool_put(struct aqi_pool *pool, void *object)
{
    if (AQI_UNLIKELY(pool->locked)) {
        aqi_pool_put_locked(pool, object);
        return;
    }
    *(void **)object = pool->free;
    pool->free = object;
    pool->outstanding--;
}

#endif
