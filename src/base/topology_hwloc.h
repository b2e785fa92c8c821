/* The machine as hwloc sees it, where its library is present. */
#ifndef AQI_TOPOLOGY_HWLOC_H
#define AQI_TOPOLOGY_HWLOC_H

#include <stddef.h>

/* As aqi_topology_describe; -1 when hwloc is not there or does not work. */
int aqi_topology_describe_hwloc(char *buf, size_t len);

#endif
