/*
 * Two engines and the networks between them, which may be cut, lose packets, or carry no large
 * ones. Time passes only when a test says so.
 */
#ifndef DGRAM_PAIR_TEST_H
#define DGRAM_PAIR_TEST_H

#include "base/iov.h"
#include "dgram/dgram.h"
#include "dgram/mac_test.h"

#include <setjmp.h>
#include <stdarg.h>
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
    bool data_cut;           /* the first network carries no DATA */
    size_t most;             /* bytes of the largest packet that the second carries; 0: any */
    unsigned loss;           /* in 1/1000 */
    unsigned received[ENDS]; /* messages received by each, and the sum of their numbers */
    uint64_t sum[ENDS];
    unsigned silent[ENDS], lost[ENDS]; /* reports about each end to the other; the last report: */
    uint64_t waited;
    enum aqi_dgram_loss how;
    size_t usable; /* reported for a path that is small */
    unsigned flying;
    struct copy wire[FLYING];
    struct copy move; /* the first MOVE to 1 */
    /* Memory from which 0 puts, and where its contents really are; NULL: it cannot be read. */
    unsigned char *memory;
    const unsigned char *apart;
    unsigned complete;        /* completed operations of 0 */
    unsigned bursts, packets; /* of DATA */
} net;
static bool pair_authenticates; /* applies to engines opened from now on */

static inline unsigned pair_dice(unsigned sides)
{
    net.random = net.random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(net.random >> 33) % sides;
}

static inline bool pair_transmit(void *arg, enum aqi_dgram_channel channel,
                                 const struct aqi_dgram_addr *to, const struct iovec *iov,
                                 unsigned niov, size_t segment, unsigned packets)
{
    static unsigned char all[AQI_DGRAM_BURST + LARGEST];
    unsigned network = to->bytes[1];
    size_t len = aqi_iov_gather(iov, niov, all);
    (void)arg;
    if (channel == AQI_DGRAM_DATA) {
        net.bursts++;
        net.packets += packets;
    }
    for (size_t at = 0; at < len; at += segment) {
        struct copy *copy = &net.wire[net.flying];
        if (net.cut[network] || pair_dice(1000) < net.loss || net.flying == FLYING) continue;
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

static inline void pair_deliver(void *arg, uint32_t source, bool request, unsigned char *message,
                                size_t len)
{
    uint32_t number;
    (void)arg, (void)request, (void)len;
    memcpy(&number, message + 4, sizeof(number));
    net.received[1 - source]++;
    net.sum[1 - source] += number;
}

static inline aq_status pair_lookup(void *arg, uint32_t id, struct aqi_dgram_addr *addr)
{
    (void)arg;
    *addr = (struct aqi_dgram_addr){.len = 2, .bytes = {(uint8_t)id, 0}};
    return AQ_OK;
}

static inline bool pair_way(void *arg, uint32_t id, unsigned way, struct aqi_dgram_addr *to,
                            struct aqi_dgram_addr *own)
{
    (void)arg;
    if (way >= NETWORKS) return false;
    *to = (struct aqi_dgram_addr){.len = 2, .bytes = {(uint8_t)id, (uint8_t)way}};
    *own = (struct aqi_dgram_addr){.len = 2, .bytes = {(uint8_t)(1 - id), (uint8_t)way}};
    return true;
}

static inline void pair_silent(void *arg, uint32_t id, uint64_t waited)
{
    (void)arg;
    net.silent[id]++;
    net.waited = waited;
}

static inline void pair_small(void *arg, uint32_t id, size_t usable, bool agreed)
{
    (void)arg, (void)id, (void)agreed;
    net.usable = usable;
}

static inline void pair_lost(void *arg, uint32_t id, enum aqi_dgram_loss loss, const char *why)
{
    (void)arg, (void)why;
    net.lost[id]++;
    net.how = loss;
}

static inline uint64_t pair_now(void *arg)
{
    (void)arg;
    return net.now;
}

static inline bool pair_range_ok(void *arg, uint64_t addr, size_t len)
{
    (void)arg, (void)addr, (void)len;
    return true;
}

static inline void pair_local(void *arg, void *user, aq_status status)
{
    (void)arg, (void)user;
    assert_int_equal(status, AQ_OK);
}

static inline void pair_remote(void *arg, void *user, aq_status status)
{
    (void)arg, (void)user;
    assert_int_equal(status, AQ_OK);
    net.complete++;
}

static inline const void *pair_source(void *arg, const void *at, size_t len, void *copy)
{
    (void)arg;
    if (net.apart == NULL) return NULL;
    return memcpy(copy, net.apart + ((const unsigned char *)at - net.memory), len);
}

static inline void pair_open(unsigned networks, uint64_t reach_within, uint64_t seed)
{
    memset(&net, 0, sizeof(net));
    net.now = 1000;
    net.random = seed;
    for (uint32_t i = 0; i < ENDS; i++) {
        struct aqi_dgram_config config;
        const struct aqi_dgram_hooks hooks = {.transmit = pair_transmit,
                                              .deliver = pair_deliver,
                                              .lookup = pair_lookup,
                                              .way = networks > 1 ? pair_way : NULL,
                                              .silent = pair_silent,
                                              .small_path = pair_small,
                                              .lost = pair_lost,
                                              .now = pair_now,
                                              .mac = test_mac,
                                              .local = pair_local,
                                              .remote = pair_remote,
                                              .range_ok = pair_range_ok,
                                              .source = pair_source};
        aqi_dgram_defaults(&config);
        config.self = i;
        config.size = ENDS;
        config.packet = LARGEST;
        config.epoch = config.seed = 100 + i;
        config.address = (struct aqi_dgram_addr){.len = 2, .bytes = {(uint8_t)i, 0}};
        config.idle_close = 2 * SECOND;
        config.reach_within = reach_within;
        config.authenticate = pair_authenticates;
        memcpy(config.key, "a secret of test", 16);
        assert_int_equal(aqi_dgram_create(&config, &hooks, &net.end[i]), AQ_OK);
        assert_int_equal(aqi_dgram_peer(net.end[i], 1 - i), AQ_OK);
    }
}

static inline void pair_close(void)
{
    for (unsigned i = 0; i < ENDS; i++)
        aqi_dgram_destroy(net.end[i]);
}

static inline void run(uint64_t ns)
{
    for (uint64_t until = net.now + ns; net.now < until;) {
        uint64_t next = net.flying != 0 ? 0 : until;
        for (unsigned i = 0; i < ENDS; i++)
            next = aqi_min(next, aqi_dgram_deadline(net.end[i]));
        net.now = aqi_max(aqi_min(next, until), net.now + 10000);
        for (unsigned i = 0; i < net.flying; i++) /* including packets sent meanwhile */
            aqi_dgram_input(net.end[net.wire[i].to], net.wire[i].bytes, net.wire[i].len, true, 0,
                            net.now);
        net.flying = 0;
        for (unsigned i = 0; i < ENDS; i++)
            aqi_dgram_progress(net.end[i], true, net.now);
    }
}

static inline aq_status say_much(uint32_t from, uint32_t number, size_t len)
{
    static const unsigned char body[1 << 16];
    unsigned char head[32] = {0};
    memcpy(head + 4, &number, sizeof(number));
    return aqi_dgram_send(net.end[from], 1 - from, false, head, sizeof(head), body, len);
}

static inline aq_status say(uint32_t from, uint32_t number)
{
    return say_much(from, number, 0);
}

static inline void say_and_run(uint32_t from, uint32_t number, uint64_t ns)
{
    assert_int_equal(say(from, number), AQ_OK);
    run(ns);
}

/* Query what `from` knows of the other end. */
static inline struct aqi_dgram_peer_info info_of(uint32_t from)
{
    struct aqi_dgram_peer_info info;
    assert_true(aqi_dgram_peer_info(net.end[from], 1 - from, &info));
    return info;
}

#endif
