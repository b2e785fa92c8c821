/* Two engines and a wire between them: every kind of operation, on a calm wire and one that loses.
 * tests/sim has many more engines and worse networks. */
#include "dgram/dgram.h"

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
    unsigned requests, replies, lost, small, silent;
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
    unsigned choke;           /* likewise, more of DATA */
    bool deaf;                /* node 0 hears nothing */
    bool headless;            /* what node 0 sends on COMMAND is lost, but for the handshake */
    bool unasked;             /* node 0 does not begin: its HELLO is lost */
    bool computes;            /* node 1 makes no call, and is helped */
    size_t path;              /* bytes of the largest packet that passes, */
    bool one_way;             /* to node 1 only */
    size_t known;             /* bytes that it is known to carry; 0: nothing is */
    unsigned bursts, packets; /* of DATA */
    uint64_t detour;          /* ns that DATA takes longer, */
    uint64_t late;            /* and everything */
    uint64_t turn;            /* ns: the processor of node 1 is another's, but once in so long */
} world;
static uint64_t dead_after; /* of nodes that are opened */

static unsigned dice(unsigned sides)
{
    world.random = world.random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(world.random >> 33) % sides;
}

static bool transmit(void *arg, enum aqi_dgram_channel channel, const struct aqi_dgram_addr *to,
                     const struct iovec *iov, unsigned niov, size_t segment, unsigned packets)
{
    static unsigned char all[AQI_DGRAM_BURST + AQI_DGRAM_MOST_PACKET];
    size_t len = 0;
    (void)arg;
    if (channel == AQI_DGRAM_DATA) {
        world.bursts++;
        world.packets += packets;
    }
    for (unsigned i = 0; i < niov; i++) {
        memcpy(all + len, iov[i].iov_base, iov[i].iov_len);
        len += iov[i].iov_len;
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

static void deliver(void *arg, uint32_t source, bool request, unsigned char *message, size_t len)
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

static void local(void *arg, void *user, aq_status status)
{
    struct done *done = user;
    (void)arg;
    done->local++;
    done->status = status;
}

static void remote(void *arg, void *user, aq_status status)
{
    struct done *done = user;
    (void)arg;
    done->remote++;
    done->status = status;
}

static bool range_ok(void *arg, uint64_t addr, size_t len)
{
    struct node *node = arg;
    uint64_t begin = (uintptr_t)node->memory;
    return addr >= begin && len <= MEMORY && addr - begin <= MEMORY - len;
}

static aq_status lookup(void *arg, uint32_t id, struct aqi_dgram_addr *addr)
{
    (void)arg;
    *addr = (struct aqi_dgram_addr){.len = 1, .bytes = {(uint8_t)id}};
    return AQ_OK;
}

static void lost(void *arg, uint32_t id, const char *why)
{
    struct node *node = arg;
    (void)id, (void)why;
    node->lost++;
}

static size_t path(void *arg, uint32_t id)
{
    (void)arg, (void)id;
    return world.known != 0 ? world.known : SIZE_MAX;
}

static void silent(void *arg, uint32_t id, uint64_t waited_ns)
{
    struct node *node = arg;
    (void)id, (void)waited_ns;
    node->silent++;
}

static void small_path(void *arg, uint32_t id, size_t usable)
{
    struct node *node = arg;
    (void)id;
    node->usable = usable;
    node->small++;
}

/* No cryptography, but what is altered shows. */
static void mac(void *arg, const uint8_t key[16], const struct iovec *iov, unsigned niov,
                uint8_t tag[16])
{
    uint64_t hash[2];
    (void)arg;
    memcpy(hash, key, 16);
    for (unsigned i = 0; i < niov; i++)
        for (size_t at = 0; at < iov[i].iov_len; at++) {
            hash[0] = (hash[0] ^ ((unsigned char *)iov[i].iov_base)[at]) * 1099511628211u;
            hash[1] = (hash[1] + hash[0]) * 0x9e3779b97f4a7c15u;
        }
    memcpy(tag, hash, 16);
}

static void open_node(unsigned i, uint64_t epoch, bool authenticate)
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
    config.authenticate = authenticate;
    config.warn_after = 5000000000;
    memcpy(config.key, "a secret of test", 16);
    const struct aqi_dgram_hooks hooks = {.transmit = transmit,
                                          .deliver = deliver,
                                          .local = local,
                                          .remote = remote,
                                          .range_ok = range_ok,
                                          .lookup = lookup,
                                          .lost = lost,
                                          .path = path,
                                          .small_path = small_path,
                                          .silent = silent,
                                          .mac = mac,
                                          .arg = node};
    node->id = i;
    if (node->memory == NULL) node->memory = aligned_alloc(64, MEMORY);
    assert_int_equal(aqi_dgram_create(&config, &hooks, &node->dgram), AQ_OK);
    for (uint32_t id = 0; id < NODES; id++)
        if (id != i) assert_int_equal(aqi_dgram_peer(node->dgram, id), AQ_OK);
}

static void begin(unsigned loss, bool authenticate)
{
    memset(&world, 0, sizeof(world));
    world.loss = loss;
    world.random = 42;
    world.now = 1000;
    world.path = SIZE_MAX;
    for (unsigned i = 0; i < NODES; i++)
        open_node(i, 100 + i, authenticate);
}

static void end(void)
{
    for (unsigned i = 0; i < NODES; i++) {
        aqi_dgram_destroy(world.node[i].dgram);
        free(world.node[i].memory);
    }
    while (world.flying > 0)
        free(world.wire[--world.flying].bytes);
}

/* The full microsecond at which something is due next, at the latest at `until`. */
static uint64_t next_time(uint64_t until)
{
    uint64_t next = until;
    for (unsigned i = 0; i < world.flying; i++)
        next = aqi_min(next, world.wire[i].due);
    for (unsigned i = 0; i < NODES; i++)
        next = aqi_min(next, aqi_dgram_deadline(world.node[i].dgram));
    return aqi_max((next + 999) / 1000 * 1000, world.now + 1000);
}

/* One step: what is due arrives, and both make progress. */
static void step(uint64_t until)
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
            aqi_dgram_input(world.node[f.to].dgram, f.bytes, f.len, true, 0, world.now);
        free(f.bytes);
    }
    for (unsigned i = 0; i < NODES; i++)
        aqi_dgram_progress(world.node[i].dgram, !(world.computes && i == 1), world.now);
}

static void run(uint64_t ns)
{
    for (uint64_t until = world.now + ns; world.now < until;)
        step(until);
}

/* Until nothing is under way; within `ns`. */
static void settle(uint64_t ns)
{
    uint64_t until = world.now + ns;
    while (!aqi_dgram_idle(world.node[0].dgram) || !aqi_dgram_idle(world.node[1].dgram) ||
           world.flying != 0) {
        step(until);
        assert_true(world.now < until);
    }
}

static aq_status send_one(struct node *node, size_t body_len, unsigned serial)
{
    static unsigned char body[70000];
    unsigned char head[HEAD] = {0};
    head[8] = (unsigned char)serial;
    for (size_t i = 0; i < body_len; i++)
        body[i] = (unsigned char)(i + serial);
    return aqi_dgram_send(node->dgram, 1 - node->id, false, head, HEAD, body, body_len);
}

static void messages(unsigned loss, bool authenticate)
{
    static const size_t sizes[] = {0, 1, 8, 500, 800, 1400, 4096, 8900, 9000, 20000, 65536};
    begin(loss, authenticate);
    world.node[1].answers = true;
    unsigned sent = 0;
    size_t sum = 0;
    for (unsigned round = 0; round < 20; round++)
        for (size_t i = 0; i < AQI_COUNT_OF(sizes); i++) {
            while (send_one(&world.node[0], sizes[i], sent) == AQ_AGAIN)
                step(world.now + 1000);
            sent++;
            sum += HEAD + sizes[i];
        }
    settle(20000000000);
    assert_int_equal(world.node[1].requests, sent);
    assert_int_equal(world.node[1].sum, sum);
    assert_int_equal(world.node[0].replies, sent);
    assert_true(aqi_dgram_quiet(world.node[0].dgram, AQI_DGRAM_ALL));
    end();
}

static void test_messages(void **state)
{
    (void)state;
    messages(0, false);
    messages(0, true);
}

static void test_messages_lost(void **state)
{
    (void)state;
    messages(10, false);
    messages(200, true);
}

/* A peer that computes can be connected to and is not lost, however long it computes; what came
 * meanwhile is taken afterwards. */
static void test_computes(void **state)
{
    enum { SENT = 40 };
    struct done done = {0};
    struct aqi_dgram_peer_info info;
    (void)state;
    dead_after = 1000000000;
    begin(20, true);
    dead_after = 0;
    struct node *here = &world.node[0], *there = &world.node[1];
    world.computes = true;
    memset(here->memory, 7, 5000);
    memset(there->memory, 0, 5000);
    for (unsigned i = 0; i < SENT; i++)
        assert_int_equal(send_one(here, i % 2 * 3000, i), AQ_OK);
    assert_int_equal(aqi_dgram_put(here->dgram, 1, (uintptr_t)there->memory, here->memory, 5000,
                                   false, NULL, 0, &done),
                     AQ_OK);
    run(5000000000);
    assert_int_equal(here->lost, 0);
    assert_true(aqi_dgram_peer_info(here->dgram, 1, &info) && info.connected);
    assert_int_equal(there->requests, 0);
    assert_int_equal(there->memory[0], 0);
    assert_int_equal(done.remote, 0);
    assert_true(aqi_dgram_parked(there->dgram));
    /* The sender asks less and less often, up to four times in a second and channel. */
    uint64_t again = aqi_dgram_count(here->dgram, AQI_DGRAM_RESENT);
    printf("%llu packets again in 5 s\n", (unsigned long long)again);
    assert_in_range(again, 20, 80);
    world.computes = false;
    assert_true(aqi_dgram_resume(there->dgram, true, world.now) != 0);
    settle(20000000000);
    assert_int_equal(there->requests, SENT);
    assert_int_equal(done.remote, 1);
    assert_memory_equal(there->memory, here->memory, 5000);
    end();
}

/* Both begin; what the one that is called sends does not overtake its agreement. */
static void test_crossing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        begin(0, false);
        world.random = seed;
        world.detour = 3000;
        for (unsigned i = 0; i < NODES; i++)
            assert_int_equal(send_one(&world.node[i], 10, i), AQ_OK);
        settle(1000000000);
        for (unsigned i = 0; i < NODES; i++) {
            assert_int_equal(world.node[i].requests, 1);
            assert_int_equal(aqi_dgram_count(world.node[i].dgram, AQI_DGRAM_DROP_COOKIE), 0);
            assert_int_equal(aqi_dgram_count(world.node[i].dgram, AQI_DGRAM_RESENT), 0);
        }
        end();
    }
}

static void transfers(unsigned loss)
{
    static const size_t sizes[] = {1, 8, 255, 256, 257, 5000, 9000, 100000, MEMORY / 2};
    struct done done[3 * AQI_COUNT_OF(sizes)] = {{0}};
    begin(loss, false);
    struct node *here = &world.node[0], *there = &world.node[1];
    uint64_t base = (uintptr_t)there->memory;
    for (size_t i = 0; i < AQI_COUNT_OF(sizes); i++) {
        size_t n = sizes[i];
        unsigned char head[HEAD] = {0};
        struct done *d = &done[3 * i];
        memset(here->memory, (int)i + 1, n);
        memset(there->memory, 0, MEMORY);
        assert_int_equal(
            aqi_dgram_put(here->dgram, 1, base + 3, here->memory, n, false, NULL, 0, &d[0]), AQ_OK);
        settle(20000000000);
        assert_int_equal(d[0].local, 1);
        assert_int_equal(d[0].remote, 1);
        assert_int_equal(d[0].status, AQ_OK);
        assert_memory_equal(there->memory + 3, here->memory, n);
        assert_int_equal(there->memory[3 + n], 0);
        memset(here->memory, 0, MEMORY);
        assert_int_equal(aqi_dgram_get(here->dgram, 1, base + 3, here->memory, n, &d[1]), AQ_OK);
        settle(20000000000);
        assert_int_equal(d[1].remote, 1);
        assert_memory_equal(there->memory + 3, here->memory, n);
        memset(here->memory, (int)i + 77, n);
        assert_int_equal(
            aqi_dgram_put(here->dgram, 1, base, here->memory, n, false, head, sizeof(head), &d[2]),
            AQ_OK);
        settle(20000000000);
        assert_int_equal(d[2].local, 1);
        assert_int_equal(d[2].remote, 0);
        assert_int_equal(there->requests, i + 1);
        assert_memory_equal(there->memory, here->memory, n);
    }
    end();
}

static void test_transfers(void **state)
{
    (void)state;
    transfers(0);
    transfers(50);
}

/* Bulk leaves in full bursts, not in those and what was left of a turn. */
static void test_bursts(void **state)
{
    struct done done = {0};
    (void)state;
    begin(0, false);
    struct node *here = &world.node[0];
    uint64_t there = (uintptr_t)world.node[1].memory;
    memset(here->memory, 1, MEMORY);
    for (unsigned i = 0; i < 2; i++) {
        world.bursts = world.packets = 0;
        assert_int_equal(
            aqi_dgram_put(here->dgram, 1, there, here->memory, MEMORY, false, NULL, 0, &done),
            AQ_OK);
        settle(20000000000);
    }
    unsigned full = AQI_DGRAM_BURST / (LARGEST / 16 * 16);
    print_message("%u packets in %u bursts of up to %u\n", world.packets, world.bursts, full);
    assert_true(world.bursts <= world.packets / full + 2);
    end();
}

/* The bytes of Longs are in place before their heads come, which are sent again and again: no more
 * of them are begun than the peer keeps account of. */
static void test_late_heads(void **state)
{
    (void)state;
    enum { COUNT = 5000, SIZE = 600 };
    static struct done done[COUNT];
    begin(0, false);
    struct node *here = &world.node[0], *there = &world.node[1];
    unsigned char head[HEAD] = {0};
    memset(done, 0, sizeof(done));
    assert_int_equal(send_one(here, 0, 0), AQ_OK);
    settle(1000000000);
    world.headless = true;
    uint64_t until = world.now + 100000000;
    for (unsigned i = 0; i < COUNT;) {
        aq_status st = aqi_dgram_put(here->dgram, 1, (uintptr_t)there->memory, here->memory, SIZE,
                                     false, head, sizeof(head), &done[i]);
        i += st == AQ_OK;
        assert_true(st == AQ_OK || st == AQ_AGAIN);
        step(world.now + 1000);
        world.headless = world.now < until;
    }
    world.headless = false;
    settle(20000000000);
    assert_int_equal(there->requests, 1 + COUNT);
    assert_int_equal(aqi_dgram_count(there->dgram, AQI_DGRAM_DROP_MALFORMED), 0);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(done[i].local, 1);
    end();
}

static void test_refused(void **state)
{
    (void)state;
    static const size_t sizes[] = {8, 5000, 100000};
    begin(20, false);
    struct node *here = &world.node[0], *there = &world.node[1];
    uint64_t bad = (uintptr_t)there->memory + MEMORY - 4;
    unsigned char head[HEAD] = {0};
    for (size_t i = 0; i < AQI_COUNT_OF(sizes); i++) {
        struct done done[3] = {{0}};
        assert_int_equal(
            aqi_dgram_put(here->dgram, 1, bad, here->memory, sizes[i], false, NULL, 0, &done[0]),
            AQ_OK);
        assert_int_equal(aqi_dgram_get(here->dgram, 1, bad, here->memory, sizes[i], &done[1]),
                         AQ_OK);
        assert_int_equal(aqi_dgram_put(here->dgram, 1, bad, here->memory, sizes[i], false, head,
                                       sizeof(head), &done[2]),
                         AQ_OK);
        settle(20000000000);
        assert_int_equal(done[0].remote, 1);
        assert_int_equal(done[0].status, AQ_ERANGE);
        assert_int_equal(done[1].remote, 1);
        assert_int_equal(done[1].status, AQ_ERANGE);
        assert_int_equal(done[2].local, 1);
        assert_int_equal(there->requests, 0);
    }
    end();
}

static void test_forget(void **state)
{
    (void)state;
    struct done done = {0};
    begin(0, false);
    struct node *here = &world.node[0], *there = &world.node[1];
    assert_int_equal(
        aqi_dgram_get(here->dgram, 1, (uintptr_t)there->memory, here->memory, MEMORY, &done),
        AQ_OK);
    while (aqi_dgram_count(there->dgram, AQI_DGRAM_SENT) < 5)
        step(world.now + 1000);
    aqi_dgram_forget(there->dgram, there->memory + 5, 1);
    settle(20000000000);
    assert_int_equal(done.remote, 1);
    assert_int_equal(done.status, AQ_ERANGE);
    end();
}

static void test_idle_close(void **state)
{
    (void)state;
    struct aqi_dgram_peer_info info;
    begin(0, false);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(send_one(&world.node[i % 2], 10, i), AQ_OK);
        settle(1000000000);
        assert_true(aqi_dgram_peer_info(world.node[0].dgram, 1, &info) && info.connected);
        run(2500000000);
        assert_true(aqi_dgram_peer_info(world.node[0].dgram, 1, &info) && !info.connected);
        assert_true(aqi_dgram_peer_memory(world.node[0].dgram, 1) <= 264);
    }
    assert_int_equal(world.node[0].requests, 1);
    assert_int_equal(world.node[1].requests, 2);
    end();
}

/* A peer that does not answer is asked now and then, whatever is under way to it. */
static void test_silence(void **state)
{
    (void)state;
    begin(0, false);
    struct node *here = &world.node[0];
    assert_int_equal(send_one(here, 10, 0), AQ_OK);
    settle(1000000000);
    world.loss = 1000;
    for (unsigned i = 1; i <= 40; i++)
        assert_int_equal(send_one(here, 8000, i), AQ_OK);
    run(3000000000);
    assert_true(aqi_dgram_count(here->dgram, AQI_DGRAM_SENT) > 10);
    assert_in_range(aqi_dgram_count(here->dgram, AQI_DGRAM_RESENT), 10, 60);
    world.loss = 0;
    settle(1000000000);
    assert_int_equal(world.node[1].requests, 41);
    end();
}

/* Both begin, and the packets of the one that should go on are lost: it still learns that the other
 * one lives. */
static void test_unheard_beginner(void **state)
{
    (void)state;
    dead_after = 5000000000;
    begin(0, false);
    world.unasked = true;
    for (unsigned i = 0; i < NODES; i++)
        assert_int_equal(send_one(&world.node[i], 10, i), AQ_OK);
    run(30000000000);
    world.unasked = false;
    settle(2000000000);
    for (unsigned i = 0; i < NODES; i++) {
        assert_int_equal(world.node[i].lost, 0);
        assert_int_equal(world.node[i].requests, 1);
    }
    end();
    dead_after = 0;
}

/* The time during which acknowledgements were lost is not the length of the path. The bulk is lost;
 * small messages arrive, but their sender does not learn so before the first of the bulk does. */
static void test_lost_acknowledgements(void **state)
{
    (void)state;
    struct aqi_dgram_peer_info info;
    for (uint64_t ms = 80; ms < 320; ms += 20) {
        begin(0, false);
        struct node *here = &world.node[0];
        for (unsigned i = 0; i < 10; i++) {
            assert_int_equal(send_one(here, 10, i), AQ_OK);
            settle(1000000000);
        }
        world.loss = 1000;
        assert_int_equal(send_one(here, 8000, 10), AQ_OK);
        run(50000);
        world.loss = 0;
        world.deaf = true;
        for (unsigned i = 11; i < 31; i++)
            assert_int_equal(send_one(here, 700, i), AQ_OK);
        run(50000);
        world.loss = 1000;
        run(ms * 1000000);
        world.loss = 0;
        world.deaf = false;
        settle(1000000000);
        assert_int_equal(world.node[1].requests, 31);
        assert_true(aqi_dgram_peer_info(here->dgram, 1, &info));
        assert_in_range(info.rtt, 1, 2000000);
        end();
    }
}

/* With a known path nothing larger is tried, which takes time, and nothing is logged. */
static void test_known_path(void **state)
{
    (void)state;
    struct aqi_dgram_peer_info info;
    for (unsigned first = 0; first < NODES; first++) {
        begin(0, false);
        world.path = 1472;
        world.known = 1424;
        assert_int_equal(send_one(&world.node[first], 20000, 0), AQ_OK);
        settle(2000000);
        for (unsigned i = 0; i < NODES; i++) {
            assert_true(aqi_dgram_peer_info(world.node[i].dgram, 1 - i, &info));
            assert_int_equal(info.packet, 1424);
            assert_int_equal(world.node[i].small, 0);
        }
        end();
    }
}

/* A whole window is lost, and behind it nothing leaves: the answer to the first packet that is sent
 * again tells of all that left before it. */
static void test_window_lost(void **state)
{
    (void)state;
    struct done done = {0};
    begin(0, false);
    struct node *here = &world.node[0];
    assert_int_equal(send_one(here, 10, 0), AQ_OK);
    settle(1000000000);
    world.loss = 1000;
    assert_int_equal(aqi_dgram_put(here->dgram, 1, (uintptr_t)world.node[1].memory, here->memory,
                                   120000, false, NULL, 0, &done),
                     AQ_OK);
    run(20000);
    world.loss = 0;
    uint64_t healed = world.now;
    settle(1000000000);
    uint64_t timeouts = aqi_dgram_count(here->dgram, AQI_DGRAM_TIMEOUTS);
    printf("%llu us, %llu timeouts\n", (unsigned long long)(world.now - healed) / 1000,
           (unsigned long long)timeouts);
    assert_int_equal(done.remote, 1);
    assert_in_range(timeouts, 1, 3);
    end();
}

static void test_small_path(void **state)
{
    (void)state;
    struct aqi_dgram_peer_info info;
    begin(0, false);
    world.path = 1472;
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(send_one(&world.node[0], 20000, i), AQ_OK);
    settle(60000000000);
    assert_int_equal(world.node[1].requests, 5);
    assert_true(aqi_dgram_peer_info(world.node[0].dgram, 1, &info));
    assert_int_equal(info.packet, 1472);
    assert_int_equal(world.node[0].small, 1);
    end();
}

/* A path that has become longer than the timeout is still measured, after a few packets that are
 * sent again needlessly. */
static void test_longer_path(void **state)
{
    (void)state;
    begin(0, false);
    for (unsigned i = 0; i < 40; i++) {
        if (i == 20) world.late = 900000;
        assert_int_equal(send_one(&world.node[0], 10, i), AQ_OK);
        settle(1000000000);
    }
    assert_int_equal(world.node[1].requests, 40);
    assert_in_range(aqi_dgram_count(world.node[0].dgram, AQI_DGRAM_RESENT), 1, 8);
    end();
}

/* Buffers that are full lose packets of all sizes: that is no small path. */
static void test_choked_path(void **state)
{
    (void)state;
    struct aqi_dgram_peer_info info;
    static const unsigned chokes[] = {300, 600, 800, 950, 1000};
    for (unsigned i = 0; i < 5 * sizeof(chokes) / sizeof(chokes[0]); i++) {
        begin(0, false);
        world.random = 100 + i;
        world.choke = chokes[i / 5];
        assert_int_equal(send_one(&world.node[i % 2], 20000, i), AQ_OK);
        assert_int_equal(send_one(&world.node[i % 3 == 0], 20000, i), AQ_OK);
        run(2500000000);
        world.choke = 0;
        settle(60000000000);
        for (unsigned k = 0; k < NODES; k++) {
            assert_int_equal(world.node[k].small, 0);
            assert_true(aqi_dgram_peer_info(world.node[k].dgram, 1 - k, &info));
            if (info.packet != 0) assert_int_equal(info.packet, LARGEST / 16 * 16);
        }
        end();
    }
}

/*
 * So is one to a peer on a busy machine, which answers late and all at once: soon enough, and
 * without a warning of silence, as answers do come.
 */
static void test_small_path_to_busy(void **state)
{
    (void)state;
    static const uint64_t turns_ms[] = {5, 20, 50, 100, 150, 200, 300, 400};
    for (unsigned i = 0; i < 4 * AQI_COUNT_OF(turns_ms); i++) {
        begin(0, false);
        world.random = 100 + i;
        world.path = 1472;
        world.turn = turns_ms[i / 4] * 1000000;
        assert_int_equal(send_one(&world.node[0], 20000, i), AQ_OK);
        run(5000000000);
        assert_int_equal(world.node[1].requests, 1);
        assert_int_equal(world.node[0].small, 1);
        assert_int_equal(world.node[0].silent + world.node[1].silent, 0);
        assert_int_equal(world.node[0].usable, 1472);
        end();
    }
}

/* A path that is small and loses packets, too, is found out; in one direction as well. */
static void test_small_lossy_path(void **state)
{
    (void)state;
    struct aqi_dgram_peer_info info;
    for (unsigned i = 0; i < 20; i++) {
        begin(200, false);
        world.random = 100 + i;
        world.path = i % 2 != 0 ? 1472 : 1000;
        world.one_way = i % 4 / 2;
        assert_int_equal(send_one(&world.node[i % 3 == 0], 20000, i), AQ_OK);
        settle(60000000000);
        assert_true(aqi_dgram_peer_info(world.node[i % 3 == 0].dgram, i % 3 != 0, &info));
        assert_int_equal(info.packet, i % 2 != 0 ? 1472 : 992);
        assert_int_equal(world.node[i % 3 == 0].small, 1);
        end();
    }
}

static void test_restart(void **state)
{
    (void)state;
    begin(0, false);
    aqi_dgram_tell(world.node[0].dgram); /* which rides on packets */
    assert_false(aqi_dgram_told(world.node[1].dgram));
    assert_int_equal(send_one(&world.node[0], 10, 0), AQ_OK);
    settle(1000000000);
    assert_true(aqi_dgram_told(world.node[1].dgram));
    aqi_dgram_destroy(world.node[1].dgram);
    open_node(1, 777, false);
    assert_int_equal(send_one(&world.node[0], 10, 0), AQ_OK);
    run(1000000000);
    assert_int_equal(world.node[0].lost, 1);
    assert_int_equal(send_one(&world.node[0], 10, 0), AQ_EPEER);
    end();
}

static void test_down(void **state)
{
    (void)state;
    struct done done = {0};
    begin(1000, false);
    struct node *here = &world.node[0];
    assert_int_equal(aqi_dgram_put(here->dgram, 1, (uintptr_t)world.node[1].memory, here->memory,
                                   100000, false, NULL, 0, &done),
                     AQ_OK);
    run(3000000);
    aqi_dgram_down(here->dgram, 1);
    assert_int_equal(done.local, 1);
    assert_int_equal(done.remote, 1);
    assert_int_equal(done.status, AQ_EPEER);
    assert_true(aqi_dgram_idle(here->dgram));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_messages_lost),
        cmocka_unit_test(test_computes),
        cmocka_unit_test(test_crossing),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_bursts),
        cmocka_unit_test(test_late_heads),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_forget),
        cmocka_unit_test(test_idle_close),
        cmocka_unit_test(test_longer_path),
        cmocka_unit_test(test_small_path),
        cmocka_unit_test(test_known_path),
        cmocka_unit_test(test_choked_path),
        cmocka_unit_test(test_small_path_to_busy),
        cmocka_unit_test(test_small_lossy_path),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_lost_acknowledgements),
        cmocka_unit_test(test_window_lost),
        cmocka_unit_test(test_down),
        cmocka_unit_test(test_unheard_beginner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
