/*
 * The guard: a small process that kills what is left of the ranks when aqrun itself is killed.
 *
 * The kernel kills the processes that aqrun forked (PR_SET_PDEATHSIG), but not what those started,
 * as a shell does; those are in the same process groups, and these the guard knows.
 */
#ifndef AQRUN_GUARD_H
#define AQRUN_GUARD_H

#include "base/base.h"

#include <sys/types.h>

/* Start it, over a table of process groups shared with it; returns the table, all 0. */
pid_t *guard_open(uint32_t groups);

/* aqrun ends in good order: nothing is to be killed. Waits for the guard's end. */
void guard_close(void);

#endif
