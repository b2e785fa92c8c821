/*
 * Collectives by messages: carries out plans. Small payloads are sent at once and kept by a
 * receiver that is not ready for them; of large ones the receiver asks for the bytes when it is.
 * Every COLL_GATE_EVERY operations the members wait for each other, which bounds what is kept.
 */
#include "core/coll/coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EAGER = 4096 };

/* The tag of who has waited long and asks what we are in. */
#define TAG_ASK UINT32_MAX

/* The arguments of all messages; those with bytes have their offset (2), too. */
enum { ARG_TEAM, ARG_SEQ = 2, ARG_TAG, ARG_MARK, ARGS = 7, ARG_OFFSET = ARGS, ARGS_BYTES = 9 };

/* A message for an operation that has not started here. */
struct coll_early {
    struct coll_early *next;
    uint32_t seq, tag, source;
    struct coll_mark mark;
    bool ready; /* asks for the bytes of a send; else brings those of a receive */
    size_t len;
    unsigned char payload[];
};

static size_t eager(void)
{
    return aqi_min(EAGER, core.max_medium);
}

/* --- arrivals -------------------------------------------------------------------------------- */

static struct coll_step *find_step(struct coll_op *op, uint8_t type, uint32_t source, uint32_t tag)
{
    for (size_t i = op->plan.at; i < op->plan.count; i++) {
        struct coll_step *step = &op->plan.steps[i];
        if (step->type == type && step->peer == source && step->tag == tag && !step->done)
            return step;
    }
    return NULL;
}

static void drop(void)
{
    aqi_count(AQI_CTR_AM_DROPPED, 1);
}

/* Bytes that came before their turn wait in the step, as the place may still be in use. */
static void keep(struct coll_op *op, struct coll_step *step, const void *payload, size_t len)
{
    if (step->early != NULL || len != step->len || len > eager()) {
        drop();
        return;
    }
    step->early = malloc(len);
    if (step->early == NULL)
        op->status = aqi_fail(AQ_ENOMEM, "core", "no memory for a message of a collective");
    else
        memcpy(step->early, payload, len);
}

static void take_bytes(struct coll_op *op, uint32_t source, uint32_t tag, uint64_t offset,
                       const void *payload, size_t len)
{
    struct coll_step *step = find_step(op, STEP_RECV, source, tag);
    if (step == NULL || len > step->len || offset > step->len - len) {
        drop();
    } else if (!step->begun) {
        keep(op, step, payload, len);
    } else {
        memcpy(step->to + offset, payload, len);
        step->moved += len;
        step->done = step->moved == step->len;
    }
}

static void take_ready(struct coll_op *op, uint32_t source, uint32_t tag)
{
    struct coll_step *step = find_step(op, STEP_SEND, source, tag);
    if (tag == TAG_ASK) return; /* compared already */
    if (step == NULL)
        drop();
    else
        step->ready = true;
}

static struct coll_op *find_op(struct core_coll *coll, uint32_t seq)
{
    struct coll_op *op = coll->first;
    while (op != NULL && op->seq != seq)
        op = op->next;
    return op;
}

static struct coll_mark mark_in(const aq_am *am)
{
    return (struct coll_mark){(uint32_t)am->args[ARG_MARK], (uint32_t)am->args[ARG_MARK + 1],
                              (uint32_t)am->args[ARG_MARK + 2]};
}

static bool alike(const aq_team *team, const struct coll_op *op, uint32_t source,
                  struct coll_mark mark)
{
    if (AQI_LIKELY(!op->shared && coll_mark_same(&op->mark, &mark))) return true;
    coll_differ(team, op->mark, aq_team_from_job(team, source), mark);
    return false;
}

/* One of an operation ahead of us: bounded by the gates. */
static void put_by(struct core_coll *coll, const aq_am *am, bool ready)
{
    struct coll_early *early = malloc(sizeof(*early) + am->nbytes);
    if (early == NULL || am->nbytes > eager()) {
        free(early);
        core.boot.fatal(core.boot.arg, "no memory for a message of a collective");
        return;
    }
    *early = (struct coll_early){.next = coll->early,
                                 .seq = (uint32_t)am->args[ARG_SEQ],
                                 .tag = (uint32_t)am->args[ARG_TAG],
                                 .mark = mark_in(am),
                                 .source = am->source,
                                 .ready = ready,
                                 .len = am->nbytes};
    if (am->nbytes != 0) memcpy(early->payload, am->payload, am->nbytes);
    coll->early = early;
}

/*
 * A part of a collective of a team that is not here. After a death some give up teams that others
 * still try; else the program goes on with a team that this process has destroyed, and the sender
 * would wait for ever.
 */
static AQI_COLD void unknown_team(const aq_am *am)
{
    char why[300];
    drop();
    if (core.params.survive || atomic_load(&core.any_lost)) return;
    snprintf(
        why, sizeof(why),
        "rank %u goes on with a collective of a team that rank %u, here, has destroyed or never "
        "made (the %uth of rank %u): all members call aq_team_destroy, after their last use",
        am->source, core.params.rank, (uint32_t)am->args[1], (uint32_t)am->args[0]);
    core.boot.fatal(core.boot.arg, why);
}

/* A part of an operation that is over here, or a question about it: here it was another one. */
static AQI_COLD void too_late(const aq_team *team, const aq_am *am)
{
    uint32_t seq = (uint32_t)am->args[ARG_SEQ], place = seq % COLL_PAST;
    struct coll_mark theirs = mark_in(am), mine = {COLL_KINDS, 0, 0};
    bool ask = (uint32_t)am->args[ARG_TAG] == TAG_ASK;
    if (!ask) drop();
    if (team->coll->past[place].seq == seq) mine = team->coll->past[place].mark;
    if (team->coll->failed || (ask && (mine.what == COLL_KINDS || coll_mark_same(&mine, &theirs))))
        return; /* what it waits for is on its way */
    coll_differ(team, mine, aq_team_from_job(team, am->source), theirs);
}

static void on_message(aq_am *am, bool ready)
{
    if (am->nargs != (ready ? ARGS : ARGS_BYTES)) {
        drop();
        return;
    }
    aq_team *team = core_team_find((uint32_t)am->args[0], (uint32_t)am->args[1]);
    uint32_t seq = (uint32_t)am->args[ARG_SEQ], tag = (uint32_t)am->args[ARG_TAG];
    if (AQI_UNLIKELY(team == NULL)) {
        if (tag != TAG_ASK) unknown_team(am); /* else what is asked for came before we left */
        return;
    }
    struct core_coll *coll = team->coll;
    coll_lock(coll);
    struct coll_op *op = find_op(coll, seq);
    bool other = op != NULL && !alike(team, op, am->source, mark_in(am));
    if (other || (op == NULL && coll_broken(team)))
        drop(); /* of an operation that has failed here, from one that has not heard of the death */
    else if (op == NULL && (int32_t)(seq - coll->started) < 0)
        too_late(team, am);
    else if (op == NULL || !op->started)
        put_by(coll, am, ready);
    else if (ready)
        take_ready(op, am->source, tag);
    else
        take_bytes(op, am->source, tag,
                   (uint32_t)am->args[ARG_OFFSET] | (uint64_t)(uint32_t)am->args[ARG_OFFSET + 1]
                                                        << 32,
                   am->payload, am->nbytes);
    coll_unlock(coll);
}

static void on_bytes(aq_am *am)
{
    on_message(am, false);
}

static void on_ready(aq_am *am)
{
    on_message(am, true);
}

/* That it has arrived is what it is for: it ends a sleep. */
static void on_wake(aq_am *am)
{
    (void)am;
}

void coll_msg_register(void)
{
    core_register_system(CORE_HANDLER_COLL_BYTES, on_bytes, "collective");
    core_register_system(CORE_HANDLER_COLL_READY, on_ready, "collective-ready");
    core_register_system(CORE_HANDLER_WAKE, on_wake, "wake");
}

/* --- carrying out ---------------------------------------------------------------------------- */

void coll_msg_begin(aq_team *team, struct coll_op *op)
{
    if (op->hier != NULL)
        coll_hier_plan(team, op);
    else
        coll_plan_make(&op->plan, &op->args, team->size, team->rank);
    op->started = true;
    if (op->plan.failed) {
        op->status = aqi_fail(AQ_ENOMEM, "core", "no memory for the steps of a collective");
        return;
    }
    for (size_t i = 0; i < op->plan.count; i++)
        op->plan.steps[i].peer = aq_team_to_job(team, op->plan.steps[i].peer);
    for (struct coll_early **at = &team->coll->early; *at != NULL;) {
        struct coll_early *early = *at;
        if (early->seq != op->seq) {
            at = &early->next;
            continue;
        }
        *at = early->next;
        if (!alike(team, op, early->source, early->mark))
            drop();
        else if (early->ready)
            take_ready(op, early->source, early->tag);
        else
            take_bytes(op, early->source, early->tag, 0, early->payload, early->len);
        free(early);
    }
}

static void set_args(aq_arg *args, const aq_team *team, const struct coll_op *op, uint32_t tag)
{
    const uint32_t words[ARGS] = {team->id[0],   team->id[1],   op->seq,       tag,
                                  op->mark.what, op->mark.root, op->mark.bytes};
    for (unsigned i = 0; i < ARGS; i++)
        args[i] = (aq_arg)words[i];
}

static aq_status send_ready(const aq_team *team, const struct coll_op *op,
                            const struct coll_step *step, uint32_t tag)
{
    aq_arg args[ARGS];
    set_args(args, team, op, tag);
    return core_try_send(&core.routes[step->peer], CORE_HANDLER_COLL_READY, args, ARGS);
}

static aq_status send_bytes(const aq_team *team, const struct coll_op *op,
                            const struct coll_step *step, size_t len)
{
    struct core_route *route = &core.routes[step->peer];
    uint64_t offset = step->moved;
    aq_arg args[ARGS_BYTES];
    set_args(args, team, op, step->tag);
    args[ARG_OFFSET] = (aq_arg)offset;
    args[ARG_OFFSET + 1] = (aq_arg)(offset >> 32);
    struct aqi_am am = {.kind = AQI_AM_MEDIUM,
                        .handler = CORE_HANDLER_COLL_BYTES,
                        .nargs = ARGS_BYTES,
                        .nbytes = (uint32_t)len,
                        .args = args,
                        .payload = step->from + offset};
    return route->tp->ops.am_send(route->tp, route->peer, &am, NULL);
}

/* As much of a send as there is room for. */
static aq_status push_send(aq_team *team, struct coll_op *op, struct coll_step *step)
{
    aq_status st = AQ_OK;
    if (step->len > eager() && !step->ready) return AQ_OK;
    while (step->moved < step->len && st == AQ_OK) {
        size_t len = aqi_min(step->len - step->moved, core.max_medium);
        st = send_bytes(team, op, step, len);
        if (st == AQ_OK) step->moved += len;
    }
    step->done = step->moved == step->len;
    return st;
}

static aq_status push_recv(aq_team *team, struct coll_op *op, struct coll_step *step)
{
    if (step->begun) return AQ_OK;
    if (step->early != NULL) {
        memcpy(step->to, step->early, step->len);
        step->done = true;
    } else if (step->len > eager()) {
        aq_status st = send_ready(team, op, step, step->tag);
        if (st != AQ_OK) return st;
    }
    step->begun = true;
    return AQ_OK;
}

static void do_locally(const struct coll_op *op, const struct coll_step *step)
{
    if (step->type == STEP_COPY) coll_copy(step->to, step->from, step->len);
    if (step->type == STEP_FOLD) coll_fold(&op->args, step->from, step->to, step->len);
}

/*
 * Sends and receives are all under way at once up to the next step that is done here, which waits
 * for them. The last step of a plan is one of those. A transport may refuse to send to the dead
 * before anybody is told of the death: neighbours who wait for the result must not get what is
 * there instead.
 */
bool coll_msg_push(aq_team *team, struct coll_op *op, bool *stuck)
{
    struct coll_plan *plan = &op->plan;
    bool all = true;
    for (size_t i = plan->at; i < plan->count && op->status == AQ_OK; i++) {
        struct coll_step *step = &plan->steps[i];
        aq_status st = AQ_OK;
        if (step->type == STEP_SEND || step->type == STEP_RECV) {
            if (!step->done)
                st =
                    step->type == STEP_SEND ? push_send(team, op, step) : push_recv(team, op, step);
            all = all && step->done;
        } else if (all) {
            do_locally(op, step);
            plan->at = i + 1;
        } else {
            break;
        }
        if (st == AQ_AGAIN) *stuck = true;
        if (st < 0) op->status = st;
        if (st == AQ_EPEER) coll_part(team);
    }
    return plan->at == plan->count || op->status != AQ_OK;
}

/* They are waited for in vain if they are in something else. */
void coll_msg_ask(aq_team *team)
{
    for (struct coll_op *op = team->coll->first; op != NULL; op = op->next) {
        if (op->shared || !op->started || op->asked > op->plan.at) continue;
        for (size_t i = op->plan.at; i < op->plan.count; i++) {
            const struct coll_step *step = &op->plan.steps[i];
            if (step->type != STEP_SEND && step->type != STEP_RECV) break;
            if (!step->done && send_ready(team, op, step, TAG_ASK) != AQ_OK) return;
        }
        op->asked = op->plan.at + 1;
    }
}

void coll_msg_close(struct core_coll *coll)
{
    while (coll->early != NULL) {
        struct coll_early *next = coll->early->next;
        free(coll->early);
        coll->early = next;
    }
}
