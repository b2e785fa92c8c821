/*
 * Ordered connections: messages of all kinds are handled in the order of the calls, even where the
 * transport lets them overtake each other. Where it certainly does (the argument "reorders"),
 * messages of a connection without the attribute must do so.
 */
#include "harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 3000, SEGMENT = 1 << 16, REQUEST = 80, ANSWER, BYE };

static _Atomic uint32_t requests, answers, overtaken, byes;
static _Atomic int busy;
static bool ordered;
static void (*faulty)(uint32_t as); /* the only role with AQ_FAULT; NULL: none */

static void took_place(_Atomic uint32_t *count, uint32_t number)
{
    uint32_t expected = atomic_fetch_add(count, 1);
    if (number != expected) overtaken++;
    if (ordered) CHECK_EQUAL(number, expected);
}

static void on_request(aq_am *am)
{
    CHECK(!ordered || atomic_exchange(&busy, 1) == 0); /* one handler at a time */
    took_place(&requests, (uint32_t)am->args[0]);
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    atomic_store(&busy, 0);
    CHECK_OK(aq_am_reply_medium(am, ANSWER, am->payload, am->nbytes, am->args, 1, 0));
}

static void on_answer(aq_am *am)
{
    took_place(&answers, (uint32_t)am->args[0]);
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
}

static void on_bye(aq_am *am)
{
    (void)am;
    byes++;
}

static void open_and_register(aq_thread_mode mode)
{
    aq_handler_entry table[] = {
        {.index = REQUEST, .nargs = AQ_AM_ANY_ARGS, .fn = on_request},
        {.index = ANSWER, .nargs = 1, .fn = on_answer},
        {.index = BYE, .nargs = 0, .fn = on_bye},
    };
    role_open(mode, SEGMENT);
    job_handlers(table, COUNT_OF(table));
}

static void *poll_too(void *unused)
{
    while (atomic_load(&byes) == 0)
        (void)aq_poll();
    return unused;
}

/* Whether messages are numbered must not depend on the faults of one end. */
static void set_fault(void (*role)(uint32_t as))
{
    if (role == faulty) CHECK_EQUAL(setenv("AQ_FAULT", "late=5", 1), 0);
}

static void server(uint32_t as)
{
    pthread_t thread;
    set_fault(server);
    ordered = as != 0;
    open_and_register(ordered ? AQ_THREAD_MULTIPLE : AQ_THREAD_SINGLE);
    aq_listener *listener = listen_here();
    aq_connection *conn = accept_one(NULL);
    aq_connection_info info;
    CHECK_OK(aq_connection_query(conn, &info));
    CHECK_EQUAL(info.flags, ordered ? AQ_CONNECT_ORDERED : 0);
    if (ordered) CHECK_EQUAL(pthread_create(&thread, NULL, poll_too, NULL), 0);
    job_await(&byes, 1);
    if (ordered) CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK(expect_event(AQ_CONNECTION_CLOSED).connection == conn);
    CHECK_EQUAL(requests, MESSAGES);
    atomic_store(&play->flag[0], overtaken);
    CHECK_OK(aq_connection_close(conn));
    CHECK_OK(aq_listener_close(listener));
    job_close();
}

/* One of each kind in turn, of all sizes. */
static void send_one(aq_team *team, uint32_t i)
{
    static unsigned char bytes[SEGMENT];
    static const unsigned sizes[] = {0, 8, 40, 200, 3000, 9000};
    size_t n = sizes[i / 4 % COUNT_OF(sizes)];
    aq_arg args[AQ_AM_MAX_ARGS] = {(aq_arg)i};
    aq_am_buffer buffer;
    aq_segment_info info;
    fill(bytes, n, i);
    switch (i % 4) {
    case 0:
        CHECK_OK(aq_am_short(team, 1, REQUEST, args, 1 + i % AQ_AM_MAX_ARGS, 0));
        break;
    case 1:
        CHECK_OK(aq_am_medium(team, 1, REQUEST, bytes, n, args, 1 + i % AQ_AM_MAX_ARGS, 0, NULL));
        break;
    case 2: /* each has its own part of the segment, until 512 messages later */
        CHECK_OK(aq_segment_query(team, 1, &info));
        n = n > 500 ? 500 : n;
        CHECK_OK(aq_am_long(team, 1, REQUEST, bytes, n,
                            (unsigned char *)info.addr + i / 4 % 128 * 512, args,
                            1 + i % AQ_AM_MAX_ARGS, 0, NULL));
        break;
    default:
        CHECK_OK(aq_am_reserve(team, 1, AQ_AM_MEDIUM, NULL, n, n, 1, 0, &buffer));
        memcpy(buffer.addr, bytes, n);
        CHECK_OK(aq_am_commit(&buffer, REQUEST, n, NULL, args, 1, 0));
    }
    /* So few messages are under way that no part of the segment is used twice. */
    job_await(&answers, i < 400 ? 0 : i - 400);
}

static void client(uint32_t as)
{
    aq_connection_info info;
    set_fault(client);
    ordered = as != 0;
    open_and_register(AQ_THREAD_SINGLE);
    aq_connection *conn = connect_with(ordered ? AQ_CONNECT_ORDERED : 0, NULL);
    CHECK_OK(aq_connection_query(conn, &info));
    CHECK_EQUAL(info.flags, ordered ? AQ_CONNECT_ORDERED : 0);
    aq_team *team = aq_connection_team(conn);
    for (uint32_t i = 0; i < MESSAGES; i++)
        send_one(team, i);
    job_await(&answers, MESSAGES);
    CHECK_OK(aq_am_short(team, 1, BYE, AQ_NO_ARGS, 0));
    CHECK_OK(aq_connection_close(conn));
    atomic_store(&play->flag[1], overtaken);
    job_close();
}

static void run(const char *name, uint32_t as)
{
    play_begin(name);
    pid_t one = play_start(server, as), two = play_start(client, as);
    play_ended(one);
    play_ended(two);
}

int main(int argc, char **argv)
{
    run("in order", 1);
    CHECK_EQUAL(play->flag[0] + play->flag[1], 0);
    if (getenv("AQ_FAULT") == NULL) {
        faulty = server;
        run("in order, with faults at the server", 1);
        faulty = client;
        run("in order, with faults at the client", 1);
        faulty = NULL;
    }
    run("in any order", 0);
    if (argc > 1 && strcmp(argv[1], "reorders") == 0)
        CHECK(play->flag[0] + play->flag[1] != 0); /* otherwise this test could not fail */
    return 0;
}
