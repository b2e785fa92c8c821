/*
 * Sleeping until something arrives. One thread sleeps alone on the descriptors of the transports.
 *
 * Of several threads one at a time is *on watch*: it arms the transports and sleeps on their
 * descriptors. The others sleep on the *bell*, a counter that every round of progress moves which
 * brought something, whoever made it. A thread hears the bell before it looks at what it waits for,
 * and sleeps only if it has not moved since; so it misses nothing. The progress thread keeps the
 * watch only while no thread of the program sleeps.
 */
#include "core/wait/wait.h"

#include "base/clock.h"
#include "base/shmem.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What no bell tells (a barrier in shared memory, a condition of the program's own) is looked at
 * again after a sixteenth of the time waited, within these bounds. */
enum { LEAST_MS = 1, MOST_MS = 10, PATIENCE = 16 };

enum { WATCH_NOBODY, WATCH_PROGRAM, WATCH_KEEPER };

static struct {
    _Atomic uint32_t bell; /* odd, so never 0 */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t watch;
    int wake; /* eventfd: the bell for a thread of the program on watch */
} dormitory = {.bell = 1, .wake = -1};

static void bell_wait(uint32_t heard, int sleep_ms)
{
    struct timespec limit = {.tv_sec = sleep_ms / 1000, .tv_nsec = sleep_ms % 1000 * 1000000L};
    uint64_t begun = aqi_trace_begin(AQI_TRACE_WAIT);
    aqi_count(AQI_CTR_SLEEP, 1);
    (void)syscall(SYS_futex, &dormitory.bell, FUTEX_WAIT_PRIVATE, heard, &limit, NULL, 0);
    aqi_trace_end(AQI_TRACE_WAIT, "sleep", begun, AQI_TRACE_NOBODY, 0);
}

AQI_COLD void core_ring_bell(void)
{
    /* Either the sleeper sees the bell move, or we see that it sleeps: all four are seq_cst. */
    atomic_fetch_add(&dormitory.bell, 2);
    core_set_disarmed(); /* who sleeps in poll() */
    if (atomic_load(&dormitory.sleepers) == 0) return;
    (void)syscall(SYS_futex, &dormitory.bell, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    uint64_t one = 1;
    if (atomic_load(&dormitory.watch) == WATCH_PROGRAM &&
        write(dormitory.wake, &one, sizeof(one)) < 0)
        return; /* it is readable already */
}

uint32_t core_bell(void)
{
    return atomic_load(&dormitory.bell);
}

/*
 * Arm everything, sleep, and disarm. Not if the bell is no longer at `heard` (0: there is no bell).
 * `extra` is another descriptor to wake on, or -1.
 */
static void watch(int sleep_ms, int extra, uint32_t heard)
{
    struct pollfd fds[CORE_MAX_TRANSPORTS + 3];
    nfds_t n = 0;
    unsigned armed = 0;
    struct core_nap nap = {.ms = sleep_ms, .fd = -1};
    bool go = core_sources_before_sleep(&nap);
    while (armed < core.tp_count && go) {
        struct aqi_tp *tp = core.tps[armed++];
        int fd = tp->ops.wait_fd(tp);
        if (fd >= 0)
            fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
        else if (core.carries[armed - 1])
            nap.ms = 1; /* nothing will wake us when a peer sends */
        if (aqi_tp_waits_for_room(tp)) nap.ms = 1;
        go = tp->ops.arm(tp, true) == AQ_OK;
    }
    if (go && nap.fd >= 0) fds[n++] = (struct pollfd){.fd = nap.fd, .events = POLLIN};
    if (extra >= 0) fds[n++] = (struct pollfd){.fd = extra, .events = POLLIN};
    int control = core.boot.fd(core.boot.arg);
    if (control >= 0) fds[n++] = (struct pollfd){.fd = control, .events = POLLIN};
    if (go && (heard == 0 || atomic_load(&dormitory.bell) == heard)) {
        uint64_t begun = aqi_trace_begin(AQI_TRACE_WAIT);
        aqi_count(AQI_CTR_SLEEP, 1);
        poll(fds, n, nap.ms);
        aqi_trace_end(AQI_TRACE_WAIT, "sleep", begun, AQI_TRACE_NOBODY, 0);
        /* Also when there is no alert: that the launcher died makes no alert, only a hang-up. */
        if (control >= 0 && fds[n - 1].revents != 0) {
            core.boot.attend(core.boot.arg);
            core_ring();
        }
    }
    while (armed > 0) {
        struct aqi_tp *tp = core.tps[--armed];
        (void)tp->ops.arm(tp, false);
    }
    core_sources_after_wake();
    core_set_disarmed();
}

/* Be the one on watch, if nobody is. */
static bool take_watch(uint32_t who, int sleep_ms, int extra, uint32_t heard)
{
    uint32_t nobody = WATCH_NOBODY;
    uint64_t rings;
    if (!atomic_compare_exchange_strong(&dormitory.watch, &nobody, who)) return false;
    watch(sleep_ms, extra, heard);
    /* Before the next one is on watch, whose rings these would be. */
    while (who == WATCH_PROGRAM && read(extra, &rings, sizeof(rings)) > 0)
        ;
    atomic_store(&dormitory.watch, WATCH_NOBODY);
    /* Of the program's, it is called by what arrived, or by its own time-out. */
    if (who == WATCH_KEEPER && atomic_load(&dormitory.sleepers) > 0) core_ring_bell();
    return true;
}

static int bounded(const struct core_wait *wait, int sleep_ms)
{
    uint64_t waited_ms =
        wait->yield_since != 0 ? (aqi_now_ns() - wait->yield_since) / 1000000 : LEAST_MS;
    int most = (int)aqi_min(MOST_MS, aqi_max(LEAST_MS, waited_ms / PATIENCE));
    return sleep_ms < most ? sleep_ms : most;
}

void core_sleep(struct core_wait *wait, int sleep_ms)
{
    if (!core.multi) {
        watch(sleep_ms, -1, 0);
        return;
    }
    uint32_t heard = wait->bell;
    if (heard != 0) { /* else look once more, having heard it */
        sleep_ms = bounded(wait, sleep_ms);
        atomic_fetch_add(&dormitory.sleepers, 1);
        if (atomic_load(&dormitory.bell) == heard &&
            !take_watch(WATCH_PROGRAM, sleep_ms, dormitory.wake, heard)) {
            if (atomic_load(&dormitory.watch) == WATCH_KEEPER) core_progress_thread_step_aside();
            bell_wait(heard, sleep_ms);
        }
        atomic_fetch_sub(&dormitory.sleepers, 1);
    }
    wait->bell = atomic_load(&dormitory.bell);
}

void core_sleep_keeper(int sleep_ms, int kick)
{
    if (atomic_load(&dormitory.sleepers) == 0 && take_watch(WATCH_KEEPER, sleep_ms, kick, 0))
        return;
    struct pollfd fd = {.fd = kick, .events = POLLIN};
    poll(&fd, 1, sleep_ms);
}

aq_status core_sleep_open(void)
{
    core_sources_reset();
    if (!core.multi) return AQ_OK;
    dormitory.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (dormitory.wake >= 0) return AQ_OK;
    return aqi_fail_no_fd(errno, "core", "making a descriptor to wake waiting threads by");
}

void core_sleep_close(void)
{
    core_set_close();
    if (dormitory.wake >= 0) close(dormitory.wake);
    dormitory.wake = -1;
}
