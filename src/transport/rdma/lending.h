/*
 * Puts and gets of memory that its owner lends on demand (firehose, src/reg), for transports that
 * register memory, and the messages by which processes lend.
 *
 * Such a transfer is cut at the boundaries of AQ_REG_REGION in the owner's memory. Each part is a
 * separate transfer with the same counters: it requests its memory from the cache, may wait for the
 * owner's answer, and is then posted like any other, with the key, which it holds until it ends. A
 * small put may travel with the request for the key. Memory that cannot be lent (the owner has no
 * room, or the memory cannot be registered) is accessed by messages, and so are parts that the
 * network has rejected because memory around them has since been unmapped by the owner.
 *
 * These messages run no handler: any polling thread processes them at once, even while a handler
 * waits for room. They use no credits, since a waiting handler would not return those. Instead, at
 * most AQI_LENDING_MESSAGES are in flight to a peer, which has buffers posted for them, and each
 * message acknowledges all received so far. If half as many are unacknowledged, a message that only
 * acknowledges is sent. At most two of these are in flight, since the peer cannot send more
 * messages before it has received the first.
 *
 * Called with the lock held, except aqi_lending_by_messages.
 */
#ifndef AQI_LENDING_H
#define AQI_LENDING_H

#include "transport/rdma/pins.h"

enum {
    AQI_LENDING_MESSAGES = 8,                       /* in flight to a peer, ... */
    AQI_LENDING_BUFFERS = AQI_LENDING_MESSAGES + 2, /* ... and the buffers to receive them */
};

struct aqi_rdma;
struct aqi_rdma_buf;
struct aqi_rdma_peer;

/* The state of a peer; zeroed with it. */
struct aqi_lender {
    bool forget;                /* it is lost; aqi_lending_progress notifies the cache */
    uint32_t parts;             /* parts that have requested memory and have not ended */
    struct aqi_transfers wants; /* parts yet to request memory */
    uint32_t sent, taken;       /* messages to it: sent, acknowledged by it */
    uint32_t received, acked;   /* messages from it: received, acknowledged to it */
};

/* The peer's memory for a part of a transfer. */
struct aqi_loan {
    struct aqi_reg_wait wait; /* wait.use is the memory, if `held` */
    struct aqi_rdma *rdma;
    struct aqi_transfer *op;
    bool held;
    bool stale; /* the network has rejected its key */
};

struct aqi_lending {
    bool on;          /* memory that peers access is registered on demand, at both ends */
    bool full;        /* there was no room to send a message */
    bool owed;        /* an acknowledgment could not be sent yet */
    bool gone;        /* the cache must be notified of lost peers */
    uint32_t waiting; /* parts yet to request memory */
    struct aqi_transfers refused; /* parts to transfer by messages */
    struct aqi_pool loans;
};

/* Begin an operation on lent memory: its parts request keys, now or later. */
void aqi_lending_begin(struct aqi_rdma *rdma, struct aqi_transfer *op);
/* The transfer has ended: return its loan. */
void aqi_lending_end(struct aqi_rdma *rdma, struct aqi_transfer *op);
/* The network has rejected this piece: transfer it by messages, with the unposted rest of `op`,
 * which is then dequeued, with op->len reduced to op->posted. Returns false if out of memory. */
bool aqi_lending_refused(struct aqi_rdma *rdma, struct aqi_transfer *op, size_t offset, size_t len);
/* Fail all that waits for this peer; aqi_lending_progress notifies the cache. */
void aqi_lending_fail(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer, aq_status status);

/* Process a received lending message. If it is malformed, the peer fails. */
void aqi_lending_received(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf);
/* The hook `send` of aqi_reg_hooks, with the struct aqi_rdma as its `host`. */
aq_status aqi_lending_send(void *rdma, uint32_t id, const void *bytes, size_t len);

/* Called in each round. */
void aqi_lending_progress(struct aqi_rdma *rdma);
/* Called from progress(ALL), without the lock: hand over parts to transfer by messages. */
unsigned aqi_lending_by_messages(struct aqi_rdma *rdma);

/* Whether something is due that no arrival announces. */
static inline bool aqi_lending_due(const struct aqi_lending *lending)
{
    return lending->waiting != 0 || lending->refused.first != NULL || lending->owed ||
           lending->gone;
}

#endif
