/*
 * The engine of networks that write and read the memory of peers: the code shared by ibv and ofi. A
 * *driver* below it implements the network (struct aqi_rdma_driver).
 *
 * One lock guards everything; it is not held while handlers run. With several rails, memory is
 * registered with each.
 */
#ifndef AQI_RDMA_H
#define AQI_RDMA_H

#include "base/log.h"
#include "base/pool.h"
#include "base/spin.h"
#include "base/stats.h"
#include "transport/rdma/lending.h"
#include "transport/rdma/pins.h"
#include "transport/transport.h"

#include <string.h>

enum {
    AQI_RDMA_RAILS = 4,
    AQI_RDMA_KEY = 16,    /* bytes of a peer's key for memory that is registered on demand */
    AQI_RDMA_KEYS = 136,  /* and of one for a segment */
    AQI_RDMA_CHUNK = 64,  /* buffers that are registered together */
    AQI_RDMA_BATCH = 16,  /* completions or held messages handled at once */
    AQI_RDMA_LENDING = 3, /* the `handler` of lending messages, whose kind is AQI_AM_NONE */
    AQI_RDMA_COPIED =
        64 << 10,         /* bytes: memory for copies of up to this length is kept for reuse */
    AQI_RDMA_WHERE = 100, /* bytes of a peer's address as text */
    AQI_RDMA_CAPS = AQI_CAP_PUT | AQI_CAP_GET | AQI_CAP_REG | AQI_CAP_WAIT_FD | AQI_CAP_TIMERS |
                    AQI_CAP_CREDITS | AQI_CAP_LOCAL | AQI_CAP_FAR | AQI_CAP_LONG
};

/* Memory that is registered at once, and kept until aqi_rdma_drop_chunks. */
struct aqi_rdma_chunk {
    struct aqi_rdma_chunk *next;
    unsigned char *memory;
    size_t len;
    void *mr[AQI_RDMA_RAILS]; /* NULL: the network needs none */
};

/* The first member of the driver's struct. */
struct aqi_rdma_buf {
    struct aqi_rdma_buf *next;
    struct aqi_rdma_chunk *chunk;
    unsigned char *bytes;
    uint32_t len;
    unsigned rail;              /* on which a message arrived; the number of rails: on none */
    struct aqi_rdma_peer *peer; /* the sender or the receiver of a message */
};

/* A part of a transfer that is posted at once. */
struct aqi_rdma_piece {
    struct aqi_rdma_buf *buf; /* a bounce buffer, or NULL */
    struct aqi_transfer *op;
    size_t offset, len;
    struct aqi_reg_use *pin; /* memory that is pinned on demand, or NULL */
};

/* Memory of this process, registered in parts of 1 << `shift` bytes, or lent on demand. */
struct aqi_rdma_mem {
    struct aqi_mem mem;
    struct aqi_pins_segment segment; /* if it is lent */
    uint8_t shift;
    uint16_t parts; /* 0: it is lent */
    uint64_t key[AQI_RDMA_KEYS / sizeof(uint64_t)];
    void *mr[][AQI_RDMA_RAILS]; /* of each part */
};

/* Memory of a peer: the first member of the driver's struct. */
struct aqi_rdma_rmem {
    struct aqi_rmem rmem;
    bool lent; /* it is lent on demand */
};

/* The first member of the driver's struct. */
struct aqi_rdma_peer {
    struct aqi_peer peer;
    bool down;                    /* failed permanently: nothing more is started */
    bool lost;                    /* to be reported, or reported */
    struct aqi_transfer *ops;     /* all transfers but the `straight` ones of ibv */
    struct aqi_transfers waiting; /* not completely posted */
    struct aqi_rdma_peer *next_lost;
    struct aqi_lender lender;
    char why[320];
};

/* The first member of the driver's struct. */
struct aqi_rdma {
    struct aqi_tp tp;
    struct aqi_tp_params params;
    const struct aqi_rdma_driver *driver;
    struct aqi_spin lock;
    bool locks, draining;
    int fd;           /* readable when there are completions; -1: none */
    bool whole;       /* the next round must check more than the completions */
    uint32_t stamp;   /* in each message */
    uint64_t now;     /* the latest time passed to progress; never goes back */
    size_t buffer;    /* size of a buffer */
    size_t max_long;  /* bytes of the largest Long that am_long of the driver takes */
    uint64_t most;    /* maximum number of buffers to send from; replies may use more */
    uint32_t bounced; /* such buffers in use */
    uint32_t waiting; /* transfers not completely posted; ibv: and peers with requests to repost */
    struct aqi_rdma_peer **peers;
    struct aqi_rdma_chunk *chunks;
    struct aqi_rdma_buf *free;
    struct aqi_rdma_buf *held, **last_held; /* requests that wait until their handlers may run */
    struct aqi_rdma_peer *lost;
    struct aqi_rdma_copy *copies, *spare_copies; /* in use; free */
    unsigned spare_count;
    struct aqi_pool ops;
    struct aqi_pins pins; /* open if local memory must be registered, or memory is lent */
    struct aqi_lending lending;
};

enum aqi_rdma_message {
    AQI_RDMA_REQUEST,
    AQI_RDMA_REPLY, /* it never waits for requests */
    AQI_RDMA_OWN    /* of the engine itself, without credits */
};

/* With the lock held, unless stated otherwise. */
struct aqi_rdma_driver {
    const char *name;
    size_t buf_size, op_size, peer_size, rmem_size; /* of the driver's structs */
    bool pins; /* registered memory stays accessible to the network even if not to the program */
    bool one_thread; /* it may not be called by several threads at once, even to register memory */

    /*
     * Register memory with all rails; `mr` gets their handles. AQ_ELIMIT: there is no room;
     * AQ_ENOTSUP: this memory cannot be registered; both as in aqi_reg_hooks.pin, with the reason
     * in aq_error_message(). Also without the lock.
     */
    aq_status (*reg)(struct aqi_rdma *rdma, void *addr, size_t len, enum aqi_pins_access access,
                     void *mr[AQI_RDMA_RAILS]);
    void (*dereg)(struct aqi_rdma *rdma, void *mr[AQI_RDMA_RAILS]); /* no-op on NULL */
    /* The key of this memory for peers; returns its length. */
    size_t (*key)(struct aqi_rdma *rdma, void *const mr[AQI_RDMA_RAILS], uint64_t addr, void *key);

    /* Without the lock: in which parts to register a segment. AQ_ELIMIT: it would take too many,
     * which has been logged; AQ_ENOTSUP: no memory can be accessed by peers. */
    aq_status (*split)(struct aqi_rdma *rdma, size_t len, uint8_t *shift);
    /* Likewise: make the key of a segment; returns its length. 0: it has none. */
    size_t (*seal)(struct aqi_rdma *rdma, const struct aqi_rdma_mem *mem, void *key);
    /* Likewise: read such a key of a peer into the driver's part of `rmem`, and rmem->lent.
     * AQ_EPROTO: it is malformed; AQ_ENOTSUP: the memory is to be accessed by messages. */
    aq_status (*map)(struct aqi_rdma *rdma, const void *key, size_t key_len,
                     struct aqi_rdma_rmem *rmem);

    /* Whether a message may be sent to the peer; AQ_AGAIN: not now. */
    aq_status (*ready)(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer);
    /* A buffer for a message of this kind. AQ_AGAIN: not now; AQ_EPEER: the peer has failed. */
    aq_status (*buffer)(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer,
                        enum aqi_rdma_message kind, struct aqi_rdma_buf **buf);
    /* Send it. On failure, the buffer has been freed. */
    aq_status (*send)(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer, struct aqi_rdma_buf *buf);
    /* The message in `buf` has been processed: release the buffer. */
    void (*taken)(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf);
    /* Run the handler of a request that was held. */
    void (*handle)(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf);

    /* Initialize the driver's part of a transfer: how it reaches both memories. */
    void (*reach)(struct aqi_rdma *rdma, struct aqi_transfer *op, const struct aqi_rdma_rmem *rmem,
                  const struct aqi_mem *mem);
    /* Perform a transfer at once, without the queue. Returns false, without effect, if it has to
     * be queued. May be NULL. */
    bool (*straight)(struct aqi_rdma *rdma, const struct aqi_transfer *want,
                     const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem);
    /* Post the next piece, or `header`, of the peer's first waiting transfer. AQ_AGAIN: not now;
     * AQ_EPEER: everything to the peer has ended. */
    aq_status (*post)(struct aqi_rdma *rdma, struct aqi_transfer *op);
    /* Begin the transfer of a Long's payload, as described by `want`, and send its header, now or
     * after it. AQ_AGAIN: not now; AQ_ENOTSUP: as in transport.h. */
    aq_status (*am_long)(struct aqi_rdma *rdma, struct aqi_transfer *want, const struct aqi_am *am,
                         const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem);
    /* A piece of a Long could not be written: its handler must not run. */
    void (*void_long)(struct aqi_rdma *rdma, struct aqi_transfer *op);
    /* The peer has lent the memory, op->loan->wait.use. Returns false if the key is malformed. */
    bool (*lent)(struct aqi_rdma *rdma, struct aqi_transfer *op);

    /* Initialize the driver's part of a peer, and find its address. AQ_AGAIN: unknown for now. */
    aq_status (*meet)(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer, uint32_t host);
    /* Post all that waited for room. */
    void (*push)(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer);
    /* Whether everything sent has arrived; if unknown, query the peer. */
    bool (*is_quiet)(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer);
    /* The peer has failed: end everything in flight to it. */
    void (*down)(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer);
    /* The peer's address as text to follow its number; "": unknown. May be NULL. */
    void (*where)(const struct aqi_rdma *rdma, const struct aqi_rdma_peer *peer,
                  char text[AQI_RDMA_WHERE]);
};

static inline void aqi_rdma_lock(struct aqi_rdma *rdma)
{
    if (rdma->locks) aqi_spin_lock(&rdma->lock);
}

static inline void aqi_rdma_unlock(struct aqi_rdma *rdma)
{
    if (rdma->locks) aqi_spin_unlock(&rdma->lock);
}

/*
 * Whether a peer holds a key of memory that has changed. If so, no message may leave and no put may
 * begin. Puts that have begun are not held back: if they were, their memory would not be returned
 * to the peer, and processes might deadlock.
 */
static inline bool aqi_rdma_fenced(struct aqi_rdma *rdma)
{
    struct aqi_reg *reg = rdma->pins.reg;
    return AQI_UNLIKELY(rdma->lending.on) &&
           aqi_reg_counts(reg)->sent != 0 && /* something was ever lent */
           aqi_reg_fenced(reg) && !rdma->draining;
}

/* Initialize: nothing is in flight. */
static inline void aqi_rdma_begin(struct aqi_rdma *rdma, const struct aqi_rdma_driver *driver)
{
    rdma->driver = driver;
    rdma->fd = -1;
    rdma->last_held = &rdma->held;
    aqi_pool_init(&rdma->lending.loans, sizeof(struct aqi_loan), 64, false);
    aqi_pool_init(&rdma->ops, driver->op_size, 64, false);
}

/* peer.c */
/* `rdma` must be zeroed, and closed even after a failure. */
aq_status aqi_rdma_open(struct aqi_rdma *rdma, const struct aqi_rdma_driver *driver,
                        const struct aqi_tp_params *params);
/* Before closing: end everything in flight, with all peers. */
void aqi_rdma_end_peers(struct aqi_rdma *rdma);
void aqi_rdma_close(struct aqi_rdma *rdma); /* nothing may be in flight; keeps pins and buffers */
aq_status aqi_rdma_connect(struct aqi_tp *tp, uint32_t id, uint32_t host, struct aqi_peer **out);
aq_status aqi_rdma_quiet(struct aqi_tp *tp, struct aqi_peer *to);
aq_status aqi_rdma_drain(struct aqi_tp *tp, uint64_t deadline);
void aqi_rdma_push_all(struct aqi_rdma *rdma); /* with the lock held */
/* This peer has failed permanently; `why` is reported from progress. With the lock held. */
void aqi_rdma_fail(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer, const char *fmt, ...)
    AQI_PRINTF(3, 4);
void aqi_rdma_disconnect(struct aqi_tp *tp, struct aqi_peer *peer);
int aqi_rdma_wait_fd(struct aqi_tp *tp);
/* Without the lock: report lost peers, and hand over parts rejected by the network. */
AQI_COLD unsigned aqi_rdma_report(struct aqi_rdma *rdma);
/* The start of a round of progress: takes the lock. While the thread waited for the lock, others
 * may have begun later rounds: time must not go back. Returns the ns since the previous round. */
static inline uint64_t aqi_rdma_begin_round(struct aqi_rdma *rdma, uint64_t now)
{
    aqi_rdma_lock(rdma);
    uint64_t before = rdma->now;
    rdma->now = aqi_max(before, now);
    return rdma->now - before;
}

/* The part of a round that serves lent and pinned memory, and transfers that wait for room. */
static inline void aqi_rdma_serve_memory(struct aqi_rdma *rdma)
{
    if (AQI_UNLIKELY(rdma->lending.on)) aqi_lending_progress(rdma);
    if (AQI_UNLIKELY(rdma->waiting != 0)) aqi_rdma_push_all(rdma);
    aqi_pins_progress(&rdma->pins);
}

/* The end of a round of progress. Releases the lock. */
static inline unsigned aqi_rdma_end_round(struct aqi_rdma *rdma, enum aqi_progress_mode mode)
{
    bool due = ((uintptr_t)rdma->lost | (uintptr_t)rdma->lending.refused.first) != 0;
    aqi_rdma_unlock(rdma);
    return AQI_UNLIKELY(due) && mode == AQI_PROGRESS_ALL ? aqi_rdma_report(rdma) : 0;
}

/* buffer.c. With the lock held. */
/* Add a zeroed chunk of whole pages, registered for `access`, followed by `room` bytes for the
 * state of its parts. NULL: failed; the reason is in aq_error_message(), but not logged. */
struct aqi_rdma_chunk *aqi_rdma_add_chunk(struct aqi_rdma *rdma, size_t len,
                                          enum aqi_pins_access access, size_t room);
bool aqi_rdma_more_bufs(struct aqi_rdma *rdma); /* likewise */
void aqi_rdma_drop_chunks(struct aqi_rdma *rdma);
static inline size_t aqi_rdma_chunk_len(const struct aqi_rdma *rdma)
{
    return aqi_round_up(AQI_RDMA_CHUNK * rdma->buffer, 4096);
}
static inline struct aqi_rdma_buf *aqi_rdma_get(struct aqi_rdma *rdma)
{
    if (AQI_UNLIKELY(rdma->free == NULL) && !aqi_rdma_more_bufs(rdma)) return NULL;
    struct aqi_rdma_buf *buf = rdma->free;
    rdma->free = buf->next;
    return buf;
}
static inline void aqi_rdma_put(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf)
{
    buf->next = rdma->free;
    rdma->free = buf;
}
/* Get a buffer to send from, if fewer than `most` plus `more` are in use. NULL: none for now. */
static inline struct aqi_rdma_buf *aqi_rdma_bounce_get(struct aqi_rdma *rdma, uint32_t more)
{
    if (AQI_UNLIKELY(rdma->bounced >= rdma->most + more)) return NULL;
    struct aqi_rdma_buf *buf = aqi_rdma_get(rdma);
    if (AQI_LIKELY(buf != NULL)) rdma->bounced++;
    return buf;
}
static inline void aqi_rdma_bounce_put(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf)
{
    rdma->bounced--;
    aqi_rdma_put(rdma, buf);
}

/* message.c */
static inline enum aqi_rdma_message aqi_rdma_kind(const struct aqi_am *am)
{
    return (am->flags & AQI_AM_IS_REPLY) != 0 ? AQI_RDMA_REPLY : AQI_RDMA_REQUEST;
}
aq_status aqi_rdma_am_send(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                           struct aqi_comp *comp);
aq_status aqi_rdma_am_long(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                           const struct aqi_rmem *rmem, const struct aqi_mem *mem,
                           struct aqi_comp *comp);
/* With the lock held. */
/* Write the header of a Long into the buffer. */
void aqi_rdma_encode_long(const struct aqi_rdma *rdma, struct aqi_rdma_buf *buf,
                          const struct aqi_am *am);
/* Decode the message in `bytes`, which is that of `buf` or a copy. Returns false if malformed. */
static AQI_INLINE bool aqi_rdma_read(const struct aqi_rdma *rdma, const struct aqi_rdma_buf *buf,
                                     unsigned char *bytes, struct aqi_am *am)
{
    uint32_t claimed;
    if (aqi_am_decode_here(bytes, buf->len, rdma->tp.limits.max_medium, am, &claimed) != AQ_OK ||
        claimed != buf->peer->peer.id)
        return false;
    if (AQI_LIKELY(am->kind == AQI_AM_SHORT) || !aqi_am_has_payload(am->kind)) return true;
    size_t offset = aqi_am_payload_offset(am->nargs);
    am->payload = bytes + offset;
    return am->nbytes == 0 || (buf->len >= offset && am->nbytes <= buf->len - offset);
}
/* Run the handler of the message in `bytes`, without the lock. */
static AQI_INLINE void aqi_rdma_run(struct aqi_rdma *rdma, const struct aqi_rdma_buf *buf,
                                    unsigned char *bytes)
{
    struct aqi_am am;
    uint32_t source = buf->peer->peer.id;
    if (!aqi_rdma_read(rdma, buf, bytes, &am)) {
        aqi_count(AQI_CTR_AM_DROPPED, 1);
        return;
    }
    aqi_rdma_unlock(rdma);
    rdma->tp.hooks.deliver(rdma->tp.hooks.arg, source, &am);
    aqi_rdma_lock(rdma);
}
/* Hold the message until its handler may run. */
void aqi_rdma_hold(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf);
unsigned aqi_rdma_deliver_held(struct aqi_rdma *rdma);
/* Run handlers of held messages if they may run in this mode; the lock is released meanwhile. */
static inline unsigned aqi_rdma_run_held(struct aqi_rdma *rdma, enum aqi_progress_mode mode)
{
    bool held = AQI_UNLIKELY(rdma->held != NULL) && mode == AQI_PROGRESS_ALL;
    return held ? aqi_rdma_deliver_held(rdma) : 0;
}

/* memory.c */
aq_status aqi_rdma_mem_reg(struct aqi_tp *tp, void *addr, size_t len, struct aqi_mem **mem);
void aqi_rdma_mem_dereg(struct aqi_tp *tp, struct aqi_mem *mem);
void aqi_rdma_mem_unmap(struct aqi_tp *tp, struct aqi_rmem *rmem);
aq_status aqi_rdma_mem_map(struct aqi_tp *tp, struct aqi_peer *peer, const void *key,
                           size_t key_len, uint64_t addr, size_t len, struct aqi_rmem **rmem);
/* How memory that cannot be registered is accessed, as text that completes a sentence, and the
 * level at which to log it. */
static inline const char *aqi_rdma_instead(const struct aqi_rdma *rdma)
{
    return rdma->lending.on ? "registered on demand" : "accessed by messages";
}
static inline enum aqi_log_level aqi_rdma_loud(const struct aqi_rdma *rdma)
{
    return rdma->lending.on ? AQI_LOG_INFO : AQI_LOG_WARN;
}

/* transfer.c. With the lock held. */
/* AQ_ERANGE: the range does not lie in `rmem`. Also without the lock. */
AQI_COLD aq_status aqi_rdma_outside(const struct aqi_tp *tp, const struct aqi_peer *peer,
                                    uint64_t addr, size_t len);
static inline aq_status aqi_rdma_check(const struct aqi_tp *tp, const struct aqi_peer *peer,
                                       const struct aqi_rmem *rmem, uint64_t addr, size_t len)
{
    if (AQI_LIKELY(len == 0 || aqi_within(addr, len, rmem->addr, rmem->len))) return AQ_OK;
    return aqi_rdma_outside(tp, peer, addr, len);
}
/* Puts and gets, as in transport.h. */
aq_status aqi_rdma_put_bytes(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                             uint64_t addr, const void *src, size_t len, const struct aqi_mem *mem,
                             struct aqi_comp *comp);
aq_status aqi_rdma_get_bytes(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                             uint64_t addr, void *dst, size_t len, const struct aqi_mem *mem,
                             struct aqi_comp *comp);
/* Add a transfer as described by `want`, which is copied, to those of its peer. NULL: out of
 * memory. */
struct aqi_transfer *aqi_rdma_new(struct aqi_rdma *rdma, const struct aqi_transfer *want,
                                  const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem);
/* Likewise, and start it. AQ_AGAIN: not now. */
aq_status aqi_rdma_start(struct aqi_rdma *rdma, const struct aqi_transfer *want,
                         const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem);
/* Post what waits for room, as far as possible. */
void aqi_rdma_push(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer);
/* All transfers of this peer fail, except those whose memory the network still accesses, unless
 * `now`. */
void aqi_rdma_fail_transfers(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer, bool now);
/* Copy the data of a short put now. Returns false if it is not one. */
static inline bool aqi_rdma_copied(struct aqi_transfer *op)
{
    if (op->get || op->len > sizeof(op->copy)) return false;
    op->local = memcpy(op->copy, op->local, op->len);
    return true;
}
/*
 * How the local memory of `op` is reached, if it must be registered; `known`: it is. Otherwise up
 * to `bounce` bytes are copied, but if memory stays pinned, no more than fit in one buffer: each
 * further one costs more than pinning.
 */
static inline void aqi_rdma_local(const struct aqi_rdma *rdma, struct aqi_transfer *op, bool known,
                                  uint64_t bounce)
{
    uint64_t most = rdma->pins.keeps ? aqi_min(bounce, rdma->buffer) : bounce;
    if (aqi_rdma_copied(op))
        op->by = AQI_BY_BOUNCE;
    else if (!known)
        op->by = op->len <= most ? AQI_BY_BOUNCE : AQI_BY_PINS;
}
bool aqi_rdma_piece_memory(struct aqi_rdma *rdma, struct aqi_rdma_piece *piece);
/*
 * Prepare the next piece of `op`, of at most `most` bytes, for the network, with its local memory
 * pinned or, if that is impossible, copied. Does not advance op->posted. Returns false if no buffer
 * is free now.
 */
static inline bool aqi_rdma_piece_begin(struct aqi_rdma *rdma, struct aqi_transfer *op, size_t most,
                                        struct aqi_rdma_piece *piece)
{
    *piece = (struct aqi_rdma_piece){.op = op, .offset = op->posted, .len = most};
    return AQI_LIKELY(op->by == AQI_BY_KNOWN) || aqi_rdma_piece_memory(rdma, piece);
}
void aqi_rdma_piece_drop(struct aqi_rdma *rdma, struct aqi_rdma_piece *piece); /* its memory */
void aqi_rdma_piece_done(struct aqi_rdma *rdma, struct aqi_rdma_piece *piece, aq_status status);
/* Add it to the transfers of its peer. */
static inline void aqi_rdma_link(struct aqi_transfer *op)
{
    struct aqi_rdma_peer *peer = op->peer;
    op->next_op = peer->ops;
    op->link = &peer->ops;
    if (op->next_op != NULL) op->next_op->link = &op->next_op;
    peer->ops = op;
}
/* Copy the local memory of a put, which may then be given back. Returns false if out of memory. */
bool aqi_rdma_copy(struct aqi_rdma *rdma, struct aqi_transfer *op);
void aqi_rdma_drop_copy(struct aqi_rdma *rdma, struct aqi_transfer *op); /* if there is one */
void aqi_rdma_close_copies(struct aqi_rdma *rdma);
/* The transfer has ended, and no piece of it is posted. */
void aqi_rdma_over(struct aqi_rdma *rdma, struct aqi_transfer *op);
/* Queue it, to be posted as soon as possible. */
static inline void aqi_rdma_queue(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    rdma->waiting++;
    rdma->whole = true;
    aqi_transfers_append(&op->peer->waiting, op);
}
/* Remove it from the queue, if it is there. */
void aqi_rdma_unqueue(struct aqi_rdma *rdma, struct aqi_transfer *op);

#endif
