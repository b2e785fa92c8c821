/*
 * The guard: a small process that kills what is left of the ranks when aqrun itself is killed. It
 * waits for that on a pipe.
 *
 * The kernel kills the processes that aqrun forked (PR_SET_PDEATHSIG), but not what those started,
 * as a shell does; those are in the same process groups, and these the guard knows.
 */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t guard_pid;
static int guard_pipe = -1; /* aqrun's end; its closing wakes the guard */

/* The guard keeps nothing open that somebody may wait for the end of, such as `aqrun … | cat`. */
static _Noreturn void guard_watch(int pipe_end, const volatile pid_t *groups, uint32_t count)
{
    setsid(); /* Ctrl-C and the end of the terminal are not for it */
    prctl(PR_SET_NAME, "aq-guard");
    dup2(pipe_end, 0);
    syscall(SYS_close_range, 1, ~0u, 0);
    char byte;
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        continue;
    for (uint32_t i = 0; i < count; i++)
        if (groups[i] > 0) kill(-groups[i], SIGKILL);
    _exit(0);
}

pid_t *guard_open(uint32_t count)
{
    pid_t *groups = mmap(NULL, count * sizeof(pid_t), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[2];
    if (groups == MAP_FAILED || pipe2(ends, O_CLOEXEC) != 0)
        die("memory or pipe for the guard: %s", strerror(errno));
    guard_pid = fork();
    if (guard_pid < 0) die("fork of the guard: %s", strerror(errno));
    if (guard_pid == 0) {
        close(ends[1]);
        guard_watch(ends[0], groups, count);
    }
    close(ends[0]);
    guard_pipe = ends[1];
    return groups;
}

void guard_close(void)
{
    close(guard_pipe);
    while (waitpid(guard_pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}
