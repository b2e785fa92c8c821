/* Connections: the table of them, their progress, and their end. */
#include "core/conn/alive.h"
#include "core/conn/region.h"

#include "base/clock.h"
#include "base/shmem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conns conns = CONNS_NONE;
_Atomic uint32_t core_conn_used;

/* --- the table ------------------------------------------------------------------------------- */

aq_connection *conn_new(unsigned t, bool client)
{
    uint32_t slot = conns.free_from;
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
    conn_pending_init(&conn->pending, conn, NULL);
    atomic_store(&conns.slots[slot].conn, conn);
    conns.free_from = slot + 1;
    if (slot >= atomic_load(&conns.high)) atomic_store(&conns.high, slot + 1);
    core_source_count(&core_conn_used, 1);
    core_set_disarmed();
    return conn;
}

/* From now on no thread makes progress on it. */
static void conn_withdraw(aq_connection *conn)
{
    atomic_store(&conns.slots[conn->slot].conn, NULL);
    conn_await_users(conn->slot);
}

void conn_destroy(aq_connection *conn)
{
    aqi_spin_lock(&conns.lock);
    conn_drop_events(conn, UINT_MAX);
    conn_set_state(conn, AQ_CONNECTION_ENDED);
    if (conn->listener != NULL) conn->listener->waiting--;
    conn->listener = NULL;
    aqi_spin_unlock(&conns.lock);
    atomic_store(&conn->routes[1].lost, true); /* also for a reply that waits in another thread */
    conn_retire(conn);
    conn_withdraw(conn);
    conn_regions_forget(conn);
    conn_alive_forget(conn);
    if (conn->tp != NULL) {
        if (conn->peer != NULL) aqi_tp_peer_down(conn->tp, conn->peer->id);
        for (unsigned i = 0; i < AQI_COUNT_OF(conn->routes); i++)
            core_after_drop(&conn->routes[i]);
        core_asked_peer_down(conn->routes[1].rank);
    }
    aqi_spin_lock(&conns.lock);
    conns.free_from = (uint32_t)aqi_min(conns.free_from, conn->slot);
    if (conn->apart) conns.apart--;
    conn_unwatch(conn);
    conn_drop_channel(conn);
    conn_close_objects(conn);
    if (conn->shown_mem != NULL) conn->tp->ops.mem_dereg(conn->tp, conn->shown_mem);
    aqi_spin_unlock(&conns.lock);
    if (conn->rmem != NULL) conn->tp->ops.mem_unmap(conn->tp, conn->rmem);
    if (conn->tp != NULL) aqi_tp_close(conn->tp);
    if (conn->mapped != NULL) aqi_shmem_unmap(conn->mapped, conn->mapped_len);
    if (conn->peer_bell != NULL) aqi_bell_unmap(conn->peer_bell);
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
    core_progressed(); /* a thread may wait for it */
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
    if (conn->silent) return;
    conn_drop_events(conn, 1u << AQ_CONNECTION_SILENT); /* superseded by the end */
    conn_push(conn, type);
}

void conn_end_soon(aq_connection *conn, aq_connection_event_type type, aq_status status,
                   const char *reason)
{
    if (conn_state(conn) != AQ_CONNECTION_OPEN) {
        conn_end(conn, type, status, reason);
    } else if (atomic_load(&conn->ending) == 0) {
        conn_note_why(conn, status, reason);
        atomic_store(&conn->routes[1].lost, true); /* nothing more is sent */
        atomic_store_explicit(&conn->ending, type, memory_order_release);
        conn_activate(conn);
    }
}

/* --- progress ------------------------------------------------------------------------------- */

/* Limits the time that a reply waits for room on a connection. */
static void conn_stalled(struct core_wait *wait, const struct core_route *route)
{
    uint64_t now = aqi_now_ns();
    if (wait->yield_since == 0) wait->yield_since = now;
    if (now - wait->yield_since < aqi_core_config.conn_timeout_ns) return;
    aqi_spin_lock(&conns.lock);
    aq_connection *conn = atomic_load(&conns.slots[route->rank - core.params.size].conn);
    if (conn != NULL)
        conn_end_soon(conn, AQ_CONNECTION_LOST, AQ_ETIMEOUT, "the peer accepts no replies");
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

aq_status core_conns_open(void)
{
    static const struct core_source source = {.busy = &core_conn_used,
                                              .poll = conn_poll,
                                              .before_sleep = conn_before_sleep,
                                              .stalled = conn_stalled};
    core_source_add(&source);
    core_mem_hooks = (struct core_mem_hooks){.hide = conn_hide};
    return conn_alive_open();
}

/* --- opening and closing --------------------------------------------------------------------- */

aq_status core_conn_ready(void)
{
    aqi_spin_lock(&conns.lock);
    aq_status st = AQ_OK;
    if (conns.slots == NULL) {
        conns.slots = calloc(aqi_core_config.conn_max, sizeof(*conns.slots));
        if (conns.slots == NULL) st = aqi_fail(AQ_ENOMEM, "core", "no memory for connections");
        conns.active = calloc(aqi_core_config.conn_max, sizeof(*conns.active));
        if (conns.active == NULL) st = aqi_fail(AQ_ENOMEM, "core", "no memory for connections");
        if (st == AQ_OK) st = core_wait_set_open(&conns.fds);
        if (st == AQ_OK && (st = conn_bells_open()) != AQ_OK) core_wait_set_close(&conns.fds);
        if (st != AQ_OK) {
            free(conns.slots);
            free(conns.active);
            conns.slots = NULL;
            conns.active = NULL;
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
        conn_listener_free(listener);
    }
    for (unsigned t = 0; t < CORE_MAX_TRANSPORTS; t++)
        if (conns.rendezvous[t] != NULL) aqi_transports[t]->rendezvous->close(conns.rendezvous[t]);
    conn_regions_close();
    conn_alive_close();
    core_wait_set_close(&conns.fds);
    conn_bells_close();
    free(conns.slots);
    free(conns.active);
    conns = (struct conns)CONNS_NONE;
    atomic_store(&core_conn_used, 0);
}
