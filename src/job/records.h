/*
 * One file for the statistics and one for the traces of a job: each rank writes to a socket that it
 * has passed to the agent of its host; agents pass on whole lines, with the times of the job's
 * first host; the root writes the files. There is one in a process.
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
/* A rank of this host has passed a socket for AQI_SHOW_STATS, _TRACE or _LOG; it is ours now. */
void aqi_records_take(uint32_t rank, enum aqi_show what, int fd);
/* What this rank has said in its log goes before what follows. */
void aqi_records_said(uint32_t rank);
/* Is there one for a file? Then the clock is wanted. */
bool aqi_records_any(void);
/* Root: lines have come for a file, or, without bytes, word that some will. */
void aqi_records_came(enum aqi_show what, const void *bytes, size_t len);
/* The clock may be known now, there may be room again. */
void aqi_records_tick(void);
/* No process of this host runs any more: what they have written is all there is. */
void aqi_records_drain(void);
/* Root: end the files. */
void aqi_records_close(void);

#endif
