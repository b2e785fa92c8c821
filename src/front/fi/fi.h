/*
 * The provider "aqueduct" of libfabric: private to src/front/fi. docs/mpi.md is for users and
 * describes how it works.
 *
 * The shared library contains its own copy of Aqueduct, opened as a process without a job. An
 * endpoint listens at a URI per transport; its name (struct afi_name) contains these and a secret.
 * Connections to other endpoints are opened at first use. One lock protects everything; all
 * handlers run inside afi_progress, with the lock held.
 */
#ifndef AFI_FI_H
#define AFI_FI_H

#include "base/clock.h"
#include "base/copy.h"
#include "base/early.h"
#include "base/iov.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/spin.h"
#include "base/stash.h"
#include "front/fi/iov.h"
#include "front/fi/match.h"
#include "front/fi/name.h"
#include "lib/alone.h"

#include <aqueduct/aqueduct.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <string.h>
#include <sys/uio.h>

enum {
    AFI_IOVS = 8,           /* maximum pieces of memory in an operation, here and at the target */
    AFI_INJECT = 4096,      /* maximum bytes of an injected message */
    AFI_WINDOW = 256 << 10, /* bytes of one peer's messages that may be buffered here */
    AFI_COST = 192,         /* added to the bytes of each of these messages */
    AFI_SPARE = 64 << 20,   /* bytes of unexpected messages that an endpoint keeps besides */
    AFI_ATOMIC = 2048,      /* maximum bytes of an atomic operation */
    AFI_CQ = 1024,
    AFI_SIZE = 1024,          /* the default size of the queues of an endpoint */
    AFI_MOST_SIZE = 64 << 10, /* the largest one */
    AFI_FULL = 256 << 10      /* posted receives, or completions not read, when calls fail */
};

/* Parts of the interface that only some of the supported headers define: libfabric 2 lacks or
 * deprecates the first ones, and has added the last. */
enum { AFI_MR_BASIC = 1 << 0, AFI_MR_SCALABLE = 1 << 1 }; /* before 1.5 */
#define AFI_REG_MR            (UINT64_C(1) << 59)         /* FI_REG_MR */
#define AFI_SYMMETRIC         (UINT64_C(1) << 59)         /* FI_SYMMETRIC */
#define AFI_PROVIDER_SPECIFIC (1u << 31)                  /* FI_PROV_SPECIFIC */
enum { AFI_PROGRESS_CONTROL_UNIFIED = 3 };                /* FI_PROGRESS_CONTROL_UNIFIED */
enum { AFI_THREAD_LAST = 5 };                             /* the last threading model */

#define AFI_MAX_MESSAGE (SIZE_MAX >> 1)
#define AFI_FORMAT      (AFI_PROVIDER_SPECIFIC | 0x6171u)

#define AFI_CAPS                                                                                   \
    (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | FI_RECV | FI_READ | FI_WRITE |            \
     FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_FENCE |  \
     FI_LOCAL_COMM | FI_REMOTE_COMM | FI_RMA_EVENT)
/* And those that a program must request, as they change what is reported to it. */
#define AFI_ALL_CAPS (AFI_CAPS | FI_SOURCE_ERR)
#define AFI_ORDER                                                                                  \
    (FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_SAR | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW |      \
     FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)
/* Default flags of operations, and flags that would change the meaning of an operation. */
#define AFI_OP_FLAGS                                                                               \
    (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |                       \
     FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_MULTI_RECV)
#define AFI_NO_FLAGS (FI_TRIGGER | FI_MULTICAST | FI_COMMIT_COMPLETE)

/* Size of an error entry in a program for this version of libfabric: `err_data_size`, the last
 * member, was added in 1.5. */
static inline size_t afi_error_bytes(uint32_t version, size_t offset_of_size)
{
    return offset_of_size + (FI_VERSION_LT(version, FI_VERSION(1, 5)) ? 0 : sizeof(size_t));
}

struct afi_fabric {
    struct fid_fabric fid;
    struct aqi_node link; /* in the list of all fabrics */
    struct aqi_node domains;
    uint32_t users; /* domains, event queues and wait sets */
};

/* --- objects of a domain --------------------------------------------------------------------- */

struct afi_domain {
    struct fid_domain fid;
    struct aqi_node link; /* in the list of its fabric */
    struct afi_fabric *fabric;
    uint32_t version;  /* of libfabric, for which the program was built */
    bool progresses;   /* a thread of the provider makes progress (FI_PROGRESS_AUTO) */
    bool virtual;      /* remote addresses are virtual (FI_MR_VIRT_ADDR), not offsets */
    bool chooses_keys; /* the provider chooses keys (FI_MR_PROV_KEY), not the caller */
    bool sockets;      /* addresses are struct sockaddr_in (FI_SOCKADDR_IN), not struct afi_name */
    enum fi_av_type av_type;
    struct aqi_node *ident_buckets; /* by their id */
    size_t ident_room, ident_count; /* number of buckets, a power of two, and of entries */
    struct aqi_node *mr_buckets;    /* likewise, by their key */
    size_t mr_room, mr_count;
    uint64_t next_key;
    struct afi_eq *eq;
    bool reports; /* registrations are reported to `eq` (AFI_REG_MR) */
    uint32_t users;
};

struct afi_mr {
    struct fid_mr fid;
    struct aqi_node link;
    struct afi_domain *domain;
    unsigned char *at;
    size_t len;
    uint64_t access;
    struct afi_cntr *cntr; /* counts accesses by peers */
    uint64_t counted;      /* the kinds it counts: FI_REMOTE_READ, FI_REMOTE_WRITE */
};

/* An endpoint that is known in the domain. */
struct afi_ident {
    struct aqi_node link;
    struct afi_domain *domain;
    struct afi_name name;
    struct afi_av *av; /* the vector into which it was last inserted, or NULL */
    fi_addr_t addr;    /* its address in that vector */
    uint32_t places;   /* how many times it has been inserted into any vector */
    uint32_t users;
};

struct afi_av {
    struct fid_av fid;
    struct afi_domain *domain;
    struct afi_eq *eq;
    bool reports;              /* insertions are reported to `eq` (FI_EVENT) */
    struct afi_ident **idents; /* by fi_addr_t */
    size_t count, room;
    uint32_t *ips; /* likewise, if addresses are those of sockets: as they were inserted */
    size_t ip_room;
    fi_addr_t first_free; /* no lower index is free */
    uint32_t users;
};

struct afi_wait {
    bool armed; /* the program may be sleeping */
    enum fi_wait_obj obj;
    struct fid *fid;          /* the queue, counter or wait set to which it belongs */
    struct afi_wait_set *set; /* the set used in its place (FI_WAIT_SET), or NULL */
    struct aqi_node link;     /* in the set's list of members */
    /* Not open and NULL until the program requests the wait object. */
    struct lib_alone_handle handle;
    struct afi_wait_cond *cond;
};

struct afi_wait_set {
    struct fid_wait fid;
    struct afi_fabric *fabric;
    struct afi_wait wait;
    struct aqi_node members;
};

struct afi_completion {
    struct fi_cq_tagged_entry entry;
    fi_addr_t source;
};

struct afi_cq_error {
    struct afi_cq_error *next;
    struct fi_cq_err_entry entry;
    /* The error data, if `entry` says that there are any: the name, as programs see it. */
    unsigned char data[sizeof(struct afi_name)];
};

struct afi_cq {
    struct fid_cq fid;
    struct afi_domain *domain;
    enum fi_cq_format format;
    enum fi_cq_wait_cond cond;
    struct afi_completion *ring; /* its size is a power of two */
    size_t room, first, count;
    struct afi_cq_error *errors, **last_error;
    unsigned char data[sizeof(struct afi_name)]; /* of the last error read without a buffer */
    struct afi_wait wait;
    bool signalled;
    uint32_t users;
};

struct afi_cntr {
    struct fid_cntr fid;
    struct afi_domain *domain;
    struct afi_wait wait;
    uint64_t value, errors;
    uint64_t seen_value, seen_errors; /* when the program last read them */
    uint32_t users;
};

#define AFI_EQ_ERROR UINT32_MAX /* the event is a struct fi_eq_err_entry */
struct afi_eq_event {
    struct afi_eq_event *next;
    uint32_t type;
    size_t len;
    unsigned char bytes[];
};

struct afi_eq {
    struct fid_eq fid;
    struct afi_fabric *fabric;
    uint32_t version; /* as in struct afi_domain */
    struct afi_wait wait;
    struct afi_eq_event *events, **last;
    uint32_t users;
};

/* --- receiving ------------------------------------------------------------------------------- */

/* The posted receives of an endpoint, or of a shared receive context. */
struct afi_rxq {
    struct afi_match matches[2]; /* for untagged and for tagged messages */
    struct aqi_node posted, claimed;
    size_t posted_count;
    size_t spared; /* bytes of unexpected messages whose credit has been returned */
    size_t least;  /* release multi-receive buffers with fewer free bytes (FI_OPT_MIN_MULTI_RECV) */
};

struct afi_srx {
    struct fid_ep fid;
    struct afi_domain *domain;
    struct afi_cq *cq; /* its own, or NULL: those of the endpoints are used */
    bool selective;
    bool directed;     /* receives may specify their source */
    struct afi_av *av; /* like `cq` */
    struct afi_ep *ep; /* an enabled endpoint that uses it, or NULL */
    struct afi_rxq rxq;
    uint64_t rx_flags; /* default flags of receives */
    uint32_t users;
};

/* A shared transmit context has no state: the queues of an endpoint are those of its peers. */
struct afi_stx {
    struct fid_stx fid;
    struct afi_domain *domain;
    uint32_t users;
};

struct afi_rx {
    struct afi_posted posted; /* in a match until a message has filled the receive */
    struct aqi_node link;     /* in `posted` while it is in a match; otherwise in no list */
    struct afi_rxq *rxq;
    struct afi_ident *source; /* the only source allowed, or NULL */
    bool tagged, many, report;
    uint32_t fetching; /* messages being fetched into it */
    void *context;
    struct iovec iov[AFI_IOVS];
    unsigned count;
    size_t len, used;
};

struct afi_message {
    bool tagged;
    bool remote;    /* `bytes` is the list of its pieces of memory at the sender */
    bool spared;    /* its credit has been returned before it is received */
    uint8_t flags;  /* as received */
    uint32_t op;    /* the sender's handle */
    uint32_t epoch; /* epoch of the peer when it arrived */
    uint64_t tag, data, len;
    const unsigned char *bytes;
    size_t nbytes;
};

/* An unexpected message: it arrived before a receive for it was posted. */
struct afi_arrival {
    struct afi_unexpected unexpected;
    struct aqi_node claimed; /* in the queue's list `claimed` once a peek has claimed it */
    struct afi_peer *peer;
    struct afi_message message;
    unsigned char bytes[];
};

/* --- endpoints and peers --------------------------------------------------------------------- */

enum afi_counts {
    AFI_COUNT_SEND,
    AFI_COUNT_RECV,
    AFI_COUNT_READ,
    AFI_COUNT_WRITE,
    AFI_COUNT_REMOTE_READ,
    AFI_COUNT_REMOTE_WRITE,
    AFI_COUNTS
};

/* Default flags of operations. */
struct afi_op_flags {
    uint64_t tx, rx;
};

enum { AFI_PEERS = 256 /* number of buckets */ };
struct afi_ep {
    struct fid_ep fid;
    struct aqi_node link; /* in the list of all endpoints */
    struct afi_domain *domain;
    struct afi_av *av;
    struct afi_eq *eq;
    struct afi_cq *tx_cq, *rx_cq;
    bool tx_selective, rx_selective, enabled;
    bool closing;      /* operations that end from now on are not reported */
    uint32_t tx_size;  /* maximum operations queued for a peer; more return -FI_EAGAIN */
    uint16_t service;  /* the udp port that the program chose, or 0 */
    bool must_serve;   /* fails without this port, even if another endpoint here has it */
    uint32_t ip;       /* the IPv4 address that the program chose, or 0 */
    uint64_t close_by; /* deadline for closing, in ns; 0: it is not being closed */
    uint64_t caps;
    struct afi_op_flags flags;
    uint32_t aliases;
    struct afi_cntr *cntr[AFI_COUNTS];
    struct afi_stx *stx;
    struct afi_srx *srx;
    struct afi_rxq own;
    struct afi_rxq *rxq; /* its own, or that of `srx` */
    struct afi_name name;
    aq_listener *listeners[2];
    struct aqi_node peers[AFI_PEERS];
    struct afi_peer **peer_of; /* by fi_addr_t in `av`, or NULL */
    size_t peer_of_room;
    uint32_t past_calls; /* the most calls to a peer that has been forgotten */
};

/* An alias of an endpoint, which differs from it only in its default flags. */
struct afi_alias {
    struct fid_ep fid;
    struct afi_ep *ep;
    struct afi_op_flags flags;
};
extern struct fi_ops afi_alias_ops;

/* Whether it is an endpoint or an alias, not a shared receive context, which has the same calls. */
static inline bool afi_is_ep(const struct fid_ep *fid)
{
    return fid->fid.fclass == FI_CLASS_EP;
}

/* The endpoint of a call, which may name an alias; NULL: it names a shared context. */
static inline struct afi_ep *afi_ep_of(struct fid_ep *fid)
{
    if (!afi_is_ep(fid)) return NULL;
    return AQI_UNLIKELY(fid->fid.ops == &afi_alias_ops) ? AQI_OF(fid, struct afi_alias, fid)->ep
                                                        : AQI_OF(fid, struct afi_ep, fid);
}
static inline struct afi_op_flags *afi_flags_of(struct fid_ep *fid)
{
    return AQI_UNLIKELY(fid->fid.ops == &afi_alias_ops) ? &AQI_OF(fid, struct afi_alias, fid)->flags
                                                        : &AQI_OF(fid, struct afi_ep, fid)->flags;
}
static inline uint64_t afi_tx_flags_of(struct fid_ep *fid)
{
    return afi_is_ep(fid) ? afi_flags_of(fid)->tx : 0;
}

/* The queue to which a receive is reported if its endpoint is not known. */
static inline struct afi_cq *afi_srx_cq(const struct afi_srx *srx)
{
    return srx->cq == NULL && srx->ep != NULL ? srx->ep->rx_cq : srx->cq;
}
static inline bool afi_srx_is_selective(const struct afi_srx *srx)
{
    return srx->cq == NULL && srx->ep != NULL ? srx->ep->rx_selective : srx->selective;
}
static inline struct afi_av *afi_srx_av(const struct afi_srx *srx)
{
    return srx->av == NULL && srx->ep != NULL ? srx->ep->av : srx->av;
}

enum afi_state {
    AFI_IDLE,
    AFI_CALLING,
    AFI_UP,
    AFI_CLOSING, /* about to be closed: its operations fail */
    /* An unused connection is being closed; no more operations are sent. */
    AFI_LEAVING, /* we have asked the peer whether to close */
    AFI_AGREED,  /* the peer has asked, and will close the connection */
    AFI_PARTING  /* the peer has agreed: we close the connection */
};

struct afi_peer {
    struct aqi_node link;
    struct aqi_node active;      /* in afi.active, if there is work to do */
    struct aqi_node caller_link; /* in afi.callers, while it waits for a free connection attempt */
    struct afi_ep *ep;
    struct afi_ident *ident;
    enum afi_state state;
    bool self, local, by_shm; /* the endpoint itself; in this process; by shared memory */
    bool caller;              /* whether this end has opened the connection */
    aq_connection *connection;
    aq_team *team;
    size_t eager;               /* bytes of the largest message that is sent inline */
    uint32_t tries;             /* addresses tried so far */
    uint64_t since;             /* when the first attempt began, in ns */
    uint32_t calls, void_calls; /* number of our calls; the peer's last void call */
    uint64_t retry_at;          /* when to call again if the peer's call has not arrived, in ns */
    uint32_t epoch;             /* changes with each connection */
    uint32_t sent, received;    /* sequence numbers of the last messages */
    uint32_t seen;              /* their sum at the last search for unused connections */
    uint32_t kept;              /* unexpected messages of this peer kept here */
    struct aqi_early early;     /* messages received out of order */
    uint32_t left;              /* credit: bytes that may still be sent */
    uint32_t taken;             /* bytes of the window in use by messages of the peer */
    uint32_t owed;              /* of these, bytes to be returned to the peer as credit */
    struct aqi_node notes;      /* protocol messages that could not be sent yet */
    struct aqi_node waiting;    /* operations that have not been sent */
    struct aqi_node under_way;  /* operations that have been sent and await an answer */
    uint32_t waiting_count;
    uint32_t long_writes; /* operations under way whose source the peer fetches into its memory */
};

/* A pending operation of the program. */
enum afi_type { AFI_SEND, AFI_WRITE, AFI_READ, AFI_ATOMIC_OP };
struct afi_op {
    struct aqi_node link;
    uint32_t handle;
    enum afi_type type;
    struct afi_peer *peer;
    void *context;
    uint64_t cq_flags; /* of its completion */
    bool report, fence, tagged, has_data;
    bool injected; /* the program may change the source once its call has returned */
    bool sent;     /* sent, but not answered yet */
    bool is_long;  /* counted in `long_writes` of the peer */
    uint8_t ack;   /* AFI_ACK_… */
    bool fetches;  /* an atomic operation that returns the old values */
    uint8_t datatype, operation;
    uint64_t tag, data;
    size_t len; /* of the local memory */
    unsigned count, there_count;
    struct iovec iov[AFI_IOVS]; /* the source, or the destination of results */
    struct fi_rma_iov there[AFI_IOVS];
    unsigned char *copy; /* copy of an injected source or of operands */
    size_t copy_len;
};

/* A transfer of a peer's memory to this process. The peer has allowed it by announcing the
 * pieces. */
struct afi_fetch {
    struct aqi_node link;
    struct afi_peer *peer;
    struct afi_piece from[AFI_IOVS];
    struct iovec to[AFI_IOVS];
    unsigned from_count, to_count, from_at, to_at;
    size_t from_off, to_off, len;
    aq_event events[4];
    aq_status status;
    void (*done)(struct afi_fetch *fetch);
    /* For `done`: */
    struct afi_rx *rx;
    uint32_t remote_op, epoch;
    uint8_t flags;
    bool spared; /* as in struct afi_message */
    uint64_t tag, data, total;
    struct afi_mr *mrs[AFI_IOVS]; /* the registrations of `to`, if a peer writes there */
    size_t at;                    /* offset in a multi-receive buffer */
};

/* --- library.c: the copy of Aqueduct, the lock, progress ------------------------------------- */

struct afi {
    struct aqi_big_lock lock;
    bool open;
    uint32_t domains; /* closing the last one closes the library */
    aq_team *world;
    struct aqi_node eps, active, fetches;
    struct aqi_node callers; /* peers that wait for a free connection attempt */
    struct aqi_pool op_pool, rx_pool;
    struct aqi_stash stash; /* of unexpected messages */
    struct {
        struct afi_op *op;
        uint32_t uses; /* number of uses of this slot, the high bits of the handle */
    } * ops;           /* indexed by the low bits of the handle */
    size_t op_room, op_free;
    uint32_t calling;    /* number of connections being opened */
    uint32_t up;         /* number of open connections */
    uint32_t lost;       /* connections and addresses lost since peers were forgotten */
    uint32_t most;       /* if more are open, unused ones are closed */
    uint64_t sweep_ns;   /* how long a connection must be unused */
    uint64_t next_sweep; /* time of the next search for unused connections, in ns */
    struct lib_alone_thread thread;
    uint32_t sent;  /* messages sent by udp, which may not leave before the next poll */
    unsigned empty; /* consecutive readings of queues and counters without news */
};
extern struct afi afi;

int afi_library_open(void); /* 0 or a negative error */
void afi_library_close(void);
static inline void afi_lock(void)
{
    aqi_big_lock(&afi.lock);
}
static inline void afi_unlock(void)
{
    aqi_big_unlock(&afi.lock);
    aqi_big_yield(&afi.lock);
}
/* Count a user of an object, which cannot be closed while it has any. Without the lock. */
void afi_use(uint32_t *users);
/* Close an object: it no longer uses `*owner`. Returns false if it has `*users`. Without the lock.
 */
bool afi_release(const uint32_t *users, uint32_t *owner);
/* With the lock held. */
void afi_progress(void);
/* Start and stop the library's progress thread. */
int afi_thread_start(void);
void afi_thread_stop(void);
uint64_t afi_deadline(int timeout); /* in ms from now; negative: never */
/*
 * Wait for arrivals until the deadline, but at most a few ms; the lock is released meanwhile.
 * Returns false without waiting if the deadline has passed.
 */
bool afi_sleep(uint64_t deadline);
/* Whether there is no work to do until the library's descriptor is readable. */
bool afi_may_sleep(void);
/* Make progress; returns afi_may_sleep. */
bool afi_settle(void);
int afi_error(aq_status st); /* converts to an error of libfabric, negative */
/* The text of an error of either sign, also copied to `buf` if that is not NULL. */
const char *afi_strerror(int error, char *buf, size_t len);

/* wait.c */
/* Returns 0, or an error if this wait object (with FI_WAIT_SET: of this set) is not supported. */
int afi_wait_check(enum fi_wait_obj obj, const struct fid_wait *set);
/* Called without the lock. */
void afi_wait_open(struct afi_wait *wait, enum fi_wait_obj obj, struct fid_wait *set,
                   struct fid *fid);
void afi_wait_close(struct afi_wait *wait);
int afi_wait_control(struct afi_wait *wait, int command, void *arg);
/* Whether calls of the object itself may block. */
static inline bool afi_wait_blocks(const struct afi_wait *wait)
{
    return wait->obj != FI_WAIT_NONE && wait->obj != FI_WAIT_SET;
}
/* Like afi_sleep, but FI_WAIT_YIELD yields the CPU instead of sleeping. */
bool afi_wait_pause(const struct afi_wait *wait, uint64_t deadline);
int afi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);
int afi_wait_set_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set);
void afi_wait_wake(struct afi_wait *wait);
/* Report an event for which the program may be sleeping. */
static inline void afi_wait_news(struct afi_wait *wait)
{
    if (AQI_UNLIKELY(wait->armed)) afi_wait_wake(wait);
}

/* --- everything else ------------------------------------------------------------------------- */

/* provider.c */
/* For slots that libfabric calls without a check for NULL. */
int afi_no_control(struct fid *fid, int command, void *arg);
int afi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int afi_info_check(const struct fi_info *info);
static inline bool afi_info_has_sockets(const struct fi_info *info)
{
    return info->addr_format == FI_SOCKADDR || info->addr_format == FI_SOCKADDR_IN;
}
/* Whether an endpoint or shared context can have these attributes; NULL: any. */
bool afi_tx_fits(const struct fi_tx_attr *attr);
bool afi_rx_fits(const struct fi_rx_attr *attr);

/* domain.c */
int afi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                    void *context);
struct afi_mr *afi_mr_of(struct afi_domain *domain, uint64_t key); /* NULL: none */
/* The same, if it contains [addr, addr + len) and allows this access; `*at` is set to that
 * memory. */
struct afi_mr *afi_mr_find(struct afi_domain *domain, uint64_t key, uint64_t addr, size_t len,
                           uint64_t access, unsigned char **at);
/* Whether a registration with this access contains the range. */
bool afi_mr_covers(const struct afi_domain *domain, uint64_t addr, size_t len, uint64_t access);
struct afi_ident *afi_ident_get(struct afi_domain *domain, const struct afi_name *name);
void afi_ident_put(struct afi_ident *ident);

/* av.c */
int afi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                void *context);
static inline struct afi_ident *afi_av_ident(const struct afi_av *av, fi_addr_t addr)
{
    return av != NULL && addr < av->count ? av->idents[addr] : NULL;
}
/* The address of another endpoint in this vector, or FI_ADDR_NOTAVAIL. */
static inline fi_addr_t afi_av_addr_of(struct afi_av *av, const struct afi_ident *ident)
{
    if (av == NULL || ident->places == 0) return FI_ADDR_NOTAVAIL;
    if (ident->av == av && afi_av_ident(av, ident->addr) == ident) return ident->addr;
    for (size_t i = 0; i < av->count; i++)
        if (av->idents[i] == ident) return i;
    return FI_ADDR_NOTAVAIL;
}

/* cq.c, cntr.c, eq.c */
int afi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                void *context);
static inline bool afi_cq_has_news(const struct afi_cq *cq)
{
    return cq->count != 0 || cq->errors != NULL;
}
void afi_cq_grow(struct afi_cq *cq);
/* No completion is lost: the queue grows if the program does not read it in time. Calls whose
 * completions it would report fail while it is full. */
static inline bool afi_cq_is_full(const struct afi_cq *cq)
{
    return AQI_UNLIKELY(cq != NULL && cq->count >= AFI_FULL);
}
static inline void afi_cq_write(struct afi_cq *cq, const struct fi_cq_tagged_entry *entry,
                                fi_addr_t source)
{
    if (AQI_UNLIKELY(cq->count == cq->room)) afi_cq_grow(cq);
    struct afi_completion *at = &cq->ring[(cq->first + cq->count++) & (cq->room - 1)];
    at->entry = *entry;
    at->source = source;
    afi_wait_news(&cq->wait);
}
/* Sets `prov_errno` of the entry. `data`: the error data, or NULL. */
void afi_cq_fail(struct afi_cq *cq, const struct fi_cq_err_entry *entry,
                 const struct afi_name *data);
int afi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                  void *context);
static inline void afi_count(struct afi_cntr *cntr, bool fine)
{
    if (cntr == NULL) return;
    if (fine)
        cntr->value++;
    else
        cntr->errors++;
    afi_wait_news(&cntr->wait);
}
int afi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                void *context);
int afi_eq_write(struct afi_eq *eq, uint32_t type, const void *bytes, size_t len);

/* Whether the completion of a send or remote memory access is reported. */
static inline bool afi_tx_reports(const struct afi_ep *ep, uint64_t flags, bool silent)
{
    return !silent && (!ep->tx_selective || (flags & FI_COMPLETION) != 0);
}
/* Whether there is no room for the completion. */
static inline bool afi_tx_is_full(const struct afi_ep *ep, uint64_t flags, bool silent)
{
    return afi_cq_is_full(ep->tx_cq) && afi_tx_reports(ep, flags, silent);
}

/* poll.c */
int afi_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **poll);

/* ep.c */
int afi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
int afi_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **ep,
                 void *context);
int afi_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                 void *context);
static inline struct afi_cq *afi_rx_cq(const struct afi_ep *ep)
{
    return ep->srx != NULL && ep->srx->cq != NULL ? ep->srx->cq : ep->rx_cq;
}

/* peer.c */
struct afi_peer *afi_peer_get(struct afi_ep *ep, struct afi_ident *ident);
struct afi_peer *afi_peer_of(struct afi_ep *ep, fi_addr_t addr); /* NULL: no peer has it */
/* The same if the address has been used before, otherwise NULL. */
static inline struct afi_peer *afi_peer_known(const struct afi_ep *ep, fi_addr_t addr)
{
    if (AQI_UNLIKELY(addr >= ep->peer_of_room)) return NULL;
    struct afi_peer *peer = ep->peer_of[addr];
    return AQI_LIKELY(peer != NULL && afi_av_ident(ep->av, addr) == peer->ident) ? peer : NULL;
}
int afi_peer_listen(struct afi_ep *ep);
void afi_peer_close_all(struct afi_ep *ep);
void afi_peer_call_more(void); /* start calls that have waited for a free attempt */
void afi_peer_forget(void);    /* free peers that nothing refers to, from time to time */
void afi_peer_sweep(void);     /* close connections that have not been used since the last call */
void afi_peer_call(struct afi_peer *peer);
void afi_peer_event(const aq_connection_event *event);
void afi_peer_fail(struct afi_peer *peer, int err);
/* Make progress with a peer that is not connected; called periodically. */
void afi_peer_progress(struct afi_peer *peer);
/* Whether the peer may fetch this memory: the source of a pending operation to it, or memory
 * registered for remote reads. */
bool afi_peer_may_access(void *peer, uint64_t addr, size_t len);
static inline void afi_peer_activate(struct afi_peer *peer)
{
    if (aqi_list_is_empty(&peer->active)) aqi_list_append(&afi.active, &peer->active);
}

/* wire.c */
aq_status afi_wire_open(void);
void afi_wire_input(struct afi_peer *peer, const void *bytes, size_t len);
void afi_wire_take_early(struct afi_peer *peer); /* handle what has arrived early */
/* Send what waits, as far as there is room. */
void afi_wire_push(struct afi_peer *peer);
void afi_wire_forget(struct afi_peer *peer); /* drop notes and messages received out of order */
/* If the connection is unused, ask the peer whether to close it. */
void afi_wire_leave(struct afi_peer *peer);
/* Whether nothing is queued for it. */
static inline bool afi_wire_is_free(const struct afi_peer *peer)
{
    return peer->state == AFI_UP && aqi_list_is_empty(&peer->waiting) &&
           (peer->self || aqi_list_is_empty(&peer->notes));
}
/* Likewise, and a message need not wait for earlier writes, whose data the receiver of the message
 * must find in its memory. */
static inline bool afi_wire_may_send(const struct afi_peer *peer)
{
    return afi_wire_is_free(peer) && peer->long_writes == 0;
}
/*
 * Send a message that needs no answer to a peer for which nothing is queued; `flags` may have
 * AFI_TAGGED_FLAG and AFI_DATA_FLAG. Returns false if there is no room or the message is too long:
 * an operation is needed. The brief form is the fastest, for up to AFI_BRIEF_MAX bytes.
 */
bool afi_wire_send(struct afi_peer *peer, uint8_t flags, uint64_t tag, uint64_t data,
                   const struct iovec *iov, unsigned count, size_t len);
bool afi_wire_send_brief(struct afi_peer *peer, uint8_t flags, uint64_t tag, uint64_t data,
                         const void *bytes, size_t len);
/* Create an operation for a call with these flags; its completion has `context`, unless
 * `silent`. NULL: out of memory, or of room for the completion. */
struct afi_op *afi_op_new(struct afi_peer *peer, uint64_t flags, bool silent, void *context);
/* Send or queue an operation, unless `err` says that the call was invalid. Freed on failure. */
int afi_op_start(struct afi_op *op, int err);
void afi_op_free(struct afi_op *op);
void afi_op_end(struct afi_op *op, int err); /* `err`: 0 or a positive error */
/*
 * Answer the peer's operation, which has ended with 0 or a positive error; and return the credit
 * of a message. Both do nothing if the connection is no longer that of `epoch`.
 */
void afi_wire_answer(struct afi_peer *peer, uint32_t epoch, uint32_t op, int err);
void afi_wire_send_credit(struct afi_peer *peer);
static inline void afi_wire_give_back(struct afi_peer *peer, uint32_t epoch, size_t bytes)
{
    if (AQI_UNLIKELY(epoch != peer->epoch)) return;
    peer->owed += (uint32_t)(bytes + AFI_COST);
    if (AQI_UNLIKELY(peer->owed >= AFI_WINDOW / 8 &&
                     (peer->owed >= AFI_WINDOW / 2 || peer->taken > AFI_WINDOW / 4 * 3)))
        afi_wire_send_credit(peer);
}

/* fetch.c */
/* `pieces`: a list of struct afi_piece, not necessarily aligned. NULL: out of memory. */
struct afi_fetch *afi_fetch_new(struct afi_peer *peer, const void *pieces, size_t nbytes);
void afi_fetch_begin(struct afi_fetch *fetch);
void afi_fetch_progress(void);
void afi_fetch_abort(const struct afi_peer *peer); /* fails those from a peer that has been lost */
void afi_fetch_revoke(const struct afi_mr *mr);    /* fails those to memory no longer registered */

/* receive.c */
void afi_rxq_init(struct afi_rxq *rxq);
void afi_rxq_close(struct afi_rxq *rxq);
void afi_receive(struct afi_peer *peer, const struct afi_message *message);
struct afi_receive_request {
    const struct iovec *iov;
    size_t count;
    struct afi_ident *source; /* NULL: any */
    uint64_t tag, ignore, flags;
    bool tagged, report;
    void *context;
    struct afi_cq *cq; /* for immediate completions */
};
int afi_receive_post(struct afi_rxq *rxq, const struct afi_receive_request *request);
int afi_rxq_cancel(struct afi_rxq *rxq, struct afi_cq *cq, struct afi_cntr *cntr, void *context);
/* Drop the peer's unexpected messages: all, or those that can no longer be fetched. */
void afi_receive_peer_gone(struct afi_peer *peer, bool all);

/* message.c, rma.c, atomic.c: the calls, for endpoints and shared receive contexts */
extern struct fi_ops_msg afi_msg_ops;
extern struct fi_ops_tagged afi_tagged_ops;
extern struct fi_ops_rma afi_rma_ops;
extern struct fi_ops_atomic afi_atomic_ops;
int afi_atomic_query(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
                     struct fi_atomic_attr *attr, uint64_t flags);
size_t afi_atomic_size(unsigned datatype); /* 0: unknown type */
bool afi_atomic_valid(unsigned datatype, unsigned op);
/* Apply an operation to `count` elements; `old` receives their previous values. */
void afi_atomic_apply(unsigned datatype, unsigned op, void *at, const void *operand,
                      const void *compare, void *old, size_t count);

#endif
