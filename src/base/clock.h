/* Time: monotonic nanoseconds. */
#ifndef AQI_CLOCK_H
#define AQI_CLOCK_H

#include "base/base.h"

/* CLOCK_MONOTONIC in nanoseconds (about 22 ns a call). */
uint64_t aqi_now_ns(void);

/* Nanoseconds from `since` to `now`; 0 if `since`, read by another thread, is later. */
static inline uint64_t aqi_elapsed_ns(uint64_t now, uint64_t since)
{
    return now > since ? now - since : 0;
}

#endif
