/*
 * Control groups. A limit applies to everything below it, so all folders from that of the process
 * up to the root are read, and the lowest limit applies. Missing folders are skipped: inside a
 * container, the path may be that of the host.
 */
#include "base/cgroup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct cgroup_walk {
    const char *root;
    const char *mount; /* below <root>/sys/fs/cgroup */
    char path[512];    /* of the process, shortened at each step */
    bool above;        /* `path` has been shortened */
    struct aqi_cgroup_limits *limits;
};

typedef void cgroup_visit_fn(const struct cgroup_walk *walk);

static FILE *cgroup_open(const struct cgroup_walk *walk, const char *file)
{
    char name[1024];
    snprintf(name, sizeof(name), "%s/sys/fs/cgroup%s%s/%s", walk->root, walk->mount, walk->path,
             file);
    return fopen(name, "re");
}

static bool cgroup_read_line(const struct cgroup_walk *walk, const char *file, char *line, int len)
{
    FILE *stream = cgroup_open(walk, file);
    if (stream == NULL) return false;
    bool read = fgets(line, len, stream) != NULL;
    fclose(stream);
    return read;
}

static void cgroup_limit_cpus(const struct cgroup_walk *walk, long long quota, long long period)
{
    if (quota <= 0 || period <= 0) return;
    double cpus = (double)quota / (double)period;
    if (walk->limits->cpus <= 0 || cpus < walk->limits->cpus) walk->limits->cpus = cpus;
}

static void cgroup_limit_memory(const struct cgroup_walk *walk, const char *file)
{
    char line[64];
    uint64_t bytes;
    if (cgroup_read_line(walk, file, line, sizeof(line)) && sscanf(line, "%" SCNu64, &bytes) == 1 &&
        bytes < walk->limits->memory)
        walk->limits->memory = bytes;
}

/*
 * Reads the line "oom_kill NUMBER", in the group of the process only: the groups above also count
 * kills of other processes.
 */
static void cgroup_count_kills(const struct cgroup_walk *walk, const char *file)
{
    char line[64];
    uint64_t kills;
    FILE *stream = walk->above ? NULL : cgroup_open(walk, file);
    if (stream == NULL) return;
    while (fgets(line, sizeof(line), stream) != NULL)
        if (sscanf(line, "oom_kill %" SCNu64, &kills) == 1 && kills > walk->limits->kills)
            walk->limits->kills = kills;
    fclose(stream);
}

static void cgroup_visit_v2(const struct cgroup_walk *walk)
{
    char line[64];
    long long quota, period;
    /* "max 100000" does not match, which means no limit. */
    if (cgroup_read_line(walk, "cpu.max", line, sizeof(line)) &&
        sscanf(line, "%lld %lld", &quota, &period) == 2)
        cgroup_limit_cpus(walk, quota, period);
    cgroup_limit_memory(walk, "memory.max");
    cgroup_count_kills(walk, "memory.events");
}

static void cgroup_visit_v1_cpu(const struct cgroup_walk *walk)
{
    char line[64];
    long long quota, period;
    if (cgroup_read_line(walk, "cpu.cfs_quota_us", line, sizeof(line)) &&
        sscanf(line, "%lld", &quota) == 1 &&
        cgroup_read_line(walk, "cpu.cfs_period_us", line, sizeof(line)) &&
        sscanf(line, "%lld", &period) == 1)
        cgroup_limit_cpus(walk, quota, period);
}

static void cgroup_visit_v1_memory(const struct cgroup_walk *walk)
{
    cgroup_limit_memory(walk, "memory.limit_in_bytes");
    cgroup_count_kills(walk, "memory.oom_control");
}

/* Where systems mount the hierarchies; the controllers are named as in /proc/self/cgroup. */
static const struct {
    const char *controller;
    const char *mount;
    cgroup_visit_fn *visit;
} cgroup_places[] = {
    {"", "", cgroup_visit_v2},
    {"", "/unified", cgroup_visit_v2},
    {"cpu", "/cpu", cgroup_visit_v1_cpu},
    {"cpu", "/cpu,cpuacct", cgroup_visit_v1_cpu},
    {"memory", "/memory", cgroup_visit_v1_memory},
};

/* Whether `controller` is in the comma-separated `list`. The list of version 2 is empty. */
static bool cgroup_lists(const char *list, const char *controller)
{
    size_t len = strlen(controller);
    if (len == 0) return *list == '\0';
    for (;; list++) {
        if (strncmp(list, controller, len) == 0 && (list[len] == ',' || list[len] == '\0'))
            return true;
        list = strchr(list, ',');
        if (list == NULL) return false;
    }
}

static void cgroup_walk_up(struct cgroup_walk *walk, cgroup_visit_fn *visit)
{
    for (;;) {
        visit(walk);
        char *last = strrchr(walk->path, '/');
        if (last == NULL) return;
        *last = '\0';
        walk->above = true;
    }
}

/* One line of /proc/self/cgroup: "NUMBER:CONTROLLERS:PATH". */
static void cgroup_read_entry(const char *root, char *line, struct aqi_cgroup_limits *limits)
{
    line[strcspn(line, "\n")] = '\0';
    char *list = strchr(line, ':');
    char *path = list == NULL ? NULL : strchr(list + 1, ':');
    if (path == NULL) return;
    *path++ = '\0';
    for (size_t i = 0; i < AQI_COUNT_OF(cgroup_places); i++) {
        if (!cgroup_lists(list + 1, cgroup_places[i].controller)) continue;
        struct cgroup_walk walk = {.root = root, .mount = cgroup_places[i].mount, .limits = limits};
        snprintf(walk.path, sizeof(walk.path), "%s", strcmp(path, "/") == 0 ? "" : path);
        cgroup_walk_up(&walk, cgroup_places[i].visit);
    }
}

struct aqi_cgroup_limits aqi_cgroup_read(const char *root)
{
    struct aqi_cgroup_limits limits = {.cpus = 0, .memory = UINT64_MAX};
    char name[512];
    snprintf(name, sizeof(name), "%s/proc/self/cgroup", root);
    FILE *stream = fopen(name, "re");
    if (stream == NULL) return limits;
    char line[600];
    while (fgets(line, sizeof(line), stream) != NULL)
        cgroup_read_entry(root, line, &limits);
    fclose(stream);
    return limits;
}
