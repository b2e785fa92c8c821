/*
 * The fallback layer's side that starts operations: cuts puts and gets into messages, sends
 * what there is room for, keeps the rest on a list that progress pushes on.
 */
#include "transport/fallback_impl.h"

#include <stdlib.h>
#include <string.h>

/* Gets ask for this many pieces ahead: enough to cover a round trip, few enough for replies. */
enum { GET_WINDOW = 16 };

/* A new place in the table of operations, which answers refer to by index. */
static struct fallback_op *op_grow(struct aqi_fallback *fb)
{
    if (fb->op_count == fb->op_room) {
        uint32_t room = fb->op_room ? 2 * fb->op_room : 64;
        struct fallback_op **ops = realloc(fb->ops, room * sizeof(*ops));
        if (ops == NULL) return NULL;
        fb->ops = ops;
        fb->op_room = room;
    }
    struct fallback_op *op = aqi_pool_get(&fb->op_pool);
    if (op == NULL) return NULL;
    op->index = fb->op_count;
    op->generation = 0;
    fb->ops[fb->op_count++] = op;
    return op;
}

struct fallback_op *fallback_op_new(struct aqi_fallback *fb, const struct fallback_op *init)
{
    struct fallback_op *op = fb->free_ops;
    if (op != NULL)
        fb->free_ops = op->next;
    else if ((op = op_grow(fb)) == NULL)
        return NULL;
    uint32_t index = op->index, generation = op->generation + 1;
    *op = *init;
    op->index = index;
    op->generation = generation;
    op->peer_id = init->peer->id;
    fallback_count(fb, 1);
    if (op->kind == FB_OP_LONG) fb->longs++;
    return op;
}

/* The operation that an answer belongs to, if it really is one that its sender may answer. */
struct fallback_op *fallback_op_find(struct aqi_fallback *fb, const struct aqi_am *am,
                                     uint32_t source)
{
    uint32_t index = (uint32_t)am->args[0];
    if (index >= fb->op_count) return NULL;
    struct fallback_op *op = fb->ops[index];
    if (op->kind == FB_OP_FREE || op->failed || op->peer_id != source ||
        op->generation != (uint32_t)am->args[1])
        return NULL;
    return op;
}

void fallback_op_free(struct aqi_fallback *fb, struct fallback_op *op)
{
    free(op->copy);
    op->copy = NULL;
    if (op->kind == FB_OP_LONG) fb->longs--;
    op->kind = FB_OP_FREE;
    op->next = fb->free_ops;
    fb->free_ops = op;
    fallback_count(fb, UINT32_MAX);
}

/* Complete and free it if nothing is left to do; one still on the pending list is freed there. */
void fallback_op_settle(struct aqi_fallback *fb, struct fallback_op *op)
{
    if (op->kind == FB_OP_LONG || op->finished < op->len || op->failed) return;
    aqi_comp_remote(op->comp);
    op->comp = NULL;
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

static aq_status send_internal(struct aqi_fallback *fb, struct fallback_op *op,
                               enum fallback_message type, uint64_t addr, const int32_t *more,
                               unsigned nmore, const void *payload, size_t nbytes)
{
    int32_t args[8] = {(int32_t)op->index, (int32_t)op->generation};
    for (unsigned i = 0; i < nmore; i++)
        args[2 + i] = more[i];
    struct aqi_am am = {.kind = AQI_AM_INTERNAL,
                        .handler = (uint8_t)type,
                        .nargs = (uint8_t)(2 + nmore),
                        .nbytes = (uint32_t)nbytes,
                        .addr = addr,
                        .args = args,
                        .payload = payload};
    return fb->own.am_send(fb->tp, op->peer, &am, NULL);
}

static aq_status push_put(struct aqi_fallback *fb, struct fallback_op *op)
{
    size_t n = aqi_min(op->len - op->issued, fallback_piece(fb, op->peer));
    aq_status st =
        send_internal(fb, op, FB_PUT, op->addr + op->issued, NULL, 0, op->local + op->issued, n);
    if (st != AQ_OK) return st;
    op->issued += n;
    if (op->issued == op->len) aqi_comp_local(op->comp);
    return AQ_OK;
}

static aq_status push_get(struct aqi_fallback *fb, struct fallback_op *op)
{
    /* Pieces are multiples of 64 bytes, so that a 32-bit argument can hold any offset. */
    size_t piece = fallback_piece(fb, op->peer) / 64 * 64;
    if (op->issued - op->finished >= GET_WINDOW * piece) return AQ_AGAIN;
    size_t n = aqi_min(op->len - op->issued, piece);
    int32_t more[2] = {(int32_t)(op->issued / 64), (int32_t)n};
    aq_status st = send_internal(fb, op, FB_GET, op->addr + op->issued, more, 2, NULL, 0);
    if (st == AQ_OK) op->issued += n;
    return st;
}

static aq_status push_atomic(struct aqi_fallback *fb, struct fallback_op *op)
{
    const struct aqi_atomic *req = &op->atomic;
    int32_t more[6] = {(int32_t)req->operand1, (int32_t)(req->operand1 >> 32),
                       (int32_t)req->operand2, (int32_t)(req->operand2 >> 32),
                       (int32_t)req->op,       (int32_t)req->type};
    aq_status st = send_internal(fb, op, FB_ATOMIC, op->addr, more, 6, NULL, 0);
    if (st == AQ_OK) op->issued = op->len;
    return st;
}

static aq_status push_fill(struct aqi_fallback *fb, struct fallback_op *op)
{
    int32_t more[3] = {op->fill_byte, (int32_t)op->fill_len, (int32_t)(op->fill_len >> 32)};
    aq_status st = send_internal(fb, op, FB_FILL, op->addr, more, 3, NULL, 0);
    if (st == AQ_OK) op->issued = op->len;
    return st;
}

/* A Long: first the put, then its header once the bytes are there. */
static aq_status push_long(struct aqi_fallback *fb, struct fallback_op *op)
{
    if (!op->put_begun) {
        atomic_store_explicit(&op->inner.local, 1, memory_order_relaxed);
        atomic_store_explicit(&op->inner.remote, 1, memory_order_relaxed);
        op->inner.shared = fb->params.threads;
        /* May be our own put, which takes the lock. */
        fallback_unlock(fb);
        aq_status st = fb->tp->ops.put(fb->tp, op->peer, op->rmem, op->addr, op->local, op->len,
                                       op->mem, &op->inner);
        fallback_lock(fb);
        if (st != AQ_OK) return st;
        op->put_begun = true;
    }
    if (atomic_load_explicit(&op->inner.remote, memory_order_acquire) != 0) return AQ_AGAIN;
    if (atomic_load_explicit(&op->inner.status, memory_order_relaxed) != AQ_OK)
        return (aq_status)op->inner.status;
    op->header.args = op->args;
    /* The handler it replies from has returned, and its request was given back. */
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
    [FB_OP_PUT] = push_put,   [FB_OP_GET] = push_get,   [FB_OP_ATOMIC] = push_atomic,
    [FB_OP_FILL] = push_fill, [FB_OP_LONG] = push_long,
};

bool fallback_op_push(struct aqi_fallback *fb, struct fallback_op *op)
{
    bool moved = false;
    while (!op->failed && op->issued < op->len) {
        aq_status st = pushers[op->kind](fb, op);
        if (st == AQ_AGAIN) break;
        if (st < 0) fallback_op_fail(fb, op, st);
        moved = true;
    }
    return moved;
}

/* Give each pending operation a turn; those with nothing left to send leave the list. */
unsigned fallback_push_all(struct aqi_fallback *fb)
{
    unsigned moved = 0;
    fallback_lock(fb);
    struct fallback_op *list = fb->pending, *keep = NULL;
    fb->pending = NULL;
    while (list != NULL) {
        struct fallback_op *op = list;
        list = op->next;
        if (!op->failed && atomic_load_explicit(&fb->down[op->peer_id], memory_order_relaxed))
            fallback_op_fail(fb, op, AQ_EPEER);
        if (fallback_op_push(fb, op)) moved++;
        if (!op->failed && op->issued < op->len) {
            op->next = keep;
            keep = op;
            continue;
        }
        op->pending = false;
        if (op->failed || op->finished == op->len) fallback_op_free(fb, op);
    }
    while (keep != NULL) { /* oldest first again, before what was added meanwhile */
        struct fallback_op *op = keep;
        keep = op->next;
        op->next = fb->pending;
        fb->pending = op;
    }
    fallback_unlock(fb);
    return moved;
}
