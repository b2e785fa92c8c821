/*
 * Connections: the queues of events. A connection or listener with events is in the queue of the
 * process, in the order of its first event, and likewise in that of the listener, if it is one or
 * was made through one. Taking an event removes it from both.
 */
#include "core/conn/conn.h"

#include "base/kick.h"
#include "base/shmem.h"

#include <errno.h>
#include <stdlib.h>

/* One call for an event in LOOK_CALLS polls for messages; each does if one is awaited. */
enum { LOOK_CALLS = 16 };

/* --- queues ---------------------------------------------------------------------------------- */

void conn_pending_init(struct conn_pending *pending, aq_connection *conn, aq_listener *listener)
{
    *pending = (struct conn_pending){.conn = conn, .listener = listener};
    aqi_list_init(&pending->all);
    aqi_list_init(&pending->own);
}

/* The descriptor of a listener is readable while its queue is not empty. */
static void conn_events_signal(aq_listener *listener)
{
    bool some = !aqi_list_is_empty(&listener->queue);
    if (listener->fd < 0 || some == listener->signaled) return;
    listener->signaled = some;
    if (some)
        aqi_kick(listener->fd);
    else
        (void)aqi_kick_take(listener->fd);
}

static void conn_events_push(struct conn_pending *pending, aq_connection_event_type type)
{
    bool queued = pending->events != 0;
    pending->events |= 1u << type;
    atomic_store(&conns.news, true);
    core_progressed();
    if (queued) return;
    aqi_list_append(&conns.queue, &pending->all);
    if (pending->listener == NULL) return;
    aqi_list_append(&pending->listener->queue, &pending->own);
    conn_events_signal(pending->listener);
}

static void conn_events_drop(struct conn_pending *pending, unsigned types)
{
    pending->events &= ~types;
    if (pending->events != 0) return;
    aqi_list_remove(&pending->all);
    aqi_list_remove(&pending->own);
    if (pending->listener != NULL) conn_events_signal(pending->listener);
}

void conn_push(aq_connection *conn, aq_connection_event_type type)
{
    conn_events_push(&conn->pending, type);
}

void conn_drop_events(aq_connection *conn, unsigned types)
{
    conn_events_drop(&conn->pending, types);
}

void conn_leave_listener(aq_connection *conn)
{
    struct conn_pending *pending = &conn->pending;
    aq_listener *listener = pending->listener;
    pending->listener = NULL;
    aqi_list_remove(&pending->own);
    if (listener != NULL) conn_events_signal(listener);
}

void conn_listener_init(aq_listener *listener)
{
    listener->fd = -1;
    aqi_list_init(&listener->queue);
    conn_pending_init(&listener->pending, NULL, listener);
}

void conn_listener_free(aq_listener *listener)
{
    conn_events_drop(&listener->pending, UINT_MAX);
    if (listener->fd >= 0) close(listener->fd);
    free(listener);
}

/* An AQ_LISTENER_UP that the program has not seen is dropped when the interface goes down again. */
void conn_listener_interface(void *arg, void *user, aq_status status)
{
    aq_listener *listener = user;
    (void)arg;
    if (status == AQ_OK) {
        conn_events_push(&listener->pending, AQ_LISTENER_UP);
        return;
    }
    listener->why_down = status;
    conn_events_push(&listener->pending, AQ_LISTENER_DOWN);
    conn_events_drop(&listener->pending, 1u << AQ_LISTENER_UP);
}

/* --- taking events --------------------------------------------------------------------------- */

static struct conn_pending *conn_events_first(const aq_listener *listener)
{
    const struct aqi_node *queue = listener != NULL ? &listener->queue : &conns.queue;
    if (aqi_list_is_empty(queue)) return NULL;
    return listener != NULL ? AQI_OF(queue->next, struct conn_pending, own)
                            : AQI_OF(queue->next, struct conn_pending, all);
}

static void conn_events_fill(aq_connection *conn, int type, aq_connection_event *event)
{
    bool over = type >= AQ_CONNECTION_FAILED && type <= AQ_CONNECTION_LOST,
         request = type == AQ_CONNECTION_REQUEST;
    event->status = over ? conn->status : AQ_OK;
    event->connection = conn;
    event->listener = request ? conn->listener : NULL;
    event->context = event->listener != NULL ? event->listener->context : conn->context;
}

static void conn_events_fill_listener(aq_listener *listener, int type, aq_connection_event *event)
{
    event->status = type == AQ_LISTENER_DOWN ? listener->why_down : AQ_OK;
    event->listener = listener;
    event->context = listener->context;
}

static void conn_events_take(struct conn_pending *pending, aq_connection_event *event)
{
    int type = __builtin_ctz(pending->events);
    *event = (aq_connection_event){.type = (aq_connection_event_type)type};
    if (pending->conn != NULL)
        conn_events_fill(pending->conn, type, event);
    else
        conn_events_fill_listener(pending->listener, type, event);
    conn_events_drop(pending, 1u << type);
    if (aqi_list_is_empty(&conns.queue))
        atomic_store_explicit(&conns.news, false, memory_order_relaxed);
}

/* The next event of a listener; NULL: of all. */
static aq_status conn_events_next(const aq_listener *listener, aq_connection_event *event)
{
    aqi_spin_lock(&conns.lock);
    struct conn_pending *first = conn_events_first(listener);
    /* Polling takes a system call, and programs call this in each round of their loops. */
    bool look = atomic_load(&conns.busy) != 0 || ++conns.asked % LOOK_CALLS == 0;
    if (first == NULL && look) {
        conn_attend();
        aqi_spin_unlock(&conns.lock);
        conn_finish_delivered();
        aqi_spin_lock(&conns.lock);
        first = conn_events_first(listener);
    }
    if (first != NULL) conn_events_take(first, event);
    aqi_spin_unlock(&conns.lock);
    core_conns_sweep();
    return first != NULL ? AQ_OK : AQ_AGAIN;
}

aq_status aq_connection_next_event(aq_connection_event *event)
{
    aq_status st = aqi_core_callable("aq_connection_next_event");
    if (st != AQ_OK) return st;
    if (event == NULL)
        return aqi_fail(AQ_EINVAL, "core", "aq_connection_next_event: the event is NULL");
    if (atomic_load(&core_conn_used) == 0) return AQ_AGAIN;
    return conn_events_next(NULL, event);
}

/* --- those of a listener --------------------------------------------------------------------- */

static aq_status conn_events_check(const char *call, const aq_listener *listener, const void *out)
{
    aq_status st = aqi_core_callable(call);
    if (st != AQ_OK || (listener != NULL && out != NULL)) return st;
    return aqi_fail(AQ_EINVAL, "core", "%s: %s is NULL", call,
                    listener == NULL ? "the listener" : "the event");
}

aq_status aq_listener_next_event(aq_listener *listener, aq_connection_event *event)
{
    aq_status st = conn_events_check("aq_listener_next_event", listener, event);
    return st == AQ_OK ? conn_events_next(listener, event) : st;
}

aq_status aq_listener_fd(aq_listener *listener, int *fd)
{
    aq_status st = conn_events_check("aq_listener_fd", listener, fd);
    if (st != AQ_OK) return st;
    aqi_spin_lock(&conns.lock);
    if (listener->fd < 0) listener->fd = aqi_kick_new();
    if (listener->fd < 0) st = aqi_fail_no_fd(errno, "core", "aq_listener_fd");
    conn_events_signal(listener); /* for earlier events */
    if (st == AQ_OK) *fd = listener->fd;
    aqi_spin_unlock(&conns.lock);
    return st;
}
