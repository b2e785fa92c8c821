/* Tests mappings.c: adjacent mappings, and those of another kind. */
#include "reg/mappings.h"

#include "base/cmocka_test.h"

#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 64, SIZE = PAGES * 4096, MANY = 3000, SPACE = (2 * MANY + 2) * 4096 };

static struct reg_mapped mapped;

/* Isolated: unmapped space around it. */
static char *space(void)
{
    char *at = mmap(NULL, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    assert_int_equal(munmap(at, SPACE), 0);
    return at + 4096;
}

static char *map(char *at, size_t len, int protection, int flags, int fd)
{
    assert_true(mmap(at, len, protection, flags | MAP_FIXED, fd, 0) == at);
    return at;
}

static char *map_plain(char *at, size_t len)
{
    return map(at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static bool find(const char *from, size_t len)
{
    uint64_t at = (uintptr_t)from;
    assert_int_not_equal(reg_mappings_find(at, at + len, &mapped), 0);
    return mapped.own.to != 0;
}

static bool is(const struct reg_range *range, const char *from, const char *to)
{
    return range->from == (uintptr_t)from && range->to == (uintptr_t)to;
}

static void adjacent_mappings(void **unused)
{
    char *at = map_plain(space(), SIZE);
    assert_true(find(at + 8192, 4096));
    assert_true(is(&mapped.own, at, at + SIZE) && is(&mapped.side, at, at + SIZE));
    assert_int_equal(mprotect(at + 8192, 4096, PROT_NONE), 0);
    assert_true(find(at + 4096, 100));
    assert_true(is(&mapped.own, at, at + 8192) && is(&mapped.side, at, at + SIZE));
    assert_true(find(at + 8191, 2));
    assert_true(is(&mapped.own, at, at + 12288) && is(&mapped.side, at, at + SIZE));
    assert_true(find(at + SIZE - 1, 1));
    assert_true(is(&mapped.own, at + 12288, at + SIZE) && is(&mapped.side, at, at + SIZE));
    assert_int_equal(munmap(at + 16384, 4096), 0);
    assert_true(find(at, 4096));
    assert_true(is(&mapped.side, at, at + 16384));
    assert_true(mapped.wide.from < (uintptr_t)at && mapped.wide.to == (uintptr_t)at + 20480);
    assert_true(find(at + 20480, 4096));
    assert_true(mapped.wide.from == (uintptr_t)at + 16384 &&
                mapped.wide.to >= (uintptr_t)at + SIZE);
    assert_true(is(&mapped.own, at + 20480, at + SIZE) && is(&mapped.side, at + 20480, at + SIZE));
    assert_false(find(at + 12288, 12288)); /* across the hole */
    assert_false(find(at + SIZE, 1));
    assert_int_equal(munmap(at, SIZE), 0);
    assert_false(find(at, 1));
}

static void other_kinds(void **unused)
{
    int fd = memfd_create("mappings", MFD_CLOEXEC);
    assert_true(fd >= 0 && ftruncate(fd, SIZE) == 0);
    char *at = map_plain(space(), SIZE);
    static const struct {
        int flags;
        bool file;
    } kinds[] = {{MAP_PRIVATE, true}, {MAP_SHARED, true}, {MAP_SHARED | MAP_ANONYMOUS, false}};
    for (size_t i = 0; i < AQI_COUNT_OF(kinds); i++) {
        map(at + 8192, 4096, PROT_READ, kinds[i].flags, kinds[i].file ? fd : -1);
        assert_false(find(at + 8192, 4096));
        assert_false(find(at, SIZE));
        assert_true(find(at, 8192));
        assert_true(is(&mapped.side, at, at + 8192));
        assert_true(find(at + 12288, 4096));
        assert_true(is(&mapped.side, at + 12288, at + SIZE));
    }
    munmap(at, SIZE);
    close(fd);
    assert_false(find((const char *)getauxval(AT_SYSINFO_EHDR), 4096)); /* the kernel's own */
    assert_true(find((const char *)&at, sizeof(at)));                   /* the stack */
}

static bool completed(const char *from, const char *to, const char *whole_from,
                      const char *whole_to)
{
    struct reg_range range = {.from = (uintptr_t)from, .to = (uintptr_t)to};
    bool extended = reg_mappings_complete(&range);
    return is(&range, whole_from, whole_to) && extended == (from != whole_from || to != whole_to);
}

/* A range that ends inside of what may be one mapping. */
static void ranges_are_completed(void **unused)
{
    int fd = memfd_create("mappings", MFD_CLOEXEC);
    assert_true(fd >= 0 && ftruncate(fd, SIZE) == 0);
    char *at = map_plain(space(), SIZE), *file = at + 65536;
    map(file, 65536, PROT_READ, MAP_SHARED, fd);
    assert_true(completed(at, file, at, file));
    assert_true(completed(at + 4096, file - 4096, at, file));
    assert_true(completed(at - 4096, file, at - 4096, file));
    assert_true(completed(at, file + 4096, at, file + 65536));
    assert_true(completed(file + 4096, at + SIZE, file, at + SIZE));
    assert_int_equal(mprotect(at + 8192, 4096, PROT_NONE), 0);
    assert_int_equal(mprotect(file + 8192, 4096, PROT_NONE), 0);
    assert_true(completed(at + 12288, file + 8192, at, file + 65536));
    assert_int_equal(munmap(at + 8192, 4096), 0);
    assert_true(completed(at + 8192, file, at + 8192, file)); /* from inside the hole */
    assert_true(completed(at + 12288, file, at + 12288, file));
    assert_int_equal(munmap(file + 8192, 4096), 0);
    assert_true(completed(at, file + 4096, at, file + 8192));
    /* The same file, but not its next page. */
    assert_true(mmap(file + 8192, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == file + 8192);
    assert_true(completed(at, file + 8192, at, file + 8192));
    munmap(at, SIZE);
    close(fd);
}

static void mappings_are_counted(void **unused)
{
    uint64_t before = reg_mappings_find(0, 1, &mapped);
    char *at = map_plain(space(), (size_t)MANY * 2 * 4096);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(mprotect(at + 8192 * i, 4096, PROT_READ), 0);
    uint64_t count = reg_mappings_find((uintptr_t)at, (uintptr_t)at + 1, &mapped);
    assert_in_range(count, before + 2 * MANY - 1, before + 2 * MANY + 1);
    assert_true(is(&mapped.side, at, at + (size_t)MANY * 2 * 4096));
    munmap(at, (size_t)MANY * 2 * 4096);
    assert_in_range(reg_mappings_most(), 1024, INT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adjacent_mappings),
        cmocka_unit_test(other_kinds),
        cmocka_unit_test(ranges_are_completed),
        cmocka_unit_test(mappings_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
