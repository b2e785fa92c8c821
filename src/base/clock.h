/* Time: monotonic nanoseconds, and a cheap tick counter for loops that look at the time often. */
#ifndef AQI_CLOCK_H
#define AQI_CLOCK_H

#include "base/base.h"

/* CLOCK_MONOTONIC in nanoseconds (about 22 ns a call). */
uint64_t aqi_now_ns(void);

/*
 * Cheap ticks (the time stamp counter where it is invariant, else aqi_now_ns) and their rate. The
 * rate comes from the system or from two readings the program makes anyway: never by waiting. The
 * first call of either function is the first reading; a rate asked for within 10 us of it may be
 * wrong by some percent, later ones are better than 0.1 %. Ticks of two cores can differ a little:
 * treat a difference as signed.
 */
uint64_t aqi_ticks(void);
double aqi_ticks_per_ns(void);

#endif
