/*
 * The library in a process by itself, for a front end that finds its peers on its own: whatever
 * launched the program, there is no job, and connections are all that leads to other processes.
 */
#ifndef AQI_LIB_ALONE_H
#define AQI_LIB_ALONE_H

#include "base/base.h"

#include <aqueduct/job.h>

/*
 * Read the settings and open the core, for one thread at a time (AQ_THREAD_SERIALIZED). With
 * `allows`, there is a segment that spans the whole address space, and it decides, given the
 * context of a connection, what its peer may access of that; peers that reach memory without this
 * process, by shared memory or cross-memory attach, are not asked for. Connections are opened and
 * closed without a limit of time, but for that of aq_connect_params, until lib_alone_patience.
 */
aq_status lib_alone_open(bool (*allows)(void *context, uint64_t addr, size_t len), aq_team **world);
void lib_alone_close(void);

/* The limit for closing a connection with operations under way, in ns. Returns the last one. */
uint64_t lib_alone_patience(uint64_t ns);
/* Whether AQ_TRANSPORTS allows this transport. */
bool lib_alone_may_use(const char *transport);

#endif
