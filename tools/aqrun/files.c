/* --output: a file for what each rank prints. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const files_streams[] = {"out", "err"};

bool files_check(const char *pattern, char why[FILES_WHY])
{
    if (pattern[0] == '\0') {
        snprintf(why, FILES_WHY, "--output: give a folder, or a file such as out/%%r.%%s");
        return false;
    }
    bool by_rank = strchr(pattern, '%') == NULL;
    for (const char *at = strchr(pattern, '%'); at != NULL; at = strchr(at + 2, '%')) {
        by_rank = by_rank || at[1] == 'r';
        if (at[1] != '\0' && strchr("rsj%", at[1]) != NULL) continue;
        snprintf(
            why, FILES_WHY,
            "--output %.100s: %%%.1s has no meaning; %%r is the number of the process, %%s out "
            "or err, %%j the name of the job, %%%% a %%",
            pattern, at + 1);
        return false;
    }
    if (by_rank) return true;
    snprintf(why, FILES_WHY,
             "--output %.100s: without %%r all processes would write to one file; put it in, or "
             "give a folder",
             pattern);
    return false;
}

/* The file of a stream; false: its name is too long. */
static bool files_name(const char *pattern, uint32_t rank, const char *stream, const char *job_id,
                       char name[PATH_MAX])
{
    size_t used = 0;
    if (strchr(pattern, '%') == NULL)
        return snprintf(name, PATH_MAX, "%s/%u.%s", pattern, rank, stream) < PATH_MAX;
    for (const char *at = pattern; *at != '\0' && used < PATH_MAX; at++) {
        char *to = name + used;
        size_t room = PATH_MAX - used;
        int n;
        if (*at != '%')
            n = snprintf(to, room, "%c", *at);
        else if (*++at == 'r')
            n = snprintf(to, room, "%u", rank);
        else
            n = snprintf(to, room, "%s", *at == 's' ? stream : *at == 'j' ? job_id : "%");
        used += (size_t)n;
    }
    return used < PATH_MAX;
}

/* All folders above the file. */
static bool files_make_folders(char *name)
{
    for (char *slash = strchr(name + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool made = mkdir(name, 0777) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made) return false;
    }
    return true;
}

/* A pipe that nobody reads shall be an error and not a wait. */
static int files_open_one(char *name)
{
    const int how = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOCTTY | O_CLOEXEC | O_NONBLOCK;
    int fd = open(name, how, 0666);
    if (fd < 0 && errno == ENOENT && files_make_folders(name)) fd = open(name, how, 0666);
    if (fd >= 0) fcntl(fd, F_SETFL, O_APPEND);
    return fd;
}

bool files_open(const char *pattern, uint32_t rank, const char *job_id, int fds[2],
                char why[FILES_WHY])
{
    char names[2][PATH_MAX];
    fds[0] = fds[1] = -1;
    for (int i = 0; i < 2; i++) {
        if (!files_name(pattern, rank, files_streams[i], job_id, names[i])) {
            snprintf(why, FILES_WHY, "--output %.100s...: the name of the file is too long",
                     pattern);
            break;
        }
        bool same = i == 1 && strcmp(names[0], names[1]) == 0;
        fds[i] = same ? fcntl(fds[0], F_DUPFD_CLOEXEC, 3) : files_open_one(names[i]);
        if (fds[i] >= 0) continue;
        snprintf(why, FILES_WHY, "cannot open %.300s for the output of rank %u: %s", names[i], rank,
                 strerror(errno));
        break;
    }
    if (fds[1] >= 0) return true;
    if (fds[0] >= 0) close(fds[0]);
    return false;
}
