/* A descriptor that becomes readable when somebody kicks it, so that who sleeps on it wakes. */
#ifndef AQI_KICK_H
#define AQI_KICK_H

#include "base/base.h"

#include <sys/eventfd.h>
#include <unistd.h>

/* -1, and errno, if there is none. */
static inline int aqi_kick_new(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static inline void aqi_kick(int fd)
{
    uint64_t one = 1;
    if (write(fd, &one, sizeof(one)) < 0) return; /* it is full: readable anyway */
}

/* Take all kicks, or the end of a timer; false: there was nothing. */
static inline bool aqi_kick_take(int fd)
{
    uint64_t count;
    return read(fd, &count, sizeof(count)) > 0;
}

#endif
