/* Detects changes of memory mappings by userfaultfd. */
#include "reg/monitor.h"

#include "base/kick.h"
#include "base/log.h"
#include "base/shmem.h"
#include "base/thread.h"
#include "reg/mappings.h"

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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From linux/userfaultfd.h, since 5.11: needs no privileges, since no fault is ever served. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
/* Since 5.13. */
#ifndef UFFDIO_CONTINUE
struct uffdio_continue {
    struct uffdio_range range;
    uint64_t mode;
    int64_t mapped;
};
#define UFFDIO_CONTINUE _IOWR(UFFDIO, 7, struct uffdio_continue)
#endif

enum {
    MONITOR_RANGES = 256,
    MONITOR_TRIES = 8, /* to watch a mapping that other threads extend meanwhile */
    /* New memory is watched up to vm.max_map_count / MONITOR_SHARE mappings. */
    MONITOR_SHARE = 4,
    /*
     * The number of lines of /proc/self/maps that each call may read; unused ones accumulate, up to
     * MONITOR_SAVED. In a process with more mappings, some new memory is not watched, but no call
     * takes longer.
     */
    MONITOR_LINES = 256,
    MONITOR_SAVED = 64 << 10,
    /* A bit per piece of 128 KB that transfers have touched; pieces 8 GB apart share one. */
    MONITOR_PIECE_SHIFT = 17,
    MONITOR_PIECES = 1 << 16,
};

struct aqi_monitor {
    struct aqi_monitor *next; /* in the list of open monitors */
    int fd, stop;
    pthread_t thread;
    uint64_t page, mappings_most;
    atomic_int_least64_t lines;     /* lines that may still be read */
    atomic_uint_least64_t mappings; /* at the last count */
    /*
     * Its holder must not unmap, free or madvise memory: that waits for the thread, and the thread
     * for the lock.
     */
    pthread_mutex_t lock;
    /*
     * The thread has read from `fd`, or is about to. Set before the read, which lets a thread of
     * the program continue that must see it.
     */
    atomic_bool dirty;
    uint32_t first, count; /* of the changes in `ranges`, a ring */
    struct reg_range ranges[MONITOR_RANGES];
    /*
     * The private anonymous memory that is watched, as far as it is remembered. Some may have been
     * replaced before it was watched (see monitor_watches).
     */
    struct reg_ranges watched;
    uint64_t touched[MONITOR_PIECES / 64];
};

/* --- children -------------------------------------------------------------------------------- */

/*
 * A child has no thread that reads, and its copy of the descriptor would keep the monitor open:
 * calls to munmap in its parent would then wait forever.
 */
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

/* --- watching -------------------------------------------------------------------------------- */

/* ioctl, whose second argument differs in type between C libraries. */
static int monitor_control(int fd, unsigned long what, void *with)
{
    return (int)syscall(SYS_ioctl, fd, what, with);
}

/* Write protection that is never enabled, so no fault ever occurs. */
static bool monitor_register(const struct aqi_monitor *monitor, const struct reg_range *range)
{
    struct uffdio_register watch = {.range = {.start = range->from, .len = range->to - range->from},
                                    .mode = UFFDIO_REGISTER_MODE_WP};
    return monitor_control(monitor->fd, UFFDIO_REGISTER, &watch) == 0;
}

/*
 * Whether the range is part of one watched mapping of private anonymous memory, tested without side
 * effects: its pages cannot be "continued" (EINVAL), while memory that is not watched is not found
 * (ENOENT). Also false if the kernel does not support the call.
 */
static bool monitor_is_watched(int fd, uint64_t from, uint64_t len)
{
    struct uffdio_continue nothing;
    do
        nothing = (struct uffdio_continue){.range = {.start = from, .len = len}};
    while (monitor_control(fd, UFFDIO_CONTINUE, &nothing) != 0 && errno == EAGAIN &&
           sched_yield() == 0); /* an unmapping is in progress until its event has been read */
    return nothing.mapped == -EINVAL;
}

/* Likewise for a range of several mappings. */
static bool monitor_watches(const struct aqi_monitor *monitor, uint64_t from, uint64_t to)
{
    uint64_t len = to - from;
    while (from < to) {
        len = aqi_min(len, to - from);
        if (monitor_is_watched(monitor->fd, from, len)) {
            from += len;
            len = to - from;
        } else if (len == monitor->page) {
            return false;
        } else {
            len = aqi_round_up(len / 2, monitor->page);
        }
    }
    return true;
}

/* Get the pieces of a range. Returns false if they need all bits. */
static bool monitor_pieces(uint64_t from, uint64_t to, uint64_t *first, uint64_t *count)
{
    *first = from >> MONITOR_PIECE_SHIFT;
    *count = ((to - 1) >> MONITOR_PIECE_SHIFT) - *first + 1;
    return *count <= MONITOR_PIECES;
}

static void monitor_touch(struct aqi_monitor *monitor, uint64_t from, uint64_t to)
{
    uint64_t first, count;
    if (!monitor_pieces(from, to, &first, &count)) count = MONITOR_PIECES;
    for (uint64_t i = first; i < first + count; i++)
        monitor->touched[i % MONITOR_PIECES / 64] |= UINT64_C(1) << i % 64;
}

static bool monitor_is_touched(const struct aqi_monitor *monitor, uint64_t from, uint64_t to)
{
    uint64_t first, count;
    if (!monitor_pieces(from, to, &first, &count)) return true;
    for (uint64_t i = first; i < first + count; i++)
        if (monitor->touched[i % MONITOR_PIECES / 64] >> i % 64 & 1) return true;
    return false;
}

/* Returns false if part of it is not private anonymous memory, or if no more lines may be read. */
static bool monitor_look(struct aqi_monitor *monitor, uint64_t from, uint64_t to,
                         struct reg_mapped *mapped)
{
    if (atomic_load(&monitor->lines) <= 0) return false;
    uint64_t count = reg_mappings_find(from, to, mapped);
    atomic_fetch_sub(&monitor->lines, (int_least64_t)count);
    atomic_store(&monitor->mappings, count);
    return mapped->own.to != 0;
}

/* --- listening ------------------------------------------------------------------------------- */

static void monitor_add(struct aqi_monitor *monitor, uint64_t from, uint64_t to)
{
    if (monitor->count == MONITOR_RANGES) { /* too many to distinguish: all */
        monitor->count = 1;
        from = 0;
        to = UINT64_MAX;
        monitor->first = 0;
    } else {
        monitor->count++;
    }
    uint32_t at = (monitor->first + monitor->count - 1) % MONITOR_RANGES;
    monitor->ranges[at] = (struct reg_range){.from = from, .to = to};
}

static void monitor_take(struct aqi_monitor *monitor)
{
    struct uffd_msg message;
    pthread_mutex_lock(&monitor->lock);
    /* Read by the acquire load in aqi_monitor_next; the read below wakes the unmapping thread. */
    atomic_store(&monitor->dirty, true);
    while (read(monitor->fd, &message, sizeof(message)) == (ssize_t)sizeof(message)) {
        uint64_t from = message.arg.remove.start, to = message.arg.remove.end;
        if (message.event == UFFD_EVENT_REMAP) {
            from = message.arg.remap.from;
            to = from + message.arg.remap.len;
        }
        if (monitor_is_touched(monitor, from, to)) monitor_add(monitor, from, to);
        if (message.event != UFFD_EVENT_REMOVE)
            reg_ranges_take(&monitor->watched, from, to); /* other mappings may be there now */
    }
    pthread_mutex_unlock(&monitor->lock);
}

static int monitor_descriptor(char *why, size_t len)
{
    static const char doing[] = "memory outside the segments is registered for each transfer";
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (fd < 0) {
        snprintf(why, len, "userfaultfd: %s, so %s; %s", strerror(errno), doing,
                 errno == EPERM ? "allow it in the container's seccomp profile"
                                : "use a kernel of at least version 5.11 with CONFIG_USERFAULTFD");
        return -1;
    }
    struct uffdio_api api = {.api = UFFD_API,
                             .features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE |
                                         UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_PAGEFAULT_FLAG_WP};
    if (monitor_control(fd, UFFDIO_API, &api) == 0) return fd;
    snprintf(
        why, len,
        "userfaultfd cannot watch memory without serving faults on this processor or kernel, so %s",
        doing);
    close(fd);
    errno = ENOSYS;
    return -1;
}

/* Forks wait while the descriptor is opened or closed. */
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

/* Threads that still wait for their events to be read continue. */
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

/* Whether another thread is unmapping watched memory: checked before the (invalid) range. */
static bool monitor_changing(const struct aqi_monitor *monitor)
{
    struct uffdio_writeprotect nothing = {.range = {.start = 1, .len = 1}};
    return monitor_control(monitor->fd, UFFDIO_WRITEPROTECT, &nothing) != 0 && errno == EAGAIN;
}

/* Register first: this fails for memory that others registered, which some kernels unregister. */
static void monitor_unwatch(void *arg, const struct reg_range *range)
{
    const struct aqi_monitor *monitor = arg;
    struct uffdio_range unwatch = {.start = range->from, .len = range->to - range->from};
    struct uffdio_continue nothing = {.range = {.start = range->from, .len = monitor->page}};
    if (monitor_control(monitor->fd, UFFDIO_CONTINUE, &nothing) != 0 && nothing.mapped == -ENOENT)
        return; /* not watched: registering it would visit each page */
    if (monitor_register(monitor, range))
        (void)monitor_control(monitor->fd, UFFDIO_UNREGISTER, &unwatch);
}

/*
 * Closing the descriptor is not enough if a child that was made without the C library's fork (see
 * above), and has not called exec, has a copy: threads that unmap would wait for the child.
 */
static void monitor_unwatch_all(struct aqi_monitor *monitor)
{
    reg_mappings_each(monitor_unwatch, monitor);
    do
        monitor_take(monitor);
    while (monitor_changing(monitor) && sched_yield() == 0);
}

static void *monitor_main(void *arg)
{
    struct aqi_monitor *monitor = arg;
    for (;;) {
        struct pollfd fds[] = {{.fd = monitor->fd, .events = POLLIN},
                               {.fd = monitor->stop, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0) { /* do not end: threads that wait for us would wait forever */
            (void)sched_yield();
            continue;
        }
        if (fds[1].revents != 0) break;
        if (fds[0].revents & POLLIN) monitor_take(monitor);
    }
    monitor_unwatch_all(monitor);
    /* In this thread, since the C library then unmaps its stack, which may be watched, too. */
    monitor_close_fd(monitor);
    return NULL;
}

aq_status aqi_monitor_open(struct aqi_monitor **opened, char *why, size_t len)
{
    struct aqi_monitor *monitor = calloc(1, sizeof(*monitor));
    int err = ENOMEM;
    if (monitor == NULL) goto no_memory;
    monitor->page = aqi_page_size();
    monitor->mappings_most = reg_mappings_most() / MONITOR_SHARE;
    atomic_init(&monitor->lines, MONITOR_SAVED);
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
    snprintf(why, len, "no memory, descriptors or threads for watching memory: %s", strerror(err));
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
    close(monitor->stop);
    (void)pthread_mutex_destroy(&monitor->lock);
    free(monitor);
}

/* Whether the range is known to be watched; marks it as touched. */
static bool monitor_remembers(struct aqi_monitor *monitor, uint64_t from, uint64_t to)
{
    pthread_mutex_lock(&monitor->lock);
    bool known = reg_ranges_cover(&monitor->watched, from, to);
    monitor_touch(monitor, from, to);
    pthread_mutex_unlock(&monitor->lock);
    return known;
}

static void monitor_remember(struct aqi_monitor *monitor, const struct reg_range *range)
{
    pthread_mutex_lock(&monitor->lock);
    reg_ranges_add(&monitor->watched, range->from, range->to);
    pthread_mutex_unlock(&monitor->lock);
}

static bool monitor_has_room(const struct aqi_monitor *monitor)
{
    static atomic_bool once;
    uint64_t count = atomic_load(&monitor->mappings);
    if (count <= monitor->mappings_most) return true;
    aqi_log_once(&once, AQI_LOG_INFO, "reg",
                 "this process has %" PRIu64
                 " mappings, more than 1/%u of vm.max_map_count: other memory outside the segments "
                 "is registered for each transfer",
                 count, MONITOR_SHARE);
    return false;
}

/*
 * Register as much as possible, including unmapped space around the memory, which may just have
 * grown into it. Adjacent memory may be of a kind that cannot be watched, or be watched by others.
 * Returns NULL if not even the memory itself can be registered.
 */
static const struct reg_range *monitor_register_most(const struct aqi_monitor *monitor,
                                                     const struct reg_mapped *mapped)
{
    const struct reg_range *const wanted[] = {&mapped->wide, &mapped->side, &mapped->own};
    for (unsigned i = 0; i < AQI_COUNT_OF(wanted); i++)
        if (monitor_register(monitor, wanted[i])) return wanted[i];
    return NULL;
}

/* Whether there is no thread that could change mappings, besides the caller and the monitor's. */
static bool monitor_alone(void)
{
    struct stat tasks; /* a link for each thread, and two for the folder */
    return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 2 + 2;
}

/*
 * Another thread may have changed the mappings after they were looked up. If the range then ends
 * inside a mapping, that is split, and mremap refuses it; the halves merge again if both are
 * watched.
 */
static void monitor_complete(const struct aqi_monitor *monitor, struct reg_range watched)
{
    for (unsigned tries = 0; tries < MONITOR_TRIES && !monitor_alone(); tries++)
        if (!reg_mappings_complete(&watched) || !monitor_register(monitor, &watched)) return;
}

bool aqi_monitor_watch(struct aqi_monitor *monitor, uint64_t addr, uint64_t len)
{
    uint64_t end = aqi_round_up(addr + len, monitor->page);
    struct reg_mapped mapped;
    const struct reg_range *watched;
    addr &= ~(monitor->page - 1);
    if (monitor_remembers(monitor, addr, end) && monitor_watches(monitor, addr, end)) return true;
    if (atomic_load(&monitor->lines) < MONITOR_SAVED)
        atomic_fetch_add(&monitor->lines, MONITOR_LINES);
    if (!monitor_look(monitor, addr, end, &mapped) || !monitor_has_room(monitor)) return false;
    watched = monitor_register_most(monitor, &mapped);
    if (watched == NULL) return false;
    monitor_remember(monitor, watched == &mapped.own ? &mapped.own : &mapped.side);
    monitor_complete(monitor, *watched);
    return true;
}

static bool monitor_pop(struct aqi_monitor *monitor, uint64_t *addr, uint64_t *len)
{
    pthread_mutex_lock(&monitor->lock);
    bool any = monitor->count != 0;
    if (any) {
        *addr = monitor->ranges[monitor->first].from;
        *len = monitor->ranges[monitor->first].to - *addr;
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
        /* The memory may be mapped again before the event of the unmapping thread has been read. */
        if (!monitor_changing(monitor))
            return atomic_load(&monitor->dirty) && monitor_pop(monitor, addr, len);
        (void)sched_yield();
    }
}

bool aqi_monitor_has_changes(const struct aqi_monitor *monitor)
{
    return atomic_load(&monitor->dirty);
}
