/*
 * The library without a job, for a front end that finds its peers itself: regardless of how the
 * program was launched, other processes are reached by connections only.
 */
#ifndef AQI_LIB_ALONE_H
#define AQI_LIB_ALONE_H

#include "base/spin.h"

#include <aqueduct/job.h>
#include <pthread.h>

/*
 * Read the settings and open the core, for one thread at a time (AQ_THREAD_SERIALIZED). The
 * counters are printed by lib_alone_close or at exit, with the name `front`. With `allows`, a
 * segment spans the whole address space, and `allows` decides, given the context of a connection,
 * what its peer may access there; it is not called for peers that reach memory without this
 * process, by shared memory or cross-memory attach. Until lib_alone_set_close_timeout is called,
 * opening and closing connections has no time limit other than that of aq_connect_params.
 */
aq_status lib_alone_open(const char *front,
                         bool (*allows)(void *context, uint64_t addr, size_t len), aq_team **world);
void lib_alone_close(void);

/* Set the limit, in ns, for closing a connection with operations in flight. Returns the old one. */
uint64_t lib_alone_set_close_timeout(uint64_t ns);

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

/*
 * A thread that makes progress while the program rarely makes calls, which make progress
 * themselves: not while there is one every 200 us. The front end sets the first members.
 */
struct lib_alone_thread {
    struct aqi_big_lock *lock; /* of all calls of the front end */
    int fd;                    /* of aq_wait_fd */
    /*
     * Make progress, with the lock held. Returns how many ms the thread may sleep unless `fd`
     * becomes readable: 0: there is more to do; negative: without limit.
     */
    int (*turn)(void);
    bool polite; /* let a program that sleeps on `fd` as well handle what arrives; with the lock */

    _Atomic uint32_t calls; /* written with the lock held */
    atomic_bool asleep, stops;
    bool runs;
    uint32_t seen;    /* calls at the last check, */
    uint64_t checked; /* and when that was, in ns */
    int kick;
    pthread_t id;
};

/* Returns 0, also if it runs already, or an errno. Call both with the lock held, which they release
 * while the thread ends. */
int lib_alone_thread_start(struct lib_alone_thread *thread);
void lib_alone_thread_stop(struct lib_alone_thread *thread);

/* Call in every call of the program, with the lock held. Returns the number of calls. */
void lib_alone_thread_wake(struct lib_alone_thread *thread);
static inline uint32_t lib_alone_thread_called(struct lib_alone_thread *thread)
{
    uint32_t calls = atomic_load_explicit(&thread->calls, memory_order_relaxed) + 1;
    atomic_store_explicit(&thread->calls, calls, memory_order_relaxed);
    if (AQI_UNLIKELY(atomic_load_explicit(&thread->asleep, memory_order_relaxed)))
        lib_alone_thread_wake(thread);
    return calls;
}

/* A descriptor on which a program sleeps: readable while its kick is, and another one at will. */
struct lib_alone_handle {
    int fd; /* an epoll set; -1: not open */
    int kick;
};

int lib_alone_handle_open(struct lib_alone_handle *handle); /* returns 0 or an errno */
void lib_alone_handle_close(struct lib_alone_handle *handle);
/* Choose whether `fd` also makes it readable. Returns false on failure. */
bool lib_alone_handle_watch(const struct lib_alone_handle *handle, int fd, bool on);

/* Whether AQ_TRANSPORTS allows this transport. */
bool lib_alone_may_use(const char *transport);

#endif
