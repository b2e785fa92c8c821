/* What the files of the API back end for Aqueduct share. */
#ifndef AQPERF_API_AQ_H
#define AQPERF_API_AQ_H

#include "perf.h"
#include <aqueduct/aqueduct.h>

/* End the job with a message unless the call succeeded. */
#define CHECK(call) api_aq_check(call, #call)
void api_aq_check(aq_status status, const char *call);

/* The team of all ranks. */
extern aq_team *api_aq_world;

/* api_aq_rma.c: what its patterns need beside the segments. */
void api_aq_rma_open(struct perf *perf);
void api_aq_rma_close(void);
loop_fn api_aq_put, api_aq_get, api_aq_put_value, api_aq_get_value, api_aq_put_nbi, api_aq_get_nbi;
loop_fn api_aq_put_events, api_aq_memset, api_aq_put_private, api_aq_get_private;
loop_fn api_aq_fetch_add, api_aq_cas, api_aq_add_double, api_aq_add;

/* api_aq_vis.c: scattered transfers; those by lists have to make them before. */
loop_fn api_aq_strided_put, api_aq_strided_get, api_aq_vector_put, api_aq_vector_get;
loop_fn api_aq_indexed_put, api_aq_indexed_get, api_aq_put_lists, api_aq_get_lists;

/* api_aq_coll.c: the buffers lie in the ranks' segments, as those of programs that care do. */
loop_fn api_aq_bcast, api_aq_reduce, api_aq_allreduce, api_aq_gather, api_aq_allgather;
loop_fn api_aq_scatter, api_aq_alltoall, api_aq_team_split;

#endif
