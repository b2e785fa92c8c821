/* The patterns of collectives: all ranks run the same number of them. */
#include "api_aq.h"

void api_aq_bcast(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_coll_broadcast(api_aq_world, 0, talk_arrivals(perf), perf->mine->data, size));
}

void api_aq_reduce(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_coll_reduce(api_aq_world, 0, talk_arrivals(perf), perf->mine->data,
                             size / sizeof(double), AQ_F64, AQ_ADD));
}

void api_aq_allreduce(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_coll_allreduce(api_aq_world, talk_arrivals(perf), perf->mine->data,
                                size / sizeof(double), AQ_F64, AQ_ADD));
}

void api_aq_gather(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_coll_gather(api_aq_world, 0, talk_arrivals(perf), perf->mine->data,
                             talk_block(perf, size)));
}

void api_aq_allgather(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_coll_allgather(api_aq_world, talk_arrivals(perf), perf->mine->data,
                                talk_block(perf, size)));
}

void api_aq_scatter(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_coll_scatter(api_aq_world, 0, talk_arrivals(perf), perf->mine->data,
                              talk_block(perf, size)));
}

void api_aq_alltoall(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_coll_alltoall(api_aq_world, talk_arrivals(perf), perf->mine->data,
                               talk_block(perf, size)));
}

void api_aq_team_split(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    for (uint64_t i = 0; i < n; i++) {
        aq_team *half;
        CHECK(aq_team_split(api_aq_world, (int)perf->rank % 2, 0, 0, &half));
        CHECK(aq_team_destroy(half));
    }
}
