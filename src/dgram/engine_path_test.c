/* Twin of engine.c: paths that do not carry the largest packet, or seem not to. */
#include "dgram/engine_world_test.h"

/* If the path is known nothing larger is tried, which would take time, and nothing is logged. */
static void test_known_path(void **state)
{
    for (unsigned first = 0; first < NODES; first++) {
        begin(0, false);
        world.path = 1472;
        world.known = 1424;
        send_and_settle(&world.node[first], 20000, 0, 2000000);
        for (unsigned i = 0; i < NODES; i++) {
            assert_int_equal(info_of(i).packet, 1424);
            assert_int_equal(world.node[i].small, 0);
        }
        end();
    }
}

static void test_small_path(void **state)
{
    begin(0, false);
    world.path = 1472;
    for (unsigned i = 0; i < 5; i++)
        send_and_settle(&world.node[0], 20000, i, 60000000000);
    assert_int_equal(world.node[1].requests, 5);
    assert_int_equal(info_of(0).packet, 1472);
    assert_int_equal(world.node[0].small, 1);
    end();
}

/* A path that has become longer than the timeout is still measured, after a few spurious
 * retransmissions. */
static void test_longer_path(void **state)
{
    begin(0, false);
    for (unsigned i = 0; i < 40; i++) {
        if (i == 20) world.late = 900000;
        send_and_settle(&world.node[0], 10, i, 1000000000);
    }
    assert_int_equal(world.node[1].requests, 40);
    assert_in_range(aqi_dgram_count(world.node[0].dgram, AQI_DGRAM_RESENT), 1, 8);
    end();
}

/* Full buffers lose packets of all sizes: that does not make the path a small one. */
static void test_choked_path(void **state)
{
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
            size_t packet = info_of(k).packet;
            if (packet != 0) assert_int_equal(packet, LARGEST / 16 * 16);
        }
        end();
    }
}

/*
 * A small path to a busy machine, which answers late and all at once, is detected soon enough, and
 * without a warning of silence, as answers do come.
 */
static void test_small_path_to_busy(void **state)
{
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

/* A small path that loses packets is detected, too, even if it is small one way only. */
static void test_small_lossy_path(void **state)
{
    for (unsigned i = 0; i < 20; i++) {
        begin(200, false);
        world.random = 100 + i;
        world.path = i % 2 != 0 ? 1472 : 1000;
        world.one_way = i % 4 / 2;
        send_and_settle(&world.node[i % 3 == 0], 20000, i, 60000000000);
        assert_int_equal(info_of(i % 3 == 0).packet, i % 2 != 0 ? 1472 : 992);
        assert_int_equal(world.node[i % 3 == 0].small, 1);
        end();
    }
}

/*
 * A path that comes to carry less, in one direction or in both: packets in flight arrive, in
 * slices, and the user is warned.
 */
static void test_path_that_shrinks(void **state)
{
    enum { FIRST = 5, ALL = 40 };
    for (unsigned i = 0; i < 32; i++) {
        begin(i % 4 / 2 * 20, i % 2 != 0);
        world.random = 100 + i;
        for (unsigned k = 0; k < ALL; k++) {
            if (k == FIRST) {
                settle(1000000000);
                assert_int_equal(world.node[0].small + world.node[1].small, 0);
                world.path = i % 3 == 0 ? AQI_DGRAM_LEAST_PACKET : i % 3 == 1 ? 1000 : 4000;
                world.one_way = i % 8 / 4;
            }
            assert_int_equal(send_one(&world.node[k % 2], k % 3 == 0 ? 20000 : 700, k), AQ_OK);
        }
        struct done put = {0}, get = {0};
        unsigned char *mine = world.node[0].memory, *theirs = world.node[1].memory;
        for (unsigned k = 0; k < MEMORY; k++) {
            mine[k] = (unsigned char)(k * 7 >> 3);
            theirs[k] = (unsigned char)(k * 11 >> 3);
        }
        enum { HALF = MEMORY / 2 };
        assert_int_equal(aqi_dgram_put(world.node[0].dgram, 1, (uintptr_t)theirs, mine, HALF, false,
                                       NULL, 0, &put),
                         AQ_OK);
        assert_int_equal(aqi_dgram_get(world.node[0].dgram, 1, (uintptr_t)theirs + HALF,
                                       mine + HALF, HALF, &get),
                         AQ_OK);
        settle(60000000000);
        assert_int_equal(world.node[0].requests + world.node[1].requests, ALL);
        assert_true(put.remote == 1 && put.status == AQ_OK);
        assert_true(get.remote == 1 && get.status == AQ_OK);
        assert_memory_equal(mine, theirs, MEMORY);
        assert_int_equal(info_of(0).packet, world.path / 16 * 16);
        assert_int_equal(world.node[0].small, 1);
        assert_int_equal(world.node[1].small, world.one_way ? 0 : 1);
        assert_int_equal(world.node[0].silent + world.node[1].silent, 0);
        end();
    }
}

/* It may shrink again, and be too small for the first slices. */
static void test_path_that_shrinks_again(void **state)
{
    begin(0, true);
    send_and_settle(&world.node[0], 60000, 0, 1000000000);
    static const size_t paths[] = {4000, 1472, AQI_DGRAM_LEAST_PACKET};
    for (unsigned i = 0; i < AQI_COUNT_OF(paths); i++) {
        world.path = paths[i];
        assert_int_equal(send_one(&world.node[0], 60000, i), AQ_OK);
        run(1300000000); /* some of the search */
    }
    settle(60000000000);
    assert_int_equal(world.node[1].requests, 4);
    assert_int_equal(world.node[0].usable, AQI_DGRAM_LEAST_PACKET);
    end();
}

/* A peer that computes acknowledges nothing, but answers probes: the path has not changed. */
static void test_computing_is_no_small_path(void **state)
{
    begin(0, false);
    send_and_settle(&world.node[0], 20000, 0, 1000000000);
    world.computes = true;
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(send_one(&world.node[0], 20000, i), AQ_OK);
    run(30000000000);
    world.computes = false;
    assert_int_equal(world.node[1].requests, 1);
    (void)aqi_dgram_resume(world.node[1].dgram, true, world.now);
    settle(1000000000);
    assert_int_equal(world.node[1].requests, 9);
    assert_int_equal(info_of(0).packet, LARGEST / 16 * 16);
    assert_int_equal(world.node[0].small, 0);
    end();
}

/* Slices that arrive while the process computes are assembled, and the packet is parked. */
static void test_path_to_computing_shrinks(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        begin(0, i != 0);
        send_and_settle(&world.node[0], 20000, 0, 1000000000);
        world.computes = true;
        world.path = 1000;
        assert_int_equal(send_one(&world.node[0], 20000, 1), AQ_OK);
        run(20000000000);
        assert_int_equal(world.node[0].small, 1);
        world.path = 0; /* from now on nothing arrives: it has everything */
        world.one_way = true;
        run(1000000000);
        world.computes = false;
        (void)aqi_dgram_resume(world.node[1].dgram, true, world.now);
        assert_int_equal(world.node[1].requests, 2);
        world.path = 1000;
        settle(10000000000);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_path),
                                       cmocka_unit_test(test_small_path),
                                       cmocka_unit_test(test_longer_path),
                                       cmocka_unit_test(test_choked_path),
                                       cmocka_unit_test(test_small_path_to_busy),
                                       cmocka_unit_test(test_small_lossy_path),
                                       cmocka_unit_test(test_path_that_shrinks),
                                       cmocka_unit_test(test_path_that_shrinks_again),
                                       cmocka_unit_test(test_computing_is_no_small_path),
                                       cmocka_unit_test(test_path_to_computing_shrinks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
