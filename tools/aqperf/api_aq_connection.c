/*
 * Measuring over a connection between two programs that were not started together: the pair
 * patterns of api_aq.c. The program that connects is rank 0 and leads; the one that listens is
 * rank 1, and the call says how much memory it needs. On both sides, the peer is rank 1 of the
 * connection's team.
 */
#include "api_aq.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PEER = 1 };

/*
 * The private data of the call. The version covers the layout of all data that the sides share.
 */
struct call {
    char version[24];
    uint64_t max_size;
    uint64_t connections; /* in the first call: total number; in others: 0 */
};

static aq_connection *connection;
static aq_team **teams; /* of all connections, in the program that connects */
static size_t team_count = 1;
static aq_segment *own;
static bool listens;

__attribute__((noreturn)) static void fail(const char *what, const char *why)
{
    fprintf(stderr, "aqperf: %s: %s\n", what, why);
    aq_exit(1);
}

static struct call call_of(size_t max_size, size_t connections)
{
    struct call call = {.max_size = max_size, .connections = connections};
    snprintf(call.version, sizeof call.version, "aqperf %s", aq_version());
    return call;
}

static void start(struct perf *perf)
{
    api_aq_join(perf, 0);
    listens = perf->options.listen != NULL;
    perf->rank = listens ? 1 : 0;
    perf->ranks = 2;
    perf->peer = PEER;
    perf->transport = listens ? perf->options.listen : perf->options.connect;
}

static void attach_segment(struct perf *perf)
{
    CHECK(aq_segment_attach(api_aq_world, perf->segment_size, &own));
    perf->mine = aq_segment_addr(own);
}

static int has_event(void *event)
{
    return aq_connection_next_event(event) == AQ_OK;
}

static aq_connection_event next_event(void)
{
    aq_connection_event event;
    CHECK(aq_poll_until(has_event, &event, AQ_FOREVER));
    return event;
}

/* Memory and page tables of this process, in KB. */
static long memory(void)
{
    static const struct {
        const char *file, *key;
    } parts[] = {{"/proc/self/smaps_rollup", "Pss:"}, {"/proc/self/status", "VmPTE:"}};
    long sum = 0;
    char line[256];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        FILE *file = fopen(parts[i].file, "r");
        size_t len = strlen(parts[i].key);
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            if (strncmp(line, parts[i].key, len) == 0) sum += atol(line + len);
        if (file != NULL) fclose(file);
    }
    return sum;
}

static double opening; /* ns */
static long memory_before;

static void begin_opening(void)
{
    memory_before = memory();
    opening = measure_now_ns();
}

static void print_opened(size_t n)
{
    double s = (measure_now_ns() - opening) / 1e9;
    fprintf(stderr,
            "aqperf: %zu connections in %.3f s (%.0f per second), %.1f KB each on this side\n", n,
            s, (double)n / s, (double)(memory() - memory_before) / (double)n);
}

/* Accept a caller that is an aqperf of the same version, and reject all others. */
static void take_call(struct perf *perf, aq_connection *caller)
{
    aq_connection_info info;
    struct call call = {.connections = 1};
    CHECK(aq_connection_query(caller, &info));
    if (info.nbytes == sizeof call) memcpy(&call, info.data, sizeof call);
    struct call expected = call_of(call.max_size, call.connections);
    bool same_version = memcmp(&call, &expected, sizeof call) == 0;
    if (connection != NULL) {
        if (same_version && call.connections == 0 && call.max_size == 0)
            CHECK(aq_connection_accept(caller, NULL));
        else
            CHECK(aq_connection_reject(caller, 1,
                                       "this aqperf is already measuring with another aqperf"));
        return;
    }
    if (!same_version || call.max_size > MAX_SIZE) {
        CHECK(aq_connection_reject(caller, 1, "this aqperf needs a peer of the same version"));
        return;
    }
    connection = caller;
    perf->max_size = (size_t)call.max_size;
    team_count = (size_t)call.connections;
    perf->segment_size = sizeof(struct shared) + 2 * perf->max_size;
    attach_segment(perf);
    CHECK(aq_connection_accept(
        caller, &(aq_accept_params){.struct_size = sizeof(aq_accept_params), .segment = own}));
}

/* Wait for one client, until all its connections are open. */
static void be_called(struct perf *perf)
{
    aq_listener *listener;
    aq_connection_event event;
    CHECK(aq_listen(perf->options.listen, 0, NULL, &listener));
    printf("aqperf: listening at %s\n", aq_listener_uri(listener));
    fflush(stdout);
    for (size_t open = 0; open < team_count;) {
        event = next_event();
        if (event.connection == NULL) continue; /* a listener's */
        if (event.type == AQ_CONNECTION_REQUEST)
            take_call(perf, event.connection);
        else if (event.type != AQ_CONNECTION_OPENED)
            fail(perf->options.listen, "the caller canceled the connection");
        else if (++open == 1)
            begin_opening();
    }
    if (team_count > 1) print_opened(team_count - 1);
    CHECK(aq_listener_close(listener));
}

/* Open all other connections concurrently. */
static void open_others(const struct perf *perf)
{
    const struct call call = call_of(0, 0);
    const aq_connect_params params = {.struct_size = sizeof params,
                                      .data = &call,
                                      .nbytes = sizeof call,
                                      .flags = AQ_CONNECT_WAIT,
                                      .timeout_ns = 100000000000u};
    aq_connection **others = calloc(team_count, sizeof(aq_connection *));
    teams = calloc(team_count, sizeof(aq_team *));
    if (others == NULL || teams == NULL) fail(perf->options.connect, "out of memory");
    teams[0] = aq_connection_team(connection);
    begin_opening();
    for (size_t i = 1; i < team_count; i++)
        CHECK(aq_connect_start(perf->options.connect, &params, &others[i]));
    for (size_t i = 1; i < team_count; i++) {
        CHECK(aq_connect_wait(others[i]));
        teams[i] = aq_connection_team(others[i]);
    }
    if (team_count > 1) print_opened(team_count - 1);
    free(others);
}

aq_team *api_aq_turn(uint64_t i)
{
    return teams[i % team_count];
}

static void attach(struct perf *perf)
{
    if (listens) {
        be_called(perf);
    } else {
        team_count = perf->options.connections;
        struct call call = call_of(perf->max_size, team_count);
        attach_segment(perf);
        aq_connect_params params = {.struct_size = sizeof params,
                                    .data = &call,
                                    .nbytes = sizeof call,
                                    .flags = AQ_CONNECT_WAIT,
                                    .segment = own};
        CHECK(aq_connect(perf->options.connect, &params, &connection));
        open_others(perf);
    }
    api_aq_team = aq_connection_team(connection);
    CHECK(aq_info_route(api_aq_team, PEER, &perf->transport));
    api_aq_atomic_open();
}

bool api_aq_connection_ended(void)
{
    aq_connection_info info;
    aq_connection_event event;
    CHECK(aq_connection_query(connection, &info));
    if (info.state != AQ_CONNECTION_ENDED) return false;
    while (has_event(&event))
        if (listens && event.type == AQ_CONNECTION_CLOSED) received.command = COMMAND_END;
    if (received.command != COMMAND_END) fail("the connection has ended", info.reason);
    return true;
}

/* Called in the loops of limits, which make no other calls, and between loops. */
static void check_peer(void)
{
    (void)aq_poll();
    if (api_aq_connection_ended()) fail("the connection has ended", "the peer closed it");
}

/* Called while rank 1 waits for commands from rank 0. */
static void poll_or_end(void)
{
    api_aq_poll();
    (void)api_aq_connection_ended();
}

static void finish(void)
{
    api_aq_atomic_close();
    CHECK(aq_connection_close(connection));
    CHECK(aq_finalize());
}

static struct shared *segment(unsigned rank, struct shared **mapped)
{
    (void)rank;
    aq_segment_info info;
    CHECK(aq_segment_query(api_aq_team, PEER, &info));
    if (mapped != NULL) *mapped = info.local;
    return info.addr;
}

static int has_hellos(void *wanted)
{
    return received.hellos >= *(uint64_t *)wanted;
}

static void barrier(void)
{
    static uint64_t met;
    met++;
    api_aq_hello(PEER);
    api_aq_until(has_hellos, &met);
}

const struct api api_connection = {
    .name = "connection",
    .start = start,
    .attach = attach,
    .finish = finish,
    .quit = aq_exit,
    .max_size = api_aq_max_size,
    .barrier = barrier,
    .segment = segment,
    .put_word = api_aq_put_word,
    .get_word = api_aq_get_word,
    .ask = api_aq_ask,
    .until = api_aq_until,
    .poll = poll_or_end,
    .check_peer = check_peer,
};
