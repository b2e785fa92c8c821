/*
 * Shared by the files of connections. A connection has a transport of two ranks of its own, opened
 * with the data from the messages of transport/hello.h (the server is rank 0, the client rank 1),
 * and a team of two routes, by which every call finds it.
 *
 * The lock guards the table, the states, the queue of events and all calls to the rendezvous.
 * Handlers run, and transports of connections are opened and closed, without it.
 */
#ifndef AQI_CORE_CONN_IMPL_H
#define AQI_CORE_CONN_IMPL_H

#include "base/bell.h"
#include "base/list.h"
#include "core/am/am.h"
#include "core/mem/mem.h"
#include "core/vis/vis.h"
#include "transport/hello.h"

#include <limits.h>

/* The events of a connection or a listener that the program has not taken (events.c). */
struct conn_pending {
    unsigned events;          /* bits of aq_connection_event_type; 0: in no queue */
    struct aqi_node all, own; /* in the queue of the process, and of `listener` */
    aq_connection *conn;      /* NULL: events of the listener itself */
    aq_listener *listener;    /* the listener itself, or the one called; NULL: none, or closed */
};

struct aq_listener {
    struct aqi_listener *at;
    unsigned t; /* index in aqi_transports */
    unsigned flags;
    void *context;
    uint64_t waiting; /* requests that have not been answered */
    char uri[AQI_URI_MAX];
    aq_status why_down;
    struct conn_pending pending;
    struct aqi_node queue; /* events, including those of connections made through it */
    int fd;                /* readable while the queue has events; -1: not requested */
    bool signaled;
    aq_listener *next;
};

/* Keepalive: see alive.c. */
struct conn_alive {
    uint64_t limit; /* ns without a reply until the event; 0: no keepalive */
    uint64_t since; /* a reply has been awaited since then; 0: none is, but ping at `ask_at` */
    uint64_t ask_at;
    bool sent, reported; /* the ping is in flight; the event was reported */
    struct aqi_comp ping;
};

struct aq_connection {
    uint32_t slot;
    _Atomic int state;   /* aq_connection_state */
    _Atomic int ending;  /* event to report after all data is delivered; 0: none */
    atomic_bool suspect; /* its transport reported the peer as lost: check the control channel */
    _Atomic uint32_t unsure; /* empty rounds since its end that may have left something */
    bool finished;           /* under the lock of the connections: active_finish has begun */
    bool client;
    bool silent; /* aq_connect returns the result itself: no event */
    bool forget; /* its caller left before the program learned of it */
    bool armed;  /* its transport announces arrivals */
    bool was_open;
    bool may_rest; /* its transport and its peer can ring a bell */
    bool apart;    /* but not wake us: the peer is in another network namespace */
    /* Under the lock of the list, but for `last`. */
    bool active, rests, retired;
    uint32_t at;           /* its place in the list */
    _Atomic uint32_t last; /* round of the last arrival */
    struct aqi_bell_memory *peer_bell;
    bool nobody; /* nothing listened when it last called */
    unsigned t;
    unsigned flags; /* AQ_CONNECT_; at the server, as requested by the client */
    struct aqi_control_channel *channel; /* NULL: between two calls, or closed */
    aq_listener *listener;               /* of a request */
    struct aqi_writer peer_id;
    char uri[AQI_URI_MAX];            /* the URI to call */
    unsigned char addr[AQI_ADDR_MAX]; /* where the peer receives */
    uint32_t addr_len;
    void *context;

    /* How it ended. */
    aq_status status;
    uint32_t code;
    char reason[320];

    /* Being set up. */
    uint64_t deadline_ns, retry_ns, pause_ns;
    char unanswered[320]; /* why the last call was not answered, until the next one */
    void *sent;           /* our data, for each call */
    uint32_t nsent;
    void *data; /* theirs */
    uint32_t nbytes;
    uint32_t peer_medium;            /* the largest Medium that the peer accepts */
    int objects[AQI_RENDEZVOUS_FDS]; /* shared objects of the transport: made here, or received */
    unsigned object_count, object_next;

    /* Communicating. */
    struct aqi_tp *tp;
    struct aqi_peer *peer;
    struct aq_team team;
    struct core_route routes[2]; /* of its team: to ourselves, to the peer */
    struct aqi_rmem *rmem;       /* the peer's segment */
    _Atomic(aq_segment *) shown; /* accessible to the peer; NULL: nothing */
    struct aqi_mem *shown_mem;
    void *mapped; /* the peer's segment */
    struct conn_alive alive;
    uint64_t send_timeout_ns; /* 0: none */
    size_t mapped_len;
    struct conn_pending pending;
};

/* With several threads, each is counted while it makes progress on the connection. */
struct conn_slot {
    _Atomic(aq_connection *) conn;
    _Atomic uint32_t users;
};

/* A bell and the user that may ring it; the last one of the table is for all further users. */
struct conn_bell {
    struct aqi_bell bell;
    uint32_t uid;
};
enum { CONN_BELLS = 8 };

struct conns {
    struct aqi_spin lock;
    struct conn_slot *slots;    /* AQ_CONN_MAX of them */
    _Atomic uint32_t high;      /* slots below may be in use */
    _Atomic uint32_t busy;      /* connections that await a message or a timeout */
    atomic_bool forgotten;      /* some are to be freed by core_conns_sweep */
    _Atomic uint32_t rounds;    /* rounds of progress: the rendezvous is polled in some */
    _Atomic uint64_t looked_ns; /* the last time of that */
    struct aqi_rendezvous *rendezvous[CORE_MAX_TRANSPORTS]; /* as in aqi_transports */
    aq_listener *listeners;
    struct aqi_node queue; /* of connections and listeners with events */
    atomic_bool news;      /* the program has not seen one of them: do not sleep */
    uint32_t asked;        /* calls for an event: some of them poll */
    uint32_t apart;        /* open connections that cannot wake us */
    uint32_t free_from;    /* no slot below is free */
    /* active.c */
    struct aqi_spin active_lock; /* may be taken with `lock` held */
    _Atomic uint32_t *active;    /* slots */
    _Atomic uint32_t active_count;
    _Atomic uint32_t swept;
    struct conn_bell bells[CONN_BELLS]; /* the first one is our own user's */
    _Atomic uint32_t bell_count;
    atomic_bool slept;        /* wait.c: descriptors may be readable */
    atomic_bool dozes;        /* a thread sleeps, or is about to */
    struct core_wait_set fds; /* see conn/wait.c */
    unsigned char message[AQI_HELLO_MAX];
};
extern struct conns conns;
#define CONNS_NONE                                                                                 \
    {                                                                                              \
        .fds = CORE_WAIT_SET_NONE, .queue = { &conns.queue, &conns.queue }                         \
    }

/*
 * Set by the client along with AQ_CONNECT_ORDERED if the transport does not keep the order: both
 * ends number messages (layers/order.h).
 */
#define CONN_NUMBERED 0x1u
/* AQ_CONNECT_ flags: the peer is a group. */
#define CONN_GROUP (AQ_CONNECT_GROUP_SEND | AQ_CONNECT_GROUP_RECEIVE)

static inline int conn_state(const aq_connection *conn)
{
    return atomic_load_explicit(&((aq_connection *)(uintptr_t)conn)->state, memory_order_acquire);
}

static inline uint32_t conn_id(const aq_connection *conn)
{
    return core.params.size + conn->slot;
}

static inline const struct aqi_rendezvous_ops *conn_rendezvous(const aq_connection *conn)
{
    return aqi_transports[conn->t]->rendezvous;
}

/* conn.c: the table and states. Under the lock, except for conn_destroy and the sweep. */
aq_connection *conn_new(unsigned t, bool client);
void conn_destroy(aq_connection *conn);
void conn_set_state(aq_connection *conn, int state);
/* The connection has ended: keep the reason, and report it by an event of this type. */
void conn_end(aq_connection *conn, aq_connection_event_type type, aq_status status,
              const char *reason);
/* End an open connection after all that was sent before has been delivered. */
void conn_end_soon(aq_connection *conn, aq_connection_event_type type, aq_status status,
                   const char *reason);
/* The connection in a slot, which is not destroyed until conn_let_go. NULL: none. */
static inline aq_connection *conn_hold(uint32_t slot_number)
{
    struct conn_slot *slot = &conns.slots[slot_number];
    aq_connection *conn = atomic_load_explicit(&slot->conn, memory_order_acquire);
    if (conn == NULL || !core.multi) return conn;
    /* Increment `users`, then read `conn`; conn_withdraw does the reverse. */
    atomic_fetch_add(&slot->users, 1);
    conn = atomic_load(&slot->conn);
    if (conn == NULL) atomic_fetch_sub(&slot->users, 1);
    return conn;
}
static inline void conn_let_go(uint32_t slot)
{
    if (core.multi) atomic_fetch_sub(&conns.slots[slot].users, 1);
}
/* Wait for the threads that hold a connection in this slot. */
static inline void conn_await_users(uint32_t slot)
{
    while (atomic_load(&conns.slots[slot].users) != 0)
        core_hook_relax(NULL, UINT32_MAX);
}
unsigned conn_attend(void);  /* handle messages and timeouts */
void core_conns_sweep(void); /* free those whose caller left before the program learned of them */

/* events.c: their queues. Under the lock. */
void conn_pending_init(struct conn_pending *pending, aq_connection *conn, aq_listener *listener);
void conn_push(aq_connection *conn, aq_connection_event_type type);
void conn_drop_events(aq_connection *conn, unsigned types); /* a bit each */
void conn_leave_listener(aq_connection *conn);              /* the listener is being closed */
void conn_listener_init(aq_listener *listener);
void conn_listener_interface(void *arg, void *user, aq_status status); /* see rendezvous.h */
void conn_listener_free(aq_listener *listener);

/* active.c: progress. All but conn_poll may be called with the lock held. */
unsigned conn_poll(enum aqi_progress_mode mode, uint64_t now);
void conn_activate(aq_connection *conn); /* an open connection has work */
void conn_retire(aq_connection *conn);   /* never poll it again */
void conn_rest_all(void);                /* let all rest that can */
void conn_finish_delivered(void); /* end connections that progress would end, if nothing is left to
                                     deliver; without the lock */

/* conn/handshake.c: messages, calls and their timeouts. Under the lock. */
aq_status conn_rendezvous_open(unsigned t);
void conn_connect(aq_connection *conn);
void conn_refuse(unsigned t, struct aqi_control_channel *channel, aq_status status, uint32_t code,
                 const char *reason);
aq_status conn_write(aq_connection *conn, uint8_t type);
void conn_drop_channel(aq_connection *conn);
void conn_times(uint64_t now_ns);
uint64_t conn_next_time(void); /* the earliest of them; UINT64_MAX: none */

/* conn/join.c: the transport of a connection. */
void conn_hide(const aq_segment *segment); /* it is destroyed: end the peers' access */
aq_status conn_open_tp(aq_connection *conn);
aq_status conn_join(aq_connection *conn, const void *addr, uint32_t len); /* connect the peer */
void conn_describe_segment(aq_connection *conn, struct aqi_hello *hello, int *fd);
aq_status conn_learn_segment(aq_connection *conn, const struct aqi_hello *hello, int fd);
void conn_opened(aq_connection *conn);
void conn_close_objects(aq_connection *conn);
/* Check that memory passed by a peer cannot cause a fault in this process. */
aq_status conn_check_object(int fd, uint64_t size, bool exactly);

/*
 * conn/api.c: copy params of a type named `name`, which begin with their size, as the program that
 * passes them has compiled them in; NULL: none.
 */
aq_status conn_copy_params(const char *call, const void *given, void *params, size_t size,
                           const char *name);

/* bells.c: ours for the peer, and the peer's. */
aq_status conn_bells_open(void);
struct aqi_bell_rope conn_own_rope(const aq_connection *conn);
void conn_describe_bell(aq_connection *conn, struct aqi_hello *hello, int *fd);
aq_status conn_learn_bell(aq_connection *conn, const struct aqi_hello *hello, int fd);
void conn_bells_close(void);

/* wait.c */
bool conn_before_sleep(struct core_sleep_plan *plan);
aq_status conn_watch_rendezvous(unsigned t);
void conn_watch(aq_connection *conn);
void conn_unwatch(aq_connection *conn);
bool conn_watch_bell(const struct conn_bell *bell);
unsigned conn_look(void);      /* check the descriptors, under the lock */
void conn_wait_disarmed(void); /* wake a sleeping thread, whose descriptors were disarmed */

extern _Atomic uint32_t core_conn_used; /* count of listeners and connections; 0 costs nothing */
aq_status core_conn_ready(void);
void core_conns_close(void);
aq_status core_conns_open(void);

#endif
