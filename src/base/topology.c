/* The cores and memory that this process may use, and a description of the machine. */
#include "base/topology.h"

#include "base/cgroup.h"
#include "base/fail.h"
#include "base/line.h"
#include <errno.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOPOLOGY_CPUS_MAX 65536 /* limit of the search for a large enough mask */
#define TOPOLOGY_SYS_CPU  "/sys/devices/system/cpu"

/* Read at the first call, so that pinning a thread later does not reduce it. */
static pthread_once_t topology_once = PTHREAD_ONCE_INIT;
static unsigned topology_cpu_count; /* of the affinity mask */
static struct aqi_cgroup_limits topology_limits;

cpu_set_t *aqi_allowed_cpus(size_t *bytes)
{
    /* The kernel rejects masks shorter than its own, which may be longer than cpu_set_t. */
    for (int cpus = CPU_SETSIZE; cpus <= TOPOLOGY_CPUS_MAX; cpus *= 2) {
        cpu_set_t *mask = CPU_ALLOC((size_t)cpus);
        if (mask == NULL) return NULL;
        *bytes = CPU_ALLOC_SIZE((size_t)cpus);
        if (sched_getaffinity(0, *bytes, mask) == 0) return mask;
        int err = errno;
        CPU_FREE(mask);
        errno = err;
        if (err != EINVAL) break;
    }
    return NULL;
}

static void topology_setup(void)
{
    size_t bytes;
    cpu_set_t *mask = aqi_allowed_cpus(&bytes);
    if (mask != NULL) topology_cpu_count = (unsigned)CPU_COUNT_S(bytes, mask);
    CPU_FREE(mask);
    topology_limits = aqi_cgroup_read("");
}

unsigned aqi_cores(void)
{
    pthread_once(&topology_once, topology_setup);
    size_t cores = topology_cpu_count;
    if (cores == 0) cores = (size_t)aqi_max((size_t)sysconf(_SC_NPROCESSORS_ONLN), 1);
    /* A fraction of a core still counts as one. */
    if (topology_limits.cpus > 0 && topology_limits.cpus < (double)cores) {
        size_t whole = (size_t)topology_limits.cpus;
        cores = whole + ((double)whole < topology_limits.cpus);
    }
    return (unsigned)cores;
}

uint64_t aqi_memory(void)
{
    pthread_once(&topology_once, topology_setup);
    uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return topology_limits.memory < physical ? topology_limits.memory : physical;
}

/* Whether the mask contains a processor of a list such as "0-15,32". */
static bool topology_meets(const char *list, const cpu_set_t *mask, size_t bytes)
{
    for (char *end; *list != '\0'; list = end + strspn(end, ",")) {
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (end == list) return false;
        if (*end == '-') last = strtoul(end + 1, &end, 10);
        for (size_t cpu = first; cpu <= last && cpu < 8 * bytes; cpu++)
            if (CPU_ISSET_S(cpu, bytes, mask)) return true;
    }
    return false;
}

bool aqi_runs_near(const char *path)
{
    char list[1024];
    size_t bytes;
    if (!aqi_line_read(path, list, sizeof(list)) || list[0] == '\0') return true;
    cpu_set_t *mask = aqi_allowed_cpus(&bytes);
    bool near = mask == NULL || topology_meets(list, mask, bytes);
    CPU_FREE(mask);
    return near;
}

static bool topology_read_cpu(unsigned cpu, const char *file, char *text, size_t len)
{
    char path[128];
    snprintf(path, sizeof(path), TOPOLOGY_SYS_CPU "/cpu%u/%s", cpu, file);
    return aqi_line_read(path, text, len);
}

unsigned aqi_core_of(unsigned cpu)
{
    char list[32];
    bool read = topology_read_cpu(cpu, "topology/thread_siblings_list", list, sizeof(list));
    return read ? (unsigned)strtoul(list, NULL, 10) : cpu;
}

static unsigned topology_count_files(const char *pattern)
{
    glob_t found;
    bool any = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
    unsigned count = any ? (unsigned)found.gl_pathc : 0;
    globfree(&found);
    return count;
}

/*
 * Count the threads that are the first of their core or package, by a list such as "0,64" or
 * "0-31", which begins with the first one's number.
 */
static unsigned topology_count_first(unsigned threads, const char *file)
{
    unsigned count = 0;
    for (unsigned cpu = 0; cpu < threads; cpu++) {
        char list[32];
        if (topology_read_cpu(cpu, file, list, sizeof(list)))
            count += strtoul(list, NULL, 10) == cpu;
    }
    return count;
}

static bool topology_read_cache(unsigned index, const char *file, char *text, size_t len)
{
    char path[64];
    snprintf(path, sizeof(path), "cache/index%u/%s", index, file);
    return topology_read_cpu(0, path, text, len);
}

/* " L1 48K L2 2048K L3 107520K" of the first core, without instruction caches. */
static void topology_list_caches(char *text, size_t len)
{
    char level[8], type[32], size[32];
    text[0] = '\0';
    for (unsigned i = 0; i < 8 && topology_read_cache(i, "level", level, sizeof(level)); i++)
        if (topology_read_cache(i, "type", type, sizeof(type)) &&
            strcmp(type, "Instruction") != 0 && topology_read_cache(i, "size", size, sizeof(size)))
            aqi_append(text, len, " L%s %s", level, size);
}

struct topology_number {
    char text[12];
};

/* An unknown count, as without /sys, is not printed as 0. */
static struct topology_number topology_number(unsigned count)
{
    struct topology_number number = {"unknown"};
    if (count != 0) snprintf(number.text, sizeof(number.text), "%u", count);
    return number;
}

void aqi_topology_describe(char *buf, size_t len)
{
    char caches[128];
    unsigned threads = topology_count_files(TOPOLOGY_SYS_CPU "/cpu[0-9]*");
    unsigned cores = topology_count_first(threads, "topology/thread_siblings_list");
    unsigned packages = topology_count_first(threads, "topology/core_siblings_list");
    unsigned nodes = topology_count_files("/sys/devices/system/node/node[0-9]*");
    topology_list_caches(caches, sizeof(caches));
    snprintf(buf, len, "packages %s, cores %s, threads %s, caches%s, NUMA nodes %s",
             topology_number(packages).text, topology_number(cores).text,
             topology_number(threads).text, caches[0] == '\0' ? " unknown" : caches,
             topology_number(nodes).text);
}
