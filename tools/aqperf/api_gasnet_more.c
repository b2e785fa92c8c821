/* Through the GASNet interface: memory that nobody else has mapped, strided puts, collectives. */
#include "api_gasnet.h"

static gex_TM_t pair;

void api_gasnet_attach_private(struct perf *perf)
{
    gex_Client_t client = gex_EP_QueryClient(api_gasnet_ep);
    gex_EP_t ep;
    gex_Segment_t segment;
    void *owner = NULL;
    uintptr_t size;
    api_gasnet_check(gex_EP_Create(&ep, client, GEX_EP_CAPABILITY_RMA, 0), "gex_EP_Create");
    if (perf->target != NULL) {
        api_gasnet_check(
            gex_Segment_Create(&segment, client, perf->target, perf->max_size, GEX_MK_HOST, 0),
            "gex_Segment_Create");
        api_gasnet_check(gex_EP_BindSegment(ep, segment, 0), "gex_EP_BindSegment");
    }
    api_gasnet_check(gex_EP_PublishBoundSegment(api_gasnet_world, &ep, 1, 0),
                     "gex_EP_PublishBoundSegment");
    pair = gex_TM_Pair(ep, gex_EP_QueryIndex(ep));
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(pair, perf->peer, &owner, NULL, &size, 0));
    perf->peer_target = owner;
}

void api_gasnet_put_private(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        gex_RMA_PutNBI(pair, perf->peer, perf->peer_target, perf->source, size, GEX_EVENT_DEFER, 0);
    gex_NBI_Wait(GEX_EC_PUT, 0);
}

void api_gasnet_get_private(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        gex_RMA_GetNBI(pair, perf->source, perf->peer, perf->peer_target, size, 0);
    gex_NBI_Wait(GEX_EC_GET, 0);
}

/* The shape of api_aq_vis.c: every other word of the target, from adjacent words. */
enum { WORD = 8, STEP = 16 };

void api_gasnet_strided_put(struct perf *perf, size_t size, uint64_t n)
{
    const ptrdiff_t there = STEP, here = WORD;
    const size_t count = size / WORD;
    for (uint64_t i = 0; i < n; i++)
        gex_VIS_StridedPutNBI(api_gasnet_world, perf->peer, perf->peer_addr->data, &there,
                              perf->source, &here, WORD, &count, 1, 0);
    gex_NBI_Wait(GEX_EC_PUT, 0);
}

void api_gasnet_bcast(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        gex_Event_Wait(gex_Coll_BroadcastNB(api_gasnet_world, 0, talk_arrivals(perf),
                                            perf->mine->data, size, 0));
}

void api_gasnet_reduce(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        gex_Event_Wait(gex_Coll_ReduceToOneNB(api_gasnet_world, 0, talk_arrivals(perf),
                                              perf->mine->data, GEX_DT_DBL, sizeof(double),
                                              size / sizeof(double), GEX_OP_ADD, NULL, NULL, 0));
}

void api_gasnet_allreduce(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        gex_Event_Wait(gex_Coll_ReduceToAllNB(api_gasnet_world, talk_arrivals(perf),
                                              perf->mine->data, GEX_DT_DBL, sizeof(double),
                                              size / sizeof(double), GEX_OP_ADD, NULL, NULL, 0));
}

/* The collectives of GASNet-1, each with its own addresses. */
enum { FLAGS = GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC };

void api_gasnet_gather(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        gasnet_coll_gather(GASNET_TEAM_ALL, 0, talk_arrivals(perf), perf->mine->data,
                           talk_block(perf, size), FLAGS);
}

void api_gasnet_allgather(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        gasnet_coll_gather_all(GASNET_TEAM_ALL, talk_arrivals(perf), perf->mine->data,
                               talk_block(perf, size), FLAGS);
}

void api_gasnet_scatter(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        gasnet_coll_scatter(GASNET_TEAM_ALL, talk_arrivals(perf), 0, perf->mine->data,
                            talk_block(perf, size), FLAGS);
}

void api_gasnet_alltoall(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        gasnet_coll_exchange(GASNET_TEAM_ALL, talk_arrivals(perf), perf->mine->data,
                             talk_block(perf, size), FLAGS);
}
