/* Twin of connect.c: the cookies of connections, and their end. engine_test has the handshakes. */
#include "dgram/forge_test.h"

/* No cookie looks like the begin of a handshake. */
static void test_cookies(void **state)
{
    (void)state;
    macs_are_handshakes = true;
    open_world(false);
    macs_are_handshakes = false;
    for (uint32_t id = 0; id < VICTIM; id++) {
        assert_true(peer_of(id)->conn->cookie_in == DGRAM_HANDSHAKE + 1);
        assert_true(peer_of(id)->conn->cookie_out == DGRAM_HANDSHAKE + 1);
    }
    close_world();
}

/* What ends is counted off. */
static void test_ends(void **state)
{
    (void)state;
    open_world(false);
    const struct aqi_dgram *dgram = world.dgram[VICTIM];
    assert_int_equal(dgram->conns, 2);
    assert_int_equal(aqi_dgram_get(world.dgram[VICTIM], LIAR, 4096, got, 8, &world), AQ_OK);
    begin(LIAR, DGRAM_NUMBERED | DGRAM_ON_DATA);
    assert_int_equal(come(AQI_DGRAM_RECEIVED, true), 1);
    assert_true(dgram->own == 1 && dgram->actives == 1);
    aqi_dgram_down(world.dgram[VICTIM], LIAR);
    run(100000);
    assert_int_equal(world.status, AQ_EPEER);
    assert_int_equal(dgram->conns, 1);
    assert_int_equal(dgram->own + dgram->busy + dgram->actives, 0);
    assert_int_equal(peer_of(LIAR)->state, DGRAM_LOST);
    assert_null(peer_of(LIAR)->conn);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cookies),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
