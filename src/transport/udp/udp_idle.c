/*
 * udp: sleeping, and what an idle process costs. While there is traffic each poll asks the kernel.
 * After a while without any the transport rests: polls compare one word, and a thread that sleeps
 * on the descriptors raises it when a packet comes. So nobody pays for a network that is silent.
 *
 * The same thread helps a program that begins something and then computes: what was to be sent with
 * the next poll, or again, or acknowledged, it sends when there has been no poll for a while. It
 * receives nothing and runs no handler.
 */
#include "transport/udp/udp_impl.h"

#include "base/fail.h"
#include "base/kick.h"
#include "base/log.h"
#include "base/shmem.h"
#include "base/timer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>

/* Much longer than a round trip, much shorter than what anybody notices. */
static const uint64_t rest_after_ns = 1000000;
/* A program that polls less often than this is helped; how often that is looked for where it polls.
 */
static const uint64_t help_after_ns = 2000000, help_rarely_ns = 32000000;

static bool udp_idle_add(int epoll, int op, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(epoll, op, fd, &event) == 0;
}

/* Of the thread: wake once for what arrives, or for nothing. */
static void udp_idle_watch(struct udp_idle *idle, bool on)
{
    if (idle->helped)
        (void)udp_idle_add(idle->watched, EPOLL_CTL_MOD, idle->arrivals,
                           on ? EPOLLIN | EPOLLONESHOT : EPOLLONESHOT);
}

/* Of the thread: look after so long whether to help; 0: not any more. */
static void udp_idle_tick(struct udp_idle *idle, uint64_t ns)
{
    if (idle->helped) aqi_timer_in(idle->tick, ns);
}

/* Who sleeps keeps to deadlines himself. Returns when to look again. */
static uint64_t udp_idle_help(struct udp_tp *udp, uint32_t *looks, uint64_t pause)
{
    struct udp_idle *idle = &udp->idle;
    udp_lock(udp);
    bool alone = *looks == idle->looks && !idle->armed && !idle->resting;
    *looks = idle->looks;
    pause = idle->resting ? 0 : aqi_min(2 * pause, help_rarely_ns);
    if (alone) {
        udp->now = aqi_max(udp->now, udp->tp.hooks.now(udp->tp.hooks.host));
        idle->helping = true;
        (void)aqi_dgram_progress(udp->dgram, false, udp->now);
        idle->helping = false;
        uint64_t deadline = aqi_dgram_deadline(udp->dgram);
        pause = deadline > udp->now ? aqi_min(deadline - udp->now, help_rarely_ns) : 0;
        pause = aqi_max(pause, help_after_ns);
    }
    udp_unlock(udp);
    return pause;
}

static void *udp_idle_main(void *arg)
{
    struct udp_tp *udp = arg;
    struct udp_idle *idle = &udp->idle;
    struct epoll_event event = {.data.fd = -1};
    uint64_t pause = 0;
    uint32_t looks = 0;
    while (event.data.fd != idle->stop) {
        int n = epoll_wait(idle->watched, &event, 1, -1);
        if (n < 0 && errno != EINTR) return NULL;
        if (n <= 0) continue;
        if (event.data.fd != idle->tick) {
            /* Read by the polls, which then look under the lock. */
            atomic_store_explicit(&idle->raised, 1, memory_order_release);
        } else if (aqi_kick_take(idle->tick)) {
            pause = udp_idle_help(udp, &looks, aqi_max(pause, help_after_ns));
            if (pause != 0) udp_idle_tick(idle, pause);
        }
    }
    return NULL;
}

/* All signals are the program's. */
static bool udp_idle_start(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    sigset_t all, before;
    pthread_attr_t attr;
    sigfillset(&all);
    if (pthread_attr_init(&attr) != 0) return false;
    pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN + (64 << 10));
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&idle->thread, &attr, udp_idle_main, udp);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (err != 0)
        aqi_log(AQI_LOG_INFO, "udp", "no thread to watch for packets (%s): polls look themselves",
                strerror(err));
    idle->owner = getpid();
    return err == 0;
}

aq_status udp_idle_open(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    int fds[2];
    unsigned count = udp->port->ops->descriptors(udp->port, fds);
    idle->arrivals = epoll_create1(EPOLL_CLOEXEC);
    idle->watched = epoll_create1(EPOLL_CLOEXEC);
    idle->stop = aqi_kick_new();
    idle->tick = aqi_timer_new();
    bool made = idle->arrivals >= 0 && idle->watched >= 0 && idle->stop >= 0 && idle->tick >= 0;
    for (unsigned i = 0; i < count && made; i++)
        made = udp_idle_add(idle->arrivals, EPOLL_CTL_ADD, fds[i], EPOLLIN);
    made = made && udp_idle_add(idle->watched, EPOLL_CTL_ADD, idle->stop, EPOLLIN) &&
           udp_idle_add(idle->watched, EPOLL_CTL_ADD, idle->tick, EPOLLIN) &&
           udp_idle_add(idle->watched, EPOLL_CTL_ADD, idle->arrivals, EPOLLONESHOT);
    if (!made) return aqi_fail_no_fd(errno, "udp", "watching for packets");
    idle->resting = true;
    udp->locks = true; /* before there is the thread */
    idle->helped = udp_idle_start(udp);
    if (!idle->helped) udp->locks = udp->params.threads;
    udp_idle_watch(idle, true);
    aqi_watch_set(&idle->watch, &idle->raised, 0);
    udp->tp.watch = &idle->watch;
    udp->tp.watches = 1;
    udp->tp.watched = true;
    return AQ_OK;
}

void udp_idle_close(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    int fds[] = {idle->arrivals, idle->watched, idle->stop, idle->tick};
    if (idle->helped && idle->owner == getpid()) {
        aqi_kick(idle->stop);
        pthread_join(idle->thread, NULL);
    }
    for (size_t i = 0; i < AQI_COUNT_OF(fds); i++)
        if (fds[i] >= 0) close(fds[i]);
}

/* Where nobody watches, polls look themselves. */
static void udp_idle_rest(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    bool rests = idle->resting && idle->helped && !idle->armed;
    atomic_store_explicit(&idle->rests_until, rests ? aqi_dgram_deadline(udp->dgram) : 0,
                          memory_order_relaxed);
}

void udp_idle_end(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    idle->resting = false;
    udp_idle_rest(udp);
    idle->last = udp->now;
    udp_idle_watch(idle, false);
    udp_idle_tick(idle, help_after_ns);
    atomic_store_explicit(&idle->raised, 1, memory_order_relaxed);
}

void udp_idle_look(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    if (!idle->resting || atomic_load_explicit(&idle->raised, memory_order_acquire) == 0) return;
    udp->deep = true;
    udp_idle_end(udp);
}

void udp_idle_begin(struct udp_tp *udp, unsigned n)
{
    struct udp_idle *idle = &udp->idle;
    if (n != 0) {
        if (idle->resting) udp_idle_end(udp);
        idle->last = udp->now;
        return;
    }
    if (udp->now - idle->last < rest_after_ns || !aqi_dgram_idle(udp->dgram)) return;
    bool rested = idle->resting;
    idle->resting = true;
    udp_idle_rest(udp);
    if (rested) return;
    udp_count_packets(udp);
    atomic_store_explicit(&idle->raised, 0, memory_order_relaxed);
    /* Whatever has come meanwhile raises it at once. */
    if (!idle->armed) udp_idle_watch(idle, true);
}

int udp_wait_fd(struct aqi_tp *tp)
{
    return ((struct udp_tp *)tp)->idle.arrivals;
}

/* The thread need not wake up beside who sleeps here. What has come stays readable. */
aq_status udp_arm(struct aqi_tp *tp, bool on)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    struct udp_idle *idle = &udp->idle;
    struct pollfd arrivals = {.fd = idle->arrivals, .events = POLLIN};
    udp_lock(udp);
    if (idle->resting && on != idle->armed) udp_idle_watch(idle, !on);
    idle->armed = on;
    udp_idle_rest(udp);
    bool some = on && atomic_load_explicit(&idle->raised, memory_order_relaxed) && idle->resting;
    udp->deep = udp->deep || !on;
    if (!on && idle->resting && poll(&arrivals, 1, 0) > 0) udp_idle_end(udp);
    udp_unlock(udp);
    return some ? AQ_AGAIN : AQ_OK;
}
