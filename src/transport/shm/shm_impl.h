/*
 * What the files of shm share: the layout of the shared memory and the state of an open transport.
 *
 * One memory object for all ranks of the host holds a region for each, its inbox. An inbox has a
 * header and a channel for each sender; a channel has two rings of slots (requests and replies, so
 * that a reply never waits behind requests), each with a ring of cache lines for payloads. A
 * channel is written by one process and read by one, so no atomic read-modify-write is needed, and
 * it takes physical memory only once it is used.
 */
#ifndef AQI_SHM_IMPL_H
#define AQI_SHM_IMPL_H

#include "base/spin.h"
#include "transport/shm/shm.h"

#include <sys/un.h>

#define SHM_MAGIC 0x314d48535141u /* "AQSHM1" */

enum { SHM_REQUESTS, SHM_REPLIES, SHM_RINGS };

/*
 * A message: the wire header, whose `stamp` publishes it and whose `source` tells where the payload
 * is (a line of the payload ring, or SHM_INLINE), the arguments, and a small payload. A short
 * message with up to 10 arguments is one cache line.
 */
enum { SHM_SLOT = 128 };
#define SHM_INLINE UINT32_MAX

struct shm_slot {
    alignas(AQI_CACHE_LINE) unsigned char bytes[SHM_SLOT];
};
static_assert(sizeof(struct shm_slot) == SHM_SLOT, "a slot is two cache lines");

/* The publishing word of a slot: release by the sender, acquire by the receiver's poll. */
static inline _Atomic uint32_t *shm_stamp(struct shm_slot *slot)
{
    return (_Atomic uint32_t *)(void *)slot->bytes;
}

/* The head of a channel's rings: how many slots the receiver has given back, each on its line. */
struct shm_channel_head {
    struct {
        alignas(AQI_CACHE_LINE) _Atomic uint32_t done;
    } ring[SHM_RINGS];
};

/* The start of an inbox. Set up before the addresses are exchanged, but for the two words below. */
struct shm_inbox {
    uint64_t magic;
    uint32_t rank; /* among the ranks of the host */
    uint32_t slots;
    uint64_t payload;
    uint32_t fence; /* 1: no membarrier here; senders fence before they look at `asleep` */
    uint32_t wake_len;
    struct sockaddr_un wake;                         /* where to send a byte when `asleep` */
    alignas(AQI_CACHE_LINE) _Atomic uint32_t asleep; /* receiver: 1; whoever wakes it: 0 */
    alignas(AQI_CACHE_LINE) _Atomic uint32_t joined; /* senders that have a message for us, ever */
    _Atomic uint8_t member[];                        /* which, by local rank */
};

/* Where things are in the memory object; computed from the same numbers by every rank. */
struct shm_layout {
    uint32_t ranks, slots;
    uint32_t lines;  /* of a payload ring */
    size_t channel;  /* bytes of a channel */
    size_t channels; /* offset of the first channel in an inbox */
    size_t inbox;    /* bytes of an inbox */
};

/* One direction of one channel, as its sender keeps it. */
struct shm_tx {
    struct shm_slot *slots;
    unsigned char *payload;
    _Atomic uint32_t *done; /* written by the receiver */
    uint32_t tail;          /* slots sent */
    uint32_t done_seen;
    uint32_t line, line_done; /* payload lines used and given back, counted on and on */
    uint32_t *line_after;     /* `line` after each slot's message, to learn line_done from done */
};

/* And as its receiver keeps it. */
struct shm_rx {
    struct shm_slot *slots;
    unsigned char *payload;
    _Atomic uint32_t *done;
    _Atomic uint32_t head; /* slots consumed; written under the lock, read by anybody's peek */
    uint32_t told;         /* `done` as published */
    uint32_t lines_held;   /* payload lines consumed since then */
};

struct shm_peer {
    struct aqi_peer peer;
    uint32_t local_rank;
    atomic_bool joined; /* we are a member of its inbox */
    atomic_bool lost;   /* its process has ended: send nothing more */
    bool told;          /* and hooks.peer_lost was called; under join_lock */
    struct shm_inbox *inbox;
    struct shm_tx tx[SHM_RINGS];
    struct aqi_spin lock[SHM_RINGS]; /* params.threads only */
};

/* A channel of our inbox in which messages have been seen. */
struct shm_source {
    uint32_t id; /* of the sender */
    struct shm_rx rx[SHM_RINGS];
    struct aqi_spin lock[SHM_RINGS]; /* params.threads only */
};

/* What one mem_alloc gave to all ranks of the host: a part of `stride` bytes for each. */
struct shm_area {
    unsigned char *base;
    size_t stride;
};
enum { SHM_AREAS = 16 };

struct shm_tp {
    struct aqi_tp tp;
    struct aqi_tp_params params;
    struct shm_layout layout;
    unsigned char *memory;   /* all inboxes */
    struct shm_inbox *inbox; /* ours */
    int wake_socket;
    bool membarrier;
    struct shm_peer **peers;     /* by local rank; NULL: not connected */
    struct shm_source **sources; /* those that have joined; `source_count` of them */
    _Atomic uint32_t source_count;
    bool *known; /* by local rank: in `sources` */
    struct aqi_spin join_lock;
    atomic_bool some_lost; /* a send found a peer gone; progress is to tell */
    struct shm_area areas[SHM_AREAS];
    uint32_t area_count;
};

/* A bounded try: the holder may be a thread that was preempted, or one between reserve and commit.
 */
static inline bool shm_lock_soon(const struct shm_tp *shm, struct aqi_spin *lock)
{
    if (!shm->params.threads) return true;
    for (int i = 0; i < 200; i++) {
        if (aqi_spin_try(lock)) return true;
        aqi_pause();
    }
    return false;
}

static inline void shm_unlock(const struct shm_tp *shm, struct aqi_spin *lock)
{
    if (shm->params.threads) aqi_spin_unlock(lock);
}

/* shm_send.c */
void shm_tx_init(struct shm_tp *shm, struct shm_tx *tx, unsigned ring, struct shm_inbox *to,
                 uint32_t *line_after);
aq_status shm_am_send(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                      struct aqi_comp *comp);
aq_status shm_am_reserve(struct aqi_tp *tp, struct aqi_peer *peer, bool reply, unsigned nargs,
                         size_t nbytes, struct aqi_slot *slot);
aq_status shm_am_commit(struct aqi_tp *tp, struct aqi_peer *peer, struct aqi_slot *slot,
                        const struct aqi_am *am);

/* shm_receive.c */
unsigned shm_progress(struct aqi_tp *tp, enum aqi_progress_mode mode);
bool shm_has_arrivals(struct shm_tp *shm);

/* shm_wake.c: sleeping receivers, and waking them. */
aq_status shm_wake_open(struct shm_tp *shm);
void shm_wake_close(struct shm_tp *shm);
void shm_wake(struct shm_tp *shm, struct shm_peer *peer);
int shm_wait_fd(struct aqi_tp *tp);
aq_status shm_arm(struct aqi_tp *tp, bool on);

/* shm_rma.c */
aq_status shm_mem_alloc(struct aqi_tp *tp, size_t len, size_t most, void **addr);
aq_status shm_mem_reg(struct aqi_tp *tp, void *addr, size_t len, unsigned char key[AQI_KEY_MAX]);
void shm_mem_dereg(struct aqi_tp *tp, const unsigned char key[AQI_KEY_MAX]);
aq_status shm_mem_map(struct aqi_tp *tp, struct aqi_peer *peer,
                      const unsigned char key[AQI_KEY_MAX], uint64_t addr, size_t len,
                      struct aqi_rmem *rmem);
aq_status shm_put(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, const void *src, size_t len, struct aqi_comp *comp);
aq_status shm_get(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, void *dst, size_t len, struct aqi_comp *comp);
aq_status shm_fill(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                   uint64_t addr, int byte, size_t len, struct aqi_comp *comp);
aq_status shm_atomic(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                     const struct aqi_atomic *req, void *result, struct aqi_comp *comp);

/* Offsets, from the layout. */
static inline struct shm_inbox *shm_inbox_of(const struct shm_tp *shm, uint32_t local_rank)
{
    return (struct shm_inbox *)(void *)(shm->memory + local_rank * shm->layout.inbox);
}

static inline unsigned char *shm_channel_of(const struct shm_tp *shm, struct shm_inbox *inbox,
                                            uint32_t sender)
{
    return (unsigned char *)inbox + shm->layout.channels + sender * shm->layout.channel;
}

/* A channel: its head, the slots of both rings, the payload lines of both rings. */
static inline struct shm_slot *shm_slots_of(const struct shm_tp *shm, unsigned char *channel,
                                            unsigned ring)
{
    return (struct shm_slot *)(void *)(channel + sizeof(struct shm_channel_head)) +
           ring * shm->layout.slots;
}

static inline unsigned char *shm_payload_of(const struct shm_tp *shm, unsigned char *channel,
                                            unsigned ring)
{
    return channel + sizeof(struct shm_channel_head) +
           SHM_RINGS * shm->layout.slots * sizeof(struct shm_slot) +
           ring * (size_t)shm->layout.lines * AQI_CACHE_LINE;
}

#endif
