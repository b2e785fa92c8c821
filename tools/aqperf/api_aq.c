/* The patterns through Aqueduct's own interface. */
#include "api_aq.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Handlers, in the order of the table in `start`. */
enum handler {
    ON_PING,
    ON_PONG,
    ON_PING_MEDIUM,
    ON_PING_LONG,
    ON_FLOOD,
    ON_FLOOD_IN,
    ON_COUNT,
    ON_COUNTED,
    ON_COMMAND,
    ON_TOKEN,
    ON_HELLO,
    HANDLER_COUNT
};

static struct {
    aq_team *world;
    struct perf *perf;
    struct shared *lead_addr; /* rank 0's segment, where Long replies go */
    aq_handler handlers[HANDLER_COUNT];
    uint64_t pongs;  /* replies that rank 0 has got */
    uint64_t tokens; /* of the ring that this rank has got, and those it has passed on */
    uint64_t passed;
    uint32_t flooded; /* flood messages that this rank has handled */
    uint64_t flooded_in;
    uint32_t counted; /* what the last ON_COUNTED told */
    enum command command;
    size_t command_size;
} state;

void api_aq_check(aq_status status, const char *call)
{
    if (status == AQ_OK) return;
    fprintf(stderr, "aqperf: rank %u: %s: %s: %s\n", aq_job_rank(), call, aq_status_name(status),
            aq_error_message());
    aq_exit(1);
}

static void check(aq_status status, const char *call)
{
    api_aq_check(status, call);
}

aq_team *api_aq_world(void)
{
    return state.world;
}

static void on_ping(aq_am *am)
{
    check(aq_am_reply_short(am, state.handlers[ON_PONG], AQ_NO_ARGS, 0), "aq_am_reply_short");
}

static void on_pong(aq_am *am)
{
    (void)am;
    state.pongs++;
}

static void on_ping_medium(aq_am *am)
{
    check(aq_am_reply_medium(am, state.handlers[ON_PONG], am->payload, am->nbytes, AQ_NO_ARGS, 0),
          "aq_am_reply_medium");
}

/* The reply goes to the second half, so that source and destination differ in a job of one. */
static void on_ping_long(aq_am *am)
{
    check(aq_am_reply_long(am, state.handlers[ON_PONG], am->payload, am->nbytes,
                           state.lead_addr->data + state.perf->max_size, AQ_NO_ARGS, 0),
          "aq_am_reply_long");
}

static void on_flood(aq_am *am)
{
    (void)am;
    state.flooded++;
}

static void on_flood_in(aq_am *am)
{
    (void)am;
    state.flooded_in++;
}

static void on_count(aq_am *am)
{
    check(aq_am_reply_short(am, state.handlers[ON_COUNTED], AQ_ARGS((aq_arg)state.flooded), 0),
          "aq_am_reply_short");
}

static void on_counted(aq_am *am)
{
    state.counted = (uint32_t)am->args[0];
    state.pongs++;
}

static void on_command(aq_am *am)
{
    state.command = (enum command)am->args[0];
    state.command_size = (size_t)(uint32_t)am->args[2] << 32 | (uint32_t)am->args[1];
    on_ping(am);
}

static void on_hello(aq_am *am)
{
    (void)am;
}

static void on_token(aq_am *am)
{
    (void)am;
    state.tokens++;
}

static void start(struct perf *perf)
{
    state.perf = perf;
    aq_init_params params = {.struct_size = sizeof(params), .client_name = "aqperf"};
    if (perf->options.threads > 1) params.thread_mode = AQ_THREAD_MULTIPLE;
    check(aq_init(&params, &state.world), "aq_init");
    perf->rank = aq_team_rank(state.world);
    perf->ranks = aq_team_size(state.world);
    perf->peer = perf->ranks > 1 ? 1 : 0;
    check(aq_info_route(state.world, perf->peer, &perf->transport), "aq_info_route");

    aq_handler_entry table[HANDLER_COUNT] = {
        [ON_PING] = {.fn = on_ping, .name = "ping"},
        [ON_PONG] = {.fn = on_pong, .name = "pong"},
        [ON_PING_MEDIUM] = {.fn = on_ping_medium, .name = "ping-medium"},
        [ON_PING_LONG] = {.fn = on_ping_long, .name = "ping-long"},
        [ON_FLOOD] = {.fn = on_flood, .name = "flood"},
        [ON_FLOOD_IN] = {.fn = on_flood_in, .name = "flood-in"},
        [ON_COUNT] = {.fn = on_count, .name = "count"},
        [ON_COUNTED] = {.nargs = 1, .fn = on_counted, .name = "counted"},
        [ON_HELLO] = {.fn = on_hello, .name = "hello"},
        [ON_TOKEN] = {.fn = on_token, .name = "token"},
        [ON_COMMAND] = {.nargs = 3, .fn = on_command, .name = "command"},
    };
    check(aq_am_register(aq_team_ep(state.world), table, HANDLER_COUNT), "aq_am_register");
    for (size_t i = 0; i < HANDLER_COUNT; i++)
        state.handlers[i] = table[i].index;
}

/* Tell the other of the pair whether we see its memory, and learn its part. */
static void introduce(struct perf *perf, unsigned other)
{
    struct shared *there = perf->peer_addr;
    perf->mine->pid = (uint64_t)getpid();
    perf->mine->maps_peer = perf->theirs != NULL;
    check(aq_barrier(state.world), "aq_barrier");
    if (perf->rank > 1) return;
    uint64_t maps;
    check(aq_get(state.world, &perf->peer_pid, other, &there->pid, sizeof perf->peer_pid, 0),
          "aq_get");
    check(aq_get(state.world, &maps, other, &there->maps_peer, sizeof maps, 0), "aq_get");
    perf->both_map = perf->theirs != NULL && maps != 0;
}

/* The limits of all ranks copy straight from one to the other. */
static void find_next(struct perf *perf)
{
    aq_segment_info info;
    check(aq_segment_query(state.world, (perf->rank + 1) % perf->ranks, &info), "aq_segment_query");
    perf->next = info.local;
    perf->all_map = aq_team_size(aq_team_neighborhood()) == perf->ranks && info.local != NULL;
}

/* Every rank sends one message to every other; the barrier that follows lets them arrive. */
static void talk_to_all(struct perf *perf)
{
    for (unsigned i = 1; i < perf->ranks; i++)
        check(aq_am_short(state.world, (perf->rank + i) % perf->ranks, state.handlers[ON_HELLO],
                          AQ_NO_ARGS, 0),
              "aq_am_short");
}

static void attach(struct perf *perf)
{
    aq_segment *segment;
    check(aq_segment_attach(state.world, perf->segment_size, &segment), "aq_segment_attach");
    perf->mine = aq_segment_addr(segment);

    unsigned other = perf->rank == 0 ? perf->peer : 0;
    aq_segment_info info;
    check(aq_segment_query(state.world, 0, &info), "aq_segment_query");
    state.lead_addr = info.addr;
    check(aq_segment_query(state.world, other, &info), "aq_segment_query");
    perf->theirs = info.local;
    perf->peer_addr = info.addr;
    introduce(perf, other);
    if (perf->options.all_pairs) talk_to_all(perf);
    find_next(perf);
    api_aq_attach_private(perf, other);

    api_aq_atomic_open();
    check(aq_barrier(state.world), "aq_barrier");
}

static void finish(struct perf *perf)
{
    (void)perf;
    api_aq_atomic_close();
    check(aq_finalize(), "aq_finalize");
}

static void quit(int code)
{
    aq_exit(code);
}

static size_t max_size(enum pattern_id pattern, const char **what)
{
    switch (pattern) {
    case AM_MEDIUM_RTT:
    case AM_MEDIUM_RATE:
    case AM_RESERVE_RATE:
        *what = "the largest Medium";
        return aq_am_max_medium(state.world);
    case AM_LONG_RTT:
    case AM_LONG_RATE:
        *what = "the largest Long";
        return aq_am_max_long(state.world);
    default:
        *what = "any limit";
        return SIZE_MAX;
    }
}

static void barrier(void)
{
    check(aq_barrier(state.world), "aq_barrier");
}

static int has_pongs(void *wanted)
{
    return state.pongs >= *(uint64_t *)wanted;
}

static void await_pongs(uint64_t wanted)
{
    check(aq_poll_until(has_pongs, &wanted), "aq_poll_until");
}

static void command(struct perf *perf, enum command what, size_t size)
{
    uint64_t wanted = state.pongs + 1;
    check(aq_am_short(state.world, perf->peer, state.handlers[ON_COMMAND],
                      AQ_ARGS((aq_arg)what, (aq_arg)size, (aq_arg)(size >> 32)), 0),
          "aq_am_short");
    await_pongs(wanted);
}

static int has_command(void *unused)
{
    (void)unused;
    return state.command != COMMAND_NONE;
}

static enum command await(struct perf *perf, size_t *size)
{
    (void)perf;
    check(aq_poll_until(has_command, NULL), "aq_poll_until");
    enum command what = state.command;
    *size = state.command_size;
    state.command = COMMAND_NONE;
    return what;
}

static void set_count(struct perf *perf, uint64_t n, enum limit_id limit)
{
    for (aq_rank rank = 0; rank < perf->ranks; rank++) {
        aq_segment_info info;
        check(aq_segment_query(state.world, rank, &info), "aq_segment_query");
        struct shared *there = info.addr;
        check(aq_put_value(state.world, rank, &there->count, n, sizeof n, 0), "aq_put_value");
        check(aq_put_value(state.world, rank, &there->limit, (uint64_t)limit, sizeof(uint64_t), 0),
              "aq_put_value");
    }
}

static double am_short_rtt(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    double begun = measure_now_ns();
    for (uint64_t i = 0, wanted = state.pongs; i < n; i++) {
        check(aq_am_short(state.world, perf->peer, state.handlers[ON_PING], AQ_NO_ARGS, 0),
              "aq_am_short");
        await_pongs(++wanted);
    }
    return measure_now_ns() - begun;
}

static double am_medium_rtt(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0, wanted = state.pongs; i < n; i++) {
        check(aq_am_medium(state.world, perf->peer, state.handlers[ON_PING_MEDIUM], perf->source,
                           size, AQ_NO_ARGS, 0, NULL),
              "aq_am_medium");
        await_pongs(++wanted);
    }
    return measure_now_ns() - begun;
}

static double am_long_rtt(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0, wanted = state.pongs; i < n; i++) {
        check(aq_am_long(state.world, perf->peer, state.handlers[ON_PING_LONG], perf->source, size,
                         perf->peer_addr->data, AQ_NO_ARGS, 0, NULL),
              "aq_am_long");
        await_pongs(++wanted);
    }
    return measure_now_ns() - begun;
}

static int has_token(void *unused)
{
    (void)unused;
    return state.tokens > state.passed;
}

static void pass_token(struct perf *perf)
{
    check(aq_am_short(state.world, (perf->rank + 1) % perf->ranks, state.handlers[ON_TOKEN],
                      AQ_NO_ARGS, 0),
          "aq_am_short");
}

/* `n` hops, rounded up to whole laps; every rank passes the token on once in a lap. */
static double am_ring(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    uint64_t laps = (n + perf->ranks - 1) / perf->ranks;
    double begun = measure_now_ns();
    for (uint64_t lap = 0; lap < laps; lap++) {
        if (perf->rank == 0) pass_token(perf);
        check(aq_poll_until(has_token, NULL), "aq_poll_until");
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
        check(aq_am_short(state.world, perf->peer, state.handlers[ON_COUNT], AQ_NO_ARGS, 0),
              "aq_am_short");
        await_pongs(pongs);
    } while (state.counted != wanted);
}

static uint32_t flood_sent; /* by rank 0, modulo 2^32 as the receiver counts */

static void send_shorts(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    for (uint64_t i = 0; i < n; i++)
        check(aq_am_short(state.world, perf->peer, state.handlers[ON_FLOOD], AQ_NO_ARGS, 0),
              "aq_am_short");
}

static void send_mediums(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        check(aq_am_medium(state.world, perf->peer, state.handlers[ON_FLOOD], perf->source, size,
                           AQ_NO_ARGS, 0, NULL),
              "aq_am_medium");
}

static void send_reserved(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        aq_am_buffer buffer;
        check(aq_am_reserve(state.world, perf->peer, AQ_AM_MEDIUM, NULL, size, size, 0, 0, &buffer),
              "aq_am_reserve");
        memcpy(buffer.addr, perf->source, size);
        check(aq_am_commit(&buffer, state.handlers[ON_FLOOD], size, NULL, AQ_NO_ARGS, 0),
              "aq_am_commit");
    }
}

static void send_longs(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        check(aq_am_long(state.world, perf->peer, state.handlers[ON_FLOOD], perf->source, size,
                         perf->peer_addr->data, AQ_NO_ARGS, 0, AQ_EVENT_GROUP),
              "aq_am_long");
    check(aq_nbi_wait(AQ_NBI_LOCAL), "aq_nbi_wait");
}

/* A flood is over when all of it has been handled. */
static double flood(struct perf *perf, size_t size, uint64_t n, api_aq_body *send)
{
    double ns = api_aq_spread(perf, size, n, send), begun = measure_now_ns();
    flood_sent += (uint32_t)n;
    await_flood(perf, flood_sent);
    return ns + measure_now_ns() - begun;
}

static double am_short_rate(struct perf *perf, size_t size, uint64_t n)
{
    return flood(perf, size, n, send_shorts);
}

static double am_medium_rate(struct perf *perf, size_t size, uint64_t n)
{
    return flood(perf, size, n, send_mediums);
}

static double am_reserve_rate(struct perf *perf, size_t size, uint64_t n)
{
    return flood(perf, size, n, send_reserved);
}

static double am_long_rate(struct perf *perf, size_t size, uint64_t n)
{
    return flood(perf, size, n, send_longs);
}

static void send_in(struct perf *perf, size_t size, uint64_t n)
{
    (void)perf;
    (void)size;
    for (uint64_t i = 0; i < n; i++)
        check(aq_am_short(state.world, 0, state.handlers[ON_FLOOD_IN], AQ_NO_ARGS, 0),
              "aq_am_short");
}

static int all_in(void *wanted)
{
    return state.flooded_in == *(uint64_t *)wanted;
}

/* All send `n`, and rank 0, which may have got some before it comes here, tells the time of one. */
static double am_short_in(struct perf *perf, size_t size, uint64_t n)
{
    static uint64_t wanted;
    unsigned senders = perf->ranks > 1 ? perf->ranks - 1 : 1;
    double begun = measure_now_ns();
    if (perf->rank > 0 || perf->ranks == 1) (void)api_aq_spread(perf, size, n, send_in);
    if (perf->rank > 0) return 0;
    wanted += n * senders;
    check(aq_poll_until(all_in, &wanted), "aq_poll_until");
    return (measure_now_ns() - begun) / senders;
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

const struct api api_aq = {
    .name = "aq",
    .doc = "Aqueduct's own interface",
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
            [AM_LONG_RATE] = am_long_rate,
            [AM_SHORT_IN] = am_short_in,
            [PUT_LAT] = api_aq_put_lat,
            [GET_LAT] = api_aq_get_lat,
            [PUT_VALUE] = api_aq_put_value,
            [GET_VALUE] = api_aq_get_value,
            [ATOMIC_LAT] = api_aq_atomic_lat,
            [ATOMIC_CAS] = api_aq_atomic_cas,
            [ATOMIC_DOUBLE] = api_aq_atomic_double,
            [ATOMIC_RATE] = api_aq_atomic_rate,
            [PUT_BW] = api_aq_put_flood,
            [GET_BW] = api_aq_get_flood,
            [PUT_RATE] = api_aq_put_flood,
            [GET_RATE] = api_aq_get_flood,
            [PUT_EVENTS] = api_aq_put_events,
            [MEMSET_BW] = api_aq_memset,
            [PUT_PRIVATE] = api_aq_put_private,
            [GET_PRIVATE] = api_aq_get_private,
            [STRIDED_PUT] = api_aq_strided_put,
            [STRIDED_GET] = api_aq_strided_get,
            [VECTOR_PUT] = api_aq_vector_put,
            [VECTOR_GET] = api_aq_vector_get,
            [INDEXED_PUT] = api_aq_indexed_put,
            [INDEXED_GET] = api_aq_indexed_get,
            [TEAM_SPLIT] = api_aq_team_split,
            [BARRIER] = run_barrier,
            [BCAST] = api_aq_bcast,
            [REDUCE] = api_aq_reduce,
            [ALLREDUCE] = api_aq_allreduce,
            [GATHER] = api_aq_gather,
            [ALLGATHER] = api_aq_allgather,
            [SCATTER] = api_aq_scatter,
            [ALLTOALL] = api_aq_alltoall},
};
