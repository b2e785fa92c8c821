/*
 * Two programs with different settings can connect: the client's settings determine the rings, and
 * the smaller of the two largest Mediums is the limit of both.
 */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE = 700001, PIECES = 3000, STEP = 200, ECHO = 100, ANSWER };

/*
 * The setting that differs from the default: at the server in even cases, at the client in odd
 * ones.
 */
static const struct {
    const char *name, *value;
    size_t max_medium; /* of the connection; 65536 is the default */
} settings[] = {{"AQ_SHM_SLOTS", "16", 65536},     {"AQ_SHM_SLOTS", "4096", 65536},
                {"AQ_SHM_PAYLOAD", "16M", 65536},  {"AQ_SHM_FRAGMENT", "1M", 65536},
                {"AQ_AM_MAX_MEDIUM", "512", 512},  {"AQ_AM_MAX_MEDIUM", "1000", 1024},
                {"AQ_AM_MAX_MEDIUM", "1M", 65536}, {"AQ_SHM_MAP", "no", 65536},
                {"AQ_SHM_CMA", "no", 65536}};

static unsigned char memory[2][SIZE], bytes[SIZE];
static _Atomic uint32_t answers;
static size_t largest;

static void on_echo(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->nbytes));
    CHECK_REFUSED(aq_am_reply_medium(am, ANSWER, bytes, largest + 1, AQ_NO_ARGS, 0), AQ_ESIZE);
    aq_am_buffer buffer;
    CHECK_REFUSED(aq_am_reserve_reply(am, AQ_AM_MEDIUM, NULL, largest + 1, SIZE, 0, 0, &buffer),
                  AQ_ESIZE);
    CHECK_OK(aq_am_reply_medium(am, ANSWER, am->payload, am->nbytes, AQ_NO_ARGS, 0));
}

static void on_answer(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->nbytes));
    answers++;
}

static void open_with(uint32_t number, uint32_t side)
{
    aq_handler_entry table[] = {{.index = ECHO, .nargs = 0, .fn = on_echo},
                                {.index = ANSWER, .nargs = 0, .fn = on_answer}};
    if (number % 2 == side) setenv(settings[number / 2].name, settings[number / 2].value, 1);
    largest = settings[number / 2].max_medium;
    role_open(AQ_THREAD_SINGLE, 0);
    job_handlers(table, COUNT_OF(table));
}

static void messages(aq_team *team)
{
    aq_am_buffer buffer;
    aq_event done = AQ_EVENT_DONE;
    uint32_t sent = 0;
    CHECK_EQUAL(aq_am_max_medium(team), largest);
    for (size_t n = 1; n <= largest; n = n * 2 < largest || n == largest ? n * 2 : largest) {
        fill(bytes, n, (uint64_t)n);
        for (int i = 0; i < 100; i++, sent++)
            CHECK_OK(aq_am_medium(team, 1, ECHO, bytes, n, AQ_NO_ARGS, 0, NULL));
    }
    job_await(&answers, sent);
    CHECK_REFUSED(aq_am_medium(team, 1, ECHO, bytes, largest + 1, AQ_NO_ARGS, 0, NULL), AQ_ESIZE);
    CHECK_REFUSED(aq_am_medium_after_nb(team, 1, ECHO, bytes, largest + 1, AQ_NO_ARGS, 0, &done),
                  AQ_ESIZE);
    CHECK_REFUSED(aq_am_reserve(team, 1, AQ_AM_MEDIUM, NULL, largest + 1, SIZE, 0, 0, &buffer),
                  AQ_ESIZE);
    CHECK_OK(aq_am_reserve(team, 1, AQ_AM_MEDIUM, NULL, 1, SIZE, 0, 0, &buffer));
    CHECK_EQUAL(buffer.size, largest);
    aq_am_cancel(&buffer);
}

/* Transfers of unmapped memory: large ones in pieces, and many small ones in one packet. */
static void transfers(aq_team *team)
{
    aq_segment_info info;
    ptrdiff_t far = STEP, near = STEP / 2;
    size_t count = PIECES;
    CHECK_OK(aq_segment_query(team, 1, &info));
    CHECK_EQUAL(info.size, SIZE);
    fill(bytes, SIZE, 3);
    CHECK_OK(aq_put(team, 1, info.addr, bytes, SIZE, 0));
    memset(bytes, 0, SIZE);
    CHECK_OK(aq_get(team, 1, bytes, info.addr, SIZE, 0));
    CHECK(filled(bytes, SIZE, 3));
    fill(bytes, PIECES * (STEP / 2), 4);
    CHECK_OK(aq_put_strided(team, 1, info.addr, &far, bytes, &near, STEP / 2, &count, 1, 0));
    memset(bytes, 0, SIZE);
    CHECK_OK(aq_get_strided(team, 1, bytes, &near, info.addr, &far, STEP / 2, &count, 1, 0));
    CHECK(filled(bytes, PIECES * (STEP / 2), 4));
}

static void talk(aq_connection *conn, unsigned turn)
{
    aq_team *team = aq_connection_team(conn);
    role_poll_await(0, turn);
    messages(team);
    transfers(team);
    atomic_fetch_add(&play->flag[0], 1);
    role_poll_await(0, 2);
}

static void server(uint32_t number)
{
    aq_accept_params params = {.struct_size = sizeof(params)};
    open_with(number, 0);
    listen_here();
    CHECK_OK(aq_segment_create(memory[0], SIZE, 0, &params.segment));
    aq_connection *conn = expect_event(AQ_CONNECTION_REQUEST).connection;
    CHECK_OK(aq_connection_accept(conn, &params));
    expect_event(AQ_CONNECTION_OPENED);
    talk(conn, 0);
    CHECK_OK(aq_connection_close(expect_event(AQ_CONNECTION_CLOSED).connection));
    job_close();
}

static void client(uint32_t number)
{
    aq_connect_params params = {.struct_size = sizeof(params), .flags = AQ_CONNECT_WAIT};
    aq_connection *conn;
    open_with(number, 1);
    CHECK_OK(aq_segment_create(memory[1], SIZE, 0, &params.segment));
    CHECK_OK(aq_connect(play->uri, &params, &conn));
    talk(conn, 1);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

int main(void)
{
    for (uint32_t i = 0; i < 2 * COUNT_OF(settings); i++) {
        play_begin("settings");
        pid_t one = play_start(server, i), other = play_start(client, i);
        play_ended(one);
        play_ended(other);
    }
    return 0;
}
