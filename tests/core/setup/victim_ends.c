/* How the last rank of victim ends: the choices for HOW. */
#include "victim.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* Abort with the signal handlers in place: those of the library, if it has something to write. */
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

/* End while aqrun is stopped; the others let it continue. */
static void end_unheard7(void)
{
    CHECK_EQUAL(kill(getppid(), SIGSTOP), 0);
    aq_exit(7);
}

static void end_aq_exit0(void)
{
    aq_exit(0);
}

/* Ends together with the others: a rank writes "late" if it may still be inside the barrier when
 * another rank has reached this point. */
static void end_together6(void)
{
    printf("rank %u was late\n", job.self);
    CHECK_OK(aq_exit_together(6, UINT64_MAX));
    aq_exit(6);
}

/* Each rank ends shortly after the previous one, which notifies it, so the last rank is late. */
static void end_relay6(void)
{
    if (job.self != 0) job_await(&received, 1);
    victim_pass_time();
    if (job.self + 1 < job.size)
        CHECK_OK(aq_am_short(job.team, job.self + 1, FLOOD, AQ_NO_ARGS, 0));
    end_together6();
}

/* The other ranks are elsewhere and will not arrive. */
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

/* Several threads of each process call it; one of them succeeds. */
static void end_threads6(void)
{
    pthread_t thread;
    printf("rank %u was late\n", job.self);
    CHECK_EQUAL(pthread_create(&thread, NULL, thread_together, NULL), 0);
    thread_together(NULL);
}

/* Like Ctrl-C at a terminal, but for this process only. */
static void end_int(void)
{
    raise(SIGINT);
}

/* End in the handler of a message to itself, or in all peers' handlers at once. */
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

/* End with a message that is prepared and not committed. */
static void end_prepared(void)
{
    aq_am_buffer buffer;
    CHECK_OK(aq_am_reserve(job.team, 0, AQ_AM_MEDIUM, NULL, 8, 64, 0, 0, &buffer));
    aq_exit(9);
}

/* Send a message to a peer, whose handler ends the job, and wait for that. */
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

/* All threads end the job at the same time. */
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

/*
 * A child of a rank is not a rank, so its end does not affect the job. Then the rank leaves
 * cleanly.
 */
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

/* Nothing to do: main returns. */
static void end_return(void)
{
}

/* A message for a handler that is not registered: the receiver cannot simply drop it. */
static void end_unknown_handler(void)
{
    CHECK_OK(aq_am_short(job.team, 0, 200, AQ_NO_ARGS, 0));
    job_await(&received, UINT32_MAX);
}

/* A message for a handler that does not accept this kind. */
static void end_refused(void)
{
    CHECK_OK(aq_am_short(job.team, 0, EXIT, AQ_ARGS(1, 2), 0));
    job_await(&received, UINT32_MAX);
}

/* A message to an endpoint that the receiver has not created, or has created without messages. */
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

/* The last rank destroys a team that the others keep using: their barriers first match its own,
 * and then lack a member. */
static void end_gone_team(void)
{
    CHECK_OK(aq_team_destroy(divided));
    job_await(&received, UINT32_MAX);
}

/* Leave the job while the others attach segments. */
static void end_finalize(void)
{
    (void)aq_finalize();
}

/* The handler of a reply ends the job. */
static void end_in_answer(void)
{
    CHECK_OK(aq_am_short(job.team, 0, ASK, AQ_ARGS(9), 0));
    job_await(&received, UINT32_MAX);
}

/* All ranks get here, and each exits with a code of its own. */
static void end_differ(void)
{
    aq_exit(10 + (int)job.self);
}

/* Wait until an observer acts. */
static void end_wait(void)
{
    victim_mark("armed");
    job_await(&received, UINT32_MAX);
}

static void on_signal(int number)
{
    (void)number;
    aq_exit(11);
}

/* End in a signal handler, which interrupts the library anywhere. */
static void end_signaled(void)
{
    signal(SIGUSR1, on_signal);
    signal(SIGTERM, on_signal);
    end_wait();
}

static volatile sig_atomic_t asked;

static void on_request(int number)
{
    (void)number;
    asked = 1;
}

/* Return from main when an observer requests it. */
static void end_return_when_asked(void)
{
    signal(SIGUSR1, on_request);
    victim_mark("armed");
    while (!asked)
        (void)aq_poll();
}

static void exit_by_handler(void)
{
    aq_exit(12);
}

static void prepare_atexit(void)
{
    CHECK_EQUAL(atexit(exit_by_handler), 0);
}

static void end_exit0(void)
{
    exit(0);
}

/* Leave 1 MB buffered in each rank, unless the output is already a full disk. glibc respects the
 * size only together with a buffer. */
static void prepare_output(void)
{
    enum { ROOM = 1 << 21, LINES = 16384 };
    static char room[ROOM];
    (void)setvbuf(stdout, room, _IOFBF, ROOM);
    for (int i = 0; i < LINES; i++)
        printf("%-62s.\n", "much");
}

static void *thread_holds(void *held)
{
    flockfile(stdout);
    atomic_store((_Atomic uint32_t *)held, 1);
    for (;;)
        pause();
    return NULL;
}

/* Another thread holds the lock of standard output and never releases it. */
static void end_held7(void)
{
    static _Atomic uint32_t held;
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, thread_holds, (void *)&held), 0);
    job_await(&held, 1);
    aq_exit(7);
}

/* A mistake of programs that make themselves daemons. */
static void end_closes(void)
{
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    job_await(&received, UINT32_MAX);
}

/* Close only the sockets of udp; the control channel stays open. */
static void end_deafens(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        int type = 0;
        socklen_t len = sizeof(type);
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_DGRAM) close(fd);
    }
    job_await(&received, UINT32_MAX);
}

static void end_replaces(void)
{
    int null = open("/dev/null", O_RDWR);
    CHECK(null >= 0);
    for (int fd = 3; fd < 1024; fd++)
        if (fd != null && fcntl(fd, F_GETFD) >= 0) CHECK_EQUAL(dup2(null, fd), fd);
    job_await(&received, UINT32_MAX);
}

/* --- after aq_finalize, and before aq_init --------------------------------------------------- */

static void late_exit5(void)
{
    CHECK_OK(aq_finalize());
    exit(5);
}

static void late_aq_exit5(void)
{
    CHECK_OK(aq_finalize());
    aq_exit(5);
}

static void late_quick4(void)
{
    CHECK_OK(aq_finalize());
    _exit(4);
}

/* The descriptor that aqrun has left to this process, until aq_init closes it. */
static struct {
    int fd;
    char name[40]; /* for threads, because for tsan close() races with queries of a descriptor */
    struct stat as_found;
} place;

static void place_find(void)
{
    const char *fd = getenv("AQ_BOOT_FD");
    CHECK(fd != NULL);
    place.fd = atoi(fd);
    snprintf(place.name, sizeof(place.name), "/proc/self/fd/%d", place.fd);
    CHECK_EQUAL(fstat(place.fd, &place.as_found), 0);
}

static bool place_is_given_back(void)
{
    struct stat now;
    return stat(place.name, &now) != 0 || now.st_ino != place.as_found.st_ino;
}

/* aq_init has sent something to aqrun, which has not read it yet. */
static bool place_has_words(void)
{
    int unread = 0;
    return !place_is_given_back() && ioctl(place.fd, TIOCOUTQ, &unread) == 0 && unread > 0;
}

static void early(void)
{
    victim_pass_time();
    victim_mark("ends");
}

static void early_exit3(void)
{
    early();
    exit(3);
}

static void early_quick4(void)
{
    early();
    _exit(4);
}

static void early_aq_exit7(void)
{
    early();
    aq_exit(7);
}

static void early_segv(void)
{
    early();
    end_segv();
}

static void *thread_early(void *arg)
{
    (void)arg;
    while (!place_is_given_back())
        victim_pass_time();
    early_aq_exit7();
    return NULL;
}

/* End while this rank is also inside aq_init, where it waits for a rank that does not arrive. */
static void before_init_thread(void)
{
    pthread_t thread;
    place_find();
    CHECK_EQUAL(pthread_create(&thread, NULL, thread_early, NULL), 0);
}

static void on_alarm(int number)
{
    (void)number;
    if (!place_is_given_back()) return;
    victim_mark("ends");
    aq_exit(7);
}

/* aqrun has been stopped since before aq_init; let it continue here. */
static void on_alarm_while_joining(int number)
{
    (void)number;
    if (!place_has_words()) return;
    (void)kill(getppid(), SIGCONT);
    victim_mark("ends");
    aq_exit(7);
}

static void init_with_alarms(void (*handler)(int))
{
    struct itimerval timer = {.it_value = {.tv_usec = 50000}, .it_interval = {.tv_usec = 10000}};
    place_find();
    signal(SIGALRM, handler);
    CHECK_EQUAL(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

static void before_init_signal(void)
{
    init_with_alarms(on_alarm);
}

static void before_joining_signal(void)
{
    CHECK_EQUAL(kill(getppid(), SIGSTOP), 0);
    init_with_alarms(on_alarm_while_joining);
}

static const struct choice ends[] = {
    {.name = "segv", .run = end_segv},
    {.name = "kill", .run = end_kill},
    {.name = "closes", .run = end_closes},
    {.name = "replaces", .run = end_replaces},
    {.name = "deafens", .run = end_deafens},
    {.name = "abort", .run = end_abort},
    {.name = "assert", .run = end_assert},
    {.name = "terminate", .run = end_terminate},
    {.name = "exit3", .run = end_exit3},
    {.name = "quick4", .run = end_quick4},
    {.name = "aq_exit7", .run = end_aq_exit7},
    {.name = "unheard7", .run = end_unheard7},
    {.name = "aq_exit0", .run = end_aq_exit0},
    {.name = "differ", .run = end_differ},
    {.name = "together6", .run = end_together6},
    {.name = "threads6", .run = end_threads6, .threads = true},
    {.name = "relay6", .run = end_relay6},
    {.name = "impatient6", .run = end_impatient6},
    {.name = "thread", .run = end_in_thread, .threads = true},
    {.name = "handler", .run = end_in_handler},
    {.name = "answer", .run = end_in_answer},
    {.name = "return5", .run = end_return, .value = 5},
    {.name = "return0", .run = end_return},
    {.name = "unknown", .run = end_unknown_handler},
    {.name = "refused", .run = end_refused},
    {.name = "fork", .run = end_forked_child},
    {.name = "int", .run = end_int},
    {.name = "own_handler", .run = end_in_own_handler},
    {.name = "handlers", .run = end_in_handlers},
    {.name = "prepared", .run = end_prepared},
    {.name = "threads", .run = end_in_threads, .threads = true},
    {.name = "gone_team", .run = end_gone_team},
    {.name = "finalize", .run = end_finalize},
    {.name = "no_endpoint", .run = end_no_endpoint},
    {.name = "deaf_endpoint", .run = end_deaf_endpoint},
    {.name = "wait", .run = end_wait},
    {.name = "signaled", .run = end_signaled},
    {.name = "signaled_much", .run = end_signaled, .prepare = prepare_output},
    {.name = "asked_much", .run = end_return_when_asked, .prepare = prepare_output, .value = 5},
    {.name = "atexit", .run = end_exit0, .prepare = prepare_atexit},
    {.name = "atexit_first", .run = end_exit0, .before = prepare_atexit},
    {.name = "much", .run = end_aq_exit7, .prepare = prepare_output},
    {.name = "held7", .run = end_held7, .threads = true},
    {.name = "late_exit5", .run = late_exit5},
    {.name = "late_aq_exit5", .run = late_aq_exit5},
    {.name = "late_quick4", .run = late_quick4},
    {.name = "early_exit3", .run = end_return, .before = early_exit3},
    {.name = "early_quick4", .run = end_return, .before = early_quick4},
    {.name = "early_aq_exit7", .run = end_return, .before = early_aq_exit7},
    {.name = "early_segv", .run = end_return, .before = early_segv},
    {.name = "init_thread7", .run = end_return, .before = before_init_thread, .threads = true},
    {.name = "init_signal7", .run = end_return, .before = before_init_signal},
    {.name = "join_signal7", .run = end_return, .before = before_joining_signal},
};

const struct choice *victim_end(const char *name)
{
    return victim_find(ends, COUNT_OF(ends), name);
}
