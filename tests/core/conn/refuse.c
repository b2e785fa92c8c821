/* Calls that fail, and listeners: every failure is reported with its cause. */
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static aq_status try(const char *uri, unsigned flags, uint64_t timeout_ns, const char *text)
{
    aq_connect_params params = {
        .struct_size = sizeof(params), .flags = flags, .timeout_ns = timeout_ns};
    aq_connection *conn = NULL;
    aq_status st = aq_connect(uri, &params, &conn);
    CHECK(conn == NULL);
    if (strstr(aq_error_message(), text) == NULL)
        check_failed(__FILE__, __LINE__, "\"%s\" is not in \"%s\"", text, aq_error_message());
    const char *named = strstr(aq_error_message(), uri); /* the peer is named, and only once */
    if (st != AQ_OK) CHECK(named != NULL && strstr(named + 1, uri) == NULL);
    return st;
}

/* --- addresses and arguments ----------------------------------------------------------------- */

static void addresses(uint32_t number)
{
    aq_listener *one, *other;
    aq_connection *conn;
    aq_connection_event event;
    char text[400], uri[64];
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    unsigned fds = count_fds();
    CHECK_REFUSED(aq_listen("ibv://host/1", 0, NULL, &one), AQ_ENOTSUP);
    CHECK_REFUSED(aq_listen("shm:/x", 0, NULL, &one), AQ_ENOTSUP);
    CHECK_REFUSED(aq_listen("shm://x", 0, NULL, &one), AQ_EINVAL);
    CHECK_REFUSED(aq_listen("shm:///a b", 0, NULL, &one), AQ_EINVAL);
    memset(text, 'a', sizeof(text));
    memcpy(text, "shm:///", 7);
    text[200] = 0;
    CHECK_REFUSED(aq_listen(text, 0, NULL, &one), AQ_EINVAL);
    CHECK_REFUSED(aq_listen(NULL, 0, NULL, NULL), AQ_EINVAL);
    CHECK_REFUSED(aq_listen(NULL, 0x80, NULL, &one), AQ_EINVAL);
    CHECK_STATUS(aq_connection_next_event(&event), AQ_AGAIN);

    one = listen_here();
    CHECK_REFUSED(aq_listen(play->uri, 0, NULL, &other), AQ_ESTATE);
    CHECK_OK(aq_listener_close(one));
    CHECK_OK(aq_listen(play->uri, 0, NULL, &one)); /* the name is free again at once */
    CHECK_OK(aq_listen(NULL, 0, NULL, &other));
    snprintf(uri, sizeof(uri), "/%d/", (int)getpid());
    CHECK(strncmp(aq_listener_uri(other), "shm:///", 7) == 0);
    CHECK(strstr(aq_listener_uri(other), uri) != NULL);
    CHECK_OK(aq_listener_close(other));
    CHECK_OK(aq_listen("shm:///made/", 0, NULL, &other));
    CHECK(strncmp(aq_listener_uri(other), "shm:///made/", 12) == 0);
    CHECK_OK(aq_listener_close(other));
    CHECK_OK(aq_listener_close(one));
    CHECK_OK(aq_listener_close(NULL));

    CHECK_STATUS(try(play->uri, 0, 0, "nothing is listening there"), AQ_EREFUSED);
    bool shm = strncmp(play->uri, "shm:", 4) == 0;
    CHECK_STATUS(
        try(play->uri, 0, 0, shm ? "in the same network namespace" : "nothing is listening there"),
        AQ_EREFUSED);
    CHECK_STATUS(try(play->uri, AQ_CONNECT_WAIT, 20000000, "was not answered in time"),
                 AQ_ETIMEOUT);
    if (shm)
        CHECK_STATUS(try(play->uri, AQ_CONNECT_WAIT, 20000000, "in the same network namespace"),
                     AQ_ETIMEOUT);
    CHECK_REFUSED(aq_connect(NULL, NULL, &conn), AQ_EINVAL);
    CHECK_REFUSED(aq_connect("ibv://x", NULL, &conn), AQ_ENOTSUP);
    CHECK_REFUSED(aq_connect("shm://x", NULL, &conn), AQ_EINVAL);
    aq_connect_params params = {.struct_size = sizeof(params), .data = text, .nbytes = 1025};
    CHECK_REFUSED(aq_connect(play->uri, &params, &conn), AQ_ESIZE);
    params.nbytes = 0;
    params.flags = 0x80;
    CHECK_REFUSED(aq_connect(play->uri, &params, &conn), AQ_EINVAL);
    CHECK_OK(aq_connection_close(NULL));
    CHECK(count_fds() <= fds + (play_far() ? 10 : 7)); /* two rendezvous, a bell */
    job_close();
}

/* --- a server that refuses -------------------------------------------------------------------- */

static void rejecting(uint32_t number)
{
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    unsigned maps = count_maps();
    aq_listener *listener = listen_here();
    aq_connection *conn = expect_event(AQ_CONNECTION_REQUEST).connection;
    CHECK(aq_connection_team(conn) == NULL);
    CHECK_OK(aq_connection_reject(conn, 42, "not today"));
    conn = expect_event(AQ_CONNECTION_REQUEST).connection;
    CHECK_OK(aq_connection_reject(conn, 7, NULL));
    conn = expect_event(AQ_CONNECTION_REQUEST).connection;
    CHECK_OK(aq_connection_close(conn)); /* refuses as well */
    /* The fourth request is not taken before the listener is closed. */
    role_poll_await(0, 1);
    CHECK_OK(aq_listener_close(listener));
    CHECK_EQUAL(count_maps(), maps);
    job_close();
}

static void rejected(uint32_t number)
{
    aq_connect_params params = {.struct_size = sizeof(params), .flags = AQ_CONNECT_WAIT};
    aq_connection_info info;
    aq_connection *conn;
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    unsigned maps = count_maps();
    CHECK_STATUS(try(play->uri, AQ_CONNECT_WAIT, 30000000000u, "not today"), AQ_EREFUSED);

    CHECK_OK(aq_connect_start(play->uri, &params, &conn));
    CHECK(aq_connection_team(conn) == NULL);
    aq_connection_event event = expect_event(AQ_CONNECTION_FAILED);
    CHECK(event.connection == conn);
    CHECK_EQUAL(event.status, AQ_EREFUSED);
    CHECK_OK(aq_connection_query(conn, &info));
    CHECK_EQUAL(info.state, AQ_CONNECTION_ENDED);
    CHECK_EQUAL(info.code, 7);
    CHECK(info.reason[0] != 0);
    CHECK_STATUS(aq_connect_test(conn), AQ_EREFUSED);
    CHECK_STATUS(aq_connection_accept(conn, NULL), AQ_ESTATE);
    CHECK_OK(aq_connection_close(conn));

    CHECK_STATUS(try(play->uri, 0, 0, "closed the request"), AQ_EREFUSED);
    CHECK_OK(aq_connect_start(play->uri, NULL, &conn));
    CHECK_STATUS(aq_connect_test(conn), AQ_AGAIN);
    atomic_store(&play->flag[0], 1);
    /*
     * Refused when the listener closed; or the call was not taken before that, and nothing is
     * listening now.
     */
    CHECK_STATUS(aq_connect_wait(conn), AQ_EREFUSED);
    CHECK_OK(aq_connection_close(conn));
    CHECK_STATUS(aq_connection_next_event(&event), AQ_AGAIN);
    CHECK_EQUAL(count_maps(), maps);
    job_close();
}

/* --- more data than the server takes --------------------------------------------------------- */

static void picky(uint32_t number)
{
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    aq_listener *listener = listen_here();
    role_poll_await(0, 1); /* the call is refused before the program sees it */
    aq_connection_event event;
    CHECK_STATUS(aq_connection_next_event(&event), AQ_AGAIN);
    CHECK_OK(aq_listener_close(listener));
    job_close();
}

static void verbose(uint32_t number)
{
    char data[1500] = "";
    aq_connect_params params = {.struct_size = sizeof(params),
                                .data = data,
                                .nbytes = sizeof(data),
                                .flags = AQ_CONNECT_WAIT};
    aq_connection *conn;
    (void)number;
    setenv("AQ_CONN_DATA", "2K", 1);
    role_open(AQ_THREAD_SINGLE, 0);
    CHECK_STATUS(aq_connect(play->uri, &params, &conn), AQ_ESIZE);
    CHECK(strstr(aq_error_message(), "AQ_CONN_DATA") != NULL);
    atomic_store(&play->flag[0], 1);
    job_close();
}

/* --- a server that is out of descriptors ------------------------------------------------------ */

static void poor(uint32_t number)
{
    struct rlimit limit, none;
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    aq_listener *listener = listen_here();
    aq_connection_event event = expect_event(AQ_CONNECTION_REQUEST);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = limit;
    none.rlim_cur = 3; /* those that are open remain open */
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK_STATUS(aq_connection_accept(event.connection, NULL), AQ_ELIMIT);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK_OK(aq_listener_close(listener));
    job_close();
}

/* The error names the process that reached its limit. */
static void caller_of_poor(uint32_t number)
{
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    CHECK_STATUS(try(play->uri, AQ_CONNECT_WAIT, 0, "the server says: "), AQ_ELIMIT);
    job_close();
}

/* --- servers that do not answer -------------------------------------------------------------- */

static void silent(uint32_t number)
{
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    listen_here();
    atomic_store(&play->flag[0], 1);
    raise(SIGSTOP);
    /* The caller has gone: its request is discarded before the program sees it. */
    aq_connection_event event;
    while (atomic_load(&play->flag[1]) == 0)
        CHECK(aq_poll() >= AQ_OK);
    CHECK_STATUS(aq_connection_next_event(&event), AQ_AGAIN);
    job_close();
}

static void client_with_timeout(uint32_t number)
{
    pid_t server = (pid_t)number;
    aq_connection *conn;
    role_open(AQ_THREAD_SINGLE, 0);
    unsigned maps = count_maps();
    CHECK_STATUS(try(play->uri, 0, 100000000, " answer"), AQ_ETIMEOUT); /* each transport in its own
                                                                         * words */
    /*
     * The queue holds a limited number of calls; further ones find no room, and time out as well.
     */
    for (int i = 0; i < 600; i++) {
        aq_connect_params params = {.struct_size = sizeof(params), .timeout_ns = 1000000};
        CHECK_OK(aq_connect_start(play->uri, &params, &conn));
        aq_connection_event event = expect_event(AQ_CONNECTION_FAILED);
        CHECK_EQUAL(event.status, AQ_ETIMEOUT);
        CHECK_OK(aq_connection_close(event.connection));
    }
    CHECK_EQUAL(count_maps(), maps);
    kill(server, SIGCONT);
    job_close();
}

/* A server that dies with unread calls in its queue: they are refused at once, by the end of
 * file. */
static void mortal(uint32_t number)
{
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    listen_here();
    atomic_store(&play->flag[0], 1);
    raise(SIGSTOP);
}

static void hopeful(uint32_t number)
{
    aq_connect_params params = {.struct_size = sizeof(params), .timeout_ns = 50000000000u};
    aq_connection *conn;
    role_open(AQ_THREAD_SINGLE, 0);
    CHECK_OK(aq_connect_start(play->uri, &params, &conn));
    CHECK_STATUS(aq_connect_test(conn), AQ_AGAIN);
    kill((pid_t)number, SIGKILL);
    CHECK_STATUS(aq_connect_wait(conn), AQ_EREFUSED);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

/* --- clients before their server ------------------------------------------------------------- */

static void late_server(uint32_t number)
{
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    role_await(0, 8); /* every client has called without success */
    listen_here();
    CHECK_EQUAL(serve(8), 0);
    job_close();
}

static void early_client(uint32_t number)
{
    aq_connect_params params = {
        .struct_size = sizeof(params), .flags = AQ_CONNECT_WAIT, .timeout_ns = 50000000000u};
    aq_connection *conn;
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    CHECK_STATUS(try(play->uri, 0, 0, "nothing is listening there"), AQ_EREFUSED);
    CHECK_OK(aq_connect_start(play->uri, &params, &conn));
    atomic_fetch_add(&play->flag[0], 1);
    CHECK_OK(aq_connect_wait(conn));
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

/* The backlog is 1, and a request is not taken for a while: the second caller retries until there
 * is room. */
static void narrow(uint32_t number)
{
    (void)number;
    setenv("AQ_CONN_BACKLOG", "1", 1);
    role_open(AQ_THREAD_SINGLE, 0);
    listen_here();
    CHECK_EQUAL(serve(8), 0);
    job_close();
}

static void one_of_many(uint32_t number)
{
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    CHECK_OK(aq_connection_close(connect_here(NULL)));
    job_close();
}

static void with_eight(const char *name, void (*server)(uint32_t), void (*client)(uint32_t))
{
    pid_t processes[9];
    play_begin(name);
    processes[8] = play_start(server, 0);
    for (uint32_t i = 0; i < 8; i++)
        processes[i] = play_start(client, i);
    for (int i = 0; i < 9; i++)
        play_ended(processes[i]);
}

static void await_stopped(pid_t process)
{
    int status;
    if (waitpid(process, &status, WUNTRACED) != process || !WIFSTOPPED(status)) abort();
}

int main(void)
{
    play_begin("addresses");
    play_ended(play_start(addresses, 0));

    play_begin("rejected");
    pid_t server = play_start(rejecting, 0), client = play_start(rejected, 0);
    play_ended(client);
    play_ended(server);

    play_begin("too much data");
    server = play_start(picky, 0);
    play_ended(play_start(verbose, 0));
    play_ended(server);

    play_begin("poor");
    server = play_start(poor, 0);
    play_ended(play_start(caller_of_poor, 0));
    play_ended(server);

    play_begin("silent");
    server = play_start(silent, 0);
    await_stopped(server);
    play_ended(play_start(client_with_timeout, (uint32_t)server));
    atomic_store(&play->flag[1], 1);
    play_ended(server);

    play_begin("mortal");
    server = play_start(mortal, 0);
    await_stopped(server);
    play_ended(play_start(hopeful, (uint32_t)server));
    play_killed(server);

    with_eight("early clients", late_server, early_client);
    with_eight("a narrow door", narrow, one_of_many);
    return 0;
}
