/*
 * udp: sleeping, and the cost of an idle process. While there is traffic, each poll is a system
 * call. After a while without any, the transport rests: polls compare one word, and a thread that
 * sleeps on the descriptors sets it when a packet arrives. So a silent network costs nothing.
 *
 * The same thread helps a program that computes. If there has been no poll for a while, it sends or
 * retransmits what the next poll would have, and passes packets that arrive to aqi_dgram_answer, so
 * that peers can connect to us, see that we are alive, and continue with what we acknowledge. It
 * runs no handlers and writes no memory of the program; it lets the kernel copy the sources of
 * transfers, so that no signal is raised here if the program has protected them. Whatever it cannot
 * do it leaves to the next poll, and announces that by the watch word, or by a descriptor if a
 * thread sleeps.
 */
#include "transport/udp/udp_impl.h"

#include "base/fail.h"
#include "base/kick.h"
#include "base/log.h"
#include "base/shmem.h"
#include "base/thread.h"
#include "base/timer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>

/* How long without traffic until it rests: much longer than a round trip, but not noticeable. */
static const uint64_t rest_after_ns = 1000000;
/* The thread helps after this long without a poll; interval of the check while the program
 * polls. */
static const uint64_t help_after_ns = 2000000, help_rarely_ns = 32000000;
/* The thread sends gathered messages if there has been no poll for this long; later if the program
 * sends many and polls all the time. */
static const uint64_t help_gathered_ns = 500000, help_flood_ns = 8000000;
/*
 * A program that is armed usually sleeps and wakes up by itself; but it may have armed connections
 * or a wait set, and compute.
 */
static const uint64_t help_armed_ns = 1000000000;
/* Successful rounds since the last sleep after which the sockets are removed from `arrivals`. */
enum { awake_rounds = 64 };

/* Make polls read the sockets. */
static void udp_idle_raise(struct udp_tp *udp, memory_order order)
{
    atomic_store_explicit(&udp->idle.raised, 1, order);
    if (udp->params.bell.memory != NULL) (void)aqi_bell_ring(&udp->params.bell);
}

static bool udp_idle_add(int epoll, int op, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(epoll, op, fd, &event) == 0;
}

/*
 * List the sockets in `arrivals` for a thread that sleeps on it. For each packet the kernel calls
 * all sets that contain the socket, which takes 3 % of a round trip, so sockets are in none while
 * polls read them.
 */
static bool udp_idle_list(struct udp_idle *idle, bool on)
{
    idle->awake = 0;
    if (idle->listed == on) return true;
    idle->listed = on;
    for (unsigned i = 0; i < idle->socket_count; i++)
        if (!udp_idle_add(idle->arrivals, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, idle->sockets[i]) &&
            on && errno != EEXIST)
            idle->listed = false;
    return idle->listed == on;
}

/* Let the thread wake once for packets, or not at all. */
static void udp_idle_watch(struct udp_tp *udp, bool on)
{
    struct udp_idle *idle = &udp->idle;
    for (unsigned i = 0; i < idle->socket_count && idle->helped; i++)
        if (!udp_helper_watch(udp, idle->sockets[i], on) && on)
            udp_idle_raise(udp, memory_order_relaxed);
}

/* Let the thread check after `ns` whether to help. */
static void udp_idle_tick(struct udp_idle *idle, uint64_t ns)
{
    if (!idle->helped) return;
    idle->pause = ns;
    aqi_timer_in(idle->tick, ns);
}

static void udp_idle_await_gathered(struct udp_idle *idle, uint64_t ns)
{
    idle->gathers = idle->helped;
    idle->seen = idle->looks;
    udp_idle_tick(idle, ns);
}

void udp_hook_gathers(void *arg)
{
    struct udp_tp *udp = arg;
    if (!udp->idle.gathers) udp_idle_await_gathered(&udp->idle, help_gathered_ns);
}

/* --- the thread ------------------------------------------------------------------------------ */

/* Announce to the program what is left for it to take. */
static void udp_idle_leave(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    bool some = udp->kept_count != 0 || udp->lost != NULL || udp->unreadable;
    if (!some && !aqi_dgram_parked(udp->dgram)) return;
    /* Read by polls, which then check under the lock. */
    udp_idle_raise(udp, memory_order_release);
    if (idle->left) return;
    idle->left = true;
    aqi_kick(idle->leftover);
}

void udp_idle_take_left(struct udp_tp *udp)
{
    udp->idle.left = false;
    (void)aqi_kick_take(udp->idle.leftover);
    udp_rma_report_kept(udp);
}

/* Called with the lock held; releases it while the port receives. */
static void udp_idle_help(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    udp->now = aqi_max(udp->now, udp->tp.hooks.now(udp->tp.hooks.host));
    unsigned n = udp_receive_to_answer(udp);
    idle->helping = true;
    (void)aqi_dgram_progress(udp->dgram, false, udp->now);
    idle->helping = false;
    udp_idle_leave(udp);
    if (!idle->armed || n != 0) udp_idle_watch(udp, true);
    uint64_t deadline = aqi_dgram_deadline(udp->dgram), pause = deadline;
    if (deadline != AQI_DGRAM_NEVER) pause -= aqi_min(udp->now, deadline);
    if (udp->unreadable) pause = aqi_max(pause, help_rarely_ns);
    if (idle->armed) pause = help_armed_ns;
    /* While it does not rest, nothing announces what the program begins. */
    if (!idle->resting) pause = aqi_min(pause, help_rarely_ns);
    if (pause != AQI_DGRAM_NEVER) udp_idle_tick(idle, aqi_max(pause, help_after_ns));
}

/* A packet has arrived, or it is time to check whether the program has made a call since the last
 * time. */
static void udp_idle_turn(struct udp_tp *udp, bool tick)
{
    struct udp_idle *idle = &udp->idle;
    uint64_t pause = idle->pause;
    bool alone = idle->looks == idle->seen;
    /* The program has taken the packet meanwhile, and rests again: the watch stays. */
    if (!tick && idle->resting && atomic_load_explicit(&idle->raised, memory_order_relaxed) == 0)
        return;
    if (tick)
        alone = alone && (!idle->armed || idle->gathers || pause >= help_armed_ns);
    else
        alone = alone && idle->alone;
    idle->alone = alone;
    idle->seen = idle->looks;
    bool gathers = tick && idle->gathers && aqi_dgram_deadline(udp->dgram) <= udp->now;
    if (tick) {
        idle->pause = 0;
        idle->gathers = false;
    }
    if (!tick && !alone) udp_idle_watch(udp, false);
    if (alone)
        udp_idle_help(udp);
    else if (gathers)
        udp_idle_await_gathered(idle, aqi_min(2 * pause, help_flood_ns));
    else if (!tick && (pause == 0 || pause > help_rarely_ns))
        udp_idle_tick(idle, help_after_ns);
    else if (tick && idle->armed)
        udp_idle_tick(idle, help_armed_ns);
    else if (tick && !idle->resting)
        udp_idle_tick(idle, aqi_min(2 * aqi_max(pause, help_after_ns), help_rarely_ns));
}

/* Show the state of our peers to observers when it has changed, but not too often. */
static void udp_idle_show(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    uint64_t now = udp->tp.hooks.now(udp->tp.hooks.host);
    if (udp->show_next == AQI_DGRAM_NEVER || (idle->resting && idle->last < udp->shown)) return;
    if (now >= udp->show_next)
        udp_peers_show(udp, now);
    else if (idle->pause == 0)
        udp_idle_tick(idle, udp->show_next - now);
}

void udp_idle_wake(struct udp_tp *udp, bool tick)
{
    if (tick && !aqi_kick_take(udp->idle.tick)) return;
    if (!tick) udp_idle_raise(udp, memory_order_release);
    udp_lock(udp);
    udp_idle_turn(udp, tick);
    udp_idle_show(udp);
    udp_unlock(udp);
}

static void udp_idle_start(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    idle->helped = udp->locks = true; /* before the thread exists */
    int err = udp_helper_join(udp);
    if (err == 0) return;
    aqi_log(AQI_LOG_INFO, "udp", "no thread waits for packets (%s): each poll looks for them",
            strerror(err));
    idle->helped = false;
    udp->locks = udp->params.threads;
}

aq_status udp_idle_open(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    idle->socket_count = udp->port->ops->descriptors(udp->port, idle->sockets);
    idle->arrivals = epoll_create1(EPOLL_CLOEXEC);
    idle->leftover = aqi_kick_new();
    idle->tick = aqi_timer_new();
    bool made = idle->arrivals >= 0 && idle->leftover >= 0 && idle->tick >= 0;
    made = made && udp_idle_add(idle->arrivals, EPOLL_CTL_ADD, idle->leftover);
    if (!made) return aqi_fail_no_fd(errno, "udp", "cannot watch for packets");
    idle->resting = true;
    udp_idle_start(udp);
    udp_lock(udp);
    udp_idle_watch(udp, true);
    udp_unlock(udp);
    aqi_watch_set(&idle->watch, &idle->raised, 0);
    udp->tp.watch = &idle->watch;
    udp->tp.watches = 1;
    udp->tp.watched = true;
    return AQ_OK;
}

void udp_idle_close(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    int fds[] = {idle->arrivals, idle->leftover, idle->tick};
    if (idle->helped) udp_helper_leave(udp);
    for (size_t i = 0; i < AQI_COUNT_OF(fds); i++)
        if (fds[i] >= 0) close(fds[i]);
}

/* --- resting --------------------------------------------------------------------------------- */

/* Without the thread to watch the sockets, polls must read them. */
static void udp_idle_rest(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    bool rests = idle->resting && idle->helped && !idle->armed;
    atomic_store_explicit(&idle->rests_until, rests ? aqi_dgram_deadline(udp->dgram) : 0,
                          memory_order_relaxed);
}

static void udp_idle_look_again(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    idle->resting = false;
    udp_idle_rest(udp);
    udp_idle_watch(udp, false);
    udp_idle_tick(idle, help_after_ns);
    udp_idle_raise(udp, memory_order_relaxed);
}

void udp_idle_end(struct udp_tp *udp)
{
    atomic_store_explicit(&udp->idle.last, udp->now, memory_order_relaxed);
    udp_idle_look_again(udp);
}

void udp_idle_look(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    if (!idle->resting) return;
    if (atomic_load_explicit(&idle->raised, memory_order_acquire) != 0) {
        udp->deep = true;
        udp_idle_end(udp);
    } else if (udp_idle_is_awaited(udp, udp->now)) {
        udp_idle_look_again(udp);
    }
}

void udp_idle_begin(struct udp_tp *udp, unsigned n)
{
    struct udp_idle *idle = &udp->idle;
    if (n != 0) {
        if (idle->resting) udp_idle_end(udp);
        if (idle->listed && !idle->armed && ++idle->awake == awake_rounds)
            (void)udp_idle_list(idle, false);
        atomic_store_explicit(&idle->last, udp->now, memory_order_relaxed);
        return;
    }
    if (udp->now - idle->last < rest_after_ns || !aqi_dgram_idle(udp->dgram) || idle->left) return;
    if (udp_idle_is_awaited(udp, udp->now)) return;
    bool rested = idle->resting;
    idle->resting = true;
    udp_idle_rest(udp);
    if (rested) return;
    (void)udp_count_drops(udp);
    atomic_store_explicit(&idle->raised, 0, memory_order_relaxed);
    /* Packets that have arrived meanwhile raise it at once. */
    if (!idle->armed) udp_idle_watch(udp, true);
}

int udp_wait_fd(struct aqi_tp *tp)
{
    return ((struct udp_tp *)tp)->idle.arrivals;
}

/*
 * The thread need not wake up while the caller sleeps here. What has arrived stays readable, or is
 * left to progress.
 */
aq_status udp_arm(struct aqi_tp *tp, bool on)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    struct udp_idle *idle = &udp->idle;
    struct pollfd arrivals = {.fd = idle->arrivals, .events = POLLIN};
    udp_lock(udp);
    idle->looks++;
    bool listed = !on || udp_idle_list(idle, true);
    if (idle->resting && on != idle->armed) udp_idle_watch(udp, !on);
    idle->armed = on;
    if (on && idle->pause == 0) udp_idle_tick(idle, help_armed_ns);
    if (!on && !idle->resting && idle->pause > help_rarely_ns) udp_idle_tick(idle, help_after_ns);
    udp_idle_rest(udp);
    bool some = on && atomic_load_explicit(&idle->raised, memory_order_relaxed) && idle->resting;
    some = some || (on && idle->left) || !listed;
    udp->deep = udp->deep || !on;
    if (!on && idle->resting && poll(&arrivals, 1, 0) > 0) udp_idle_end(udp);
    udp_unlock(udp);
    return some ? AQ_AGAIN : AQ_OK;
}

/*
 * The thread announces packets, and meanwhile does what is due. Without it, or while it does not
 * watch, polls must read the sockets, unless the process sleeps on the descriptors.
 */
aq_status udp_rest(struct aqi_tp *tp, enum aqi_rest step)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    struct udp_idle *idle = &udp->idle;
    if (step == AQI_REST_END) return AQ_OK;
    udp_lock(udp);
    bool rests = idle->resting && idle->helped && udp->lost == NULL &&
                 atomic_load_explicit(&idle->raised, memory_order_relaxed) == 0;
    uint64_t deadline = rests ? aqi_dgram_deadline(udp->dgram) : AQI_DGRAM_NEVER;
    if (step == AQI_REST_BEGIN && rests && deadline != AQI_DGRAM_NEVER && idle->pause == 0) {
        idle->seen = idle->looks;
        udp_idle_tick(idle, aqi_max(deadline - aqi_min(udp->now, deadline), help_after_ns));
    }
    udp_unlock(udp);
    return rests ? AQ_OK : AQ_AGAIN;
}
