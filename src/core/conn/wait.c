/*
 * Waiting with connections. One wait set contains the rendezvous, a timer for the timeouts of
 * calls, an eventfd to wake a sleeping thread, the bells, and the descriptors of connections'
 * transports. Resting connections (active.c) cost nothing here either: a bell is armed once for all
 * of them, and a descriptor stays armed until it becomes readable.
 */
#include "core/conn/conn.h"

#include "base/clock.h"
#include "base/kick.h"
#include "base/timer.h"

#include <sys/epoll.h>

/* The source of an event of the set; TAG_SLOT and up: the connection in that slot. */
enum { TAG_RENDEZVOUS = CORE_TAG_OTHERS, TAG_BELL, TAG_SLOT };

/* Polling interval if nothing announces a transport's work. */
static const uint64_t look_again_ns = 1000000;

aq_status conn_watch_rendezvous(unsigned t)
{
    int fd = aqi_transports[t]->rendezvous->wait_fd(conns.rendezvous[t]);
    return core_wait_set_add(&conns.fds, fd, TAG_RENDEZVOUS) ? AQ_OK : core_wait_set_refused();
}

void conn_watch(aq_connection *conn)
{
    int fd = conn->tp->ops.wait_fd(conn->tp);
    (void)core_wait_set_add(&conns.fds, fd, TAG_SLOT + (uint64_t)conn->slot);
    aqi_kick(conns.fds.kick); /* a sleeping thread has not armed this one */
}

bool conn_watch_bell(const struct conn_bell *bell)
{
    return core_wait_set_add(&conns.fds, bell->bell.socket, TAG_BELL);
}

void conn_unwatch(aq_connection *conn)
{
    int fd = conn->tp != NULL ? conn->tp->ops.wait_fd(conn->tp) : -1;
    if (fd >= 0) (void)epoll_ctl(conns.fds.epoll, EPOLL_CTL_DEL, fd, NULL);
    conn->armed = false;
}

/* --- about to sleep -------------------------------------------------------------------------- */

static void conn_wait_disarm_bells(void)
{
    for (uint32_t i = 0; i < atomic_load(&conns.bell_count); i++)
        aqi_bell_disarm(&conns.bells[i].bell);
}

/* Its descriptor has become readable: let polls find the arrivals. */
static void conn_wait_wake(uint64_t slot)
{
    aq_connection *conn = atomic_load(&conns.slots[slot].conn);
    if (conn == NULL || conn->tp == NULL) return;
    if (conn->armed) (void)conn->tp->ops.arm(conn->tp, false);
    conn->armed = false;
    if (conn_state(conn) == AQ_CONNECTION_OPEN) conn_activate(conn);
}

/*
 * Consume the events of the set. Returns true if there are messages. `kicks`: also consume those
 * for a sleeping thread.
 */
static bool conn_wait_take_wakes(bool kicks)
{
    struct epoll_event events[64];
    bool messages = false, bell = false, disarmed = false;
    int n = epoll_wait(conns.fds.epoll, events, AQI_COUNT_OF(events), 0);
    for (int i = 0; i < n; i++) {
        uint64_t tag = events[i].data.u64;
        if (tag == CORE_TAG_KICK && kicks) (void)aqi_kick_take(conns.fds.kick);
        if (tag == CORE_TAG_TIMER && kicks) (void)aqi_kick_take(conns.fds.timer);
        messages = messages || tag == TAG_RENDEZVOUS;
        bell = bell || tag == TAG_BELL;
        disarmed = disarmed || tag >= TAG_BELL;
        if (tag >= TAG_SLOT) conn_wait_wake(tag - TAG_SLOT);
    }
    if (bell) conn_wait_disarm_bells();
    /* Another thread, whose sleep these should end, may be about to sleep or still asleep. */
    if (core.wakes && !kicks && disarmed) conn_wait_disarmed();
    return messages;
}

unsigned conn_look(void)
{
    atomic_store(&conns.slept, false);
    if (conn_wait_take_wakes(false)) return conn_attend();
    if (atomic_load(&conns.busy) != 0) conn_times(aqi_now_ns());
    return 0;
}

/*
 * Arm a connection; lower `*look_at` to the time at which it must be polled anyway. Returns false
 * if something has arrived.
 */
static bool conn_wait_arm(aq_connection *conn, uint64_t *look_at)
{
    const struct aqi_transport *ops = &conn->tp->ops;
    bool silent = ops->wait_fd(conn->tp) < 0;
    if ((silent && !conn->may_rest) || aqi_tp_waits_for_room(conn->tp))
        *look_at = aqi_min(*look_at, aqi_now_ns() + look_again_ns);
    *look_at = aqi_min(*look_at, ops->next_deadline(conn->tp));
    if (atomic_load(&conn->suspect) || atomic_load(&conn->ending) != 0) return false;
    if (conn->armed || (silent && conn->may_rest)) return true;
    conn->armed = ops->arm(conn->tp, true) == AQ_OK;
    return conn->armed;
}

/* Arm all connections; resting ones ring. Returns false if something has arrived meanwhile. */
static bool conn_wait_arm_all(uint64_t *look_at)
{
    bool go = true;
    for (uint32_t i = 0; i < atomic_load(&conns.active_count) && go; i++) {
        aq_connection *conn = atomic_load(&conns.slots[atomic_load(&conns.active[i])].conn);
        if (conn != NULL && conn_state(conn) == AQ_CONNECTION_OPEN)
            go = conn_wait_arm(conn, look_at);
    }
    if (go) conn_rest_all();
    for (uint32_t i = 0; i < atomic_load(&conns.active_count) && go; i++) {
        const aq_connection *conn = atomic_load(&conns.slots[atomic_load(&conns.active[i])].conn);
        go = conn == NULL || conn->armed || !conn->may_rest;
    }
    if (conns.apart != 0) *look_at = aqi_min(*look_at, aqi_now_ns() + look_again_ns);
    for (uint32_t i = 0; i < atomic_load(&conns.bell_count) && go; i++)
        go = aqi_bell_arm(&conns.bells[i].bell);
    return go;
}

void conn_wait_disarmed(void)
{
    if (atomic_load(&conns.dozes) && atomic_exchange(&conns.dozes, false)) aqi_kick(conns.fds.kick);
}

static bool conn_wait_doze(void)
{
    uint64_t look_at = UINT64_MAX;
    aqi_spin_lock(&conns.lock);
    /* First, so that a thread that disarms any of the following kicks us. */
    atomic_store(&conns.dozes, true);
    bool go = !conn_wait_take_wakes(true);
    if (!go) conn_attend();
    if (go && atomic_load(&conns.busy) != 0) conn_times(aqi_now_ns());
    if (go) go = conn_wait_arm_all(&look_at);
    if (go) go = !atomic_exchange(&conns.news, false);
    if (go) aqi_timer_at(conns.fds.timer, aqi_min(look_at, conn_next_time()));
    atomic_store(&conns.slept, true);
    aqi_spin_unlock(&conns.lock);
    core_conns_sweep();
    return go;
}

bool conn_before_sleep(struct core_sleep_plan *plan)
{
    if (atomic_load(&core_conn_used) == 0 || plan->waiter) return true;
    plan->fd = conns.fds.epoll;
    return conn_wait_doze();
}
