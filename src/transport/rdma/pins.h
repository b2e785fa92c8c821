/*
 * Memory that a transport registers on demand, by the cache of src/reg. The local memory of puts
 * and gets is pinned piece by piece as the pieces are posted, and kept pinned if the monitor
 * reports changes of it, or if they do not matter. If segments may be too large to be registered,
 * pieces of them are lent to peers that ask.
 *
 * One caller at a time: a transport calls with its lock held.
 */
#ifndef AQI_PINS_H
#define AQI_PINS_H

#include "base/pool.h"
#include "reg/monitor.h"
#include "reg/reg.h"
#include "transport/transport.h"

/* How the local memory of a transfer is reached. */
enum aqi_op_by {
    AQI_BY_KNOWN, /* it lies in a registration that the caller knows, or needs none */
    AQI_BY_PINS,  /* it is pinned on demand */
    AQI_BY_BOUNCE /* it is copied */
};

/* A put or get, as far as it is known to all networks: the first member of the driver's own. */
struct aqi_transfer {
    struct aqi_comp *comp;
    bool get;
    bool ended;   /* for the initiator; pieces of it may still be in flight */
    bool is_long; /* the payload of a Long, which is complete with its header */
    enum aqi_op_by by;
    enum aqi_reg_how how; /* of what is pinned for it; AQI_REG_NEVER: not asked yet */
    aq_status status;
    uint64_t remote;
    unsigned char *local;
    unsigned char copy[AQI_PUT_COPIED]; /* made of so short a put before it returns */
    size_t len, posted, done;
    struct aqi_rdma_copy *source; /* of the memory that was given back, or NULL */
    struct aqi_rdma_peer *peer;
    struct aqi_transfer *next_op, **link; /* of all of the peer */
    struct aqi_transfer *next;            /* of those that are not completely posted */
    /* Where the memory at the peer is lent on demand (lending.h). */
    struct aqi_loan *loan;          /* NULL: nothing was asked for, or it is registered there */
    struct aqi_transfer *next_part; /* of those that wait for it */
};

/* The use of the memory. */
enum aqi_pins_access {
    AQI_PINS_READ,   /* a put, which may read from memory that cannot be written */
    AQI_PINS_WRITE,  /* puts and gets */
    AQI_PINS_PEERS,  /* these, and those of peers */
    AQI_PINS_BUFFERS /* messages, puts and gets */
};

/* The first member of a transport's record of a registration (aqi_reg_mem.handle). */
struct aqi_pinned {
    uint64_t len;
};

struct aqi_pins_params {
    const struct aqi_tp_params *tp; /* as the transport was opened */
    const char *name;               /* of it */
    size_t max_medium;
    uint64_t registrations; /* the most of them; 0: as many as fit */
    bool lends;             /* to peers, and the same in all processes */
    /*
     * The network pins pages. So memory that is kept is watched, and memory that has changed is
     * deregistered at once; then the network answers with an error. Otherwise it reaches whatever
     * is mapped there.
     */
    bool cut;
    /* As in aqi_reg_hooks; `send` only for a process that lends. */
    aq_status (*pin)(void *host, uint64_t addr, uint64_t len, enum aqi_pins_access access,
                     struct aqi_reg_mem *mem);
    void (*unpin)(void *host, const struct aqi_reg_mem *mem);
    aq_status (*send)(void *host, uint32_t peer, const void *bytes, size_t len);
    void *host;
};

/* Memory that is not unmapped while peers may reach it. */
struct aqi_pins_segment {
    uint64_t addr, len;
    struct aqi_pins_segment *next;
};

struct aqi_pins {
    struct aqi_pins_params params;
    struct aqi_reg *reg;         /* NULL: it is not open */
    struct aqi_monitor *monitor; /* NULL: nothing is watched */
    bool keeps;                  /* what lies outside the segments, too */
    struct aqi_pins_segment *segments;
    struct aqi_pool uses;
    uint64_t page;
    uint64_t region;         /* where pieces of a peer's memory end */
    size_t ride;             /* bytes of a put that may ride on the question for its memory */
    struct aqi_transfer *op; /* that memory is being pinned for; NULL: for a peer */
    bool once;               /* just for that */
    bool due;                /* something may be unpinned, or sent */
};

/* @return AQ_ESETTING, AQ_ENOMEM: must still be closed */
aq_status aqi_pins_open(const struct aqi_pins_params *params, struct aqi_pins *pins);
void aqi_pins_close(struct aqi_pins *pins); /* nothing is in use; nothing happens if not open */
/* Advice for aqinfo on how to improve it; "" if there is none. */
void aqi_pins_advise(char *advice, size_t len);

/*
 * The way for so many bytes that are not registered: by pins if they are more than `bounce` or, if
 * memory stays pinned, than `buffer`, a bounce buffer: each further buffer costs more than that.
 */
static inline enum aqi_op_by aqi_pins_by(const struct aqi_pins *pins, size_t len, uint64_t bounce,
                                         size_t buffer)
{
    uint64_t most = pins->keeps ? aqi_min(bounce, buffer) : bounce;
    return len <= most ? AQI_BY_BOUNCE : AQI_BY_PINS;
}

/* Pin the beginning of `*len` bytes of what `op` is to move, from `offset` on, and make them as
 * many as that. NULL: it cannot be. */
struct aqi_reg_use *aqi_pins_get(struct aqi_pins *pins, struct aqi_transfer *op, size_t offset,
                                 size_t *len);
void aqi_pins_put(struct aqi_pins *pins, struct aqi_reg_use *use);

/* Offer this memory: pieces of it are lent as a whole. */
void aqi_pins_offer(struct aqi_pins *pins, struct aqi_pins_segment *segment);
/* The memory is about to change: recall what was lent of it, if it was offered. */
void aqi_pins_withdraw(struct aqi_pins *pins, const struct aqi_pins_segment *segment);

/*
 * Whether a peer holds a key of memory that has changed. If so, no message may leave and no put may
 * begin. Puts that have begun are not held back: if they waited, their memory at the peer would not
 * be returned, and processes might wait for each other.
 */
static inline bool aqi_pins_fenced(struct aqi_pins *pins)
{
    return AQI_UNLIKELY(pins->params.lends) &&
           aqi_reg_counts(pins->reg)->sent != 0 && /* something was ever lent */
           aqi_reg_fenced(pins->reg);
}

/* Unpin what was unmapped or is not kept, and notify the peers that hold it. */
static inline void aqi_pins_progress(struct aqi_pins *pins)
{
    if (AQI_UNLIKELY(pins->due || (pins->monitor != NULL && aqi_monitor_told(pins->monitor))))
        pins->due = aqi_reg_progress(pins->reg);
}

#endif
