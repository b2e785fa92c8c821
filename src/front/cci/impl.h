/*
 * cci: what the files of the front end share. All of it is accessed with the lock held, and the
 * library below is called with it held.
 */
#ifndef AQC_IMPL_H
#define AQC_IMPL_H

#include "base/iov.h"
#include "base/kick.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/spin.h"

#include <aqueduct/aqueduct.h>
#include <cci.h>
#include <pthread.h>

enum {
    AQC_MESSAGE = 65408, /* bytes of the largest message; a device may offer less */
    AQC_SMALL = 256,     /* bytes of a message that is kept in an event of the pool */
    AQC_ROOM_SIZES = 9,
    AQC_QUEUED = 16384,  /* sends of a connection that wait to leave */
    AQC_UNIT = 64,       /* bytes: what a message takes at its receiver is counted in units */
    AQC_WINDOW = 131072, /* units of a connection that its receiver keeps, 8 MB */
    AQC_SPINS = 16       /* empty looks in a row by a program that does not sleep */
};

/* --- devices --------------------------------------------------------------------------------- */

enum aqc_kind { AQC_SM, AQC_SOCK, AQC_TCP, AQC_KINDS };

struct aqc_device {
    struct cci_device pub;
    enum aqc_kind kind;
    bool is_default;
    int priority;
    char address[64]; /* sock, tcp: where to listen */
    uint16_t port;    /* 0: any */
    bool anyone;      /* may connect; else the same user, or programs with the secret */
    unsigned pid;     /* sm: in place of the process's; 0: none */
    unsigned next_id; /* sm: of the next endpoint */
    const char **arguments;
    unsigned count;
};

aq_status aqc_devices_open(void);
void aqc_devices_close(void);
/* Look again whether its interface is up. */
void aqc_device_look(struct aqc_device *device);
/* For it and all others at its address. */
void aqc_device_set_up(const struct aqc_device *device, bool up);
/* The URI at which an endpoint of it listens; `service` NULL: one that is free. */
int aqc_device_uri(struct aqc_device *device, const char *service, char *uri, size_t len);
/* From a URI of programs to one of Aqueduct, and back. False: it is of another kind. */
bool aqc_uri_inside(enum aqc_kind kind, const char *uri, char *inside, size_t len);
/* Have a group be reached by the interface of the device, unless its URI names one. */
void aqc_uri_group(const struct aqc_device *device, char *inside, size_t len);
void aqc_uri_outside(enum aqc_kind kind, const char *inside, char *uri, size_t len);

/* --- endpoints and their events -------------------------------------------------------------- */

struct aqc_conn;

struct aqc_mr {
    struct cci_rma_handle pub; /* that of the region */
    struct aqi_node link;      /* in aqc_ep.mrs */
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
    char uri[256];
    struct aqi_node conns;
    struct aqi_node queue; /* events that were not taken */
    struct aqi_node lent;  /* those that were */
    struct aqi_node mrs;
    struct aqc_mr *last_mr;           /* that was looked for */
    uint32_t send_timeout, keepalive; /* us; 0: none */
    uint32_t starved;                 /* connections whose room is nearly all lent to the program */
    uint32_t takes;                   /* of events, since progress was made */
    unsigned spins;                   /* empty looks in a row */
    bool has_handle, signaled;
    bool failed;        /* its device, and that was reported */
    int handle, signal; /* the epoll set that the program sleeps on; the event in it */
};

/* Begins with what the program sees. The payload of a message follows it. */
struct aqc_event {
    union cci_event pub;
    struct aqi_node link;
    struct aqc_ep *ep;
    struct aqc_conn *conn; /* RECV: that it came from; CONNECT_REQUEST: the one asked for */
    struct aqi_pool *pool; /* NULL: from aqc_room_get, of this */
    uint8_t size;
    uint32_t units; /* RECV */
    bool answered;  /* CONNECT_REQUEST */
};

#define AQC_PAYLOAD(event)                                                                         \
    ((unsigned char *)(event) + ((sizeof(struct aqc_event) + 15) & ~(size_t)15))

/* Make the handle readable if there are events. */
void aqc_ep_signal(struct aqc_ep *ep);
void aqc_ep_close(struct aqc_ep *ep);
void aqc_ep_interface(struct aqc_ep *ep, bool up); /* that of its device is up again, or is lost */

void aqc_event_push(struct aqc_event *event);
/* `len` bytes behind the event, 16-byte aligned. NULL: out of memory. */
struct aqc_event *aqc_event_new(struct aqc_ep *ep, size_t len);
void aqc_event_free(struct aqc_event *event);
/* An event about a connection: CONNECT, ACCEPT or KEEPALIVE_TIMEDOUT. */
void aqc_event_about(struct aqc_conn *conn, cci_event_type_t type, cci_status_t status);

/* --- connections ----------------------------------------------------------------------------- */

enum aqc_state {
    AQC_CALLING,
    AQC_ASKED,   /* a request that was not answered */
    AQC_JOINING, /* accepted */
    AQC_OPEN,
    AQC_GONE /* the peer */
};

enum aqc_type { AQC_SEND, AQC_WRITE, AQC_READ };

/* A send or RMA under way; it becomes the SEND event. */
struct aqc_op {
    struct aqc_event event;
    struct aqc_op *next;
    struct aqi_node rma; /* in aqc_conn.under_way */
    enum aqc_type type;
    int flags;
    bool started, done; /* the transfer */
    bool sent;          /* the message */
    bool finished;      /* for a blocking caller */
    cci_status_t status;
    uint32_t seq;
    uint32_t len; /* bytes of the message */
    void *msg;    /* a copy of it, from aqc_room_get, of this size */
    uint8_t msg_size;
    uint64_t deadline;
    aq_region_handle there;
    uint64_t remote, size; /* `remote`: an offset */
    void *local;
    aq_event transfer;
};

struct aqc_conn {
    struct cci_connection pub;
    struct aqi_node link; /* in aqc_ep.conns */
    struct aqi_node active;
    struct aqc_ep *ep;
    aq_connection *link_to; /* NULL: the peer is gone, and nothing is under way */
    aq_team *team;
    enum aqc_state state;
    cci_status_t broken; /* why all sends fail; 0: they do not */
    uint32_t refs;       /* events that name it */
    bool left;           /* the program does not know it any more */
    bool asked;          /* the event of its request was not returned */
    void *data;          /* a copy of the request's, once it was rejected */

    struct aqc_op *ops, *last; /* in the order of the calls */
    struct aqc_op *unstarted;  /* the first that may be a transfer to start */
    struct aqc_op *unsent;     /* the first that may have a message to send */
    struct aqi_node under_way; /* transfers */
    uint32_t queued;           /* ops that were not sent or started */
    uint32_t seq, acked;       /* messages: sent; taken by the peer's library */
    uint32_t units, freed_there;
    bool again; /* the library had no room */

    uint32_t got, told; /* messages in order; what the peer knows of that */
    uint32_t held, freed, told_freed;
    struct aqi_node early; /* messages that came before the connection's own event was seen */
    bool fresh, starved;
    bool deaf; /* a message was lost for want of memory, and so are those that follow */

    uint32_t send_timeout, keepalive; /* us; 0: none */
    bool watched;                     /* counted in aqc.timed */
};

void aqc_conn_events(void);
void aqc_conn_activate(struct aqc_conn *conn);
/* Remove it and release what it holds; events that name it may live on. */
void aqc_conn_close(struct aqc_conn *conn);
/* Close the connection below; no transfer is under way. */
void aqc_conn_release(struct aqc_conn *conn);
void aqc_conn_unref(struct aqc_conn *conn);
cci_status_t aqc_status(aq_status st);

/* One way, to or from a multicast group. */
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
/* Copy the message of it, which leaves later. */
bool aqc_op_keep(struct aqc_op *op, const struct iovec *iov, unsigned count, uint32_t len);
void aqc_op_append(struct aqc_conn *conn, struct aqc_op *op);
/* Report what is complete, in order. */
void aqc_op_complete(struct aqc_conn *conn);
void aqc_op_fail(struct aqc_conn *conn, struct aqc_op *op, cci_status_t status);
int aqc_op_wait(struct aqc_op *op); /* returns the status, and frees it */
/* Fail all of them, and all that follow. */
void aqc_conn_fail(struct aqc_conn *conn, cci_status_t status);

/* message.c */
aq_status aqc_wire_open(void);
/* Send and acknowledge what can be. */
void aqc_conn_push(struct aqc_conn *conn);
void aqc_conn_opened(struct aqc_conn *conn); /* deliver what came early */
void aqc_conn_times(struct aqc_conn *conn, uint64_t now);
void aqc_conn_watch(struct aqc_conn *conn); /* its timeouts have changed */

/* room.c. At least `len` bytes, and the size to put them back with; NULL: no memory. */
void *aqc_room_get(size_t len, uint8_t *size);
void aqc_room_put(void *room, uint8_t size); /* NULL is ignored */
void aqc_rooms_close(void);

/* rma.c */
void aqc_rma_push(struct aqc_conn *conn);
void aqc_rma_close(struct aqc_ep *ep);

/* --- the library ----------------------------------------------------------------------------- */

struct aqc {
    struct aqi_spin lock;
    unsigned users;
    uint32_t flags;
    aq_team *world;
    int fd; /* readable when the library below has work, after aq_wait_prepare */
    struct aqc_device **devices; /* and a NULL */
    unsigned device_count;
    struct aqi_node eps, active;
    struct aqi_pool ops, small;
    struct aqc_room *rooms[AQC_ROOM_SIZES]; /* that are kept, and how many */
    size_t room_counts[AQC_ROOM_SIZES];
    unsigned calling; /* connections that are being made */
    unsigned timed;   /* connections with timeouts of sends */
    unsigned handles; /* endpoints that the program may sleep on */
    unsigned rounds;
    uint32_t sent;    /* messages over udp, which may not leave before the next poll */
    uint64_t look_at; /* for timeouts */
    /* Of the thread that makes progress while the program does not. */
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
    aqi_spin_lock(&aqc.lock);
}
static inline void aqc_unlock(void)
{
    aqi_spin_unlock(&aqc.lock);
}
void aqc_wake_thread(void);
/* As aqc_lock, by a call of the program: the thread need not make progress now. */
static inline void aqc_enter(void)
{
    aqc_lock();
    /* Only this thread writes it now. */
    atomic_store_explicit(&aqc.calls, atomic_load_explicit(&aqc.calls, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    if (AQI_UNLIKELY(aqc.asleep)) aqc_wake_thread();
}
void aqc_progress(void);
/* The part of it that follows aq_poll. */
void aqc_progress_rest(void);
/* True: whatever arrives from now on makes aqc.fd readable. */
bool aqc_may_sleep(void);
/* Between two rounds of a blocking call: let other threads go on, then sleep. */
void aqc_pause(unsigned rounds);
int aqc_thread_start(void);

#endif
