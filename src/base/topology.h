/* What the machine is made of, as far as placing and waiting need it. */
#ifndef AQI_TOPOLOGY_H
#define AQI_TOPOLOGY_H

#include "base/base.h"

/* Cores this process may run on (affinity mask and cgroup quota); at least 1. */
unsigned aqi_cores(void);

/* Physical memory this process may use in bytes (cgroup limit included). */
uint64_t aqi_memory(void);

/* One line about packages, cores, caches and NUMA: from hwloc when its library is present (loaded
 * with dlopen), else from /sys. Returns what snprintf would. */
int aqi_topology_describe(char *buf, size_t len);
int aqi_topology_describe_sys(char *buf, size_t len); /* never hwloc */

#endif
