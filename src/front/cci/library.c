/* cci: opening and closing, progress, and the progress thread. */
#include "front/cci/impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "lib/alone.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

struct aqc aqc;

enum {
    LIBRARY_ROUNDS = 64,  /* rounds of progress between checks for connection events */
    LIBRARY_SPINS = 4096, /* rounds of a blocking call before it sleeps */
    LIBRARY_GRACE_MS = 1, /* time without a call of the program before the thread makes progress */
    LIBRARY_LOOK_MS = 5,  /* interval of checks for timeouts */
    LIBRARY_MS = 1000000  /* in ns */
};

/* --- statuses -------------------------------------------------------------------------------- */

const char *cci_strerror(cci_endpoint_t *endpoint, enum cci_status status)
{
#define NAMED(status)                                                                              \
    case status:                                                                                   \
        return #status;
    (void)endpoint;
    switch (status) {
        NAMED(CCI_SUCCESS)
        NAMED(CCI_ERROR)
        NAMED(CCI_ERR_DISCONNECTED)
        NAMED(CCI_ERR_RNR)
        NAMED(CCI_ERR_DEVICE_DEAD)
        NAMED(CCI_ERR_RMA_HANDLE)
        NAMED(CCI_ERR_RMA_OP)
        NAMED(CCI_ERR_NOT_IMPLEMENTED)
        NAMED(CCI_ERR_NOT_FOUND)
        NAMED(CCI_EAGAIN)
        NAMED(CCI_ENOMEM)
        NAMED(CCI_EBUSY)
        NAMED(CCI_ENODEV)
        NAMED(CCI_EINVAL)
        NAMED(CCI_ERANGE)
        NAMED(CCI_ENOMSG)
        NAMED(CCI_EMSGSIZE)
        NAMED(CCI_EADDRNOTAVAIL)
        NAMED(CCI_ENETDOWN)
        NAMED(CCI_ENOBUFS)
        NAMED(CCI_ETIMEDOUT)
        NAMED(CCI_ECONNREFUSED)
    }
#undef NAMED
    return "unknown error";
}

cci_status_t aqc_status(aq_status st)
{
    switch (st) {
    case AQ_OK:
        return CCI_SUCCESS;
    case AQ_AGAIN:
        return CCI_ENOBUFS;
    case AQ_ENOMEM:
    case AQ_ELIMIT:
        return CCI_ENOMEM;
    case AQ_EPEER:
        return CCI_ERR_DISCONNECTED;
    case AQ_EREFUSED:
    case AQ_EACCESS:
    case AQ_EMISMATCH:
        return CCI_ECONNREFUSED;
    case AQ_ETIMEOUT:
        return CCI_ETIMEDOUT;
    case AQ_ERANGE:
        return CCI_ERR_RMA_HANDLE;
    case AQ_EINVAL:
        return CCI_EINVAL;
    case AQ_ENOTSUP:
        return CCI_ENODEV;
    default:
        return CCI_ERROR;
    }
}

/* --- opening and closing --------------------------------------------------------------------- */

/* The child has neither the library's sockets nor its thread. */
static void library_in_child(void)
{
    if (aqc.users == 0) return;
    aqc.forked = true;
    aqc.thread_runs = false;
    aqc_unlock(); /* if another thread of the parent held it */
}

static void library_watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, library_in_child);
}

static int library_refuse_child(void)
{
    aqi_log(AQI_LOG_ERROR, "cci",
            "cci_init: this process is a child of one that had initialized the library, which it "
            "cannot use: fork before cci_init, or execute another program");
    return CCI_ERROR;
}

static int library_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, library_watch_forks);
    aqi_list_init(&aqc.eps);
    aqi_list_init(&aqc.active);
    aqi_pool_init(&aqc.ops, sizeof(struct aqc_op), 64, false);
    aqi_pool_init(&aqc.small, sizeof(struct aqc_event) + 16 + AQC_SMALL, 64, false);
    aqc.thread_wake = -1;
    aq_status st = lib_alone_open("cci", NULL, &aqc.world);
    if (st == AQ_OK) st = aq_wait_fd(&aqc.fd);
    if (st == AQ_OK) st = aqc_wire_open();
    if (st == AQ_OK) st = aqc_devices_open();
    if (st != AQ_OK) {
        aqc_devices_close();
        lib_alone_close();
    }
    return (int)aqc_status(st);
}

int cci_init(uint32_t abi_ver, uint32_t flags, uint32_t *caps)
{
    int status = CCI_SUCCESS;
    if (abi_ver != CCI_ABI_VERSION || caps == NULL) return CCI_EINVAL;
    if (aqc.forked) return library_refuse_child();
    aqc_lock();
    while (aqc.closing)
        aqc_pause(0);
    if (aqc.users == 0) {
        if (flags > 1)
            status = CCI_EINVAL;
        else if (!aqc_devices_possible())
            status = CCI_ERR_NOT_FOUND;
        if (status == CCI_SUCCESS) status = library_open();
        aqc.flags = flags;
    } else if (flags != aqc.flags) {
        status = CCI_ERR_NOT_IMPLEMENTED;
    }
    if (status == CCI_SUCCESS) aqc.users++;
    aqc_unlock();
    if (status == CCI_SUCCESS) *caps = 0;
    return status;
}

static void library_stop_thread(void)
{
    if (!aqc.thread_runs) return;
    aqc.thread_stops = true;
    aqc_wake_thread();
    aqc_unlock();
    pthread_join(aqc.thread, NULL);
    aqc_lock();
    aqc.thread_runs = false;
    aqc.thread_stops = false;
    close(aqc.thread_wake);
    aqc.thread_wake = -1;
}

int cci_finalize(void)
{
    if (aqc.forked) return CCI_SUCCESS; /* all is the parent's */
    aqc_enter();
    if (aqc.users == 0) {
        aqc_unlock();
        return CCI_ERROR;
    }
    if (--aqc.users == 0) {
        aqc.closing = true;
        while (!aqi_list_is_empty(&aqc.eps))
            aqc_ep_close(AQI_OF(aqc.eps.next, struct aqc_ep, link));
        library_stop_thread();
        aqc_devices_close();
        lib_alone_close();
        (void)aqi_pool_destroy(&aqc.ops);
        (void)aqi_pool_destroy(&aqc.small);
        aqc_rooms_close();
        aqc.closing = false;
    }
    aqc_unlock();
    return CCI_SUCCESS;
}

/* --- progress -------------------------------------------------------------------------------- */

static void library_times(void)
{
    uint64_t now = aqi_now_ns();
    if (now < aqc.look_at) return;
    aqc.look_at = now + LIBRARY_LOOK_MS * LIBRARY_MS;
    for (struct aqi_node *ep = aqc.eps.next; ep != &aqc.eps; ep = ep->next) {
        struct aqi_node *conns = &AQI_OF(ep, struct aqc_ep, link)->conns;
        for (struct aqi_node *at = conns->next; at != conns; at = at->next) {
            struct aqc_conn *conn = AQI_OF(at, struct aqc_conn, link);
            if (conn->watched && conn->state == AQC_OPEN) aqc_op_expire(conn, now);
        }
    }
}

void aqc_progress(void)
{
    (void)aq_poll();
    aqc_progress_rest();
}

void aqc_progress_rest(void)
{
    uint32_t sent = aqc.sent;
    aqc.rounds++;
    if (aqc.calling != 0 || aqc.rounds % LIBRARY_ROUNDS == 0) aqc_conn_events();
    for (struct aqi_node *at = aqc.active.next, *next; at != &aqc.active; at = next) {
        next = at->next;
        aqc_conn_push(AQI_OF(at, struct aqc_conn, active));
    }
    /* Flush: peers wait for these messages, and the program may compute next. */
    if (AQI_UNLIKELY(aqc.sent != sent)) (void)aq_poll();
    if (AQI_UNLIKELY(aqc.timed != 0)) library_times();
}

bool aqc_may_sleep(void)
{
    aqc_conn_events();
    for (struct aqi_node *at = aqc.active.next; at != &aqc.active; at = at->next) {
        const struct aqc_conn *conn = AQI_OF(at, const struct aqc_conn, active);
        if (conn->again || conn->fresh || conn->got != conn->told) return false;
    }
    return aq_wait_prepare() == AQ_OK;
}

void aqc_pause(unsigned rounds)
{
    struct pollfd fd = {.fd = aqc.fd, .events = POLLIN};
    bool sleep = rounds >= LIBRARY_SPINS && aqc_may_sleep();
    aqc_unlock();
    if (sleep)
        (void)poll(&fd, 1, LIBRARY_GRACE_MS);
    else if (rounds % LIBRARY_ROUNDS == 0)
        sched_yield();
    else
        aqi_big_yield(&aqc.lock);
    aqc_enter();
}

/* --- the progress thread --------------------------------------------------------------------- */

void aqc_wake_thread(void)
{
    aqc.asleep = false;
    if (aqc.thread_wake >= 0) aqi_kick(aqc.thread_wake);
}

static uint32_t library_calls(void)
{
    return atomic_load_explicit(&aqc.calls, memory_order_relaxed);
}

/* Called without the lock. */
static void library_nap(void)
{
    struct pollfd wake = {.fd = aqc.thread_wake, .events = POLLIN};
    if (poll(&wake, 1, LIBRARY_GRACE_MS) > 0) (void)aqi_kick_take(aqc.thread_wake);
}

/*
 * Wait until the program has made no call for a while, as its calls make progress. Does not take
 * the lock: if this thread were preempted while holding it, the program would be delayed. Returns
 * the number of calls.
 */
static uint32_t library_await_silence(uint32_t seen)
{
    for (uint32_t now; (now = library_calls()) != seen; seen = now)
        library_nap();
    return seen;
}

/* Sleep until something arrives, the program makes a call, or timeouts must be checked. Releases
 * the lock. */
static void library_sleep(void)
{
    struct pollfd fds[] = {{.fd = aqc.thread_wake, .events = POLLIN},
                           {.fd = aqc.fd, .events = POLLIN}};
    int ms = aqc.timed != 0 ? LIBRARY_LOOK_MS : -1;
    bool grace = aqc.handles != 0;
    aqc.asleep = true;
    aqc_unlock();
    (void)poll(fds, AQI_COUNT_OF(fds), ms);
    if ((fds[0].revents & POLLIN) != 0)
        (void)aqi_kick_take(aqc.thread_wake);
    else if (grace)
        library_nap(); /* a program that sleeps on a handle has also been woken */
}

/* Make progress. Returns whether to sleep; if so, with the lock held. */
static bool library_turn(void)
{
    aqc_lock();
    aqc_progress();
    bool sleep = aqc_may_sleep() && !aqc.thread_stops;
    for (struct aqi_node *at = aqc.eps.next; at != &aqc.eps; at = at->next)
        aqc_ep_signal(AQI_OF(at, struct aqc_ep, link));
    if (!sleep) aqc_unlock();
    return sleep;
}

/*
 * Calls of the program make progress. Once it has made none for a millisecond, this thread makes
 * progress until the next call.
 */
static void *library_run(void *unused)
{
    uint32_t seen = 0;
    unsigned busy = 0;
    (void)unused;
    while (!aqc.thread_stops) {
        seen = library_await_silence(seen);
        if (library_turn()) {
            busy = 0;
            library_sleep();
            aqc_lock();
            aqc.asleep = false;
            aqc_unlock();
        } else if (++busy >= LIBRARY_ROUNDS) {
            library_nap();
        } else {
            sched_yield();
        }
    }
    return NULL;
}

int aqc_thread_start(void)
{
    sigset_t all, last;
    if (aqc.thread_runs) return CCI_SUCCESS;
    aqc.thread_wake = aqi_kick_new();
    if (aqc.thread_wake < 0) return CCI_ENOMEM;
    sigfillset(&all); /* leave all signals to the program */
    pthread_sigmask(SIG_SETMASK, &all, &last);
    int err = pthread_create(&aqc.thread, NULL, library_run, NULL);
    pthread_sigmask(SIG_SETMASK, &last, NULL);
    if (err != 0) {
        close(aqc.thread_wake);
        aqc.thread_wake = -1;
        return CCI_ENOMEM;
    }
    aqc.thread_runs = true;
    return CCI_SUCCESS;
}
