/* The slow path of the spin lock. */
#include "base/spin.h"

#include <sched.h>

/* About the time of a handover between cores; a holder that takes longer has been preempted. */
#define SPIN_PAUSES 64

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
