/*
 * Resting connections are not polled, and yet nothing on them is missed, whether the server polls
 * or sleeps, even if peers do not ring, die before they ring, take back the rings of others, or
 * ring all the time.
 */
#include "core/conn/conn.h"
#include "harness.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { CROWD = 60, ENOUGH = 3 * 4096, ASK = AQ_HANDLER_BASE, ANSWER };
enum { SERVED = 1, READY, GO, DONE, ASKED };

static uint32_t asked;
static _Atomic uint32_t answered;

static void on_ask(aq_am *am)
{
    asked++;
    CHECK_OK(aq_am_reply_short(am, ANSWER, NULL, 0, 0));
}

static void on_answer(aq_am *am)
{
    (void)am;
    answered++;
}

static void open_with_handlers(aq_thread_mode mode)
{
    aq_handler_entry table[] = {{.index = ASK, .fn = on_ask}, {.index = ANSWER, .fn = on_answer}};
    role_open(mode, 0);
    job_handlers(table, COUNT_OF(table));
}

static void accept_all(unsigned n)
{
    for (unsigned opened = 0; opened < n;) {
        aq_connection_event event = next_event();
        CHECK(event.type == AQ_CONNECTION_REQUEST || event.type == AQ_CONNECTION_OPENED);
        opened += event.type == AQ_CONNECTION_OPENED;
        if (event.type == AQ_CONNECTION_REQUEST)
            CHECK_OK(aq_connection_accept(event.connection, NULL));
    }
}

/* Poll until no connection is polled. */
static void let_rest(void)
{
    for (unsigned i = 0; atomic_load(&conns.active_count) != 0; i++) {
        CHECK(play_far() || i < ENOUGH); /* over udp it takes time, not polls */
        CHECK(aq_poll() >= AQ_OK);
    }
}

static void send_ask(aq_connection *conn)
{
    CHECK_OK(aq_am_short(aq_connection_team(conn), 1, ASK, NULL, 0, 0));
}

static void await_answers(uint32_t n)
{
    while (atomic_load(&answered) < n)
        CHECK(aq_poll() >= AQ_OK);
}

static void connect_all(aq_connection *all[CROWD])
{
    aq_connect_params params = {.struct_size = sizeof(params), .flags = AQ_CONNECT_WAIT};
    for (unsigned i = 0; i < CROWD; i++)
        CHECK_OK(aq_connect_start(play->uri, &params, &all[i]));
    for (unsigned i = 0; i < CROWD; i++)
        CHECK_OK(aq_connect_wait(all[i]));
}

/* --- many connections, in turn ---------------------------------------------------------------- */

/* Fewer over udp, where each round wakes a thread. */
static uint32_t rounds(void)
{
    return play_far() ? 40 : 400;
}

static bool asleep(void)
{
    return atomic_load(&play->flag[GO]) != 0;
}

static void crowded_server(uint32_t threads)
{
    open_with_handlers(threads ? AQ_THREAD_MULTIPLE : AQ_THREAD_SINGLE);
    aq_listener *listener = listen_here();
    atomic_store(&play->flag[SERVED], 1);
    accept_all(CROWD);
    let_rest();
    atomic_store(&play->flag[READY], 1);
    for (unsigned ends = 0; ends < CROWD;) {
        aq_connection_event event;
        aq_status st = asleep() ? aq_poll_for(1000000000) : aq_poll();
        CHECK(st >= AQ_OK);
        CHECK(atomic_load(&conns.active_count) <= CROWD);
        while (aq_connection_next_event(&event) == AQ_OK) {
            CHECK_EQUAL(event.type, AQ_CONNECTION_CLOSED);
            CHECK_OK(aq_connection_close(event.connection));
            ends++;
        }
    }
    CHECK_EQUAL(asked, 2 * rounds());
    CHECK_OK(aq_listener_close(listener));
    job_close();
}

static void crowd(uint32_t number)
{
    aq_connection *all[CROWD];
    uint64_t seed = 1;
    (void)number;
    open_with_handlers(AQ_THREAD_SINGLE);
    role_await(SERVED, 1);
    connect_all(all);
    role_poll_await(READY, 1);
    let_rest();
    for (uint32_t i = 0; i < 2 * rounds(); i++) {
        if (i == rounds()) atomic_store(&play->flag[GO], 1);
        send_ask(all[mix(seed + i) % CROWD]);
        await_answers(i + 1);
    }
    for (unsigned i = 0; i < CROWD; i++)
        CHECK_OK(aq_connection_close(all[i]));
    job_close();
}

/* --- peers that do not do their part ---------------------------------------------------------- */

/* A server of two clients, the liar and an honest one. It ends when both connections have ended. */
static void waiting_server(uint32_t number)
{
    (void)number;
    open_with_handlers(AQ_THREAD_SINGLE);
    aq_listener *listener = listen_here();
    atomic_store(&play->flag[SERVED], 1);
    accept_all(2);
    let_rest();
    atomic_store(&play->flag[READY], 1);
    for (unsigned ends = 0; ends < 2;) {
        aq_connection_event event;
        CHECK(aq_poll() >= AQ_OK);
        atomic_store(&play->flag[ASKED], asked);
        while (aq_connection_next_event(&event) == AQ_OK) {
            CHECK_OK(aq_connection_close(event.connection));
            ends++;
        }
    }
    CHECK_EQUAL(asked, 1 + number);
    CHECK_OK(aq_listener_close(listener));
    job_close();
}

static aq_connection *begin_client(void)
{
    open_with_handlers(AQ_THREAD_SINGLE);
    role_await(SERVED, 1);
    aq_connection *conn = connect_here(NULL);
    role_poll_await(READY, 1);
    CHECK(conn->peer->bell.memory != NULL);
    return conn;
}

static void end_client(aq_connection *conn)
{
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

static void mute(uint32_t number)
{
    (void)number;
    aq_connection *conn = begin_client();
    conn->peer->bell.memory = NULL;
    send_ask(conn);
    await_answers(1);
    end_client(conn);
}

static void dead(uint32_t number)
{
    (void)number;
    aq_connection *conn = begin_client();
    conn->peer->bell.memory = NULL;
    role_poll_await(GO, 1); /* not while the others need a quiet server */
    send_ask(conn);
    raise(SIGKILL);
}

/* Take back all rings until the honest client is done. */
static void thief(uint32_t number)
{
    (void)number;
    aq_connection *conn = begin_client();
    struct aqi_bell_memory *bell = conn->peer->bell.memory;
    atomic_store(&play->flag[GO], 1);
    while (atomic_load(&play->flag[DONE]) == 0) {
        atomic_store(&bell->rung, 0);
        for (unsigned i = 0; i < COUNT_OF(bell->bits); i++)
            atomic_store(&bell->bits[i], 0);
    }
    send_ask(conn);
    await_answers(1);
    end_client(conn);
}

static void maniac(uint32_t number)
{
    (void)number;
    aq_connection *conn = begin_client();
    atomic_store(&play->flag[GO], 1);
    for (uint32_t i = 0; atomic_load(&play->flag[DONE]) == 0; i++) {
        struct aqi_bell_rope rope = conn->peer->bell;
        rope.bit = i % AQI_BELL_BITS;
        CHECK(aqi_bell_ring(&rope));
    }
    send_ask(conn);
    await_answers(1);
    end_client(conn);
}

/* An honest client beside the liar. It asks one question, after the liar has begun if `waits`. */
static void honest(uint32_t waits)
{
    aq_connection *conn = begin_client();
    if (waits) role_poll_await(GO, 1);
    send_ask(conn);
    await_answers(1);
    atomic_store(&play->flag[DONE], 1);
    atomic_store(&play->flag[GO], 1);
    end_client(conn);
}

static void play_with(const char *name, void (*liar)(uint32_t number), uint32_t waits)
{
    play_begin(name);
    pid_t server = play_start(waiting_server, 1);
    pid_t other = play_start(liar, 0), client = play_start(honest, waits);
    play_ended(client);
    if (liar == dead)
        play_killed(other);
    else
        play_ended(other);
    play_ended(server);
}

/*
 * A thread is about to sleep when the bell rings; another, which has looked at the bell before,
 * takes the byte that was to end the sleep.
 */
static void two_threads(uint32_t number)
{
    struct pollfd wakes = {.events = POLLIN};
    (void)number;
    open_with_handlers(AQ_THREAD_MULTIPLE);
    listen_here();
    CHECK_OK(aq_wait_fd(&wakes.fd));
    while (aq_wait_prepare() != AQ_OK)
        CHECK(aq_poll() >= AQ_OK);
    const struct aqi_bell *bell = &conns.bells[0].bell;
    CHECK(aqi_bell_ring(
        &(struct aqi_bell_rope){.memory = bell->memory, .socket = bell->socket, .wakes = true}));
    CHECK_EQUAL(poll(&wakes, 1, 0), 1);
    aqi_spin_lock(&conns.lock);
    conn_look();
    aqi_spin_unlock(&conns.lock);
    CHECK_EQUAL(poll(&wakes, 1, 0), 1);
    job_close();
}

int main(void)
{
    for (uint32_t threads = 0; threads < 2; threads++) {
        play_begin("bells.crowd");
        pid_t server = play_start(crowded_server, threads), client = play_start(crowd, 0);
        play_ended(client);
        play_ended(server);
    }
    play_begin("bells.two_threads");
    play_ended(play_start(two_threads, 0));
    if (play_far()) return 0; /* over udp peers ring no bell */
    play_with("bells.mute", mute, 0);
    play_with("bells.dead", dead, 0);
    play_with("bells.thief", thief, 1);
    play_with("bells.maniac", maniac, 1);
    return 0;
}
