/*
 * Two engines and a wire between them, for tests of the engine: the common parts. Each test begins
 * and ends a world.
 */
#ifndef ENGINE_WORLD_TEST_H
#define ENGINE_WORLD_TEST_H

#include "base/iov.h"
#include "dgram/dgram.h"
#include "dgram/mac_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 2, WIRE = 4096, MEMORY = 1 << 20, LARGEST = 9000, HEAD = 32 };

struct flying {
    uint64_t due;
    uint32_t to;
    size_t len;
    unsigned char *bytes;
};

struct node {
    struct aqi_dgram *dgram;
    uint32_t id;
    unsigned char *memory; /* that peers may reach */
    unsigned requests, replies, lost, small, silent, gathers;
    enum aqi_dgram_loss loss; /* the last one */
    size_t usable;
    uint64_t sum;
    bool answers;
};

static struct {
    struct node node[NODES];
    struct flying wire[WIRE];
    unsigned flying;
    uint64_t now, random;
    unsigned loss;            /* in 1/1000 */
    unsigned choke;           /* additional loss of DATA, in 1/1000 */
    bool deaf;                /* node 0 receives nothing */
    bool headless;            /* packets of node 0 on COMMAND are lost, except handshakes */
    bool unasked;             /* node 0 cannot begin: its HELLO is lost */
    bool computes;            /* node 1 makes no calls, but its helper answers */
    bool replies_only;        /* node 1 may run no handlers of requests */
    size_t path;              /* bytes of the largest packet that passes */
    bool one_way;             /* limited to node 1 only */
    size_t known;             /* bytes that the path is known to carry; 0: unknown */
    unsigned bursts, packets; /* of DATA */
    unsigned sent;            /* packets of all channels */
    uint64_t detour;          /* ns more for DATA */
    uint64_t late;            /* ns more for all packets */
    uint64_t turn;            /* ns: node 1 gets the processor only once in this time */
} world;
static uint64_t dead_after; /* of nodes opened from now on */
static uint32_t at_once;    /* likewise */

static inline unsigned dice(unsigned sides)
{
    world.random = world.random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(world.random >> 33) % sides;
}

static inline bool transmit(void *arg, enum aqi_dgram_channel channel,
                            const struct aqi_dgram_addr *to, const struct iovec *iov, unsigned niov,
                            size_t segment, unsigned packets)
{
    static unsigned char all[AQI_DGRAM_BURST + AQI_DGRAM_MOST_PACKET];
    size_t len = aqi_iov_gather(iov, niov, all);
    (void)arg;
    world.sent += packets;
    if (channel == AQI_DGRAM_DATA) {
        world.bursts++;
        world.packets += packets;
    }
    assert_int_equal(packets, (len + segment - 1) / segment);
    assert_true(packets <= AQI_DGRAM_BURST_COUNT);
    assert_true(packets == 1 || len <= AQI_DGRAM_BURST);
    for (size_t at = 0; at < len; at += segment) {
        size_t n = len - at < segment ? len - at : segment;
        if (n > world.path && (to->bytes[0] == 1 || !world.one_way)) continue;
        if (dice(1000) < world.loss || world.flying == WIRE) continue;
        if (channel == AQI_DGRAM_DATA && dice(1000) < world.choke) continue;
        if (world.deaf && to->bytes[0] == 0) continue;
        if (world.headless && to->bytes[0] == 1 && channel == AQI_DGRAM_COMMAND) continue;
        if (world.unasked && to->bytes[0] == 1 && n == 112 && all[at + 9] == 1) continue;
        struct flying *f = &world.wire[world.flying++];
        uint64_t delay = world.late + (channel == AQI_DGRAM_DATA ? 5000 + world.detour : 5000);
        *f = (struct flying){world.now + delay + dice(1000), to->bytes[0], n,
                             aligned_alloc(16, (n + 15) & ~(size_t)15)};
        if (world.turn != 0 && f->to == 1) f->due = (f->due / world.turn + 1) * world.turn;
        memcpy(f->bytes, all + at, n);
    }
    return true;
}

static inline void deliver(void *arg, uint32_t source, bool request, unsigned char *message,
                           size_t len)
{
    struct node *node = arg;
    static const char answer[HEAD] = "    an answer";
    assert_int_equal((uintptr_t)message % 16, 0);
    for (size_t i = HEAD; i < len; i++)
        assert_int_equal(message[i], (unsigned char)(i - HEAD + message[8]));
    node->sum += len;
    if (request)
        node->requests++;
    else
        node->replies++;
    if (request && node->answers)
        assert_int_equal(aqi_dgram_send(node->dgram, source, true, answer, sizeof(answer), NULL, 0),
                         AQ_OK);
}

struct done {
    unsigned local, remote;
    aq_status status;
};

static inline void local(void *arg, void *user, aq_status status)
{
    struct done *done = user;
    (void)arg;
    done->local++;
    done->status = status;
}

static inline void remote(void *arg, void *user, aq_status status)
{
    struct done *done = user;
    (void)arg;
    done->remote++;
    done->status = status;
}

static void gathers(void *arg)
{
    ((struct node *)arg)->gathers++;
}

static inline bool range_ok(void *arg, uint64_t addr, size_t len)
{
    struct node *node = arg;
    uint64_t begin = (uintptr_t)node->memory;
    return addr >= begin && len <= MEMORY && addr - begin <= MEMORY - len;
}

static inline aq_status lookup(void *arg, uint32_t id, struct aqi_dgram_addr *addr)
{
    (void)arg;
    *addr = (struct aqi_dgram_addr){.len = 1, .bytes = {(uint8_t)id}};
    return AQ_OK;
}

static inline void lost(void *arg, uint32_t id, enum aqi_dgram_loss loss, const char *why)
{
    struct node *node = arg;
    (void)id, (void)why;
    node->lost++;
    node->loss = loss;
}

static inline size_t path(void *arg, uint32_t id)
{
    (void)arg, (void)id;
    return world.known != 0 ? world.known : SIZE_MAX;
}

static inline void silent(void *arg, uint32_t id, uint64_t waited_ns)
{
    struct node *node = arg;
    (void)id, (void)waited_ns;
    node->silent++;
}

static inline void small_path(void *arg, uint32_t id, size_t usable, bool agreed)
{
    struct node *node = arg;
    (void)id, (void)agreed;
    node->usable = usable;
    node->small++;
}

/* Set before `begin`: which nodes accept messages that may be lost. */
static bool loose_nodes[NODES];

static inline void open_node(unsigned i, uint64_t epoch, bool authenticate)
{
    struct node *node = &world.node[i];
    struct aqi_dgram_config config;
    aqi_dgram_defaults(&config);
    config.self = i;
    config.size = NODES;
    config.packet = LARGEST / 16 * 16;
    config.epoch = epoch;
    config.seed = epoch + 1;
    config.address = (struct aqi_dgram_addr){.len = 1, .bytes = {(uint8_t)i}};
    config.idle_close = 2000000000;
    config.dead_after = dead_after;
    config.at_once = at_once;
    config.authenticate = authenticate;
    config.loose = loose_nodes[i];
    config.warn_after = 5000000000;
    memcpy(config.key, "a secret of test", 16);
    const struct aqi_dgram_hooks hooks = {.transmit = transmit,
                                          .deliver = deliver,
                                          .local = local,
                                          .remote = remote,
                                          .gathers = gathers,
                                          .range_ok = range_ok,
                                          .lookup = lookup,
                                          .lost = lost,
                                          .path = path,
                                          .small_path = small_path,
                                          .silent = silent,
                                          .mac = test_mac,
                                          .arg = node};
    node->id = i;
    if (node->memory == NULL) node->memory = aligned_alloc(64, MEMORY);
    assert_int_equal(aqi_dgram_create(&config, &hooks, &node->dgram), AQ_OK);
    for (uint32_t id = 0; id < NODES; id++)
        if (id != i) assert_int_equal(aqi_dgram_peer(node->dgram, id), AQ_OK);
}

static inline void begin(unsigned loss, bool authenticate)
{
    memset(&world, 0, sizeof(world));
    world.loss = loss;
    world.random = 42;
    world.now = 1000;
    world.path = SIZE_MAX;
    for (unsigned i = 0; i < NODES; i++)
        open_node(i, 100 + i, authenticate);
}

static inline void end(void)
{
    for (unsigned i = 0; i < NODES; i++) {
        aqi_dgram_destroy(world.node[i].dgram);
        free(world.node[i].memory);
    }
    while (world.flying > 0)
        free(world.wire[--world.flying].bytes);
}

/* Returns when something is due next, in whole microseconds, but not after `until`. */
static inline uint64_t next_time(uint64_t until)
{
    uint64_t next = until;
    for (unsigned i = 0; i < world.flying; i++)
        next = aqi_min(next, world.wire[i].due);
    for (unsigned i = 0; i < NODES; i++)
        next = aqi_min(next, aqi_dgram_deadline(world.node[i].dgram));
    return aqi_max((next + 999) / 1000 * 1000, world.now + 1000);
}

/* One step: packets that are due arrive, and both engines make progress. */
static inline void step(uint64_t until)
{
    world.now = next_time(until);
    for (unsigned i = 0; i < world.flying;) {
        struct flying f = world.wire[i];
        if (f.due > world.now) {
            i++;
            continue;
        }
        world.wire[i] = world.wire[--world.flying];
        if (world.computes && f.to == 1)
            aqi_dgram_answer(world.node[f.to].dgram, f.bytes, f.len, 0, world.now);
        else
            aqi_dgram_input(world.node[f.to].dgram, f.bytes, f.len,
                            !(world.replies_only && f.to == 1), 0, world.now);
        free(f.bytes);
    }
    for (unsigned i = 0; i < NODES; i++)
        aqi_dgram_progress(world.node[i].dgram, i == 0 || (!world.computes && !world.replies_only),
                           world.now);
}

static inline void run(uint64_t ns)
{
    for (uint64_t until = world.now + ns; world.now < until;)
        step(until);
}

/* Run until nothing is outstanding, for at most `ns`. */
static inline void settle(uint64_t ns)
{
    uint64_t until = world.now + ns;
    while (!aqi_dgram_idle(world.node[0].dgram) || !aqi_dgram_idle(world.node[1].dgram) ||
           world.flying != 0) {
        step(until);
        assert_true(world.now < until);
    }
}

static inline aq_status send_one(struct node *node, size_t body_len, unsigned serial)
{
    static unsigned char body[70000];
    unsigned char head[HEAD] = {0};
    head[8] = (unsigned char)serial;
    for (size_t i = 0; i < body_len; i++)
        body[i] = (unsigned char)(i + serial);
    return aqi_dgram_send(node->dgram, 1 - node->id, false, head, HEAD, body, body_len);
}

static inline void send_and_settle(struct node *node, size_t body_len, unsigned serial, uint64_t ns)
{
    assert_int_equal(send_one(node, body_len, serial), AQ_OK);
    settle(ns);
}

/* Node 0 writes the beginning of its memory to `addr` of the other; with a head, as a Long. */
static inline void assert_put(const void *head, uint64_t addr, size_t len, struct done *done)
{
    struct node *node = &world.node[0];
    assert_int_equal(aqi_dgram_put(node->dgram, 1, addr, node->memory, len, false, head,
                                   head != NULL ? HEAD : 0, done),
                     AQ_OK);
}

/* Query what a node knows of the other one. */
static inline struct aqi_dgram_peer_info info_of(uint32_t id)
{
    struct aqi_dgram_peer_info info;
    assert_true(aqi_dgram_peer_info(world.node[id].dgram, 1 - id, &info));
    return info;
}

#endif
