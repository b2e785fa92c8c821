/* The patterns of collectives: all ranks run the same number of them. */
#include "api_aq.h"

/* Arrivals are in the second half of the segment's data. */
static unsigned char *arrivals(const struct perf *perf)
{
    return perf->mine->data + perf->max_size;
}

static size_t block_of(const struct perf *perf, size_t size)
{
    return size < perf->ranks ? 1 : size / perf->ranks;
}

double api_aq_bcast(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(aq_coll_broadcast(api_aq_world(), 0, arrivals(perf), perf->mine->data, size),
                     "aq_coll_broadcast");
    return measure_now_ns() - begun;
}

double api_aq_reduce(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(aq_coll_reduce(api_aq_world(), 0, arrivals(perf), perf->mine->data,
                                    size / sizeof(double), AQ_F64, AQ_ADD),
                     "aq_coll_reduce");
    return measure_now_ns() - begun;
}

double api_aq_allreduce(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(aq_coll_allreduce(api_aq_world(), arrivals(perf), perf->mine->data,
                                       size / sizeof(double), AQ_F64, AQ_ADD),
                     "aq_coll_allreduce");
    return measure_now_ns() - begun;
}

double api_aq_gather(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(aq_coll_gather(api_aq_world(), 0, arrivals(perf), perf->mine->data,
                                    block_of(perf, size)),
                     "aq_coll_gather");
    return measure_now_ns() - begun;
}

double api_aq_allgather(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(aq_coll_allgather(api_aq_world(), arrivals(perf), perf->mine->data,
                                       block_of(perf, size)),
                     "aq_coll_allgather");
    return measure_now_ns() - begun;
}

double api_aq_scatter(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(aq_coll_scatter(api_aq_world(), 0, arrivals(perf), perf->mine->data,
                                     block_of(perf, size)),
                     "aq_coll_scatter");
    return measure_now_ns() - begun;
}

double api_aq_alltoall(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(aq_coll_alltoall(api_aq_world(), arrivals(perf), perf->mine->data,
                                      block_of(perf, size)),
                     "aq_coll_alltoall");
    return measure_now_ns() - begun;
}

double api_aq_team_split(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++) {
        aq_team *half;
        api_aq_check(aq_team_split(api_aq_world(), (int)perf->rank % 2, 0, 0, &half),
                     "aq_team_split");
        api_aq_check(aq_team_destroy(half), "aq_team_destroy");
    }
    return measure_now_ns() - begun;
}
