/*
 * Links and strangers: callers without the key, an intermediary between two hosts, and impostors
 * that answer in a host's place.
 */
#include "job/link_world_test.h"

#include "base/log.h"

#include <fcntl.h>
#include <sys/resource.h>

enum { CHALLENGE_LEN = 24, CALL_LEN = 52, FLOOD = 500, RECORD = 1 << 16 };

/* An intermediary that forwards one connection, and records, alters, cuts or delays it. */
struct direction {
    struct aqi_source source;
    struct direction *other;
    size_t passed;
    size_t flip_at, cut_at, slow_at; /* SIZE_MAX: nowhere */
    uint8_t record[RECORD];
};
static struct {
    struct aqi_source listener;
    uint16_t port, to;
    char at[64];
    struct direction side[2]; /* from the caller, from the listener */
} relay;

static void relay_cut(void)
{
    aqi_source_close(&relay.side[0].source);
    aqi_source_close(&relay.side[1].source);
}

static void relay_pass(struct aqi_source *source)
{
    struct direction *side = AQI_OF(source, struct direction, source);
    uint8_t bytes[4096];
    size_t most = sizeof(bytes);
    if (side->passed < side->slow_at)
        most = aqi_min(most, side->slow_at - side->passed);
    else
        most = 1;
    if (side->passed < side->cut_at) most = aqi_min(most, side->cut_at - side->passed);
    ssize_t len = recv(source->fd, bytes, most, MSG_DONTWAIT);
    if (len < 0 && errno == EAGAIN) return;
    if (len <= 0) {
        relay_cut();
        return;
    }
    size_t n = (size_t)len;
    if (side->flip_at - side->passed < n) bytes[side->flip_at - side->passed] ^= 0x20;
    if (side->passed < RECORD)
        memcpy(side->record + side->passed, bytes, aqi_min(n, RECORD - side->passed));
    side->passed += n;
    if (send(side->other->source.fd, bytes, n, MSG_NOSIGNAL) != len || side->passed == side->cut_at)
        relay_cut();
    /* The next byte is sent when the test says so. */
    else if (side->passed >= side->slow_at)
        aqi_source_watch(source, 0);
}

static void relay_accept(struct aqi_source *source)
{
    int caller = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(caller >= 0);
    const int fds[] = {caller, world_raw(relay.to)};
    for (unsigned i = 0; i < 2; i++) {
        struct direction *side = &relay.side[i];
        side->other = &relay.side[1 - i];
        aqi_source_open(&side->source, fds[i], relay_pass);
    }
    for (unsigned i = 0; i < 2; i++)
        aqi_source_watch(&relay.side[i].source, EPOLLIN);
    aqi_source_close(source);
}

static void relay_open(uint16_t to)
{
    for (unsigned i = 0; i < 2; i++) {
        struct direction *side = &relay.side[i];
        side->source.fd = -1;
        side->passed = 0;
        side->flip_at = side->cut_at = side->slow_at = SIZE_MAX;
    }
    relay.to = to;
    aqi_source_open(&relay.listener, world_raw_listener(1, &relay.port), relay_accept);
    aqi_source_watch(&relay.listener, EPOLLIN);
    snprintf(relay.at, sizeof(relay.at), "127.0.0.1:%u", relay.port);
}

static void relay_close(void)
{
    relay_cut();
    aqi_source_close(&relay.listener);
}

/* Read what a listener sends before it closes the connection. */
static size_t hear_raw(int fd, uint8_t *bytes, size_t room)
{
    size_t len = 0;
    for (;;) {
        ssize_t n = recv(fd, bytes + len, room - len, MSG_DONTWAIT);
        if (n > 0) len += (size_t)n;
        if (n == 0 || (n < 0 && errno != EAGAIN)) return len;
        world_round(aqi_now_ns() + 10 * MS);
    }
}

/* A caller that begins incorrectly, or proves nothing, gets the version and nothing else. */
static void test_garbage(void **state)
{
    static uint8_t much[1u << 16], said[256];
    static const struct {
        const char *bytes;
        size_t len;
        const char *why;
    } rows[] = {{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, "another program"},
                {"\0\0\0\0\0\0\0\0\0\0", 10, "another program"},
                {"aqlink\3\0", 8, "version 3"},
                {"aqlink\2\0aaaabbbbccccddddddddddddddddeeeeeeeeeeeeeeee", 52, "the key"},
                {NULL, 0, "another program"}};
    world_open_all(10 * SECONDS, 0);
    world_connect();
    hosts[0].echo = true;
    memset(much, 'x', sizeof(much));
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
        const void *bytes = rows[i].bytes != NULL ? (const void *)rows[i].bytes : much;
        size_t len = rows[i].bytes != NULL ? rows[i].len : sizeof(much);
        int fd = world_raw(hosts[0].port);
        hosts[0].links->stranger_ns = 0; /* let it report this one at once */
        assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
        size_t heard = hear_raw(fd, said, sizeof(said));
        assert_true(heard == CHALLENGE_LEN || heard == 0); /* a reset may have overtaken it */
        if (heard != 0) assert_memory_equal(said, "aqlink\2\0", 8);
        UNTIL(hosts[0].strangers == i + 1);
        assert_non_null(strstr(hosts[0].stranger, rows[i].why));
        assert_non_null(strstr(hosts[0].stranger, "127.0.0.1:"));
        close(fd);
    }
    world_send(hosts[1].link, "still", 5);
    UNTIL(hosts[1].frames == 1);
    assert_int_equal(hosts[0].opened, 1);
    /* A caller that merely checks whether the port is open is not reported. */
    close(world_raw(hosts[0].port));
    UNTIL(world_strangers() == 0);
    world_run(50 * MS);
    assert_int_equal(hosts[0].strangers, AQI_COUNT_OF(rows));
    assert_int_equal(hosts[0].links->strangers_unreported, 0);
}

/* A caller that sends byte by byte, or nothing, is cut off after the usual time. */
static void test_slow(void **state)
{
    static const char head[] = "aqlink\2\0";
    world_open_all(10 * SECONDS, 300 * MS);
    uint64_t began = aqi_now_ns();
    int slow = world_raw(hosts[0].port), still = world_raw(hosts[0].port);
    unsigned sent = 0;
    UNTIL(world_strangers() == 2);
    while (!world_raw_ended(slow)) {
        if (sent < 40) (void)!send(slow, &head[sent < 8 ? sent : 8], 1, MSG_NOSIGNAL);
        sent++;
        world_run(20 * MS);
    }
    assert_true(sent < 40); /* it was cut off: bytes do not extend its time */
    UNTIL(world_raw_ended(still));
    uint64_t took = aqi_now_ns() - began;
    assert_true(took >= 300 * MS && took < 20 * SECONDS);
    UNTIL(world_strangers() == 0);
    close(slow);
    close(still);
}

/* A job survives a flood of connections, and others can still join it. */
static void test_flood(void **state)
{
    static int fds[FLOOD];
    unsigned most = 0;
    world_open_all(10 * SECONDS, 1 * SECONDS);
    world_connect();
    hosts[0].echo = hosts[1].echo = true;
    const struct sockaddr_in at = world_local(hosts[0].port);
    for (unsigned i = 0; i < FLOOD; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_true(fds[i] >= 0);
        if (connect(fds[i], (const struct sockaddr *)&at, sizeof(at)) != 0)
            assert_int_equal(errno, EINPROGRESS);
        if (i == FLOOD / 2) world_call(2, 0, hosts[0].at, 50 * SECONDS);
    }
    unsigned accepting = 0;
    world_send(hosts[1].link, "turn", 4);
    do {
        world_round(aqi_now_ns() + 10 * MS);
        struct aqi_links *links = hosts[0].links;
        most = (unsigned)aqi_max(most, links->strangers);
        accepting = 0;
        for (unsigned i = 0; i < FLOOD; i++)
            accepting += !world_raw_ended(fds[i]);
    } while (accepting > AQI_LINK_STRANGERS);
    assert_in_range(most, AQI_LINK_STRANGERS / 2, AQI_LINK_STRANGERS);
    assert_true(hosts[1].frames >= FLOOD / 16 / 4);
    hosts[1].echo = false;
    UNTIL(hosts[2].opened == 1);
    UNTIL(world_strangers() == 0);
    for (unsigned i = 0; i < FLOOD; i++) {
        assert_true(world_raw_ended(fds[i]));
        close(fds[i]);
    }
    assert_true(hosts[0].strangers >= 1);
    assert_int_equal(hosts[0].ended + hosts[1].ended + hosts[2].ended, 0);
}

/* Without descriptors the listener pauses: others wait, and it does not spin. */
static void test_no_descriptors(void **state)
{
    enum { CALLERS = 8 };
    int fds[CALLERS];
    struct rlimit limit, low;
    world_open_all(10 * SECONDS, 10 * SECONDS);
    world_connect();
    hosts[0].echo = true;
    for (unsigned i = 0; i < CALLERS; i++)
        fds[i] = world_raw(hosts[0].port);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = (rlim_t)fds[CALLERS - 1] + 1; /* all below are taken */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    unsigned rounds = 0;
    for (uint64_t until = aqi_now_ns() + 500 * MS; aqi_now_ns() < until; rounds++)
        world_round(until);
    assert_true(rounds < 100);
    assert_non_null(strstr(hosts[0].stranger, "no file descriptor"));
    world_send(hosts[1].link, "still", 5);
    UNTIL(hosts[1].frames == 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    world_call(2, 0, hosts[0].at, 50 * SECONDS);
    UNTIL(hosts[2].opened == 1);
    for (unsigned i = 0; i < CALLERS; i++)
        close(fds[i]);
}

static void test_reset(void **state)
{
    const struct linger now = {.l_onoff = 1};
    world_open_all(10 * SECONDS, 0);
    world_connect();
    int fd = hosts[1].link->source.fd;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
    world_send(hosts[0].link, "on its way", 10);
    aqi_links_close(hosts[1].links);
    hosts[1].links = NULL;
    UNTIL(hosts[0].ended == 1);
    assert_int_equal(hosts[0].status, AQ_ESYS);
    assert_non_null(strstr(hosts[0].why, "host 1 (127.0.0.1:"));
    assert_non_null(strstr(hosts[0].why, "the process there has ended"));
    /* In the middle of the handshake. */
    for (size_t len = 0; len < CALL_LEN; len += 13) {
        fd = world_raw(hosts[0].port);
        assert_int_equal(send(fd, "aqlink\2\0aaaabbbbccccddddddddddddddddeeeeeeeeeeeeeeee", len, 0),
                         len);
        UNTIL(world_strangers() == 1);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
        close(fd);
        UNTIL(world_strangers() == 0);
    }
    assert_int_equal(hosts[0].opened, 1);
}

/* A recorded session, replayed: its proof is of a challenge that is not used again. */
static void test_replay(void **state)
{
    uint8_t said[256];
    world_open_all(10 * SECONDS, 0);
    relay_open(hosts[0].port);
    world_call(1, 0, relay.at, 30 * SECONDS);
    UNTIL(hosts[0].link != NULL && hosts[1].link != NULL);
    world_send(hosts[1].link, "end the job", 11);
    UNTIL(hosts[0].frames == 1);
    aqi_link_close(hosts[1].link, 0);
    UNTIL(hosts[0].ended == 1 && hosts[1].ended == 1);
    const struct direction *side = &relay.side[0];
    assert_true(side->passed > CALL_LEN + 11 && side->passed < RECORD);
    int fd = world_raw(hosts[0].port);
    assert_int_equal(send(fd, side->record, side->passed, MSG_NOSIGNAL), side->passed);
    assert_true(hear_raw(fd, said, sizeof(said)) <= CHALLENGE_LEN);
    close(fd);
    UNTIL(hosts[0].strangers == 1);
    assert_non_null(strstr(hosts[0].stranger, "the key"));
    assert_int_equal(hosts[0].frames, 1);
    assert_int_equal(hosts[0].opened, 1);
    relay_close();
}

/* Host 1 sends three frames to host 0 through the intermediary. */
static void send_past(void)
{
    static const char *const frames[] = {"one", "a second frame", "three"};
    world_call(1, 0, relay.at, 100 * MS);
    UNTIL(hosts[1].link != NULL || hosts[1].ended != 0);
    for (unsigned i = 0; i < 3 && hosts[1].link != NULL; i++)
        world_send(hosts[1].link, frames[i], strlen(frames[i]));
}

/*
 * Any byte is altered, or the connection is cut at any byte: all frames before it arrive intact,
 * and both sides are notified.
 */
static void test_intermediary(void **state)
{
    uint64_t sums[4] = {AQI_HASH_SEED};
    sums[1] = world_sum(sums[0], (const uint8_t *)"one", 3);
    sums[2] = world_sum(sums[1], (const uint8_t *)"a second frame", 14);
    sums[3] = world_sum(sums[2], (const uint8_t *)"three", 5);
    /* CALL, a keep-alive, three frames. */
    const size_t whole = CALL_LEN + 24 + 23 + 34 + 25;
    for (unsigned cut = 0; cut < 2; cut++)
        for (size_t at = cut; at < whole; at += 5) {
            world_open(0, 1 * SECONDS, 1 * SECONDS);
            world_open(1, 1 * SECONDS, 1 * SECONDS);
            relay_open(hosts[0].port);
            *(cut ? &relay.side[0].cut_at : &relay.side[0].flip_at) = at;
            send_past();
            UNTIL(hosts[1].ended != 0 && (hosts[0].opened == 0 || hosts[0].ended == 1));
            bool shaking = cut ? at <= CALL_LEN : at < CALL_LEN;
            if (shaking) assert_int_equal(hosts[0].frames, 0);
            assert_true(hosts[0].frames < 4 && hosts[0].sum == sums[hosts[0].frames]);
            assert_true(hosts[0].frames < 3 || (cut && at == whole));
            if (!shaking && !cut && hosts[0].status != AQ_ETIMEOUT) {
                assert_int_equal(hosts[0].status, AQ_EPROTO);
                assert_non_null(strstr(hosts[0].why, "modified in transit"));
            }
            relay_close();
            aqi_links_close(hosts[0].links);
            aqi_links_close(hosts[1].links);
            hosts[0].links = hosts[1].links = NULL;
        }
}

/* Bytes that trickle in do not count as keep-alives: only authenticated frames do. */
static void test_trickle(void **state)
{
    static uint8_t bytes[65536];
    world_open(0, 500 * MS, 0);
    world_open(1, 30 * SECONDS, 0);
    relay_open(hosts[0].port);
    world_call(1, 0, relay.at, 30 * SECONDS);
    UNTIL(hosts[0].link != NULL && hosts[1].link != NULL);
    struct direction *side = &relay.side[0];
    side->slow_at = side->passed;
    world_send(hosts[1].link, bytes, sizeof(bytes));
    size_t trickled = 0;
    while (hosts[0].ended == 0) {
        aqi_source_watch(&side->source, EPOLLIN);
        world_run(20 * MS);
        trickled++;
        assert_in_range(trickled, 1, 2000);
    }
    assert_true(side->passed > side->slow_at);
    assert_int_equal(hosts[0].status, AQ_ETIMEOUT);
    assert_int_equal(hosts[0].frames, 0);
    relay_close();
}

/* Another process answers at the address of a host, and is not that host. */
static void answer(int listener, const char *bytes, size_t len, bool stay)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
        world_round(aqi_now_ns() + 5 * MS);
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
    if (!stay) shutdown(fd, SHUT_WR);
    UNTIL(world_raw_ended(fd));
    close(fd);
}

/*
 * A host that closes the connection is called again until the time is up: now, between two calls.
 */
static void expire(struct aqi_link *link)
{
    UNTIL(link->source.fd < 0);
    link->deadline_ns = world_ns;
    link_due(link->links, world_ns);
}

static void test_impostors(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        bool stay;
        const char *why;
        aq_status status;
    } rows[] = {
        {"SSH-2.0-OpenSSH_9.2p1\r\n", 23, true, "another program", AQ_EPROTO},
        {"aqlink\3\0aaaaaaaaaaaaaaaa", 24, true, "uses version 3", AQ_EPROTO},
        {"aqlink\2\0aaaaaaaaaaaaaaaabbbbcccccccccccccccc", 44, true, "the key", AQ_EACCESS},
        {"aqlink\2\0aaaaaaaa", 16, true, "did not prove in time", AQ_ETIMEOUT},
        {"", 0, true, "did not prove in time", AQ_ETIMEOUT},
        {"", 0, false, "without an answer", AQ_EPEER},
        {"aqlink\2\0aaaaaaaaaaaaaaaa", 24, false, "instead of proving", AQ_EPEER},
    };
    uint16_t port;
    char at[64];
    world_open_all(10 * SECONDS, 200 * MS);
    int listener = world_raw_listener(8, &port);
    assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
    snprintf(at, sizeof(at), "127.0.0.1:%u", port);
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
        struct aqi_link *link = world_call(1, 0, at, 30 * SECONDS);
        answer(listener, rows[i].bytes, rows[i].len, rows[i].stay);
        if (!rows[i].stay) {
            answer(listener, rows[i].bytes, rows[i].len, false);
            expire(link);
        }
        UNTIL(hosts[1].ended == i + 1);
        assert_non_null(strstr(hosts[1].why, at));
        assert_int_equal(hosts[1].status, rows[i].status);
        if (rows[i].stay) assert_non_null(strstr(hosts[1].why, rows[i].why));
    }
    assert_int_equal(hosts[1].opened, 0);
    close(listener);
}

/* A host of another job. */
static void test_other_job(void **state)
{
    world_open_all(10 * SECONDS, 0);
    hosts[1].links->job.key[3] ^= 1;
    struct aqi_link *link = world_call(1, 0, hosts[0].at, 30 * SECONDS);
    UNTIL(hosts[0].strangers != 0);
    expire(link);
    UNTIL(hosts[1].ended == 1);
    assert_int_equal(hosts[1].status, AQ_EPEER);
    assert_non_null(strstr(hosts[1].why, "instead of proving that it belongs to this job"));
    assert_non_null(strstr(hosts[0].stranger, "does not know the key"));
    assert_int_equal(hosts[0].opened + hosts[1].opened, 0);
}

/* A host of the job that sends invalid frames: of unknown kind, or of the wrong length. */
static void test_malformed_frames(void **state)
{
    enum { DATA = 1, BEAT, LAST, KINDS };
    static const struct {
        uint8_t kind;
        size_t len;
    } rows[] = {{BEAT, 0},  {BEAT, 3},  {BEAT, 5},      {LAST, 1},     {LAST, 4},
                {KINDS, 0}, {KINDS, 4}, {UINT8_MAX, 0}, {UINT8_MAX, 4}};
    static const uint8_t payload[8];
    world_open_all(10 * SECONDS, 0);
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
        uint8_t frame[AQI_SEAL_HEAD + sizeof(payload) + AQI_SEAL_TAG];
        size_t whole = AQI_SEAL_HEAD + rows[i].len + AQI_SEAL_TAG;
        char why[64];
        world_connect();
        struct aqi_link *link = hosts[1].link;
        world_send(link, "first", 5); /* from this number on, the frames are ours */
        UNTIL(hosts[0].frames == i + 1);
        memcpy(frame + AQI_SEAL_HEAD, payload, rows[i].len);
        aqi_seal_frame(&link->seal, rows[i].kind, payload, rows[i].len, frame,
                       frame + whole - AQI_SEAL_TAG);
        assert_int_equal(send(link->source.fd, frame, whole, MSG_NOSIGNAL), whole);
        UNTIL(hosts[0].ended == i + 1 && hosts[1].ended == i + 1);
        assert_int_equal(hosts[0].status, AQ_EPROTO);
        snprintf(why, sizeof(why), "malformed frame of kind %u with %zu bytes", rows[i].kind,
                 rows[i].len);
        assert_non_null(strstr(hosts[0].why, why));
    }
}

int main(void)
{
    (void)aqi_log_configure("off");
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_garbage),
        WORLD_TEST(test_slow),
        WORLD_TEST(test_flood),
        WORLD_TEST(test_no_descriptors),
        WORLD_TEST(test_reset),
        WORLD_TEST(test_replay),
        WORLD_TEST(test_intermediary),
        WORLD_TEST(test_trickle),
        WORLD_TEST(test_impostors),
        WORLD_TEST(test_other_job),
        WORLD_TEST(test_malformed_frames),
    };
    return cmocka_run_group_tests(tests, world_group_setup, NULL);
}
