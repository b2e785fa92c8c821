/*
 * Two hundred clients that come and go, some of them killed at a random moment: a server survives
 * all of them and keeps none of their resources. TEST_SEED repeats a run.
 */
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 200, AT_ONCE = 24, SEGMENT = 65536, ASK = 100, ANSWER, DONE = 1 };

/*
 * Once all clients have gone, this many rounds deliver everything that they sent, and the events.
 */
enum { QUIET = 1024 };

static _Atomic uint32_t answers;

static void on_ask(aq_am *am)
{
    /* A client may die before it gets this. */
    aq_status st = aq_am_reply_medium(am, ANSWER, am->payload, am->nbytes, am->args, am->nargs, 0);
    CHECK(st == AQ_OK || st == AQ_EPEER);
}

static void on_answer(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    answers++;
}

static void open_with_handlers(void)
{
    aq_handler_entry table[] = {{.index = ASK, .nargs = 1, .fn = on_ask},
                                {.index = ANSWER, .nargs = 1, .fn = on_answer}};
    role_open(AQ_THREAD_SINGLE, SEGMENT);
    job_handlers(table, COUNT_OF(table));
}

/* Clients that end before they are accepted cause no event here, so the play announces the end. */
static void server(uint32_t number)
{
    unsigned closed = 0, lost = 0;
    (void)number;
    open_with_handlers();
    unsigned maps = count_maps();
    aq_listener *listener = listen_here();
    unsigned fds = count_fds();
    aq_connection_event event;
    /* Over a network it takes a while until the death of a client is detected. */
    for (unsigned quiet = 0; quiet < QUIET || (play_far() && count_fds() != fds);) {
        quiet = atomic_load(&play->flag[DONE]) != 0 ? quiet + 1 : 0;
        CHECK(aq_poll() >= AQ_OK);
        while (aq_connection_next_event(&event) == AQ_OK) {
            quiet = 0;
            aq_status st = AQ_OK;
            if (event.type == AQ_CONNECTION_REQUEST)
                st = aq_connection_accept(event.connection, NULL);
            CHECK(st == AQ_OK || st == AQ_EPEER);
            if (st == AQ_OK && event.type < AQ_CONNECTION_FAILED) continue;
            closed += event.type == AQ_CONNECTION_CLOSED;
            lost += event.type != AQ_CONNECTION_CLOSED;
            CHECK_OK(aq_connection_close(event.connection));
        }
    }
    printf("%u closed, %u lost\n", closed, lost);
    CHECK(closed >= CLIENTS / 2 && closed + lost <= CLIENTS);
    CHECK_EQUAL(count_fds(), fds);
    CHECK_EQUAL(count_maps(), maps);
    CHECK_OK(aq_listener_close(listener));
    job_close();
}

/* A client that lives: it communicates, and closes its connection. */
static void client(uint32_t number)
{
    unsigned char bytes[3000];
    aq_segment_info info;
    open_with_handlers();
    aq_connection *conn = connect_here(NULL);
    aq_team *team = aq_connection_team(conn);
    CHECK_OK(aq_segment_query(team, 1, &info));
    for (uint32_t i = 0; i < 40; i++) {
        size_t n = (number * 131 + i * 97) % sizeof(bytes);
        fill(bytes, n, number + i);
        CHECK_OK(aq_am_medium(team, 1, ASK, bytes, n, AQ_ARGS((aq_arg)(number + i)), 0, NULL));
        CHECK_OK(aq_put(team, 1, (char *)info.addr + number * 64, bytes, 64, 0));
    }
    job_await(&answers, 40);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

/* A client that communicates until the play kills it. */
static void victim(uint32_t number)
{
    unsigned char bytes[3000];
    aq_connection *conn;
    aq_connect_params params = {
        .struct_size = sizeof(params), .flags = AQ_CONNECT_WAIT, .timeout_ns = 50000000000u};
    fill(bytes, sizeof(bytes), number);
    open_with_handlers();
    for (;;) {
        CHECK_OK(aq_connect(play->uri, &params, &conn));
        for (uint32_t i = 0; i < 200; i++)
            CHECK_OK(aq_am_medium(aq_connection_team(conn), 1, ASK, bytes, sizeof(bytes),
                                  AQ_ARGS((aq_arg)number), 0, NULL));
        if (number % 2 == 0) pause();
        role_await(DONE, 1);
    }
}

static uint64_t seed;

static pid_t start_one(uint32_t i)
{
    bool dies = mix(seed + i) % 4 == 0;
    pid_t pid = play_start(dies ? victim : client, i);
    if (!dies) return pid;
    /* It is killed at a random moment of its start, its call or its communication. */
    struct timespec pause = {.tv_nsec = (long)(mix(seed * 3 + i) % 20000000)};
    nanosleep(&pause, NULL);
    kill(pid, SIGKILL);
    play_killed(pid);
    return 0;
}

int main(void)
{
    const char *text = getenv("TEST_SEED");
    seed = text != NULL ? strtoull(text, NULL, 0) : 20240611;
    play_begin("crowd");
    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    pid_t process = play_start(server, 0), clients[CLIENTS] = {0};
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = start_one(i);
        if (i >= AT_ONCE && clients[i - AT_ONCE] != 0) play_ended(clients[i - AT_ONCE]);
    }
    for (uint32_t i = CLIENTS - AT_ONCE; i < CLIENTS; i++)
        if (clients[i] != 0) play_ended(clients[i]);
    atomic_store(&play->flag[DONE], 1);
    play_ended(process);
    return 0;
}
