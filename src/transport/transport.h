/*
 * The transport contract: everything the core wants of a network.
 *
 * A transport is a folder with one `const struct aqi_transport`. Required operations must be there;
 * an optional one that is absent is supplied by fallback.c when the transport is opened, so nobody
 * above ever tests for NULL. Every capability bit is checked against its operation (registry.c).
 *
 * Threads. With `params.threads` false all calls come from one thread at a time and a transport
 * needs no lock. With it true, any thread may make any call at any time, except open and close.
 *
 * Receive buffers. A handler may take long and may wait for room in its reply, and meanwhile the
 * network must not stall. So:
 *   - Handlers run in progress only. In one thread a handler nests in another only by
 *     progress(REPLIES), which runs those of replies, and these send nothing: a request's handler
 *     never nests in one. With threads, each runs one such stack.
 *   - While a handler runs, the message it looks at stays whole, and everybody may go on sending:
 *     the same peer and every other up to AQI_LEAST_ROOM requests each beyond those whose handlers
 *     run (with AQI_CAP_CREDITS: up to the depth in all), without being refused, although this
 *     process looks at none of them.
 *   - Where receive buffers are posted, the one that a request came in is replaced before its
 *     handler runs, since the reply (or the hidden one) allows the peer its next request. The
 *     replacement is a spare; there are as many as handlers may run at once. Where no spare is
 *     left, the message is copied out to the heap and its own buffer posted again at once. Several
 *     messages taken in one round of progress pass one spare along: the buffer of one becomes the
 *     replacement of the next.
 *   - A reply's buffer is posted before the request is sent, and need not be replaced.
 * tests/contract, "a slow handler stalls nobody", holds every transport to it.
 *
 * Return values. AQ_OK: done or begun. AQ_AGAIN: no room now, nothing happened; the caller makes
 * progress and tries again. Negative: failed for good; the transport has logged the cause.
 */
#ifndef AQI_TRANSPORT_H
#define AQI_TRANSPORT_H

#include "base/base.h"
#include "transport/am.h"
#include "transport/credits.h"
#include "transport/rendezvous.h"

struct aqi_tp; /* an open transport */

/* A process that an open transport can reach: the first member of the transport's own struct. */
struct aqi_peer {
    uint32_t id; /* as given to connect */
};

#define AQI_LEAST_ROOM 8   /* requests to a peer that find room whatever it does */
#define AQI_URI_MAX    256 /* bytes of an address, with its NUL */
#define AQI_PUT_COPIED                                                                             \
    8                  /* a put of at most so many bytes has copied its source when it returns     \
                        */
#define AQI_KEY_MAX 32 /* bytes of a memory key */

/*
 * The two counters of an operation: what is still to happen before the source may be reused, and
 * before it is complete. Whoever starts an operation adds; the transport subtracts.
 */
struct aqi_comp {
    _Atomic uint32_t local;
    _Atomic uint32_t remote;
    _Atomic int32_t status; /* first failure, or AQ_OK */
    uint32_t shared;        /* 1: several threads may touch it: real read-modify-write */
};

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

static inline void aqi_comp_fail(struct aqi_comp *comp, aq_status status)
{
    if (comp == NULL) return;
    int32_t expected = AQ_OK;
    atomic_compare_exchange_strong(&comp->status, &expected, (int32_t)status);
}

/* What a transport can do; each bit stands for the operations named beside it. */
enum aqi_caps {
    AQI_CAP_RESERVE = 1u << 0, /* am_reserve, am_commit */
    AQI_CAP_PUT = 1u << 1,     /* put */
    AQI_CAP_GET = 1u << 2,     /* get */
    AQI_CAP_ATOMIC = 1u << 3,  /* atomic */
    AQI_CAP_LONG = 1u << 4,    /* am_send takes AQI_AM_LONG (else fallback: put, then the header) */
    AQI_CAP_MAP = 1u << 5,     /* mem_map can give pointers for plain loads and stores */
    AQI_CAP_ALLOC = 1u << 6,   /* mem_alloc */
    AQI_CAP_REG = 1u << 7,     /* mem_reg, mem_dereg, mem_map */
    AQI_CAP_WAIT_FD = 1u << 8, /* wait_fd, arm */
    AQI_CAP_FILL = 1u << 9,    /* fill */
    AQI_CAP_CREDITS = 1u << 10, /* requests under way must be bounded, since receive buffers are
                                  posted: credit_gate.h says to what, and what else it promises */
    AQI_CAP_ANY_MEMORY =
        1u << 11, /* mem_reg takes any memory, even all of it at once (0, SIZE_MAX) */
    AQI_CAP_RENDEZVOUS = 1u << 12, /* rendezvous: connections of programs not started together */
    AQI_CAP_MEM_FD = 1u << 13,     /* mem_fd */
    AQI_CAP_PULL = 1u << 14        /* pull */
};

/* What progress may do. */
enum aqi_progress_mode {
    AQI_PROGRESS_ALL,
    AQI_PROGRESS_REPLIES /* called while a reply waits for room: deliver replies and completions
                            only */
};

/* Calls from the transport up to whoever opened it. */
struct aqi_tp_hooks {
    /*
     * A message has arrived from the peer connected with `source`. Called from progress only, with
     * no lock held that a reply or a progress(REPLIES) would need. `am` and what it points to are
     * valid until it returns; a Medium's payload is 16-byte aligned and may be written to.
     */
    void (*deliver)(void *arg, uint32_t source, const struct aqi_am *am);
    /*
     * The peer connected with `id` is dead or unreachable; called at most once per peer, from
     * progress(ALL) only, with no lock held.
     */
    void (*peer_lost)(void *arg, uint32_t id, const char *why);
    void *arg; /* of the two above: a layer in between puts its own in their place */

    /* May a peer write or read [addr, addr + len) of this process? For what fallback.c serves. */
    bool (*range_ok)(void *host, uint64_t addr, size_t len);
    /* Take part in creating one shared object of `bytes` for all ranks of this host (collective).
     */
    aq_status (*share)(void *host, const char *name, size_t bytes, int *fd);
    /* Called in each round of a wait for room in a reply: looks at the control channel, yields. */
    void (*relax)(void *host, unsigned round);
    void *host; /* of the three above, whoever calls */
};

struct aqi_tp_params {
    struct aqi_tp_hooks hooks;
    uint32_t self;       /* our id: what peers are told as `source` */
    uint32_t size;       /* ids are 0..size-1 */
    uint32_t local_rank; /* our place among the ranks of this host */
    uint32_t local_size;
    bool threads;      /* several threads call at once */
    bool stranger;     /* the peer may be another user: do nothing with our rights on its word */
    uint8_t key[16];   /* the job's secret */
    size_t max_medium; /* wanted; the transport may offer less, never below 512 */
    /* The server's end of a connection: where the client's end receives, which it has opened with
     * its settings: what both must have alike is as it is there. A stranger's word. Else NULL. */
    const char *like;
    struct aqi_credit_limits credits; /* for AQI_CAP_CREDITS; depth 0: the defaults */
};

/* What an open transport offers; constant while it is open. */
struct aqi_tp_limits {
    size_t
        max_medium;  /* payload bytes of a Medium with any number of arguments; a multiple of 64 */
    size_t max_long; /* payload bytes of a Long */
    /* Payload bytes of the internal messages that carry puts and gets, a multiple of 64 and not
     * below max_medium; 0: max_medium. */
    size_t max_piece;
    uint32_t depth; /* AQI_CAP_CREDITS: requests for which a peer's buffers suffice; 0: credits */
};

/* A piece of remote memory as mem_map returns it. */
struct aqi_rmem {
    void *local;   /* where it is mapped here, or NULL */
    uint64_t addr; /* its first byte in the owner's address space */
    size_t len;
    unsigned char key[AQI_KEY_MAX]; /* the transport's own */
};

/* A prepared message between am_reserve and am_commit. */
struct aqi_slot {
    void *payload; /* where the payload is to be written, 16-byte aligned */
    void *impl[2]; /* the transport's own */
    /* Of credit_gate.c. */
    uint64_t charged;
    bool is_request;
};

/* What probing found, for aqinfo and for choosing. Texts are static or in the struct. */
struct aqi_tp_probe {
    bool usable;
    char reason[200]; /* why not, or what would make it faster; "" */
    char device[64];
};

struct aqi_transport {
    const char *name;
    const char *doc;
    unsigned caps;
    struct aqi_settings_table *settings; /* or NULL */

    /* --- required ------------------------------------------------------------------------ */

    /* Find out by doing whether this transport works here. Cheap; any time; no state is kept. */
    void (*probe)(struct aqi_tp_probe *probe);

    /*
     * Open. May block in hooks.share (collective); calls no other hook. `*tp` is allocated by the
     * transport with `struct aqi_tp` as its first member; the registry fills that in.
     */
    aq_status (*open)(const struct aqi_tp_params *params, struct aqi_tp **tp);

    /* Release everything; cannot fail, does not wait for peers. Nothing is called afterwards. */
    void (*close)(struct aqi_tp *tp);

    /* Our address as a URI "name://…", at most AQI_URI_MAX bytes with NUL. */
    aq_status (*address)(struct aqi_tp *tp, char *uri);

    /*
     * Make the peer at `uri` known as `id`. AQ_ENOTSUP: not reachable by this transport (another
     * host, another machine): not an error, nothing is logged. May only begin the connection; sends
     * then say AQ_AGAIN until it is up.
     */
    aq_status (*connect)(struct aqi_tp *tp, const char *uri, uint32_t id, struct aqi_peer **peer);

    /*
     * Send a message of any kind but AQI_AM_LONG, which needs AQI_CAP_LONG. Kind, handler, flags,
     * address and arguments arrive as they are; what endpoints the flags name is not the
     * transport's business. Arguments are copied
     * before it returns; the payload too unless `comp` is given: then comp->local is decremented
     * when the source may be reused (which may be before it returns). Never blocks, never runs a
     * handler. Replies (AQI_AM_IS_REPLY) have resources of their own and are never refused because
     * requests are short. AQ_EPEER: the peer is lost.
     */
    aq_status (*am_send)(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                         struct aqi_comp *comp);

    /*
     * Receive, run handlers (hooks.deliver), complete operations, move what is queued. Bounded
     * work. Returns how many things happened; 0: nothing. Reentered only as progress(REPLIES) from
     * inside deliver. With threads, a second thread finds other work or returns 0.
     */
    unsigned (*progress)(struct aqi_tp *tp, enum aqi_progress_mode mode);

    /* AQ_OK when nothing that we started is under way to `peer` (NULL: any); else AQ_AGAIN. */
    aq_status (*quiet)(struct aqi_tp *tp, struct aqi_peer *peer);

    /* --- optional ------------------------------------------------------------------------ */

    /* The job says that this peer is dead: fail what is under way to it, give up its resources. */
    void (*disconnect)(struct aqi_tp *tp, struct aqi_peer *peer);

    /*
     * Reserve room for a message with up to `nbytes` of payload and exactly `nargs` arguments, and
     * give the place for the payload; then send it, with what `am` says (am->payload is ignored,
     * am->nbytes may be less), or with `am` NULL give it back. Between the two calls only the same
     * thread acts on this slot and it makes no other call for this peer. A commit that says
     * AQ_AGAIN leaves the slot as it is: make progress (for a reply, of replies only) and commit
     * again.
     */
    aq_status (*am_reserve)(struct aqi_tp *tp, struct aqi_peer *peer, bool reply, unsigned nargs,
                            size_t nbytes, struct aqi_slot *slot);
    aq_status (*am_commit)(struct aqi_tp *tp, struct aqi_peer *peer, struct aqi_slot *slot,
                           const struct aqi_am *am);

    /*
     * Start a transfer of any length between local memory and [addr, addr + len) of `rmem`. The
     * caller has added 1 to comp->local (put only) and comp->remote; both are decremented exactly
     * once each, perhaps before it returns, also on failure after AQ_OK (then with comp->status
     * set). On AQ_AGAIN or an error nothing is decremented. Never blocks, runs no handler.
     * AQ_ENOTSUP: not this memory, or not now: fallback.c sends messages instead. A transport that
     * takes 0 bytes takes any number.
     */
    aq_status (*put)(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                     uint64_t addr, const void *src, size_t len, struct aqi_comp *comp);
    aq_status (*get)(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                     uint64_t addr, void *dst, size_t len, struct aqi_comp *comp);

    /* Start setting [addr, addr + len) to `byte`. There is no source, so comp->local is left alone;
     * comp->remote and AQ_ENOTSUP as for put. */
    aq_status (*fill)(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                      uint64_t addr, int byte, size_t len, struct aqi_comp *comp);

    /* Start an atomic operation; `req` is copied. comp->remote and AQ_ENOTSUP as for put. */
    aq_status (*atomic)(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                        const struct aqi_atomic *req, void *result, struct aqi_comp *comp);

    /*
     * Copy [addr, addr + len) of the peer's address space, wherever it lies, to `dst` with one copy
     * that is over on return and needs nothing of the peer, which has told us the address. For 0
     * bytes say only whether it can be done: what may change that later is an error, as is memory
     * that is not there (AQ_ERANGE, which is not logged: the peer may have given it back since it
     * has heard of a death). AQ_ENOTSUP: it cannot.
     */
    aq_status (*pull)(struct aqi_tp *tp, struct aqi_peer *peer, uint64_t addr, void *dst,
                      size_t len);

    /*
     * Memory that peers can reach best. Collective over the ranks of this host: `len` may differ
     * between them, `most` is the same everywhere and at least every `len`. Page aligned,
     * zero-filled, sparse; freed by close.
     */
    aq_status (*mem_alloc)(struct aqi_tp *tp, size_t len, size_t most, void **addr);

    /* Make memory reachable; `key` is what peers need and is exchanged by the core as bytes. */
    aq_status (*mem_reg)(struct aqi_tp *tp, void *addr, size_t len, unsigned char key[AQI_KEY_MAX]);
    void (*mem_dereg)(struct aqi_tp *tp, const unsigned char key[AQI_KEY_MAX]);

    /* Turn a peer's key into something to operate on. A key that makes no sense: AQ_EPROTO. */
    aq_status (*mem_map)(struct aqi_tp *tp, struct aqi_peer *peer,
                         const unsigned char key[AQI_KEY_MAX], uint64_t addr, size_t len,
                         struct aqi_rmem *rmem);

    /*
     * The descriptor behind memory of mem_alloc, for another process to map: [addr, addr + len)
     * begins `offset` bytes into it. It stays the transport's. Whoever gets it reaches all of the
     * object, in which other ranks of this host may have their memory. AQ_ENOTSUP: no such memory.
     */
    aq_status (*mem_fd)(struct aqi_tp *tp, const void *addr, size_t len, int *fd, uint64_t *offset);

    /* Where connections by URI begin (rendezvous.h); needs no open transport. */
    const struct aqi_rendezvous_ops *rendezvous;

    /* A descriptor that becomes readable when something arrives while armed. */
    int (*wait_fd)(struct aqi_tp *tp);

    /*
     * We are about to sleep on wait_fd (on = true): AQ_OK, or AQ_AGAIN if something is already
     * there; or we are awake again (on = false). Peers pay for waking us only while armed.
     */
    aq_status (*arm)(struct aqi_tp *tp, bool on);

    /* One line about the open transport, for logs and aqinfo. Returns what snprintf would. */
    int (*describe)(struct aqi_tp *tp, char *buf, size_t len);
};

/*
 * The common head of every open transport. Its open sets `hooks` (from params: fallback.c sits
 * between them and the caller) and `limits`; the registry sets the rest. `ops` is complete:
 * fallback.c has filled the gaps.
 */
struct aqi_tp {
    struct aqi_transport ops;
    struct aqi_tp_hooks hooks;
    struct aqi_tp_limits limits;
    struct aqi_fallback *fallback;
    struct aqi_credit_gate *gate; /* with AQI_CAP_CREDITS */
    struct aqi_fault *fault;      /* with AQ_FAULT */
};

/* registry.c: all transports in order of preference, ended by NULL. */
extern const struct aqi_transport *const aqi_transports[];
const struct aqi_transport *aqi_transport_find(const char *name);
/* Take out the operations that these capabilities promise. */
void aqi_tp_hide(struct aqi_transport *ops, unsigned caps);

/*
 * Check the contract, open, wrap in the fault decorator if AQ_FAULT asks for it, fill the gaps.
 * `params` is copied. aqi_tp_close undoes it.
 */
aq_status aqi_tp_open(const struct aqi_transport *transport, const struct aqi_tp_params *params,
                      struct aqi_tp **tp);
void aqi_tp_close(struct aqi_tp *tp);

/* Does the fallback layer keep something for want of room? No arrival will announce room. */
bool aqi_tp_waits_for_room(const struct aqi_tp *tp);

/* Tell an open transport that the job says `id` is dead: everything to it fails from now on. */
void aqi_tp_peer_down(struct aqi_tp *tp, uint32_t id);

#endif
