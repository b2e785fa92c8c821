/* Shared by the files of the fallback layer: its state, operations and internal messages. */
#ifndef AQI_FALLBACK_IMPL_H
#define AQI_FALLBACK_IMPL_H

#include "base/pool.h"
#include "base/spin.h"
#include "transport/layers/credit_gate.h"
#include "transport/layers/fallback.h"

/* Internal messages: AQI_AM_INTERNAL with one of these as the handler. */
enum fallback_message {
    FB_PUT = 1,    /* request  addr: destination; args[2]: FB_ANSWER or 0; payload: the bytes */
    FB_SYNC,       /* request  acknowledge everything held back */
    FB_ACK,        /* reply    args[2]: bytes, with FB_ANSWER; [3..5]: another put, and its bytes */
    FB_GET,        /* request  addr: source; args[2]: offset in the transfer, [3]: length */
    FB_GET_DATA,   /* reply   args[2]: offset; payload: the bytes */
    FB_ATOMIC,     /* request  addr: operand; args[2..7]: operands, op and type */
    FB_RESULT,     /* reply    args[2..3]: the old value */
    FB_FILL,       /* request  addr: destination; args[2]: byte, [3..4]: length */
    FB_PUT_ROWS,   /* request  payload: records, each with its bytes */
    FB_DONE,       /* reply    to FB_FILL, FB_PUT_ROWS and FB_PING */
    FB_GET_ROWS,   /* request  payload: records */
    FB_ROWS,       /* reply    payload: their bytes */
    FB_REFUSED,    /* reply    the range or operation is not allowed at the target; args[2]: the
                               status, else AQ_ERANGE; [3]: of a region: enum aqi_refusal */
    FB_REGION_PUT, /* as FB_PUT, but addr: offset in the region of the ticket, args[3..6] */
    FB_REGION_GET, /* as FB_GET, likewise args[4..7] */
    FB_PING,       /* request  answer with FB_DONE */
    FB_MESSAGES
};
static_assert(FB_MESSAGES <= AQI_AM_INTERNAL_VOID, "which is none of them");

/*
 * Args 0 and 1 of every internal message name the operation by slot index and generation, so that a
 * late, repeated or forged answer matches none.
 */

/*
 * Pieces of a put are acknowledged together: the target adds up the bytes that arrive, and answers
 * after the last piece, or along with another put. If pieces arrive out of order, the answer does
 * not cover all of them, and the initiator requests another (FB_SYNC).
 */
#define FB_ANSWER    0x40000000
#define FB_MOST_HELD 0x20000000u /* bytes, above which it answers anyway */

/* An adapter fills up to this many bytes by a put; a larger fill is a message. */
enum { FB_FILL_BY_PUT = 4096 };

enum fallback_kind {
    FB_OP_FREE,
    FB_OP_PUT,
    FB_OP_GET,
    FB_OP_ATOMIC,
    FB_OP_FILL,
    FB_OP_LONG,
    FB_OP_PUT_ROWS,
    FB_OP_GET_ROWS,
    FB_OP_PING
};

/*
 * An operation in progress: on the pending list while it has messages to send, and freed when it
 * has none to send or to wait for.
 */
struct fallback_op {
    uint32_t index; /* in its peer's table; never changes */
    uint32_t generation;
    uint8_t kind;
    bool failed;
    bool pending;
    bool sync; /* FB_OP_PUT: FB_SYNC must be sent */
    struct aqi_peer *peer;
    unsigned char *local;
    uint64_t addr;
    bool in_region; /* `addr` is an offset */
    int32_t ticket[AQI_TICKET];
    size_t len;      /* bytes; 1 for an operation of one message */
    size_t issued;   /* bytes for which requests were sent */
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
    unsigned rows;
    void *copy; /* of the source, if the caller may reuse it at once; or of a get's rows */
    struct fallback_op *next;
};

/* Memory allocated by mem_alloc. */
struct gap_memory {
    void *addr;
    size_t len;
    struct gap_memory *next;
};

struct fallback_peer {
    atomic_bool down;
    bool queued;              /* in aqi_fallback.ready, under its lock */
    struct aqi_spin lock;     /* the fields below, and those of operations; params.threads only */
    struct fallback_op **ops; /* by index */
    uint32_t op_count;
    size_t op_room;
    struct fallback_op *free_ops;
    struct fallback_op *pending, **pending_end; /* oldest first; NULL: empty */
    uint32_t longs;                             /* operations of FB_OP_LONG */
    struct {
        uint32_t index, generation, bytes; /* of its put that is not acknowledged yet; 0: none */
    } held;
    struct fallback_peer *next;
};

struct aqi_fallback {
    struct aqi_tp *tp;
    struct aqi_credit_gate *gate; /* with AQI_CAP_CREDITS, else NULL */
    struct aqi_tp_hooks up;       /* hooks of the transport's opener */
    struct aqi_transport own;     /* the transport's operations before missing ones were added */
    struct aqi_tp_params params;
    struct aqi_peer **peers;    /* by id, set by connect */
    struct fallback_peer *side; /* by id */
    struct gap_memory *memory;
    struct aqi_pool op_pool;
    _Atomic(void *) blocks[UINT8_MAX + 1]; /* sources of small fills, by byte; made on first use */
    struct fallback_peer *ready;           /* peers with pending operations */
    struct aqi_spin lock;                  /* of that list; params.threads only */
    _Atomic uint32_t active;               /* operations not free */
    _Atomic uint32_t waiting;              /* pending operations: progress skips the list if 0 */
};

static inline struct fallback_peer *fallback_side(struct aqi_fallback *fb,
                                                  const struct fallback_op *op)
{
    return &fb->side[op->peer->id];
}

static inline void fallback_wait(struct aqi_fallback *fb, uint32_t by)
{
    aqi_count_on(&fb->waiting, fb->params.threads, by);
    aqi_count_on(&aqi_tp_pending, fb->params.threads, by);
}

/* The maximum for one message of a put or get; posted receive buffers only hold a Medium. */
static inline size_t fallback_piece(const struct aqi_fallback *fb, const struct aqi_peer *peer)
{
    return fb->gate == NULL ? peer->max_piece : peer->max_medium;
}

/* A message of this layer about an operation, named by its first two arguments; `args` has room for
 * eight, and gets `more` after them. */
static inline struct aqi_am fallback_am(enum fallback_message type, int32_t *args,
                                        const int32_t *more, unsigned nmore, const void *payload,
                                        size_t nbytes)
{
    for (unsigned i = 0; i < nmore; i++)
        args[2 + i] = more[i];
    return (struct aqi_am){.kind = AQI_AM_INTERNAL,
                           .handler = (uint8_t)type,
                           .nargs = (uint8_t)(2 + nmore),
                           .nbytes = (uint32_t)nbytes,
                           .args = args,
                           .payload = payload};
}

/*
 * fallback_ops.c: the initiator's side. Start an operation: send as much as there is room for, and
 * keep the rest on the pending list. If nothing could be sent, it has not begun (AQ_AGAIN), unless
 * `must` is set, since a reply may not be refused. Always takes ownership of `copy`.
 */
aq_status fallback_submit(struct aqi_fallback *fb, const struct fallback_op *init, bool must);
unsigned fallback_push_all(struct aqi_fallback *fb);
/* The following need the lock of the peer. */
struct fallback_op *fallback_op_new(struct aqi_fallback *fb, const struct fallback_op *init);
void fallback_op_free(struct aqi_fallback *fb, struct fallback_op *op);
struct fallback_op *fallback_op_find(struct fallback_peer *side, uint32_t index,
                                     uint32_t generation);
void fallback_op_settle(struct aqi_fallback *fb, struct fallback_op *op);
void fallback_op_fail(struct aqi_fallback *fb, struct fallback_op *op, aq_status status);
/* Put an operation that has something to send on the pending list, which progress serves. */
void fallback_op_wait(struct aqi_fallback *fb, struct fallback_op *op);

/* fallback_rows.c: scattered transfers, whose rows share messages. */
aq_status fallback_rows(struct aqi_fallback *fb, bool put, struct aqi_peer *peer,
                        struct aqi_row *rows, unsigned n, unsigned *taken, struct aqi_comp *comp);
/*
 * Serve one request, completely or not at all. Returns false if it is malformed, or its memory must
 * not be accessed.
 */
bool fallback_rows_put(struct aqi_fallback *fb, const struct aqi_am *am);
/* The same for a get, whose bytes are returned in `*buffer`, from malloc. NULL: out of memory. */
bool fallback_rows_get(struct aqi_fallback *fb, const struct aqi_am *am, size_t most, void **buffer,
                       size_t *nbytes);
void fallback_rows_scatter(const struct fallback_op *op, const void *bytes);

/* fallback_serve.c: a message has arrived; true if it was one of ours. */
bool fallback_serve(struct aqi_fallback *fb, uint32_t source, const struct aqi_am *am);

#endif
