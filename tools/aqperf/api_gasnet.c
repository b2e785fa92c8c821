/* The patterns with the GASNet API, using the calls that GASNet programs would use. */
#include "perf.h"
#include <gasnet.h>

#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>

#include <stdlib.h>
#include <string.h>

/* Handlers, in the order of the table in `start`. */
enum handler {
    ON_PING,
    ON_PONG,
    ON_PING_MEDIUM,
    ON_PONG_MEDIUM,
    ON_PING_LONG,
    ON_PONG_LONG,
    ON_FLOOD,
    ON_FLOOD_BYTES,
    ON_FLOOD_IN,
    ON_ASK,
    ON_ANSWER,
    ON_TOKEN,
    ON_ROW_BEFORE,
    ON_ROW_AFTER,
    ON_STEAL,
    HANDLER_COUNT
};

static struct perf *job;
static gex_AD_t integers, doubles;
static gex_AM_Index_t handlers[HANDLER_COUNT];
static gex_TM_t world, pair; /* of all ranks; of second endpoints with private memory */
static gex_EP_t endpoint;

/* End the job with a message if the call failed. */
#define CHECK(call) check(call, #call)
static void check(int code, const char *call)
{
    if (code == GASNET_OK) return;
    fprintf(stderr, "aqperf: rank %u: %.*s: %s\n", gex_System_QueryJobRank(),
            (int)strcspn(call, "("), call, gasnet_ErrorName(code));
    gasnet_exit(1);
}

/* Handlers that only count, without and with a payload. */
#define COUNTING(name, count)                                                                      \
    static void name(gex_Token_t token)                                                            \
    {                                                                                              \
        (void)token;                                                                               \
        received_add(&received.count);                                                             \
    }
#define COUNTING_BYTES(name, count)                                                                \
    static void name(gex_Token_t token, void *buf, size_t nbytes)                                  \
    {                                                                                              \
        (void)token, (void)buf, (void)nbytes;                                                      \
        received_add(&received.count);                                                             \
    }
COUNTING(on_pong, pongs)
COUNTING_BYTES(on_pong_bytes, pongs)
COUNTING(on_flood, floods)
COUNTING_BYTES(on_flood_bytes, floods)
COUNTING(on_flood_in, floods_in)
COUNTING(on_token, tokens)
COUNTING_BYTES(on_row_before, rows[0])
COUNTING_BYTES(on_row_after, rows[1])

static void on_ping(gex_Token_t token)
{
    gex_AM_ReplyShort0(token, handlers[ON_PONG], 0);
}

static void on_ping_medium(gex_Token_t token, void *buf, size_t nbytes)
{
    gex_AM_ReplyMedium0(token, handlers[ON_PONG_MEDIUM], buf, nbytes, GEX_EVENT_NOW, 0);
}

/* The reply is stored in the second half, so that source and destination differ in a job of one. */
static void on_ping_long(gex_Token_t token, void *buf, size_t nbytes)
{
    gex_AM_ReplyLong0(token, handlers[ON_PONG_LONG], buf, nbytes,
                      job->lead_addr->data + job->max_size, GEX_EVENT_NOW, 0);
}

static uint64_t joined(gex_AM_Arg_t low, gex_AM_Arg_t high)
{
    return (uint64_t)(uint32_t)high << 32 | (uint32_t)low;
}

/* Reply with as many bytes as requested. */
static void on_steal(gex_Token_t token, gex_AM_Arg_t low, gex_AM_Arg_t high)
{
    gex_AM_ReplyLong0(token, handlers[ON_PONG_LONG], job->mine->data, (size_t)joined(low, high),
                      job->lead_addr->data + job->max_size, GEX_EVENT_NOW, 0);
}

static void on_ask(gex_Token_t token, gex_AM_Arg_t command, gex_AM_Arg_t low, gex_AM_Arg_t high)
{
    uint32_t answer = talk_handle((enum command)command, (size_t)joined(low, high));
    gex_AM_ReplyShort1(token, handlers[ON_ANSWER], 0, (gex_AM_Arg_t)answer);
}

static void on_answer(gex_Token_t token, gex_AM_Arg_t answer)
{
    (void)token;
    received.answer = (uint32_t)answer;
    received_add(&received.pongs);
}

/*
 * The API does not report which transport reaches a peer. If only one is allowed, it is that one.
 */
static const char *transport_name(void)
{
    const char *allowed = getenv("AQ_TRANSPORTS");
    bool one = allowed != NULL && allowed[0] != '\0' && strpbrk(allowed, ", ") == NULL;
    return one && strcmp(allowed, "auto") != 0 ? allowed : GASNET_CONDUIT_NAME_STR;
}

#define HANDLER(fn, flags, nargs)                                                                  \
    {                                                                                              \
        0, (gex_AM_Fn_t)(fn), flags, nargs, NULL, NULL                                             \
    }
static void start(struct perf *perf)
{
    enum { SHORT = GEX_FLAG_AM_SHORT, MEDIUM = GEX_FLAG_AM_MEDIUM, LONG = GEX_FLAG_AM_LONG };
    gex_AM_Entry_t table[HANDLER_COUNT] = {
        [ON_PING] = HANDLER(on_ping, SHORT | GEX_FLAG_AM_REQUEST, 0),
        [ON_PONG] = HANDLER(on_pong, SHORT | GEX_FLAG_AM_REQREP, 0),
        [ON_PING_MEDIUM] = HANDLER(on_ping_medium, MEDIUM | GEX_FLAG_AM_REQUEST, 0),
        [ON_PONG_MEDIUM] = HANDLER(on_pong_bytes, MEDIUM | GEX_FLAG_AM_REPLY, 0),
        [ON_PING_LONG] = HANDLER(on_ping_long, LONG | GEX_FLAG_AM_REQUEST, 0),
        [ON_PONG_LONG] = HANDLER(on_pong_bytes, LONG | GEX_FLAG_AM_REPLY, 0),
        [ON_FLOOD] = HANDLER(on_flood, SHORT | GEX_FLAG_AM_REQUEST, 0),
        [ON_FLOOD_BYTES] = HANDLER(on_flood_bytes, MEDIUM | LONG | GEX_FLAG_AM_REQUEST, 0),
        [ON_FLOOD_IN] = HANDLER(on_flood_in, SHORT | GEX_FLAG_AM_REQUEST, 0),
        [ON_ASK] = HANDLER(on_ask, SHORT | GEX_FLAG_AM_REQUEST, 3),
        [ON_ANSWER] = HANDLER(on_answer, SHORT | GEX_FLAG_AM_REPLY, 1),
        [ON_TOKEN] = HANDLER(on_token, SHORT | GEX_FLAG_AM_REQUEST, 0),
        [ON_ROW_BEFORE] = HANDLER(on_row_before, LONG | GEX_FLAG_AM_REQUEST, 0),
        [ON_ROW_AFTER] = HANDLER(on_row_after, LONG | GEX_FLAG_AM_REQUEST, 0),
        [ON_STEAL] = HANDLER(on_steal, SHORT | GEX_FLAG_AM_REQUEST, 2),
    };
    gex_Client_t client;
    job = perf;
    if (perf->options.threads > 1) {
        fprintf(stderr, "aqperf: --api gasnet is compiled for one thread: omit --threads\n");
        exit(2);
    }
    /* Rank 0 still writes results when the other ranks have finished. */
    setenv("AQ_CATCH_EXIT", "no", 0);
    CHECK(gex_Client_Init(&client, &endpoint, &world, "AQPERF", NULL, NULL, GEX_FLAG_USES_GASNET1));
    talk_begin(perf, gex_TM_QueryRank(world), gex_TM_QuerySize(world));
    perf->transport = transport_name();
    CHECK(gex_EP_RegisterHandlers(endpoint, table, HANDLER_COUNT));
    for (size_t i = 0; i < HANDLER_COUNT; i++)
        handlers[i] = table[i].gex_index;
}

static void barrier(void)
{
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_UNNAMED);
    CHECK(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_UNNAMED));
}

static struct shared *segment(unsigned rank, struct shared **mapped)
{
    void *owner, *local;
    uintptr_t size;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(world, rank, &owner, &local, &size, 0));
    if (mapped != NULL) *mapped = local;
    return owner;
}

static void attach_private(struct perf *perf)
{
    gex_Client_t client = gex_EP_QueryClient(endpoint);
    gex_EP_t ep;
    gex_Segment_t segment;
    void *owner = NULL;
    uintptr_t size;
    CHECK(gex_EP_Create(&ep, client, GEX_EP_CAPABILITY_RMA, 0));
    if (perf->target != NULL) {
        CHECK(gex_Segment_Create(&segment, client, perf->target, perf->max_size, GEX_MK_HOST, 0));
        CHECK(gex_EP_BindSegment(ep, segment, 0));
    }
    CHECK(gex_EP_PublishBoundSegment(world, &ep, 1, 0));
    pair = gex_TM_Pair(ep, gex_EP_QueryIndex(ep));
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(pair, perf->peer, &owner, NULL, &size, 0));
    perf->peer_target = owner;
}

static void attach(struct perf *perf)
{
    gex_Segment_t own;
    uintptr_t size = (perf->segment_size + GASNET_PAGESIZE - 1) / GASNET_PAGESIZE * GASNET_PAGESIZE;
    CHECK(gex_Segment_Attach(&own, world, size));
    perf->mine = gex_Segment_QueryAddr(own);
    gex_System_QueryNbrhdInfo(NULL, &perf->neighbors, NULL);
    attach_private(perf);
    gex_AD_Create(&integers, world, GEX_DT_U64, GEX_OP_ADD | GEX_OP_FADD | GEX_OP_FCAS, 0);
    gex_AD_Create(&doubles, world, GEX_DT_DBL, GEX_OP_FADD, 0);
}

static void finish(void)
{
    gex_AD_Destroy(integers);
    gex_AD_Destroy(doubles);
    barrier();
}

static size_t max_size(enum carrier carrier)
{
    return carrier == CARRIER_LONG ? gex_AM_LUBRequestLong() : gex_AM_LUBRequestMedium();
}

static void put_word(unsigned rank, uint64_t *there, uint64_t value)
{
    gex_RMA_PutBlockingVal(world, rank, there, value, sizeof value, 0);
}

static uint64_t get_word(unsigned rank, uint64_t *there)
{
    return gex_RMA_GetBlockingVal(world, rank, there, sizeof *there, 0);
}

static void until(int (*done)(void *arg), void *arg)
{
    GASNET_BLOCKUNTIL(done(arg));
}

static void poll(void)
{
    CHECK(gasnet_AMPoll());
}

static void ask(struct perf *perf, enum command what, size_t size)
{
    uint64_t wanted = received_count(&received.pongs) + 1;
    gex_AM_RequestShort3(world, perf->peer, handlers[ON_ASK], 0, (gex_AM_Arg_t)what,
                         (gex_AM_Arg_t)size, (gex_AM_Arg_t)(size >> 32));
    GASNET_BLOCKUNTIL(received_count(&received.pongs) >= wanted);
}

static void pass_token(struct perf *perf)
{
    gex_AM_RequestShort0(world, (perf->rank + 1) % perf->ranks, handlers[ON_TOKEN], 0);
}

/* Messages with replies, one at a time or many in flight. */
#define ONE_BY_ONE(name, ...)                                                                      \
    LOOP(api_gasnet_##name##_rtt, , {                                                              \
        __VA_ARGS__;                                                                               \
        GASNET_BLOCKUNTIL(received_count(&received.pongs) > pongs + i);                            \
    })
#define ANSWERED(name, ...)                                                                        \
    ONE_BY_ONE(name, __VA_ARGS__)                                                                  \
    LOOP(api_gasnet_##name##_pairs,                                                                \
         GASNET_BLOCKUNTIL(received_count(&received.pongs) == pongs + n), __VA_ARGS__)
#define SHORT_TO(rank, handler) gex_AM_RequestShort0(world, rank, handlers[handler], 0)

ANSWERED(short, SHORT_TO(perf->peer, ON_PING))
ONE_BY_ONE(self, SHORT_TO(perf->rank, ON_PONG))
ONE_BY_ONE(self_reply, SHORT_TO(perf->rank, ON_PING))
ANSWERED(medium, gex_AM_RequestMedium0(world, perf->peer, handlers[ON_PING_MEDIUM], perf->source,
                                       size, GEX_EVENT_NOW, 0))
ANSWERED(long, gex_AM_RequestLong0(world, perf->peer, handlers[ON_PING_LONG], perf->source, size,
                                   perf->peer_addr->data, GEX_EVENT_NOW, 0))
LOOP(api_gasnet_poll_empty, , poll())
LOOP(api_gasnet_shorts, , SHORT_TO(perf->peer, ON_FLOOD))
LOOP(api_gasnet_mediums, ,
     gex_AM_RequestMedium0(world, perf->peer, handlers[ON_FLOOD_BYTES], perf->source, size,
                           GEX_EVENT_NOW, 0))
LOOP(api_gasnet_longs, gex_NBI_Wait(GEX_EC_AM, 0),
     gex_AM_RequestLong0(world, perf->peer, handlers[ON_FLOOD_BYTES], perf->source, size,
                         perf->peer_addr->data, GEX_EVENT_GROUP, 0))
/* The payload is written into the library's buffer. */
LOOP(api_gasnet_reserved, , {
    gex_AM_SrcDesc_t sd =
        gex_AM_PrepareRequestMedium(world, perf->peer, NULL, size, size, NULL, 0, 0);
    memcpy(gex_AM_SrcDescAddr(sd), perf->source, size);
    gex_AM_CommitRequestMedium0(sd, handlers[ON_FLOOD_BYTES], size);
})
LOOP(api_gasnet_shorts_in, , {
    if (perf->rank > 0 || perf->ranks == 1) SHORT_TO(0, ON_FLOOD_IN);
})

/* This rank is the next one of the previous rank, so the sides are swapped. */
LOOP(api_gasnet_halo, , {
    for (unsigned side = 0; side < 2; side++)
        gex_AM_RequestLong0(
            world, perf->beside[side].rank, handlers[side == 0 ? ON_ROW_AFTER : ON_ROW_BEFORE],
            talk_second_half(perf), size, talk_row_at(perf, side), GEX_EVENT_GROUP, 0);
    compute_for(perf->interval_ns);
    talk_await_rows(perf);
    gex_NBI_Wait(GEX_EC_AM, 0);
})
ONE_BY_ONE(steal, gex_AM_RequestShort2(world, perf->peer, handlers[ON_STEAL], 0, (gex_AM_Arg_t)size,
                                       (gex_AM_Arg_t)(size >> 32)))

LOOP(api_gasnet_put, , gex_RMA_PutBlocking(world, AT_PEER, perf->source, size, 0))
LOOP(api_gasnet_put_self, ,
     gex_RMA_PutBlocking(world, perf->rank, perf->mine->data, perf->source, size, 0))
LOOP(api_gasnet_get, , gex_RMA_GetBlocking(world, perf->target, AT_PEER, size, 0))
LOOP(api_gasnet_put_nbi, gex_NBI_Wait(GEX_EC_PUT, 0),
     gex_RMA_PutNBI(world, AT_PEER, perf->source, size, GEX_EVENT_DEFER, 0))
LOOP(api_gasnet_get_nbi, gex_NBI_Wait(GEX_EC_GET, 0),
     gex_RMA_GetNBI(world, perf->target, AT_PEER, size, 0))
LOOP(api_gasnet_put_events, ,
     gex_Event_Wait(gex_RMA_PutNB(world, AT_PEER, perf->source, size, GEX_EVENT_DEFER, 0)))
LOOP(api_gasnet_get_events, , gex_Event_Wait(gex_RMA_GetNB(world, perf->target, AT_PEER, size, 0)))
LOOP(api_gasnet_memset, gasnet_wait_syncnbi_puts(), gasnet_memset_nbi(AT_PEER, (int)i & 0xff, size))
LOOP(api_gasnet_put_private, gex_NBI_Wait(GEX_EC_PUT, 0),
     gex_RMA_PutNBI(pair, perf->peer, perf->peer_target, perf->source, size, GEX_EVENT_DEFER, 0))
LOOP(api_gasnet_get_private, gex_NBI_Wait(GEX_EC_GET, 0),
     gex_RMA_GetNBI(pair, perf->source, perf->peer, perf->peer_target, size, 0))
LOOP(api_gasnet_put_value, , gex_RMA_PutBlockingVal(world, AT_PEER, i, size, 0))
static volatile uint64_t got; /* as a caller would use it */
LOOP(api_gasnet_get_value, , got = gex_RMA_GetBlockingVal(world, AT_PEER, size, 0))

static union {
    uint64_t u64;
    double dbl;
} old;
LOOP(api_gasnet_fetch_add, ,
     gex_Event_Wait(gex_AD_OpNB_U64(integers, &old.u64, WORD_AT_PEER, GEX_OP_FADD, 1, 0, 0)))
LOOP(api_gasnet_fetch_add_shared, ,
     gex_Event_Wait(gex_AD_OpNB_U64(integers, &old.u64, WORD_AT_LEAD, GEX_OP_FADD, 1, 0, 0)))
LOOP(api_gasnet_cas, ,
     gex_Event_Wait(gex_AD_OpNB_U64(integers, &old.u64, WORD_AT_PEER, GEX_OP_FCAS, 0, 0, 0)))
LOOP(api_gasnet_add_double, ,
     gex_Event_Wait(gex_AD_OpNB_DBL(doubles, &old.dbl, WORD_AT_PEER, GEX_OP_FADD, 1, 0, 0)))
LOOP(api_gasnet_add, gex_NBI_Wait(GEX_EC_RMW, 0),
     gex_AD_OpNBI_U64(integers, NULL, WORD_AT_PEER, GEX_OP_ADD, 1, 0, 0))

LOOP(api_gasnet_updates, gex_NBI_Wait(GEX_EC_RMW, 0), {
    size_t offset;
    struct place place = talk_random_place(perf, size, &offset);
    gex_AD_OpNBI_U64(integers, NULL, place.rank, place.addr->data + offset, GEX_OP_ADD, 1, 0, 0);
})

LOOP(api_gasnet_team_split, , {
    gex_TM_t half;
    (void)gex_TM_Split(&half, world, (int)(perf->rank % 2), (int)perf->rank, NULL, 0,
                       GEX_FLAG_TM_NO_SCRATCH);
    (void)gex_TM_Destroy(half, NULL, 0);
})

static const gex_Memvec_t *vecs(const struct pieces *pieces)
{
    return (const gex_Memvec_t *)(const void *)pieces->vecs; /* same layout */
}

#define SCATTER(name, category, here_, ...)                                                        \
    LOOP(api_gasnet_##name, gex_NBI_Wait(category, 0), {                                           \
        const struct pieces *there = &row_pieces.there, *here = &row_pieces.here_;                 \
        const size_t len = row_pieces.len, count = row_pieces.count;                               \
        (void)len;                                                                                 \
        __VA_ARGS__;                                                                               \
    })

SCATTER(strided_put, GEX_EC_PUT, source,
        gex_VIS_StridedPutNBI(world, perf->peer, there->base, &there->step, here->base, &here->step,
                              len, &count, 1, 0))
SCATTER(strided_get, GEX_EC_GET, target,
        gex_VIS_StridedGetNBI(world, here->base, &here->step, perf->peer, there->base, &there->step,
                              len, &count, 1, 0))
SCATTER(vector_put, GEX_EC_PUT, source,
        gex_VIS_VectorPutNBI(world, perf->peer, count, vecs(there), count, vecs(here), 0))
SCATTER(vector_get, GEX_EC_GET, target,
        gex_VIS_VectorGetNBI(world, count, vecs(here), perf->peer, count, vecs(there), 0))
SCATTER(indexed_put, GEX_EC_PUT, source,
        gex_VIS_IndexedPutNBI(world, perf->peer, count, there->at, len, count, here->at, len, 0))
SCATTER(indexed_get, GEX_EC_GET, target,
        gex_VIS_IndexedGetNBI(world, count, here->at, len, perf->peer, count, there->at, len, 0))

#define SUM_OF_DOUBLES GEX_DT_DBL, sizeof(double), size / sizeof(double), GEX_OP_ADD, NULL, NULL, 0
LOOP(api_gasnet_bcast, ,
     gex_Event_Wait(gex_Coll_BroadcastNB(world, 0, talk_second_half(perf), perf->mine->data, size,
                                         0)))
LOOP(api_gasnet_reduce, ,
     gex_Event_Wait(gex_Coll_ReduceToOneNB(world, 0, talk_second_half(perf), perf->mine->data,
                                           SUM_OF_DOUBLES)))
LOOP(api_gasnet_allreduce, ,
     gex_Event_Wait(gex_Coll_ReduceToAllNB(world, talk_second_half(perf), perf->mine->data,
                                           SUM_OF_DOUBLES)))

/* The collectives of GASNet-1, with separate addresses in each rank. */
#define BLOCKS                                                                                     \
    talk_block(perf, size), GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC
LOOP(api_gasnet_gather, ,
     gasnet_coll_gather(GASNET_TEAM_ALL, 0, talk_second_half(perf), perf->mine->data, BLOCKS))
LOOP(api_gasnet_allgather, ,
     gasnet_coll_gather_all(GASNET_TEAM_ALL, talk_second_half(perf), perf->mine->data, BLOCKS))
LOOP(api_gasnet_scatter, ,
     gasnet_coll_scatter(GASNET_TEAM_ALL, talk_second_half(perf), 0, perf->mine->data, BLOCKS))
LOOP(api_gasnet_alltoall, ,
     gasnet_coll_exchange(GASNET_TEAM_ALL, talk_second_half(perf), perf->mine->data, BLOCKS))

const struct api api_gasnet = {
    .name = "gasnet",
    .doc = "the GASNet interface on Aqueduct",
    .start = start,
    .attach = attach,
    .finish = finish,
    .quit = gasnet_exit,
    .max_size = max_size,
    .barrier = barrier,
    .segment = segment,
    .put_word = put_word,
    .get_word = get_word,
    .ask = ask,
    .pass_token = pass_token,
    .until = until,
    .poll = poll,
};
