/* Progress for a front end while its program rarely makes calls: see alone.h. */
#include "base/clock.h"
#include "base/kick.h"
#include "base/thread.h"
#include "lib/alone.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>

enum {
    THREAD_ROUNDS = 64, /* consecutive rounds of progress before it lets others run */
    THREAD_NAP_MS = 1,
    THREAD_OFTEN_NS = 200000 /* a program that calls more often than this needs no thread */
};

void lib_alone_thread_wake(struct lib_alone_thread *thread)
{
    atomic_store_explicit(&thread->asleep, false, memory_order_relaxed);
    aqi_kick(thread->kick);
}

static uint32_t lib_thread_calls(const struct lib_alone_thread *thread)
{
    return atomic_load_explicit(&thread->calls, memory_order_relaxed);
}

static void lib_thread_nap(const struct lib_alone_thread *thread)
{
    struct pollfd kick = {.fd = thread->kick, .events = POLLIN};
    if (poll(&kick, 1, THREAD_NAP_MS) > 0) (void)aqi_kick_take(thread->kick);
}

/* Whether the program has called often since the last check. */
static bool lib_thread_is_spared(struct lib_alone_thread *thread)
{
    uint32_t calls = lib_thread_calls(thread);
    uint64_t now = aqi_now_ns();
    bool often = (uint64_t)(calls - thread->seen) * THREAD_OFTEN_NS > now - thread->checked;
    thread->seen = calls;
    thread->checked = now;
    return often;
}

/*
 * Wait until the program calls rarely. Does not take the lock: if this thread were preempted while
 * holding it, the program would be delayed.
 */
static void lib_thread_await_silence(struct lib_alone_thread *thread)
{
    while (!thread->stops && lib_thread_is_spared(thread))
        lib_thread_nap(thread);
}

/* Sleep until something arrives, the program makes a call, or `ms` have passed. */
static void lib_thread_sleep(struct lib_alone_thread *thread, int ms, bool polite)
{
    struct pollfd fds[] = {{.fd = thread->kick, .events = POLLIN},
                           {.fd = thread->fd, .events = POLLIN}};
    (void)poll(fds, AQI_COUNT_OF(fds), ms);
    atomic_store_explicit(&thread->asleep, false, memory_order_relaxed);
    if ((fds[0].revents & POLLIN) != 0)
        (void)aqi_kick_take(thread->kick);
    else if (polite)
        lib_thread_nap(thread);
}

/* Make progress, and sleep if there is none to make. Returns whether it slept. */
static bool lib_thread_turn(struct lib_alone_thread *thread)
{
    aqi_big_lock(thread->lock);
    uint32_t before = lib_thread_calls(thread);
    int ms = thread->stops ? 0 : thread->turn();
    thread->seen += lib_thread_calls(thread) - before; /* calls of the turn itself */
    bool polite = thread->polite;
    atomic_store_explicit(&thread->asleep, ms != 0, memory_order_relaxed);
    aqi_big_unlock(thread->lock);
    if (ms != 0) lib_thread_sleep(thread, ms, polite);
    return ms != 0;
}

static void *lib_thread_run(void *arg)
{
    struct lib_alone_thread *thread = arg;
    for (unsigned busy = 0; !thread->stops;) {
        lib_thread_await_silence(thread);
        if (lib_thread_turn(thread))
            busy = 0;
        else if (++busy >= THREAD_ROUNDS)
            lib_thread_nap(thread);
        else
            sched_yield();
    }
    return NULL;
}

int lib_alone_thread_start(struct lib_alone_thread *thread)
{
    while (thread->stops) { /* in another thread of the program */
        aqi_big_unlock(thread->lock);
        sched_yield();
        aqi_big_lock(thread->lock);
    }
    if (thread->runs) return 0;
    thread->kick = aqi_kick_new();
    if (thread->kick < 0) return errno;
    int err = aqi_thread_start(&thread->id, lib_thread_run, thread);
    thread->runs = err == 0;
    if (err != 0) close(thread->kick);
    return err;
}

void lib_alone_thread_stop(struct lib_alone_thread *thread)
{
    if (!thread->runs) return;
    thread->stops = true;
    lib_alone_thread_wake(thread);
    aqi_big_unlock(thread->lock);
    pthread_join(thread->id, NULL);
    aqi_big_lock(thread->lock);
    thread->runs = false;
    thread->stops = false;
    close(thread->kick);
}
