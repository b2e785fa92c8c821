/*
 * Where this process runs: numbers that only processes of the same boot of the kernel share, and of
 * the same network namespace of it, whose loopback reaches no others. 0: unknown, as without /proc.
 */
#ifndef AQI_HERE_H
#define AQI_HERE_H

#include <stdint.h>

uint64_t aqi_here_boot(void);
uint64_t aqi_here_network(void);

#endif
