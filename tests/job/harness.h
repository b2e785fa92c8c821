/*
 * Runs jobs and examines them from outside: exit code, output, duration, and what is left behind.
 */
#ifndef JOB_HARNESS_H
#define JOB_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <cmocka.h>

struct run {
    pid_t pid;
    int pidfd;
    int pipes[2]; /* its standard output and error */
    char *text[2];
    size_t used[2];
    int code; /* exit code, or 128 plus the signal */
    double began;
    double seconds;
    char mark[64]; /* in the environment of all its processes */
};

/* Factor for all timeouts of the harness and of the jobs, for busy machines. */
extern unsigned run_timeout_factor;

#define OUT          0
#define ERR          1
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Start a program (searched in PATH) with the arguments that follow, up to NULL. */
void run_start(struct run *run, const char *program, ...) __attribute__((sentinel));

/* Start aqrun with these arguments. */
#define job_start(run, ...) run_start((run), JOB_AQRUN, __VA_ARGS__, NULL)

/* Read until `text` has appeared `count` times on one of the streams. */
void run_until(struct run *run, int stream, const char *text, unsigned count);

/*
 * Wait for the end and check that nothing is left: no process (if `aqrun` was killed, processes get
 * a few seconds to end, otherwise they must be gone), no name in /dev/shm.
 */
void run_wait(struct run *run);
void run_wait_killed(struct run *run);

/* The processes of the run that exist now, including aqrun. Returns their number. */
size_t run_processes(const struct run *run, pid_t *pids, size_t most);
/* The name as the kernel shows it, with a newline. */
bool process_is_named(pid_t pid, const char *wanted);

/* Check that no socket of the library is left without a process that holds it. */
void expect_no_socket(const struct run *run);

/* Start and wait. */
#define job_run(run, ...)                                                                          \
    do {                                                                                           \
        job_start(run, __VA_ARGS__);                                                               \
        run_wait(run);                                                                             \
    } while (0)

void run_free(struct run *run);

/* Compare results with those expected; on a mismatch print the output and fail. */
void expect_code(const struct run *run, int code);
void expect_text(const struct run *run, int stream, const char *text);
void expect_no_text(const struct run *run, int stream, const char *text);
/* How many times `text` occurs in the output. */
unsigned count_text(const struct run *run, int stream, const char *text);
void expect_count(const struct run *run, int stream, const char *text, unsigned count);
/* Whether it ended soon enough needs no check: see TIMEOUT_MS. */
void expect_no_sooner(const struct run *run, double seconds);

/* The pid in "rank N (pid P, …)" or "rank N is process P" on standard error, or 0. */
pid_t rank_pid(const struct run *run, unsigned rank);

#endif
