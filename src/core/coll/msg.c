/*
 * Collectives by messages: executes plans. Small payloads are sent eagerly, and kept by a receiver
 * that is not ready for them; large ones are sent when the receiver requests them (rendezvous). A
 * barrier every COLL_THROTTLE_EVERY operations bounds what has to be kept.
 */
#include "core/coll/coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MSG_EAGER = 4096 };

/* The tag of a query: the sender has waited long, and names the operation that it is in. */
#define MSG_TAG_ASK UINT32_MAX

/* The arguments of all messages; those with bytes also have their offset, in two words. */
enum {
    MSG_TEAM,
    MSG_SEQ = 2,
    MSG_TAG,
    MSG_SIGNATURE,
    MSG_ARGS = 7,
    MSG_OFFSET = MSG_ARGS,
    MSG_BYTES_ARGS = 9
};

/* A message for an operation that has not started here. */
struct coll_early {
    struct coll_early *next;
    uint32_t seq, tag, source;
    struct coll_signature signature;
    bool ready; /* requests the bytes of a send; else carries those of a receive */
    size_t len;
    unsigned char payload[];
};

static size_t coll_msg_eager(void)
{
    return aqi_min(MSG_EAGER, core.max_medium);
}

/* --- arrivals -------------------------------------------------------------------------------- */

static struct coll_step *coll_msg_find_step(struct coll_op *op, uint8_t type, uint32_t source,
                                            uint32_t tag)
{
    for (size_t i = op->msg.plan.at; i < op->msg.plan.count; i++) {
        struct coll_step *step = &op->msg.plan.steps[i];
        if (step->type == type && step->peer == source && step->tag == tag && !step->done)
            return step;
    }
    return NULL;
}

static void coll_msg_drop(void)
{
    aqi_count(AQI_CTR_AM_DROPPED, 1);
}

/* The step keeps early bytes, since their destination may still be in use. */
static void coll_msg_keep(struct coll_op *op, struct coll_step *step, const void *payload,
                          size_t len)
{
    if (step->early != NULL || len != step->len || len > coll_msg_eager()) {
        coll_msg_drop();
        return;
    }
    step->early = malloc(len);
    if (step->early == NULL)
        op->status = aqi_fail(AQ_ENOMEM, "core", "no memory for a message of a collective");
    else
        memcpy(step->early, payload, len);
}

static void coll_msg_take_bytes(struct coll_op *op, uint32_t source, uint32_t tag, uint64_t offset,
                                const void *payload, size_t len)
{
    struct coll_step *step = coll_msg_find_step(op, STEP_RECV, source, tag);
    if (step == NULL || len > step->len || offset > step->len - len) {
        coll_msg_drop();
    } else if (!step->begun) {
        coll_msg_keep(op, step, payload, len);
    } else {
        memcpy(step->to + offset, payload, len);
        step->moved += len;
        step->done = step->moved == step->len;
    }
}

static void coll_msg_take_ready(struct coll_op *op, uint32_t source, uint32_t tag)
{
    struct coll_step *step = coll_msg_find_step(op, STEP_SEND, source, tag);
    if (tag == MSG_TAG_ASK) return; /* the signatures have already been compared */
    if (step == NULL)
        coll_msg_drop();
    else
        step->ready = true;
}

static struct coll_op *coll_msg_find_op(struct core_coll *coll, uint32_t seq)
{
    struct coll_op *op = coll->first;
    while (op != NULL && op->seq != seq)
        op = op->next;
    return op;
}

static struct coll_signature coll_msg_signature(const aq_am *am)
{
    return (struct coll_signature){(uint32_t)am->args[MSG_SIGNATURE],
                                   (uint32_t)am->args[MSG_SIGNATURE + 1],
                                   (uint32_t)am->args[MSG_SIGNATURE + 2]};
}

static bool coll_msg_alike(const aq_team *team, const struct coll_op *op, uint32_t source,
                           struct coll_signature signature)
{
    if (AQI_LIKELY(op->engine->messages && coll_signature_same(&op->signature, &signature)))
        return true;
    coll_mismatch(team, op->signature, aq_team_from_job(team, source), signature);
    return false;
}

/* Keep a message for an operation not started here; throttling bounds how many there are. */
static void coll_msg_put_by(struct core_coll *coll, const aq_am *am, bool ready)
{
    struct coll_early *early = malloc(sizeof(*early) + am->nbytes);
    if (early == NULL || am->nbytes > coll_msg_eager()) {
        free(early);
        core.boot.fatal(core.boot.arg, "no memory for a message of a collective");
        return;
    }
    *early = (struct coll_early){.next = coll->early,
                                 .seq = (uint32_t)am->args[MSG_SEQ],
                                 .tag = (uint32_t)am->args[MSG_TAG],
                                 .signature = coll_msg_signature(am),
                                 .source = am->source,
                                 .ready = ready,
                                 .len = am->nbytes};
    if (am->nbytes != 0) memcpy(early->payload, am->payload, am->nbytes);
    coll->early = early;
}

/*
 * A message for a team that does not exist here. After a death some members abandon a team that
 * others still use; otherwise the program uses a team that this process has destroyed, and the
 * sender would wait forever.
 */
static AQI_COLD void coll_msg_unknown_team(const aq_am *am)
{
    char why[300];
    coll_msg_drop();
    if (core.params.survive || atomic_load(&core.any_lost)) return;
    snprintf(why, sizeof(why),
             "rank %u is still in a collective of a team that rank %u, this process, has destroyed "
             "or never created (team %u of rank %u): all members must call aq_team_destroy, after "
             "their last use of the team",
             am->source, core.params.rank, (uint32_t)am->args[1], (uint32_t)am->args[0]);
    core.boot.fatal(core.boot.arg, why);
}

static void coll_msg_set_args(aq_arg *args, const aq_team *team, uint32_t seq, uint32_t tag,
                              const struct coll_signature *signature)
{
    const uint32_t words[MSG_ARGS] = {team->id[0],     team->id[1],     seq, tag, signature->what,
                                      signature->root, signature->bytes};
    for (unsigned i = 0; i < MSG_ARGS; i++)
        args[i] = (aq_arg)words[i];
}

static aq_status coll_msg_send_ready(const aq_team *team, const struct coll_op *op,
                                     const struct coll_step *step, uint32_t tag)
{
    aq_arg args[MSG_ARGS];
    coll_msg_set_args(args, team, op->seq, tag, &op->signature);
    return core_try_send(&core.routes[step->peer], CORE_HANDLER_COLL_READY, args, MSG_ARGS);
}

/*
 * The team has failed here: notify a member that waits for us by a query with a signature that no
 * operation has. A fault decorator may reject it, so try repeatedly.
 */
static AQI_COLD void coll_msg_send_failed(const aq_team *team, uint32_t seq, uint32_t peer)
{
    static const struct coll_signature none = {COLL_KINDS, 0, 0};
    aq_arg args[MSG_ARGS];
    coll_msg_set_args(args, team, seq, MSG_TAG_ASK, &none);
    for (unsigned attempt = 0; attempt < 100; attempt++)
        if (core_try_send(&core.routes[peer], CORE_HANDLER_COLL_READY, args, MSG_ARGS) != AQ_AGAIN)
            break;
}

/* A message or query about an operation that has ended here: check that it is the same one. */
static AQI_COLD void coll_msg_too_late(const aq_team *team, const aq_am *am)
{
    uint32_t seq = (uint32_t)am->args[MSG_SEQ], place = seq % COLL_PAST;
    struct coll_signature theirs = coll_msg_signature(am), mine = {COLL_KINDS, 0, 0};
    bool ask = (uint32_t)am->args[MSG_TAG] == MSG_TAG_ASK;
    if (!ask) coll_msg_drop();
    if (team->coll->past[place].seq == seq) mine = team->coll->past[place].signature;
    if (team->coll->op_failed ||
        (ask && (mine.what == COLL_KINDS || coll_signature_same(&mine, &theirs))))
        return; /* the message it waits for is on its way */
    coll_mismatch(team, mine, aq_team_from_job(team, am->source), theirs);
}

static void coll_msg_on_message(aq_am *am, bool ready)
{
    if (am->nargs != (ready ? MSG_ARGS : MSG_BYTES_ARGS)) {
        coll_msg_drop();
        return;
    }
    aq_team *team = core_team_find((uint32_t)am->args[0], (uint32_t)am->args[1]);
    uint32_t seq = (uint32_t)am->args[MSG_SEQ], tag = (uint32_t)am->args[MSG_TAG];
    if (AQI_UNLIKELY(team == NULL)) {
        if (tag != MSG_TAG_ASK)
            coll_msg_unknown_team(am); /* else the message it asks about arrived before we left */
        return;
    }
    struct core_coll *coll = team->coll;
    core_lock(&coll->lock);
    struct coll_op *op = coll_msg_find_op(coll, seq);
    bool other = op != NULL && !coll_msg_alike(team, op, am->source, coll_msg_signature(am));
    if (other || (op == NULL && coll_broken(team))) {
        coll_msg_drop(); /* the sender has not yet learned that the team has failed */
        if (tag == MSG_TAG_ASK && coll_msg_signature(am).what != COLL_KINDS &&
            coll_whole(team)->coll->mismatched)
            coll_msg_send_failed(team, seq, am->source);
    } else if (op == NULL && (int32_t)(seq - coll->started) < 0)
        coll_msg_too_late(team, am);
    else if (op == NULL || !op->msg.started)
        coll_msg_put_by(coll, am, ready);
    else if (ready)
        coll_msg_take_ready(op, am->source, tag);
    else
        coll_msg_take_bytes(op, am->source, tag,
                            (uint32_t)am->args[MSG_OFFSET] |
                                (uint64_t)(uint32_t)am->args[MSG_OFFSET + 1] << 32,
                            am->payload, am->nbytes);
    core_unlock(&coll->lock);
}

static void coll_msg_on_bytes(aq_am *am)
{
    coll_msg_on_message(am, false);
}

static void coll_msg_on_ready(aq_am *am)
{
    coll_msg_on_message(am, true);
}

/* Does nothing: its arrival ends a sleep. */
static void coll_msg_on_wake(aq_am *am)
{
    (void)am;
}

void coll_msg_register(void)
{
    core_register_system(CORE_HANDLER_COLL_BYTES, coll_msg_on_bytes, "collective");
    core_register_system(CORE_HANDLER_COLL_READY, coll_msg_on_ready, "collective-ready");
    core_register_system(CORE_HANDLER_WAKE, coll_msg_on_wake, "wake");
}

/* --- execution ------------------------------------------------------------------------------- */

void coll_msg_begin(aq_team *team, struct coll_op *op)
{
    op->msg.started = true;
    if (op->msg.plan.failed) {
        op->status = aqi_fail(AQ_ENOMEM, "core", "no memory for the steps of a collective");
        return;
    }
    for (size_t i = 0; i < op->msg.plan.count; i++)
        op->msg.plan.steps[i].peer = aq_team_to_job(team, op->msg.plan.steps[i].peer);
    for (struct coll_early **at = &team->coll->early; *at != NULL;) {
        struct coll_early *early = *at;
        if (early->seq != op->seq) {
            at = &early->next;
            continue;
        }
        *at = early->next;
        if (!coll_msg_alike(team, op, early->source, early->signature))
            coll_msg_drop();
        else if (early->ready)
            coll_msg_take_ready(op, early->source, early->tag);
        else
            coll_msg_take_bytes(op, early->source, early->tag, 0, early->payload, early->len);
        free(early);
    }
}

static aq_status coll_msg_send_bytes(const aq_team *team, const struct coll_op *op,
                                     const struct coll_step *step, size_t len)
{
    struct core_route *route = &core.routes[step->peer];
    uint64_t offset = step->moved;
    aq_arg args[MSG_BYTES_ARGS];
    coll_msg_set_args(args, team, op->seq, step->tag, &op->signature);
    args[MSG_OFFSET] = (aq_arg)offset;
    args[MSG_OFFSET + 1] = (aq_arg)(offset >> 32);
    struct aqi_am am = {.kind = AQI_AM_MEDIUM,
                        .handler = CORE_HANDLER_COLL_BYTES,
                        .nargs = MSG_BYTES_ARGS,
                        .nbytes = (uint32_t)len,
                        .args = args,
                        .payload = step->from + offset};
    return route->tp->ops.am_send(route->tp, route->peer, &am, NULL);
}

static aq_status coll_msg_push_send(aq_team *team, struct coll_op *op, struct coll_step *step)
{
    aq_status st = AQ_OK;
    if (op->args.written) {
        st = coll_words_send(team, op, step);
        step->done = st == AQ_OK;
        return st;
    }
    if (step->len > coll_msg_eager() && !step->ready) return AQ_OK;
    while (step->moved < step->len && st == AQ_OK) {
        size_t len = aqi_min(step->len - step->moved, core.max_medium);
        st = coll_msg_send_bytes(team, op, step, len);
        if (st == AQ_OK) step->moved += len;
    }
    step->done = step->moved == step->len;
    return st;
}

static aq_status coll_msg_push_recv(aq_team *team, struct coll_op *op, struct coll_step *step)
{
    if (step->begun) return AQ_OK;
    if (op->args.written) {
        step->done = coll_words_receive(team, op, step);
        return step->done ? AQ_OK : AQ_AGAIN; /* its arrival is not announced */
    }
    if (step->early != NULL) {
        memcpy(step->to, step->early, step->len);
        step->done = true;
    } else if (step->len > coll_msg_eager()) {
        aq_status st = coll_msg_send_ready(team, op, step, step->tag);
        if (st != AQ_OK) return st;
    }
    step->begun = true;
    return AQ_OK;
}

static void coll_msg_do_locally(const struct coll_op *op, const struct coll_step *step)
{
    if (step->type == STEP_COPY) coll_copy(step->to, step->from, step->len);
    if (step->type == STEP_FOLD) coll_fold(&op->args, step->from, step->to, step->len);
}

/*
 * All sends and receives up to the next local step are in flight at once, and that step waits for
 * them; the last step of a plan is local. A transport may reject sends to a dead peer before its
 * death is announced: the operation then fails, so that no neighbor takes a wrong result.
 */
bool coll_msg_push(aq_team *team, struct coll_op *op, bool *no_room)
{
    struct coll_plan *plan = &op->msg.plan;
    bool all = true;
    for (size_t i = plan->at; i < plan->count && op->status == AQ_OK; i++) {
        struct coll_step *step = &plan->steps[i];
        aq_status st = AQ_OK;
        if (step->type == STEP_SEND || step->type == STEP_RECV) {
            if (!step->done)
                st = step->type == STEP_SEND ? coll_msg_push_send(team, op, step)
                                             : coll_msg_push_recv(team, op, step);
            all = all && step->done;
        } else if (all) {
            coll_msg_do_locally(op, step);
            plan->at = i + 1;
        } else {
            break;
        }
        if (st == AQ_AGAIN) *no_room = true;
        if (st < 0) op->status = st;
        if (st == AQ_EPEER) coll_fail(team);
    }
    return plan->at == plan->count || op->status != AQ_OK;
}

static aq_status coll_msg_prepare(aq_team *team, struct coll_op *op)
{
    (void)team;
    op->msg = (struct coll_msg_state){0};
    return AQ_OK;
}

static bool coll_msg_push_op(aq_team *team, struct coll_op *op, bool *no_room)
{
    if (!op->msg.started) {
        coll_plan_make(&op->msg.plan, &op->args, team->size, team->rank);
        coll_msg_begin(team, op);
    }
    return coll_msg_push(team, op, no_room);
}

void coll_msg_failed(const aq_team *team, const struct coll_op *op)
{
    if (!op->msg.started || !coll_whole(team)->coll->mismatched) return;
    for (size_t i = op->msg.plan.at; i < op->msg.plan.count; i++)
        if (op->msg.plan.steps[i].type == STEP_SEND && !op->msg.plan.steps[i].done)
            coll_msg_send_failed(team, op->seq, op->msg.plan.steps[i].peer);
}

void coll_msg_free(struct coll_op *op)
{
    coll_plan_free(&op->msg.plan);
}

const struct coll_engine coll_msg_engine = {
    .messages = true, .prepare = coll_msg_prepare, .push = coll_msg_push_op, .free = coll_msg_free};

/* The members that we wait for may be in another operation, and then never arrive. */
void coll_msg_ask(aq_team *team)
{
    for (struct coll_op *op = team->coll->first; op != NULL; op = op->next) {
        if (!op->engine->messages || !op->msg.started || op->msg.asked > op->msg.plan.at) continue;
        for (size_t i = op->msg.plan.at; i < op->msg.plan.count; i++) {
            const struct coll_step *step = &op->msg.plan.steps[i];
            if (step->type != STEP_SEND && step->type != STEP_RECV) break;
            if (!step->done && coll_msg_send_ready(team, op, step, MSG_TAG_ASK) != AQ_OK) return;
        }
        op->msg.asked = op->msg.plan.at + 1;
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
