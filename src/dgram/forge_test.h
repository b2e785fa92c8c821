/*
 * A process that is lied to: three connected engines, and packets that the engine of the first
 * would not send, with the cookies and numbers that it would use.
 */
#ifndef DGRAM_FORGE_TEST_H
#define DGRAM_FORGE_TEST_H

#include "base/iov.h"
#include "dgram/dgram_impl.h"
#include "dgram/mac_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 3, LIAR = 0, FRIEND = 1, VICTIM = 2, WIRE = 256, MOST = 1000, REACH = 4096 };

static struct {
    struct aqi_dgram *dgram[NODES];
    struct {
        uint8_t from, to;
        size_t len;
        alignas(16) unsigned char bytes[2048];
    } wire[WIRE];
    unsigned flying;
    uint64_t now;
    bool cut; /* packets of the victim stay on the wire */
    unsigned delivered, requests, completed, lost;
    size_t delivered_len;
    aq_status status;
    char why[200];
} world;

static unsigned char reach[REACH + 64];                /* the victim's; REACH bytes are for peers */
static __attribute__((unused)) unsigned char got[512]; /* where its gets go */

static inline bool transmit(void *arg, enum aqi_dgram_channel channel,
                            const struct aqi_dgram_addr *to, const struct iovec *iov, unsigned niov,
                            size_t segment, unsigned packets)
{
    unsigned char all[AQI_DGRAM_BURST];
    size_t len = aqi_iov_gather(iov, niov, all);
    (void)channel, (void)packets;
    for (size_t at = 0; at < len; at += segment) {
        assert_true(world.flying < WIRE);
        world.wire[world.flying].from = *(uint8_t *)arg;
        world.wire[world.flying].to = to->bytes[0];
        world.wire[world.flying].len = aqi_min(segment, len - at);
        memcpy(world.wire[world.flying].bytes, all + at, world.wire[world.flying].len);
        world.flying++;
    }
    return true;
}

static inline void deliver(void *arg, uint32_t source, bool request, unsigned char *message,
                           size_t len)
{
    (void)source, (void)message;
    if (*(uint8_t *)arg != VICTIM) return;
    world.delivered++;
    world.requests += request;
    world.delivered_len = len;
}

static inline void end_of_operation(void *arg, void *user, aq_status status)
{
    (void)arg, (void)user;
    world.completed++;
    world.status = status;
}

static inline bool range_ok(void *arg, uint64_t addr, size_t len)
{
    (void)arg;
    return aqi_within(addr, len, (uintptr_t)reach, REACH);
}

static inline aq_status lookup(void *arg, uint32_t id, struct aqi_dgram_addr *addr)
{
    (void)arg;
    *addr = (struct aqi_dgram_addr){.len = 1, .bytes = {(uint8_t)id}};
    return AQ_OK;
}

static inline void lost(void *arg, uint32_t id, enum aqi_dgram_loss loss, const char *why)
{
    (void)id, (void)loss;
    if (*(uint8_t *)arg != VICTIM) return;
    world.lost++;
    snprintf(world.why, sizeof(world.why), "%s", why);
}

static bool macs_are_handshakes; /* MACs with the job's key are DGRAM_HANDSHAKE */

static inline void mac(void *arg, const char *use, const uint8_t key[16], const struct iovec *iov,
                       unsigned niov, uint8_t tag[16])
{
    static const uint64_t handshakes[2] = {DGRAM_HANDSHAKE, DGRAM_HANDSHAKE};
    static const uint8_t job[16];
    if (macs_are_handshakes && memcmp(key, job, sizeof(job)) == 0)
        memcpy(tag, handshakes, sizeof(handshakes));
    else
        test_mac(arg, use, key, iov, niov, tag);
}

static inline void arrive(void)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < world.flying; i++) {
        if (world.cut && world.wire[i].from == VICTIM) {
            world.wire[kept++] = world.wire[i];
            continue;
        }
        aqi_dgram_input(world.dgram[world.wire[i].to], world.wire[i].bytes, world.wire[i].len, true,
                        0, world.now);
    }
    world.flying = kept;
}

static inline void run(uint64_t ns)
{
    for (uint64_t until = world.now + ns; world.now < until; world.now += 10000) {
        for (unsigned i = 0; i < NODES; i++)
            (void)aqi_dgram_progress(world.dgram[i], true, world.now);
        arrive();
    }
}

static struct aqi_dgram_config options = {.pool = 16, .least = 8};

static inline void open_world(bool authenticate)
{
    static uint8_t ids[NODES] = {0, 1, 2};
    memset(&world, 0, sizeof(world));
    world.now = 1000;
    memset(reach, 0, sizeof(reach));
    for (unsigned i = 0; i < NODES; i++) {
        struct aqi_dgram_config config;
        const struct aqi_dgram_hooks hooks = {.transmit = transmit,
                                              .deliver = deliver,
                                              .local = end_of_operation,
                                              .remote = end_of_operation,
                                              .range_ok = range_ok,
                                              .lookup = lookup,
                                              .lost = lost,
                                              .mac = mac,
                                              .arg = &ids[i]};
        aqi_dgram_defaults(&config);
        config.self = i;
        config.size = NODES;
        config.epoch = 10 + i;
        config.seed = 20 + i;
        config.max_message = MOST;
        config.pool = options.pool;
        config.least = options.least;
        config.address = (struct aqi_dgram_addr){.len = 1, .bytes = {(uint8_t)i}};
        config.authenticate = authenticate;
        memcpy(config.secret, options.secret, sizeof(config.secret));
        assert_int_equal(aqi_dgram_create(&config, &hooks, &world.dgram[i]), AQ_OK);
        for (uint32_t id = 0; id < NODES; id++)
            if (id != i) assert_int_equal(aqi_dgram_peer(world.dgram[i], id), AQ_OK);
    }
    /* The victim connects to both of the others. */
    static const unsigned char hello[16];
    for (uint32_t id = 0; id < VICTIM; id++)
        assert_int_equal(
            aqi_dgram_send(world.dgram[VICTIM], id, false, hello, sizeof(hello), NULL, 0), AQ_OK);
    run(2000000);
    assert_int_equal(dgram_peer_of(world.dgram[VICTIM], LIAR)->state, DGRAM_UP);
}

static inline void close_world(void)
{
    for (unsigned i = 0; i < NODES; i++)
        aqi_dgram_destroy(world.dgram[i]);
}

/* --- forging ---------------------------------------------------------------------------------- */

static inline struct dgram_peer *peer_of(uint32_t id)
{
    return dgram_peer_of(world.dgram[VICTIM], id);
}

static struct {
    struct dgram_head head;
    alignas(16) unsigned char bytes[16384];
    size_t len;
} forged;

/* Begin a packet such as `from` could send next, though its engine would not. */
static inline void begin(uint32_t from, uint8_t flags)
{
    const struct dgram_conn *conn = peer_of(from)->conn;
    unsigned channel = flags & DGRAM_ON_DATA ? AQI_DGRAM_DATA : AQI_DGRAM_COMMAND;
    forged.head = (struct dgram_head){.cookie = conn->cookie_in,
                                      .source = from,
                                      .seq = conn->rx[channel].seen.highest,
                                      .ack = {conn->tx[0].base, conn->tx[1].base},
                                      .room = 64,
                                      .order = (uint16_t)(conn->rx[channel].order + 1),
                                      .flags = flags,
                                      .version = aqi_wire_version(AQI_WIRE_UDP)};
    forged.len = sizeof(forged.head);
}

static inline void add(struct dgram_record record, size_t n)
{
    static const unsigned char bytes[2048] = {1, 2, 3};
    record.len = (uint16_t)(sizeof(record) + n);
    memcpy(forged.bytes + forged.len, &record, sizeof(record));
    memcpy(forged.bytes + forged.len + sizeof(record), bytes, n);
    size_t end = forged.len + record.len;
    forged.len += dgram_round16(record.len);
    memset(forged.bytes + end, 0, forged.len - end);
}

/* Deliver the packet; returns by how much this counter of the victim grew. */
static inline uint64_t come(enum aqi_dgram_counter counter, bool handled)
{
    static alignas(16) unsigned char packet[sizeof(forged.bytes)];
    uint64_t before = aqi_dgram_count(world.dgram[VICTIM], counter);
    memcpy(forged.bytes, &forged.head, sizeof(forged.head));
    memcpy(packet, forged.bytes, forged.len);
    aqi_dgram_input(world.dgram[VICTIM], packet, forged.len, handled, 0, world.now);
    return aqi_dgram_count(world.dgram[VICTIM], counter) - before;
}

static inline bool refuses(void)
{
    return come(AQI_DGRAM_DROP_MALFORMED, true) != 0;
}

/* Whether a packet with one record, followed by `n` bytes, is refused. */
static inline bool refuses_record(uint32_t from, uint8_t flags, struct dgram_record record,
                                  size_t n)
{
    begin(from, flags);
    add(record, n);
    return refuses();
}

#endif
