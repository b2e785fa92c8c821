/*
 * The last test. It checks that the others left nothing behind: processes with this build's marker
 * in their environment, names in /dev/shm, abstract sockets that no known process holds.
 *
 * leftovers NAME=VALUE
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool bears_mark(const char *pid, const char *mark)
{
    char path[300];
    static char environment[1 << 18];
    snprintf(path, sizeof(path), "/proc/%s/environ", pid);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return false;
    size_t used = 0;
    ssize_t got;
    while (used < sizeof(environment) &&
           (got = read(fd, environment + used, sizeof(environment) - used)) > 0)
        used += (size_t)got;
    close(fd);
    return memmem(environment, used, mark, strlen(mark) + 1) != NULL;
}

static void print_command(const char *pid)
{
    char path[300], command[200];
    snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
    int fd = open(path, O_RDONLY);
    ssize_t len = fd < 0 ? 0 : read(fd, command, sizeof(command) - 1);
    if (fd >= 0) close(fd);
    for (ssize_t i = 0; i < len; i++)
        if (command[i] == '\0') command[i] = ' ';
    printf("process %s: %.*s\n", pid, (int)len, command);
}

static unsigned count_processes(const char *mark, bool print)
{
    unsigned count = 0;
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == getpid() ||
            !bears_mark(entry->d_name, mark))
            continue;
        count++;
        if (print) print_command(entry->d_name);
    }
    if (proc != NULL) closedir(proc);
    return count;
}

static unsigned count_files(bool print)
{
    unsigned count = 0;
    DIR *shm = opendir("/dev/shm");
    struct dirent *entry;
    while (shm != NULL && (entry = readdir(shm)) != NULL) {
        if (strncmp(entry->d_name, "aq", 2) != 0) continue;
        count++;
        if (print) printf("/dev/shm/%s\n", entry->d_name);
    }
    if (shm != NULL) closedir(shm);
    return count;
}

/* Whether any process has a descriptor for the socket of this inode. */
static bool socket_is_held(const char *inode)
{
    char wanted[64], path[600], link[64];
    snprintf(wanted, sizeof(wanted), "socket:[%s]", inode);
    bool held = false;
    DIR *proc = opendir("/proc");
    struct dirent *process, *fd;
    while (!held && proc != NULL && (process = readdir(proc)) != NULL) {
        if (!isdigit((unsigned char)process->d_name[0])) continue;
        snprintf(path, sizeof(path), "/proc/%s/fd", process->d_name);
        DIR *fds = opendir(path);
        while (fds != NULL && !held && (fd = readdir(fds)) != NULL) {
            snprintf(path, sizeof(path), "/proc/%s/fd/%s", process->d_name, fd->d_name);
            ssize_t len = readlink(path, link, sizeof(link) - 1);
            held =
                len > 0 && (size_t)len == strlen(wanted) && memcmp(link, wanted, (size_t)len) == 0;
        }
        if (fds != NULL) closedir(fds);
    }
    if (proc != NULL) closedir(proc);
    return held;
}

/*
 * Unix sockets with the library's names. Those with a name or with descriptors in flight can
 * outlive their process.
 */
static unsigned count_sockets(bool print)
{
    unsigned count = 0;
    FILE *table = fopen("/proc/net/unix", "r");
    char line[400], inode[32], name[200];
    while (table != NULL && fgets(line, sizeof(line), table) != NULL) {
        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %31s %199s", inode, name) != 2) continue;
        if (strncmp(name, "@aq", 3) != 0 || socket_is_held(inode)) continue;
        count++;
        if (print) printf("socket %s\n", name);
    }
    if (table != NULL) fclose(table);
    return count;
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    /* Processes that were asked to end may take up to ten seconds. */
    for (int tries = 0; tries < 200; tries++) {
        if (count_processes(argv[1], false) + count_files(false) + count_sockets(false) == 0)
            return 0;
        struct timespec tick = {.tv_nsec = 50 * 1000 * 1000};
        nanosleep(&tick, NULL);
    }
    printf("left behind:\n");
    return count_processes(argv[1], true) + count_files(true) + count_sockets(true) == 0 ? 0 : 1;
}
