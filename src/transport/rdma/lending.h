/*
 * Puts and gets of memory that its owner lends on demand (firehose, src/reg), for transports that
 * register memory, and the messages by which processes lend.
 *
 * Such a transfer is cut at the boundaries of AQ_REG_REGION in the owner's memory. Each part is a
 * transfer of its own, with the same counters: it asks the cache for its memory, may wait for the
 * owner's answer, and is then posted like any other, with the key that it holds until it ends. A
 * small put may travel with the request for the key. Memory that cannot be lent (the owner has no
 * room, or the memory cannot be registered) is reached by messages, and so are parts that the
 * network has refused because the memory around them was unmapped there meanwhile.
 *
 * No handler runs for the messages: any thread that polls takes them at once, even while a handler
 * waits for room. They need no credits, since a waiting handler holds on to those. Instead a
 * process has at most AQI_LENDING_MESSAGES under way to a peer, for which buffers are posted, and
 * each says how many of the other's were taken. When half as many were taken and none has said so,
 * one says only that. Of those at most two are under way, since the other one sends no more before
 * it has taken the first.
 *
 * Called with the lock held, except aqi_lending_by_messages.
 */
#ifndef AQI_LENDING_H
#define AQI_LENDING_H

#include "transport/rdma/pins.h"

enum {
    AQI_LENDING_MESSAGES = 8,                       /* to a peer under way, ... */
    AQI_LENDING_BUFFERS = AQI_LENDING_MESSAGES + 2, /* ... and what they need to be received */
};

struct aqi_rdma;
struct aqi_rdma_buf;
struct aqi_rdma_peer;

/* The state of a peer; zeroed with it. */
struct aqi_lender {
    bool forget;                            /* it is gone; aqi_lending_progress tells the cache */
    uint32_t parts;                         /* of what has asked, those under way */
    struct aqi_transfer *wants, *last_want; /* that have not asked */
    uint32_t sent, taken;                   /* messages to it, and of these, what it has taken */
    uint32_t received, told;                /* the same the other way */
};

/* The memory there of a part of a transfer. */
struct aqi_loan {
    struct aqi_reg_wait wait; /* wait.use is it, if it is held */
    struct aqi_rdma *rdma;
    struct aqi_transfer *op;
    bool held;
    bool stale; /* the network has refused it */
};

struct aqi_lending {
    bool on;          /* memory that peers reach is registered on demand, theirs and ours */
    bool full;        /* a question found no room */
    bool owed;        /* a peer has yet to learn that messages were taken */
    bool gone;        /* the cache has yet to learn of lost peers */
    uint32_t waiting; /* parts that have not asked */
    struct aqi_transfer *refused, *last_refused; /* that are to go by messages */
    struct aqi_pool loans;
};

void aqi_lending_open(struct aqi_lending *lending);  /* all but `on` */
void aqi_lending_close(struct aqi_lending *lending); /* after aqi_lending_fail of each peer */

/* Begin an operation on lent memory: its parts ask for keys, now or later. */
void aqi_lending_begin(struct aqi_rdma *rdma, struct aqi_transfer *op);
/* The transfer has ended: return its loan. */
void aqi_lending_end(struct aqi_rdma *rdma, struct aqi_transfer *op);
/* The network has refused this piece of it, which goes by messages, as does what is not posted yet:
 * then op->len is op->posted, and it does not wait any more. False: no memory. */
bool aqi_lending_refused(struct aqi_rdma *rdma, struct aqi_transfer *op, size_t offset, size_t len);
/* Fail all that waits for this peer; aqi_lending_progress notifies the cache. */
void aqi_lending_fail(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer, aq_status status);

/* Take a message about memory that has arrived. If it is malformed, the peer fails. */
void aqi_lending_received(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf);
/* As in aqi_pins_params, whose host of messages is a struct aqi_rdma. */
aq_status aqi_lending_send(void *rdma, uint32_t id, const void *bytes, size_t len);

/* Called in each round. */
void aqi_lending_progress(struct aqi_rdma *rdma);
/* From progress(ALL), without the lock: hand over what goes by messages. */
unsigned aqi_lending_by_messages(struct aqi_rdma *rdma);

/* Whether something is due that no arrival announces. */
static inline bool aqi_lending_due(const struct aqi_lending *lending)
{
    return lending->waiting != 0 || lending->refused != NULL || lending->owed || lending->gone;
}

#endif
