/* Tests top.c: which users may monitor, how often counters are sent, and their contents. */
#include "base/board.h"
#include "job/shows_world_test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#define MS 1000000ull
/* Maximum number of watchers, as in top.c. */
enum { WATCHERS = 16 };

static int counters = -1; /* of this process, which stands for rank 1 */

static int share(void **state)
{
    return aqi_counters_share(&counters) == AQ_OK ? 0 : -1;
}

static int unshare(void **state)
{
    return close(counters);
}

static int connect_watcher(void)
{
    int fd = aqi_top_connect((unsigned)geteuid(), (int)getpid());
    assert_true(fd >= 0);
    return fd;
}

static int watcher(void)
{
    int fd = connect_watcher();
    aqi_loop_once(0); /* accept it */
    return fd;
}

static void ask(int fd, uint32_t version, uint32_t interval_ms)
{
    const struct aqi_top_ask words = {.version = version, .interval_ms = interval_ms};
    assert_int_equal(send(fd, &words, sizeof(words), MSG_NOSIGNAL), sizeof(words));
}

/* The number of readable bytes; -1: none, 0: closed. */
static ssize_t hear(int fd, struct aqi_top_packet *packet)
{
    ssize_t len = recv(fd, packet, sizeof(*packet), MSG_DONTWAIT);
    if (len < 0) assert_int_equal(errno, EAGAIN);
    return len;
}

static void test_counters(void **state)
{
    uint64_t value[AQI_CTR_COUNT], before = aqi_counter_sum(AQI_CTR_PUT);
    assert_false(aqi_top_counters(1, value));
    aqi_top_take(1, dup(counters));
    aqi_count(AQI_CTR_PUT, 3);
    assert_true(aqi_top_counters(1, value));
    assert_int_equal(value[AQI_CTR_PUT], before + 3);
    assert_false(aqi_top_counters(0, value));
}

/* Counters passed again by a rank are closed. */
static void test_refused_counters(void **state)
{
    aqi_top_take(1, dup(counters));
    int fd = dup(counters);
    aqi_top_take(1, fd);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void test_shown(void **state)
{
    static struct aqi_top_packet packet;
    aqi_top_take(1, dup(counters));
    int fd = watcher();
    shows_at(1000 * MS);
    assert_int_equal(requests, 0);
    ask(fd, aqi_wire_version(AQI_WIRE_TOP), 200);
    shows_at(1000 * MS);
    assert_int_equal(requested_ns, 200 * MS);
    ssize_t len = hear(fd, &packet);
    assert_int_equal(len, offsetof(struct aqi_top_packet, row) + sizeof(packet.row[0]));
    assert_int_equal(packet.version, aqi_wire_version(AQI_WIRE_TOP));
    assert_true(packet.form == aqi_counters_form());
    assert_int_equal(packet.ranks, RANKS);
    assert_int_equal(packet.rows, 1); /* rank 0 has passed none */
    assert_string_equal(packet.host, "here");
    assert_string_equal(packet.program, "./program");
    assert_int_equal(packet.row[0].rank, 1);
    assert_int_equal(packet.row[0].state, AQI_RANK_WAITING);
    assert_int_equal(packet.row[0].looks, 1);
    assert_int_equal(packet.row[0].value[AQI_CTR_PUT], aqi_counter_sum(AQI_CTR_PUT));
    shows_at(1199 * MS); /* sampled, but not shown yet */
    assert_int_equal(hear(fd, &packet), -1);
    aqi_count(AQI_CTR_PUT, 5);
    shows_at(1200 * MS);
    assert_int_equal(hear(fd, &packet), len);
    assert_int_equal(packet.row[0].looks, 2);
    assert_int_equal(packet.row[0].value[AQI_CTR_PUT], aqi_counter_sum(AQI_CTR_PUT));
    close(fd);
    shows_at(1400 * MS);
    assert_int_equal(requested_ns, 0);
    assert_int_equal(aqi_top_tick(1600 * MS), UINT64_MAX);
}

/* The shortest interval counts, within limits. */
static void test_intervals(void **state)
{
    static const struct {
        uint32_t ms;
        uint64_t ns;
    } rows[] = {{0, 100 * MS}, {1, 100 * MS}, {250, 250 * MS}, {UINT32_MAX, 3600000 * MS}};
    int fd = watcher(), other = watcher();
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++) {
        ask(fd, aqi_wire_version(AQI_WIRE_TOP), rows[i].ms);
        shows_at(1);
        assert_int_equal(requested_ns, rows[i].ns);
    }
    ask(other, aqi_wire_version(AQI_WIRE_TOP), 300);
    shows_at(2);
    assert_int_equal(requested_ns, 300 * MS);
    ask(fd, aqi_wire_version(AQI_WIRE_TOP), 200);
    shows_at(3);
    assert_int_equal(requested_ns, 200 * MS);
    close(fd);
    shows_at(4);
    assert_int_equal(requested_ns, 300 * MS);
    close(other);
}

/* Watchers of another version, and too many. */
static void test_refused_watchers(void **state)
{
    static struct aqi_top_packet packet;
    int fds[WATCHERS + 1];
    fds[0] = watcher();
    ask(fds[0], aqi_wire_version(AQI_WIRE_TOP) + 1, 200);
    shows_at(1);
    assert_int_equal(hear(fds[0], &packet), sizeof(packet.version));
    assert_int_equal(packet.version, aqi_wire_version(AQI_WIRE_TOP));
    assert_int_equal(hear(fds[0], &packet), 0);
    assert_int_equal(requests, 0);
    close(fds[0]);
    for (unsigned i = 0; i <= WATCHERS; i++)
        fds[i] = watcher();
    for (unsigned i = 0; i <= WATCHERS; i++) {
        assert_int_equal(hear(fds[i], &packet), i < WATCHERS ? -1 : 0);
        close(fds[i]);
    }
    shows_at(2);
}

/* Without descriptors it waits for some, and does not spin. */
static void test_no_descriptors(void **state)
{
    struct rlimit all, none;
    int fd = connect_watcher();
    ask(fd, aqi_wire_version(AQI_WIRE_TOP), 200);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
    none = all;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    unsigned rounds = 0;
    for (uint64_t until = aqi_now_ns() + 300 * MS; aqi_now_ns() < until; rounds++)
        aqi_loop_once(until);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
    assert_true(rounds < 50);
    uint64_t limit = aqi_now_ns() + 10000 * MS;
    while (requested_ns != 200 * MS) {
        assert_true(aqi_now_ns() < limit);
        aqi_loop_once(aqi_now_ns() + 10 * MS);
        shows_at(aqi_now_ns());
    }
    close(fd);
    shows_at(1);
}

static void ask_peers(int fd)
{
    const struct aqi_top_ask words = {.version = aqi_wire_version(AQI_WIRE_TOP),
                                      .what = AQI_TOP_PEERS};
    assert_int_equal(send(fd, &words, sizeof(words), MSG_NOSIGNAL), sizeof(words));
}

/* All lines of an answer, up to its end. */
static void expect_peers(int fd, unsigned lines)
{
    static struct aqi_top_peers packet;
    unsigned found = 0, packets = 0;
    do {
        aqi_loop_once(0); /* queued packets are sent */
        ssize_t len = recv(fd, &packet, sizeof(packet), MSG_DONTWAIT);
        assert_int_equal(len, offsetof(struct aqi_top_peers, text) + packet.len);
        assert_int_equal(packet.version, aqi_wire_version(AQI_WIRE_TOP));
        assert_int_equal(packet.agents, 1);
        packets++;
        if (packet.len == 0) continue;
        assert_int_equal(packet.text[packet.len - 1], '\n');
        for (uint32_t i = 0; i < packet.len; i++)
            found += packet.text[i] == '\n';
    } while (!packet.last);
    assert_int_equal(found, lines);
    assert_int_equal(recv(fd, &packet, sizeof(packet), MSG_DONTWAIT), -1);
    if (lines != 0) assert_true(packets > 1);
}

/*
 * Every querying client gets all of it, however slowly it reads; and monitoring clients get none.
 */
static void test_peers(void **state)
{
    enum { LINES = 40000 };
    int fds[2] = {watcher(), watcher()}, other = watcher();
    struct aqi_top_packet packet;
    ask(other, aqi_wire_version(AQI_WIRE_TOP), 1000);
    ask_peers(fds[0]);
    shows_at(aqi_now_ns());
    expect_peers(fds[0], 0); /* no rank has joined */
    aqi_hub_started(hub, 1, (int)getpid());
    aqi_hub_joined(hub, 1, (int)getpid(), NULL);
    assert_int_equal(aqi_board_open(LINES * 32), AQ_OK);
    struct aqi_safe_text *text = aqi_board_begin();
    for (unsigned i = 0; i < LINES; i++)
        aqi_safe_add(text, "rank 1: peer 0 up rtt_us 1.000\n");
    aqi_board_end();
    ask_peers(fds[0]);
    ask_peers(fds[1]);
    for (unsigned i = 0; i < 3; i++)
        shows_at(aqi_now_ns());
    for (unsigned i = 0; i < 2; i++) {
        expect_peers(fds[i], LINES);
        close(fds[i]);
    }
    while (hear(other, &packet) > 0)
        assert_true(packet.form == aqi_counters_form());
    close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHOWS_TEST(test_counters),       SHOWS_TEST(test_refused_counters), SHOWS_TEST(test_shown),
        SHOWS_TEST(test_intervals),      SHOWS_TEST(test_refused_watchers), SHOWS_TEST(test_peers),
        SHOWS_TEST(test_no_descriptors),
    };
    return cmocka_run_group_tests(tests, share, unshare);
}
