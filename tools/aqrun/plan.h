/* The agents, and the contents of their tickets. */
#ifndef AQRUN_PLAN_H
#define AQRUN_PLAN_H

#include "job/hub/hub.h"

struct ticket;

/*
 * The job has ranks on other hosts: complete `hub` with the location of all ranks, and set
 * job.first and job.count. Returns the root's ticket, as if it had received one.
 */
const struct ticket *plan_open(struct aqi_hub_params *hub, const char *ports);

#endif
