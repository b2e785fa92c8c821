/* GASNET_PSHM_NODES: a program that nobody started as a job makes itself one, with aqrun. */
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
        while (*len < room && (got = read(fd, text + *len, room - *len)) > 0)
            *len += (size_t)got;
    }
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
    char **command = calloc(len + 8, sizeof(*command));
    if (command == NULL) return NULL;
    command[n++] = (char *)(uintptr_t) "aqrun";
    command[n++] = (char *)(uintptr_t) "--same-addresses";
    command[n++] = (char *)(uintptr_t) "-n";
    command[n++] = (char *)(uintptr_t)count;
    command[n++] = program;
    for (char *at = line + strlen(line) + 1; at < line + len; at += strlen(at) + 1)
        command[n++] = at;
    return command;
}

void aqgi_spawn(const struct aqg_build *build)
{
    char path[PATH_MAX];
    const char *count = getenv("GASNET_PSHM_NODES"), *given = getenv("GASNET_AQRUN");
    if (count == NULL || *count == '\0' || strcmp(build->conduit, "SMP") != 0 ||
        getenv("AQ_RANK") != NULL)
        return;
    if (strtol(count, NULL, 10) == 1) return;
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
