/*
 * The guard: a small process that waits on a pipe, and kills the remaining processes of the ranks
 * if aqrun itself is killed.
 *
 * The kernel kills the processes that aqrun forked (PR_SET_PDEATHSIG), but not their children, for
 * example those of a shell. Children are in the same process groups, which the guard knows.
 * If the guard is killed, aqrun starts another one.
 */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t guard_pid;     /* 0: no guard */
static int guard_pipe = -1; /* write end of aqrun; closing it wakes the guard */
static pid_t *guard_groups;
static uint32_t guard_count;

/* Close all descriptors: others may wait for their end of file, as in `aqrun … | cat`. */
static _Noreturn void guard_watch(int pipe_end)
{
    setsid(); /* unaffected by Ctrl-C and by the end of the terminal */
    prctl(PR_SET_NAME, "aq-guard");
    dup2(pipe_end, 0);
    syscall(SYS_close_range, 1, ~0u, 0);
    char byte;
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        continue;
    const volatile pid_t *groups = guard_groups;
    for (uint32_t i = 0; i < guard_count; i++)
        if (groups[i] > 0) kill(-groups[i], SIGKILL);
    _exit(0);
}

/* Returns false with errno on failure. */
static bool guard_start(void)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    guard_pid = fork();
    if (guard_pid == 0) {
        close(ends[1]);
        guard_watch(ends[0]);
    }
    close(ends[0]);
    guard_pipe = ends[1];
    return guard_pid > 0;
}

pid_t *guard_open(uint32_t count)
{
    guard_count = count;
    guard_groups = mmap(NULL, count * sizeof(pid_t), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (guard_groups == MAP_FAILED || !guard_start())
        die("cannot start the guard process: %s", strerror(errno));
    return guard_groups;
}

bool guard_reaped(pid_t pid)
{
    if (pid != guard_pid) return false;
    guard_pid = 0;
    if (guard_pipe < 0) return true; /* aqrun ends normally */
    close(guard_pipe);
    if (!guard_start())
        say("the guard was killed, and another cannot be started (%s): if aqrun is killed too, "
            "processes started by ranks may be left behind",
            strerror(errno));
    return true;
}

void guard_close(void)
{
    close(guard_pipe);
    guard_pipe = -1;
    while (guard_pid > 0 && waitpid(guard_pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}
