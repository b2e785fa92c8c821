/*
 * Messages of aq_connection_send: gathered, delivered before their sender dies, handled, in time or
 * not; and stopped peers, which keepalive notices and which stay connected, also if it is set while
 * another thread checks all connections.
 */
#include "harness.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MESSAGES = 500, PIECES = 110, COUNTED, ECHO, ECHOED };
enum {
    SERVER,
    HANDLED,
    BYE
}; /* flags: the server's process; messages handled; the client is done */

static _Atomic uint32_t echoes;

static void on_pieces(aq_am *am)
{
    CHECK_EQUAL(am->nbytes, (uint32_t)am->args[1]);
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    CHECK_OK(aq_am_reply_short(am, ECHOED, AQ_NO_ARGS, 0));
}

static void on_counted(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, 5));
    play->flag[HANDLED]++;
}

static void on_echo(aq_am *am)
{
    play->flag[HANDLED]++;
    CHECK_OK(aq_am_reply_short(am, ECHOED, AQ_NO_ARGS, 0));
}

static void on_echoed(aq_am *am)
{
    (void)am;
    echoes++;
}

static void open_and_register(aq_thread_mode mode)
{
    aq_handler_entry table[] = {{.index = PIECES, .nargs = 2, .fn = on_pieces},
                                {.index = COUNTED, .nargs = 0, .fn = on_counted},
                                {.index = ECHO, .nargs = 0, .fn = on_echo},
                                {.index = ECHOED, .nargs = 0, .fn = on_echoed}};
    role_open(mode, 0);
    job_handlers(table, COUNT_OF(table));
}

/* The server ends when its connections end, one and `more`, for whatever reason. */
static void server(uint32_t more)
{
    open_and_register(AQ_THREAD_SINGLE);
    play->flag[SERVER] = (uint32_t)getpid();
    aq_listener *listener = listen_here();
    CHECK_EQUAL(serve(1 + more), play->flag[BYE] == 0);
    CHECK_OK(aq_listener_close(listener));
    job_close();
}

/* --- pieces ---------------------------------------------------------------------------------- */

static void gather(aq_connection *conn, size_t n, unsigned pieces)
{
    static unsigned char bytes[1 << 17];
    aq_vec vec[20];
    const aq_arg args[2] = {(aq_arg)n, (aq_arg)n};
    aq_send_params params = aq_send_defaults();
    aq_event ev;
    fill(bytes, n, n);
    for (unsigned i = 0; i < pieces; i++) {
        size_t from = n * i / pieces, to = n * (i + 1) / pieces;
        vec[i] = (aq_vec){.addr = bytes + from, .len = to - from};
    }
    params.pieces = vec;
    params.count = pieces;
    params.args = args;
    params.nargs = 2;
    params.flags = AQ_SEND_HANDLED;
    uint32_t before = echoes;
    CHECK_OK(aq_connection_send(conn, PIECES, &params, &ev));
    CHECK_OK(aq_event_wait(&ev, AQ_FOREVER));
    CHECK_EQUAL(echoes, before + 1); /* the handler of the reply has run, too */
    params.flags = 0;
    CHECK_OK(aq_connection_send(conn, PIECES, &params, NULL));
    memset(bytes, 0, n); /* which may be reused at once */
    job_await(&echoes, before + 2);
}

static void refuses(aq_connection *conn)
{
    unsigned char byte = 0;
    size_t most = aq_am_max_medium(aq_connection_team(conn));
    aq_vec vec[2] = {{.addr = &byte, .len = most}, {.addr = &byte, .len = 1}};
    aq_send_params params = aq_send_defaults();
    aq_event ev;
    params.pieces = vec;
    params.count = 2;
    CHECK_REFUSED(aq_connection_send(conn, COUNTED, &params, NULL), AQ_ESIZE);
    vec[1].len = SIZE_MAX;
    CHECK_REFUSED(aq_connection_send(conn, COUNTED, &params, NULL), AQ_ESIZE);
    vec[0] = (aq_vec){.addr = NULL, .len = 1};
    CHECK_REFUSED(aq_connection_send(conn, COUNTED, &params, NULL), AQ_EINVAL);
    params.pieces = NULL;
    CHECK_REFUSED(aq_connection_send(conn, COUNTED, &params, NULL), AQ_EINVAL);
    params.count = 0;
    params.flags = AQ_SEND_HANDLED;
    CHECK_REFUSED(aq_connection_send(conn, COUNTED, &params, NULL), AQ_EINVAL);
    params.flags = 0x10000;
    CHECK_REFUSED(aq_connection_send(conn, COUNTED, &params, &ev), AQ_EINVAL);
    params.flags = 0;
    params.nargs = 1;
    CHECK_REFUSED(aq_connection_send(conn, COUNTED, &params, NULL), AQ_EINVAL);
    params.struct_size = 0;
    CHECK_REFUSED(aq_connection_send(conn, COUNTED, &params, NULL), AQ_EINVAL);
    CHECK_REFUSED(aq_connection_send(conn, 1, NULL, NULL), AQ_EHANDLER);
    CHECK_REFUSED(aq_connection_send(NULL, COUNTED, NULL, NULL), AQ_EINVAL);
    CHECK_REFUSED(aq_connection_keepalive(NULL, 1), AQ_EINVAL);
}

static void gathering_client(uint32_t number)
{
    (void)number;
    open_and_register(AQ_THREAD_SINGLE);
    aq_connection *conn = connect_here(NULL);
    size_t most = aq_am_max_medium(aq_connection_team(conn));
    for (unsigned pieces = 1; pieces <= 20; pieces += 3)
        for (size_t n = 0; n <= most; n = n * 3 + 1)
            gather(conn, n, pieces);
    gather(conn, most, 7);
    refuses(conn);
    play->flag[BYE] = 1;
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

/* --- events of messages ----------------------------------------------------------------------- */

/* Once a message has been delivered, its sender is no longer needed. */
static void dying_client(uint32_t ordered)
{
    static unsigned char bytes[20000];
    static aq_event events[MESSAGES];
    open_and_register(AQ_THREAD_SINGLE);
    aq_connection *conn = connect_with(ordered ? AQ_CONNECT_ORDERED : 0, NULL);
    fill(bytes, sizeof(bytes), 5);
    for (unsigned i = 0; i < MESSAGES; i++) {
        aq_vec vec = {.addr = bytes, .len = i % 10 == 0 ? sizeof(bytes) : i};
        aq_send_params params = aq_send_defaults();
        params.pieces = &vec;
        params.count = 1;
        params.timeout_ns = i % 3 == 0 ? 60000000000u : 0;
        CHECK_OK(aq_connection_send(conn, COUNTED, &params, &events[i]));
    }
    for (unsigned i = 0; i < MESSAGES; i++)
        CHECK_OK(aq_event_wait(&events[i], AQ_FOREVER));
    CHECK_EQUAL(kill(getpid(), SIGKILL), 0);
}

/* --- a stopped peer --------------------------------------------------------------------------- */

static const uint64_t ms = 1000000;

static void stop_server(void)
{
    CHECK_EQUAL(kill((pid_t)play->flag[SERVER], SIGSTOP), 0);
}

static void continue_server(void)
{
    CHECK_EQUAL(kill((pid_t)play->flag[SERVER], SIGCONT), 0);
}

static aq_status send_and_wait(aq_connection *conn, unsigned flags, uint64_t timeout)
{
    aq_send_params params = aq_send_defaults();
    aq_event ev;
    params.flags = flags;
    params.timeout_ns = timeout;
    aq_status st = aq_connection_send(conn, ECHO, &params, &ev);
    return st == AQ_OK ? aq_event_wait(&ev, AQ_FOREVER) : st;
}

/* Over udp nothing is delivered; over shm, everything for which the peer's memory has room. */
static uint32_t send_until_late(aq_connection *conn)
{
    uint32_t sent = 1;
    CHECK_STATUS(send_and_wait(conn, AQ_SEND_HANDLED, 50 * ms), AQ_ETIMEOUT);
    CHECK(aq_error_message()[0] != 0);
    CHECK_OK(aq_connection_send_timeout(conn, 50 * ms));
    aq_status st;
    do {
        st = send_and_wait(conn, 0, 0);
        sent += st == AQ_OK || play_far();
    } while (st == AQ_OK && !play_far());
    CHECK_EQUAL(st, AQ_ETIMEOUT);
    CHECK_OK(aq_connection_send_timeout(conn, 0));
    return sent;
}

static void waiting_client(uint32_t number)
{
    aq_connection_event event;
    (void)number;
    open_and_register(AQ_THREAD_SINGLE);
    aq_connection *conn = connect_here(NULL);
    CHECK_OK(aq_connection_keepalive(conn, 3600000 * ms));
    CHECK_OK(send_and_wait(conn, AQ_SEND_HANDLED, 60000 * ms));
    CHECK_EQUAL(play->flag[HANDLED], 1);
    for (uint32_t i = 0; i < 2; i++) {
        stop_server();
        CHECK_OK(aq_connection_keepalive(conn, 100 * ms));
        event = expect_event(AQ_CONNECTION_SILENT);
        CHECK(event.connection == conn && event.status == AQ_OK);
        CHECK(aq_connection_team(conn) != NULL);
        CHECK_OK(aq_connection_keepalive(conn, 0));
        uint32_t before = echoes, sent = send_until_late(conn);
        continue_server();
        job_await(&echoes, before + sent); /* late, but there */
        CHECK_OK(send_and_wait(conn, AQ_SEND_HANDLED, 60000 * ms));
        CHECK_STATUS(aq_connection_next_event(&event), AQ_AGAIN);
    }
    /* There is another event once the peer has answered in between. */
    CHECK_OK(aq_connection_keepalive(conn, 50 * ms));
    stop_server();
    (void)expect_event(AQ_CONNECTION_SILENT);
    continue_server();
    CHECK_OK(send_and_wait(conn, AQ_SEND_HANDLED, 60000 * ms));
    CHECK_OK(aq_connection_keepalive(conn, 0));
    play->flag[BYE] = 1;
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

enum { CHANGES = 2000 };
static atomic_bool stops;
static atomic_uint silent;

static void *taker(void *conn)
{
    aq_connection_event event;
    while (!atomic_load(&stops)) {
        (void)!aq_poll();
        while (aq_connection_next_event(&event) == AQ_OK)
            silent += event.type == AQ_CONNECTION_SILENT && event.connection == conn;
    }
    return NULL;
}

static int is_silent(void *before)
{
    return silent != *(unsigned *)before;
}

/* Two connections: keepalive of one ends when that of the other begins. */
static void changing_client(uint32_t number)
{
    pthread_t thread;
    (void)number;
    open_and_register(AQ_THREAD_MULTIPLE);
    aq_connection *one = connect_here(NULL), *other = connect_here(NULL);
    stop_server();
    CHECK(pthread_create(&thread, NULL, taker, one) == 0);
    for (unsigned i = 0; i < CHANGES; i++) {
        CHECK_OK(aq_connection_keepalive(other, 1));
        for (unsigned pause = 0; pause < i % 50; pause++)
            (void)aq_job_size();
        unsigned before = silent;
        CHECK_OK(aq_connection_keepalive(one, 1));
        CHECK_OK(aq_connection_keepalive(other, 0));
        CHECK_OK(aq_poll_until(is_silent, &before, 20000 * ms));
        CHECK_OK(aq_connection_keepalive(one, 0));
    }
    atomic_store(&stops, true);
    CHECK(pthread_join(thread, NULL) == 0);
    continue_server();
    play->flag[BYE] = 1;
    CHECK_OK(aq_connection_close(one));
    CHECK_OK(aq_connection_close(other));
    job_close();
}

int main(void)
{
    setenv("AQ_UDP_KEEPALIVE", "10m", 1); /* otherwise udp would declare a stopped peer lost */
    play_begin("pieces");
    pid_t one = play_start(server, 0), two = play_start(gathering_client, 0);
    play_ended(one);
    play_ended(two);
    for (uint32_t ordered = 0; ordered < 2; ordered++) {
        play_begin("delivered");
        one = play_start(server, 0);
        two = play_start(dying_client, ordered);
        play_killed(two);
        play_ended(one);
        CHECK_EQUAL(play->flag[HANDLED], MESSAGES);
    }
    play_begin("stopped");
    one = play_start(server, 0);
    two = play_start(waiting_client, 0);
    play_ended(two);
    play_ended(one);
    play_begin("changing");
    one = play_start(server, 1);
    two = play_start(changing_client, 0);
    play_ended(two);
    play_ended(one);
    return 0;
}
