/* Progress, and waiting for it. */
#ifndef AQI_CORE_WAIT_H
#define AQI_CORE_WAIT_H

#include "core/state/state.h"

struct core_wait {
    uint32_t rounds;
    uint32_t activity;    /* sleep.c: the activity counter before the last check; 0: not read */
    uint64_t yield_since; /* time of the first yield in ns; 0: none yet */
};
struct core_sleep_plan {
    int ms;      /* timeout; shortened if nothing announces what the source waits for */
    int fd;      /* another descriptor to sleep on; -1: none */
    bool waiter; /* sleeps on no descriptor: another thread is the poller */
};
/*
 * A source of progress besides the transports: polled while busy, and called before a sleep.
 * Registered when its folder's module opens; before_sleep and stalled may be NULL.
 */
struct core_source {
    const _Atomic uint32_t *busy; /* number of things to poll; changed by core_source_count */
    unsigned (*poll)(enum aqi_progress_mode mode, uint64_t now);
    bool (*before_sleep)(struct core_sleep_plan *plan); /* false: something has arrived */
    /* A reply on a connection's route waits for room. */
    void (*stalled)(struct core_wait *wait, const struct core_route *route);
};
void core_source_add(const struct core_source *source);
extern _Atomic uint32_t core_sources_busy; /* the sum of all sources */
static inline void core_source_count(_Atomic uint32_t *busy, uint32_t by)
{
    bool more = (int32_t)by > 0;
    /* The sum is never too low, so a poll does not stop before it reaches the source. */
    if (more) aqi_count_on(&core_sources_busy, core.multi, by);
    aqi_count_on(busy, core.multi, by);
    if (!more) aqi_count_on(&core_sources_busy, core.multi, by);
}
void core_sources_reset(void);
bool core_sources_before_sleep(struct core_sleep_plan *plan);
/* set.c: many descriptors as one, with a timer and an eventfd to wake the sleeper. */
struct core_wait_set {
    int epoll, timer, kick; /* -1: not opened */
};
#define CORE_WAIT_SET_NONE                                                                         \
    {                                                                                              \
        .epoll = -1, .timer = -1, .kick = -1                                                       \
    }
enum { CORE_TAG_KICK, CORE_TAG_TIMER, CORE_TAG_OTHERS }; /* the source of an event */
aq_status core_wait_set_open(struct core_wait_set *fds);
void core_wait_set_close(struct core_wait_set *fds);
bool core_wait_set_add(const struct core_wait_set *fds, int fd, uint64_t tag); /* fd -1: no-op */
aq_status core_wait_set_refused(void); /* the error of that, from errno */
/* The transports have been disarmed: a thread that sleeps on aq_wait_fd polls again. */
void core_set_disarmed(void);
extern atomic_bool core_set_prepared; /* a thread sleeps on it, or is about to */
void core_set_close(void);

/* A wait, marked for monitors of the job and in the trace. */
struct core_waiting {
    uint64_t begun;
    uint32_t outer;
};
static inline struct core_waiting core_wait_begin(unsigned category, enum aqi_doing what)
{
    return (struct core_waiting){aqi_trace_begin(category), aqi_wait_enter(what)};
}
static inline void core_wait_end(unsigned category, const char *name, struct core_waiting waiting,
                                 uint64_t bytes)
{
    aqi_wait_leave(waiting.outer);
    aqi_trace_end(category, name, waiting.begun, AQI_TRACE_NOBODY, bytes);
}

/* Make progress; returns the number of events. */
unsigned core_progress(void);
unsigned core_progress_round(void); /* a full round, for the progress thread */
/*
 * sleep.c: sleep until something arrives, including on the control channel, or another thread
 * handles an arrival. Returns true if a transport's descriptor ended the sleep.
 */
AQI_COLD bool core_sleep(struct core_wait *wait, int sleep_ms);
/* Likewise while the job starts: arms only the transports. */
AQI_COLD void core_sleep_opening(int sleep_ms);
/* Likewise, in the progress thread: also on `kick`, and on that alone while others sleep. */
AQI_COLD bool core_sleep_progress_thread(int sleep_ms, int kick);
/*
 * Arm a transport of the job whose wait_fd is `fd`. Shortens the sleep if nothing announces
 * arrivals or room. Returns false if something has arrived.
 */
bool core_sleep_arm(unsigned t, int fd, struct core_sleep_plan *plan);
AQI_COLD void core_wake_waiters(void);
uint32_t core_activity(void);      /* a counter that core_progressed increments; never 0 */
extern _Atomic uint32_t core_news; /* likewise, but nothing else increments it */
aq_status core_sleep_open(void);
void core_sleep_close(void);
/* Call after progress that handled something: another thread may sleep until then. */
static inline void core_progressed(void)
{
    aqi_count_on(&core_news, false, 1); /* two threads at once may count as one */
    if (AQI_UNLIKELY(core.multi))
        core_wake_waiters();
    else if (AQI_UNLIKELY(atomic_load_explicit(&core_set_prepared, memory_order_relaxed)))
        core_set_disarmed();
}
/*
 * Ends a blocking call that was done by loads and stores. A program may wait by such calls alone
 * (for a lock in a segment, say), so every 256th handles messages and notices the end of the job.
 */
static inline void core_done_directly(struct core_thread *me)
{
    if (AQI_UNLIKELY((++me->unpolled & 255) == 0)) core_progress();
}
/* Likewise, as a tail call, so that the caller need not save registers. */
AQI_COLD aq_status core_direct_poll(void);
static AQI_INLINE aq_status core_direct_end(struct core_thread *me)
{
    return AQI_UNLIKELY((++me->unpolled & 255) == 0) ? core_direct_poll() : AQ_OK;
}
void core_yield(void);
/*
 * Pause between two polls. An empty poll is so short that the processor would otherwise execute
 * several of them speculatively; an arrival then discards them all, which costs more than the
 * pause.
 */
static inline void core_pause(void)
{
    for (unsigned i = 0; i < core.pauses; i++)
        aqi_pause();
}
/* Progress requested by the program; returns the result of core_progress. */
unsigned core_poll(struct core_thread *me);
/* After an empty round: spin, yield or sleep for at most `sleep_ms`. */
void core_wait_round(struct core_wait *wait, int sleep_ms);
/* One step of a wait: make progress, or else spin, yield or sleep. */
static inline void core_wait_step(struct core_wait *wait, int sleep_ms)
{
    if (core_progress() != 0)
        *wait = (struct core_wait){0};
    else
        core_wait_round(wait, sleep_ms);
}
/* Limit the waits of this thread to `timeout_ns` from now; UINT64_MAX: no limit. */
void core_wait_limit(struct core_thread *me, uint64_t timeout_ns);
bool core_wait_is_over(const struct core_thread *me);
/* Make progress until the counter is 0. */
void core_wait_zero(_Atomic uint32_t *counter);
void core_wait_comp(struct aqi_comp *comp); /* both of its counters */
/*
 * A transport had no room (AQ_AGAIN). Returns AQ_OK after a round of progress, to retry; AQ_AGAIN
 * with AQ_IMMEDIATE; AQ_EPEER if the peer is lost. For a reply, only replies are progressed, since
 * no request handler may run.
 */
AQI_COLD aq_status core_wait_for_room(struct core_wait *wait, const struct core_route *route,
                                      bool reply, unsigned flags);
/* Whether to retry: after AQ_AGAIN, waits for room, which may change `*st`. */
static inline bool core_retry(aq_status *st, struct core_wait *wait, const struct core_route *route,
                              bool reply, unsigned flags)
{
    if (AQI_LIKELY(*st != AQ_AGAIN)) return false;
    *st = core_wait_for_room(wait, route, reply, flags);
    return *st == AQ_OK;
}
void core_hook_relax(void *arg, unsigned round);
/* For connections: the other end, which makes room, may be in this process. */
void core_hook_relax_pair(void *arg, unsigned round);
/* The time for a round of progress: 0 unless an open transport needs it. */
uint64_t core_hook_now(void *arg);
/* When a transport of the job needs progress even if nothing arrives. */
uint64_t core_deadline(void);
/*
 * Maximum sleep: for events that an arrival announces; for collectives, to check for members in a
 * different one; for conditions of the program, see sleep.c.
 */
enum { CORE_SLEEP_MS = 100, CORE_COLL_MS = 10, CORE_CONDITION_MS = 0 };

/* wait/thread.c: started last and stopped first, if core.progress_thread. */
aq_status core_progress_thread_start(void);
void core_progress_thread_stop(void);
/* A thread of the program is about to sleep and will become the poller. */
void core_progress_thread_step_aside(void);

/* agree.c */
/*
 * Agree with the surviving ranks of `members`, the caller among them; see `agree` of the bootstrap.
 * Makes progress meanwhile. Returns the worst of their statuses; `living` receives the ranks that
 * called.
 */
aq_status core_agree(uint64_t what, uint64_t which, aq_status mine, const uint8_t *members,
                     uint8_t *living);

#endif
