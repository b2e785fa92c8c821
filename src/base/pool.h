/*
 * Object pools: fixed-size objects, allocated in chunks and recycled through a free list, so that
 * thousands of outstanding operations need no malloc each.
 *
 * A pool belongs to one thread, or to several if `locked` is set; get and put then take a spin
 * lock.
 */
#ifndef AQI_POOL_H
#define AQI_POOL_H

#include "base/base.h"
#include "base/spin.h"

struct aqi_pool {
    void *free;           /* linked through the first word */
    unsigned char *fresh; /* objects of the newest chunk that were never used */
    size_t fresh_count;
    void *chunks;       /* linked; freed by destroy */
    size_t object_size; /* rounded up to a multiple of 16 */
    size_t chunk_objects;
    size_t outstanding; /* handed out and not yet returned */
    struct aqi_spin lock;
    bool locked;
};

void aqi_pool_init(struct aqi_pool *pool, size_t object_size, size_t chunk_objects, bool locked);

/* Free all chunks; the pool is as after init. Returns the number of objects still in use. */
size_t aqi_pool_destroy(struct aqi_pool *pool);

/*
 * Returns an object aligned to 16 bytes, or NULL if out of memory. It is zeroed on its first use
 * only.
 */
void *aqi_pool_get_slow(struct aqi_pool *pool);
static inline void *aqi_pool_get(struct aqi_pool *pool)
{
    /* Other threads may change a shared pool's list: do not read it without the lock. */
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
