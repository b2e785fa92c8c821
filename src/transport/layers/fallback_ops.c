/*
 * The initiating side of the fallback layer: divides puts and gets into messages, sends those for
 * which there is room, and keeps the rest on lists for progress to continue.
 */
#include "base/array.h"
#include "base/fail.h"
#include "transport/layers/fallback_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
    GET_WINDOW = 16, /* pieces requested ahead: cover a round trip, and leave room for replies */
    MOST_LONGS = 64  /* Longs in progress to a peer before another request gets AQ_AGAIN */
};

/* --- operations of a peer, to which answers refer by index ------------------------------------ */

static struct fallback_op *fallback_ops_grow(struct aqi_fallback *fb, struct fallback_peer *side)
{
    size_t wanted = (size_t)side->op_count + 1;
    if (!aqi_array_reserve(&side->ops, &side->op_room, wanted, sizeof(*side->ops))) return NULL;
    struct fallback_op *op = aqi_pool_get(&fb->op_pool);
    if (op == NULL) return NULL;
    op->index = side->op_count;
    op->generation = 0;
    side->ops[side->op_count++] = op;
    return op;
}

struct fallback_op *fallback_op_new(struct aqi_fallback *fb, const struct fallback_op *init)
{
    struct fallback_peer *side = fallback_side(fb, init);
    struct fallback_op *op = side->free_ops;
    if (op != NULL)
        side->free_ops = op->next;
    else if ((op = fallback_ops_grow(fb, side)) == NULL)
        return NULL;
    uint32_t index = op->index, generation = op->generation + 1;
    *op = *init;
    op->index = index;
    op->generation = generation;
    aqi_count_on(&fb->active, fb->params.threads, 1);
    if (op->kind == FB_OP_LONG) side->longs++;
    return op;
}

struct fallback_op *fallback_op_find(struct fallback_peer *side, uint32_t index,
                                     uint32_t generation)
{
    struct fallback_op *op = index < side->op_count ? side->ops[index] : NULL;
    if (op == NULL || op->kind == FB_OP_FREE || op->failed || op->generation != generation)
        return NULL;
    return op;
}

void fallback_op_free(struct aqi_fallback *fb, struct fallback_op *op)
{
    struct fallback_peer *side = fallback_side(fb, op);
    free(op->copy);
    op->copy = NULL;
    if (op->kind == FB_OP_LONG) side->longs--;
    op->kind = FB_OP_FREE;
    op->next = side->free_ops;
    side->free_ops = op;
    aqi_count_on(&fb->active, fb->params.threads, UINT32_MAX);
}

/* Complete an operation if nothing is left to do, and free it unless it is on the pending list. */
void fallback_op_settle(struct aqi_fallback *fb, struct fallback_op *op)
{
    if (op->kind == FB_OP_LONG || op->finished < op->len || op->failed) return;
    aqi_comp_remote(op->comp);
    op->comp = NULL;
    op->sync = false;
    if (!op->pending) fallback_op_free(fb, op);
}

void fallback_op_fail(struct aqi_fallback *fb, struct fallback_op *op, aq_status status)
{
    if (op->failed) return;
    aqi_comp_fail(op->comp, status);
    if (op->kind == FB_OP_PUT && op->issued < op->len) aqi_comp_local(op->comp);
    if (op->kind == FB_OP_LONG) {
        if (op->copy == NULL) aqi_comp_local(op->comp);
    } else {
        aqi_comp_remote(op->comp);
    }
    op->comp = NULL;
    op->failed = true;
    if (!op->pending) fallback_op_free(fb, op);
}

/* --- sending --------------------------------------------------------------------------------- */

static aq_status fallback_ops_send_internal(struct aqi_fallback *fb, struct fallback_op *op,
                                            enum fallback_message type, uint64_t addr,
                                            const int32_t *more, unsigned nmore,
                                            const void *payload, size_t nbytes)
{
    int32_t args[8] = {(int32_t)op->index, (int32_t)op->generation};
    struct aqi_am am = fallback_am(type, args, more, nmore, payload, nbytes);
    am.addr = addr;
    return fb->own.am_send(fb->tp, op->peer, &am, NULL);
}

static aq_status fallback_ops_push_put(struct aqi_fallback *fb, struct fallback_op *op)
{
    if (op->issued == op->len) {
        aq_status st = fallback_ops_send_internal(fb, op, FB_SYNC, 0, NULL, 0, NULL, 0);
        if (st == AQ_OK) op->sync = false;
        return st;
    }
    size_t n = aqi_min(op->len - op->issued, fallback_piece(fb, op->peer));
    int32_t more[1 + AQI_TICKET] = {op->issued + n == op->len ? FB_ANSWER : 0};
    memcpy(more + 1, op->ticket, sizeof(op->ticket));
    aq_status st = fallback_ops_send_internal(
        fb, op, op->in_region ? FB_REGION_PUT : FB_PUT, op->addr + op->issued, more,
        op->in_region ? 1 + AQI_TICKET : 1, op->local + op->issued, n);
    if (st != AQ_OK) return st;
    op->issued += n;
    if (op->issued == op->len) aqi_comp_local(op->comp);
    return AQ_OK;
}

static aq_status fallback_ops_push_get(struct aqi_fallback *fb, struct fallback_op *op)
{
    /* Pieces are multiples of 64 bytes, so that a 32-bit argument can hold any offset. */
    size_t piece = fallback_piece(fb, op->peer) / 64 * 64;
    if (op->issued - op->finished >= GET_WINDOW * piece) return AQ_AGAIN;
    size_t n = aqi_min(op->len - op->issued, piece);
    int32_t more[2 + AQI_TICKET] = {(int32_t)(op->issued / 64), (int32_t)n};
    memcpy(more + 2, op->ticket, sizeof(op->ticket));
    aq_status st = fallback_ops_send_internal(fb, op, op->in_region ? FB_REGION_GET : FB_GET,
                                              op->addr + op->issued, more,
                                              op->in_region ? 2 + AQI_TICKET : 2, NULL, 0);
    if (st == AQ_OK) op->issued += n;
    return st;
}

static aq_status fallback_ops_push_atomic(struct aqi_fallback *fb, struct fallback_op *op)
{
    const struct aqi_atomic *req = &op->atomic;
    int32_t more[6] = {(int32_t)req->operand1, (int32_t)(req->operand1 >> 32),
                       (int32_t)req->operand2, (int32_t)(req->operand2 >> 32),
                       (int32_t)req->op,       (int32_t)req->type};
    aq_status st = fallback_ops_send_internal(fb, op, FB_ATOMIC, op->addr, more, 6, NULL, 0);
    if (st == AQ_OK) op->issued = op->len;
    return st;
}

static aq_status fallback_ops_push_fill(struct aqi_fallback *fb, struct fallback_op *op)
{
    int32_t more[3] = {op->fill_byte, (int32_t)op->fill_len, (int32_t)(op->fill_len >> 32)};
    aq_status st = fallback_ops_send_internal(fb, op, FB_FILL, op->addr, more, 3, NULL, 0);
    if (st == AQ_OK) op->issued = op->len;
    return st;
}

static aq_status fallback_ops_push_ping(struct aqi_fallback *fb, struct fallback_op *op)
{
    aq_status st = fallback_ops_send_internal(fb, op, FB_PING, 0, NULL, 0, NULL, 0);
    if (st == AQ_OK) op->issued = op->len;
    return st;
}

/* A Long: first the put, then its header once the bytes are there. */
static aq_status fallback_ops_push_long(struct aqi_fallback *fb, struct fallback_op *op)
{
    if (!op->put_begun) {
        struct aqi_spin *lock = &fallback_side(fb, op)->lock;
        atomic_store_explicit(&op->inner.local, 1, memory_order_relaxed);
        atomic_store_explicit(&op->inner.remote, 1, memory_order_relaxed);
        op->inner.shared = fb->params.threads;
        /* This may be the layer's own put, which takes the lock. */
        aqi_spin_unlock_if(fb->params.threads, lock);
        aq_status st = fb->tp->ops.put(fb->tp, op->peer, op->rmem, op->addr, op->local, op->len,
                                       op->mem, &op->inner);
        aqi_spin_lock_if(fb->params.threads, lock);
        if (st != AQ_OK) return st;
        op->put_begun = true;
    }
    if (atomic_load_explicit(&op->inner.remote, memory_order_acquire) != 0) return AQ_AGAIN;
    if (atomic_load_explicit(&op->inner.status, memory_order_relaxed) != AQ_OK)
        return (aq_status)op->inner.status;
    op->header.args = op->args;
    /* The handler that sent this reply has ended, and so the request's credit has been returned. */
    if (fb->gate != NULL && (op->header.flags & AQI_AM_IS_REPLY)) {
        op->header.kind = AQI_AM_LONG_LATE;
        op->header.flags &= AQI_AM_EPS;
    }
    aq_status st = fb->own.am_send(fb->tp, op->peer, &op->header, NULL);
    if (st != AQ_OK) return st;
    if (op->copy == NULL) aqi_comp_local(op->comp);
    op->issued = op->finished = op->len;
    return AQ_OK;
}

static aq_status (*const pushers[])(struct aqi_fallback *, struct fallback_op *) = {
    [FB_OP_PUT] = fallback_ops_push_put,       [FB_OP_GET] = fallback_ops_push_get,
    [FB_OP_ATOMIC] = fallback_ops_push_atomic, [FB_OP_FILL] = fallback_ops_push_fill,
    [FB_OP_LONG] = fallback_ops_push_long,     [FB_OP_PING] = fallback_ops_push_ping,
};

static bool fallback_ops_has_more(const struct fallback_op *op)
{
    return !op->failed && (op->issued < op->len || op->sync);
}

/* Send as much as possible. Returns true if it made progress. */
static bool fallback_ops_push(struct aqi_fallback *fb, struct fallback_op *op)
{
    bool moved = false;
    while (fallback_ops_has_more(op)) {
        aq_status st = pushers[op->kind](fb, op);
        if (st == AQ_AGAIN) break;
        if (st < 0) fallback_op_fail(fb, op, st);
        moved = true;
    }
    return moved;
}

/* --- pending operations ---------------------------------------------------------------------- */

static void fallback_ops_list_op(struct fallback_peer *side, struct fallback_op *op)
{
    if (side->pending == NULL) side->pending_end = &side->pending;
    /* A ping goes first, since a long put takes all the room that the peer makes. */
    struct fallback_op **at = op->kind == FB_OP_PING ? &side->pending : side->pending_end;
    op->next = *at;
    *at = op;
    if (op->next == NULL) side->pending_end = &op->next;
}

void fallback_op_wait(struct aqi_fallback *fb, struct fallback_op *op)
{
    struct fallback_peer *side = fallback_side(fb, op);
    op->pending = true;
    fallback_ops_list_op(side, op);
    fallback_wait(fb, 1);
    if (fb->params.bell.memory != NULL)
        (void)aqi_bell_ring(&fb->params.bell); /* the transport may be resting */
    aqi_spin_lock_if(fb->params.threads, &fb->lock);
    if (!side->queued) {
        side->queued = true;
        side->next = fb->ready;
        fb->ready = side;
    }
    aqi_spin_unlock_if(fb->params.threads, &fb->lock);
}

aq_status fallback_submit(struct aqi_fallback *fb, const struct fallback_op *init, bool must)
{
    struct fallback_peer *side = fallback_side(fb, init);
    aq_status st = AQ_EPEER;
    aqi_spin_lock_if(fb->params.threads, &side->lock);
    if (atomic_load_explicit(&side->down, memory_order_relaxed)) goto refused;
    st = AQ_AGAIN;
    if (init->kind == FB_OP_LONG && !must && side->longs >= MOST_LONGS) goto refused;
    st = AQ_ENOMEM;
    struct fallback_op *op = fallback_op_new(fb, init);
    if (op == NULL) goto refused;
    /* Marked as pending while it starts, so that an early answer does not free it. */
    op->pending = true;
    bool begun = fallback_ops_push(fb, op) || must || op->put_begun;
    if (!begun) op->comp = NULL; /* as if it had never been started */
    op->pending = false;
    if (!begun || op->failed || (!fallback_ops_has_more(op) && op->finished == op->len))
        fallback_op_free(fb, op);
    else if (fallback_ops_has_more(op))
        fallback_op_wait(fb, op);
    aqi_spin_unlock_if(fb->params.threads, &side->lock);
    return begun ? AQ_OK : AQ_AGAIN;
refused:
    aqi_spin_unlock_if(fb->params.threads, &side->lock);
    free(init->copy);
    if (st != AQ_ENOMEM) return st;
    return aqi_fail(st, "transport", "no memory for an operation by messages");
}

/* Give each pending operation to a peer a turn; remove those with nothing left to send. */
static unsigned fallback_ops_push_peer(struct aqi_fallback *fb, struct fallback_peer *side)
{
    unsigned moved = 0;
    struct fallback_op *next;
    aqi_spin_lock_if(fb->params.threads, &side->lock);
    struct fallback_op *list = side->pending;
    side->pending = NULL;
    for (struct fallback_op *op = list; op != NULL; op = next) {
        next = op->next;
        if (atomic_load_explicit(&side->down, memory_order_relaxed))
            fallback_op_fail(fb, op, AQ_EPEER);
        if (fallback_ops_push(fb, op)) moved++;
        fallback_wait(fb, UINT32_MAX);
        if (fallback_ops_has_more(op)) {
            fallback_op_wait(fb, op);
            continue;
        }
        op->pending = false;
        if (op->failed || op->finished == op->len) fallback_op_free(fb, op);
    }
    aqi_spin_unlock_if(fb->params.threads, &side->lock);
    return moved;
}

unsigned fallback_push_all(struct aqi_fallback *fb)
{
    unsigned moved = 0;
    aqi_spin_lock_if(fb->params.threads, &fb->lock);
    struct fallback_peer *ready = fb->ready, *next;
    fb->ready = NULL;
    aqi_spin_unlock_if(fb->params.threads, &fb->lock);
    for (; ready != NULL; ready = next) {
        aqi_spin_lock_if(fb->params.threads, &fb->lock);
        next = ready->next;
        ready->queued = false;
        aqi_spin_unlock_if(fb->params.threads, &fb->lock);
        moved += fallback_ops_push_peer(fb, ready);
    }
    return moved;
}
