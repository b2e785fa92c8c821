/*
 * Waiting costs next to nothing: a rank in a blocking call with nothing arriving sleeps.
 *
 * Odd ranks stay away for a while without calling the library; what the even ones use of the
 * processor meanwhile is measured. The time away is what is measured over, not a wait for
 * something to happen.
 *
 * usage: waiting [multiple]
 *   multiple  in thread mode multiple, and two more threads of each even rank wait, too
 */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { PLAIN = 100, AWAY_MS = 1500 };

static _Atomic uint32_t received;

static void on_plain(aq_am *am)
{
    (void)am;
    received++;
}

static double cpu_ms(void)
{
    struct rusage usage;
    CHECK_EQUAL(getrusage(RUSAGE_SELF, &usage), 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void stay_away(void)
{
    struct timespec away = {.tv_sec = AWAY_MS / 1000, .tv_nsec = AWAY_MS % 1000 * 1000000};
    while (nanosleep(&away, &away) != 0) {
    }
}

static void in_barrier(void)
{
    job_barrier();
}

static void in_poll_until(void)
{
    job_await(&received, 1);
}

/* Each of three threads waits for a message of its own; whoever receives it. */
static void *thread_waits(void *arg)
{
    job_await(&received, *(const uint32_t *)arg);
    return NULL;
}

static void in_threads(void)
{
    static const uint32_t wanted[] = {1, 2, 3};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, thread_waits, (void *)&wanted[i]), 0);
    job_await(&received, wanted[2]);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

static void in_poll_wait(void)
{
    aq_wait wait = {{0}};
    while (received == 0)
        CHECK_OK(aq_poll_wait(&wait));
    CHECK_REFUSED(aq_poll_wait(NULL), AQ_EINVAL);
}

static void measure(const char *what, void (*wait)(void), void (*release)(void))
{
    received = 0;
    job_barrier();
    if (job.self % 2 == 1) {
        stay_away();
        release();
    } else {
        double cpu = cpu_ms(), start = now_ms();
        wait();
        cpu = cpu_ms() - cpu;
        double time = now_ms() - start;
        printf("rank %u in %s: %.1f ms of processor in %.0f ms (%.2f %%)\n", job.self, what, cpu,
               time, 100 * cpu / time);
        CHECK(time > AWAY_MS * 0.9);
        /* One that spins or yields takes 100 %; ours less than 1, of three threads less than 2. */
        CHECK(cpu < time * 0.05);
    }
    job_barrier();
}

static void send_to_previous(void)
{
    CHECK_OK(aq_am_short(job.team, job_previous(), PLAIN, AQ_NO_ARGS, 0));
}

static void send_three(void)
{
    for (int i = 0; i < 3; i++)
        send_to_previous();
}

int main(int argc, char **argv)
{
    aq_handler_entry table[] = {{PLAIN, 0, 0, on_plain, NULL, "plain"}};
    bool multiple = argc > 1 && strcmp(argv[1], "multiple") == 0;
    job_open(multiple ? AQ_THREAD_MULTIPLE : AQ_THREAD_SINGLE, 4096);
    CHECK_EQUAL(job.size % 2, 0);
    job_handlers(table, COUNT_OF(table));
    measure("a barrier", in_barrier, in_barrier);
    measure("aq_poll_until", in_poll_until, send_to_previous);
    measure("aq_poll_wait", in_poll_wait, send_to_previous);
    if (multiple) measure("aq_poll_until of three threads", in_threads, send_three);
    job_close();
    return 0;
}
