/* A time limit for the last steps of a process, and for flushing its output. */
#include "job/settings.h"
#include "lib/lib.h"

#include <aqueduct/aqueduct.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/time.h>

/*
 * Time is counted in rounds. A process that is stopped or has no core gets few of them, so it loses
 * no output.
 */
enum { LIMIT_ROUNDS = 10 };

static struct {
    void (*_Atomic expire)(void); /* NULL: no limit */
    atomic_int rounds;
    atomic_int number; /* of the signal about to terminate the process */
} limit;

static void limit_on_alarm(int number)
{
    void (*expire)(void) = atomic_load(&limit.expire);
    (void)number;
    if (expire != NULL && atomic_fetch_add(&limit.rounds, 1) + 1 >= LIMIT_ROUNDS) expire();
}

static void limit_set_timer(uint64_t round_us)
{
    struct timeval round = {.tv_sec = (time_t)(round_us / 1000000),
                            .tv_usec = (suseconds_t)(round_us % 1000000)};
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = round, .it_interval = round}, NULL);
}

static void limit_unblock(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void lib_limit(void (*expire)(void))
{
    atomic_store(&limit.expire, expire);
    signal(SIGALRM, SIG_IGN); /* drops a pending signal of the program's timer */
    limit_set_timer(lib_exit_timeout_ns() / LIMIT_ROUNDS / 1000);
    signal(SIGALRM, limit_on_alarm);
    limit_unblock(SIGALRM); /* this may be the progress thread */
}

uint64_t lib_exit_timeout_ns(void)
{
    return aqi_job_config.exit_timeout_ns / 2;
}

static void limit_die(void)
{
    int number = atomic_load(&limit.number);
    limit_unblock(number);
    raise(number);
}

void aq_job_flush(int number)
{
    FILE *const streams[] = {stdout, stderr};
    bool ours = atomic_load(&limit.expire) == NULL; /* otherwise the process is already leaving */
    void (*expire)(void) = limit_die;
    atomic_store(&limit.number, number);
    if (ours) lib_limit(limit_die);
    for (size_t i = 0; i < AQI_COUNT_OF(streams); i++)
        if (ftrylockfile(streams[i]) == 0) {
            fflush_unlocked(streams[i]);
            funlockfile(streams[i]);
        }
    if (ours && atomic_compare_exchange_strong(&limit.expire, &expire, NULL)) limit_set_timer(0);
}
