/*
 * Multicast groups: several senders and members in several processes of this host, members that
 * sleep, strangers and repeats, and everything that a group does not carry. Skipped where loopback
 * carries no multicast.
 */
#include "../../common/multicast.h"
#include "harness.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGES = 400, SENDERS = 2, DATA = 80, END, ASK };
enum { READY, DONE, GO, QUIT, CAUGHT };
enum { LARGE = 1280 }; /* with AQ_UDP_MTU=1500 */

static char group[64]; /* its URI */
static struct sockaddr_in address;

/* Which messages have arrived here from each sender. */
static unsigned char got[SENDERS + 1][MESSAGES];
static _Atomic uint32_t arrived, ended[SENDERS + 1];

static void on_data(aq_am *am)
{
    uint32_t sender = (uint32_t)am->args[0], i = (uint32_t)am->args[1];
    CHECK(sender <= SENDERS && i < MESSAGES);
    CHECK(am->source == 1 && !am->is_reply);
    CHECK(am->nbytes == i * 3 % LARGE && filled(am->payload, am->nbytes, i + sender));
    CHECK(((uintptr_t)am->payload & 15) == 0);
    CHECK_EQUAL(got[sender][i], 0); /* no message arrives twice */
    got[sender][i] = 1;
    arrived++;
}

static void on_end(aq_am *am)
{
    ended[am->args[0]] = 1;
}

static void on_ask(aq_am *am)
{
    CHECK_REFUSED(aq_am_reply_short(am, END, AQ_ARGS(0), 0), AQ_ENOTSUP);
    arrived++;
}

static void open_and_register(aq_thread_mode mode)
{
    aq_handler_entry table[] = {{.index = DATA, .nargs = 2, .fn = on_data},
                                {.index = END, .nargs = 1, .fn = on_end},
                                {.index = ASK, .nargs = 0, .fn = on_ask}};
    role_open(mode, 4096);
    job_handlers(table, COUNT_OF(table));
}

static aq_connection *join(unsigned flags)
{
    aq_connect_params params = aq_connect_defaults();
    aq_connection_info info;
    aq_connection *conn;
    params.flags = flags;
    params.context = &got;
    CHECK_OK(aq_connect(group, &params, &conn));
    CHECK_OK(aq_connection_query(conn, &info));
    CHECK_EQUAL(info.state, AQ_CONNECTION_OPEN);
    CHECK_EQUAL(info.flags, flags & ~AQ_CONNECT_ANYBODY);
    CHECK(aq_connection_context(conn) == &got);
    return conn;
}

static void send_data(aq_connection *conn, uint32_t sender, uint32_t i)
{
    static unsigned char bytes[LARGE];
    aq_event ev;
    aq_vec vec = {.addr = bytes, .len = i * 3 % LARGE};
    const aq_arg args[2] = {(aq_arg)sender, (aq_arg)i};
    aq_send_params send = aq_send_defaults();
    fill(bytes, vec.len, i + sender);
    send.pieces = &vec;
    send.count = 1;
    send.args = args;
    send.nargs = 2;
    if (i % 2 != 0) {
        CHECK_OK(aq_am_medium(aq_connection_team(conn), 1, DATA, bytes, vec.len, args, 2, 0, NULL));
        return;
    }
    CHECK_OK(aq_connection_send(conn, DATA, &send, &ev));
    CHECK_OK(aq_event_wait(&ev, AQ_FOREVER));
}

/* The message that announces the end may get lost, so it is repeated until all members have it. */
static void send_all(aq_connection *conn, uint32_t sender)
{
    role_poll_await(READY, 3);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        send_data(conn, sender, i);
        if (i % 16 == 0) (void)usleep(1000); /* for small buffers */
    }
    while (play->flag[DONE] < 2) {
        const aq_arg args[1] = {(aq_arg)sender};
        CHECK_OK(aq_am_short(aq_connection_team(conn), 1, END, args, 1, 0));
        for (unsigned i = 0; i < 1000; i++)
            (void)aq_poll();
    }
}

static void sender(uint32_t number)
{
    open_and_register(AQ_THREAD_SINGLE);
    aq_connection *conn = join(AQ_CONNECT_GROUP_SEND);
    send_all(conn, number);
    CHECK_EQUAL(arrived, 0);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

static int all_ended(void *arg)
{
    (void)arg;
    return ended[0] != 0 && ended[1] != 0;
}

/* Some messages must have arrived. Nearly all do, except what a buffer cannot hold on a busy
 * machine. */
static void check_share(uint32_t from)
{
    unsigned n = 0;
    for (unsigned i = 0; i < MESSAGES; i++)
        n += got[from][i];
    CHECK(n > MESSAGES / 10);
}

static void member(uint32_t number)
{
    open_and_register(number == 1 ? AQ_THREAD_MULTIPLE : AQ_THREAD_SINGLE);
    aq_connection *conn = join(AQ_CONNECT_GROUP_RECEIVE | AQ_CONNECT_UNRELIABLE);
    play->flag[READY]++;
    CHECK_OK(aq_poll_until(all_ended, NULL, AQ_FOREVER));
    play->flag[DONE]++;
    check_share(0);
    check_share(1);
    CHECK_REFUSED(aq_am_short(aq_connection_team(conn), 1, END, AQ_ARGS(0), 0), AQ_ENOTSUP);
    CHECK(strstr(aq_error_message(), "only receives") != NULL);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

/* A member that also sends. Its messages do not return to it, but reach another member in this
 * process. */
static void both(uint32_t number)
{
    aq_connection_event event;
    aq_connection *conn, *second;
    aq_connect_params params = aq_connect_defaults();
    open_and_register(AQ_THREAD_SINGLE);
    params.flags = AQ_CONNECT_GROUP_SEND | AQ_CONNECT_GROUP_RECEIVE;
    CHECK_OK(aq_connect_start(group, &params, &conn));
    CHECK_OK(aq_connect_test(conn));
    CHECK_STATUS(aq_connection_next_event(&event), AQ_AGAIN); /* aq_connect_test has consumed it */
    for (uint32_t i = 0; i < MESSAGES; i++)
        send_data(conn, SENDERS, i);
    for (unsigned i = 0; i < 10000; i++)
        (void)aq_poll();
    CHECK_EQUAL(arrived, 0);
    play->flag[READY]++;
    send_all(conn, number);
    check_share(0);
    CHECK_OK(aq_connect_start(group, &params, &second));
    CHECK(expect_event(AQ_CONNECTION_OPENED).connection == second);
    uint32_t before = arrived;
    while (arrived == before) {
        CHECK_OK(aq_am_short(aq_connection_team(conn), 1, ASK, AQ_NO_ARGS, 0));
        (void)aq_poll();
    }
    CHECK_OK(aq_connection_close(conn));
    CHECK_OK(aq_connection_close(second));
    job_close();
}

static void together(void)
{
    play_begin("senders and members");
    pid_t all[] = {play_start(member, 0), play_start(member, 1), play_start(both, 1),
                   play_start(sender, 0)};
    for (unsigned i = 0; i < COUNT_OF(all); i++)
        play_ended(all[i]);
}

/* --- sleeping -------------------------------------------------------------------------------- */

static void sleeper(uint32_t number)
{
    enum { ROUNDS = 50 };
    int fd;
    (void)number;
    open_and_register(AQ_THREAD_SINGLE);
    aq_connection *conn = join(AQ_CONNECT_GROUP_RECEIVE);
    CHECK_OK(aq_wait_fd(&fd));
    for (uint32_t i = 0; i < ROUNDS; i++) {
        play->flag[GO] = i + 1;
        while (arrived <= i) {
            struct pollfd at = {.fd = fd, .events = POLLIN};
            if (aq_wait_prepare() == AQ_OK) CHECK(poll(&at, 1, 30000) > 0);
            (void)aq_poll();
        }
    }
    play->flag[QUIT] = 1;
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

/* One message for each sleep, and rarely another, since it may get lost. */
static void waker(uint32_t number)
{
    (void)number;
    open_and_register(AQ_THREAD_SINGLE);
    aq_connection *conn = join(AQ_CONNECT_GROUP_SEND);
    role_await(GO, 1);
    while (play->flag[QUIT] == 0) {
        uint32_t i = play->flag[GO];
        (void)usleep(2000); /* by now it usually sleeps */
        CHECK_OK(aq_am_short(aq_connection_team(conn), 1, ASK, AQ_NO_ARGS, 0));
        for (unsigned waited = 0; waited < 1000 && play->flag[GO] == i; waited++)
            (void)usleep(1000);
    }
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

static void sleeping(void)
{
    play_begin("a member that sleeps");
    pid_t one = play_start(sleeper, 0), two = play_start(waker, 0);
    play_ended(one);
    play_ended(two);
}

/* --- strangers ------------------------------------------------------------------------------- */

static void heard(uint32_t number)
{
    (void)number;
    open_and_register(AQ_THREAD_SINGLE);
    aq_connection *conn = join(AQ_CONNECT_GROUP_RECEIVE);
    play->flag[READY] = 1;
    role_poll_await(QUIT, 1);
    while (arrived == 0 || job_counter("packets_repeated") == 0 ||
           job_counter("packets_dropped") < 100 || job_counter("am_dropped") == 0)
        CHECK(aq_poll() >= 0);
    CHECK_EQUAL(arrived, 1);
    aq_connection_info info;
    CHECK_OK(aq_connection_query(conn, &info));
    CHECK_EQUAL(info.state, AQ_CONNECTION_OPEN); /* whatever arrived */
    CHECK_OK(aq_connection_close(conn));
    job_close();
    play->flag[DONE] = 1;
}

/* Sends one message, and one for a handler that does not exist. */
static void speaker(uint32_t number)
{
    (void)number;
    open_and_register(AQ_THREAD_SINGLE);
    aq_connection *conn = join(AQ_CONNECT_GROUP_SEND);
    CHECK_OK(aq_am_short(aq_connection_team(conn), 1, ASK, AQ_NO_ARGS, 0));
    while (play->flag[DONE] == 0) {
        CHECK_OK(aq_am_short(aq_connection_team(conn), 1, 200, AQ_NO_ARGS, 0));
        (void)usleep(10000);
    }
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

/* Has another secret, or none: it receives nothing, and no member receives what it sends. */
static void deaf(uint32_t number)
{
    if (number == 0) setenv("AQ_CONNECT_SECRET", "", 1);
    open_and_register(AQ_THREAD_SINGLE);
    aq_connection *conn =
        join(AQ_CONNECT_GROUP_SEND | AQ_CONNECT_GROUP_RECEIVE | AQ_CONNECT_ANYBODY);
    while (play->flag[DONE] == 0) {
        CHECK_OK(aq_am_short(aq_connection_team(conn), 1, ASK, AQ_NO_ARGS, 0));
        CHECK(aq_poll() >= 0);
    }
    CHECK_EQUAL(arrived, 0);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

static void strangers(void)
{
    unsigned char bytes[2048];
    play_begin("strangers and repeats");
    int fd = multicast_member(&address);
    if (fd < 0) abort();
    pid_t one = play_start(heard, 0);
    role_await(READY, 1);
    pid_t two = play_start(speaker, 0);
    ssize_t len = recv(fd, bytes, sizeof(bytes), 0);
    if (len < 48) abort();
    pid_t three = play_start(deaf, 0);
    play->flag[QUIT] = 1;
    for (unsigned i = 0; play->flag[DONE] == 0; i++) {
        unsigned at = i % (unsigned)len;
        if (!multicast_send(fd, &address, bytes, (size_t)len)) abort(); /* again */
        if (!multicast_send(fd, &address, bytes, at)) abort();
        bytes[at] ^= 1;
        if (!multicast_send(fd, &address, bytes, (size_t)len)) abort();
        bytes[at] ^= 1;
        (void)usleep(1000);
    }
    close(fd);
    play_ended(one);
    play_ended(two);
    play_ended(three);
}

/* --- what a group does not carry -------------------------------------------------------------- */

static void refuse(const char *uri, unsigned flags, aq_status want, const char *says)
{
    aq_connect_params params = aq_connect_defaults();
    aq_connection *conn;
    params.flags = flags;
    CHECK_REFUSED(aq_connect(uri, &params, &conn), want);
    if (strstr(aq_error_message(), says) == NULL)
        check_failed(__FILE__, __LINE__, "%s: \"%s\" does not say \"%s\"", uri, aq_error_message(),
                     says);
}

static void refuse_calls(void)
{
    const unsigned flags = AQ_CONNECT_GROUP_SEND | AQ_CONNECT_GROUP_RECEIVE;
    aq_connect_params params = aq_connect_defaults();
    aq_connection *conn;
    aq_listener *listener;
    refuse("udp://127.0.0.1:5000", flags, AQ_EINVAL, "address of one host");
    refuse("udp://[::1]:5000", flags, AQ_EINVAL, "address of one host");
    refuse(group, 0, AQ_EINVAL, "AQ_CONNECT_GROUP_SEND");
    refuse("udp://[ff02::1234%lo]:5000", 0, AQ_EINVAL, "AQ_CONNECT_GROUP_SEND");
    refuse("udp://239.255.1.2", flags, AQ_EINVAL, "port");
    refuse("udp://239.255.1.2%nosuch0:5000", flags, AQ_EINVAL, "nosuch0");
    refuse("udp://239.255.1.2.3:5000", flags, AQ_EINVAL, "is unknown");
    refuse("udp://:5000", flags, AQ_EINVAL, "udp://HOST:PORT");
    refuse("shm:///test", flags, AQ_ENOTSUP, "udp");
    refuse(group, flags | AQ_CONNECT_ORDERED, AQ_EINVAL, "ordered");
    params.flags = flags;
    params.data = "data";
    params.nbytes = 4;
    CHECK_REFUSED(aq_connect(group, &params, &conn), AQ_EINVAL);
    CHECK_REFUSED(aq_listen(group, 0, NULL, &listener), AQ_EINVAL);
    CHECK(strstr(aq_error_message(), "address of a group") != NULL);
}

static void refuse_operations(aq_connection *conn)
{
    static uint64_t word, result;
    aq_team *team = aq_connection_team(conn);
    aq_send_params send = aq_send_defaults();
    aq_atomic_domain *domain;
    aq_region_handle handle;
    aq_region *region;
    aq_event ev;
    CHECK_REFUSED(aq_put(team, 1, &word, &word, sizeof(word), 0), AQ_ENOTSUP);
    CHECK_REFUSED(aq_get(team, 1, &word, &word, sizeof(word), 0), AQ_ENOTSUP);
    CHECK_REFUSED(aq_memset(team, 1, &word, 0, sizeof(word), 0), AQ_ENOTSUP);
    CHECK_OK(aq_atomic_domain_create(team, AQ_TYPE_U64, AQ_OPS_ALL, 0, &domain));
    CHECK_REFUSED(aq_atomic(domain, 1, &word, AQ_OP_GET, NULL, NULL, &result, 0), AQ_ENOTSUP);
    CHECK_OK(aq_atomic_domain_destroy(domain));
    CHECK_REFUSED(aq_am_long(team, 1, END, &word, 8, &word, AQ_ARGS(0), 0, NULL), AQ_ENOTSUP);
    CHECK_REFUSED(aq_am_long(team, 1, END, NULL, 0, NULL, AQ_ARGS(0), 0, NULL), AQ_ENOTSUP);
    CHECK_REFUSED(aq_am_short_nb(team, 1, ASK, AQ_NO_ARGS, 0, &ev), AQ_ENOTSUP);
    send.flags = AQ_SEND_HANDLED;
    CHECK_REFUSED(aq_connection_send(conn, ASK, &send, &ev), AQ_ENOTSUP);
    CHECK_REFUSED(aq_connection_keepalive(conn, 1000000), AQ_ENOTSUP);
    CHECK_OK(aq_region_create(NULL, &word, sizeof(word), AQ_REGION_READ, &region));
    CHECK_OK(aq_region_handle_of(region, &handle));
    CHECK_REFUSED(aq_region_get_nb(conn, &result, &handle, 0, 8, 0, &ev), AQ_ENOTSUP);
    CHECK(strstr(aq_error_message(), "connect to the member itself") != NULL);
    CHECK_OK(aq_region_revoke(region));
}

static void refusals(uint32_t number)
{
    static unsigned char bytes[LARGE + 1];
    aq_connect_params params = aq_connect_defaults();
    aq_connection *conn;
    (void)number;
    open_and_register(AQ_THREAD_SINGLE);
    refuse_calls();
    unsigned fds = count_fds();
    conn = join(AQ_CONNECT_GROUP_SEND);
    aq_team *team = aq_connection_team(conn);
    refuse_operations(conn);
    CHECK_EQUAL(aq_am_max_medium(team), LARGE);
    CHECK_OK(aq_am_medium(team, 1, 200, bytes, LARGE, AQ_NO_ARGS, 0, NULL));
    CHECK_REFUSED(aq_am_medium(team, 1, 200, bytes, LARGE + 1, AQ_NO_ARGS, 0, NULL), AQ_ESIZE);
    aq_am_buffer room;
    CHECK_OK(aq_am_reserve(team, 1, AQ_AM_MEDIUM, NULL, 1, 8, 0, 0, &room));
    CHECK_OK(aq_am_commit(&room, 200, 4, NULL, AQ_NO_ARGS, 0));
    /* Rank 0 is this process, as on each connection. */
    CHECK_OK(aq_am_short(team, 0, END, AQ_ARGS(2), 0));
    CHECK_EQUAL(ended[2], 1);
    CHECK_OK(aq_connection_close(conn));
    CHECK_EQUAL(count_fds(), fds);
    params.flags = AQ_CONNECT_GROUP_RECEIVE;
    params.context = &got;
    char by_lo[sizeof(group) + 3];
    const char *colon = strrchr(group, ':');
    snprintf(by_lo, sizeof(by_lo), "%.*s%%lo%s", (int)(colon - group), group, colon);
    CHECK_OK(aq_connect(by_lo, &params, &conn));
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

/* Without a secret each member must allow messages of any process. */
static void open_to_all(uint32_t number)
{
    (void)number;
    setenv("AQ_CONNECT_SECRET", "", 1);
    open_and_register(AQ_THREAD_SINGLE);
    refuse(group, AQ_CONNECT_GROUP_RECEIVE, AQ_EACCESS, "AQ_CONNECT_SECRET");
    aq_connection *in = join(AQ_CONNECT_GROUP_RECEIVE | AQ_CONNECT_ANYBODY);
    aq_connection *out = join(AQ_CONNECT_GROUP_SEND | AQ_CONNECT_ANYBODY);
    while (arrived == 0) {
        CHECK_OK(aq_am_short(aq_connection_team(out), 1, ASK, AQ_NO_ARGS, 0));
        (void)aq_poll();
    }
    CHECK_OK(aq_connection_close(in));
    CHECK_OK(aq_connection_close(out));
    job_close();
}

int main(void)
{
    setenv("AQT_CONN", "udp", 1);
    setenv("AQ_UDP_INTERFACE", "lo", 1);
    setenv("AQ_UDP_MTU", "1500", 1);
    address = multicast_choose();
    if (!multicast_works(&address)) return 77;
    snprintf(group, sizeof(group), "udp://%s:%u", inet_ntoa(address.sin_addr),
             ntohs(address.sin_port));
    together();
    sleeping();
    strangers();
    play_begin("refusals");
    play_ended(play_start(refusals, 0));
    play_begin("open to all");
    play_ended(play_start(open_to_all, 0));
    return 0;
}
