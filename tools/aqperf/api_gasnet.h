/* What the files of the API back end for the GASNet interface share. */
#ifndef AQPERF_API_GASNET_H
#define AQPERF_API_GASNET_H

#include "perf.h"
#include <gasnetex.h>

#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>

gex_TM_t api_gasnet_world(void);
gex_EP_t api_gasnet_ep(void);
/* End the job with a message unless the call succeeded. */
void api_gasnet_check(int code, const char *call);

/* api_gasnet_more.c: a second endpoint, with the private memory of ranks 0 and 1 as its segment. */
void api_gasnet_attach_private(struct perf *perf, unsigned other);
double api_gasnet_put_private(struct perf *perf, size_t size, uint64_t n);
double api_gasnet_get_private(struct perf *perf, size_t size, uint64_t n);
double api_gasnet_strided_put(struct perf *perf, size_t size, uint64_t n);

double api_gasnet_bcast(struct perf *perf, size_t size, uint64_t n);
double api_gasnet_reduce(struct perf *perf, size_t size, uint64_t n);
double api_gasnet_allreduce(struct perf *perf, size_t size, uint64_t n);
double api_gasnet_gather(struct perf *perf, size_t size, uint64_t n);
double api_gasnet_allgather(struct perf *perf, size_t size, uint64_t n);
double api_gasnet_scatter(struct perf *perf, size_t size, uint64_t n);
double api_gasnet_alltoall(struct perf *perf, size_t size, uint64_t n);

#endif
