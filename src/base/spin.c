/* The slow paths of the spin locks. */
#include "base/spin.h"

#include <sched.h>

/* About the time of a handover between cores; a holder that takes longer has been preempted. */
#define SPIN_PAUSES 64
/* A thread that waits for a big lock takes it within this time if it is running. */
#define SPIN_LET_IN 256

void aqi_spin_contend(struct aqi_spin *spin)
{
    for (;;) {
        for (unsigned i = 0; i < SPIN_PAUSES; i++) {
            if (aqi_spin_try(spin)) return;
            aqi_pause();
        }
        sched_yield();
    }
}

AQI_COLD void aqi_big_contend(struct aqi_big_lock *lock)
{
    atomic_fetch_add_explicit(&lock->waiting, 1, memory_order_relaxed);
    aqi_spin_contend(&lock->spin);
    atomic_fetch_sub_explicit(&lock->waiting, 1, memory_order_relaxed);
}

AQI_COLD void aqi_big_let_in(const struct aqi_big_lock *lock)
{
    for (unsigned i = 0; i < SPIN_LET_IN; i++) {
        if (atomic_load_explicit(&lock->waiting, memory_order_relaxed) == 0 ||
            atomic_load_explicit(&lock->spin.held, memory_order_relaxed))
            return;
        aqi_pause();
    }
    sched_yield();
}
