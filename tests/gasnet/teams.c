/*
 * Teams: splitting and creating them in each scratch mode, queries and translations, transfers and
 * messages between their ranks, and 5000 teams one after another.
 */
#include <gasnetex.h>

#include <gasnet_coll.h>

#include "draw.h"

static void check_team(gex_TM_t tm, gex_Rank_t rank, gex_Rank_t size, const gex_Rank_t *members)
{
    gex_Rank_t i;
    uint64_t one = 1, sum = 0;
    CHECK(tm != GEX_TM_INVALID && tm != job.tm);
    CHECK_EQUAL(gex_TM_QueryRank(tm), rank);
    CHECK_EQUAL(gex_TM_QuerySize(tm), size);
    CHECK(gex_TM_QueryClient(tm) == job.client && gex_TM_QueryEP(tm) == job.ep);
    CHECK(gex_TM_QueryCData(tm) == NULL);
    gex_TM_SetCData(tm, &one);
    CHECK(gex_TM_QueryCData(tm) == &one);
    for (i = 0; i < size; i++) {
        gex_EP_Location_t at = gex_TM_TranslateRankToEP(tm, i, 0);
        void *there = NULL, *job_wide = job_at(members[i], 0);
        uint32_t got = 0;
        CHECK_EQUAL(gex_TM_TranslateRankToJobrank(tm, i), members[i]);
        CHECK_EQUAL(gex_TM_TranslateJobrankToRank(tm, members[i]), i);
        CHECK(at.gex_rank == members[i] && at.gex_ep_index == 0);
        CHECK_EQUAL(gex_Segment_QueryBound(tm, i, &there, NULL, NULL), 0);
        CHECK(there == job_wide);
        CHECK_EQUAL(gex_RMA_GetBlocking(tm, &got, i, there, sizeof(got), 0), 0);
        CHECK_EQUAL(got, members[i]);
    }
    for (i = 0; i < job.size; i++) {
        gex_Rank_t k = 0;
        while (k < size && members[k] != i)
            k++;
        CHECK_EQUAL(gex_TM_TranslateJobrankToRank(tm, i), k < size ? k : GEX_RANK_INVALID);
    }
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &sum, &one, GEX_DT_U64, sizeof(sum), 1, GEX_OP_ADD,
                                          NULL, NULL, 0));
    CHECK_EQUAL(sum, size);
}

/* Separate teams of odd and even ranks, in reverse order; the last rank of the job joins none. */
static void split(void)
{
    gex_Rank_t members[64], size = 0, rank = 0, i;
    gex_TM_t tm = GEX_TM_INVALID;
    int joins = job.size == 1 || job.rank != job.size - 1;
    size_t asked = gex_TM_Split(joins ? &tm : NULL, job.tm, (int)(job.rank % 2), 0, NULL, 0,
                                GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED);
    size_t least = gex_TM_Split(joins ? &tm : NULL, job.tm, (int)(job.rank % 2), 0, NULL, 0,
                                GEX_FLAG_TM_SCRATCH_SIZE_MIN);
    gex_Memvec_t scratch = {NULL, 0};
    CHECK(tm == GEX_TM_INVALID);
    CHECK(joins ? asked > 0 && asked <= 2097152 && least > 0 : asked == 0 && least == 0);
    (void)gex_TM_Split(joins ? &tm : NULL, job.tm, (int)(job.rank % 2), -(int)job.rank,
                       job.base + GASNET_PAGESIZE, joins ? asked : 0, 0);
    if (!joins) {
        CHECK(tm == GEX_TM_INVALID);
        return;
    }
    for (i = job.size; i-- > 0;) {
        if (i % 2 != job.rank % 2 || (job.size > 1 && i == job.size - 1)) continue;
        if (i == job.rank) rank = size;
        members[size++] = i;
    }
    check_team(tm, rank, size, members);
    CHECK_EQUAL(gex_TM_QueryFlags(tm), 0);
    CHECK(gex_TM_Destroy(tm, &scratch, 0) != 0);
    CHECK(scratch.gex_addr == job.base + GASNET_PAGESIZE && scratch.gex_len == asked);
}

/* Two teams from lists, both with the ranks in reverse order, in the given scratch mode. */
static void create(gex_Flags_t mode, int by_job_rank)
{
    gex_EP_Location_t args[64];
    gex_Addr_t addrs[64];
    gex_Rank_t members[64], size = 0, rank = 0, i, half = (job.size + 1) / 2;
    gex_Memvec_t scratch = {NULL, 17};
    gex_TM_t parent, before, tm = GEX_TM_INVALID;
    gex_Flags_t flags = mode | (by_job_rank ? GEX_FLAG_RANK_IS_JOBRANK : 0);
    size_t asked;
    int given;
    /* The ranks of the parent differ from those of the job. */
    (void)gex_TM_Split(&parent, job.tm, 0, -(int)job.rank, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    for (i = job.size; i-- > 0;) {
        if ((i < half) != (job.rank < half)) continue;
        args[size].gex_rank = by_job_rank ? i : job.size - 1 - i;
        args[size].gex_ep_index = 0;
        addrs[size] = mode == GEX_FLAG_TM_GLOBAL_SCRATCH ? job_at(i, GASNET_PAGESIZE)
                                                         : job.base + GASNET_PAGESIZE;
        if (i == job.rank) rank = size;
        members[size++] = i;
    }
    asked = gex_TM_Create(NULL, 1, parent, NULL, size, NULL, 0,
                          flags | GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED);
    CHECK(asked > 0 && asked <= 2097152);
    CHECK_EQUAL(gex_TM_Create(NULL, 0, parent, NULL, 0, NULL, 0,
                              flags | GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED),
                0);
    CHECK_EQUAL(gex_TM_Create(&tm, 1, parent, args, 0, addrs, 0,
                              flags | GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED),
                0);
    (void)gex_TM_Create(&tm, 1, parent, args, size, mode == GEX_FLAG_TM_NO_SCRATCH ? NULL : addrs,
                        asked, flags);
    check_team(tm, rank, size, members);
    given = gex_TM_Destroy(tm, &scratch, GEX_FLAG_GLOBALLY_QUIESCED);
    if (mode == GEX_FLAG_TM_NO_SCRATCH)
        CHECK(given == 0 && scratch.gex_addr == NULL && scratch.gex_len == 17);
    else
        CHECK(given != 0 && scratch.gex_len == asked &&
              scratch.gex_addr == job.base + GASNET_PAGESIZE);

    before = tm;
    /* Only the first half creates a team; the others take part without joining. */
    if (job.rank < half)
        (void)gex_TM_Create(&tm, 1, parent, args, size, addrs, asked, flags);
    else if (job.rank % 2)
        (void)gex_TM_Create(NULL, 0, parent, NULL, 0, NULL, 0, flags);
    else /* a call with no members joins nothing, whatever the other arguments */
        (void)gex_TM_Create(&tm, 1, parent, args, 0, addrs, asked, flags);
    CHECK(job.rank < half || tm == before);
    if (job.rank < half) {
        check_team(tm, rank, size, members);
        CHECK_EQUAL(gex_TM_Destroy(tm, NULL, 0), 0);
    }
    CHECK_EQUAL(gex_TM_Destroy(parent, NULL, 0), 0);
}

int main(int argc, char **argv)
{
    static const gex_Flags_t modes[] = {GEX_FLAG_TM_NO_SCRATCH, GEX_FLAG_TM_LOCAL_SCRATCH,
                                        GEX_FLAG_TM_GLOBAL_SCRATCH};
    const int many = 5000;
    unsigned i;
    int n;
    job_open(&argc, &argv, 1024 * GASNET_PAGESIZE);
    CHECK(job.size <= 64);
    memcpy(job.base, &job.rank, sizeof(job.rank));
    job_barrier();
    for (i = 0; i < 3; i++)
        split();
    for (i = 0; i < COUNT_OF(modes); i++) {
        create(modes[i], 0);
        create(modes[i], 1);
    }
    for (n = 0; n < many; n++) {
        gex_TM_t tm;
        gex_Memvec_t scratch;
        (void)gex_TM_Split(&tm, job.tm, 0, (int)job.rank, job.base + GASNET_PAGESIZE,
                           GASNET_PAGESIZE, 0);
        if (n % 1000 == 0) gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
        CHECK(gex_TM_Destroy(tm, &scratch, 0) != 0);
    }
    job_barrier();
    gasnet_exit(0);
}
