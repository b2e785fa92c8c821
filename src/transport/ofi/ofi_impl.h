/*
 * Private to ofi. There is one endpoint, which needs no connections: a peer is an entry of the
 * address vector, added on first use. All completions come from one queue; the context of an entry
 * identifies the operation. With several domains (ofi_domains.c), each has all of this.
 */
#ifndef AQI_OFI_IMPL_H
#define AQI_OFI_IMPL_H

#include "base/settings.h"
#include "transport/layers/credit_gate.h"
#include "transport/ofi/ofi.h"
#include "transport/ofi/ofi_library.h"
#include "transport/rdma/rdma.h"

enum {
    OFI_FRAME = 96,  /* maximum bytes before the payload of a message; a tail follows it */
    OFI_ALIGN = 16,  /* of a message, and so of its payload */
    OFI_NAME = 64,   /* bytes of a provider's address, at most */
    OFI_FLUSHES = 1, /* queries of a peer in flight, and as many answers */
    OFI_DOMAINS = 8
};

extern const unsigned char ofi_magic[4]; /* of addresses */

/*
 * The address of a process. With several domains, the others' follow, each preceded by a byte with
 * its length.
 */
struct ofi_addr {
    unsigned char magic[4];
    uint32_t protocol, format; /* of the provider: must be the same at both ends */
    uint32_t len;              /* of the provider's address, which follows */
    unsigned char name[OFI_ADDR - 16];
};

/* The last bytes of each message. */
struct ofi_tail {
    uint32_t number;  /* of the message, or of the query being sent or answered */
    uint32_t arrived; /* messages of the receiver that have arrived without a gap */
};

/* Bytes of a message with a Medium of that size. */
static inline size_t ofi_buffer_bytes(size_t medium)
{
    return aqi_round_up(OFI_FRAME + medium + sizeof(struct ofi_tail), 64);
}

/* --- operations in flight -------------------------------------------------------------------- */

/* Features whose absence the self-test detects; all but the first are optional. */
enum ofi_part {
    OFI_ITSELF = 1 << 0, /* it reaches itself; otherwise nothing can be tested */
    OFI_INJECT = 1 << 1,
    OFI_REMOTE = 1 << 2, /* remote writes and reads */
    OFI_WAKE = 1 << 3,   /* waiting by the descriptor of the completion queue */
    OFI_MANY = 1 << 4,   /* one buffer for many messages */
    OFI_PUTS = 1 << 5,   /* injected puts */
    OFI_REPORT = 1 << 6  /* remote writes reported by the target's queue */
};

/* The `handler` of the transport's own messages, whose kind is AQI_AM_NONE. */
enum {
    OFI_FLUSH = 1,
    OFI_FLUSHED = 2,
    OFI_LENDING = AQI_RDMA_LENDING,
    OFI_VOID = 4,
    OFI_FAREWELL = 5 /* the sender considers the receiver lost */
};

enum ofi_kind { OFI_RECEIVE, OFI_AREA, OFI_SEND, OFI_CONTROL, OFI_PIECE };

/* The context of a provider's operation, which may use the first part meanwhile. */
struct ofi_ctx {
    struct fi_context2 provider;
    enum ofi_kind kind;
};

/* The memory of a chunk, which the provider fills with one message after the other. */
struct ofi_area {
    struct ofi_ctx ctx;
    struct ofi_area *next;
    struct aqi_rdma_chunk *chunk;
    uint32_t messages; /* reported messages in it that are in use */
    bool posted;       /* owned by the provider */
    bool spoiled;      /* the provider's reports about it were inconsistent: not posted again */
};

struct ofi_buf {
    struct aqi_rdma_buf rdma; /* rdma.len: without the tail */
    struct ofi_ctx ctx;
    struct ofi_buf *next;  /* in the list of kept or early messages */
    struct ofi_area *area; /* location of a message that shares a buffer, or NULL */
    uint32_t number;       /* of a message */
    bool busy, kept;       /* owned by the provider; until the peer confirms it */
    bool is_long, voided;  /* the header of a reported write; that write has failed */
    uint32_t write;        /* the number of that write */
};

struct ofi_peer {
    struct aqi_rdma_peer rdma;
    fi_addr_t addr;  /* FI_ADDR_NOTAVAIL: not in the address vector yet */
    uint64_t end_by; /* when to end transfers whose memory the provider still has, in ns; 0: none */
    uint64_t refused; /* since when the provider has no room for this peer, in ns; 0: it has */
    bool doubted;     /* the lack of room has been reported */
    uint32_t sends;   /* messages not completed by the provider */
    /* Messages: `given` is the number of the last one; those after `confirmed` are kept, in
     * order. */
    uint32_t given, confirmed;
    struct ofi_buf *kept, **last_kept;
    struct ofi_buf *again; /* the next one to resend, up to number `until` */
    uint32_t until;
    uint32_t received;     /* messages received without a gap */
    struct ofi_buf *early; /* those after a gap, in order */
    /* Queries: the number of our last one, whether one must be sent (`ask`) or is unanswered
     * (`asked`); the number of the peer's, whether it must be answered. */
    uint32_t question, answered;
    bool ask, asked, answer;
    uint32_t queries;        /* and answers, not completed by the provider */
    bool failed;             /* the connection broke, which has not been handled yet */
    bool unaware, parting;   /* it is lost here, and has not been notified; it is being notified */
    bool parted;             /* it considers this process lost */
    fi_addr_t there;         /* in the address vector of farewells */
    uint64_t broken;         /* when the connection broke, in ns; 0: it works */
    uint64_t ask_at, pause;  /* when to send the next query, in ns; 0: nothing is in flight; the
                                pause before it */
    uint32_t pieces, seen;   /* pieces ended; that plus messages confirmed, at the last check */
    uint64_t owed;           /* since when no operation has ended, in ns */
    uint32_t owed_at, calls; /* operations ended by then; queries and answers of the peer since */
    /* Longs: `writes` is the number of the last write to the peer, `longs` the headers kept. Of its
     * writes, all up to number `written` have arrived, and of the next ones those whose bit is
     * set. */
    uint32_t writes, longs, written;
    uint64_t written_more;
};

/* A transfer. */
struct ofi_op {
    struct aqi_transfer op;
    bool inject;         /* the provider copies it */
    uint64_t key, shift; /* of the peer's memory; offset from op.remote to the provider's address */
    void *desc;          /* AQI_BY_KNOWN */
    uint32_t header;     /* of a Long: the number of that message */
    uint64_t data;       /* and the data reported with its write */
};

/* A part of a transfer, as given to the provider. */
struct ofi_piece {
    struct ofi_ctx ctx;
    struct aqi_rdma_piece rdma;
    unsigned cancelled; /* number of times */
    struct ofi_piece *next_again;
};

/* The key that peers get for a registration. */
struct ofi_key {
    unsigned char magic[4];
    uint32_t lent;              /* 1: not a registration; pieces are lent on demand */
    uint64_t base;              /* the address of the first byte in remote operations */
    uint64_t keys[OFI_DOMAINS]; /* one per domain */
};

static inline size_t ofi_key_len(unsigned domains)
{
    return offsetof(struct ofi_key, keys) + domains * sizeof(uint64_t);
}

struct ofi_rmem {
    struct aqi_rdma_rmem rdma;
    uint64_t key, base;
};

/* The endpoint that notifies peers that they are lost here. */
struct ofi_farewell {
    bool due;
    uint64_t until; /* when to close it, in ns */
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
};

/* --- the transport --------------------------------------------------------------------------- */

struct ofi_tp {
    struct aqi_rdma rdma;
    const struct aqi_tp *front; /* the core's handle: this one, or that of all domains */
    unsigned place;             /* index of this one among the domains */
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    unsigned without;                /* enum ofi_part */
    uint64_t look_at;                /* when to check peers, in ns */
    struct aqi_credit_limits limits; /* limits on requests in flight, as in force */
    size_t inject;                   /* bytes of the largest message that the provider copies */
    size_t put_inject;               /* and of the largest put */
    uint32_t messages; /* maximum in flight to this process, if all peers send at once */
    uint32_t receives; /* buffers to post; posted */
    uint32_t posted;
    uint32_t room, out; /* operations in flight: the limit; the number */
    uint64_t next_key;
    struct ofi_area *free_areas;
    bool flushes;            /* there are queries or answers to send, or messages to resend */
    uint32_t dying;          /* peers with `end_by` */
    struct ofi_piece *again; /* pieces to post again */
    struct ofi_farewell farewell;
    struct aqi_pool pieces;
    /* Completions that were read but not handled. */
    struct fi_cq_data_entry found[AQI_RDMA_BATCH];
    unsigned found_first, found_count;
};

extern const struct aqi_rdma_driver ofi_driver; /* ofi_driver.c */

static inline struct ofi_peer *ofi_peer_at(const struct ofi_tp *ofi, uint64_t id)
{
    return (struct ofi_peer *)ofi->rdma.peers[id];
}

static inline struct ofi_peer *ofi_op_peer(const struct ofi_op *op)
{
    return (struct ofi_peer *)op->op.peer;
}

static inline struct ofi_op *ofi_piece_op(const struct ofi_piece *piece)
{
    return (struct ofi_op *)piece->rdma.op;
}

static inline struct ofi_peer *ofi_buf_peer(const struct ofi_buf *buf)
{
    return (struct ofi_peer *)buf->rdma.peer;
}

static inline struct ofi_buf *ofi_buf_of(struct ofi_ctx *ctx)
{
    return (struct ofi_buf *)(void *)((char *)ctx - offsetof(struct ofi_buf, ctx));
}

static inline struct ofi_buf *ofi_buf_get(struct ofi_tp *ofi)
{
    return (struct ofi_buf *)aqi_rdma_get(&ofi->rdma);
}

static inline void ofi_buf_put(struct ofi_tp *ofi, struct ofi_buf *buf)
{
    aqi_rdma_put(&ofi->rdma, &buf->rdma);
}

/* NULL for memory that need not be registered. */
static inline void *ofi_mr_desc(void *mr)
{
    return mr != NULL ? fi_mr_desc(mr) : NULL;
}

/* The provider's name, for messages. */
static inline const char *ofi_name(const struct ofi_tp *ofi)
{
    return ofi->info->fabric_attr->prov_name;
}

/* Whether the provider requires this mode of registration. */
static inline bool ofi_wants(const struct ofi_tp *ofi, int mr_mode)
{
    return (ofi->info->domain_attr->mr_mode & mr_mode) != 0;
}

/* ofi.c: the operations of one domain; `first`: the domain whose self-test was for all, or NULL. */
aq_status ofi_open_domain(const struct aqi_tp_params *params, const struct aqi_tp *front,
                          unsigned place, const struct ofi_tp *first, struct ofi_tp **out);
void ofi_close(struct aqi_tp *tp);
aq_status ofi_try(struct fi_info *info); /* whether an endpoint can be opened, without its test */
aq_status ofi_address(struct aqi_tp *tp, void *out, size_t *len);
int ofi_describe(struct aqi_tp *tp, char *buf, size_t len);

/* ofi_domains.c: several, each with one or more threads. */
aq_status ofi_domains_open(const struct aqi_tp_params *params, struct aqi_tp **tp);

/*
 * ofi_provider.c: find the provider to use, to be freed with freeinfo. NULL: none, for the reason
 * `why`. `asked`: the transport was requested by name; `endpoints`: number in the job, 0: unknown.
 */
struct fi_info *ofi_provider_find(bool asked, uint32_t endpoints, char *why, size_t len);
uint64_t ofi_provider_order(void); /* the requested message order */
bool ofi_provider_probe(unsigned device, struct aqi_tp_probe *probe);

/* ofi_endpoint.c: the libfabric objects, which may be opened again. */
aq_status ofi_endpoint_open(struct ofi_tp *ofi);
void ofi_endpoint_close(struct ofi_tp *ofi);
/* Bind an endpoint to these, and enable it. Returns 0 or a negative errno of libfabric. */
int ofi_endpoint_enable(struct fid_ep *ep, struct fid_av *av, struct fid_cq *cq);
void ofi_endpoint_drop(void *object); /* which begins with its fid; no-op on NULL */

/* ofi_trial.c: open the endpoint and test the features that will be used. */
aq_status ofi_trial_open(struct ofi_tp *ofi);
/* The result, as text that completes a sentence. */
int ofi_trial_describe(const struct ofi_tp *ofi, char *buf, size_t len);

/* ofi_receive.c: buffers for arriving messages. With the lock held. */
/* How many requests may be in flight, given the memory for arrivals; before the endpoint opens. */
void ofi_receive_limit(struct ofi_tp *ofi);
/* Set the number of buffers, and their kind. */
void ofi_receive_size(struct ofi_tp *ofi);
/* Post as many buffers as needed. */
void ofi_receive_post(struct ofi_tp *ofi);
/* Account for the completion of a receive when it is read; it may be handled after later ones. */
void ofi_receive_found(struct ofi_tp *ofi, const struct fi_cq_data_entry *entry);
/* Whether it reports a peer's write, and so has no context of ours. */
static inline bool ofi_receive_is_write(const struct fi_cq_data_entry *entry)
{
    return (entry->flags & FI_REMOTE_WRITE) != 0 || entry->op_context == NULL;
}
/* The message of a completion, described by `view` if it has no buffer of its own; NULL: none. */
struct ofi_buf *ofi_receive_message(const struct fi_cq_data_entry *entry, struct ofi_buf *view);
/* The same message in a buffer that may be kept; NULL: out of memory, and the message is lost. */
struct ofi_buf *ofi_receive_keep(struct ofi_tp *ofi, struct ofi_buf *buf);
void ofi_receive_drop(struct ofi_tp *ofi, struct ofi_buf *buf);
void ofi_receive_failed(struct ofi_tp *ofi, struct ofi_ctx *ctx);

aq_status ofi_pins_open(struct ofi_tp *ofi); /* ofi_driver.c */

/* ofi_peer.c. With the lock held. */
aq_status ofi_peer_meet(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer, uint32_t host);
/* The number of its domains; 0: unknown for now. */
unsigned ofi_peer_domains(struct ofi_tp *ofi, uint32_t id);
/* Whether a message may be sent to it. AQ_AGAIN: not now. */
aq_status ofi_peer_ready(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer);
void ofi_peer_where(const struct aqi_rdma *rdma, const struct aqi_rdma_peer *peer,
                    char text[AQI_RDMA_WHERE]);
void ofi_peer_down(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer);
/*
 * Whether this is an error of a connection below a connectionless endpoint, which is
 * re-established.
 */
bool ofi_peer_is_cut(int err);
/* Whether a failed call may succeed later. This includes a lack of file descriptors for
 * connections. */
static inline bool ofi_peer_is_full(ssize_t err)
{
    return err == -FI_EAGAIN || AQI_UNLIKELY(err == -FI_EMFILE);
}
/*
 * The provider has no room for an operation to this peer: warn after half a minute; after
 * AQ_OFI_REFUSED_TIMEOUT the peer is lost.
 */
aq_status ofi_peer_refused(struct ofi_tp *ofi, struct ofi_peer *peer);
/* The provider has rejected `what`, for now or forever. AQ_EPEER: the peer is lost. */
aq_status ofi_peer_rejected(struct ofi_tp *ofi, struct ofi_peer *peer, ssize_t err,
                            const char *what);
/* Check for late operations. */
void ofi_peer_look(struct ofi_tp *ofi);
/* End transfers with dead peers. The provider never completes some of them. */
void ofi_peer_end_transfers(struct ofi_tp *ofi);

/* ofi_message.c */
/*
 * Returns the provider's result. The context of the completion, if there will be one, is that of
 * the buffer.
 */
ssize_t ofi_message_post_send(struct ofi_tp *ofi, const struct ofi_peer *peer, struct ofi_buf *buf,
                              size_t len);
/* The start of a message of the transport itself. */
static inline struct aqi_am_wire ofi_message_own(const struct ofi_tp *ofi, uint8_t what)
{
    return (struct aqi_am_wire){.stamp = ofi->rdma.stamp,
                                .kind = AQI_AM_NONE,
                                .handler = what,
                                .flags = AQI_AM_IS_REPLY,
                                .source = ofi->rdma.params.self};
}
/* All with the lock held. Replies have room of their own, so they never wait for requests. */
static inline bool ofi_message_room(const struct ofi_tp *ofi, bool reply)
{
    return ofi->out < ofi->room + (reply ? ofi->room / 2 : 0);
}
/* Number and keep the message in the buffer, as the next one to this peer. Releases it on
 * failure. */
aq_status ofi_message_post(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer,
                           struct aqi_rdma_buf *buf);
/* Likewise, but a message that cannot be sent now is resent later, as if the provider had lost
 * it. */
void ofi_message_post_later(struct ofi_tp *ofi, struct ofi_peer *peer, struct ofi_buf *buf);
/* Send the message without numbering or keeping it. */
aq_status ofi_message_give(struct ofi_tp *ofi, struct ofi_peer *peer, struct ofi_buf *buf,
                           enum ofi_kind kind);
/* The lock is released while a handler runs. */
unsigned ofi_message_received(struct ofi_tp *ofi, struct ofi_buf *buf, size_t len,
                              enum aqi_progress_mode mode);
/* Run the handler, without the lock. Another buffer has been posted in place of this one. */
void ofi_message_run(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf);
/* Process early messages whose turn has come. */
void ofi_message_take_early(struct ofi_tp *ofi, struct ofi_peer *peer, enum aqi_progress_mode mode);
void ofi_message_sent(struct ofi_tp *ofi, struct ofi_buf *buf);

/* ofi_flush.c. With the lock held. */
/* Keep the message until it has arrived. */
void ofi_flush_keep(struct ofi_tp *ofi, struct ofi_peer *peer, struct ofi_buf *buf);
void ofi_flush_arrived(struct ofi_tp *ofi, struct ofi_peer *peer, uint32_t arrived);
/* Resend kept messages from this one on. */
void ofi_flush_again(struct ofi_tp *ofi, struct ofi_peer *peer, struct ofi_buf *buf);
/* Keep a message that is not the peer's next one. Returns false if it is malformed or a
 * duplicate. */
bool ofi_flush_early(struct ofi_tp *ofi, struct ofi_peer *peer, struct ofi_buf *buf);
/* Take the early message whose turn has come, or NULL. */
struct ofi_buf *ofi_flush_next(struct ofi_tp *ofi, struct ofi_peer *peer);
/* Whether all messages to this peer have arrived. If that is unknown, a query is sent. */
bool ofi_flush_confirmed(struct ofi_tp *ofi, struct ofi_peer *peer);
void ofi_flush_received(struct ofi_tp *ofi, struct ofi_peer *peer, uint8_t what, uint32_t number);
void ofi_flush_push(struct ofi_tp *ofi);
/* The connection to it broke, and data in it may be lost. */
void ofi_flush_broken(struct ofi_tp *ofi, struct ofi_peer *peer, const char *why);
/* Check for late operations. Returns when to check again, in ns. */
uint64_t ofi_flush_look(struct ofi_tp *ofi, struct ofi_peer *peer, uint64_t now);
void ofi_flush_forget(struct ofi_tp *ofi, struct ofi_peer *peer); /* it is lost */

/* ofi_farewell.c. With the lock held. */
/* Begin to notify this peer, which is lost here but may be alive. */
void ofi_farewell_begin(struct ofi_tp *ofi, struct ofi_peer *peer);
void ofi_farewell_again(struct ofi_tp *ofi,
                        struct ofi_peer *peer); /* it is lost, and sends queries */
void ofi_farewell_push(struct ofi_tp *ofi);     /* in each round while it is due */
/* The peer considers this process lost. */
void ofi_farewell_received(struct ofi_tp *ofi, struct ofi_peer *peer);
void ofi_farewell_close(struct ofi_tp *ofi);

/* ofi_transfer.c. With the lock held. */
void ofi_transfer_reach(struct aqi_rdma *rdma, struct aqi_transfer *op,
                        const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem);
aq_status ofi_transfer_post(struct aqi_rdma *rdma, struct aqi_transfer *op);
/* Post all of the write of a Long, or nothing (AQ_AGAIN, AQ_ENOTSUP). Without counters, its source
 * is copied. */
aq_status ofi_transfer_write_reported(struct ofi_tp *ofi, const struct ofi_op *want,
                                      const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem);
/* Post a piece; returns the provider's result. */
ssize_t ofi_transfer_give(struct ofi_tp *ofi, const struct ofi_op *op, struct ofi_piece *piece);
void ofi_transfer_piece_done(struct ofi_tp *ofi, struct ofi_piece *piece, aq_status status);
/* The peer's memory has changed: if it was lent, transfer the piece by messages. */
void ofi_transfer_piece_refused(struct ofi_tp *ofi, struct ofi_piece *piece);
/*
 * The connection broke before the piece was complete; `reached`: possibly because the peer, whose
 * memory may have been unmapped, rejected it.
 */
void ofi_transfer_piece_cancelled(struct ofi_tp *ofi, struct ofi_piece *piece, bool reached);
void ofi_transfer_push_again(struct ofi_tp *ofi);
bool ofi_transfer_is_posted(const struct ofi_peer *peer); /* whether a piece is */
/*
 * Everything to this peer fails; `now`: including pieces whose memory the provider has not
 * released.
 */
void ofi_transfer_fail(struct ofi_tp *ofi, struct ofi_peer *peer, bool now);

/* ofi_long.c. With the lock held. */
aq_status ofi_long_begin(struct aqi_rdma *rdma, struct aqi_transfer *want, const struct aqi_am *am,
                         const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem);
void ofi_long_open(struct ofi_tp *ofi); /* after the self-test */
/* Whether the peer has the header of this transfer, and so the write. */
bool ofi_long_has_arrived(const struct ofi_op *op);
void ofi_long_failed(struct aqi_rdma *rdma, struct aqi_transfer *op);
/* Turn this header into an OFI_VOID message. */
void ofi_long_void(const struct ofi_tp *ofi, struct ofi_buf *buf);
/* A write has been reported. Returns its initiator; NULL: none. */
struct ofi_peer *ofi_long_reported(struct ofi_tp *ofi, uint64_t data);
void ofi_long_voided(struct ofi_peer *peer, const struct ofi_buf *buf); /* in its turn */
bool ofi_long_waits(const struct ofi_buf *buf); /* a message, for a write that has not arrived */

/* ofi_progress.c */
/* Read the error from the queue, also as text. NULL: none. */
struct ofi_ctx *ofi_progress_error(struct ofi_tp *ofi, int *err, char *text, size_t len);
unsigned ofi_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now);
uint64_t ofi_next_deadline(struct aqi_tp *tp);
aq_status ofi_arm(struct aqi_tp *tp, bool on);

#endif
