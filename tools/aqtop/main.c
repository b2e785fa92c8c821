/* aqtop: shows the activity of the ranks of a running job. */
#include "aqtop.h"
#include "base/clock.h"
#include "command.h"

#include <aqueduct/version.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_JOBS = 256, NS_PER_MS = 1000000 };

static bool batch, json, list, reverse;
static unsigned count; /* 0: until the job ends */
static unsigned interval_ms = 1000;
static enum column by = BY_RANK;

static void take_delay(const char *value)
{
    char *end;
    double seconds = strtod(value, &end);
    if (*end != '\0' || end == value || !(seconds >= 0.1 && seconds <= 3600))
        command_error("--delay %s: give a number of seconds from 0.1 to 3600", value);
    interval_ms = (unsigned)(1000 * seconds);
}

static void take_sort(const char *value)
{
    for (by = 0; by < COLUMNS; by++)
        if (strcmp(value, column_names[by]) == 0) return;
    command_error("--sort %s: give rank, host, messages, out, in, size, again or waits", value);
}

static const struct command_row rows[] = {
    {'b', "batch", NULL, "print lines, even on a terminal", .flag = &batch},
    {'d', "delay", "SECONDS", "time between updates, 0.1 to 3600 (default 1)", .take = take_delay},
    {'j', "json", NULL, "print a JSON object for each update, one per line", .flag = &json},
    {'l', "list", NULL, "list the running jobs: process ids and command lines", .flag = &list},
    {'n', "count", "COUNT", "exit after COUNT updates", .number = &count, .min = 1,
     .max = 1000000000},
    {'r', "reverse", NULL, "reverse the order", .flag = &reverse},
    {'s', "sort", "COLUMN",
     "sort by rank, host, messages, out, in, size, again or waits; numbers in descending order",
     .take = take_sort},
};

static const char head[] =
    "usage: aqtop [OPTION...] [JOB]\n"
    "\n"
    "Shows the activity of each rank of a running job, on all its hosts: messages and one-sided\n"
    "operations (msg/s), bytes out and in (data that other ranks get from or put into a rank's\n"
    "memory is counted by those ranks), the mean size of its messages and puts, retransmitted\n"
    "packets, and the fraction of time for which the thread that called aq_init waits in the\n"
    "library, and for what. JOB is the process id of the job's aqrun; in jobs of srun, mpirun or\n"
    "mpiexec.hydra, it is that of the agent on the host of rank 0, where aqtop must run. The\n"
    "default is the only job that runs here. Only the job's user and root can monitor it.\n"
    "\n"
    "Keys: q quits, s sorts by the next column, r reverses the order, arrows and page keys\n"
    "scroll.\n";

static const char tail[] =
    "\n"
    "Exit code: 0; 1 if there is no such job or it ended before it could be shown; 2 for\n"
    "incorrect usage.\n";

/*
 * Print the command line of a launcher, as far as it is readable; the path in its first word is
 * reduced to the name.
 */
static void print_job(const struct found_job *job, FILE *to)
{
    char path[64], line[1000];
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)job->pid);
    FILE *file = fopen(path, "re");
    size_t len = file != NULL ? fread(line, 1, sizeof(line) - 1, file) : 0;
    if (file != NULL) fclose(file);
    line[len] = '\0';
    const char *slash = strrchr(line, '/');
    size_t begin = slash != NULL ? (size_t)(slash + 1 - line) : 0;
    for (size_t i = 0; i < len; i++)
        if (line[i] < ' ' || line[i] > '~') line[i] = line[i] == '\0' ? ' ' : '?';
    fprintf(to, "%8d  %s\n", (int)job->pid, line + begin);
}

static const struct found_job *choose(const struct found_job *jobs, size_t found, const char *name)
{
    if (name == NULL && found == 1) return &jobs[0];
    for (size_t i = 0; name != NULL && i < found; i++)
        if (atoi(name) == (int)jobs[i].pid) return &jobs[i];
    if (name != NULL)
        fprintf(stderr, "aqtop: none of your jobs on this host has the process id %s\n", name);
    else if (found == 0)
        fprintf(stderr, "aqtop: none of your jobs runs on this host; for a job elsewhere, start "
                        "aqtop on the host of its aqrun\n");
    else
        fprintf(stderr, "aqtop: several jobs are running; give the process id of one:\n");
    for (size_t i = 0; i < found; i++)
        print_job(&jobs[i], stderr);
    return NULL;
}

/* Wait until all ranks have been sampled again, or for the maximum time. */
static bool await_sample(struct watch *watch, uint64_t *next)
{
    uint64_t grace = interval_ms * (uint64_t)NS_PER_MS / 2;
    for (;;) {
        uint64_t now = aqi_now_ns();
        bool due = now >= *next && (watch_is_fresh(watch) || now >= *next + grace);
        if (due && watch_rate(watch)) {
            *next = now + interval_ms * (uint64_t)NS_PER_MS;
            return true;
        }
        struct pollfd state = {.fd = watch->fd, .events = POLLIN};
        (void)poll(&state, 1, now < *next ? (int)((*next - now) / NS_PER_MS) + 1 : 10);
        if (!watch_read(watch)) return false;
    }
}

static bool print_samples(struct watch *watch)
{
    uint64_t next = aqi_now_ns() + interval_ms * (uint64_t)NS_PER_MS;
    unsigned done = 0;
    while ((count == 0 || done < count) && await_sample(watch, &next)) {
        (json ? print_json : print_text)(watch, by, reverse);
        if (fflush(stdout) != 0) break;
        done++;
    }
    return done != 0;
}

int main(int argc, char **argv)
{
    static struct found_job jobs[MAX_JOBS];
    struct watch watch;
    bool seen = true;
    const struct command_line command = {.tool = "aqtop",
                                         .version = aq_version(),
                                         .head = head,
                                         .tail = tail,
                                         .rows = rows,
                                         .count = AQI_COUNT_OF(rows)};
    int first = command_read(&command, argc, argv);
    if (argc - first > 1) command_error("only one job can be shown");
    size_t found = watch_find(jobs, MAX_JOBS);
    if (found > MAX_JOBS) found = MAX_JOBS;
    for (size_t i = 0; list && i < found; i++)
        print_job(&jobs[i], stdout);
    if (list) return command_written() ? 0 : 1;
    const struct found_job *job = choose(jobs, found, argv[first]);
    if (job == NULL || !watch_open(&watch, job, interval_ms)) return 1;
    if (batch || json || count != 0 || !screen_possible())
        seen = print_samples(&watch);
    else
        screen_run(&watch, interval_ms, by);
    if (watch.why[0] != '\0')
        fprintf(stderr, "aqtop: %s\n", watch.why);
    else if (!seen)
        fprintf(stderr, "aqtop: job %d has ended\n", (int)job->pid);
    watch_close(&watch);
    return command_written() && seen && watch.why[0] == '\0' ? 0 : 1;
}
