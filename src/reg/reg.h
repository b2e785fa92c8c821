/*
 * Firehose: registrations of memory, made on demand, shared and kept, on both sides of a transfer.
 *
 * Here, what a transfer begins or ends in is pinned by pieces, each within one aligned *region* of
 * `limits.region` bytes, counted while it is used and kept afterwards, the longest unused first to
 * go (the *victims*). There, each peer lends every other one so many pieces (the main pool through
 * the number of peers): the borrower *holds* one, by a message to its owner and the answer, which
 * brings the key; it keeps what it holds, and needs no message as long as that does. One that has
 * to make room names what it gives back in the same message, which small data may ride on, too.
 *
 * Makes no system call and reads no clock. One caller at a time: a transport calls with its lock
 * held, and hooks, which are called from inside these calls, make none of them but
 * aqi_reg_release. Messages may be delayed and overtake each other, but none is lost: who cannot
 * deliver any more says aqi_reg_peer_down.
 *
 * Nothing here waits, so nothing can lock up: an owner answers at once, if only that there is no
 * room; a borrower whose pieces are all in use is told AQ_ENOTSUP. That always means: not by a
 * registration, not now, carry it in messages (or in a buffer that is registered anyhow).
 *
 * No key outlives its memory. `changed` tells of memory that was unmapped or replaced (monitor.h);
 * each call here asks it first. What is pinned there is found no more; what of it is in use here
 * stays until it is not; who holds it is told (revoked) and gives it back. Until all holders have,
 * aqi_reg_fenced holds, and the transport lets no message, nor anything else by which others may
 * learn of the change, leave for anybody; so nobody can know of the new memory and use an old key.
 * With `cut` such keys are deregistered at once, which a network answers with an error: also what
 * passes the fence by other ways cannot write into memory that is gone, but a transfer to other
 * parts of the piece that is under way may be refused, and the transport must repeat it.
 */
#ifndef AQI_REG_H
#define AQI_REG_H

#include "base/base.h"

#define AQI_REG_KEY_MAX     256u  /* bytes of a key */
#define AQI_REG_RIDE_MAX    3072u /* bytes that may ride on a message that asks for a piece */
#define AQI_REG_MESSAGE_MAX 3200u /* bytes of any message */
#define AQI_REG_ASKED_MAX   64u   /* pieces that a process asks a peer for at a time */

struct aqi_reg;

/* How far what a transfer touches may be pinned. */
enum aqi_reg_how {
    AQI_REG_NEVER, /* not at all: none of the caller's business, or known to fail */
    AQI_REG_ONCE,  /* for this transfer: nobody would tell of changes */
    AQI_REG_KEEP   /* and kept */
};

/* A pool: it is full when either is reached. */
struct aqi_reg_pool {
    uint64_t bytes;
    uint64_t regions;
};

struct aqi_reg_limits {
    uint64_t page;
    uint64_t region;            /* most bytes of a piece: a power of two, at least a page */
    struct aqi_reg_pool main;   /* what peers hold, all together */
    struct aqi_reg_pool victim; /* the rest: what is used here only, or by nobody */
    uint32_t ride;              /* most bytes of what rides; at most AQI_REG_RIDE_MAX */
};

/* Memory that is registered, as `pin` fills it in. The key stays where it is until `unpin`. */
struct aqi_reg_mem {
    void *handle; /* the transport's own */
    const void *key;
    size_t key_len; /* at most AQI_REG_KEY_MAX */
};

#define AQI_REG_SELF UINT32_MAX /* who wants it: this process */

struct aqi_reg_hooks {
    /*
     * Register whole pages. AQ_OK: `mem` is filled in. AQ_ENOMEM or AQ_ELIMIT: no more memory may
     * be locked; others are given back, and it is tried again. Any other: not this range, for
     * example since a part of it is not mapped; then just what is needed is tried.
     */
    aq_status (*pin)(void *host, uint64_t addr, uint64_t len, struct aqi_reg_mem *mem);
    void (*unpin)(void *host, const struct aqi_reg_mem *mem);
    /*
     * May `who`, a peer or AQI_REG_SELF, have [addr, addr + len) pinned? Where more around it may
     * be pinned along, move *from and *to, which are its first page and behind its last. What is
     * moved must be memory that does not change without being told: in a segment all of it, else
     * better nothing (docs/architecture.md says why).
     */
    enum aqi_reg_how (*how)(void *host, uint32_t who, uint64_t addr, uint64_t len, uint64_t *from,
                            uint64_t *to);
    /* The next range of memory that has changed since it was asked last; false: none. */
    bool (*changed)(void *host, uint64_t *addr, uint64_t *len);
    /* Send a message. AQ_AGAIN: no room, it is tried again by progress. Else AQ_OK; a peer that
     * cannot be reached is told by aqi_reg_peer_down later. */
    aq_status (*send)(void *host, uint32_t peer, const void *bytes, size_t len);
    /* What rode on a message of `peer` that asks for memory from `addr` on has come: put it there,
     * or deliver it; nothing of it has been checked. The status is told to the peer. */
    aq_status (*ride)(void *host, uint32_t peer, uint64_t addr, uint8_t tag, const void *bytes,
                      size_t nbytes);
    void *host;
};

struct aqi_reg_params {
    struct aqi_reg_limits limits; /* the same in all processes, but for `victim` */
    uint32_t peers;               /* ids are 0..peers-1, one of them this process */
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

/* @return AQ_EINVAL (limits that cannot be), AQ_ENOMEM */
aq_status aqi_reg_open(const struct aqi_reg_params *params, struct aqi_reg **reg);
/* Unpins all; nothing may be in use. Who waits is not told. */
void aqi_reg_close(struct aqi_reg *reg);

/* A piece of memory that is registered, and in use until aqi_reg_release. */
struct aqi_reg_use {
    const struct aqi_reg_mem *mem; /* local memory: the handle; remote: the key */
    uint64_t addr, len;            /* what of the range asked for it is: its beginning, at least */
    uint64_t mem_addr, mem_len;    /* what is registered with that key */
    void *piece;
};

/*
 * Pin the beginning of [addr, addr + len) of this process.
 *
 * @return AQ_OK       `use` is set; the caller asks for the rest apart.
 * @return AQ_ENOTSUP  Not by a registration; nothing began.
 */
aq_status aqi_reg_local(struct aqi_reg *reg, uint64_t addr, uint64_t len, struct aqi_reg_use *use);

/* Someone who waits for a piece of a peer; the caller's until `ready`. */
struct aqi_reg_wait {
    /*
     * AQ_OK: `use` is set, and to be released. AQ_AGAIN: it was changed meanwhile, or was more than
     * this piece: ask again, later than from this call. AQ_ENOTSUP: not by a registration.
     * AQ_EPEER: the peer is gone. Called from aqi_reg_input and aqi_reg_peer_down.
     */
    void (*ready)(struct aqi_reg_wait *wait, aq_status status);
    struct aqi_reg_use use;
    /* What may ride, if a message is sent: at most limits.ride bytes, copied before the call is
     * over. */
    const void *bytes;
    size_t nbytes;
    uint8_t tag;
    bool rode;             /* it did: whatever the status of ready, it is there, with ... */
    aq_status ride_status; /* ... what the owner's `ride` returned, valid in ready */
    uint64_t addr, len;    /* of here on, the cache's own */
    struct aqi_reg_wait *next;
};

/*
 * Hold the beginning of [addr, addr + len) of `peer`, which is not this process.
 *
 * @return AQ_OK       `wait->use` is set; `ready` is not called, and nothing rode.
 * @return AQ_AGAIN    Asked for: `ready` will be called.
 * @return AQ_ENOTSUP  Not by a registration; nothing began.
 * @return AQ_EPEER    The peer is gone.
 */
aq_status aqi_reg_remote(struct aqi_reg *reg, uint32_t peer, uint64_t addr, uint64_t len,
                         struct aqi_reg_wait *wait);

/* No transfer by this piece is under way any more, here or there. */
void aqi_reg_release(struct aqi_reg *reg, const struct aqi_reg_use *use);

/*
 * A message of `peer` has come.
 *
 * @return AQ_OK      Taken.
 * @return AQ_EPROTO  It makes no sense, which aq_error_message() explains; nothing of it was done.
 * @return AQ_ENOMEM  The same, for want of memory: the peer waits for ever; give it up.
 */
aq_status aqi_reg_input(struct aqi_reg *reg, uint32_t peer, const void *bytes, size_t len);

/* The peer is gone: what it holds is free, and who waits for it is told. Nothing of it is taken and
 * nothing sent to it from now on. */
void aqi_reg_peer_down(struct aqi_reg *reg, uint32_t peer);

/* [addr, addr + len) was unmapped or replaced: what `changed` says, told at once. */
void aqi_reg_invalidate(struct aqi_reg *reg, uint64_t addr, uint64_t len);

/* Send what found no room, and unpin a few of those that were given up. Returns whether there is
 * more to do. */
bool aqi_reg_progress(struct aqi_reg *reg);

/* Does somebody hold a key of memory that has changed? Then nothing may leave this process. */
bool aqi_reg_fenced(struct aqi_reg *reg);

const struct aqi_reg_counts *aqi_reg_counts(const struct aqi_reg *reg);

#endif
