/*
 * Wait sets: an epoll set of all descriptors to sleep on, a timer for what no descriptor announces,
 * and an eventfd to wake the sleeper. Also the wait set of programs that sleep in poll()
 * themselves.
 */
#include "core/wait/wait.h"

#include "base/clock.h"
#include "base/kick.h"
#include "base/shmem.h"
#include "base/timer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

static struct {
    struct aqi_spin lock;
    struct core_wait_set fds; /* a thread that sleeps on it polls again when kicked */
} set = {.fds = CORE_WAIT_SET_NONE};

atomic_bool core_set_prepared;

bool core_wait_set_add(const struct core_wait_set *fds, int fd, uint64_t tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = tag};
    return fd < 0 || epoll_ctl(fds->epoll, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST;
}

aq_status core_wait_set_open(struct core_wait_set *fds)
{
    fds->epoll = epoll_create1(EPOLL_CLOEXEC);
    fds->timer = aqi_timer_new();
    fds->kick = aqi_kick_new();
    if (fds->epoll >= 0 && fds->timer >= 0 && fds->kick >= 0 &&
        core_wait_set_add(fds, fds->timer, CORE_TAG_TIMER) &&
        core_wait_set_add(fds, fds->kick, CORE_TAG_KICK))
        return AQ_OK;
    aq_status st = core_wait_set_refused();
    core_wait_set_close(fds);
    return st;
}

aq_status core_wait_set_refused(void)
{
    return aqi_fail_no_fd(errno, "core", "cannot create a descriptor to wait with");
}

void core_wait_set_close(struct core_wait_set *fds)
{
    int *each[] = {&fds->epoll, &fds->timer, &fds->kick};
    for (size_t i = 0; i < AQI_COUNT_OF(each); i++) {
        if (*each[i] >= 0) close(*each[i]);
        *each[i] = -1;
    }
}

/* --- for programs ---------------------------------------------------------------------------- */

void core_set_close(void)
{
    core_wait_set_close(&set.fds);
    atomic_store(&core_set_prepared, false);
}

void core_set_disarmed(void)
{
    /*
     * Either aq_wait_prepare sees the activity, or the thread that reports it sees
     * core_set_prepared.
     */
    if (core.wakes && atomic_load(&core_set_prepared) && atomic_exchange(&core_set_prepared, false))
        aqi_kick(set.fds.kick);
}

static aq_status set_make(void)
{
    aq_status st = core_wait_set_open(&set.fds);
    if (st != AQ_OK) return st;
    bool made = core_wait_set_add(&set.fds, core.boot.fd(core.boot.arg), CORE_TAG_OTHERS);
    for (unsigned t = 0; t < core.tp_count && made; t++)
        made = core_wait_set_add(&set.fds, core.tps[t]->ops.wait_fd(core.tps[t]), CORE_TAG_OTHERS);
    if (made) return AQ_OK;
    st = core_wait_set_refused();
    core_set_close();
    return st;
}

aq_status aq_wait_fd(int *fd)
{
    aq_status st = aqi_core_callable("aq_wait_fd");
    if (st != AQ_OK) return st;
    if (fd == NULL) return aqi_fail(AQ_EINVAL, "core", "aq_wait_fd: fd is NULL");
    aqi_spin_lock(&set.lock);
    if (set.fds.epoll < 0) st = set_make();
    if (st == AQ_OK) *fd = set.fds.epoll;
    aqi_spin_unlock(&set.lock);
    return st;
}

/* Also without an alert: the death of the launcher causes only a hangup. */
static void set_attend_to_job(void)
{
    struct pollfd control = {.fd = core.boot.fd(core.boot.arg), .events = POLLIN};
    if (core.boot.alert(core.boot.arg) || (control.fd >= 0 && poll(&control, 1, 0) > 0))
        core.boot.attend(core.boot.arg);
}

/*
 * There was an arrival or activity. If there has been none since the last refusal, another thread
 * is handling it and may need this processor.
 */
static aq_status set_refuse(uint32_t activity)
{
    static _Thread_local uint32_t refused;
    if (core.multi && activity == refused) core_yield();
    refused = activity;
    return AQ_AGAIN;
}

aq_status aq_wait_prepare(void)
{
    int fd;
    struct core_sleep_plan plan = {.ms = INT_MAX, .fd = -1};
    aq_status st = aqi_core_callable("aq_wait_prepare");
    if (st == AQ_OK) st = aq_wait_fd(&fd);
    if (st != AQ_OK) return st;
    (void)aqi_kick_take(set.fds.kick);
    (void)aqi_kick_take(set.fds.timer);
    /* First, so that a thread that disarms any of the following kicks us. */
    atomic_store(&core_set_prepared, true);
    set_attend_to_job();
    /*
     * Another thread may have handled arrivals since this thread's last call, which the program may
     * not have seen.
     */
    static _Thread_local uint32_t seen;
    uint32_t activity = core.multi ? core_activity() : 0;
    bool go = activity == seen;
    seen = activity;
    for (unsigned t = 0; t < core.tp_count && go; t++) {
        struct aqi_tp *tp = core.tps[t];
        (void)tp->ops.arm(tp, false); /* consumes the last wakeup */
        go = core_sleep_arm(t, tp->ops.wait_fd(tp), &plan);
    }
    if (!go || !core_sources_before_sleep(&plan)) return set_refuse(activity);
    uint64_t at = core_deadline();
    if (plan.ms != INT_MAX) at = aqi_min(at, aqi_now_ns() + (uint64_t)plan.ms * 1000000);
    aqi_timer_at(set.fds.timer, at);
    if (core_wait_set_add(&set.fds, plan.fd, CORE_TAG_OTHERS)) return AQ_OK;
    return aqi_fail_errno(AQ_ESYS, errno, "core",
                          "aq_wait_prepare: waiting for connections failed");
}
