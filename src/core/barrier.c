/*
 * Barriers: dissemination over active messages (Hensgen, Finkel, Manber 1988). In step k a rank
 * tells the one 2^k after it what it knows; after log2(n) steps everybody knows of everybody.
 * Steps are pushed by progress, so a split-phase barrier advances while its caller does other work.
 */
#include "core/impl.h"

#include <stdlib.h>
#include <string.h>

/* What a rank knows so far about the names: none, one, or that two differ. */
enum name_state { ANONYMOUS, NAMED, MISMATCHED };

struct name {
    int32_t state;
    int32_t id;
};

enum { MAX_STEPS = 32 };

struct arrival {
    _Atomic uint32_t present; /* release by the handler, acquire by push */
    struct name name;
};

struct core_barrier {
    struct aqi_spin lock; /* of the fields below, but for `from` */
    bool notified;
    atomic_bool complete;
    bool sent; /* the message of this step */
    uint32_t step, steps;
    uint32_t epoch;
    struct name name;                  /* known so far */
    struct name mine;                  /* as given to notify */
    struct arrival from[2][MAX_STEPS]; /* by parity of the epoch: a peer is at most one ahead */
};

_Atomic unsigned core_barrier_busy;

static struct name combine(struct name a, struct name b)
{
    if (a.state == ANONYMOUS) return b;
    if (b.state == ANONYMOUS) return a;
    if (a.state == NAMED && b.state == NAMED && a.id == b.id) return a;
    return (struct name){MISMATCHED, 0};
}

/* args: parity, step, state, id. A peer that lies can only break its own job's barrier. */
static void on_arrival(aq_am *am)
{
    struct core_barrier *b = core.world.barrier;
    if (am->nargs != 4 || am->args[1] < 0 || am->args[1] >= MAX_STEPS) return;
    struct arrival *arrival = &b->from[am->args[0] & 1][am->args[1]];
    arrival->name = (struct name){am->args[2], am->args[3]};
    atomic_store_explicit(&arrival->present, 1, memory_order_release);
}

/* One step as far as it goes; true when it is behind us. */
static bool push_step(struct core_barrier *b)
{
    struct aq_team *team = &core.world;
    if (!b->sent) {
        aq_rank to = (aq_rank)((team->rank + ((uint64_t)1 << b->step)) % team->size);
        aq_arg args[] = {(aq_arg)(b->epoch & 1), (aq_arg)b->step, b->name.state, b->name.id};
        if (core_try_send(&core.routes[to], CORE_HANDLER_BARRIER, args, 4) != AQ_OK) return false;
        b->sent = true;
    }
    struct arrival *arrival = &b->from[b->epoch & 1][b->step];
    if (!atomic_load_explicit(&arrival->present, memory_order_acquire)) return false;
    b->name = combine(b->name, arrival->name);
    atomic_store_explicit(&arrival->present, 0, memory_order_relaxed);
    b->sent = false;
    b->step++;
    return true;
}

void core_barrier_push(void)
{
    struct core_barrier *b = core.world.barrier;
    if (!aqi_spin_try(&b->lock)) return;
    if (b->notified && !atomic_load_explicit(&b->complete, memory_order_relaxed)) {
        while (b->step < b->steps && push_step(b))
            ;
        unsigned busy = b->sent ? BARRIER_WAITS : BARRIER_STUCK;
        if (b->step == b->steps) {
            atomic_store_explicit(&b->complete, true, memory_order_release);
            busy = BARRIER_IDLE;
        }
        atomic_store_explicit(&core_barrier_busy, busy, memory_order_relaxed);
    }
    aqi_spin_unlock(&b->lock);
}

aq_status core_barrier_open(aq_team *team)
{
    struct core_barrier *b = calloc(1, sizeof(*b));
    if (b == NULL) return aqi_fail(AQ_ENOMEM, "core", "no memory for a barrier");
    while (((uint64_t)1 << b->steps) < team->size)
        b->steps++;
    team->barrier = b;
    atomic_store(&core_barrier_busy, BARRIER_IDLE);
    core_register_system(CORE_HANDLER_BARRIER, on_arrival, "barrier");
    return AQ_OK;
}

void core_barrier_close(aq_team *team)
{
    atomic_store(&core_barrier_busy, BARRIER_IDLE);
    free(team->barrier);
    team->barrier = NULL;
}

static aq_status check(const char *call, const aq_team *team, unsigned flags)
{
    aq_status st = aqi_core_callable(call);
    if (st != AQ_OK) return st;
    if (team != &core.world || (flags & ~(AQ_BARRIER_ANONYMOUS | AQ_BARRIER_MISMATCH)) != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: not the team of the whole job, or unknown flags",
                        call);
    return AQ_OK;
}

static struct name name_of(int id, unsigned flags)
{
    if (flags & AQ_BARRIER_MISMATCH) return (struct name){MISMATCHED, 0};
    if (flags & AQ_BARRIER_ANONYMOUS) return (struct name){ANONYMOUS, 0};
    return (struct name){NAMED, id};
}

aq_status aq_barrier_notify(aq_team *team, int id, unsigned flags)
{
    aq_status st = check("aq_barrier_notify", team, flags);
    if (st != AQ_OK) return st;
    struct core_barrier *b = team->barrier;
    aqi_spin_lock(&b->lock);
    bool pending = b->notified;
    if (!pending) {
        b->notified = true;
        b->name = b->mine = name_of(id, flags);
        b->step = 0;
        b->sent = false;
        atomic_store_explicit(&b->complete, false, memory_order_relaxed);
        atomic_store_explicit(&core_barrier_busy, BARRIER_STUCK, memory_order_relaxed);
    }
    aqi_spin_unlock(&b->lock);
    if (pending)
        return aqi_fail(AQ_ESTATE, "core",
                        "aq_barrier_notify: the last notify has not been followed by a wait");
    core_barrier_push();
    return AQ_OK;
}

/* The barrier is complete: take its result and make it ready for the next. */
static aq_status finish(struct core_barrier *b, struct name at_wait)
{
    aqi_spin_lock(&b->lock);
    struct name agreed = b->name;
    bool own = b->mine.state == NAMED && at_wait.state == NAMED && b->mine.id != at_wait.id;
    b->notified = false;
    b->epoch++;
    aqi_spin_unlock(&b->lock);
    aqi_count(AQI_CTR_BARRIER, 1);
    if (agreed.state != MISMATCHED && !own) return AQ_OK;
    return aqi_fail(AQ_EMISMATCH, "core",
                    own ? "barrier: this process named another id at wait than at notify"
                        : "barrier: the processes named different ids");
}

static aq_status pending(const char *call, const aq_team *team, unsigned flags)
{
    aq_status st = check(call, team, flags);
    if (st == AQ_OK && !team->barrier->notified)
        st = aqi_fail(AQ_ESTATE, "core", "%s: without aq_barrier_notify", call);
    return st;
}

static aq_status dead(const char *call)
{
    return aqi_fail(AQ_EPEER, "core", "%s: a member of the team is dead", call);
}

aq_status aq_barrier_wait(aq_team *team, int id, unsigned flags)
{
    struct core_wait wait = {0};
    aq_status st = pending("aq_barrier_wait", team, flags);
    if (st != AQ_OK) return st;
    struct core_barrier *b = team->barrier;
    while (!atomic_load_explicit(&b->complete, memory_order_acquire)) {
        if (atomic_load_explicit(&core.any_lost, memory_order_relaxed))
            return dead("aq_barrier_wait");
        if (core_progress() != 0)
            wait = (struct core_wait){0};
        else
            core_wait_round(&wait, CORE_SLEEP_MS);
    }
    return finish(b, name_of(id, flags));
}

aq_status aq_barrier_try(aq_team *team, int id, unsigned flags)
{
    aq_status st = pending("aq_barrier_try", team, flags);
    if (st != AQ_OK) return st;
    core_progress();
    struct core_barrier *b = team->barrier;
    if (atomic_load_explicit(&b->complete, memory_order_acquire))
        return finish(b, name_of(id, flags));
    return atomic_load(&core.any_lost) ? dead("aq_barrier_try") : AQ_AGAIN;
}

aq_status aq_barrier(aq_team *team)
{
    aq_status st = aq_barrier_notify(team, 0, AQ_BARRIER_ANONYMOUS);
    return st == AQ_OK ? aq_barrier_wait(team, 0, AQ_BARRIER_ANONYMOUS) : st;
}
