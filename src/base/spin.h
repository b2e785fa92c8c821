/* A small lock for short sections, which yields when its holder has been preempted. */
#ifndef AQI_SPIN_H
#define AQI_SPIN_H

#include "base/base.h"

struct aqi_spin {
    atomic_bool held;
};

static inline bool aqi_spin_try(struct aqi_spin *spin)
{
    return !atomic_load_explicit(&spin->held, memory_order_relaxed) &&
           !atomic_exchange_explicit(&spin->held, true, memory_order_acquire);
}

/* The slow path: pauses, then yields, since more threads than cores are common. */
void aqi_spin_contend(struct aqi_spin *spin);

static inline void aqi_spin_lock(struct aqi_spin *spin)
{
    if (AQI_UNLIKELY(!aqi_spin_try(spin))) aqi_spin_contend(spin);
}

/* Pairs with the acquire in aqi_spin_try. */
static inline void aqi_spin_unlock(struct aqi_spin *spin)
{
    atomic_store_explicit(&spin->held, false, memory_order_release);
}

/* For data that only some programs share between threads. */
static inline void aqi_spin_lock_if(bool shared, struct aqi_spin *spin)
{
    if (shared) aqi_spin_lock(spin);
}

static inline void aqi_spin_unlock_if(bool shared, struct aqi_spin *spin)
{
    if (shared) aqi_spin_unlock(spin);
}

/*
 * A lock for all calls of a library. A spin lock is not fair: a thread that polls takes it again at
 * once, and would starve others. So waiting threads are counted, and a thread that has released the
 * lock lets them in by aqi_big_yield.
 */
struct aqi_big_lock {
    struct aqi_spin spin;
    atomic_uint waiting;
};

void aqi_big_contend(struct aqi_big_lock *lock);
void aqi_big_let_in(const struct aqi_big_lock *lock);

static inline void aqi_big_lock(struct aqi_big_lock *lock)
{
    if (AQI_UNLIKELY(!aqi_spin_try(&lock->spin))) aqi_big_contend(lock);
}

static inline void aqi_big_unlock(struct aqi_big_lock *lock)
{
    aqi_spin_unlock(&lock->spin);
}

static inline void aqi_big_yield(const struct aqi_big_lock *lock)
{
    if (AQI_UNLIKELY(atomic_load_explicit(&lock->waiting, memory_order_relaxed) != 0))
        aqi_big_let_in(lock);
}

#endif
