/* Calls over UDP to a listener that sends what no listener would. */
#include "base/capture_test.h"
#include "transport/udp/udp_rendezvous_world_test.h"

#include <fcntl.h>

enum {
    ANEW = 10,  /* tries with a cookie */
    LONGEST = 6 /* doublings of the longest pause between them */
};

/* Make a listener that is a socket of the test, and call it. */
static int listener_of_a_call(void)
{
    union aqi_sockaddr at;
    char uri[64];
    int fd = stranger_at("127.0.0.1", &at);
    snprintf(uri, sizeof(uri), "udp://127.0.0.1:%u", ntohs(at.v4.sin_port));
    assert_int_equal(connect_to(uri), AQ_OK);
    return fd;
}

/* Take a packet of the caller, to which answers go from now on. */
static struct udp_call heard(int fd, enum udp_call_kind kind)
{
    union aqi_sockaddr from;
    socklen_t len = sizeof(from);
    struct udp_call call;
    await(fd);
    assert_int_equal(recvfrom(fd, &call, sizeof(call), MSG_TRUNC, &from.any, &len), sizeof(call));
    assert_true(udp_call_read(world.rendezvous->macs.proofs, &call, sizeof(call), &call));
    assert_int_equal(call.kind, kind);
    assert_int_equal(connect(fd, &from.any, len), 0);
    return call;
}

/* When this returns the caller has taken the bytes. */
static void say_bytes(int fd, const void *bytes, size_t len)
{
    unsigned happened = 0;
    assert_int_equal(send(fd, bytes, len, 0), len);
    await(world.channel->end.fd);
    do
        happened += udp_rendezvous.progress(world.rendezvous);
    while (happened == 0);
}

static void say(int fd, enum udp_call_kind kind, struct udp_call *call)
{
    seal(kind, call);
    say_bytes(fd, call, sizeof(*call));
}

/* The caller must continue as if nothing had arrived. */
static void say_malformed(int fd, const void *bytes, size_t len)
{
    uint64_t dropped = aqi_counter_sum(AQI_CTR_HELLO_DROPPED);
    uint8_t cookie[UDP_CALL_BYTES];
    memcpy(cookie, world.channel->call.cookie, sizeof(cookie));
    say_bytes(fd, bytes, len);
    assert_int_equal(aqi_counter_sum(AQI_CTR_HELLO_DROPPED), dropped + 1);
    assert_int_equal(world.channel->state, UDP_CHANNEL_CALLS);
    assert_memory_equal(world.channel->call.cookie, cookie, sizeof(cookie));
    assert_int_equal(world.ends, 0);
}

static void test_malformed_at_a_caller(void **state)
{
    static const uint8_t zeros[AQI_MAC_BYTES];
    static const enum udp_call_kind ends[] = {UDP_CALL_COOKIE, UDP_CALL_TAKEN, UDP_CALL_BUSY,
                                              UDP_CALL_DENIED};
    static const size_t lengths[] = {0, 1, 95, 97, 1232, 1249, 4000};
    int fd = listener_of_a_call();
    struct udp_call call = heard(fd, UDP_CALL_KNOCK), bad;
    unsigned char bytes[4000] = {0};
    memset(call.cookie, 7, sizeof(call.cookie));
    for (size_t i = 0; i < AQI_COUNT_OF(ends); i++) {
        seal(ends[i], &call);
        memcpy(bytes, &call, sizeof(call));
        for (size_t n = 0; n < AQI_COUNT_OF(lengths); n++)
            say_malformed(fd, bytes, lengths[n]);
        bad = call; /* of another call */
        bad.caller[i] ^= 1;
        seal(ends[i], &bad);
        say_malformed(fd, &bad, sizeof(bad));
        bad = call; /* another version, but neither of the two kinds in common with ours */
        bad.version++;
        struct iovec checked = {&bad, offsetof(struct udp_call, check)};
        aqi_mac_of(world.rendezvous->macs.proofs, zeros, &checked, 1, bad.check);
        say_malformed(fd, &bad, sizeof(bad));
    }
    for (unsigned kind = 0; kind < 256; kind++) {
        if (kind > 0 && kind < UDP_CALL_KINDS) continue;
        bad = call;
        seal((enum udp_call_kind)kind, &bad);
        say_malformed(fd, &bad, sizeof(bad));
    }
    /* Packets that callers send are not answers. */
    say(fd, UDP_CALL_KNOCK, &call);
    say(fd, UDP_CALL_CALL, &call);
    say(fd, UDP_CALL_OTHER, &call); /* it has our version */
    assert_int_equal(world.channel->state, UDP_CHANNEL_CALLS);
    assert_memory_equal(world.channel->call.cookie, zeros, UDP_CALL_BYTES);
    assert_int_equal(world.ends, 0);
    close(fd);
}

/* Packets from a socket other than the one called are ignored. */
static void test_answers_of_strangers(void **state)
{
    int fd = listener_of_a_call();
    struct udp_call call = heard(fd, UDP_CALL_KNOCK);
    union aqi_sockaddr at;
    socklen_t len = sizeof(at);
    int liar = stranger_at("127.0.0.1", &at);
    assert_int_equal(getsockname(world.channel->end.fd, &at.any, &len), 0);
    seal(UDP_CALL_DENIED, &call);
    assert_int_equal(sendto(liar, &call, sizeof(call), 0, &at.any, len), sizeof(call));
    say(fd, UDP_CALL_KNOCK, &call); /* it arrives later */
    assert_int_equal(world.channel->state, UDP_CHANNEL_CALLS);
    assert_int_equal(world.ends, 0);
    close(liar), close(fd);
}

static void ignore(void *arg, enum aqi_dgram_channel lane, const struct aqi_dgram_addr *from,
                   unsigned char *packet, size_t len, uint64_t waited)
{
    fail();
}

/* The program closes the socket, and opens something else: that is reported. */
static void test_taken_socket(void **state)
{
    static struct capture capture;
    int fd = listener_of_a_call(), none = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct aqi_port *port = world.channel->port;
    assert_true(none >= 0);
    assert_int_equal(dup2(none, world.channel->end.fd), world.channel->end.fd);
    capture_start(&capture);
    assert_int_equal(port->ops->receive(port, AQI_PORT_DEEP, ignore, NULL), 0);
    assert_int_equal(port->ops->receive(port, AQI_PORT_DEEP, ignore, NULL), 0);
    const char *text = capture_end(&capture), *said = strstr(text, "socket of a connection can");
    assert_non_null(said);
    assert_non_null(strstr(said, "must not close descriptors"));
    assert_null(strstr(said + 1, "socket of a connection"));
    close(none), close(fd);
}

/* The listener has another version, of calls or of the packets that follow. */
static void test_answers_of_other_versions(void **state)
{
    static const uint8_t zeros[AQI_MAC_BYTES];
    static const char *const names[] = {"\"call\"", "\"udp\""};
    for (unsigned i = 0; i < AQI_COUNT_OF(names); i++) {
        int fd = listener_of_a_call();
        struct udp_call call = heard(fd, UDP_CALL_KNOCK);
        struct iovec checked = {&call, offsetof(struct udp_call, check)};
        call.kind = UDP_CALL_OTHER;
        *(i == 0 ? &call.version : &call.packets) += 7;
        aqi_mac_of(world.rendezvous->macs.proofs, zeros, &checked, 1, call.check);
        call.caller[0] ^= 1; /* of another call */
        aqi_mac_of(world.rendezvous->macs.proofs, zeros, &checked, 1, call.check);
        say_malformed(fd, &call, sizeof(call));
        call.caller[0] ^= 1;
        aqi_mac_of(world.rendezvous->macs.proofs, zeros, &checked, 1, call.check);
        say_bytes(fd, &call, sizeof(call));
        assert_int_equal(world.ends, 1);
        assert_int_equal(world.end, AQ_EMISMATCH);
        assert_non_null(strstr(world.why, names[i]));
        world.ends = 0;
        udp_rendezvous.close_channel(world.channel);
        close(fd);
    }
}

static void expect_unanswered(const char *text)
{
    char why[300];
    udp_rendezvous.unanswered(world.channel, why, sizeof(why));
    assert_non_null(strstr(why, text));
}

static void test_denied_call(void **state)
{
    int fd = listener_of_a_call();
    struct udp_call call = heard(fd, UDP_CALL_KNOCK);
    say(fd, UDP_CALL_DENIED, &call);
    assert_int_equal(world.ends, 1);
    assert_int_equal(world.end, AQ_EACCESS);
    assert_int_equal(world.channel->state, UDP_CHANNEL_OVER);
    /* Whatever it sends after that is ignored. */
    say(fd, UDP_CALL_DENIED, &call);
    say(fd, UDP_CALL_TAKEN, &call);
    assert_int_equal(world.ends, 1);
    assert_null(world.channel->dgram);
    expect_unanswered("no answer arrives from 127.0.0.1:");
    expect_unanswered("(interface lo): no program is listening there");
    udp_rendezvous.close_channel(world.channel);
    assert_null(world.rendezvous->channels);
    close(fd);
}

/* A call that finds no room is repeated unchanged, so that a server that takes an earlier
 * repetition reaches its caller, and keeps no place in vain. */
static void test_busy_listener(void **state)
{
    int fd = listener_of_a_call();
    struct udp_call call = heard(fd, UDP_CALL_KNOCK), said;
    memset(call.cookie, 7, sizeof(call.cookie));
    say(fd, UDP_CALL_COOKIE, &call);
    said = heard(fd, UDP_CALL_CALL);
    for (unsigned i = 0; i < 3; i++) {
        say(fd, UDP_CALL_BUSY, &said);
        assert_int_equal(world.ends, 0);
        assert_int_equal(world.channel->state, UDP_CHANNEL_CALLS);
        expect_unanswered("the server exists, but is full");
        expect_nothing(fd);
        world.rendezvous->now = world.channel->due;
        udp_channel_turn(world.channel);
        said = heard(fd, UDP_CALL_CALL);
        assert_memory_equal(said.caller, call.caller, UDP_CALL_BYTES);
        assert_memory_equal(said.cookie, call.cookie, UDP_CALL_BYTES);
    }
    say(fd, UDP_CALL_TAKEN, &said);
    assert_int_equal(world.channel->state, UDP_CHANNEL_OPEN);
    udp_rendezvous.close_channel(world.channel);
    close(fd);
}

/* After we have closed a call nothing is sent and no answer counts. */
static void test_closed_call(void **state)
{
    static const uint8_t zeros[UDP_CALL_BYTES];
    int fd = listener_of_a_call();
    struct udp_call call = heard(fd, UDP_CALL_KNOCK);
    memset(call.cookie, 7, sizeof(call.cookie));
    seal(UDP_CALL_COOKIE, &call);
    assert_int_equal(send(fd, &call, sizeof(call), 0), sizeof(call));
    await(world.channel->end.fd);
    world.channel->closed = true; /* as in a hook, where nothing is freed */
    world.rendezvous->now = world.channel->due;
    udp_channel_turn(world.channel);
    expect_nothing(fd);
    assert_memory_equal(world.channel->call.cookie, zeros, sizeof(zeros));
    assert_true(udp_channel_done(world.channel));
    assert_true(udp_rendezvous.progress(world.rendezvous) > 0);
    assert_null(world.rendezvous->channels);
    expect_nothing(fd);
    assert_int_equal(world.ends, 0);
    close(fd);
}

/* Each new cookie is used at once, but not again if it is repeated. */
static void test_cookies_at_a_caller(void **state)
{
    int fd = listener_of_a_call();
    struct udp_call call = heard(fd, UDP_CALL_KNOCK), said;
    for (uint8_t i = 1; i < 4; i++) {
        memset(call.cookie, i, sizeof(call.cookie));
        world.channel->due = UINT64_MAX;
        say(fd, UDP_CALL_COOKIE, &call);
        said = heard(fd, UDP_CALL_CALL);
        assert_memory_equal(said.cookie, call.cookie, UDP_CALL_BYTES);
        assert_memory_equal(said.caller, call.caller, UDP_CALL_BYTES);
        assert_int_equal(world.channel->tries, 1);
        world.channel->due = UINT64_MAX;
        say(fd, UDP_CALL_COOKIE, &call);
        assert_int_equal(world.channel->tries, 1);
        assert_int_equal(world.channel->due, UINT64_MAX);
    }
    close(fd);
}

/* A caller tries again after pauses that double, and after some tries asks for another cookie. */
static void test_tries_of_a_caller(void **state)
{
    const uint64_t first = 5000000;
    int fd = listener_of_a_call();
    struct udp_call call = heard(fd, UDP_CALL_KNOCK);
    uint64_t now = world.rendezvous->now;
    assert_int_equal(world.channel->due, now + first);
    memset(world.channel->call.cookie, 7, UDP_CALL_BYTES);
    world.channel->tries = 0;
    for (unsigned i = 0; i < 2 * ANEW; i++) {
        unsigned tries = i < ANEW ? i : LONGEST + (i - ANEW) % (ANEW - LONGEST);
        now = world.rendezvous->now = world.channel->due - 1;
        udp_rendezvous_call(world.channel);
        expect_nothing(fd);
        now = ++world.rendezvous->now;
        udp_rendezvous_call(world.channel);
        (void)heard(fd, i < ANEW ? UDP_CALL_CALL : UDP_CALL_KNOCK);
        assert_int_equal(world.channel->due - now, first << (tries < LONGEST ? tries : LONGEST));
    }
    assert_memory_equal(world.channel->call.caller, call.caller, UDP_CALL_BYTES);
    close(fd);
}

/* A listener must know the secret. */
static void test_proofs_of_listeners(void **state)
{
    static const struct udp_secret one = {{1}, true}, other = {{2}, true};
    for (unsigned i = 0; i < 2; i++) {
        world.rendezvous->secret = i == 0 ? one : (struct udp_secret){0};
        int fd = listener_of_a_call();
        struct udp_call call = heard(fd, UDP_CALL_KNOCK);
        call.port = world.at.v4.sin_port;
        udp_call_seal(world.rendezvous->macs.proofs, &other, UDP_CALL_TAKEN, &call);
        say_bytes(fd, &call, sizeof(call));
        assert_int_equal(world.ends, i + 1);
        assert_int_equal(world.end, AQ_EACCESS);
        assert_null(world.channel->dgram);
        udp_rendezvous.close_channel(world.channel);
        close(fd);
    }
}

/* The caller continues at the port and with the random number that the listener sends. */
static void test_taken(void **state)
{
    int fd = listener_of_a_call();
    struct udp_call call = heard(fd, UDP_CALL_KNOCK);
    union aqi_sockaddr at, to;
    socklen_t len = sizeof(to);
    int end = stranger_at("127.0.0.1", &at);
    unsigned char packet[2048];
    call.port = at.v4.sin_port;
    memset(call.listener, 9, sizeof(call.listener));
    say(fd, UDP_CALL_TAKEN, &call);
    assert_int_equal(world.channel->state, UDP_CHANNEL_OPEN);
    assert_memory_equal(world.channel->call.listener, call.listener, UDP_CALL_BYTES);
    await(end);
    assert_true(recv(end, packet, sizeof(packet), 0) > 0);
    assert_int_equal(getpeername(world.channel->end.fd, &to.any, &len), 0);
    assert_int_equal(to.v4.sin_port, at.v4.sin_port);
    assert_int_equal(to.v4.sin_addr.s_addr, at.v4.sin_addr.s_addr);
    /* An answer to a call is not a packet of the channel, wherever it comes from. */
    len = sizeof(to);
    assert_int_equal(getsockname(world.channel->end.fd, &to.any, &len), 0);
    assert_int_equal(connect(end, &to.any, len), 0);
    say(end, UDP_CALL_DENIED, &call);
    say(end, UDP_CALL_TAKEN, &call);
    assert_int_equal(world.channel->state, UDP_CHANNEL_OPEN);
    assert_int_equal(world.ends + world.messages, 0);
    close(end), close(fd);
}

/* Calls to two addresses of a host: the first one's cookie is not sent to the second. */
static void test_nobody_listens(void **state)
{
    for (unsigned second = 0; second < 2; second++) {
        union aqi_sockaddr at;
        int fd = listener_of_a_call(), other_fd = stranger_at("127.0.0.1", &at);
        struct addrinfo name = {
            .ai_family = AF_INET, .ai_addr = &at.any, .ai_addrlen = sizeof(at.v4)};
        struct udp_call call = heard(fd, UDP_CALL_KNOCK);
        if (second) world.channel->name = &name;
        /* While connected elsewhere it refuses packets, and no other socket can get its port. */
        assert_int_equal(connect(fd, &world.at.any, sizeof(world.at.v4)), 0);
        memset(world.channel->call.cookie, 7, UDP_CALL_BYTES);
        world.channel->due = 0;
        world.channel->tries = 5;
        udp_rendezvous_call(world.channel); /* the network refuses it */
        await(world.channel->end.fd);
        (void)udp_rendezvous.progress(world.rendezvous);
        if (second) {
            struct udp_call again = heard(other_fd, UDP_CALL_KNOCK);
            assert_memory_equal(again.caller, call.caller, UDP_CALL_BYTES);
            assert_int_equal(world.channel->tries, 1);
            assert_int_equal(world.ends, 1);
            assert_null(world.channel->name);
        } else {
            assert_int_equal(world.ends, 1);
            assert_int_equal(world.end, AQ_EREFUSED);
            assert_int_equal(world.channel->state, UDP_CHANNEL_OVER);
        }
        udp_rendezvous.close_channel(world.channel);
        assert_null(world.rendezvous->channels);
        close(other_fd), close(fd);
    }
}

/* Its sockets, which a forked child may hold, are no longer watched. */
static void test_held_channel(void **state)
{
    int fd = listener_of_a_call();
    union aqi_sockaddr at;
    socklen_t len = sizeof(at);
    (void)heard(fd, UDP_CALL_KNOCK);
    int held = dup(world.channel->end.fd);
    assert_int_equal(getsockname(held, &at.any, &len), 0);
    udp_rendezvous.close_channel(world.channel);
    assert_null(world.rendezvous->channels);
    aqi_timer_at(world.rendezvous->timer, UINT64_MAX);
    expect_unwatched(fd, &at, held);
    close(fd);
}

/* The socket that called one address of a host is not watched once another is called. */
static void test_held_former_socket(void **state)
{
    int fd = listener_of_a_call(), held = dup(world.channel->end.fd);
    union aqi_sockaddr at;
    socklen_t len = sizeof(at);
    (void)heard(fd, UDP_CALL_KNOCK);
    assert_int_equal(getsockname(held, &at.any, &len), 0);
    int next = stranger("127.0.0.1");
    assert_int_equal(udp_channel_socket(world.channel, next), AQ_OK);
    aqi_timer_at(world.rendezvous->timer, UINT64_MAX);
    world.channel->due = UINT64_MAX;
    expect_unwatched(fd, &at, held);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_malformed_at_a_caller),
        WORLD_TEST(test_answers_of_strangers),
        WORLD_TEST(test_denied_call),
        WORLD_TEST(test_busy_listener),
        WORLD_TEST(test_closed_call),
        WORLD_TEST(test_cookies_at_a_caller),
        WORLD_TEST(test_tries_of_a_caller),
        WORLD_TEST(test_proofs_of_listeners),
        WORLD_TEST(test_taken),
        WORLD_TEST(test_nobody_listens),
        WORLD_TEST(test_held_channel),
        WORLD_TEST(test_held_former_socket),
        WORLD_TEST(test_taken_socket),
        WORLD_TEST(test_answers_of_other_versions),
    };
    if (mac_is_missing()) return 77;
    return cmocka_run_group_tests_name("transport/udp/udp_rendezvous_caller", tests, NULL, NULL);
}
