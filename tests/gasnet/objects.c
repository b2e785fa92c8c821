/* Clients, endpoints, segments, teams, pairs, hosts and neighborhoods of GASNet-EX. */
#include <gasnetex.h>

#include "support.h"

enum { AREA = 1 << 16 };

static void test_client(void)
{
    int mark;
    gex_Client_t again;
    CHECK_EQUAL(gex_Client_QueryFlags(job.client), 0);
    CHECK(strcmp(gex_Client_QueryName(job.client), "TEST") == 0);
    CHECK(gex_Client_QueryCData(job.client) == NULL && gex_EP_QueryCData(job.ep) == NULL);
    CHECK(gex_TM_QueryCData(job.tm) == NULL && gex_Segment_QueryCData(job.segment) == NULL);
    gex_Client_SetCData(job.client, &mark);
    gex_EP_SetCData(job.ep, &mark);
    gex_TM_SetCData(job.tm, &mark);
    gex_Segment_SetCData(job.segment, &mark);
    CHECK(gex_Client_QueryCData(job.client) == &mark && gex_EP_QueryCData(job.ep) == &mark);
    CHECK(gex_TM_QueryCData(job.tm) == &mark && gex_Segment_QueryCData(job.segment) == &mark);
    CHECK(gex_TM_QueryClient(job.tm) == job.client && gex_TM_QueryEP(job.tm) == job.ep);
    CHECK(gex_EP_QueryClient(job.ep) == job.client && gex_EP_QueryIndex(job.ep) == 0);
    CHECK(gex_EP_QuerySegment(job.ep) == job.segment && gex_EP_QueryFlags(job.ep) == 0);
    CHECK(gex_Segment_QueryClient(job.segment) == job.client);
    CHECK_EQUAL(gex_TM_QueryFlags(job.tm), 0);
    CHECK_EQUAL(gex_System_QueryJobRank(), job.rank);
    CHECK_EQUAL(gex_System_QueryJobSize(), job.size);
    gex_System_SetVerboseErrors(0);
    CHECK(gex_Client_Init(&again, NULL, NULL, "AGAIN", NULL, NULL, 0) != GASNET_OK);
    CHECK(gex_Segment_Attach(&job.segment, job.tm, GASNET_PAGESIZE) != GASNET_OK);
    gex_System_SetVerboseErrors(1);
#ifdef GASNET_SEQ
    CHECK_EQUAL(gex_System_QueryMaxThreads(), 1);
#else
    CHECK(gex_System_QueryMaxThreads() > 1);
#endif
    CHECK(gex_System_QueryHiddenAMConcurrencyLevel() <= GASNET_HIDDEN_AM_CONCURRENCY_LEVEL);
}

/*
 * Neighbors map each other's segments, hosts contain neighborhoods, and this process is listed in
 * its own.
 */
static void test_places(void)
{
    gex_RankInfo_t *nbrhd, *host;
    gex_Rank_t nbrs, hosts, mine, host_mine, sets, set, host_sets, host_set, i;
    gex_System_QueryNbrhdInfo(&nbrhd, &nbrs, &mine);
    gex_System_QueryHostInfo(&host, &hosts, &host_mine);
    gex_System_QueryMyPosition(&sets, &set, &host_sets, &host_set);
    gex_System_QueryNbrhdInfo(NULL, NULL, NULL);
    gex_System_QueryMyPosition(NULL, NULL, NULL, NULL);
    CHECK(nbrs >= 1 && hosts >= nbrs && sets >= host_sets && sets <= job.size);
    CHECK(set < sets && host_set < host_sets);
    CHECK_EQUAL(nbrhd[mine].gex_jobrank, job.rank);
    CHECK_EQUAL(host[host_mine].gex_jobrank, job.rank);
    for (i = 0; i < nbrs; i++) {
        void *owner = NULL, *local = NULL;
        uintptr_t size = 0;
        gex_Rank_t rank = nbrhd[i].gex_jobrank;
        CHECK(i == 0 || nbrhd[i - 1].gex_jobrank < rank);
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(job.tm, rank, &owner, &local, &size, 0));
        CHECK(owner != NULL && size == job.len);
        if (nbrs == 1 || rank == job.rank) continue;
        CHECK(local != NULL);
        ((char *)local)[100 + job.rank] = (char)(job.rank + 1);
    }
    job_barrier();
    for (i = 0; i < nbrs && nbrs > 1; i++)
        if (nbrhd[i].gex_jobrank != job.rank)
            CHECK_EQUAL(job.base[100 + nbrhd[i].gex_jobrank], nbrhd[i].gex_jobrank + 1);
    job_barrier();
}

/* --- teams ----------------------------------------------------------------------------------- */

static void check_team(gex_TM_t tm, gex_Rank_t first, gex_Rank_t step)
{
    gex_Rank_t rank, size = gex_TM_QuerySize(tm);
    unsigned value = 0;
    CHECK(gex_TM_QueryEP(tm) == job.ep && gex_TM_QueryClient(tm) == job.client);
    for (rank = 0; rank < size; rank++) {
        gex_EP_Location_t where = gex_TM_TranslateRankToEP(tm, rank, 0);
        CHECK_EQUAL(gex_TM_TranslateRankToJobrank(tm, rank), first + rank * step);
        CHECK_EQUAL(gex_TM_TranslateJobrankToRank(tm, first + rank * step), rank);
        CHECK(where.gex_rank == first + rank * step && where.gex_ep_index == 0);
    }
    if (step == 2 && first == 0 && job.size > 1)
        CHECK(gex_TM_TranslateJobrankToRank(tm, 1) == GEX_RANK_INVALID);
    /* A put through the team reaches the process with that rank in it. */
    rank = (gex_TM_QueryRank(tm) + 1) % size;
    value = 1000 + gex_TM_QueryRank(tm);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    CHECK_EQUAL(gex_RMA_PutBlocking(tm, rank, job_at(first + rank * step, 0), &value, 4, 0), 0);
    gex_Coll_BarrierBlocking(tm, 0);
    memcpy(&value, job.base, 4);
    CHECK_EQUAL(value, 1000 + (gex_TM_QueryRank(tm) + size - 1) % size);
    gex_Coll_BarrierBlocking(tm, 0);
}

static void test_split(void)
{
    int color = (int)(job.rank % 2), round;
    gex_TM_t tm = GEX_TM_INVALID;
    gex_Memvec_t scratch = {NULL, 0};
    size_t size = gex_TM_Split(&tm, job.tm, color, (int)job.rank, NULL, 0,
                               GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED);
    CHECK(size > 0 && size <= 2 << 20 && tm == GEX_TM_INVALID);
    CHECK_EQUAL(gex_TM_Split(NULL, job.tm, 0, 0, NULL, 0, GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED), 0);
    for (round = 0; round < 20; round++) {
        gex_TM_Split(&tm, job.tm, color, (int)job.rank, job.base + AREA, size, 0);
        check_team(tm, (gex_Rank_t)color, 2);
        CHECK(gex_TM_Destroy(tm, &scratch, 0) != 0);
        CHECK(scratch.gex_addr == job.base + AREA && scratch.gex_len == size);
    }
    /* Only rank 0 joins, without scratch memory. */
    gex_TM_Split(job.rank == 0 ? &tm : NULL, job.tm, 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    if (job.rank != 0) return;
    CHECK_EQUAL(gex_TM_QuerySize(tm), 1);
    scratch.gex_len = 77;
    CHECK_EQUAL(gex_TM_Destroy(tm, &scratch, GEX_FLAG_GLOBALLY_QUIESCED), 0);
    CHECK_EQUAL(scratch.gex_len, 77);
}

static void test_create(void)
{
    gex_EP_Location_t *args = (gex_EP_Location_t *)calloc(job.size, sizeof(*args));
    gex_Addr_t scratch = job.base + AREA;
    gex_TM_t tm = GEX_TM_INVALID;
    size_t size, count = 0;
    gex_Rank_t rank;
    size = gex_TM_Create(NULL, 1, job.tm, NULL, job.size, NULL, 0,
                         GEX_FLAG_TM_LOCAL_SCRATCH | GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED);
    CHECK(size > 0);
    for (rank = job.rank % 2; rank < job.size; rank += 2)
        args[count++].gex_rank = rank;
    gex_TM_Create(&tm, 1, job.tm, args, count, &scratch, size,
                  GEX_FLAG_TM_LOCAL_SCRATCH | GEX_FLAG_RANK_IS_JOBRANK);
    check_team(tm, job.rank % 2, 2);
    CHECK(gex_TM_Destroy(tm, NULL, 0) == 0);
    gex_TM_Create(NULL, 0, job.tm, NULL, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    free(args);
}

/* --- endpoints and segments ------------------------------------------------------------------- */

static void test_refusals(void)
{
    gex_EP_t ep = GEX_EP_INVALID;
    gex_Segment_t segment = GEX_SEGMENT_INVALID;
    gex_System_SetVerboseErrors(0);
    CHECK_EQUAL(gex_EP_Create(&ep, job.client, 0, 0), GASNET_ERR_BAD_ARG);
    CHECK_EQUAL(gex_EP_Create(&ep, job.client, ~GEX_EP_CAPABILITY_ALL, 0), GASNET_ERR_BAD_ARG);
    CHECK(ep == GEX_EP_INVALID);
    CHECK_EQUAL(gex_Segment_Create(&segment, job.client, NULL, 0, GEX_MK_HOST, 0),
                GASNET_ERR_BAD_ARG);
    CHECK_EQUAL(gex_Segment_Create(&segment, job.client, NULL, 100, GEX_MK_INVALID, 0),
                GASNET_ERR_BAD_ARG);
    CHECK_EQUAL(gex_EP_BindSegment(GEX_EP_INVALID, job.segment, 0), GASNET_ERR_BAD_ARG);
    CHECK_EQUAL(gex_EP_BindSegment(job.ep, GEX_SEGMENT_INVALID, 0), GASNET_ERR_BAD_ARG);
    CHECK_EQUAL(gex_EP_BindSegment(job.ep, job.segment, 0), GASNET_ERR_BAD_ARG);
    gex_System_SetVerboseErrors(1);
}

/*
 * A second endpoint with its own segment, addressed through pairs; then as many endpoints as
 * possible.
 */
static void test_endpoints(void)
{
    static char mine[5000];
    gex_EP_t ep = GEX_EP_INVALID, more = GEX_EP_INVALID;
    gex_Segment_t segment = GEX_SEGMENT_INVALID;
    gex_TM_t pair;
    void *owner = NULL, *local = &owner;
    uintptr_t size = 77;
    unsigned value, count;
    CHECK_EQUAL(gex_EP_Create(&ep, job.client, GEX_EP_CAPABILITY_RMA, 0), GASNET_OK);
    CHECK_EQUAL(gex_EP_QueryIndex(ep), 1);
    CHECK(gex_EP_QuerySegment(ep) == GEX_SEGMENT_INVALID);
    pair = gex_TM_Pair(ep, 1);
    CHECK(pair == gex_TM_Pair(ep, 1) && pair != gex_TM_Pair(job.ep, 1) && pair != job.tm);
    CHECK(gex_Segment_QueryBound(pair, job.rank, &owner, &local, &size) != 0);
    CHECK(size == 77 && owner == NULL && local == &owner);
    gex_Event_Wait(
        gex_EP_QueryBoundSegmentNB(pair, job.rank, NULL, NULL, &size, GEX_FLAG_IMMEDIATE));
    CHECK_EQUAL(size, 0);
    CHECK_EQUAL(
        gex_Segment_Create(&segment, job.client, mine + 3, sizeof(mine) - 3, GEX_MK_HOST, 0),
        GASNET_OK);
    CHECK(gex_Segment_QueryAddr(segment) == mine + 3);
    CHECK_EQUAL(gex_EP_BindSegment(ep, segment, 0), GASNET_OK);
    CHECK(gex_EP_QuerySegment(ep) == segment);
    CHECK_EQUAL(gex_EP_PublishBoundSegment(job.tm, &ep, 1, 0), GASNET_OK);
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(pair, job.next, &owner, &local, &size, 0));
    CHECK(owner != NULL && size == sizeof(mine) - 3);
    value = 5000 + job.rank;
    gex_Event_Wait(gex_RMA_PutNB(pair, job.next, (char *)owner + 1, &value, 4, GEX_EVENT_NOW, 0));
    job_barrier();
    memcpy(&value, mine + 4, 4);
    CHECK_EQUAL(value, 5000 + job.previous);
    CHECK_EQUAL(gex_RMA_GetBlockingVal(pair, job.next, (char *)owner + 1, 4, 0), 5000 + job.rank);
    job_barrier();
    gex_Segment_Destroy(segment, 0);
    gex_System_SetVerboseErrors(0);
    for (count = 2; gex_EP_Create(&more, job.client, GEX_EP_CAPABILITY_RMA, 0) == GASNET_OK;
         count++)
        CHECK_EQUAL(gex_EP_QueryIndex(more), count);
    CHECK_EQUAL(count, GASNET_MAXEPS);
    CHECK_EQUAL(gex_EP_Create(&more, job.client, GEX_EP_CAPABILITY_RMA, 0), GASNET_ERR_RESOURCE);
    gex_System_SetVerboseErrors(1);
    job_barrier();
}

int main(int argc, char **argv)
{
    job_open(&argc, &argv, 4 * AREA);
    test_client();
    test_places();
    test_split();
    test_create();
    test_refusals();
    test_endpoints();
    job_barrier();
    gasnet_exit(0);
}
