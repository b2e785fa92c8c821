/*
 * A program that was started without a launcher restarts itself as a job with aqrun: for the
 * network smp if GASNET_PSHM_NODES is set, for udp if the first argument is a number of processes.
 */
#include "aqg.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

/* Derive <prefix>/bin/aqrun from the path of a header, <prefix>/AQG_TREE/include/… */
static bool spawn_beside_header(const char *header, char path[PATH_MAX])
{
    char real[PATH_MAX]; /* clients may link to the headers from other directories */
    if (realpath(header, real) != NULL) header = real;
    const char *tree = strstr(header, "/" AQG_TREE "/");
    for (const char *at = tree; at != NULL; at = strstr(at + 1, "/" AQG_TREE "/"))
        tree = at;
    if (tree == NULL) return false;
    snprintf(path, PATH_MAX, "%.*s/bin/aqrun", (int)(tree - header), header);
    return access(path, X_OK) == 0;
}

static char *spawn_read_command_line(size_t *len)
{
    size_t room = 4096;
    char *text = NULL;
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    *len = 0;
    for (ssize_t got = 1; fd >= 0 && got > 0; room *= 2) {
        text = realloc(text, room);
        if (text == NULL) break;
        while (*len < room - 1 && (got = read(fd, text + *len, room - 1 - *len)) > 0)
            *len += (size_t)got;
    }
    if (text != NULL) text[*len] = '\0';
    if (fd >= 0) close(fd);
    return text;
}

/* How to create a job. */
struct spawn_job {
    const char *said;    /* name of the option or variable, for messages */
    const char *count;   /* number of processes */
    const char *spawner; /* --spawner option of aqrun; NULL: chosen by hosts and settings */
    bool counted;        /* the first argument is the number, and is not passed on */
};

/*
 * The full path of this program, preferably by the name with which it was run: a program with
 * several names may depend on that.
 */
static bool spawn_program(const char *called, char path[PATH_MAX])
{
    static const char self[] = "/proc/self/exe";
    char folder[PATH_MAX];
    struct stat real, named;
    bool whole = called[0] == '/' || getcwd(folder, sizeof(folder)) != NULL;
    int len = called[0] == '/' ? snprintf(path, PATH_MAX, "%s", called)
                               : snprintf(path, PATH_MAX, "%s/%s", folder, called);
    if (whole && strchr(called, '/') != NULL && len < PATH_MAX && stat(self, &real) == 0 &&
        stat(path, &named) == 0 && real.st_dev == named.st_dev && real.st_ino == named.st_ino)
        return true;
    ssize_t got = readlink(self, path, PATH_MAX - 1);
    if (got > 0) path[got] = '\0';
    return got > 0;
}

/*
 * aqrun -n N PROGRAM ARGUMENTS, with the program's full path. --same-addresses: all processes have
 * static data at the same addresses, as if forked from one process.
 */
static char **spawn_make_command(const struct spawn_job *job)
{
    static char program[PATH_MAX], spawner[32];
    const char *const options[] = {"aqrun", "--same-addresses", "-n", job->count, NULL};
    size_t len, n = 0;
    char *line = spawn_read_command_line(&len);
    if (line == NULL || len == 0 || !spawn_program(line, program)) return NULL;
    char **command = calloc(len + 9, sizeof(*command));
    if (command == NULL) return NULL;
    for (; options[n] != NULL; n++)
        command[n] = (char *)(uintptr_t)options[n];
    snprintf(spawner, sizeof(spawner), "--spawner=%s", job->spawner != NULL ? job->spawner : "");
    if (job->spawner != NULL) command[n++] = spawner;
    command[n++] = (char *)(uintptr_t) "--";
    command[n++] = program;
    bool left_out = !job->counted;
    for (char *at = line + strlen(line) + 1; at < line + len; at += strlen(at) + 1) {
        if (left_out) command[n++] = at;
        left_out = true;
    }
    return command;
}

static _Noreturn void spawn_run(const struct aqg_build *build, const struct spawn_job *job)
{
    char path[PATH_MAX];
    const char *given = getenv("GASNET_AQRUN");
    char **command = spawn_make_command(job);
    if (command == NULL) aqgi_die("%s %s: cannot read /proc/self", job->said, job->count);
    if (given != NULL)
        snprintf(path, sizeof(path), "%s", given);
    else if (!spawn_beside_header(build->header, path))
        strcpy(path, "aqrun");
    execvp(path, command);
    aqgi_die("%s %s: cannot run %s: %s; set GASNET_AQRUN to the path of aqrun, or add it to PATH",
             job->said, job->count, path, strerror(errno));
}

/* --- smp: GASNET_PSHM_NODES ------------------------------------------------------------------ */

static void spawn_nodes(const struct aqg_build *build)
{
    const struct spawn_job job = {.said = "GASNET_PSHM_NODES",
                                  .count = getenv("GASNET_PSHM_NODES"),
                                  .spawner = "fork"}; /* regardless of any host list */
    if (getenv("AQ_RANK") == NULL && job.count != NULL && *job.count != '\0' &&
        strtol(job.count, NULL, 10) != 1)
        spawn_run(build, &job);
}

/* --- udp: ./program N ARGUMENTS --------------------------------------------------------------- */

/* The spawner that gasnetrun_udp derives from the same variables; NULL: none is set. */
static const char *spawn_way(void)
{
    static const char *const variables[] = {"GASNET_UDP_SPAWNER", "GASNET_SPAWNER",
                                            "GASNET_SPAWNFN"};
    static const char *const ways[][2] = {
        {"L", "fork"},    {"l", "fork"},  {"local", "fork"}, {"fork", "fork"},
        {"S", "ssh"},     {"s", "ssh"},   {"ssh", "ssh"},    {"pmix", "pmix"},
        {"pmi2", "pmi2"}, {"pmi", "pmi"}, {"mpi", "mpi"},
    };
    for (size_t v = 0; v < sizeof(variables) / sizeof(*variables); v++) {
        const char *text = getenv(variables[v]);
        if (text == NULL || *text == '\0') continue;
        for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
            if (strcmp(ways[i][0], text) == 0) return ways[i][1];
        aqgi_die("unknown spawner \"%.80s\" (%s): give L (this machine), S or ssh, pmix, pmi2, pmi "
                 "or mpi",
                 text, variables[v]);
    }
    return NULL;
}

/*
 * The first argument, if it is a number of processes, in memory that is not freed; otherwise NULL.
 */
static const char *spawn_counted(void)
{
    size_t len;
    char *line = spawn_read_command_line(&len);
    const char *count = line != NULL ? line + strnlen(line, len) + 1 : NULL;
    if (count != NULL && count < line + len && *count >= '1' && *count <= '9' &&
        count[strspn(count, "0123456789")] == '\0')
        return count;
    free(line);
    return NULL;
}

static void spawn_processes(const struct aqg_build *build)
{
    if (aq_job_launched()) return;
    const struct spawn_job job = {
        .said = "-n", .count = spawn_counted(), .spawner = spawn_way(), .counted = true};
    if (job.count != NULL) spawn_run(build, &job);
}

void aqgi_spawn(const struct aqg_build *build)
{
    if (strcmp(build->conduit, "SMP") == 0) spawn_nodes(build);
    if (strcmp(build->conduit, "UDP") == 0) spawn_processes(build);
}
