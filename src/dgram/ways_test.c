/* Two engines on two networks that may each be cut: the ways that they take. */
#include "dgram/dgram.h"
#include "dgram/packet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND 1000000000ull
#define MS     1000000ull

enum { ENDS = 2, NETWORKS = 2, FLYING = 512, LARGEST = 1472 / 16 * 16 };

struct copy {
    uint32_t to;
    size_t len;
    alignas(16) unsigned char bytes[LARGEST];
};

static struct {
    struct aqi_dgram *end[ENDS];
    uint64_t now, random;
    bool cut[NETWORKS];
    bool data_cut; /* of the first, what travels on DATA */
    size_t most;   /* bytes of a packet that the second carries; 0: any */
    unsigned loss; /* in 1/1000 */
    unsigned came[ENDS], lost;
    uint64_t sum[ENDS];
    unsigned flying;
    struct copy *wire;
    struct copy move; /* the first MOVE to 1 */
} net;

static unsigned ways_dice(unsigned sides)
{
    net.random = net.random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(net.random >> 33) % sides;
}

static bool ways_transmit(void *arg, enum aqi_dgram_channel channel,
                          const struct aqi_dgram_addr *to, const struct iovec *iov, unsigned niov,
                          size_t segment, unsigned packets)
{
    static unsigned char all[AQI_DGRAM_BURST + LARGEST];
    unsigned network = to->bytes[1];
    size_t len = 0;
    (void)arg, (void)packets;
    for (unsigned i = 0; i < niov; i++) {
        memcpy(all + len, iov[i].iov_base, iov[i].iov_len);
        len += iov[i].iov_len;
    }
    for (size_t at = 0; at < len; at += segment) {
        struct copy *copy = &net.wire[net.flying];
        if (net.cut[network] || ways_dice(1000) < net.loss || net.flying == FLYING) continue;
        if (net.most != 0 && network == 1 && aqi_min(segment, len - at) > net.most) continue;
        if (net.data_cut && network == 0 && channel == AQI_DGRAM_DATA) continue;
        copy->to = to->bytes[0];
        copy->len = aqi_min(segment, len - at);
        memcpy(copy->bytes, all + at, copy->len);
        if (copy->len == LARGEST && copy->bytes[9] == 8 && copy->to == 1 && net.move.len == 0)
            net.move = *copy;
        net.flying++;
    }
    return true;
}

static void ways_deliver(void *arg, uint32_t source, bool request, unsigned char *message,
                         size_t len)
{
    uint32_t number;
    (void)arg, (void)request, (void)len;
    memcpy(&number, message + 4, sizeof(number));
    net.came[1 - source]++;
    net.sum[1 - source] += number;
}

static aq_status ways_lookup(void *arg, uint32_t id, struct aqi_dgram_addr *addr)
{
    (void)arg;
    *addr = (struct aqi_dgram_addr){.len = 2, .bytes = {(uint8_t)id, 0}};
    return AQ_OK;
}

static bool ways_way(void *arg, uint32_t id, unsigned way, struct aqi_dgram_addr *to,
                     struct aqi_dgram_addr *own)
{
    (void)arg;
    if (way >= NETWORKS) return false;
    *to = (struct aqi_dgram_addr){.len = 2, .bytes = {(uint8_t)id, (uint8_t)way}};
    *own = (struct aqi_dgram_addr){.len = 2, .bytes = {(uint8_t)(1 - id), (uint8_t)way}};
    return true;
}

static void ways_lost(void *arg, uint32_t id, const char *why)
{
    (void)arg, (void)id, (void)why;
    net.lost++;
}

static void ways_mac(void *arg, const uint8_t key[16], const struct iovec *iov, unsigned niov,
                     uint8_t tag[16])
{
    (void)arg;
    memcpy(tag, key, 16);
    for (unsigned i = 0; i < niov; i++)
        for (size_t at = 0; at < iov[i].iov_len; at++)
            tag[at % 16] = (uint8_t)(31 * tag[at % 16] + ((unsigned char *)iov[i].iov_base)[at]);
}

static void begin(uint64_t seed)
{
    memset(&net, 0, sizeof(net));
    net.wire = calloc(FLYING, sizeof(*net.wire));
    assert_non_null(net.wire);
    net.now = 1000;
    net.random = seed;
    for (uint32_t i = 0; i < ENDS; i++) {
        struct aqi_dgram_config config;
        const struct aqi_dgram_hooks hooks = {.transmit = ways_transmit,
                                              .deliver = ways_deliver,
                                              .lookup = ways_lookup,
                                              .way = ways_way,
                                              .lost = ways_lost,
                                              .mac = ways_mac,
                                              .arg = &net};
        aqi_dgram_defaults(&config);
        config.self = i;
        config.size = ENDS;
        config.packet = LARGEST;
        config.epoch = config.seed = 100 + i;
        config.address = (struct aqi_dgram_addr){.len = 2, .bytes = {(uint8_t)i, 0}};
        config.idle_close = 2 * SECOND;
        config.reach_within = 20 * SECOND;
        memcpy(config.key, "a secret of test", 16);
        assert_int_equal(aqi_dgram_create(&config, &hooks, &net.end[i]), AQ_OK);
        assert_int_equal(aqi_dgram_peer(net.end[i], 1 - i), AQ_OK);
    }
}

static void end(void)
{
    for (unsigned i = 0; i < ENDS; i++)
        aqi_dgram_destroy(net.end[i]);
    free(net.wire);
}

static void run(uint64_t ns)
{
    for (uint64_t until = net.now + ns; net.now < until;) {
        uint64_t next = net.flying != 0 ? 0 : until;
        for (unsigned i = 0; i < ENDS; i++)
            next = aqi_min(next, aqi_dgram_deadline(net.end[i]));
        net.now = aqi_max(aqi_min(next, until), net.now + 10000);
        for (unsigned i = 0; i < net.flying; i++) /* with those that are sent meanwhile */
            aqi_dgram_input(net.end[net.wire[i].to], net.wire[i].bytes, net.wire[i].len, true, 0,
                            net.now);
        net.flying = 0;
        for (unsigned i = 0; i < ENDS; i++)
            aqi_dgram_progress(net.end[i], true, net.now);
    }
}

static aq_status say(uint32_t from, uint32_t number)
{
    unsigned char head[32] = {0};
    memcpy(head + 4, &number, sizeof(number));
    return aqi_dgram_send(net.end[from], 1 - from, false, head, sizeof(head), NULL, 0);
}

/* By which network an end sends to the other; NETWORKS: it is not connected. */
static unsigned way_of(unsigned from)
{
    struct aqi_dgram_peer_info info;
    assert_true(aqi_dgram_peer_info(net.end[from], 1 - from, &info));
    return info.connected ? info.addr.bytes[1] : NETWORKS;
}

/* The first, unless nothing comes that way, or only what is small. */
static void test_connects(void **state)
{
    static const struct {
        bool cut, data_cut;
        uint64_t within;
        unsigned way;
    } rows[] = {
        {false, false, 10 * MS, 0}, {true, false, 300 * MS, 1}, {false, true, 3 * SECOND, 1}};
    (void)state;
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        begin(1);
        net.cut[0] = rows[i].cut;
        net.data_cut = rows[i].data_cut;
        assert_int_equal(say(0, 1), AQ_OK);
        run(rows[i].within);
        assert_int_equal(net.came[1], 1);
        assert_int_equal(way_of(0), rows[i].way);
        assert_int_equal(way_of(1), rows[i].way);
        end();
    }
}

/* Both ways, whoever has something to say. */
static void test_moves(void **state)
{
    (void)state;
    for (uint32_t from = 0; from < ENDS; from++) {
        begin(2);
        assert_int_equal(say(0, 1), AQ_OK);
        run(SECOND);
        net.cut[0] = true;
        assert_int_equal(say(from, 2), AQ_OK);
        run(2 * SECOND);
        assert_int_equal(net.came[0] + net.came[1], 2);
        assert_int_equal(way_of(0), 1);
        assert_int_equal(way_of(1), 1);
        net.cut[0] = false;
        net.cut[1] = true;
        assert_int_equal(say(1 - from, 3), AQ_OK);
        run(2 * SECOND);
        assert_int_equal(net.came[0] + net.came[1], 3);
        assert_int_equal(way_of(0), 0);
        assert_int_equal(way_of(1), 0);
        /* A replay of what was said then leads nowhere. */
        assert_int_not_equal(net.move.len, 0);
        aqi_dgram_input(net.end[1], net.move.bytes, net.move.len, true, 0, net.now);
        assert_int_equal(way_of(1), 0);
        end();
    }
}

/* A network for which packets are too large is none; the other may come back. */
static void test_stays(void **state)
{
    (void)state;
    begin(4);
    net.most = 1000;
    assert_int_equal(say(0, 1), AQ_OK);
    run(SECOND);
    net.cut[0] = true;
    assert_int_equal(say(0, 2), AQ_OK);
    run(4 * SECOND);
    assert_int_equal(way_of(0), 0);
    net.cut[0] = false;
    run(SECOND);
    assert_int_equal(net.came[1], 2);
    end();
}

/* A connection that is idle is closed over the way that is left, and the next one made. */
static void test_closes(void **state)
{
    (void)state;
    begin(3);
    assert_int_equal(say(0, 1), AQ_OK);
    run(SECOND);
    net.cut[0] = true;
    run(5 * SECOND);
    assert_int_equal(way_of(0), NETWORKS);
    assert_int_equal(way_of(1), NETWORKS);
    for (uint32_t from = 0; from < ENDS; from++)
        assert_int_equal(say(from, 2), AQ_OK);
    run(SECOND);
    assert_int_equal(net.came[0], 1);
    assert_int_equal(net.came[1], 2);
    end();
}

/* Whatever is cut and when, as long as one of them is not: each message comes once. */
static void test_any_cuts(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t sum[ENDS] = {0};
        unsigned said[ENDS] = {0};
        begin(seed);
        net.loss = ways_dice(100);
        for (unsigned round = 0; round < 30; round++) {
            unsigned network = ways_dice(NETWORKS);
            net.cut[network] = ways_dice(3) != 0;
            net.cut[1 - network] = false;
            for (unsigned i = ways_dice(20); i > 0; i--) {
                uint32_t from = ways_dice(ENDS), number = ways_dice(1 << 30);
                if (say(from, number) != AQ_OK) continue;
                said[from]++;
                sum[from] += number;
            }
            run(ways_dice(2) == 0 ? ways_dice(50) * MS : ways_dice(6) * SECOND);
        }
        run(20 * SECOND);
        for (uint32_t i = 0; i < ENDS; i++) {
            if (net.came[1 - i] != said[i] || net.sum[1 - i] != sum[i])
                fail_msg("seed %u: %u of %u messages of %u have come", (unsigned)seed,
                         net.came[1 - i], said[i], i);
        }
        assert_int_equal(net.lost, 0);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connects), cmocka_unit_test(test_moves),
        cmocka_unit_test(test_stays),    cmocka_unit_test(test_closes),
        cmocka_unit_test(test_any_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
