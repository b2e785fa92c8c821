/*
 * A connection, for the files that make its protocol: operations, packets on their way out,
 * acknowledgements. They know no engine: what they need of it is struct dgram_env.
 */
#ifndef AQI_DGRAM_CONN_H
#define AQI_DGRAM_CONN_H

#include "base/pool.h"
#include "dgram/dgram.h"
#include "dgram/hotel.h"
#include "dgram/pace.h"
#include "dgram/packet.h"
#include "dgram/search.h"
#include "dgram/seen.h"

struct dgram_peer;
struct dgram_conn;

enum dgram_op_kind {
    DGRAM_OP_PUT,
    DGRAM_OP_LONG, /* a put whose head travels as DGRAM_LONG */
    DGRAM_OP_GET,
    DGRAM_OP_MESSAGE, /* a message whose acknowledgement is an event; in its packets as a put is */
    DGRAM_OP_SERVE    /* the answer to a peer's get */
};

/* A transfer. In the list of its connection from begin to end. */
struct dgram_op {
    struct dgram_op *next, **link; /* of the connection */
    struct dgram_op *next_bulk,
        **bulk_link;                 /* of those that have pieces to send; NULL: not there */
    struct dgram_op *next_in_packet; /* of the small puts that share a packet, */
    struct dgram_op *next_head;      /* of the Longs whose heads do */
    uint8_t kind;
    bool copied;      /* the source: `local` was called */
    aq_status status; /* the first failure */
    uint32_t peer;
    uint32_t id; /* SERVE: the peer's */
    unsigned char *local;
    uint64_t addr; /* of the first byte at the peer. SERVE: offset in its operation */
    size_t len;
    size_t issued;   /* bytes in packets made */
    size_t finished; /* GET: bytes that have come */
    uint32_t flying; /* packets made and not acknowledged, the one with the head included */
    void *user;
};

/* Index and generation of an operation make its id. */
struct dgram_slot {
    struct dgram_op *op; /* NULL: free */
    uint16_t generation;
    uint32_t next_free;
};

/* Lanes: classes of records that share no packet. Requests may find no room, puts that are refused
 * stay under way until the refusal is acknowledged, refusals get through. */
enum { DGRAM_REQUEST_LANE, DGRAM_OTHER_LANE, DGRAM_REFUSAL_LANE, DGRAM_LANES };

/* A packet from its making to its acknowledgement. */
struct dgram_packet {
    struct dgram_packet *next, *prev; /* of the queue, the flying or the lost */
    struct dgram_op *ops, *heads;     /* small puts and heads of Longs in it */
    struct dgram_op *op;              /* whose bytes follow the frame */
    const unsigned char *bulk;
    uint32_t bulk_len;
    uint32_t len;    /* bytes of the frame; the first 32 are for the head */
    uint32_t sliced; /* bytes that have left in slices, until all have */
    uint32_t seq;
    uint32_t order; /* of its latest transmission */
    uint64_t sent;  /* 0: in a call without a time, see transmit_time; */
    uint64_t first; /* likewise, for the first time; if lost before that was known, for the next */
    uint8_t channel, lane, tries;
    bool flying, asks;
    bool overtaken;  /* counted as lost because later packets have overtaken it */
    uint8_t release; /* 1 + index in dgram_conn.held of what its arrival releases; 0: nothing */
    unsigned char *frame;
    alignas(16) unsigned char small[sizeof(struct dgram_head) + sizeof(struct dgram_record)];
};

struct dgram_list {
    struct dgram_packet *first, *last;
};

/* The sending side of a channel. */
struct dgram_tx {
    uint32_t base, next;        /* numbers: the oldest that is not acknowledged, the next to give */
    uint32_t order;             /* transmissions so far */
    uint32_t ring_size;         /* a power of two, or 0 */
    struct dgram_packet **ring; /* by number; NULL: acknowledged */
    struct dgram_list flying;   /* in order of their latest transmission */
    struct dgram_list queue;    /* never sent */
    struct dgram_packet *open[DGRAM_LANES]; /* of the queue, with room for more */
    size_t in_flight;                       /* bytes, */
    uint32_t flights;                       /* in so many packets */
    uint64_t probed;                        /* when time showed a loss last */
    uint32_t latest;                        /* transmission that has arrived behind a gap; */
    uint64_t overdue_at;                    /* when one before it is lost; AQI_DGRAM_NEVER */
    uint64_t late;                          /* since it left so many ns before */
};

struct dgram_rx {
    struct dgram_seen seen;
    uint16_t order; /* of the latest transmission that has come */
    bool ordered;
};

/* A message that comes in pieces, or a Long whose bytes do. */
struct dgram_incoming {
    struct dgram_incoming *next;
    uint32_t id;
    bool is_long, request, refused;
    size_t total, landed; /* total of a Long: SIZE_MAX until its head is there */
    unsigned char *message;
    size_t message_len;
};

/* A packet of the peer that comes in slices, since the path no longer carries it: an image of it.
 */
struct dgram_slices {
    uint8_t channel;
    uint32_t seq;
    size_t total, missing; /* bytes, multiples of 16 of them */
    uint64_t have[AQI_DGRAM_MOST_PACKET / 16 / 64];
    unsigned char *bytes; /* NULL: it is complete, and was taken */
};
static_assert(AQI_DGRAM_MOST_PACKET % (16 * 64) == 0, "a bit for each");

enum {
    DGRAM_HELD = 8,
    DGRAM_INCOMING_LISTS = 16,
    DGRAM_REORDER = 3 /* transmissions that may be overtaken before they count as lost, at first */
};

enum dgram_state { DGRAM_IDLE, DGRAM_CONNECTING, DGRAM_UP, DGRAM_CLOSING, DGRAM_LOST };

/* State of a peer that exists only while there is a connection, or one is being made. */
struct dgram_conn {
    uint64_t cookie_in, cookie_out;
    uint64_t nonces[2]; /* of the side that began it, of the other */
    uint8_t mac_key[16];
    size_t packet;        /* bytes that the path carries */
    uint32_t message_ids; /* of fragmented messages */
    uint32_t casts;       /* packets without numbers that have messages */
    struct dgram_tx tx[AQI_DGRAM_CHANNELS];
    struct dgram_rx rx[AQI_DGRAM_CHANNELS];
    struct dgram_list lost; /* to be sent again */
    struct dgram_op *ops;   /* all */
    struct dgram_op *bulk, **bulk_end;
    struct dgram_pace pace;
    size_t room;                 /* bytes of DATA under way that the peer takes */
    size_t queued[DGRAM_LANES];  /* bytes in the queues */
    uint32_t own_ops;            /* of them those that are not SERVE */
    bool own, busy;              /* counted in struct aqi_dgram */
    bool proved;                 /* the peer has sent something over it */
    bool accepted;               /* we have said ACCEPT, */
    uint64_t accepted_at;        /* lately at */
    bool agreed;                 /* the path does not carry the largest packet */
    struct dgram_search search;  /* for what it does carry, by the side that begins the connection;
                                  * and later by a side whose packets do not arrive any more */
    uint32_t searches;           /* shrink.c: how many of the latter, */
    bool searching;              /* and whether there is one */
    struct dgram_slices *slices; /* NULL: no packet has come in slices */
    struct dgram_incoming *incoming[DGRAM_INCOMING_LISTS];
    unsigned incoming_count;
    /* Numbers that are not acknowledged although they have come, until the refusal has arrived. */
    struct {
        uint32_t seq;
        uint8_t channel;
        bool taken;
    } held[DGRAM_HELD];
    unsigned holding; /* of them */
    unsigned reorder; /* transmissions that the path may let overtake another */

    unsigned unacked; /* packets since the last acknowledgement */
    bool ack_now;
    bool asks;                          /* for an answer, with the next acknowledgement */
    bool repeated;                      /* something has come twice since then */
    uint8_t tails;                      /* probes since something was acknowledged */
    bool doubt_of_tail;                 /* it was such a probe which may have been needless: */
    uint64_t doubt, doubt_until;        /* ns that its answer took then; 0: there is none */
    bool gap;                           /* something is missing: acknowledge selectively */
    bool turn;                          /* of bulk, on DATA; else of messages */
    bool untimed;                       /* some packets in flight have no known time of departure */
    uint16_t delay;                     /* us: how late its latest acknowledgement was */
    unsigned silences;                  /* timeouts in a row */
    uint8_t backoff;                    /* doublings of the timeout, until one is measured */
    uint8_t probes;                     /* packets to send again for them, whatever the window */
    uint64_t recovered;                 /* when what ended timeouts had left; 0: nothing did */
    uint64_t newest;                    /* arrival; */
    bool unsure;                        /* and when others came is not known */
    uint64_t heard;                     /* the last packet of any kind */
    uint64_t owed;                      /* the first timeout since */
    uint64_t asked;                     /* for a sign of life */
    uint32_t moves;                     /* questions for another way: sent; */
    uint32_t moved_back, moved_in;      /* the latest answered; the latest of the peer's */
    uint64_t looked, waited;            /* silence.c: at `looked` nothing had come for `waited` */
    uint64_t at_once_again;             /* when more may leave at once (config.at_once), */
    uint32_t at_once, at_once_sent;     /* how many still may; packets sent before */
    uint64_t used;                      /* the last that was not an acknowledgement, either way */
    uint64_t ack_at, probe_at, pace_at; /* timers; AQI_DGRAM_NEVER */
    uint64_t shrink_at;                 /* likewise: does the path still carry large packets? */
    uint64_t judged;                    /* when that was answered last */
    uint64_t active_until;              /* counts among those that share config.room; 0: does not */
    uint64_t sent_count, resent_count, received_count, duplicate_count;
};

struct dgram_peer {
    uint32_t id;
    uint8_t state;
    bool located;    /* addr is there */
    bool ready;      /* in dgram.ready */
    bool met;        /* epoch is there */
    bool small_told; /* that the path does not carry the largest packet */
    bool reached;    /* there was a connection */
    bool silence_told;
    uint8_t tries;   /* of the handshake */
    uint8_t way;     /* to it that was taken last, or is to be tried first */
    uint16_t packet; /* bytes of the largest that both handle, and the path */
    struct aqi_dgram_addr addr;
    uint64_t epoch;       /* of its process */
    uint64_t last_nonce;  /* the highest with which it has begun a connection */
    uint64_t nonces[2];   /* of the connection that we begin */
    uint64_t hello_at;    /* when the handshake goes on */
    uint64_t last_cookie; /* of its packets over the latest connection that has ended; 0: none */
    uint64_t reset_at[2]; /* no RESET before: for other cookies; for that one */
    uint64_t waits;       /* when it was refused a place in the pool; 0: it was not */
    uint32_t held;        /* places of the pool */
    struct dgram_conn *conn;
    struct dgram_guest guest; /* the earliest of its timers */
    struct dgram_peer *next_ready;
};
static_assert(sizeof(struct dgram_peer) <= 256, "a peer not yet talked to is cheap");

/* The part of an engine that its connections share. */
struct dgram_env {
    struct aqi_dgram_config config;
    struct aqi_dgram_hooks hooks;
    uint64_t now;
    uint64_t away;    /* what has come since the latest progress may have lain here so long */
    uint64_t arrived; /* when the packet being served arrived; 0: not known */
    bool told;        /* aqi_dgram_tell, here or anywhere */
    bool timed;       /* `now` is the time, since we are in progress or input */
    unsigned actives; /* peers that send us DATA */
    struct dgram_peer *ready, **ready_end;
    struct dgram_slot *ops;
    uint32_t ops_size, ops_free; /* the first free one; ops_size: none */
    struct aqi_pool packets, frames[AQI_DGRAM_CHANNELS], op_pool;
    unsigned char *gathered; /* the pieces of a burst, while it is sent */
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

/* Bytes of a packet that the path has to carry. */
static inline size_t dgram_packet_size(const struct dgram_env *env,
                                       const struct dgram_packet *packet)
{
    return packet->len + packet->bulk_len + (env->config.authenticate ? DGRAM_TAG : 0);
}

/* When the path may have become too small for a packet that was sent again and again. */
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

/* queue.c: packets being filled. NULL: no memory. */
/* Room for a record of `len` bytes of `lane`, in a packet that is open or a new one. */
unsigned char *dgram_queue_record(struct dgram_env *env, struct dgram_peer *peer, unsigned lane,
                                  size_t len, struct dgram_packet **packet);
/* An empty packet of its own at the end of the queue; and `len` more bytes at the end of one, from
 * a multiple of 16 on. */
struct dgram_packet *dgram_queue_packet(struct dgram_env *env, struct dgram_conn *conn,
                                        enum aqi_dgram_channel channel, unsigned lane);
unsigned char *dgram_queue_extend(struct dgram_conn *conn, struct dgram_packet *packet, size_t len);
/* A packet with a record of 16 bytes and `len` bytes behind it, of DATA and of its own. */
unsigned char *dgram_queue_fragment(struct dgram_env *env, struct dgram_peer *peer, unsigned lane,
                                    const struct dgram_record *record, size_t len,
                                    struct dgram_packet **packet);
/* Bytes of a packet on this channel that head and records may take. */
size_t dgram_capacity(const struct dgram_env *env, const struct dgram_conn *conn,
                      enum aqi_dgram_channel channel);
/*
 * Bytes of the next piece in packets with this room; `left` of `all` bytes are left. What fits in a
 * burst has equal pieces: behind a short one, no other packet would leave in it.
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

/* transmit.c: send what may leave now, and nothing before `wait`. False: the port has no room. */
bool dgram_transmit(struct dgram_env *env, struct dgram_peer *peer, uint64_t wait);
/* Send a packet without a number, from `frame`, whose first 32 bytes are for the head. */
bool dgram_transmit_loose(struct dgram_env *env, struct dgram_peer *peer, unsigned char *frame,
                          size_t len);

/* ack.c: what has arrived over there, what is lost. */
/* The contents of one acknowledgement, in the head of a packet and perhaps in records. */
struct dgram_news {
    size_t bytes;
    uint64_t sent;                      /* when the latest of those sent once left; 0: none */
    uint64_t first;                     /* and the first, if there is one */
    uint64_t again;                     /* likewise of those sent again, */
    uint64_t since;                     /* which left first then */
    bool old, repeated;                 /* DGRAM_OLD, DGRAM_REPEATED */
    bool gaps[AQI_DGRAM_CHANNELS];      /* it has records of this channel, */
    uint16_t order[AQI_DGRAM_CHANNELS]; /* and this was the latest transmission that has come */
};
bool dgram_ack_head(struct dgram_env *env, struct dgram_peer *peer, const struct dgram_head *head,
                    struct dgram_news *news);
bool dgram_ack_sack(struct dgram_env *env, struct dgram_peer *peer,
                    const struct dgram_record *record, const unsigned char *words, size_t nbytes,
                    struct dgram_news *news);
/* All of it has been read. */
void dgram_ack_done(struct dgram_env *env, struct dgram_peer *peer, const struct dgram_news *news);
/* Find what others have overtaken long enough ago. False: there was nothing to look at yet. */
bool dgram_ack_overdue(struct dgram_env *env, struct dgram_peer *peer);
/* Nothing has been acknowledged for long: send the oldest of each channel again, and ask for an
 * answer. What has become of the others the answer says. */
void dgram_ack_timeout(struct dgram_env *env, struct dgram_peer *peer);
/*
 * A probe has come of a packet that had come before. The peer sent it after it had taken what had
 * arrived there, and acknowledges all of that. So if the oldest packet of a channel should have
 * arrived by then, it is lost: perhaps the answer for which the peer probes.
 */
void dgram_ack_asked(struct dgram_env *env, struct dgram_peer *peer);
/* Count as lost everything in flight that is larger than the path carries, as turned out. */
void dgram_ack_too_large(const struct dgram_env *env, struct dgram_conn *conn);
/* Count as lost everything that conn->recovered shows to be lost. */
void dgram_ack_recovered(struct dgram_conn *conn);
void dgram_ack_set_probe(struct dgram_env *env, struct dgram_conn *conn);
/* Our acknowledgements of a channel. */
/* Find out whether something is missing, or must not be acknowledged yet. */
void dgram_ack_find_gap(struct dgram_conn *conn);
uint32_t dgram_acked_until(const struct dgram_conn *conn, unsigned channel);

/* ops.c: transfers. */
struct dgram_op *dgram_op_new(struct dgram_env *env, struct dgram_peer *peer,
                              const struct dgram_op *init);
struct dgram_op *dgram_op_find(const struct dgram_env *env, uint32_t id);
/* It has pieces to send. */
void dgram_op_join_bulk(struct dgram_conn *conn, struct dgram_op *op);
void dgram_op_fail(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op,
                   aq_status status);
/* The next piece as a packet; NULL: none, or no memory. */
struct dgram_packet *dgram_op_piece(struct dgram_env *env, struct dgram_peer *peer);
/* One of its packets is acknowledged. */
void dgram_op_acked(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op);
void dgram_op_settle(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op);
/* It has a part in this packet, which holds nothing else if it is one of several. */
void dgram_op_join_packet(struct dgram_op *op, struct dgram_packet *packet);
/* It was not begun after all. */
void dgram_op_cancel(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op);
/* Reply that operation `id` of the peer is refused. False: no memory. */
bool dgram_refuse(struct dgram_env *env, struct dgram_peer *peer, uint32_t id);
/* Begin a put or a Long, or a get; `len + head_len` is not 0. AQ_AGAIN: no memory. */
aq_status dgram_op_put(struct dgram_env *env, struct dgram_peer *peer, const struct dgram_op *init,
                       bool reply, const void *head, size_t head_len);
aq_status dgram_op_get(struct dgram_env *env, struct dgram_peer *peer, const struct dgram_op *init);
/* The memory that a peer's get reads goes away: the operation is refused. */
void dgram_op_abort(struct dgram_env *env, struct dgram_peer *peer, struct dgram_op *op);

/* silence.c */
/* An answer is due from now on. */
void dgram_silence_begin(struct dgram_env *env, struct dgram_conn *conn);
/* It has not come yet. */
void dgram_silence_look(struct dgram_env *env, struct dgram_peer *peer);
/* Whether that has lasted longer than a peer that was never reached may take. */
bool dgram_silence_too_long(const struct dgram_env *env, const struct dgram_peer *peer);

#endif
