/*
 * A connection, for the files that implement its protocol: operations, outgoing packets,
 * acknowledgements. They do not depend on the engine, only on struct dgram_env.
 */
#ifndef AQI_DGRAM_CONN_H
#define AQI_DGRAM_CONN_H

#include "base/pool.h"
#include "dgram/dgram.h"
#include "dgram/pace.h"
#include "dgram/packet.h"
#include "dgram/search.h"
#include "dgram/seen.h"
#include "dgram/wheel.h"

struct dgram_peer;
struct dgram_conn;

enum dgram_op_kind {
    DGRAM_OP_PUT,
    DGRAM_OP_LONG, /* a put whose head travels as DGRAM_LONG */
    DGRAM_OP_GET,
    DGRAM_OP_MESSAGE, /* of aqi_dgram_send_acked; tracked by its packets like a put */
    DGRAM_OP_SERVE    /* the answer to a peer's get */
};

/* A transfer; on its connection's list until it completes. */
struct dgram_op {
    struct dgram_op *next, **link; /* on the connection's list */
    struct dgram_op *next_bulk,
        **bulk_link; /* on the list of those with pieces to send; link NULL: not on it */
    struct dgram_op *next_in_packet; /* on dgram_packet.ops */
    struct dgram_op *next_head;      /* on dgram_packet.heads */
    uint8_t kind;
    bool copied;      /* `local` was called: the source may be reused */
    aq_status status; /* the first failure */
    uint32_t peer;
    uint32_t id; /* SERVE: the peer's */
    unsigned char *local;
    uint64_t addr; /* of the first byte at the peer; SERVE: offset in the peer's get */
    size_t len;
    size_t issued;   /* bytes put into packets so far */
    size_t finished; /* GET: bytes received */
    uint32_t flying; /* its unacknowledged packets, queued or sent, including that of the head */
    void *user;
};

/* An operation's id consists of its slot's index and generation. */
struct dgram_slot {
    struct dgram_op *op; /* NULL: free */
    uint16_t generation;
    uint32_t next_free;
};

/* Lanes: classes of records that never share a packet. Requests may be dropped for lack of room,
 * refused puts stay unacknowledged until their refusal is acknowledged, refusals always get
 * through. */
enum { DGRAM_REQUEST_LANE, DGRAM_OTHER_LANE, DGRAM_REFUSAL_LANE, DGRAM_LANES };

/* A packet, from its creation to its acknowledgement. */
struct dgram_packet {
    struct dgram_packet *next, *prev; /* on the queue, the flying or the lost list */
    struct dgram_op *ops, *heads;     /* small puts and messages in it; heads of Longs */
    struct dgram_op *op;              /* the operation that it carries a piece of */
    const unsigned char *bulk;
    uint32_t bulk_len;
    uint32_t len;    /* bytes of the frame; the first 32 are for the head */
    uint32_t sliced; /* bytes sent in slices so far; 0 again when all are */
    uint32_t seq;
    uint32_t order; /* number of its latest transmission */
    uint64_t sent;  /* when it was last sent; 0: not known yet (transmit_time) */
    uint64_t first; /* when it was first sent or, if that is unknown, first retransmitted */
    uint8_t channel, lane, tries;
    bool flying, asks;
    bool overtaken;  /* counted as lost because later packets overtook it */
    uint8_t release; /* a refusal: 1 + its index in dgram_conn.held; 0: none */
    unsigned char *frame;
    alignas(16) unsigned char small[sizeof(struct dgram_head) + sizeof(struct dgram_record)];
};

struct dgram_list {
    struct dgram_packet *first, *last;
};

/* The sending side of a channel. */
struct dgram_tx {
    uint32_t base, next;        /* numbers: the oldest unacknowledged one, the next one to assign */
    uint32_t order;             /* transmissions so far */
    uint32_t ring_size;         /* a power of two, or 0 */
    struct dgram_packet **ring; /* by number; NULL: acknowledged */
    struct dgram_list flying;   /* in order of their latest transmission */
    struct dgram_list queue;    /* never sent */
    struct dgram_packet *open[DGRAM_LANES]; /* those in the queue that have room for more */
    size_t in_flight;                       /* bytes */
    uint32_t flights;                       /* packets */
    uint64_t probed;                        /* when a timeout last counted a packet as lost */
    uint32_t latest;                        /* the latest transmission reported by a SACK */
    uint64_t overdue_at; /* when a packet sent before it is lost; AQI_DGRAM_NEVER */
    uint64_t late;       /* ns after it was sent until such a packet is lost */
};

struct dgram_rx {
    struct dgram_seen seen;
    uint16_t order; /* of the latest transmission received */
    bool ordered;
};

/* A message that arrives in fragments, or a Long. */
struct dgram_incoming {
    struct dgram_incoming *next;
    uint32_t id;
    bool is_long, request, refused;
    size_t total, landed; /* `total` of a Long is SIZE_MAX until its head arrives */
    unsigned char *message;
    size_t message_len;
};

/* The image of a packet that arrives in slices because the path no longer carries it whole. */
struct dgram_slices {
    uint8_t channel;
    uint32_t seq;
    size_t total, missing; /* bytes; `missing` counts in units of 16 */
    uint64_t have[AQI_DGRAM_MOST_PACKET / 16 / 64];
    unsigned char *bytes; /* NULL: complete, and taken */
};
static_assert(AQI_DGRAM_MOST_PACKET % (16 * 64) == 0, "a bit for each");

enum {
    DGRAM_HELD = 8,
    DGRAM_INCOMING_LISTS = 16,
    DGRAM_REORDER = 3 /* initial value of dgram_conn.reorder */
};

enum dgram_state { DGRAM_IDLE, DGRAM_CONNECTING, DGRAM_UP, DGRAM_CLOSING, DGRAM_LOST };

/* State of a peer that exists only while it is connected or being connected. */
struct dgram_conn {
    uint64_t cookie_in, cookie_out;
    uint64_t nonces[2]; /* the initiator's, the other side's */
    uint8_t mac_key[16];
    size_t packet;        /* bytes of the largest packet that the path carries */
    uint32_t message_ids; /* the next one of a fragmented message */
    uint32_t casts;       /* packets of aqi_dgram_cast sent */
    struct dgram_tx tx[AQI_DGRAM_CHANNELS];
    struct dgram_rx rx[AQI_DGRAM_CHANNELS];
    struct dgram_list lost; /* to be retransmitted */
    struct dgram_op *ops;   /* all */
    struct dgram_op *bulk, **bulk_end;
    struct dgram_pace pace;
    size_t room;                 /* bytes of DATA that may be in flight to the peer */
    size_t queued[DGRAM_LANES];  /* bytes in the queues */
    uint32_t own_ops;            /* operations other than SERVE */
    bool own, busy;              /* counted in struct aqi_dgram */
    bool proved;                 /* a packet has arrived on it, so the peer also has it */
    bool accepted;               /* we have sent ACCEPT */
    uint64_t accepted_at;        /* when we last sent it */
    bool agreed;                 /* the path is known not to carry the largest packet */
    struct dgram_search search;  /* for the largest packet that the path carries: by the initiator;
                                  * later by a side whose large packets no longer arrive */
    uint32_t searches;           /* shrink.c: number of these later searches so far */
    bool searching;              /* shrink.c: one is running */
    struct dgram_slices *slices; /* NULL: no slice has arrived */
    struct dgram_incoming *incoming[DGRAM_INCOMING_LISTS];
    unsigned incoming_count;
    /* Packets that were received, but are not acknowledged until their refusal has been. */
    struct {
        uint32_t seq;
        uint8_t channel;
        bool taken;
    } held[DGRAM_HELD];
    unsigned holding; /* entries taken */
    unsigned reorder; /* transmissions that may overtake a packet before it is lost */

    unsigned unacked; /* packets received since we last acknowledged any */
    bool ack_now;
    bool asks;                   /* the next acknowledgement requests one in return */
    bool repeated;               /* a duplicate has arrived since our last acknowledgement */
    uint8_t tails;               /* tail probes since something was acknowledged */
    bool doubt_of_tail;          /* the retransmission that may be spurious was a tail probe */
    uint64_t doubt, doubt_until; /* response time in ns if it was spurious; 0: none is in doubt */
    bool gap;                    /* something is missing or withheld: acknowledge selectively */
    bool turn;                   /* on DATA: bulk's turn, else that of messages */
    bool untimed;                /* some packets in flight were sent at an unknown time */
    uint16_t delay;              /* us by which the peer delayed its latest acknowledgement */
    unsigned silences;           /* consecutive timeouts */
    uint8_t backoff;             /* doublings of the timeout, until a response is timed */
    uint8_t probes;              /* packets to retransmit regardless of the window */
    uint64_t recovered; /* when the packet whose arrival ended timeouts was resent; 0: none */
    uint64_t newest;    /* when the newest packet arrived */
    bool unsure;        /* other packets arrived at an unknown time */
    uint64_t heard;     /* when any packet was last received */
    uint64_t owed;      /* when the first timeout since then fired */
    uint64_t asked;     /* when we last checked that the peer is alive */
    uint32_t moves;     /* number of our latest MOVE */
    uint32_t moved_back, moved_in;  /* MOVEs up to this one are settled: ours, the peer's */
    uint64_t looked, waited;        /* silence.c: at `looked` nothing had arrived for `waited` ns */
    uint64_t at_once_again;         /* when `at_once` is refilled (config.at_once) */
    uint32_t at_once, at_once_sent; /* messages left until then; packets sent before */
    uint64_t used;                  /* when data was last sent or received, not just acknowledged */
    uint64_t ack_at, probe_at, pace_at; /* timers; AQI_DGRAM_NEVER */
    uint64_t shrink_at;    /* likewise: check whether the path still carries large packets */
    uint64_t judged;       /* when that was last checked */
    uint64_t active_until; /* until then the peer shares config.room; 0: it does not */
    uint64_t sent_count, resent_count, received_count, duplicate_count;
};

struct dgram_peer {
    uint32_t id;
    uint8_t state;
    bool located;        /* addr is known */
    bool ready;          /* in dgram.ready */
    bool met;            /* epoch is known */
    bool small_reported; /* hooks.small_path was called */
    bool reached;        /* it has been connected */
    bool silence_reported;
    uint8_t tries;   /* of the handshake */
    uint8_t way;     /* the way to it that was used last, or is to be tried first */
    uint16_t packet; /* bytes of the largest packet that both sides and the path handle */
    struct aqi_dgram_addr addr;
    uint64_t epoch;       /* of its process */
    uint64_t last_nonce;  /* the highest nonce with which it began a connection */
    uint64_t nonces[2];   /* of the connection that we are making */
    uint64_t hello_at;    /* when the next step of the handshake is due */
    uint64_t last_cookie; /* in its packets on the latest connection that has ended; 0: none */
    uint64_t reset_at[2]; /* no RESET is sent before: for other cookies, for last_cookie */
    uint64_t waits;       /* its number in the queue for the pool; 0: it is not waiting */
    uint32_t held;        /* places that it has in the pool */
    struct dgram_conn *conn;
    struct dgram_timer timer; /* set to the earliest time at which anything is due */
    struct dgram_peer *next_ready;
};
static_assert(sizeof(struct dgram_peer) <= 256, "a peer not yet talked to is cheap");

/* Whether both sides have agreed on a connection, `conn`, that is still in use. */
static inline bool dgram_is_connected(const struct dgram_peer *peer)
{
    return peer->state == DGRAM_UP || peer->state == DGRAM_CLOSING;
}

/* The part of an engine that its connections share. */
struct dgram_env {
    struct aqi_dgram_config config;
    struct aqi_dgram_hooks hooks;
    uint64_t now;
    uint64_t away; /* ns for which packets received since the last progress may have waited here */
    uint64_t arrived; /* when the packet being processed arrived; 0: unknown */
    bool flagged;     /* aqi_dgram_set_flag was called, here or elsewhere */
    bool timed;       /* `now` is current: this is progress or input */
    unsigned actives; /* peers that send us DATA */
    uint32_t kept;    /* packets kept while no handler may run, */
    size_t kept_size; /* and their bytes, as counted in `room` */
    struct dgram_peer *ready, **ready_end;
    struct dgram_slot *ops;
    size_t ops_size;
    uint32_t ops_free; /* the first free slot, or ops_size */
    struct aqi_pool packets, frames[AQI_DGRAM_CHANNELS], op_pool;
    unsigned char *gathered; /* scratch memory for the burst or packet being sent */
    uint64_t counters[AQI_DGRAM_COUNTERS];
};

static inline void dgram_count(struct dgram_env *env, enum aqi_dgram_counter counter)
{
    env->counters[counter]++;
    if (env->config.counters != NULL) aqi_count(env->config.counters[counter], 1);
}

/* Give the peer a turn in the next progress. */
static inline void dgram_make_ready(struct dgram_env *env, struct dgram_peer *peer)
{
    if (peer->ready) return;
    peer->ready = true;
    peer->next_ready = NULL;
    *env->ready_end = peer;
    env->ready_end = &peer->next_ready;
}

enum {
    DGRAM_STUCK_TRIES = 2,
    DGRAM_STUCK_AFTER = 1000000000 /* ns */
};

/* Bytes of a packet, with its MAC. */
static inline size_t dgram_packet_size(const struct dgram_env *env,
                                       const struct dgram_packet *packet)
{
    return packet->len + packet->bulk_len + (env->config.authenticate ? DGRAM_TAG : 0);
}

/* When to suspect that the path no longer carries a packet that was retransmitted repeatedly. */
static inline uint64_t dgram_stuck_at(const struct dgram_env *env, const struct dgram_conn *conn,
                                      const struct dgram_packet *packet)
{
    bool large = dgram_packet_size(env, packet) > AQI_DGRAM_LEAST_PACKET;
    if (packet->tries < DGRAM_STUCK_TRIES || packet->first == 0 || !large) return AQI_DGRAM_NEVER;
    return aqi_max(packet->first, conn->judged) + DGRAM_STUCK_AFTER;
}

static inline size_t dgram_in_flight(const struct dgram_conn *conn)
{
    return conn->tx[AQI_DGRAM_COMMAND].in_flight + conn->tx[AQI_DGRAM_DATA].in_flight;
}

/* queue.c: packets being filled. Pointers are NULL if out of memory. */
/* Make room for a record of `len` bytes of `lane`, in an open packet or a new one. */
unsigned char *dgram_queue_record(struct dgram_env *env, struct dgram_peer *peer, unsigned lane,
                                  size_t len, struct dgram_packet **packet);
/*
 * Queue a copy of `record` and of the bytes that follow it, which make up the rest of its length.
 * Returns false if out of memory.
 */
bool dgram_queue_copy(struct dgram_env *env, struct dgram_peer *peer, unsigned lane,
                      const struct dgram_record *record, const void *bytes,
                      struct dgram_packet **packet);
/* Queue an empty packet: a refusal first, others last. Extend one by `len` bytes, from a multiple
 * of 16 on. */
struct dgram_packet *dgram_queue_packet(struct dgram_env *env, struct dgram_conn *conn,
                                        enum aqi_dgram_channel channel, unsigned lane);
unsigned char *dgram_queue_extend(struct dgram_conn *conn, struct dgram_packet *packet, size_t len);
/* Queue a packet of its own on DATA: `record`, and `len` bytes whose address is returned. */
unsigned char *dgram_queue_fragment(struct dgram_env *env, struct dgram_peer *peer, unsigned lane,
                                    const struct dgram_record *record, size_t len,
                                    struct dgram_packet **packet);
/* Bytes of a packet on this channel that head and records may take. */
size_t dgram_capacity(const struct dgram_env *env, const struct dgram_conn *conn,
                      enum aqi_dgram_channel channel);
/*
 * Bytes of the next piece for a packet with this room; `left` of `all` bytes are left. A transfer
 * that fits in a burst has equal pieces: no other packet could follow a short one in it.
 */
static inline size_t dgram_next_piece(size_t all, size_t left, size_t room)
{
    size_t most = room & ~(size_t)15, pieces = (left + most - 1) / most;
    if (all > AQI_DGRAM_BURST || pieces <= 1) return aqi_min(left, most);
    return dgram_round16((left + pieces - 1) / pieces);
}
struct dgram_packet *dgram_packet_new(struct dgram_env *env, enum aqi_dgram_channel channel,
                                      bool with_frame);
void dgram_packet_free(struct dgram_env *env, struct dgram_packet *packet);
void dgram_list_append(struct dgram_list *list, struct dgram_packet *packet);
void dgram_list_prepend(struct dgram_list *list, struct dgram_packet *packet);
void dgram_list_remove(struct dgram_list *list, struct dgram_packet *packet);

/* transmit.c: send all that may leave now, but nothing before `wait`. Returns false if the port has
 * no room. */
bool dgram_transmit(struct dgram_env *env, struct dgram_peer *peer, uint64_t wait);
/* Send `frame`, whose first 32 bytes are for the head, as a packet without a number. */
bool dgram_transmit_loose(struct dgram_env *env, struct dgram_peer *peer, unsigned char *frame,
                          size_t len);

/* ack.c: which packets have arrived at the peer, and which are lost. */
/* The news in one acknowledgement: from the head of a packet, and perhaps from records. */
struct dgram_news {
    size_t bytes;
    uint64_t sent;                 /* of packets sent once: when the latest was sent; 0: none */
    uint64_t first;                /* and when the first was */
    uint64_t again;                /* of retransmitted ones: when the latest was; 0: none */
    uint64_t since;                /* and when that packet was first sent */
    bool old, repeated;            /* DGRAM_OLD, DGRAM_REPEATED */
    bool gaps[AQI_DGRAM_CHANNELS]; /* it has records of this channel */
    uint16_t order[AQI_DGRAM_CHANNELS]; /* of them: the latest transmission received */
};
bool dgram_ack_head(struct dgram_env *env, struct dgram_peer *peer, const struct dgram_head *head,
                    struct dgram_news *news);
bool dgram_ack_sack(struct dgram_env *env, struct dgram_peer *peer,
                    const struct dgram_record *record, const unsigned char *words, size_t nbytes,
                    struct dgram_news *news);
/* Act on an acknowledgement, once all of it has been read. */
void dgram_ack_done(struct dgram_env *env, struct dgram_peer *peer, const struct dgram_news *news);
/* Count packets as lost that were overtaken long enough ago. Returns false if none was due. */
bool dgram_ack_overdue(struct dgram_env *env, struct dgram_peer *peer);
/* Nothing has been acknowledged in time: retransmit the oldest packet of each channel, and request
 * an acknowledgement, which shows which of the others have arrived. */
void dgram_ack_timeout(struct dgram_env *env, struct dgram_peer *peer);
/*
 * A duplicate that requests an acknowledgement has arrived. The peer sent it after it had processed
 * all that had arrived there, and acknowledges that. So if the oldest packet of a channel should
 * have arrived by then, it is lost: perhaps it is the response that the peer probes for.
 */
void dgram_ack_asked(struct dgram_env *env, struct dgram_peer *peer);
/* Count as lost everything in flight that is larger than the path turned out to carry. */
void dgram_ack_too_large(const struct dgram_env *env, struct dgram_conn *conn);
/* Count as lost everything that conn->recovered shows to be lost. */
void dgram_ack_recovered(struct dgram_conn *conn);
void dgram_ack_set_probe(struct dgram_env *env, struct dgram_conn *conn);
/* Our own acknowledgements. */
/* Set conn->gap if something is missing, or must not be acknowledged yet. */
void dgram_ack_find_gap(struct dgram_conn *conn);
uint32_t dgram_acked_until(const struct dgram_conn *conn, unsigned channel);

/* ops.c: transfers. */
struct dgram_op *dgram_op_new(struct dgram_env *env, struct dgram_peer *peer,
                              const struct dgram_op *init);
struct dgram_op *dgram_op_find(const struct dgram_env *env, uint32_t id);
/* List an operation that has pieces to send. */
void dgram_op_join_bulk(struct dgram_conn *conn, struct dgram_op *op);
void dgram_op_fail(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op,
                   aq_status status);
/* Make a packet of the next piece. Returns NULL if there is none, or no memory. */
struct dgram_packet *dgram_op_piece(struct dgram_env *env, struct dgram_peer *peer);
/* One of its packets was acknowledged. */
void dgram_op_acked(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op);
void dgram_op_settle(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op);
/* Add an operation to the list of a packet; it can be in only one such list. */
void dgram_op_join_packet(struct dgram_op *op, struct dgram_packet *packet);
/* Free an operation that was not begun, or that is complete. */
void dgram_op_free(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op);
/* Reply that operation `id` of the peer is refused. Returns false if out of memory. */
bool dgram_refuse(struct dgram_env *env, struct dgram_peer *peer, uint32_t id);
/* Begin a put or a Long, or a get; `len + head_len` is not 0. AQ_AGAIN: out of memory. */
aq_status dgram_op_put(struct dgram_env *env, struct dgram_peer *peer, const struct dgram_op *init,
                       bool reply, const void *head, size_t head_len);
aq_status dgram_op_get(struct dgram_env *env, struct dgram_peer *peer, const struct dgram_op *init);
/* Refuse a peer's get because the memory that it reads is being released. */
void dgram_op_abort(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op);

/* silence.c */
/* Begin to wait for a response. */
void dgram_silence_begin(struct dgram_env *env, struct dgram_conn *conn);
/* No response yet: count the time, warn the user. */
void dgram_silence_look(struct dgram_env *env, struct dgram_peer *peer);
/* Whether a peer was never reached within config.reach_within. */
bool dgram_silence_too_long(const struct dgram_env *env, const struct dgram_peer *peer);

#endif
