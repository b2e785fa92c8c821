/* Progress, and waiting for it: spin, then yield, then sleep on the descriptors. */
#include "core/wait/wait.h"

#include "base/clock.h"

#include <sched.h>
#include <string.h>

/* Waits yield for this long before they sleep: a wakeup takes 30 to 40 us on virtual machines. */
static const uint64_t yield_ns = 1000000;

/*
 * A message on the control channel may be what the caller waits for. It counts as an arrival;
 * otherwise this thread would go to sleep with nothing left to wake it.
 */
static inline unsigned progress_attend(void)
{
    core.boot.attend(core.boot.arg);
    core_progressed();
    return 1;
}

static inline unsigned progress_attend_if_alerted(void)
{
    return AQI_LIKELY(!core.boot.alert(core.boot.arg)) ? 0 : progress_attend();
}

/* --- sources --------------------------------------------------------------------------------- */

enum { MOST_SOURCES = 8 };
_Atomic uint32_t core_sources_busy;

static struct {
    const struct core_source *list[MOST_SOURCES];
    unsigned count;
} sources;

void core_sources_reset(void)
{
    sources.count = 0;
}

void core_source_add(const struct core_source *source)
{
    sources.list[sources.count++] = source;
}

static inline unsigned progress_poll_sources(enum aqi_progress_mode mode, uint64_t now)
{
    unsigned n = 0;
    uint32_t left = atomic_load_explicit(&core_sources_busy, memory_order_relaxed);
    for (unsigned i = sources.count; left != 0 && i-- > 0;) { /* last first: connections */
        const struct core_source *s = sources.list[i];
        uint32_t busy = atomic_load_explicit(s->busy, memory_order_relaxed);
        if (busy == 0) continue;
        n += s->poll(mode, now);
        left -= busy < left ? busy : left;
    }
    return n;
}

bool core_sources_before_sleep(struct core_sleep_plan *plan)
{
    bool go = true;
    for (unsigned i = 0; i < sources.count && go; i++)
        if (sources.list[i]->before_sleep != NULL) go = sources.list[i]->before_sleep(plan);
    return go;
}

static void progress_stalled(struct core_wait *wait, const struct core_route *route)
{
    for (unsigned i = 0; i < sources.count; i++)
        if (sources.list[i]->stalled != NULL) sources.list[i]->stalled(wait, route);
}

/* --- rounds ---------------------------------------------------------------------------------- */

uint64_t core_hook_now(void *arg)
{
    (void)arg;
    return AQI_UNLIKELY(atomic_load_explicit(&core.timers, memory_order_relaxed)) ? aqi_now_ns()
                                                                                  : 0;
}

uint64_t core_deadline(void)
{
    uint64_t first = AQI_NO_DEADLINE;
    for (unsigned t = 0; t < core.tp_count && core.timers; t++) {
        uint64_t next = core.tps[t]->ops.next_deadline(core.tps[t]);
        first = aqi_min(first, next);
    }
    return first;
}

static inline unsigned progress_poll_all(enum aqi_progress_mode mode)
{
    unsigned n = 0;
    uint64_t now = core_hook_now(NULL);
    for (unsigned t = 0; t < core.tp_count; t++)
        n += core.tps[t]->ops.progress(core.tps[t], mode, now);
    n += progress_poll_sources(mode, now);
    if (n != 0) core_progressed();
    return n;
}

unsigned core_progress_round(void)
{
    unsigned n = progress_attend_if_alerted();
    return n + progress_poll_all(AQI_PROGRESS_ALL);
}

/*
 * Whether the watched words suffice. Pending work without such a word needs a full round, and one
 * poll in AQI_POLLS_PER_ROUND makes one anyway.
 */
static inline bool progress_by_words(struct core_thread *me)
{
    return AQI_LIKELY((++me->skipped & (AQI_POLLS_PER_ROUND - 1)) != 0 &&
                      !atomic_load_explicit(&core.lost_news, memory_order_relaxed) &&
                      atomic_load_explicit(&aqi_tp_pending, memory_order_relaxed) == 0);
}

static AQI_NOINLINE unsigned progress_of_all(struct aqi_tp *tp)
{
    return tp->ops.progress(tp, AQI_PROGRESS_ALL, core_hook_now(NULL));
}

static AQI_COLD unsigned progress_whole(void)
{
    if (AQI_UNLIKELY(core.progress_thread))
        atomic_fetch_add_explicit(&core.polls, 1, memory_order_relaxed);
    unsigned n = core_progress_round();
    if (AQI_UNLIKELY(atomic_load_explicit(&core.lost_news, memory_order_relaxed))) {
        n += core_lost_report();
        n += progress_attend();
    }
    return n;
}

static AQI_NOINLINE unsigned progress_of_sources(void)
{
    unsigned n = progress_poll_sources(AQI_PROGRESS_ALL, core_hook_now(NULL));
    if (n != 0) core_progressed();
    return n;
}

/* Fast path of empty polls: makes no calls. */
static inline unsigned progress_once(struct core_thread *me)
{
    unsigned n = 0;
    if (!progress_by_words(me)) return progress_whole();
    for (struct aqi_tp *const *look = core.looked_at, *tp; (tp = *look) != NULL; look++) {
        uint32_t watch;
        if (AQI_LIKELY(!aqi_tp_has_moved(tp, &watch))) continue;
        n += AQI_LIKELY(tp->moved != NULL) ? tp->moved(tp, watch) : progress_of_all(tp);
    }
    if (n != 0) core_progressed();
    if (AQI_LIKELY(atomic_load_explicit(&core_sources_busy, memory_order_relaxed) == 0)) return n;
    return n + progress_of_sources();
}

unsigned core_progress(void)
{
    struct core_thread *me = core_self();
    return AQI_LIKELY(me != NULL) ? progress_once(me) : progress_whole();
}

aq_status core_direct_poll(void)
{
    core_progress();
    return AQ_OK;
}

void core_yield(void)
{
    aqi_count(AQI_CTR_YIELD, 1);
    sched_yield();
}

/*
 * Other threads may compete for this core even if the host has enough cores for its ranks: those of
 * another job, or of other hosts of this job that are containers on the same machine. The first
 * yield of a wait measures it; the spin limit is halved if the core was taken away, and doubled
 * otherwise.
 */
static void progress_judge_spin(uint64_t away_ns)
{
    enum { ALONE_NS = 2000 };
    unsigned most = core.spin_rounds, spins = core.spins;
    if (most == 0) return;
    core.spins = (unsigned)(away_ns > ALONE_NS ? aqi_max(spins / 2, 1) : aqi_min(spins * 2, most));
}

/* This wait polls again well before then, so arrivals need not wake another thread. */
static void progress_stay_awake(uint64_t now)
{
    enum { AGAIN_NS = 2000000 };
    atomic_store_explicit(&aqi_tp_awake_until, now + AGAIN_NS, memory_order_relaxed);
}

static uint64_t progress_awake_ns(void)
{
    return atomic_load_explicit(&core.awake_ns, memory_order_relaxed);
}

/* Whether a wait stays awake: it has a core of its own, and an arrival is likely. */
static bool progress_stays_awake(struct core_thread *me, bool first, uint64_t now)
{
    uint64_t most = progress_awake_ns();
    uint32_t news = atomic_load_explicit(&core_news, memory_order_relaxed);
    if (me == NULL || most == 0) return false;
    if (first)
        core_awake_begin(&me->awake, news, me->until_ns != 0, most, now);
    else
        core_awake_look(&me->awake, news, most, now);
    return core_awake_stays(&me->awake, most);
}

static bool progress_yields(struct core_thread *me, const struct core_wait *wait, bool first,
                            uint64_t now)
{
    aq_wait_mode mode = atomic_load_explicit(&core.wait_mode, memory_order_relaxed);
    bool awake = progress_stays_awake(me, first, now);
    if (awake || mode == AQ_WAIT_YIELD || mode == AQ_WAIT_SPIN) {
        progress_stay_awake(now);
        return true;
    }
    return mode != AQ_WAIT_BLOCK && now - wait->yield_since < yield_ns;
}

static void progress_sleep(struct core_thread *me, struct core_wait *wait, int sleep_ms)
{
    bool arrived = core_sleep(wait, sleep_ms);
    uint64_t now = aqi_now_ns();
    if (me != NULL) core_awake_slept(&me->awake, arrived, now);
    if (!arrived) return;
    wait->rounds = 0;
    wait->yield_since = now;
}

/* Poll again without yielding. */
static void progress_spin(uint32_t round)
{
    enum { AWAKE_EVERY = 1024 };
    if (AQI_UNLIKELY(round % AWAKE_EVERY == AWAKE_EVERY - 1)) progress_stay_awake(aqi_now_ns());
    core_pause();
}

/* Whether to skip the yield: on its own core, a wait yields once in LOOKS_PER_YIELD polls. */
static bool progress_keeps_core(const struct core_thread *me, const struct core_wait *wait)
{
    enum { LOOKS_PER_YIELD = 4 };
    return wait->yield_since != 0 && wait->rounds % LOOKS_PER_YIELD != 0 && me != NULL &&
           core_awake_stays(&me->awake, progress_awake_ns());
}

void core_wait_round(struct core_wait *wait, int sleep_ms)
{
    if (wait->rounds++ < core.spins) {
        progress_spin(wait->rounds);
        return;
    }
    struct core_thread *me = core_self();
    if (progress_keeps_core(me, wait)) {
        core_pause();
        return;
    }
    uint64_t now = aqi_now_ns();
    bool first = wait->yield_since == 0;
    if (first) wait->yield_since = now;
    if (progress_yields(me, wait, first, now)) {
        core_yield();
        if (first) progress_judge_spin(aqi_now_ns() - now);
    } else {
        progress_sleep(me, wait, sleep_ms);
    }
    if (me != NULL) me->skipped = AQI_POLLS_PER_ROUND - 1; /* the next round is a full one */
}

void core_wait_limit(struct core_thread *me, uint64_t timeout_ns)
{
    uint64_t now = timeout_ns != UINT64_MAX ? aqi_now_ns() : 0;
    me->until_ns = timeout_ns > UINT64_MAX - now - 1 ? 0 : now + timeout_ns;
}

bool core_wait_is_over(const struct core_thread *me)
{
    return AQI_UNLIKELY(me->until_ns != 0) && aqi_now_ns() >= me->until_ns;
}

void core_wait_zero(_Atomic uint32_t *counter)
{
    struct core_wait wait = {0};
    if (atomic_load_explicit(counter, memory_order_acquire) == 0) return;
    uint32_t outer = aqi_wait_enter(AQI_DOING_OPERATION);
    do
        core_wait_step(&wait, CORE_SLEEP_MS);
    while (atomic_load_explicit(counter, memory_order_acquire) != 0);
    aqi_wait_leave(outer);
}

static inline bool progress_comp_is_over(const struct aqi_comp *comp)
{
    return (atomic_load_explicit(&comp->local, memory_order_acquire) |
            atomic_load_explicit(&comp->remote, memory_order_acquire)) == 0;
}

/* Usually one poll suffices; skip the bookkeeping of a wait. */
void core_wait_comp(struct aqi_comp *comp)
{
    if (progress_comp_is_over(comp)) return;
    (void)progress_once(core_thread_mine);
    if (AQI_LIKELY(progress_comp_is_over(comp))) return;
    core_wait_zero(&comp->remote);
    core_wait_zero(&comp->local);
}

void core_hook_relax(void *arg, unsigned round)
{
    (void)arg;
    (void)progress_attend_if_alerted();
    if (round < core.spin_rounds && round < 100)
        aqi_pause();
    else
        sched_yield();
}

static void progress_reply_round(unsigned round)
{
    if (progress_poll_all(AQI_PROGRESS_REPLIES) == 0) core_hook_relax(NULL, round);
}

void core_hook_relax_pair(void *arg, unsigned round)
{
    (void)arg;
    progress_reply_round(round);
}

/* With a thousand ranks per host, even occasional wakeups for nothing add up. */
enum { OPENING_SLEEP_MS = 2000 };

void aqi_core_idle(void)
{
    static struct core_wait wait; /* one thread at a time waits for the job */
    if (!atomic_load(&core.open)) {
        if (progress_poll_all(AQI_PROGRESS_REPLIES) == 0) core_sleep_opening(OPENING_SLEEP_MS);
    } else if (core_progress() == 0) {
        core_sleep(&wait, CORE_SLEEP_MS);
    }
}

void aqi_core_ending(void)
{
    progress_reply_round(0);
}

AQI_COLD aq_status core_wait_for_room(struct core_wait *wait, const struct core_route *route,
                                      bool reply, unsigned flags)
{
    if (flags & AQ_IMMEDIATE) return AQ_AGAIN;
    if (atomic_load_explicit(&route->lost, memory_order_relaxed)) return AQ_EPEER;
    uint32_t outer = aqi_wait_enter(AQI_DOING_ROOM);
    if (reply && route->rank >= core.params.size) progress_stalled(wait, route);
    if (reply)
        progress_reply_round(wait->rounds++);
    else
        core_wait_step(wait, route->tp->ops.caps & AQI_CAP_ROOM ? CORE_SLEEP_MS : 1);
    aqi_wait_leave(outer);
    return AQ_OK;
}

/*
 * Empty polls of the program. On a shared core, a loop of them must not take the core from the
 * threads that it waits for, but occasional ones must not lose it each time, so one in
 * POLLS_PER_YIELD yields. On a core of its own, more is likely to follow a recent arrival, so the
 * first ones pause as in a wait.
 */
enum { POLLS_PER_YIELD = 64 };

static AQI_NOINLINE void progress_poll_pause(struct core_thread *me)
{
    me->idle_polls++;
    if (core.spin_rounds != 0)
        core_pause();
    else if (me->idle_polls % POLLS_PER_YIELD == 0)
        core_yield();
}

unsigned core_poll(struct core_thread *me)
{
    unsigned n = progress_once(me);
    if (AQI_UNLIKELY(n != 0))
        me->idle_polls = 0;
    else if (AQI_UNLIKELY(me->idle_polls < core.calm_polls))
        progress_poll_pause(me);
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

/* Whether there was activity, in this or another thread. */
static bool progress_poll_news(struct core_thread *me)
{
    bool news = core_poll(me) != 0;
    uint32_t activity = core.multi ? core_activity() : 0;
    news = news || activity != me->seen;
    me->seen = activity;
    return news;
}

aq_status aq_poll_for(uint64_t timeout_ns)
{
    struct core_wait wait = {0};
    struct core_thread *me = core_self();
    aq_status st = core_callable(me, __func__);
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    bool news = progress_poll_news(me);
    if (news || timeout_ns == 0) return news ? AQ_OK : AQ_AGAIN;
    struct core_waiting waiting = core_wait_begin(AQI_TRACE_WAIT, AQI_DOING_CONDITION);
    core_wait_limit(me, timeout_ns);
    while (!news && !core_wait_is_over(me)) {
        core_wait_round(&wait, CORE_SLEEP_MS);
        news = progress_poll_news(me);
    }
    core_wait_limit(me, UINT64_MAX);
    core_wait_end(AQI_TRACE_WAIT, __func__, waiting, 0);
    return news ? AQ_OK : AQ_AGAIN;
}

aq_status aq_poll_until(int (*condition)(void *arg), void *arg, uint64_t timeout_ns)
{
    struct core_wait wait = {0};
    struct core_thread *me = core_self();
    aq_status st = core_callable(me, __func__);
    if (st != AQ_OK) return st;
    if (condition == NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: the condition is NULL", __func__);
    if (condition(arg)) {
        atomic_thread_fence(memory_order_acquire);
        return AQ_OK;
    }
    struct core_waiting waiting = core_wait_begin(AQI_TRACE_WAIT, AQI_DOING_CONDITION);
    core_wait_limit(me, timeout_ns);
    do {
        bool over = core_wait_is_over(me);
        core_wait_step(&wait, CORE_CONDITION_MS);
        if (over) st = condition(arg) ? AQ_OK : AQ_AGAIN;
    } while (st == AQ_OK && !condition(arg));
    core_wait_limit(me, UINT64_MAX);
    atomic_thread_fence(memory_order_acquire);
    core_wait_end(AQI_TRACE_WAIT, __func__, waiting, 0);
    return st;
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
