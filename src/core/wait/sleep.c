/*
 * Sleeping until something arrives. A single thread sleeps on the descriptors of the transports.
 *
 * Of several threads, one at a time is the *poller*: it arms the transports and sleeps on their
 * descriptors. The others are *waiters*: they sleep on a futex, the activity counter, which every
 * round of progress that handled something increments, in any thread. A thread reads the counter
 * before it checks its condition and sleeps only if the counter has not changed since, so no wakeup
 * is lost. The progress thread is the poller only while no thread of the program sleeps.
 */
#include "core/wait/wait.h"

#include "base/clock.h"
#include "base/kick.h"
#include "base/log.h"
#include "base/shmem.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * A condition that causes no activity, such as one of the program's own, is checked again after
 * 1/FRACTION of the time waited, within these bounds.
 */
enum { LEAST_MS = 1, MOST_MS = 10, FRACTION = 16 };

enum { POLLER_NONE, POLLER_PROGRAM, POLLER_PROGRESS_THREAD };

static struct {
    _Atomic uint32_t activity; /* odd, so never 0 */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t poller;
    int wake; /* eventfd: activity, for a poller that is a thread of the program */
} waiters = {.activity = 1, .wake = -1};
_Atomic uint32_t core_news;

/*
 * Set the length of a sleep: at most until the end of a timed wait or the deadline of a transport.
 * Returns true if the latter ends it, which counts as an arrival.
 */
static bool sleep_limit(int sleep_ms, uint64_t deadline, struct timespec *limit)
{
    uint64_t ns = (uint64_t)sleep_ms * 1000000, until = AQI_NO_DEADLINE;
    if (core_thread_mine != NULL && core_thread_mine->until_ns != 0)
        until = core_thread_mine->until_ns;
    uint64_t first = aqi_min(deadline, until);
    uint64_t now = first != AQI_NO_DEADLINE ? aqi_now_ns() : 0;
    bool early = deadline < now + ns;
    if (first < now + ns) ns = first > now ? first - now : 0;
    *limit = (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                               .tv_nsec = (long)(ns % 1000000000u)};
    return early && deadline <= until;
}

static void sleep_on_activity(uint32_t seen, int sleep_ms)
{
    struct timespec limit;
    (void)sleep_limit(sleep_ms, AQI_NO_DEADLINE, &limit);
    struct core_waiting waiting = core_wait_begin(AQI_TRACE_WAIT, AQI_DOING_ASLEEP);
    aqi_count(AQI_CTR_SLEEP, 1);
    if (syscall(SYS_futex, &waiters.activity, FUTEX_WAIT_PRIVATE, seen, &limit, NULL, 0) != 0 &&
        errno == ETIMEDOUT)
        aqi_count(AQI_CTR_OVERSLEPT, 1);
    core_wait_end(AQI_TRACE_WAIT, "sleep", waiting, 0);
}

AQI_COLD void core_wake_waiters(void)
{
    /* Either the sleeper sees the new count, or we see the sleeper: all four are seq_cst. */
    atomic_fetch_add(&waiters.activity, 2);
    core_set_disarmed(); /* a thread that sleeps in poll() */
    if (atomic_load(&waiters.sleepers) == 0) return;
    (void)syscall(SYS_futex, &waiters.activity, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    if (atomic_load(&waiters.poller) == POLLER_PROGRAM) aqi_kick(waiters.wake);
}

uint32_t core_activity(void)
{
    return atomic_load(&waiters.activity);
}

/*
 * If a descriptor stays closed, the program has closed it; another thread of the library may close
 * one for a moment. Wait without it, but not in a busy loop.
 */
static void sleep_check_closed(const struct pollfd *fds, nfds_t n)
{
    enum { MANY = 16 };
    static unsigned closed; /* in a row; of the poller */
    static atomic_bool once;
    nfds_t i = 0;
    while (i < n && (fds[i].revents & POLLNVAL) == 0)
        i++;
    closed = i < n ? closed + 1 : 0;
    if (AQI_LIKELY(closed < MANY)) return;
    aqi_log_once(&once, AQI_LOG_ERROR, "core",
                 "descriptor %d, on which the library sleeps, was closed: the program must not "
                 "close descriptors that it did not open",
                 fds[i].fd);
    (void)poll(NULL, 0, 1);
}

/*
 * Sleep no longer than until the next deadline of a transport, which may be microseconds away and
 * counts as an event.
 */
static int sleep_poll_until(struct pollfd *fds, nfds_t n, int sleep_ms)
{
    struct timespec limit;
    bool early = sleep_limit(sleep_ms, core_deadline(), &limit);
    int ready = ppoll(fds, n, &limit, NULL);
    if (ready > 0) sleep_check_closed(fds, n);
    return early && ready == 0 ? 1 : ready;
}

bool core_sleep_arm(unsigned t, int fd, struct core_sleep_plan *plan)
{
    struct aqi_tp *tp = core.tps[t];
    if ((fd < 0 && core.carries[t]) || aqi_tp_waits_for_room(tp)) plan->ms = 1;
    return tp->ops.arm(tp, true) == AQ_OK;
}

/* The descriptors to sleep on; those of the transports are the first. */
struct sleep_set {
    struct pollfd fds[CORE_MAX_TRANSPORTS + 3];
    nfds_t count, of_transports;
    unsigned armed; /* transports */
};

static void sleep_add(struct sleep_set *set, int fd)
{
    if (fd >= 0) set->fds[set->count++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

/* Returns false if something has arrived. */
static bool sleep_arm_all(struct sleep_set *set, struct core_sleep_plan *plan)
{
    while (set->armed < core.tp_count) {
        struct aqi_tp *tp = core.tps[set->armed];
        int fd = tp->ops.wait_fd(tp);
        sleep_add(set, fd);
        set->of_transports = set->count;
        if (!core_sleep_arm(set->armed++, fd, plan)) return false;
    }
    return true;
}

static void sleep_disarm_all(struct sleep_set *set)
{
    while (set->armed > 0) {
        struct aqi_tp *tp = core.tps[--set->armed];
        (void)tp->ops.arm(tp, false);
    }
}

/* Whether a descriptor of a transport, which are the first, is ready. */
static bool sleep_found_arrival(const struct sleep_set *set)
{
    bool found = false;
    for (nfds_t i = 0; i < set->of_transports && !found; i++)
        found = (set->fds[i].revents & ~POLLNVAL) != 0;
    return found;
}

/*
 * Arm everything, sleep, and disarm; do not sleep if there was activity since `seen` (0: not
 * checked). `extra` is another descriptor to wake on, or -1. Returns true if something has arrived
 * for a transport.
 */
static bool sleep_on_descriptors(int sleep_ms, int extra, uint32_t seen)
{
    struct sleep_set set;
    bool arrived = false;
    set.count = set.of_transports = set.armed = 0;
    struct core_sleep_plan plan = {.ms = sleep_ms, .fd = -1};
    bool go = core_sources_before_sleep(&plan) && sleep_arm_all(&set, &plan);
    int control = core.boot.fd(core.boot.arg);
    if (go) sleep_add(&set, plan.fd);
    sleep_add(&set, extra);
    sleep_add(&set, control);
    if (go && (seen == 0 || atomic_load(&waiters.activity) == seen)) {
        struct core_waiting waiting = core_wait_begin(AQI_TRACE_WAIT, AQI_DOING_ASLEEP);
        aqi_count(AQI_CTR_SLEEP, 1);
        if (sleep_poll_until(set.fds, set.count, plan.ms) == 0) aqi_count(AQI_CTR_OVERSLEPT, 1);
        core_wait_end(AQI_TRACE_WAIT, "sleep", waiting, 0);
        arrived = sleep_found_arrival(&set);
        /* Also without an alert: the death of the launcher causes only a hangup. */
        if (control >= 0 && set.fds[set.count - 1].revents != 0) {
            core.boot.attend(core.boot.arg);
            core_progressed();
        }
    }
    sleep_disarm_all(&set);
    core_set_disarmed();
    return arrived;
}

/* If threads sleep without a poller, wake one to become it. */
static void sleep_call_next_poller(void)
{
    if (atomic_load(&waiters.sleepers) == 0 || atomic_load(&waiters.poller) != POLLER_NONE) return;
    atomic_fetch_add(&waiters.activity, 2);
    (void)syscall(SYS_futex, &waiters.activity, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void core_sleep_opening(int sleep_ms)
{
    struct sleep_set set;
    set.count = set.of_transports = set.armed = 0;
    struct core_sleep_plan plan = {.ms = sleep_ms, .fd = -1};
    bool go = sleep_arm_all(&set, &plan);
    sleep_add(&set, core.boot.fd(core.boot.arg));
    if (go) sleep_poll_until(set.fds, set.count, plan.ms);
    sleep_disarm_all(&set);
}

/* Become the poller, unless there is one. */
static bool sleep_as_poller(uint32_t who, int sleep_ms, int extra, uint32_t seen, bool *arrived)
{
    uint32_t nobody = POLLER_NONE;
    if (!atomic_compare_exchange_strong(&waiters.poller, &nobody, who)) return false;
    *arrived = sleep_on_descriptors(sleep_ms, extra, seen);
    /* Before another thread becomes the poller, whose kicks this would consume. */
    if (who == POLLER_PROGRAM) (void)aqi_kick_take(extra);
    atomic_store(&waiters.poller, POLLER_NONE);
    return true;
}

static int sleep_condition_ms(const struct core_wait *wait)
{
    if (!core.multi) return MOST_MS;
    uint64_t waited_ms =
        wait->yield_since != 0 ? (aqi_now_ns() - wait->yield_since) / 1000000 : LEAST_MS;
    return (int)aqi_min(MOST_MS, aqi_max(LEAST_MS, waited_ms / FRACTION));
}

bool core_sleep(struct core_wait *wait, int sleep_ms)
{
    bool arrived = false;
    if (sleep_ms == CORE_CONDITION_MS) sleep_ms = sleep_condition_ms(wait);
    if (!core.multi) return sleep_on_descriptors(sleep_ms, -1, 0);
    uint32_t seen = wait->activity;
    if (seen != 0) { /* else let the caller check once more, with the counter read */
        atomic_fetch_add(&waiters.sleepers, 1);
        if (atomic_load(&waiters.activity) == seen &&
            !sleep_as_poller(POLLER_PROGRAM, sleep_ms, waiters.wake, seen, &arrived)) {
            if (atomic_load(&waiters.poller) == POLLER_PROGRESS_THREAD)
                core_progress_thread_step_aside();
            /* The poller may have called this before we began to wait. */
            struct core_sleep_plan plan = {.ms = sleep_ms, .fd = -1, .waiter = true};
            if (core_sources_before_sleep(&plan)) sleep_on_activity(seen, plan.ms);
        }
        atomic_fetch_sub(&waiters.sleepers, 1);
        sleep_call_next_poller(); /* this thread might not sleep again */
    }
    wait->activity = atomic_load(&waiters.activity);
    return arrived;
}

bool core_sleep_progress_thread(int sleep_ms, int kick)
{
    bool arrived = false;
    if (atomic_load(&waiters.sleepers) == 0 &&
        sleep_as_poller(POLLER_PROGRESS_THREAD, sleep_ms, kick, 0, &arrived)) {
        sleep_call_next_poller();
        return arrived;
    }
    struct pollfd fd = {.fd = kick, .events = POLLIN};
    poll(&fd, 1, sleep_ms);
    return false;
}

aq_status core_sleep_open(void)
{
    core_sources_reset();
    if (!core.multi) return AQ_OK;
    waiters.wake = aqi_kick_new();
    if (waiters.wake >= 0) return AQ_OK;
    return aqi_fail_no_fd(errno, "core", "cannot create a descriptor for waking waiting threads");
}

void core_sleep_close(void)
{
    core_set_close();
    if (waiters.wake >= 0) close(waiters.wake);
    waiters.wake = -1;
}
