/* What the files of the API back end for the GASNet interface share. */
#ifndef AQPERF_API_GASNET_H
#define AQPERF_API_GASNET_H

#include "perf.h"
#include <gasnetex.h>

#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>

extern gex_TM_t api_gasnet_world;
extern gex_EP_t api_gasnet_ep;
/* End the job with a message unless the call succeeded. */
void api_gasnet_check(int code, const char *call);

/* api_gasnet_more.c: a second endpoint, with the private memory of ranks 0 and 1 as its segment. */
void api_gasnet_attach_private(struct perf *perf);
loop_fn api_gasnet_put_private, api_gasnet_get_private, api_gasnet_strided_put;
loop_fn api_gasnet_bcast, api_gasnet_reduce, api_gasnet_allreduce, api_gasnet_gather;
loop_fn api_gasnet_allgather, api_gasnet_scatter, api_gasnet_alltoall;

#endif
