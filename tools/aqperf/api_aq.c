/* The patterns with Aqueduct's own API. */
#include "api_aq.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Handlers, in the order of the table in api_aq_join. */
enum handler {
    ON_PING,
    ON_PONG,
    ON_PING_MEDIUM,
    ON_PING_LONG,
    ON_FLOOD,
    ON_FLOOD_IN,
    ON_ASK,
    ON_ANSWER,
    ON_TOKEN,
    ON_HELLO,
    ON_ROW_BEFORE,
    ON_ROW_AFTER,
    ON_STEAL,
    HANDLER_COUNT
};

static struct perf *job;
static aq_handler handlers[HANDLER_COUNT];
aq_team *api_aq_world, *api_aq_team;
static struct shared **places; /* of each rank, in segment mode everything; otherwise NULL */

/* `call` is the expression; the name of the call in it is part of the message. */
void api_aq_check(aq_status status, const char *call)
{
    if (status == AQ_OK) return;
    fprintf(stderr, "aqperf: rank %u: %.*s: %s: %s\n", aq_job_rank(), (int)strcspn(call, "("), call,
            aq_status_name(status), aq_error_message());
    aq_exit(1);
}

static void on_ping(aq_am *am)
{
    CHECK(aq_am_reply_short(am, handlers[ON_PONG], AQ_NO_ARGS, 0));
}

static void on_ping_medium(aq_am *am)
{
    CHECK(aq_am_reply_medium(am, handlers[ON_PONG], am->payload, am->nbytes, AQ_NO_ARGS, 0));
}

/* The reply is stored in the second half, so that source and destination differ in a job of one. */
static void on_ping_long(aq_am *am)
{
    CHECK(aq_am_reply_long(am, handlers[ON_PONG], am->payload, am->nbytes,
                           job->lead_addr->data + job->max_size, AQ_NO_ARGS, 0));
}

/* Reply with as many bytes as requested. */
static void on_steal(aq_am *am)
{
    CHECK(aq_am_reply_long(am, handlers[ON_PONG], job->mine->data, (size_t)aq_arg_u64(am, 0),
                           job->lead_addr->data + job->max_size, AQ_NO_ARGS, 0));
}

static void on_counted(aq_am *am)
{
    received_add(am->context);
}

static void on_ask(aq_am *am)
{
    uint32_t answer = talk_handle((enum command)am->args[0], aq_arg_u64(am, 1));
    CHECK(aq_am_reply_short(am, handlers[ON_ANSWER], AQ_ARGS((aq_arg)answer), 0));
}

static void on_answer(aq_am *am)
{
    received.answer = (uint32_t)am->args[0];
    received_add(&received.pongs);
}

void api_aq_join(struct perf *perf, unsigned segment_modes)
{
    job = perf;
    aq_error_log(0); /* api_aq_check prints errors */
    aq_init_params params = {
        .struct_size = sizeof(params), .client_name = "aqperf", .segment_modes = segment_modes};
    if (perf->options.threads > 1) params.thread_mode = AQ_THREAD_MULTIPLE;
    CHECK(aq_init(&params, &api_aq_world));
    api_aq_team = api_aq_world;
    talk_begin(perf, aq_team_rank(api_aq_world), aq_team_size(api_aq_world));
    aq_handler_entry table[HANDLER_COUNT] = {
        [ON_PING] = {.fn = on_ping, .name = "ping"},
        [ON_PONG] = {.fn = on_counted, .context = &received.pongs, .name = "pong"},
        [ON_PING_MEDIUM] = {.fn = on_ping_medium, .name = "ping-medium"},
        [ON_PING_LONG] = {.fn = on_ping_long, .name = "ping-long"},
        [ON_FLOOD] = {.fn = on_counted, .context = &received.floods, .name = "flood"},
        [ON_FLOOD_IN] = {.fn = on_counted, .context = &received.floods_in, .name = "flood-in"},
        [ON_ASK] = {.nargs = 3, .fn = on_ask, .name = "ask"},
        [ON_ANSWER] = {.nargs = 1, .fn = on_answer, .name = "answer"},
        [ON_TOKEN] = {.fn = on_counted, .context = &received.tokens, .name = "token"},
        [ON_ROW_BEFORE] = {.fn = on_counted, .context = &received.rows[0], .name = "row-before"},
        [ON_ROW_AFTER] = {.fn = on_counted, .context = &received.rows[1], .name = "row-after"},
        [ON_STEAL] = {.nargs = 2, .fn = on_steal, .name = "steal"},
        [ON_HELLO] = {.fn = on_counted, .context = &received.hellos, .name = "hello"},
    };
    CHECK(aq_am_register(aq_team_ep(api_aq_world), table, HANDLER_COUNT));
    for (size_t i = 0; i < HANDLER_COUNT; i++)
        handlers[i] = table[i].index;
}

static void start(struct perf *perf)
{
    api_aq_join(perf, AQ_SEGMENT_BIT(AQ_SEGMENT_FAST) | AQ_SEGMENT_BIT(AQ_SEGMENT_LARGE) |
                          AQ_SEGMENT_BIT(AQ_SEGMENT_EVERYTHING));
    CHECK(aq_info_route(api_aq_world, perf->peer, &perf->transport));
}

struct shared *api_aq_segment(unsigned rank, struct shared **mapped)
{
    aq_segment_info info;
    CHECK(aq_segment_query(api_aq_world, rank, &info));
    if (mapped != NULL) *mapped = info.local;
    return places != NULL ? places[rank] : info.addr;
}

/* In mode everything: allocate the memory, and exchange the addresses of all ranks. */
static struct shared *place_everything(const struct perf *perf)
{
    size_t size = (perf->segment_size + 4095) / 4096 * 4096;
    struct shared *mine = aligned_alloc(4096, size);
    places = calloc(perf->ranks, sizeof(struct shared *));
    if (mine == NULL || places == NULL) CHECK(AQ_ENOMEM);
    memset(mine, 0, size);
    CHECK(aq_coll_allgather(api_aq_world, places, &mine, sizeof mine, 0));
    return mine;
}

void api_aq_barrier(void)
{
    CHECK(aq_barrier(api_aq_world));
}

void api_aq_hello(unsigned rank)
{
    CHECK(aq_am_short(api_aq_team, rank, handlers[ON_HELLO], AQ_NO_ARGS, 0));
}

static void attach(struct perf *perf)
{
    aq_segment *own;
    CHECK(aq_segment_attach(api_aq_world, perf->segment_size, &own));
    bool everything = aq_segment_mode_get() == AQ_SEGMENT_EVERYTHING;
    perf->mine = everything ? place_everything(perf) : aq_segment_addr(own);
    perf->neighbors = aq_team_size(aq_team_neighborhood());
    /* Every rank sends one message to every other; the next barrier makes them arrive. */
    for (unsigned i = 1; perf->options.all_pairs && i < perf->ranks; i++)
        api_aq_hello((perf->rank + i) % perf->ranks);
    api_aq_private_open(perf);
    api_aq_atomic_open();
}

static void finish(void)
{
    api_aq_atomic_close();
    CHECK(aq_finalize());
}

size_t api_aq_max_size(enum carrier carrier)
{
    return carrier == CARRIER_LONG ? aq_am_max_long(api_aq_team) : aq_am_max_medium(api_aq_team);
}

void api_aq_put_word(unsigned rank, uint64_t *there, uint64_t value)
{
    CHECK(aq_put_value(api_aq_team, rank, there, value, sizeof value, 0));
}

uint64_t api_aq_get_word(unsigned rank, uint64_t *there)
{
    uint64_t value;
    CHECK(aq_get_value(api_aq_team, rank, there, sizeof value, 0, &value));
    return value;
}

struct condition {
    int (*done)(void *arg);
    void *arg;
};

static int is_done_or_ended(void *arg)
{
    const struct condition *condition = arg;
    return condition->done(condition->arg) || api_aq_connection_ended();
}

/* Also stop waiting if the connection ends: outstanding messages will never arrive then. */
void api_aq_until(int (*done)(void *arg), void *arg)
{
    struct condition either = {done, arg};
    if (api_aq_team == api_aq_world)
        CHECK(aq_poll_until(done, arg, AQ_FOREVER));
    else
        CHECK(aq_poll_until(is_done_or_ended, &either, AQ_FOREVER));
}

void api_aq_poll(void)
{
    if (aq_poll() < 0) CHECK(aq_poll());
}

static int has_pongs(void *wanted)
{
    return received_count(&received.pongs) >= *(uint64_t *)wanted;
}

static void await_pongs(uint64_t wanted)
{
    api_aq_until(has_pongs, &wanted);
}

void api_aq_ask(struct perf *perf, enum command what, size_t size)
{
    uint64_t wanted = received_count(&received.pongs) + 1;
    CHECK(aq_am_short(api_aq_team, perf->peer, handlers[ON_ASK],
                      AQ_ARGS((aq_arg)what, AQ_ARG64(size)), 0));
    await_pongs(wanted);
}

static void pass_token(struct perf *perf)
{
    CHECK(aq_am_short(api_aq_world, (perf->rank + 1) % perf->ranks, handlers[ON_TOKEN], AQ_NO_ARGS,
                      0));
}

/* Messages with replies, one at a time or many in flight. */
#define ONE_BY_ONE(name, ...)                                                                      \
    LOOP(api_aq_##name##_rtt, , {                                                                  \
        CHECK(__VA_ARGS__);                                                                        \
        await_pongs(pongs + i + 1);                                                                \
    })
#define ANSWERED(name, ...)                                                                        \
    ONE_BY_ONE(name, __VA_ARGS__)                                                                  \
    LOOP(api_aq_##name##_pairs, await_pongs(pongs + n), CHECK(__VA_ARGS__))
#define SHORT_TO(rank, handler) aq_am_short(api_aq_team, rank, handlers[handler], AQ_NO_ARGS, 0)
#define MEDIUM(handler)                                                                            \
    aq_am_medium(api_aq_team, perf->peer, handlers[handler], perf->source, size, AQ_NO_ARGS, 0,    \
                 NULL)
#define LONG(handler, event)                                                                       \
    aq_am_long(api_aq_team, perf->peer, handlers[handler], perf->source, size,                     \
               perf->peer_addr->data, AQ_NO_ARGS, 0, event)
ANSWERED(short, SHORT_TO(perf->peer, ON_PING))
ONE_BY_ONE(turns, aq_am_short(api_aq_turn(i), perf->peer, handlers[ON_PING], AQ_NO_ARGS, 0))
ONE_BY_ONE(self, SHORT_TO(perf->rank, ON_PONG))
ONE_BY_ONE(self_reply, SHORT_TO(perf->rank, ON_PING))
ANSWERED(medium, MEDIUM(ON_PING_MEDIUM))
ANSWERED(long, LONG(ON_PING_LONG, NULL))
LOOP(api_aq_poll_empty, , api_aq_poll())
LOOP(api_aq_shorts, , CHECK(SHORT_TO(perf->peer, ON_FLOOD)))
LOOP(api_aq_mediums, , CHECK(MEDIUM(ON_FLOOD)))
LOOP(api_aq_longs, CHECK(aq_nbi_wait(AQ_NBI_LOCAL, AQ_FOREVER)),
     CHECK(LONG(ON_FLOOD, AQ_EVENT_GROUP)))
LOOP(api_aq_reserved, , {
    aq_am_buffer buffer;
    CHECK(aq_am_reserve(api_aq_team, perf->peer, AQ_AM_MEDIUM, NULL, size, size, 0, 0, &buffer));
    memcpy(buffer.addr, perf->source, size);
    CHECK(aq_am_commit(&buffer, handlers[ON_FLOOD], size, NULL, AQ_NO_ARGS, 0));
})
/* All ranks but 0 send. */
LOOP(api_aq_shorts_in, , {
    if (perf->rank > 0 || perf->ranks == 1) CHECK(SHORT_TO(0, ON_FLOOD_IN));
})

/* This rank is the next one of the previous rank, so the sides are swapped. */
LOOP(api_aq_halo, , {
    for (unsigned side = 0; side < 2; side++)
        CHECK(aq_am_long(api_aq_world, perf->beside[side].rank,
                         handlers[side == 0 ? ON_ROW_AFTER : ON_ROW_BEFORE], talk_second_half(perf),
                         size, talk_row_at(perf, side), AQ_NO_ARGS, 0, AQ_EVENT_GROUP));
    compute_for(perf->interval_ns);
    talk_await_rows(perf);
    CHECK(aq_nbi_wait(AQ_NBI_LOCAL, AQ_FOREVER));
})
ONE_BY_ONE(steal,
           aq_am_short(api_aq_team, perf->peer, handlers[ON_STEAL], AQ_ARGS(AQ_ARG64(size)), 0))

const struct api api_aq = {
    .name = "aq",
    .doc = "Aqueduct's own interface",
    .start = start,
    .attach = attach,
    .finish = finish,
    .max_size = api_aq_max_size,
    .pass_token = pass_token,
    API_AQ_JOB,
};
