/* Cores, memory, pinning and the description of the machine that runs the test. */
#include "base/topology.h"

#include "base/capture_test.h"
#include "base/cgroup.h"
#include "base/topology_hwloc.h"
#include <pthread.h>
#include <sched.h>
#include <string.h>

static void cores_are_within_the_mask(void **state)
{
    (void)state;
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
    (void)state;
    uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_in_range(aqi_memory(), 1 << 20, physical);
    assert_true(aqi_memory() <= aqi_cgroup_read("").memory);
}

static void *pin_to_each(void *arg)
{
    cpu_set_t allowed, mask;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return NULL;
    unsigned count = (unsigned)CPU_COUNT(&allowed), before = aqi_cores();
    size_t last = 0;
    for (unsigned index = 0; index < count + 1; index++) {
        if (aqi_pin(index) != AQ_OK) return NULL;
        size_t cpu = (size_t)sched_getcpu();
        if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return NULL;
        if (CPU_COUNT(&mask) != 1 || !CPU_ISSET(cpu, &mask) || !CPU_ISSET(cpu, &allowed))
            return NULL;
        /* In rising order, and then from the first again. */
        if (index > 0 && (index < count ? cpu <= last : cpu > last)) return NULL;
        last = cpu;
    }
    return aqi_cores() == before ? arg : NULL;
}

/* In a thread of its own, which takes its mask with it when it ends. */
static void pinning(void **state)
{
    (void)state;
    pthread_t thread;
    int mark;
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, pin_to_each, &mark), 0);
    pthread_join(thread, &result);
    assert_ptr_equal(result, &mark);
}

static void check_description(int (*describe)(char *buf, size_t len), const char *source)
{
    char whole[512], part[16];
    int n = describe(whole, sizeof(whole));
    assert_in_range(n, 20, sizeof(whole) - 1);
    assert_int_equal(strlen(whole), n);
    assert_non_null(strstr(whole, "threads "));
    assert_null(strstr(whole, "threads 0"));
    assert_null(strchr(whole, '\n'));
    assert_non_null(strstr(whole, source));
    assert_int_equal(describe(part, sizeof(part)), n);
    assert_memory_equal(part, whole, sizeof(part) - 1);
}

static void description(void **state)
{
    (void)state;
    char text[512];
    bool have_hwloc = aqi_topology_describe_hwloc(text, sizeof(text)) >= 0;
    check_description(aqi_topology_describe, have_hwloc ? "(hwloc)" : "(/sys)");
}

static void description_without_hwloc(void **state)
{
    (void)state;
    check_description(aqi_topology_describe_sys, "(/sys)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_are_within_the_mask),
        cmocka_unit_test(memory_is_plausible),
        cmocka_unit_test(pinning),
        cmocka_unit_test(description),
        cmocka_unit_test(description_without_hwloc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
