/* Collective calls of the ranks: allgather, share. */
#ifndef AQRUN_COLLECTIVE_H
#define AQRUN_COLLECTIVE_H

#include "base/base.h"
#include "job/control.h"

struct rank;

/* A CALL message of a rank. */
void collective_call(struct rank *rank, const struct aqi_control *message);

/* Is this why the last call failed, which we have told the user? */
bool collective_said(const char *why);

/* Somebody left or ended: can the call that is going on still be completed? */
void collective_check(void);

/* The next time it wants to be called, UINT64_MAX for never. */
uint64_t collective_tick(uint64_t now);

/* The job was stopped for so long: that does not count as waiting. */
void collective_postpone(uint64_t ns);

#endif
