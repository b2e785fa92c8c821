/*
 * The operations of a simulation, and their required results: each message arrives once and
 * complete, a Long after its bytes; each callback is called once, with a correct status; memory is
 * written once; impossible operations are refused.
 */
#include "sim.h"

#include <stdlib.h>

#define HEAD_LEAST  16u /* 4 bytes of the engine, the index, its check */
#define HEAD_MOST   256u
#define DEEPEST     64u /* handlers that wait inside each other */
#define JUNK        0x5a
#define LOOKED_BACK 256u /* operations */

const char *work_name(const struct sim_op *op, char *text, size_t size)
{
    static const char *const kinds[] = {
        [SIM_SEND] = "message", [SIM_PUT] = "put", [SIM_LONG] = "Long", [SIM_GET] = "get"};
    snprintf(text, size, "%s%s %u (%u -> %u, %zu bytes%s%s%s)", op->reply ? "reply " : "",
             kinds[op->kind], op->index, op->from, op->to, op->len, op->bad ? ", refused" : "",
             op->gone ? ", forgotten" : "", op->silent ? ", silent" : "");
    return text;
}

#define OP_REQUIRE(sim, op, condition, ...)                                                        \
    do {                                                                                           \
        if (!(condition)) op_fail(sim, op, __VA_ARGS__);                                           \
    } while (0)

static _Noreturn void op_fail(const struct sim *sim, const struct sim_op *op, const char *what)
{
    char text[128];
    sim_fail(sim, "%s: %s", work_name(op, text, sizeof(text)), what);
}

/* --- making -------------------------------------------------------------------------------------
 */

static struct sim_op *op_make(struct sim_proc *proc, uint32_t to, bool reply)
{
    struct sim *sim = proc->sim;
    if (sim->op_count == sim->op_room) {
        sim->op_room = sim->op_room == 0 ? 256 : 2 * sim->op_room;
        sim->ops = realloc(sim->ops, sim->op_room * sizeof(struct sim_op *));
        SIM_REQUIRE(sim, sim->ops != NULL, "no memory for operations");
    }
    struct sim_op *op = sim_alloc(sizeof(*op));
    *op = (struct sim_op){.index = sim->op_count,
                          .from = proc->id,
                          .to = to,
                          .from_life = proc->life,
                          .to_life = sim->procs[to].life,
                          .reply = reply,
                          .pattern = sim_random(sim, SIM_OF_WORK),
                          .began_at = sim->now};
    sim->ops[sim->op_count++] = op;
    return op;
}

/* Discard the last operation, which was refused. */
static void op_unmake(struct sim *sim, struct sim_op *op)
{
    OP_REQUIRE(sim, op, op->index == sim->op_count - 1 && !op->local_done && !op->remote_done,
               "was refused, but a callback was called");
    if (op->remote != NULL) memory_drop(&sim->procs[op->to], op->remote);
    if (op->dst != NULL) memory_drop(&sim->procs[op->from], op->dst);
    free(op->source);
    free(op);
    sim->op_count--;
}

static size_t work_length(struct sim *sim, size_t most)
{
    if (sim_chance(sim, SIM_OF_WORK, sim->plan.small, 100)) most = aqi_min(most, 64);
    if (sim_chance(sim, SIM_OF_WORK, 1, 16)) return most;
    return sim_spread(sim, SIM_OF_WORK, 1, most + 1) - 1;
}

static void op_head(struct sim *sim, struct sim_op *op, bool message)
{
    op->head_len = HEAD_LEAST;
    if (sim->plan.plain) return;
    if (sim_chance(sim, SIM_OF_WORK, 1, 2))
        op->head_len = HEAD_LEAST + sim_below(sim, SIM_OF_WORK, HEAD_MOST - HEAD_LEAST + 1);
    size_t used = aqi_round_up(op->head_len, 16), most = sim->plan.config.max_message - used;
    op->len = work_length(sim, message ? most : sim->plan.put_max);
    if (!op->reply && sim_chance(sim, SIM_OF_WORK, sim->plan.replies, 100))
        op->wants = 1 + (uint32_t)work_length(sim, most);
}

/* Choose the range in the peer that the operation writes or reads. Some ranges are not the
 * peer's. */
static void op_range(struct sim *sim, struct sim_op *op)
{
    struct sim_proc *to = &sim->procs[op->to];
    uint64_t before = op->kind == SIM_GET ? op->pattern : ~op->pattern;
    op->remote = memory_make(to, op->len, sim_below(sim, SIM_OF_WORK, 16), before);
    op->addr = (uintptr_t)op->remote->at;
    if (op->len == 0 || !sim_chance(sim, SIM_OF_WORK, sim->plan.bad, 100)) {
        op->remote->open = op->kind != SIM_GET;
        return;
    }
    op->bad = true;
    switch (sim_below(sim, SIM_OF_WORK, 4)) {
    case 0: /* the end is outside */
        op->addr += 1 + sim_below(sim, SIM_OF_WORK, 16);
        op->remote->open = true;
        break;
    case 1: /* the beginning is outside */
        op->addr -= 1 + sim_below(sim, SIM_OF_WORK, 16);
        op->remote->open = true;
        break;
    case 2: /* no range like this can exist */
        op->addr = UINT64_MAX - sim_below(sim, SIM_OF_WORK, op->len);
        break;
    default:
        op->remote->registered = false;
    }
}

static void *work_copy(size_t len, uint64_t pattern)
{
    void *copy = sim_alloc(len);
    fill(copy, len, pattern);
    return copy;
}

static unsigned char *op_write_head(const struct sim_op *op)
{
    unsigned char *head = work_copy(op->head_len, op->pattern ^ 1);
    memcpy(head + 4, &op->index, 4);
    memcpy(head + 8, &op->pattern, 8);
    return head;
}

static aq_status op_begin_put(struct sim_proc *proc, struct sim_op *op)
{
    unsigned char *head = op->kind == SIM_LONG ? op_write_head(op) : NULL;
    op->source = work_copy(op->len, op->pattern);
    op->began = true; /* callbacks may be called at once */
    aq_status status = aqi_dgram_put(proc->dgram, op->to, op->addr, op->source, op->len, op->reply,
                                     head, op->head_len, op->silent ? NULL : op);
    if (head != NULL) memset(head, JUNK, op->head_len);
    free(head);
    if (status != AQ_OK) return status;
    bool copied = op->len <= AQI_DGRAM_COPIED;
    OP_REQUIRE(proc->sim, op, !copied || op->silent || op->local_done,
               "is small, but local was not called at once");
    if (copied && op->source != NULL) memset(op->source, JUNK, op->len);
    return status;
}

static aq_status op_begin_send(struct sim_proc *proc, struct sim_op *op)
{
    unsigned char *head = op_write_head(op), *body = work_copy(op->len, op->pattern);
    op->began = true;
    aq_status status = aqi_dgram_send(proc->dgram, op->to, op->reply, head, op->head_len,
                                      op->len == 0 ? NULL : body, op->len);
    memset(head, JUNK, op->head_len);
    memset(body, JUNK, op->len);
    free(head);
    free(body);
    return status;
}

/* Begin the operation, which is discarded unless the result is AQ_OK. */
static aq_status op_begin(struct sim_proc *proc, struct sim_op *op)
{
    struct sim *sim = proc->sim;
    aq_status status;
    bool lost = proc_lost(proc, op->to);
    proc->calling = true;
    switch (op->kind) {
    case SIM_SEND:
        status = op_begin_send(proc, op);
        break;
    case SIM_GET:
        op->dst = memory_make(proc, op->len, sim_below(sim, SIM_OF_WORK, 16), ~op->pattern);
        op->dst->open = op->began = true;
        status = aqi_dgram_get(proc->dgram, op->to, op->addr, op->dst->at, op->len, op);
        break;
    default:
        status = op_begin_put(proc, op);
    }
    proc->calling = false;
    OP_REQUIRE(sim, op, !lost || status == AQ_EPEER, "begins although the peer is lost");
    OP_REQUIRE(sim, op, lost || status == AQ_OK || status == AQ_AGAIN, "cannot begin");
    if (AQI_UNLIKELY(sim->options.trace)) {
        char text[128];
        sim_trace(sim, "%s: %s", work_name(op, text, sizeof(text)),
                  status == AQ_OK      ? "begins"
                  : status == AQ_AGAIN ? "no room"
                                       : "lost");
    }
    if (status != AQ_OK) op_unmake(sim, op);
    return status;
}

static aq_status work_begin(struct sim_proc *proc)
{
    struct sim *sim = proc->sim;
    const struct sim_plan *plan = &sim->plan;
    struct sim_op *op = op_make(proc, proc_partner(sim, proc), false);
    unsigned kind = (unsigned)sim_below(sim, SIM_OF_WORK, 100);
    if (kind < plan->gets) {
        op->kind = SIM_GET;
        op->len = work_length(sim, plan->put_max);
    } else if (kind < plan->gets + plan->puts) {
        op->kind = SIM_PUT;
        op->len = work_length(sim, plan->put_max);
        op->silent = sim_chance(sim, SIM_OF_WORK, 1, 8);
    } else if (kind < plan->gets + plan->puts + plan->longs) {
        op->kind = SIM_LONG;
        op->silent = sim_chance(sim, SIM_OF_WORK, 1, 8);
        op_head(sim, op, false);
    } else {
        op->kind = SIM_SEND;
        op_head(sim, op, true);
    }
    if (op->kind != SIM_SEND) op_range(sim, op);
    /* There may never be room if a peer is dead and its death is not announced. */
    bool hopeless = !proc_will_know(sim, op);
    aq_status status = op_begin(proc, op);
    return status == AQ_AGAIN && hopeless ? AQ_EPEER : status;
}

static aq_status work_transfer(struct sim_proc *proc, enum sim_kind kind, uint32_t to, size_t len)
{
    struct sim_op *op = op_make(proc, to, false);
    op->kind = kind;
    op->len = len;
    op_range(proc->sim, op);
    return op_begin(proc, op);
}

aq_status work_put(struct sim_proc *proc, uint32_t to, size_t len)
{
    return work_transfer(proc, SIM_PUT, to, len);
}

aq_status work_get(struct sim_proc *proc, uint32_t to, size_t len)
{
    return work_transfer(proc, SIM_GET, to, len);
}

aq_status work_message(struct sim_proc *proc, uint32_t to, size_t len)
{
    struct sim_op *op = op_make(proc, to, false);
    op->head_len = HEAD_LEAST;
    op->len = len;
    return op_begin(proc, op);
}

aq_status work_request(struct sim_proc *proc, uint32_t to, size_t len)
{
    struct sim_op *op = op_make(proc, to, false);
    op->head_len = HEAD_LEAST;
    op->len = len;
    op->wants = 1 + (uint32_t)len;
    return op_begin(proc, op);
}

bool work_done(const struct sim_proc *proc)
{
    return proc->begun >= proc->sim->plan.quota || proc->life != 0;
}

void work_poll(struct sim_proc *proc)
{
    struct sim *sim = proc->sim;
    const struct sim_plan *plan = &sim->plan;
    if (work_done(proc) || sim->now < proc->work_at) return;
    for (uint64_t n = 1 + sim_below(sim, SIM_OF_WORK, plan->burst); n > 0 && !work_done(proc);
         n--) {
        if (work_begin(proc) == AQ_AGAIN) {
            proc->work_at = sim->now + sim_spread(sim, SIM_OF_WORK, SIM_US, SIM_MS);
            return;
        }
        proc->begun++;
    }
    proc->work_at = sim->now + sim_below(sim, SIM_OF_WORK, 2 * plan->rest);
    if (sim_chance(sim, SIM_OF_WORK, 1, 16)) proc->work_at += plan->horizon / 8;
}

/* --- arrivals --------------------------------------------------------------------------------- */

/* Answer from a handler, which makes progress while there is no room, as programs do. */
static void work_reply(struct sim_proc *proc, uint32_t to, size_t len)
{
    struct sim *sim = proc->sim;
    for (;;) {
        struct sim_op *op = op_make(proc, to, true);
        op_head(sim, op, true);
        op->len = aqi_min(len, sim->plan.config.max_message - aqi_round_up(op->head_len, 16));
        if (!sim->plan.plain && sim_chance(sim, SIM_OF_WORK, 1, 4)) {
            op->kind = SIM_LONG;
            op_range(sim, op);
        }
        if (op_begin(proc, op) != AQ_AGAIN || sim->depth >= DEEPEST || !sim->procs[to].alive)
            return;
        sim->waits++;
        proc_wait(proc);
    }
}

void work_deliver(struct sim_proc *proc, uint32_t source, bool request, unsigned char *message,
                  size_t len)
{
    struct sim *sim = proc->sim;
    uint32_t index = UINT32_MAX;
    SIM_REQUIRE(sim, (uintptr_t)message % 16 == 0 && len >= HEAD_LEAST,
                "process %u gets %zu bytes at %p as a message", proc->id, len, (void *)message);
    memcpy(&index, message + 4, sizeof(index));
    SIM_REQUIRE(sim, index < sim->op_count, "process %u gets a message that was never sent",
                proc->id);
    struct sim_op *op = sim->ops[index];
    OP_REQUIRE(sim, op,
               op->to == proc->id && op->from == source && op->reply == !request &&
                   op->head_len != 0,
               "is delivered to a wrong process, or as a message of another kind");
    OP_REQUIRE(sim, op, op->delivered++ == 0, "is delivered twice");
    OP_REQUIRE(sim, op, !op->bad, "is delivered although its bytes cannot have been written");
    unsigned char *head = op_write_head(op);
    OP_REQUIRE(sim, op, memcmp(head + 4, message + 4, op->head_len - 4) == 0,
               "is delivered with a wrong head");
    free(head);
    size_t at = aqi_round_up(op->head_len, 16), inside = op->kind == SIM_SEND ? op->len : 0;
    size_t need = inside != 0 ? at + inside : op->head_len;
    OP_REQUIRE(sim, op, len >= need && len <= aqi_round_up(need, 16),
               "is delivered with a wrong length");
    OP_REQUIRE(sim, op, inside == 0 || filled(message + at, inside, op->pattern),
               "is delivered with wrong bytes");
    if (op->kind == SIM_LONG && op->remote->registered) {
        op->remote->open = false;
        op->remote->pattern = op->pattern;
        OP_REQUIRE(sim, op, memory_wrong(op->remote) == NULL, "is delivered before its bytes");
        memory_set(op->remote, op->pattern + 1);
    }
    memset(message, JUNK, len);
    op->done_at = sim->now;
    uint32_t wants = op->wants;
    bool lingers = request && !sim->plan.plain && sim_chance(sim, SIM_OF_WORK, 1, 64);
    if (lingers && sim->depth < DEEPEST) proc_wait(proc);
    if (wants != 0) work_reply(proc, source, wants - 1);
}

static void op_check_status(struct sim *sim, const struct sim_op *op, aq_status status, bool whole)
{
    OP_REQUIRE(sim, op, status == AQ_OK || status == AQ_ERANGE || status == AQ_EPEER,
               "ends with an impossible status");
    OP_REQUIRE(sim, op, status != AQ_OK || !op->bad || !whole,
               "succeeds although that is impossible");
    OP_REQUIRE(sim, op, status != AQ_ERANGE || op->bad || op->gone, "is refused without a cause");
}

void work_local(struct sim_proc *proc, struct sim_op *op, aq_status status)
{
    struct sim *sim = proc->sim;
    SIM_REQUIRE(sim, op != NULL, "process %u: local without an operation", proc->id);
    OP_REQUIRE(sim, op,
               op->began && !op->local_done && op->from == proc->id &&
                   (op->kind == SIM_PUT || op->kind == SIM_LONG),
               "local is called twice, or for a wrong operation");
    op_check_status(sim, op, status, false);
    op->local_done = true;
    op->local_status = status;
    memset(op->source, JUNK, op->len);
    free(op->source);
    op->source = NULL;
}

void work_remote(struct sim_proc *proc, struct sim_op *op, aq_status status)
{
    struct sim *sim = proc->sim;
    SIM_REQUIRE(sim, op != NULL, "process %u: remote without an operation", proc->id);
    OP_REQUIRE(sim, op,
               op->began && !op->remote_done && op->from == proc->id &&
                   (op->kind == SIM_PUT || op->kind == SIM_GET),
               "remote is called twice, or for a wrong operation");
    OP_REQUIRE(sim, op, op->kind == SIM_GET || op->local_done, "remote is called before local");
    op_check_status(sim, op, status, true);
    op->remote_done = true;
    op->remote_status = status;
    op->done_at = sim->now;
    struct sim_block *written = op->kind == SIM_GET ? op->dst : op->remote;
    if (status != AQ_OK || (op->kind == SIM_PUT && op->gone)) return;
    written->open = false;
    written->pattern = op->pattern;
    OP_REQUIRE(sim, op, memory_wrong(written) == NULL,
               "is complete, but its bytes have not arrived");
    memory_set(written, op->pattern + 1);
    /* The owner may change its memory once it has been read. */
    if (op->kind == SIM_GET && !op->gone) memory_set(op->remote, op->pattern + 2);
}

void work_forget(struct sim *sim, struct sim_proc *proc)
{
    for (uint32_t back = 1; back <= sim->op_count && back <= LOOKED_BACK; back++) {
        struct sim_op *op = sim->ops[sim->op_count - back];
        if (op->to != proc->id || op->remote == NULL || !op->remote->registered || op->bad ||
            op->remote_done || op->delivered != 0 || op->len == 0 || op->to_life != proc->life)
            continue;
        SIM_TRACE(sim, "process %u forgets the memory of %u", proc->id, op->index);
        op->gone = true;
        memory_forget(proc, op->remote);
        return;
    }
}

/* --- checks of results ------------------------------------------------------------------------ */

static bool op_called_back(const struct sim_op *op)
{
    if (op->silent || op->kind == SIM_SEND) return true;
    if (op->kind != SIM_GET && !op->local_done) return false;
    return op->kind == SIM_LONG || op->remote_done;
}

/* Whether both processes are still those with which the operation began. */
static bool op_between_living(const struct sim *sim, const struct sim_op *op)
{
    const struct sim_proc *from = &sim->procs[op->from], *to = &sim->procs[op->to];
    return from->alive && to->alive && from->life == 0 && to->life == 0;
}

static bool op_pending(const struct sim *sim, const struct sim_op *op)
{
    if (!op->orphan && proc_will_know(sim, op) && !op_called_back(op)) return true;
    if (op->silent && op_between_living(sim, op) && !proc_lost(&sim->procs[op->from], op->to) &&
        !aqi_dgram_quiet(sim->procs[op->from].dgram, op->to))
        return true;
    bool message = op->kind == SIM_SEND || (op->kind == SIM_LONG && !op->bad && !op->gone);
    return message && op->delivered == 0 && op_between_living(sim, op);
}

/* If a process is quiet or idle, all callbacks of its operations must have been called. */
void work_check_quiet(struct sim_proc *proc)
{
    struct sim *sim = proc->sim;
    for (uint64_t i = 0; i < 8 && sim->op_count > 0; i++) {
        uint64_t back = 1 + sim_below(sim, SIM_OF_PROC, aqi_min(sim->op_count, LOOKED_BACK));
        const struct sim_op *op = sim->ops[sim->op_count - back];
        if (op->from != proc->id || op->from_life != proc->life || op_called_back(op)) continue;
        OP_REQUIRE(sim, op,
                   !aqi_dgram_quiet(proc->dgram, op->to) &&
                       !aqi_dgram_quiet(proc->dgram, AQI_DGRAM_ALL) && !aqi_dgram_idle(proc->dgram),
                   "is under way, but its process is quiet or idle");
    }
}

const struct sim_op *work_pending(const struct sim *sim)
{
    for (uint32_t i = sim->op_count; i > 0; i--)
        if (op_pending(sim, sim->ops[i - 1])) return sim->ops[i - 1];
    return NULL;
}

bool work_left(const struct sim *sim, const struct sim_proc *proc)
{
    for (uint32_t i = 0; i < sim->op_count; i++) {
        const struct sim_op *op = sim->ops[i];
        if (op->from != proc->id && op->to != proc->id) continue;
        if (op->from == proc->id && op->from_life == proc->life && !op_called_back(op)) return true;
        /* It is not reported whether messages reach a process that has gone. */
        const struct sim_proc *other = &sim->procs[op->from ^ op->to ^ proc->id];
        if ((!other->alive || other->life != 0) && !proc_lost(proc, other->id)) return true;
    }
    return false;
}

void work_orphan(struct sim *sim, struct sim_proc *proc)
{
    for (uint32_t i = 0; i < sim->op_count; i++) {
        struct sim_op *op = sim->ops[i];
        if (op->from == proc->id) op->orphan = true;
    }
}

void work_check_end(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->op_count; i++) {
        struct sim_op *op = sim->ops[i];
        const struct sim_proc *from = &sim->procs[op->from];
        if (from->life == op->from_life && from->alive)
            OP_REQUIRE(sim, op,
                       (op->local_status != AQ_EPEER && op->remote_status != AQ_EPEER) ||
                           proc_lost(from, op->to),
                       "failed because of a loss that was not reported");
        if (!op_between_living(sim, op)) continue;
        OP_REQUIRE(sim, op, !op_pending(sim, op), "has not ended");
        if (op->kind != SIM_PUT || !op->silent || op->bad || op->gone) continue;
        op->remote->open = false;
        op->remote->pattern = op->pattern;
    }
    for (uint32_t id = 0; id < sim->plan.peers; id++)
        memory_check(&sim->procs[id]);
}

void work_free(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->op_count; i++) {
        free(sim->ops[i]->source);
        free(sim->ops[i]);
    }
    free(sim->ops);
}
