/*
 * Calling a host with several addresses that answer or fail in different ways: when each is tried,
 * and what is reported.
 */
#include "job/link_world_test.h"

#include "base/log.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

/* --- connections that go as planned ---------------------------------------------------------- */

enum { PLANS = AQI_LINK_CANDIDATES };
/*
 * The connection to port N of this host, counted from 1: fails at once; is accepted and closed; is
 * accepted, but nothing is sent; connects to itself; is made to host 0, at once or later. Without a
 * plan, it is never answered.
 */
enum plan { SILENT, FAILS, CLOSED, MUTE, ITSELF, AT_ONCE, LATER };
static struct {
    bool on;
    enum plan plan[PLANS];
    int error[PLANS];
    unsigned calls, of[PLANS];
    int listener, kept[4 * PLANS];
    uint16_t port;
    unsigned keeps;
} plans;

static int keep(int fd)
{
    assert_true(fd >= 0 && plans.keeps < AQI_COUNT_OF(plans.kept));
    plans.kept[plans.keeps++] = fd;
    return fd;
}

static int really_connect(int fd, const struct sockaddr *at, socklen_t len)
{
    int (*real)(int, const struct sockaddr *, socklen_t);
    *(void **)&real = dlsym(RTLD_NEXT, "connect");
    return real(fd, at, len);
}

/* Connect, and wait until the connection is established. */
static int connect_to(int fd, uint16_t port)
{
    const struct sockaddr_in at = world_local(port);
    struct pollfd made = {.fd = fd, .events = POLLOUT};
    if (really_connect(fd, (const void *)&at, sizeof(at)) == 0) return 0;
    assert_int_equal(errno, EINPROGRESS);
    assert_int_equal(poll(&made, 1, 60000), 1);
    return 0;
}

/* Turn `fd` into a socket that cannot be written to, as if its connection were pending. */
static int stall(int fd)
{
    static const char bytes[4096];
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    while (send(pair[0], bytes, sizeof(bytes), MSG_NOSIGNAL) > 0)
        ;
    assert_int_equal(dup3(pair[0], fd, O_CLOEXEC), fd);
    close(pair[0]);
    keep(pair[1]);
    errno = EINPROGRESS;
    return -1;
}

static int meet_itself(int fd)
{
    struct sockaddr_in at = world_local(0);
    socklen_t len = sizeof(at);
    assert_int_equal(bind(fd, (const void *)&at, len), 0);
    assert_int_equal(getsockname(fd, (void *)&at, &len), 0);
    return connect_to(fd, ntohs(at.sin_port));
}

/* Overrides the C library's, for the whole program. */
int connect(int fd, const struct sockaddr *to, socklen_t len)
{
    const struct sockaddr_in *at = (const void *)to;
    unsigned number = ntohs(at->sin_port);
    if (!plans.on || to->sa_family != AF_INET || number > PLANS) return really_connect(fd, to, len);
    const struct sockaddr_in first = world_local(hosts[0].port);
    unsigned i = number - 1;
    plans.calls++;
    plans.of[i]++;
    switch (plans.plan[i]) {
    case SILENT:
        return stall(fd);
    case FAILS:
        errno = plans.error[i];
        return -1;
    case CLOSED:
        (void)connect_to(fd, plans.port);
        close(accept4(plans.listener, NULL, NULL, SOCK_CLOEXEC));
        return 0;
    case MUTE:
        (void)connect_to(fd, plans.port);
        keep(accept4(plans.listener, NULL, NULL, SOCK_CLOEXEC));
        return 0;
    case ITSELF:
        return meet_itself(fd);
    case AT_ONCE:
        return connect_to(fd, hosts[0].port);
    case LATER:
        if (really_connect(fd, (const void *)&first, sizeof(first)) == 0) errno = EINPROGRESS;
        return -1;
    }
    abort();
}

static int call_setup(void **state)
{
    memset(&plans, 0, sizeof(plans));
    if (world_setup(state) != 0) return -1;
    world_open_all(10 * SECONDS, 0);
    plans.listener = world_raw_listener(8, &plans.port);
    plans.on = true;
    return 0;
}

static int call_teardown(void **state)
{
    plans.on = false;
    while (plans.keeps != 0)
        close(plans.kept[--plans.keeps]);
    close(plans.listener);
    return world_teardown(state);
}

static void plan(unsigned number, enum plan what, int error)
{
    plans.plan[number - 1] = what;
    plans.error[number - 1] = error;
}

/* Host 1 calls host 0 at the first `count` ports. */
static struct aqi_link *call(unsigned count, uint64_t timeout_ns)
{
    char list[PLANS * 16] = "";
    for (unsigned i = 1; i <= count; i++)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s127.0.0.1:%u",
                 i != 1 ? "," : "", i);
    return world_call(1, 0, list, timeout_ns);
}

static void wait_for_end(void)
{
    unsigned before = hosts[1].ended;
    UNTIL(hosts[1].ended == before + 1);
}

/* --- the kernel's reasons -------------------------------------------------------------------- */

static void test_reasons(void **state)
{
    static const struct {
        int error;
        aq_status status;
        const char *why;
    } rows[] = {
        {ECONNREFUSED, AQ_EREFUSED,
         "refused: nothing is listening there any longer, or a firewall rejects it "
         "(AQ_CONTROL_PORTS)"},
        {EHOSTUNREACH, AQ_EPEER,
         "no route: the host is down or on another network, or a firewall rejects it "
         "(AQ_CONTROL_PORTS)"},
        {ENETUNREACH, AQ_EPEER, "no route to that network"},
        {ETIMEDOUT, AQ_EPEER, "Connection timed out"},
        {EACCES, AQ_EACCESS, "this host's firewall or policy forbids it"},
        {EPERM, AQ_EACCESS, "this host's firewall or policy forbids it"},
        {EMFILE, AQ_ELIMIT, "no file descriptor available: raise ulimit -n"},
        {ENFILE, AQ_ELIMIT, "no file descriptor available on this host"},
        {EADDRNOTAVAIL, AQ_EPEER, "Cannot assign requested address"},
    };
    char why[256];
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
        plan(1, FAILS, rows[i].error);
        call(1, 30 * SECONDS);
        wait_for_end();
        assert_int_equal(hosts[1].status, rows[i].status);
        snprintf(why, sizeof(why), "host 0: cannot be reached at 127.0.0.1:1: %s", rows[i].why);
        assert_string_equal(hosts[1].why, why);
    }
}

/* Without any descriptor, it is not even tried. */
static void test_no_descriptor(void **state)
{
    struct rlimit limit, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    call(1, 30 * SECONDS);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    wait_for_end();
    assert_int_equal(plans.calls, 0);
    assert_int_equal(hosts[1].status, AQ_ELIMIT);
    assert_non_null(strstr(hosts[1].why, "raise ulimit -n"));
}

/*
 * The overall status: that of an address whose host answered or where the call was forbidden; a
 * refusal only if all refused.
 */
static void test_which_status(void **state)
{
    static const struct {
        int error[3];
        aq_status status;
    } rows[] = {
        {{ECONNREFUSED, ECONNREFUSED, ECONNREFUSED}, AQ_EREFUSED},
        {{ECONNREFUSED, EHOSTUNREACH, ECONNREFUSED}, AQ_EPEER},
        {{ECONNREFUSED, ECONNREFUSED, EHOSTUNREACH}, AQ_EPEER},
        {{EHOSTUNREACH, ECONNREFUSED, ECONNREFUSED}, AQ_EPEER},
        {{EHOSTUNREACH, EMFILE, ECONNREFUSED}, AQ_EPEER},
        {{EMFILE, EHOSTUNREACH, ECONNREFUSED}, AQ_ELIMIT},
        {{EACCES, EHOSTUNREACH, ECONNREFUSED}, AQ_EACCESS},
        {{EHOSTUNREACH, EACCES, EMFILE}, AQ_EACCESS},
        {{ECONNREFUSED, EMFILE, EACCES}, AQ_EACCESS},
    };
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
        for (unsigned n = 0; n < 3; n++)
            plan(n + 1, FAILS, rows[i].error[n]);
        call(3, 30 * SECONDS);
        wait_for_end();
        assert_int_equal(hosts[1].status, rows[i].status);
    }
    /* It answers, and is another program. */
    plan(1, FAILS, EHOSTUNREACH);
    plan(2, MUTE, 0);
    plan(3, FAILS, EMFILE);
    call(3, 30 * SECONDS);
    UNTIL(plans.keeps == 1);
    assert_int_equal(send(plans.kept[0], "SSH-2.0-OpenSSH_9.2p1\r\n", 23, MSG_NOSIGNAL), 23);
    wait_for_end();
    assert_int_equal(hosts[1].status, AQ_EPROTO);
    assert_string_equal(hosts[1].why + strlen(hosts[1].why) - strlen("raise ulimit -n"),
                        "raise ulimit -n");
}

/* The maximum number of addresses all fail at once, each with its reason. Further ones are
 * ignored. */
static void test_maximum_addresses(void **state)
{
    char list[PLANS * 16 + 16] = "", why[PLANS * 64] = "host 0: cannot be reached at ";
    for (unsigned i = 1; i <= PLANS; i++) {
        plan(i, FAILS, EIO);
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "127.0.0.1:%u,", i);
        snprintf(why + strlen(why), sizeof(why) - strlen(why), "%s127.0.0.1:%u: %s",
                 i != 1 ? "; " : "", i, "I/O");
    }
    for (char *at = why; (at = strstr(at, "I/O")) != NULL; at += strlen("Input/output error")) {
        memmove(at + strlen("Input/output error"), at + 3, strlen(at + 3) + 1);
        memcpy(at, "Input/output error", strlen("Input/output error"));
    }
    strcat(list, "nonsense");
    world_call(1, 0, list, 30 * SECONDS);
    wait_for_end();
    assert_int_equal(plans.calls, PLANS);
    assert_string_equal(hosts[1].why, why);
    /* Up to that number, none may be malformed; an address of any length is not read beyond its
     * end. */
    for (size_t len = 70; len < 100; len++) {
        const struct aqi_seal_call who = {1, 0, 7};
        struct aqi_link *link;
        memset(list, '1', len);
        list[len] = '\0';
        assert_int_equal(aqi_link_connect(hosts[1].links, list, &who, SECONDS, NULL, &link),
                         AQ_EINVAL);
    }
}

/* A connection from a free port to that same port reaches no other process. */
static void test_itself(void **state)
{
    plan(1, ITSELF, 0);
    call(1, 30 * SECONDS);
    wait_for_end();
    assert_int_equal(hosts[1].status, AQ_EREFUSED);
    plan(1, ITSELF, 0);
    plan(2, AT_ONCE, 0);
    call(2, 30 * SECONDS);
    UNTIL(hosts[0].link != NULL && hosts[1].link != NULL);
    assert_non_null(strstr(hosts[1].link->name, "host 0 (127.0.0.1:2)"));
}

/* --- order and times of the tries ------------------------------------------------------------ */

static const uint64_t lead = 250 * MS;

/* Call the tick at the time when it is due. */
static void tick_when_due(struct aqi_link *link)
{
    uint64_t due = link->links->next_ns;
    link->links->next_ns = UINT64_MAX;
    link_call_tick(link, due);
}

/* The first address is tried at once, each further one some time after the one before it. */
static void test_lead(void **state)
{
    uint64_t before = aqi_now_ns();
    struct aqi_link *link = call(3, 30 * SECONDS);
    uint64_t after = aqi_now_ns();
    for (unsigned n = 1; n < 3; n++) {
        assert_int_equal(plans.calls, n);
        link_call_tick(link, before + n * lead - 1);
        assert_int_equal(plans.calls, n);
        assert_in_range(hosts[1].links->next_ns, before + n * lead, after + n * lead);
        hosts[1].links->next_ns = UINT64_MAX;
        link_call_tick(link, after + n * lead);
        assert_int_equal(plans.calls, n + 1);
        assert_int_equal(plans.of[n], 1);
    }
    link_call_tick(link, before + 30 * SECONDS - 1);
    assert_int_equal(plans.calls, 3);
}

/* If one fails, the next one is tried at once; those that are to be retried keep waiting. */
static void test_next_is_tried_at_once(void **state)
{
    plan(1, FAILS, EHOSTUNREACH);
    call(3, 30 * SECONDS);
    assert_int_equal(plans.calls, 2);
    memset(plans.of, 0, sizeof(plans.of));
    plan(1, CLOSED, 0);
    plan(2, CLOSED, 0);
    struct aqi_link *link = call(4, 30 * SECONDS);
    uint64_t now = aqi_now_ns();
    while (plans.of[2] == 0) {
        assert_true(aqi_now_ns() < now + 60 * SECONDS);
        aqi_loop_once(aqi_now_ns() + MS); /* no tick: nothing is started by time */
    }
    /* Each of the others was tried at least once, but not before its pause had passed. */
    uint64_t waited = aqi_now_ns() - now + lead / 5;
    assert_in_range(plans.of[0], 1, 1 + waited / (lead / 5));
    assert_in_range(plans.of[1], 1, 1 + waited / (lead / 5));
    link_call_tick(link, aqi_now_ns() + 2 * lead);
    assert_true(plans.of[0] >= 2);
}

/* Likewise if it fails while a later one is being tried. */
static void test_next_but_one_is_tried_at_once(void **state)
{
    struct aqi_link *link = call(4, 30 * SECONDS);
    tick_when_due(link);
    assert_int_equal(plans.calls, 2);
    close(plans.kept[0]); /* a reset, since not all was read */
    plans.kept[0] = plans.kept[--plans.keeps];
    aqi_loop_once(aqi_now_ns() + 10 * SECONDS);
    assert_int_equal(plans.calls, 3);
    assert_int_equal(plans.of[2], 1);
}

/* One that closes the connection is tried again after pauses that double, up to a second. */
static void test_pauses(void **state)
{
    static const uint64_t pauses[] = {50, 100, 200, 400, 800, 1000, 1000};
    plan(1, CLOSED, 0);
    struct aqi_link *link = call(1, 3600 * SECONDS);
    for (unsigned i = 0; i < AQI_COUNT_OF(pauses); i++) {
        assert_int_equal(plans.calls, i + 1);
        uint64_t before = aqi_now_ns();
        while (link->source.fd >= 0) {
            assert_true(aqi_now_ns() < before + 60 * SECONDS);
            aqi_loop_once(aqi_now_ns() + MS);
        }
        uint64_t after = aqi_now_ns();
        link_call_tick(link, before + pauses[i] * MS - 1);
        assert_int_equal(plans.calls, i + 1);
        assert_in_range(hosts[1].links->next_ns, 1, after + pauses[i] * MS);
        link_call_tick(link, after + pauses[i] * MS);
    }
}

/* The connection is made at once, or later. */
static void test_connected_at_once_or_later(void **state)
{
    for (unsigned later = 0; later < 2; later++) {
        plan(1, later ? LATER : AT_ONCE, 0);
        call(1, 30 * SECONDS);
        UNTIL(hosts[0].opened == later + 1 && hosts[1].opened == later + 1);
        assert_int_equal(plans.calls, later + 1);
    }
    assert_int_equal(hosts[1].ended, 0);
}

/* Once one has proved itself, the connections to the other addresses are closed. */
static void test_others_are_closed(void **state)
{
    plan(3, AT_ONCE, 0);
    struct aqi_link *link = call(4, 30 * SECONDS);
    for (unsigned n = 1; n < 3; n++)
        tick_when_due(link);
    UNTIL(hosts[0].opened == 1 && hosts[1].opened == 1);
    assert_int_equal(plans.keeps, 2);
    assert_true(world_raw_ended(plans.kept[0]) && world_raw_ended(plans.kept[1]));
}

/* --- timeouts -------------------------------------------------------------------------------- */

/* Each address has its own reason, its latest error. */
static void test_expiry(void **state)
{
    plan(1, FAILS, EHOSTUNREACH);
    plan(2, CLOSED, 0);
    plan(3, MUTE, 0);
    uint64_t before = aqi_now_ns();
    struct aqi_link *link = call(4, 4 * SECONDS);
    uint64_t after = aqi_now_ns();
    while (plans.keeps == 0)
        aqi_loop_once(aqi_now_ns() + MS);
    (void)link_call_tick(link, before + 4 * SECONDS - 1);
    assert_int_equal(link->state, LINK_CALLING);
    assert_int_equal(plans.of[3], 0);
    (void)link_call_tick(link, after + 4 * SECONDS);
    assert_int_equal(link->state, LINK_DOOMED);
    wait_for_end();
    assert_int_equal(hosts[1].status, AQ_EPEER);
    static const char *const parts[] = {
        "host 0: cannot be reached at 127.0.0.1:1: no route: the host is down",
        "; 127.0.0.1:2: it closed the connection without an answer",
        "; 127.0.0.1:3: it answered, but did not prove in time",
        "; 127.0.0.1:4: no answer within 4.",
    };
    const char *at = hosts[1].why;
    for (unsigned i = 0; i < AQI_COUNT_OF(parts); i++) {
        const char *part = strstr(at, parts[i]);
        if (part == NULL) fail_msg("no \"%s\" in \"%s\"", parts[i], hosts[1].why);
        at = part + strlen(parts[i]);
    }
}

/* An address that answers has a separate time limit to prove itself; then the next one is tried. */
static void test_proof_expires(void **state)
{
    plan(1, MUTE, 0);
    uint64_t before = aqi_now_ns();
    struct aqi_link *link = call(2, 30 * SECONDS);
    uint64_t after = aqi_now_ns();
    assert_int_equal(plans.keeps, 1);
    /* It keeps the others from being tried. */
    uint64_t next = link_call_tick(link, before + AQI_LINK_PROVE_NS - 1);
    assert_in_range(next, before + AQI_LINK_PROVE_NS, after + AQI_LINK_PROVE_NS);
    assert_int_equal(plans.calls, 1);
    next = link_call_tick(link, next);
    assert_in_range(next, before + 30 * SECONDS, after + 30 * SECONDS);
    assert_int_equal(plans.calls, 2);
    assert_true(world_raw_ended(plans.kept[0]));
    (void)link_call_tick(link, next);
    wait_for_end();
    assert_int_equal(hosts[1].status, AQ_ETIMEOUT);
    assert_non_null(strstr(hosts[1].why, "127.0.0.1:1: it answered, but did not prove in time"));
    assert_non_null(strstr(hosts[1].why, "127.0.0.1:2: no answer within 30."));
}

#define CALL_TEST(test) cmocka_unit_test_setup_teardown(test, call_setup, call_teardown)

int main(void)
{
    (void)aqi_log_configure("off");
    const struct CMUnitTest tests[] = {
        CALL_TEST(test_reasons),
        CALL_TEST(test_no_descriptor),
        CALL_TEST(test_which_status),
        CALL_TEST(test_maximum_addresses),
        CALL_TEST(test_itself),
        CALL_TEST(test_lead),
        CALL_TEST(test_pauses),
        CALL_TEST(test_next_is_tried_at_once),
        CALL_TEST(test_next_but_one_is_tried_at_once),
        CALL_TEST(test_connected_at_once_or_later),
        CALL_TEST(test_others_are_closed),
        CALL_TEST(test_expiry),
        CALL_TEST(test_proof_expires),
    };
    return cmocka_run_group_tests(tests, world_group_setup, NULL);
}
