/*
 * Split-phase barriers with names. In shared memory, notify signals the arrival, and nothing is
 * left to do until the wait. Otherwise, a barrier is an all-reduce of the names by messages or
 * remote writes, driven by progress.
 */
#include "core/coll/coll.h"

#include "core/coll/shm.h"

#include <stdlib.h>

struct core_barrier {
    bool notified;
    struct coll_name agreed;
    struct coll_op op; /* by messages */
};

static void barrier_fold_names(const void *left, void *right_and_out, size_t count,
                               const void *context)
{
    const struct coll_name *a = left;
    struct coll_name *b = right_and_out;
    (void)context;
    for (size_t i = 0; i < count; i++)
        b[i] = coll_name_combine(a[i], b[i]);
}

aq_status core_barrier_open(aq_team *team)
{
    team->barrier = calloc(1, sizeof(*team->barrier));
    return team->barrier != NULL ? AQ_OK : aqi_fail(AQ_ENOMEM, "core", "no memory for a barrier");
}

void core_barrier_close(aq_team *team)
{
    free(team->barrier);
    team->barrier = NULL;
}

bool core_barrier_pending(const aq_team *team)
{
    return team->barrier->notified;
}

static aq_status barrier_check(const char *call, const aq_team *team, unsigned flags)
{
    aq_status st = core_team_usable(call, team);
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    if (AQI_UNLIKELY((flags & ~(AQ_BARRIER_ANONYMOUS | AQ_BARRIER_MISMATCH)) != 0))
        return aqi_fail(AQ_EINVAL, "core", "%s: unknown flags %#x", call, flags);
    return AQ_OK;
}

static struct coll_name barrier_name(int id, unsigned flags)
{
    if (flags & AQ_BARRIER_MISMATCH) return (struct coll_name){COLL_NAME_MISMATCH, 0};
    if (flags & AQ_BARRIER_ANONYMOUS) return (struct coll_name){COLL_NAME_NONE, 0};
    return (struct coll_name){COLL_NAME_GIVEN, id};
}

static aq_status barrier_start(aq_team *team, struct coll_name name)
{
    struct core_barrier *b = team->barrier;
    b->agreed = name;
    b->notified = true;
    if (team->size == 1) return AQ_OK;
    if (team->coll->shm != NULL) {
        coll_shm_arrive(team, name);
        return AQ_OK;
    }
    b->op = (struct coll_op){.args = {.kind = COLL_ALLREDUCE,
                                      .code = coll_barrier_code(team->barrier_code),
                                      .dst = &b->agreed,
                                      .src = &b->agreed,
                                      .nbytes = sizeof(b->agreed),
                                      .element = sizeof(b->agreed),
                                      .written = coll_words_begin(team),
                                      .fn = barrier_fold_names}};
    aq_status st = coll_begin(team, &b->op);
    if (st != AQ_OK) b->notified = false;
    return st;
}

/* Neither this barrier nor a later one of the team can complete. */
static AQI_COLD aq_status barrier_dead(const aq_team *team, const char *call)
{
    team->barrier->notified = false;
    return coll_dead(team, call);
}

static inline aq_status barrier_notify(const char *call, aq_team *team, int id, unsigned flags)
{
    aq_status st = barrier_check(call, team, flags);
    if (st != AQ_OK) return st;
    if (team->barrier->notified)
        return aqi_fail(AQ_ESTATE, "core",
                        "%s: the previous aq_barrier_notify has not been followed by a wait", call);
    if (AQI_UNLIKELY(coll_broken(team))) return barrier_dead(team, call);
    return barrier_start(team, barrier_name(id, flags));
}

aq_status aq_barrier_notify(aq_team *team, int id, unsigned flags)
{
    return barrier_notify("aq_barrier_notify", team, id, flags);
}

static AQI_COLD aq_status barrier_mismatch(bool own)
{
    /* Not logged: programs may use a mismatch as a result. */
    return aqi_fail_quiet(
        AQ_EMISMATCH, own ? "barrier: this process waits with a different id from the one agreed on"
                          : "barrier: the processes passed different ids");
}

/* The barrier is complete: take its result and reset it for the next. */
static inline aq_status barrier_finish(struct core_barrier *b, struct coll_name at_wait)
{
    bool own = b->agreed.state == COLL_NAME_GIVEN && at_wait.state == COLL_NAME_GIVEN &&
               b->agreed.id != at_wait.id;
    b->notified = false;
    aqi_count(AQI_CTR_BARRIER, 1);
    if (AQI_LIKELY(b->agreed.state != COLL_NAME_MISMATCH && !own)) return AQ_OK;
    return barrier_mismatch(own);
}

static inline bool barrier_complete(aq_team *team)
{
    struct core_barrier *b = team->barrier;
    if (team->coll->shm != NULL) return coll_shm_arrived(team, &b->agreed);
    if (team->size == 1) return true;
    return atomic_load_explicit(&b->op.done, memory_order_acquire);
}

/* A member may have died after completing the barrier, so check for completion once more. */
static bool barrier_hopeless(aq_team *team)
{
    return AQI_UNLIKELY(coll_broken(team)) && !barrier_complete(team);
}

static aq_status barrier_check_pending(const char *call, const aq_team *team, unsigned flags)
{
    aq_status st = barrier_check(call, team, flags);
    if (st == AQ_OK && !team->barrier->notified)
        st = aqi_fail(AQ_ESTATE, "core", "%s: called without aq_barrier_notify", call);
    return st;
}

/* An operation by messages may have completed with an error. */
static aq_status barrier_failed(const aq_team *team, const char *call)
{
    if (AQI_UNLIKELY(team->coll->mismatched)) return barrier_dead(team, call);
    if (team->coll->shm == NULL && team->barrier->op.status != AQ_OK)
        return team->barrier->op.status == AQ_EPEER ? barrier_dead(team, call)
                                                    : team->barrier->op.status;
    return AQ_OK;
}

/*
 * If ranks share cores, a barrier costs every rank a time slice with cold caches, so a rank that is
 * early yields the core after each check.
 */
static void barrier_yield_first(aq_team *team)
{
    if (core.spin_rounds > 0 || team->coll->shm == NULL) return;
    for (unsigned turn = 0; turn < COLL_TURNS && !barrier_complete(team); turn++)
        core_yield();
}

static aq_status barrier_wait_for(const char *call, aq_team *team, struct coll_name at_wait,
                                  const struct core_thread *me)
{
    struct core_wait wait = {0};
    bool over = false;
    /*
     * Reading the lines of other members at once would take them from members that are about to
     * write them.
     */
    core_pause();
    unsigned done = core_progress(), looks = core.spin_rounds > 0 ? COLL_LOOKS : 1;
    struct core_waiting waiting = core_wait_begin(AQI_TRACE_COLL, AQI_DOING_BARRIER);
    for (;; done = core_progress()) {
        barrier_yield_first(team);
        for (unsigned i = 0; i < looks; i++) {
            if (barrier_complete(team)) {
                core_wait_end(AQI_TRACE_COLL, call, waiting, 0);
                aq_status st = barrier_failed(team, call);
                if (AQI_UNLIKELY(team->coll->stuck)) coll_waited(team);
                return st == AQ_OK ? barrier_finish(team->barrier, at_wait) : st;
            }
            if (looks > 1) aqi_pause();
        }
        if (barrier_hopeless(team)) {
            aqi_wait_leave(waiting.outer);
            return barrier_dead(team, call);
        }
        if (over) {
            aqi_wait_leave(waiting.outer);
            if (AQI_UNLIKELY(team->coll->stuck)) coll_waited(team);
            return AQ_AGAIN;
        }
        over = core_wait_is_over(me); /* check once more */
        if (done != 0)
            wait = (struct core_wait){0};
        else
            core_wait_round(&wait, CORE_COLL_MS);
        coll_waits_long(team, team->coll->shm == NULL ? &team->barrier->op : NULL, &wait);
    }
}

/* One poll and one check: programs call this between pieces of their own work. */
static aq_status barrier_try(const char *call, aq_team *team, struct coll_name at_wait)
{
    (void)core_poll(core_self());
    if (!barrier_complete(team))
        return barrier_hopeless(team) ? barrier_dead(team, call) : AQ_AGAIN;
    aq_status st = barrier_failed(team, call);
    return st == AQ_OK ? barrier_finish(team->barrier, at_wait) : st;
}

aq_status aq_barrier_wait(aq_team *team, int id, unsigned flags, uint64_t timeout_ns)
{
    struct core_thread *me = core_self();
    aq_status st = barrier_check_pending(__func__, team, flags);
    if (st != AQ_OK) return st;
    if (timeout_ns == 0) return barrier_try(__func__, team, barrier_name(id, flags));
    core_wait_limit(me, timeout_ns);
    st = barrier_wait_for(__func__, team, barrier_name(id, flags), me);
    core_wait_limit(me, UINT64_MAX);
    return st;
}

static inline aq_status barrier_whole(const char *call, aq_team *team)
{
    aq_status st = barrier_notify(call, team, 0, AQ_BARRIER_ANONYMOUS);
    return st == AQ_OK
               ? barrier_wait_for(call, team, (struct coll_name){COLL_NAME_NONE, 0}, core_self())
               : st;
}

aq_status aq_barrier(aq_team *team)
{
    return barrier_whole("aq_barrier", team);
}

aq_status core_barrier_of(const char *call, uint8_t code, aq_team *team)
{
    team->barrier_code = code;
    aq_status st = barrier_whole(call, team);
    team->barrier_code = 0;
    return st;
}

aq_status aq_barrier_result(aq_team *team, int *id)
{
    aq_status st = barrier_check(__func__, team, 0);
    if (st != AQ_OK) return st;
    const struct core_barrier *b = team->barrier;
    if (id == NULL) return aqi_fail(AQ_EINVAL, "core", "%s: id is NULL", __func__);
    if (b->notified)
        return aqi_fail(AQ_ESTATE, "core", "%s: the barrier is not complete yet", __func__);
    if (b->agreed.state == COLL_NAME_MISMATCH) return AQ_EMISMATCH;
    if (b->agreed.state != COLL_NAME_GIVEN) return AQ_AGAIN;
    *id = b->agreed.id;
    return AQ_OK;
}
