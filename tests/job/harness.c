/* Runs jobs and examines them from outside. */
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MARK "JOB_TEST_MARK"
/*
 * A hanging job is detected before the timeout of ctest expires, and before any timeout of aqrun:
 * AQ_START_TIMEOUT, and the quarter of AQ_EXIT_TIMEOUT after which it sends signals. So a job that
 * ends has ended as it should and not by a timeout, however slow the machine. Where signals are
 * needed, the test sets AQ_EXIT_TIMEOUT.
 */
#define TIMEOUT_MS     (40000 * (int)run_timeout_factor)
#define EXIT_TIMEOUT_S (200 * run_timeout_factor)

unsigned run_timeout_factor = 1;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* On a busy machine, jobs may take as long as the harness waits, so aqrun must wait longer. */
static void set_timeouts(void)
{
    char text[32];
    snprintf(text, sizeof(text), "%us", EXIT_TIMEOUT_S);
    setenv("AQ_EXIT_TIMEOUT", text, 1);
    snprintf(text, sizeof(text), "%us", 60 * run_timeout_factor);
    if (run_timeout_factor > 1) setenv("AQ_START_TIMEOUT", text, 1);
}

static void become(char **argv, const int *ends, const char *mark, pid_t parent)
{
    /* A failed check must not leave a job behind: aqrun dies with us, and its job with aqrun. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(99);
    setenv(MARK, mark, 1);
    set_timeouts();
    dup2(ends[0], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    syscall(SYS_close_range, 3, ~0u, 0); /* descriptors that ctest and shells leave open */
    execvp(argv[0], argv);
    _exit(99);
}

void run_start(struct run *run, const char *program, ...)
{
    static unsigned number;
    const char *argv[64] = {program};
    va_list args;
    va_start(args, program);
    size_t count = 1;
    while (count < 63 && (argv[count] = va_arg(args, const char *)) != NULL)
        count++;
    va_end(args);

    *run = (struct run){.began = now()};
    snprintf(run->mark, sizeof(run->mark), "%d.%u", (int)getpid(), ++number);
    int out[2], err[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    pid_t parent = getpid();
    run->pid = fork();
    assert_true(run->pid >= 0);
    if (run->pid == 0) become((char **)argv, (int[]){out[1], err[1]}, run->mark, parent);
    close(out[1]);
    close(err[1]);
    run->pipes[OUT] = out[0];
    run->pipes[ERR] = err[0];
    run->pidfd = (int)syscall(SYS_pidfd_open, run->pid, 0);
    assert_true(run->pidfd >= 0);
    for (int i = 0; i < 2; i++)
        run->text[i] = calloc(1, 1);
}

static void show(const struct run *run)
{
    print_message(
        "exit code %d after %.2f s; standard output:\n%.4000s\nstandard error:\n%.4000s\n",
        run->code, run->seconds, run->text[OUT], run->text[ERR]);
}

/* If a process is runnable (R), the job is merely late; if all sleep (S), something hangs. */
static void show_processes(const struct run *run)
{
    pid_t pids[64];
    size_t count = run_processes(run, pids, 64);
    for (size_t i = 0; i < count; i++) {
        char path[40], line[300] = "";
        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pids[i]);
        FILE *file = fopen(path, "r");
        if (file == NULL) continue;
        if (fgets(line, sizeof(line), file) != NULL) print_message("process %.60s\n", line);
        fclose(file);
    }
}

/* Read what is available; at the end of a stream its descriptor becomes -1. */
static void take(struct run *run, int stream)
{
    char chunk[65536];
    ssize_t got = read(run->pipes[stream], chunk, sizeof(chunk));
    if (got <= 0) {
        close(run->pipes[stream]);
        run->pipes[stream] = -1;
        return;
    }
    run->text[stream] = realloc(run->text[stream], run->used[stream] + (size_t)got + 1);
    memcpy(run->text[stream] + run->used[stream], chunk, (size_t)got);
    run->used[stream] += (size_t)got;
    run->text[stream][run->used[stream]] = '\0';
}

/* Wait for output or for the end of the process. Returns false once the process has ended. */
static bool attend(struct run *run)
{
    struct pollfd states[] = {{.fd = run->pipes[OUT], .events = POLLIN},
                              {.fd = run->pipes[ERR], .events = POLLIN},
                              {.fd = run->pidfd, .events = POLLIN}};
    if (poll(states, 3, TIMEOUT_MS) <= 0) {
        show(run);
        show_processes(run);
        fail_msg("timed out: nothing more happens");
    }
    for (int i = 0; i < 2; i++)
        if (states[i].revents != 0) take(run, i);
    return states[2].revents == 0;
}

void run_until(struct run *run, int stream, const char *text, unsigned count)
{
    while (count_text(run, stream, text) < count)
        if (!attend(run) && run->pipes[stream] < 0) {
            show(run);
            fail_msg("it ended before it printed \"%s\" %u times", text, count);
        }
}

static bool bears_mark(const char *pid, const char *mark)
{
    char path[300], environment[65536], wanted[96];
    snprintf(path, sizeof(path), "/proc/%s/environ", pid);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return false;
    ssize_t len = read(fd, environment, sizeof(environment));
    close(fd);
    if (len <= 0) return false;
    int wanted_len = snprintf(wanted, sizeof(wanted), MARK "=%s", mark) + 1;
    return memmem(environment, (size_t)len, wanted, (size_t)wanted_len) != NULL;
}

size_t run_processes(const struct run *run, pid_t *pids, size_t most)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    size_t count = 0;
    while (count < most && (entry = readdir(proc)) != NULL) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
        if (bears_mark(entry->d_name, run->mark)) pids[count++] = (pid_t)atoi(entry->d_name);
    }
    closedir(proc);
    return count;
}

bool process_is_named(pid_t pid, const char *wanted)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return false;
    bool found = read(fd, name, sizeof(name) - 1) > 0 && strcmp(name, wanted) == 0;
    close(fd);
    return found;
}

/* A process of the run that still exists, as a pidfd; -1 if there is none. */
static int survivor(const struct run *run, char *name, size_t room)
{
    pid_t pid;
    if (run_processes(run, &pid, 1) == 0) return -1;
    snprintf(name, room, "%d", (int)pid);
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static void expect_no_process(const struct run *run, int timeout_ms)
{
    double limit = now() + timeout_ms / 1e3;
    char name[300] = "";
    int pidfd;
    while ((pidfd = survivor(run, name, sizeof(name))) >= 0) {
        double left = limit - now();
        struct pollfd state = {.fd = pidfd, .events = POLLIN};
        int ended = left > 0 ? poll(&state, 1, (int)(left * 1000)) : 0;
        close(pidfd);
        if (ended == 1) continue;
        show(run);
        fail_msg("process %s has survived the job", name);
    }
}

static void expect_no_file(const struct run *run)
{
    DIR *shm = opendir("/dev/shm");
    struct dirent *entry;
    while (shm != NULL && (entry = readdir(shm)) != NULL)
        if (strncmp(entry->d_name, "aq", 2) == 0) {
            show(run);
            fail_msg("/dev/shm/%s was left behind", entry->d_name);
        }
    if (shm != NULL) closedir(shm);
}

/* Whether any process has a descriptor of the socket with this inode. */
static bool socket_is_held(const char *inode)
{
    char wanted[64], path[600], link[64];
    snprintf(wanted, sizeof(wanted), "socket:[%s]", inode);
    bool held = false;
    DIR *proc = opendir("/proc");
    struct dirent *process, *fd;
    while (!held && proc != NULL && (process = readdir(proc)) != NULL) {
        if (process->d_name[0] < '1' || process->d_name[0] > '9') continue;
        snprintf(path, sizeof(path), "/proc/%s/fd", process->d_name);
        DIR *fds = opendir(path);
        while (fds != NULL && !held && (fd = readdir(fds)) != NULL) {
            snprintf(path, sizeof(path), "/proc/%s/fd/%s", process->d_name, fd->d_name);
            ssize_t len = readlink(path, link, sizeof(link) - 1);
            if (len > 0) link[len] = '\0';
            held = len > 0 && strcmp(link, wanted) == 0;
        }
        if (fds != NULL) closedir(fds);
    }
    if (proc != NULL) closedir(proc);
    return held;
}

/*
 * Find a socket of the library that no process holds: sockets in flight can outlive their process.
 */
static bool find_socket(char *name)
{
    bool found = false;
    FILE *table = fopen("/proc/net/unix", "r");
    char line[400], inode[32];
    while (!found && table != NULL && fgets(line, sizeof(line), table) != NULL)
        found = sscanf(line, "%*s %*s %*s %*s %*s %*s %31s %199s", inode, name) == 2 &&
                strncmp(name, "@aq", 3) == 0 && !socket_is_held(inode);
    if (table != NULL) fclose(table);
    return found;
}

void expect_no_socket(const struct run *run)
{
    double limit = now() + TIMEOUT_MS / 1e3;
    char name[200];
    while (find_socket(name)) {
        struct timespec tick = {.tv_nsec = 20000000};
        if (now() < limit) {
            nanosleep(&tick, NULL);
            continue;
        }
        show(run);
        fail_msg("socket %s was left behind", name);
    }
}

static void collect(struct run *run)
{
    int status;
    while (attend(run))
        continue;
    run->seconds = now() - run->began;
    assert_int_equal(waitpid(run->pid, &status, 0), run->pid);
    run->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    close(run->pidfd);
}

/*
 * Once all processes have ended, the streams end, too, unless a process without the mark holds
 * them.
 */
static void drain(struct run *run)
{
    for (int i = 0; i < 2; i++)
        while (run->pipes[i] >= 0) {
            struct pollfd state = {.fd = run->pipes[i], .events = POLLIN};
            if (poll(&state, 1, TIMEOUT_MS) <= 0) {
                show(run);
                fail_msg("an unknown process holds the output of the job");
            }
            take(run, i);
        }
}

void run_wait(struct run *run)
{
    collect(run);
    expect_no_process(run, 0);
    drain(run);
    expect_no_file(run);
}

void run_wait_killed(struct run *run)
{
    collect(run);
    expect_no_process(run, TIMEOUT_MS);
    drain(run);
    expect_no_file(run);
}

void run_free(struct run *run)
{
    free(run->text[OUT]);
    free(run->text[ERR]);
}

void expect_code(const struct run *run, int code)
{
    if (run->code == code) return;
    show(run);
    fail_msg("the exit code is %d, not %d", run->code, code);
}

void expect_text(const struct run *run, int stream, const char *text)
{
    if (strstr(run->text[stream], text) != NULL) return;
    show(run);
    fail_msg("\"%s\" was not printed", text);
}

void expect_no_text(const struct run *run, int stream, const char *text)
{
    if (strstr(run->text[stream], text) == NULL) return;
    show(run);
    fail_msg("\"%s\" was printed", text);
}

unsigned count_text(const struct run *run, int stream, const char *text)
{
    unsigned count = 0;
    for (const char *at = run->text[stream]; (at = strstr(at, text)) != NULL; at += strlen(text))
        count++;
    return count;
}

void expect_count(const struct run *run, int stream, const char *text, unsigned count)
{
    unsigned found = count_text(run, stream, text);
    if (found == count) return;
    show(run);
    fail_msg("\"%s\" was printed %u times, not %u times", text, found, count);
}

void expect_no_sooner(const struct run *run, double seconds)
{
    if (run->seconds >= seconds) return;
    show(run);
    fail_msg("it took %.2f s, less than %.2f", run->seconds, seconds);
}

pid_t rank_pid(const struct run *run, unsigned rank)
{
    static const char *const forms[] = {"rank %u (pid ", "rank %u is process "};
    for (size_t i = 0; i < 2; i++) {
        char start[40];
        snprintf(start, sizeof(start), forms[i], rank);
        const char *at = strstr(run->text[ERR], start);
        if (at != NULL) return atoi(at + strlen(start));
    }
    return 0;
}
