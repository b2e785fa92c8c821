/*
 * The receiving side of the fallback layer: serves internal requests on this process's memory, and
 * handles the answers to the operations that fallback_ops.c started. Does not trust anything that a
 * peer sends.
 */
#include "base/copy.h"
#include "base/log.h"
#include "base/stats.h"
#include "transport/layers/fallback_impl.h"

#include <stdlib.h>
#include <string.h>

static uint64_t fallback_serve_arg_u64(const struct aqi_am *am, unsigned i)
{
    return (uint32_t)am->args[i] | (uint64_t)(uint32_t)am->args[i + 1] << 32;
}

/*
 * Answer a request from inside its delivery; waits for room like any reply. The arguments `more`
 * follow the two that name the operation.
 */
static void fallback_serve_reply(struct aqi_fallback *fb, uint32_t source,
                                 const struct aqi_am *request, enum fallback_message type,
                                 const int32_t *more, unsigned nmore, const void *payload,
                                 size_t nbytes)
{
    int32_t args[8] = {request->args[0], request->args[1]};
    struct aqi_am am = fallback_am(type, args, more, nmore, payload, nbytes);
    am.flags = AQI_AM_IS_REPLY;
    struct aqi_tp *tp = fb->tp;
    for (unsigned round = 0;; round++) {
        if (atomic_load_explicit(&fb->side[source].down, memory_order_relaxed)) return;
        if (fb->own.am_send(tp, fb->peers[source], &am, NULL) != AQ_AGAIN) return;
        if (fb->own.progress(tp, AQI_PROGRESS_REPLIES, fb->up.now(fb->up.host)) == 0)
            fb->up.relax(fb->up.host, round);
    }
}

static void fallback_serve_refuse(struct aqi_fallback *fb, uint32_t source, const struct aqi_am *am)
{
    fallback_serve_reply(fb, source, am, FB_REFUSED, NULL, 0, NULL, 0);
}

/*
 * Acknowledge a piece of a put, and those of the put that were held back, or hold all of them back.
 * Pieces of another put that were held back are always acknowledged.
 */
static void fallback_serve_acknowledge(struct aqi_fallback *fb, uint32_t source,
                                       const struct aqi_am *am, uint32_t nbytes, bool answer)
{
    struct fallback_peer *side = &fb->side[source];
    uint32_t index = (uint32_t)am->args[0], generation = (uint32_t)am->args[1];
    int32_t more[4] = {0};
    unsigned nmore = 0;
    aqi_spin_lock_if(fb->params.threads, &side->lock);
    bool same = side->held.index == index && side->held.generation == generation;
    if (side->held.bytes != 0 && !same) {
        more[1] = (int32_t)side->held.index;
        more[2] = (int32_t)side->held.generation;
        more[3] = (int32_t)side->held.bytes;
        nmore = 4;
    }
    uint32_t sum = (same ? side->held.bytes : 0) + nbytes;
    answer = answer || sum >= FB_MOST_HELD;
    if (answer) {
        more[0] = (int32_t)(sum | FB_ANSWER);
        if (nmore == 0) nmore = 1;
        sum = 0;
    }
    side->held.index = index;
    side->held.generation = generation;
    side->held.bytes = sum;
    aqi_spin_unlock_if(fb->params.threads, &side->lock);
    if (nmore != 0) fallback_serve_reply(fb, source, am, FB_ACK, more, nmore, NULL, 0);
}

static void fallback_serve_deny(struct aqi_fallback *fb, uint32_t source, const struct aqi_am *am,
                                enum aqi_refusal why)
{
    const int32_t more[] = {why == AQI_REFUSAL_RANGE ? AQ_ERANGE : AQ_EACCESS, (int32_t)why};
    fallback_serve_reply(fb, source, am, FB_REFUSED, more, 2, NULL, 0);
}

/* Find the memory in a region; the ticket is in the arguments from `at` on. */
static enum aqi_refusal fallback_serve_region(struct aqi_fallback *fb, const struct aqi_am *am,
                                              unsigned at, size_t len, bool write, void **local)
{
    uint32_t ticket[AQI_TICKET];
    if (fb->up.region == NULL) return AQI_REFUSAL_UNKNOWN;
    memcpy(ticket, am->args + at, sizeof(ticket));
    return fb->up.region(fb->up.host, ticket, am->addr, len, write, local);
}

static void fallback_serve_region_put(struct aqi_fallback *fb, uint32_t source,
                                      const struct aqi_am *am)
{
    void *local;
    enum aqi_refusal why = fallback_serve_region(fb, am, 3, am->nbytes, true, &local);
    if (why != AQI_REFUSAL_NONE) {
        fallback_serve_deny(fb, source, am, why);
        return;
    }
    aqi_copy_put(local, am->payload, am->nbytes);
    fallback_serve_acknowledge(fb, source, am, am->nbytes, am->args[2] != 0);
}

static void fallback_serve_region_get(struct aqi_fallback *fb, uint32_t source,
                                      const struct aqi_am *am)
{
    uint32_t len = (uint32_t)am->args[3];
    int32_t offset = am->args[2];
    void *local;
    enum aqi_refusal why = len <= fallback_piece(fb, fb->peers[source])
                               ? fallback_serve_region(fb, am, 4, len, false, &local)
                               : AQI_REFUSAL_RANGE;
    if (why != AQI_REFUSAL_NONE)
        fallback_serve_deny(fb, source, am, why);
    else
        fallback_serve_reply(fb, source, am, FB_GET_DATA, &offset, 1, local, len);
}

static void fallback_serve_put(struct aqi_fallback *fb, uint32_t source, const struct aqi_am *am)
{
    if (!fb->up.range_ok(fb->up.host, am->addr, am->nbytes)) {
        fallback_serve_refuse(fb, source, am);
        return;
    }
    aqi_copy_put((void *)(uintptr_t)am->addr, am->payload, am->nbytes);
    fallback_serve_acknowledge(fb, source, am, am->nbytes, am->args[2] != 0);
}

static void fallback_serve_sync(struct aqi_fallback *fb, uint32_t source, const struct aqi_am *am)
{
    fallback_serve_acknowledge(fb, source, am, 0, true);
}

static void fallback_serve_put_rows(struct aqi_fallback *fb, uint32_t source,
                                    const struct aqi_am *am)
{
    bool ok = fallback_rows_put(fb, am);
    fallback_serve_reply(fb, source, am, ok ? FB_DONE : FB_REFUSED, NULL, 0, NULL, 0);
}

static void fallback_serve_get_rows(struct aqi_fallback *fb, uint32_t source,
                                    const struct aqi_am *am)
{
    static const int32_t status = AQ_ENOMEM;
    void *buffer;
    size_t nbytes;
    if (!fallback_rows_get(fb, am, fb->peers[source]->max_medium, &buffer, &nbytes)) {
        fallback_serve_refuse(fb, source, am);
        return;
    }
    if (buffer == NULL)
        fallback_serve_reply(fb, source, am, FB_REFUSED, &status, 1, NULL, 0);
    else
        fallback_serve_reply(fb, source, am, FB_ROWS, NULL, 0, buffer, nbytes);
    free(buffer);
}

static void fallback_serve_get(struct aqi_fallback *fb, uint32_t source, const struct aqi_am *am)
{
    uint32_t len = (uint32_t)am->args[3];
    int32_t offset = am->args[2];
    if (len > fallback_piece(fb, fb->peers[source]) || !fb->up.range_ok(fb->up.host, am->addr, len))
        fallback_serve_refuse(fb, source, am);
    else
        fallback_serve_reply(fb, source, am, FB_GET_DATA, &offset, 1,
                             (const void *)(uintptr_t)am->addr, len);
}

static void fallback_serve_atomic(struct aqi_fallback *fb, uint32_t source, const struct aqi_am *am)
{
    struct aqi_atomic req = {.addr = am->addr,
                             .operand1 = fallback_serve_arg_u64(am, 2),
                             .operand2 = fallback_serve_arg_u64(am, 4),
                             .op = (uint8_t)am->args[6],
                             .type = (uint8_t)am->args[7]};
    size_t size = aqi_atomic_size(req.type);
    if (!aqi_atomic_valid(req.op, req.type) || am->addr % size != 0 ||
        !fb->up.range_ok(fb->up.host, am->addr, size)) {
        fallback_serve_refuse(fb, source, am);
        return;
    }
    uint64_t old = aqi_atomic_apply(&req, (void *)(uintptr_t)am->addr);
    int32_t halves[2] = {(int32_t)old, (int32_t)(old >> 32)};
    fallback_serve_reply(fb, source, am, FB_RESULT, halves, 2, NULL, 0);
}

static void fallback_serve_fill(struct aqi_fallback *fb, uint32_t source, const struct aqi_am *am)
{
    uint64_t len = fallback_serve_arg_u64(am, 3);
    bool ok = fb->up.range_ok(fb->up.host, am->addr, len);
    if (ok) memset((void *)(uintptr_t)am->addr, am->args[2], len);
    fallback_serve_reply(fb, source, am, ok ? FB_DONE : FB_REFUSED, NULL, 0, NULL, 0);
}

static void fallback_serve_ping(struct aqi_fallback *fb, uint32_t source, const struct aqi_am *am)
{
    fallback_serve_reply(fb, source, am, FB_DONE, NULL, 0, NULL, 0);
}

static void fallback_serve_count_acked(struct aqi_fallback *fb, struct fallback_op *op,
                                       uint32_t word)
{
    size_t n = word & ~(uint32_t)FB_ANSWER;
    if (op->kind != FB_OP_PUT || n > op->issued - op->finished) return;
    op->finished += n;
    if (op->finished < op->len && op->issued == op->len && (word & FB_ANSWER) != 0) {
        op->sync = true;
        if (!op->pending) fallback_op_wait(fb, op);
    }
    fallback_op_settle(fb, op);
}

static void fallback_serve_take_ack(struct aqi_fallback *fb, struct fallback_op *op,
                                    const struct aqi_am *am)
{
    fallback_serve_count_acked(fb, op, (uint32_t)am->args[2]);
}

static void fallback_serve_take_second_ack(struct aqi_fallback *fb, uint32_t source,
                                           const struct aqi_am *am)
{
    struct fallback_op *op =
        fallback_op_find(&fb->side[source], (uint32_t)am->args[3], (uint32_t)am->args[4]);
    if (op != NULL) fallback_serve_count_acked(fb, op, (uint32_t)am->args[5]);
}

static void fallback_serve_take_data(struct aqi_fallback *fb, struct fallback_op *op,
                                     const struct aqi_am *am)
{
    size_t offset = (uint32_t)am->args[2] * (size_t)64;
    if (op->kind != FB_OP_GET || offset > op->len || am->nbytes > op->len - offset) return;
    if (am->nbytes > op->issued - op->finished) return;
    memcpy(op->local + offset, am->payload, am->nbytes);
    op->finished += am->nbytes;
    fallback_op_settle(fb, op);
}

static void fallback_serve_take_result(struct aqi_fallback *fb, struct fallback_op *op,
                                       const struct aqi_am *am)
{
    if (op->kind != FB_OP_ATOMIC) return;
    uint64_t old = fallback_serve_arg_u64(am, 2);
    if (op->result != NULL) memcpy(op->result, &old, aqi_atomic_size(op->atomic.type));
    op->finished = op->len;
    fallback_op_settle(fb, op);
}

static void fallback_serve_take_done(struct aqi_fallback *fb, struct fallback_op *op,
                                     const struct aqi_am *am)
{
    (void)am;
    if (op->kind != FB_OP_FILL && op->kind != FB_OP_PUT_ROWS && op->kind != FB_OP_PING) return;
    op->finished = op->len;
    fallback_op_settle(fb, op);
}

static void fallback_serve_take_rows(struct aqi_fallback *fb, struct fallback_op *op,
                                     const struct aqi_am *am)
{
    if (op->kind != FB_OP_GET_ROWS || am->nbytes != op->fill_len) return;
    fallback_rows_scatter(op, am->payload);
    op->finished = op->len;
    fallback_op_settle(fb, op);
}

static void fallback_serve_take_refused(struct aqi_fallback *fb, struct fallback_op *op,
                                        const struct aqi_am *am)
{
    bool denied = am->nargs > 2 && am->args[2] == AQ_EACCESS;
    bool reported = op->in_region && am->nargs > 3 && am->args[3] > AQI_REFUSAL_NONE &&
                    am->args[3] < AQI_REFUSALS;
    if (reported && !op->failed && fb->up.refused != NULL)
        fb->up.refused(fb->up.host, op->comp, op->kind == FB_OP_PUT, op->addr, op->len,
                       (enum aqi_refusal)am->args[3]);
    fallback_op_fail(fb, op, denied ? AQ_EACCESS : AQ_ERANGE);
}

/* The required form of each internal message, and its handler. */
static const struct {
    uint8_t nargs;
    bool reply;
    void (*serve)(struct aqi_fallback *, uint32_t, const struct aqi_am *);
    void (*take)(struct aqi_fallback *, struct fallback_op *, const struct aqi_am *);
} messages[FB_MESSAGES] = {
    [FB_PUT] = {3, false, fallback_serve_put, NULL},
    [FB_SYNC] = {2, false, fallback_serve_sync, NULL},
    [FB_ACK] = {3, true, NULL, fallback_serve_take_ack},
    [FB_GET] = {4, false, fallback_serve_get, NULL},
    [FB_GET_DATA] = {3, true, NULL, fallback_serve_take_data},
    [FB_ATOMIC] = {8, false, fallback_serve_atomic, NULL},
    [FB_RESULT] = {4, true, NULL, fallback_serve_take_result},
    [FB_FILL] = {5, false, fallback_serve_fill, NULL},
    [FB_PUT_ROWS] = {2, false, fallback_serve_put_rows, NULL},
    [FB_DONE] = {2, true, NULL, fallback_serve_take_done},
    [FB_GET_ROWS] = {2, false, fallback_serve_get_rows, NULL},
    [FB_ROWS] = {2, true, NULL, fallback_serve_take_rows},
    [FB_REFUSED] = {2, true, NULL, fallback_serve_take_refused},
    [FB_PING] = {2, false, fallback_serve_ping, NULL},
    [FB_REGION_PUT] = {3 + AQI_TICKET, false, fallback_serve_region_put, NULL},
    [FB_REGION_GET] = {4 + AQI_TICKET, false, fallback_serve_region_get, NULL},
};

static bool fallback_serve_internal(struct aqi_fallback *fb, uint32_t source,
                                    const struct aqi_am *am)
{
    bool reply = (am->flags & AQI_AM_IS_REPLY) != 0;
    if (am->handler == 0 || am->handler >= FB_MESSAGES) return false;
    if (am->nargs < messages[am->handler].nargs || reply != messages[am->handler].reply)
        return false;
    if (messages[am->handler].serve != NULL) {
        messages[am->handler].serve(fb, source, am);
        return true;
    }
    struct fallback_peer *side = &fb->side[source];
    aqi_spin_lock_if(fb->params.threads, &side->lock);
    struct fallback_op *op = fallback_op_find(side, (uint32_t)am->args[0], (uint32_t)am->args[1]);
    if (op != NULL) messages[am->handler].take(fb, op, am);
    if (am->handler == FB_ACK && am->nargs >= 6) fallback_serve_take_second_ack(fb, source, am);
    aqi_spin_unlock_if(fb->params.threads, &side->lock);
    return op != NULL;
}

/* Only a warning: the sender's call has completed, and it does not wait for an answer. */
static AQI_COLD void fallback_serve_homeless(uint32_t source, const struct aqi_am *am)
{
    static atomic_bool once;
    aqi_log_once(&once, AQI_LOG_WARN, "transport",
                 "peer %u sent a Long of %u bytes to %#llx, which is not in a segment of this "
                 "process: its handler does not run; destroy a segment once no peer uses it",
                 source, am->nbytes, (unsigned long long)am->addr);
}

bool fallback_serve(struct aqi_fallback *fb, uint32_t source, const struct aqi_am *am)
{
    struct aqi_am visible = *am;
    bool ok = source < fb->params.size && fb->peers[source] != NULL;
    switch (am->kind) {
    case AQI_AM_INTERNAL:
        ok = ok && fallback_serve_internal(fb, source, am);
        break;
    case AQI_AM_LONG_PACKED:
    case AQI_AM_LONG_HEADER:
    case AQI_AM_LONG_LATE:
        if (!ok) break;
        ok = am->nbytes == 0 || fb->up.range_ok(fb->up.host, am->addr, am->nbytes);
        if (!ok) {
            fallback_serve_homeless(source, am);
            break;
        }
        if (am->kind == AQI_AM_LONG_PACKED)
            aqi_copy_put((void *)(uintptr_t)am->addr, am->payload, am->nbytes);
        visible.kind = AQI_AM_LONG;
        if (am->kind == AQI_AM_LONG_LATE) visible.flags |= AQI_AM_IS_REPLY;
        visible.payload = (const void *)(uintptr_t)am->addr;
        fb->up.deliver(fb->up.arg, source, &visible);
        break;
    default:
        return false;
    }
    if (!ok) aqi_count(AQI_CTR_AM_DROPPED, 1);
    return true;
}
