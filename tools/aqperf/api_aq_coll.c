/*
 * The patterns of collectives, which all ranks run the same number of times. The buffers are in
 * the ranks' segments, as in programs optimized for speed.
 */
#include "api_aq.h"

#define BUFFERS talk_second_half(perf), perf->mine->data
#define DOUBLES size / sizeof(double), AQ_TYPE_F64, AQ_OP_ADD
LOOP(api_aq_bcast, , CHECK(aq_coll_broadcast(api_aq_world, 0, BUFFERS, size, 0)))
LOOP(api_aq_reduce, , CHECK(aq_coll_reduce(api_aq_world, 0, BUFFERS, DOUBLES, 0)))
LOOP(api_aq_allreduce, , CHECK(aq_coll_allreduce(api_aq_world, BUFFERS, DOUBLES, 0)))
LOOP(api_aq_gather, , CHECK(aq_coll_gather(api_aq_world, 0, BUFFERS, talk_block(perf, size), 0)))
LOOP(api_aq_allgather, , CHECK(aq_coll_allgather(api_aq_world, BUFFERS, talk_block(perf, size), 0)))
LOOP(api_aq_scatter, , CHECK(aq_coll_scatter(api_aq_world, 0, BUFFERS, talk_block(perf, size), 0)))
LOOP(api_aq_alltoall, , CHECK(aq_coll_alltoall(api_aq_world, BUFFERS, talk_block(perf, size), 0)))
LOOP(api_aq_team_split, , {
    aq_team *half;
    CHECK(aq_team_split(api_aq_world, (int)perf->rank % 2, 0, 0, &half));
    CHECK(aq_team_destroy(half));
})
