/* Forks the ranks, a few at a time so that aqrun stays responsive, and execs the program. */
#include "files.h"
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPAWN_BATCH 16

/* A report from a child, small enough for an atomic write. */
struct spawn_report {
    uint32_t rank;
    int32_t err;
    uint32_t unbound; /* sched_setaffinity failed, not exec */
};

static struct {
    struct aqi_source reports; /* read end; exec closes the write end */
    int report_to;
    int null;
    int input; /* standard input of rank 0 */
    int epoll; /* its number becomes AQ_BOOT_FD in the children */
} spawn;

static void spawn_reports_ready(struct aqi_source *source)
{
    (void)source;
    spawn_read_reports();
}

void spawn_open(int epoll)
{
    int ends[2];
    spawn.epoll = epoll;
    spawn.null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (spawn.null < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        die("cannot open /dev/null or create a pipe: %s", strerror(errno));
    spawn.report_to = ends[1];
    aqi_source_open(&spawn.reports, ends[0], spawn_reports_ready);
    aqi_source_watch(&spawn.reports, EPOLLIN);
    if (job.first == 0 && job.count != 0)
        spawn.input = input_open();
    else if (job.agent == 0)
        input_open_remote();
}

static const char *spawn_hint(int err)
{
    const char *program = job.options.command[0];
    struct stat is;
    if (err == ENOENT && strchr(program, '/') == NULL)
        return access(program, X_OK) == 0 ? "; it is in this directory: put ./ before it"
                                          : "; it was not found in PATH";
    if (err == ENOENT && access(program, F_OK) == 0)
        return "; it exists, but its interpreter does not";
    if (err == EACCES && stat(program, &is) == 0 && S_ISDIR(is.st_mode))
        return "; it is a directory";
    if (err == EACCES && access(program, F_OK) == 0)
        return "; if it is a program, chmod +x makes it executable, unless its file system is "
               "mounted noexec";
    return err == ENOEXEC ? "; is it for another machine architecture?" : "";
}

void spawn_read_reports(void)
{
    struct spawn_report report;
    while (spawn.reports.fd >= 0) {
        ssize_t got = read(spawn.reports.fd, &report, sizeof(report));
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) aqi_source_close(&spawn.reports);
        if (got != (ssize_t)sizeof(report)) return;
        if (aqi_hub_ending(job.hub)) continue; /* all ranks fail for the same reason */
        char where[BIND_TEXT_BYTES];
        if (report.unbound) {
            aqi_hub_failed(
                job.hub, AQI_EXIT_FAILED,
                "cannot bind rank %u%s: sched_setaffinity: %s; start the job without --bind",
                report.rank, bind_text(report.rank - job.first, where), strerror(report.err));
            continue;
        }
        aqi_hub_failed(job.hub, report.err == ENOENT ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN,
                       "cannot run %s: %s%s", job.options.command[0], strerror(report.err),
                       spawn_hint(report.err));
    }
}

static void spawn_number(const char *name, uint32_t value, spawn_set_fn *set)
{
    char text[16];
    snprintf(text, sizeof(text), "%u", value);
    set(name, text);
}

void spawn_place(uint32_t rank, uint32_t ranks, uint32_t local, uint32_t locals, spawn_set_fn *set)
{
    spawn_number("AQ_RANK", rank, set);
    spawn_number("AQ_SIZE", ranks, set);
    spawn_number("AQ_LOCAL_RANK", local, set);
    spawn_number("AQ_LOCAL_SIZE", locals, set);
}

/* Set the variables that identify a rank, by calling `set` for each. */
static void spawn_environment(uint32_t rank, spawn_set_fn *set)
{
    spawn_place(rank, job.size, rank - job.first, job.count, set);
    if (job.bind) spawn_number("AQ_LOCAL_CORES", bind_processors(), set);
    set("AQ_JOB_ID", job.id);
    spawn_number("AQ_BOOT_FD", (uint32_t)spawn.epoll, set);
}

static void spawn_set(const char *name, const char *value)
{
    if (setenv(name, value, 1) != 0) _exit(EXIT_CANNOT_RUN);
}

/*
 * Identify the file of standard error: while a rank has the same one, aqrun may print the library's
 * warnings for it.
 */
static void spawn_identify_stderr(void)
{
    char text[48];
    struct stat is;
    unsetenv("AQ_STDERR"); /* set if a rank of another job runs aqrun */
    if (job.options.output != NULL || job.options.prefix || fstat(STDERR_FILENO, &is) != 0) return;
    snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long)is.st_dev,
             (unsigned long long)is.st_ino);
    spawn_set("AQ_STDERR", text);
}

struct spawn_files {
    int place;
    int standard[3];
};

/* In the child: set up its environment and exec the program. */
static _Noreturn void spawn_exec(const struct rank *rank, const struct spawn_files *files,
                                 pid_t launcher)
{
    setpgid(0, 0);
    /* For the guard: aqrun may be killed before it records the group itself. */
    job.groups[rank - job.ranks] = getpid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(AQI_EXIT_FAILED); /* the launcher died before prctl */
    reaper_restore_signals();
    limits_restore();
    spawn_environment(rank->number, spawn_set);
    for (int i = 0; i < 3; i++)
        if (files->standard[i] != i) dup2(files->standard[i], i);
    spawn_identify_stderr();
    /* The epoll set is not needed here, so its number is free. It is the same in all ranks. */
    dup2(files->place, spawn.epoll);
    bool bound = bind_rank(rank->number - job.first);
    if (bound) execvp(job.options.command[0], job.options.command);
    struct spawn_report report = {.rank = rank->number, .err = errno, .unbound = !bound};
    bool missing = errno == ENOENT;
    ssize_t written = write(spawn.report_to, &report, sizeof(report));
    _exit(missing && written > 0 ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN);
}

static void spawn_fork_failed(const struct rank *rank, int err)
{
    aqi_hub_failed(
        job.hub, AQI_EXIT_FAILED, "cannot start rank %u: fork: %s%s", rank->number, strerror(err),
        err == EAGAIN ? " (raise the limit on processes: ulimit -u, or pids.max of the cgroup)"
                      : "");
}

static void spawn_open_relays(struct rank *rank, struct spawn_files *files)
{
    struct output *to = job.agent == 0 ? job.output : job.forwarded;
    const char *pattern = job.options.output;
    bool one = pattern != NULL && files_are_same(pattern); /* one relay keeps the order of both */
    for (unsigned i = 0; i < 2; i++) {
        if (i == 1 && one)
            files->standard[2] = fcntl(files->standard[1], F_DUPFD_CLOEXEC, 3);
        else
            files->standard[i + 1] =
                relay_open(&rank->relay[i], rank->number, i, pattern != NULL ? NULL : &to[i]);
    }
    if (files->standard[2] < 0)
        die("cannot create a descriptor for the output of rank %u: %s", rank->number,
            strerror(errno));
}

/*
 * Set the destination of the rank's output, unless it is aqrun's own. Files are written by the
 * root, on its host, since few programs check whether their output was written. FIFOs and devices
 * of this host are opened for the rank itself, since they might block aqrun.
 */
static bool spawn_open_output(struct rank *rank, struct spawn_files *files)
{
    char why[FILES_WHY];
    bool to_file = job.options.output != NULL;
    if (to_file && job.agent == 0) {
        if (!files_open(job.options.output, rank->number, job.id, files->standard + 1, why)) {
            close(files->place);
            aqi_desk_leave(rank->number);
            aqi_hub_failed(job.hub, AQI_EXIT_FAILED, "%s", why);
            return false;
        }
        if (!files_are_regular(files->standard + 1)) return true;
        close(files->standard[1]);
        close(files->standard[2]);
    }
    if (to_file || job.options.prefix || job.agents > 1) spawn_open_relays(rank, files);
    return true;
}

static void spawn_rank(struct rank *rank)
{
    struct spawn_files files = {
        .place = aqi_desk_place(rank->number),
        .standard = {rank->number == 0 ? spawn.input : spawn.null, STDOUT_FILENO, STDERR_FILENO}};
    if (files.place < 0)
        die("cannot create a socket pair for rank %u: %s", rank->number, strerror(errno));
    if (!spawn_open_output(rank, &files)) return;
    pid_t launcher = getpid();
    pid_t pid = fork();
    int err = errno;
    if (pid == 0) spawn_exec(rank, &files, launcher);
    for (int i = 1; i < 3; i++)
        if (files.standard[i] != i) close(files.standard[i]);
    close(files.place);
    if (pid < 0) {
        aqi_desk_leave(rank->number);
        spawn_fork_failed(rank, err);
        return;
    }
    if (rank->number == 0) input_handed_over();
    setpgid(pid, pid); /* as in the child, whichever is first: the group may be killed now */
    rank->pid = pid;
    rank->running = true;
    job.groups[rank - job.ranks] = pid;
    job.spawned++;
    job.running++;
    aqi_desk_forked(rank->number, pid);
    aqi_hub_started(job.hub, rank->number, (int)pid);
    char where[BIND_TEXT_BYTES];
    tell("rank %u is process %d%s", rank->number, (int)pid,
         bind_text(rank->number - job.first, where));
}

bool spawn_some(void)
{
    for (int i = 0; i < SPAWN_BATCH; i++) {
        if (job.spawned == job.count || job.refused || aqi_hub_ending(job.hub)) {
            if (spawn.report_to >= 0) close(spawn.report_to);
            spawn.report_to = -1;
            return false;
        }
        spawn_rank(&job.ranks[job.spawned]);
    }
    return true;
}

void spawn_print(int epoll)
{
    spawn.epoll = epoll;
    for (uint32_t i = 0; i < job.size; i++) {
        spawn_environment(i, print_variable);
        print_words(job.options.command);
        putchar('\n');
    }
}
