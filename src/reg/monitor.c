/* Changes of memory, as userfaultfd tells them. */
#include "reg/monitor.h"

#include "base/kick.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of linux/userfaultfd.h, since 5.11: no rights are needed, for no fault is ever served. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

enum { MONITOR_RANGES = 256, MONITOR_TEXT = 8192 };

struct monitor_range {
    uint64_t addr, len;
};

struct aqi_monitor {
    struct aqi_monitor *next; /* of all that are open */
    int fd, stop;
    bool threads;
    pthread_t thread;
    /* While it is held nothing may be unmapped, freed or given back by madvise: who does that waits
     * for the thread, and the thread for the lock. */
    pthread_mutex_t lock;
    /* Something has been taken of `fd`, or is just being taken. Set before it is, so that whoever
     * was waiting for that sees it. */
    atomic_bool dirty;
    uint32_t first, count;
    struct monitor_range ranges[MONITOR_RANGES];
};

/* --- children -------------------------------------------------------------------------------- */

/* A child has no thread that listens, and with its copy of the descriptor a monitor would never be
 * closed: who unmaps in its parent afterwards would wait for ever. */
static struct aqi_monitor *monitor_all;
static pthread_mutex_t monitor_all_lock = PTHREAD_MUTEX_INITIALIZER;

static void monitor_before_fork(void)
{
    pthread_mutex_lock(&monitor_all_lock);
}

static void monitor_after_fork(void)
{
    pthread_mutex_unlock(&monitor_all_lock);
}

static void monitor_in_child(void)
{
    for (struct aqi_monitor *monitor = monitor_all; monitor != NULL; monitor = monitor->next) {
        close(monitor->fd);
        monitor->fd = -1;
    }
    monitor_all = NULL;
    pthread_mutex_unlock(&monitor_all_lock);
}

static void monitor_watch_forks(void)
{
    (void)pthread_atfork(monitor_before_fork, monitor_after_fork, monitor_in_child);
}

/* --- listening ------------------------------------------------------------------------------- */

static void monitor_add(struct aqi_monitor *monitor, uint64_t addr, uint64_t end)
{
    if (monitor->count == MONITOR_RANGES) { /* too many to tell apart: all */
        monitor->count = 1;
        addr = 0;
        end = UINT64_MAX;
        monitor->first = 0;
    } else {
        monitor->count++;
    }
    uint32_t at = (monitor->first + monitor->count - 1) % MONITOR_RANGES;
    monitor->ranges[at] = (struct monitor_range){.addr = addr, .len = end - addr};
}

static void monitor_take(struct aqi_monitor *monitor)
{
    struct uffd_msg message;
    pthread_mutex_lock(&monitor->lock);
    /* Read by the acquire load in aqi_monitor_next; the read below wakes who unmapped. */
    atomic_store(&monitor->dirty, true);
    while (read(monitor->fd, &message, sizeof(message)) == (ssize_t)sizeof(message)) {
        if (message.event == UFFD_EVENT_REMAP)
            monitor_add(monitor, message.arg.remap.from,
                        message.arg.remap.from + message.arg.remap.len);
        else if (message.event == UFFD_EVENT_REMOVE || message.event == UFFD_EVENT_UNMAP)
            monitor_add(monitor, message.arg.remove.start, message.arg.remove.end);
    }
    pthread_mutex_unlock(&monitor->lock);
}

static void *monitor_main(void *arg)
{
    struct aqi_monitor *monitor = arg;
    for (;;) {
        struct pollfd fds[] = {{.fd = monitor->fd, .events = POLLIN},
                               {.fd = monitor->stop, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR) return NULL;
        if (fds[1].revents != 0) return NULL;
        if (fds[0].revents & POLLIN) monitor_take(monitor);
    }
}

/* ioctl, whose second argument has different types in different C libraries. */
static int monitor_control(int fd, unsigned long what, void *with)
{
    return (int)syscall(SYS_ioctl, fd, what, with);
}

static int monitor_descriptor(char *why, size_t len)
{
    static const char doing[] = "memory outside the segments is registered for each transfer";
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (fd < 0) {
        snprintf(why, len, "userfaultfd: %s, so %s; %s", strerror(errno), doing,
                 errno == EPERM ? "allow it in the container's seccomp profile"
                                : "a kernel from 5.11 on with CONFIG_USERFAULTFD has it");
        return -1;
    }
    struct uffdio_api api = {.api = UFFD_API,
                             .features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE |
                                         UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_PAGEFAULT_FLAG_WP};
    if (monitor_control(fd, UFFDIO_API, &api) == 0) return fd;
    snprintf(why, len,
             "userfaultfd cannot watch without serving faults on this processor or "
             "kernel, so %s",
             doing);
    close(fd);
    errno = ENOSYS;
    return -1;
}

/* While it is opened and closed nobody forks. */
static int monitor_open_fd(struct aqi_monitor *monitor, char *why, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, monitor_watch_forks);
    pthread_mutex_lock(&monitor_all_lock);
    monitor->fd = monitor_descriptor(why, len);
    int err = monitor->fd < 0 ? errno : 0;
    if (err == 0) {
        monitor->next = monitor_all;
        monitor_all = monitor;
    }
    pthread_mutex_unlock(&monitor_all_lock);
    return err;
}

/* Whoever still waits for it goes on. */
static void monitor_close_fd(struct aqi_monitor *monitor)
{
    pthread_mutex_lock(&monitor_all_lock);
    struct aqi_monitor **at = &monitor_all;
    while (*at != monitor)
        at = &(*at)->next;
    *at = monitor->next;
    close(monitor->fd);
    pthread_mutex_unlock(&monitor_all_lock);
}

aq_status aqi_monitor_open(bool threads, struct aqi_monitor **opened, char *why, size_t len)
{
    struct aqi_monitor *monitor = calloc(1, sizeof(*monitor));
    int err = ENOMEM;
    if (monitor == NULL) goto no_memory;
    monitor->threads = threads;
    err = monitor_open_fd(monitor, why, len);
    if (err != 0) {
        free(monitor);
        return err == EPERM || err == EACCES ? AQ_EACCESS : AQ_ENOTSUP;
    }
    monitor->stop = aqi_kick_new();
    err = errno;
    if (monitor->stop < 0) goto no_kick;
    (void)pthread_mutex_init(&monitor->lock, NULL);
    err = aqi_thread_start(&monitor->thread, monitor_main, monitor);
    if (err != 0) goto no_thread;
    *opened = monitor;
    return AQ_OK;
no_thread:
    (void)pthread_mutex_destroy(&monitor->lock);
    close(monitor->stop);
no_kick:
    monitor_close_fd(monitor);
    free(monitor);
no_memory:
    snprintf(why, len, "no memory, descriptors or threads to watch memory with: %s", strerror(err));
    return AQ_ENOTSUP;
}

bool aqi_monitor_check(char *why, size_t len)
{
    int fd = monitor_descriptor(why, len);
    if (fd < 0) return false;
    close(fd);
    return true;
}

void aqi_monitor_close(struct aqi_monitor *monitor)
{
    aqi_kick(monitor->stop);
    (void)pthread_join(monitor->thread, NULL);
    monitor_close_fd(monitor);
    close(monitor->stop);
    (void)pthread_mutex_destroy(&monitor->lock);
    free(monitor);
}

/* A line of /proc/self/maps: private memory without a file? */
static bool monitor_anonymous(const char *line, uint64_t *from, uint64_t *to)
{
    char private, device[16];
    uint64_t inode;
    return sscanf(line, "%" SCNx64 "-%" SCNx64 " %*c%*c%*c%c %*s %15s %" SCNu64, from, to, &private,
                  device, &inode) == 5 &&
           private == 'p' && inode == 0;
}

/* Is all of it such memory? Read without stdio, whose buffer may come to lie in a hole of it. */
static bool monitor_all_anonymous(uint64_t addr, uint64_t end)
{
    char text[MONITOR_TEXT];
    size_t held = 0;
    ssize_t got;
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps < 0) return false;
    while (addr < end && (got = read(maps, text + held, sizeof(text) - 1 - held)) > 0) {
        char *line = text, *next;
        held += (size_t)got;
        text[held] = '\0';
        for (; (next = strchr(line, '\n')) != NULL; line = next + 1) {
            uint64_t from, to;
            if (monitor_anonymous(line, &from, &to) && from <= addr && addr < to) addr = to;
        }
        held -= (size_t)(line - text); /* the beginning of a line */
        memmove(text, line, held);
    }
    close(maps);
    return addr >= end;
}

bool aqi_monitor_watch(struct aqi_monitor *monitor, uint64_t addr, uint64_t len)
{
    /* Write protection that is never turned on: so no fault ever comes. */
    struct uffdio_register watch = {.range = {.start = addr, .len = len},
                                    .mode = UFFDIO_REGISTER_MODE_WP};
    if (monitor_control(monitor->fd, UFFDIO_REGISTER, &watch) != 0) return false;
    /* In this order: what replaces it from now on is told. */
    return monitor_all_anonymous(addr, addr + len);
}

/* Does another thread just unmap watched memory? The kernel says so before it looks at the rest. */
static bool monitor_changing(const struct aqi_monitor *monitor)
{
    struct uffdio_writeprotect nothing = {.range = {.start = 1, .len = 1}};
    return monitor->threads && monitor_control(monitor->fd, UFFDIO_WRITEPROTECT, &nothing) != 0 &&
           errno == EAGAIN;
}

static bool monitor_pop(struct aqi_monitor *monitor, uint64_t *addr, uint64_t *len)
{
    pthread_mutex_lock(&monitor->lock);
    bool any = monitor->count != 0;
    if (any) {
        *addr = monitor->ranges[monitor->first].addr;
        *len = monitor->ranges[monitor->first].len;
        monitor->first = (monitor->first + 1) % MONITOR_RANGES;
        monitor->count--;
    } else {
        atomic_store(&monitor->dirty, false);
    }
    pthread_mutex_unlock(&monitor->lock);
    return any;
}

bool aqi_monitor_next(struct aqi_monitor *monitor, uint64_t *addr, uint64_t *len)
{
    for (;;) {
        if (atomic_load(&monitor->dirty) && monitor_pop(monitor, addr, len)) return true;
        /* The memory may be mapped anew before the thread that unmapped it has been heard. */
        if (!monitor_changing(monitor))
            return atomic_load(&monitor->dirty) && monitor_pop(monitor, addr, len);
        (void)sched_yield();
    }
}

bool aqi_monitor_told(const struct aqi_monitor *monitor)
{
    return atomic_load(&monitor->dirty);
}
