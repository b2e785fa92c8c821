/*
 * Waiting with connections, and with poll(). One epoll set holds the meeting places, a timer for
 * the times of calls, a descriptor to kick whoever sleeps, and the transport of each connection. A
 * connection stays armed until something has made its descriptor readable, so that a process with
 * hundreds of idle connections arms only the few that woke it. A second set holds that one and the
 * descriptors of the job, for programs that poll() themselves.
 */
#include "core/conn/conn.h"

#include "base/clock.h"
#include "base/shmem.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* What an event of the set is about; from TAG_SLOT on the connection in that slot. */
enum { TAG_KICK, TAG_TIMER, TAG_MEET, TAG_SLOT };

/* Where nothing announces what a transport has to do, look again after so long. */
static const uint64_t look_again_ns = 1000000;

static struct {
    int epoll;            /* -1: not made yet */
    atomic_bool prepared; /* somebody sleeps on it, or is about to */
    int kick;             /* in it: whoever sleeps looks again. Only aq_wait_prepare takes it */
} outer = {.epoll = -1, .kick = -1};

static int add(int set, int fd, uint64_t tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = tag};
    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
}

static aq_status no_descriptor(void)
{
    if (errno == EMFILE || errno == ENFILE)
        return aqi_fail_no_fd(errno, "core", "making a descriptor to wait with");
    return aqi_fail_errno(AQ_ESYS, errno, "core", "cannot make a descriptor to wait with");
}

aq_status conn_wait_open(void)
{
    conns.epoll = epoll_create1(EPOLL_CLOEXEC);
    conns.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    conns.kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (conns.epoll >= 0 && conns.timer >= 0 && conns.kick >= 0 &&
        add(conns.epoll, conns.timer, TAG_TIMER) == 0 &&
        add(conns.epoll, conns.kick, TAG_KICK) == 0)
        return AQ_OK;
    aq_status st = no_descriptor();
    conn_wait_close();
    return st;
}

void conn_wait_close(void)
{
    int *fds[] = {&conns.epoll, &conns.timer, &conns.kick, &outer.epoll, &outer.kick};
    for (size_t i = 0; i < AQI_COUNT_OF(fds); i++) {
        if (*fds[i] >= 0) close(*fds[i]);
        *fds[i] = -1;
    }
    atomic_store(&outer.prepared, false);
}

static void kick(int fd)
{
    uint64_t one = 1;
    if (write(fd, &one, sizeof(one)) < 0) return; /* it is full: readable anyway */
}

static void drain(int fd)
{
    uint64_t count;
    if (read(fd, &count, sizeof(count)) < 0) return;
}

aq_status conn_watch_meet(unsigned t)
{
    int fd = core.tps[t]->ops.meet->wait_fd(conns.meets[t]);
    return add(conns.epoll, fd, TAG_MEET) == 0 ? AQ_OK : no_descriptor();
}

void conn_watch(aq_connection *conn)
{
    int fd = conn->tp->ops.wait_fd(conn->tp);
    if (fd >= 0) (void)add(conns.epoll, fd, TAG_SLOT + (uint64_t)conn->slot);
    kick(conns.kick); /* whoever sleeps has not armed this one */
}

void conn_unwatch(aq_connection *conn)
{
    int fd = conn->tp != NULL ? conn->tp->ops.wait_fd(conn->tp) : -1;
    if (fd >= 0) (void)epoll_ctl(conns.epoll, EPOLL_CTL_DEL, fd, NULL);
    conn->armed = false;
}

/* --- about to sleep -------------------------------------------------------------------------- */

static void set_timer(uint64_t at_ns)
{
    struct itimerspec time = {.it_value = {.tv_sec = (time_t)(at_ns / 1000000000u),
                                           .tv_nsec = (long)(at_ns % 1000000000u)}};
    if (at_ns == UINT64_MAX) time.it_value = (struct timespec){0};
    (void)timerfd_settime(conns.timer, TFD_TIMER_ABSTIME, &time, NULL);
}

/* Take what made the set readable; false: letters, which are attended to at once. */
static bool take_wakes(void)
{
    struct epoll_event events[64];
    bool letters = false;
    int n = epoll_wait(conns.epoll, events, AQI_COUNT_OF(events), 0);
    for (int i = 0; i < n; i++) {
        uint64_t tag = events[i].data.u64;
        if (tag == TAG_KICK) drain(conns.kick);
        if (tag == TAG_TIMER) drain(conns.timer);
        if (tag == TAG_MEET) letters = true;
        if (tag < TAG_SLOT) continue;
        aq_connection *conn = atomic_load(&conns.slots[tag - TAG_SLOT].conn);
        if (conn == NULL || conn->tp == NULL) continue;
        (void)conn->tp->ops.arm(conn->tp, false);
        conn->armed = false;
    }
    if (letters) conn_attend();
    return !letters;
}

/* Arm what is not; `*look_at` becomes earlier where nothing would wake us. */
static bool arm_all(uint64_t *look_at)
{
    bool go = true;
    for (uint32_t i = 0; i < atomic_load(&conns.high) && go; i++) {
        aq_connection *conn = atomic_load(&conns.slots[i].conn);
        if (conn == NULL || conn_state(conn) != AQ_CONNECTION_OPEN) continue;
        if (conn->tp->ops.wait_fd(conn->tp) < 0 || aqi_tp_waits_for_room(conn->tp))
            *look_at = aqi_min(*look_at, aqi_now_ns() + look_again_ns);
        if (atomic_load(&conn->suspect) || atomic_load(&conn->ending) != 0) go = false;
        if (conn->armed || !go) continue;
        go = conn->tp->ops.arm(conn->tp, true) == AQ_OK;
        conn->armed = go;
    }
    return go;
}

static bool doze(uint64_t look_at)
{
    aqi_spin_lock(&conns.lock);
    bool go = take_wakes();
    if (go && atomic_load(&conns.busy) != 0) conn_times(aqi_now_ns());
    if (go) go = arm_all(&look_at);
    if (go) set_timer(aqi_min(look_at, conn_next_time()));
    aqi_spin_unlock(&conns.lock);
    core_conns_sweep();
    return go;
}

bool core_conn_doze(int *fd)
{
    *fd = -1;
    if (atomic_load(&core_conn_used) == 0) return true;
    *fd = conns.epoll;
    return doze(UINT64_MAX);
}

void core_conn_disarmed(void)
{
    /* Either aq_wait_prepare hears the bell, or whoever rang it sees that somebody will sleep. */
    if (atomic_load(&outer.prepared) && atomic_exchange(&outer.prepared, false)) kick(outer.kick);
}

/* --- for programs that poll() ---------------------------------------------------------------- */

static aq_status make_outer(void)
{
    int set = epoll_create1(EPOLL_CLOEXEC);
    if (set < 0) return no_descriptor();
    int control = core.boot.fd(core.boot.arg);
    outer.kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    bool added = outer.kick >= 0 && add(set, outer.kick, 0) == 0 && add(set, conns.epoll, 0) == 0 &&
                 (control < 0 || add(set, control, 0) == 0);
    for (unsigned t = 0; t < core.tp_count && added; t++) {
        int fd = core.tps[t]->ops.wait_fd(core.tps[t]);
        if (fd >= 0) added = add(set, fd, 0) == 0;
    }
    if (!added) {
        aq_status st = no_descriptor();
        close(set);
        if (outer.kick >= 0) close(outer.kick);
        outer.kick = -1;
        return st;
    }
    outer.epoll = set;
    return AQ_OK;
}

aq_status aq_wait_fd(int *fd)
{
    aq_status st = aqi_core_callable("aq_wait_fd");
    if (st != AQ_OK) return st;
    if (fd == NULL) return aqi_fail(AQ_EINVAL, "core", "aq_wait_fd: no place for the descriptor");
    st = core_conn_ready();
    if (st != AQ_OK) return st;
    aqi_spin_lock(&conns.lock);
    if (outer.epoll < 0) st = make_outer();
    if (st == AQ_OK) *fd = outer.epoll;
    aqi_spin_unlock(&conns.lock);
    return st;
}

/* Also when there is no alert: that the launcher died makes none, only a hang-up. */
static void attend_to_job(void)
{
    struct pollfd control = {.fd = core.boot.fd(core.boot.arg), .events = POLLIN};
    if (core.boot.alert(core.boot.arg) || (control.fd >= 0 && poll(&control, 1, 0) > 0))
        core.boot.attend(core.boot.arg);
}

aq_status aq_wait_prepare(void)
{
    int fd;
    aq_status st = aq_wait_fd(&fd);
    if (st != AQ_OK) return st;
    uint64_t look_at = UINT64_MAX;
    drain(outer.kick);
    /* First, so that whoever disarms what follows kicks us. */
    atomic_store(&outer.prepared, true);
    attend_to_job();
    /* What another thread has taken since this one last asked, the program may not have seen. */
    static _Thread_local uint32_t heard;
    uint32_t bell = core.multi ? core_bell() : 0;
    bool go = atomic_load(&core_coll_busy) == 0 && bell == heard;
    heard = bell;
    for (unsigned t = 0; t < core.tp_count && go; t++) {
        struct aqi_tp *tp = core.tps[t];
        if ((tp->ops.wait_fd(tp) < 0 && core.carries[t]) || aqi_tp_waits_for_room(tp))
            look_at = aqi_now_ns() + look_again_ns;
        (void)tp->ops.arm(tp, false); /* takes what woke us the last time */
        go = tp->ops.arm(tp, true) == AQ_OK;
    }
    return go && doze(look_at) ? AQ_OK : AQ_AGAIN;
}
