/*
 * Firehose: memory registrations made on demand, shared and kept, on both sides of a transfer.
 *
 * Local memory of a transfer is pinned in pieces. Each piece lies within one aligned *region* of
 * `limits.region` bytes, is reference-counted while in use, and is kept afterwards; the least
 * recently used is unpinned first (the *victims*). Of its own memory, each process lends every peer
 * a number of pieces (the main pool divided by the number of peers): the borrower *holds* a piece,
 * by a message to its owner and the answer, which contains the key. It keeps what it holds, and
 * needs no further messages for it. To make room, it names pieces that it returns in the same
 * message, which can also carry the data of a small put.
 *
 * Makes no system call and reads no clock. One caller at a time: a transport calls with its lock
 * held. Hooks, which are called from inside these calls, may only call aqi_reg_release. Messages
 * may be delayed and overtake each other, but none may be lost: if they can no longer be
 * delivered, call aqi_reg_peer_down.
 *
 * Nothing here waits, so nothing can deadlock: an owner answers at once, even if it has no room; a
 * borrower whose pieces are all in use gets AQ_ENOTSUP. AQ_ENOTSUP always means that no
 * registration is available now: transfer the data by messages, or through a buffer that is always
 * registered.
 *
 * No key outlives its memory. The hook `changed` reports memory that was unmapped or replaced
 * (monitor.h); each call here calls it first. Pieces pinned there are no longer found; those in
 * local use stay until they are released; peers that hold them are notified (revoked) and return
 * them. Until all have done so, aqi_reg_fenced returns true, and the transport must not let any
 * message, or other sign of the change, leave this process; so no process can know of the new
 * memory and use an old key. With `cut`, such keys are also deregistered at once, so accesses that
 * bypass the fence fail instead of writing into memory that is gone; but the network may reject a
 * transfer in progress to other parts of the piece, which the transport must repeat.
 */
#ifndef AQI_REG_H
#define AQI_REG_H

#include "base/base.h"

#define AQI_REG_KEY_MAX     256u  /* bytes of a key */
#define AQI_REG_RIDE_MAX    3072u /* bytes of data that a request for a piece may carry */
#define AQI_REG_MESSAGE_MAX 3200u /* bytes of any message */
#define AQI_REG_ASKED_MAX   64u   /* requests that a process may have outstanding at a peer */

struct aqi_reg;

/* To what extent the memory of a transfer may be pinned. */
enum aqi_reg_how {
    AQI_REG_NEVER, /* not at all: not ours, or known to fail */
    AQI_REG_ONCE,  /* for this transfer only: changes would not be detected */
    AQI_REG_KEEP   /* for this transfer and later ones */
};

/* A pool: it is full if either limit is reached. */
struct aqi_reg_pool {
    uint64_t bytes;
    uint64_t regions;
};

struct aqi_reg_limits {
    uint64_t page;
    uint64_t region;            /* maximum bytes of a piece: a power of two, at least a page */
    struct aqi_reg_pool main;   /* held by peers, all together */
    struct aqi_reg_pool victim; /* the rest: used locally only, or unused */
    uint32_t ride;              /* maximum data sent along; at most AQI_REG_RIDE_MAX */
};

/* Registered memory, as filled in by `pin`. The key does not move until `unpin`. */
struct aqi_reg_mem {
    void *handle; /* the transport's own data */
    const void *key;
    size_t key_len; /* at most AQI_REG_KEY_MAX */
};

#define AQI_REG_SELF UINT32_MAX /* stands for this process */

struct aqi_reg_hooks {
    /*
     * Register whole pages. AQ_OK: `mem` is filled in. AQ_ENOMEM or AQ_ELIMIT: no more memory may
     * be locked; others are unpinned, and it is called again. Other failures: not this range, for
     * example because part of it is not mapped; then it is called for just what is needed.
     */
    aq_status (*pin)(void *host, uint64_t addr, uint64_t len, struct aqi_reg_mem *mem);
    void (*unpin)(void *host, const struct aqi_reg_mem *mem);
    /*
     * Whether a process (a peer or AQI_REG_SELF) may have [addr, addr + len) pinned. If more around
     * it may be pinned as well, extend *from and *to, the start of its first page and the end of
     * its last, but only over memory whose changes are detected: in a segment all of it, elsewhere
     * preferably nothing (docs/architecture.md explains why).
     */
    enum aqi_reg_how (*how)(void *host, uint32_t process, uint64_t addr, uint64_t len,
                            uint64_t *from, uint64_t *to);
    /* The next range of memory that has changed since the last call; false: none. */
    bool (*changed)(void *host, uint64_t *addr, uint64_t *len);
    /*
     * Send a message. Returns AQ_AGAIN if there is no room (it is called again by progress),
     * otherwise AQ_OK; an unreachable peer is reported by aqi_reg_peer_down later.
     */
    aq_status (*send)(void *host, uint32_t peer, const void *bytes, size_t len);
    /*
     * The unchecked data that came with a request of `peer` for memory from `addr` on: store or
     * deliver it. The peer gets the returned status.
     */
    aq_status (*ride)(void *host, uint32_t peer, uint64_t addr, uint8_t tag, const void *bytes,
                      size_t nbytes);
    void *host;
};

struct aqi_reg_params {
    struct aqi_reg_limits limits; /* the same in all processes, except for `victim` */
    uint32_t peers;               /* ids are 0..peers-1, including this process */
    bool cut;
    struct aqi_reg_hooks hooks;
};

struct aqi_reg_counts {
    uint64_t hits, misses, refused; /* of local memory */
    uint64_t far_hits, far_asked, far_joined, far_refused;
    uint64_t rides, revoked, sent; /* sent: messages */
    uint64_t pins, unpins, failed; /* failed: calls of `pin` */
    struct aqi_reg_pool pinned, lent;
    uint64_t pinned_most;
};

/* @return AQ_EINVAL (invalid limits), AQ_ENOMEM */
aq_status aqi_reg_open(const struct aqi_reg_params *params, struct aqi_reg **reg);
/* Unpin everything; nothing may be in use. Waiting callers are not notified. */
void aqi_reg_close(struct aqi_reg *reg);

/* A piece of registered memory, in use until aqi_reg_release. */
struct aqi_reg_use {
    const struct aqi_reg_mem *mem; /* local memory: the handle; remote: the key */
    uint64_t addr, len;            /* the covered part of the requested range, from its start */
    uint64_t mem_addr, mem_len;    /* the range registered with that key */
    void *piece;
};

/*
 * Pin the start of [addr, addr + len) of this process.
 *
 * @return AQ_OK       `use` is set; call again for the rest.
 * @return AQ_ENOTSUP  Not possible by a registration; nothing was started.
 */
aq_status aqi_reg_local(struct aqi_reg *reg, uint64_t addr, uint64_t len, struct aqi_reg_use *use);

/* A request for a piece of a peer, owned by the caller until `ready` is called. */
struct aqi_reg_wait {
    /*
     * AQ_OK: `use` is set, and must be released. AQ_AGAIN: the memory was changed meanwhile, or
     * exceeds this piece: request it again, but not from inside this call. AQ_ENOTSUP: not possible
     * by a registration. AQ_EPEER: the peer is gone. Called from aqi_reg_input and
     * aqi_reg_peer_down.
     */
    void (*ready)(struct aqi_reg_wait *wait, aq_status status);
    struct aqi_reg_use use;
    /*
     * Data to send along if a message is sent: at most limits.ride bytes, copied before the call
     * returns.
     */
    const void *bytes;
    size_t nbytes;
    uint8_t tag;
    bool rode; /* set if the data was sent along: whatever the status passed to ready, */
    aq_status ride_status; /* it has arrived, with this result of the owner's `ride` (in ready) */
    uint64_t addr, len;    /* private to the cache from here on */
    struct aqi_reg_wait *next;
};

/*
 * Hold the start of [addr, addr + len) of `peer`, which is not this process.
 *
 * @return AQ_OK       `wait->use` is set; `ready` is not called, and no data was sent.
 * @return AQ_AGAIN    Requested: `ready` will be called.
 * @return AQ_ENOTSUP  Not possible by a registration; nothing was started.
 * @return AQ_EPEER    The peer is gone.
 */
aq_status aqi_reg_remote(struct aqi_reg *reg, uint32_t peer, uint64_t addr, uint64_t len,
                         struct aqi_reg_wait *wait);

/* End the use: no transfer with this piece is in progress now. */
void aqi_reg_release(struct aqi_reg *reg, const struct aqi_reg_use *use);

/*
 * Process a message of `peer`.
 *
 * @return AQ_OK      It was processed.
 * @return AQ_EPROTO  It is malformed (see aq_error_message()) and had no effect.
 * @return AQ_ENOMEM  Out of memory, without effect: the peer waits forever; disconnect it.
 */
aq_status aqi_reg_input(struct aqi_reg *reg, uint32_t peer, const void *bytes, size_t len);

/*
 * The peer is gone: pieces that it holds are freed, and requests to it fail. From now on nothing is
 * accepted from it or sent to it.
 */
void aqi_reg_peer_down(struct aqi_reg *reg, uint32_t peer);

/* [addr, addr + len) was unmapped or replaced: like `changed`, but at once. */
void aqi_reg_invalidate(struct aqi_reg *reg, uint64_t addr, uint64_t len);

/*
 * Send queued messages, and unpin a few of the doomed registrations. Returns whether there is more
 * to do.
 */
bool aqi_reg_progress(struct aqi_reg *reg);

/* Whether a peer holds a key of memory that has changed. Then nothing may leave this process. */
bool aqi_reg_fenced(struct aqi_reg *reg);

const struct aqi_reg_counts *aqi_reg_counts(const struct aqi_reg *reg);

#endif
