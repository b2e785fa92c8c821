/*
 * cci: declarations shared by the files of the front end. All state is accessed, and Aqueduct is
 * called, with the lock held.
 */
#ifndef AQC_IMPL_H
#define AQC_IMPL_H

#include "base/inet.h"
#include "base/iov.h"
#include "base/kick.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/spin.h"

#include <aqueduct/aqueduct.h>
#include <cci.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

enum {
    AQC_MESSAGE = 65408, /* maximum message size; a device may have a lower one */
    AQC_DEVICES = 32,
    AQC_KEYS = 32,   /* maximum keys of a device */
    AQC_SMALL = 256, /* maximum message size for events of the pool */
    AQC_ROOM_SIZES = 9,
    AQC_QUEUED = 16384,  /* maximum queued sends of a connection */
    AQC_UNIT = 64,       /* bytes: a message's memory at the receiver is counted in units of this */
    AQC_WINDOW = 131072, /* maximum units of a connection held by its receiver, 8 MB */
    AQC_LARGEST = 2 + AQC_MESSAGE / AQC_UNIT, /* units of the largest message */
    AQC_SPINS = 16 /* consecutive empty polls by a program that does not sleep */
};

/* --- devices --------------------------------------------------------------------------------- */

enum aqc_kind { AQC_SM, AQC_SOCK, AQC_TCP, AQC_KINDS };

struct aqc_device {
    struct cci_device pub;
    enum aqc_kind kind;
    bool is_default;
    int priority;
    char address[INET6_ADDRSTRLEN]; /* sock, tcp: where to listen */
    uint16_t port;                  /* 0: any port */
    bool anyone;      /* any process may connect; otherwise only the same user, or programs with the
                         secret */
    unsigned pid;     /* sm: used instead of the process's; 0: none */
    unsigned next_id; /* sm: for the next endpoint */
    const char *arguments[AQC_KEYS + 1];
    unsigned count;
};

/* Whether CCI_CTP allows any of the transports. */
bool aqc_devices_possible(void);
aq_status aqc_devices_open(void);
void aqc_devices_close(void);
/* Check whether its interface is up. */
void aqc_device_look(struct aqc_device *device);
/* Negative: `x` precedes `y` in the list, depending on which of the two is up now. */
int aqc_device_compare(const struct aqc_device *x, const struct aqc_device *y);
/* Set the state of the device and of all others with its address. */
void aqc_device_set_up(const struct aqc_device *device, bool up);

/* Aqueduct's URI for an endpoint to listen at; `service` NULL: a free one. Returns false if the
 * service is malformed. */
bool aqc_device_uri(struct aqc_device *device, const char *service, char *uri, size_t len);
/* Convert a program's URI to one of Aqueduct. Returns false if it is of another kind, or too long.
 */
bool aqc_uri_inside(enum aqc_kind kind, const char *uri, char *inside, size_t len);
/* The reverse; to be freed. NULL: out of memory. */
char *aqc_uri_outside(enum aqc_kind kind, const char *inside);

/* --- endpoints and their events -------------------------------------------------------------- */

struct aqc_conn;

struct aqc_mr {
    struct cci_rma_handle pub; /* a copy of the region's handle */
    struct aqc_mr *next;       /* in its bucket of aqc_ep.mrs */
    aq_region *region;
    unsigned char *addr;
    uint64_t len;
};
static_assert(sizeof(struct cci_rma_handle) == sizeof(aq_region_handle), "it is one");

struct aqc_ep {
    struct cci_endpoint pub;
    struct aqi_node link; /* in aqc.eps */
    struct aqc_device *device;
    aq_listener *listener;
    struct aqi_node conns;
    struct aqi_node queue; /* events not yet taken by the program */
    struct aqi_node lent;  /* events taken but not returned */
    struct aqc_mr **mrs;   /* registrations, hashed by address */
    size_t mr_count, mr_buckets;
    struct aqc_mr *last_mr;           /* most recently used */
    uint32_t send_timeout, keepalive; /* us; 0: none */
    uint32_t starved; /* connections with nearly all of their room held by the program */
    uint32_t takes;   /* events taken since the last progress */
    bool tight;       /* a connection is (aqc_conn_is_tight), or was */
    unsigned spins;   /* consecutive empty polls */
    bool has_handle, signaled, watches;
    bool failed;        /* its device has failed, and that was reported */
    int handle, signal; /* the epoll set on which the program sleeps; the eventfd in it */
};

/* Begins with the public part. The payload of a message follows the event. */
struct aqc_event {
    union cci_event pub;
    struct aqi_node link;
    struct aqc_ep *ep;
    struct aqc_conn *conn; /* RECV: of the message; CONNECT_REQUEST: requested */
    struct aqi_pool *pool; /* NULL: allocated by aqc_room_get, with `size` */
    uint8_t size;
    uint32_t units; /* RECV */
    bool answered;  /* CONNECT_REQUEST */
};

#define AQC_PAYLOAD(event)                                                                         \
    ((unsigned char *)(event) + ((sizeof(struct aqc_event) + 15) & ~(size_t)15))

/* Make the handle readable if there are events. */
void aqc_ep_signal(struct aqc_ep *ep);
void aqc_ep_close(struct aqc_ep *ep);
void aqc_ep_interface(struct aqc_ep *ep, bool up); /* of its device */

void aqc_event_push(struct aqc_event *event);
/* Allocate an event followed by `len` bytes, 16-byte aligned. NULL: out of memory. */
struct aqc_event *aqc_event_new(struct aqc_ep *ep, size_t len);
void aqc_event_free(struct aqc_event *event);
/* Report an event of a connection: CONNECT, ACCEPT or KEEPALIVE_TIMEDOUT. */
void aqc_event_about(struct aqc_conn *conn, cci_event_type_t type, cci_status_t status);

/* --- connections ----------------------------------------------------------------------------- */

enum aqc_state {
    AQC_CALLING,
    AQC_REQUESTED, /* by a peer, and not answered yet */
    AQC_JOINING,   /* accepted */
    AQC_OPEN,
    AQC_GONE /* closed by the peer, or lost */
};

enum aqc_type { AQC_SEND, AQC_WRITE, AQC_READ };

/* A pending send or RMA, which becomes the SEND event. */
struct aqc_op {
    struct aqc_event event;
    struct aqc_op *next;
    struct aqi_node rma; /* in aqc_conn.under_way */
    enum aqc_type type;
    int flags;
    bool started, done; /* of the transfer */
    bool sent;          /* of the message */
    bool finished;      /* completed, for a blocking caller */
    cci_status_t status;
    uint32_t seq;
    uint32_t len; /* message bytes */
    void *msg;    /* copy of the message, from aqc_room_get, with `msg_size` */
    uint8_t msg_size;
    uint64_t deadline;
    aq_region_handle there;
    uint64_t remote, size; /* `remote` is an offset */
    void *local;
    aq_event transfer;
};

struct aqc_conn {
    struct cci_connection pub;
    struct aqi_node link; /* in aqc_ep.conns */
    struct aqi_node active;
    struct aqc_ep *ep;
    aq_connection *link_to; /* NULL: the peer is gone, and nothing is in flight */
    aq_team *team;
    enum aqc_state state;
    cci_status_t broken; /* status with which all sends fail; 0: none */
    uint32_t refs;       /* references held by events */
    bool left;           /* the program must no longer use it */
    bool asked;          /* the event of its request has not been returned */
    bool leaving;        /* being closed: waits for transfers as long as the peer responds */
    bool silent;         /* `leaving`: it does not */

    struct aqc_op *ops, *last; /* in the order of the calls */
    struct aqc_op *unstarted;  /* the first that may have a transfer to start */
    struct aqc_op *unsent;     /* the first that may have a message to send */
    struct aqi_node under_way; /* transfers in flight */
    uint32_t moved;            /* transfers completed */
    uint32_t queued;           /* ops not yet sent or started */
    uint32_t seq, acked;       /* messages sent, and those acknowledged by the peer's library */
    uint32_t units, freed_there;
    bool again; /* Aqueduct returned AQ_AGAIN */

    uint32_t got, told; /* messages received in order, and those acknowledged */
    uint32_t held, freed, told_freed;
    uint64_t tight_since;  /* 0: not known to be tight since it last told its counts */
    struct aqi_node early; /* messages received before the program was notified of the connection */
    bool fresh, starved;
    bool deaf; /* a message was dropped for lack of memory: drop all later ones */

    uint32_t send_timeout, keepalive; /* us; 0: none */
    bool watched;                     /* counted in aqc.timed */
    uint64_t due;                     /* no send times out earlier */
};

void aqc_conn_events(void);
void aqc_conn_activate(struct aqc_conn *conn);
/* Remove it and release what it holds; events that refer to it may remain. What was sent before is
 * delivered, unless the peer acknowledges nothing for five seconds or, during transfers, does not
 * respond. */
void aqc_conn_close(struct aqc_conn *conn);
/* All of the endpoint, without adding up the delays that silent peers cause. */
void aqc_conn_close_all(struct aqc_ep *ep);
/* Close the connection below, which ends all transfers. */
void aqc_conn_release(struct aqc_conn *conn);
void aqc_conn_unref(struct aqc_conn *conn);
cci_status_t aqc_status(aq_status st);

/* Whether the connection is unidirectional, to or from a multicast group. */
static inline bool aqc_conn_is_group(const struct aqc_conn *conn)
{
    return conn->pub.attribute == CCI_CONN_ATTR_UU_MC_TX ||
           conn->pub.attribute == CCI_CONN_ATTR_UU_MC_RX;
}

static inline bool aqc_conn_is_reliable(const struct aqc_conn *conn)
{
    return conn->pub.attribute < CCI_CONN_ATTR_UU || conn->pub.attribute > CCI_CONN_ATTR_UU_MC_RX;
}

/* op.c */
struct aqc_op *aqc_op_new(struct aqc_conn *conn, enum aqc_type type, const void *context,
                          int flags);
/* Copy the operation's message, which is sent later. */
bool aqc_op_keep(struct aqc_op *op, const struct iovec *iov, unsigned count, uint32_t len);
void aqc_op_append(struct aqc_conn *conn, struct aqc_op *op);
/* Report completed operations, in order. */
void aqc_op_complete(struct aqc_conn *conn);
/* Report the sends that have timed out. */
void aqc_op_expire(struct aqc_conn *conn, uint64_t now);
int aqc_op_wait(struct aqc_op *op); /* returns the status and frees the operation */
/* Fail all operations, including later ones. */
void aqc_conn_fail(struct aqc_conn *conn, cci_status_t status);

/* message.c */
aq_status aqc_wire_open(void);
/* Send queued messages and acknowledgments, as far as credit and room allow. */
void aqc_conn_push(struct aqc_conn *conn);
void aqc_conn_opened(struct aqc_conn *conn); /* delivers messages received early */
void aqc_conn_watch(struct aqc_conn *conn);  /* to be called if its timeouts change */

/* The program keeps nearly all of the room, and the peer does not know of some that it released. */
static inline bool aqc_conn_is_tight(const struct aqc_conn *conn)
{
    uint32_t owed = conn->freed - conn->told_freed;
    return owed != 0 && conn->held + owed > AQC_WINDOW - AQC_LARGEST;
}

bool aqc_conn_is_slow(struct aqc_conn *conn);

/*
 * Whether to tell the peer how much room the program has released. Less than a quarter is not worth
 * a note, since the program will release more, unless it keeps the rest, and has nothing left to
 * take or takes it slowly: the peer may then be waiting for this room.
 */
static inline bool aqc_conn_owes_room(struct aqc_conn *conn)
{
    return conn->freed - conn->told_freed >= AQC_WINDOW / 4 ||
           (aqc_conn_is_tight(conn) &&
            (aqi_list_is_empty(&conn->ep->queue) || aqc_conn_is_slow(conn)));
}

/* room.c. Get at least `len` bytes, and the `size` to return them with. NULL: out of memory. */
void *aqc_room_get(size_t len, uint8_t *size);
void aqc_room_put(void *room, uint8_t size); /* NULL is ignored */
void aqc_rooms_close(void);

/* rma.c */
void aqc_rma_push(struct aqc_conn *conn);
void aqc_rma_close(struct aqc_ep *ep);

/* --- the library ----------------------------------------------------------------------------- */

struct aqc {
    struct aqi_big_lock lock;
    unsigned users;
    bool closing; /* cci_finalize closes it, and may have released the lock meanwhile */
    bool forked;  /* in a child of the process that initialized the library */
    uint32_t flags;
    aq_team *world;
    int fd; /* readable if Aqueduct has work, after aq_wait_prepare */
    struct aqc_device *devices[AQC_DEVICES + 1]; /* NULL-terminated */
    unsigned device_count;
    struct aqi_node eps, active;
    const struct aqc_ep *served; /* polled by the current call */
    struct aqi_pool ops, small;
    struct aqc_room *rooms[AQC_ROOM_SIZES]; /* cached memory, and the number of blocks */
    size_t room_counts[AQC_ROOM_SIZES];
    unsigned conns;
    rlim_t descriptors; /* the limit when it was last checked */
    unsigned calling;   /* connections being established */
    unsigned timed;     /* connections with send timeouts */
    unsigned handles;   /* endpoints with a handle */
    unsigned rounds;
    uint32_t sent;    /* messages sent over udp, which may not leave before the next poll */
    uint64_t look_at; /* next check for timeouts */
    /* The progress thread, active while the program makes no call. */
    _Atomic uint32_t calls;
    bool asleep;
    bool thread_runs;
    atomic_bool thread_stops;
    int thread_wake;
    pthread_t thread;
};

extern struct aqc aqc;

static inline void aqc_lock(void)
{
    aqi_big_lock(&aqc.lock);
}
static inline void aqc_unlock(void)
{
    aqi_big_unlock(&aqc.lock);
}
void aqc_wake_thread(void);
/* aqc_lock for calls of the program: the thread need not make progress now. */
static inline void aqc_enter(void)
{
    aqc_lock();
    /* only written with the lock held */
    atomic_store_explicit(&aqc.calls, atomic_load_explicit(&aqc.calls, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    if (AQI_UNLIKELY(aqc.asleep)) aqc_wake_thread();
}
void aqc_progress(void);
/* The part that follows aq_poll. */
void aqc_progress_rest(void);
/* Returns true if any arrival from now on makes aqc.fd readable. */
bool aqc_may_sleep(void);
/* Called between two rounds of a blocking call: lets other threads run, and sleeps after many
 * rounds. */
void aqc_pause(unsigned rounds);
int aqc_thread_start(void);

#endif
