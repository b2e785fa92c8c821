/* The structure of the machine, as needed for placement and waiting. */
#ifndef AQI_TOPOLOGY_H
#define AQI_TOPOLOGY_H

#include "base/base.h"

#include <sched.h>

/* Number of cores that this process may run on (affinity mask and cgroup quota), at least 1. */
unsigned aqi_cores(void);

/* The current affinity mask, to be freed with CPU_FREE, and its size; NULL and errno on failure. */
cpu_set_t *aqi_allowed_cpus(size_t *bytes);

/* The first hardware thread of the core that the hardware thread `cpu` belongs to. */
unsigned aqi_core_of(unsigned cpu);

/*
 * Whether this process may run on a processor of the list in a file of /sys, such as "0-15,32".
 * Also true if there is no such file.
 */
bool aqi_runs_near(const char *path);

/* Physical memory in bytes that this process may use (including the cgroup limit). */
uint64_t aqi_memory(void);

/* Write one line about packages, cores, caches and NUMA, from /sys. */
void aqi_topology_describe(char *buf, size_t len);

#endif
