/*
 * Reliable datagrams as a state machine: packets and the time go in, packets come out. It makes no
 * system call and reads no clock, so that a network of thousands runs in one process and in virtual
 * time (tests/sim). transport/udp gives it sockets.
 *
 * What it promises. Each message, put and get to a living peer happens exactly once, whatever the
 * network loses, repeats, delays or alters; in no order. What a peer or a stranger may send is
 * counted and dropped, never trusted. No allocation for a packet: packets come from pools that grow
 * to what was once needed.
 *
 * Two channels to each peer have windows of their own: what is small travels on COMMAND and never
 * waits behind bulk, which travels on DATA. Acknowledgements ride on either.
 *
 * Threads: none of its own and no lock. The caller lets one call in at a time; while a hook runs,
 * others may be let in.
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
#define AQI_DGRAM_COST         384u /* bytes of `room` that each packet takes beside its own */
#define AQI_DGRAM_BURST        (62u << 10) /* bytes, */
#define AQI_DGRAM_BURST_COUNT  64u         /* and packets, of one call of transmit */

struct aqi_dgram_config {
    uint32_t self, size; /* ids are 0..size-1; ours */
    uint8_t key[16];     /* the job's secret: senders that do not know it are ignored */
    uint64_t epoch;      /* random: of this process, not of one that had its address before */
    uint64_t seed;       /* random: for nonces */
    struct aqi_dgram_addr address; /* our address, as announced to peers */

    size_t packet;      /* bytes of the largest datagram, a multiple of 16 */
    size_t max_message; /* bytes, of head and body together */
    size_t window;      /* bytes under way to a peer at most, */
    size_t reach;       /* and to one that looks rarely, at which most of them lie */
    size_t room;        /* bytes of packets that the port keeps for us until we look, with
                         * AQI_DGRAM_COST for each */
    /* Messages and operations to a peer that leave at once in a millisecond, although others are
     * under way; more of them are gathered, and leave with the next progress. */
    uint32_t at_once;
    uint32_t pool;  /* requests that wait here, of all peers together, while no handler may run */
    uint32_t least; /* the part of them that each peer always has */

    uint64_t ack_delay; /* these and what follows in ns */
    uint64_t rto_min, rto_max;
    uint64_t idle_close;   /* a connection without traffic is closed; 0: never */
    uint64_t dead_after;   /* a peer that owes an acknowledgement and is silent is lost; 0: never */
    uint64_t reach_within; /* a peer to which no connection has come about is lost; 0: never */
    uint64_t warn_after;   /* the user is warned of a silent peer after this time; 0: never */
    bool authenticate;     /* a MAC in each packet */
    bool loose;            /* messages of aqi_dgram_cast are taken, else they are dropped */
    /* The counter of the library that each of enum aqi_dgram_counter adds to, as it is counted;
     * NULL: none. */
    const enum aqi_counter *counters;
};

/* Fill in everything except our identity: self, size, key, epoch, seed, address. */
void aqi_dgram_defaults(struct aqi_dgram_config *config);

/* The reason why a peer is lost: config.reach_within. */
extern const char aqi_dgram_unreached[];

struct aqi_dgram_hooks {
    /*
     * Send `packets` packets to `to`: the pieces of `iov` one after the other. Every `segment`
     * bytes of them are a packet; the last may be shorter. Together at most AQI_DGRAM_BURST bytes
     * and AQI_DGRAM_BURST_COUNT packets. Must not keep references to `iov`. False: no room, none
     * were sent; progress tries again.
     */
    bool (*transmit)(void *arg, enum aqi_dgram_channel channel, const struct aqi_dgram_addr *to,
                     const struct iovec *iov, unsigned niov, size_t segment, unsigned packets);

    /*
     * A message has arrived; called from input or progress. Its bytes are valid until this returns,
     * 16-byte aligned as its head and body were, and may be written to. For a Long, its data is in
     * place.
     */
    void (*deliver)(void *arg, uint32_t source, bool request, unsigned char *message, size_t len);

    /*
     * The source of an operation may be reused; it is complete. `status` AQ_OK, AQ_ERANGE,
     * AQ_EPEER. May be called from inside the call that begins the operation. Must not begin
     * operations.
     */
    void (*local)(void *arg, void *user, aq_status status);
    void (*remote)(void *arg, void *user, aq_status status);

    /* The first message since the last progress has been gathered (config.at_once); may be NULL. */
    void (*gathers)(void *arg);

    /* Whether the peer may write or read [addr, addr + len) of this process. */
    bool (*range_ok)(void *arg, uint64_t addr, size_t len);

    /* Where `id` is. AQ_AGAIN: not known yet. */
    aq_status (*lookup)(void *arg, uint32_t id, struct aqi_dgram_addr *addr);

    /*
     * The ways to a peer that has several addresses: the address of the `way`-th, and our own as
     * the peer can answer it there. False: there is no such way, or no route for it now. NULL: each
     * peer has one way, that of lookup, and our address is that of the configuration. The way that
     * answers first is used, and another one when nothing arrives by it any more.
     */
    bool (*way)(void *arg, uint32_t id, unsigned way, struct aqi_dgram_addr *to,
                struct aqi_dgram_addr *own);

    /* The time, for what leaves outside of progress; NULL: not known there. */
    uint64_t (*now)(void *arg);

    /* An answer of this peer has been due for this long; called once for each. May be NULL. */
    void (*silent)(void *arg, uint32_t id, uint64_t waited);

    /* This peer is lost; once for each. From input and progress only. `why` is
     * aqi_dgram_unreached, or another text. */
    void (*lost)(void *arg, uint32_t id, const char *why);

    /*
     * Bytes of packets that the path to this peer is known to carry, so that none larger are tried;
     * SIZE_MAX: unknown. NULL: unknown for all peers.
     */
    size_t (*path)(void *arg, uint32_t id);

    /*
     * The path to this peer carries only packets of `usable` bytes. Once for each, and when it
     * carries less from some time on. `agreed`: the peer has found it, too.
     */
    void (*small_path)(void *arg, uint32_t id, size_t usable, bool agreed);

    /*
     * A keyed hash of `len` bytes, 16 bytes of it. Used for connections, and with `authenticate`
     * for packets.
     */
    void (*mac)(void *arg, const uint8_t key[16], const struct iovec *iov, unsigned niov,
                uint8_t tag[16]);

    /*
     * The source of a transfer is about to be read: where to read these bytes. That is `at`; or
     * `copy`, with a copy of them, if the caller must not raise the signal of memory that cannot be
     * read. NULL: the bytes cannot be read now; what is sent of the program's memory waits for a
     * later call, and everything else is sent. The hook itself may be NULL: at `at` always.
     */
    const void *(*source)(void *arg, const void *at, size_t len, void *copy);
    void *arg;
};

aq_status aqi_dgram_create(const struct aqi_dgram_config *config,
                           const struct aqi_dgram_hooks *hooks, struct aqi_dgram **dgram);
void aqi_dgram_destroy(struct aqi_dgram *dgram);

/*
 * Make a peer known, which must precede all other calls for it. It is connected when it is first
 * used, by either side.
 */
aq_status aqi_dgram_peer(struct aqi_dgram *dgram, uint32_t id);

/*
 * Send a message: `head`, then at the next multiple of 16 bytes `body`, both copied. The first four
 * bytes of the head are ours. `head_len` is at most 256. A reply is never refused because requests
 * have used up the room.
 *
 * @return AQ_AGAIN   No room: nothing happened.
 * @return AQ_EPEER   The peer is lost.
 */
aq_status aqi_dgram_send(struct aqi_dgram *dgram, uint32_t id, bool reply, const void *head,
                         size_t head_len, const void *body, size_t body_len);

/*
 * The same for a request; and `local` is called when the peer has acknowledged all of it, or with
 * AQ_EPEER.
 */
aq_status aqi_dgram_send_told(struct aqi_dgram *dgram, uint32_t id, const void *head,
                              size_t head_len, const void *body, size_t body_len, void *user);

/*
 * Send a request in a packet of its own, at once or not at all: it may get lost, arrive several
 * times, and overtake others, and nothing is known of it here.
 *
 * @return AQ_AGAIN  There is no connection yet, but soon; or the port has no room.
 * @return AQ_ESIZE  It does not fit a packet (aqi_dgram_most_cast).
 * @return AQ_EPEER
 */
aq_status aqi_dgram_cast(struct aqi_dgram *dgram, uint32_t id, const void *head, size_t head_len,
                         const void *body, size_t body_len);
/* The most bytes of head, rounded up to 16, and body, for packets of this size. */
size_t aqi_dgram_most_cast(const struct aqi_dgram_config *config);

/*
 * Write `src` to [addr, addr + len) of the peer; then `local` and `remote` are called. A source of
 * at most AQI_DGRAM_COPIED bytes may be reused at once: `local` is called before it returns. With a
 * head (head_len not 0): a Long. When the bytes are in place the head is delivered there as a
 * message, and only `local` is called. `user` NULL: neither is.
 * @return as aqi_dgram_send
 */
#define AQI_DGRAM_COPIED 256u
aq_status aqi_dgram_put(struct aqi_dgram *dgram, uint32_t id, uint64_t addr, const void *src,
                        size_t len, bool reply, const void *head, size_t head_len, void *user);

/* Read [addr, addr + len) of the peer to `dst`; then `remote` is called. */
aq_status aqi_dgram_get(struct aqi_dgram *dgram, uint32_t id, uint64_t addr, void *dst, size_t len,
                        void *user);

/*
 * Call `found` for each piece of memory that transfers under way may still read. It must not begin
 * operations.
 */
void aqi_dgram_sources(const struct aqi_dgram *dgram,
                       void (*found)(void *arg, const void *addr, size_t len), void *arg);

/* Stop reading [addr, addr + len) of this process on behalf of peers. */
void aqi_dgram_forget(struct aqi_dgram *dgram, const void *addr, size_t len);

/*
 * Take a packet that has arrived; it is 16-byte aligned and may be written to. Messages in it are
 * delivered before this returns, but requests only if `requests` says so; else they are kept
 * (config.pool). `waited`: ns that it has lain here so far; AQI_DGRAM_NEVER: unknown.
 */
void aqi_dgram_input(struct aqi_dgram *dgram, unsigned char *packet, size_t len, bool requests,
                     uint64_t waited, uint64_t now);

/*
 * Take a packet that has arrived while the program makes no call. Everything about the connection
 * is handled: handshakes, acknowledgements, requests for a sign of life. The rest is parked as it
 * is until aqi_dgram_resume, up to config.room bytes; it is not acknowledged, so packets that find
 * no room are sent again. Nothing is delivered and no memory of the program is touched; of the
 * hooks, `deliver` and `range_ok` are not called.
 */
void aqi_dgram_answer(struct aqi_dgram *dgram, unsigned char *packet, size_t len, uint64_t waited,
                      uint64_t now);
bool aqi_dgram_parked(const struct aqi_dgram *dgram);
/* Take the parked packets now, as in aqi_dgram_input. Returns their number. */
unsigned aqi_dgram_resume(struct aqi_dgram *dgram, bool requests, uint64_t now);

/*
 * Called after all available packets have been taken: deliver kept messages (with `requests`), send
 * what is due. Returns the number of events handled.
 */
unsigned aqi_dgram_progress(struct aqi_dgram *dgram, bool requests, uint64_t now);

/*
 * A flag that spreads to all processes: a process that has set it, or has received it, sends it
 * with each packet. For what one process reports on behalf of all.
 */
void aqi_dgram_tell(struct aqi_dgram *dgram);
bool aqi_dgram_told(const struct aqi_dgram *dgram);

/* When progress must be called although nothing arrives. */
uint64_t aqi_dgram_deadline(const struct aqi_dgram *dgram);

/* Nothing that we began is under way to this peer, or to any. */
bool aqi_dgram_quiet(const struct aqi_dgram *dgram, uint32_t id);

/* Nothing at all is under way, due, kept or parked: until something comes or is begun, progress is
 * needed at the deadline only. */
bool aqi_dgram_idle(const struct aqi_dgram *dgram);

/* When the last packet arrived that a peer has sent, not a stranger; 0: none has. */
uint64_t aqi_dgram_heard(const struct aqi_dgram *dgram);

/* Whether all peers have been silent long enough for our last acknowledgements to have arrived. */
bool aqi_dgram_drained(const struct aqi_dgram *dgram, uint64_t now);

/*
 * The job reports this peer dead: everything under way to it fails with AQ_EPEER. `lost` is not
 * called.
 */
void aqi_dgram_down(struct aqi_dgram *dgram, uint32_t id);

/* --- inspection ------------------------------------------------------------------------------ */

enum aqi_dgram_counter {
    AQI_DGRAM_SENT,           /* packets, without those sent again */
    AQI_DGRAM_RESENT,         /* packets sent again */
    AQI_DGRAM_RECEIVED,       /* packets taken */
    AQI_DGRAM_ACKS,           /* packets sent that carry an acknowledgement only */
    AQI_DGRAM_DUPLICATES,     /* packets that had come before */
    AQI_DGRAM_TIMEOUTS,       /* retransmission timers that fired */
    AQI_DGRAM_DROP_SHORT,     /* dropped: truncated, or not of this protocol */
    AQI_DGRAM_DROP_COOKIE,    /* dropped: of an unknown connection */
    AQI_DGRAM_DROP_MAC,       /* dropped: forged or altered */
    AQI_DGRAM_DROP_WINDOW,    /* dropped: numbers that were never sent or are out of the window */
    AQI_DGRAM_DROP_MALFORMED, /* dropped: malformed contents */
    AQI_DGRAM_DROP_VERSION,   /* dropped: another version of the protocol */
    AQI_DGRAM_DROP_POOL,      /* dropped to be sent again: no room for a request */
    AQI_DGRAM_COUNTERS
};
extern const char *const aqi_dgram_counter_names[AQI_DGRAM_COUNTERS];
uint64_t aqi_dgram_count(const struct aqi_dgram *dgram, enum aqi_dgram_counter counter);

struct aqi_dgram_peer_info {
    bool connected, lost;
    bool reached;                         /* there was a connection */
    uint64_t rtt, rtt_var, rto, base_rtt; /* ns */
    size_t window, in_flight, queued;     /* bytes: the congestion window, sent, not yet sent */
    size_t packet;                        /* bytes of the largest that the path carries */
    uint64_t sent, resent, received, duplicates; /* packets, on this connection */
    struct aqi_dgram_addr addr;                  /* len 0: not known yet */
};
/* False: no such peer. */
bool aqi_dgram_peer_info(const struct aqi_dgram *dgram, uint32_t id,
                         struct aqi_dgram_peer_info *info);

/* Bytes that this peer uses now, without the pools that all share. */
size_t aqi_dgram_peer_memory(const struct aqi_dgram *dgram, uint32_t id);

#endif
