/* Progress, and waiting for it: spin, then yield, then sleep on the descriptors. */
#include "core/impl.h"

#include "base/clock.h"
#include "base/topology.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

enum { WAIT_AUTO, WAIT_SPIN, WAIT_YIELD, WAIT_BLOCK };

/* Sleeping costs 30 to 40 us at the wake on virtual machines (facts): only after long idleness. */
static const uint64_t yield_ns = 1000000;

/* About 100 us of polling before the core is given away, where every rank has one. */
enum { SPIN_ROUNDS = 4000, BLOCK_ROUNDS = 50 };

void core_progress_open(void)
{
    bool crowded = core.params.local_size > aqi_cores();
    switch (aqi_core_config.wait) {
    case WAIT_SPIN:
        core.spin_rounds = UINT32_MAX;
        break;
    case WAIT_YIELD:
        core.spin_rounds = 0;
        break;
    case WAIT_BLOCK:
        core.spin_rounds = BLOCK_ROUNDS;
        break;
    default:
        core.spin_rounds = crowded ? 0 : SPIN_ROUNDS;
    }
}

static inline void attend_if_alerted(void)
{
    if (AQI_UNLIKELY(core.boot.alert(core.boot.arg))) core.boot.attend(core.boot.arg);
}

unsigned core_progress_round(void)
{
    unsigned n = 0;
    attend_if_alerted();
    for (unsigned t = 0; t < core.tp_count; t++)
        n += core.tps[t]->ops.progress(core.tps[t], AQI_PROGRESS_ALL);
    if (AQI_UNLIKELY(atomic_load_explicit(&core_coll_busy, memory_order_relaxed))) core_coll_push();
    return n;
}

unsigned core_progress(void)
{
    if (AQI_UNLIKELY(core.progress_thread))
        atomic_fetch_add_explicit(&core.polls, 1, memory_order_relaxed);
    return core_progress_round();
}

AQI_COLD void core_sleep(int sleep_ms, int extra)
{
    struct pollfd fds[CORE_MAX_TRANSPORTS + 2];
    nfds_t n = 0;
    unsigned armed = 0;
    bool go = core_coll_doze(&sleep_ms);
    /*
     * What a thread of the program waits for, another may have received, and several share the
     * armed word, which the other may have cleared: look again soon.
     */
    if (core.multi && extra < 0) sleep_ms = 1;
    while (armed < core.tp_count && go) {
        struct aqi_tp *tp = core.tps[armed++];
        int fd = tp->ops.wait_fd(tp);
        if (fd >= 0)
            fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
        else if (core.carries[armed - 1])
            sleep_ms = 1; /* nothing will wake us when a peer sends */
        if (aqi_tp_waits_for_room(tp)) sleep_ms = 1;
        go = tp->ops.arm(tp, true) == AQ_OK;
    }
    if (extra >= 0) fds[n++] = (struct pollfd){.fd = extra, .events = POLLIN};
    int control = core.boot.fd(core.boot.arg);
    if (control >= 0) fds[n++] = (struct pollfd){.fd = control, .events = POLLIN};
    if (go) {
        aqi_count(AQI_CTR_SLEEP, 1);
        poll(fds, n, sleep_ms);
        /* Also when there is no alert: that the launcher died makes no alert, only a hang-up. */
        if (control >= 0 && fds[n - 1].revents != 0) core.boot.attend(core.boot.arg);
    }
    while (armed > 0) {
        struct aqi_tp *tp = core.tps[--armed];
        (void)tp->ops.arm(tp, false);
    }
    core_coll_wake();
    if (extra < 0 && core.progress_thread) core_progress_thread_disarmed();
}

void core_wait_round(struct core_wait *wait, int sleep_ms)
{
    if (wait->rounds < core.spin_rounds) {
        wait->rounds++;
        aqi_pause();
        return;
    }
    if (aqi_core_config.wait == WAIT_BLOCK) {
        core_sleep(sleep_ms, -1);
        return;
    }
    uint64_t now = aqi_now_ns();
    if (wait->yield_since == 0) wait->yield_since = now;
    if (aqi_core_config.wait == WAIT_YIELD || now - wait->yield_since < yield_ns) {
        aqi_count(AQI_CTR_YIELD, 1);
        sched_yield();
    } else {
        core_sleep(sleep_ms, -1);
    }
}

void core_wait_zero(_Atomic uint32_t *counter)
{
    struct core_wait wait = {0};
    while (atomic_load_explicit(counter, memory_order_acquire) != 0) {
        if (core_progress() != 0)
            wait = (struct core_wait){0};
        else
            core_wait_round(&wait, CORE_SLEEP_MS);
    }
}

void core_hook_relax(void *arg, unsigned round)
{
    (void)arg;
    attend_if_alerted();
    if (round < core.spin_rounds && round < 100)
        aqi_pause();
    else
        sched_yield();
}

void core_reply_round(unsigned round)
{
    unsigned n = 0;
    for (unsigned t = 0; t < core.tp_count; t++)
        n += core.tps[t]->ops.progress(core.tps[t], AQI_PROGRESS_REPLIES);
    if (n == 0) core_hook_relax(NULL, round);
}

aq_status aq_poll(void)
{
    aq_status st = core_callable(core_self(), "aq_poll");
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    unsigned n = core_progress();
    aqi_count(n != 0 ? AQI_CTR_POLL : AQI_CTR_POLL_EMPTY, 1);
    return n != 0 ? AQ_OK : AQ_AGAIN;
}

aq_status aq_poll_until(int (*condition)(void *arg), void *arg)
{
    struct core_wait wait = {0};
    aq_status st = core_callable(core_self(), "aq_poll_until");
    if (st != AQ_OK) return st;
    if (condition == NULL) return aqi_fail(AQ_EINVAL, "core", "aq_poll_until: no condition");
    while (!condition(arg)) {
        if (core_progress() != 0)
            wait = (struct core_wait){0};
        else
            core_wait_round(&wait, CORE_CONDITION_MS);
    }
    atomic_thread_fence(memory_order_acquire);
    return AQ_OK;
}
