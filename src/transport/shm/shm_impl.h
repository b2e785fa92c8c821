/*
 * Private to shm: the layout of the shared memory and the state of an open transport.
 *
 * One memory object for all ranks of the host holds an inbox for each: a header and a channel for
 * each sender; a channel has two rings of slots (requests and replies, so that a reply never waits
 * behind requests), each with a ring of cache lines for payloads. A channel is written by one
 * process and read by one, so no atomic read-modify-write is needed, and it takes physical memory
 * only once it is used. The headers, which all ranks access, are contiguous: if each were next to
 * its channels, every process would need a page table for every other.
 */
#ifndef AQI_SHM_IMPL_H
#define AQI_SHM_IMPL_H

#include "base/spin.h"
#include "transport/rendezvous.h"
#include "transport/shm/shm.h"

#include <sys/un.h>

enum { SHM_REQUESTS, SHM_REPLIES, SHM_RINGS };

/*
 * A payload ring has room for at least this many of the largest Mediums, or pieces of puts and
 * gets. With four, any message eventually has room: the space skipped at the end, and the freed
 * space that was not reported yet, are each less than a quarter.
 */
enum { SHM_PIECES = 4 };

/*
 * A message: the wire header, whose `stamp` publishes it and whose `source` locates the payload (a
 * line of the payload ring, or SHM_INLINE), the arguments, and a small payload. A short message
 * with up to 10 arguments takes one cache line.
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

/* How many lines of a payload ring a payload takes. */
static inline uint32_t shm_lines_of(size_t nbytes)
{
    return (uint32_t)((nbytes + AQI_CACHE_LINE - 1) / AQI_CACHE_LINE);
}

/*
 * The head of a channel's rings: the number of slots that the receiver has freed, each on its own
 * line.
 */
struct shm_channel_head {
    struct {
        alignas(AQI_CACHE_LINE) _Atomic uint32_t done;
    } ring[SHM_RINGS];
};

/* Maximum number of private registrations that CMA accesses; others need messages. */
enum { SHM_HANDLES = 64 };

/* The start of an inbox, set up before addresses are exchanged; later only atomics change. */
struct shm_inbox {
    uint64_t magic;
    uint32_t rank; /* number among the ranks of the host */
    uint32_t slots;
    uint64_t payload;
    uint32_t fence; /* 1: no membarrier here; senders fence before they read `asleep` */
    uint32_t wake_len;
    struct sockaddr_un wake; /* where to send a byte when `asleep` */
    uint64_t network;        /* namespace in which that name is valid; 0: unknown */
    /* For CMA: the owner's process, and memory of it to try CMA on. */
    uint32_t pid;
    uint64_t proof;                        /* the address of a struct shm_proof */
    uint64_t cookie;                       /* its first word */
    _Atomic uint32_t handles[SHM_HANDLES]; /* generations of its registrations; odd: valid */
    alignas(
        AQI_CACHE_LINE) _Atomic uint32_t rounds; /* of progress, which show that the owner polls */
    alignas(AQI_CACHE_LINE) _Atomic uint32_t asleep; /* enum shm_asleep, for senders */
    alignas(AQI_CACHE_LINE) _Atomic uint32_t calls;  /* by senders whose channel is not polled */
    /* Two bytes for each local rank follow: shm_polled_of, shm_calling_of. */
};

/*
 * "AQSI", and the version of the layout above: programs that connect may have other builds of the
 * library.
 */
#define SHM_MAGIC                                                                                  \
    (0x49535141u | (uint64_t)sizeof(struct shm_inbox) << 32 |                                      \
     (uint64_t)offsetof(struct shm_inbox, calls) << 48)

/*
 * The signal that the receiver requests with each message: a byte to its socket (the sender then
 * clears the word), or a ring of its bell (the receiver clears the word).
 */
enum shm_asleep { SHM_AWAKE, SHM_ASLEEP, SHM_RESTS };

/* Where everything is in the memory object; every rank computes this from the same numbers. */
struct shm_layout {
    uint32_t ranks, slots;
    uint32_t lines;  /* of a payload ring */
    size_t channel;  /* bytes of a channel */
    size_t inbox;    /* bytes of the header of an inbox */
    size_t channels; /* offset of the first channel; those of an inbox are contiguous */
    size_t total;
};

/*
 * In the private memory of each process: others read and write it to determine whether CMA reaches
 * the process. In another pid namespace, the owner's pid may belong to another process, so nothing
 * is written before the cookie has been read.
 */
struct shm_proof {
    uint64_t cookie;
    _Atomic uint64_t written[]; /* by local rank: written by that rank */
};

/* One direction of a channel, as seen by its sender. */
struct shm_tx {
    struct shm_slot *slots;
    unsigned char *payload;
    _Atomic uint32_t *done; /* written by the receiver */
    uint32_t tail;          /* slots sent */
    uint32_t done_seen;
    uint32_t line, line_done; /* payload lines used and freed, counted continuously */
    uint32_t *line_after;     /* `line` after each slot's message, to derive line_done from done */
};

/* The same direction, as seen by its receiver. */
struct shm_rx {
    struct shm_slot *slots;
    unsigned char *payload;
    _Atomic uint32_t *done;
    _Atomic uint32_t head; /* slots consumed; written under the lock, read by any thread's peek */
    uint32_t published;    /* the value of `done` */
    uint32_t lines_held;   /* payload lines consumed since then */
};

struct shm_peer {
    struct aqi_peer peer;
    uint32_t local_rank;
    atomic_bool lost; /* its process has ended: send nothing more */
    bool fence;       /* membarrier does not work at both ends: fence after each message */
    bool reported;    /* hooks.peer_lost was called; under join_lock */
    struct shm_inbox *inbox;
    _Atomic uint8_t *polled; /* it polls our channel; otherwise, call it by `calling` */
    _Atomic uint8_t *calling;
    struct shm_tx tx[SHM_RINGS];
    struct aqi_spin lock[SHM_RINGS]; /* params.threads only */
    /* shm_cma.c */
    _Atomic uint8_t cma;            /* enum shm_cma */
    _Atomic uint64_t attends_until; /* ns: until then, assume that it polls */
    _Atomic uint64_t absent_until;  /* ns: until then, assume that it does not */
    _Atomic uint32_t absent_times;  /* consecutive negative results */
    _Atomic uint64_t debt;          /* bytes that CMA moved while it slept */
};

/* A channel of our inbox in which messages have arrived. */
struct shm_source {
    uint32_t id; /* of the sender */
    uint32_t local_rank;
    bool polled;         /* in shm_tp.polled; under join_lock, like the next two */
    bool leaving;        /* about to be removed from there */
    _Atomic uint32_t at; /* its position in shm_tp.polled: see shm_poll_place */
    uint32_t heads;      /* messages taken, at the last check for idle ones */
    struct shm_rx rx[SHM_RINGS];
    struct aqi_spin lock[SHM_RINGS]; /* params.threads only */
};

/* One mem_alloc by all ranks of the host: `stride` bytes for each. */
struct shm_area {
    unsigned char *base;
    size_t stride;
    int fd; /* the mapped object, to pass on */
};
enum { SHM_AREAS = 16 };

struct shm_tp {
    struct aqi_tp tp;
    struct aqi_tp_params params;
    struct shm_layout layout;
    unsigned char *memory;   /* all inboxes */
    struct shm_inbox *inbox; /* ours */
    int wake_socket;         /* -1: there is a bell */
    bool membarrier;
    bool apart;                  /* some peer is in another network namespace, and cannot wake us */
    struct shm_peer **peers;     /* by local rank; NULL: not connected */
    struct shm_source **sources; /* by local rank; NULL: has never called. Under join_lock */
    _Atomic(struct shm_source *) *polled; /* sources whose channels are polled: */
    _Atomic uint32_t polled_count;
    struct aqi_watch *watch; /* for calls, and for the rings of each polled channel */
    uint32_t cool;           /* AQ_SHM_COOL */
    struct aqi_spin join_lock;
    atomic_bool some_lost; /* a send found a dead peer, which progress must report */
    struct shm_area areas[SHM_AREAS];
    uint32_t area_count;
    struct shm_proof *proof;
    _Atomic int cma_error;     /* why the last attempt failed */
    _Atomic uint8_t cma_found; /* result of the last attempt, enum shm_cma */
};

/* Whether CMA reaches a peer; determined on first use. */
enum shm_cma { SHM_CMA_UNTRIED, SHM_CMA_WORKS, SHM_CMA_FAILS };

/* Try to lock for a bounded time: the holder may be preempted, or between reserve and commit. */
static inline bool shm_lock_soon(const struct shm_tp *shm, struct aqi_spin *lock)
{
    if (!shm->params.threads) return true;
    for (int i = 0; i < 200; i++) {
        if (aqi_spin_try(lock)) return true;
        aqi_pause();
    }
    return false;
}

/* shm_send.c */
void shm_tx_init(struct shm_tp *shm, struct shm_tx *tx, unsigned ring, uint32_t to);
aq_status shm_am_send(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                      struct aqi_comp *comp);
aq_status shm_am_reserve(struct aqi_tp *tp, struct aqi_peer *peer, bool reply, unsigned nargs,
                         size_t nbytes, struct aqi_slot *slot);
aq_status shm_am_commit(struct aqi_tp *tp, struct aqi_peer *peer, struct aqi_slot *slot,
                        const struct aqi_am *am);

/* shm_receive.c */
unsigned shm_moved(struct aqi_tp *tp, uint32_t watch);
unsigned shm_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now);
bool shm_has_arrivals(struct shm_tp *shm);

/*
 * shm_poll.c: which channels are polled: all that have carried a message recently. Others cost
 * nothing, and their senders call the receiver with the next message.
 */
void shm_answer_calls(struct shm_tp *shm);
void shm_forget_idle(struct shm_tp *shm);
void shm_call(struct shm_peer *peer);

/*
 * After publishing a message, call the receiver if it does not poll our channel. The receiver
 * clears the byte, then issues a barrier on all processors, as with `asleep`; the fence precedes
 * both checks.
 */
static inline void shm_call_if_unpolled(struct shm_peer *to)
{
    if (AQI_UNLIKELY(!atomic_load_explicit(to->polled, memory_order_acquire))) shm_call(to);
}

enum { SHM_WATCH_CALLS, SHM_WATCH_RINGS };

/* The idle value of this word is the number of calls already answered. */
static inline bool shm_has_calls(const struct shm_tp *shm)
{
    return atomic_load_explicit(&shm->inbox->calls, memory_order_acquire) !=
           atomic_load_explicit(&shm->watch[SHM_WATCH_CALLS].idle, memory_order_relaxed);
}

static inline struct shm_slot *shm_peek(const struct shm_tp *shm, struct shm_rx *rx)
{
    uint32_t head = atomic_load_explicit(&rx->head, memory_order_relaxed);
    struct shm_slot *slot = &rx->slots[head & (shm->layout.slots - 1)];
    uint32_t stamp = atomic_load_explicit(shm_stamp(slot), memory_order_acquire);
    return stamp == head + 1 ? slot : NULL;
}

/* Watch the next slot of a ring, even if its message is already there. */
static inline void shm_watch_ring(struct shm_tp *shm, const struct shm_source *source,
                                  unsigned ring)
{
    const struct shm_rx *rx = &source->rx[ring];
    uint32_t at = atomic_load_explicit(&source->at, memory_order_relaxed);
    uint32_t head = atomic_load_explicit(&rx->head, memory_order_relaxed);
    _Atomic uint32_t *word = shm_stamp(&rx->slots[head & (shm->layout.slots - 1)]);
    uint32_t stamp = atomic_load_explicit(word, memory_order_relaxed);
    aqi_watch_set(&shm->watch[SHM_WATCH_RINGS + SHM_RINGS * at + ring], word,
                  stamp == head + 1 ? head : stamp);
}

/*
 * Whether there is a message. Reliable even while another thread takes messages, unlike shm_peek,
 * to which a slot looks empty that the sender has refilled since `head` was read.
 */
static inline bool shm_has_message(const struct shm_tp *shm, struct shm_rx *rx)
{
    uint32_t head;
    do {
        head = atomic_load_explicit(&rx->head, memory_order_relaxed);
        if (shm_peek(shm, rx) != NULL) return true;
    } while (atomic_load_explicit(&rx->head, memory_order_relaxed) != head);
    return false;
}

/* shm_wake.c: sleeping receivers, and waking them. */
aq_status shm_wake_open(struct shm_tp *shm);
void shm_wake_close(struct shm_tp *shm);
/* Makes our earlier stores visible to processes that send afterwards, and vice versa. */
void shm_barrier(const struct shm_tp *shm);
void shm_wake(struct shm_tp *shm, struct shm_peer *peer);
int shm_wait_fd(struct aqi_tp *tp);
aq_status shm_arm(struct aqi_tp *tp, bool on);
aq_status shm_rest(struct aqi_tp *tp, enum aqi_rest step);

/* shm_rendezvous.c */
extern const struct aqi_rendezvous_ops shm_rendezvous;

/* shm_rma.c */
aq_status shm_mem_alloc(struct aqi_tp *tp, size_t len, size_t most, void **addr);
enum { SHM_KEY = 24 }; /* bytes of a key */
aq_status shm_mem_reg(struct aqi_tp *tp, void *addr, size_t len, struct aqi_mem **mem);
void shm_mem_dereg(struct aqi_tp *tp, struct aqi_mem *mem);
aq_status shm_mem_map(struct aqi_tp *tp, struct aqi_peer *peer, const void *key, size_t key_len,
                      uint64_t addr, size_t len, struct aqi_rmem **rmem);
void shm_mem_unmap(struct aqi_tp *tp, struct aqi_rmem *rmem);
aq_status shm_mem_fd(struct aqi_tp *tp, const void *addr, size_t len, int *fd, uint64_t *offset);
aq_status shm_put(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, const void *src, size_t len, const struct aqi_mem *mem,
                  struct aqi_comp *comp);
aq_status shm_get(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, void *dst, size_t len, const struct aqi_mem *mem,
                  struct aqi_comp *comp);
aq_status shm_fill(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                   uint64_t addr, int byte, size_t len, struct aqi_comp *comp);
aq_status shm_atomic(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                     const struct aqi_atomic *req, void *result, struct aqi_comp *comp);

/*
 * shm_cma.c: memory of a peer that is not mapped. CMA is "better" if it is possible, unless the
 * peer polls and copying by both processes is faster. AQ_ENOTSUP: use messages instead. `folder` is
 * that of log lines; NULL: not logged.
 */
aq_status shm_cma_open(struct shm_tp *shm);
const char *shm_cma_state(const struct shm_tp *shm);
bool shm_cma_better(struct shm_tp *shm, struct shm_peer *peer, size_t len);
aq_status shm_cma_move(struct shm_tp *shm, struct shm_peer *peer, bool write, void *here,
                       uint64_t there, size_t len, const char *folder);
aq_status shm_cma_pull(struct aqi_tp *tp, struct aqi_peer *peer, uint64_t addr, void *dst,
                       size_t len);
aq_status shm_cma_fill(struct shm_tp *shm, struct shm_peer *peer, uint64_t there, int byte,
                       size_t len);

static inline struct shm_inbox *shm_inbox_of(const struct shm_tp *shm, uint32_t local_rank)
{
    return (struct shm_inbox *)(void *)(shm->memory + local_rank * shm->layout.inbox);
}

static inline _Atomic uint8_t *shm_polled_of(const struct shm_inbox *inbox, uint32_t sender)
{
    return (_Atomic uint8_t *)(uintptr_t)(inbox + 1) + sender;
}

static inline _Atomic uint8_t *shm_calling_of(const struct shm_tp *shm,
                                              const struct shm_inbox *inbox, uint32_t sender)
{
    return shm_polled_of(inbox, (uint32_t)aqi_round_up(shm->layout.ranks, AQI_CACHE_LINE) + sender);
}

static inline unsigned char *shm_channel_of(const struct shm_tp *shm, uint32_t receiver,
                                            uint32_t sender)
{
    size_t channel = (size_t)receiver * shm->layout.ranks + sender;
    return shm->memory + shm->layout.channels + channel * shm->layout.channel;
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
