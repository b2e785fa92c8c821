/*
 * Ranks of a job that are also servers: each listens, each connects to the next one, and a process
 * that is not a rank connects to all of them, while the job continues with its own messages and
 * barriers.
 */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HELLO = 100, BACK, SEGMENT = 65536 };

static _Atomic uint32_t from_job, from_others, backs;

static void on_hello(aq_am *am)
{
    if (aq_connection_of(am) == NULL) {
        CHECK(am->source < job.size);
        from_job++;
    } else {
        CHECK_EQUAL(am->source, 1);
        from_others++;
    }
    CHECK_OK(aq_am_reply_short(am, BACK, AQ_NO_ARGS, 0));
}

static void on_back(aq_am *am)
{
    (void)am;
    backs++;
}

static void handlers(void)
{
    aq_handler_entry table[] = {{.index = HELLO, .nargs = 0, .fn = on_hello},
                                {.index = BACK, .nargs = 0, .fn = on_back}};
    job_handlers(table, COUNT_OF(table));
}

static void uri_of(aq_rank rank, char uri[64])
{
    snprintf(uri, 64, "shm:///test/ranks/%s/%u", getenv("TEST_PARENT"), rank);
}

/* A process outside the job: it inherits nothing from the launcher. */
static void outsider(unsigned ranks)
{
    char uri[64];
    alarm(200);
    job_open(AQ_THREAD_SINGLE, 4096);
    handlers();
    for (aq_rank rank = 0; rank < ranks; rank++) {
        aq_connect_params params = {
            .struct_size = sizeof(params), .flags = AQ_CONNECT_WAIT, .timeout_ns = 30000000000u};
        aq_segment_info info;
        aq_connection *conn;
        uint64_t value = 0, want = 1000 + rank;
        uri_of(rank, uri);
        CHECK_OK(aq_connect(uri, &params, &conn));
        aq_team *team = aq_connection_team(conn);
        CHECK_OK(aq_am_short(team, 1, HELLO, AQ_NO_ARGS, 0));
        job_await(&backs, rank + 1);
        CHECK_OK(aq_segment_query(team, 1, &info));
        CHECK_OK(aq_put(team, 1, info.addr, &want, sizeof(want), 0));
        CHECK_OK(aq_get(team, 1, &value, info.addr, sizeof(value), 0));
        CHECK_EQUAL(value, want);
        CHECK_OK(aq_connection_close(conn));
    }
    job_close();
    exit(0);
}

static void rank_main(void)
{
    char uri[64];
    aq_listener *listener;
    aq_connection *conn;
    job_open(AQ_THREAD_SINGLE, SEGMENT);
    handlers();
    uri_of(job.self, uri);
    CHECK_OK(aq_listen(uri, 0, NULL, &listener));
    aq_connect_params params = {
        .struct_size = sizeof(params), .flags = AQ_CONNECT_WAIT, .timeout_ns = 30000000000u};
    uri_of(job_next(), uri);
    CHECK_OK(aq_connect_start(uri, &params, &conn));
    /* The call of this rank, a caller in the job, and one from outside. */
    for (int opened = 0, ended = 0; opened < 3 || ended < 1;) {
        aq_connection_event event = next_event();
        if (event.type == AQ_CONNECTION_REQUEST)
            CHECK_OK(aq_connection_accept(event.connection, NULL));
        opened += event.type == AQ_CONNECTION_OPENED;
        if (event.type < AQ_CONNECTION_FAILED) continue;
        CHECK_EQUAL(event.type, AQ_CONNECTION_CLOSED);
        CHECK_OK(aq_connection_close(event.connection));
        ended++;
    }
    uint32_t sent = 0;
    for (int i = 0; i < 100; i++, sent += 2) {
        CHECK_OK(aq_am_short(aq_connection_team(conn), 1, HELLO, AQ_NO_ARGS, 0));
        CHECK_OK(aq_am_short(job.team, job_next(), HELLO, AQ_NO_ARGS, 0));
        if (i % 10 == 0) job_barrier();
    }
    job_await(&backs, sent);
    job_await(&from_job, 100);
    job_await(&from_others, 101);
    job_barrier();
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

int main(int argc, char **argv)
{
    if (argc > 2) { /* the outsider, which starts the job itself */
        char parent[32];
        snprintf(parent, sizeof(parent), "%d", (int)getpid());
        setenv("TEST_PARENT", parent, 1);
        pid_t aqrun = fork();
        if (aqrun == 0) {
            execl(argv[1], argv[1], "-n", argv[2], argv[0], (char *)NULL);
            abort();
        }
        pid_t other = fork();
        if (other == 0) outsider((unsigned)strtoul(argv[2], NULL, 10));
        play_ended(other);
        play_ended(aqrun);
        return 0;
    }
    rank_main();
    return 0;
}
