/* A program that nobody started as a job: with GASNET_PSHM_NODES it makes itself one, with aqrun;
 * for the network udp it says how it is started when its first argument asks for processes. */
#include "aqg.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>

/* The headers are in <prefix>/lib/aqueduct/gasnet/include, and aqrun is in <prefix>/bin. */
static bool spawn_beside_header(const char *header, char path[PATH_MAX])
{
    char real[PATH_MAX]; /* clients link the headers into trees of their own */
    if (realpath(header, real) != NULL) header = real;
    const char *tree = strstr(header, "/lib/aqueduct/gasnet/");
    for (const char *at = tree; at != NULL; at = strstr(at + 1, "/lib/aqueduct/gasnet/"))
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

/* aqrun -n N PROGRAM ARGUMENTS: what we were called with, the program by its full path. Programs
 * for processes that are forked from one find their static data where the others have it. */
static char **spawn_make_command(const char *count)
{
    static char program[PATH_MAX];
    size_t len, n = 0;
    ssize_t path = readlink("/proc/self/exe", program, sizeof(program) - 1);
    char *line = spawn_read_command_line(&len);
    if (path <= 0 || line == NULL || len == 0) return NULL;
    program[path] = '\0';
    char **command = calloc(len + 9, sizeof(*command));
    if (command == NULL) return NULL;
    command[n++] = (char *)(uintptr_t) "aqrun";
    command[n++] = (char *)(uintptr_t) "--same-addresses";
    command[n++] = (char *)(uintptr_t) "--spawner=fork"; /* whatever hosts there are */
    command[n++] = (char *)(uintptr_t) "-n";
    command[n++] = (char *)(uintptr_t)count;
    command[n++] = program;
    for (char *at = line + strlen(line) + 1; at < line + len; at += strlen(at) + 1)
        command[n++] = at;
    return command;
}

static void spawn_job(const struct aqg_build *build, const char *count)
{
    char path[PATH_MAX];
    const char *given = getenv("GASNET_AQRUN");
    char **command = spawn_make_command(count);
    if (command == NULL) aqgi_die("GASNET_PSHM_NODES=%s: cannot read /proc/self", count);
    if (given != NULL)
        snprintf(path, sizeof(path), "%s", given);
    else if (!spawn_beside_header(build->header, path))
        strcpy(path, "aqrun");
    execvp(path, command);
    aqgi_die("GASNET_PSHM_NODES=%s: cannot run %s: %s; set GASNET_AQRUN to the path of aqrun, or "
             "put it into PATH",
             count, path, strerror(errno));
}

/* ./program N ARGUMENTS: scripts start N processes so, and would get a job of one. */
static void spawn_refuse_count(void)
{
    size_t len;
    char *line = spawn_read_command_line(&len);
    const char *count = line != NULL ? line + strnlen(line, len) + 1 : NULL;
    bool number = count != NULL && count < line + len && *count >= '1' && *count <= '9' &&
                  count[strspn(count, "0123456789")] == '\0';
    if (number) {
        fprintf(stderr,
                "*** gasnet: a program for the network udp does not start its processes itself; "
                "start it by\n    gasnetrun_udp -n %s %s",
                count, line);
        for (const char *at = count + strlen(count) + 1; at < line + len; at += strlen(at) + 1)
            fprintf(stderr, " %s", at);
        fputc('\n', stderr);
        exit(2);
    }
    free(line);
}

void aqgi_spawn(const struct aqg_build *build)
{
    const char *count = getenv("GASNET_PSHM_NODES");
    if (getenv("AQ_RANK") != NULL) return;
    if (strcmp(build->conduit, "UDP") == 0) spawn_refuse_count();
    if (strcmp(build->conduit, "SMP") == 0 && count != NULL && *count != '\0' &&
        strtol(count, NULL, 10) != 1)
        spawn_job(build, count);
}
