/*
 * A server in AQ_THREAD_MULTIPLE: one thread accepts and closes, others communicate with every
 * client that is connected, while clients come and go.
 */
#include "harness.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 12, WORKERS = 3, ASKS = 300, ASK = 100, ANSWER, TICK };

static _Atomic uint32_t answers, ticks, gone;

static void on_ask(aq_am *am)
{
    CHECK(aq_connection_of(am) != NULL);
    aq_status st = aq_am_reply_medium(am, ANSWER, am->payload, am->nbytes, am->args, am->nargs, 0);
    CHECK(st == AQ_OK || st == AQ_EPEER);
}

static void on_answer(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    answers++;
}

static void on_tick(aq_am *am)
{
    (void)am;
    ticks++;
}

static void open_with_handlers(aq_thread_mode mode)
{
    aq_handler_entry table[] = {{.index = ASK, .nargs = 1, .fn = on_ask},
                                {.index = ANSWER, .nargs = 1, .fn = on_answer},
                                {.index = TICK, .nargs = 0, .fn = on_tick}};
    role_open(mode, 65536);
    job_handlers(table, COUNT_OF(table));
}

static int all_gone(void *arg)
{
    (void)arg;
    return atomic_load(&gone) == CLIENTS;
}

/* Makes progress, and so runs handlers, for any connection with work. */
static void *work(void *arg)
{
    (void)arg;
    CHECK_OK(aq_poll_until(all_gone, NULL, AQ_FOREVER));
    return NULL;
}

static void server(uint32_t number)
{
    pthread_t workers[WORKERS];
    (void)number;
    open_with_handlers(AQ_THREAD_MULTIPLE);
    listen_here();
    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&workers[i], NULL, work, NULL) == 0);
    while (!all_gone(NULL)) {
        aq_connection_event event = next_event();
        if (event.type == AQ_CONNECTION_REQUEST) {
            CHECK_OK(aq_connection_accept(event.connection, NULL));
        } else if (event.type == AQ_CONNECTION_OPENED) {
            for (int i = 0; i < 50; i++)
                CHECK_OK(aq_am_short(aq_connection_team(event.connection), 1, TICK, AQ_NO_ARGS, 0));
        } else {
            CHECK_EQUAL(event.type, AQ_CONNECTION_CLOSED);
            CHECK_OK(aq_connection_close(event.connection));
            atomic_fetch_add(&gone, 1);
        }
    }
    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_join(workers[i], NULL) == 0);
    job_close();
}

static aq_connection *shared;

static void *ask(void *arg)
{
    unsigned char bytes[2000];
    aq_segment_info info;
    uint32_t self = (uint32_t)(uintptr_t)arg;
    aq_team *team = aq_connection_team(shared);
    CHECK_OK(aq_segment_query(team, 1, &info));
    for (uint32_t i = 0; i < ASKS; i++) {
        size_t n = (self * 700 + i * 31) % sizeof(bytes);
        fill(bytes, n, self + i);
        CHECK_OK(aq_am_medium(team, 1, ASK, bytes, n, AQ_ARGS((aq_arg)(self + i)), 0, NULL));
        CHECK_OK(aq_put(team, 1, (char *)info.addr + self * 64, bytes, 64, 0));
    }
    return NULL;
}

static void client(uint32_t number)
{
    pthread_t other;
    open_with_handlers(AQ_THREAD_MULTIPLE);
    shared = connect_here(NULL);
    CHECK(pthread_create(&other, NULL, ask, (void *)(uintptr_t)(2 * number + 1)) == 0);
    ask((void *)(uintptr_t)(2 * number + 2)); /* each to a place of its own */
    CHECK(pthread_join(other, NULL) == 0);
    job_await(&answers, 2 * ASKS);
    job_await(&ticks, 50);
    CHECK_OK(aq_connection_close(shared));
    job_close();
}

/* --- the end ------------------------------------------------------------------------------- */

enum { LAST = 5, LAST_INDEX = 90, STARTED = 0, CLOSED = 1 /* flags */ };
static _Atomic uint32_t polls, handled;
static atomic_bool ended;

/* The first handler runs until the other threads must have noticed the end. */
static void on_last(aq_am *am)
{
    (void)am;
    if (atomic_load(&handled) == 0) {
        atomic_store(&play->flag[STARTED], 1);
        role_await(CLOSED, 1);
        uint32_t until = atomic_load(&polls) + 20000;
        while (atomic_load(&polls) < until)
            sched_yield();
    }
    CHECK(!atomic_load(&ended));
    handled++;
}

static void *poll_on(void *unused)
{
    while (!atomic_load(&ended)) {
        (void)aq_poll();
        polls++;
    }
    return unused;
}

static void closing_server(uint32_t number)
{
    pthread_t threads[2];
    aq_handler_entry table[] = {{.index = LAST_INDEX, .nargs = 0, .fn = on_last}};
    (void)number;
    role_open(AQ_THREAD_MULTIPLE, 0);
    job_handlers(table, COUNT_OF(table));
    aq_listener *listener = listen_here();
    aq_connection *conn = accept_one(NULL);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, poll_on, NULL), 0);
    aq_connection_event event;
    while (aq_connection_next_event(&event) != AQ_OK)
        sched_yield();
    CHECK_EQUAL(event.type, AQ_CONNECTION_CLOSED);
    atomic_store(&ended, true);
    CHECK_EQUAL(atomic_load(&handled), LAST);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    CHECK_OK(aq_connection_close(conn));
    CHECK_OK(aq_listener_close(listener));
    job_close();
}

static void closing_client(uint32_t number)
{
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    aq_connection *conn = connect_here(NULL);
    for (int i = 0; i < LAST; i++)
        CHECK_OK(aq_am_short(aq_connection_team(conn), 1, LAST_INDEX, AQ_NO_ARGS, 0));
    role_poll_await(STARTED, 1);
    CHECK_OK(aq_connection_close(conn));
    atomic_store(&play->flag[CLOSED], 1);
    job_close();
}

/* The end is reported after all handlers, whichever threads run them. */
static void run_closing(void)
{
    play_begin("closing");
    pid_t one = play_start(closing_server, 0), two = play_start(closing_client, 0);
    play_ended(one);
    play_ended(two);
}

int main(void)
{
    pid_t clients[CLIENTS];
    play_begin("threads");
    pid_t process = play_start(server, 0);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = play_start(client, i);
        if (i >= 3) play_ended(clients[i - 3]);
    }
    for (int i = CLIENTS - 3; i < CLIENTS; i++)
        play_ended(clients[i]);
    play_ended(process);
    run_closing();
    return 0;
}
