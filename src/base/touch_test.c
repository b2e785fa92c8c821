/*
 * Touching memory: the signal is raised at the page that cannot be accessed, for each such page and
 * no other, and a handler that makes it accessible suffices. Copying it raises none.
 */
#include "base/touch.h"

#include "base/cmocka_test.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 5 };

static struct {
    unsigned char *at;
    size_t page;
    volatile unsigned faults[PAGES]; /* by page */
    volatile unsigned outside;
    int rights; /* that the handler gives */
} area;

static void on_fault(int number, siginfo_t *info, void *context)
{
    uintptr_t offset = (uintptr_t)info->si_addr - (uintptr_t)area.at;
    if (offset >= PAGES * area.page) {
        area.outside++;
        _exit(1);
    }
    area.faults[offset / area.page]++;
    (void)mprotect(area.at + offset / area.page * area.page, area.page, area.rights);
}

static int set_up(void **state)
{
    memset(&area, 0, sizeof(area));
    area.page = (size_t)sysconf(_SC_PAGESIZE);
    area.at =
        mmap(NULL, PAGES * area.page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(area.at != MAP_FAILED);
    for (size_t i = 0; i < PAGES * area.page; i++)
        area.at[i] = (unsigned char)(i * 7 + 3);
    return 0;
}

/* Installed by the test itself: until it runs, cmocka's handler is active. */
static void protect(int rights)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
    assert_int_equal(mprotect(area.at, PAGES * area.page, rights), 0);
}

static int tear_down(void **state)
{
    return munmap(area.at, PAGES * area.page);
}

static void assert_faults(const unsigned faults[PAGES])
{
    for (unsigned i = 0; i < PAGES; i++)
        assert_int_equal(area.faults[i], faults[i]);
    assert_int_equal(mprotect(area.at, PAGES * area.page, PROT_READ), 0);
    for (size_t i = 0; i < PAGES * area.page; i++)
        assert_int_equal(area.at[i], (unsigned char)(i * 7 + 3));
}

static void each_page_is_read_once(void **state)
{
    area.rights = PROT_READ;
    protect(PROT_NONE);
    aqi_touch_read(area.at + 2 * area.page - 1, 1);
    aqi_touch_read(area.at + 3 * area.page - 1, 2); /* one byte in each of two pages */
    aqi_touch_read(area.at + area.page, 3 * area.page);
    assert_faults((const unsigned[PAGES]){0, 1, 1, 1, 0});
}

static void each_page_is_written_once(void **state)
{
    area.rights = PROT_READ | PROT_WRITE;
    protect(PROT_READ);
    aqi_touch_read(area.at, PAGES * area.page);
    assert_int_equal(area.faults[0], 0);
    aqi_touch_write(area.at + area.page - 3, 3);
    aqi_touch_write(area.at + 2 * area.page + 5, 2 * area.page);
    assert_faults((const unsigned[PAGES]){1, 0, 1, 1, 1});
}

static void copying_raises_no_signal(void **state)
{
    static unsigned char copy[PAGES << 16];
    size_t all = PAGES * area.page;
    assert_true(all <= sizeof(copy));
    protect(PROT_READ | PROT_WRITE);
    if (!aqi_touch_copy(copy, area.at, 1) && (errno == ENOSYS || errno == EPERM)) {
        print_message("skipped: process_vm_readv: %s\n", strerror(errno));
        skip(); /* emulated, or filtered: then the copy always fails */
    }
    assert_true(aqi_touch_copy(copy, area.at + 1, all - 1));
    assert_memory_equal(copy, area.at + 1, all - 1);
    assert_int_equal(mprotect(area.at + 2 * area.page, area.page, PROT_NONE), 0);
    assert_false(aqi_touch_copy(copy, area.at, all));
    assert_false(aqi_touch_copy(copy, area.at + 2 * area.page, 1));
    assert_true(aqi_touch_copy(copy, area.at + area.page, area.page));
    assert_false(aqi_touch_copy(copy, area.at + area.page, area.page + 1));
    assert_faults((const unsigned[PAGES]){0, 0, 0, 0, 0});
}

static void nothing_is_touched_of_nothing(void **state)
{
    aqi_touch_read(NULL, 0);
    aqi_touch_write(NULL, 0);
    assert_int_equal(area.outside, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_page_is_read_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_page_is_written_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(copying_raises_no_signal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_touched_of_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
