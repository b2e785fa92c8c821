/*
 * Jobs of managers: their processes start an agent on each host, and from then on work like those
 * started by aqrun.
 *
 * The first rank of a host forks the agent, a process without an exec that has closed everything
 * else of the program: its name and the secret by which ranks find it go through the manager, as do
 * the job's key and the addresses of agents. It ends when the ranks of its host have ended.
 */
#ifndef AQI_MANAGED_H
#define AQI_MANAGED_H

#include "job/boot.h"
#include "job/manager/manager.h"

#define AQI_MANAGED_FANOUT 16u /* of the tree of agents */

struct aqi_managed;

/*
 * Join the job by this manager. `*socket` is a control socket (control.h), over which the rank has
 * been claimed: the next message there is JOB or REFUSE.
 *
 * Blocking    Collective; bounded by AQ_START_TIMEOUT.
 */
aq_status aqi_managed_open(const struct aqi_manager_kind *kind, struct aqi_managed **managed,
                           int *socket);
/* This process cannot join: have the manager end the job, with aq_error_message(). */
void aqi_managed_abort(struct aqi_managed *managed);
/* This process leaves in an orderly way. Call once. */
void aqi_managed_close(struct aqi_managed *managed);

/* proxy.c: the main function of the forked child. */
struct managed_plan {
    struct aqi_manager_info info; /* of the rank that forked */
    char program[64];
    uint8_t secret[AQI_JOB_KEY_BYTES]; /* by which ranks prove that they belong here */
    int feed;                          /* packet socket to the rank that forked */
    int listener;                      /* where ranks connect */
};
_Noreturn void aqi_managed_agent(const struct managed_plan *plan);

/* Over `feed`. Down: the key of the job; then, with several hosts, the addresses of the agents
 * above, each ended by NUL. Up: an answer to the first. */
#define MANAGED_FEED_MAX 16384u
struct managed_answer {
    uint32_t failed; /* text: why */
    char text[1020]; /* else addresses of the agent, or "" */
};

#endif
