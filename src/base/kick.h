/* A descriptor that a thread can sleep on and that other threads make readable to wake it. */
#ifndef AQI_KICK_H
#define AQI_KICK_H

#include "base/base.h"

#include <sys/eventfd.h>
#include <unistd.h>

/* Returns -1 and sets errno on failure. */
static inline int aqi_kick_new(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static inline void aqi_kick(int fd)
{
    uint64_t one = 1;
    if (write(fd, &one, sizeof(one)) < 0) return; /* full, so readable anyway */
}

/* Consume all kicks or the expiry of a timer; returns false if there was none. */
static inline bool aqi_kick_take(int fd)
{
    uint64_t count;
    return read(fd, &count, sizeof(count)) > 0;
}

#endif
