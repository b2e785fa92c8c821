/*
 * The wait set, for programs that sleep in poll() themselves: one epoll set of all descriptors that
 * may have something to say, a timer for what none of them announces, and one to kick the sleeper.
 */
#include "core/wait/wait.h"

#include "base/clock.h"
#include "base/shmem.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static struct {
    struct aqi_spin lock;
    int epoll; /* -1: not made yet */
    int timer;
    int kick;             /* whoever sleeps looks again; only aq_wait_prepare takes it */
    atomic_bool prepared; /* somebody sleeps on it, or is about to */
} set = {.epoll = -1, .timer = -1, .kick = -1};

static bool set_add(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return fd < 0 || epoll_ctl(set.epoll, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST;
}

static void set_drain(int fd)
{
    uint64_t count;
    if (read(fd, &count, sizeof(count)) < 0) return;
}

void core_set_close(void)
{
    int *fds[] = {&set.epoll, &set.timer, &set.kick};
    for (size_t i = 0; i < AQI_COUNT_OF(fds); i++) {
        if (*fds[i] >= 0) close(*fds[i]);
        *fds[i] = -1;
    }
    atomic_store(&set.prepared, false);
}

void core_set_disarmed(void)
{
    uint64_t one = 1;
    /* Either aq_wait_prepare sees the activity, or whoever reports it sees the coming sleep. */
    if (atomic_load(&set.prepared) && atomic_exchange(&set.prepared, false) &&
        write(set.kick, &one, sizeof(one)) < 0)
        return; /* it is full: readable anyway */
}

static aq_status set_make(void)
{
    set.epoll = epoll_create1(EPOLL_CLOEXEC);
    set.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    set.kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool made = set.epoll >= 0 && set.timer >= 0 && set.kick >= 0 && set_add(set.timer) &&
                set_add(set.kick) && set_add(core.boot.fd(core.boot.arg));
    for (unsigned t = 0; t < core.tp_count && made; t++)
        made = set_add(core.tps[t]->ops.wait_fd(core.tps[t]));
    if (made) return AQ_OK;
    aq_status st = aqi_fail_no_fd(errno, "core", "making a descriptor to wait with");
    core_set_close();
    return st;
}

aq_status aq_wait_fd(int *fd)
{
    aq_status st = aqi_core_callable("aq_wait_fd");
    if (st != AQ_OK) return st;
    if (fd == NULL) return aqi_fail(AQ_EINVAL, "core", "aq_wait_fd: no place for the descriptor");
    aqi_spin_lock(&set.lock);
    if (set.epoll < 0) st = set_make();
    if (st == AQ_OK) *fd = set.epoll;
    aqi_spin_unlock(&set.lock);
    return st;
}

/* Also when there is no alert: that the launcher died makes none, only a hang-up. */
static void set_attend_to_job(void)
{
    struct pollfd control = {.fd = core.boot.fd(core.boot.arg), .events = POLLIN};
    if (core.boot.alert(core.boot.arg) || (control.fd >= 0 && poll(&control, 1, 0) > 0))
        core.boot.attend(core.boot.arg);
}

static void set_timer(int ms)
{
    uint64_t at = core_deadline();
    if (ms != INT_MAX) at = aqi_min(at, aqi_now_ns() + (uint64_t)ms * 1000000);
    struct itimerspec time = {
        .it_value = {.tv_sec = (time_t)(at / 1000000000), .tv_nsec = (long)(at % 1000000000)}};
    if (at == AQI_NO_DEADLINE) time.it_value = (struct timespec){0};
    (void)timerfd_settime(set.timer, TFD_TIMER_ABSTIME, &time, NULL);
}

aq_status aq_wait_prepare(void)
{
    int fd;
    struct core_sleep_plan plan = {.ms = INT_MAX, .fd = -1};
    aq_status st = aqi_core_callable("aq_wait_prepare");
    if (st == AQ_OK) st = aq_wait_fd(&fd);
    if (st != AQ_OK) return st;
    set_drain(set.kick);
    set_drain(set.timer);
    /* First, so that whoever disarms what follows kicks us. */
    atomic_store(&set.prepared, true);
    set_attend_to_job();
    /* What another thread has taken since this one last asked, the program may not have seen. */
    static _Thread_local uint32_t seen;
    uint32_t activity = core.multi ? core_activity() : 0;
    bool go = activity == seen;
    seen = activity;
    for (unsigned t = 0; t < core.tp_count && go; t++) {
        struct aqi_tp *tp = core.tps[t];
        if ((tp->ops.wait_fd(tp) < 0 && core.carries[t]) || aqi_tp_waits_for_room(tp)) plan.ms = 1;
        (void)tp->ops.arm(tp, false); /* takes what woke us the last time */
        go = tp->ops.arm(tp, true) == AQ_OK;
    }
    if (!go || !core_sources_before_sleep(&plan)) return AQ_AGAIN;
    set_timer(plan.ms);
    return set_add(plan.fd) ? AQ_OK
                            : aqi_fail_errno(AQ_ESYS, errno, "core",
                                             "aq_wait_prepare: cannot wait for connections");
}
