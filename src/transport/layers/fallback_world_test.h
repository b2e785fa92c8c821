/*
 * The fallback layer on a scripted transport that shows a test what it sends, and a peer whose
 * messages the test makes up.
 */
#ifndef FALLBACK_WORLD_TEST_H
#define FALLBACK_WORLD_TEST_H

#include "transport/layers/fallback_impl.h"

#include "base/capture_test.h"
#include "base/stats.h"
#include <limits.h>
#include <string.h>

enum { U32 = 1, U64 = 3, CAS = 3, ADD = 4 }; /* of <aqueduct/atomic.h> */
enum { SELF, PEER, ABSENT, PEERS, MEDIUM = 512, PIECE = 1024, REACH = 4096, SENT = 32 };

static struct {
    struct aqi_tp tp;
    struct aqi_fallback *fb;
    struct aqi_tp_params inner;
    struct aqi_peer peer[PEERS];
    aq_status answer; /* result of sends, after `again` times AQ_AGAIN */
    unsigned again, tries, relaxed, last_round;
    unsigned room;     /* number of messages that can be sent in total */
    unsigned progress; /* result of the transport's own operation */
    struct {
        uint32_t to;
        struct aqi_am am;
        int32_t args[8];
        unsigned char payload[PIECE];
    } sent[SENT];
    unsigned count;
    struct aqi_am arrived; /* delivered to the transport's opener */
    unsigned delivered, looks;
    unsigned char *swap; /* a byte that a stranger changes at check `swap_at` */
    unsigned swap_at;
    unsigned char swap_to;
} world;

static alignas(16) unsigned char reach[REACH + 64]; /* peers may access the first REACH bytes */

static inline aq_status serve_am_send(struct aqi_tp *tp, struct aqi_peer *peer,
                                      const struct aqi_am *am, struct aqi_comp *comp)
{
    (void)tp, (void)comp;
    world.tries++;
    if (world.again != 0) {
        world.again--;
        return AQ_AGAIN;
    }
    if (world.answer != AQ_OK) return world.answer;
    if (world.count == world.room) return AQ_AGAIN;
    assert_in_range(world.count, 0, SENT - 1);
    assert_in_range(am->nargs, 2, 8);
    assert_in_range(am->nbytes, 0, PIECE);
    world.sent[world.count].to = peer->id;
    world.sent[world.count].am = *am;
    memcpy(world.sent[world.count].args, am->args, 4u * am->nargs);
    if (am->nbytes != 0) memcpy(world.sent[world.count].payload, am->payload, am->nbytes);
    world.count++;
    return AQ_OK;
}

static inline aq_status serve_connect(struct aqi_tp *tp, uint32_t id, uint32_t host,
                                      struct aqi_peer **peer)
{
    (void)tp, (void)host;
    world.peer[id].id = id;
    *peer = &world.peer[id];
    return AQ_OK;
}

static inline unsigned serve_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    (void)tp, (void)mode, (void)now;
    return world.progress;
}

static inline aq_status serve_quiet(struct aqi_tp *tp, struct aqi_peer *peer)
{
    (void)tp, (void)peer;
    return AQ_OK;
}

static inline void serve_deliver(void *arg, uint32_t source, const struct aqi_am *am)
{
    (void)arg;
    assert_int_equal(source, PEER);
    world.delivered++;
    world.arrived = *am;
}

static inline bool serve_range_ok(void *host, uint64_t addr, size_t len)
{
    (void)host;
    if (++world.looks == world.swap_at) *world.swap = world.swap_to;
    return aqi_within(addr, len, (uintptr_t)reach, REACH);
}

static inline void serve_relax(void *host, unsigned round)
{
    (void)host;
    assert_int_equal(round, world.last_round == 0 ? 0 : world.last_round);
    world.last_round = round + 1;
    world.relaxed++;
    if (world.relaxed == 100) aqi_tp_peer_down(&world.tp, PEER);
}

static inline uint64_t serve_now(void *host)
{
    (void)host;
    return 1;
}

static inline void open_world(void)
{
    const struct aqi_tp_params params = {.size = PEERS,
                                         .hooks = {.deliver = serve_deliver,
                                                   .range_ok = serve_range_ok,
                                                   .relax = serve_relax,
                                                   .now = serve_now}};
    memset(&world, 0, sizeof(world));
    world.room = UINT_MAX;
    for (unsigned i = 0; i < sizeof(reach); i++)
        reach[i] = (unsigned char)(i * 7);
    assert_int_equal(aqi_fallback_create(&params, false, &world.inner, &world.fb), AQ_OK);
    world.tp.limits = (struct aqi_tp_limits){.max_medium = MEDIUM, .max_piece = PIECE};
    world.tp.ops.am_send = serve_am_send;
    world.tp.ops.connect = serve_connect;
    world.tp.ops.progress = serve_progress;
    world.tp.ops.quiet = serve_quiet;
    aqi_fallback_complete(world.fb, &world.tp);
    struct aqi_peer *peer;
    assert_int_equal(world.tp.ops.connect(&world.tp, SELF, 0, &peer), AQ_OK);
    assert_int_equal(world.tp.ops.connect(&world.tp, PEER, 0, &peer), AQ_OK);
}

static inline void close_world(void)
{
    aqi_fallback_destroy(world.fb);
    assert_int_equal(aqi_tp_pending, 0);
}

/* Deliver a message; returns how many were dropped. */
static inline unsigned arrive_from(uint32_t source, const struct aqi_am *am)
{
    uint64_t before = aqi_counter_sum(AQI_CTR_AM_DROPPED);
    world.inner.hooks.deliver(world.inner.hooks.arg, source, am);
    return (unsigned)(aqi_counter_sum(AQI_CTR_AM_DROPPED) - before);
}

/* An internal message with the given arguments, up to eight. */
struct message {
    enum fallback_message type;
    uint8_t nargs;
    int32_t args[8];
    const void *at; /* in our memory */
    const void *payload;
    uint32_t nbytes;
};

static inline bool is_reply(enum fallback_message type)
{
    return type == FB_ACK || type == FB_GET_DATA || type == FB_RESULT || type == FB_DONE ||
           type == FB_ROWS || type == FB_REFUSED;
}

static inline unsigned arrives(struct message m)
{
    const struct aqi_am am = {.kind = AQI_AM_INTERNAL,
                              .handler = (uint8_t)m.type,
                              .nargs = m.nargs,
                              .flags = is_reply(m.type) ? AQI_AM_IS_REPLY : 0,
                              .nbytes = m.nbytes,
                              .addr = (uintptr_t)m.at,
                              .args = m.args,
                              .payload = m.payload};
    return arrive_from(PEER, &am);
}

/* Check the last message sent, with these arguments. */
static inline void expect_sent(unsigned count, enum fallback_message type, unsigned nargs,
                               const int32_t *args)
{
    assert_int_equal(world.count, count);
    const struct aqi_am *am = &world.sent[count - 1].am;
    assert_int_equal(world.sent[count - 1].to, PEER);
    assert_int_equal(am->kind, AQI_AM_INTERNAL);
    assert_int_equal(am->handler, type);
    assert_int_equal(am->flags, is_reply(type) ? AQI_AM_IS_REPLY : 0);
    assert_int_equal(am->nargs, nargs);
    assert_memory_equal(world.sent[count - 1].args, args, 4 * nargs);
}

static inline void expect_answer(unsigned count, enum fallback_message type)
{
    static const int32_t named[2] = {5, 6};
    expect_sent(count, type, 2, named);
    assert_int_equal(world.sent[count - 1].am.nbytes, 0);
}

#endif
