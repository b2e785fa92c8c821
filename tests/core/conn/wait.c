/*
 * Sleeping in poll() on the descriptor of aq_wait_fd: requests, messages, losses and other
 * descriptors end the sleep, idle time costs nothing, and timeouts of pending calls occur on time.
 */
#include "harness.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PING = 100, PONG, ROUNDS = 200 };

static _Atomic uint32_t pings, pongs;

static void on_ping(aq_am *am)
{
    pings++;
    CHECK_OK(aq_am_reply_short(am, PONG, AQ_NO_ARGS, 0));
}

static void on_pong(aq_am *am)
{
    (void)am;
    pongs++;
}

static void open_with_handlers(aq_thread_mode mode)
{
    aq_handler_entry table[] = {{.index = PING, .nargs = 0, .fn = on_ping},
                                {.index = PONG, .nargs = 0, .fn = on_pong}};
    role_open(mode, 4096);
    job_handlers(table, COUNT_OF(table));
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Whether a program's loop polls before it sleeps, as in examples/server.c, or afterwards. */
static bool polls_first;

/* One round of a program's own loop. Returns whether `other` was ready. */
static bool sleep_once(int other)
{
    int fd;
    CHECK_OK(aq_wait_fd(&fd));
    if (polls_first && aq_poll() == AQ_OK) return false;
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = other, .events = POLLIN}};
    aq_status st = aq_wait_prepare();
    if (st == AQ_OK)
        CHECK(poll(fds, other >= 0 ? 2 : 1, 30000) > 0); /* otherwise a wake-up was missed */
    else
        CHECK_STATUS(st, AQ_AGAIN);
    if (!polls_first) CHECK(aq_poll() >= AQ_OK);
    return st == AQ_OK && other >= 0 && fds[1].revents != 0;
}

static aq_connection_event sleep_for_event(aq_connection_event_type type)
{
    aq_connection_event event;
    while (aq_connection_next_event(&event) == AQ_AGAIN)
        sleep_once(-1);
    CHECK_EQUAL(event.type, type);
    return event;
}

/* A server that sleeps whenever it waits. */
static void server(uint32_t number)
{
    polls_first = number > 1;
    open_with_handlers(number % 2 != 0 ? AQ_THREAD_MULTIPLE : AQ_THREAD_SINGLE);
    listen_here();
    aq_connection *conn = sleep_for_event(AQ_CONNECTION_REQUEST).connection;
    CHECK_OK(aq_connection_accept(conn, NULL));
    CHECK(sleep_for_event(AQ_CONNECTION_OPENED).connection == conn);
    while (pings < ROUNDS)
        sleep_once(-1);
    /* Idle: the client computes for a while before it sends again. A descriptor that wakes for no
     * reason would cause thousands of turns; some turns are for remaining work, other threads, and
     * retransmissions. */
    uint32_t turns = 0;
    for (atomic_store(&play->flag[0], 1); pings == ROUNDS; turns++)
        sleep_once(-1);
    printf("%u turns of an idle server\n", turns);
    CHECK(turns < 1000);
    /* The client dies, which only the connection shows. */
    CHECK(sleep_for_event(AQ_CONNECTION_LOST).connection == conn);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

static void client(uint32_t number)
{
    (void)number;
    open_with_handlers(AQ_THREAD_SINGLE);
    aq_connection *conn = connect_here(NULL);
    aq_team *team = aq_connection_team(conn);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        CHECK_OK(aq_am_short(team, 1, PING, AQ_NO_ARGS, 0));
        while (pongs <= i)
            sleep_once(-1);
    }
    role_await(0, 1);
    for (double since = now_ms(); now_ms() - since < 250;)
        ; /* busy and silent */
    CHECK_OK(aq_am_short(team, 1, PING, AQ_NO_ARGS, 0));
    job_await(&pongs, ROUNDS + 1);
    atomic_store(&play->flag[1], 1);
    pause();
}

/* A pipe beside the descriptor, and the timeout of a call that is never answered. */
static void alone(uint32_t number)
{
    int pipes[2];
    char byte = 1;
    aq_connection *conn;
    aq_connect_params params = {
        .struct_size = sizeof(params), .flags = AQ_CONNECT_WAIT, .timeout_ns = 50000000};
    (void)number;
    open_with_handlers(AQ_THREAD_SINGLE);
    CHECK(pipe(pipes) == 0 && write(pipes[1], &byte, 1) == 1);
    while (!sleep_once(pipes[0]))
        ;
    double since = now_ms();
    CHECK_OK(aq_connect_start(play->uri, &params, &conn));
    CHECK(sleep_for_event(AQ_CONNECTION_FAILED).connection == conn);
    CHECK(now_ms() - since >= 50);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

int main(void)
{
    static const char *const ways[] = {"sleep", "sleep, several threads", "poll, sleep",
                                       "poll, sleep, several threads"};
    for (uint32_t way = 0; way < COUNT_OF(ways); way++) {
        play_begin(ways[way]);
        pid_t one = play_start(server, way), other = play_start(client, 0);
        while (atomic_load(&play->flag[1]) == 0 && waitpid(other, NULL, WNOHANG) == 0)
            usleep(1000);
        kill(other, SIGKILL);
        play_killed(other);
        play_ended(one);
    }
    play_begin("alone");
    play_ended(play_start(alone, 0));
    return 0;
}
