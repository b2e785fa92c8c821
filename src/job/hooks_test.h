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

/* A job on one host with these hooks, and with the same time limit for everything. */
static inline struct aqi_hub_params hooks_params(uint32_t ranks, uint64_t limit_ns)
{
    return (struct aqi_hub_params){.ranks = ranks,
                                   .host_count = 1,
                                   .agents = 1,
                                   .fanout = 2,
                                   .program = "./program",
                                   .launcher = "aqrun",
                                   .start_timeout_ns = limit_ns,
                                   .exit_timeout_ns = limit_ns,
                                   .host_timeout_ns = limit_ns,
                                   .now_ns = 1,
                                   .hooks = {.to_rank = hooks_to_rank,
                                             .to_agent = hooks_to_agent,
                                             .attach = hooks_agent,
                                             .detach = hooks_agent,
                                             .kill = hooks_kill,
                                             .output = hooks_output,
                                             .over = hooks_over,
                                             .die = hooks_die}};
}

/* Ranks from 0 to before `end`, except `absent`, are started and join. */
static inline void hooks_join(struct aqi_hub *hub, uint32_t end, uint32_t absent)
{
    for (uint32_t i = 0; i < end; i++)
        aqi_hub_started(hub, i, 100 + (int)i);
    for (uint32_t i = 0; i < end; i++)
        if (i != absent) aqi_hub_joined(hub, i, 100 + (int)i, "program");
}

#endif
