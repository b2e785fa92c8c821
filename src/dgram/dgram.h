/*
 * Reliable datagrams as a state machine: packets and the time go in, packets come out. It makes no
 * system calls and reads no clock, so a network of thousands can run in one process and in virtual
 * time (tests/sim). transport/udp gives it sockets.
 *
 * Guarantees: each message, put and get to a live peer happens exactly once, whatever the network
 * loses, duplicates, delays or alters; in no particular order. Invalid packets from peers or
 * strangers are counted and dropped. Packets come from pools, which grow to the peak demand.
 *
 * Each peer has two channels with separate windows: small packets travel on COMMAND and never wait
 * behind bulk, which travels on DATA. Either carries acknowledgements.
 *
 * Threads: it has no threads and no locks. The caller admits one call at a time, but may admit
 * others while a hook runs.
 */
#ifndef AQI_DGRAM_H
#define AQI_DGRAM_H

#include "base/base.h"
#include "base/stats.h"

#include <sys/uio.h>

struct aqi_dgram; /* this process's end of all its connections */

enum aqi_dgram_channel { AQI_DGRAM_COMMAND, AQI_DGRAM_DATA, AQI_DGRAM_CHANNELS };

/* The address at which a process receives; only the port knows its format. */
struct aqi_dgram_addr {
    uint8_t len;
    uint8_t bytes[31];
};

#define AQI_DGRAM_ALL          UINT32_MAX /* every peer */
#define AQI_DGRAM_NEVER        UINT64_MAX /* a time */
#define AQI_DGRAM_LEAST_PACKET 576u       /* what every path carries */
#define AQI_DGRAM_MOST_PACKET  (60u << 10)
#define AQI_DGRAM_WAYS         4u   /* to a peer, at most */
#define AQI_DGRAM_COMMAND_MAX  768u /* bytes of a packet of COMMAND */
#define AQI_DGRAM_COST         384u /* bytes of `room` that each packet takes beyond its length */
#define AQI_DGRAM_BURST        (62u << 10) /* bytes per call of transmit, at most */
#define AQI_DGRAM_BURST_COUNT  64u         /* packets, likewise */

struct aqi_dgram_config {
    uint32_t self, size; /* our id; ids are 0..size-1 */
    uint8_t key[16];     /* the job's secret: senders that do not know it are ignored */
    uint64_t epoch;      /* random: distinguishes this process from earlier ones at its address */
    uint64_t seed;       /* random: for nonces */
    uint8_t secret[16];  /* random, known to us alone: for the nonces of our challenges */
    struct aqi_dgram_addr address; /* our address, as announced to peers */

    size_t packet;      /* bytes of the largest datagram, a multiple of 16 */
    size_t max_message; /* bytes, of head and body together */
    size_t window;      /* maximum number of bytes in flight to a peer */
    size_t reach;       /* the same for a peer that polls rarely, where most of them are queued */
    size_t room;        /* bytes of packets that the port queues for us, plus AQI_DGRAM_COST each */
    /* Messages and operations that may leave at once, per peer and millisecond, while others are in
     * flight; any more are gathered, and leave with the next progress. */
    uint32_t at_once;
    uint32_t pool;  /* requests of all peers that may wait here while no handler may run */
    uint32_t least; /* how many of them each peer may always have */

    uint64_t ack_delay; /* this and the following in ns */
    uint64_t rto_min, rto_max;
    uint64_t idle_close;   /* a connection without traffic for this long is closed; 0: never */
    uint64_t dead_after;   /* a peer silent for this long that owes an acknowledgement is lost; 0:
                            * never */
    uint64_t reach_within; /* a peer that cannot be connected within this time is lost; 0: never */
    uint64_t warn_after;   /* the user is warned of a silent peer after this time; 0: never */
    bool authenticate;     /* each packet has a MAC */
    bool loose;            /* accept messages of aqi_dgram_cast; otherwise they are dropped */
    /* The library's counters, to which those of enum aqi_dgram_counter are added as well; NULL:
     * none. */
    const enum aqi_counter *counters;
};

/* Fill in everything except our identity: self, size, key, epoch, seed, address. */
void aqi_dgram_defaults(struct aqi_dgram_config *config);

/* Why a peer is lost. */
enum aqi_dgram_loss {
    AQI_DGRAM_UNREACHED, /* it was not reached within config.reach_within */
    AQI_DGRAM_SILENT,    /* it did not answer within config.dead_after */
    AQI_DGRAM_BROKEN     /* another reason, in the text */
};

struct aqi_dgram_hooks {
    /*
     * Send `packets` packets to `to`: the pieces of `iov` in a row, cut every `segment` bytes; the
     * last may be shorter. At most AQI_DGRAM_BURST bytes and AQI_DGRAM_BURST_COUNT packets. Must
     * not keep references to `iov`. Returns false if there is no room: none were sent, and progress
     * tries again.
     */
    bool (*transmit)(void *arg, enum aqi_dgram_channel channel, const struct aqi_dgram_addr *to,
                     const struct iovec *iov, unsigned niov, size_t segment, unsigned packets);

    /*
     * A message has arrived; called from input or progress. Its bytes are valid until this returns
     * and may be written to; head and body begin at multiples of 16. The data of a Long is in
     * place.
     */
    void (*deliver)(void *arg, uint32_t source, bool request, unsigned char *message, size_t len);

    /*
     * `local`: the source of an operation may be reused. `remote`: it is complete. `status` is
     * AQ_OK, AQ_ERANGE or AQ_EPEER. May be called from inside the call that begins the operation.
     * Must not begin operations. Both may be NULL if no operation has a `user`.
     */
    void (*local)(void *arg, void *user, aq_status status);
    void (*remote)(void *arg, void *user, aq_status status);

    /* The first message since the last progress was gathered (config.at_once); may be NULL. */
    void (*gathers)(void *arg);

    /* Whether the peer may write or read [addr, addr + len) of this process. */
    bool (*range_ok)(void *arg, uint64_t addr, size_t len);

    /* Find the address of `id`. AQ_AGAIN: not known yet. */
    aq_status (*lookup)(void *arg, uint32_t id, struct aqi_dgram_addr *addr);

    /*
     * The ways to a peer that has several addresses: its address for way number `way`, and ours for
     * its replies. Returns false if there is no such way, or no route for it now. NULL: each peer
     * has one way, that of lookup, and our address is that of the configuration. The way that
     * answers first is used, until nothing arrives by it.
     */
    bool (*way)(void *arg, uint32_t id, unsigned way, struct aqi_dgram_addr *to,
                struct aqi_dgram_addr *own);

    /* The time, for packets that leave outside of progress; NULL: not known there. */
    uint64_t (*now)(void *arg);

    /* This peer has owed an answer for `waited` ns. Called once for each peer; may be NULL. */
    void (*silent)(void *arg, uint32_t id, uint64_t waited);

    /* This peer is lost. Called once for each peer, from input, answer and progress only. */
    void (*lost)(void *arg, uint32_t id, enum aqi_dgram_loss loss, const char *why);

    /*
     * Bytes of the largest packet that the path to this peer is known to carry; larger ones are not
     * tried. SIZE_MAX: unknown. NULL: unknown for all peers.
     */
    size_t (*path)(void *arg, uint32_t id);

    /*
     * The path to this peer carries packets of at most `usable` bytes. Called once for each peer,
     * and again when that shrinks. `agreed`: both ends have agreed on it.
     */
    void (*small_path)(void *arg, uint32_t id, size_t usable, bool agreed);

    /*
     * A keyed hash of `iov`, 16 bytes long, as aqi_macs_of: for a `use` when connections are made
     * or, with `authenticate`, the tag of a packet.
     */
    void (*mac)(void *arg, const char *use, const uint8_t key[16], const struct iovec *iov,
                unsigned niov, uint8_t tag[16]);

    /*
     * Return where to read the source of a transfer: `at`, or `copy`, filled with a copy, if a
     * fault must not raise a signal in the caller. NULL: it cannot be read now; packets that read
     * the program's memory wait for a later call, and all others are sent. The hook itself may be
     * NULL: always `at`.
     */
    const void *(*source)(void *arg, const void *at, size_t len, void *copy);
    void *arg;
};

aq_status aqi_dgram_create(const struct aqi_dgram_config *config,
                           const struct aqi_dgram_hooks *hooks, struct aqi_dgram **dgram);
void aqi_dgram_destroy(struct aqi_dgram *dgram);

/*
 * Add a peer; this must precede all other calls for it. It is connected when either side first uses
 * it.
 */
aq_status aqi_dgram_peer(struct aqi_dgram *dgram, uint32_t id);

/*
 * Send a message: `head`, then at the next multiple of 16 bytes `body`, both copied. The first four
 * bytes of the head are reserved for the engine. `head_len` is at most 256. A reply is never
 * refused because requests have used up the room.
 *
 * @return AQ_AGAIN   No room: nothing was sent.
 * @return AQ_EPEER   The peer is lost.
 */
aq_status aqi_dgram_send(struct aqi_dgram *dgram, uint32_t id, bool reply, const void *head,
                         size_t head_len, const void *body, size_t body_len);

/*
 * The same for a request; `local` is called when the peer has acknowledged all of it, or with
 * AQ_EPEER.
 */
aq_status aqi_dgram_send_acked(struct aqi_dgram *dgram, uint32_t id, const void *head,
                               size_t head_len, const void *body, size_t body_len, void *user);

/*
 * Send a request in a separate packet, at once or not at all. It may be lost, duplicated or
 * reordered, and its fate is not reported.
 *
 * @return AQ_AGAIN  The connection is still being made, or the port has no room.
 * @return AQ_ESIZE  It does not fit in a packet (aqi_dgram_most_cast).
 * @return AQ_EPEER
 */
aq_status aqi_dgram_cast(struct aqi_dgram *dgram, uint32_t id, const void *head, size_t head_len,
                         const void *body, size_t body_len);
/* The maximum length of head, rounded up to 16, and body together. */
size_t aqi_dgram_most_cast(const struct aqi_dgram_config *config);

/*
 * Write `src` to [addr, addr + len) of the peer; then `local` and `remote` are called. A source of
 * at most AQI_DGRAM_COPIED bytes may be reused at once: `local` is called before this returns. With
 * a head (head_len not 0) this is a Long: when the bytes are in place the head is delivered there
 * as a message, and only `local` is called. If `user` is NULL neither is called.
 * @return as aqi_dgram_send
 */
#define AQI_DGRAM_COPIED 256u
aq_status aqi_dgram_put(struct aqi_dgram *dgram, uint32_t id, uint64_t addr, const void *src,
                        size_t len, bool reply, const void *head, size_t head_len, void *user);

/* Read [addr, addr + len) of the peer to `dst`; then `remote` is called. */
aq_status aqi_dgram_get(struct aqi_dgram *dgram, uint32_t id, uint64_t addr, void *dst, size_t len,
                        void *user);

/*
 * Call `found` for each piece of memory that pending transfers may still read. It must not begin
 * operations.
 */
void aqi_dgram_sources(const struct aqi_dgram *dgram,
                       void (*found)(void *arg, const void *addr, size_t len), void *arg);

/* Stop reading [addr, addr + len) of this process on behalf of peers. */
void aqi_dgram_forget(struct aqi_dgram *dgram, const void *addr, size_t len);

/*
 * Take a packet that has arrived; it is 16-byte aligned and may be written to. Messages in it are
 * delivered before this returns, except that without `requests` those that are requests are kept
 * for later (config.pool). `waited`: ns since it arrived; AQI_DGRAM_NEVER: unknown.
 */
void aqi_dgram_input(struct aqi_dgram *dgram, unsigned char *packet, size_t len, bool requests,
                     uint64_t waited, uint64_t now);

/*
 * Take a packet that has arrived while the program is not in a call. Everything that concerns the
 * connection is handled: handshakes, acknowledgements, liveness queries. The rest is parked unread
 * until aqi_dgram_resume, up to config.room bytes; it is not acknowledged, so packets that find no
 * room are retransmitted. Nothing is delivered and no memory of the program is touched: the hooks
 * `deliver` and `range_ok` are not called.
 */
void aqi_dgram_answer(struct aqi_dgram *dgram, unsigned char *packet, size_t len, uint64_t waited,
                      uint64_t now);
bool aqi_dgram_parked(const struct aqi_dgram *dgram);
/* Take the parked packets now, as in aqi_dgram_input. Returns their number. */
unsigned aqi_dgram_resume(struct aqi_dgram *dgram, bool requests, uint64_t now);

/*
 * Call this after all available packets have been taken: it delivers kept messages (with
 * `requests`) and sends what is due. Returns the number of events handled.
 */
unsigned aqi_dgram_progress(struct aqi_dgram *dgram, bool requests, uint64_t now);

/*
 * A flag that spreads to all processes: a process that has set or received it sends it with each
 * packet. For events that one process reports on behalf of all.
 */
void aqi_dgram_set_flag(struct aqi_dgram *dgram);
bool aqi_dgram_has_flag(const struct aqi_dgram *dgram);

/* When progress must be called even if nothing arrives. */
uint64_t aqi_dgram_deadline(const struct aqi_dgram *dgram);

/* Whether nothing that we began is outstanding at this peer, or at any. */
bool aqi_dgram_quiet(const struct aqi_dgram *dgram, uint32_t id);

/* Whether nothing is outstanding, due, kept or parked: until something arrives or begins, progress
 * is needed only at the deadline. */
bool aqi_dgram_idle(const struct aqi_dgram *dgram);

/* When the last packet from a peer, not from a stranger, arrived; 0: none has. */
uint64_t aqi_dgram_heard(const struct aqi_dgram *dgram);

/* Whether all peers have been silent long enough for our last acknowledgements to have arrived. */
bool aqi_dgram_drained(const struct aqi_dgram *dgram, uint64_t now);

/*
 * The job reports this peer dead: everything pending for it fails with AQ_EPEER. `lost` is not
 * called.
 */
void aqi_dgram_down(struct aqi_dgram *dgram, uint32_t id);

/* --- inspection ------------------------------------------------------------------------------ */

enum aqi_dgram_counter {
    AQI_DGRAM_SENT,           /* packets sent, retransmissions excluded */
    AQI_DGRAM_RESENT,         /* packets retransmitted */
    AQI_DGRAM_RECEIVED,       /* packets accepted */
    AQI_DGRAM_ACKS,           /* packets sent that carry only an acknowledgement */
    AQI_DGRAM_DUPLICATES,     /* packets received again */
    AQI_DGRAM_TIMEOUTS,       /* retransmission timers that fired */
    AQI_DGRAM_DROP_SHORT,     /* dropped: truncated, or not of this protocol */
    AQI_DGRAM_DROP_COOKIE,    /* dropped: of an unknown connection */
    AQI_DGRAM_DROP_MAC,       /* dropped: forged or altered */
    AQI_DGRAM_DROP_WINDOW,    /* dropped: numbers that were never sent or are out of the window */
    AQI_DGRAM_DROP_MALFORMED, /* dropped: malformed contents */
    AQI_DGRAM_DROP_VERSION,   /* dropped: another version of the protocol */
    AQI_DGRAM_DROP_POOL,      /* dropped, to be retransmitted: no room for a request */
    AQI_DGRAM_COUNTERS
};
extern const char *const aqi_dgram_counter_names[AQI_DGRAM_COUNTERS];
uint64_t aqi_dgram_count(const struct aqi_dgram *dgram, enum aqi_dgram_counter counter);

struct aqi_dgram_peer_info {
    bool connected, lost;
    bool reached;                     /* it has been connected */
    uint64_t rtt, rto, base_rtt;      /* ns */
    size_t window, in_flight, queued; /* bytes: the congestion window, sent, not sent yet */
    size_t packet;                    /* bytes of the largest packet that the path carries */
    uint64_t sent, resent, received, duplicates; /* packets, on this connection */
    struct aqi_dgram_addr addr;                  /* len 0: not known yet */
};
/* Returns false if there is no such peer. */
bool aqi_dgram_peer_info(const struct aqi_dgram *dgram, uint32_t id,
                         struct aqi_dgram_peer_info *info);

#endif
