/* The order in which the fallback layer sends what waits for room. */
#include "transport/layers/fallback_world_test.h"

/* A put that takes all the room that the peer makes does not make it look silent. */
static void a_ping_goes_first(void **state)
{
    static unsigned char bytes[4 * PIECE];
    struct aqi_comp put = {.local = 1, .remote = 1}, ping = {.remote = 1};
    open_world();
    struct aqi_peer *peer = world.fb->peers[PEER];
    world.room = 1;
    assert_int_equal(
        world.tp.ops.put(&world.tp, peer, NULL, 4096, bytes, sizeof(bytes), NULL, &put), AQ_OK);
    assert_int_equal(world.sent[0].am.handler, FB_PUT);
    assert_int_equal(aqi_fallback_ping(world.fb, peer, &ping), AQ_OK);
    assert_int_equal(world.count, 1);
    assert_int_equal(world.tp.ops.progress(&world.tp, AQI_PROGRESS_ALL, 0), 0);
    world.room = 2;
    assert_int_equal(world.tp.ops.progress(&world.tp, AQI_PROGRESS_ALL, 0), 1);
    expect_sent(2, FB_PING, 2, world.sent[1].args);
    world.room = SENT;
    assert_int_equal(world.tp.ops.progress(&world.tp, AQI_PROGRESS_ALL, 0), 1);
    assert_int_equal(world.count, 5);
    assert_int_equal(aqi_tp_pending, 0);
    assert_int_equal(ping.remote, 1);
    const int32_t *args = world.sent[1].args;
    assert_int_equal(arrives((struct message){FB_DONE, 2, {args[0], args[1]}, NULL, NULL, 0}), 0);
    assert_int_equal(ping.remote, 0);
    assert_int_equal(put.remote, 1);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_ping_goes_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
