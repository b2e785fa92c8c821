/* Control groups of both versions, read from folders that the test creates. */
#include "base/cgroup.h"

#include "base/capture_test.h"
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[64];

/* Write a file below the root, with the folders that it needs. */
static void put_file(const char *path, const char *text)
{
    char name[512];
    snprintf(name, sizeof(name), "%s%s", root, path);
    for (char *slash = strchr(name + strlen(root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(name, 0700);
        *slash = '/';
    }
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_root(void **state)
{
    strcpy(root, "/tmp/aq-cgroup-test-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    return remove(path);
}

static int remove_root(void **state)
{
    return nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void expect(double cpus, uint64_t memory)
{
    struct aqi_cgroup_limits limits = aqi_cgroup_read(root);
    assert_true(limits.cpus > cpus - 1e-9 && limits.cpus < cpus + 1e-9);
    assert_true(limits.memory == memory);
}

static void nothing_there(void **state)
{
    expect(0, UINT64_MAX);
    put_file("/proc/self/cgroup", "0::/a/b\n");
    expect(0, UINT64_MAX);
}

static void version_2_takes_the_least_on_the_way_up(void **state)
{
    put_file("/proc/self/cgroup", "0::/a/b\n");
    put_file("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put_file("/sys/fs/cgroup/a/b/memory.max", "max\n");
    expect(0, UINT64_MAX);
    put_file("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    put_file("/sys/fs/cgroup/a/memory.max", "1073741824\n");
    expect(2.5, 1073741824);
    put_file("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
    put_file("/sys/fs/cgroup/a/b/memory.max", "4096\n");
    expect(2.5, 4096);
}

/* In a container the path may be that of the host; then the mount itself is used. */
static void version_2_falls_back_to_the_root(void **state)
{
    put_file("/proc/self/cgroup", "0::/docker/0123456789ab\n");
    put_file("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    put_file("/sys/fs/cgroup/memory.max", "8192\n");
    expect(0.5, 8192);
}

static void version_1_controllers_have_their_own_paths(void **state)
{
    put_file("/proc/self/cgroup", "9:name=systemd:/s\n4:memory:/m\n1:cpu,cpuacct:/c/d\n0::/u\n");
    put_file("/sys/fs/cgroup/cpu,cpuacct/c/d/cpu.cfs_quota_us", "-1\n");
    put_file("/sys/fs/cgroup/cpu,cpuacct/c/d/cpu.cfs_period_us", "100000\n");
    put_file("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "150000\n");
    put_file("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "50000\n");
    put_file("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "12288\n");
    put_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    expect(3, 12288);
}

/* The count is that of the process's own group, not of those above it. */
static void kills_are_counted(void **state)
{
    put_file("/proc/self/cgroup", "0::/a/b\n");
    assert_int_equal(aqi_cgroup_read(root).kills, 0);
    put_file("/sys/fs/cgroup/a/memory.events", "low 0\noom 9\noom_kill 9\n");
    put_file("/sys/fs/cgroup/a/b/memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 1\n");
    assert_int_equal(aqi_cgroup_read(root).kills, 3);
    put_file("/proc/self/cgroup", "4:memory:/m\n");
    put_file("/sys/fs/cgroup/memory/m/memory.oom_control", "under_oom 0\noom_kill 7\n");
    assert_int_equal(aqi_cgroup_read(root).kills, 7);
}

static void malformed_files_set_no_limit(void **state)
{
    put_file("/proc/self/cgroup", "nonsense\n0:\n0::\n::::\n0::/a\n");
    put_file("/sys/fs/cgroup/a/cpu.max", "100000\n");
    put_file("/sys/fs/cgroup/a/memory.max", "\n");
    expect(0, UINT64_MAX);
    put_file("/sys/fs/cgroup/a/cpu.max", "100000 0\n");
    expect(0, UINT64_MAX);
    put_file("/sys/fs/cgroup/a/cpu.max", "-5 100000\n");
    expect(0, UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_there, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_2_takes_the_least_on_the_way_up, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(version_2_falls_back_to_the_root, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_1_controllers_have_their_own_paths, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(kills_are_counted, make_root, remove_root),
        cmocka_unit_test_setup_teardown(malformed_files_set_no_limit, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
