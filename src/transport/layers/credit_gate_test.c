/*
 * Tests credit_gate.c with loop, on which credits are imposed: what is rejected, the credits
 * returned with other messages, those taken by a prepared message, the effective limits. With peers
 * that send anything: credit_gate_alone_test.c. Floods and deaths: tests/contract with credits=1.
 */
#include "transport/layers/credit_gate.h"

#include "base/capture_test.h"
#include "transport/layers/fault.h"
#include <string.h>

static struct {
    struct aqi_tp *tp;
    struct aqi_peer *self;
    unsigned requests, replies, nargs;
    bool reply_to_requests;
} world;

static void deliver(void *arg, uint32_t source, const struct aqi_am *am)
{
    assert_int_equal(am->flags & ~AQI_AM_IS_REPLY, 0);
    assert_int_equal(am->nargs, world.nargs);
    for (unsigned i = 0; i < am->nargs; i++)
        assert_int_equal(am->args[i], 1000 + (int)i);
    if (am->flags & AQI_AM_IS_REPLY) {
        world.replies++;
        return;
    }
    world.requests++;
    if (!world.reply_to_requests) return;
    struct aqi_am reply = *am;
    reply.flags = AQI_AM_IS_REPLY;
    assert_int_equal(world.tp->ops.am_send(world.tp, world.self, &reply, NULL), AQ_OK);
}

static void peer_lost(void *arg, uint32_t id, const char *why)
{
    fail_msg("peer %u lost: %s", id, why);
}

static void open_world(const char *fault, struct aqi_credit_limits credits)
{
    struct aqi_tp_params params = {.hooks = {.deliver = deliver, .peer_lost = peer_lost},
                                   .size = 1,
                                   .local_size = 1,
                                   .max_medium = 1024,
                                   .credits = credits};
    memset(&world, 0, sizeof(world));
    assert_int_equal(aqi_fault_configure(fault), AQ_OK);
    assert_int_equal(aqi_tp_open(aqi_transport_find("loop"), &params, &world.tp), AQ_OK);
    assert_int_equal(world.tp->ops.connect(world.tp, 0, 0, &world.self), AQ_OK);
}

static void close_world(void)
{
    aqi_tp_close(world.tp);
    assert_int_equal(aqi_fault_configure(""), AQ_OK);
}

static aq_status send(size_t nbytes)
{
    static const int32_t args[16] = {1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007,
                                     1008, 1009, 1010, 1011, 1012, 1013, 1014, 1015};
    static const char payload[1024];
    struct aqi_am am = {.kind = nbytes ? AQI_AM_MEDIUM : AQI_AM_SHORT,
                        .handler = 200,
                        .nargs = (uint8_t)world.nargs,
                        .nbytes = (uint32_t)nbytes,
                        .args = args,
                        .payload = payload};
    return world.tp->ops.am_send(world.tp, world.self, &am, NULL);
}

static unsigned send_all(size_t nbytes)
{
    unsigned n = 0;
    while (n < 1000 && send(nbytes) == AQ_OK)
        n++;
    return n;
}

static void run(void)
{
    while (world.tp->ops.progress(world.tp, AQI_PROGRESS_ALL, 0) != 0)
        ;
}

/* Without the capability there is no gate. */
static void others_have_no_gate(void **state)
{
    open_world("late=1", (struct aqi_credit_limits){.depth = 1});
    assert_null(world.tp->gate);
    assert_int_equal(world.tp->ops.caps & AQI_CAP_CREDITS, 0);
    close_world();
}

static void depth_bounds_requests(void **state)
{
    for (unsigned replying = 0; replying < 2; replying++)
        for (unsigned nargs = 0; nargs <= 16; nargs += 8) {
            open_world("credits=1", (struct aqi_credit_limits){.depth = 5, .slack = 1});
            world.nargs = nargs;
            world.reply_to_requests = replying;
            assert_int_equal(send_all(0), 5);
            run();
            assert_int_equal(world.requests, 5);
            /* The fifth hidden one is banked, and returned with the first of these. */
            assert_int_equal(send_all(0), replying ? 5 : 4);
            run();
            assert_int_equal(world.requests, replying ? 10 : 9);
            assert_int_equal(world.replies, replying ? 10 : 0);
            assert_int_equal(world.tp->ops.quiet(world.tp, NULL), AQ_OK);
            close_world();
        }
}

static void limits_bound_requests(void **state)
{
    static const struct {
        const char *fault;
        struct aqi_credit_limits credits;
        size_t nbytes;
        unsigned sent;
    } rows[] = {
        {"credits=1,depth=3", {.depth = 5}, 0, 3}, /* the transport's limit */
        {"credits=1,depth=30", {.depth = 5}, 0, 5},
        {"credits=1", {.depth = 8, .total = 2}, 0, 2},
        {"credits=1", {.depth = 8, .bytes = 1}, 1024, 2}, /* at least twice the largest */
        {"credits=1", {.depth = 8}, 1024, 8},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        open_world(rows[i].fault, rows[i].credits);
        assert_int_equal(send_all(rows[i].nbytes), rows[i].sent);
        run();
        close_world();
    }
}

/* A prepared message takes its credit when it is prepared, and returns it if it is not sent. */
static void a_slot_takes_a_credit(void **state)
{
    open_world("credits=1,hide=reserve", (struct aqi_credit_limits){.depth = 2});
    struct aqi_slot slot;
    const struct aqi_transport *ops = &world.tp->ops;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ops->am_reserve(world.tp, world.self, false, 0, 500, &slot), AQ_OK);
        assert_int_equal(ops->am_commit(world.tp, world.self, &slot, NULL), AQ_OK);
    }
    assert_int_equal(send_all(0), 2);
    assert_int_equal(ops->am_reserve(world.tp, world.self, false, 0, 500, &slot), AQ_OK);
    struct aqi_am am = {.kind = AQI_AM_MEDIUM, .handler = 200, .nbytes = 500};
    assert_int_equal(ops->am_commit(world.tp, world.self, &slot, &am), AQ_AGAIN);
    run();
    assert_int_equal(ops->am_commit(world.tp, world.self, &slot, &am), AQ_OK);
    run();
    assert_int_equal(world.requests, 3);
    close_world();
}

static void limits_in_force(void **state)
{
    struct aqi_tp_params params = {.credits = {.depth = 100000, .bytes = UINT64_MAX, .slack = 7}};
    struct aqi_tp_limits limits = {.max_medium = 4096};
    struct aqi_credit_limits c = aqi_credit_gate_limits(&params, &limits);
    assert_int_equal(c.depth, 4095);
    assert_int_equal(c.bytes, 0xfffffu * 64u);
    assert_int_equal(c.largest, 4096 + 96 + 32);
    params.credits.depth = 0; /* nothing requested */
    c = aqi_credit_gate_limits(&params, &limits);
    assert_int_equal(c.depth, 32);
    assert_int_equal(c.bytes, 12288);
    assert_int_equal(c.slack, 1);
}

static void the_lower_limit_holds(void **state)
{
    static const struct {
        uint32_t depth, depth_of_transport, depth_in_force;
        uint32_t total, total_of_transport, total_in_force;
    } rows[] = {
        {5, 0, 5, 0, 0, 0}, {5, 1, 1, 0, 1, 1}, {1, 5, 1, 1, 5, 1}, {5, 4, 4, 0, 5, 5},
        {4, 5, 4, 7, 5, 5}, {5, 5, 5, 3, 5, 3}, {1, 1, 1, 5, 0, 5},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        struct aqi_tp_params params = {
            .credits = {.depth = rows[i].depth, .total = rows[i].total, .bytes = 0}};
        struct aqi_tp_limits limits = {.max_medium = 512,
                                       .depth = rows[i].depth_of_transport,
                                       .total = rows[i].total_of_transport};
        struct aqi_credit_limits c = aqi_credit_gate_limits(&params, &limits);
        assert_int_equal(c.depth, rows[i].depth_in_force);
        assert_int_equal(c.total, rows[i].total_in_force);
        assert_int_equal(c.bytes, 0);
        /* At least twice the largest, of 32 + 64 + 512 bytes in units of 64. */
        params.credits.bytes = 1;
        assert_int_equal(aqi_credit_gate_limits(&params, &limits).bytes, 2 * 640);
        params.credits.bytes = 1281;
        assert_int_equal(aqi_credit_gate_limits(&params, &limits).bytes, 1281);
    }
}

/* Both ends compute it, one with the word of credits among the arguments. */
static void sizes_of_messages(void **state)
{
    static const struct {
        unsigned nargs, nbytes, size;
    } rows[] = {
        {0, 0, 64},    {2, 0, 64},    {10, 0, 64}, {11, 0, 128}, {16, 0, 128},     {0, 1, 64},
        {2, 32, 64},   {2, 33, 128},  {3, 16, 64}, {10, 1, 128}, {16, 512, 640},   {0, 0, 64},
        {10, 64, 128}, {10, 65, 192}, {0, 32, 64}, {0, 33, 128}, {16, 4096, 4224},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++)
        for (unsigned credits = 0; credits < 2; credits++) {
            struct aqi_am am = {.kind = AQI_AM_MEDIUM,
                                .flags = credits ? AQI_AM_CREDITS : 0,
                                .nargs = (uint8_t)(rows[i].nargs + credits),
                                .nbytes = rows[i].nbytes};
            assert_int_equal(aqi_credit_bytes(&am), rows[i].size);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_have_no_gate),   cmocka_unit_test(depth_bounds_requests),
        cmocka_unit_test(limits_bound_requests), cmocka_unit_test(a_slot_takes_a_credit),
        cmocka_unit_test(limits_in_force),       cmocka_unit_test(the_lower_limit_holds),
        cmocka_unit_test(sizes_of_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
