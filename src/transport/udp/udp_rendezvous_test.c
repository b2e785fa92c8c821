/* A listener for calls over UDP, and packets of strangers. */
#include "base/capture_test.h"
#include "transport/udp/udp_rendezvous_world_test.h"

#include <fcntl.h>

enum {
    EACH = 64,  /* calls of one address that have sent nothing yet */
    ALL = 256,  /* and of all addresses */
    BATCH = 64, /* packets at once */
    PERIOD_SHIFT = 33
};

static const struct udp_secret one = {{1}, true}, other = {{2}, true};

/* A call of a new caller. */
static struct udp_call anybody(void)
{
    struct udp_call call = {0};
    world.callers++;
    memcpy(call.caller, &world.callers, sizeof(world.callers));
    return call;
}

/* When this returns the listener has read it, and has answered or not. */
static void hear(int fd, const void *bytes, size_t len)
{
    unsigned happened = world.rendezvous->happened;
    assert_int_equal(send(fd, bytes, len, 0), len);
    await(((struct udp_end *)world.listener)->fd);
    assert_true(udp_rendezvous_hear_all(world.rendezvous));
    assert_int_equal(world.rendezvous->happened, happened + 1);
}

static void hear_malformed(int fd, const void *bytes, size_t len)
{
    uint64_t dropped = aqi_counter_sum(AQI_CTR_HELLO_DROPPED);
    hear(fd, bytes, len);
    assert_int_equal(aqi_counter_sum(AQI_CTR_HELLO_DROPPED), dropped + 1);
    expect_nothing(fd);
    assert_null(world.rendezvous->channels);
}

static struct udp_call answer(int fd)
{
    struct udp_call call;
    unsigned char bytes[sizeof(call) + 1];
    await(fd);
    assert_int_equal(recv(fd, bytes, sizeof(bytes), 0), sizeof(call));
    assert_true(udp_call_read(world.rendezvous->macs.proofs, bytes, sizeof(call), &call));
    expect_nothing(fd);
    return call;
}

static struct udp_call asked(int fd, enum udp_call_kind kind, struct udp_call *call)
{
    seal(kind, call);
    hear(fd, call, sizeof(*call));
    return answer(fd);
}

static struct udp_call called(int fd, struct udp_call *call)
{
    struct udp_call cookie = asked(fd, UDP_CALL_KNOCK, call);
    assert_int_equal(cookie.kind, UDP_CALL_COOKIE);
    assert_memory_equal(cookie.caller, call->caller, UDP_CALL_BYTES);
    memcpy(call->cookie, cookie.cookie, UDP_CALL_BYTES);
    return asked(fd, UDP_CALL_CALL, call);
}

static unsigned channels(void)
{
    unsigned n = 0;
    for (struct aqi_control_channel *c = world.rendezvous->channels; c != NULL; c = c->next)
        n++;
    return n;
}

static void test_lengths_at_a_listener(void **state)
{
    unsigned char bytes[2048] = {0};
    struct udp_call call = anybody();
    static const size_t lengths[] = {0, 1, 8, sizeof(call) - 1, sizeof(call) + 1, 1472, 2048};
    int fd = stranger("127.0.0.1");
    seal(UDP_CALL_KNOCK, &call);
    memcpy(bytes, &call, sizeof(call));
    for (size_t i = 0; i < AQI_COUNT_OF(lengths); i++)
        hear_malformed(fd, bytes, lengths[i]);
    hear(fd, bytes, sizeof(call));
    assert_int_equal(answer(fd).kind, UDP_CALL_COOKIE);
    assert_null(world.rendezvous->channels);
    close(fd);
}

/* Packets that listeners send, other versions, and packets that are no calls, even with a good
 * cookie. */
static void test_malformed_at_a_listener(void **state)
{
    static const uint8_t zeros[AQI_MAC_BYTES];
    static const enum udp_call_kind answers[] = {0,
                                                 UDP_CALL_COOKIE,
                                                 UDP_CALL_TAKEN,
                                                 UDP_CALL_BUSY,
                                                 UDP_CALL_DENIED,
                                                 UDP_CALL_OTHER,
                                                 UDP_CALL_KINDS,
                                                 255};
    struct udp_call call = anybody(), bad;
    int fd = stranger("127.0.0.1");
    memcpy(call.cookie, asked(fd, UDP_CALL_KNOCK, &call).cookie, UDP_CALL_BYTES);
    for (size_t i = 0; i < AQI_COUNT_OF(answers); i++) {
        seal(answers[i], &call);
        hear_malformed(fd, &call, sizeof(call));
    }
    for (unsigned i = 0; i < 4; i++) {
        struct iovec checked = {&bad, offsetof(struct udp_call, check)};
        seal(i % 2 == 0 ? UDP_CALL_CALL : UDP_CALL_KNOCK, &call);
        bad = call;
        if (i == 1) bad.kind = UDP_CALL_OTHER; /* of another version */
        *(i < 2 ? &bad.version : (uint8_t *)&bad.magic) += 1;
        aqi_mac_of(world.rendezvous->macs.proofs, zeros, &checked, 1, bad.check);
        hear_malformed(fd, &bad, sizeof(bad));
    }
    for (size_t i = 0; i < sizeof(call); i++) {
        seal(UDP_CALL_CALL, &call);
        ((unsigned char *)&call)[i] ^= 1;
        hear_malformed(fd, &call, sizeof(call));
        ((unsigned char *)&call)[i] ^= 1;
    }
    assert_int_equal(asked(fd, UDP_CALL_CALL, &call).kind, UDP_CALL_TAKEN);
    close(fd);
}

/* Callers of another version are sent our version, and nothing else. */
static void test_other_versions(void **state)
{
    static const uint8_t zeros[AQI_MAC_BYTES];
    struct udp_call call = anybody(), said;
    int fd = stranger("127.0.0.1");
    for (unsigned i = 0; i < 2; i++) {
        struct iovec checked = {&call, offsetof(struct udp_call, check)};
        seal(UDP_CALL_KNOCK, &call);
        memset(call.cookie, 0xff, sizeof(call.cookie)); /* whatever that version has there */
        *(i == 0 ? &call.version : &call.packets) += 1;
        aqi_mac_of(world.rendezvous->macs.proofs, zeros, &checked, 1, call.check);
        hear(fd, &call, sizeof(call));
        said = answer(fd);
        assert_int_equal(said.kind, UDP_CALL_OTHER);
        assert_memory_equal(said.caller, call.caller, UDP_CALL_BYTES);
        assert_memory_equal(said.cookie, zeros, UDP_CALL_BYTES);
    }
    assert_null(world.rendezvous->channels);
    close(fd);
}

/* A flood does not keep the process from doing anything else. */
static void test_flood(void **state)
{
    enum { MANY = BATCH + 1 };
    unsigned left = MANY;
    int fd = stranger("127.0.0.1");
    world.rendezvous->happened = 0;
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(send(fd, "", 0, 0), 0);
    while (left != 0) {
        await(((struct udp_end *)world.listener)->fd);
        assert_true(udp_rendezvous_hear_all(world.rendezvous));
        assert_in_range(world.rendezvous->happened, 1, aqi_min(left, BATCH));
        left -= world.rendezvous->happened;
        world.rendezvous->happened = 0;
    }
    assert_false(udp_rendezvous_hear_all(world.rendezvous));
    close(fd);
}

/* The program closes the socket, and opens something else: that is reported once, and nothing waits
 * for it. */
static void test_taken_socket(void **state)
{
    static struct capture capture;
    int fd = ((struct udp_end *)world.listener)->fd, kept = dup(fd);
    int none = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_true(kept >= 0 && none >= 0);
    assert_int_equal(dup2(none, fd), fd);
    capture_start(&capture);
    assert_false(udp_rendezvous_hear_all(world.rendezvous));
    assert_false(udp_rendezvous_hear_all(world.rendezvous));
    const char *text = capture_end(&capture),
               *said = strstr(text, "cannot receive connection requests");
    assert_non_null(said);
    assert_non_null(strstr(said, "must not close descriptors"));
    assert_null(strstr(said + 1, "cannot receive"));
    assert_int_equal(dup2(kept, fd), fd);
    close(kept);
    close(none);
    fd = stranger("127.0.0.1");
    hear_malformed(fd, "", 0);
    close(fd);
}

/* A cookie is valid only for the caller and the address for which it was made. */
static void test_cookies_of_others(void **state)
{
    struct udp_call call = anybody(), another = anybody();
    int fd = stranger("127.0.0.1"), neighbor = stranger("127.0.0.1"), far = stranger("127.0.0.2");
    seal(UDP_CALL_CALL, &call); /* without a cookie */
    hear_malformed(fd, &call, sizeof(call));
    memcpy(call.cookie, asked(fd, UDP_CALL_KNOCK, &call).cookie, UDP_CALL_BYTES);
    memcpy(another.cookie, call.cookie, UDP_CALL_BYTES);
    seal(UDP_CALL_CALL, &another);
    hear_malformed(fd, &another, sizeof(another));
    seal(UDP_CALL_CALL, &call);
    hear_malformed(neighbor, &call, sizeof(call));
    hear_malformed(far, &call, sizeof(call));
    for (unsigned i = 0; i < UDP_CALL_BYTES; i++) {
        call.cookie[i] ^= 0x80;
        seal(UDP_CALL_CALL, &call);
        hear_malformed(fd, &call, sizeof(call));
        call.cookie[i] ^= 0x80;
    }
    assert_int_equal(asked(fd, UDP_CALL_CALL, &call).kind, UDP_CALL_TAKEN);
    close(fd), close(neighbor), close(far);
}

/* Cookies of this period and the last are valid. */
static void test_old_cookies(void **state)
{
    struct udp_call call = anybody();
    int fd = stranger("127.0.0.1");
    const uint64_t period = 1ull << PERIOD_SHIFT;
    world.rendezvous->now = 1000 * period;
    memcpy(call.cookie, asked(fd, UDP_CALL_KNOCK, &call).cookie, UDP_CALL_BYTES);
    seal(UDP_CALL_CALL, &call);
    world.rendezvous->now = 1000 * period - 1;
    hear_malformed(fd, &call, sizeof(call));
    world.rendezvous->now = 1002 * period;
    hear_malformed(fd, &call, sizeof(call));
    world.rendezvous->now = 1002 * period - 1;
    assert_int_equal(asked(fd, UDP_CALL_CALL, &call).kind, UDP_CALL_TAKEN);
    world.rendezvous->now = 1001 * period - 1;
    assert_int_equal(asked(fd, UDP_CALL_CALL, &call).kind, UDP_CALL_TAKEN);
    assert_int_equal(channels(), 1);
    close(fd);
}

static void expect_same(const struct udp_call *a, const struct udp_call *b)
{
    assert_int_equal(a->kind, UDP_CALL_TAKEN);
    assert_int_equal(b->kind, UDP_CALL_TAKEN);
    assert_int_equal(a->port, b->port);
    assert_memory_equal(a->listener, b->listener, UDP_CALL_BYTES);
}

/* A repeated call gets the same answer, and nothing else. */
static void test_repeated_calls(void **state)
{
    struct udp_call call = anybody(), next = anybody();
    int fd = stranger("127.0.0.1");
    union aqi_sockaddr own;
    socklen_t len = sizeof(own);
    struct udp_call taken = called(fd, &call);
    assert_int_equal(getsockname(world.rendezvous->channels->end.fd, &own.any, &len), 0);
    assert_int_equal(own.v4.sin_port, taken.port);
    assert_int_equal(own.v4.sin_addr.s_addr, world.at.v4.sin_addr.s_addr);
    assert_int_not_equal(taken.port, world.at.v4.sin_port);
    for (unsigned i = 0; i < 3; i++) {
        struct udp_call again = called(fd, &call);
        expect_same(&again, &taken);
        assert_int_equal(channels(), 1);
    }
    struct udp_call second = called(fd, &next);
    assert_int_equal(second.kind, UDP_CALL_TAKEN);
    assert_int_not_equal(second.port, taken.port);
    assert_memory_not_equal(second.listener, taken.listener, UDP_CALL_BYTES);
    assert_int_equal(channels(), 2);
    assert_int_equal(world.calls, 0);
    close(fd);
}

static void test_secrets_of_callers(void **state)
{
    static const struct udp_secret nothing;
    const struct udp_secret *const secrets[] = {&nothing, &one, &other};
    int fd = stranger("127.0.0.1");
    for (unsigned i = 0; i < 9; i++) {
        const struct udp_secret *ours = secrets[i / 3], *theirs = secrets[i % 3];
        struct udp_call call = anybody();
        uint64_t dropped = aqi_counter_sum(AQI_CTR_HELLO_DROPPED);
        unsigned before = channels();
        memcpy(call.cookie, asked(fd, UDP_CALL_KNOCK, &call).cookie, UDP_CALL_BYTES);
        world.rendezvous->secret = *ours;
        udp_call_seal(world.rendezvous->macs.proofs, theirs, UDP_CALL_CALL, &call);
        hear(fd, &call, sizeof(call));
        struct udp_call back = answer(fd);
        assert_int_equal(back.kind, ours == theirs ? UDP_CALL_TAKEN : UDP_CALL_DENIED);
        assert_int_equal(channels(), before + (ours == theirs));
        assert_int_equal(aqi_counter_sum(AQI_CTR_HELLO_DROPPED), dropped + (ours != theirs));
        if (ours == theirs)
            assert_true(udp_call_proved(world.rendezvous->macs.proofs, theirs, &back));
    }
    close(fd);
}

/* The limit of calls per address, whatever the port. Calls that have sent a message do not count,
 * nor do calls of ours. */
static void test_room_of_an_address(void **state)
{
    static const uint8_t zeros[UDP_CALL_BYTES];
    int fds[2] = {stranger("127.0.0.1"), stranger("127.0.0.1")}, far = stranger("127.0.0.2");
    struct udp_call last = {0}, call;
    assert_non_null(udp_channel_new(world.rendezvous, true));
    for (unsigned i = 0; i < EACH; i++) {
        last = anybody();
        assert_int_equal(called(fds[i % 2], &last).kind, UDP_CALL_TAKEN);
    }
    for (unsigned i = 0; i < 2; i++) {
        call = anybody();
        struct udp_call busy = called(fds[i], &call);
        assert_int_equal(busy.kind, UDP_CALL_BUSY);
        assert_int_equal(busy.port, 0);
        assert_memory_equal(busy.listener, zeros, UDP_CALL_BYTES);
    }
    /* There is room for a call that was already taken, and for other addresses. */
    assert_int_equal(called(fds[(EACH - 1) % 2], &last).kind, UDP_CALL_TAKEN);
    call = anybody();
    assert_int_equal(called(far, &call).kind, UDP_CALL_TAKEN);
    for (struct aqi_control_channel *c = world.rendezvous->channels; c != NULL; c = c->next)
        if (memcmp(c->call.caller, last.caller, UDP_CALL_BYTES) == 0) c->state = UDP_CHANNEL_OPEN;
    call = anybody();
    assert_int_equal(called(fds[0], &call).kind, UDP_CALL_TAKEN);
    struct aqi_control_channel *refused = world.rendezvous->channels;
    assert_memory_equal(refused->call.caller, call.caller, UDP_CALL_BYTES);
    call = anybody();
    assert_int_equal(called(fds[0], &call).kind, UDP_CALL_BUSY);
    /* A refused call keeps its socket until its caller has acknowledged that. */
    refused->state = UDP_CHANNEL_OPEN;
    udp_channel_close(refused);
    assert_int_equal(called(fds[0], &call).kind, UDP_CALL_BUSY);
    udp_channel_free(refused);
    assert_int_equal(called(fds[0], &call).kind, UDP_CALL_TAKEN);
    close(fds[0]), close(fds[1]), close(far);
}

static void test_room_in_all(void **state)
{
    struct udp_call call;
    char ip[16];
    for (unsigned i = 0; i < ALL / EACH; i++) {
        snprintf(ip, sizeof(ip), "127.0.0.%u", i + 1);
        int fd = stranger(ip);
        for (unsigned n = 0; n < EACH; n++) {
            call = anybody();
            assert_int_equal(called(fd, &call).kind, UDP_CALL_TAKEN);
        }
        close(fd);
    }
    int fd = stranger("127.0.0.100");
    for (unsigned i = 0; i < 2; i++) {
        call = anybody();
        assert_int_equal(called(fd, &call).kind, UDP_CALL_BUSY);
        assert_int_equal(channels(), ALL);
    }
    udp_channel_free(world.rendezvous->channels);
    assert_int_equal(called(fd, &call).kind, UDP_CALL_TAKEN);
    close(fd);
}

/* A call that was taken, but sends nothing, is dropped after a time, and not announced. */
static void test_callers_that_say_nothing(void **state)
{
    const uint64_t timeout = 5000000000;
    struct udp_call call = anybody();
    int fd = stranger("127.0.0.1");
    world.rendezvous->now = 1000 * timeout;
    assert_int_equal(called(fd, &call).kind, UDP_CALL_TAKEN);
    struct aqi_control_channel *channel = world.rendezvous->channels;
    assert_ptr_equal(channel->listener, world.listener);
    world.rendezvous->now += timeout - 1;
    udp_channel_turn(channel);
    assert_int_equal(channel->state, UDP_CHANNEL_TAKEN);
    world.rendezvous->now++;
    udp_channel_turn(channel);
    assert_int_equal(channel->state, UDP_CHANNEL_OVER);
    assert_true(udp_channel_done(channel));
    assert_int_equal(world.calls + world.ends, 0);
    close(fd);
}

/*
 * The timer may expire after progress has read a clock by which nothing is due yet. It must wake
 * the program again, or nothing would while the other side is silent.
 */
static void test_timer_during_progress(void **state)
{
    struct udp_call call = anybody();
    int fd = stranger("127.0.0.1");
    udp_config.keepalive_ns = 400000000; /* a turn every eighth of it */
    assert_int_equal(called(fd, &call).kind, UDP_CALL_TAKEN);
    (void)udp_rendezvous.progress(world.rendezvous);
    aqi_timer_at(world.rendezvous->timer, 1); /* before `timer_at`: after the clock was read */
    await(world.rendezvous->timer);
    (void)udp_rendezvous.progress(world.rendezvous);
    await(udp_rendezvous.wait_fd(world.rendezvous));
    close(fd);
}

static void test_calls_when_a_listener_ends(void **state)
{
    struct udp_call call = anybody();
    int fd = stranger("127.0.0.1");
    assert_int_equal(called(fd, &call).kind, UDP_CALL_TAKEN);
    udp_rendezvous.unlisten(world.rendezvous, world.listener);
    assert_null(world.rendezvous->listeners);
    assert_null(world.rendezvous->channels->listener);
    assert_true(world.rendezvous->channels->closed);
    close(fd);
}

/* The same over IPv6: the channel is at the address that was called. */
static void test_ipv6(void **state)
{
    union aqi_sockaddr at = {.any = {.sa_family = AF_INET6}}, own;
    socklen_t len = sizeof(at);
    char uri[AQI_URI_MAX];
    struct udp_call call = anybody();
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    at.v6.sin6_addr = in6addr_loopback;
    if (fd < 0 || bind(fd, &at.any, sizeof(at.v6)) != 0) skip(); /* this host has no IPv6 */
    assert_int_equal(
        udp_rendezvous.listen(world.rendezvous, "udp://[::1]:0", &world, &world.listener, uri),
        AQ_OK);
    assert_int_equal(getsockname(((struct udp_end *)world.listener)->fd, &at.any, &len), 0);
    assert_int_equal(connect(fd, &at.any, len), 0);
    struct udp_call taken = called(fd, &call);
    assert_int_equal(taken.kind, UDP_CALL_TAKEN);
    assert_int_equal(
        getsockname(world.rendezvous->channels->end.fd, &own.any, &(socklen_t){sizeof(own)}), 0);
    assert_int_equal(own.v6.sin6_port, taken.port);
    assert_memory_equal(&own.v6.sin6_addr, &in6addr_loopback, sizeof(in6addr_loopback));
    for (unsigned i = 1; i <= EACH; i++) {
        call = anybody();
        assert_int_equal(called(fd, &call).kind, i < EACH ? UDP_CALL_TAKEN : UDP_CALL_BUSY);
    }
    close(fd);
}

/* Its socket, which a forked child may hold, is no longer watched. */
static void test_held_listener(void **state)
{
    int held = dup(((struct udp_end *)world.listener)->fd), fd = stranger("127.0.0.1");
    udp_rendezvous.unlisten(world.rendezvous, world.listener);
    expect_unwatched(fd, &world.at, held);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_lengths_at_a_listener),
        WORLD_TEST(test_malformed_at_a_listener),
        WORLD_TEST(test_other_versions),
        WORLD_TEST(test_flood),
        WORLD_TEST(test_taken_socket),
        WORLD_TEST(test_cookies_of_others),
        WORLD_TEST(test_old_cookies),
        WORLD_TEST(test_repeated_calls),
        WORLD_TEST(test_secrets_of_callers),
        WORLD_TEST(test_room_of_an_address),
        WORLD_TEST(test_room_in_all),
        WORLD_TEST(test_callers_that_say_nothing),
        WORLD_TEST(test_timer_during_progress),
        WORLD_TEST(test_calls_when_a_listener_ends),
        WORLD_TEST(test_ipv6),
        WORLD_TEST(test_held_listener),
    };
    if (mac_is_missing()) return 77;
    return cmocka_run_group_tests_name("transport/udp/udp_rendezvous", tests, NULL, NULL);
}
