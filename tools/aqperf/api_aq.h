/* What the files of the API back end for Aqueduct share. */
#ifndef AQPERF_API_AQ_H
#define AQPERF_API_AQ_H

#include "perf.h"
#include <aqueduct/aqueduct.h>

aq_team *api_aq_world(void);
/* End the job with a message unless the call succeeded. */
void api_aq_check(aq_status status, const char *call);

/* api_aq_vis.c */
double api_aq_strided_put(struct perf *perf, size_t size, uint64_t n);

/* api_aq_coll.c: the buffers lie in the ranks' segments, as those of programs that care do. */
double api_aq_bcast(struct perf *perf, size_t size, uint64_t n);
double api_aq_reduce(struct perf *perf, size_t size, uint64_t n);
double api_aq_allreduce(struct perf *perf, size_t size, uint64_t n);
double api_aq_gather(struct perf *perf, size_t size, uint64_t n);
double api_aq_allgather(struct perf *perf, size_t size, uint64_t n);
double api_aq_alltoall(struct perf *perf, size_t size, uint64_t n);

#endif
