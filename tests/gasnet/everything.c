/*
 * GASNET_SEGMENT_EVERYTHING: all memory of each process is a valid target of puts, gets and Longs,
 * as soon as the job has started: the attach, which is called late or, by argument, never, is only
 * a barrier.
 */
#define GASNET_SEGMENT_EVERYTHING 1
#include <gasnet.h>

#include <gasnet_ratomic.h>
#include <gasnet_vis.h>

#include "support.h"

enum { LANDED = 200 };

static long words[2]; /* static data; the heap and the stack are tested, too */
static unsigned landed;

static void on_landed(gasnet_token_t token, void *buf, size_t nbytes)
{
    (void)token;
    CHECK(buf == &words[1] && nbytes == sizeof(long));
    one_more(&landed);
}

/* Put to, and get from, the memory at `mine` of the next process. */
static void try_memory(long *mine)
{
    long **all = (long **)malloc(job.size * sizeof(*all));
    long value = 1000 + (long)job.rank, back = 0;
    gasnet_coll_gather_all(GASNET_TEAM_ALL, all, &mine, sizeof(mine),
                           GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC);
    gasnet_put(job.next, all[job.next], &value, sizeof(value));
    job_barrier();
    CHECK_EQUAL(*mine, 1000 + job.previous);
    gasnet_wait_syncnb(gasnet_get_nb_bulk(&back, job.next, all[job.next], sizeof(back)));
    CHECK_EQUAL(back, value);
    job_barrier(); /* all processes have checked it */
    gasnet_put_val(job.next, all[job.next], 77, sizeof(long));
    CHECK_EQUAL(gasnet_get_val(job.next, all[job.next], sizeof(long)), 77);
    job_barrier();
    free(all);
}

/*
 * From the attach on, all memory is bound to the first endpoint of each process; before, none is.
 */
static void check_bound(int attached)
{
    void *owner = &words, *local = &words;
    uintptr_t size = 0;
    gasnet_seginfo_t info;
    gex_Rank_t rank;
    for (rank = 0; rank < job.size; rank++) {
        owner = local = &words;
        size = 7;
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(job.tm, rank, &owner, &local, &size, 0));
        CHECK(size == (attached ? UINTPTR_MAX : 0));
        CHECK(!attached || (owner == NULL && local == NULL));
        owner = &words;
        size = 7;
        CHECK((gex_Segment_QueryBound(job.tm, rank, &owner, NULL, &size) == 0) == attached);
        CHECK(attached ? owner == NULL && size == UINTPTR_MAX : owner == &words && size == 7);
    }
    CHECK(gex_EP_QuerySegment(job.ep) == GEX_SEGMENT_INVALID);
    CHECK_EQUAL(gasnet_getSegmentInfo(&info, 1), GASNET_OK);
    CHECK(info.addr == NULL && info.size == UINTPTR_MAX);
}

/* A segment that is bound to the first endpoint is reported by queries, and limits nothing. */
static void try_segment(void)
{
    static long other;
    gex_Segment_t mine;
    void *owner = NULL;
    uintptr_t size = 0;
    long value = 30 + (long)job.rank;
    CHECK_EQUAL(gex_Segment_Create(&mine, job.client, words, sizeof(words), GEX_MK_HOST, 0),
                GASNET_OK);
    CHECK_EQUAL(gex_EP_BindSegment(job.ep, mine, 0), GASNET_OK);
    CHECK(gex_EP_QuerySegment(job.ep) == mine);
    gex_System_SetVerboseErrors(0);
    CHECK_EQUAL(gex_EP_BindSegment(job.ep, mine, 0), GASNET_ERR_BAD_ARG);
    gex_System_SetVerboseErrors(1);
    CHECK_EQUAL(gex_Segment_QueryBound(job.tm, job.rank, &owner, NULL, &size), 0);
    CHECK(owner == words && size == sizeof(words));
    CHECK_EQUAL(gex_EP_PublishBoundSegment(job.tm, &job.ep, 1, 0), GASNET_OK);
    CHECK_EQUAL(gex_Segment_QueryBound(job.tm, job.next, &owner, NULL, &size), 0);
    CHECK(owner != NULL && size == sizeof(words));
    CHECK_EQUAL(gex_RMA_PutBlocking(job.tm, job.next, owner, &value, sizeof(value), 0), 0);
    job_barrier();
    CHECK_EQUAL(words[0], 30 + job.previous);
    try_memory(&other);
    try_memory(&value);
    gex_Segment_Destroy(mine, 0);
    CHECK(gex_EP_QuerySegment(job.ep) == GEX_SEGMENT_INVALID);
    job_barrier();
    try_memory(&other);
}

/* A Long, an atomic and a scattered put to the words of the next process. */
static void try_calls(long *heap, unsigned round)
{
    long **all = (long **)malloc(job.size * sizeof(*all)), *mine = words, value = 5, before = 0;
    gex_Memvec_t from = {&value, sizeof(value)}, to;
    gex_AD_t domain;
    gasnet_coll_gather_all(GASNET_TEAM_ALL, all, &mine, sizeof(mine),
                           GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC);
    gasnet_AMRequestLong0(job.next, LANDED, heap, sizeof(long), &all[job.next][1]);
    GASNET_BLOCKUNTIL(__atomic_load_n(&landed, __ATOMIC_ACQUIRE) == round);
    CHECK_EQUAL(words[1], 77); /* left by try_memory */
    gex_AD_Create(&domain, job.tm, GEX_DT_I64, GEX_OP_FADD, 0);
    words[0] = 7;
    job_barrier();
    gex_Event_Wait(
        gex_AD_OpNB_I64(domain, (int64_t *)&before, job.next, all[job.next], GEX_OP_FADD, 3, 0, 0));
    CHECK_EQUAL(before, 7);
    job_barrier();
    CHECK_EQUAL(words[0], 10);
    job_barrier(); /* all processes have checked it */
    gex_AD_Destroy(domain);
    to.gex_addr = all[job.next];
    to.gex_len = sizeof(value);
    gex_Event_Wait(gex_VIS_VectorPutNB(job.tm, job.next, 1, &to, 1, &from, 0));
    job_barrier();
    CHECK_EQUAL(words[0], 5);
    free(all);
}

int main(int argc, char **argv)
{
    gex_AM_Entry_t handler = {
        LANDED, (gex_AM_Fn_t)on_landed, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 0, NULL, NULL};
    int attaches = argc < 2;
    unsigned round;
    long local = 0, *heap = (long *)malloc(sizeof(*heap));
    gex_Segment_t *segment = &job.segment;
    CHECK_EQUAL(gex_Client_Init(&job.client, &job.ep, &job.tm, "everything", &argc, &argv,
                                GEX_FLAG_USES_GASNET1),
                GASNET_OK);
    job_learn();
    CHECK(gasnet_getMaxLocalSegmentSize() == (uintptr_t)-1);
    CHECK(gasnet_getMaxGlobalSegmentSize() == (uintptr_t)-1);
    CHECK_EQUAL(gex_EP_RegisterHandlers(job.ep, &handler, 1), GASNET_OK);
    job_barrier();
    for (round = 1; round <= 2; round++) {
        check_bound(round == 2 && attaches);
        try_memory(&words[0]);
        try_memory(heap);
        try_memory(&local);
        try_calls(heap, round);
        if (round == 2 || !attaches) continue;
        job.segment = (gex_Segment_t)(uintptr_t)1;
        CHECK_EQUAL(gex_Segment_Attach(segment, job.tm, 123), GASNET_OK); /* of any size */
        CHECK(job.segment == GEX_SEGMENT_INVALID);
        gex_System_SetVerboseErrors(0);
        CHECK(gex_Segment_Attach(segment, job.tm, 123) != GASNET_OK); /* once */
        gex_System_SetVerboseErrors(1);
        gasnet_QueryGexObjects(NULL, NULL, NULL, &job.segment);
        CHECK(job.segment == GEX_SEGMENT_INVALID);
    }
    try_segment();
    job_barrier();
    free(heap);
    gasnet_exit(0);
}
