/* What the machine is made of, as far as placing and waiting need it. */
#ifndef AQI_TOPOLOGY_H
#define AQI_TOPOLOGY_H

#include "base/base.h"

#include <sched.h>

/* Cores this process may run on (affinity mask and cgroup quota); at least 1. */
unsigned aqi_cores(void);

/* The processors of the affinity mask as it is now, for CPU_FREE, and the size of the mask; NULL:
 * the system does not say, see errno. */
cpu_set_t *aqi_allowed_cpus(size_t *bytes);

/* The first processor (hardware thread) of the core that has this one. */
unsigned aqi_core_of(unsigned cpu);

/* May this process run on a processor of the list that a file of /sys holds, such as "0-15,32"?
 * Also true where there is no such file, and of no processor in particular. */
bool aqi_runs_near(const char *path);

/* Physical memory this process may use in bytes (cgroup limit included). */
uint64_t aqi_memory(void);

/* One line about packages, cores, caches and NUMA, from /sys. Returns what snprintf would. */
int aqi_topology_describe(char *buf, size_t len);

#endif
