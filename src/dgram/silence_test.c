/* Two engines and a wire that can be cut: what is said of a peer that does not answer. */
#include "dgram/dgram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND 1000000000ull

enum { NODES = 2, WIRE = 64, PACKET = 1472 / 16 * 16 };

static struct {
    struct aqi_dgram *node[NODES];
    uint64_t now;
    bool cut, data_cut; /* all, and only what travels on DATA */
    unsigned silent, delivered;
    const char *lost;
    unsigned flying;
    struct {
        uint32_t to;
        size_t len;
        alignas(16) unsigned char bytes[PACKET];
    } wire[WIRE];
} world;

static bool silence_transmit(void *arg, enum aqi_dgram_channel channel,
                             const struct aqi_dgram_addr *to, const struct iovec *iov,
                             unsigned niov, size_t segment, unsigned packets)
{
    (void)arg, (void)segment;
    assert_int_equal(packets, 1);
    if (world.cut || (world.data_cut && channel == AQI_DGRAM_DATA) || world.flying == WIRE)
        return true;
    size_t len = 0;
    unsigned char *bytes = world.wire[world.flying].bytes;
    for (unsigned i = 0; i < niov; i++) {
        memcpy(bytes + len, iov[i].iov_base, iov[i].iov_len);
        len += iov[i].iov_len;
    }
    world.wire[world.flying].to = to->bytes[0];
    world.wire[world.flying++].len = len;
    return true;
}

static void silence_deliver(void *arg, uint32_t source, bool request, unsigned char *message,
                            size_t len)
{
    (void)arg, (void)source, (void)request, (void)message, (void)len;
    world.delivered++;
}

static aq_status silence_lookup(void *arg, uint32_t id, struct aqi_dgram_addr *addr)
{
    (void)arg;
    *addr = (struct aqi_dgram_addr){.len = 1, .bytes = {(uint8_t)id}};
    return AQ_OK;
}

static void silence_silent(void *arg, uint32_t id, uint64_t waited)
{
    assert_int_equal(id, 1);
    assert_ptr_equal(arg, &world);
    assert_true(waited >= 5 * SECOND);
    world.silent++;
}

static void silence_lost(void *arg, uint32_t id, const char *why)
{
    (void)arg;
    assert_int_equal(id, 1);
    assert_null(world.lost);
    world.lost = why;
}

static void silence_mac(void *arg, const uint8_t key[16], const struct iovec *iov, unsigned niov,
                        uint8_t tag[16])
{
    (void)arg;
    memcpy(tag, key, 16);
    for (unsigned i = 0; i < niov; i++)
        for (size_t at = 0; at < iov[i].iov_len; at++)
            tag[at % 16] = (uint8_t)(31 * tag[at % 16] + ((unsigned char *)iov[i].iov_base)[at]);
}

static void begin(void)
{
    memset(&world, 0, sizeof(world));
    world.now = 1000;
    for (uint32_t i = 0; i < NODES; i++) {
        struct aqi_dgram_config config;
        const struct aqi_dgram_hooks hooks = {.transmit = silence_transmit,
                                              .deliver = silence_deliver,
                                              .lookup = silence_lookup,
                                              .silent = silence_silent,
                                              .lost = silence_lost,
                                              .mac = silence_mac,
                                              .arg = &world};
        aqi_dgram_defaults(&config);
        config.self = i;
        config.size = NODES;
        config.packet = PACKET;
        config.epoch = config.seed = 100 + i;
        config.address = (struct aqi_dgram_addr){.len = 1, .bytes = {(uint8_t)i}};
        config.idle_close = 2 * SECOND;
        config.reach_within = 10 * SECOND;
        memcpy(config.key, "a secret of test", 16);
        assert_int_equal(aqi_dgram_create(&config, &hooks, &world.node[i]), AQ_OK);
        assert_int_equal(aqi_dgram_peer(world.node[i], 1 - i), AQ_OK);
    }
}

static void end(void)
{
    for (unsigned i = 0; i < NODES; i++)
        aqi_dgram_destroy(world.node[i]);
}

static void run(uint64_t ns)
{
    for (uint64_t until = world.now + ns; world.now < until;) {
        uint64_t next = world.flying != 0 ? 0 : until;
        for (unsigned i = 0; i < NODES; i++)
            next = aqi_min(next, aqi_dgram_deadline(world.node[i]));
        world.now = aqi_max(next, world.now + 10000);
        for (unsigned i = 0; i < world.flying; i++) /* with those that are sent meanwhile */
            aqi_dgram_input(world.node[world.wire[i].to], world.wire[i].bytes, world.wire[i].len,
                            true, 0, world.now);
        world.flying = 0;
        for (unsigned i = 0; i < NODES; i++)
            aqi_dgram_progress(world.node[i], true, world.now);
    }
}

static aq_status say(void)
{
    static const char head[16] = "    a message";
    return aqi_dgram_send(world.node[0], 1, false, head, sizeof(head), NULL, 0);
}

/* The user is warned, and then it is lost; also where only small packets pass. */
static void test_never_reached(void **state)
{
    (void)state;
    for (unsigned small_passes = 0; small_passes < 2; small_passes++) {
        begin();
        world.cut = !small_passes;
        world.data_cut = true;
        assert_int_equal(say(), AQ_OK);
        run(49 * SECOND / 10);
        assert_int_equal(world.silent, 0);
        world.now += 100 * SECOND; /* it was stopped, and did not wait */
        run(9 * SECOND / 10);
        assert_int_equal(world.silent, 1);
        run(3 * SECOND);
        assert_null(world.lost);
        run(3 * SECOND);
        assert_int_equal(world.silent, 1);
        assert_ptr_equal(world.lost, aqi_dgram_unreached);
        assert_int_equal(say(), AQ_EPEER);
        end();
    }
}

/* Who was reached once is not lost, also where it is connected to anew. */
static void test_silent_later(void **state)
{
    struct aqi_dgram_peer_info info;
    (void)state;
    for (unsigned anew = 0; anew < 2; anew++) {
        begin();
        assert_int_equal(say(), AQ_OK);
        run(anew ? 5 * SECOND : SECOND);
        assert_true(aqi_dgram_peer_info(world.node[0], 1, &info));
        assert_true(info.connected == (anew == 0) && info.reached);
        world.cut = true;
        assert_int_equal(say(), AQ_OK);
        run(4 * SECOND);
        assert_int_equal(world.silent, 0);
        run(60 * SECOND);
        assert_int_equal(world.silent, 1);
        assert_null(world.lost);
        world.cut = false;
        run(2 * SECOND);
        assert_int_equal(world.delivered, 2);
        end();
    }
}

/* Nothing is said where nothing is asked, however long; nor of gaps in which answers come. */
static void test_not_silent(void **state)
{
    (void)state;
    begin();
    run(60 * SECOND);
    for (unsigned i = 0; i < 10; i++) {
        world.cut = true;
        assert_int_equal(say(), AQ_OK);
        run(3 * SECOND);
        world.cut = false;
        run(3 * SECOND);
    }
    assert_int_equal(world.delivered, 10);
    assert_int_equal(world.silent, 0);
    assert_null(world.lost);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_reached),
        cmocka_unit_test(test_silent_later),
        cmocka_unit_test(test_not_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
