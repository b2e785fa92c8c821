/* The patterns through the GASNet interface: the calls that its programs would make for them. */
#include "api_gasnet.h"

#include <stdlib.h>
#include <unistd.h>

/* Handlers, in the order of the table in `start`. */
enum handler {
    ON_PING,
    ON_PONG,
    ON_PING_MEDIUM,
    ON_PONG_MEDIUM,
    ON_PING_LONG,
    ON_PONG_LONG,
    ON_FLOOD,
    ON_FLOOD_MEDIUM,
    ON_COUNT,
    ON_COUNTED,
    ON_COMMAND,
    ON_TOKEN,
    HANDLER_COUNT
};

static struct {
    gex_TM_t world;
    gex_EP_t ep;
    gex_AD_t domain;
    struct perf *perf;
    struct shared *lead_addr; /* rank 0's segment, where Long replies go */
    gex_AM_Index_t handlers[HANDLER_COUNT];
    uint64_t pongs;  /* replies that rank 0 has got */
    uint64_t tokens; /* of the ring that this rank has got, and those it has passed on */
    uint64_t passed;
    uint64_t sum;     /* of values got */
    uint32_t flooded; /* flood messages that this rank has handled */
    uint32_t counted; /* what the last ON_COUNTED told */
    enum command command;
    size_t command_size;
} state;

gex_TM_t api_gasnet_world(void)
{
    return state.world;
}

gex_EP_t api_gasnet_ep(void)
{
    return state.ep;
}

void api_gasnet_check(int code, const char *call)
{
    if (code == GASNET_OK) return;
    fprintf(stderr, "aqperf: rank %u: %s: %s\n", gex_System_QueryJobRank(), call,
            gasnet_ErrorName(code));
    gasnet_exit(1);
}

static void on_ping(gex_Token_t token)
{
    gex_AM_ReplyShort0(token, state.handlers[ON_PONG], 0);
}

static void on_pong(gex_Token_t token)
{
    (void)token;
    state.pongs++;
}

static void on_ping_medium(gex_Token_t token, void *buf, size_t nbytes)
{
    gex_AM_ReplyMedium0(token, state.handlers[ON_PONG_MEDIUM], buf, nbytes, GEX_EVENT_NOW, 0);
}

static void on_pong_bytes(gex_Token_t token, void *buf, size_t nbytes)
{
    (void)token, (void)buf, (void)nbytes;
    state.pongs++;
}

/* The reply goes to the second half, so that source and destination differ in a job of one. */
static void on_ping_long(gex_Token_t token, void *buf, size_t nbytes)
{
    gex_AM_ReplyLong0(token, state.handlers[ON_PONG_LONG], buf, nbytes,
                      state.lead_addr->data + state.perf->max_size, GEX_EVENT_NOW, 0);
}

static void on_flood(gex_Token_t token)
{
    (void)token;
    state.flooded++;
}

static void on_flood_medium(gex_Token_t token, void *buf, size_t nbytes)
{
    (void)token, (void)buf, (void)nbytes;
    state.flooded++;
}

static void on_count(gex_Token_t token)
{
    gex_AM_ReplyShort1(token, state.handlers[ON_COUNTED], 0, (gex_AM_Arg_t)state.flooded);
}

static void on_counted(gex_Token_t token, gex_AM_Arg_t counted)
{
    (void)token;
    state.counted = (uint32_t)counted;
    state.pongs++;
}

static void on_command(gex_Token_t token, gex_AM_Arg_t command, gex_AM_Arg_t low, gex_AM_Arg_t high)
{
    state.command = (enum command)command;
    state.command_size = (size_t)(uint32_t)high << 32 | (uint32_t)low;
    on_ping(token);
}

static void on_token(gex_Token_t token)
{
    (void)token;
    state.tokens++;
}

static void start(struct perf *perf)
{
    enum { SHORT = GEX_FLAG_AM_SHORT, MEDIUM = GEX_FLAG_AM_MEDIUM, LONG = GEX_FLAG_AM_LONG };
    static const struct {
        gex_AM_Fn_t fn;
        gex_Flags_t flags;
        unsigned nargs;
    } rows[HANDLER_COUNT] = {
        [ON_PING] = {(gex_AM_Fn_t)on_ping, SHORT | GEX_FLAG_AM_REQUEST, 0},
        [ON_PONG] = {(gex_AM_Fn_t)on_pong, SHORT | GEX_FLAG_AM_REPLY, 0},
        [ON_PING_MEDIUM] = {(gex_AM_Fn_t)on_ping_medium, MEDIUM | GEX_FLAG_AM_REQUEST, 0},
        [ON_PONG_MEDIUM] = {(gex_AM_Fn_t)on_pong_bytes, MEDIUM | GEX_FLAG_AM_REPLY, 0},
        [ON_PING_LONG] = {(gex_AM_Fn_t)on_ping_long, LONG | GEX_FLAG_AM_REQUEST, 0},
        [ON_PONG_LONG] = {(gex_AM_Fn_t)on_pong_bytes, LONG | GEX_FLAG_AM_REPLY, 0},
        [ON_FLOOD] = {(gex_AM_Fn_t)on_flood, SHORT | GEX_FLAG_AM_REQUEST, 0},
        [ON_FLOOD_MEDIUM] = {(gex_AM_Fn_t)on_flood_medium, MEDIUM | GEX_FLAG_AM_REQUEST, 0},
        [ON_COUNT] = {(gex_AM_Fn_t)on_count, SHORT | GEX_FLAG_AM_REQUEST, 0},
        [ON_COUNTED] = {(gex_AM_Fn_t)on_counted, SHORT | GEX_FLAG_AM_REPLY, 1},
        [ON_COMMAND] = {(gex_AM_Fn_t)on_command, SHORT | GEX_FLAG_AM_REQUEST, 3},
        [ON_TOKEN] = {(gex_AM_Fn_t)on_token, SHORT | GEX_FLAG_AM_REQUEST, 0},
    };
    gex_AM_Entry_t table[HANDLER_COUNT] = {{0}};
    gex_Client_t client;
    state.perf = perf;
    if (perf->options.threads > 1) {
        fprintf(stderr, "aqperf: --api gasnet is compiled for one thread: leave --threads out\n");
        exit(2);
    }
    /* Rank 0 has results to write when the others have nothing left to do. */
    setenv("AQ_CATCH_EXIT", "no", 0);
    api_gasnet_check(gex_Client_Init(&client, &state.ep, &state.world, "AQPERF", NULL, NULL, 0),
                     "gex_Client_Init");
    perf->rank = gex_TM_QueryRank(state.world);
    perf->ranks = gex_TM_QuerySize(state.world);
    perf->peer = perf->ranks > 1 ? 1 : 0;
    perf->transport = GASNET_CONDUIT_NAME_STR;
    for (size_t i = 0; i < HANDLER_COUNT; i++) {
        table[i].gex_fnptr = rows[i].fn;
        table[i].gex_flags = rows[i].flags;
        table[i].gex_nargs = rows[i].nargs;
    }
    api_gasnet_check(gex_EP_RegisterHandlers(state.ep, table, HANDLER_COUNT),
                     "gex_EP_RegisterHandlers");
    for (size_t i = 0; i < HANDLER_COUNT; i++)
        state.handlers[i] = table[i].gex_index;
}

static void barrier(void)
{
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_UNNAMED);
    api_gasnet_check(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_UNNAMED), "gasnet_barrier_wait");
}

/* Where the segment of a rank is: its own address, and ours for it if it is mapped. */
static struct shared *segment_of(unsigned rank, struct shared **mapped)
{
    void *owner, *local;
    uintptr_t size;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(state.world, rank, &owner, &local, &size, 0));
    if (mapped != NULL) *mapped = local;
    return owner;
}

/* Tell the other of the pair whether we see its memory, and learn its part. */
static void introduce(struct perf *perf, unsigned other)
{
    struct shared *there = perf->peer_addr;
    uint64_t maps;
    perf->mine->pid = (uint64_t)getpid();
    perf->mine->maps_peer = perf->theirs != NULL;
    barrier();
    if (perf->rank > 1) return;
    gex_RMA_GetBlocking(state.world, &perf->peer_pid, other, &there->pid, sizeof perf->peer_pid, 0);
    gex_RMA_GetBlocking(state.world, &maps, other, &there->maps_peer, sizeof maps, 0);
    perf->both_map = perf->theirs != NULL && maps != 0;
}

static void attach(struct perf *perf)
{
    gex_Rank_t neighbours;
    gex_Segment_t segment;
    uintptr_t size = (perf->segment_size + GASNET_PAGESIZE - 1) / GASNET_PAGESIZE * GASNET_PAGESIZE;
    api_gasnet_check(gex_Segment_Attach(&segment, state.world, size), "gex_Segment_Attach");
    perf->mine = gex_Segment_QueryAddr(segment);
    unsigned other = perf->rank == 0 ? perf->peer : 0;
    state.lead_addr = segment_of(0, NULL);
    perf->peer_addr = segment_of(other, &perf->theirs);
    introduce(perf, other);
    segment_of((perf->rank + 1) % perf->ranks, &perf->next);
    gex_System_QueryNbrhdInfo(NULL, &neighbours, NULL);
    perf->all_map = neighbours == perf->ranks && perf->next != NULL;
    api_gasnet_attach_private(perf, other);
    gex_AD_Create(&state.domain, state.world, GEX_DT_U64, GEX_OP_FADD, 0);
    barrier();
}

static void finish(struct perf *perf)
{
    (void)perf;
    gex_AD_Destroy(state.domain);
    barrier();
}

static void quit(int code)
{
    gasnet_exit(code);
}

static size_t max_size(enum pattern_id pattern, const char **what)
{
    switch (pattern) {
    case AM_MEDIUM_RTT:
    case AM_MEDIUM_RATE:
    case AM_RESERVE_RATE:
        *what = "the largest Medium";
        return gex_AM_LUBRequestMedium();
    case AM_LONG_RTT:
        *what = "the largest Long";
        return gex_AM_LUBRequestLong();
    default:
        *what = "any limit";
        return SIZE_MAX;
    }
}

static void command(struct perf *perf, enum command what, size_t size)
{
    uint64_t wanted = state.pongs + 1;
    gex_AM_RequestShort3(state.world, perf->peer, state.handlers[ON_COMMAND], 0, (gex_AM_Arg_t)what,
                         (gex_AM_Arg_t)size, (gex_AM_Arg_t)(size >> 32));
    GASNET_BLOCKUNTIL(state.pongs >= wanted);
}

static enum command await(struct perf *perf, size_t *size)
{
    (void)perf;
    GASNET_BLOCKUNTIL(state.command != COMMAND_NONE);
    enum command what = state.command;
    *size = state.command_size;
    state.command = COMMAND_NONE;
    return what;
}

static void set_count(struct perf *perf, uint64_t n, enum limit_id limit)
{
    for (unsigned rank = 0; rank < perf->ranks; rank++) {
        struct shared *there = segment_of(rank, NULL);
        gex_RMA_PutBlockingVal(state.world, rank, &there->count, n, sizeof n, 0);
        gex_RMA_PutBlockingVal(state.world, rank, &there->limit, limit, sizeof(uint64_t), 0);
    }
}

static double am_short_rtt(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    double begun = measure_now_ns();
    for (uint64_t i = 0, wanted = state.pongs; i < n; i++) {
        gex_AM_RequestShort0(state.world, perf->peer, state.handlers[ON_PING], 0);
        wanted++;
        GASNET_BLOCKUNTIL(state.pongs >= wanted);
    }
    return measure_now_ns() - begun;
}

static double am_medium_rtt(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0, wanted = state.pongs; i < n; i++) {
        gex_AM_RequestMedium0(state.world, perf->peer, state.handlers[ON_PING_MEDIUM], perf->source,
                              size, GEX_EVENT_NOW, 0);
        wanted++;
        GASNET_BLOCKUNTIL(state.pongs >= wanted);
    }
    return measure_now_ns() - begun;
}

static double am_long_rtt(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0, wanted = state.pongs; i < n; i++) {
        gex_AM_RequestLong0(state.world, perf->peer, state.handlers[ON_PING_LONG], perf->source,
                            size, perf->peer_addr->data, GEX_EVENT_NOW, 0);
        wanted++;
        GASNET_BLOCKUNTIL(state.pongs >= wanted);
    }
    return measure_now_ns() - begun;
}

static void pass_token(struct perf *perf)
{
    gex_AM_RequestShort0(state.world, (perf->rank + 1) % perf->ranks, state.handlers[ON_TOKEN], 0);
}

/* `n` hops, rounded up to whole laps; every rank passes the token on once in a lap. */
static double am_ring(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    uint64_t laps = (n + perf->ranks - 1) / perf->ranks;
    double begun = measure_now_ns();
    for (uint64_t lap = 0; lap < laps; lap++) {
        if (perf->rank == 0) pass_token(perf);
        GASNET_BLOCKUNTIL(state.tokens > state.passed);
        state.passed++;
        if (perf->rank != 0) pass_token(perf);
    }
    return (measure_now_ns() - begun) * (double)n / (double)(laps * perf->ranks);
}

/* Messages have no order, so ask how many have been handled until all have. */
static void await_flood(struct perf *perf, uint32_t wanted)
{
    do {
        uint64_t pongs = state.pongs + 1;
        gex_AM_RequestShort0(state.world, perf->peer, state.handlers[ON_COUNT], 0);
        GASNET_BLOCKUNTIL(state.pongs >= pongs);
    } while (state.counted != wanted);
}

static uint32_t flood_sent; /* by rank 0, modulo 2^32 as the receiver counts */

static double am_short_rate(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        gex_AM_RequestShort0(state.world, perf->peer, state.handlers[ON_FLOOD], 0);
    flood_sent += (uint32_t)n;
    await_flood(perf, flood_sent);
    return measure_now_ns() - begun;
}

static double am_medium_rate(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        gex_AM_RequestMedium0(state.world, perf->peer, state.handlers[ON_FLOOD_MEDIUM],
                              perf->source, size, GEX_EVENT_NOW, 0);
    flood_sent += (uint32_t)n;
    await_flood(perf, flood_sent);
    return measure_now_ns() - begun;
}

/* The payload is written where the library wants it. */
static double am_reserve_rate(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++) {
        gex_AM_SrcDesc_t sd =
            gex_AM_PrepareRequestMedium(state.world, perf->peer, NULL, size, size, NULL, 0, 0);
        memcpy(gex_AM_SrcDescAddr(sd), perf->source, size);
        gex_AM_CommitRequestMedium0(sd, state.handlers[ON_FLOOD_MEDIUM], size);
    }
    flood_sent += (uint32_t)n;
    await_flood(perf, flood_sent);
    return measure_now_ns() - begun;
}

static double put_lat(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        gex_RMA_PutBlocking(state.world, perf->peer, perf->peer_addr->data, perf->source, size, 0);
    return measure_now_ns() - begun;
}

static double get_lat(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        gex_RMA_GetBlocking(state.world, perf->target, perf->peer, perf->peer_addr->data, size, 0);
    return measure_now_ns() - begun;
}

static double atomic_lat(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    uint64_t old;
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        gex_Event_Wait(gex_AD_OpNB_U64(state.domain, &old, perf->peer, &perf->peer_addr->word.seq,
                                       GEX_OP_FADD, 1, 0, 0));
    return measure_now_ns() - begun;
}

static double put_bw(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        gex_RMA_PutNBI(state.world, perf->peer, perf->peer_addr->data, perf->source, size,
                       GEX_EVENT_DEFER, 0);
    gex_NBI_Wait(GEX_EC_PUT, 0);
    return measure_now_ns() - begun;
}

static double get_bw(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        gex_RMA_GetNBI(state.world, perf->target, perf->peer, perf->peer_addr->data, size, 0);
    gex_NBI_Wait(GEX_EC_GET, 0);
    return measure_now_ns() - begun;
}

static double put_value(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        gex_RMA_PutBlockingVal(state.world, perf->peer, perf->peer_addr->data, i, size, 0);
    return measure_now_ns() - begun;
}

static double get_value(struct perf *perf, size_t size, uint64_t n)
{
    uint64_t sum = 0;
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        sum += gex_RMA_GetBlockingVal(state.world, perf->peer, perf->peer_addr->data, size, 0);
    double ns = measure_now_ns() - begun;
    state.sum = sum; /* somebody wants it */
    return ns;
}

static double put_events(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        gex_Event_Wait(gex_RMA_PutNB(state.world, perf->peer, perf->peer_addr->data, perf->source,
                                     size, GEX_EVENT_DEFER, 0));
    return measure_now_ns() - begun;
}

static double run_barrier(struct perf *perf, size_t size, uint64_t n)
{
    (void)perf;
    (void)size;
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        barrier();
    return measure_now_ns() - begun;
}

const struct api api_gasnet = {
    .name = "gasnet",
    .doc = "the GASNet interface on Aqueduct",
    .start = start,
    .attach = attach,
    .finish = finish,
    .quit = quit,
    .max_size = max_size,
    .barrier = barrier,
    .command = command,
    .await = await,
    .set_count = set_count,
    .run = {[AM_SHORT_RTT] = am_short_rtt,
            [AM_MEDIUM_RTT] = am_medium_rtt,
            [AM_LONG_RTT] = am_long_rtt,
            [AM_RING] = am_ring,
            [AM_SHORT_RATE] = am_short_rate,
            [AM_MEDIUM_RATE] = am_medium_rate,
            [AM_RESERVE_RATE] = am_reserve_rate,
            [PUT_LAT] = put_lat,
            [GET_LAT] = get_lat,
            [ATOMIC_LAT] = atomic_lat,
            [PUT_VALUE] = put_value,
            [GET_VALUE] = get_value,
            [PUT_BW] = put_bw,
            [GET_BW] = get_bw,
            [PUT_RATE] = put_bw,
            [GET_RATE] = get_bw,
            [PUT_EVENTS] = put_events,
            [PUT_PRIVATE] = api_gasnet_put_private,
            [GET_PRIVATE] = api_gasnet_get_private,
            [STRIDED_PUT] = api_gasnet_strided_put,
            [BARRIER] = run_barrier,
            [BCAST] = api_gasnet_bcast,
            [REDUCE] = api_gasnet_reduce,
            [ALLREDUCE] = api_gasnet_allreduce,
            [GATHER] = api_gasnet_gather,
            [ALLGATHER] = api_gasnet_allgather,
            [SCATTER] = api_gasnet_scatter,
            [ALLTOALL] = api_gasnet_alltoall},
};
