/* A server and a client: messages of all kinds, one-sided operations, and a clean end. */
#include "harness.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

enum { SEGMENT = 1 << 20, PING = 100, PONG, BLOB, BLOB_BACK, LONG, LONG_BACK };

static _Atomic uint32_t pongs, blobs, longs, served;
static _Atomic(aq_connection *) expected;

/* On the progress thread a handler may run before the program has stored its connection. */
static aq_connection *noted(void)
{
    while (atomic_load(&expected) == NULL)
        sched_yield();
    return atomic_load(&expected);
}

static void on_ping(aq_am *am)
{
    CHECK_EQUAL(am->source, 1);
    CHECK(aq_connection_of(am) == noted());
    served++;
    aq_status st = aq_am_reply_short(am, PONG, am->args, am->nargs, 0);
    /* The client does not wait for the answer to its last message, and may have gone. */
    CHECK(st == AQ_OK || (st == AQ_EPEER && served == 1001));
}

static void on_pong(aq_am *am)
{
    CHECK(aq_connection_of(am) == noted());
    /* Over a network they arrive in any order. */
    CHECK(play_far() || filled_args(am->args, am->nargs, pongs));
    pongs++;
}

static void on_blob(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    CHECK_OK(aq_am_reply_medium(am, BLOB_BACK, am->payload, am->nbytes, am->args, 1, 0));
}

static void on_blob_back(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    blobs++;
}

static void on_long(aq_am *am)
{
    CHECK((unsigned char *)am->payload == job.base + 4096);
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    CHECK_OK(aq_am_reply_short(am, LONG_BACK, AQ_NO_ARGS, 0));
}

static void on_long_back(aq_am *am)
{
    (void)am;
    longs++;
}

static void open_and_register(aq_thread_mode mode)
{
    aq_handler_entry table[] = {
        {.index = PING, .nargs = AQ_AM_ANY_ARGS, .fn = on_ping},
        {.index = PONG, .nargs = AQ_AM_ANY_ARGS, .fn = on_pong},
        {.index = BLOB, .nargs = 1, .fn = on_blob},
        {.index = BLOB_BACK, .nargs = 1, .fn = on_blob_back},
        {.index = LONG, .nargs = 1, .fn = on_long},
        {.index = LONG_BACK, .nargs = 0, .fn = on_long_back},
    };
    role_open(mode, SEGMENT);
    job_handlers(table, COUNT_OF(table));
}

static void talk_messages(aq_team *team)
{
    static unsigned char bytes[65536];
    aq_arg args[AQ_AM_MAX_ARGS];
    for (uint32_t i = 0; i < 1000; i++) {
        unsigned nargs = i % (AQ_AM_MAX_ARGS + 1);
        fill_args(args, nargs, i);
        CHECK_OK(aq_am_short(team, 1, PING, args, nargs, 0));
        if (i % 3 == 0) job_await(&pongs, i + 1);
    }
    job_await(&pongs, 1000);
    for (uint32_t i = 0; i < 200; i++) {
        size_t n = i * 41 % (aq_am_max_medium(team) + 1);
        fill(bytes, n, i);
        CHECK_OK(aq_am_medium(team, 1, BLOB, bytes, n, AQ_ARGS((aq_arg)i), 0, NULL));
    }
    job_await(&blobs, 200);
    for (uint32_t i = 0; i < 100; i++) {
        aq_event ev;
        fill(bytes, i, i);
        CHECK_OK(aq_am_medium_nb(team, 1, BLOB, bytes, i, AQ_ARGS((aq_arg)i), 0, &ev));
        CHECK_OK(aq_event_wait(&ev, AQ_FOREVER));
        CHECK_EQUAL(blobs, 201 + i);
    }
    aq_segment_info info;
    CHECK_OK(aq_segment_query(team, 1, &info));
    CHECK_EQUAL(info.size, SEGMENT);
    for (uint32_t i = 0; i < 20; i++) {
        size_t n = i * 3300;
        fill(bytes, n, i + 7);
        CHECK_OK(aq_am_long(team, 1, LONG, bytes, n, (unsigned char *)info.addr + 4096,
                            AQ_ARGS((aq_arg)(i + 7)), 0, NULL));
        job_await(&longs, i + 1);
    }
}

static void talk_memory(aq_team *team)
{
    static unsigned char out[100000], in[100000];
    static const size_t sizes[] = {1, 8, 100, 4096, 65537, sizeof(out)};
    aq_segment_info info;
    CHECK_OK(aq_segment_query(team, 1, &info));
    unsigned char *there = (unsigned char *)info.addr + 131072;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        fill(out, sizes[i], 77 + i);
        memset(in, 0, sizes[i]);
        CHECK_OK(aq_put(team, 1, there + i, out, sizes[i], 0));
        CHECK_OK(aq_get(team, 1, in, there + i, sizes[i], 0));
        CHECK(memcmp(in, out, sizes[i]) == 0);
    }
    CHECK_OK(aq_memset(team, 1, there, 0x3c, 5000, 0));
    CHECK_OK(aq_get(team, 1, in, there, 5000, 0));
    CHECK(all_bytes(in, 5000, 0x3c));
    /* This process itself, which is rank 0. */
    CHECK_OK(aq_put_value(team, 0, job.base + 64, 0x1234, 8, 0));
    CHECK(memcmp(job.base + 64, &(uint64_t){0x1234}, 8) == 0);
    CHECK_STATUS(aq_put(team, 1, there + SEGMENT, out, 8, 0), AQ_ERANGE);
    CHECK_STATUS(aq_put(team, 2, there, out, 8, 0), AQ_ERANK);
    CHECK_STATUS(aq_barrier(team), AQ_EINVAL);
}

static void talk_scattered(aq_team *team)
{
    static unsigned char out[64 * 100], in[64 * 100];
    aq_segment_info info;
    CHECK_OK(aq_segment_query(team, 1, &info));
    unsigned char *there = (unsigned char *)info.addr + 300000;
    size_t count[] = {64};
    ptrdiff_t far[] = {256}, near[] = {100};
    fill(out, sizeof(out), 5);
    CHECK_OK(aq_put_strided(team, 1, there, far, out, near, 100, count, 1, 0));
    CHECK_OK(aq_get_strided(team, 1, in, near, there, far, 100, count, 1, 0));
    CHECK(memcmp(in, out, sizeof(out)) == 0);
}

static void talk_atomics(aq_team *team)
{
    aq_atomic_domain *domain;
    aq_segment_info info;
    CHECK_OK(aq_segment_query(team, 1, &info));
    CHECK_OK(aq_atomic_domain_create(team, AQ_TYPE_U64, AQ_OP_BIT(AQ_OP_ADD) | AQ_OP_BIT(AQ_OP_GET),
                                     0, &domain));
    uint64_t one = 1, before = 0;
    for (int i = 0; i < 1000; i++)
        CHECK_OK(aq_atomic(domain, 1, info.addr, AQ_OP_ADD, &one, NULL, NULL, 0));
    CHECK_OK(aq_atomic(domain, 1, info.addr, AQ_OP_GET, NULL, NULL, &before, 0));
    CHECK_EQUAL(before, 1000);
    aq_atomic_domain_destroy(domain);
}

static void talk(aq_connection *conn)
{
    aq_team *team = aq_connection_team(conn);
    CHECK(team != NULL);
    CHECK_EQUAL(aq_team_rank(team), 0);
    CHECK_EQUAL(aq_team_size(team), 2);
    expected = conn;
    talk_messages(team);
    talk_memory(team);
    talk_scattered(team);
    talk_atomics(team);
}

static void check_peer(aq_connection *conn, const char *said)
{
    aq_connection_info info;
    CHECK_OK(aq_connection_query(conn, &info));
    CHECK_EQUAL(info.state, AQ_CONNECTION_OPEN);
    CHECK_EQUAL(info.uid, play_far() ? UINT32_MAX : geteuid());
    CHECK(play_far() ? info.pid == 0 : info.pid > 0 && info.pid != getpid());
    CHECK_EQUAL(info.nbytes, strlen(said));
    CHECK(memcmp(info.data, said, info.nbytes) == 0);
}

static void server(uint32_t number)
{
    (void)number;
    open_and_register(AQ_THREAD_SINGLE);
    unsigned fds = count_fds(), maps = count_maps();
    aq_listener *listener = listen_here();
    aq_accept_params params = {
        .struct_size = sizeof(params), .data = "welcome", .nbytes = 7, .context = &fds};
    aq_connection_event event = expect_event(AQ_CONNECTION_REQUEST);
    CHECK(event.listener == listener);
    expected = event.connection;
    CHECK_OK(aq_connection_accept(event.connection, &params));
    event = expect_event(AQ_CONNECTION_OPENED);
    CHECK(event.context == &fds && aq_connection_context(event.connection) == &fds);
    check_peer(event.connection, "let me in");
    talk(event.connection);
    atomic_fetch_add(&play->flag[0], 1);
    event = expect_event(AQ_CONNECTION_CLOSED);
    CHECK_EQUAL(event.status, AQ_EPEER);
    CHECK_EQUAL(served, 1001); /* including its last message */
    CHECK_STATUS(aq_am_short(aq_connection_team(event.connection), 1, PING, AQ_NO_ARGS, 0),
                 AQ_EPEER);
    CHECK_OK(aq_connection_close(event.connection));
    CHECK_OK(aq_listener_close(listener));
    /* Resources for waiting and meeting are kept for the next connection; all others are freed. */
    CHECK_EQUAL(count_maps(), maps);
    CHECK(count_fds() <= fds + 7);
    job_close();
}

static void client(uint32_t number)
{
    (void)number;
    open_and_register(AQ_THREAD_SINGLE);
    aq_connect_params params = {.struct_size = sizeof(params),
                                .data = "let me in",
                                .nbytes = 9,
                                .flags = AQ_CONNECT_WAIT,
                                .timeout_ns = 30000000000u,
                                .context = &number};
    aq_connection *conn;
    CHECK_OK(aq_connect(play->uri, &params, &conn));
    CHECK(aq_connection_context(conn) == &number);
    check_peer(conn, "welcome");
    talk(conn);
    role_poll_await(0, 1); /* the server's part, for which it needs progress here, is done */
    CHECK_OK(aq_am_short(aq_connection_team(conn), 1, PING, AQ_NO_ARGS, 0));
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

int main(void)
{
    play_begin("talk");
    pid_t one = play_start(server, 0), other = play_start(client, 0);
    play_ended(one);
    play_ended(other);
    return 0;
}
