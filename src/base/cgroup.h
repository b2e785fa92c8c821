/* The limits that control groups (version 1 and 2) put on this process. */
#ifndef AQI_CGROUP_H
#define AQI_CGROUP_H

#include "base/base.h"

struct aqi_cgroup_limits {
    double cpus;     /* processors by quota; 0: no limit */
    uint64_t memory; /* bytes; UINT64_MAX: no limit */
    uint64_t kills;  /* number of processes that were killed for exceeding a memory limit */
};

/* Read <root>/proc/self/cgroup and <root>/sys/fs/cgroup; `root` is "" except in tests. */
struct aqi_cgroup_limits aqi_cgroup_read(const char *root);

#endif
