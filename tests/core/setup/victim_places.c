/* Where the other ranks of victim are while the last one ends: the choices for WHERE. */
#include "victim.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void in_gone_team(void)
{
    for (;;)
        CHECK_OK(aq_barrier(divided));
}

static void in_poll_until(void)
{
    job_await(&received, UINT32_MAX);
}

/* The death may be known here before it is known to end the job. */
static void in_barrier(void)
{
    CHECK_STATUS(aq_barrier(job.team), job.size == 1 ? AQ_OK : AQ_EPEER);
    if (job.size > 1) in_poll_until();
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

/* Blocked in a send to the last rank, which does not poll. */
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

/* In one blocking get after another, from the last rank. */
static void in_get_until_lost(void)
{
    static char here[65536];
    aq_status status;
    do {
        status = aq_get(job.team, job.size - 1, here, job_at(job.size - 1, 0), sizeof(here), 0);
    } while (status == AQ_OK);
    CHECK_EQUAL(status, AQ_EPEER);
}

static void in_get(void)
{
    in_get_until_lost();
    in_poll_until();
}

static void resume_aqrun(int number)
{
    (void)number;
    (void)kill(getppid(), SIGCONT);
}

/* Like "get", but aqrun is stopped, so this rank notices the death before aqrun can report it.
 * aqrun continues after a second regardless. */
static void in_first_to_know(void)
{
    signal(SIGALRM, resume_aqrun);
    alarm(1);
    in_get_until_lost();
    resume_aqrun(0);
    in_poll_until();
}

static void on_quit(int number)
{
    static const char text[] = "asked to quit\n";
    (void)number;
    ssize_t written = write(STDOUT_FILENO, text, sizeof(text) - 1);
    (void)written;
}

/* The program's handler of SIGQUIT is called first. */
static void in_poll_with_quit(void)
{
    signal(SIGQUIT, on_quit);
    in_poll_until();
}

/* In a call that the last rank does not make. */
static void in_late_attach(void)
{
    aq_segment *segment;
    signal(SIGQUIT, on_quit);
    CHECK(aq_segment_attach(job.team, 65536, &segment) != AQ_OK);
    check_failed(__FILE__, __LINE__, "the call must not return");
}

/* The last rank will not arrive, which all ranks learn at once. */
static void in_attach(void)
{
    aq_segment *segment;
    CHECK_OK(aq_segment_attach(job.team, 65536, &segment)); /* ends the process */
}

static void in_finalize(void)
{
    (void)aq_finalize();
    exit(0);
}

/* Nowhere: all ranks do what the last one does, at once. */
static void in_nowhere(void)
{
}

/* In a collective that the last rank does not join. */
static void in_collective(void)
{
    uint64_t one = 1, sum;
    CHECK_STATUS(aq_coll_allreduce(job.team, &sum, &one, 1, AQ_TYPE_U64, AQ_OP_ADD, 0), AQ_EPEER);
    in_poll_until();
}

/* Outside the library, in a system call. */
static void in_read(void)
{
    int ends[2];
    char byte;
    CHECK_EQUAL(pipe(ends), 0);
    for (;;) {
        ssize_t got = read(ends[0], &byte, 1);
        (void)got;
    }
}

/* Ignores SIGTERM as well. */
static void in_hang(void)
{
    signal(SIGTERM, SIG_IGN);
    in_sleep();
}

/* In a handler that does not return. */
static void in_handler(void)
{
    CHECK_OK(aq_am_short(job.team, job.self, STAY, AQ_NO_ARGS, 0));
}

static int last_is_lost(void *arg)
{
    (void)arg;
    return aq_peer_lost(job.team, job.size - 1);
}

/* Where a death does not end the job: wait for it, and leave cleanly, or by aq_exit. */
static void in_survival(void)
{
    CHECK_OK(aq_poll_until(last_is_lost, NULL, AQ_FOREVER));
    CHECK_OK(aq_finalize());
    exit(0);
}

static void in_survival_exit7(void)
{
    CHECK_OK(aq_poll_until(last_is_lost, NULL, AQ_FOREVER));
    if (job.self == 0) aq_exit(7);
    in_poll_until();
}

static const struct choice places[] = {
    {.name = "barrier", .run = in_barrier},
    {.name = "poll", .run = in_poll_until},
    {.name = "spin", .run = in_spin},
    {.name = "sleep", .run = in_sleep},
    {.name = "send", .run = in_send},
    {.name = "get", .run = in_get},
    {.name = "first_to_know", .run = in_first_to_know},
    {.name = "finalize", .run = in_finalize},
    {.name = "gone_team", .run = in_gone_team},
    {.name = "attach", .run = in_attach},
    {.name = "quit", .run = in_poll_with_quit},
    {.name = "late_attach", .run = in_late_attach},
    {.name = "nowhere", .run = in_nowhere},
    {.name = "collective", .run = in_collective},
    {.name = "read", .run = in_read},
    {.name = "hang", .run = in_hang},
    {.name = "handler", .run = in_handler},
    {.name = "absent", .run = in_nowhere, .before = in_sleep},
    {.name = "init", .run = in_nowhere},
    {.name = "survival", .run = in_survival},
    {.name = "survival_exit7", .run = in_survival_exit7},
};

const struct choice *victim_place(const char *name)
{
    return victim_find(places, COUNT_OF(places), name);
}
