/*
 * Waiting costs almost nothing: a rank in a blocking call sleeps while nothing arrives.
 *
 * Odd ranks make no calls to the library for a while; the even ones count meanwhile. The time away
 * is the period of the measurement, not a wait for something to happen.
 *
 * usage: waiting [multiple] [awake]
 *   multiple  in thread mode multiple, while two more threads of each even rank wait
 *   awake     waits stay awake for AQ_WAIT_AWAKE, much less than the time away, before they
 *             sleep: turns are not counted
 */
#include "../support.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Turns without sleep, of all threads of a rank: a wait begins to sleep after a millisecond, and
 * again after each of the few messages. A wait that never sleeps takes far more turns. */
enum { PLAIN = 100, AWAY_MS = 100, AWAY_LONG_MS = 500, MOST_TURNS = 25000, LOST_MS = 20000 };

static _Atomic uint32_t received;
static _Atomic uint64_t looks; /* evaluations of the conditions */
static uint64_t own_sleeps;    /* in poll() */
static bool awake;

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

/* Whether all threads of a process are asleep in the kernel. */
static bool asleep(long pid)
{
    char path[400], stat[512];
    bool all = true;
    snprintf(path, sizeof(path), "/proc/%ld/task", pid);
    DIR *tasks = opendir(path);
    CHECK(tasks != NULL);
    for (struct dirent *task; all && (task = readdir(tasks)) != NULL;) {
        if (task->d_name[0] == '.') continue;
        snprintf(path, sizeof(path), "/proc/%ld/task/%s/stat", pid, task->d_name);
        FILE *file = fopen(path, "r");
        size_t len = file != NULL ? fread(stat, 1, sizeof(stat) - 1, file) : 0;
        if (file != NULL) fclose(file);
        stat[len] = '\0';
        const char *end = strrchr(stat, ')');
        all = end != NULL && strncmp(end, ") S", 3) == 0;
    }
    closedir(tasks);
    return all;
}

/*
 * Make no calls until the previous rank, which announces its wait in this rank's segment, sleeps;
 * and for some time after that.
 */
static void stay_away(void)
{
    struct timespec away = {.tv_nsec = (awake ? AWAY_LONG_MS : AWAY_MS) * 1000000};
    _Atomic int64_t *pid = (_Atomic int64_t *)(void *)job.base;
    while (*pid == 0 || !asleep((long)*pid))
        sched_yield();
    *pid = 0;
    while (nanosleep(&away, &away) != 0)
        ;
}

static void in_barrier(void)
{
    job_barrier();
}

static int has_received(void *wanted)
{
    looks++;
    return received >= *(const uint32_t *)wanted;
}

/* Each of several threads waits for a message of its own, which any of them may receive. */
static void *thread_waits(void *wanted)
{
    CHECK_OK(aq_poll_until(has_received, wanted, AQ_FOREVER));
    return NULL;
}

static void in_poll_until(void)
{
    uint32_t wanted = 1;
    thread_waits(&wanted);
}

static void in_threads(void)
{
    static uint32_t wanted[] = {1, 2, 3};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, thread_waits, &wanted[i]), 0);
    thread_waits(&wanted[2]);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

static void in_poll_wait(void)
{
    aq_wait wait = {{0}};
    while (received == 0) {
        CHECK_OK(aq_poll_wait(&wait));
        looks++;
    }
    CHECK_REFUSED(aq_poll_wait(NULL), AQ_EINVAL);
}

/* As aq_wait_fd describes; a wake-up counts as lost if it does not happen within LOST_MS. */
static void poll_once(void)
{
    struct pollfd wait = {.events = POLLIN};
    CHECK_OK(aq_wait_fd(&wait.fd));
    aq_status st = aq_wait_prepare();
    CHECK(st == AQ_OK || st == AQ_AGAIN);
    if (st != AQ_OK) return;
    CHECK_EQUAL(poll(&wait, 1, LOST_MS), 1);
    own_sleeps++;
}

static void in_poll(void)
{
    aq_status st = AQ_AGAIN;
    CHECK_OK(aq_barrier_notify(job.team, 0, AQ_BARRIER_ANONYMOUS));
    while ((st = aq_barrier_wait(job.team, 0, AQ_BARRIER_ANONYMOUS, 0)) == AQ_AGAIN) {
        poll_once();
        looks++;
    }
    CHECK_OK(st);
}

static void in_poll_for_event(void)
{
    aq_event event;
    aq_status st = AQ_AGAIN;
    CHECK_OK(aq_barrier_nb(job.team, 0, &event));
    while ((st = aq_event_test(&event)) == AQ_AGAIN) {
        poll_once();
        CHECK(aq_poll() >= 0);
        looks++;
    }
    CHECK_OK(st);
}

/* Messages of a process to itself arrive at once. */
static void messages_to_itself(void)
{
    for (received = 0; received < 100;) {
        uint32_t before = received;
        CHECK_OK(aq_am_short(job.team, job.self, PLAIN, AQ_NO_ARGS, 0));
        while (received == before) {
            poll_once();
            CHECK(aq_poll() >= 0);
        }
    }
    job_barrier();
}

/*
 * Under load a waiter looks less often, never more often, so these bounds hold on any machine.
 * Processor time reveals turns that are not counted, such as those of a barrier or of the progress
 * thread that neither yield nor sleep: such a wait uses a whole processor, a sleeping one less than
 * a hundredth, which load cannot raise to a half.
 */
static void wait_and_count(const char *what, void (*wait)(void))
{
    double cpu = cpu_ms(), start = now_ms();
    int64_t pid = getpid();
    CHECK_OK(aq_put(job.team, job_next(), job_at(job_next(), 0), &pid, sizeof(pid), 0));
    uint64_t yields = job_counter("yield"), looked = looks;
    uint64_t sleeps = job_counter("sleep") + own_sleeps;
    wait();
    yields = job_counter("yield") - yields;
    sleeps = job_counter("sleep") + own_sleeps - sleeps;
    looked = looks - looked;
    cpu = cpu_ms() - cpu;
    double time = now_ms() - start;
    printf("rank %u in %s: %llu yields, %llu sleeps, %llu looks, %.1f ms of processor in %.0f ms\n",
           job.self, what, (unsigned long long)yields, (unsigned long long)sleeps,
           (unsigned long long)looked, cpu, time);
    CHECK(time >= AWAY_MS);
    CHECK(sleeps > 0);
    /* There are three threads, and each sleep takes at least a millisecond. */
    CHECK(awake || (double)(yields + sleeps) < MOST_TURNS + 3 * time);
    CHECK(awake || (double)looked < MOST_TURNS + 3 * time);
    CHECK(cpu < time * 0.5);
}

static void measure(const char *what, void (*wait)(void), void (*release)(void))
{
    received = 0;
    job_barrier();
    if (job.self % 2 == 1) {
        stay_away();
        release();
    } else {
        wait_and_count(what, wait);
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
    awake = argc > 1 && strcmp(argv[argc - 1], "awake") == 0;
    job_open(multiple ? AQ_THREAD_MULTIPLE : AQ_THREAD_SINGLE, 4096);
    CHECK_EQUAL(job.size % 2, 0);
    job_handlers(table, COUNT_OF(table));
    messages_to_itself();
    measure("a barrier", in_barrier, in_barrier);
    measure("poll() at a barrier", in_poll, in_barrier);
    measure("poll() for a barrier's event", in_poll_for_event, in_poll_for_event);
    measure("aq_poll_until", in_poll_until, send_to_previous);
    measure("aq_poll_wait", in_poll_wait, send_to_previous);
    if (multiple) measure("aq_poll_until of three threads", in_threads, send_three);
    job_close();
    return 0;
}
