/* --output: a file for the output of each rank. */
#include "files.h"

#include "base/fail.h"
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const files_streams[] = {"out", "err"};

bool files_check(const char *pattern, char why[FILES_WHY])
{
    if (pattern[0] == '\0')
        return aqi_explain(why, FILES_WHY,
                           "--output is empty: give a directory, or a file such as out/%%r.%%s");
    bool by_rank = strchr(pattern, '%') == NULL;
    for (const char *at = strchr(pattern, '%'); at != NULL; at = strchr(at + 2, '%')) {
        by_rank = by_rank || at[1] == 'r';
        if (at[1] != '\0' && strchr("rsj%", at[1]) != NULL) continue;
        snprintf(why, FILES_WHY,
                 "--output %.100s: %%%.1s is unknown; %%r stands for the rank, %%s for out or err, "
                 "%%j for the name of the job, and %%%% for a %%",
                 pattern, at + 1);
        return false;
    }
    if (by_rank) return true;
    snprintf(why, FILES_WHY,
             "--output %.100s: without %%r, all processes would write to one file; add it, or give "
             "a directory",
             pattern);
    return false;
}

/* Expand the pattern to the file name of a stream. Returns false if it is too long. */
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

/* Create all directories above the file. */
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

bool files_are_same(const char *pattern)
{
    char out[PATH_MAX], err[PATH_MAX];
    return files_name(pattern, 0, files_streams[0], "", out) &&
           files_name(pattern, 0, files_streams[1], "", err) && strcmp(out, err) == 0;
}

/* Open without blocking, so that a pipe without a reader is an error. */
static int files_open_one(char *name, int truncate)
{
    const int how = O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC | O_NONBLOCK | truncate;
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
            snprintf(why, FILES_WHY, "--output %.100s...: the file name is too long", pattern);
            break;
        }
        bool same = i == 1 && strcmp(names[0], names[1]) == 0;
        fds[i] = same ? fcntl(fds[0], F_DUPFD_CLOEXEC, 3) : files_open_one(names[i], O_TRUNC);
        if (fds[i] >= 0) continue;
        snprintf(why, FILES_WHY, "cannot open %.300s for the output of rank %u: %s", names[i], rank,
                 strerror(errno));
        break;
    }
    if (fds[1] >= 0) return true;
    if (fds[0] >= 0) close(fds[0]);
    return false;
}

bool files_are_regular(const int fds[2])
{
    struct stat info;
    for (int i = 0; i < 2; i++)
        if (fstat(fds[i], &info) != 0 || !S_ISREG(info.st_mode)) return false;
    return true;
}

/* --- files written by aqrun ------------------------------------------------------------------- */

enum { FILES_OPEN = 64 };

/* Files kept open, each in the slot of the hash of its name. */
static struct {
    char *name; /* NULL: none */
    int fd;
    uint32_t rank;
} files_cache[FILES_OPEN];

static struct {
    char **names; /* of files that could not be written */
    unsigned count;
} files_lost;

bool files_begin(const char *pattern, uint32_t rank, const char *job_id, char why[FILES_WHY])
{
    int fds[2];
    if (!files_open(pattern, rank, job_id, fds, why)) return false;
    close(fds[0]);
    close(fds[1]);
    return true;
}

static bool files_is_lost(const char *name)
{
    for (unsigned i = 0; i < files_lost.count; i++)
        if (strcmp(files_lost.names[i], name) == 0) return true;
    return false;
}

static void files_lose(const char *name, uint32_t rank, int err)
{
    if (files_is_lost(name)) return;
    size_t bytes = (files_lost.count + 1) * sizeof(char *);
    char **names = realloc(files_lost.names, bytes);
    if (names == NULL || (names[files_lost.count] = strdup(name)) == NULL)
        die("no memory for a file name");
    files_lost.names = names;
    if (files_lost.count++ == 0)
        say("cannot write %s: %s; the rest of the output of rank %u is lost, and the job continues",
            name, strerror(err), rank);
}

/* Some file systems report lack of space only on close. */
static void files_close(size_t at)
{
    if (files_cache[at].name == NULL) return;
    if (close(files_cache[at].fd) != 0 && errno != EINTR)
        files_lose(files_cache[at].name, files_cache[at].rank, errno);
    free(files_cache[at].name);
    files_cache[at].name = NULL;
}

/* The descriptor of a file, which is opened if necessary; -1 with errno on failure. */
static int files_reach(char *name, uint32_t rank)
{
    size_t at = aqi_hash_text(AQI_HASH_SEED, name) % FILES_OPEN;
    if (files_cache[at].name != NULL && strcmp(files_cache[at].name, name) == 0)
        return files_cache[at].fd;
    int fd = files_open_one(name, 0);
    char *copy = fd >= 0 ? strdup(name) : NULL;
    if (fd >= 0 && copy == NULL) die("no memory for a file name");
    if (fd < 0) return -1;
    files_close(at);
    files_cache[at].name = copy;
    files_cache[at].fd = fd;
    files_cache[at].rank = rank;
    return fd;
}

void files_append(const char *pattern, uint32_t rank, unsigned stream, const char *job_id,
                  const void *bytes, size_t len)
{
    char name[PATH_MAX];
    size_t done = 0;
    if (!files_name(pattern, rank, files_streams[stream], job_id, name) || files_is_lost(name))
        return;
    int fd = files_reach(name, rank);
    while (fd >= 0 && done < len) {
        ssize_t n = write(fd, (const char *)bytes + done, len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    if (fd < 0 || done < len) files_lose(name, rank, errno);
}

unsigned files_end(void)
{
    for (size_t i = 0; i < FILES_OPEN; i++)
        files_close(i);
    return files_lost.count;
}
