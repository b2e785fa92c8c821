/* Hooks for tests of hubs: they do nothing, except that a hub that cannot continue fails the test.
 */
#ifndef JOB_HOOKS_TEST_H
#define JOB_HOOKS_TEST_H

#include "job/hub/hub.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static inline void hooks_to_rank(void *arg, uint32_t rank, const struct aqi_control *message,
                                 struct aqi_parcel *parcel)
{
    (void)arg, (void)rank, (void)message, (void)parcel;
}

static inline void hooks_to_agent(void *arg, uint32_t agent, const void *frame, size_t len)
{
    (void)arg, (void)agent, (void)frame, (void)len;
}

/* attach and detach */
static inline void hooks_agent(void *arg, uint32_t agent)
{
    (void)arg, (void)agent;
}

static inline void hooks_kill(void *arg, uint32_t rank, int number)
{
    (void)arg, (void)rank, (void)number;
}

static inline void hooks_output(void *arg, uint32_t rank, unsigned stream, const void *bytes,
                                size_t len)
{
    (void)arg, (void)rank, (void)stream, (void)bytes, (void)len;
}

static inline void hooks_over(void *arg, int code)
{
    (void)arg, (void)code;
}

static inline void hooks_die(void *arg, const char *why)
{
    (void)arg;
    fail_msg("%s", why);
}

#endif
