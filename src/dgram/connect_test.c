/* Twin of connect.c: cookies of connections, and how connections end. Handshakes are in
 * engine_test. */
#include "dgram/forge_test.h"

/* No cookie looks like the beginning of a handshake. */
static void test_cookies(void **state)
{
    macs_are_handshakes = true;
    open_world(false);
    macs_are_handshakes = false;
    for (uint32_t id = 0; id < VICTIM; id++) {
        assert_true(peer_of(id)->conn->cookie_in == DGRAM_HANDSHAKE + 1);
        assert_true(peer_of(id)->conn->cookie_out == DGRAM_HANDSHAKE + 1);
    }
    close_world();
}

/* All that an engine sends does not determine its challenges. */
static void test_challenges(void **state)
{
    uint64_t nonces[2];
    for (uint8_t i = 0; i < 2; i++) {
        options.secret[0] = i;
        open_world(false);
        nonces[i] = peer_of(LIAR)->conn->nonces[1];
        close_world();
    }
    options.secret[0] = 0;
    assert_true(nonces[0] != nonces[1]);
}

/* Counters are decremented when a connection ends. */
static void test_ends(void **state)
{
    open_world(false);
    const struct aqi_dgram *dgram = world.dgram[VICTIM];
    assert_int_equal(dgram->conns, 2);
    assert_int_equal(aqi_dgram_get(world.dgram[VICTIM], LIAR, 4096, got, 8, &world), AQ_OK);
    begin(LIAR, DGRAM_NUMBERED | DGRAM_ON_DATA);
    assert_int_equal(come(AQI_DGRAM_RECEIVED, true), 1);
    assert_true(dgram->own == 1 && dgram->env.actives == 1);
    aqi_dgram_down(world.dgram[VICTIM], LIAR);
    run(100000);
    assert_int_equal(world.status, AQ_EPEER);
    assert_int_equal(dgram->conns, 1);
    assert_int_equal(dgram->own + dgram->busy + dgram->env.actives, 0);
    assert_int_equal(peer_of(LIAR)->state, DGRAM_LOST);
    assert_null(peer_of(LIAR)->conn);
    close_world();
}

enum { LETTERS = 5 };

/* The victim has sent letters that have not arrived when the liar reports that it does not know the
 * connection: the victim starts over and sends them on the next connection. */
static void test_begins_again(void **state)
{
    static const unsigned char letter[64];
    struct dgram_packet *before[LETTERS];
    open_world(false);
    struct aqi_dgram *victim = world.dgram[VICTIM];
    struct dgram_conn *conn = peer_of(LIAR)->conn;
    struct dgram_tx *tx = &conn->tx[AQI_DGRAM_COMMAND];
    world.cut = true;
    for (unsigned i = 0; i < LETTERS; i++) {
        assert_int_equal(aqi_dgram_send(victim, LIAR, false, letter, sizeof(letter), NULL, 0),
                         AQ_OK);
        run(20000);
    }
    assert_int_equal(tx->next - tx->base, LETTERS);
    size_t bytes = 0;
    for (unsigned i = 0; i < LETTERS; i++) {
        before[i] = tx->ring[(tx->base + i) % tx->ring_size];
        bytes += before[i]->len;
        before[i]->release = 3;
        assert_true(before[i]->tries > 0 && before[i]->flying);
    }
    memset(conn->held, 1, sizeof(conn->held));
    conn->holding = conn->silences = conn->unacked = 7;
    conn->backoff = conn->probes = 7;
    conn->moves = conn->moved_back = conn->moved_in = 7;
    conn->recovered = 7;
    conn->agreed = conn->accepted = conn->ack_now = conn->gap = conn->untimed = true;
    conn->ack_at = conn->probe_at = conn->pace_at = victim->env.now + 1000000000;
    conn->search.rounds = 7;

    dgram_connect_reset(world.dgram[LIAR], dgram_peer_of(world.dgram[LIAR], VICTIM),
                        conn->cookie_out);
    arrive();

    assert_int_equal(peer_of(LIAR)->state, DGRAM_IDLE);
    assert_ptr_equal(peer_of(LIAR)->conn, conn);
    struct dgram_packet *packet = tx->queue.first;
    for (unsigned i = 0; i < LETTERS; i++, packet = packet->next) {
        assert_ptr_equal(packet, before[i]);
        assert_false(packet->flying);
        assert_int_equal(packet->tries + packet->release, 0);
    }
    assert_null(packet);
    assert_int_equal(conn->queued[before[0]->lane], bytes);
    assert_null(tx->flying.first);
    assert_null(conn->lost.first);
    for (unsigned c = 0; c < AQI_DGRAM_CHANNELS; c++) {
        assert_int_equal(conn->tx[c].base + conn->tx[c].next + conn->tx[c].order, 0);
        assert_int_equal(conn->tx[c].in_flight, 0);
        assert_int_equal(conn->rx[c].seen.base + conn->rx[c].seen.highest, 0);
        assert_false(conn->rx[c].ordered);
    }
    for (unsigned i = 0; i < DGRAM_HELD; i++)
        assert_false(conn->held[i].taken);
    assert_int_equal(conn->holding + conn->silences + conn->unacked, 0);
    assert_int_equal(conn->backoff + conn->probes, 0);
    assert_int_equal(conn->moves + conn->moved_back + conn->moved_in, 0);
    assert_int_equal(conn->recovered + conn->search.rounds, 0);
    assert_false(conn->agreed || conn->accepted || conn->ack_now || conn->gap || conn->untimed ||
                 conn->proved);
    assert_true(conn->ack_at == AQI_DGRAM_NEVER && conn->probe_at == AQI_DGRAM_NEVER &&
                conn->pace_at == AQI_DGRAM_NEVER);
    close_world();
}

/*
 * The victim has closed a connection, but its friend does not know. Before each packet of the
 * friend, forged ones arrive, with cookies that the liar can only guess: the friend is answered
 * nevertheless.
 */
static void test_reset_and_forged_cookies(void **state)
{
    static const unsigned char letter[64];
    open_world(false);
    begin(FRIEND, DGRAM_NUMBERED);
    const uint64_t closed = forged.head.cookie;
    dgram_conn_free(world.dgram[VICTIM], peer_of(FRIEND), AQ_OK);
    peer_of(FRIEND)->state = DGRAM_IDLE;
    unsigned before = world.delivered;
    assert_int_equal(
        aqi_dgram_send(world.dgram[FRIEND], VICTIM, false, letter, sizeof(letter), NULL, 0), AQ_OK);
    for (unsigned i = 0; i < 1000 && world.delivered == before; i++) {
        forged.head.cookie = closed + 1 + i;
        (void)come(AQI_DGRAM_DROP_COOKIE, true);
        run(10000);
    }
    assert_int_equal(world.delivered, before + 1);
    close_world();
}

/* Whatever their cookies, packets of unknown connections are answered at a limited rate. */
static void test_resets(void **state)
{
    for (unsigned known = 0; known < 2; known++) {
        open_world(false);
        begin(FRIEND, DGRAM_NUMBERED);
        dgram_conn_free(world.dgram[VICTIM], peer_of(FRIEND), AQ_OK);
        peer_of(FRIEND)->state = DGRAM_IDLE;
        if (!known) forged.head.cookie++;
        unsigned answers = 0;
        for (unsigned i = 0; i < 1000; i++, world.now += 10000) {
            aqi_dgram_progress(world.dgram[VICTIM], true, world.now);
            (void)come(AQI_DGRAM_DROP_COOKIE, true);
            answers += world.flying;
            world.flying = 0;
        }
        assert_int_equal(answers, 10); /* in 10 ms */
        close_world();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cookies),
        cmocka_unit_test(test_challenges),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_begins_again),
        cmocka_unit_test(test_reset_and_forged_cookies),
        cmocka_unit_test(test_resets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
