/* Progress, and waiting for it: what the rooms above use. */
#ifndef AQI_CORE_WAIT_H
#define AQI_CORE_WAIT_H

#include "core/state/state.h"

struct core_wait {
    uint32_t rounds;
    uint32_t activity; /* sleep.c: as seen before the last look at what is waited for; 0: never */
    uint64_t yield_since; /* ns */
};
/*
 * A source of progress: whatever beside the transports has to move on, or to be asked before a
 * sleep. Registered when the room that it is of opens; any member may be NULL.
 */
struct core_sleep_plan {
    int ms;      /* the most; shorter where nothing announces what the source waits for */
    int fd;      /* also sleep on this one; -1 */
    bool waiter; /* on no descriptor: another thread is the poller */
};
struct core_source {
    const _Atomic uint32_t *busy; /* 0: there is nothing to poll; moved by core_source_count */
    unsigned (*poll)(enum aqi_progress_mode mode, uint64_t now);
    bool (*before_sleep)(struct core_sleep_plan *plan); /* false: something is there already */
    /* A reply by a route that is not of the job waits for room. */
    void (*stalled)(struct core_wait *wait, const struct core_route *route);
};
void core_source_add(const struct core_source *source);
extern _Atomic uint32_t core_sources_busy; /* all of them together */
static inline void core_source_count(_Atomic uint32_t *busy, uint32_t by)
{
    bool more = (int32_t)by > 0;
    /* The total is never too small, so that a poll does not end before it comes to the source. */
    if (more) aqi_count_on(&core_sources_busy, core.multi, by);
    aqi_count_on(busy, core.multi, by);
    if (!more) aqi_count_on(&core_sources_busy, core.multi, by);
}
void core_sources_reset(void);
bool core_sources_before_sleep(struct core_sleep_plan *plan);
/* set.c: many descriptors as one; a timer, and a descriptor to kick a thread that sleeps. */
struct core_wait_set {
    int epoll, timer, kick; /* -1: not made yet */
};
#define CORE_WAIT_SET_NONE                                                                         \
    {                                                                                              \
        .epoll = -1, .timer = -1, .kick = -1                                                       \
    }
enum { CORE_TAG_KICK, CORE_TAG_TIMER, CORE_TAG_OTHERS }; /* what an event is about */
aq_status core_wait_set_open(struct core_wait_set *fds);
void core_wait_set_close(struct core_wait_set *fds);
bool core_wait_set_add(const struct core_wait_set *fds, int fd, uint64_t tag); /* -1: nothing */
aq_status core_wait_set_refused(void);                                         /* then, by errno */
/* A thread has disarmed the transports: a thread that sleeps on aq_wait_fd looks again. */
void core_set_disarmed(void);
extern atomic_bool core_set_prepared; /* a thread sleeps on it, or is about to */
void core_set_close(void);

/* A wait begins: for observers of the job, and in the trace. */
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

/* One round over all transports; how many things happened. */
unsigned core_progress(void);
unsigned core_progress_round(void); /* the same, by the progress thread */
/* sleep.c: until something arrives, on the control channel too, or another thread has seen to it.
 * True: the descriptor of a transport has ended it. */
AQI_COLD bool core_sleep(struct core_wait *wait, int sleep_ms);
/* The same while the job begins: peers send nothing that transports would have to be armed for. */
AQI_COLD void core_sleep_opening(int sleep_ms);
/* The same for the progress thread: also until `kick` is readable; aside while others sleep. */
AQI_COLD bool core_sleep_progress_thread(int sleep_ms, int kick);
/* Arm a transport of the job whose wait_fd is `fd`: no long sleep where nothing tells of what peers
 * send, or of room. False: something is there already. */
bool core_sleep_arm(unsigned t, int fd, struct core_sleep_plan *plan);
AQI_COLD void core_wake_waiters(void);
uint32_t core_activity(void);      /* a counter that core_progressed moves; never 0 */
extern _Atomic uint32_t core_news; /* another, which nothing else moves */
aq_status core_sleep_open(void);
void core_sleep_close(void);
/* Progress brought something, for which another thread may wait asleep. */
static inline void core_progressed(void)
{
    aqi_count_on(&core_news, false, 1); /* two threads at once may count as one */
    if (AQI_UNLIKELY(core.multi))
        core_wake_waiters();
    else if (AQI_UNLIKELY(atomic_load_explicit(&core_set_prepared, memory_order_relaxed)))
        core_set_disarmed();
}
/*
 * A blocking call that was done by loads and stores. A program may wait by nothing else (for a lock
 * in a segment, say), so now and then it must take messages and notice the job's end.
 */
static inline void core_done_directly(struct core_thread *me)
{
    if (AQI_UNLIKELY((++me->unpolled & 255) == 0)) core_progress();
}
/* The same at the end of a call that calls nothing else, and so need save nothing. */
AQI_COLD aq_status core_direct_poll(void);
static AQI_INLINE aq_status core_direct_end(struct core_thread *me)
{
    return AQI_UNLIKELY((++me->unpolled & 255) == 0) ? core_direct_poll() : AQ_OK;
}
void core_yield(void);
/*
 * Between two polls. An empty poll is so short that without a pause of this length several of them
 * are under way in the processor at once: what arrives makes it throw all of them away, which costs
 * more than the pause.
 */
static inline void core_pause(void)
{
    for (unsigned i = 0; i < core.pauses; i++)
        aqi_pause();
}
/* A round of progress that the program asked for: what core_progress says. */
unsigned core_poll(struct core_thread *me);
/* After a round that brought nothing: spin, yield or sleep at most `sleep_ms`. */
void core_wait_round(struct core_wait *wait, int sleep_ms);
/* One turn of a wait: progress, and such a round if it brought nothing. */
static inline void core_wait_step(struct core_wait *wait, int sleep_ms)
{
    if (core_progress() != 0)
        *wait = (struct core_wait){0};
    else
        core_wait_round(wait, sleep_ms);
}
/* The waits of this thread take so long at most, from now on; UINT64_MAX: as long as they need. */
void core_wait_limit(struct core_thread *me, uint64_t timeout_ns);
bool core_wait_is_over(const struct core_thread *me);
/* Make progress until the counter is 0. */
void core_wait_zero(_Atomic uint32_t *counter);
void core_wait_comp(struct aqi_comp *comp); /* both of these */
/*
 * A transport had no room (AQ_AGAIN): AQ_OK after a round of progress, to try again; AQ_AGAIN if
 * the flags say AQ_IMMEDIATE; AQ_EPEER if the peer is lost. For a reply only the progress of
 * replies is made, as no handler of a request may run.
 */
AQI_COLD aq_status core_wait_for_room(struct core_wait *wait, const struct core_route *route,
                                      bool reply, unsigned flags);
/* Try again? If the last try said AQ_AGAIN, after waiting for room, which may change `*st`. */
static inline bool core_retry(aq_status *st, struct core_wait *wait, const struct core_route *route,
                              bool reply, unsigned flags)
{
    if (AQI_LIKELY(*st != AQ_AGAIN)) return false;
    *st = core_wait_for_room(wait, route, reply, flags);
    return *st == AQ_OK;
}
void core_hook_relax(void *arg, unsigned round);
/* Of connections: what makes room may be the other end in this same process. */
void core_hook_relax_pair(void *arg, unsigned round);
/* The time for a round of progress: read only where an open transport wants to know it. */
uint64_t core_hook_now(void *arg);
/* When a transport of the job wants progress although nothing arrives. */
uint64_t core_deadline(void);
/* How long one sleeps at most: for what an arrival ends; for a collective, to look for members that
 * are in another one; for a condition of the program's own, see sleep.c. */
enum { CORE_SLEEP_MS = 100, CORE_COLL_MS = 10, CORE_CONDITION_MS = 0 };

/* wait/thread.c: started last and stopped first, if core.progress_thread. */
aq_status core_progress_thread_start(void);
void core_progress_thread_stop(void);
/* A thread of the program is about to sleep and will be the poller. */
void core_progress_thread_step_aside(void);

/* agree.c */
/*
 * Agree with the members of `members` that live, the caller among them; see `agree` of the
 * bootstrap. Makes progress meanwhile. Returns the worst of their statuses; `living` gets the ranks
 * that called.
 */
aq_status core_agree(uint64_t what, uint64_t which, aq_status mine, const uint8_t *members,
                     uint8_t *living);

#endif
