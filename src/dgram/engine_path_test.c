/* Twin of engine.c: paths that do not carry the largest packet, or seem not to. */
#include "dgram/engine_world_test.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_path),         cmocka_unit_test(test_small_path),
        cmocka_unit_test(test_longer_path),        cmocka_unit_test(test_choked_path),
        cmocka_unit_test(test_small_path_to_busy), cmocka_unit_test(test_small_lossy_path)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
