/* A descriptor that becomes readable at a set time; consume it with aqi_kick_take (kick.h). */
#ifndef AQI_TIMER_H
#define AQI_TIMER_H

#include "base/base.h"

#include <sys/timerfd.h>

/* Returns -1 and sets errno on failure. */
static inline int aqi_timer_new(void)
{
    return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
}

static inline void aqi_timer_set(int fd, int flags, uint64_t ns)
{
    const struct itimerspec time = {
        .it_value = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)}};
    (void)timerfd_settime(fd, flags, &time, NULL);
}

/* At a time of aqi_now_ns, which may have passed; UINT64_MAX: never. */
static inline void aqi_timer_at(int fd, uint64_t at_ns)
{
    aqi_timer_set(fd, TFD_TIMER_ABSTIME, at_ns != UINT64_MAX ? aqi_max(at_ns, 1) : 0);
}

/* After this delay; 0: never. */
static inline void aqi_timer_in(int fd, uint64_t ns)
{
    aqi_timer_set(fd, 0, ns);
}

#endif
