/*
 * A job that ends badly: `victim HOW WHERE`. The last rank ends as HOW says while the others are in
 * the state WHERE. Each rank first prints a line, which stays in its buffer: it must not be lost.
 */
#include "../support.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FLOOD = 100, EXIT, STARTED };

static aq_team *divided; /* all ranks again */
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

/* With whatever handlers there are: the library's, if it has something to write. */
static void end_assert(void)
{
    abort();
}

static void end_terminate(void)
{
    raise(SIGTERM);
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

/* Ends with the others: "late" is what one writes that may still be inside the barrier when another
 * has come here. */
static void end_together6(void)
{
    printf("rank %u was late\n", job.self);
    CHECK_OK(aq_exit_together(6, UINT64_MAX));
    aq_exit(6);
}

/* The others are somewhere else and will not come. */
static void end_impatient6(void)
{
    CHECK_OK(aq_exit_together(6, 50 * 1000 * 1000));
    aq_exit(6);
}

static void *thread_together(void *arg)
{
    (void)arg;
    CHECK_OK(aq_exit_together(6, UINT64_MAX));
    aq_exit(6);
}

/* From several threads of each process: one of them does it. */
static void end_threads6(void)
{
    pthread_t thread;
    printf("rank %u was late\n", job.self);
    CHECK_EQUAL(pthread_create(&thread, NULL, thread_together, NULL), 0);
    thread_together(NULL);
}

/* As a terminal's Ctrl-C that reaches this process only. */
static void end_int(void)
{
    raise(SIGINT);
}

/* In a handler of its own message; and of as many as there are peers, at once. */
static void end_in_own_handler(void)
{
    CHECK_OK(aq_am_short(job.team, job.self, EXIT, AQ_ARGS(9), 0));
    job_await(&received, UINT32_MAX);
}

static void end_in_handlers(void)
{
    for (aq_rank rank = 0; rank < job.size; rank++)
        CHECK_OK(aq_am_short(job.team, rank, EXIT, AQ_ARGS(9), 0));
    job_await(&received, UINT32_MAX);
}

/* With a message prepared and not committed. */
static void end_prepared(void)
{
    aq_am_buffer buffer;
    CHECK_OK(aq_am_reserve(job.team, 0, AQ_AM_MEDIUM, NULL, 8, 64, 0, 0, &buffer));
    aq_exit(9);
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

/* All threads at the same time. */
static void end_in_threads(void)
{
    pthread_t threads[8];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, thread_exit8, NULL), 0);
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

/* And one for a handler that does not take such messages. */
static void end_refused(void)
{
    CHECK_OK(aq_am_short(job.team, 0, EXIT, AQ_ARGS(1, 2), 0));
    job_await(&received, UINT32_MAX);
}

/* A message to an endpoint that the receiver has not made, or has made without messages. */
static void end_no_endpoint(void)
{
    CHECK_OK(aq_am_short(aq_team_pair(job.ep, 3), 0, FLOOD, AQ_NO_ARGS, 0));
    job_await(&received, UINT32_MAX);
}

static void end_deaf_endpoint(void)
{
    CHECK_OK(aq_am_short(aq_team_pair(job.ep, 1), 0, FLOOD, AQ_NO_ARGS, 0));
    job_await(&received, UINT32_MAX);
}

/* The last rank destroys a team that the others go on with: their barriers pass for its own at
 * first, and then miss it. */
static void end_gone_team(void)
{
    CHECK_OK(aq_team_destroy(divided));
    job_await(&received, UINT32_MAX);
}

/* While the others attach segments. */
static void end_finalize(void)
{
    (void)aq_finalize();
}

/* --- where the others are ---------------------------------------------------------------- */

static void in_gone_team(void)
{
    for (;;)
        CHECK_OK(aq_barrier(divided));
}

static void in_poll_until(void)
{
    job_await(&received, UINT32_MAX);
}

/* The death may be known here before it is known that it ends the job. */
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
        status = aq_get(job.team, here, job.size - 1, job_at(job.size - 1, 0), sizeof(here), 0);
    } while (status == AQ_OK);
    CHECK_EQUAL(status, AQ_EPEER);
    in_poll_until();
}

static void on_quit(int number)
{
    static const char text[] = "asked to quit\n";
    (void)number;
    ssize_t written = write(STDOUT_FILENO, text, sizeof(text) - 1);
    (void)written;
}

/* The program's handler of SIGQUIT hears of the end first. */
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

/* The last rank will not come: that is known at once, and to all. */
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

/* --- the whole --------------------------------------------------------------------------- */

struct choice {
    const char *name;
    void (*run)(void);
};

/* All do the same, at once. */
static void in_nowhere(void)
{
}

static const struct choice hows[] = {
    {"segv", end_segv},
    {"kill", end_kill},
    {"abort", end_abort},
    {"assert", end_assert},
    {"terminate", end_terminate},
    {"exit3", end_exit3},
    {"quick4", end_quick4},
    {"aq_exit7", end_aq_exit7},
    {"aq_exit0", end_aq_exit0},
    {"together6", end_together6},
    {"threads6", end_threads6},
    {"impatient6", end_impatient6},
    {"thread", end_in_thread},
    {"handler", end_in_handler},
    {"return5", end_return},
    {"return0", end_return},
    {"unknown", end_unknown_handler},
    {"refused", end_refused},
    {"fork", end_forked_child},
    {"int", end_int},
    {"own_handler", end_in_own_handler},
    {"handlers", end_in_handlers},
    {"prepared", end_prepared},
    {"threads", end_in_threads},
    {"gone_team", end_gone_team},
    {"finalize", end_finalize},
    {"no_endpoint", end_no_endpoint},
    {"deaf_endpoint", end_deaf_endpoint},
};

static const struct choice wheres[] = {
    {"barrier", in_barrier},
    {"poll", in_poll_until},
    {"spin", in_spin},
    {"sleep", in_sleep},
    {"send", in_send},
    {"get", in_get},
    {"finalize", in_finalize},
    {"gone_team", in_gone_team},
    {"attach", in_attach},
    {"quit", in_poll_with_quit},
    {"late_attach", in_late_attach},
    {"nowhere", in_nowhere},
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

static _Atomic uint32_t others;

static void on_started(aq_am *am)
{
    (void)am;
    others++;
}

/* All have left the barrier, too, when the last rank comes to its end. */
static void start_all(void)
{
    aq_rank last = job.size - 1;
    job_barrier();
    if (job.self != last)
        CHECK_OK(aq_am_short(job.team, last, STARTED, AQ_NO_ARGS, 0));
    else
        job_await(&others, last);
}

int main(int argc, char **argv)
{
    aq_handler_entry table[] = {
        {FLOOD, 0, 0, on_flood, NULL, "flood"},
        {STARTED, 0, AQ_AM_SHORT | AQ_AM_REQUEST, on_started, NULL, "started"},
        {EXIT, 1, AQ_AM_SHORT | AQ_AM_REQUEST, on_exit_request, NULL, "exit"},
    };
    if (argc != 3) return 2;
    const struct choice *how = find(hows, COUNT_OF(hows), argv[1]);
    const struct choice *where = find(wheres, COUNT_OF(wheres), argv[2]);
    bool threads = strncmp(how->name, "thread", 6) == 0;
    bool attach = strstr(where->name, "attach") != NULL;
    job_open(threads ? AQ_THREAD_MULTIPLE : AQ_THREAD_SINGLE, attach ? 0 : 65536);
    job_handlers(table, COUNT_OF(table));
    CHECK_OK(aq_team_split(job.team, 0, 0, 0, &divided));
    aq_ep *deaf;
    CHECK_OK(aq_ep_create(AQ_EP_RMA, &deaf));
    printf("rank %u was here\n", job.self);
    start_all();
    if (job.self != job.size - 1 || job.size == 1) where->run();
    if (strcmp(where->name, "nowhere") != 0) pass_time();
    how->run();
    return strcmp(how->name, "return5") == 0 ? 5 : 0;
}
