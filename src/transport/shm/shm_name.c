/*
 * shm: the sockets that URIs name. Usually the names are abstract, so nothing is left in the file
 * system, but they belong to a network namespace. With AQ_SHM_FOLDER they are files in that folder,
 * visible to all containers that have it mounted at any path. A killed process leaves its file; the
 * next listener in the folder removes it.
 */
#include "transport/shm/shm_name.h"

#include "base/fail.h"
#include "transport/shm/shm_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

static const char scheme[] = "shm://";
/* The prefix of our abstract names, after the NUL, and of our files. */
static const char prefix[] = "aqueduct";
/* Replaces slashes in the names of files. */
enum { SHM_NAME_SLASH = '%' };

static bool shm_name_is_file(const struct shm_name *name)
{
    return name->at.sun_path[0] != 0;
}

static aq_status shm_name_bad(const char *uri, const char *folder, size_t most)
{
    return aqi_fail(AQ_EINVAL, "shm",
                    "\"%s\" is not an address of shm: give \"shm://\" and an absolute path of at "
                    "most %zu printable characters without spaces%s%s",
                    uri, most,
                    folder[0] != 0 ? " or percent signs; with a shorter AQ_SHM_FOLDER "
                                     "it may be longer: "
                                   : "",
                    folder);
}

/* Whether `path`, of `n` characters, can be the path of a URI. */
static bool shm_name_allows(const char *path, size_t n, bool in_folder)
{
    if (path[0] != '/' || n < 2) return false;
    for (size_t i = 0; i < n; i++)
        if (path[i] <= ' ' || path[i] > '~' || (in_folder && path[i] == SHM_NAME_SLASH))
            return false;
    return true;
}

aq_status shm_name_of(const char *uri, struct shm_name *name)
{
    const char *folder = shm_config.folder;
    size_t room = sizeof(name->at.sun_path), in = strlen(folder), begin = sizeof(prefix) - 1;
    bool ours = strncmp(uri, scheme, sizeof(scheme) - 1) == 0;
    const char *path = ours ? uri + sizeof(scheme) - 1 : "";
    size_t n = strlen(path), skip = in + 1; /* a slash, or the NUL of an abstract name */
    /* A file's name ends with a NUL. */
    size_t taken = skip + begin + (in != 0);
    size_t most = taken < room ? room - taken : 0;
    if (!shm_name_allows(path, n, in != 0) || n > most) return shm_name_bad(uri, folder, most);
    *name = (struct shm_name){.at = {.sun_family = AF_UNIX}};
    char *to = name->at.sun_path;
    if (in != 0) snprintf(to, room, "%s/", folder);
    memcpy(to + skip, prefix, begin);
    memcpy(to + skip + begin, path, n);
    for (char *c = to + skip; in != 0 && *c != 0; c++)
        if (*c == '/') *c = SHM_NAME_SLASH;
    name->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + taken + n);
    return AQ_OK;
}

/* --- files ----------------------------------------------------------------------------------- */

/* Lock the folder: only the holder adds or removes files there. Returns -1 and sets errno. */
static int shm_name_lock(void)
{
    int fd = open(shm_config.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX) == 0) return fd;
    int err = errno;
    if (fd >= 0) close(fd);
    errno = err;
    return -1;
}

/* Whether no process has this socket open. */
static bool shm_name_is_stale(const struct sockaddr_un *at)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool stale = fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof(*at)) != 0 &&
                 errno == ECONNREFUSED;
    if (fd >= 0) close(fd);
    return stale;
}

/* Remove the files of killed processes. */
static void shm_name_sweep(int folder)
{
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (dir == NULL) {
        if (copy >= 0) close(copy);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        if (strncmp(entry->d_name, prefix, sizeof(prefix) - 1) != 0 ||
            entry->d_name[sizeof(prefix) - 1] != SHM_NAME_SLASH)
            continue;
        int n =
            snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", shm_config.folder, entry->d_name);
        if (n < (int)sizeof(at.sun_path) && shm_name_is_stale(&at)) (void)unlink(at.sun_path);
    }
    closedir(dir);
}

static aq_status shm_name_bind_file(int fd, const char *uri, const struct shm_name *name)
{
    int folder = shm_name_lock();
    if (folder < 0)
        return aqi_fail_errno(AQ_ESETTING, errno, "shm",
                              "cannot use the folder %s: create it, or correct AQ_SHM_FOLDER",
                              shm_config.folder);
    shm_name_sweep(folder);
    aq_status st = AQ_OK;
    if (bind(fd, (const struct sockaddr *)&name->at, name->len) != 0)
        st = errno == EADDRINUSE ? AQ_ESTATE
                                 : aqi_fail_errno(AQ_ESYS, errno, "shm", "cannot listen at %s (%s)",
                                                  uri, name->at.sun_path);
    close(folder);
    return st;
}

aq_status shm_name_bind(int fd, const char *uri, struct shm_name *name)
{
    name->owner = getpid();
    if (shm_name_is_file(name)) return shm_name_bind_file(fd, uri, name);
    if (bind(fd, (const struct sockaddr *)&name->at, name->len) == 0) return AQ_OK;
    if (errno == EADDRINUSE) return AQ_ESTATE;
    return aqi_fail_errno(AQ_ESYS, errno, "shm", "cannot listen at %s", uri);
}

void shm_name_release(const struct shm_name *name)
{
    if (name->len == 0 || !shm_name_is_file(name) || name->owner != getpid()) return;
    int folder = shm_name_lock();
    (void)unlink(name->at.sun_path);
    if (folder >= 0) close(folder);
}
