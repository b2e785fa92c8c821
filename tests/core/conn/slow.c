/*
 * A server with slow and half-open peers: some read nothing while it keeps sending to them, others
 * have begun a call and stopped. The server serves the rest as before, and its memory is bounded.
 * When a slow peer reads again, all messages arrive, and the resources of peers that have ended are
 * freed.
 */
#include "base/resident_test.h"
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOW = 3, HALF_OPEN = 20, MESSAGES = 4000, BYTES = 4000, TURNS = 300 };
enum { ECHO = 100, ECHOED, FLOOD, HELLO };
enum { FLOODED, FAST_DONE, STOPPED, GOT, SENT = GOT + SLOW, PIDS = SENT + SLOW };

/* Bytes that a slow peer may cost: rings and windows, and less than all that is sent to it. */
enum { COST = 10 << 20 };

#ifndef SLOW_SANITIZED
#define SLOW_SANITIZED 0
#endif

static _Atomic uint32_t echoes;
static aq_connection *slow[SLOW];

static void on_echo(aq_am *am)
{
    CHECK_OK(aq_am_reply_medium(am, ECHOED, am->payload, am->nbytes, AQ_NO_ARGS, 0));
}

static void on_echoed(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, 3));
    echoes++;
}

/* The argument is the number of the message: none is lost, and none arrives twice. */
static void on_flood(aq_am *am)
{
    uint32_t *got = aq_connection_context(aq_connection_of(am));
    CHECK_EQUAL((uint32_t)am->args[0], *got);
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    ++*got;
}

static void on_hello(aq_am *am)
{
    slow[am->args[0]] = aq_connection_of(am);
}

static void open_with_handlers(void)
{
    aq_handler_entry table[] = {{.index = ECHO, .nargs = 0, .fn = on_echo},
                                {.index = ECHOED, .nargs = 0, .fn = on_echoed},
                                {.index = FLOOD, .nargs = 1, .fn = on_flood},
                                {.index = HELLO, .nargs = 1, .fn = on_hello}};
    role_open(AQ_THREAD_SINGLE, 0);
    job_handlers(table, COUNT_OF(table));
}

/* --- the server ------------------------------------------------------------------------------ */

/* Send as much as there is room for to each slow client. Returns whether all has been sent. */
static bool flood(uint32_t sent[SLOW])
{
    static unsigned char bytes[BYTES];
    bool all = true;
    for (uint32_t i = 0; i < SLOW; i++) {
        while (slow[i] != NULL && sent[i] < MESSAGES) {
            fill(bytes, sizeof(bytes), sent[i]);
            aq_status st = aq_am_medium(aq_connection_team(slow[i]), 1, FLOOD, bytes, sizeof(bytes),
                                        AQ_ARGS((aq_arg)sent[i]), AQ_IMMEDIATE, NULL);
            if (st == AQ_AGAIN) break;
            CHECK_OK(st);
            sent[i]++;
        }
        all = all && sent[i] == MESSAGES;
        play->flag[SENT + i] = sent[i];
    }
    return all;
}

/* Handle all events. Returns how many connections have been closed. */
static unsigned take_events(void)
{
    aq_connection_event event;
    unsigned ended = 0;
    while (aq_connection_next_event(&event) == AQ_OK) {
        if (event.type == AQ_CONNECTION_REQUEST) {
            aq_status st = aq_connection_accept(event.connection, NULL);
            CHECK(st == AQ_OK || st == AQ_EPEER);
            if (st == AQ_OK) continue;
        } else if (event.type == AQ_CONNECTION_OPENED) {
            continue;
        }
        ended += event.type == AQ_CONNECTION_CLOSED;
        CHECK_OK(aq_connection_close(event.connection));
    }
    return ended;
}

static void server(uint32_t number)
{
    uint32_t sent[SLOW] = {0}, room[SLOW];
    unsigned ended = 0;
    size_t most = 0;
    (void)number;
    open_with_handlers();
    aq_listener *listener = listen_here();
    unsigned fds = count_fds();
    size_t before = resident();
    while (ended < SLOW + 1) {
        CHECK(aq_poll() >= AQ_OK);
        ended += take_events();
        memcpy(room, sent, sizeof(room));
        bool all = flood(sent);
        bool stuck = memcmp(room, sent, sizeof(room)) == 0 && slow[0] && slow[1] && slow[2];
        if (play->flag[FAST_DONE] == 0 && stuck) play->flag[FLOODED] = 1;
        if (play->flag[FLOODED] != 0 && play->flag[FAST_DONE] == 0) CHECK(!all);
        size_t now = resident();
        if (play->flag[FLOODED] == 1 && now > most) most = now;
    }
    printf("%zu KB more at most\n", (most - before) >> 10);
    if (!SLOW_SANITIZED) CHECK(most < before + SLOW * COST);
    /* The half-open clients have been killed by now. */
    while (count_fds() != fds) {
        CHECK(aq_poll() >= AQ_OK);
        CHECK_EQUAL(take_events(), 0);
    }
    CHECK_OK(aq_listener_close(listener));
    job_close();
}

/* --- clients --------------------------------------------------------------------------------- */

/* Sends its number, and then makes no calls until the fast client is done. */
static void slow_client(uint32_t number)
{
    uint32_t got = 0;
    open_with_handlers();
    aq_connection *conn = connect_with(AQ_CONNECT_ORDERED, &got);
    CHECK_OK(aq_am_short(aq_connection_team(conn), 1, HELLO, AQ_ARGS((aq_arg)number), 0));
    role_await(FAST_DONE, 1);
    while (got < MESSAGES)
        CHECK(aq_poll() >= AQ_OK);
    play->flag[GOT + number] = got;
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

/* Begins a call, and stops after zero to three polls. */
static void half_open_client(uint32_t number)
{
    aq_connect_params params = aq_connect_defaults();
    aq_connection *conn;
    open_with_handlers();
    play->flag[PIDS + number] = (uint32_t)getpid();
    CHECK_OK(aq_connect_start(play->uri, &params, &conn));
    for (uint32_t i = 0; i < number % 4; i++)
        CHECK(aq_poll() >= AQ_OK);
    play->flag[STOPPED]++;
    CHECK_EQUAL(raise(SIGSTOP), 0);
}

static void fast_client(uint32_t number)
{
    unsigned char bytes[1000];
    (void)number;
    fill(bytes, sizeof(bytes), 3);
    open_with_handlers();
    role_await(FLOODED, 1);
    aq_connection *conn = connect_with(AQ_CONNECT_ORDERED, NULL);
    for (uint32_t i = 0; i < TURNS; i++) {
        CHECK_OK(aq_am_medium(aq_connection_team(conn), 1, ECHO, bytes, sizeof(bytes), AQ_NO_ARGS,
                              0, NULL));
        job_await(&echoes, i + 1);
    }
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

int main(void)
{
    pid_t ends[SLOW + 2], halves[HALF_OPEN];
    setenv("AQ_UDP_KEEPALIVE", "10m", 1); /* otherwise udp would declare a process lost that
                                           * computes */
    play_begin("slow");
    ends[0] = play_start(server, 0);
    for (uint32_t i = 0; i < SLOW; i++)
        ends[1 + i] = play_start(slow_client, i);
    for (uint32_t i = 0; i < HALF_OPEN; i++)
        halves[i] = play_start(half_open_client, i);
    role_await(STOPPED, HALF_OPEN);
    ends[SLOW + 1] = play_start(fast_client, 0);
    play_ended(ends[SLOW + 1]);
    play->flag[FAST_DONE] = 1;
    for (uint32_t i = 0; i < HALF_OPEN; i++) {
        CHECK_EQUAL(kill(halves[i], SIGKILL), 0);
        play_killed(halves[i]);
    }
    for (uint32_t i = 0; i <= SLOW; i++)
        play_ended(ends[i]);
    for (uint32_t i = 0; i < SLOW; i++)
        CHECK_EQUAL(play->flag[GOT + i], MESSAGES);
    return 0;
}
