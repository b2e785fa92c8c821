/*
 * cci: declarations shared by the files of the front end. All state is accessed, and Aqueduct is
 * called, with the lock held.
 */
#ifndef AQC_IMPL_H
#define AQC_IMPL_H

#include "base/inet.h"
#include "base/kick.h"
#include "base/list.h"
#include "base/stash.h"
#include "lib/alone.h"

#include <aqueduct/aqueduct.h>
#include <cci.h>
#include <string.h>

enum {
    AQC_MESSAGE = 65408, /* maximum message size; a device may have a lower one */
    AQC_DEVICES = 32,
    AQC_KEYS = 32,       /* maximum keys of a device */
    AQC_QUEUED = 16384,  /* maximum queued sends of a connection */
    AQC_UNIT = 64,       /* bytes: a message's memory at the receiver is counted in units of this */
    AQC_WINDOW = 131072, /* maximum units of a connection held by its receiver, 8 MB */
    AQC_LARGEST = 2 + AQC_MESSAGE / AQC_UNIT /* units of the largest message */
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

struct aqc_ep {
    struct cci_endpoint pub;
    struct aqi_node link; /* in aqc.eps */
    struct aqc_device *device;
    aq_listener *listener;
    struct aqi_node conns;
    struct aqi_node queue;            /* events not yet taken by the program */
    struct aqi_node lent;             /* events taken but not returned */
    void *mrs;                        /* registrations, a tree (tsearch) */
    struct aqc_mr *last_mr;           /* most recently used */
    uint32_t send_timeout, keepalive; /* us; 0: none */
    uint32_t starved; /* connections with nearly all of their room held by the program */
    uint32_t takes;   /* events taken since the last progress */
    unsigned spins;   /* consecutive empty polls */
    bool failed;      /* its device has failed, and that was reported */
    struct lib_alone_handle handle; /* on which the program sleeps */
    bool signaled, watches;         /* its kick, and arrivals for the library */
};

/* Begins with the public part. */
struct aqc_event {
    alignas(16) union cci_event pub;
    struct aqi_node link;
    struct aqc_ep *ep;
    struct aqc_conn *conn; /* RECV: of the message; CONNECT_REQUEST: requested */
    uint32_t units;        /* RECV */
    bool answered;         /* CONNECT_REQUEST */
};

static inline void *aqc_payload(struct aqc_event *event)
{
    return event + 1;
}

/* Make the handle readable if there are events. */
void aqc_ep_signal(struct aqc_ep *ep);
void aqc_ep_close(struct aqc_ep *ep);
void aqc_ep_interface(struct aqc_ep *ep, bool up); /* of its device */

void aqc_event_push(struct aqc_event *event);
void aqc_event_free(struct aqc_event *event);
/* Report an event of a connection: CONNECT, ACCEPT or KEEPALIVE_TIMEDOUT. */
void aqc_event_about(struct aqc_conn *conn, cci_event_type_t type, cci_status_t status);

/* --- connections ----------------------------------------------------------------------------- */

#define AQC_CLOSE_NS UINT64_C(5000000000) /* at a disconnect, for peers that are silent */

enum aqc_state {
    AQC_CALLING,
    AQC_REQUESTED, /* by a peer, and not answered yet */
    AQC_JOINING,   /* accepted */
    AQC_OPEN,
    AQC_GONE /* closed by the peer, or lost */
};

enum aqc_type { AQC_SEND, AQC_WRITE, AQC_READ };

/* Operations without a transfer, or without a message, skip stages. */
enum aqc_stage {
    AQC_TO_MOVE, /* its transfer waits for room, or for a fence */
    AQC_MOVING,
    AQC_TO_SEND, /* its message waits for room */
    AQC_SENT,    /* and not acknowledged yet */
    AQC_DONE
};

/* A pending send or RMA, which becomes the SEND event. */
struct aqc_op {
    struct aqc_event event; /* its `link` is in aqc_conn.ops */
    enum aqc_type type;
    enum aqc_stage stage;
    int flags;
    bool speaks;         /* it has a message */
    cci_status_t status; /* the first failure */
    uint32_t seq;        /* AQC_SENT: the message's number */
    uint32_t len;        /* message bytes */
    void *msg;           /* copy of the message */
    uint64_t deadline;   /* UINT64_MAX: none */
    struct aqi_node rma; /* in aqc_conn.under_way */
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
    bool reliable, group;
    cci_status_t broken; /* status with which all sends fail; 0: none */
    uint32_t refs;       /* references held by events */
    bool left;           /* the program must no longer use it */
    bool leaving;        /* being closed: waits for transfers as long as the peer responds */
    bool silent;         /* `leaving`: it does not */

    struct aqi_node ops;        /* in the order of the calls */
    struct aqi_node *unstarted; /* in `ops`: the first that may be AQC_TO_MOVE */
    struct aqi_node *unsent;    /* the first that may be before AQC_SENT */
    struct aqi_node under_way;  /* transfers in flight */
    uint32_t moved;             /* transfers completed */
    uint32_t queued;            /* ops before AQC_SENT */
    uint32_t seq, acked;        /* messages sent, and those acknowledged by the peer's library */
    uint32_t units, freed_there;
    bool again; /* Aqueduct returned AQ_AGAIN */

    uint32_t got, reported; /* messages received in order, and those acknowledged */
    uint32_t held, freed, reported_freed;
    uint64_t tight_since; /* when room was released that the peer may wait for; 0: none */
    bool fresh;           /* a message has arrived since the last round of progress */
    bool deaf;            /* a message was dropped for lack of memory: drop all later ones */

    uint32_t send_timeout, keepalive; /* us; 0: none */
    uint64_t due;                     /* no send times out earlier */
};

void aqc_conn_events(void);
void aqc_conn_activate(struct aqc_conn *conn);
/*
 * Remove these connections of an endpoint and release what they hold; events that refer to them may
 * remain. What was sent before is delivered, unless the peer acknowledges nothing for five seconds
 * or, during transfers, does not respond.
 */
void aqc_conn_close_all(struct aqi_node *conns);
/* Close the connection below, which ends all transfers; what it has not delivered yet may take
 * `timeout_ns`. */
void aqc_conn_release(struct aqc_conn *conn, uint64_t timeout_ns);
void aqc_conn_unref(struct aqc_conn *conn);
/* Report a connection that is open below. Returns false if the peer is no CCI program. */
bool aqc_conn_open(struct aqc_conn *conn);
void aqc_conn_keepalive(struct aqc_conn *conn, uint32_t us);
cci_status_t aqc_status(aq_status st);

/* message.c */
aq_status aqc_wire_open(void);
/* Send queued messages and acknowledgments, as far as credit and room allow. */
void aqc_conn_push(struct aqc_conn *conn);
/* Fail all operations, including later ones. */
void aqc_conn_fail(struct aqc_conn *conn, cci_status_t status);
/* The program has returned a message of this many units. */
void aqc_conn_returned(struct aqc_conn *conn, uint32_t units);

struct aqc_op *aqc_op_new(struct aqc_conn *conn, enum aqc_type type, const void *context,
                          int flags);
/* Queue an operation, with a copy of its message if that is to be sent, and wait for it if it
 * blocks. Returns a status; if that is CCI_ENOMEM, the operation is freed. */
int aqc_op_begin(struct aqc_op *op, const struct iovec *iov, unsigned count);
void aqc_op_set_stage(struct aqc_conn *conn, struct aqc_op *op, enum aqc_stage stage);
/* Report completed operations, in order. */
void aqc_op_complete(struct aqc_conn *conn);

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
    struct lib_alone_thread thread;
    struct aqc_device *devices[AQC_DEVICES + 1]; /* NULL-terminated */
    unsigned device_count;
    struct aqi_node eps, active;
    const struct aqc_ep *served; /* polled by the current call */
    struct aqi_stash stash;      /* of events and messages */
    unsigned conns;
    unsigned calling; /* connections being established */
    unsigned rounds;
    uint32_t sent; /* messages sent over udp, which may not leave before the next poll */
};

extern struct aqc aqc;

/* Allocate an event, followed by `len` bytes of payload. NULL: out of memory. */
static inline struct aqc_event *aqc_event_new(struct aqc_ep *ep, struct aqc_conn *conn, size_t len)
{
    struct aqc_event *event = aqi_stash_get(&aqc.stash, sizeof(*event) + len);
    if (event == NULL) return NULL;
    event->ep = ep;
    event->conn = conn;
    if (conn != NULL) conn->refs++;
    aqi_list_init(&event->link);
    return event;
}

/* Begin a call of the program. */
static inline void aqc_enter(void)
{
    aqi_big_lock(&aqc.lock);
    (void)lib_alone_thread_called(&aqc.thread);
}
static inline void aqc_unlock(void)
{
    aqi_big_unlock(&aqc.lock);
}
void aqc_progress(void);
/* The part that follows aq_poll. */
void aqc_progress_rest(void);
/* 0: there is work to do. Otherwise any arrival from now on makes the library's descriptor
 * readable; positive: check again after so many ms. */
int aqc_may_sleep(void);
/* Called between two rounds of a blocking call: lets other threads run, and sleeps after many
 * rounds. */
void aqc_pause(unsigned rounds);

#endif
