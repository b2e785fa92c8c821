/*
 * Waiting with connections. One epoll set holds the rendezvous, a timer for
 * the times of calls, a descriptor to kick whoever sleeps, and the transport of each connection. A
 * connection stays armed until something has made its descriptor readable, so that a process with
 * hundreds of idle connections arms only the few that woke it.
 */
#include "core/conn/conn.h"

#include "base/clock.h"
#include "base/shmem.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* What an event of the set is about; from TAG_SLOT on the connection in that slot. */
enum { TAG_KICK, TAG_TIMER, TAG_RENDEZVOUS, TAG_SLOT };

/* Where nothing announces what a transport has to do, look again after so long. */
static const uint64_t look_again_ns = 1000000;

static int conn_wait_add(int set, int fd, uint64_t tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = tag};
    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
}

static aq_status conn_wait_no_descriptor(void)
{
    return aqi_fail_no_fd(errno, "core", "making a descriptor to wait with");
}

aq_status conn_wait_open(void)
{
    conns.epoll = epoll_create1(EPOLL_CLOEXEC);
    conns.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    conns.kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (conns.epoll >= 0 && conns.timer >= 0 && conns.kick >= 0 &&
        conn_wait_add(conns.epoll, conns.timer, TAG_TIMER) == 0 &&
        conn_wait_add(conns.epoll, conns.kick, TAG_KICK) == 0)
        return AQ_OK;
    aq_status st = conn_wait_no_descriptor();
    conn_wait_close();
    return st;
}

void conn_wait_close(void)
{
    int *fds[] = {&conns.epoll, &conns.timer, &conns.kick};
    for (size_t i = 0; i < AQI_COUNT_OF(fds); i++) {
        if (*fds[i] >= 0) close(*fds[i]);
        *fds[i] = -1;
    }
}

static void conn_wait_kick(int fd)
{
    uint64_t one = 1;
    if (write(fd, &one, sizeof(one)) < 0) return; /* it is full: readable anyway */
}

static void conn_wait_drain(int fd)
{
    uint64_t count;
    if (read(fd, &count, sizeof(count)) < 0) return;
}

aq_status conn_watch_rendezvous(unsigned t)
{
    int fd = core.tps[t]->ops.rendezvous->wait_fd(conns.rendezvous[t]);
    return conn_wait_add(conns.epoll, fd, TAG_RENDEZVOUS) == 0 ? AQ_OK : conn_wait_no_descriptor();
}

void conn_watch(aq_connection *conn)
{
    int fd = conn->tp->ops.wait_fd(conn->tp);
    if (fd >= 0) (void)conn_wait_add(conns.epoll, fd, TAG_SLOT + (uint64_t)conn->slot);
    conn_wait_kick(conns.kick); /* whoever sleeps has not armed this one */
}

void conn_unwatch(aq_connection *conn)
{
    int fd = conn->tp != NULL ? conn->tp->ops.wait_fd(conn->tp) : -1;
    if (fd >= 0) (void)epoll_ctl(conns.epoll, EPOLL_CTL_DEL, fd, NULL);
    conn->armed = false;
}

/* --- about to sleep -------------------------------------------------------------------------- */

static void conn_wait_set_timer(uint64_t at_ns)
{
    struct itimerspec time = {.it_value = {.tv_sec = (time_t)(at_ns / 1000000000u),
                                           .tv_nsec = (long)(at_ns % 1000000000u)}};
    if (at_ns == UINT64_MAX) time.it_value = (struct timespec){0};
    (void)timerfd_settime(conns.timer, TFD_TIMER_ABSTIME, &time, NULL);
}

/* Take what made the set readable; false: messages, which are attended to at once. */
static bool conn_wait_take_wakes(void)
{
    struct epoll_event events[64];
    bool messages = false;
    int n = epoll_wait(conns.epoll, events, AQI_COUNT_OF(events), 0);
    for (int i = 0; i < n; i++) {
        uint64_t tag = events[i].data.u64;
        if (tag == TAG_KICK) conn_wait_drain(conns.kick);
        if (tag == TAG_TIMER) conn_wait_drain(conns.timer);
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
    if (go) conn_wait_set_timer(aqi_min(look_at, conn_next_time()));
    aqi_spin_unlock(&conns.lock);
    core_conns_sweep();
    return go;
}

bool conn_before_sleep(struct core_sleep_plan *plan)
{
    if (atomic_load(&core_conn_used) == 0 || plan->waiter) return true;
    plan->fd = conns.epoll;
    return conn_wait_doze();
}
