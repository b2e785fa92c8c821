/*
 * How connections end. A side that made no progress gets the event for the end as well, after
 * everything that the peer sent has been delivered.
 *
 * A connection is closed while a message that follows an operation waits for room: it is still sent
 * if the peer receives what precedes it, and otherwise fails when the time expires.
 *
 * A listener is closed, and requests are rejected, while another thread takes events: there is none
 * of a request that was refused without having been reported, or that the program has rejected.
 */
#include "harness.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

enum { FILL = 100, LAST, BYTES = 64 };
enum { BEGUN = 0, SERVED, FULL, OVER };

static unsigned char memory[BYTES];
static unsigned lasts;

static void on_fill(aq_am *am)
{
    (void)am;
}

static void on_last(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, 5));
    lasts++;
}

static void open_with_handlers(void)
{
    aq_handler_entry table[] = {{.index = FILL, .nargs = 0, .fn = on_fill},
                                {.index = LAST, .nargs = 0, .fn = on_last}};
    role_open(AQ_THREAD_SINGLE, 0);
    job_handlers(table, COUNT_OF(table));
}

static void server(uint32_t looks)
{
    open_with_handlers();
    listen_here();
    aq_accept_params params = {.struct_size = sizeof(params)};
    CHECK_OK(aq_segment_create(memory, BYTES, 0, &params.segment));
    aq_connection *conn = expect_event(AQ_CONNECTION_REQUEST).connection;
    CHECK_OK(aq_connection_accept(conn, &params));
    expect_event(AQ_CONNECTION_OPENED);
    role_await(BEGUN, 1);
    while (!filled(memory, BYTES, 5))
        CHECK(aq_poll() >= AQ_OK);
    atomic_store(&play->flag[SERVED], 1);
    role_await(looks ? FULL : OVER, 1);
    CHECK(expect_event(AQ_CONNECTION_CLOSED).connection == conn);
    CHECK_EQUAL(lasts, looks);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

static void client(uint32_t looks)
{
    static unsigned char bytes[BYTES];
    aq_connect_params params = {
        .struct_size = sizeof(params), .flags = AQ_CONNECT_WAIT, .timeout_ns = 60000000000};
    aq_segment_info info;
    aq_connection *conn;
    aq_event ev;
    setenv("AQ_SHM_CMA", "no", 1); /* so that the server has to take part */
    setenv("AQ_CONN_TIMEOUT", looks ? "60s" : "50ms", 1);
    open_with_handlers();
    CHECK_OK(aq_connect(play->uri, &params, &conn));
    aq_team *team = aq_connection_team(conn);
    CHECK_OK(aq_segment_query(team, 1, &info));
    fill(bytes, BYTES, 5);
    CHECK_OK(aq_put_nb(team, 1, info.addr, bytes, BYTES, 0, &ev));
    CHECK(ev != AQ_EVENT_DONE);
    CHECK_OK(aq_am_medium_after_nbi(team, 1, LAST, bytes, BYTES, AQ_NO_ARGS, 0, &ev));
    atomic_store(&play->flag[BEGUN], 1);
    role_await(SERVED, 1);
    aq_status st;
    do
        st = aq_am_short(team, 1, FILL, AQ_NO_ARGS, AQ_IMMEDIATE);
    while (st == AQ_OK);
    CHECK_EQUAL(st, AQ_AGAIN);
    atomic_store(&play->flag[FULL], 1);
    CHECK_OK(aq_connection_close(conn));
    CHECK_STATUS(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER), looks ? AQ_OK : AQ_EPEER);
    atomic_store(&play->flag[OVER], 1);
    job_close();
}

static aq_connection_event next_without_progress(void)
{
    aq_connection_event event;
    aq_status st;
    while ((st = aq_connection_next_event(&event)) == AQ_AGAIN)
        sched_yield();
    CHECK_OK(st);
    return event;
}

/* How the peer ends, and whether it leaves a message behind. */
enum { DIES = 1, LEAVES_MESSAGE = 2, ENDS = 4 };

static void idle_server(uint32_t how)
{
    bool multiple = (how & ENDS) != 0;
    aq_handler_entry table[] = {{.index = LAST, .nargs = 0, .fn = on_last}};
    role_open(multiple ? AQ_THREAD_MULTIPLE : AQ_THREAD_SINGLE, 0);
    job_handlers(table, COUNT_OF(table));
    listen_here();
    aq_connection *conn = next_without_progress().connection;
    CHECK_OK(aq_connection_accept(conn, NULL));
    CHECK_EQUAL(next_without_progress().type, AQ_CONNECTION_OPENED);
    atomic_store(&play->flag[SERVED], 1);
    role_await(OVER, 1);
    if (how & LEAVES_MESSAGE) {
        aq_connection_event none;
        for (int i = 0; i < 1000; i++)
            CHECK_EQUAL(aq_connection_next_event(&none), AQ_AGAIN);
        CHECK_EQUAL(lasts, 0);
        while (lasts == 0)
            CHECK(aq_poll() >= AQ_OK);
    }
    aq_connection_event end = next_without_progress();
    CHECK(end.connection == conn);
    CHECK_EQUAL(end.type, how & DIES ? AQ_CONNECTION_LOST : AQ_CONNECTION_CLOSED);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

static void idle_client(uint32_t how)
{
    unsigned char bytes[BYTES];
    role_open(AQ_THREAD_SINGLE, 0);
    aq_connection *conn = connect_here(NULL);
    role_await(SERVED, 1);
    fill(bytes, BYTES, 5);
    if (how & LEAVES_MESSAGE)
        CHECK_OK(
            aq_am_medium(aq_connection_team(conn), 1, LAST, bytes, BYTES, AQ_NO_ARGS, 0, NULL));
    if (how & DIES) {
        atomic_store(&play->flag[OVER], 1);
        raise(SIGKILL);
    }
    CHECK_OK(aq_connection_close(conn));
    atomic_store(&play->flag[OVER], 1);
    job_close();
}

static void idle(uint32_t how)
{
    play_begin("idle");
    pid_t server = play_start(idle_server, how), client = play_start(idle_client, how);
    if (how & DIES)
        play_killed(client);
    else
        play_ended(client);
    play_ended(server);
}

enum { CALLS = 24, ROUNDS = 100 };
static atomic_bool stops;
static atomic_uint failed;

static void take_events(void)
{
    aq_connection_event event;
    while (aq_connection_next_event(&event) == AQ_OK) {
        if (event.type == AQ_CONNECTION_REQUEST) {
            CHECK_OK(aq_connection_reject(event.connection, 0, "no"));
            continue;
        }
        CHECK_EQUAL(event.type, AQ_CONNECTION_FAILED);
        CHECK_OK(aq_connection_close(event.connection));
        failed++;
    }
}

static void *taker(void *arg)
{
    (void)arg;
    while (!atomic_load(&stops))
        take_events();
    return NULL;
}

static void refusing(uint32_t number)
{
    pthread_t thread;
    (void)number;
    role_open(AQ_THREAD_MULTIPLE, 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        aq_connection *calls[CALLS];
        aq_listener *listener = listen_here();
        failed = 0;
        stops = false;
        for (unsigned i = 0; i < CALLS; i++)
            CHECK_OK(aq_connect_start(play->uri, NULL, &calls[i]));
        for (unsigned i = 0; i < 8 * CALLS; i++)
            (void)!aq_poll();
        CHECK(pthread_create(&thread, NULL, taker, NULL) == 0);
        CHECK_OK(aq_listener_close(listener));
        while (failed != CALLS)
            take_events();
        stops = true;
        CHECK(pthread_join(thread, NULL) == 0);
        take_events();
    }
    job_close();
}

int main(void)
{
    /* Over a network a side that makes no progress sends and receives nothing. */
    for (uint32_t how = 0; how < 2 * ENDS; how++)
        if (!play_far() || (how & LEAVES_MESSAGE) == 0) idle(how);
    for (uint32_t looks = 0; looks < 2 && !play_far(); looks++) {
        play_begin("closing");
        pid_t one = play_start(server, looks), other = play_start(client, looks);
        play_ended(one);
        play_ended(other);
    }
    play_begin("refusing");
    play_ended(play_start(refusing, 0));
    return 0;
}
