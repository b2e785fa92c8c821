/* What the files of the API back end for Aqueduct share. */
#ifndef AQPERF_API_AQ_H
#define AQPERF_API_AQ_H

#include "perf.h"
#include <aqueduct/aqueduct.h>

aq_team *api_aq_world(void);
/* End the job with a message unless the call succeeded. */
void api_aq_check(aq_status status, const char *call);

/* api_aq_vis.c */
run_fn api_aq_strided_put, api_aq_strided_get, api_aq_vector_put, api_aq_vector_get;
run_fn api_aq_indexed_put, api_aq_indexed_get;

/* api_aq_rma.c: one-sided operations, one at a time and many under way. */
run_fn api_aq_put_lat, api_aq_get_lat, api_aq_put_value, api_aq_get_value, api_aq_put_flood;
run_fn api_aq_get_flood, api_aq_put_events, api_aq_memset;

/* api_aq_atomic.c */
void api_aq_atomic_open(void);
void api_aq_atomic_close(void);
run_fn api_aq_atomic_lat, api_aq_atomic_cas, api_aq_atomic_double, api_aq_atomic_rate;

/* api_aq_threads.c: `n` operations by all threads of --threads; returns the ns of all of them. */
typedef void api_aq_body(struct perf *perf, size_t size, uint64_t n);
double api_aq_spread(struct perf *perf, size_t size, uint64_t n, api_aq_body *body);

/* api_aq_private.c: a second endpoint, with the private memory of ranks 0 and 1 as its segment. */
void api_aq_attach_private(struct perf *perf, unsigned other);
double api_aq_put_private(struct perf *perf, size_t size, uint64_t n);
double api_aq_get_private(struct perf *perf, size_t size, uint64_t n);

/* api_aq_coll.c: the buffers lie in the ranks' segments, as those of programs that care do. */
double api_aq_bcast(struct perf *perf, size_t size, uint64_t n);
double api_aq_reduce(struct perf *perf, size_t size, uint64_t n);
double api_aq_allreduce(struct perf *perf, size_t size, uint64_t n);
double api_aq_gather(struct perf *perf, size_t size, uint64_t n);
double api_aq_allgather(struct perf *perf, size_t size, uint64_t n);
double api_aq_scatter(struct perf *perf, size_t size, uint64_t n);
double api_aq_alltoall(struct perf *perf, size_t size, uint64_t n);
double api_aq_team_split(struct perf *perf, size_t size, uint64_t n);

#endif
