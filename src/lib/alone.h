/*
 * The library without a job, for a front end that finds its peers itself: regardless of how the
 * program was launched, other processes are reached by connections only.
 */
#ifndef AQI_LIB_ALONE_H
#define AQI_LIB_ALONE_H

#include "base/base.h"

#include <aqueduct/job.h>

/*
 * Read the settings and open the core, for one thread at a time (AQ_THREAD_SERIALIZED). The
 * counters are printed by lib_alone_close or at exit, with the name `front`. With `allows`, a
 * segment spans the whole address space, and `allows` decides, given the context of a connection,
 * what its peer may access there; it is not called for peers that reach memory without this
 * process, by shared memory or cross-memory attach. Until lib_alone_patience is called, opening and
 * closing connections has no time limit other than that of aq_connect_params.
 */
aq_status lib_alone_open(const char *front,
                         bool (*allows)(void *context, uint64_t addr, size_t len), aq_team **world);
void lib_alone_close(void);

/* Set the limit, in ns, for closing a connection with operations in flight. Returns the old one. */
uint64_t lib_alone_patience(uint64_t ns);

/*
 * Call, holding no locks, after each poll by the program that found nothing, the last `polls` of
 * them in a row. Lets other processes run, in case there are more of them than cores.
 */
extern _Atomic unsigned lib_alone_spins; /* polls before the first yield */
void lib_alone_yield_now(void);
static inline void lib_alone_yield(unsigned polls)
{
    enum { EVERY = 16 };
    unsigned spins = atomic_load_explicit(&lib_alone_spins, memory_order_relaxed);
    if (AQI_UNLIKELY(polls >= spins && polls % EVERY == 0)) lib_alone_yield_now();
}

/* Whether AQ_TRANSPORTS allows this transport. */
bool lib_alone_may_use(const char *transport);

#endif
