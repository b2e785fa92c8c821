/* Shared by the files of toy: packets, streams, peers, operations. */
#ifndef AQT_CONTRACT_TOY_IMPL_H
#define AQT_CONTRACT_TOY_IMPL_H

#include "base/spin.h"
#include "toy.h"

enum {
    TOY_RANKS = 8,
    TOY_WINDOW = 16,  /* packets of a stream under way: the send queue */
    TOY_PIECE = 1024, /* payload bytes of a packet */
    TOY_SMALL = 640,  /* of a Medium to and from odd ids */
    TOY_BOUNCE = 256, /* larger puts and gets need registered local memory */
    TOY_REGIONS = 8,
    TOY_RAILS = 2,
    TOY_OPS = 16,
    TOY_POOL = 24, /* requests that wait here, of all peers together */
    TOY_BATCH = 32
};

/* In ns. */
enum {
    TOY_ACK_DELAY = 20000,
    TOY_RESEND = 400000,
    TOY_RESEND_MOST = 6400000,
    TOY_LINGER = 2000000
};

/* Each has sequence numbers, a window and acknowledgements of its own. */
enum toy_stream { TOY_REQUESTS, TOY_REPLIES, TOY_BULK, TOY_STREAMS };

enum toy_type { TOY_SYN, TOY_CHALLENGE, TOY_ACCEPT, TOY_DATA, TOY_ACK };
enum toy_what { TOY_AM, TOY_PUT, TOY_GET, TOY_DONE, TOY_READ };

struct toy_key {
    uint32_t region, secret;
};

/* The beginning of each data packet. */
struct toy_head {
    alignas(16) uint8_t what;
    uint8_t rail;
    int32_t status;          /* DONE */
    uint32_t op, generation; /* of the initiator */
    uint32_t len;
    uint64_t addr;   /* PUT, GET */
    uint64_t offset; /* GET, READ: in the operation */
    struct toy_key key;
};

struct toy_packet {
    struct toy_packet *next;
    uint64_t due;
    uint64_t from_cookie, to_cookie, token;
    uint32_t from, seq, seen; /* ACK: all before `seq`, and those after it in `seen` */
    uint8_t type, stream;
    size_t len;
    alignas(16) unsigned char bytes[];
};

struct toy_tx {
    uint32_t base, next;
    struct {
        struct toy_packet *packet; /* NULL: acknowledged out of order */
        uint64_t sent, pause;      /* sent 0: timed from the next progress on */
    } slot[TOY_WINDOW];
};

struct toy_rx {
    uint32_t base, seen;
    unsigned unacked;
    uint64_t ack_at; /* 0: nothing to acknowledge */
};

enum toy_state { TOY_IDLE, TOY_CONNECTING, TOY_UP, TOY_DOWN };

struct toy_peer {
    struct aqi_peer peer;
    enum toy_state state;
    bool known; /* its address */
    uint32_t slot;
    uint64_t cookie, token, syn_sent;
    struct toy_tx tx[TOY_STREAMS];
    struct toy_rx rx[TOY_STREAMS];
    unsigned held;                             /* places of the pool */
    uint64_t waits;                            /* when it was first refused one; 0: it was not */
    struct toy_packet *answers, **last_answer; /* DONE and READ that wait for the stream */
};

/* The keys of a region that peers get, one for each rail. */
struct toy_keys {
    uint32_t magic;
    struct toy_key rail[TOY_RAILS];
};
#define TOY_KEYS 0x4b594f54u /* "TOYK" */

struct toy_op {
    uint8_t what; /* TOY_PUT, TOY_GET; TOY_AM: free */
    uint32_t generation;
    struct toy_peer *peer;
    struct toy_keys keys;
    uint64_t addr;
    unsigned char *local;
    size_t len, issued, finished;
    int32_t status;
    struct aqi_comp *comp;
};

struct toy_mem {
    struct aqi_mem mem;
    struct toy_keys keys;
};

struct toy_rmem {
    struct aqi_rmem rmem;
    struct toy_keys keys;
};

struct toy_tp {
    struct aqi_tp tp;
    struct aqi_tp_params params;
    struct aqi_spin lock; /* protects everything below; not held while handlers run */
    uint32_t slot;        /* in the network */
    uint64_t cookie, now, heard;
    struct toy_peer *peers[TOY_RANKS]; /* by id */
    struct toy_op ops[TOY_OPS];
    struct toy_mem *regions[TOY_REGIONS];
    uint32_t secrets;
    struct toy_packet *held, **last_held; /* requests in the pool */
    unsigned pool, waiting;
    uint64_t turn;
    int wake;
    /* Owned by the network, under its lock. */
    struct toy_packet *inbox;
    bool armed;
};

/* toy_net.c: the network. Sending takes a copy. */
aq_status toy_net_join(struct toy_tp *toy);
void toy_net_leave(struct toy_tp *toy);
void toy_net_send(struct toy_tp *toy, const struct toy_peer *peer, const struct toy_packet *packet);
struct toy_packet *toy_net_take(struct toy_tp *toy); /* one that is due, or NULL */
uint64_t toy_net_due(struct toy_tp *toy);            /* when the next one is due */
bool toy_net_arm(struct toy_tp *toy, bool on);       /* false: something is due */
struct toy_packet *toy_packet_new(size_t len);
uint64_t toy_random(void);

/* toy_stream.c: reliable streams of a peer; the lock is held. */
bool toy_stream_has_room(const struct toy_peer *peer, enum toy_stream stream);
void toy_stream_send(struct toy_tp *toy, struct toy_peer *peer, enum toy_stream stream,
                     const struct toy_head *head, const void *body, size_t len);
/* Whether the packet is new. toy_stream_accept marks it as received. */
bool toy_stream_is_new(struct toy_peer *peer, const struct toy_packet *packet);
void toy_stream_accept(struct toy_tp *toy, struct toy_peer *peer, const struct toy_packet *packet);
unsigned toy_stream_acked(struct toy_peer *peer, const struct toy_packet *ack);
void toy_stream_timers(struct toy_tp *toy, struct toy_peer *peer);
uint64_t toy_stream_deadline(const struct toy_peer *peer);
bool toy_stream_empty(const struct toy_peer *peer);
void toy_stream_clear(struct toy_peer *peer);

/* toy_rma.c: puts and gets; the lock is held. */
void toy_rma_push(struct toy_tp *toy);
void toy_rma_serve(struct toy_tp *toy, struct toy_peer *peer, const struct toy_head *head,
                   const void *data);
void toy_rma_answer(struct toy_tp *toy, struct toy_peer *peer, const struct toy_head *head,
                    const void *data);
bool toy_rma_busy(const struct toy_tp *toy, const struct toy_peer *peer);
void toy_rma_fail(struct toy_tp *toy, const struct toy_peer *peer);
aq_status toy_rma_put(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                      uint64_t addr, const void *src, size_t len, const struct aqi_mem *mem,
                      struct aqi_comp *comp);
aq_status toy_rma_get(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                      uint64_t addr, void *dst, size_t len, const struct aqi_mem *mem,
                      struct aqi_comp *comp);
aq_status toy_rma_reg(struct aqi_tp *tp, void *addr, size_t len, struct aqi_mem **mem);
void toy_rma_dereg(struct aqi_tp *tp, struct aqi_mem *mem);
aq_status toy_rma_map(struct aqi_tp *tp, struct aqi_peer *peer, const void *key, size_t key_len,
                      uint64_t addr, size_t len, struct aqi_rmem **rmem);
void toy_rma_unmap(struct aqi_tp *tp, struct aqi_rmem *rmem);

#endif
