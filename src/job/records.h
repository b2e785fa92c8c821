/*
 * One file for the statistics and one for the traces of a job: each rank writes to a socket that
 * it has passed to the agent of its host; agents forward whole lines, with times by the clock of
 * the job's first host; the root writes the files. There is one per process.
 */
#ifndef AQI_RECORDS_H
#define AQI_RECORDS_H

#include "job/align.h"
#include "job/hub/hub.h"

struct aqi_records_params {
    struct aqi_hub *hub;
    const char *host;              /* our name */
    const struct aqi_align *align; /* NULL: ours is the job's clock, and we write the files */
};

void aqi_records_open(const struct aqi_records_params *params);
/* A rank of this host has passed a socket for AQI_SHOW_STATS, _TRACE or _LOG; takes ownership. */
void aqi_records_take(uint32_t rank, enum aqi_show what, int fd);
/* Forward all that this rank has written to its log, before anything that follows. */
void aqi_records_forward_log(uint32_t rank);
/* Whether there is a file that needs the clock. */
bool aqi_records_need_clock(void);
/* Root: lines for a file have arrived. No bytes: lines will follow. */
void aqi_records_arrived(enum aqi_show what, const void *bytes, size_t len);
/* Make progress: the clock may have become known, or room available. */
void aqi_records_tick(void);
/* All processes of this host have ended: process the remaining data. */
void aqi_records_drain(void);
/* Root: complete and close the files. */
void aqi_records_close(void);

#endif
