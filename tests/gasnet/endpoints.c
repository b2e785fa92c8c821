/*
 * Several endpoints of one process, each with its own handlers and segment, addressed by pairs and
 * by teams that contain them.
 */
#include <gasnet_coll.h>
#include <gasnet_vis.h>
#include <gasnetex.h>

#include "support.h"

enum { ENDPOINTS = 3, AREA = 1 << 16, REQUEST = 140, REPLY, COMPLETION, SHARED, SHARED_REPLY };

static gex_EP_t eps[ENDPOINTS];
static gex_Segment_t segments[ENDPOINTS];
static unsigned requests[ENDPOINTS], replies[ENDPOINTS], completions[ENDPOINTS];

/* The handler must run at the endpoint that the message was sent to. */
static void check_token(gex_Token_t token, int at, gex_AM_Arg_t from)
{
    gex_Token_Info_t info;
    gex_TI_t known = gex_Token_Info(token, &info, GEX_TI_ALL);
    CHECK((known & GEX_TI_SRCRANK) && (known & GEX_TI_EP));
    CHECK(info.gex_ep == eps[at]);
    CHECK(from < 0 || info.gex_srcrank == (gex_Rank_t)from);
    if (known & GEX_TI_ENTRY) CHECK(info.gex_entry->gex_cdata == &eps[at]);
}

/* The same index has a different handler at each endpoint. */
#define HANDLERS(E)                                                                                \
    static void on_request_##E(gex_Token_t token, void *buf, size_t len, gex_AM_Arg_t from,        \
                               gex_AM_Arg_t back)                                                  \
    {                                                                                              \
        check_token(token, E, from);                                                               \
        CHECK(filled(buf, len, (unsigned)from));                                                   \
        one_more(&requests[E]);                                                                    \
        CHECK_EQUAL(gex_AM_ReplyShort(token, REPLY, 0, back), 0);                                  \
    }                                                                                              \
    static void on_reply_##E(gex_Token_t token, gex_AM_Arg_t back)                                 \
    {                                                                                              \
        check_token(token, E, -1);                                                                 \
        CHECK_EQUAL(back, E);                                                                      \
        one_more(&replies[E]);                                                                     \
    }                                                                                              \
    static void on_completion_##E(gex_Token_t token, void *buf, size_t len)                        \
    {                                                                                              \
        check_token(token, E, -1);                                                                 \
        CHECK(len == 4 && memcmp(buf, "done", 4) == 0);                                            \
        one_more(&completions[E]);                                                                 \
    }
HANDLERS(0)
HANDLERS(1)
HANDLERS(2)

static const struct {
    gex_AM_Fn_t request, reply, completion;
} handlers[ENDPOINTS] = {
    {(gex_AM_Fn_t)on_request_0, (gex_AM_Fn_t)on_reply_0, (gex_AM_Fn_t)on_completion_0},
    {(gex_AM_Fn_t)on_request_1, (gex_AM_Fn_t)on_reply_1, (gex_AM_Fn_t)on_completion_1},
    {(gex_AM_Fn_t)on_request_2, (gex_AM_Fn_t)on_reply_2, (gex_AM_Fn_t)on_completion_2},
};

static void open_endpoint(int i)
{
    gex_AM_Entry_t table[] = {
        {REQUEST, handlers[i].request, GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REQUEST, 2, &eps[i], "q"},
        {REPLY, handlers[i].reply, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1, &eps[i], "r"},
        {COMPLETION, handlers[i].completion, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0, &eps[i],
         "c"}};
    if (i == 0) {
        eps[0] = job.ep;
        segments[0] = job.segment;
    } else {
        CHECK_EQUAL(gex_EP_Create(&eps[i], job.client, GEX_EP_CAPABILITY_ALL, 0), GASNET_OK);
        CHECK_EQUAL(gex_EP_QueryIndex(eps[i]), i);
        CHECK_EQUAL(gex_Segment_Create(&segments[i], job.client, NULL, AREA, GEX_MK_HOST, 0),
                    GASNET_OK);
        CHECK_EQUAL(gex_EP_BindSegment(eps[i], segments[i], 0), GASNET_OK);
    }
    CHECK_EQUAL(gex_EP_RegisterHandlers(eps[i], table, COUNT_OF(table)), GASNET_OK);
}

static char *segment_of(gex_TM_t tm, gex_Rank_t rank)
{
    void *owner = NULL;
    uintptr_t size = 0;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, rank, &owner, NULL, &size, 0));
    CHECK(owner != NULL && size >= AREA);
    return (char *)owner;
}

/* A Medium, a Long, a put and a put with a completion, from our endpoint `from` to endpoint `to`
 * of `rank`. */
static void use(gex_TM_t tm, gex_Rank_t rank, int from, int to)
{
    static char data[1000];
    char *dst = segment_of(tm, rank) + 1024 * (from + 1);
    unsigned before = replies[from];
    gex_Memvec_t source, target;
    fill(data, sizeof(data), job.rank);
    CHECK_EQUAL(gex_AM_RequestMedium(tm, rank, REQUEST, data, 100, GEX_EVENT_NOW, 0,
                                     (gex_AM_Arg_t)job.rank, from),
                0);
    CHECK_EQUAL(gex_AM_RequestLong(tm, rank, REQUEST, data, sizeof(data), dst, GEX_EVENT_NOW, 0,
                                   (gex_AM_Arg_t)job.rank, from),
                0);
    GASNET_BLOCKUNTIL(replies[from] == before + 2);
    fill(data, sizeof(data), (unsigned)(100 + to));
    source.gex_addr = data;
    target.gex_addr = dst;
    source.gex_len = target.gex_len = sizeof(data);
    gex_VIS_SetPeerCompletionHandler(COMPLETION, "done", 4, 0);
    CHECK_EQUAL(gex_VIS_VectorPutBlocking(tm, rank, 1, &target, 1, &source, 0), 0);
    memset(data, 0, sizeof(data));
    CHECK_EQUAL(gex_RMA_GetBlocking(tm, data, rank, dst, sizeof(data), 0), 0);
    CHECK(filled(data, sizeof(data), (unsigned)(100 + to)));
}

static void expect(int at, unsigned count)
{
    GASNET_BLOCKUNTIL(requests[at] == 2 * count && completions[at] == count);
    requests[at] = completions[at] = 0;
    job_barrier();
}

static unsigned shared[ENDPOINTS], shared_replies[ENDPOINTS];

/* A handler registered with the first endpoint does not affect the others. */
static int shared_at(gex_Token_t token)
{
    gex_Token_Info_t info;
    int at = 0;
    CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_EP) != 0);
    while (info.gex_ep != eps[at])
        at++;
    return at;
}

static void on_shared(gex_Token_t token, gex_AM_Arg_t to)
{
    CHECK_EQUAL(shared_at(token), to);
    one_more(&shared[to]);
    CHECK_EQUAL(gex_AM_ReplyShort(token, SHARED_REPLY, 0), 0);
}

static void on_shared_reply(gex_Token_t token)
{
    one_more(&shared_replies[shared_at(token)]);
}

static void test_shared_handlers(void)
{
    gex_AM_Entry_t table[] = {
        {SHARED, (gex_AM_Fn_t)on_shared, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, NULL},
        {SHARED_REPLY, (gex_AM_Fn_t)on_shared_reply, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL,
         NULL}};
    int from, to;
    CHECK_EQUAL(gex_EP_RegisterHandlers(job.ep, table, COUNT_OF(table)), GASNET_OK);
    job_barrier();
    for (from = 0; from < ENDPOINTS; from++)
        for (to = 0; to < ENDPOINTS; to++)
            CHECK_EQUAL(gex_AM_RequestShort(gex_TM_Pair(eps[from], (gex_EP_Index_t)to), job.next,
                                            SHARED, 0, to),
                        0);
    for (to = 0; to < ENDPOINTS; to++)
        GASNET_BLOCKUNTIL(shared[to] == ENDPOINTS && shared_replies[to] == ENDPOINTS);
    job_barrier();
}

static void test_pairs(void)
{
    int from, to;
    for (from = 0; from < ENDPOINTS; from++)
        for (to = 0; to < ENDPOINTS; to++) {
            use(gex_TM_Pair(eps[from], (gex_EP_Index_t)to), job.next, from, to);
            expect(to, 1);
        }
}

/* A team of endpoints: index 1 of all, or alternately 1 and 2. */
static void test_team(int mixed)
{
    gex_EP_Location_t *members = (gex_EP_Location_t *)calloc(job.size, sizeof(*members));
    gex_TM_t tm = GEX_TM_INVALID;
    gex_Rank_t rank;
    unsigned one = 1, all = 0;
    int mine;
    for (rank = 0; rank < job.size; rank++) {
        members[rank].gex_rank = job.size - 1 - rank;
        members[rank].gex_ep_index = (gex_EP_Index_t)(1 + (mixed && rank % 2));
    }
    gex_TM_Create(&tm, 1, job.tm, members, job.size, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    CHECK_EQUAL(gex_TM_QueryRank(tm), job.size - 1 - job.rank);
    mine = members[gex_TM_QueryRank(tm)].gex_ep_index;
    CHECK(gex_TM_QueryEP(tm) == eps[mine]);
    for (rank = 0; rank < job.size; rank++) {
        gex_EP_Location_t where = gex_TM_TranslateRankToEP(tm, rank, 0);
        CHECK_EQUAL(where.gex_rank, members[rank].gex_rank);
        CHECK_EQUAL(where.gex_ep_index, members[rank].gex_ep_index);
    }
    rank = (gex_TM_QueryRank(tm) + 1) % job.size;
    use(tm, rank, mine, members[rank].gex_ep_index);
    expect(mine, 1);
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &all, &one, GEX_DT_U32, sizeof(all), 1, GEX_OP_ADD,
                                          NULL, NULL, 0));
    CHECK_EQUAL(all, job.size);
    CHECK_EQUAL(gex_TM_Destroy(tm, NULL, 0), 0);
    free(members);
}

int main(int argc, char **argv)
{
    int i;
    job_open(&argc, &argv, AREA);
    for (i = 0; i < ENDPOINTS; i++)
        open_endpoint(i);
    CHECK_EQUAL(gex_EP_PublishBoundSegment(job.tm, &eps[1], ENDPOINTS - 1, 0), GASNET_OK);
    job_barrier();
    test_pairs();
    test_shared_handlers();
    for (i = 0; i < 4; i++)
        test_team(i % 2);
    job_barrier();
    gasnet_exit(0);
}
