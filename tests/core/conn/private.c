/*
 * Segments that a program creates and publishes on one connection only. They are accessible without
 * being mapped until they are destroyed; memory beside them is not.
 */
#include "harness.h"

#include <string.h>

enum { SIZE = 200000, PING = 100, PONG };

static _Atomic uint32_t pongs;

static void on_ping(aq_am *am)
{
    CHECK_OK(aq_am_reply_short(am, PONG, AQ_NO_ARGS, 0));
}

static void on_pong(aq_am *am)
{
    (void)am;
    pongs++;
}

static void open_with_handlers(void)
{
    aq_handler_entry table[] = {{.index = PING, .nargs = 0, .fn = on_ping},
                                {.index = PONG, .nargs = 0, .fn = on_pong}};
    role_open(AQ_THREAD_SINGLE, 65536); /* not published */
    job_handlers(table, COUNT_OF(table));
}

static void server(uint32_t number)
{
    static unsigned char memory[2][SIZE];
    aq_segment *segment[2];
    aq_connection *conn[2];
    (void)number;
    open_with_handlers();
    listen_here();
    for (int i = 0; i < 2; i++) {
        aq_accept_params params = {.struct_size = sizeof(params)};
        fill(memory[i], SIZE, 7);
        CHECK_OK(aq_segment_create(memory[i], SIZE, 0, &segment[i]));
        params.segment = segment[i];
        conn[i] = expect_event(AQ_CONNECTION_REQUEST).connection;
        CHECK_OK(aq_connection_accept(conn[i], &params));
        expect_event(AQ_CONNECTION_OPENED);
    }
    atomic_store(&play->flag[0], 1);
    role_poll_await(1, 1);
    CHECK(filled(aq_segment_addr(segment[0]), SIZE / 2, 9));
    CHECK(filled(aq_segment_addr(segment[1]), SIZE, 7));
    CHECK_OK(aq_segment_destroy(segment[0]));
    atomic_store(&play->flag[2], 1);
    for (int i = 0; i < 2; i++)
        CHECK_OK(aq_connection_close(expect_event(AQ_CONNECTION_CLOSED).connection));
    job_close();
}

/* Errors cannot name the rank of a connection's peer, which has none. */
static void refused_there(aq_status st)
{
    CHECK_STATUS(st, AQ_ERANGE);
    CHECK(strstr(aq_error_message(), "the peer of this connection") != NULL);
    CHECK(strstr(aq_error_message(), "rank") == NULL);
}

static void client(uint32_t number)
{
    static unsigned char bytes[SIZE], in[SIZE];
    aq_segment_info info[2];
    aq_connection *conn[2];
    (void)number;
    open_with_handlers();
    for (int i = 0; i < 2; i++) {
        conn[i] = connect_here(NULL);
        CHECK_OK(aq_segment_query(aq_connection_team(conn[i]), 1, &info[i]));
        CHECK(info[i].size == SIZE && info[i].local == NULL);
    }
    role_poll_await(0, 1);
    aq_team *team = aq_connection_team(conn[0]);
    CHECK_OK(aq_get(team, 1, in, info[0].addr, SIZE, 0));
    CHECK(filled(in, SIZE, 7));
    fill(bytes, SIZE / 2, 9);
    CHECK_OK(aq_put(team, 1, info[0].addr, bytes, SIZE / 2, 0));
    /* Segments of the other connection are not accessible through this one. */
    refused_there(aq_put(team, 1, info[1].addr, bytes, 8, 0));
    atomic_store(&play->flag[1], 1);
    role_poll_await(2, 1);
    refused_there(aq_put(team, 1, info[0].addr, bytes, 8, 0));
    refused_there(aq_get(team, 1, in, info[0].addr, SIZE, 0));
    /* Both connections remain usable. */
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_OK(aq_am_short(aq_connection_team(conn[i]), 1, PING, AQ_NO_ARGS, 0));
        job_await(&pongs, i + 1);
        CHECK_OK(aq_connection_close(conn[i]));
    }
    job_close();
}

int main(void)
{
    play_begin("private");
    pid_t one = play_start(server, 0), other = play_start(client, 0);
    play_ended(one);
    play_ended(other);
    return 0;
}
