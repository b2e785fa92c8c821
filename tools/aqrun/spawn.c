/* Fork and exec of the ranks, a few at a time so that aqrun stays attentive meanwhile. */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SPAWN_BATCH 16

/* How a child says what failed; small enough to be written in one piece. */
struct spawn_report {
    uint32_t rank;
    int32_t err;
    uint32_t unbound; /* sched_setaffinity did, not exec */
};

static struct {
    struct source reports; /* read end; the write end closes by itself at each exec */
    int report_to;
    int null;
    int input; /* standard input of rank 0 */
    int epoll; /* its number becomes AQ_BOOT_FD in the children */
} spawn;

static void spawn_reports_ready(struct source *source)
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
        die("/dev/null or pipe: %s", strerror(errno));
    spawn.report_to = ends[1];
    source_open(&spawn.reports, ends[0], spawn_reports_ready);
    source_watch(&spawn.reports, EPOLLIN);
    spawn.input = input_open();
}

static const char *spawn_hint(int err, char *text, size_t room)
{
    const char *program = job.options.command[0];
    text[0] = '\0';
    if (err == ENOENT && strchr(program, '/') == NULL)
        snprintf(text, room, "%s",
                 access(program, X_OK) == 0 ? "; it is in this folder: write ./ before it"
                                            : "; it is in no folder of PATH");
    else if (err == ENOENT && access(program, F_OK) == 0)
        snprintf(text, room, "; it is there, but its interpreter is not");
    else if (err == ENOEXEC)
        snprintf(text, room, "; is it for another kind of machine?");
    return text;
}

void spawn_read_reports(void)
{
    struct spawn_report report;
    while (spawn.reports.fd >= 0) {
        ssize_t got = read(spawn.reports.fd, &report, sizeof(report));
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) source_close(&spawn.reports);
        if (got != (ssize_t)sizeof(report)) return;
        if (job.end.ending) continue; /* all fail for the same reason */
        char hint[80], where[BIND_TEXT_BYTES];
        if (report.unbound) {
            end_job(EXIT_FAILED, NULL,
                    "cannot bind rank %u%s: sched_setaffinity: %s; start without "
                    "--bind",
                    report.rank, bind_text(report.rank, where), strerror(report.err));
            continue;
        }
        spawn_hint(report.err, hint, sizeof(hint));
        end_job(report.err == ENOENT ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN, NULL,
                "cannot run %s: %s%s", job.options.command[0], strerror(report.err), hint);
    }
}

/* The variables that say who a rank is; `set` is called for each. */
static void spawn_environment(uint32_t rank, void (*set)(const char *name, const char *value))
{
    char number[16], size[16], place[16], cores[16];
    snprintf(number, sizeof(number), "%u", rank);
    snprintf(size, sizeof(size), "%u", job.size);
    snprintf(place, sizeof(place), "%d", spawn.epoll);
    set("AQ_RANK", number);
    set("AQ_SIZE", size);
    set("AQ_LOCAL_RANK", number);
    set("AQ_LOCAL_SIZE", size);
    if (job.bind) {
        snprintf(cores, sizeof(cores), "%u", bind_processors());
        set("AQ_LOCAL_CORES", cores);
    }
    set("AQ_JOB_ID", job.id);
    set("AQ_BOOT_FD", place);
}

static void spawn_set(const char *name, const char *value)
{
    if (setenv(name, value, 1) != 0) _exit(EXIT_CANNOT_RUN);
}

struct spawn_files {
    int place;
    int standard[3];
};

/* In the child: become the program. */
static _Noreturn void spawn_exec(const struct rank *rank, const struct spawn_files *files,
                                 pid_t launcher)
{
    setpgid(0, 0);
    /* For the guard: aqrun may be killed before it comes to write this down. */
    job.groups[rank->number] = getpid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(EXIT_FAILED); /* it died before the line above */
    reaper_restore_signals();
    limits_restore();
    spawn_environment(rank->number, spawn_set);
    for (int i = 0; i < 3; i++)
        if (files->standard[i] != i) dup2(files->standard[i], i);
    /* The epoll set is of no use here, so its number, the same in all ranks, is free. */
    dup2(files->place, spawn.epoll);
    bool bound = bind_rank(rank->number);
    if (bound) execvp(job.options.command[0], job.options.command);
    struct spawn_report report = {.rank = rank->number, .err = errno, .unbound = !bound};
    bool missing = errno == ENOENT;
    ssize_t written = write(spawn.report_to, &report, sizeof(report));
    _exit(missing && written > 0 ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN);
}

static void spawn_fork_failed(const struct rank *rank, int err)
{
    end_job(EXIT_FAILED, NULL, "cannot start rank %u: fork: %s%s", rank->number, strerror(err),
            err == EAGAIN ? " (raise the limit of processes: ulimit -u, or pids.max of the cgroup)"
                          : "");
}

static void spawn_rank(struct rank *rank)
{
    struct spawn_files files = {
        .place = hub_place(rank),
        .standard = {rank->number == 0 ? spawn.input : spawn.null, STDOUT_FILENO, STDERR_FILENO}};
    for (int i = 0; job.options.prefix && i < 2; i++)
        files.standard[i + 1] = relay_open(&rank->relay[i], rank->number, &job.output[i]);
    pid_t launcher = getpid();
    pid_t pid = fork();
    int err = errno;
    if (pid == 0) spawn_exec(rank, &files, launcher);
    for (int i = 0; job.options.prefix && i < 2; i++)
        close(files.standard[i + 1]);
    close(files.place);
    if (pid < 0) {
        hub_close(rank);
        spawn_fork_failed(rank, err);
        return;
    }
    if (rank->number == 0) input_handed_over();
    setpgid(pid, pid); /* also here: whoever comes first; we may kill the group at once */
    rank->pid = pid;
    rank->state = RANK_STARTED;
    rank->running = true;
    job.groups[rank->number] = pid;
    job.spawned++;
    job.running++;
    char where[BIND_TEXT_BYTES];
    tell("rank %u is process %d%s", rank->number, (int)pid, bind_text(rank->number, where));
}

bool spawn_some(void)
{
    for (int i = 0; i < SPAWN_BATCH; i++) {
        if (job.spawned == job.size || job.end.ending) {
            if (spawn.report_to >= 0) close(spawn.report_to);
            spawn.report_to = -1;
            return false;
        }
        spawn_rank(&job.ranks[job.spawned]);
    }
    return true;
}

/* Quoted so that a shell reads it back. */
static void spawn_print_word(const char *word)
{
    if (word[0] != '\0' && word[strspn(word, LETTERS_AND_DIGITS "_-+=./:,@%")] == '\0') {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*word);
    }
    putchar('\'');
}

static void spawn_print_variable(const char *name, const char *value)
{
    printf("%s=", name);
    spawn_print_word(value);
    putchar(' ');
}

void spawn_print(int epoll)
{
    spawn.epoll = epoll;
    for (uint32_t i = 0; i < job.size; i++) {
        spawn_environment(i, spawn_print_variable);
        for (char **word = job.options.command; *word != NULL; word++) {
            if (word != job.options.command) putchar(' ');
            spawn_print_word(*word);
        }
        putchar('\n');
    }
}
