/*
 * Waiting with connections. One wait set holds the rendezvous, a timer for the times of calls, a
 * descriptor to kick a thread that sleeps, and the transport of each connection. A connection stays
 * armed until something has made its descriptor readable, so that a process with hundreds of idle
 * connections arms only the few that woke it.
 */
#include "core/conn/conn.h"

#include "base/clock.h"
#include "base/kick.h"
#include "base/timer.h"

#include <sys/epoll.h>

/* The source of an event of the set; from TAG_SLOT on the connection in that slot. */
enum { TAG_RENDEZVOUS = CORE_TAG_OTHERS, TAG_SLOT };

/* Where nothing announces what a transport has to do, look again after so long. */
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
    aqi_kick(conns.fds.kick); /* the thread that sleeps has not armed this one */
}

void conn_unwatch(aq_connection *conn)
{
    int fd = conn->tp != NULL ? conn->tp->ops.wait_fd(conn->tp) : -1;
    if (fd >= 0) (void)epoll_ctl(conns.fds.epoll, EPOLL_CTL_DEL, fd, NULL);
    conn->armed = false;
}

/* --- about to sleep -------------------------------------------------------------------------- */

/* Take what made the set readable; false: messages, which are attended to at once. */
static bool conn_wait_take_wakes(void)
{
    struct epoll_event events[64];
    bool messages = false;
    int n = epoll_wait(conns.fds.epoll, events, AQI_COUNT_OF(events), 0);
    for (int i = 0; i < n; i++) {
        uint64_t tag = events[i].data.u64;
        if (tag == CORE_TAG_KICK) (void)aqi_kick_take(conns.fds.kick);
        if (tag == CORE_TAG_TIMER) (void)aqi_kick_take(conns.fds.timer);
        if (tag == TAG_RENDEZVOUS) messages = true;
        if (tag < TAG_SLOT) continue;
        aq_connection *conn = atomic_load(&conns.slots[tag - TAG_SLOT].conn);
        if (conn == NULL || conn->tp == NULL) continue;
        (void)conn->tp->ops.arm(conn->tp, false);
        conn->armed = false;
    }
    if (messages) conn_attend();
    return !messages;
}

/* Arm what is not; `*look_at` becomes earlier where nothing would wake us. */
static bool conn_wait_arm_all(uint64_t *look_at)
{
    bool go = true;
    for (uint32_t i = 0; i < atomic_load(&conns.high) && go; i++) {
        aq_connection *conn = atomic_load(&conns.slots[i].conn);
        if (conn == NULL || conn_state(conn) != AQ_CONNECTION_OPEN) continue;
        if (conn->tp->ops.wait_fd(conn->tp) < 0 || aqi_tp_waits_for_room(conn->tp))
            *look_at = aqi_min(*look_at, aqi_now_ns() + look_again_ns);
        *look_at = aqi_min(*look_at, conn->tp->ops.next_deadline(conn->tp));
        if (atomic_load(&conn->suspect) || atomic_load(&conn->ending) != 0) go = false;
        if (conn->armed || !go) continue;
        go = conn->tp->ops.arm(conn->tp, true) == AQ_OK;
        conn->armed = go;
    }
    return go;
}

static bool conn_wait_doze(void)
{
    uint64_t look_at = UINT64_MAX;
    aqi_spin_lock(&conns.lock);
    bool go = conn_wait_take_wakes();
    if (go && atomic_load(&conns.busy) != 0) conn_times(aqi_now_ns());
    if (go) go = conn_wait_arm_all(&look_at);
    if (go) go = !atomic_exchange(&conns.news, false);
    if (go) aqi_timer_at(conns.fds.timer, aqi_min(look_at, conn_next_time()));
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
