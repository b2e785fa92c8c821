/*
 * The progress thread (AQ_PROGRESS_THREAD): serves the peers while the program computes. It sleeps
 * until something arrives, then makes progress. While the program polls often enough itself, the
 * thread backs off, so that it costs the program neither wakeups nor a turn on the core.
 */
#include "core/wait/wait.h"

#include "base/clock.h"
#include "base/kick.h"
#include "base/shmem.h"
#include "base/topology.h"
#include "core/state/linger.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Sleeps have a timeout, for operations of the program whose progress no arrival announces. */
enum { SLEEP_MS = 10, STAND_BACK_MS = 1, LEAVE_S = 1 };

static struct {
    pthread_t thread;
    bool running;
    int kick; /* eventfd: poll again, or stop */
    atomic_bool stop;
} progress_thread;

/*
 * Move to the next processor that it may use, where perhaps no thread computes. A thread wakes up
 * on the processor where it last ran.
 */
static void wait_thread_move(void)
{
    size_t bytes;
    int cpu = sched_getcpu();
    cpu_set_t *all = cpu >= 0 ? aqi_allowed_cpus(&bytes) : NULL;
    if (all == NULL) return;
    size_t here = (size_t)cpu, cpus = 8 * bytes, next = (here + 1) % cpus;
    while (next != here && !CPU_ISSET_S(next, bytes, all))
        next = (next + 1) % cpus;
    cpu_set_t *one = next != here ? CPU_ALLOC(cpus) : NULL;
    if (one != NULL) {
        CPU_ZERO_S(bytes, one);
        CPU_SET_S(next, bytes, one);
        if (sched_setaffinity(0, bytes, one) == 0) (void)sched_setaffinity(0, bytes, all);
    }
    CPU_FREE(one);
    CPU_FREE(all);
}

/* Nothing has arrived: poll again, or sleep. */
static void wait_thread_idle(struct core_linger *linger)
{
    uint64_t now = aqi_now_ns();
    if (core_linger_looks(linger)) {
        sched_yield();
        if (!core_linger_looked(linger, aqi_now_ns() - now)) wait_thread_move();
        return;
    }
    if (core_linger_stands_back(linger, atomic_load_explicit(&core.polls, memory_order_relaxed),
                                now)) {
        struct pollfd fd = {.fd = progress_thread.kick, .events = POLLIN};
        (void)poll(&fd, 1, STAND_BACK_MS);
    } else if (core_sleep_progress_thread(SLEEP_MS, progress_thread.kick))
        core_linger_found(linger);
    (void)aqi_kick_take(progress_thread.kick);
}

static void *wait_thread_serve(void *arg)
{
    struct core_linger linger = {0};
    (void)arg;
    core_thread_is_progress = true;
    if (core_self() == NULL) return NULL; /* the cause has been recorded */
    while (!atomic_load_explicit(&progress_thread.stop, memory_order_acquire)) {
        if (core_progress_round() != 0)
            core_linger_found(&linger);
        else
            wait_thread_idle(&linger);
    }
    return NULL;
}

void core_progress_thread_step_aside(void)
{
    if (progress_thread.running) aqi_kick(progress_thread.kick);
}

aq_status core_progress_thread_start(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t blocked, before;
    if (!core.progress_thread) return AQ_OK;
    atomic_store(&progress_thread.stop, false);
    progress_thread.kick = aqi_kick_new();
    if (progress_thread.kick < 0)
        return aqi_fail_no_fd(errno, "core", "cannot create a descriptor for the progress thread");
    /* The program's signal handlers run on the program's threads. */
    sigfillset(&blocked);
    for (size_t i = 0; i < AQI_COUNT_OF(faults); i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int err = pthread_create(&progress_thread.thread, NULL, wait_thread_serve, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err != 0) {
        close(progress_thread.kick);
        return aqi_fail_errno(AQ_ELIMIT, err, "core",
                              "cannot start the progress thread: raise ulimit -u, or set %s=no",
                              aqi_setting_variable("AQ_PROGRESS_THREAD"));
    }
    pthread_setname_np(progress_thread.thread, "aq-progress");
    progress_thread.running = true;
    return AQ_OK;
}

static void wait_thread_request_stop(void)
{
    progress_thread.running = false;
    atomic_store_explicit(&progress_thread.stop, true, memory_order_release);
    aqi_kick(progress_thread.kick);
}

void core_progress_thread_stop(void)
{
    if (!progress_thread.running) return;
    wait_thread_request_stop();
    pthread_join(progress_thread.thread, NULL);
    close(progress_thread.kick);
}

/*
 * Called from exit(). The wait is limited: a handler in that thread may have called exit() itself,
 * or never return.
 */
void aqi_core_halt_progress(void)
{
    struct timespec until;
    if (!progress_thread.running || pthread_equal(progress_thread.thread, pthread_self())) return;
    wait_thread_request_stop();
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LEAVE_S;
    (void)pthread_timedjoin_np(progress_thread.thread, NULL, &until);
}

int aq_job_progress_thread(void)
{
    return atomic_load_explicit(&core.open, memory_order_relaxed) && core.progress_thread;
}
