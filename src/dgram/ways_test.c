/* Two engines and two networks, either of them cut at times: the ways that they use. */
#include "dgram/pair_test.h"

/* The network by which an end sends to the other; NETWORKS: it is not connected. */
static unsigned way_of(unsigned from)
{
    struct aqi_dgram_peer_info info = info_of(from);
    return info.connected ? info.addr.bytes[1] : NETWORKS;
}

/* By the first network, unless nothing passes there, or only small packets. */
static void test_connects(void **state)
{
    static const struct {
        bool cut, data_cut;
        uint64_t within;
        unsigned way;
    } rows[] = {
        {false, false, 10 * MS, 0}, {true, false, 300 * MS, 1}, {false, true, 3 * SECOND, 1}};
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        pair_open(NETWORKS, 20 * SECOND, 1);
        net.cut[0] = rows[i].cut;
        net.data_cut = rows[i].data_cut;
        say_and_run(0, 1, rows[i].within);
        assert_int_equal(net.received[1], 1);
        assert_int_equal(way_of(0), rows[i].way);
        assert_int_equal(way_of(1), rows[i].way);
        pair_close();
    }
}

/* There and back again, whichever side has something to send. */
static void test_moves(void **state)
{
    for (uint32_t from = 0; from < ENDS; from++) {
        pair_open(NETWORKS, 20 * SECOND, 2);
        say_and_run(0, 1, SECOND);
        net.cut[0] = true;
        say_and_run(from, 2, 2 * SECOND);
        assert_int_equal(net.received[0] + net.received[1], 2);
        assert_int_equal(way_of(0), 1);
        assert_int_equal(way_of(1), 1);
        net.cut[0] = false;
        net.cut[1] = true;
        say_and_run(1 - from, 3, 2 * SECOND);
        assert_int_equal(net.received[0] + net.received[1], 3);
        assert_int_equal(way_of(0), 0);
        assert_int_equal(way_of(1), 0);
        /* A replayed MOVE has no effect. */
        assert_int_not_equal(net.move.len, 0);
        aqi_dgram_input(net.end[1], net.move.bytes, net.move.len, true, 0, net.now);
        assert_int_equal(way_of(1), 0);
        pair_close();
    }
}

/*
 * It moves to a network for which the packets are too large if no other answers for longer; packets
 * in flight arrive in slices, and later ones are smaller.
 */
static void test_moves_to_smaller(void **state)
{
    for (uint32_t from = 0; from < ENDS; from++) {
        pair_open(NETWORKS, 20 * SECOND, 4);
        net.most = 1000;
        say_and_run(0, 1, SECOND);
        net.cut[0] = true;
        assert_int_equal(say_much(from, 2, 40000), AQ_OK);
        run(2500 * MS);
        assert_int_equal(way_of(from), 0);
        for (unsigned i = 0; i < 60 && net.received[0] + net.received[1] < 2; i++)
            run(100 * MS);
        assert_int_equal(net.received[0] + net.received[1], 2);
        assert_int_equal(way_of(from), 1);
        assert_int_equal(net.usable, 992);
        assert_int_equal(say_much(from, 3, 40000), AQ_OK);
        run(SECOND);
        assert_int_equal(net.received[0] + net.received[1], 3);
        pair_close();
    }
}

/* If its own network recovers before that, it stays. */
static void test_stays(void **state)
{
    pair_open(NETWORKS, 20 * SECOND, 4);
    net.most = 1000;
    say_and_run(0, 1, SECOND);
    net.cut[0] = true;
    say_and_run(0, 2, 2500 * MS);
    net.cut[0] = false;
    run(SECOND);
    assert_int_equal(way_of(0), 0);
    assert_int_equal(net.received[1], 2);
    assert_int_equal(net.usable, 0);
    pair_close();
}

/* An idle connection is closed over the remaining way, and the next one made over it. */
static void test_closes(void **state)
{
    pair_open(NETWORKS, 20 * SECOND, 3);
    say_and_run(0, 1, SECOND);
    net.cut[0] = true;
    run(5 * SECOND);
    assert_int_equal(way_of(0), NETWORKS);
    assert_int_equal(way_of(1), NETWORKS);
    for (uint32_t from = 0; from < ENDS; from++)
        say_and_run(from, 2, SECOND);
    assert_int_equal(net.received[0], 1);
    assert_int_equal(net.received[1], 2);
    pair_close();
}

/* Whichever network is cut and when, as long as the other is not: each message arrives once. */
static void test_any_cuts(void **state)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t sum[ENDS] = {0};
        unsigned said[ENDS] = {0};
        pair_open(NETWORKS, 20 * SECOND, seed);
        net.loss = pair_dice(100);
        for (unsigned round = 0; round < 30; round++) {
            unsigned network = pair_dice(NETWORKS);
            net.cut[network] = pair_dice(3) != 0;
            net.cut[1 - network] = false;
            for (unsigned i = pair_dice(20); i > 0; i--) {
                uint32_t from = pair_dice(ENDS), number = pair_dice(1 << 30);
                if (say(from, number) != AQ_OK) continue;
                said[from]++;
                sum[from] += number;
            }
            run(pair_dice(2) == 0 ? pair_dice(50) * MS : pair_dice(6) * SECOND);
        }
        run(20 * SECOND);
        for (uint32_t i = 0; i < ENDS; i++) {
            if (net.received[1 - i] != said[i] || net.sum[1 - i] != sum[i])
                fail_msg("seed %u: %u of %u messages of %u have come", (unsigned)seed,
                         net.received[1 - i], said[i], i);
        }
        assert_int_equal(net.lost[0] + net.lost[1], 0);
        pair_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connects),         cmocka_unit_test(test_moves),
        cmocka_unit_test(test_moves_to_smaller), cmocka_unit_test(test_stays),
        cmocka_unit_test(test_closes),           cmocka_unit_test(test_any_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
