/* Tests order.c over a scripted transport: the numbers assigned, and arrivals in any order. */
#include "transport/layers/order.h"

#include "base/cmocka_test.h"

#include <string.h>

enum { PEER = 1, SENT = 16 };

static struct {
    struct aqi_tp tp;
    struct aqi_tp_params inner;
    struct aqi_order *order;
    struct aqi_peer peer;
    aq_status answer;
    struct {
        struct aqi_am am;
        int32_t args[AQI_AM_WIRE_ARGS];
    } sent[SENT];
    unsigned count;
    int32_t firsts[SENT]; /* first arguments, in the order of delivery */
    unsigned char payload[SENT];
    unsigned delivered, lost;
    const struct aqi_am *nested; /* arrives while the next one is handled */
} world;

static aq_status order_test_send(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                                 struct aqi_comp *comp)
{
    assert_ptr_equal(peer, &world.peer);
    if (world.answer != AQ_OK) return world.answer;
    assert_in_range(world.count, 0, SENT - 1);
    world.sent[world.count].am = *am;
    memcpy(world.sent[world.count].args, am->args, 4u * am->nargs);
    world.count++;
    return AQ_OK;
}

static aq_status order_test_reserve(struct aqi_tp *tp, struct aqi_peer *peer, bool reply,
                                    unsigned nargs, size_t nbytes, struct aqi_slot *slot)
{
    assert_int_equal(nargs, 2); /* with the number: it moves the payload */
    assert_int_equal(nbytes, 100);
    return AQ_OK;
}

static aq_status order_test_commit(struct aqi_tp *tp, struct aqi_peer *peer, struct aqi_slot *slot,
                                   const struct aqi_am *am)
{
    return am != NULL ? order_test_send(tp, peer, am, NULL) : AQ_OK;
}

static unsigned order_test_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    return 0;
}

static void arrive(const struct aqi_am *am)
{
    world.inner.hooks.deliver(world.inner.hooks.arg, PEER, am);
}

static void order_test_deliver(void *arg, uint32_t source, const struct aqi_am *am)
{
    assert_int_equal(source, PEER);
    assert_in_range(world.delivered, 0, SENT - 1);
    world.firsts[world.delivered] = am->args[0];
    world.payload[world.delivered] =
        aqi_am_payload(am) != 0 ? *(const unsigned char *)am->payload : 0;
    world.delivered++;
    const struct aqi_am *nested = world.nested;
    unsigned before = world.delivered;
    world.nested = NULL;
    if (nested == NULL) return;
    arrive(nested);
    /* A reply does not wait for requests; a request waits for the handler to return. */
    assert_int_equal(world.delivered - before, (nested->flags & AQI_AM_IS_REPLY) != 0);
}

static void order_test_lost(void *arg, uint32_t id, const char *why)
{
    assert_int_equal(id, PEER);
    assert_non_null(strstr(why, "omitted a message"));
    world.lost++;
}

static int open_world(void **state)
{
    memset(&world, 0, sizeof(world));
    world.inner.hooks.deliver = order_test_deliver;
    world.inner.hooks.peer_lost = order_test_lost;
    world.inner.threads = true;
    assert_int_equal(aqi_order_create(&world.inner, &world.order), AQ_OK);
    world.tp.ops.am_send = order_test_send;
    world.tp.ops.am_reserve = order_test_reserve;
    world.tp.ops.am_commit = order_test_commit;
    world.tp.ops.progress = order_test_progress;
    aqi_order_complete(world.order, &world.tp);
    return 0;
}

static int close_world(void **state)
{
    aqi_order_destroy(world.order);
    return 0;
}

/* Send a message with argument `n`, and return it as it would arrive. */
static const struct aqi_am *send_one(uint8_t kind, unsigned flags, int32_t n)
{
    const int32_t args[AQI_AM_MAX_ARGS] = {n};
    unsigned char byte = (unsigned char)n;
    struct aqi_am am = {.kind = kind,
                        .flags = (uint8_t)flags,
                        .nargs = kind == AQI_AM_LONG_PACKED ? AQI_AM_MAX_ARGS : 1,
                        .args = args,
                        .addr = kind == AQI_AM_LONG_PACKED ? 0x1234 : 0,
                        .nbytes = kind != AQI_AM_SHORT,
                        .payload = &byte};
    unsigned at = world.count;
    assert_int_equal(world.tp.ops.am_send(&world.tp, &world.peer, &am, NULL), AQ_OK);
    world.sent[at].am.args = world.sent[at].args;
    if (kind == AQI_AM_LONG_PACKED) assert_int_equal(world.sent[at].am.addr, 0x1234);
    world.sent[at].am.payload = &world.sent[at].args[0]; /* its first byte */
    return &world.sent[at].am;
}

static void expect_delivered(unsigned count, const int32_t *expected)
{
    assert_int_equal(world.delivered, count);
    assert_memory_equal(world.firsts, expected, count * sizeof(expected[0]));
}

static void the_order_is_restored(void **state)
{
    const struct aqi_am *ams[6];
    static const uint8_t kinds[] = {AQI_AM_SHORT,       AQI_AM_MEDIUM, AQI_AM_LONG_PACKED,
                                    AQI_AM_LONG_PACKED, AQI_AM_SHORT,  AQI_AM_MEDIUM};
    static const unsigned shuffled[] = {3, 1, 5, 0, 4, 2};
    for (int32_t i = 0; i < 6; i++)
        ams[i] = send_one(kinds[i], 0, i + 10);
    for (unsigned i = 0; i < 6; i++)
        arrive(ams[shuffled[i]]);
    expect_delivered(6, (const int32_t[]){10, 11, 12, 13, 14, 15});
    assert_int_equal(world.payload[0], 0);
    for (unsigned i = 1; i < 6; i++)
        assert_int_equal(world.payload[i], kinds[i] == AQI_AM_SHORT ? 0 : i + 10);
    assert_int_equal(world.tp.ops.progress(&world.tp, AQI_PROGRESS_ALL, 0), 0);
    assert_int_equal(world.lost, 0);
}

/* Refused messages get no number; internal messages have none either, and overtake all others. */
static void only_sent_messages_are_numbered(void **state)
{
    const struct aqi_am internal = {.kind = AQI_AM_INTERNAL, .nargs = 1, .args = &(int32_t){99}};
    const struct aqi_am again = {.kind = AQI_AM_SHORT, .nargs = 1, .args = &(int32_t){1}};
    struct aqi_slot slot = {0};
    assert_int_equal(world.tp.ops.am_reserve(&world.tp, &world.peer, false, 1, 100, &slot), AQ_OK);
    world.answer = AQ_AGAIN;
    assert_int_equal(world.tp.ops.am_send(&world.tp, &world.peer, &again, NULL), AQ_AGAIN);
    assert_int_equal(world.tp.ops.am_commit(&world.tp, &world.peer, &slot, &again), AQ_AGAIN);
    assert_int_equal(world.tp.ops.am_commit(&world.tp, &world.peer, &slot, NULL), AQ_OK);
    world.answer = AQ_OK;
    assert_int_equal(world.tp.ops.am_commit(&world.tp, &world.peer, &slot, &again), AQ_OK);
    world.sent[0].am.args = world.sent[0].args;
    const struct aqi_am *second = send_one(AQI_AM_SHORT, 0, 2);
    arrive(second);
    arrive(&internal);
    arrive(&world.sent[0].am);
    expect_delivered(3, (const int32_t[]){99, 1, 2});
}

static void replies_have_an_order_of_their_own(void **state)
{
    const struct aqi_am *requests[2], *reply;
    requests[0] = send_one(AQI_AM_SHORT, 0, 1);
    requests[1] = send_one(AQI_AM_SHORT, 0, 2);
    reply = send_one(AQI_AM_MEDIUM, AQI_AM_IS_REPLY, 3);
    arrive(requests[1]);
    world.nested = reply;
    arrive(requests[0]);
    expect_delivered(3, (const int32_t[]){1, 3, 2});
}

static void handlers_do_not_overlap(void **state)
{
    const struct aqi_am *first = send_one(AQI_AM_SHORT, 0, 1), *second;
    second = send_one(AQI_AM_SHORT, 0, 2);
    world.nested = second; /* as if another thread received it meanwhile */
    arrive(first);
    expect_delivered(2, (const int32_t[]){1, 2});
}

/* A peer that omits or repeats a message, or sends nonsense, is lost, once. */
static void lying_peers_are_lost(void **state)
{
    static const uint32_t numbers[] = {1u << 23, 1u << 31, UINT32_MAX, 0};
    for (unsigned i = 0; i < AQI_COUNT_OF(numbers); i++) {
        const struct aqi_am am = {
            .kind = AQI_AM_SHORT, .nargs = 2, .args = (int32_t[]){7, (int32_t)numbers[i]}};
        open_world(NULL);
        if (numbers[i] == 0) arrive(&am); /* then again */
        assert_int_equal(world.delivered, numbers[i] == 0);
        arrive(&am);
        assert_int_equal(world.delivered, numbers[i] == 0);
        for (unsigned rounds = 0; rounds < 3; rounds++)
            (void)world.tp.ops.progress(&world.tp, AQI_PROGRESS_ALL, 0);
        assert_int_equal(world.lost, 1);
        close_world(NULL);
    }
    open_world(NULL);
    const struct aqi_am bare = {.kind = AQI_AM_SHORT};
    arrive(&bare);
    (void)world.tp.ops.progress(&world.tp, AQI_PROGRESS_REPLIES, 0);
    assert_int_equal(world.lost, 0);
    (void)world.tp.ops.progress(&world.tp, AQI_PROGRESS_ALL, 0);
    assert_int_equal(world.lost, 1);
    close_world(NULL);
}

int main(void)
{
#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
    const struct CMUnitTest tests[] = {
        IN_WORLD(the_order_is_restored),
        IN_WORLD(only_sent_messages_are_numbered),
        IN_WORLD(replies_have_an_order_of_their_own),
        IN_WORLD(handlers_do_not_overlap),
        cmocka_unit_test(lying_peers_are_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
