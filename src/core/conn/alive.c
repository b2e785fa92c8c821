/* Timeouts of open connections: sends that take too long, and silent peers. */
#include "core/conn/alive.h"

#include "base/clock.h"

#include <stdlib.h>

/* Pings within the time after which a peer counts as silent; the interval between full scans. */
enum { ALIVE_PINGS = 4, ALIVE_SCAN_NS = 1000000 };

struct conn_send {
    struct aqi_comp comp; /* used by the transport until `local` is 0 */
    struct aqi_op *op;    /* NULL: completed, or the event is that of the token */
    uint64_t token;       /* of core_asked_send, if the send waits for its handler; else 0 */
    uint32_t rank;
    uint64_t deadline;
    struct conn_send *next;
};

static struct {
    struct aqi_spin lock; /* protects the list, and the keepalive state of connections */
    struct conn_send *first, **end;
    uint64_t scan_at;      /* time of the next scan of the whole list, not only the oldest */
    _Atomic uint32_t busy; /* sends in the list, and connections with keepalive */
    _Atomic uint64_t due;  /* time of the next keepalive check; UINT64_MAX: never */
    uint32_t changes;      /* calls of aq_connection_keepalive: each requires another check */
} alive = {.end = &alive.first};

/* --- sends ----------------------------------------------------------------------------------- */

static void alive_add(struct conn_send *send)
{
    aqi_spin_lock(&alive.lock);
    *alive.end = send;
    alive.end = &send->next;
    aqi_spin_unlock(&alive.lock);
    core_source_count(&alive.busy, 1);
}

struct conn_send *conn_send_new(uint64_t deadline)
{
    struct conn_send *send = calloc(1, sizeof(*send));
    if (send == NULL) {
        aqi_fail(AQ_ENOMEM, "core", "no memory for a message with a timeout");
        return NULL;
    }
    send->comp.shared = core.multi | AQI_COMP_ACKED;
    send->comp.local = 1;
    send->deadline = deadline;
    return send;
}

struct aqi_comp *conn_send_comp(struct conn_send *send)
{
    return &send->comp;
}

static void alive_complete(struct conn_send *send, aq_status status)
{
    struct aqi_op *op = send->op;
    send->op = NULL;
    if (status != AQ_OK) aqi_comp_fail(&op->set.message, status);
    aqi_comp_local(&op->set.message);
}

static bool alive_is_over(const struct conn_send *send)
{
    return atomic_load_explicit(&send->comp.local, memory_order_acquire) == 0;
}

void conn_send_begun(struct conn_send *send, struct aqi_op *op)
{
    send->op = op;
    if (!alive_is_over(send)) {
        alive_add(send);
        return;
    }
    alive_complete(send, (aq_status)send->comp.status);
    free(send);
}

void conn_send_asked(struct conn_send *send, uint64_t token, uint32_t rank)
{
    send->token = token;
    send->rank = rank;
    alive_add(send);
}

/* Whether the send is finished, and its memory is not in use. */
static bool alive_look_at_send(struct conn_send *send, uint64_t now)
{
    bool late = now >= send->deadline;
    if (send->token != 0) {
        if (late) core_asked_fail(send->token, send->rank, AQ_ETIMEOUT);
        return late || !core_asked_waits(send->token, send->rank);
    }
    bool over = alive_is_over(send);
    if (send->op != NULL && over)
        alive_complete(send, (aq_status)send->comp.status);
    else if (send->op != NULL && late)
        alive_complete(send, AQ_ETIMEOUT);
    return over;
}

/* Called with the lock held. */
static unsigned alive_look_at_sends(uint64_t now)
{
    unsigned n = 0;
    bool all = now >= alive.scan_at;
    struct conn_send **at = &alive.first;
    if (all) alive.scan_at = now + ALIVE_SCAN_NS;
    for (struct conn_send *send; (send = *at) != NULL;) {
        if (alive_look_at_send(send, now)) {
            *at = send->next;
            if (send->next == NULL) alive.end = at;
            free(send);
            core_source_count(&alive.busy, UINT32_MAX);
            n++;
        } else if (all) {
            at = &send->next;
        } else {
            break;
        }
    }
    return n;
}

/* --- keepalive ------------------------------------------------------------------------------- */

static void alive_report(aq_connection *conn)
{
    aqi_spin_lock(&conns.lock);
    if (conn_state(conn) == AQ_CONNECTION_OPEN) conn_push(conn, AQ_CONNECTION_SILENT);
    aqi_spin_unlock(&conns.lock);
}

/* Ping the peer; if there is no room, as soon as it makes some. */
static void alive_ask(aq_connection *conn)
{
    struct conn_alive *mine = &conn->alive;
    if (mine->sent) return;
    atomic_store(&mine->ping.remote, 1);
    mine->sent = aqi_tp_ping(conn->tp, conn->peer, &mine->ping) == AQ_OK;
    if (!mine->sent) atomic_store(&mine->ping.remote, 0);
}

/* Called with the lock held. Returns the time of the next check. */
static uint64_t alive_look_at(aq_connection *conn, uint64_t now, bool *silent)
{
    struct conn_alive *mine = &conn->alive;
    uint64_t limit = mine->limit, pause = aqi_max(limit / ALIVE_PINGS, 1);
    if (limit == 0 || conn_state(conn) != AQ_CONNECTION_OPEN) return UINT64_MAX;
    if (mine->sent && atomic_load_explicit(&mine->ping.remote, memory_order_acquire) == 0) {
        mine->sent = mine->reported = false;
        mine->since = 0;
        mine->ask_at = now + pause;
    }
    if (mine->since == 0 && now < mine->ask_at) return mine->ask_at;
    if (mine->since == 0) mine->since = now;
    alive_ask(conn);
    *silent = !mine->reported && now - mine->since >= limit;
    mine->reported = mine->reported || *silent;
    return now + pause;
}

static unsigned alive_look_at_peers(uint64_t now)
{
    unsigned n = 0;
    uint64_t due = UINT64_MAX;
    aqi_spin_lock(&alive.lock);
    uint32_t changes = alive.changes;
    aqi_spin_unlock(&alive.lock);
    for (uint32_t i = 0; i < atomic_load(&conns.high); i++) {
        bool silent = false;
        aq_connection *conn = conn_hold(i);
        if (conn == NULL) continue;
        aqi_spin_lock(&alive.lock);
        due = aqi_min(due, alive_look_at(conn, now, &silent));
        aqi_spin_unlock(&alive.lock);
        if (silent) alive_report(conn);
        n += silent;
        conn_let_go(i);
    }
    aqi_spin_lock(&alive.lock);
    /* A connection may have been passed before another thread set its time. */
    if (changes == alive.changes) atomic_store(&alive.due, due);
    aqi_spin_unlock(&alive.lock);
    return n;
}

aq_status aq_connection_keepalive(aq_connection *conn, uint64_t ns)
{
    aq_status st = aqi_core_callable(__func__);
    if (st != AQ_OK) return st;
    if (conn == NULL)
        return aqi_fail(AQ_EINVAL, "core", "aq_connection_keepalive: the connection is NULL");
    if (conn_state(conn) < AQ_CONNECTION_OPEN)
        return aqi_fail(AQ_ESTATE, "core", "aq_connection_keepalive: the connection is not open");
    st = core_may_answer(&conn->routes[1], __func__);
    if (st != AQ_OK) return st;
    aqi_spin_lock(&alive.lock);
    struct conn_alive *mine = &conn->alive;
    if (ns != 0 && mine->limit == 0) core_source_count(&alive.busy, 1);
    if (ns == 0 && mine->limit != 0) core_source_count(&alive.busy, UINT32_MAX);
    mine->limit = ns;
    mine->reported = false;
    mine->since = 0;
    mine->ask_at = 0;
    mine->ping.shared = core.multi;
    alive.changes++;
    atomic_store(&alive.due, 0);
    aqi_spin_unlock(&alive.lock);
    core_set_disarmed(); /* a sleeping thread must apply the new limit */
    return AQ_OK;
}

void conn_alive_forget(aq_connection *conn)
{
    aqi_spin_lock(&alive.lock);
    if (conn->alive.limit != 0) core_source_count(&alive.busy, UINT32_MAX);
    conn->alive.limit = 0;
    aqi_spin_unlock(&alive.lock);
}

/* --- progress -------------------------------------------------------------------------------- */

static unsigned alive_poll(enum aqi_progress_mode mode, uint64_t now)
{
    unsigned n = 0;
    if (mode != AQI_PROGRESS_ALL) return 0;
    if (now == 0) now = aqi_now_ns();
    if (!aqi_spin_try(&alive.lock)) return 0;
    if (alive.first != NULL) n = alive_look_at_sends(now);
    bool due = now >= atomic_load_explicit(&alive.due, memory_order_relaxed);
    aqi_spin_unlock(&alive.lock);
    return due ? n + alive_look_at_peers(now) : n;
}

static int alive_ms_until(uint64_t at, uint64_t now)
{
    return at <= now ? 0 : (int)aqi_min((at - now + 999999) / 1000000, 1000);
}

static bool alive_before_sleep(struct core_sleep_plan *plan)
{
    if (atomic_load_explicit(&alive.busy, memory_order_relaxed) == 0) return true;
    uint64_t now = aqi_now_ns(), at = atomic_load(&alive.due);
    aqi_spin_lock(&alive.lock);
    for (const struct conn_send *send = alive.first; send != NULL; send = send->next)
        if (send->op != NULL || send->token != 0) at = aqi_min(at, send->deadline);
    aqi_spin_unlock(&alive.lock);
    int ms = alive_ms_until(at, now);
    plan->ms = plan->ms < ms ? plan->ms : ms;
    return ms != 0;
}

aq_status conn_alive_open(void)
{
    static const struct core_source source = {
        .busy = &alive.busy, .poll = alive_poll, .before_sleep = alive_before_sleep};
    core_source_add(&source);
    atomic_store(&alive.due, UINT64_MAX);
    return AQ_OK;
}

void conn_alive_close(void)
{
    for (struct conn_send *send; (send = alive.first) != NULL;) {
        alive.first = send->next;
        free(send);
    }
    alive.end = &alive.first;
    atomic_store(&alive.busy, 0);
}
