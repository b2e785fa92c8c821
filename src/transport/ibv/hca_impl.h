/*
 * Private to ibv. A *rail* is a port of an adapter with its queues. A peer is reached by a *link*
 * on each rail: a reliable connection with its queue pair. Links are set up when a peer is first
 * used, by greetings over unreliable datagrams (hca_greet.c). Messages go over the first link that
 * works; transfers are spread over all that do. If one fails, the others take over (hca_repair.c).
 */
#ifndef AQI_IBV_IMPL_H
#define AQI_IBV_IMPL_H

#include "base/mac.h"
#include "base/settings.h"
#include "base/stats.h"
#include "transport/ibv/hca_verbs.h"
#include "transport/ibv/ibv.h"
#include "transport/layers/credit_gate.h"
#include "transport/rdma/rdma.h"

enum {
    HCA_FRAME = 96,     /* maximum bytes before the payload of a message */
    HCA_GREETINGS = 64, /* receive buffers for greetings, on each rail */
    HCA_GREETINGS_OUT = 16,
    HCA_GRH = 40,       /* bytes before a datagram */
    HCA_POSTS = 8,      /* receive buffers posted together */
    HCA_UNSIGNALED = 16 /* consecutive messages per signaled completion */
};

/* --- addresses ------------------------------------------------------------------------------- */

extern const unsigned char hca_magic[4]; /* of addresses and greetings */

/* The address of a port for peers. */
struct hca_place {
    uint8_t gid[16];
    uint16_t lid;
    uint8_t link_layer, mtu;
    uint32_t qpn, psn;
};

/* Whether the GID of a port maps an IPv4 address. */
static inline bool hca_gid_is_ipv4(const uint8_t gid[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(gid, mapped, sizeof(mapped)) == 0;
}

/* The address of a process: where its greetings go, on each of its rails. */
struct hca_addr {
    unsigned char magic[4];
    uint32_t qkey, rails;
    struct hca_place place[HCA_RAILS];
};

/* The location of a process's rings (hca_ring.c), as its peers need it. */
struct hca_ring_place {
    uint64_t addr; /* 0: there are none */
    uint32_t rkey[HCA_RAILS];
    uint16_t count, depth;
    uint32_t slot;
};

/* --- rails ----------------------------------------------------------------------------------- */

enum { HCA_PORTS = 16 }; /* that hca_ports_find finds, at most */

/* A port that the filter selects. */
struct hca_port {
    char device[64];
    uint8_t number;
    bool active;
    bool near;     /* close to the processors of this process, or closeness is irrelevant */
    char why[128]; /* why it is not usable */
};

struct hca_rail {
    struct ibv_context *context;
    struct ibv_device_attr device;
    struct ibv_port_attr attr;
    uint8_t port;
    int gid_index, gid_rank;
    struct hca_place place;
    uint64_t back; /* when to try to use it again, after an event; 0: no event */
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    uint32_t max_inline;
    char name[72];                          /* "mlx5_0:1" */
    struct aqi_rdma_buf *repost[HCA_POSTS]; /* freed by messages, to be reposted */
    uint32_t repost_count;
    /* Completions polled; those from `found_next` to `found_end` have not been handled yet. */
    struct ibv_wc found[AQI_RDMA_BATCH], *found_next, *found_end;
};

/* --- rings ----------------------------------------------------------------------------------- */

/* The rings of this process, and the blocks of all peers. */
struct hca_rings {
    const struct aqi_rdma_chunk *chunk; /* NULL: there are none */
    unsigned char *slots;
    uint32_t count, depth, slot; /* number of rings; slots of each; bytes of a slot */
    uint32_t open;               /* rings lent and not yet returned */
    uint32_t heard;              /* messages received in this cycle */
    struct hca_peer **owner;
};

/* The ring lent to a peer. */
struct hca_ring_in {
    uint16_t ring; /* its number, from 1; 0: none */
    bool due;      /* the peer must be notified */
    bool closing;  /* it is being taken back: */
    bool probing;  /* the peer's count is being read, */
    bool probed;   /* and has been read: */
    uint32_t written;
    uint32_t consumed, reported; /* messages consumed; consumed as reported to the peer */
    uint32_t heard;              /* messages received recently, in the ring or not */
};

/* The rings of a peer, and the one it lends to this process, if any. */
struct hca_ring_out {
    struct hca_ring_place place;
    const _Atomic uint64_t *granted; /* the upper half: the ring lent to us; NULL: there are none */
    uint32_t head, freed;            /* messages written; messages consumed by the peer */
};

/* --- peers ----------------------------------------------------------------------------------- */

enum hca_state { HCA_IDLE, HCA_CALLING, HCA_UP, HCA_DOWN };

/*
 * An entry of a send queue, in order: a message, a piece of an operation, or a whole transfer,
 * which goes `straight`, without an operation. Without `buf` and `op`, its completion merely shows
 * that everything before it is complete.
 */
struct hca_sent {
    union {
        struct aqi_rdma_piece piece; /* a message has only its buffer */
        struct {                     /* for a straight transfer */
            struct aqi_comp *comp;
            uint64_t remote;
            unsigned char *local;
            const struct aqi_rdma_mem *here; /* NULL: it was sent inline */
            const struct hca_rmem *there;
            size_t len;
            unsigned char copy[AQI_PUT_COPIED]; /* the data of a short put */
        };
    };
    uint32_t number; /* of a message to this peer */
    union {
        struct {
            bool refused : 1;    /* by the peer's adapter */
            bool unsignaled : 1; /* a later entry shows that it is complete */
            bool word : 1;       /* of a ring: a write that notifies the peer, ... */
            bool probe : 1;      /* ... or a read of its count of messages */
            bool straight : 1, get : 1;
        };
        uint8_t is; /* all these */
    };
};
static_assert(sizeof(struct hca_sent) == AQI_CACHE_LINE, "in two lines at most");

static inline bool hca_sent_is_piece(const struct hca_sent *sent)
{
    return sent->straight || sent->piece.op != NULL;
}

struct hca_link {
    struct ibv_qp *qp;
    uint64_t wr;  /* the ID of its work requests, without the position */
    uint32_t qpn; /* number of the queue pair, as in completions; 0: there is none */
    uint32_t max_inline;
    unsigned rail;
    struct hca_sent *sent;
    uint32_t head, tail; /* of `sent`, modulo its size */
    uint32_t unsignaled; /* newest entries, whose completion no signaled entry will show */
    uint32_t pieces;     /* pieces of transfers in the queue */
    /*
     * State of hca_repair_look: the last position of `tail`, how many times it stalled for too
     * long, and since when it has been stalled (0: nothing was in flight).
     */
    uint32_t last_tail, stalls;
    uint64_t since;
};

struct hca_peer {
    struct aqi_rdma_peer rdma;
    enum hca_state state;
    bool known;                  /* its address */
    uint64_t epoch;              /* of the process; 0: unknown */
    bool connected;              /* the queue pairs are connected to those of the peer */
    bool broken;                 /* it must be reconnected */
    uint32_t failed;             /* rails that must not be used, as bits */
    uint32_t used;               /* rails with a working link, as bits */
    unsigned first;              /* the first of these, which carries messages */
    uint32_t posted;             /* rails with buffers for its requests, as bits */
    uint32_t awaited;            /* maximum number of expected replies */
    uint32_t replies[HCA_RAILS]; /* buffers posted for replies */
    struct hca_link *next;       /* for the next piece */
    struct hca_addr addr;
    struct ibv_ah *ah[HCA_RAILS];
    unsigned greet_rail; /* of the next greeting */
    uint32_t unroutable; /* rails without a route for greetings, as bits */
    uint64_t called, greeted, pause;
    bool doubted;
    bool unreceived; /* a message has failed at its receive buffer once */
    struct hca_link link[HCA_RAILS];
    uint32_t generation, wanted; /* of the queue pairs */
    uint32_t number;             /* of the next message */
    uint32_t received;           /* messages received from it */
    struct hca_ring_in in;
    struct hca_ring_out out;
    uint32_t arrived;       /* our messages that it had received, as reported on reconnection */
    struct hca_sent *again; /* to be reposted to the new queue pairs, before all others */
    uint32_t again_first, again_count;
    struct hca_peer *next_calling, *next_broken;
};

/* A transfer, or the payload of a Long (hca_long.c). */
struct hca_op {
    struct aqi_transfer op;
    const struct aqi_rdma_mem *here; /* AQI_BY_KNOWN */
    const struct hca_rmem *there;
    bool refused;    /* a piece has been rejected once */
    uint32_t number; /* of the header, once posted, when its buffer is no longer ours */
};

/*
 * The key that peers get for memory registered in parts of 1 << `shift` bytes: for each part, a key
 * per rail. No parts: the memory is lent on demand.
 */
enum { HCA_KEYS = 32 };
struct hca_key {
    unsigned char magic[4];
    uint8_t rails, shift;
    uint16_t parts;
    uint32_t rkey[HCA_KEYS];
};

struct hca_rmem {
    struct aqi_rdma_rmem rdma;
    struct hca_key key;
};

/* --- the transport --------------------------------------------------------------------------- */

struct hca_greeter {
    struct ibv_qp *qp[HCA_RAILS];
    const struct aqi_rdma_chunk *chunk;
    uint32_t qkey, next;
    uint32_t out, out_by[HCA_RAILS]; /* greetings whose sending is not complete */
    struct aqi_mac *mac;
    uint64_t epoch;
    struct hca_peer *calling;
};

struct hca_tp {
    struct aqi_rdma rdma;
    struct hca_rail rail[HCA_RAILS];
    unsigned rails;
    uint32_t down;           /* rails reported down by their adapters, as bits */
    uint32_t gone;           /* those whose adapter has failed as a whole: permanently down */
    uint64_t looked;         /* the last check for events that no completion signals */
    uint32_t depth;          /* requests in flight to a peer */
    uint32_t sends;          /* entries of a link's send queue */
    uint32_t mask;           /* of positions in a link's `sent`: a power of two, minus 1 */
    uint32_t room;           /* completions of sends that the queues have room for */
    uint32_t out;            /* completions of sends in flight */
    uint32_t max_unsignaled; /* unsignaled sends in flight: the limit; the number */
    uint32_t unsignaled;
    struct ibv_send_wr post; /* for the next message or transfer, with constant fields preset */
    struct ibv_sge post_piece;
    uint32_t handling; /* requests in receive buffers whose handlers are running */
    struct hca_peer *broken;
    struct hca_greeter greeter;
    struct hca_rings rings;
};

static inline struct hca_peer *hca_peer_at(const struct hca_tp *hca, uint32_t id)
{
    return (struct hca_peer *)hca->rdma.peers[id];
}

static inline struct hca_peer *hca_op_peer(const struct hca_op *op)
{
    return (struct hca_peer *)op->op.peer;
}

static inline struct hca_peer *hca_buf_peer(const struct aqi_rdma_buf *buf)
{
    return (struct hca_peer *)buf->peer;
}

/* NULL: a message. */
static inline struct hca_op *hca_sent_op(const struct hca_sent *sent)
{
    return (struct hca_op *)sent->piece.op;
}

/* The keys of a registration, which the engine and all owners keep as a `void *`: for this process,
 * and for peers. */
static inline uint32_t hca_lkey_of(const void *mr)
{
    return ((const struct ibv_mr *)mr)->lkey;
}

/* 0 if the memory is not registered with this rail, because its adapter is gone. */
static inline uint32_t hca_rkey_of(const void *mr)
{
    return mr != NULL ? ((const struct ibv_mr *)mr)->rkey : 0;
}

static inline uint32_t hca_buf_lkey(const struct aqi_rdma_buf *buf, unsigned rail)
{
    return hca_lkey_of(buf->chunk->mr[rail]);
}

/* The ID of a work request: its kind, and its position. */
enum hca_wr { HCA_WR_RECEIVE, HCA_WR_SEND, HCA_WR_GREETING, HCA_WR_GREETED };
enum { HCA_PLACES = 0xffffff };
static inline uint64_t hca_wr_of_place(const struct hca_link *link, uint32_t place)
{
    return link->wr | (uint32_t)(place << 8);
}

extern const struct aqi_rdma_driver hca_driver; /* hca_driver.c */

/* Initialize the fields that do not depend on adapters. */
static inline void hca_begin(struct hca_tp *hca)
{
    hca->rdma.most = hca_config.bounces;
    hca->rdma.max_long = UINT32_MAX;
    hca->rdma.whole = true;
    hca->post.sg_list = &hca->post_piece;
    hca->post.num_sge = 1;
}

/* Initialize its links. */
static inline void hca_peer_begin(struct hca_peer *peer)
{
    for (unsigned r = 0; r < HCA_RAILS; r++)
        peer->link[r].rail = r;
    peer->next = peer->link;
}

/* The link has a new queue pair: cache the values used for each request. */
static inline void hca_link_begin(const struct hca_tp *hca, struct hca_peer *peer, unsigned rail)
{
    struct hca_link *link = &peer->link[rail];
    link->wr = (uint64_t)peer->rdma.peer.id << 32 | rail << 2 | HCA_WR_SEND;
    link->qpn = link->qp->qp_num;
    link->max_inline = hca->rail[rail].max_inline;
}

static inline struct hca_peer *hca_link_peer(struct hca_link *link)
{
    return (struct hca_peer *)(void *)((char *)(link - link->rail) -
                                       offsetof(struct hca_peer, link));
}

/*
 * The mask for this number of entries: a power of two minus 1, so that positions survive the wrap
 * of the post counter.
 */
static inline uint32_t hca_mask_of(uint32_t sends)
{
    return (uint32_t)aqi_power_of_two_from(sends) - 1;
}

static inline struct hca_sent *hca_link_place(const struct hca_tp *hca, const struct hca_link *link,
                                              uint32_t place)
{
    return &link->sent[place & hca->mask];
}

/* The rails that both this process and the peer have, as bits. */
static inline uint32_t hca_rails_of(const struct hca_tp *hca, const struct hca_peer *peer)
{
    return (1u << aqi_min(hca->rails, peer->addr.rails)) - 1;
}

/* Whether this rail is one of `rails`, as bits. */
static inline bool hca_has_rail(uint32_t rails, unsigned rail)
{
    return (rails >> rail & 1) != 0;
}

/* Buffers for the control messages of a peer. */
static inline uint32_t hca_control_buffers(const struct hca_tp *hca)
{
    return hca->rdma.lending.on ? AQI_LENDING_BUFFERS : 0;
}

/* hca.c */
size_t hca_peer_memory(const struct hca_tp *hca);

/*
 * hca_advice.c: reasons that keep a process from using adapters or from reaching a peer, and how to
 * fix them.
 */
struct hca_text {
    char text[320];
};
struct hca_text hca_advice_memory(int err);           /* registration failed: the limit, or `err` */
struct hca_text hca_advice_no_port(const char *root); /* none was found; root: of the system, "" */
struct hca_text hca_advice_path(const struct hca_rail *rail, const struct hca_place *to);
/* The peer answers, but large messages do not arrive. */
struct hca_text hca_advice_packets(const struct hca_rail *rail, const struct hca_place *to);

/* hca_ports.c: the ports selected by the filter. */
/* Returns the number found; usable ones come first. */
unsigned hca_ports_find(struct hca_port ports[HCA_PORTS]);

/* hca_rail.c */
aq_status hca_rail_open(struct hca_rail *rail, const struct hca_port *port);
aq_status hca_rail_queues(struct hca_rail *rail, uint32_t receives, uint32_t completions);
void hca_rail_close(struct hca_rail *rail);
/* Reread the address of the port, which may have `moved`. Returns false if it has none now. */
bool hca_rail_look_again(struct hca_rail *rail, bool *moved);
/* The route from here to `to`. */
void hca_rail_path(const struct hca_rail *rail, const struct hca_place *to, struct ibv_ah_attr *ah);

/* hca_driver.c. With the lock held. */
/*
 * No buffer is free and no more can be registered. Returns AQ_AGAIN if buffers other than the
 * `mine` held by the caller are in use to send from; otherwise the peer fails.
 */
AQI_COLD aq_status hca_buf_short(struct hca_tp *hca, struct hca_peer *peer, uint32_t mine);
/* No buffer to send from was available: the limit is reached, or no more can be registered. */
static inline aq_status hca_bounce_none(struct hca_tp *hca, struct hca_peer *peer, uint32_t more)
{
    return hca->rdma.bounced >= hca->rdma.most + more ? AQ_AGAIN : hca_buf_short(hca, peer, 0);
}

/* hca_link.c. With the lock held. */
aq_status hca_links_create(struct hca_tp *hca, struct hca_peer *peer);
/* Connect the links on the rails in use. */
void hca_links_connect(struct hca_tp *hca, struct hca_peer *peer, const struct hca_place *places,
                       unsigned reads);
/* Destroy the queue pairs; everything posted to them ends with `status`. */
void hca_links_destroy(struct hca_tp *hca, struct hca_peer *peer);
void hca_links_end(struct hca_tp *hca, struct hca_peer *peer);
/* Post the request described by `sent`; AQ_AGAIN: no room. */
aq_status hca_link_post(struct hca_tp *hca, struct hca_peer *peer, unsigned rail,
                        struct ibv_send_wr *wr, const struct hca_sent *sent);
/* Likewise for a remote write or, if `read`, a remote read of the memory at `piece`. */
aq_status hca_link_access(struct hca_tp *hca, struct hca_peer *peer, unsigned rail, bool read,
                          struct ibv_sge piece, uint64_t remote, uint32_t rkey,
                          const struct hca_sent *sent);
/* The adapter has rejected the post. */
AQI_COLD aq_status hca_link_refused(struct hca_tp *hca, struct hca_link *link, int err);
/* Whether a message may be unsignaled: usually, only its buffer waits for its completion, but
 * buffers must not run out. */
static inline bool hca_link_may_be_unsignaled(const struct hca_tp *hca, const struct hca_link *link)
{
    return link->unsignaled < HCA_UNSIGNALED - 1 && hca->unsignaled < hca->max_unsignaled;
}

/* Post the request, for which the next entry of the link has been filled in. */
static AQI_INLINE aq_status hca_link_hand_over(struct hca_tp *hca, struct hca_link *link,
                                               struct ibv_send_wr *wr, bool unsignaled)
{
    struct ibv_send_wr *bad;
    wr->wr_id = hca_wr_of_place(link, link->head);
    if (!unsignaled) wr->send_flags |= IBV_SEND_SIGNALED;
    int err = ibv_post_send(link->qp, wr, &bad);
    if (AQI_UNLIKELY(err != 0)) return hca_link_refused(hca, link, err);
    struct aqi_counters *counters = aqi_counting();
    link->head++;
    link->unsignaled = unsignaled ? link->unsignaled + 1 : 0;
    hca->unsignaled += unsignaled;
    hca->out++;
    aqi_count_in(counters, AQI_CTR_POSTS, 1);
    if (!unsignaled) aqi_count_in(counters, AQI_CTR_POSTS_SIGNALED, 1);
    return AQ_OK;
}

static inline bool hca_link_is_full(const struct hca_tp *hca, const struct hca_link *link)
{
    return link->head - link->tail == hca->sends || hca->out >= hca->room;
}

/* The oldest entry, which is removed from the queue. */
struct hca_sent *hca_link_take(struct hca_tp *hca, struct hca_link *link);
/*
 * Post a request whose completion shows that everything before it is complete, unless the last
 * entry's will.
 */
void hca_link_mark(struct hca_tp *hca, struct hca_peer *peer, unsigned rail);
/* A posted request has ended: a message, or a piece of a transfer. */
void hca_sent_end(struct hca_tp *hca, struct hca_sent *sent, aq_status status);
void hca_link_completed(struct hca_tp *hca, const struct ibv_wc *wc);
/*
 * There is no route to the peer on its only rail. If there was one before, the address may be
 * moving: look up the route again for the next greeting. Otherwise the peer fails.
 */
void hca_peer_unreached(struct hca_tp *hca, struct hca_peer *peer, unsigned rail, const char *why);

/* hca_repair.c. With the lock held. */
void hca_repair_begin(struct hca_tp *hca, struct hca_peer *peer, uint32_t generation,
                      const char *why);
/* Continue without this rail, if there is another one. */
void hca_repair_without(struct hca_tp *hca, struct hca_peer *peer, unsigned rail, const char *why);
/* Find connections whose adapter neither completes anything nor reports a failure. */
void hca_repair_look(struct hca_tp *hca);
uint64_t hca_repair_deadline(const struct hca_tp *hca);
void hca_repair_port_down(struct hca_tp *hca,
                          unsigned rail); /* continue without it, for all peers */
/*
 * The rail may be used again, by peers that do without it; if its address has `moved`, all peers
 * reconnect.
 */
void hca_repair_port_back(struct hca_tp *hca, unsigned rail, bool moved);
void hca_repair(struct hca_tp *hca); /* continue repairs that have begun; may release the lock */
void hca_repair_resume(struct hca_tp *hca, struct hca_peer *peer);
void hca_repair_forget(struct hca_tp *hca, struct hca_peer *peer);

/* hca_greet.c. With the lock held. */
aq_status hca_greet_open(struct hca_tp *hca);
void hca_greet_close(struct hca_tp *hca);
void hca_greet_begin(struct hca_tp *hca, struct hca_peer *peer);
void hca_greet_end(struct hca_tp *hca, struct hca_peer *peer);
void hca_greet_up(struct hca_tp *hca, struct hca_peer *peer); /* both sides know each other */
void hca_greet_received(struct hca_tp *hca, unsigned rail, const struct ibv_wc *wc);
void hca_greet_sent(struct hca_tp *hca, unsigned rail, const struct ibv_wc *wc);
void hca_greet_gone(struct hca_tp *hca, unsigned rail); /* its adapter sends nothing more */
void hca_greet_timers(struct hca_tp *hca);
uint64_t hca_greet_deadline(const struct hca_tp *hca);
/* Find its address. AQ_AGAIN: unknown for now; call again when it is needed. */
aq_status hca_greet_find(struct hca_tp *hca, struct hca_peer *peer);

/* hca_message.c */
/* With the lock held: whether a message may be posted. AQ_AGAIN: not now. */
aq_status hca_message_ready(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer);
/* Before a request, which has a send buffer, post a buffer for its reply. */
aq_status hca_message_expect(struct hca_tp *hca, struct hca_peer *peer);
/* Post the message in `buf` on the rail for messages; AQ_AGAIN: no room. */
aq_status hca_message_send(struct hca_tp *hca, struct hca_peer *peer, struct aqi_rdma_buf *buf,
                           uint32_t number);
static inline bool hca_message_is_lending(const struct hca_tp *hca, const struct aqi_rdma_buf *buf)
{
    const struct aqi_am_wire *head = (const void *)buf->bytes;
    return hca->rdma.lending.on && buf->len >= sizeof(*head) && head->kind == AQI_AM_NONE;
}
/* The message has been processed: reuse its buffer. */
void hca_message_again(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf);
aq_status hca_am_send(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                      struct aqi_comp *comp);
/* With the lock held, which is released while a handler runs. */
unsigned hca_message_received(struct hca_tp *hca, unsigned rail, const struct ibv_wc *wc,
                              enum aqi_progress_mode mode);
void hca_message_request(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf);
/*
 * Buffers of each rail in addition to those for peers: for messages whose handlers run, and those
 * waiting to be reposted.
 */
static inline uint32_t hca_message_spares(void)
{
    return (uint32_t)hca_config.spares + HCA_POSTS;
}
aq_status hca_message_open(struct hca_tp *hca); /* post these */
/* Post the buffers that the first rail needs. Returns false if some are missing; see
 * aq_error_message(). */
bool hca_message_prepare(struct hca_tp *hca, struct hca_peer *peer);
/* Handle or hold the message received in `buf`. */
void hca_message_dispatch(struct hca_tp *hca, struct aqi_rdma_buf *buf,
                          enum aqi_progress_mode mode);

/* hca_long.c. With the lock held. */
aq_status hca_long_begin(struct aqi_rdma *rdma, struct aqi_transfer *want, const struct aqi_am *am,
                         const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem);
/* Its payload has been posted: post the header. AQ_AGAIN: no room; a failure has ended the
 * operation. */
aq_status hca_long_follow(struct hca_tp *hca, struct hca_op *op);
/* Part of it could not be written: make its header run no handler. */
AQI_COLD void hca_long_void(struct aqi_rdma *rdma, struct aqi_transfer *op);
/* Whether the peer had received its header, and so all of it, when the connection ended. */
static inline bool hca_long_arrived(const struct hca_peer *peer, const struct hca_op *op)
{
    return op->op.header != NULL && !op->op.follows && (int32_t)(op->number - peer->arrived) < 0;
}

/* hca_ring.c. With the lock held. */
aq_status hca_rings_open(struct hca_tp *hca);
void hca_rings_place(const struct hca_tp *hca, struct hca_ring_place *place);
/* Record the location of the peer's rings, as it reports it. */
void hca_ring_meet(struct hca_tp *hca, struct hca_peer *peer, const struct hca_ring_place *place);
/* The queue pairs have been destroyed: neither side has a ring of the other now. */
void hca_ring_reset(struct hca_tp *hca, struct hca_peer *peer);
/* Whether the peer has lent us a ring. */
static inline bool hca_ring_is_ours(const struct hca_peer *peer)
{
    const _Atomic uint64_t *granted = peer->out.granted;
    return granted != NULL && atomic_load_explicit(granted, memory_order_relaxed) >> 32 != 0;
}
/* Write a message into the peer's ring. AQ_ENOTSUP: it must be sent instead. */
aq_status hca_ring_issue(struct hca_tp *hca, struct hca_peer *peer, struct aqi_rdma_buf *buf);
/*
 * Take the next message from the ring lent to the peer, if its turn has come; NULL: none. If no
 * buffer is free, the message stays if it may be taken `later`; otherwise the peer fails.
 */
struct aqi_rdma_buf *hca_ring_take(struct hca_tp *hca, struct hca_peer *peer, bool later);
/* Count an arrived message; periodically, this chooses which peers get a ring. */
void hca_ring_heard(struct hca_tp *hca, struct hca_peer *peer, uint32_t len);
void hca_ring_probed(struct hca_tp *hca, struct hca_peer *peer);
/* Take all rings back. Returns true once nothing more will be written. */
bool hca_rings_sleep(struct hca_tp *hca);
/* Releases the lock while handlers run. */
unsigned hca_rings_progress(struct hca_tp *hca, enum aqi_progress_mode mode);

/* hca_transfer.c */
/* Of a range that is known to lie in `rmem`. */
aq_status hca_put_within(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                         uint64_t addr, const void *src, size_t len, const struct aqi_mem *mem,
                         struct aqi_comp *comp);
aq_status hca_get_within(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                         uint64_t addr, void *dst, size_t len, const struct aqi_mem *mem,
                         struct aqi_comp *comp);
/* With the lock held. */
void hca_transfer_reach(struct aqi_rdma *rdma, struct aqi_transfer *op,
                        const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem);
bool hca_transfer_at_once(struct aqi_rdma *rdma, const struct aqi_transfer *want,
                          const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem);
aq_status hca_transfer_post(struct aqi_rdma *rdma, struct aqi_transfer *op);
aq_status hca_transfer_issue(struct hca_tp *hca, struct hca_peer *peer, struct hca_sent *sent);
/* If the peer's adapter has rejected this piece of lent memory, repeat it by messages. Returns
 * false if that is not the case. */
bool hca_transfer_lent_again(struct hca_tp *hca, struct hca_sent *sent);
/* The connection ended before a straight transfer was done: turn it into an operation, to be posted
 * again. */
void hca_transfer_again(struct hca_tp *hca, struct hca_peer *peer, const struct hca_sent *sent);
static inline void hca_transfer_straight_end(const struct hca_sent *sent, aq_status status)
{
    struct aqi_comp *comp = sent->comp;
    if (AQI_UNLIKELY(status != AQ_OK)) aqi_comp_fail(comp, status);
    if (sent->get)
        aqi_comp_remote(comp);
    else
        aqi_comp_put(comp);
}

/* hca_events.c. With the lock held. */
void hca_events_look(struct hca_tp *hca); /* costs a system call per rail */
uint64_t hca_events_deadline(const struct hca_tp *hca);

/* hca_progress.c */
/* Handle all completions. With the lock held, which is released while handlers run. */
unsigned hca_progress_queues(struct hca_tp *hca, enum aqi_progress_mode mode);
unsigned hca_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now);
unsigned hca_progress_short(struct aqi_tp *tp, uint32_t watch); /* the main work of each poll */
aq_status hca_arm(struct aqi_tp *tp, bool on);

#endif
