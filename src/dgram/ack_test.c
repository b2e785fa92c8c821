/* Twin of ack.c: losses after which nothing arrives, and receivers that compute. */
#include "dgram/forge_test.h"

enum { US = 1000, STEP = 2 * US, ABSENT = 20000 * US };

static bool absent; /* the victim makes no call */

/* A packet takes a step. */
static void step(void)
{
    unsigned kept = 0, flying = world.flying;
    world.now += STEP;
    for (unsigned i = 0; i < flying; i++) {
        unsigned to = world.wire[i].to;
        if (absent && to == VICTIM) {
            world.wire[kept++] = world.wire[i];
            continue;
        }
        aqi_dgram_input(world.dgram[to], world.wire[i].bytes, world.wire[i].len, true, 0,
                        world.now);
    }
    memmove(&world.wire[kept], &world.wire[flying],
            (world.flying - flying) * sizeof(world.wire[0]));
    world.flying -= flying - kept;
    for (unsigned i = 0; i < NODES; i++)
        if (!absent || i != VICTIM) (void)aqi_dgram_progress(world.dgram[i], true, world.now);
}

static void pass(uint64_t ns)
{
    for (uint64_t until = world.now + ns; world.now < until;)
        step();
}

static struct dgram_conn *friends(void)
{
    return dgram_peer_of(world.dgram[FRIEND], VICTIM)->conn;
}

static uint64_t of_friend(enum aqi_dgram_counter counter)
{
    return aqi_dgram_count(world.dgram[FRIEND], counter);
}

static void send(void)
{
    static const unsigned char message[16];
    assert_int_equal(
        aqi_dgram_send(world.dgram[FRIEND], VICTIM, false, message, sizeof(message), NULL, 0),
        AQ_OK);
}

/* Wait until a message has arrived; returns the time taken, in ns. */
static uint64_t arrives(void)
{
    uint64_t from = world.now;
    for (unsigned before = world.delivered; world.delivered == before;)
        step();
    return world.now - from;
}

static void open_friends(void)
{
    open_world(false);
    absent = false;
    for (unsigned i = 0; i < 100; i++) {
        send();
        pass(100 * US);
    }
    assert_int_equal(world.flying, 0);
    assert_true(friends()->pace.response != 0);
}

/* Acknowledgements are delayed by 50 us, since none of these has a reply. */
static void a_lost_tail_is_probed(void **state)
{
    open_friends();
    for (unsigned lost = 1; lost <= 2; lost++) {
        uint64_t resent = of_friend(AQI_DGRAM_RESENT);
        unsigned delivered = world.delivered;
        send();
        assert_int_equal(world.flying, 1);
        for (unsigned i = 0; i < lost; i++) {
            while (world.flying == 0)
                step();
            world.flying = 0;
        }
        assert_true(arrives() < (lost == 1 ? 150 * US : 400 * US));
        pass(1000 * US);
        assert_int_equal(of_friend(AQI_DGRAM_RESENT), resent + lost);
        assert_int_equal(world.delivered, delivered + 1);
        assert_int_equal(friends()->tails, 0);
        assert_int_equal(friends()->silences, 0);
    }
    close_world();
}

/*
 * A packet in flight that is not acknowledged with later ones counts as lost soon after it was due;
 * on a network that reorders, a little later.
 */
static void what_is_overtaken_is_waited_for(void **state)
{
    for (unsigned reordered = 0; reordered < 2; reordered++) {
        open_friends();
        if (reordered) friends()->reorder = 4 * DGRAM_REORDER;
        uint64_t resent = of_friend(AQI_DGRAM_RESENT);
        send();
        world.flying = 0;
        send();
        (void)aqi_dgram_progress(world.dgram[FRIEND], true, world.now);
        assert_int_equal(world.flying, 1);
        (void)arrives();
        assert_in_range(arrives(), 2 * US, 20 * US);
        assert_int_equal(of_friend(AQI_DGRAM_RESENT), resent + 1);
        assert_int_equal(of_friend(AQI_DGRAM_TIMEOUTS), 0);
        pass(1000 * US);
        assert_int_equal(friends()->reorder, (reordered ? 4 : 1) * DGRAM_REORDER);
        close_world();
    }
}

/* A packet that arrives late was overtaken, not lost: from then on more may overtake one. */
static void reordering_is_learnt(void **state)
{
    unsigned before = DGRAM_REORDER;
    open_friends();
    for (unsigned i = 0; i < 3; i++) {
        uint64_t resent = of_friend(AQI_DGRAM_RESENT);
        send();
        world.wire[WIRE - 1] = world.wire[0];
        world.flying = 0;
        do {
            send();
            step();
        } while (of_friend(AQI_DGRAM_RESENT) == resent);
        world.wire[0] = world.wire[WIRE - 1];
        world.flying = 1;
        arrive();
        (void)aqi_dgram_progress(world.dgram[VICTIM], true, world.now);
        arrive(); /* sooner than a retransmission could be answered */
        pass(300 * US);
        assert_int_equal(friends()->reorder, 2 * before);
        before *= 2;
    }
    close_world();
}

/* There are few probes, then timeouts, each twice as long as the one before. */
static void a_peer_that_computes_is_not_stormed(void **state)
{
    open_friends();
    uint64_t resent = of_friend(AQI_DGRAM_RESENT);
    absent = true;
    send();
    pass(400 * US);
    assert_int_equal(of_friend(AQI_DGRAM_RESENT), resent + 2);
    pass(ABSENT);
    assert_in_range(of_friend(AQI_DGRAM_RESENT), resent + 6, resent + 9);
    absent = false;
    pass(1000 * US);
    assert_int_equal(world.flying, 0);
    close_world();
}

/* Send a hundred messages, one by one, to a receiver that polls every `every` ns. Returns
 * duplicates. */
static uint64_t repeated(uint64_t every)
{
    uint64_t before = aqi_dgram_count(world.dgram[VICTIM], AQI_DGRAM_DUPLICATES);
    for (unsigned i = 0; i < 100; i++) {
        absent = true;
        send();
        pass(every);
        absent = false;
        pass(2 * STEP);
    }
    return aqi_dgram_count(world.dgram[VICTIM], AQI_DGRAM_DUPLICATES) - before;
}

/* Karn's algorithm alone would never let it learn how long answers to probed packets take. */
static void how_long_answers_take_is_learnt(void **state)
{
    for (uint64_t every = 50 * US; every < 2000 * US; every += every / 2) {
        open_friends();
        assert_true(repeated(every) <= 8);
        assert_int_equal(repeated(every), 0);
        close_world();
    }
}

/* All answers come at once except every twentieth, which a mean does not show. */
static void spurious_probes_back_off(void **state)
{
    open_friends();
    uint64_t before = 0, counted[2];
    for (unsigned part = 0; part < AQI_COUNT_OF(counted); part++) {
        for (unsigned i = 0; i < 1000; i++) {
            absent = i % 20 == 0;
            send();
            pass(absent ? 170 * US : 0);
            absent = false;
            pass(60 * US);
        }
        uint64_t all = aqi_dgram_count(world.dgram[VICTIM], AQI_DGRAM_DUPLICATES);
        counted[part] = all - before;
        before = all;
    }
    assert_in_range(counted[1], 0, 10); /* of 50 */
    close_world();
}

/* The acknowledgement of a retransmission shows whether that was needed. */
static void acknowledgements_tell_what_was_needed(void **state)
{
    static const struct {
        bool lost, late, unheard; /* the packet is lost; it is late; its acknowledgement is lost */
        bool twice;               /* the network repeats the next one */
        unsigned backoff;         /* afterwards; 4 before */
    } cases[] = {
        {.lost = true, .backoff = 2},
        {.late = true, .backoff = 8},
        {.unheard = true, .backoff = 2},
        {.lost = true, .twice = true, .backoff = 2},
    };
    for (unsigned i = 0; i < AQI_COUNT_OF(cases); i++) {
        open_friends();
        const unsigned one = friends()->pace.backoff;
        uint64_t resent = of_friend(AQI_DGRAM_RESENT);
        send();
        if (cases[i].lost) world.flying = 0;
        absent = cases[i].late;
        while (of_friend(AQI_DGRAM_RESENT) == resent) {
            step();
            for (unsigned k = 0; cases[i].unheard && k < world.flying; k++)
                if (world.wire[k].from == VICTIM) world.flying = 0;
        }
        friends()->pace.backoff = 4 * one;
        step();
        absent = false;
        pass(100 * US);
        assert_int_equal(of_friend(AQI_DGRAM_RESENT), resent + 1);
        if (cases[i].twice) {
            pass(200 * US);
            send();
            world.wire[1] = world.wire[0];
            world.flying++;
            pass(100 * US);
            assert_int_equal(aqi_dgram_count(world.dgram[VICTIM], AQI_DGRAM_DUPLICATES), 1);
        }
        /* That no duplicate was reported is noticed only when the next probe is sent. */
        send();
        world.flying = 0;
        pass(2000 * US);
        double factor = (double)friends()->pace.backoff / one;
        assert_true(factor > cases[i].backoff - 0.5 && factor <= cases[i].backoff);
        close_world();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_tail_is_probed),
        cmocka_unit_test(what_is_overtaken_is_waited_for),
        cmocka_unit_test(reordering_is_learnt),
        cmocka_unit_test(a_peer_that_computes_is_not_stormed),
        cmocka_unit_test(how_long_answers_take_is_learnt),
        cmocka_unit_test(spurious_probes_back_off),
        cmocka_unit_test(acknowledgements_tell_what_was_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
