/* What the files of the fallback layer share: its state, its operations and its internal messages.
 */
#ifndef AQI_FALLBACK_IMPL_H
#define AQI_FALLBACK_IMPL_H

#include "base/pool.h"
#include "base/spin.h"
#include "transport/credit_gate.h"
#include "transport/fallback.h"

/* Internal messages: AQI_AM_INTERNAL with one of these as the handler. */
enum fallback_message {
    FB_PUT = 1,  /* request  addr: destination; payload: the bytes */
    FB_PUT_ACK,  /* reply */
    FB_GET,      /* request  addr: source; args[2]: offset in the transfer, [3]: length */
    FB_GET_DATA, /* reply   args[2]: offset; payload: the bytes */
    FB_ATOMIC,   /* request  addr: operand; args[2..7]: operands, op and type */
    FB_RESULT,   /* reply    args[2..3]: the old value */
    FB_FILL,     /* request  addr: destination; args[2]: byte, [3..4]: length */
    FB_FILLED,   /* reply */
    FB_REFUSED,  /* reply    the range or operation is not allowed at the target */
    FB_MESSAGES
};

/* Args 0 and 1 of every internal message: which operation, as slot index and generation. */

enum fallback_kind { FB_OP_FREE, FB_OP_PUT, FB_OP_GET, FB_OP_ATOMIC, FB_OP_FILL, FB_OP_LONG };

/*
 * An operation under way. On the pending list while it has something to send; freed when nothing
 * is to be sent and nothing awaited.
 */
struct fallback_op {
    uint32_t index; /* in the table, for life */
    uint32_t generation;
    uint8_t kind;
    bool failed;
    bool pending;
    uint32_t peer_id;
    struct aqi_peer *peer;
    unsigned char *local;
    uint64_t addr;
    size_t len;      /* bytes; 1 for what is one message, done or not */
    size_t issued;   /* bytes for which a request was sent */
    size_t finished; /* bytes acknowledged or arrived */
    struct aqi_comp *comp;
    void *result;
    struct aqi_atomic atomic;
    uint64_t fill_len;
    int fill_byte;
    /* FB_OP_LONG: the header to send when the put is complete, and the put's own counters. */
    struct aqi_am header;
    int32_t args[AQI_AM_MAX_ARGS];
    struct aqi_comp inner;
    const struct aqi_rmem *rmem;
    const struct aqi_mem *mem;
    bool put_begun;
    void *copy; /* of the source, when the caller wanted it back at once */
    struct fallback_op *next;
};

/* Memory given out by mem_alloc. */
struct gap_memory {
    void *addr;
    size_t len;
    struct gap_memory *next;
};

struct aqi_fallback {
    struct aqi_tp *tp;
    struct aqi_credit_gate *gate; /* with AQI_CAP_CREDITS, else NULL */
    struct aqi_tp_hooks up;       /* of whoever opened the transport */
    struct aqi_transport own;     /* the transport's operations before the gaps were filled */
    struct aqi_tp_params params;
    struct aqi_peer **peers; /* by id, from connect */
    atomic_bool *down;       /* by id */
    struct gap_memory *memory;
    struct aqi_pool op_pool;
    struct fallback_op **ops; /* by index */
    uint32_t op_count, op_room;
    struct fallback_op *free_ops;
    struct fallback_op *pending;
    uint32_t longs;          /* operations of FB_OP_LONG */
    _Atomic uint32_t active; /* operations not free: progress looks only then */
    struct aqi_spin lock;    /* ops, lists and the fields of operations; params.threads only */
};

static inline void fallback_lock(struct aqi_fallback *fb)
{
    if (fb->params.threads) aqi_spin_lock(&fb->lock);
}

static inline void fallback_unlock(struct aqi_fallback *fb)
{
    if (fb->params.threads) aqi_spin_unlock(&fb->lock);
}

static inline void fallback_count(struct aqi_fallback *fb, uint32_t by)
{
    aqi_count_on(&fb->active, fb->params.threads, by);
    aqi_count_on(&aqi_tp_pending, fb->params.threads, by);
}

/* The most that one message of a put or get carries; posted receive buffers are for Mediums. */
static inline size_t fallback_piece(const struct aqi_fallback *fb, const struct aqi_peer *peer)
{
    return fb->gate == NULL ? peer->max_piece : peer->max_medium;
}

/* fallback_ops.c: the initiator's side. The lock is held. */
struct fallback_op *fallback_op_new(struct aqi_fallback *fb, const struct fallback_op *init);
void fallback_op_free(struct aqi_fallback *fb, struct fallback_op *op);
struct fallback_op *fallback_op_find(struct aqi_fallback *fb, const struct aqi_am *am,
                                     uint32_t source);
void fallback_op_settle(struct aqi_fallback *fb, struct fallback_op *op);
void fallback_op_fail(struct aqi_fallback *fb, struct fallback_op *op, aq_status status);
/* Send what can be sent. Returns true when it moved. */
bool fallback_op_push(struct aqi_fallback *fb, struct fallback_op *op);
unsigned fallback_push_all(struct aqi_fallback *fb);

/* fallback_serve.c: a message has arrived; true if it was one of ours. */
bool fallback_serve(struct aqi_fallback *fb, uint32_t source, const struct aqi_am *am);

#endif
