/* Twin of engine.c: messages that may be lost and are never acknowledged. */
#include "dgram/engine_world_test.h"

static void open_cast(unsigned loss, bool authenticate, bool taken)
{
    loose_nodes[0] = true;
    loose_nodes[1] = taken;
    begin(loss, authenticate);
}

static aq_status cast(size_t body_len, unsigned serial)
{
    static unsigned char body[70000];
    unsigned char head[HEAD] = {0};
    head[8] = (unsigned char)serial;
    for (size_t i = 0; i < body_len; i++)
        body[i] = (unsigned char)(i + serial);
    return aqi_dgram_cast(world.node[0].dgram, 1, head, HEAD, body, body_len);
}

/* The first attempt makes the connection. */
static void cast_connect(void)
{
    assert_int_equal(cast(1, 0), AQ_AGAIN);
    for (unsigned i = 0; i < 1000 && cast(1, 0) == AQ_AGAIN; i++)
        run(1000000);
    run(100000000);
}

static uint64_t count_of(unsigned node, enum aqi_dgram_counter counter)
{
    return aqi_dgram_count(world.node[node].dgram, counter);
}

static void casts_arrive(void **state)
{
    for (unsigned mac = 0; mac < 2; mac++) {
        open_cast(0, mac != 0, true);
        cast_connect();
        unsigned before = world.node[1].requests;
        uint64_t acks = count_of(1, AQI_DGRAM_ACKS);
        for (unsigned i = 0; i < 200; i++) {
            assert_int_equal(cast(i * 37 % 1000, i), AQ_OK);
            if (i % 10 == 0) run(100000);
        }
        run(1000000000);
        assert_int_equal(world.node[1].requests - before, 200);
        assert_int_equal(count_of(1, AQI_DGRAM_ACKS), acks);
        end();
    }
}

static void casts_get_lost(void **state)
{
    open_cast(300, false, true);
    cast_connect();
    unsigned before = world.node[1].requests;
    uint64_t sent = count_of(0, AQI_DGRAM_RESENT);
    for (unsigned i = 0; i < 500; i++)
        assert_int_equal(cast(100, i), AQ_OK);
    run(1000000000);
    assert_in_range(world.node[1].requests - before, 250, 450);
    assert_int_equal(count_of(0, AQI_DGRAM_RESENT), sent);
    end();
}

/* A peer that does not accept them drops them; other messages are delivered as usual. */
static void casts_are_refused(void **state)
{
    open_cast(0, false, false);
    cast_connect();
    assert_int_equal(world.node[1].requests, 0);
    uint64_t dropped = count_of(1, AQI_DGRAM_DROP_MALFORMED);
    assert_in_range(dropped, 1, 1000);
    send_and_settle(&world.node[0], 20, 1, 1000000000);
    assert_int_equal(world.node[1].requests, 1);
    end();
}

static void casts_have_a_limit(void **state)
{
    for (unsigned mac = 0; mac < 2; mac++) {
        struct aqi_dgram_config config = {.packet = LARGEST / 16 * 16, .authenticate = mac != 0};
        size_t most = aqi_dgram_most_cast(&config) - (HEAD + 15) / 16 * 16;
        open_cast(0, mac != 0, true);
        cast_connect();
        unsigned before = world.node[1].requests;
        assert_int_equal(cast(most, 1), AQ_OK);
        assert_int_equal(cast(most + 1, 1), AQ_ESIZE);
        run(1000000000);
        assert_int_equal(world.node[1].requests - before, 1);
        end();
    }
}

/* A process that makes no calls gets every one of them when it does. */
static void casts_are_parked(void **state)
{
    open_cast(0, false, true);
    cast_connect();
    unsigned before = world.node[1].requests;
    world.computes = true;
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(cast(100, i), AQ_OK);
    run(100000000);
    assert_int_equal(world.node[1].requests, before);
    assert_true(aqi_dgram_parked(world.node[1].dgram));
    world.computes = false;
    (void)aqi_dgram_resume(world.node[1].dgram, true, world.now);
    assert_int_equal(world.node[1].requests - before, 20);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(casts_arrive), cmocka_unit_test(casts_get_lost),
        cmocka_unit_test(casts_are_refused), cmocka_unit_test(casts_have_a_limit),
        cmocka_unit_test(casts_are_parked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
