/*
 * A job that ends badly: `victim HOW WHERE`. The last rank ends as HOW says while the others are in
 * the state WHERE. Each rank first prints a line, which stays in its buffer: it must not be lost.
 */
#include "support.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FLOOD = 100, EXIT };

static _Atomic uint32_t received;

/* --- how the last rank ends -------------------------------------------------------------- */

static void end_segv(void)
{
    signal(SIGSEGV, SIG_DFL); /* sanitizers have handlers */
    raise(SIGSEGV);
}

static void end_kill(void)
{
    raise(SIGKILL);
}

static void end_abort(void)
{
    signal(SIGABRT, SIG_DFL);
    abort();
}

static void end_exit3(void)
{
    exit(3);
}

static void end_quick4(void)
{
    _exit(4);
}

static void end_aq_exit7(void)
{
    aq_exit(7);
}

static void end_aq_exit0(void)
{
    aq_exit(0);
}

/* Ask a peer, whose handler ends the job, and wait for that. */
static void end_in_handler(void)
{
    CHECK_OK(aq_am_short(job.team, 0, EXIT, AQ_ARGS(9), 0));
    job_await(&received, UINT32_MAX);
}

static void *thread_exit8(void *arg)
{
    (void)arg;
    aq_exit(8);
}

static void end_in_thread(void)
{
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, thread_exit8, NULL), 0);
    for (;;)
        (void)aq_poll();
}

/* A child of a rank is no rank: its end ends nothing. Then the rank leaves in good order. */
static void end_forked_child(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) exit(3);
    int status;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    CHECK_OK(aq_finalize());
}

/* A return from main; see there. */
static void end_return(void)
{
}

/* A message for a handler that nobody has: the receiver cannot just drop it. */
static void end_unknown_handler(void)
{
    CHECK_OK(aq_am_short(job.team, 0, 200, AQ_NO_ARGS, 0));
    job_await(&received, UINT32_MAX);
}

/* --- where the others are ---------------------------------------------------------------- */

static void in_barrier(void)
{
    CHECK_STATUS(aq_barrier(job.team), job.size == 1 ? AQ_OK : AQ_EPEER);
}

static void in_poll_until(void)
{
    job_await(&received, UINT32_MAX);
}

static void in_spin(void)
{
    for (volatile uint64_t i = 0;; i++) {
    }
}

static void in_sleep(void)
{
    for (;;)
        pause();
}

/* Blocked in a send to the last rank, which does not look. */
static void in_send(void)
{
    size_t max = aq_am_max_medium(job.team);
    void *payload = calloc(1, max);
    aq_status status;
    CHECK(payload != NULL);
    do {
        status = aq_am_medium(job.team, job.size - 1, FLOOD, payload, max, AQ_NO_ARGS, 0, NULL);
    } while (status == AQ_OK);
    CHECK_EQUAL(status, AQ_EPEER);
    in_poll_until();
}

/* In a blocking get after a get, from the last rank. */
static void in_get(void)
{
    static char here[65536];
    aq_status status;
    do {
        status = aq_get(job.team, here, job.size - 1, job_at(job.size - 1, 0), sizeof(here));
    } while (status == AQ_OK);
    CHECK_EQUAL(status, AQ_EPEER);
    in_poll_until();
}

static void in_finalize(void)
{
    (void)aq_finalize();
    exit(0);
}

/* --- the whole --------------------------------------------------------------------------- */

struct choice {
    const char *name;
    void (*run)(void);
};

static const struct choice hows[] = {
    {"segv", end_segv},         {"kill", end_kill},        {"abort", end_abort},
    {"exit3", end_exit3},       {"quick4", end_quick4},    {"aq_exit7", end_aq_exit7},
    {"aq_exit0", end_aq_exit0}, {"thread", end_in_thread}, {"handler", end_in_handler},
    {"return5", end_return},    {"return0", end_return},   {"unknown", end_unknown_handler},
    {"fork", end_forked_child},
};

static const struct choice wheres[] = {
    {"barrier", in_barrier},   {"poll", in_poll_until}, {"spin", in_spin},
    {"sleep", in_sleep},       {"send", in_send},       {"get", in_get},
    {"finalize", in_finalize},
};

static const struct choice *find(const struct choice *choices, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(choices[i].name, name) == 0) return &choices[i];
    fprintf(stderr, "victim: no such choice: %s\n", name);
    exit(2);
}

static void on_flood(aq_am *am)
{
    (void)am;
    received++;
}

static void on_exit_request(aq_am *am)
{
    aq_exit(am->args[0]);
}

/* Long enough for the others to get to where they are to be; they need not be there. */
static void pass_time(void)
{
    struct timespec time = {.tv_nsec = 50 * 1000 * 1000};
    while (nanosleep(&time, &time) != 0) {
    }
}

int main(int argc, char **argv)
{
    aq_handler_entry table[] = {
        {FLOOD, 0, 0, on_flood, NULL, "flood"},
        {EXIT, 1, AQ_AM_SHORT | AQ_AM_REQUEST, on_exit_request, NULL, "exit"},
    };
    if (argc != 3) return 2;
    const struct choice *how = find(hows, COUNT_OF(hows), argv[1]);
    const struct choice *where = find(wheres, COUNT_OF(wheres), argv[2]);
    bool threads = strcmp(how->name, "thread") == 0;
    job_open(threads ? AQ_THREAD_MULTIPLE : AQ_THREAD_SINGLE, 65536);
    job_handlers(table, COUNT_OF(table));
    printf("rank %u was here\n", job.self);
    job_barrier();
    if (job.self != job.size - 1 || job.size == 1) where->run();
    pass_time();
    how->run();
    return strcmp(how->name, "return5") == 0 ? 5 : 0;
}
