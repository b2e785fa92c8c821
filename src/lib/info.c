/* The data shown by aqinfo: settings, transports, limits and counters. */
#include "base/fail.h"
#include "base/stats.h"
#include "base/topology.h"
#include "core/core.h"
#include "lib/lib.h"
#include "transport/transport.h"

#include <aqueduct/aqueduct.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- settings -------------------------------------------------------------------------------- */

struct row_ref {
    struct aqi_settings_table *table;
    size_t row;
};

static int info_by_name(const void *a, const void *b)
{
    const struct row_ref *x = a, *y = b;
    return strcmp(x->table->rows[x->row].name, y->table->rows[y->row].name);
}

static void info_warn_unknown(void)
{
    size_t count;
    struct aqi_settings_table *const *tables = lib_tables(&count);
    aqi_settings_warn(tables, count, lib_other_names);
}

/* Once: the environment does not change, and a bad value is reported only once. */
static aq_status info_load_settings(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, info_warn_unknown);
    return lib_load_settings(true);
}

enum { INFO_ROWS = 256 };

/* All rows meant for users, sorted by name; returns their number. */
static size_t info_sort_rows(struct row_ref sorted[INFO_ROWS])
{
    size_t n = 0, table_count;
    struct aqi_settings_table *const *tables = lib_tables(&table_count);
    for (size_t t = 0; t < table_count; t++)
        for (size_t r = 0; r < tables[t]->count && n < INFO_ROWS; r++)
            if (!tables[t]->rows[r].by_launcher) sorted[n++] = (struct row_ref){tables[t], r};
    qsort(sorted, n, sizeof(sorted[0]), info_by_name);
    return n;
}

/* Separated by commas; NULL: none. */
static const char *info_all_aliases(const struct aqi_setting *row)
{
    char text[512] = "";
    if (aqi_setting_alias(row, 0) == NULL) return NULL;
    for (unsigned i = 0; aqi_setting_alias(row, i) != NULL; i++)
        aqi_append(text, sizeof(text), "%s%s", i == 0 ? "" : ",", aqi_setting_alias(row, i));
    return aqi_setting_keep(text);
}

aq_status aq_info_setting(size_t index, aq_setting_info *info)
{
    struct row_ref refs[INFO_ROWS];
    if (info == NULL) return aqi_fail(AQ_EINVAL, "lib", "aq_info_setting: info is NULL");
    if (index >= info_sort_rows(refs)) return AQ_ERANGE;
    aq_status load_status = info_load_settings();
    const struct aqi_settings_table *table = refs[index].table;
    const struct aqi_setting *row = &table->rows[refs[index].row];
    char value[512], range[512];
    aqi_setting_format(table, refs[index].row, value, sizeof(value));
    aqi_setting_range(row, range, sizeof(range));
    *info = (aq_setting_info){.name = row->name,
                              .alias = info_all_aliases(row),
                              .group = table->group,
                              .type = aqi_setting_type_name(row->type),
                              .unit = row->unit != NULL            ? row->unit
                                      : row->type == AQI_SET_BYTES ? "bytes"
                                                                   : "",
                              .range = aqi_setting_keep(range),
                              .default_value = row->def,
                              .value = aqi_setting_keep(value),
                              .origin = aqi_setting_origin(table, refs[index].row),
                              .doc = row->doc,
                              .advice = row->advice ? row->advice : ""};
    /* The bad one is the row whose variable is set but whose value is its default. */
    const char *variable;
    bool given = aqi_setting_text(row, &variable) != row->def;
    bool bad = load_status != AQ_OK && given && strcmp(info->origin, "default") == 0;
    return bad ? AQ_ESETTING : AQ_OK;
}

/* --- transports ------------------------------------------------------------------------------ */

static const struct {
    unsigned bit;
    const char *name;
} cap_names[] = {
    {AQI_CAP_PUT, "put"},         {AQI_CAP_GET, "get"},         {AQI_CAP_ATOMIC, "atomic"},
    {AQI_CAP_FILL, "fill"},       {AQI_CAP_LONG, "long"},       {AQI_CAP_RESERVE, "reserve"},
    {AQI_CAP_MAP, "map"},         {AQI_CAP_ALLOC, "alloc"},     {AQI_CAP_REG, "reg"},
    {AQI_CAP_WAIT_FD, "wait-fd"}, {AQI_CAP_CREDITS, "credits"}, {AQI_CAP_ROWS, "rows"},
    {AQI_CAP_TIMERS, "timers"},
};

/* The `index`-th device of all transports; NULL: fewer. */
static const struct aqi_transport *info_find_device(size_t index, struct aqi_tp_probe *probe)
{
    for (const struct aqi_transport *const *t = aqi_transports; *t != NULL; t++)
        for (unsigned device = 0; aqi_tp_probe(*t, device, probe); device++)
            if (index-- == 0) return *t;
    return NULL;
}

aq_status aq_info_transport(size_t index, aq_transport_info *info)
{
    if (info == NULL) return aqi_fail(AQ_EINVAL, "lib", "aq_info_transport: info is NULL");
    struct aqi_tp_probe probe;
    char caps[256] = "am";
    (void)info_load_settings();
    const struct aqi_transport *t = info_find_device(index, &probe);
    if (t == NULL) return AQ_ERANGE;
    for (size_t i = 0; i < AQI_COUNT_OF(cap_names); i++)
        if (t->caps & cap_names[i].bit) aqi_append(caps, sizeof(caps), ",%s", cap_names[i].name);
    size_t medium = aqi_core_config.max_medium;
    if (probe.max_medium != 0) medium = aqi_min(medium, probe.max_medium);
    *info = (aq_transport_info){.name = t->name,
                                .doc = t->doc,
                                .usable = probe.usable,
                                .on_request = probe.on_request,
                                .reason = aqi_setting_keep(probe.reason),
                                .device = aqi_setting_keep(probe.device),
                                .caps = aqi_setting_keep(caps),
                                .max_medium = probe.usable ? medium : 0};
    return probe.bad_setting ? aqi_fail(AQ_ESETTING, "lib", "%s", probe.reason) : AQ_OK;
}

/* --- limits ---------------------------------------------------------------------------------- */

static void info_limit_text(char *buf, size_t len, unsigned resource, double divisor,
                            const char *unit)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0)
        snprintf(buf, len, "unknown: %s", strerror(errno));
    else if (limit.rlim_cur == RLIM_INFINITY)
        snprintf(buf, len, "unlimited");
    else
        snprintf(buf, len, "%.0f%s", (double)limit.rlim_cur / divisor, unit);
}

static const char *info_limit_topology(char *buf, size_t len)
{
    aqi_topology_describe(buf, len);
    return "";
}

static const char *info_limit_cores(char *buf, size_t len)
{
    snprintf(buf, len, "%u", aqi_cores());
    return aqi_cores() == 1 ? "ranks share one core and yield it while they wait" : "";
}

static const char *info_limit_memory(char *buf, size_t len)
{
    snprintf(buf, len, "%.1f GiB", (double)aqi_memory() / (1 << 30));
    return "";
}

static const char *info_limit_files(char *buf, size_t len)
{
    struct rlimit limit;
    info_limit_text(buf, len, RLIMIT_NOFILE, 1, " files");
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 1024
               ? "low: aqrun needs about three per rank; raise it with ulimit -n"
               : "";
}

static const char *info_limit_memlock(char *buf, size_t len)
{
    info_limit_text(buf, len, RLIMIT_MEMLOCK, 1024, " KiB");
    return "shm locks no memory; networks with registered memory need ulimit -l unlimited";
}

static const char *info_limit_processes(char *buf, size_t len)
{
    info_limit_text(buf, len, RLIMIT_NPROC, 1, " processes");
    return "";
}

static const char *info_limit_dev_shm(char *buf, size_t len)
{
    struct statvfs fs;
    if (statvfs("/dev/shm", &fs) != 0)
        snprintf(buf, len, "not mounted");
    else
        snprintf(buf, len, "%.0f MiB free", (double)fs.f_bavail * (double)fs.f_frsize / (1 << 20));
    return "not used: shared memory is memfd, which this size does not limit";
}

/* Whether one process may read another's memory, tested by a child that reads ours. */
static const char *info_limit_cma(char *buf, size_t len)
{
    static const uint64_t token = 0x6171756564756374u;
    pid_t child = fork();
    if (child == 0) {
        uint64_t seen = 0;
        struct iovec here = {&seen, sizeof(seen)}, there = {(void *)(uintptr_t)&token, 8};
        ssize_t n = process_vm_readv(getppid(), &here, 1, &there, 1, 0);
        _exit(n == 8 && seen == token ? 0 : n < 0 ? errno : 1);
    }
    int status = -1;
    if (child > 0) waitpid(child, &status, 0);
    if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        snprintf(buf, len, "yes");
        return "";
    }
    snprintf(buf, len, "no: %s%s",
             child > 0 && WIFEXITED(status) ? strerror(WEXITSTATUS(status)) : "the probe failed",
             prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER
                 ? "; a system call filter (seccomp) is active"
                 : "");
    return "memory outside the segments is copied by both processes: set "
           "kernel.yama.ptrace_scope=0, allow process_vm_readv and process_vm_writev in the "
           "container's seccomp profile, or run the container with CAP_SYS_PTRACE";
}

static const char *info_limit_huge_pages(char *buf, size_t len)
{
    int fd = memfd_create("aq-huge-probe", MFD_CLOEXEC | MFD_HUGETLB);
    bool yes = false;
    if (fd >= 0) {
        void *at = MAP_FAILED;
        if (ftruncate(fd, 2 << 20) == 0)
            at = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
        yes = at != MAP_FAILED;
        if (yes) munmap(at, 2 << 20);
        close(fd);
    }
    snprintf(buf, len, "%s", yes ? "yes" : "none reserved");
    return yes ? "" : "segments use small pages; reserve huge ones with sysctl vm.nr_hugepages";
}

static const char *info_limit_libc(char *buf, size_t len)
{
    if (confstr(_CS_GNU_LIBC_VERSION, buf, len) > 1) return "";
    snprintf(buf, len, "not glibc");
    return "the exit code of an exit before aq_finalize is seen only by aqrun, not by the library, "
           "and aqrun treats 0 as 1; GASNet programs print no backtraces by EXECINFO "
           "(docs/platforms.md)";
}

static const struct {
    const char *name;
    const char *(*find)(char *buf, size_t len); /* returns the advice */
} limits[] = {
    {"topology", info_limit_topology},     {"cores", info_limit_cores},
    {"memory", info_limit_memory},         {"open files", info_limit_files},
    {"processes", info_limit_processes},   {"memlock", info_limit_memlock},
    {"/dev/shm", info_limit_dev_shm},      {"cma", info_limit_cma},
    {"huge pages", info_limit_huge_pages}, {"c library", info_limit_libc},
};

aq_status aq_info_limit(size_t index, aq_limit_info *info)
{
    char value[400];
    if (info == NULL) return aqi_fail(AQ_EINVAL, "lib", "aq_info_limit: info is NULL");
    if (index >= AQI_COUNT_OF(limits)) return AQ_ERANGE;
    const char *advice = limits[index].find(value, sizeof(value));
    *info = (aq_limit_info){
        .name = limits[index].name, .value = aqi_setting_keep(value), .advice = advice};
    return AQ_OK;
}

/* --- counters and routes --------------------------------------------------------------------- */

aq_status aq_info_counter(size_t index, aq_counter_info *info)
{
    if (info == NULL) return aqi_fail(AQ_EINVAL, "lib", "aq_info_counter: info is NULL");
    if (index >= AQI_CTR_COUNT) return AQ_ERANGE;
    const struct aqi_counter_row *row = &aqi_counter_rows[index];
    *info = (aq_counter_info){.name = row->name,
                              .unit = row->unit,
                              .doc = row->doc,
                              .value = aqi_counter_sum((enum aqi_counter)index)};
    return AQ_OK;
}

aq_status aq_info_route(const aq_team *team, aq_rank rank, const char **name)
{
    if (team == NULL || name == NULL)
        return aqi_fail(AQ_EINVAL, "lib", "aq_info_route: a pointer is NULL");
    return aqi_core_route_name(team, rank, name);
}
