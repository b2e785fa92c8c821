/* Twin of monitor.c: every way by which memory goes is told, and what cannot be is not watched. */
#include "reg/monitor.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define MONITOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MONITOR_ASAN 1
#endif
#endif
#ifndef MONITOR_ASAN
#define MONITOR_ASAN 0 /* 1: what is freed stays mapped for a while */
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

/* Is a change of this byte among those that are told now? Takes all of them. */
static bool told(const void *at)
{
    uint64_t addr, len;
    bool found = false;
    while (aqi_monitor_next(monitor, &addr, &len))
        found = found || (uint64_t)(uintptr_t)at - addr < len;
    return found;
}

static void ways_to_lose_anonymous_memory(void **unused)
{
    (void)unused;
    char *at = map_new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_true(watch(at, SIZE));
    assert_false(told(at));
    assert_int_equal(madvise(at, 4096, MADV_DONTNEED), 0);
    assert_true(told(at));
    assert_false(told(at));
    assert_int_equal(madvise(at, 4096, MADV_FREE), 0);
    assert_true(told(at));
    assert_true(mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                     0) == at);
    assert_true(told(at));
    assert_false(told(at + 4096));
    char *moved = mremap(at + 8192, 8192, 16384, MREMAP_MAYMOVE);
    assert_true(moved != MAP_FAILED && moved != at + 8192);
    assert_true(told(at + 8192));
    assert_int_equal(munmap(moved, 16384), 0);
    assert_int_equal(syscall(SYS_munmap, at + 32768, SIZE - 32768), 0); /* past the C library */
    assert_true(told(at + SIZE - 1));
    assert_int_equal(munmap(at, 8192), 0);
    assert_int_equal(munmap(at + 16384, 16384), 0);
    (void)told(at);
}

/* Calls that the C library makes inside itself, which no hook on its functions sees. */
static void memory_of_the_heap(void **unused)
{
    (void)unused;
    if (MONITOR_ASAN) skip();
    char *volatile at = malloc(HEAP);
    assert_non_null(at);
    memset(at, 1, HEAP);
    char *page = (char *)(((uintptr_t)at + 8191) & ~(uintptr_t)4095);
    if (!watch(page, SIZE)) fail_msg("the heap cannot be watched");
    free(at);
    assert_true(told(page));
}

static void files_and_shared_memory_are_not_watched(void **unused)
{
    (void)unused;
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
    (void)told(hole);
}

static void what_waits_is_told_cheaply(void **unused)
{
    (void)unused;
    char *at = map_new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_true(aqi_monitor_check(why, sizeof(why)));
    assert_true(watch(at, SIZE));
    (void)told(at);
    assert_false(aqi_monitor_told(monitor));
    assert_int_equal(munmap(at, SIZE), 0);
    assert_true(aqi_monitor_told(monitor));
    assert_true(told(at));
    assert_false(aqi_monitor_told(monitor));
}

/* A child's memory is none of ours, and it does not wait for anybody. */
static void a_child_changes_nothing(void **unused)
{
    (void)unused;
    char *at = map_new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_true(watch(at, SIZE));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(munmap(at, SIZE) != 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_false(told(at));
    munmap(at, SIZE);
    assert_true(told(at));
}

/* It inherits the descriptor, by which the kernel would wait for somebody to listen. */
static void a_child_that_stays_does_not_listen(void **unused)
{
    (void)unused;
    struct aqi_monitor *other;
    int ends[2], status;
    char *at = map_new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_int_equal(aqi_monitor_open(true, &other, why, sizeof(why)), AQ_OK);
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
    assert_int_equal(munmap(at, SIZE), 0); /* comes back */
    close(ends[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void more_than_can_be_kept_is_all(void **unused)
{
    (void)unused;
    char *at = mmap(NULL, 1000 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED && watch(at, 1000 * 4096));
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(madvise(at + 4096 * i, 4096, MADV_DONTNEED), 0);
    assert_true(told(at));
    assert_false(told(at));
    munmap(at, 1000 * 4096);
    (void)told(at);
}

static atomic_uint turn;
static char *place;

/* Who waits for a thread that has no core gives it his after a while. */
static void wait_a_little(unsigned *tries)
{
    if (++*tries % 64 == 0)
        (void)sched_yield();
    else
        aqi_pause();
}

static void *unmap_again_and_again(void *unused)
{
    (void)unused;
    for (unsigned i = 0, tries = 0; i < RACES; i++) {
        while (atomic_load(&turn) != 2 * i + 1)
            wait_a_little(&tries);
        munmap(place, SIZE);
    }
    return NULL;
}

/* Memory that another thread is just giving back is mapped anew: what was there must be told. */
static void the_next_user_hears_of_it(void **unused)
{
    (void)unused;
    pthread_t thread;
    place = map_new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    atomic_store(&turn, 0);
    assert_int_equal(pthread_create(&thread, NULL, unmap_again_and_again, NULL), 0);
    unsigned missed = 0, tries = 0;
    for (unsigned i = 0; i < RACES; i++) {
        assert_true(watch(place, SIZE));
        (void)told(place);
        atomic_store(&turn, 2 * i + 1);
        while (mmap(place, SIZE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != place)
            wait_a_little(&tries);
        missed += !told(place);
        atomic_store(&turn, 2 * i + 2);
    }
    pthread_join(thread, NULL);
    munmap(place, SIZE);
    (void)told(place);
    assert_int_equal(missed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_to_lose_anonymous_memory),
        cmocka_unit_test(memory_of_the_heap),
        cmocka_unit_test(files_and_shared_memory_are_not_watched),
        cmocka_unit_test(what_waits_is_told_cheaply),
        cmocka_unit_test(a_child_changes_nothing),
        cmocka_unit_test(a_child_that_stays_does_not_listen),
        cmocka_unit_test(more_than_can_be_kept_is_all),
        cmocka_unit_test(the_next_user_hears_of_it),
    };
    if (aqi_monitor_open(true, &monitor, why, sizeof(why)) != AQ_OK) {
        printf("skipped: %s\n", why);
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    aqi_monitor_close(monitor);
    return failed;
}
