/* The table of exits, and actions on jobs from outside. */
#include "exits.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* --- from outside ------------------------------------------------------------------------ */

static void hit_rank(const struct run *run, unsigned rank, int number)
{
    pid_t pid = rank_pid(run, rank);
    assert_true(pid > 0);
    assert_int_equal(kill(pid, number), 0);
}

static void kill_last(struct run *run, unsigned ranks)
{
    hit_rank(run, ranks - 1, SIGKILL);
}

static void kill_first(struct run *run, unsigned ranks)
{
    (void)ranks;
    hit_rank(run, 0, SIGKILL);
}

static void terminate_last(struct run *run, unsigned ranks)
{
    hit_rank(run, ranks - 1, SIGTERM);
}

static void signal_last(struct run *run, unsigned ranks)
{
    hit_rank(run, ranks - 1, SIGUSR1);
}

/* Twice: the second signal arrives during the exit caused by the first. */
static void signal_last_twice(struct run *run, unsigned ranks)
{
    hit_rank(run, ranks - 1, SIGUSR1);
    kill(rank_pid(run, ranks - 1), SIGTERM); /* it may have exited */
}

/* The output is no longer read. */
static void close_output(struct run *run, unsigned ranks)
{
    close(run->pipes[OUT]);
    run->pipes[OUT] = -1;
    signal_last(run, ranks);
}

static void stop_first(struct run *run, unsigned ranks)
{
    hit_rank(run, 0, SIGSTOP);
    signal_last(run, ranks);
}

static void stop_first_kill_last(struct run *run, unsigned ranks)
{
    hit_rank(run, 0, SIGSTOP);
    kill_last(run, ranks);
}

/* Bit N - 1 is signal N; all bits if the process has ended. */
static unsigned long signals_of(pid_t pid, const char *what)
{
    char path[40], line[200], form[20];
    unsigned long mask = ~0ul;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    snprintf(form, sizeof(form), "%s: %%lx", what);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, form, &mask) == 1) break;
    if (file != NULL) fclose(file);
    return mask;
}

static bool has_signal(pid_t pid, const char *what, int number)
{
    return (signals_of(pid, what) >> (number - 1) & 1) != 0;
}

static bool is_stopped(pid_t pid)
{
    char path[40], state = 'X';
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) return true; /* the process has ended */
    if (fscanf(file, "%*d %*s %c", &state) != 1) state = 'X';
    fclose(file);
    return state == 'T';
}

/*
 * The last rank has begun to leave, with more to write than a pipe holds, while aqrun reads
 * nothing. Time during which the rank is stopped must not count towards any timeout, nor cause
 * SIGTERM. SIGALRM is sent as often as the rank's timer would expire in such a period, so that the
 * test need not wait for it.
 */
static void stop_rank_that_leaves(struct run *run, unsigned ranks, bool limited)
{
    enum { TICKS = 10000, ROUNDS_OF_LONG = 100 };
    const struct timespec tick = {.tv_nsec = 1000000};
    pid_t last = rank_pid(run, ranks - 1);
    kill(run->pid, SIGSTOP);
    signal_last(run, ranks);
    for (int i = 0; i < TICKS; i++, nanosleep(&tick, NULL))
        if (has_signal(last, "SigIgn", SIGTERM) &&
            (!limited || has_signal(last, "SigCgt", SIGALRM)))
            break;
    kill(last, SIGSTOP);
    for (int i = 0; i < TICKS && !is_stopped(last); i++)
        nanosleep(&tick, NULL);
    for (int i = 0; has_signal(last, "SigCgt", SIGALRM) && i < ROUNDS_OF_LONG; i++)
        kill(last, SIGALRM);
    kill(last, SIGTERM);
    kill(last, SIGCONT);
    kill(run->pid, SIGCONT);
}

/* aq_exit has a limit of its own, hence a timer; a return from main has none. */
static void stop_leaving(struct run *run, unsigned ranks)
{
    stop_rank_that_leaves(run, ranks, true);
}

static void stop_returning(struct run *run, unsigned ranks)
{
    stop_rank_that_leaves(run, ranks, false);
}

static void kill_launcher(struct run *run, unsigned ranks)
{
    (void)ranks;
    kill(run->pid, SIGKILL);
}

static void kill_everything(struct run *run, unsigned ranks)
{
    kill(run->pid, SIGSTOP);
    for (unsigned rank = 0; rank < ranks; rank++)
        hit_rank(run, rank, SIGKILL);
    kill(run->pid, SIGKILL);
}

/* As with Ctrl-C; likewise the others. */
static void interrupt(struct run *run, unsigned ranks)
{
    (void)ranks;
    kill(run->pid, SIGINT);
}

static void terminate(struct run *run, unsigned ranks)
{
    (void)ranks;
    kill(run->pid, SIGTERM);
}

static void quit(struct run *run, unsigned ranks)
{
    (void)ranks;
    kill(run->pid, SIGQUIT);
}

static void interrupt_twice(struct run *run, unsigned ranks)
{
    interrupt(run, ranks);
    run_until(run, ERR, "ending the job", 1);
    interrupt(run, ranks);
}

/* --- the table --------------------------------------------------------------------------- */

#define KILLED  "rank @ (pid "
#define SEGV    "was killed by signal 11 (Segmentation fault); ending the job"
#define KILL    "was killed by signal 9 (Killed); ending the job"
#define BARE    "AQ_FAULT=hide=reserve+put+get+atomic+long+map+alloc"
#define HELPED  "AQ_PROGRESS_THREAD=yes"
#define SURVIVE "AQ_SURVIVE=yes"
#define LATE    .each = " was late\n", .times = 1, .repeats = 3
#ifdef __GLIBC__
#define CODE_0 0
#define SAID_0 "before aq_finalize ends the job"
#define SAID_5 "exit(5) or a return from main before aq_finalize ends the job"
#else /* the library does not get the code, so aqrun decides */
#define CODE_0 1
#define SAID_0 "exited with code 0 before aq_finalize; ending the job"
#define SAID_5 "exited with code 5 before aq_finalize; ending the job"
#endif
#if defined(__SANITIZE_THREAD__)
#define EXITS_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EXITS_THREAD_SANITIZER
#endif
#endif

const struct exit_case exit_cases[] = {
    /* All together. */
    {"finalize", "finalize", .code = 0},
    {"aq_exit7", "nowhere", .code = 7},
    {"aq_exit0", "nowhere", .code = 0},
    {"differ", "nowhere", .code = CODE_OF_FIRST, .verbose = true,
     .said = "ended the job with code"},
    {"return5", "nowhere", .code = 5, .said = SAID_5},
    {"threads", "nowhere", .code = 8, .repeats = 5},
    {"much", "nowhere", .code = 7, .relayed = true, .each = "much  ", .times = 16384},
    {"handlers", "nowhere", .code = 9},
    {"together6", "nowhere", .code = 6, LATE},
    {"threads6", "nowhere", .code = 6, LATE},
    {"together6", "nowhere", "fault", .code = 6, .set = BARE ",again=60,late=5", LATE},
    {"threads6", "nowhere", "fault", .code = 6, .set = BARE ",again=60,late=5", LATE},
    {"relay6", "nowhere", .code = 6, .ranks = 12, LATE},
    {"segv", "nowhere", .code = 139, .said = SEGV, .prints = PRINT_ANY},
    /* One rank, while the others are in a barrier. */
    {"segv", "barrier", .code = 139, .said = SEGV, .prints = PRINT_OTHERS},
    {"kill", "barrier", .code = 137, .said = KILL, .prints = PRINT_OTHERS},
    {"abort", "barrier", .code = 134, .said = "was killed by signal 6 (Aborted); ending the job",
     .prints = PRINT_OTHERS},
    {"int", "barrier", .code = 130, .said = "was killed by signal 2", .prints = PRINT_OTHERS},
    {"terminate", "barrier", .code = 143, .said = "was killed by signal 15",
     .prints = PRINT_OTHERS},
    {"exit3", "barrier", .code = 3, .said = ANYTHING},
    {"quick4", "barrier", .code = 4,
     .said = "exited with code 4 before aq_finalize; ending the job", .prints = PRINT_OTHERS},
    {"aq_exit7", "barrier", .code = 7},
    {"aq_exit0", "barrier", .code = 0},
    {"impatient6", "barrier", .code = 6},
    {"thread", "barrier", .code = 8},
    {"threads", "barrier", .code = 8, .repeats = 5},
    {"handler", "barrier", .code = 9},
    {"own_handler", "barrier", .code = 9},
    {"answer", "barrier", .code = 9},
    {"prepared", "barrier", .code = 9},
    {"return5", "barrier", .code = 5, .said = SAID_5},
    {"atexit", "barrier", .code = 12},
    {"atexit_first", "barrier", .code = 12, .said = ANYTHING},
#ifndef EXITS_THREAD_SANITIZER /* it keeps the alarm from a thread that waits for the lock of a    \
                                  stream */
    {"held7", "barrier", .code = 7, .deaf = true, .prints = PRINT_ANY},
#endif
    {"unknown", "barrier", .code = 1,
     .said = "rank @ sent a message for handler 200, which is not registered"},
    {"refused", "barrier", .code = 1,
     .said = "sent a Short request with 2 arguments to handler 101 (exit) of endpoint 0, which is "
             "registered for Short requests with 1 argument"},
    {"no_endpoint", "barrier", .code = 1,
     .said = "rank @ sent a message to endpoint 3, which does not exist"},
    {"deaf_endpoint", "barrier", .code = 1,
     .said = "rank @ sent a message to endpoint 1, which was created without AQ_EP_AM here"},
    {"closes", "barrier", .code = 1, .said = "the program must not close descriptors"},
    {"replaces", "barrier", .code = 1, .said = "the program must not close descriptors"},
    {"deafens", "barrier", .over = OVER_UDP, .code = 1,
     .said = "cannot be reached: this process can no longer receive anything"},
    /* In other waits of the library. */
    {"segv", "poll", .code = 139, .said = SEGV, .prints = PRINT_OTHERS},
    {"aq_exit7", "poll", .code = 7},
    {"threads", "poll", .code = 8, .repeats = 5},
    {"handler", "poll", .code = 9},
    {"return5", "poll", .code = 5, .said = SAID_5},
    {"return0", "poll", .code = CODE_0, .said = SAID_0},
    {"segv", "collective", .code = 139, .said = SEGV, .prints = PRINT_OTHERS},
    {"aq_exit7", "collective", .code = 7},
    {"segv", "send", .code = 139, .said = SEGV, .prints = PRINT_OTHERS},
    {"aq_exit7", "send", .code = 7},
    {"handler", "send", .code = 9},
    {"return5", "send", .code = 5, .said = SAID_5},
    {"kill", "send", "bare", .code = 137, .said = KILL, .set = BARE, .prints = PRINT_OTHERS},
    {"segv", "get", .code = 139, .said = SEGV, .prints = PRINT_OTHERS},
    {"aq_exit7", "get", .code = 7},
    {"segv", "get", "bare", .code = 139, .said = SEGV, .set = BARE, .prints = PRINT_OTHERS},
    {"unheard7", "first_to_know", .code = 7, .set = "AQ_SHM_MAP=no", .over = OVER_SHM},
    {"impatient6", "get", "bare", .code = 6, .set = BARE},
    {"segv", "finalize", .code = 139, .said = SEGV, .prints = PRINT_OTHERS},
    {"aq_exit7", "finalize", .code = 7},
    {"handler", "finalize", .code = 9},
    {"return5", "finalize", .code = 5, .said = SAID_5},
    /* Where ranks do not notice the end, AQ_EXIT_TIMEOUT applies. */
    {"kill", "spin", .code = 137, .said = KILL, .deaf = true, .prints = PRINT_ANY},
    {"aq_exit7", "spin", .code = 7, .deaf = true, .prints = PRINT_LAST},
    {"return5", "spin", .code = 5, .said = SAID_5, .deaf = true, .prints = PRINT_LAST},
    {"kill", "sleep", .code = 137, .said = KILL, .deaf = true, .prints = PRINT_ANY},
    {"aq_exit7", "sleep", .code = 7, .deaf = true, .prints = PRINT_LAST},
    {"return5", "sleep", .code = 5, .said = SAID_5, .deaf = true, .prints = PRINT_LAST},
    {"aq_exit7", "read", .code = 7, .deaf = true, .prints = PRINT_LAST},
    {"aq_exit7", "handler", .code = 7, .deaf = true, .prints = PRINT_LAST},
    {"aq_exit7", "hang", .code = 7, .deaf = true, .prints = PRINT_LAST},
    /* A progress thread notices the end. */
    {"aq_exit7", "spin", "helped", .code = 7, .set = HELPED},
    {"handler", "spin", "helped", .code = 9, .set = HELPED},
    {"kill", "spin", "helped", .code = 137, .said = KILL, .set = HELPED, .prints = PRINT_OTHERS},
    {"aq_exit7", "sleep", "helped", .code = 7, .set = HELPED},
    {"aq_exit7", "handler", "helped", .code = 7, .set = HELPED},
    /* A handler of SIGQUIT is called first. */
    {"kill", "quit", .code = 137, .said = KILL, .quits = true, .prints = PRINT_OTHERS},
    {"aq_exit7", "quit", .code = 7, .quits = true},
    {"return5", "quit", .code = 5, .said = SAID_5, .quits = true},
    {"handler", "quit", .code = 9, .quits = true},
    {"aq_exit7", "late_attach", .code = 7, .quits = true},
    {"return5", "late_attach", .code = 5, .said = SAID_5, .quits = true},
    {"kill", "late_attach", .code = 137, .said = KILL, .quits = true, .prints = PRINT_OTHERS},
    /* Calls that do not match. */
    {"finalize", "attach", .code = 1, .said = "in aq_segment_attach", .prints = PRINT_ANY},
    {"gone_team", "gone_team", .code = 1, .said = "(job rank @) in aq_team_destroy",
     .set = "AQ_COLL_SCRATCH=0", .ranks = 4, .prints = PRINT_ANY},
    /* The end of a child has no effect; it prints the inherited buffer once more. */
    {"fork", "finalize", .code = 0, .prints = PRINT_OTHERS},
    /* After aq_finalize, and before and in aq_init. */
    {"late_exit5", "finalize", .code = 5},
    {"late_aq_exit5", "finalize", .code = 5},
    {"late_quick4", "finalize", .code = 4, .prints = PRINT_OTHERS},
    {"early_exit3", "init", .code = 3, .said = "exited with code 3; ending the job",
     .prints = PRINT_ANY},
    {"early_quick4", "init", .code = 4, .said = "exited with code 4; ending the job",
     .prints = PRINT_ANY},
    {"early_aq_exit7", "init", .code = 7, .said = "exited with code 7; ending the job",
     .prints = PRINT_ANY},
    {"early_segv", "init", .code = 139, .said = SEGV, .prints = PRINT_ANY},
    {"early_aq_exit7", "absent", .code = 7, .said = "exited with code 7; ending the job",
     .prints = PRINT_ANY},
    {"init_thread7", "absent", .code = 7, .prints = PRINT_ANY},
    {"init_signal7", "absent", .code = 7, .prints = PRINT_ANY},
    {"join_signal7", "absent", .code = 7, .prints = PRINT_ANY},
    /* Signals to ranks. */
    {"wait", "poll", "kill_last", .code = 137, .said = KILLED, .drive = kill_last,
     .prints = PRINT_OTHERS},
    {"wait", "poll", "kill_first", .code = 137, .said = "rank 0 (pid ", .drive = kill_first,
     .prints = PRINT_LAST},
    {"wait", "barrier", "kill_last", .code = 137, .said = KILLED, .drive = kill_last,
     .prints = PRINT_OTHERS},
    {"wait", "barrier", "kill_first", .code = 137, .said = "rank 0 (pid ", .drive = kill_first,
     .prints = PRINT_LAST},
    {"wait", "sleep", "kill_last", .code = 137, .said = KILLED, .drive = kill_last, .deaf = true,
     .prints = PRINT_ANY},
    {"wait", "poll", "terminate", .code = 143, .said = "was killed by signal 15 (Terminated)",
     .drive = terminate_last, .prints = PRINT_OTHERS},
    {"signaled", "poll", "usr1", .code = 11, .said = ANYTHING, .drive = signal_last},
    {"signaled", "barrier", "usr1", .code = 11, .said = ANYTHING, .drive = signal_last},
    {"signaled", "poll", "twice", .code = 11, .said = ANYTHING, .drive = signal_last_twice},
    {"signaled", "poll", "terminate", .code = 11, .said = ANYTHING, .drive = terminate_last},
    {"signaled_much", "poll", "stopped", .code = 11, .said = ANYTHING, .drive = stop_leaving,
     .relayed = true, .ranks = 3, .each = "much  ", .times = 16384},
    {"asked_much", "poll", "stopped", .code = 5, .said = SAID_5, .drive = stop_returning,
     .relayed = true, .ranks = 3, .each = "much  ", .times = 16384},
    {"signaled", "poll", "stopped", .code = 11, .said = ANYTHING, .drive = stop_first, .deaf = true,
     .prints = PRINT_LAST},
    {"wait", "poll", "stopped", .code = 137, .said = KILLED, .drive = stop_first_kill_last,
     .deaf = true, .prints = PRINT_ANY},
    /* Signals to aqrun. */
    {"wait", "poll", "int", .code = 130, .said = "the launcher got signal 2 (", .drive = interrupt},
    {"wait", "poll", "term", .code = 143, .said = "the launcher got signal 15 (",
     .drive = terminate},
    {"wait", "poll", "quit", .code = 131, .said = "the launcher got signal 3 (", .drive = quit},
    {"wait", "hang", "int", .code = 130, .said = "the launcher got signal 2 (", .drive = interrupt,
     .deaf = true, .prints = PRINT_LAST},
    /* A progress thread would end the job before the second signal. */
    {"wait", "hang", "int_twice", .code = 130, .said = "killing at once", .drive = interrupt_twice,
     .set = "AQ_PROGRESS_THREAD=no", .prints = PRINT_ANY},
    {"wait", "poll", "kill_9", .code = 137, .said = ANYTHING, .drive = kill_launcher,
     .killed = true, .prints = PRINT_ANY},
    {"wait", "spin", "kill_9", .code = 137, .said = ANYTHING, .drive = kill_launcher,
     .killed = true, .prints = PRINT_ANY},
    {"wait", "hang", "kill_9", .code = 137, .said = ANYTHING, .drive = kill_launcher,
     .killed = true, .prints = PRINT_ANY},
    {"wait", "poll", "kill_all", .code = 137, .said = ANYTHING, .drive = kill_everything,
     .killed = true, .prints = PRINT_ANY},
    /* Output that cannot be written, and output of the library. */
    {"signaled", "poll", "closed", .code = 11, .said = ANYTHING, .drive = close_output,
     .prints = PRINT_ANY},
    {"aq_exit7", "poll", "full", .code = 7, .said = ANYTHING, .shell = ">/dev/full",
     .prints = PRINT_ANY},
    {"much", "poll", "full", .code = 7, .said = ANYTHING, .shell = ">/dev/full",
     .prints = PRINT_ANY, .direct = true},
    {"aq_exit7", "poll", "no_output", .code = 7, .said = ANYTHING, .shell = ">&-",
     .prints = PRINT_ANY},
    {"aq_exit7", "poll", "stats", .code = 7, .set = "AQ_STATS=yes", .said = "rank @: "},
    {"aq_exit7", "poll", "stats_udp", .over = OVER_UDP, .code = 7, .set = "AQ_STATS=yes",
     .said = "rank @: packets "},
    {"assert", "barrier", "stats", .over = OVER_SHM, .code = 134, .set = "AQ_STATS=yes",
     .said = "rank @: ", .prints = PRINT_OTHERS},
    {"terminate", "barrier", "stats", .code = 143, .set = "AQ_STATS=yes",
     .said = "rank 0: ", .prints = PRINT_OTHERS},
    {"aq_exit7", "poll", "trace", .code = 7, .set = "AQ_TRACE=job", .said = "aq[0."},
    /* A death does not end the job, but aq_exit does. */
    {"kill", "survival", .code = 137, .set = SURVIVE, .said = "the job goes on without it",
     .prints = PRINT_OTHERS},
    {"quick4", "survival", .code = 4, .set = SURVIVE, .said = "the job goes on without it",
     .prints = PRINT_OTHERS},
    {"aq_exit7", "survival", .code = 7, .set = SURVIVE},
    {"kill", "survival_exit7", .code = 137, .set = SURVIVE, .said = "the job ended without rank @",
     .prints = PRINT_OTHERS},
    {"wait", "poll", "survive_int", .code = 130, .set = SURVIVE,
     .said = "the launcher got signal 2 (", .drive = interrupt},
    /* With many more ranks than cores, the last action of each rank is still handled. */
    {"finalize", "finalize", "many", .ranks = 64, .over = OVER_SHM, .limit = 0.1, .code = 0},
    {"kill", "poll", "many", .ranks = 64, .over = OVER_SHM, .code = 137, .said = KILLED,
     .prints = PRINT_ANY},
    {"kill", "barrier", "many", .ranks = 64, .over = OVER_SHM, .code = 137, .said = KILLED,
     .prints = PRINT_ANY},
    {"kill", "sleep", "many", .ranks = 64, .over = OVER_SHM, .code = 137, .said = KILLED,
     .deaf = true, .prints = PRINT_ANY},
    {"kill", "sleep", "many_udp", .ranks = 16, .over = OVER_UDP, .code = 137, .said = KILLED,
     .deaf = true, .prints = PRINT_ANY},
    /* Alone, a rank waits for no other: "barrier" ends at once. */
    {"aq_exit7", "barrier", "alone", .alone = true, .code = 7},
    {"aq_exit0", "barrier", "alone", .alone = true, .code = 0},
    {"exit3", "barrier", "alone", .alone = true, .code = 3},
    {"segv", "barrier", "alone", .alone = true, .code = 139, .prints = PRINT_ANY},
};

const size_t exit_cases_count = sizeof(exit_cases) / sizeof(exit_cases[0]);
