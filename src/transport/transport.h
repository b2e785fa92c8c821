/*
 * The transport contract: everything that the core requires of a network.
 *
 * A transport is a folder with one `const struct aqi_transport`. Required operations must be
 * present; missing optional ones are supplied by fallback.c when the transport is opened, so
 * callers never test for NULL. Every capability bit is checked against its operation (registry.c).
 *
 * Threads. With `params.threads` false all calls come from one thread at a time and a transport
 * needs no lock. With it true, any thread may make any call at any time, except open and close.
 *
 * Receive buffers. A handler may run for long, and may wait for room for its reply; meanwhile, the
 * network must not stall. So:
 *   - Handlers run in progress only. Within a thread, handlers nest only by progress(REPLIES),
 *     which runs those of replies, and these send nothing: a request's handler never nests in
 *     another. Each thread has a separate stack of handlers.
 *   - While a handler runs, its message stays intact, and peers may continue to send, although this
 *     process receives nothing: each peer, including the sender of the message, may send up to
 *     AQI_LEAST_ROOM requests beyond those whose handlers run (with AQI_CAP_CREDITS: up to the
 *     depth in total) without being refused.
 *   - Where receive buffers are posted, the buffer of a request is replaced before its handler
 *     runs, since the reply (even a hidden one) allows the peer its next request. The replacement
 *     is a spare; there are as many spares as handlers that may run at once. If no spare is left,
 *     the message is copied out to the heap and its own buffer posted again at once. Several
 *     messages taken in one round of progress pass one spare along: the buffer of one becomes the
 *     replacement of the next.
 *   - A reply's buffer is posted before the request is sent, and need not be replaced.
 *   - Where any of thousands of peers may send, separate room for each would take too much memory,
 *     so they share a pool of limits.pool messages. A request that finds it full is neither lost
 *     nor acknowledged: its sender keeps it or gets AQ_AGAIN, and resends it. While demand
 *     exceeds the pool, no peer holds more than AQI_LEAST_ROOM places, and a freed place goes to
 *     the peer that has waited longest. Replies, acknowledgements and all other answers to a
 *     request never need the pool: the sender of a request reserves room for its answer.
 * tests/contract, "a slow handler stalls no peer", checks this for all transports.
 *
 * Completion. An operation is complete when its bytes are visible to the processor of the target,
 * however the target learns of them: by a later message, a flag, or a barrier over another network.
 * It is not enough that the network has accepted or acknowledged them. If the completions of a
 * provider guarantee less, the transport requests more (FI_DELIVERY_COMPLETE) or enforces it, by a
 * read after the write, before it counts down. A get or an atomic operation is complete when its
 * result is visible here.
 *
 * Time. No protocol reads a clock: the time is an argument of progress, and next_deadline returns
 * when progress must be called although nothing arrives (AQI_CAP_TIMERS). Operations begun by any
 * other call are timed from the next progress on. So a whole network can run in virtual time.
 *
 * Liveness. The silence of a peer proves nothing: it may be computing, stopped, or swapping.
 * Messages in flight to it stay in flight, and are retransmitted, with backoff, until it answers or
 * the job reports it dead (disconnect). peer_lost is for certain losses only: the process has
 * ended, another one has its address, or the connection is broken and cannot be re-established.
 *
 * Threads and rails. Striping over several ports is up to the transport: keys and addresses have
 * room for one part per rail. A transport with a queue or domain per thread selects it by
 * aqi_tp_thread; it still locks each, since there may be more threads than queues, and progress
 * still completes operations of other threads, if only every few calls.
 *
 * Return values. AQ_OK: done or begun. AQ_AGAIN: no room now, nothing happened; the caller makes
 * progress and tries again. Negative: failed for good; the transport has logged the cause.
 */
#ifndef AQI_TRANSPORT_H
#define AQI_TRANSPORT_H

#include "base/bell.h"
#include "base/wire.h"
#include "transport/am.h"
#include "transport/rendezvous.h"

struct aqi_tp; /* an open transport */

/*
 * A process that an open transport can reach: the first member of the transport's own struct. The
 * limits of messages to and from it are the same at both ends: connect sets those that are lower
 * than the transport's.
 */
struct aqi_peer {
    uint32_t id;         /* as given to connect */
    uint32_t max_medium; /* these three as in struct aqi_tp_limits; 0: as there */
    uint32_t max_piece;
    size_t max_long;
    struct aqi_bell_rope bell; /* AQI_CAP_REST: for the peer's bell, set by the opener; or none */
};

/*
 * Memory of this process that is registered, as mem_reg returns it: the first member of the
 * transport's own struct. Peers need the bytes of the key, which have a part for each rail. The
 * rest (local keys, descriptors) stays in the struct, which is passed to operations on this memory.
 */
struct aqi_mem {
    void *addr;
    size_t len;
    const void *key;
    size_t key_len; /* at most key_max of the transport */
};

/* Memory of a peer, as mem_map returns it: the first member of the transport's own struct. */
struct aqi_rmem {
    void *local;   /* where it is mapped here, or NULL */
    uint64_t addr; /* its first byte in the owner's address space */
    size_t len;
};

#define AQI_LEAST_ROOM  8   /* requests to a peer that always find room, even if it computes */
#define AQI_URI_MAX     256 /* bytes of a URI, with its NUL */
#define AQI_ADDR_MAX    256 /* bytes of an address; 0 bytes are none */
#define AQI_KEY_MAX     256 /* bytes of a memory key */
#define AQI_TICKET      4   /* words by which a peer names a region */
#define AQI_PUT_COPIED  8   /* a put of up to this many bytes has copied its source on return */
#define AQI_NO_DEADLINE UINT64_MAX

/*
 * The two counters of an operation: events outstanding before its source may be reused, and before
 * it is complete. The caller that starts an operation adds; the transport subtracts.
 */
struct aqi_comp {
    _Atomic uint32_t local;
    _Atomic uint32_t remote;
    _Atomic int32_t status; /* first failure, or AQ_OK */
    uint32_t shared;        /* several threads may update it: real read-modify-write */
};

/* In `shared`, for a message: decrement `local` only when the peer's library has the message. */
#define AQI_COMP_ACKED 2u

static inline void aqi_comp_add(struct aqi_comp *comp, _Atomic uint32_t *counter, uint32_t n)
{
    if (comp->shared) {
        atomic_fetch_add_explicit(counter, n, memory_order_acq_rel);
    } else {
        uint32_t old = atomic_load_explicit(counter, memory_order_relaxed);
        atomic_store_explicit(counter, old + n, memory_order_release);
    }
}

/* The source of one operation may be reused. Read by the acquire load in core/event/event.c. */
static inline void aqi_comp_local(struct aqi_comp *comp)
{
    if (comp != NULL) aqi_comp_add(comp, &comp->local, UINT32_MAX);
}

/* One operation is complete. Read by the acquire load in core/event/event.c. */
static inline void aqi_comp_remote(struct aqi_comp *comp)
{
    if (comp != NULL) aqi_comp_add(comp, &comp->remote, UINT32_MAX);
}

/* A put completes locally and remotely at once: count down both. */
static inline void aqi_comp_put(struct aqi_comp *comp)
{
    if (comp == NULL) return;
    if (AQI_UNLIKELY(comp->shared)) {
        aqi_comp_local(comp);
        aqi_comp_remote(comp);
        return;
    }
    uint32_t local = atomic_load_explicit(&comp->local, memory_order_relaxed);
    uint32_t remote = atomic_load_explicit(&comp->remote, memory_order_relaxed);
    atomic_store_explicit(&comp->local, local - 1, memory_order_release);
    atomic_store_explicit(&comp->remote, remote - 1, memory_order_release);
}

static inline void aqi_comp_fail(struct aqi_comp *comp, aq_status status)
{
    if (comp == NULL) return;
    int32_t expected = AQ_OK;
    atomic_compare_exchange_strong(&comp->status, &expected, (int32_t)status);
}

/* Capabilities of a transport; each bit stands for the operations named beside it. */
enum aqi_caps {
    AQI_CAP_RESERVE = 1u << 0,     /* am_reserve, am_commit */
    AQI_CAP_PUT = 1u << 1,         /* put */
    AQI_CAP_GET = 1u << 2,         /* get */
    AQI_CAP_ATOMIC = 1u << 3,      /* atomic */
    AQI_CAP_LONG = 1u << 4,        /* am_long (else fallback: put, then the header) */
    AQI_CAP_MAP = 1u << 5,         /* mem_map can give pointers for plain loads and stores */
    AQI_CAP_ALLOC = 1u << 6,       /* mem_alloc */
    AQI_CAP_REG = 1u << 7,         /* mem_reg, mem_dereg, mem_map, mem_unmap */
    AQI_CAP_WAIT_FD = 1u << 8,     /* wait_fd, arm */
    AQI_CAP_FILL = 1u << 9,        /* fill */
    AQI_CAP_CREDITS = 1u << 10,    /* requests in flight must be bounded, since receive buffers are
                                      posted: see credit_gate.h for the bounds */
    AQI_CAP_ORDER = 1u << 11,      /* requests of a peer arrive in the order of sending, and replies
                                      likewise, and each is delivered before the next one: needs
                                      no layers/order.h */
    AQI_CAP_RENDEZVOUS = 1u << 12, /* rendezvous: connections of programs not started together */
    AQI_CAP_MEM_FD = 1u << 13,     /* mem_fd */
    AQI_CAP_PULL = 1u << 14,       /* pull */
    AQI_CAP_ROWS = 1u << 15,       /* put_rows, get_rows */
    AQI_CAP_TIMERS = 1u << 16,     /* next_deadline; else `now` may be 0 */
    AQI_CAP_ROOM = 1u << 18, /* room is announced: after AQ_AGAIN, an armed wait_fd becomes readable
                                when there is some (else a thread that waits for room naps) */
    AQI_CAP_LOCAL = 1u << 19, /* operations are faster if the caller passes the aqi_mem of local
                                 memory (else callers do not look it up) */
    AQI_CAP_REST = 1u << 21,  /* rest */
    AQI_CAP_GROUP = 1u << 22, /* the peer is a group: Short and Medium requests reach some of its
                                 members, which never answer */
    AQI_CAP_FAR = 1u << 20    /* reaches other hosts: opened if there are any, or on request */
};

/* The work that progress may do. */
enum aqi_progress_mode {
    AQI_PROGRESS_ALL,
    AQI_PROGRESS_REPLIES /* called while a reply waits for room: deliver replies and completions
                            only */
};

/* The steps of resting: begin; after a barrier on all processors, check; end. */
enum aqi_rest { AQI_REST_BEGIN, AQI_REST_CHECK, AQI_REST_END };

/* Why the owner of a region refuses an access; travels as a number. */
enum aqi_refusal {
    AQI_REFUSAL_NONE,    /* the access is allowed */
    AQI_REFUSAL_UNKNOWN, /* no region has this ticket */
    AQI_REFUSAL_REVOKED,
    AQI_REFUSAL_CLOSED, /* the region was for a connection that is closed */
    AQI_REFUSAL_OTHER,  /* the region is for another connection */
    AQI_REFUSAL_RIGHT,  /* no right to write, or to read */
    AQI_REFUSAL_RANGE,  /* outside the region */
    AQI_REFUSALS
};

/* Calls from the transport up to its opener. */
struct aqi_tp_hooks {
    /*
     * A message has arrived from the peer connected with `source`. Called from progress only, with
     * no lock held that a reply or a progress(REPLIES) would need. `am` and its arguments and
     * payload are valid until it returns; a Medium's payload is 16-byte aligned and may be written
     * to.
     */
    void (*deliver)(void *arg, uint32_t source, const struct aqi_am *am);
    /*
     * The peer connected with `id` is dead or unreachable; called at most once per peer, from
     * progress(ALL) only, with no lock held.
     */
    void (*peer_lost)(void *arg, uint32_t id, const char *why);
    void *arg; /* for these two; each layer substitutes its own */

    /* The peer `id` was not reached within reach_within_ns. Called before peer_lost; may end the
     * process. NULL: this is like any other loss. */
    void (*unreached)(void *host, uint32_t id, const char *why);

    /*
     * Whether a peer may write or read [addr, addr + len) of this process; for requests that
     * fallback.c serves.
     */
    bool (*range_ok)(void *host, uint64_t addr, size_t len);
    /*
     * Set `*at` to where a peer may write, or read, `len` bytes at `offset` of the region that the
     * ticket names. For aqi_tp_region; NULL: there are no regions.
     */
    enum aqi_refusal (*region)(void *host, const uint32_t ticket[AQI_TICKET], uint64_t offset,
                               size_t len, bool write, void **at);
    /*
     * The peer has refused an access of aqi_tp_region, whose `comp` is going to fail. Called with
     * locks of the transport held. NULL: the reason is not needed.
     */
    void (*refused)(void *host, const struct aqi_comp *comp, bool write, uint64_t offset,
                    size_t len, enum aqi_refusal why);
    /* Create one shared object of `bytes` with all ranks of this host (collective). */
    aq_status (*share)(void *host, const char *name, size_t bytes, int *fd);
    /* Called in each round of a wait for room for a reply: checks the control channel, yields. */
    void (*relax)(void *host, unsigned round);
    /*
     * Get the address of `id` for this transport, as its `address` wrote it: `*len` is the room in
     * `addr`, then the length; 0: it has none. Called from connect or later, on first use. Never
     * blocks. Returns AQ_AGAIN while it is being fetched: look it up again in a later call.
     */
    aq_status (*lookup)(void *host, const struct aqi_tp *tp, uint32_t id, void *addr, size_t *len);
    /* The time, for progress calls that a lower layer makes by itself, and for packets sent outside
     * of progress. */
    uint64_t (*now)(void *host);
    void *host; /* for the hooks since `arg`, from every caller */

    /*
     * Set by fallback.c, for a put or get that was accepted but turns out not to be possible: carry
     * this part of it in messages. As with put and get (see there), the caller has added to the
     * counters. Called from progress(ALL), with no lock held.
     */
    aq_status (*by_messages)(void *messenger, uint32_t id, bool get, uint64_t addr, void *local,
                             size_t len, struct aqi_comp *comp);
    void *messenger;
};

/* Limits on the requests of an endpoint (AQI_CAP_CREDITS); layers/credits.h keeps them. */
struct aqi_credit_limits {
    uint32_t depth;   /* requests in flight to one peer; at least 1 */
    uint32_t total;   /* in flight to all peers; 0: as many as the depths allow */
    uint32_t slack;   /* requests that may be banked for one peer */
    uint32_t largest; /* bytes of the largest request */
    uint64_t bytes;   /* in flight to one peer; 0: no limit */
};

/* The directions of a connection with a group. */
enum aqi_group { AQI_GROUP_SEND = 1, AQI_GROUP_RECEIVE = 2 };

struct aqi_tp_params {
    struct aqi_tp_hooks hooks;
    uint32_t self;       /* our id, which peers get as `source` */
    uint32_t size;       /* ids are 0..size-1 */
    uint32_t host;       /* number of this host in the job: equal numbers, same host */
    uint32_t local_rank; /* our index among the ranks of this host */
    uint32_t local_size;
    bool threads;    /* several threads call at once */
    bool on_demand;  /* segments may be too large to be registered: modes large, everything */
    bool stranger;   /* the peer may be another user's: do not exercise our privileges for it */
    bool numbered;   /* layers/order.h numbers messages; only for a transport of two ranks */
    bool loose;      /* Short and Medium requests may get lost, and need not be acknowledged */
    uint8_t group;   /* AQI_CAP_GROUP: bits of enum aqi_group */
    uint8_t key[16]; /* the job's secret */
    uint64_t reach_within_ns; /* a peer that is not reached this long after its first use is lost,
                                 if the transport can detect that; 0: never */
    size_t max_medium;        /* requested; the transport may offer less, but at least 512 */
    size_t long_apart;        /* Longs of at least this length are put, and their header is sent
                                 separately, even if both fit a message; 0: none */
    /* At the server's end of a connection: the address of the client's end, which was opened with
     * the client's settings; properties that both ends must share are taken from there. Not
     * trusted. Else NULL. */
    const void *like;
    size_t like_len;
    const char *towards; /* at the client's end of a connection: the URI that it calls; else NULL */
    /* AQI_CAP_REST: for the opener's bell, rung for events that the resting transport notices. */
    struct aqi_bell_rope bell;
    struct aqi_credit_limits credits; /* for AQI_CAP_CREDITS; depth 0: the defaults */
};

/* The limits of an open transport; constant while it is open. */
struct aqi_tp_limits {
    size_t
        max_medium;  /* payload bytes of a Medium with any number of arguments; a multiple of 64 */
    size_t max_long; /* payload bytes of a Long */
    /* Payload bytes of the internal messages that carry puts and gets, a multiple of 64 and not
     * below max_medium; 0: max_medium. */
    size_t max_piece;
    /* AQI_CAP_CREDITS: requests to one peer for which its buffers suffice, and to all peers for
     * whose replies our own do; 0: no limit beyond params.credits. */
    uint32_t depth, total;
    size_t packed; /* up to this size, the fallback layer packs a Long; 0: max_medium */
    size_t copied; /* up to this size, copying a Long is cheaper than waiting until its source may
                      be reused; 0: never */
    uint32_t pool; /* capacity, in messages, of the pool shared by peers; 0: there is none */
};

/*
 * A row of a scattered transfer: `count` pieces of `len` bytes (neither is 0), spaced `remote_step`
 * bytes apart at the peer and `local_step` here. The first `skip` bytes of the first piece have
 * already been moved.
 */
struct aqi_row {
    uint64_t remote;
    int64_t remote_step;
    unsigned char *local;
    int64_t local_step;
    size_t len, count, skip;
};

/* A prepared message between am_reserve and am_commit. */
struct aqi_slot {
    void *payload; /* where the payload is to be written, 16-byte aligned */
    void *impl[2]; /* the transport's own */
    /* For credit_gate.c. */
    uint64_t charged;
    bool is_request;
};

/* The result of probing one device, for aqinfo and for the choice of transports. */
struct aqi_tp_probe {
    bool usable;
    bool on_request;  /* not usable unless requested; the reason states how */
    bool bad_setting; /* not usable because of an invalid setting, named in the reason */
    char reason[320]; /* why it is not usable, or how to make it faster; or "" */
    char device[64];
    size_t max_medium; /* an upper limit for AQ_AM_MAX_MEDIUM; 0: none */
};

/*
 * A poll calls progress only if a word indicates work. The transport's words indicate arrivals from
 * peers; each has a value that means "nothing to do". A single counter, aqi_tp_pending, indicates
 * work pending in this process, in any transport. In addition, progress(ALL) is called in one of
 * AQI_POLLS_PER_ROUND polls, and whenever a wait has yielded or slept. If that is too rare for the
 * work that no word announces (timers, losses), the transport must not be `watched`.
 */
struct aqi_watch {
    _Atomic(const _Atomic uint32_t *) word;
    _Atomic uint32_t idle;
};
#define AQI_POLLS_PER_ROUND 64u
extern _Atomic uint32_t aqi_tp_pending;

/*
 * A thread that waits on its own core keeps polling at least until this time (ns): arrivals should
 * not wake another thread, which would first need a core.
 */
extern _Atomic uint64_t aqi_tp_awake_until;

static inline bool aqi_tp_is_awake(uint64_t now)
{
    return now < atomic_load_explicit(&aqi_tp_awake_until, memory_order_relaxed);
}

/* Uses a locked instruction only if other threads also count. */
static inline void aqi_count_on(_Atomic uint32_t *counter, bool threads, uint32_t by)
{
    if (threads)
        atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
    else
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                              memory_order_relaxed);
}

static inline void aqi_watch_set(struct aqi_watch *watch, const _Atomic uint32_t *word,
                                 uint32_t idle)
{
    atomic_store_explicit(&watch->word, word, memory_order_relaxed);
    atomic_store_explicit(&watch->idle, idle, memory_order_relaxed);
}

/*
 * The index of a word that has changed; `count` if none has. The function called for it checks
 * again with the right memory order.
 */
static inline uint32_t aqi_watch_moved(const struct aqi_watch *watch, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const _Atomic uint32_t *word = atomic_load_explicit(&watch[i].word, memory_order_relaxed);
        if (atomic_load_explicit(word, memory_order_relaxed) !=
            atomic_load_explicit(&watch[i].idle, memory_order_relaxed))
            return i;
    }
    return count;
}

struct aqi_transport {
    const char *name;
    const char *doc;
    unsigned caps;
    uint16_t addr_max, key_max;          /* bytes of an address and of a key, in all processes */
    struct aqi_settings_table *settings; /* or NULL */
    const char *absent;                  /* why the library was built without it, or NULL */

    /* --- required ------------------------------------------------------------------------ */

    /*
     * Determine by trial whether this transport works here, on its `device`-th device. Cheap; may
     * be called at any time; keeps no state. Returns false if there are fewer devices. Device 0
     * always has a result, if only the reason why the transport is not usable.
     */
    bool (*probe)(unsigned device, struct aqi_tp_probe *probe);

    /*
     * Open. May block in hooks.share (collective); calls no other hook. `*tp` is allocated by the
     * transport with `struct aqi_tp` as its first member; the registry fills that in.
     */
    aq_status (*open)(const struct aqi_tp_params *params, struct aqi_tp **tp);

    /*
     * Release everything except the results of mem_reg and mem_map, which the caller has released
     * before. Cannot fail, does not wait for peers. No call follows.
     */
    void (*close)(struct aqi_tp *tp);

    /* Write the address by which peers reach us to `addr`, which has room for addr_max bytes. */
    aq_status (*address)(struct aqi_tp *tp, void *addr, size_t *len);

    /*
     * Prepare to communicate with the peer `id`, on `host`. Returns AQ_ENOTSUP if this transport
     * does not reach it (another host, or it has no address); this is not an error and is not
     * logged. hooks.lookup gives its address, now or on first use. May only begin the connection,
     * or leave that to the first use: sends then return AQ_AGAIN until it is up. AQ_EPROTO: its
     * address is malformed.
     */
    aq_status (*connect)(struct aqi_tp *tp, uint32_t id, uint32_t host, struct aqi_peer **peer);

    /*
     * Send a message of any kind but AQI_AM_LONG, which is for am_long. Kind, handler, flags,
     * address and arguments arrive unchanged; the transport ignores the endpoints in the flags.
     * Arguments are copied before it returns; so is the payload, unless `comp` is given: then
     * comp->local is decremented when the source may be reused (perhaps before it returns); with
     * AQI_COMP_ACKED, when the message has reached the peer's process, even if that makes no
     * progress now, or, with AQ_EPEER in comp->status, when it never will. Never blocks, never runs
     * a handler. Replies (AQI_AM_IS_REPLY) have separate resources and are never refused because
     * those of requests are used up. AQ_EPEER: the peer is lost.
     */
    aq_status (*am_send)(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                         struct aqi_comp *comp);

    /*
     * Receive, run handlers (hooks.deliver), complete operations, advance queued work. Bounded
     * work. Returns the number of events handled; 0: none. Reentered only as progress(REPLIES) from
     * inside deliver. With threads, a second thread finds other work or returns 0. `now`: in ns;
     * never decreases within a thread.
     */
    unsigned (*progress)(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now);

    /* AQ_OK if nothing that we started is in flight to `peer` (NULL: any); else AQ_AGAIN. */
    aq_status (*quiet)(struct aqi_tp *tp, struct aqi_peer *peer);

    /* --- optional ------------------------------------------------------------------------ */

    /* The job reports this peer dead: fail operations in flight to it; release its resources. */
    void (*disconnect)(struct aqi_tp *tp, struct aqi_peer *peer);

    /* When progress must be called even if nothing arrives; AQI_NO_DEADLINE: never. */
    uint64_t (*next_deadline)(struct aqi_tp *tp);

    /*
     * The last step before close, called repeatedly with progress in between: nothing new is begun,
     * but peers may still request a lost answer again, until `deadline` at the latest. AQ_AGAIN:
     * continue to make progress. AQ_OK: the transport may be closed; returned at once if there is
     * nothing to linger for.
     */
    aq_status (*drain)(struct aqi_tp *tp, uint64_t deadline);

    /*
     * Reserve room for a message with up to `nbytes` of payload and exactly `nargs` arguments, and
     * return where to write the payload; then send it as described by `am` (am->payload is ignored,
     * am->nbytes may be less), or, with `am` NULL, cancel it. Between the two calls, only the same
     * thread uses this slot, and it makes no other call for this peer. A commit that returns
     * AQ_AGAIN leaves the slot unchanged: make progress (for a reply, of replies only) and commit
     * again.
     */
    aq_status (*am_reserve)(struct aqi_tp *tp, struct aqi_peer *peer, bool reply, unsigned nargs,
                            size_t nbytes, struct aqi_slot *slot);
    aq_status (*am_commit)(struct aqi_tp *tp, struct aqi_peer *peer, struct aqi_slot *slot,
                           const struct aqi_am *am);

    /*
     * Send a Long: am->nbytes bytes at am->payload (0 up to max_long) to am->addr in `rmem`, then
     * run the handler, which sees them there. `mem`: as for put. With `comp`, comp->local is
     * decremented when the source may be reused; without, it may be reused on return. A failure
     * after AQ_OK is in comp->status (AQ_ERANGE: the memory no longer exists), and the handler does
     * not run. Replies as in am_send. The transport delivers it as AQI_AM_LONG, or as
     * AQI_AM_LONG_HEADER for fallback.c. AQ_ENOTSUP: not this one; fallback.c puts it, then sends
     * the header. Without AQI_CAP_CREDITS, it also gets Longs that fit a message.
     */
    aq_status (*am_long)(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                         const struct aqi_rmem *rmem, const struct aqi_mem *mem,
                         struct aqi_comp *comp);

    /*
     * Start a transfer of any length between local memory and [addr, addr + len) of `rmem`. `mem`
     * is the registration that the local memory lies in, if the caller knows it, else NULL: the
     * transport copies, registers on its own, or returns AQ_ENOTSUP. The caller has added 1 to
     * comp->local (put only) and comp->remote; both are decremented exactly once, perhaps before it
     * returns, even on failure after AQ_OK (then with comp->status set). On AQ_AGAIN or an error
     * nothing is decremented. Never blocks, runs no handler. AQ_ENOTSUP: not this memory, or not
     * now: fallback.c sends messages instead. With 0 bytes, it only reports whether it would accept
     * any length, and is complete on return.
     *
     * `rmem` NULL, here and below: memory that is not registered with this transport. fallback.c
     * handles it; a transport never sees NULL.
     */
    aq_status (*put)(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                     uint64_t addr, const void *src, size_t len, const struct aqi_mem *mem,
                     struct aqi_comp *comp);
    aq_status (*get)(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                     uint64_t addr, void *dst, size_t len, const struct aqi_mem *mem,
                     struct aqi_comp *comp);

    /*
     * Start a scattered transfer of as many of the `n` rows as go together: `*taken` whole rows,
     * and perhaps the front of the next one, which is reduced to its rest, for the next call. At
     * least something is taken. Counters and AQ_ENOTSUP as for put and get, once per call.
     */
    aq_status (*put_rows)(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                          struct aqi_row *rows, unsigned n, unsigned *taken, struct aqi_comp *comp);
    aq_status (*get_rows)(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                          struct aqi_row *rows, unsigned n, unsigned *taken, struct aqi_comp *comp);

    /* Start setting [addr, addr + len) to `byte`. There is no source, so comp->local is left alone;
     * comp->remote and AQ_ENOTSUP as for put. */
    aq_status (*fill)(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                      uint64_t addr, int byte, size_t len, struct aqi_comp *comp);

    /* Start an atomic operation; `req` is copied. comp->remote and AQ_ENOTSUP as for put, except
     * that for given memory and type it is either always or never supported: network and processor
     * may not mix. */
    aq_status (*atomic)(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                        const struct aqi_atomic *req, void *result, struct aqi_comp *comp);

    /*
     * Copy [addr, addr + len) of the peer's address space, wherever it lies, to `dst`. The copy is
     * complete on return and needs no action by the peer, which has sent us the address. With 0
     * bytes, only report whether it is possible; if that changes later it is an error, as is memory
     * that does not exist (AQ_ERANGE, which is not logged: the peer may have freed it when it
     * learned of a death). AQ_ENOTSUP: not possible.
     */
    aq_status (*pull)(struct aqi_tp *tp, struct aqi_peer *peer, uint64_t addr, void *dst,
                      size_t len);

    /*
     * Allocate memory that peers reach best. Collective over the ranks of this host: `len` may
     * differ between them, `most` is the same everywhere and at least every `len`. Page aligned,
     * zero-filled, sparse; freed by close.
     */
    aq_status (*mem_alloc)(struct aqi_tp *tp, size_t len, size_t most, void **addr);

    /*
     * Make memory reachable; in mode everything, all of it at once (0, SIZE_MAX). Memory that
     * cannot be registered as a whole may still have a key, with params.on_demand: parts of it are
     * then registered as peers put and get, and parts that cannot be are reached by messages. A
     * failure is not logged as an error, and only means that the caller publishes no key, and peers
     * reach the memory by messages.
     */
    aq_status (*mem_reg)(struct aqi_tp *tp, void *addr, size_t len, struct aqi_mem **mem);
    void (*mem_dereg)(struct aqi_tp *tp, struct aqi_mem *mem);

    /*
     * Turn a peer's key, from a mem_reg of `len` bytes at `addr`, into a handle for operations
     * (NULL: it is reached by messages). Unmap it when no operation on it is in flight, or right
     * before close. AQ_EPROTO: the key is malformed.
     */
    aq_status (*mem_map)(struct aqi_tp *tp, struct aqi_peer *peer, const void *key, size_t key_len,
                         uint64_t addr, size_t len, struct aqi_rmem **rmem);
    void (*mem_unmap)(struct aqi_tp *tp, struct aqi_rmem *rmem);

    /*
     * The descriptor behind memory of mem_alloc, for another process to map: [addr, addr + len)
     * begins `offset` bytes into it. It remains the transport's. A process that receives it can
     * reach the whole object, in which other ranks of this host may have their memory. AQ_ENOTSUP:
     * no such memory.
     */
    aq_status (*mem_fd)(struct aqi_tp *tp, const void *addr, size_t len, int *fd, uint64_t *offset);

    /* For connections by URI (rendezvous.h); needs no open transport. */
    const struct aqi_rendezvous_ops *rendezvous;

    /*
     * A descriptor that becomes readable when something arrives while armed. -1: this open
     * transport has none after all, and a thread that waits for it naps.
     */
    int (*wait_fd)(struct aqi_tp *tp);

    /*
     * Arm wait_fd before sleeping on it (on = true): AQ_OK, or AQ_AGAIN if something has arrived
     * already. Disarm after waking up (on = false). Peers pay for wakeups only while it is armed.
     */
    aq_status (*arm)(struct aqi_tp *tp, bool on);

    /*
     * Rest: progress need not be called until params.bell is rung, by peers that send or by the
     * transport itself; peers have its rope since connect (aqi_peer.bell). AQ_AGAIN from BEGIN: not
     * now. AQ_AGAIN from CHECK, also while it rests: there is something to do.
     */
    aq_status (*rest)(struct aqi_tp *tp, enum aqi_rest step);

    /* One line about the open transport, for logs and aqinfo. Returns the same as snprintf. */
    int (*describe)(struct aqi_tp *tp, char *buf, size_t len);
};

/*
 * The common head of every open transport. Its open sets `hooks` (from params: fallback.c sits
 * between them and the caller) and `limits`, and, if it has words to watch, `watch` and `watches`,
 * which it keeps up to date; the registry sets the rest. `ops` are those of its table, or those set
 * by open, completed by fallback.c.
 */
struct aqi_tp {
    struct aqi_transport ops;
    struct aqi_tp_hooks hooks;
    struct aqi_tp_limits limits;
    unsigned index; /* the opener's index for it */
    bool watched;   /* else progress is called in every poll */
    /*
     * The part of progress(ALL) that the given word announces or, if the transport is not watched,
     * that every poll must do: the fast path to messages. NULL: all of it.
     */
    unsigned (*moved)(struct aqi_tp *tp, uint32_t watch);
    /*
     * The transport's own put and get, bypassing fallback.c, for registered memory and a range that
     * the caller has checked. On AQ_ENOTSUP, the caller uses `ops` instead. Set by open, or else
     * taken from its table. NULL: none.
     */
    aq_status (*straight_put)(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                              uint64_t addr, const void *src, size_t len, const struct aqi_mem *mem,
                              struct aqi_comp *comp);
    aq_status (*straight_get)(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                              uint64_t addr, void *dst, size_t len, const struct aqi_mem *mem,
                              struct aqi_comp *comp);
    struct aqi_watch *watch;
    _Atomic uint32_t watches; /* number of words; may change while it is open */
    uint32_t wide; /* from this word on, messages continue in the next cache line; 0: none does */
    struct aqi_fallback *fallback;
    struct aqi_credit_gate *gate; /* with AQI_CAP_CREDITS */
    struct aqi_fault *fault;      /* with AQ_FAULT */
    struct aqi_order *order;      /* with params.numbered */
};

/*
 * Whether a poll has to do anything for this transport; false: its words show nothing to do.
 * `*watch` is the index of the word that shows otherwise, or 0 if it has none.
 */
static inline bool aqi_tp_has_moved(const struct aqi_tp *tp, uint32_t *watch)
{
    *watch = 0;
    if (!tp->watched) return true;
    uint32_t count = atomic_load_explicit(&tp->watches, memory_order_acquire);
    *watch = aqi_watch_moved(tp->watch, count);
    return *watch != count;
}

/*
 * Fetch the second cache line of messages that may arrive, as if they had. A poll that finds a
 * message then waits for one transfer between processors, not for two in a row. Only for polls
 * that rarely find one: a sender that is writing the line would have to fetch it back.
 */
static inline void aqi_tp_fetch_ahead(const struct aqi_tp *tp)
{
    if (tp->wide == 0) return;
    uint32_t count = atomic_load_explicit(&tp->watches, memory_order_acquire);
    for (uint32_t i = tp->wide; i < count; i++) {
        const _Atomic uint32_t *word =
            atomic_load_explicit(&tp->watch[i].word, memory_order_relaxed);
        __builtin_prefetch((const unsigned char *)word + AQI_CACHE_LINE);
    }
}

/* registry.c: all transports in order of preference, ended by NULL. */
extern const struct aqi_transport *const aqi_transports[];

/* Threads that make calls are numbered from 0; the number of a thread that has ended is reused. */
extern _Thread_local unsigned aqi_tp_thread;

const struct aqi_transport *aqi_transport_find(const char *name);
/* Whether it has AQI_CAP_ORDER, even with the faults that AQ_FAULT requests. */
bool aqi_tp_keeps_order(const struct aqi_transport *transport);
/* Remove the operations that these capabilities promise. */
void aqi_tp_hide(struct aqi_transport *ops, unsigned caps);

/* The transport's `probe`; the only device of a network that was not built is not usable. */
bool aqi_tp_probe(const struct aqi_transport *transport, unsigned device,
                  struct aqi_tp_probe *probe);

/*
 * Check the contract, open, wrap in the fault decorator if AQ_FAULT requests it, and supply missing
 * operations. `params` is copied. aqi_tp_close undoes it.
 */
aq_status aqi_tp_open(const struct aqi_transport *transport, const struct aqi_tp_params *params,
                      struct aqi_tp **tp);
void aqi_tp_close(struct aqi_tp *tp);

/* Whether operations of the fallback layer wait for room that no arrival announces. */
bool aqi_tp_waits_for_room(const struct aqi_tp *tp);

/* Whether operations of the fallback layer wait for room, announced or not. */
bool aqi_tp_waits(const struct aqi_tp *tp);

/*
 * Put or get `len` bytes at `offset` of the region that a ticket of the peer names, in messages,
 * which the peer serves by hooks.region. Counters and results as with put and get; AQ_EACCESS in
 * comp->status: the peer knows no such ticket, or it does not grant this access.
 */
aq_status aqi_tp_region(struct aqi_tp *tp, struct aqi_peer *peer, bool get,
                        const uint32_t ticket[AQI_TICKET], uint64_t offset, void *local, size_t len,
                        struct aqi_comp *comp);

/* Check that the peer is alive: comp->remote is decremented when its library has answered. */
aq_status aqi_tp_ping(struct aqi_tp *tp, struct aqi_peer *peer, struct aqi_comp *comp);

/* Notify an open transport that the job reports `id` dead: everything to it fails from now on. */
void aqi_tp_peer_down(struct aqi_tp *tp, uint32_t id);

#endif
