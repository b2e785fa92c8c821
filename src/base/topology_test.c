/* Cores, memory and description of the machine on which the test runs. */
#include "base/topology.h"

#include "base/capture_test.h"
#include "base/cgroup.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static void cores_are_within_the_mask(void **state)
{
    cpu_set_t mask;
    assert_int_equal(sched_getaffinity(0, sizeof(mask), &mask), 0);
    unsigned cores = aqi_cores();
    assert_in_range(cores, 1, CPU_COUNT(&mask));
    struct aqi_cgroup_limits limits = aqi_cgroup_read("");
    if (limits.cpus <= 0)
        assert_int_equal(cores, CPU_COUNT(&mask));
    else
        assert_true(cores < limits.cpus + 1);
}

static void memory_is_plausible(void **state)
{
    uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_in_range(aqi_memory(), 1 << 20, physical);
    assert_true(aqi_memory() <= aqi_cgroup_read("").memory);
}

static void description(void **state)
{
    char whole[512], part[16];
    aqi_topology_describe(whole, sizeof(whole));
    assert_in_range(strlen(whole), 20, sizeof(whole) - 2); /* not cut off */
    assert_non_null(strstr(whole, "threads "));
    assert_null(strstr(whole, " 0")); /* "unknown" where there is no /sys */
    assert_null(strchr(whole, '\n'));
    assert_non_null(strstr(whole, "NUMA nodes "));
    aqi_topology_describe(part, sizeof(part));
    assert_memory_equal(part, whole, sizeof(part) - 1);
}

static void near_is_where_the_process_may_run(void **state)
{
    static const struct {
        const char *list;
        bool near;
    } rows[] = {
        {"0-65535", true}, {"60000,0-59999", true}, {"60000-60001", false}, {"60000,60002", false},
        {"", true},        {"all", false},
    };
    char path[] = "/tmp/aq-near-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_true(pwrite(fd, rows[i].list, strlen(rows[i].list), 0) >= 0);
        assert_int_equal(aqi_runs_near(path), rows[i].near);
    }
    close(fd);
    unlink(path);
    assert_true(aqi_runs_near(path)); /* the folder no longer exists */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_are_within_the_mask),
        cmocka_unit_test(memory_is_plausible),
        cmocka_unit_test(description),
        cmocka_unit_test(near_is_where_the_process_may_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
