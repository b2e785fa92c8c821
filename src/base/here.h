/*
 * Where this process runs: a number for this boot of the kernel, and one for its network namespace,
 * within which loopback reaches other processes. 0 means unknown, as without /proc.
 */
#ifndef AQI_HERE_H
#define AQI_HERE_H

#include <stdint.h>

uint64_t aqi_here_boot(void);
uint64_t aqi_here_network(void);

#endif
