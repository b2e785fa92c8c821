/* Tests progress.c: when hosts that have not answered are reported, and how. */
#include "progress.h"

#include "base/capture_test.h"
#include <stdio.h>
#include <string.h>

#define SECOND 1000000000ull
#define HOSTS  16u

static bool here[HOSTS], long_names;

static bool is_here(uint32_t host)
{
    return here[host];
}

static const char *name_of(uint32_t host)
{
    static char name[200];
    if (long_names) memset(name, 'x', 150);
    snprintf(name + (long_names ? 150 : 0), 40, "n%u", host);
    return name;
}

static void lists_missing_hosts(void **state)
{
    const struct progress_hosts hosts = {HOSTS, is_here, name_of};
    struct progress progress = {.began_ns = 100 * SECOND};
    char line[PROGRESS_LINE];
    uint64_t next;
    memset(here, true, sizeof(here));
    here[7] = here[12] = false;
    assert_false(progress_line(&progress, &hosts, 100 * SECOND, line, &next));
    assert_true(next == 102 * SECOND);
    assert_false(progress_line(&progress, &hosts, next - 1, line, &next));
    assert_true(progress_line(&progress, &hosts, next, line, &next));
    assert_string_equal(line, "14 of 16 hosts have answered; waiting for n7, n12");
    assert_true(next == 105 * SECOND);
    assert_false(progress_line(&progress, &hosts, next - 1, line, &next));
    here[7] = true;
    assert_true(progress_line(&progress, &hosts, 107 * SECOND, line, &next));
    assert_string_equal(line, "15 of 16 hosts have answered; waiting for n12");
    assert_true(next == 112 * SECOND);
    here[12] = true;
    assert_false(progress_line(&progress, &hosts, 200 * SECOND, line, &next));
    assert_true(next == UINT64_MAX);
}

static void lists_some_names(void **state)
{
    const struct progress_hosts hosts = {HOSTS, is_here, name_of};
    struct progress progress = {.began_ns = 0};
    char line[PROGRESS_LINE];
    uint64_t next;
    memset(here, false, sizeof(here));
    assert_true(progress_line(&progress, &hosts, 2 * SECOND, line, &next));
    assert_string_equal(line, "0 of 16 hosts have answered; waiting for n0, n1, n2, n3, n4, n5, "
                              "n6, n7 and 8 more");
    long_names = true; /* they are truncated */
    assert_true(progress_line(&progress, &hosts, 10 * SECOND, line, &next));
    assert_true(strlen(line) < PROGRESS_LINE);
    assert_non_null(strstr(line, " and 8 more"));
    long_names = false;
}

/* A slow start does not flood the screen. */
static void prints_few_lines(void **state)
{
    const struct progress_hosts hosts = {HOSTS, is_here, name_of};
    struct progress progress = {.began_ns = 0};
    char line[PROGRESS_LINE];
    unsigned lines = 0;
    uint64_t next = 0;
    memset(here, false, sizeof(here));
    for (uint64_t now = 0; now < 600 * SECOND; now = next)
        lines += progress_line(&progress, &hosts, now, line, &next);
    assert_true(lines >= 10 && lines <= 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_missing_hosts),
        cmocka_unit_test(lists_some_names),
        cmocka_unit_test(prints_few_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
