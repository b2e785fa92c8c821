/* Signals through a descriptor, waitpid, and the descendants of ranks. */
#include "base/clock.h"
#include "job.h"
#include "job/desk.h"
#include "session.h"
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REAPER_STRAYS_PAUSE_MS 5 /* if no SIGCHLD arrives */

/* The signals that aqrun handles, with the handler of each. */
static void reaper_reap(int number);
static void reaper_end(int number);
static void reaper_stop(int number);
static void reaper_continue(int number);
static const struct {
    int number;
    void (*handle)(int number);
} reaper_signals[] = {
    {SIGCHLD, reaper_reap},     {SIGINT, reaper_end},  {SIGTERM, reaper_end},
    {SIGHUP, reaper_end},       {SIGQUIT, reaper_end}, {SIGTSTP, reaper_stop},
    {SIGCONT, reaper_continue},
};

/*
 * Signals whose default action would stop or kill aqrun: for a pipe without a reader, for reading
 * in the background, and for a file that is too large.
 */
static const int reaper_ignored[] = {SIGPIPE, SIGTTIN, SIGXFSZ};

static struct {
    struct aqi_source source;
    bool stops;    /* SIGTSTP has arrived */
    sigset_t mask; /* original mask */
    struct sigaction ignored[AQI_COUNT_OF(reaper_ignored)];
    struct sigaction child;
    unsigned long long start; /* start time of aqrun, in clock ticks since boot as in /proc */
    struct bytes named;       /* pids of strays that have been reported */
} reaper;

static void reaper_ready(struct aqi_source *source)
{
    struct signalfd_siginfo info;
    while (read(source->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        for (size_t i = 0; i < AQI_COUNT_OF(reaper_signals); i++)
            if (reaper_signals[i].number == (int)info.ssi_signo)
                reaper_signals[i].handle((int)info.ssi_signo);
}

/* A signal that was ignored when aqrun was started (nohup, a shell's &) stays ignored. */
static bool reaper_wants(int number)
{
    struct sigaction action;
    if (number == SIGCHLD || number == SIGCONT) return true;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN;
}

void reaper_open(void)
{
    sigset_t taken;
    sigemptyset(&taken);
    for (size_t i = 0; i < AQI_COUNT_OF(reaper_signals); i++)
        if (reaper_wants(reaper_signals[i].number)) sigaddset(&taken, reaper_signals[i].number);
    sigprocmask(SIG_BLOCK, &taken, &reaper.mask);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, normal = {.sa_handler = SIG_DFL};
    for (size_t i = 0; i < AQI_COUNT_OF(reaper_ignored); i++)
        sigaction(reaper_ignored[i], &ignore, &reaper.ignored[i]);
    sigaction(SIGCHLD, &normal, &reaper.child); /* the kernel must not reap */
    int fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) die("signalfd: %s", strerror(errno));
    aqi_source_open(&reaper.source, fd, reaper_ready);
    aqi_source_watch(&reaper.source, EPOLLIN);
    struct timespec boot;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    unsigned long long ticks = (unsigned long long)sysconf(_SC_CLK_TCK);
    reaper.start = (unsigned long long)boot.tv_sec * ticks +
                   (unsigned long long)boot.tv_nsec * ticks / 1000000000u;
    /* Processes left behind by ranks become children of aqrun, not of init. */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        say("this system refuses PR_SET_CHILD_SUBREAPER (%s): processes that a rank starts in "
            "another process group or session may outlive the job",
            strerror(errno));
}

void reaper_restore_signals(void)
{
    for (size_t i = 0; i < AQI_COUNT_OF(reaper_ignored); i++)
        sigaction(reaper_ignored[i], &reaper.ignored[i], NULL);
    sigaction(SIGCHLD, &reaper.child, NULL);
    sigprocmask(SIG_SETMASK, &reaper.mask, NULL);
}

static struct rank *reaper_find(pid_t pid)
{
    /* A group stays in the table as long as it has processes, so also check `running`. */
    for (uint32_t i = 0; i < job.spawned; i++)
        if (job.groups[i] == pid && job.ranks[i].running) return &job.ranks[i];
    return NULL;
}

static void reaper_ended(struct rank *rank, int status)
{
    rank->running = false;
    job.running--;
    spawn_read_reports();
    aqi_desk_drain(NULL, rank->number);
    /* The guard needs the group's entry as long as the group has other processes. */
    if (kill(-rank->pid, 0) != 0) job.groups[rank - job.ranks] = 0;
    aqi_hub_ended(job.hub, rank->number, status);
    aqi_desk_leave(rank->number);
}

static void reaper_reap(int number)
{
    (void)number;
    int status;
    pid_t pid;
    aqi_hub_now(job.hub, aqi_now_ns());
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct rank *rank = reaper_find(pid);
        if (rank != NULL)
            reaper_ended(rank, status);
        else if (!guard_reaped(pid))
            (void)sessions_reaped(pid, status);
    }
}

static void reaper_signal_all(int number)
{
    aqi_hub_now(job.hub, aqi_now_ns());
    aqi_hub_pass(job.hub, number);
}

static void reaper_end(int number)
{
    aqi_hub_now(job.hub, aqi_now_ns());
    if (job.agent == 0)
        aqi_hub_signal(job.hub, number);
    else
        aqi_hub_failed(job.hub, AQI_EXIT_SIGNAL + number, "its aqrun got signal %d (%s)", number,
                       strsignal(number));
}

/* Ctrl-Z: stop the ranks first; aqrun stops once other hosts have been notified. */
static void reaper_stop(int number)
{
    (void)number;
    reaper_signal_all(SIGTSTP);
    reaper.stops = true;
}

/* The time for which aqrun is stopped is excluded from all timeouts. */
bool reaper_stopped(void)
{
    if (!reaper.stops) return false;
    reaper.stops = false;
    uint64_t before = aqi_now_ns();
    raise(SIGSTOP);
    uint64_t stopped = aqi_now_ns() - before;
    aqi_hub_stopped(job.hub, stopped);
    reaper_signal_all(SIGCONT);
    return true;
}

static void reaper_continue(int number)
{
    (void)number;
    reaper_signal_all(SIGCONT);
}

bool reaper_read_process(pid_t pid, struct process *process)
{
    char path[40], text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    const char *name_end = strrchr(text, ')'); /* the name may contain any characters */
    return name_end != NULL &&
           sscanf(name_end,
                  ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                  "%*d %*d %llu",
                  &process->state, &process->parent, &process->start) == 3;
}

/*
 * Whether this process is a child of aqrun and started after it. A program that became aqrun by
 * exec may have older children.
 */
static bool reaper_is_stray(pid_t pid)
{
    struct process process;
    return reaper_read_process(pid, &process) && process.parent == getpid() &&
           process.start >= reaper.start;
}

/* Report each stray only once, since strays may take long to end. */
static void reaper_name_stray(pid_t pid)
{
    for (size_t i = 0; i < reaper.named.used; i += sizeof(pid))
        if (memcmp(reaper.named.at + i, &pid, sizeof(pid)) == 0) return;
    bytes_append(&reaper.named, &pid, sizeof(pid), "processes left behind by ranks");
    tell("killing process %d, which a rank left behind", (int)pid);
}

/* Kill all strays; returns their number. */
static size_t reaper_kill_once(void)
{
    size_t count = 0;
    DIR *proc = opendir("/proc");
    if (proc == NULL) return 0;
    struct dirent *entry;
    while ((entry = readdir(proc)) != NULL) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (pid <= 0 || !reaper_is_stray(pid) || sessions_have(pid)) continue;
        reaper_name_stray(pid);
        kill(pid, SIGKILL);
        count++;
    }
    closedir(proc);
    return count;
}

void reaper_kill_strays(void)
{
    uint64_t limit = aqi_now_ns() + job.exit_timeout_ns;
    /* The children of killed strays become children of aqrun in turn. */
    for (;;) {
        reaper_reap(SIGCHLD);
        if (reaper_kill_once() == 0 || aqi_now_ns() > limit) return;
        struct pollfd state = {.fd = reaper.source.fd, .events = POLLIN};
        poll(&state, 1, REAPER_STRAYS_PAUSE_MS);
    }
}
