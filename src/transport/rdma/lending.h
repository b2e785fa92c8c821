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
 * Called with the transport's lock held, except aqi_lending_by_messages.
 */
#ifndef AQI_LENDING_H
#define AQI_LENDING_H

#include "base/spin.h"
#include "transport/rdma/pins.h"

enum {
    AQI_LENDING_MESSAGES = 8,                       /* to a peer under way, ... */
    AQI_LENDING_BUFFERS = AQI_LENDING_MESSAGES + 2, /* ... and what they need to be received */
};

/* A peer, as far as it is known here: in the transport's own, and zeroed with that. */
struct aqi_lender {
    uint32_t id;
    bool forget;                            /* the cache has yet to learn that it is gone */
    uint32_t parts;                         /* of what has asked, those under way */
    struct aqi_transfer *wants, *last_want; /* that have not asked */
    uint32_t sent, taken;                   /* messages to it, and of these, what it has taken */
    uint32_t received, told;                /* the same the other way */
};

/* The memory there of a part of a transfer. */
struct aqi_loan {
    struct aqi_reg_wait wait; /* wait.use is it, if it is held */
    struct aqi_lending *lending;
    struct aqi_transfer *op;
    bool held;
    bool stale; /* the network has refused it */
};

struct aqi_lending_hooks {
    /* The peer, or NULL. */
    struct aqi_lender *(*lender)(void *host, uint32_t id);
    /* Whether a transfer to the peer may begin now. */
    bool (*ready)(void *host, struct aqi_lender *lender);
    /*
     * Send so many bytes of these words and `taken`; the peer passes them to aqi_lending_received.
     * Not lost unless the peer is. AQ_AGAIN: no room.
     */
    aq_status (*post)(void *host, struct aqi_lender *lender, uint32_t taken, const void *bytes,
                      size_t len);
    /* A copy of the operation, with the same counters and as much under way; NULL: no memory. */
    struct aqi_transfer *(*copy)(void *host, const struct aqi_transfer *op);
    /* The transfer has its memory, loan->wait.use: post it. False: its key is malformed. */
    bool (*have)(void *host, struct aqi_transfer *op);
    /* The transfer has ended, with op->status, for all that is not posted; call aqi_lending_end. */
    void (*over)(void *host, struct aqi_transfer *op);
    void *host;
};

struct aqi_lending {
    bool on;          /* memory that peers reach is registered on demand, theirs and ours */
    bool full;        /* a question found no room */
    bool owed;        /* a peer has yet to learn that messages were taken */
    bool gone;        /* the cache has yet to learn of lost peers */
    uint32_t waiting; /* parts that have not asked */
    struct aqi_transfer *refused, *last_refused; /* that are to go by messages */
    struct aqi_pins *pins;
    const struct aqi_tp_params *params;
    struct aqi_spin *lock; /* NULL: none is needed */
    struct aqi_lending_hooks hooks;
    struct aqi_pool loans;
};

/* All but `on`. `pins` are opened with aqi_lending_send, and this as its host of messages. */
void aqi_lending_open(struct aqi_lending *lending, const struct aqi_lending_hooks *hooks,
                      const struct aqi_tp_params *params, struct aqi_pins *pins,
                      struct aqi_spin *lock);
/* After aqi_lending_fail of each peer. */
void aqi_lending_close(struct aqi_lending *lending);

/* Begin an operation on lent memory: its parts ask for keys, now or later. */
void aqi_lending_begin(struct aqi_lending *lending, struct aqi_transfer *op);
/* Let waiting parts ask if they may. */
void aqi_lending_push(struct aqi_lending *lending);
/* The transfer has ended: return its loan. */
void aqi_lending_end(struct aqi_lending *lending, struct aqi_transfer *op);
/* The network has refused this piece of it, which goes by messages, as does what is not posted yet:
 * then op->len is op->posted, and nothing more is to be. False: no memory. */
bool aqi_lending_refused(struct aqi_lending *lending, struct aqi_transfer *op, size_t offset,
                         size_t len);
/* Fail all that waits for this peer; aqi_lending_progress notifies the cache. */
void aqi_lending_fail(struct aqi_lending *lending, struct aqi_lender *lender, aq_status status);

/*
 * Take a message that has arrived. AQ_EPROTO, AQ_ENOMEM: the peer has to be disconnected;
 * aq_error_message() gives the reason. Call aqi_lending_acknowledge once its buffer is posted
 * again.
 */
aq_status aqi_lending_received(struct aqi_lending *lending, struct aqi_lender *lender,
                               uint32_t taken, const void *bytes, size_t len);
void aqi_lending_acknowledge(struct aqi_lending *lending, struct aqi_lender *lender);
aq_status aqi_lending_send(struct aqi_lending *lending, uint32_t id, const void *bytes, size_t len);

/* Called in each round. */
void aqi_lending_progress(struct aqi_lending *lending);
/* From progress(ALL), without the lock: hand over what goes by messages. */
unsigned aqi_lending_by_messages(struct aqi_lending *lending);

/* Whether something is due that no arrival announces. */
static inline bool aqi_lending_due(const struct aqi_lending *lending)
{
    return lending->waiting != 0 || lending->refused != NULL || lending->owed || lending->gone;
}

#endif
