/*
 * One file for the statistics and one for the traces of a job: each rank writes to a socket that it
 * has passed to the agent of its host; agents pass on whole lines, with the times of the job's
 * first host; the root writes the files. There is one per process.
 */
#ifndef AQI_RECORDS_H
#define AQI_RECORDS_H

#include "job/align.h"
#include "job/hub/hub.h"

struct aqi_records_params {
    struct aqi_hub *hub;
    const char *host;              /* our name */
    const struct aqi_align *align; /* NULL: our clock is that of the job, and we write the files */
};

void aqi_records_open(const struct aqi_records_params *params);
/* A rank of this host has passed a socket for AQI_SHOW_STATS, _TRACE or _LOG; takes ownership. */
void aqi_records_take(uint32_t rank, enum aqi_show what, int fd);
/* Forward what this rank has written to its log, before anything that follows. */
void aqi_records_said(uint32_t rank);
/* Whether there is a file that needs the clock. */
bool aqi_records_any(void);
/* Root: lines for a file have arrived, or, without bytes, the announcement of some. */
void aqi_records_came(enum aqi_show what, const void *bytes, size_t len);
/* Proceed: the clock may be known now, or there may be room again. */
void aqi_records_tick(void);
/* No process of this host runs any more: process what is left. */
void aqi_records_drain(void);
/* Root: finish the files. */
void aqi_records_close(void);

#endif
