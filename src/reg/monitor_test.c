/* Tests monitor.c: each way to unmap memory is reported; other memory cannot be watched. */
#include "reg/monitor.h"

#include "base/cmocka_test.h"
#include "reg/mappings.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define MONITOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MONITOR_ASAN 1
#endif
#endif
#ifndef MONITOR_ASAN
#define MONITOR_ASAN 0 /* 1: freed memory stays mapped for a while */
#endif

enum { SIZE = 64 << 10, HEAP = 4 << 20, RACES = 3000 };

static struct aqi_monitor *monitor;
static char why[256];

static char *map_new(int flags, int fd)
{
    char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);
    assert_true(at != MAP_FAILED);
    memset(at, 1, SIZE);
    return at;
}

static bool watch(const void *at, size_t len)
{
    return aqi_monitor_watch(monitor, (uint64_t)(uintptr_t)at, len);
}

/* Whether a change of this byte is among the reported ones. Consumes all of them. */
static bool is_reported(const void *at)
{
    uint64_t addr, len;
    bool found = false;
    while (aqi_monitor_next(monitor, &addr, &len))
        found = found || (uint64_t)(uintptr_t)at - addr < len;
    return found;
}

static void ways_to_lose_anonymous_memory(void **unused)
{
    char *at = map_new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_true(watch(at, SIZE));
    assert_false(is_reported(at));
    assert_int_equal(madvise(at, 4096, MADV_DONTNEED), 0);
    assert_true(is_reported(at));
    assert_false(is_reported(at));
    assert_int_equal(madvise(at, 4096, MADV_FREE), 0);
    assert_true(is_reported(at));
    assert_true(mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                     0) == at);
    assert_true(is_reported(at));
    assert_false(is_reported(at + 4096));
    assert_true(watch(at, SIZE));
    char *moved = mremap(at + 8192, 8192, 16384, MREMAP_MAYMOVE);
    assert_true(moved != MAP_FAILED && moved != at + 8192);
    assert_true(is_reported(at + 8192));
    assert_int_equal(munmap(moved, 16384), 0);
    assert_int_equal(syscall(SYS_munmap, at + 32768, SIZE - 32768), 0); /* no hook sees it */
    assert_true(is_reported(at + SIZE - 1));
    assert_int_equal(munmap(at, 8192), 0);
    assert_int_equal(munmap(at + 16384, 16384), 0);
    (void)is_reported(at);
}

/* Calls inside the C library, which hooks on its functions would not see. */
static void memory_of_the_heap(void **unused)
{
    if (MONITOR_ASAN) skip();
    char *volatile at = malloc(HEAP);
    assert_non_null(at);
    memset(at, 1, HEAP);
    char *page = (char *)(((uintptr_t)at + 8191) & ~(uintptr_t)4095);
    if (!watch(page, SIZE)) fail_msg("the heap cannot be watched");
    free(at);
    assert_true(is_reported(page));
}

static void files_and_shared_memory_are_not_watched(void **unused)
{
    int fd = memfd_create("monitor", MFD_CLOEXEC);
    assert_true(fd >= 0 && ftruncate(fd, SIZE) == 0);
    const int flags[] = {MAP_SHARED, MAP_PRIVATE};
    for (size_t i = 0; i < AQI_COUNT_OF(flags); i++) {
        char *at = map_new(flags[i], fd);
        assert_false(watch(at, SIZE));
        munmap(at, SIZE);
    }
    close(fd);
    char *shared = map_new(MAP_SHARED | MAP_ANONYMOUS, -1);
    assert_false(watch(shared, SIZE));
    munmap(shared, SIZE);
    int id = shmget(IPC_PRIVATE, SIZE, 0600);
    if (id >= 0) {
        void *at = shmat(id, NULL, 0);
        (void)shmctl(id, IPC_RMID, NULL);
        assert_false(watch(at, SIZE));
        shmdt(at);
    }
    char *hole = map_new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    munmap(hole + 4096, 4096);
    assert_false(watch(hole, SIZE));
    munmap(hole, SIZE);
    (void)is_reported(hole);
}

static unsigned mappings_of(const char *at, size_t len)
{
    char line[512];
    unsigned count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        char *behind;
        uintptr_t from = strtoul(line, &behind, 16), to = strtoul(behind + 1, NULL, 16);
        count += from < (uintptr_t)at + len && to > (uintptr_t)at;
    }
    fclose(maps);
    return count;
}

/* Map memory with unmapped space around it. */
static char *map_apart(size_t len, int protection)
{
    char *at = mmap(NULL, len + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED && munmap(at, len + 8192) == 0);
    assert_true(mmap(at + 4096, len, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                at + 4096);
    return at + 4096;
}

/* So that the program's own mremap works as it would without the monitor. */
static void mappings_stay_whole(void **unused)
{
    char *at = map_apart(HEAP, PROT_READ | PROT_WRITE);
    memset(at, 1, HEAP);
    for (unsigned i = 0; i < HEAP / 8192; i++)
        assert_true(watch(at + 8192 * i, 100));
    assert_int_equal(mappings_of(at, HEAP), 1);
    assert_int_equal(mprotect(at + 8192, 4096, PROT_READ), 0);
    assert_int_equal(mprotect(at + 8192, 4096, PROT_READ | PROT_WRITE), 0);
    char *moved = mremap(at, HEAP, 2 * HEAP, MREMAP_MAYMOVE);
    assert_true(moved != MAP_FAILED);
    if (moved != at) assert_true(is_reported(at + HEAP - 1));
    munmap(moved, 2 * HEAP);
    /* Space that is made accessible piece by piece. */
    at = map_apart(HEAP, PROT_NONE);
    for (unsigned i = 0; i < HEAP; i += SIZE) {
        assert_int_equal(mprotect(at + i, SIZE, PROT_READ | PROT_WRITE), 0);
        memset(at + i, 1, SIZE);
        assert_true(watch(at + i, SIZE));
    }
    assert_int_equal(mappings_of(at, HEAP), 1);
    munmap(at, HEAP);
    (void)is_reported(at);
}

/* Other memory replaces watched memory. */
static void memory_mapped_over_it_is_watched_anew(void **unused)
{
    char *at = map_apart(HEAP, PROT_READ | PROT_WRITE);
    memset(at, 1, HEAP);
    assert_true(watch(at, HEAP));
    for (unsigned i = 0; i < 2 * HEAP; i += SIZE) {
        char *part = at + i % HEAP;
        assert_true(mmap(part, SIZE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == part);
        memset(part, 2, SIZE);
        assert_true(is_reported(part));
        assert_true(watch(part, SIZE));
        assert_int_equal(madvise(part, 4096, MADV_DONTNEED), 0);
        assert_true(is_reported(part));
    }
    assert_true(watch(at, HEAP)); /* many mappings now */
    assert_true(mmap(at + SIZE, SIZE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                at + SIZE);
    assert_true(is_reported(at + SIZE));
    assert_false(watch(at, HEAP));
    assert_false(watch(at + SIZE, 1));
    assert_true(watch(at + 2 * SIZE, SIZE));
    munmap(at, HEAP);
    assert_true(is_reported(at + HEAP - 1));
}

/* The kernel does not report this, but it is detected before memory there is pinned again. */
static void sysv_memory_attached_over_it_is_not_watched(void **unused)
{
    int id = shmget(IPC_PRIVATE, SIZE, 0600);
    if (id < 0) skip();
    char *at = map_apart(HEAP, PROT_READ | PROT_WRITE);
    assert_true(watch(at, HEAP));
    assert_true(shmat(id, at + SIZE, SHM_REMAP) == at + SIZE);
    (void)shmctl(id, IPC_RMID, NULL);
    assert_false(watch(at + SIZE, 4096));
    assert_false(watch(at, HEAP));
    assert_true(watch(at, SIZE));
    assert_int_equal(shmdt(at + SIZE), 0);
    munmap(at, HEAP);
    (void)is_reported(at);
}

/* Bytes that this process has read so far, mainly from /proc/self/maps. */
static uint64_t bytes_read(void)
{
    unsigned long long bytes = 0;
    FILE *io = fopen("/proc/self/io", "r");
    if (io == NULL || fscanf(io, "rchar: %llu", &bytes) != 1) bytes = 0;
    if (io != NULL) fclose(io);
    return bytes;
}

static void a_mapping_is_looked_for_once(void **unused)
{
    enum { PAGES = 4000 };
    char *at = map_apart(PAGES * 8192, PROT_READ | PROT_WRITE);
    uint64_t before = bytes_read();
    if (before == 0) skip();
    for (size_t i = 0; i < PAGES; i++)
        assert_true(watch(at + i * 8192, 8));
    assert_in_range(bytes_read() - before, 0, 256 << 10);
    munmap(at, PAGES * 8192);
    (void)is_reported(at);
}

/* Each of these needs a search, but the lines read for each are limited. */
static void many_mappings_cost_no_more_each(void **unused)
{
    enum { PAGES = 4000, LINE = 100, SAVED = 65536, EACH = 256 };
    char *at = map_apart(PAGES * 8192, PROT_NONE);
    unsigned watched = 0;
    struct aqi_monitor *other;
    assert_int_equal(aqi_monitor_open(&other, why, sizeof(why)), AQ_OK);
    for (size_t i = 0; i < PAGES; i++) /* each isolated */
        assert_int_equal(munmap(at + i * 8192 + 4096, 4096), 0);
    uint64_t before = bytes_read();
    for (size_t i = 0; i < PAGES; i++)
        watched += aqi_monitor_watch(other, (uint64_t)(uintptr_t)(at + i * 8192), 8);
    if (before == 0) skip();
    assert_in_range(watched, 8, PAGES - 1);
    assert_in_range(bytes_read() - before, 0, (SAVED + PAGES * EACH) * LINE);
    munmap(at, PAGES * 8192);
    aqi_monitor_close(other);
}

/* The program keeps most of vm.max_map_count. */
static void mappings_are_bounded(void **unused)
{
    size_t most = reg_mappings_most();
    if (most > 1 << 20) skip();
    char *at = map_apart(most * 4096, PROT_NONE), *more = map_apart(SIZE, PROT_READ | PROT_WRITE);
    struct aqi_monitor *other;
    assert_int_equal(aqi_monitor_open(&other, why, sizeof(why)), AQ_OK);
    assert_true(aqi_monitor_watch(other, (uint64_t)(uintptr_t)more, 4096));
    munmap(more, SIZE);
    for (size_t i = 0; i < most / 4; i += 2)
        assert_int_equal(mprotect(at + i * 4096, 4096, PROT_READ), 0);
    more = map_apart(SIZE, PROT_READ | PROT_WRITE);
    assert_false(aqi_monitor_watch(other, (uint64_t)(uintptr_t)more, 4096));
    munmap(at, most * 4096);
    assert_true(aqi_monitor_watch(other, (uint64_t)(uintptr_t)more, 4096));
    munmap(more, SIZE);
    aqi_monitor_close(other);
}

/* Memory that no transfer has touched may change any number of times. */
static void only_touched_memory_is_reported(void **unused)
{
    struct aqi_monitor *other;
    uint64_t addr, len;
    char *at = map_apart(HEAP, PROT_READ | PROT_WRITE), *end = at + HEAP - 4096;
    assert_int_equal(aqi_monitor_open(&other, why, sizeof(why)), AQ_OK);
    assert_true(aqi_monitor_watch(other, (uint64_t)(uintptr_t)end, 4096));
    for (unsigned i = 0; i < HEAP / 4; i += 4096)
        assert_int_equal(madvise(at + i, 4096, MADV_DONTNEED), 0);
    assert_false(aqi_monitor_next(other, &addr, &len));
    assert_int_equal(madvise(at, HEAP, MADV_DONTNEED), 0);
    assert_true(aqi_monitor_next(other, &addr, &len));
    assert_int_equal(addr, (uintptr_t)at);
    assert_int_equal(len, HEAP);
    munmap(at, HEAP);
    aqi_monitor_close(other);
}

/* Whatever is adjacent, including the stack of the monitor's thread. */
static void it_is_closed_though_its_own_stack_is_watched(void **unused)
{
    struct aqi_monitor *other;
    char line[512];
    uintptr_t ranges[128][2];
    unsigned count = 0;
    char *at = map_new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_int_equal(aqi_monitor_open(&other, why, sizeof(why)), AQ_OK);
    /*
     * Returns once the monitor's thread waits for events. In a thread's first wait, the thread
     * sanitizer maps memory of its own again; if that were watched, the thread would wait for
     * itself.
     */
    assert_true(aqi_monitor_watch(other, (uint64_t)(uintptr_t)at, SIZE));
    assert_int_equal(munmap(at, SIZE), 0);
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (count < AQI_COUNT_OF(ranges) && fgets(line, sizeof(line), maps) != NULL) {
        char *behind;
        ranges[count][0] = strtoul(line, &behind, 16);
        ranges[count++][1] = strtoul(behind + 1, NULL, 16);
    }
    fclose(maps);
    for (unsigned i = 0; i < count; i++)
        (void)aqi_monitor_watch(other, ranges[i][0], ranges[i][1] - ranges[i][0]);
    assert_true(aqi_monitor_watch(other, (uint64_t)(uintptr_t)line, sizeof(line)));
    aqi_monitor_close(other); /* returns */
}

static void pending_changes_are_seen(void **unused)
{
    char *at = map_new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_true(aqi_monitor_check(why, sizeof(why)));
    assert_true(watch(at, SIZE));
    (void)is_reported(at);
    assert_false(aqi_monitor_has_changes(monitor));
    assert_int_equal(munmap(at, SIZE), 0);
    assert_true(aqi_monitor_has_changes(monitor));
    assert_true(is_reported(at));
    assert_false(aqi_monitor_has_changes(monitor));
}

/* A child's memory is not watched, and it does not wait for the monitor. */
static void a_child_changes_nothing(void **unused)
{
    char *at = map_new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_true(watch(at, SIZE));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(munmap(at, SIZE) != 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_false(is_reported(at));
    munmap(at, SIZE);
    assert_true(is_reported(at));
}

/* It inherits the descriptor, through which the kernel would wait for a reader. */
static void a_child_that_stays_does_not_listen(void **unused)
{
    struct aqi_monitor *other;
    int ends[2], status;
    char *at = map_new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_int_equal(aqi_monitor_open(&other, why, sizeof(why)), AQ_OK);
    assert_true(aqi_monitor_watch(other, (uint64_t)(uintptr_t)at, SIZE));
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[1]);
        _exit(read(ends[0], &status, 1) != 0);
    }
    close(ends[0]);
    aqi_monitor_close(other);
    assert_int_equal(munmap(at, SIZE), 0); /* returns */
    close(ends[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* A child made without the C library, which therefore has a copy of the descriptor. */
static void a_child_of_a_system_call_does_not_listen(void **unused)
{
    struct aqi_monitor *other;
    int ends[2], status;
    char *at = map_new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    char *moves = map_new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_int_equal(aqi_monitor_open(&other, why, sizeof(why)), AQ_OK);
    assert_true(aqi_monitor_watch(other, (uint64_t)(uintptr_t)at, SIZE));
    assert_true(aqi_monitor_watch(other, (uint64_t)(uintptr_t)moves, SIZE));
    void *moved = mremap(moves, SIZE, 1 << 20, MREMAP_MAYMOVE);
    assert_true(moved != MAP_FAILED);
    assert_int_equal(pipe(ends), 0);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    assert_true(child >= 0);
    if (child == 0) {
        syscall(SYS_close, ends[1]);
        syscall(SYS_exit_group, syscall(SYS_read, ends[0], &status, 1) != 0);
    }
    close(ends[0]);
    aqi_monitor_close(other); /* returns, as do these */
    assert_int_equal(munmap(at, SIZE), 0);
    assert_int_equal(munmap(moved, 1 << 20), 0);
    close(ends[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void too_many_changes_become_one(void **unused)
{
    char *at = mmap(NULL, 1000 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED && watch(at, 1000 * 4096));
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(madvise(at + 4096 * i, 4096, MADV_DONTNEED), 0);
    assert_true(is_reported(at));
    assert_false(is_reported(at));
    munmap(at, 1000 * 4096);
    (void)is_reported(at);
}

static atomic_uint turn;
static char *place;

/* A thread that waits for one without a core yields its own after a while. */
static void wait_a_little(unsigned *tries)
{
    if (++*tries % 64 == 0)
        (void)sched_yield();
    else
        aqi_pause();
}

static void *unmap_again_and_again(void *unused)
{
    for (unsigned i = 0, tries = 0; i < RACES; i++) {
        while (atomic_load(&turn) != 2 * i + 1)
            wait_a_little(&tries);
        munmap(place, SIZE);
    }
    return NULL;
}

/* Memory that another thread is unmapping is mapped again: the old one must be reported. */
static void changes_are_reported_before_reuse(void **unused)
{
    pthread_t thread;
    place = map_new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    atomic_store(&turn, 0);
    assert_int_equal(pthread_create(&thread, NULL, unmap_again_and_again, NULL), 0);
    unsigned missed = 0, tries = 0;
    for (unsigned i = 0; i < RACES; i++) {
        assert_true(watch(place, SIZE));
        (void)is_reported(place);
        atomic_store(&turn, 2 * i + 1);
        while (mmap(place, SIZE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != place)
            wait_a_little(&tries);
        missed += !is_reported(place);
        atomic_store(&turn, 2 * i + 2);
    }
    pthread_join(thread, NULL);
    munmap(place, SIZE);
    (void)is_reported(place);
    assert_int_equal(missed, 0);
}

/* Make the change once in each race. */
static void *race_again_and_again(void *change)
{
    atomic_store(&turn, 0);
    for (unsigned i = 0, tries = 0; i < RACES; i++) {
        while (atomic_load(&turn) != 2 * i + 1)
            wait_a_little(&tries);
        for (unsigned wait = 0; wait < i % 64 * 16; wait++)
            atomic_load(&turn);
        (*(void (*const *)(void))change)();
        atomic_store(&turn, 2 * i + 2);
    }
    return NULL;
}

static void unmap_and_notify(char *at, size_t len)
{
    assert_int_equal(munmap(at, len), 0);
    (void)is_reported(at);
}

/*
 * How many times the memory at `at` consists of several mappings after `change` has run while
 * memory became watched that is followed by a hole and by other memory.
 */
static unsigned count_splits(void (*change)(void), size_t hole, size_t at, size_t len)
{
    pthread_t thread;
    unsigned split = 0, tries = 0;
    atomic_store(&turn, UINT_MAX);
    assert_int_equal(pthread_create(&thread, NULL, race_again_and_again, &change), 0);
    /* A new thread maps memory for itself, which must not be in the hole. */
    while (atomic_load(&turn) != 0)
        wait_a_little(&tries);
    for (unsigned i = 0; i < RACES; i++) {
        place = map_apart(SIZE + hole + SIZE, PROT_READ | PROT_WRITE);
        assert_true(hole == 0 || munmap(place + SIZE, hole) == 0);
        assert_true(mmap(place + SIZE + hole, SIZE, PROT_READ,
                         MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == place + SIZE + hole);
        atomic_store(&turn, 2 * i + 1);
        (void)watch(place, 4096);
        while (atomic_load(&turn) != 2 * i + 2)
            wait_a_little(&tries);
        (void)is_reported(place);
        char *moved = mremap(place + at, len, 2 * len, MREMAP_MAYMOVE);
        split += moved == MAP_FAILED;
        if (moved != MAP_FAILED) unmap_and_notify(moved, 2 * len);
        unmap_and_notify(place, SIZE + hole + SIZE);
    }
    pthread_join(thread, NULL);
    return split;
}

/* A mapping is extended over the place of its neighbor. */
static void grow(void)
{
    munmap(place + SIZE, SIZE);
    if (mremap(place, SIZE, 2 * SIZE, 0) != place) munmap(place, SIZE);
}

static void mappings_that_grow_meanwhile_stay_whole(void **unused)
{
    assert_int_equal(count_splits(grow, 0, 0, 2 * SIZE), 0);
}

/* The neighbor is replaced by memory that extends into the hole before it. */
static void replace(void)
{
    munmap(place + 2 * SIZE, SIZE);
    assert_true(mmap(place + SIZE + 4096, 2 * SIZE - 4096, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == place + SIZE + 4096);
}

static void mappings_replaced_meanwhile_stay_whole(void **unused)
{
    assert_int_equal(count_splits(replace, SIZE, SIZE + 4096, 2 * SIZE - 4096), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_to_lose_anonymous_memory),
        cmocka_unit_test(memory_of_the_heap),
        cmocka_unit_test(files_and_shared_memory_are_not_watched),
        cmocka_unit_test(mappings_stay_whole),
        cmocka_unit_test(memory_mapped_over_it_is_watched_anew),
        cmocka_unit_test(sysv_memory_attached_over_it_is_not_watched),
        cmocka_unit_test(a_mapping_is_looked_for_once),
        cmocka_unit_test(many_mappings_cost_no_more_each),
        cmocka_unit_test(mappings_are_bounded),
        cmocka_unit_test(only_touched_memory_is_reported),
        cmocka_unit_test(it_is_closed_though_its_own_stack_is_watched),
        cmocka_unit_test(pending_changes_are_seen),
        cmocka_unit_test(a_child_changes_nothing),
        cmocka_unit_test(a_child_that_stays_does_not_listen),
        cmocka_unit_test(a_child_of_a_system_call_does_not_listen),
        cmocka_unit_test(too_many_changes_become_one),
        cmocka_unit_test(changes_are_reported_before_reuse),
        cmocka_unit_test(mappings_that_grow_meanwhile_stay_whole),
        cmocka_unit_test(mappings_replaced_meanwhile_stay_whole),
    };
    if (aqi_monitor_open(&monitor, why, sizeof(why)) != AQ_OK) {
        printf("skipped: %s\n", why);
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    aqi_monitor_close(monitor);
    return failed;
}
