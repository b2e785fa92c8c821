/*
 * Connections between two users. Each side refuses them unless it allows them; then everything
 * works except what the system forbids between processes of different users (CMA). Needs root.
 */
#include "harness.h"

#include <string.h>
#include <unistd.h>

enum { SERVER_UID = 61001, CLIENT_UID = 61002, SEGMENT = 65536, GREET = 100, ANSWER = 101 };

static _Atomic uint32_t answers;

static void become(uid_t uid)
{
    CHECK_EQUAL(setresgid(uid, uid, uid), 0);
    CHECK_EQUAL(setresuid(uid, uid, uid), 0);
}

static void on_greet(aq_am *am)
{
    CHECK_OK(aq_am_reply_medium(am, ANSWER, am->payload, am->nbytes, am->args, am->nargs, 0));
}

static void on_answer(aq_am *am)
{
    CHECK(am->nbytes == 6 && memcmp(am->payload, "across", 6) == 0);
    atomic_fetch_add(&answers, (uint32_t)am->args[0]);
}

static void open_as(uid_t uid)
{
    aq_handler_entry table[] = {
        {GREET, 1, AQ_AM_MEDIUM | AQ_AM_REQUEST, on_greet, NULL, "greet"},
        {ANSWER, 1, AQ_AM_MEDIUM | AQ_AM_REPLY, on_answer, NULL, "answer"},
    };
    become(uid);
    role_open(AQ_THREAD_SINGLE, SEGMENT);
    job_handlers(table, COUNT_OF(table));
}

/*
 * `number`: the flags to listen with. Serves one client, after any number of refused ones.
 */
static void server(uint32_t number)
{
    aq_listener *listener;
    open_as(SERVER_UID);
    CHECK_OK(aq_listen(play->uri, number, NULL, &listener));
    atomic_store(&play->flag[0], 1);
    if (number == 0) {
        role_poll_await(1, 1); /* a refused call is not shown to the program */
        aq_connection_event event;
        CHECK_STATUS(aq_connection_next_event(&event), AQ_AGAIN);
    } else {
        (void)serve(2);
    }
    job_close();
}

static aq_status call(unsigned flags, const char *text, aq_connection **conn)
{
    aq_connect_params params = {
        .struct_size = sizeof(params), .flags = flags, .timeout_ns = 30000000000u};
    aq_status st = aq_connect(play->uri, &params, conn);
    if (st != AQ_OK && strstr(aq_error_message(), text) == NULL)
        check_failed(__FILE__, __LINE__, "\"%s\" is not in \"%s\"", text, aq_error_message());
    return st;
}

static void refused(uint32_t number)
{
    aq_connection *conn;
    (void)number;
    open_as(CLIENT_UID);
    role_await(0, 1);
    CHECK_STATUS(
        call(AQ_CONNECT_ANYBODY, "from its own user 61001 only, not from user 61002", &conn),
        AQ_EACCESS);
    atomic_store(&play->flag[1], 1);
    job_close();
}

static void exchange(aq_team *team)
{
    static unsigned char out[SEGMENT / 2], in[SEGMENT / 2];
    aq_segment_info peer;
    aq_arg args[1] = {7};
    CHECK_OK(aq_am_medium(team, 1, GREET, "across", 6, args, 1, 0, NULL));
    job_await(&answers, 7);
    CHECK_OK(aq_segment_query(team, 1, &peer));
    CHECK_EQUAL(peer.size, SEGMENT);
    memset(out, 0x5a, sizeof(out));
    CHECK_OK(aq_put(team, 1, peer.addr, out, sizeof(out), 0));
    CHECK_OK(aq_get(team, 1, in, peer.addr, sizeof(in), 0));
    CHECK(memcmp(in, out, sizeof(in)) == 0);
}

static void allowed(uint32_t number)
{
    aq_connection_info info;
    aq_connection *conn;
    (void)number;
    open_as(CLIENT_UID);
    role_await(0, 1);
    CHECK_STATUS(
        call(0, "the server runs as user 61001: set AQ_CONNECT_ANYBODY to allow that", &conn),
        AQ_EACCESS);
    CHECK_OK(call(AQ_CONNECT_ANYBODY, "", &conn));
    CHECK_OK(aq_connection_query(conn, &info));
    CHECK_EQUAL(info.uid, SERVER_UID);
    exchange(aq_connection_team(conn));
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

static void together(const char *name, unsigned flags, void (*client)(uint32_t))
{
    play_begin(name);
    pid_t one = play_start(server, flags), other = play_start(client, 0);
    play_ended(other);
    play_ended(one);
}

int main(void)
{
    if (geteuid() != 0) {
        printf("skipped: only root can be two users\n");
        return 77;
    }
    together("own users only", 0, refused);
    together("any user", AQ_LISTEN_ANYBODY, allowed);
    return 0;
}
