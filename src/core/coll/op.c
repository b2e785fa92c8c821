/*
 * Collectives: the operations of a team from their start to their completion. The engines carry
 * them out: shm*.c (shared memory), msg.c with plan.c (messages), and hier.c (both).
 */
#include "core/coll/coll.h"

#include <stdlib.h>
#include <string.h>

static _Atomic uint32_t op_busy; /* operations in flight, which progress drives */
static atomic_bool coll_no_room; /* a message found no room, and no arrival announces room */
static atomic_bool coll_moved;   /* operations have made progress that no wait has noticed yet */

void coll_copy(void *dst, const void *src, size_t len)
{
    if (len != 0 && dst != src) memmove(dst, src, len);
}

/* --- an operation's life --------------------------------------------------------------------- */

static void coll_op_clear(struct coll_op *op)
{
    if (op->engine->free != NULL) op->engine->free(op);
}

static void coll_op_free(struct coll_op *op)
{
    coll_op_clear(op);
    if (op->owned) free(op);
}

aq_status coll_open(aq_team *team)
{
    struct core_coll *coll = calloc(1, sizeof(*coll));
    if (coll == NULL) return aqi_fail(AQ_ENOMEM, "core", "no memory for the state of a team");
    coll->last = &coll->first;
    team->coll = coll;
    return AQ_OK;
}

/* Also called with operations in flight, when the job ends without them. */
void coll_close(aq_team *team)
{
    struct core_coll *coll = team->coll;
    if (coll == NULL) return;
    while (coll->first != NULL) {
        struct coll_op *op = coll->first;
        coll->first = op->next;
        coll_op_free(op);
    }
    coll_msg_close(coll);
    coll_words_free(coll->words, coll_broken(team));
    free(coll->shm);
    free(coll);
    team->coll = NULL;
}

bool coll_idle(const aq_team *team)
{
    return team->coll->first == NULL;
}

bool coll_broken(const aq_team *team)
{
    if (AQI_LIKELY(!atomic_load_explicit(&core.any_lost, memory_order_relaxed))) return false;
    team = coll_whole(team);
    if (team->coll != NULL && atomic_load(&team->coll->failed)) return true;
    for (aq_rank i = 0; i < team->size; i++)
        if (atomic_load(&core.routes[aq_team_to_job(team, i)].lost)) return true;
    return false;
}

void coll_fail(const aq_team *team)
{
    atomic_store(&coll_whole(team)->coll->failed, true);
    atomic_store(&core.any_lost, true); /* so that threads that check for deaths see it */
}

static void coll_list_add(aq_team *team, struct coll_op *op)
{
    struct core_coll *coll = team->coll;
    op->seq = coll->started++;
    bool sizes = op->args.code == COLL_CODE_SIZES && op->then != NULL;
    op->signature = coll_signature_of(sizes ? &op->then->args : &op->args);
    if (op->engine->messages) {
        coll->past[op->seq % COLL_PAST].seq = op->seq;
        coll->past[op->seq % COLL_PAST].signature = op->signature;
    }
    coll->messages += op->engine->messages;
    op->next = NULL;
    *coll->last = op;
    coll->last = &op->next;
    core_team_activate(team);
    core_source_count(&op_busy, 1);
}

/* Remove it from the list and notify the thread that waits; `op` may be freed on return. */
static void coll_complete(aq_team *team, struct coll_op **at)
{
    struct core_coll *coll = team->coll;
    struct coll_op *op = *at;
    *at = op->next;
    if (coll->last == &op->next) coll->last = at;
    coll->messages -= op->engine->messages;
    coll->op_failed = coll->op_failed || op->status != AQ_OK;
    coll->moved = true;
    coll_op_clear(op);
    core_source_count(&op_busy, -1u);
    if (op->then != NULL) {
        bool differ = op->args.code == COLL_CODE_SIZES && op->then->sizes != 0;
        if (op->status == AQ_EMISMATCH) /* all members know, and the barrier still follows */
            aqi_comp_fail(&op->then->event->set.put, op->status);
        else if (op->status != AQ_OK || differ)
            op->then->status = op->status != AQ_OK ? op->status : AQ_EMISMATCH;
        atomic_store_explicit(&op->then->held, false, memory_order_release);
    }
    if (op->event != NULL) {
        struct aqi_comp *comp = &op->event->set.put;
        if (op->status != AQ_OK) aqi_comp_fail(comp, op->status);
        aqi_comp_local(comp);
        aqi_comp_remote(comp);
    }
    if (op->owned)
        free(op);
    else
        atomic_store_explicit(&op->done, true, memory_order_release);
}

/* The operations ahead of one in the list, as far as it must wait for them. */
struct coll_ahead {
    uint32_t slots;
    bool messages, throttle;
};

static bool coll_may_push(const struct coll_ahead *ahead, const struct coll_op *op)
{
    if (AQI_UNLIKELY(atomic_load_explicit(&op->held, memory_order_acquire))) return false;
    if (!op->engine->messages) return (ahead->slots & 1u << op->slot) == 0;
    return !ahead->throttle && (op->args.kind != COLL_THROTTLE || !ahead->messages);
}

static void coll_pass(struct coll_ahead *ahead, const struct coll_op *op)
{
    if (op->engine->messages)
        ahead->messages = true;
    else
        ahead->slots |= 1u << op->slot;
    if (op->args.kind == COLL_THROTTLE) ahead->throttle = true;
}

bool coll_any_ready(const aq_team *team)
{
    struct coll_ahead ahead = {0};
    for (const struct coll_op *op = team->coll->first; op != NULL; op = op->next) {
        if (op->engine->ready != NULL && coll_may_push(&ahead, op) && op->engine->ready(team, op))
            return true;
        coll_pass(&ahead, op);
    }
    return false;
}

/*
 * Push every operation that can proceed. Called with the lock held. In a broken team all end, parts
 * before the operations that they belong to.
 */
static bool coll_push_list(aq_team *team)
{
    struct core_coll *coll = team->coll;
    struct coll_ahead ahead = {0};
    bool broken = coll_broken(team), no_room = false;
    coll->moved = team->local != NULL && coll_push_team(team->local);
    for (struct coll_op **at = &coll->first; *at != NULL;) {
        struct coll_op *op = *at;
        bool over = broken;
        if (broken) {
            op->status = AQ_EPEER;
            if (coll->shm != NULL) coll_shm_leave(team);
        } else if (coll_may_push(&ahead, op)) {
            over = op->engine->push(team, op, &no_room);
        }
        if (over) {
            if (AQI_UNLIKELY(op->status == AQ_EPEER)) coll_fail(team);
            if (AQI_UNLIKELY(broken) && op->engine->messages) coll_msg_failed(team, op);
            broken = broken || op->status == AQ_EPEER;
            coll_complete(team, at);
            continue;
        }
        coll_pass(&ahead, op);
        if (ahead.slots == (1u << COLL_SLOTS) - 1 && (ahead.throttle || coll->messages == 0)) break;
        at = &op->next;
    }
    if (no_room) atomic_store_explicit(&coll_no_room, true, memory_order_relaxed);
    return coll->moved;
}

bool coll_push_team(aq_team *team)
{
    core_lock(&team->coll->lock);
    bool moved = coll_push_list(team);
    core_unlock(&team->coll->lock);
    if (moved) core_progressed(); /* another thread may be waiting for it */
    return moved;
}

/* Push the operations of a team. Returns whether any are left. */
static bool coll_try_push_team(aq_team *team)
{
    struct core_coll *coll = team->coll;
    if (!core_try_lock(&coll->lock)) return true;
    if (coll->first != NULL && coll_push_list(team))
        atomic_store_explicit(&coll_moved, true, memory_order_relaxed);
    bool active = team->active = coll->first != NULL;
    core_unlock(&coll->lock);
    return active;
}

static unsigned coll_take_moved(void)
{
    return atomic_load_explicit(&coll_moved, memory_order_relaxed) &&
           atomic_exchange(&coll_moved, false);
}

static unsigned coll_poll(enum aqi_progress_mode mode, uint64_t now)
{
    (void)now;
    if (mode != AQI_PROGRESS_ALL) return 0;
    atomic_store_explicit(&coll_no_room, false, memory_order_relaxed);
    core_team_each_active(coll_try_push_team);
    return coll_take_moved();
}

/* If another thread holds the lock, do not sleep: it may make progress. */
static bool coll_doze(aq_team *team)
{
    struct core_coll *coll = team->coll;
    if (!core_try_lock(&coll->lock)) return false;
    bool moved = coll->first != NULL && coll_push_list(team);
    if (!moved && coll->shm != NULL) moved = !coll_shm_doze(team);
    core_unlock(&coll->lock);
    if (moved) atomic_store_explicit(&coll_moved, true, memory_order_relaxed);
    return !moved;
}

/* Ask the members that we wait for in shared memory to wake us. */
static bool coll_before_sleep(struct core_sleep_plan *plan)
{
    bool go = core_team_each(coll_doze);
    if (atomic_load_explicit(&coll_no_room, memory_order_relaxed)) plan->ms = 1;
    if (coll_take_moved() != 0) core_progressed();
    return go;
}

void coll_register(void)
{
    static const struct core_source source = {
        .busy = &op_busy, .poll = coll_poll, .before_sleep = coll_before_sleep};
    core_source_add(&source);
    core_stuck_check = (struct core_stuck_check){.busy = &op_busy,
                                                 .due = coll_may_be_stuck,
                                                 .waits = coll_event_waits,
                                                 .over = coll_event_waited};
    coll_msg_register();
}

/* --- starting and waiting -------------------------------------------------------------------- */

/* No data moves, so there is nothing to wait for. */
static bool coll_is_empty(const aq_team *team, const struct coll_args *args)
{
    return args->kind != COLL_BARRIER && !args->vary && coll_longest(team, args) == 0;
}

size_t coll_longest(const aq_team *team, const struct coll_args *args)
{
    const size_t *counts = args->send_counts != NULL ? args->send_counts : args->recv_counts;
    size_t most = counts != NULL ? 0 : args->nbytes;
    for (aq_rank i = 0; counts != NULL && i < team->size; i++)
        most = aqi_max(most, counts[i]);
    return most;
}

/* All steps that can fail, before anything is appended. */
static aq_status coll_choose_engine(aq_team *team, struct coll_op *op)
{
    static const struct coll_engine *const engines[] = {&coll_shm_engine, &coll_hier_engine,
                                                        &coll_msg_engine};
    unsigned i = 0;
    while (engines[i]->takes != NULL && !engines[i]->takes(team, &op->args))
        i++;
    op->engine = engines[i];
    op->slot = COLL_NO_SLOT;
    return op->engine->prepare(team, op);
}

static void coll_begin_op(aq_team *team, struct coll_op *op)
{
    coll_list_add(team, op);
    if (op->engine->begin != NULL) op->engine->begin(team, op);
}

/* A slow member must keep messages that arrive early: this bounds how far others get ahead. */
static aq_status coll_append_throttle(aq_team *team)
{
    if (team->coll->message_ops++ % COLL_THROTTLE_EVERY != COLL_THROTTLE_EVERY - 1) return AQ_OK;
    struct coll_op *throttle = calloc(1, sizeof(*throttle));
    if (throttle == NULL) return aqi_fail(AQ_ENOMEM, "core", "no memory for a collective");
    throttle->args.kind = COLL_THROTTLE;
    throttle->owned = true;
    aq_status st = coll_choose_engine(team, throttle);
    if (st == AQ_OK) {
        coll_begin_op(team, throttle);
    } else {
        coll_op_free(throttle);
    }
    return st;
}

/* Called with the lock held. */
static aq_status coll_enter(aq_team *team, struct coll_op *op)
{
    aq_status st = coll_choose_engine(team, op);
    if (st == AQ_OK && op->engine->messages) st = coll_append_throttle(team);
    if (st == AQ_OK)
        coll_begin_op(team, op);
    else
        coll_op_clear(op);
    return st;
}

aq_status coll_append(aq_team *team, struct coll_op *op)
{
    core_lock(&team->coll->lock);
    aq_status st = coll_enter(team, op);
    core_unlock(&team->coll->lock);
    return st;
}

aq_status coll_begin(aq_team *team, struct coll_op *op)
{
    bool moved = false;
    core_lock(&team->coll->lock);
    aq_status st = coll_enter(team, op);
    for (op = op->then; st == AQ_OK && op != NULL; op = op->then)
        if (coll_enter(team, op) != AQ_OK)
            core.boot.fatal(core.boot.arg, "no memory for a part of a collective");
    if (st == AQ_OK) moved = coll_push_list(team);
    core_unlock(&team->coll->lock);
    if (moved) core_progressed();
    return st;
}

static bool coll_wait_round(aq_team *team, const _Atomic bool *done, struct core_wait *wait)
{
    bool moved = false;
    /* If ranks share cores, a time slice without work should be short. */
    for (unsigned i = 0; core.spin_rounds == 0 && team->coll->shm != NULL && i < COLL_TURNS; i++) {
        core_yield();
        moved = coll_push_team(team) || moved;
        if (atomic_load_explicit(done, memory_order_acquire)) return true;
    }
    for (unsigned i = 0; core.spin_rounds > 0 && i < COLL_LOOKS; i++) {
        if (atomic_load_explicit(done, memory_order_acquire)) return true;
        core_pause();
        moved = coll_push_team(team) || moved;
    }
    if (core_progress() != 0 || moved)
        *wait = (struct core_wait){0};
    else if (!atomic_load_explicit(done, memory_order_acquire))
        core_wait_round(wait, CORE_COLL_MS);
    return atomic_load_explicit(done, memory_order_acquire);
}

AQI_COLD aq_status coll_dead(const aq_team *team, const char *call)
{
    for (aq_rank i = 0; i < team->size; i++)
        if (atomic_load(&core.routes[aq_team_to_job(team, i)].lost))
            return aqi_fail(AQ_EPEER, "core",
                            "%s: rank %u of the team (job rank %u) is dead or "
                            "unreachable",
                            call, i, aq_team_to_job(team, i));
    return aqi_fail(AQ_EPEER, "core",
                    "%s: members of the team are in different collectives, as happens after a "
                    "death: the team can no longer be used",
                    call);
}

aq_status coll_run(const char *call, aq_team *team, const struct coll_args *args)
{
    struct coll_op op = {.args = *args}, check = {0};
    struct core_wait wait = {0};
    if (coll_broken(team)) return coll_dead(team, call);
    if (coll_is_empty(team, args)) return AQ_OK;
    struct core_waiting waiting = core_wait_begin(AQI_TRACE_COLL, AQI_DOING_COLLECTIVE);
    aq_status st = coll_begin(team, coll_sizes_first(team, &op, &check) ? &check : &op);
    if (st != AQ_OK) {
        aqi_wait_leave(waiting.outer);
        return st;
    }
    while (!atomic_load_explicit(&op.done, memory_order_acquire) &&
           !coll_wait_round(team, &op.done, &wait))
        coll_waits_long(team, &op, &wait);
    if (AQI_UNLIKELY(team->coll->stuck)) coll_waited(team);
    core_wait_end(AQI_TRACE_COLL, call, waiting, args->nbytes);
    if (AQI_UNLIKELY(op.status == AQ_EMISMATCH))
        return aqi_fail(op.status, "core",
                        "%s: the block sizes of senders and receivers differ; no data was moved",
                        call);
    return op.status == AQ_EPEER ? coll_dead(team, call) : op.status;
}

static void coll_parts_free(struct coll_op *part)
{
    while (part != NULL) {
        struct coll_op *then = part->then;
        free(part);
        part = then;
    }
}

/* A new operation, to begin after `last`; NULL: no memory. `*head` is the first to append. */
static struct coll_op *coll_part_new(const aq_team *team, const struct coll_args *args,
                                     const struct coll_op *last, struct coll_op **head)
{
    struct coll_op *op = calloc(1, sizeof(*op)), *check = NULL;
    if (op != NULL && args->vary) check = calloc(1, sizeof(*check));
    if (op == NULL || (args->vary && check == NULL)) {
        free(op);
        return NULL;
    }
    op->args = *args;
    op->owned = true;
    atomic_store_explicit(&op->held, last != NULL, memory_order_relaxed);
    *head = op;
    if (check == NULL) return op;
    check->owned = true;
    if (coll_sizes_first(team, op, check))
        *head = check;
    else
        free(check);
    return op;
}

/* The operation, between the barriers that the flags request; the last of them completes `root`. */
static struct coll_op *coll_parts_new(const aq_team *team, const struct coll_args *args,
                                      unsigned flags, struct aqi_op *root)
{
    static const struct coll_args barrier = {.kind = COLL_BARRIER, .nbytes = 1, .element = 1};
    const struct coll_args *wanted[] = {flags & AQ_COLL_IN_ALL ? &barrier : NULL, args,
                                        flags & AQ_COLL_OUT_ALL ? &barrier : NULL};
    struct coll_op *first = NULL, *last = NULL, *head;
    for (unsigned i = 0; i < AQI_COUNT_OF(wanted); i++) {
        if (wanted[i] == NULL) continue;
        struct coll_op *op = coll_part_new(team, wanted[i], last, &head);
        if (op == NULL) {
            coll_parts_free(first);
            return NULL;
        }
        *(last != NULL ? &last->then : &first) = head;
        last = op;
    }
    last->event = root;
    return first;
}

aq_status coll_start(const char *call, aq_team *team, const struct coll_args *args, unsigned flags,
                     aq_event *event)
{
    if (coll_broken(team)) return coll_dead(team, call);
    if (coll_is_empty(team, args)) {
        *event = AQ_EVENT_DONE;
        return AQ_OK;
    }
    struct aqi_op *root = core_op_get(core_self());
    struct coll_op *parts = root != NULL ? coll_parts_new(team, args, flags, root) : NULL;
    aq_status st = AQ_ENOMEM;
    if (parts == NULL) {
        aqi_fail(st, "core", "%s: no memory for another operation", call);
        goto undo;
    }
    atomic_store_explicit(&root->set.put.local, 1, memory_order_relaxed);
    atomic_store_explicit(&root->set.put.remote, 1, memory_order_relaxed);
    aqi_trace_point(AQI_TRACE_COLL, call, AQI_TRACE_NOBODY, args->nbytes);
    st = coll_begin(team, parts);
    if (st != AQ_OK) goto undo;
    *event = root;
    return AQ_OK;
undo:
    if (root != NULL) core_op_put(root);
    coll_parts_free(parts);
    return st;
}
