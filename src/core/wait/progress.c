/* Progress, and waiting for it: spin, then yield, then sleep on the descriptors. */
#include "core/impl.h"

#include "base/clock.h"

#include <sched.h>
#include <string.h>
#include <time.h>

/* Sleeping costs 30 to 40 us at the wake on virtual machines (facts): only after long idleness. */
static const uint64_t yield_ns = 1000000;

/* About 100 us of polling before the core is given away, where every rank has one. */
enum { SPIN_ROUNDS = 4000, BLOCK_ROUNDS = 50 };

void core_progress_crowd(unsigned threads)
{
    static const unsigned rounds[] = {[AQ_WAIT_AUTO] = SPIN_ROUNDS,
                                      [AQ_WAIT_SPIN] = UINT32_MAX,
                                      [AQ_WAIT_YIELD] = 0,
                                      [AQ_WAIT_BLOCK] = BLOCK_ROUNDS,
                                      [AQ_WAIT_SHARE] = 0};
    bool crowded = (uint64_t)core.params.local_size * threads > core.params.cores;
    aq_wait_mode mode = core.wait_wanted;
    /* Programs ask for it without looking; who spins there keeps the core from whom it waits for.
     */
    if (crowded && core.wait_hinted && mode == AQ_WAIT_SPIN) mode = AQ_WAIT_SHARE;
    core.waiters = threads;
    atomic_store_explicit(&core.wait_mode, mode, memory_order_relaxed);
    core.spin_rounds = crowded && mode == AQ_WAIT_AUTO ? 0 : rounds[mode];
}

aq_status aq_wait_mode_set(aq_wait_mode mode)
{
    size_t row = 0;
    if (!atomic_load(&core.open))
        return aqi_fail(AQ_ESTATE, "core", "aq_wait_mode_set: this process is not in a job");
    if ((unsigned)mode > AQ_WAIT_SHARE)
        return aqi_fail(AQ_EINVAL, "core", "aq_wait_mode_set: %d is not one of aq_wait_mode",
                        (int)mode);
    while (strcmp(aqi_core_settings.rows[row].name, "AQ_WAIT") != 0)
        row++;
    if (strcmp(aqi_setting_origin(&aqi_core_settings, row), "default") != 0) return AQ_OK;
    aqi_spin_lock(&core.lock);
    core.wait_hinted = true;
    core.wait_wanted = mode;
    core_progress_crowd(core.waiters);
    aqi_spin_unlock(&core.lock);
    return AQ_OK;
}

static inline void attend_if_alerted(void)
{
    if (AQI_LIKELY(!core.boot.alert(core.boot.arg))) return;
    core.boot.attend(core.boot.arg);
    core_ring();
}

unsigned core_progress_round(void)
{
    unsigned n = 0;
    attend_if_alerted();
    for (unsigned t = 0; t < core.tp_count; t++)
        n += core.tps[t]->ops.progress(core.tps[t], AQI_PROGRESS_ALL);
    if (AQI_UNLIKELY(atomic_load_explicit(&core_coll_busy, memory_order_relaxed))) core_coll_push();
    if (AQI_UNLIKELY(atomic_load_explicit(&core_conn_used, memory_order_relaxed)))
        n += core_conn_progress(AQI_PROGRESS_ALL);
    if (AQI_UNLIKELY(atomic_load_explicit(&core_after_busy, memory_order_relaxed)))
        n += core_after_push();
    if (n != 0) core_ring();
    return n;
}

unsigned core_progress(void)
{
    if (AQI_UNLIKELY(core.progress_thread))
        atomic_fetch_add_explicit(&core.polls, 1, memory_order_relaxed);
    unsigned n = core_progress_round();
    if (AQI_UNLIKELY(atomic_load_explicit(&core.lost_news, memory_order_relaxed)))
        n += core_lost_tell(), core.boot.attend(core.boot.arg), core_ring();
    return n;
}

void core_yield(void)
{
    aqi_count(AQI_CTR_YIELD, 1);
    sched_yield();
}

void core_wait_round(struct core_wait *wait, int sleep_ms)
{
    if (wait->rounds++ < core.spin_rounds) {
        aqi_pause();
        return;
    }
    uint64_t now = aqi_now_ns();
    if (wait->yield_since == 0) wait->yield_since = now;
    aq_wait_mode mode = atomic_load_explicit(&core.wait_mode, memory_order_relaxed);
    if (mode == AQ_WAIT_YIELD || mode == AQ_WAIT_SPIN ||
        (mode != AQ_WAIT_BLOCK && now - wait->yield_since < yield_ns))
        core_yield();
    else
        core_sleep(wait, sleep_ms);
}

void core_wait_zero(_Atomic uint32_t *counter)
{
    struct core_wait wait = {0};
    while (atomic_load_explicit(counter, memory_order_acquire) != 0)
        core_wait_step(&wait, CORE_SLEEP_MS);
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

static void reply_round(unsigned round)
{
    unsigned n = 0;
    for (unsigned t = 0; t < core.tp_count; t++)
        n += core.tps[t]->ops.progress(core.tps[t], AQI_PROGRESS_REPLIES);
    if (AQI_UNLIKELY(atomic_load_explicit(&core_conn_used, memory_order_relaxed)))
        n += core_conn_progress(AQI_PROGRESS_REPLIES);
    if (n == 0)
        core_hook_relax(NULL, round);
    else
        core_ring();
}

void aqi_core_ending(void)
{
    reply_round(0);
}

AQI_COLD aq_status core_wait_for_room(struct core_wait *wait, const struct core_route *route,
                                      bool reply, unsigned flags)
{
    if (flags & AQ_IMMEDIATE) return AQ_AGAIN;
    if (atomic_load_explicit(&route->lost, memory_order_relaxed)) return AQ_EPEER;
    if (reply && route->rank >= core.params.size) core_conn_stalled(wait, route);
    if (reply)
        reply_round(wait->rounds++);
    else
        core_wait_step(wait, 1); /* room is not an arrival: it wakes nobody */
    return AQ_OK;
}

/* A program that spins here keeps the core from those that it waits for, and one that looks in now
 * and then must not lose it each time. */
enum { POLLS_PER_YIELD = 64 };

unsigned core_poll(struct core_thread *me)
{
    unsigned n = core_progress();
    if (n == 0 && core.spin_rounds == 0 && ++me->idle_polls % POLLS_PER_YIELD == 0) core_yield();
    return n;
}

aq_status aq_poll(void)
{
    struct core_thread *me = core_self();
    aq_status st = core_callable(me, "aq_poll");
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    unsigned n = core_poll(me);
    aqi_count(n != 0 ? AQI_CTR_POLL : AQI_CTR_POLL_EMPTY, 1);
    return n != 0 ? AQ_OK : AQ_AGAIN;
}

aq_status aq_poll_until(int (*condition)(void *arg), void *arg)
{
    struct core_wait wait = {0};
    aq_status st = core_callable(core_self(), "aq_poll_until");
    if (st != AQ_OK) return st;
    if (condition == NULL) return aqi_fail(AQ_EINVAL, "core", "aq_poll_until: no condition");
    uint64_t begun = aqi_trace_begin(AQI_TRACE_WAIT);
    while (!condition(arg))
        core_wait_step(&wait, CORE_CONDITION_MS);
    atomic_thread_fence(memory_order_acquire);
    aqi_trace_end(AQI_TRACE_WAIT, "aq_poll_until", begun, AQI_TRACE_NOBODY, 0);
    return AQ_OK;
}

static_assert(sizeof(struct core_wait) <= sizeof(aq_wait), "the public one has room");

aq_status aq_poll_wait(aq_wait *wait)
{
    struct core_wait state;
    aq_status st = core_callable(core_self(), "aq_poll_wait");
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    if (wait == NULL) return aqi_fail(AQ_EINVAL, "core", "aq_poll_wait: wait is NULL");
    if (core_progress() != 0) {
        *wait = (aq_wait){{0}};
        return AQ_OK;
    }
    memcpy(&state, wait, sizeof(state));
    core_wait_round(&state, CORE_CONDITION_MS);
    memcpy(wait, &state, sizeof(state));
    return AQ_OK;
}
