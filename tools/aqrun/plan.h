/* The agents of a job, and the contents of their tickets. */
#ifndef AQRUN_PLAN_H
#define AQRUN_PLAN_H

#include "job/hub/hub.h"

struct ticket;

/*
 * For jobs with ranks on other hosts: add the location of all ranks to `hub`, and set job.first
 * and job.count. Returns the root's ticket, as if it had received one.
 */
const struct ticket *plan_open(struct aqi_hub_params *hub, const char *ports);

#endif
