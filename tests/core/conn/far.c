/*
 * Features that only connections over a network have: addresses and names, secrets, floods at a
 * listener's port, silent callers, and peers that become silent.
 */
#include "base/clock.h"
#include "base/stats.h"
#include "harness.h"
#include "transport/udp/udp_call.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static aq_status call(const char *uri, unsigned flags, uint64_t timeout_ns, const char *text)
{
    aq_connect_params params = {
        .struct_size = sizeof(params), .flags = flags, .timeout_ns = timeout_ns};
    aq_connection *conn;
    aq_status st = aq_connect(uri, &params, &conn);
    if (st == AQ_OK) {
        CHECK_OK(aq_connection_close(conn));
    } else if (strstr(aq_error_message(), text) == NULL ||
               strstr(aq_error_message(), uri) == NULL) {
        check_failed(__FILE__, __LINE__, "\"%s\" and \"%s\" are not in \"%s\"", text, uri,
                     aq_error_message());
    }
    return st;
}

/* --- addresses ------------------------------------------------------------------------------- */

/* Both ends of the connection are in this process. */
static void call_ourselves(const char *uri)
{
    aq_connection *conn, *ends[2];
    unsigned n = 0;
    CHECK_OK(aq_connect_start(uri, NULL, &conn));
    while (n < 2) {
        aq_connection_event event = next_event();
        if (event.type == AQ_CONNECTION_REQUEST) {
            CHECK_OK(aq_connection_accept(event.connection, NULL));
        } else {
            CHECK_EQUAL(event.type, AQ_CONNECTION_OPENED);
            ends[n++] = event.connection;
        }
    }
    CHECK_OK(aq_connection_close(ends[0]));
    CHECK(expect_event(AQ_CONNECTION_CLOSED).connection == ends[1]);
    CHECK_OK(aq_connection_close(ends[1]));
}

static void listen_and_call(const char *uri)
{
    aq_listener *listener;
    CHECK_OK(aq_listen(uri, 0, NULL, &listener));
    const char *named = aq_listener_uri(listener);
    CHECK(strstr(named, "0.0.0.0") == NULL && strstr(named, "[::]") == NULL);
    CHECK(strcmp(strrchr(named, ':'), ":0") != 0);
    call_ourselves(named);
    CHECK_OK(aq_listener_close(listener));
}

static bool has_ipv6(void)
{
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
    if (fd >= 0) close(fd);
    return has;
}

static void addresses(uint32_t number)
{
    static const char *const good[] = {"udp://", "udp://127.0.0.1", "udp://0.0.0.0:0",
                                       "udp://localhost:0"};
    static const char *const bad[] = {
        "udp://127.0.0.1:65536",     "udp://127.0.0.1:x",  "udp://::1", "udp://[::1", "udp://a/b",
        "udp://nosuch.invalid:7000", "udp://203.0.113.9:0"};
    aq_listener *one, *other;
    char uri[300];
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    for (size_t i = 0; i < COUNT_OF(good); i++)
        listen_and_call(good[i]);
    if (has_ipv6()) {
        listen_and_call("udp://[::1]:0");
        listen_and_call("udp://[::]");
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_REFUSED(aq_listen(bad[i], 0, NULL, &one), AQ_EINVAL);
    one = listen_here();
    CHECK_REFUSED(aq_listen(play->uri, 0, NULL, &other), AQ_ESTATE);
    /* The name may have an IPv6 address first, on which nothing listens. */
    snprintf(uri, sizeof(uri), "udp://localhost%s", strrchr(play->uri, ':'));
    call_ourselves(uri);
    CHECK_OK(aq_listener_close(one));
    CHECK_STATUS(call(play->uri, 0, 0, "nothing is listening there"), AQ_EREFUSED);
    CHECK_STATUS(call(play->uri, AQ_CONNECT_WAIT, 300000000, "nothing is listening there"),
                 AQ_ETIMEOUT);
    CHECK_STATUS(call("udp://nosuch.invalid:7000", 0, 0, "is unknown"), AQ_EINVAL);
    CHECK_STATUS(call("udp://255.255.255.255:9", 0, 0, "no interface leads"), AQ_EINVAL);
    CHECK_STATUS(call("udp://127.0.0.1", 0, 0, "HOST:PORT"), AQ_EINVAL);
    CHECK_STATUS(call("udp://127.0.0.1:99999", 0, 0, "HOST:PORT"), AQ_EINVAL);
    job_close();
}

/* --- secrets --------------------------------------------------------------------------------- */

/* The secret of each side: none, that of the play, another. */
enum { NONE, OURS, THEIRS, SECRETS };

static void take_secret(uint32_t which)
{
    char path[] = "/tmp/aqueduct-secret-XXXXXX", setting[64];
    if (which == NONE) unsetenv("AQ_CONNECT_SECRET");
    if (which != THEIRS) return;
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, "another secret, of another user", 32) == 32);
    close(fd);
    snprintf(setting, sizeof(setting), "file:%s", path);
    setenv("AQ_CONNECT_SECRET", setting, 1);
    role_open(AQ_THREAD_SINGLE, 0);
    CHECK(chmod(path, 0644) == 0);
    aq_listener *listener;
    CHECK_REFUSED(aq_listen("udp://127.0.0.1", 0, NULL, &listener), AQ_EACCESS);
    CHECK(strstr(aq_error_message(), "chmod 600") != NULL);
    CHECK(chmod(path, 0600) == 0);
    CHECK_OK(
        aq_listen("udp://127.0.0.1", 0, NULL, &listener)); /* the secret has been read by now */
    CHECK_OK(aq_listener_close(listener));
    CHECK(unlink(path) == 0);
}

static void secret_server(uint32_t which)
{
    aq_listener *listener;
    take_secret(which);
    if (which != THEIRS) role_open(AQ_THREAD_SINGLE, 0);
    if (which == NONE) CHECK_REFUSED(aq_listen(play->uri, 0, NULL, &listener), AQ_EACCESS);
    CHECK_OK(aq_listen(play->uri, which == NONE ? AQ_LISTEN_ANYBODY : 0, NULL, &listener));
    atomic_store(&play->flag[0], 1);
    while (atomic_load(&play->flag[1]) == 0) {
        aq_connection_event event;
        CHECK(aq_poll() >= AQ_OK);
        if (aq_connection_next_event(&event) != AQ_OK) continue;
        if (event.type == AQ_CONNECTION_REQUEST)
            CHECK_OK(aq_connection_accept(event.connection, NULL));
        if (event.type == AQ_CONNECTION_CLOSED) CHECK_OK(aq_connection_close(event.connection));
    }
    job_close();
}

static void secret_client(uint32_t both)
{
    uint32_t which = both % SECRETS, server = both / SECRETS;
    take_secret(which);
    if (which != THEIRS) role_open(AQ_THREAD_SINGLE, 0);
    role_await(0, 1);
    aq_status st = call(play->uri, AQ_CONNECT_ANYBODY, 10000000000u, "SECRET");
    CHECK_STATUS(st, which == server ? AQ_OK : AQ_EACCESS);
    if (which == NONE) {
        aq_connection *conn;
        CHECK_REFUSED(aq_connect(play->uri, NULL, &conn), AQ_EACCESS);
    }
    atomic_store(&play->flag[1], 1);
    job_close();
}

/* --- at the listener's port ------------------------------------------------------------------ */

static struct sockaddr_in port_of_play(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    at.sin_port = htons((uint16_t)atoi(strrchr(play->uri, ':') + 1));
    return at;
}

static int stranger(void)
{
    struct sockaddr_in at = port_of_play();
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
    return fd;
}

static struct aqi_mac *mac;
static struct udp_secret known; /* the data that a stranger knows */

static void post(int fd, enum udp_call_kind kind, struct udp_call *packet)
{
    udp_call_seal(mac, &known, kind, packet);
    (void)send(fd, packet, sizeof(*packet), 0);
}

/* Receive the answer to the last packet sent. False: none has arrived within a long time. */
static bool answer(int fd, struct udp_call *packet)
{
    struct timeval timeout = {.tv_sec = 10};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0);
    ssize_t len = recv(fd, packet, sizeof(*packet), 0);
    if (len != sizeof(*packet)) return false;
    CHECK(udp_call_read(mac, packet, sizeof(*packet), packet));
    return true;
}

/*
 * Garbage, calls with invalid cookies, and knocks from many addresses; then an honest client calls.
 */
static void flood(uint32_t number)
{
    unsigned char junk[2000];
    struct udp_call packet;
    uint64_t random = 7;
    (void)number;
    CHECK_OK(aqi_mac_open(AQI_MAC_HMAC, &mac));
    role_await(0, 1);
    int fd = stranger();
    for (unsigned i = 0; i < 3000; i++) {
        for (size_t at = 0; at + 8 <= sizeof(junk); at += 8) {
            uint64_t word = mix(random++);
            memcpy(junk + at, &word, 8);
        }
        (void)send(fd, junk, mix(random++) % sizeof(junk), 0);
        memcpy(&packet, junk, sizeof(packet));
        post(fd, UDP_CALL_CALL, &packet);
        post(fd, (enum udp_call_kind)(mix(random++) % 256), &packet);
        post(fd, UDP_CALL_KNOCK, &packet);
        /* The listener sends no more than it received. */
        while (recv(fd, &packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC) > 0)
            continue;
        /* An altered knock. */
        udp_call_seal(mac, &known, UDP_CALL_KNOCK, &packet);
        ((unsigned char *)&packet)[mix(random++) % sizeof(packet)] ^= 1;
        (void)send(fd, &packet, sizeof(packet), 0);
        if (i == 1000) atomic_store(&play->flag[1], 1);
    }
    close(fd);
    atomic_store(&play->flag[2], 1);
    aqi_mac_close(mac);
}

static void flooded(uint32_t number)
{
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    aq_listener *listener = listen_here();
    unsigned fds = count_fds();
    atomic_store(&play->flag[0], 1);
    role_poll_await(1, 1);
    CHECK_EQUAL(count_fds(), fds); /* a call costs nothing before its cookie comes back */
    atomic_store(&play->flag[3], 1);
    CHECK_EQUAL(serve(1), 0);
    role_poll_await(2, 1);
    CHECK(aqi_counter_sum(AQI_CTR_HELLO_DROPPED) > 500);
    CHECK_OK(aq_listener_close(listener));
    job_close();
}

static void visitor(uint32_t number)
{
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    role_await(3, 1);
    CHECK_STATUS(call(play->uri, AQ_CONNECT_WAIT, 60000000000u, ""), AQ_OK);
    job_close();
}

/*
 * Callers that prove their address and are silent afterwards: a limited number is kept, for a
 * limited time.
 */
enum { MUTES = 600 };

static unsigned most_kept(void)
{
    struct rlimit files;
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    return files.rlim_cur >= 8192   ? 512
           : files.rlim_cur >= 1024 ? (unsigned)files.rlim_cur / 16
                                    : 64;
}

static void mute(uint32_t number)
{
    struct udp_call packet = {0};
    unsigned taken = 0, busy = 0, denied = 0;
    int fds[MUTES];
    const char *setting = getenv("AQ_CONNECT_SECRET");
    CHECK_OK(aqi_mac_open(AQI_MAC_HMAC, &mac));
    if (number != 0) CHECK_OK(udp_secret_read(setting, mac, &known));
    role_await(0, 1);
    for (unsigned i = 0; i < MUTES; i++) {
        fds[i] = stranger();
        memset(&packet, 0, sizeof(packet));
        memcpy(packet.caller, &i, sizeof(i));
        post(fds[i], UDP_CALL_KNOCK, &packet);
        CHECK(answer(fds[i], &packet) && packet.kind == UDP_CALL_COOKIE);
        post(fds[i], UDP_CALL_CALL, &packet);
        CHECK(answer(fds[i], &packet));
        taken += packet.kind == UDP_CALL_TAKEN;
        busy += packet.kind == UDP_CALL_BUSY;
        denied += packet.kind == UDP_CALL_DENIED;
    }
    /* The cookie is bound to one address. */
    int elsewhere = stranger();
    struct timeval shortly = {.tv_usec = 300000};
    post(elsewhere, UDP_CALL_CALL, &packet);
    CHECK(setsockopt(elsewhere, SOL_SOCKET, SO_RCVTIMEO, &shortly, sizeof(shortly)) == 0);
    CHECK(recv(elsewhere, &packet, sizeof(packet), 0) < 0);
    CHECK_EQUAL(taken + busy + denied, MUTES);
    CHECK_EQUAL(denied, number == 0 ? MUTES : 0);
    CHECK_EQUAL(taken, number == 0 ? 0 : most_kept());
    atomic_store(&play->flag[1], 1);
    role_await(2, 1);
    aqi_mac_close(mac);
}

static void waiting_client(uint32_t number)
{
    aq_connection_event event;
    role_open(AQ_THREAD_SINGLE, 0);
    listen_here();
    unsigned fds = count_fds();
    atomic_store(&play->flag[0], 1);
    role_poll_await(1, 1);
    CHECK_STATUS(aq_connection_next_event(&event), AQ_AGAIN);
    CHECK(count_fds() <= fds + (number == 0 ? 0 : most_kept()));
    atomic_store(&play->flag[3], 1);
    CHECK_EQUAL(serve(1), 0); /* there is room again */
    while (count_fds() > fds)
        CHECK(aq_poll() >= AQ_OK);
    atomic_store(&play->flag[2], 1);
    job_close();
}

/*
 * A listener without descriptors accepts no call at first, and later those of callers that kept
 * trying.
 */
static void poor(uint32_t number)
{
    struct rlimit limit, none;
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    listen_here();
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = limit;
    none.rlim_cur = 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    atomic_store(&play->flag[3], 1);
    for (int i = 0; i < 20000; i++)
        CHECK(aq_poll() >= AQ_OK);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK_EQUAL(serve(1), 0);
    job_close();
}

/* --- silence --------------------------------------------------------------------------------- */

static void silent(uint32_t signal)
{
    role_open(AQ_THREAD_SINGLE, 0);
    (void)connect_here(NULL);
    raise((int)signal);
}

/* A stopped peer is silent; for a killed one the system reports that its port is closed. */
static void listening(uint32_t signal)
{
    aq_connection_info info;
    setenv("AQ_UDP_KEEPALIVE", signal == SIGSTOP ? "400ms" : "100s", 1);
    role_open(AQ_THREAD_SINGLE, 0);
    listen_here();
    aq_connection *conn = accept_one(NULL);
    CHECK(expect_event(AQ_CONNECTION_LOST).connection == conn);
    CHECK_OK(aq_connection_query(conn, &info));
    CHECK(strstr(info.reason, signal == SIGSTOP ? "AQ_UDP_KEEPALIVE" : "port is closed") != NULL);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

/* A peer that computes without a call for several times the limit stays connected, and messages
 * sent to it arrive afterwards. */
enum { LIMIT_MS = 1000, TIMES = 3, MESSAGE = 100, COMPUTED = 1, CONNECTED };
static _Atomic uint32_t messages;

static void on_message(aq_am *am)
{
    (void)am;
    messages++;
}

static void open_with_limit(void)
{
    aq_handler_entry table[] = {{.index = MESSAGE, .fn = on_message}};
    char limit[16];
    snprintf(limit, sizeof(limit), "%dms", LIMIT_MS);
    setenv("AQ_UDP_KEEPALIVE", limit, 1);
    setenv("AQ_UDP_DEAD_AFTER", limit, 1);
    role_open(AQ_THREAD_SINGLE, 0);
    job_handlers(table, COUNT_OF(table));
}

static void computing(uint32_t number)
{
    aq_connection_event event;
    (void)number;
    open_with_limit();
    aq_connection *conn = connect_here(NULL);
    atomic_store(&play->flag[CONNECTED], 1);
    role_await(COMPUTED, 1);
    job_await(&messages, 1);
    CHECK_STATUS(aq_connection_next_event(&event), AQ_AGAIN);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

static void waiting(uint32_t number)
{
    aq_connection_event event;
    (void)number;
    open_with_limit();
    listen_here();
    aq_connection *conn = accept_one(NULL);
    role_poll_await(CONNECTED, 1);
    CHECK_OK(aq_am_short(aq_connection_team(conn), 1, MESSAGE, AQ_NO_ARGS, 0));
    for (uint64_t until = aqi_now_ns() + TIMES * LIMIT_MS * UINT64_C(1000000);
         aqi_now_ns() < until;) {
        CHECK(aq_poll_for(LIMIT_MS * (UINT64_C(1000000) / 20)) >= AQ_OK);
        CHECK_STATUS(aq_connection_next_event(&event), AQ_AGAIN);
    }
    atomic_store(&play->flag[COMPUTED], 1);
    CHECK(expect_event(AQ_CONNECTION_CLOSED).connection == conn);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

/*
 * A caller times out while the server computes, with an error that says that the server exists; a
 * caller with a longer timeout is served later.
 */
enum { LISTENS, TURNED_AWAY, CALLS };

static void caller(uint32_t number)
{
    aq_connect_params params = {.struct_size = sizeof(params), .timeout_ns = 60000000000u};
    aq_connection *conn;
    (void)number;
    open_with_limit();
    role_await(LISTENS, 1);
    CHECK_STATUS(call(play->uri, 0, 2 * LIMIT_MS * UINT64_C(1000000), "the server exists"),
                 AQ_ETIMEOUT);
    atomic_store(&play->flag[TURNED_AWAY], 1);
    CHECK_OK(aq_connect_start(play->uri, &params, &conn));
    atomic_store(&play->flag[CALLS], 1);
    CHECK(expect_event(AQ_CONNECTION_OPENED).connection == conn);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

static void late_server(uint32_t number)
{
    (void)number;
    open_with_limit();
    listen_here();
    atomic_store(&play->flag[LISTENS], 1);
    role_await(CALLS, 1);
    while (serve(1) != 0)
        continue; /* the connection of the caller that timed out may be lost first */
    job_close();
}

static void two(const char *name, void (*one)(uint32_t), uint32_t first, void (*other)(uint32_t),
                uint32_t second)
{
    play_begin(name);
    pid_t processes[2] = {play_start(one, first), play_start(other, second)};
    play_ended(processes[0]);
    play_ended(processes[1]);
}

int main(void)
{
    setenv("AQT_CONN", "udp", 1);
    play_begin("addresses");
    play_ended(play_start(addresses, 0));
    for (uint32_t both = 0; both < SECRETS * SECRETS; both++)
        two("secrets", secret_server, both / SECRETS, secret_client, both);

    play_begin("flood");
    pid_t processes[3] = {play_start(flooded, 0), play_start(flood, 0), play_start(visitor, 0)};
    for (int i = 0; i < 3; i++)
        play_ended(processes[i]);
    for (uint32_t knows = 0; knows < 2; knows++) {
        play_begin("mutes");
        pid_t each[3] = {play_start(waiting_client, knows), play_start(mute, knows),
                         play_start(visitor, 0)};
        for (int i = 0; i < 3; i++)
            play_ended(each[i]);
    }
    two("poor", poor, 0, visitor, 0);
    two("computing", computing, 0, waiting, 0);
    two("late", late_server, 0, caller, 0);

    for (int i = 0; i < 2; i++) {
        uint32_t signal = i == 0 ? SIGSTOP : SIGKILL;
        play_begin("silence");
        pid_t process = play_start(silent, signal);
        play_ended(play_start(listening, signal));
        kill(process, SIGKILL);
        play_killed(process);
    }
    return 0;
}
