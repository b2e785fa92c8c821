/* Connections: the table of them, their progress, their end, and the queue of events. */
#include "core/conn/conn.h"

#include "base/clock.h"
#include "base/shmem.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conns conns = {.fds = CORE_WAIT_SET_NONE};
_Atomic uint32_t core_conn_used;

/* Messages are looked for in every so many rounds of progress, unless one is awaited. */
enum { LOOK_ROUNDS = 256, LOOK_CALLS = 16 };

/* --- the table ------------------------------------------------------------------------------- */

aq_connection *conn_new(unsigned t, bool client)
{
    uint32_t slot = 0;
    while (slot < aqi_core_config.conn_max && atomic_load(&conns.slots[slot].conn) != NULL)
        slot++;
    if (slot == aqi_core_config.conn_max) return NULL;
    aq_connection *conn =
        aligned_alloc(AQI_CACHE_LINE, aqi_round_up(sizeof(*conn), AQI_CACHE_LINE));
    if (conn == NULL) return NULL;
    memset(conn, 0, sizeof(*conn));
    conn->slot = slot;
    conn->t = t;
    conn->client = client;
    conn->peer_id.uid = UINT32_MAX;
    atomic_store(&conns.slots[slot].conn, conn);
    if (slot >= atomic_load(&conns.high)) atomic_store(&conns.high, slot + 1);
    core_source_count(&core_conn_used, 1);
    core_set_disarmed();
    return conn;
}

/* From now on no thread makes progress on it. */
static void conn_withdraw(aq_connection *conn)
{
    struct conn_slot *slot = &conns.slots[conn->slot];
    atomic_store(&slot->conn, NULL);
    while (atomic_load(&slot->users) != 0)
        core_hook_relax(NULL, UINT32_MAX);
}

void conn_destroy(aq_connection *conn)
{
    aqi_spin_lock(&conns.lock);
    conn_unqueue(conn);
    conn_set_state(conn, AQ_CONNECTION_ENDED);
    if (conn->listener != NULL) conn->listener->waiting--;
    conn->listener = NULL;
    aqi_spin_unlock(&conns.lock);
    atomic_store(&conn->routes[1].lost, true); /* also for a reply that waits in another thread */
    conn_withdraw(conn);
    if (conn->tp != NULL) {
        if (conn->peer != NULL) aqi_tp_peer_down(conn->tp, conn->peer->id);
        for (unsigned i = 0; i < AQI_COUNT_OF(conn->routes); i++)
            core_after_drop(&conn->routes[i]);
        core_asked_peer_down(conn->routes[1].rank);
    }
    aqi_spin_lock(&conns.lock);
    conn_unwatch(conn);
    conn_drop_channel(conn);
    conn_close_objects(conn);
    if (conn->shown_mem != NULL) conn->tp->ops.mem_dereg(conn->tp, conn->shown_mem);
    aqi_spin_unlock(&conns.lock);
    if (conn->rmem != NULL) conn->tp->ops.mem_unmap(conn->tp, conn->rmem);
    if (conn->tp != NULL) aqi_tp_close(conn->tp);
    if (conn->mapped != NULL) aqi_shmem_unmap(conn->mapped, conn->mapped_len);
    free(conn->sent);
    free(conn->data);
    free(conn);
    core_source_count(&core_conn_used, UINT32_MAX);
}

/* --- states and events ----------------------------------------------------------------------- */

static bool conn_awaits(int state)
{
    return state == AQ_CONNECTION_CALLING || state == AQ_CONNECTION_JOINING;
}

void conn_set_state(aq_connection *conn, int state)
{
    int old = conn_state(conn);
    if (conn_awaits(state) && !conn_awaits(old)) atomic_fetch_add(&conns.busy, 1);
    if (!conn_awaits(state) && conn_awaits(old)) atomic_fetch_sub(&conns.busy, 1);
    atomic_store_explicit(&conn->state, state, memory_order_release);
    core_progressed(); /* some thread may wait for it */
}

void conn_push(aq_connection *conn, aq_connection_event_type type)
{
    conn->events |= 1u << type;
    atomic_store(&conns.news, true);
    core_progressed();
    if (conn->queued) return;
    conn->queued = true;
    conn->next = NULL;
    *(conns.last != NULL ? &conns.last->next : &conns.first) = conn;
    conns.last = conn;
}

void conn_unqueue(aq_connection *conn)
{
    aq_connection *before = NULL;
    if (!conn->queued) return;
    for (aq_connection *c = conns.first; c != conn; c = c->next)
        before = c;
    *(before != NULL ? &before->next : &conns.first) = conn->next;
    if (conns.last == conn) conns.last = before;
    conn->queued = false;
    conn->events = 0;
}

static void conn_note_why(aq_connection *conn, aq_status status, const char *reason)
{
    conn->status = status;
    snprintf(conn->reason, sizeof(conn->reason), "%s", reason);
}

void conn_end(aq_connection *conn, aq_connection_event_type type, aq_status status,
              const char *reason)
{
    if (conn_state(conn) == AQ_CONNECTION_ENDED) return;
    if (conn->reason[0] == 0) conn_note_why(conn, status, reason);
    conn_set_state(conn, AQ_CONNECTION_ENDED);
    if (!conn->silent) conn_push(conn, type);
}

void conn_end_soon(aq_connection *conn, aq_connection_event_type type, aq_status status,
                   const char *reason)
{
    if (conn_state(conn) != AQ_CONNECTION_OPEN) {
        conn_end(conn, type, status, reason);
    } else if (atomic_load(&conn->ending) == 0) {
        conn_note_why(conn, status, reason);
        atomic_store(&conn->routes[1].lost, true); /* nothing more is worth sending */
        atomic_store_explicit(&conn->ending, type, memory_order_release);
    }
}

/* --- progress -------------------------------------------------------------------------------- */

static inline aq_connection *conn_enter(uint32_t i)
{
    struct conn_slot *slot = &conns.slots[i];
    aq_connection *conn = atomic_load_explicit(&slot->conn, memory_order_acquire);
    if (conn == NULL || !core.multi) return conn;
    /* Count first, then look; conn_withdraw does the reverse. */
    atomic_fetch_add(&slot->users, 1);
    conn = atomic_load(&slot->conn);
    if (conn == NULL) atomic_fetch_sub(&slot->users, 1);
    return conn;
}

static inline void conn_leave(uint32_t i)
{
    if (core.multi) atomic_fetch_sub(&conns.slots[i].users, 1);
}

/* Everything the peer sent has been delivered: end an open connection. */
static AQI_COLD void conn_finish(aq_connection *conn)
{
    aqi_spin_lock(&conns.lock);
    bool mine = conn_state(conn) == AQ_CONNECTION_OPEN;
    if (mine)
        conn_end(conn, (aq_connection_event_type)atomic_load(&conn->ending), conn->status, "");
    aqi_spin_unlock(&conns.lock);
    if (!mine) return;
    aqi_tp_peer_down(conn->tp, conn->peer->id);
    core_asked_peer_down(conn->routes[1].rank);
}

/* A reply waits for room on a connection: not forever. */
static void conn_stalled(struct core_wait *wait, const struct core_route *route)
{
    uint64_t now = aqi_now_ns();
    if (wait->yield_since == 0) wait->yield_since = now;
    if (now - wait->yield_since < aqi_core_config.conn_timeout_ns) return;
    aqi_spin_lock(&conns.lock);
    aq_connection *conn = atomic_load(&conns.slots[route->rank - core.params.size].conn);
    if (conn != NULL)
        conn_end_soon(conn, AQ_CONNECTION_LOST, AQ_ETIMEOUT, "the peer takes no replies");
    aqi_spin_unlock(&conns.lock);
}

/*
 * Its transport found the peer gone: the control channel says how, or at least that the connection
 * should end.
 */
static AQI_COLD void conn_look_closely(aq_connection *conn)
{
    atomic_store(&conn->suspect, false);
    aqi_spin_lock(&conns.lock);
    /* The control channel gets its turn among all; but messages of others may come without an end.
     */
    uint32_t turns = atomic_load(&conns.high) + 1;
    while (turns-- > 0 && atomic_load(&conn->ending) == 0 && conn_attend() != 0)
        ;
    conn_end_soon(conn, AQ_CONNECTION_LOST, AQ_EPEER, "the transport reports the peer as lost");
    aqi_spin_unlock(&conns.lock);
}

unsigned conn_attend(void)
{
    unsigned n = 0;
    for (unsigned t = 0; t < CORE_MAX_TRANSPORTS; t++)
        if (conns.rendezvous[t] != NULL)
            n += aqi_transports[t]->rendezvous->progress(conns.rendezvous[t]);
    if (atomic_load(&conns.busy) != 0) conn_times(aqi_now_ns());
    return n;
}

void core_conns_sweep(void)
{
    if (AQI_LIKELY(!atomic_exchange(&conns.forgotten, false))) return;
    for (uint32_t i = 0; i < atomic_load(&conns.high); i++) {
        aqi_spin_lock(&conns.lock);
        aq_connection *conn = atomic_load(&conns.slots[i].conn);
        bool forget = conn != NULL && conn->forget;
        if (forget) conn->forget = false;
        aqi_spin_unlock(&conns.lock);
        if (forget) conn_destroy(conn);
    }
}

/* Whether all that the peer of this connection, which has ended, sent has been delivered. */
static bool conn_delivered(aq_connection *conn)
{
    const struct aqi_transport *ops = &conn->tp->ops;
    struct pollfd arrivals = {.fd = ops->wait_fd(conn->tp), .events = POLLIN};
    aqi_spin_lock(&conns.lock);
    bool all = (ops->caps & AQI_CAP_WAIT_FD) != 0 && ops->arm(conn->tp, true) == AQ_OK &&
               poll(&arrivals, 1, 0) == 0;
    (void)ops->arm(conn->tp, false);
    conn->armed = false;
    aqi_spin_unlock(&conns.lock);
    return all;
}

/* The ends that progress would find, where it has nothing to deliver before. */
static void conn_finish_delivered(void)
{
    for (uint32_t i = 0; i < atomic_load(&conns.high); i++) {
        aq_connection *conn = conn_enter(i);
        if (conn == NULL) continue;
        if (conn_state(conn) == AQ_CONNECTION_OPEN && atomic_load(&conn->ending) != 0 &&
            conn_delivered(conn))
            conn_finish(conn);
        conn_leave(i);
    }
}

/* The oldest event of the connection at the head of the queue; the lock is held. */
static void conn_take_event(aq_connection_event *event)
{
    aq_connection *conn = conns.first;
    int type = __builtin_ctz(conn->events);
    bool over = type >= AQ_CONNECTION_FAILED, request = type == AQ_CONNECTION_REQUEST;
    conn->events &= conn->events - 1;
    *event = (aq_connection_event){
        .type = (aq_connection_event_type)type,
        .status = over ? conn->status : AQ_OK,
        .connection = conn,
        .listener = request ? conn->listener : NULL,
        .context = request && conn->listener != NULL ? conn->listener->context : conn->context};
    if (conn->events == 0) conn_unqueue(conn);
    if (conns.first == NULL) atomic_store_explicit(&conns.news, false, memory_order_relaxed);
}

aq_status aq_connection_next_event(aq_connection_event *event)
{
    aq_status st = aqi_core_callable("aq_connection_next_event");
    if (st != AQ_OK) return st;
    if (event == NULL)
        return aqi_fail(AQ_EINVAL, "core", "aq_connection_next_event: no place for the event");
    if (atomic_load(&core_conn_used) == 0) return AQ_AGAIN;
    aqi_spin_lock(&conns.lock);
    /* A look is a system call, and programs ask in each round of their loops. */
    bool look = atomic_load(&conns.busy) != 0 || ++conns.asked % LOOK_CALLS == 0;
    if (conns.first == NULL && look) {
        conn_attend();
        aqi_spin_unlock(&conns.lock);
        conn_finish_delivered();
        aqi_spin_lock(&conns.lock);
    }
    st = conns.first != NULL ? AQ_OK : AQ_AGAIN;
    if (st == AQ_OK) conn_take_event(event);
    aqi_spin_unlock(&conns.lock);
    core_conns_sweep();
    return st;
}

static unsigned conn_look(void)
{
    uint32_t round = atomic_load_explicit(&conns.rounds, memory_order_relaxed) + 1;
    atomic_store_explicit(&conns.rounds, round, memory_order_relaxed);
    bool busy = atomic_load_explicit(&conns.busy, memory_order_relaxed) != 0;
    if (AQI_LIKELY(!busy && round % LOOK_ROUNDS != 0)) return 0;
    if (!aqi_spin_try(&conns.lock)) return 0;
    unsigned n = conn_attend();
    aqi_spin_unlock(&conns.lock);
    core_conns_sweep();
    return n;
}

/*
 * As for the transports of a job: what no word tells of needs a whole round, which is one in so
 * many, whichever threads make them.
 */
static bool conn_by_words(enum aqi_progress_mode mode)
{
    uint32_t round = atomic_load_explicit(&conns.rounds, memory_order_relaxed);
    return mode == AQI_PROGRESS_ALL && round % AQI_POLLS_PER_ROUND != 0 &&
           atomic_load_explicit(&aqi_tp_pending, memory_order_relaxed) == 0;
}

static inline unsigned conn_progress(aq_connection *conn, bool by_words,
                                     enum aqi_progress_mode mode, uint64_t now)
{
    struct aqi_tp *tp = conn->tp;
    uint32_t watch;
    if (!by_words || !tp->watched ||
        AQI_UNLIKELY(atomic_load_explicit(&conn->suspect, memory_order_relaxed) ||
                     atomic_load_explicit(&conn->ending, memory_order_relaxed) != 0))
        return tp->ops.progress(tp, mode, now);
    if (AQI_LIKELY(!aqi_tp_has_moved(tp, &watch))) return 0;
    return tp->moved != NULL ? tp->moved(tp, watch) : tp->ops.progress(tp, mode, now);
}

static unsigned conn_poll(enum aqi_progress_mode mode, uint64_t now)
{
    unsigned n = 0;
    bool by_words = conn_by_words(mode);
    uint32_t high = atomic_load_explicit(&conns.high, memory_order_acquire);
    for (uint32_t i = 0; i < high; i++) {
        aq_connection *conn = conn_enter(i);
        if (conn == NULL) continue;
        if (AQI_LIKELY(conn_state(conn) == AQ_CONNECTION_OPEN)) {
            unsigned got = conn_progress(conn, by_words, mode, now);
            n += got;
            if (got == 0 && mode == AQI_PROGRESS_ALL) {
                if (AQI_UNLIKELY(atomic_load_explicit(&conn->suspect, memory_order_relaxed)))
                    conn_look_closely(conn);
                if (AQI_UNLIKELY(atomic_load_explicit(&conn->ending, memory_order_acquire)))
                    conn_finish(conn);
            }
        }
        conn_leave(i);
    }
    n += conn_look();
    if (AQI_UNLIKELY(atomic_load_explicit(&conns.news, memory_order_relaxed)) &&
        atomic_exchange(&conns.news, false))
        n++; /* so that the program looks before it sleeps */
    return n;
}

aq_status core_conns_open(void)
{
    static const struct core_source source = {.busy = &core_conn_used,
                                              .poll = conn_poll,
                                              .before_sleep = conn_before_sleep,
                                              .stalled = conn_stalled};
    core_source_add(&source);
    core_mem_hooks = (struct core_mem_hooks){.hide = conn_hide};
    return AQ_OK;
}

/* --- opening and closing --------------------------------------------------------------------- */

aq_status core_conn_ready(void)
{
    aqi_spin_lock(&conns.lock);
    aq_status st = AQ_OK;
    if (conns.slots == NULL) {
        conns.slots = calloc(aqi_core_config.conn_max, sizeof(*conns.slots));
        if (conns.slots == NULL) st = aqi_fail(AQ_ENOMEM, "core", "no memory for connections");
        if (st == AQ_OK) st = core_wait_set_open(&conns.fds);
        if (st != AQ_OK) {
            free(conns.slots);
            conns.slots = NULL;
        }
    }
    aqi_spin_unlock(&conns.lock);
    return st;
}

void core_conns_close(void)
{
    for (uint32_t i = 0; i < atomic_load(&conns.high); i++) {
        aq_connection *conn = atomic_load(&conns.slots[i].conn);
        if (conn == NULL) continue;
        if (conn->channel != NULL && conn_state(conn) >= AQ_CONNECTION_JOINING)
            (void)conn_write(conn, AQI_HELLO_BYE);
        conn_destroy(conn);
    }
    while (conns.listeners != NULL) {
        aq_listener *listener = conns.listeners;
        conns.listeners = listener->next;
        free(listener);
    }
    for (unsigned t = 0; t < CORE_MAX_TRANSPORTS; t++)
        if (conns.rendezvous[t] != NULL) aqi_transports[t]->rendezvous->close(conns.rendezvous[t]);
    core_wait_set_close(&conns.fds);
    free(conns.slots);
    conns = (struct conns){.fds = CORE_WAIT_SET_NONE};
    atomic_store(&core_conn_used, 0);
}
