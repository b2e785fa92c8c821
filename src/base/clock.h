/* Time: monotonic nanoseconds. */
#ifndef AQI_CLOCK_H
#define AQI_CLOCK_H

#include "base/base.h"

/* CLOCK_MONOTONIC in nanoseconds (about 22 ns a call). */
uint64_t aqi_now_ns(void);

#endif
