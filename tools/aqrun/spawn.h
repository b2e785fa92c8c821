/* Starting the processes of the job. */
#ifndef AQRUN_SPAWN_H
#define AQRUN_SPAWN_H

#include "base/base.h"

/* The number of `epoll` becomes AQ_BOOT_FD of all ranks. */
void spawn_open(int epoll);

/* Start a few more ranks; false when none is left to start. */
bool spawn_some(void);

/* Handle what children have reported about an exec that failed. */
void spawn_read_reports(void);

/* For -t: print what would be run; instead of spawn_open. */
void spawn_print(int epoll);

#endif
