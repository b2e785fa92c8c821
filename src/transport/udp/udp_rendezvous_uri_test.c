/* Listening and calling over UDP: the URIs, and what fails. */
#include "transport/udp/udp_rendezvous_world_test.h"

#include "base/descriptors_test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BATCH = 64 /* maximum number of packets in a round */ };

static enum udp_call_kind called(int fd, struct aqi_listener *listener)
{
    static const enum udp_call_kind kinds[] = {UDP_CALL_KNOCK, UDP_CALL_CALL};
    struct udp_call call = {0};
    world.callers++;
    memcpy(call.caller, &world.callers, sizeof(world.callers));
    for (unsigned i = 0; i < AQI_COUNT_OF(kinds); i++) {
        seal(kinds[i], &call);
        assert_int_equal(send(fd, &call, sizeof(call), 0), sizeof(call));
        await(((struct udp_end *)listener)->fd);
        assert_true(udp_rendezvous_hear_all(world.rendezvous));
        await(fd);
        assert_int_equal(recv(fd, &call, sizeof(call), 0), sizeof(call));
    }
    return (enum udp_call_kind)call.kind;
}

/* --- listening ------------------------------------------------------------------------------- */

static aq_status listens(const char *uri, char named[AQI_URI_MAX])
{
    struct aqi_listener *listener;
    unsigned before = descriptors();
    aq_status st = udp_rendezvous.listen(world.rendezvous, uri, &world, &listener, named);
    assert_int_equal(descriptors(), before + (st == AQ_OK));
    if (st == AQ_OK) udp_rendezvous.unlisten(world.rendezvous, listener);
    assert_int_equal(descriptors(), before);
    return st;
}

/* A listener names its address or, if it listens at all addresses, that of an interface. */
static void test_names_of_listeners(void **state)
{
    static const char *const all[] = {NULL, "udp:///", "udp://", "udp://0.0.0.0",
                                      "udp://0.0.0.0:0"};
    char uri[AQI_URI_MAX];
    unsigned port;
    assert_int_equal(listens("udp://127.0.0.2:0", uri), AQ_OK);
    assert_int_equal(sscanf(uri, "udp://127.0.0.2:%u", &port), 1);
    for (unsigned i = 0; i < AQI_COUNT_OF(all); i++) {
        udp_config.interface = "lo";
        assert_int_equal(listens(all[i], uri), AQ_OK);
        assert_int_equal(sscanf(uri, "udp://127.0.0.1:%u", &port), 1);
        assert_in_range(port, 1, UINT16_MAX);
        udp_config.interface = "";
        assert_int_equal(listens(all[i], uri), AQ_OK);
        udp_config.interface = "x"; /* there is no such interface */
        assert_true(listens(all[i], uri) < 0);
        udp_config.interface = "";
    }
}

static void test_places_that_are_none(void **state)
{
    char taken[64], uri[AQI_URI_MAX];
    const char *const rows[] = {"shm://a",
                                "udp:/",
                                "udp://127.0.0.1:70000",
                                "udp://a/b",
                                "udp://203.0.113.1:0" /* another host's */,
                                "udp://7:0" /* 0.0.0.7 */};
    snprintf(taken, sizeof(taken), "udp://127.0.0.1:%u", ntohs(world.at.v4.sin_port));
    assert_int_equal(listens(taken, uri), AQ_ESTATE);
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++)
        assert_int_equal(listens(rows[i], uri), AQ_EINVAL);
    if (geteuid() != 0) return;
    FILE *file = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
    unsigned least = 0;
    if (file == NULL || fscanf(file, "%u", &least) != 1) least = 0;
    if (file != NULL) fclose(file);
    if (least < 2) return; /* all ports are open to all users here */
    assert_int_equal(seteuid(65534), 0);
    aq_status st = listens("udp://127.0.0.1:1", uri);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(st, AQ_EACCESS);
}

static void test_no_descriptors(void **state)
{
    struct rlimit before, none;
    struct aqi_listener *listener;
    char uri[AQI_URI_MAX];
    int next = dup(0);
    assert_true(next >= 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){(rlim_t)next, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    aq_status to_listen =
        udp_rendezvous.listen(world.rendezvous, "udp://127.0.0.1:0", &world, &listener, uri);
    aq_status to_call = connect_to("udp://127.0.0.1:9");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(to_listen, AQ_ELIMIT);
    assert_int_equal(to_call, AQ_ELIMIT);
    assert_null(world.rendezvous->channels);
}

static aq_status opens(rlim_t most)
{
    const struct aqi_rendezvous_hooks hooks = {.call = NULL};
    struct aqi_rendezvous *rendezvous;
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){aqi_min(most, before.rlim_cur), before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    aq_status st = udp_rendezvous.open(&hooks, &rendezvous);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    if (st == AQ_OK) udp_rendezvous.close(rendezvous);
    return st;
}

/* With none, or one too few; without standard input, 0 is a descriptor like any other. */
static void test_descriptors_to_open(void **state)
{
    unsigned before = descriptors();
    int next = dup(0);
    assert_true(next >= 0);
    close(next);
    for (unsigned more = 0; more < 2; more++) {
        assert_int_equal(opens((rlim_t)next + more), AQ_ELIMIT);
        assert_int_equal(descriptors(), before);
    }
    int kept = fcntl(0, F_DUPFD_CLOEXEC, 3);
    assert_true(kept >= 0);
    close(0);
    aq_status st = opens(RLIM_INFINITY);
    assert_int_equal(fcntl(kept, F_DUPFD, 0), 0);
    close(kept);
    assert_int_equal(st, AQ_OK);
    assert_int_equal(descriptors(), before);
}

/* A cookie is valid for one rendezvous only; the secret is the one that the setting names. */
static void test_secrets(void **state)
{
    const struct aqi_rendezvous_hooks hooks = {.call = NULL};
    struct aqi_rendezvous *other;
    char setting[32];
    int ends[2];
    assert_int_equal(udp_rendezvous.open(&hooks, &other), AQ_OK);
    assert_memory_not_equal(other->cookies, world.rendezvous->cookies, sizeof(other->cookies));
    assert_false(udp_rendezvous.knows_writers(other));
    udp_rendezvous.close(other);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "a secret of thirty-two characters", 32), 32);
    close(ends[1]);
    snprintf(setting, sizeof(setting), "fd:%d", ends[0]);
    udp_config.secret = setting;
    assert_int_equal(udp_rendezvous.open(&hooks, &other), AQ_OK);
    assert_true(udp_rendezvous.knows_writers(other));
    udp_rendezvous.close(other);
    udp_config.secret = "nonsense";
    assert_int_equal(udp_rendezvous.open(&hooks, &other), AQ_ESETTING);
    udp_config.secret = "";
}

/* If the socket of a call cannot be watched it is closed, at either side. */
static void test_nothing_to_watch_with(void **state)
{
    unsigned before = descriptors();
    int epoll = world.rendezvous->epoll;
    world.rendezvous->epoll = -1;
    aq_status st = connect_to("udp://127.0.0.1:9");
    world.rendezvous->epoll = epoll;
    assert_true(st < 0);
    assert_null(world.rendezvous->channels);
    assert_int_equal(descriptors(), before);
    int fd = stranger("127.0.0.1");
    world.rendezvous->epoll = -1;
    enum udp_call_kind kind = called(fd, world.listener);
    world.rendezvous->epoll = epoll;
    assert_int_equal(kind, UDP_CALL_BUSY);
    assert_null(world.rendezvous->channels);
    close(fd);
    assert_int_equal(descriptors(), before);
}

/* --- calling --------------------------------------------------------------------------------- */

static aq_status call_to(const char *uri)
{
    aq_status st = connect_to(uri);
    if (st == AQ_OK) udp_rendezvous.close_channel(world.channel);
    return st;
}

static void test_places_that_cannot_be_called(void **state)
{
    static const char *const rows[] = {"shm://a",           "udp://",
                                       "udp://:5",          "udp://127.0.0.1",
                                       "udp://127.0.0.1:0", "udp://127.0.0.1:70000"};
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
        assert_int_equal(call_to(rows[i]), AQ_EINVAL);
        assert_non_null(strstr(aq_error_message(), "is not an address of udp"));
    }
    assert_int_not_equal(call_to("udp://7:5"), AQ_EINVAL); /* 0.0.0.7: a name of one character */
    assert_null(world.rendezvous->channels);
}

/* Each call is one packet, with its own random number. */
static void test_numbers_of_calls(void **state)
{
    static const uint8_t zeros[UDP_CALL_BYTES];
    struct udp_call calls[3];
    union aqi_sockaddr at;
    char uri[64];
    int fd = stranger_at("127.0.0.1", &at);
    snprintf(uri, sizeof(uri), "udp://127.0.0.1:%u", ntohs(at.v4.sin_port));
    for (unsigned i = 0; i < AQI_COUNT_OF(calls); i++) {
        assert_int_equal(connect_to(uri), AQ_OK);
        await(fd);
        assert_int_equal(recv(fd, &calls[i], sizeof(calls[i]), MSG_TRUNC), sizeof(calls[i]));
        expect_nothing(fd);
        assert_memory_not_equal(calls[i].caller, zeros, UDP_CALL_BYTES);
        for (unsigned j = 0; j < i; j++)
            assert_memory_not_equal(calls[i].caller, calls[j].caller, UDP_CALL_BYTES);
        assert_memory_equal(calls[i].listener, zeros, UDP_CALL_BYTES);
        udp_rendezvous.close_channel(world.channel);
    }
    close(fd);
}

/* --- descriptor 0, which a program may have closed ------------------------------------------- */

static void free_0(int *kept)
{
    if (*kept < 0) *kept = fcntl(0, F_DUPFD_CLOEXEC, 100);
    close(0);
}

static void expect_free_0(void)
{
    assert_int_equal(fcntl(0, F_GETFD), -1);
}

static void test_descriptor_0(void **state)
{
    struct aqi_listener *listener;
    char uri[AQI_URI_MAX];
    unsigned port;
    int kept = -1, fd = stranger("127.0.0.1");
    free_0(&kept);
    udp_config.interface = "x"; /* only found to be wrong when there is a socket */
    assert_true(udp_rendezvous.listen(world.rendezvous, NULL, &world, &listener, uri) < 0);
    expect_free_0();
    udp_config.interface = "";
    snprintf(uri, sizeof(uri), "udp://127.0.0.1:%u", ntohs(world.at.v4.sin_port));
    assert_int_equal(udp_rendezvous.listen(world.rendezvous, uri, &world, &listener, uri),
                     AQ_ESTATE);
    expect_free_0();
    int epoll = world.rendezvous->epoll;
    world.rendezvous->epoll = -1; /* no socket can be watched */
    assert_true(connect_to("udp://127.0.0.1:9") < 0);
    assert_int_equal(called(fd, world.listener), UDP_CALL_BUSY);
    world.rendezvous->epoll = epoll;
    expect_free_0();
    /* That of a listener, */
    assert_int_equal(
        udp_rendezvous.listen(world.rendezvous, "udp://127.0.0.1:0", &world, &listener, uri),
        AQ_OK);
    assert_int_equal(((struct udp_end *)listener)->fd, 0);
    assert_int_equal(sscanf(uri, "udp://127.0.0.1:%u", &port), 1);
    udp_rendezvous.unlisten(world.rendezvous, listener);
    expect_free_0();
    /* a call, */
    assert_int_equal(connect_to("udp://127.0.0.1:9"), AQ_OK);
    assert_int_equal(world.channel->end.fd, 0);
    udp_rendezvous.close_channel(world.channel);
    expect_free_0();
    /* a rendezvous, */
    struct aqi_rendezvous *other;
    assert_int_equal(udp_rendezvous.open(&world.rendezvous->hooks, &other), AQ_OK);
    assert_int_equal(other->epoll, 0);
    udp_rendezvous.close(other);
    expect_free_0();
    /* and the channel of a call that is taken. */
    assert_int_equal(called(fd, world.listener), UDP_CALL_TAKEN);
    assert_int_equal(world.rendezvous->channels->end.fd, 0);
    udp_channel_free(world.rendezvous->channels);
    expect_free_0();
    assert_int_equal(dup2(kept, 0), 0);
    close(kept), close(fd);
}

/* --- rounds ---------------------------------------------------------------------------------- */

static unsigned hear_all(void)
{
    world.rendezvous->happened = 0;
    (void)udp_rendezvous_hear_all(world.rendezvous);
    return world.rendezvous->happened;
}

static unsigned progress(void)
{
    return udp_rendezvous.progress(world.rendezvous);
}

/* A round takes BATCH packets at most, and leaves the others to the next. */
static void test_rounds(void **state)
{
    unsigned (*const rounds[])(void) = {hear_all, progress};
    int fd = stranger("127.0.0.1");
    for (unsigned i = 0; i < AQI_COUNT_OF(rounds); i++) {
        unsigned most = 0;
        while (most < BATCH) { /* until all of them have arrived before the round begins */
            unsigned left = BATCH + 2;
            for (unsigned n = 0; n < BATCH + 2; n++)
                assert_int_equal(send(fd, "", 0, 0), 0);
            while (left != 0) {
                unsigned n = rounds[i]();
                assert_true(n <= left && n <= BATCH);
                if (n > most) most = n;
                left -= n;
            }
        }
    }
    close(fd);
}

/* A listener at all IPv6 addresses also listens at all IPv4 addresses. */
static void test_both_families(void **state)
{
    struct aqi_listener *listener;
    union aqi_sockaddr at, to = world.at;
    socklen_t len = sizeof(at);
    char uri[AQI_URI_MAX];
    udp_config.interface = "lo";
    if (udp_rendezvous.listen(world.rendezvous, "udp://[::]:0", &world, &listener, uri) != AQ_OK)
        skip(); /* this host has no IPv6 */
    assert_int_equal(getsockname(((struct udp_end *)listener)->fd, &at.any, &len), 0);
    to.v4.sin_port = at.v6.sin6_port;
    int fd = stranger("127.0.0.1");
    assert_int_equal(connect(fd, &to.any, sizeof(to.v4)), 0);
    assert_int_equal(called(fd, listener), UDP_CALL_TAKEN);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_names_of_listeners),
        WORLD_TEST(test_places_that_are_none),
        WORLD_TEST(test_no_descriptors),
        WORLD_TEST(test_secrets),
        WORLD_TEST(test_descriptors_to_open),
        WORLD_TEST(test_nothing_to_watch_with),
        WORLD_TEST(test_places_that_cannot_be_called),
        WORLD_TEST(test_numbers_of_calls),
        WORLD_TEST(test_descriptor_0),
        WORLD_TEST(test_rounds),
        WORLD_TEST(test_both_families),
    };
    if (mac_is_missing()) return 77;
    return cmocka_run_group_tests_name("transport/udp/udp_rendezvous_uri", tests, NULL, NULL);
}
