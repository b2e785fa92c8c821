/*
 * Jobs started by managers: their processes start an agent on each host, and from then on work
 * like processes started by aqrun.
 *
 * The first rank of a host forks the agent, which does not exec and has closed all descriptors of
 * the program. The name of its socket and the secret for ranks are exchanged through the manager,
 * as are the job's key and the addresses of agents. It ends when the ranks of its host have ended.
 */
#ifndef AQI_MANAGED_H
#define AQI_MANAGED_H

#include "job/boot.h"
#include "job/manager/manager.h"

#define AQI_MANAGED_FANOUT 16u /* of the tree of agents */

struct aqi_managed;

/*
 * Join the job by this manager. `*socket` is a control socket (control.h), over which the rank has
 * claimed its place: the next message there is JOB or REFUSE.
 *
 * Blocking    Collective; bounded by AQ_START_TIMEOUT.
 */
aq_status aqi_managed_open(const struct aqi_manager_kind *kind, struct aqi_managed **managed,
                           int *socket);
/* This process cannot join: make the manager end the job, with aq_error_message(). */
void aqi_managed_abort(struct aqi_managed *managed);
/* This process leaves in an orderly way. To be called once. */
void aqi_managed_close(struct aqi_managed *managed);

/* proxy.c: the main function of the forked child. */
struct managed_plan {
    struct aqi_manager_info info; /* of the rank that forked */
    char program[64];
    uint8_t secret[AQI_JOB_KEY_BYTES]; /* by which ranks prove that they belong to the job */
    int feed;                          /* packet socket to the rank that forked */
    int listener;                      /* to which ranks connect */
};
_Noreturn void aqi_managed_agent(const struct managed_plan *plan);

/* Messages over `feed`. To the agent: the key of the job; then, with several hosts, the addresses
 * of the agents above, each ended by NUL. From the agent: an answer to the key. */
#define MANAGED_FEED_MAX 16384u
struct managed_answer {
    uint32_t failed; /* nonzero: `text` says why */
    char text[1020]; /* otherwise the addresses of the agent, or "" */
};

#endif
