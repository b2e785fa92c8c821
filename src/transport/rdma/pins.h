/*
 * Memory that a transport registers on demand, by the cache of src/reg. The local memory of puts
 * and gets is pinned piece by piece as the pieces are posted, and kept pinned if the monitor
 * reports changes of it, or if they do not matter. If segments may be too large to be registered,
 * pieces of them are lent to peers that request them.
 *
 * One caller at a time: a transport calls with its lock held.
 */
#ifndef AQI_PINS_H
#define AQI_PINS_H

#include "base/pool.h"
#include "reg/monitor.h"
#include "reg/reg.h"
#include "transport/transport.h"

struct aqi_rdma;

/* How the local memory of a transfer is reached. */
enum aqi_op_by {
    AQI_BY_KNOWN, /* it lies in a registration that the caller knows, or needs none */
    AQI_BY_PINS,  /* it is pinned on demand */
    AQI_BY_BOUNCE /* it is copied */
};

/* The part of a put or get common to all networks: the first member of the driver's struct. */
struct aqi_transfer {
    struct aqi_comp *comp;
    bool get;
    bool ended;   /* for the initiator; pieces of it may still be in flight */
    bool is_long; /* the payload of a Long, which is complete with its header */
    enum aqi_op_by by;
    enum aqi_reg_how how; /* for memory pinned for it; AQI_REG_NEVER: not determined yet */
    aq_status status;
    uint64_t remote;
    unsigned char *local;
    unsigned char copy[AQI_PUT_COPIED]; /* of the data of a short put, made before it returns */
    size_t len, posted, done;
    bool exposed;                 /* the network may access the initiator's memory */
    bool follows;                 /* `header` has yet to be sent, once all else has been posted */
    struct aqi_rdma_buf *header;  /* of a Long, to be sent after its payload, or NULL */
    struct aqi_rdma_copy *source; /* of local memory that was given back to the caller, or NULL */
    struct aqi_rdma_peer *peer;
    struct aqi_transfer *next_op, **link; /* in the list of the peer's transfers */
    struct aqi_transfer *next;            /* in a queue, at most one */
    /* If the peer's memory is lent on demand (lending.h): */
    struct aqi_loan *loan; /* NULL: not requested yet, or the memory is registered there */
};

/* A queue of transfers; empty if zeroed. */
struct aqi_transfers {
    struct aqi_transfer *first, *last; /* last: if there is a first */
};

static inline void aqi_transfers_append(struct aqi_transfers *queue, struct aqi_transfer *op)
{
    op->next = NULL;
    if (queue->first == NULL)
        queue->first = op;
    else
        queue->last->next = op;
    queue->last = op;
}

static inline void aqi_transfers_prepend(struct aqi_transfers *queue, struct aqi_transfer *op)
{
    if (queue->first == NULL) queue->last = op;
    op->next = queue->first;
    queue->first = op;
}

/* NULL: it is empty. */
static inline struct aqi_transfer *aqi_transfers_take(struct aqi_transfers *queue)
{
    struct aqi_transfer *op = queue->first;
    if (op != NULL) queue->first = op->next;
    return op;
}

/* The use of the memory. */
enum aqi_pins_access {
    AQI_PINS_READ,   /* a put, whose memory may be read-only */
    AQI_PINS_WRITE,  /* puts and gets */
    AQI_PINS_PEERS,  /* puts and gets, also of peers */
    AQI_PINS_BUFFERS /* messages, puts and gets */
};

/* Memory that is not unmapped while peers may access it. */
struct aqi_pins_segment {
    uint64_t addr, len;
    struct aqi_pins_segment *next;
};

struct aqi_pins {
    struct aqi_reg *reg;         /* NULL: not open */
    struct aqi_monitor *monitor; /* NULL: nothing is watched */
    bool keeps;                  /* memory outside the segments is also kept */
    struct aqi_pins_segment *segments;
    struct aqi_pool uses;
    uint64_t page;
    uint64_t region; /* pieces of a peer's memory end at multiples of this */
    size_t ride;     /* maximum bytes of a put that may travel with the request for its memory */
    struct aqi_transfer *op; /* memory is being pinned for this; NULL: for a peer */
    bool once;               /* and only for this */
    bool due;                /* there may be something to unpin or send */
};

/*
 * Open rdma->pins; `registrations`: maximum number, 0: no limit. `cut`: the network pins pages, so
 * kept memory is watched, and memory that has changed is deregistered at once: the network then
 * answers with an error. If false, the network accesses whatever is mapped at the address.
 *
 * @return AQ_ESETTING, AQ_ENOMEM: it must be closed even then
 */
aq_status aqi_pins_open(struct aqi_rdma *rdma, uint64_t registrations, bool cut);
void aqi_pins_close(struct aqi_pins *pins); /* nothing may be in use; no-op if not open */
/* Advice for aqinfo on how to improve it; "" if there is none. */
void aqi_pins_advise(char *advice, size_t len);

/* Pin the start of the `*len` bytes at `offset` of `op`, and reduce `*len` to what was pinned.
 * NULL: it cannot be pinned. */
struct aqi_reg_use *aqi_pins_get(struct aqi_pins *pins, struct aqi_transfer *op, size_t offset,
                                 size_t *len);
void aqi_pins_put(struct aqi_pins *pins, struct aqi_reg_use *use);
void *aqi_pins_mr(const struct aqi_reg_use *use, unsigned rail); /* as `reg` returned it */

/* Offer this memory: whole pieces of it may be pinned and lent. */
void aqi_pins_offer(struct aqi_pins *pins, struct aqi_pins_segment *segment);
/* The memory is about to change: if it was offered, withdraw it and revoke what was lent of it. */
void aqi_pins_withdraw(struct aqi_pins *pins, const struct aqi_pins_segment *segment);

/* Unpin what was unmapped or is not kept, and notify the peers that hold it. */
static inline void aqi_pins_progress(struct aqi_pins *pins)
{
    if (AQI_UNLIKELY(pins->due ||
                     (pins->monitor != NULL && aqi_monitor_has_changes(pins->monitor))))
        pins->due = aqi_reg_progress(pins->reg);
}

#endif
