/*
 * Unreliable connections: over udp, requests may get lost and never wait for the peer; everything
 * else arrives, and so does everything over shm. With the argument "loses", some requests must get
 * lost.
 */
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGES = 2000, FLOOD = 20000, SEGMENT = 1 << 16, DATA = 75, END, ENDED };
enum { SERVER, GOT }; /* flags: the server's process, messages that it has received */

static _Atomic uint32_t ended;

static void on_data(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    play->flag[GOT]++;
}

static void on_end(aq_am *am)
{
    aq_status st = aq_am_reply_short(am, ENDED, am->args, 1, 0);
    CHECK(st == AQ_OK || st == AQ_EPEER); /* the client may have its answer, and have gone */
}

static void on_ended(aq_am *am)
{
    ended = (uint32_t)am->args[0];
}

static void open_and_register(size_t segment)
{
    aq_handler_entry table[] = {{.index = DATA, .nargs = 1, .fn = on_data},
                                {.index = END, .nargs = 1, .fn = on_end},
                                {.index = ENDED, .nargs = 1, .fn = on_ended}};
    role_open(AQ_THREAD_SINGLE, segment);
    job_handlers(table, COUNT_OF(table));
}

static void server(uint32_t number)
{
    (void)number;
    open_and_register(SEGMENT);
    play->flag[SERVER] = (uint32_t)getpid();
    aq_listener *listener = listen_here();
    aq_connection *conn = accept_one(NULL);
    aq_connection_info info;
    CHECK_OK(aq_connection_query(conn, &info));
    CHECK_EQUAL(info.flags, AQ_CONNECT_UNRELIABLE);
    CHECK(expect_event(AQ_CONNECTION_CLOSED).connection == conn);
    CHECK_OK(aq_connection_close(conn));
    CHECK_OK(aq_listener_close(listener));
    job_close();
}

/* Ask until there is an answer: the question may get lost, the answer does not. */
static void meet(aq_team *team)
{
    static uint32_t number;
    for (number++; ended != number;) {
        CHECK_OK(aq_am_short(team, 1, END, AQ_ARGS((aq_arg)number), 0));
        for (unsigned i = 0; i < 1000 && ended != number; i++)
            (void)aq_poll();
    }
}

static void limits(aq_team *team)
{
    static unsigned char bytes[1 << 17];
    size_t most = aq_am_max_medium(team);
    CHECK(most >= 512 && most % 64 == 0);
    fill(bytes, most, 3);
    CHECK_OK(aq_am_medium(team, 1, DATA, bytes, most, AQ_ARGS(3), 0, NULL));
    CHECK_REFUSED(aq_am_medium(team, 1, DATA, bytes, most + 1, AQ_ARGS(3), 0, NULL), AQ_ESIZE);
}

/* Transfers and Longs do not get lost. */
static void all_else(aq_team *team)
{
    static unsigned char out[SEGMENT], in[SEGMENT];
    aq_segment_info info;
    CHECK_OK(aq_segment_query(team, 1, &info));
    fill(out, sizeof(out), 4);
    CHECK_OK(aq_put(team, 1, info.addr, out, sizeof(out), 0));
    CHECK_OK(aq_get(team, 1, in, info.addr, sizeof(in), 0));
    CHECK(memcmp(in, out, sizeof(in)) == 0);
}

/* A stopped peer takes nothing, and no call waits for it. */
static void flood_stopped(aq_team *team)
{
    static unsigned char bytes[400];
    fill(bytes, sizeof(bytes), 9);
    CHECK_EQUAL(kill((pid_t)play->flag[SERVER], SIGSTOP), 0);
    for (uint32_t i = 0; i < FLOOD; i++)
        CHECK_OK(aq_am_medium(team, 1, DATA, bytes, sizeof(bytes), AQ_ARGS(9), 0, NULL));
    CHECK_EQUAL(kill((pid_t)play->flag[SERVER], SIGCONT), 0);
}

static void client(uint32_t loses)
{
    static unsigned char bytes[3000];
    aq_connect_params params = aq_connect_defaults();
    aq_connection *conn;
    aq_event ev;
    open_and_register(0);
    params.flags = AQ_CONNECT_WAIT | AQ_CONNECT_UNRELIABLE | AQ_CONNECT_ORDERED;
    CHECK_REFUSED(aq_connect(play->uri, &params, &conn), AQ_EINVAL);
    conn = connect_with(AQ_CONNECT_UNRELIABLE, NULL);
    aq_team *team = aq_connection_team(conn);
    size_t most = aq_am_max_medium(team);
    meet(team);
    limits(team);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        size_t n = i * 7 % (most < sizeof(bytes) ? most : sizeof(bytes));
        aq_vec vec = {.addr = bytes, .len = n};
        aq_send_params send = aq_send_defaults();
        fill(bytes, n, i);
        send.pieces = &vec;
        send.count = 1;
        const aq_arg args[1] = {(aq_arg)i};
        send.args = args;
        send.nargs = 1;
        CHECK_OK(aq_connection_send(conn, DATA, &send, i % 2 != 0 ? &ev : NULL));
        if (i % 2 != 0) CHECK_OK(aq_event_wait(&ev, AQ_FOREVER));
        if (i % 50 == 0) meet(team); /* so that no buffer is full */
    }
    meet(team);
    uint32_t got = play->flag[GOT];
    CHECK(got > MESSAGES / 4);
    if (!play_far()) CHECK_EQUAL(got, MESSAGES + 1);
    if (loses) CHECK(got < MESSAGES);
    all_else(team);
    if (play_far()) flood_stopped(team);
    meet(team);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

int main(int argc, char **argv)
{
    setenv("AQ_UDP_KEEPALIVE", "10m", 1);
    play_begin("unreliable");
    pid_t one = play_start(server, 0);
    pid_t two = play_start(client, argc > 1 && strcmp(argv[1], "loses") == 0);
    play_ended(two);
    play_ended(one);
    return 0;
}
