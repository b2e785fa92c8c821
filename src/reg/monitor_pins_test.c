/*
 * Tests monitor.c: whatever replaces a pinned page is reported, as the kernel itself shows. A page
 * is pinned as by an adapter (io_uring's registered buffers), watched, and changed in every
 * possible way; then data written at its address either shows in the pinned page, or the change was
 * reported. docs/architecture.md lists what the kernel does not report.
 */
#include "reg/monitor.h"

#include "base/cmocka_test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* As in linux/userfaultfd.h, since 6.8, and linux/mman.h, since 5.18 and 6.13. */
struct pins_move {
    uint64_t to, from, len, mode;
    int64_t moved;
};
#define PINS_MOVE _IOWR(UFFDIO, 5, struct pins_move)
enum { PINS_DONTNEED_LOCKED = 24, PINS_GUARD_INSTALL = 102, PINS_GUARD_REMOVE = 103 };

enum { PAGES = 8, AT = 3 };

static struct aqi_monitor *monitor;
static char why[256];
static size_t page, size;
static char *area, *at; /* the mapping, and the page in it that is pinned */

/* --- a pinned page ---------------------------------------------------------------------------- */

static struct {
    int fd, file;
    struct io_uring_params params;
    unsigned char *submit, *complete;
    struct io_uring_sqe *entries;
} ring;

static unsigned *word(unsigned char *in, unsigned offset)
{
    return (unsigned *)(void *)(in + offset);
}

/* Returns false if the kernel cannot do that. */
static bool pin(void *memory)
{
    struct iovec buffer = {.iov_base = memory, .iov_len = page};
    memset(&ring.params, 0, sizeof(ring.params));
    ring.fd = (int)syscall(SYS_io_uring_setup, 2, &ring.params);
    if (ring.fd < 0) return false;
    void *at_submit =
        mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, (off_t)IORING_OFF_SQ_RING);
    void *at_complete =
        mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, (off_t)IORING_OFF_CQ_RING);
    void *entries =
        mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, (off_t)IORING_OFF_SQES);
    assert_true(at_submit != MAP_FAILED && at_complete != MAP_FAILED && entries != MAP_FAILED);
    ring.submit = at_submit;
    ring.complete = at_complete;
    ring.entries = entries;
    ring.file = memfd_create("pinned", MFD_CLOEXEC);
    assert_true(ring.file >= 0);
    return syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, &buffer, 1) == 0;
}

/* The first byte of the pinned page, wherever that is mapped now. */
static char pinned_byte(const void *memory)
{
    char byte = 0;
    unsigned *tail = word(ring.submit, ring.params.sq_off.tail);
    ring.entries[0] = (struct io_uring_sqe){.opcode = IORING_OP_WRITE_FIXED,
                                            .fd = ring.file,
                                            .addr = (uint64_t)(uintptr_t)memory,
                                            .len = 1};
    *word(ring.submit, ring.params.sq_off.array) = 0;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    assert_int_equal(
        syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, (size_t)0), 1);
    assert_int_equal(pread(ring.file, &byte, 1, 0), 1);
    return byte;
}

static void unpin(void)
{
    munmap(ring.submit, page);
    munmap(ring.complete, page);
    munmap(ring.entries, page);
    close(ring.fd);
    close(ring.file);
}

/* --- changes: whether the kernel has made them ------------------------------------------------ */

static char *map_here(void *here, size_t len, int flags)
{
    char *got = mmap(here, len, PROT_READ | PROT_WRITE,
                     flags | MAP_ANONYMOUS | (here != NULL ? MAP_FIXED : 0), -1, 0);
    assert_true(got != MAP_FAILED);
    return got;
}

static bool nothing(void)
{
    return true;
}

static bool unmapped_and_mapped(void)
{
    return munmap(area, size) == 0 && map_here(area, size, MAP_PRIVATE) == area;
}

static bool mapped_over(void)
{
    return map_here(area, size, MAP_PRIVATE) == area;
}

static bool shared_over(void)
{
    return map_here(area, size, MAP_SHARED) == area;
}

static bool given_back(void)
{
    return madvise(at, page, MADV_DONTNEED) == 0;
}

static bool given_back_locked(void)
{
    return mlock(at, page) == 0 && madvise(at, page, PINS_DONTNEED_LOCKED) == 0 &&
           munlock(at, page) == 0;
}

static bool freed(void)
{
    return madvise(at, page, MADV_FREE) == 0;
}

static bool given_back_by_pidfd(void)
{
    struct iovec part = {.iov_base = at, .iov_len = page};
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    bool done = fd >= 0 && syscall(SYS_process_madvise, fd, &part, (size_t)1, MADV_DONTNEED, 0) > 0;
    if (fd >= 0) close(fd);
    return done;
}

static bool paged_out(void)
{
    return madvise(at, page, MADV_PAGEOUT) == 0;
}

static bool protected(void)
{
    return mprotect(area, size, PROT_NONE) == 0 &&
           mprotect(area, size, PROT_READ | PROT_WRITE) == 0;
}

static bool locked(void)
{
    return mlock(area, size) == 0 && munlock(area, size) == 0;
}

static bool advised(void)
{
    return madvise(at, page, MADV_DONTFORK) == 0 && madvise(at, page, MADV_DOFORK) == 0 &&
           madvise(area, size, MADV_MERGEABLE) == 0 && madvise(area, size, MADV_HUGEPAGE) == 0;
}

static bool moved_away(void)
{
    return mremap(area, size, 2 * size, MREMAP_MAYMOVE | MREMAP_FIXED,
                  mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) !=
               MAP_FAILED &&
           map_here(area, size, MAP_PRIVATE) == area;
}

static bool moved_but_left(void)
{
    return mremap(area, size, size, MREMAP_MAYMOVE | MREMAP_DONTUNMAP) != MAP_FAILED;
}

static bool shrunk(void)
{
    return mremap(area, size, page, 0) == area &&
           map_here(area + page, size - page, MAP_PRIVATE) == area + page;
}

static bool moved_over(void)
{
    return mremap(map_here(NULL, size, MAP_PRIVATE), size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
                  area) == area;
}

static bool shared_memory_moved_over(void)
{
    return mremap(map_here(NULL, size, MAP_SHARED), 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, area) ==
           area;
}

static bool attached(int flags)
{
    int id = shmget(IPC_PRIVATE, size, 0600);
    bool done = id >= 0 && shmat(id, area, flags) == area;
    if (id >= 0) (void)shmctl(id, IPC_RMID, NULL);
    return done;
}

static bool unmapped_and_attached(void)
{
    return munmap(area, size) == 0 && attached(0);
}

static bool attached_over(void)
{
    return attached(SHM_REMAP);
}

static bool guarded(void)
{
    return madvise(at, page, PINS_GUARD_INSTALL) == 0 && madvise(at, page, PINS_GUARD_REMOVE) == 0;
}

/* A child of fork, or of the system call; it or we write. */
static bool child_of(bool call, bool writes)
{
    int ends[2], status = 1;
    if (pipe(ends) != 0) return false;
    pid_t child = call ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
    if (child == 0) {
        char byte;
        if (writes) memset(area, 2, size);
        syscall(SYS_close, ends[1]);
        syscall(SYS_read, ends[0], &byte, 1);
        syscall(SYS_munmap, area, size);
        syscall(SYS_exit_group, 0);
    }
    memset(area, 3, size);
    close(ends[1]);
    close(ends[0]);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static bool forked(void)
{
    return child_of(false, true) && child_of(false, false);
}

static bool cloned(void)
{
    return child_of(true, true) && child_of(true, false);
}

/* Another userfaultfd takes the page away. The kernel refuses that if it is pinned. */
static bool taken_by_userfaultfd(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* UFFD_USER_MODE_ONLY */);
    char *to = map_here(NULL, size, MAP_PRIVATE);
    struct uffdio_register there = {.range = {.start = (uint64_t)(uintptr_t)to, .len = size},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    struct pins_move move = {
        .to = (uint64_t)(uintptr_t)to, .from = (uint64_t)(uintptr_t)at, .len = page};
    bool done = fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 &&
                ioctl(fd, UFFDIO_REGISTER, &there) == 0 && ioctl(fd, PINS_MOVE, &move) == 0;
    if (fd >= 0) close(fd);
    munmap(to, size);
    return done;
}

static const struct {
    const char *name;
    bool (*change)(void);
    bool silent; /* the kernel does not report it: a limitation */
} changes[] = {
    {"nothing", nothing, false},
    {"munmap and mmap", unmapped_and_mapped, false},
    {"mmap over it", mapped_over, false},
    {"mmap of shared memory over it", shared_over, false},
    {"MADV_DONTNEED", given_back, false},
    {"MADV_DONTNEED_LOCKED", given_back_locked, false},
    {"MADV_FREE", freed, false},
    {"process_madvise", given_back_by_pidfd, false},
    {"MADV_PAGEOUT", paged_out, false},
    {"mprotect", protected, false},
    {"mlock", locked, false},
    {"other advice", advised, false},
    {"mremap away", moved_away, false},
    {"MREMAP_DONTUNMAP", moved_but_left, false},
    {"mremap to less", shrunk, false},
    {"mremap over it", moved_over, false},
    {"mremap of shared memory over it", shared_memory_moved_over, false},
    {"munmap and shmat", unmapped_and_attached, false},
    {"SHM_REMAP", attached_over, true},
    {"MADV_GUARD_INSTALL", guarded, true},
    {"fork", forked, false},
    {"clone", cloned, false},
    {"UFFDIO_MOVE", taken_by_userfaultfd, false},
};

/* --- the test --------------------------------------------------------------------------------- */

static bool is_reported(void)
{
    uint64_t addr, len;
    bool found = false;
    while (aqi_monitor_next(monitor, &addr, &len))
        found = found || (uint64_t)(uintptr_t)at - addr < len;
    return found;
}

static void replacing_a_pinned_page_is_reported(void **state)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    size = PAGES * page;
    if (aqi_monitor_open(&monitor, why, sizeof(why)) != AQ_OK) {
        print_message("skipped: %s\n", why);
        skip();
    }
    unsigned replaced = 0;
    for (unsigned i = 0; i < AQI_COUNT_OF(changes); i++) {
        area = map_here(NULL, size, MAP_PRIVATE);
        at = area + AT * page;
        memset(area, 1, size);
        assert_true(aqi_monitor_watch(monitor, (uint64_t)(uintptr_t)at, page));
        (void)is_reported();
        if (!pin(at)) {
            print_message("skipped: io_uring pins no memory here: %s\n", strerror(errno));
            if (ring.fd >= 0) unpin();
            break;
        }
        bool done = changes[i].change();
        bool reported = is_reported();
        *at = (char)(10 + i);
        bool same = pinned_byte(at) == (char)(10 + i);
        replaced += !same;
        if (!done) print_message("%s: the kernel did not do it\n", changes[i].name);
        if (!same && !reported && !changes[i].silent)
            fail_msg("%s: the page was replaced without a report", changes[i].name);
        unpin();
        munmap(area, size);
        (void)is_reported();
    }
    aqi_monitor_close(monitor);
    if (replaced == 0) skip();
    assert_true(replaced >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(replacing_a_pinned_page_is_reported)};
    aqi_monitor_check(why, sizeof(why));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
