/* Tests hca_greet.c with two rails: which one a greeting takes, and failures of one of them. */
#include "transport/ibv/hca_greet_world_test.h"

/* The first greeting is lost; the second one, over the other rail, connects both. */
static void two_meet_over_both_rails(void **unused)
{
    call(0);
    say_next(0);
    assert_int_equal(said, 2);
    assert_true(letters[0].rail == 0 && letters[1].rail == 1);
    heard = 1;
    exchange();
    assert_int_equal(said, 4);
    for (unsigned i = 0; i < GREETERS; i++) {
        assert_int_equal(other(i)->state, HCA_UP);
        assert_int_equal(other(i)->used, 3);
        assert_int_equal(other(i)->first, 0);
        assert_int_equal(other(i)->failed, 0);
        for (unsigned r = 0; r < RAILS; r++) {
            assert_int_equal(cards[i][r].connected_to, cards[1 - i][r].link.qp_num);
        }
    }
}

/* Numbers by which processes recognize each other differ from process to process. */
static void numbers_are_random(void **unused)
{
    uint64_t epochs[GREETERS];
    uint32_t qkeys[2 * GREETERS], psns[2 * GREETERS];
    for (unsigned i = 0; i < 2 * GREETERS; i++) {
        if (i == GREETERS) close_all(unused), open_two_rails(unused);
        struct hca_tp *hca = ends[i % GREETERS].hca;
        qkeys[i] = hca->greeter.qkey;
        psns[i] = hca->rail[0].place.psn;
        epochs[i % GREETERS] = hca->greeter.epoch;
        assert_int_not_equal(epochs[i % GREETERS], 0);
        assert_int_equal(qkeys[i] >> 31, 0); /* that bit is reserved for the system */
        assert_int_equal(psns[i] >> 24, 0);
        for (unsigned r = 0; r < hca->rails; r++) {
            assert_int_equal(cards[i % GREETERS][r].qkey, qkeys[i]);
            assert_int_equal(hca->rail[r].place.psn, psns[i]);
        }
    }
    assert_true(epochs[0] != epochs[1]);
    assert_false(qkeys[0] == qkeys[1] && qkeys[1] == qkeys[2] && qkeys[2] == qkeys[3]);
    assert_false(psns[0] == psns[1] && psns[1] == psns[2] && psns[2] == psns[3]);
}

/* It contains, as a byte, how many reads its adapter serves at once; places of missing rails are
 * zero. */
static void greeting_contains_limits_of_the_adapter(void **unused)
{
    static const int rows[][2] = {{16, 16}, {255, 255}, {256, 255}, {1000, 255}};
    static const unsigned char none[(HCA_RAILS - RAILS) * sizeof(struct hca_place)];
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        if (i != 0) close_all(unused), open_two_rails(unused);
        ends[0].hca->rail[0].device.max_qp_rd_atom = rows[i][0];
        call(0);
        assert_int_equal(letters[0].bytes[AT_READS], rows[i][1]);
        assert_memory_equal(letters[0].bytes + AT_PLACE + RAILS * sizeof(struct hca_place), none,
                            sizeof(none));
        exchange();
        assert_int_equal(cards[1][0].reads, 16); /* it serves no more itself */
    }
}

/* They use one rail after the other, failed rails only if all have failed, gone ones never. */
static void greetings_take_turns(void **unused)
{
    static const struct {
        uint32_t failed, gone;
        unsigned over[4];
    } rows[] = {
        {0, 0, {0, 1, 0, 1}}, {1, 0, {1, 1, 1, 1}}, {2, 0, {0, 0, 0, 0}}, {3, 0, {0, 1, 0, 1}},
        {0, 1, {1, 1, 1, 1}}, {0, 2, {0, 0, 0, 0}}, {1, 2, {0, 0, 0, 0}}, {2, 1, {1, 1, 1, 1}},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        if (i != 0) close_all(unused), open_two_rails(unused);
        ends[0].hca->gone = rows[i].gone;
        other(0)->failed = rows[i].failed;
        call(0);
        for (unsigned n = 1; n < 4; n++)
            say_next(0);
        assert_int_equal(said, 4);
        for (unsigned n = 0; n < 4; n++) {
            assert_int_equal(letters[n].rail, rows[i].over[n]);
            assert_int_equal(letters[n].bytes[AT_FAILED], rows[i].failed);
        }
    }
    close_all(unused), open_two_rails(unused);
    ends[0].hca->gone = 3;
    call(0);
    assert_int_equal(said, 0);
    assert_int_equal(other(0)->state, HCA_DOWN);
    assert_non_null(strstr(other(0)->rdma.why, "every adapter"));
}

/* A peer is lost only if there is no route to it over any rail. */
static void peer_without_route_is_lost(void **unused)
{
    blocked[1] = true;
    other(0)->failed = 1; /* so that the first is not tried */
    call(0);
    say_next(0);
    assert_int_equal(said, 0);
    assert_int_equal(other(0)->state, HCA_CALLING);
    other(0)->failed = 0;
    say_next(0);
    assert_int_equal(said, 1);
    assert_int_equal(letters[0].rail, 0);
    close_all(unused), open_two_rails(unused);
    blocked[0] = blocked[1] = true;
    call(0);
    assert_int_equal(other(0)->state, HCA_CALLING);
    say_next(0);
    assert_int_equal(other(0)->state, HCA_DOWN);
    assert_non_null(
        strstr(other(0)->rdma.why, "no route to it: Network is unreachable, from none:2"));
    assert_int_equal(said, 0);
}

static void fail_greeting(unsigned self, unsigned rail, enum ibv_wc_status status)
{
    hca_greet_sent(ends[self].hca, rail, &(struct ibv_wc){.status = status});
}

/*
 * A rail on which a greeting fails is prepared again, once for all its unsent greetings, whose room
 * is freed.
 */
static void unsent_greetings_make_room(void **unused)
{
    struct hca_tp *hca = ends[0].hca;
    uint32_t posted = buffers[0][0].head, posted_second = buffers[0][1].head;
    call(0);
    for (unsigned i = 0; i < 2 * HCA_GREETINGS_OUT; i++)
        say_next(0);
    assert_int_equal(said, HCA_GREETINGS_OUT);
    fail_greeting(0, 0, IBV_WC_RETRY_EXC_ERR);
    for (unsigned i = 1; i < HCA_GREETINGS_OUT / 2; i++)
        fail_greeting(0, 0, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(buffers[0][0].head, posted + HCA_GREETINGS);
    assert_int_equal(buffers[0][1].head, posted_second);
    sent(&letters[0]); /* none is left there */
    for (unsigned i = 0; i < HCA_GREETINGS_OUT; i++)
        say_next(0);
    assert_int_equal(said, HCA_GREETINGS_OUT + HCA_GREETINGS_OUT / 2);
    /* Nothing more is done with an adapter that is gone. */
    hca->gone = 1u << 1;
    fail_greeting(0, 1, IBV_WC_FATAL_ERR);
    assert_int_equal(buffers[0][1].head, posted_second);
}

/* Likewise if a receive fails. */
static void a_rail_that_fails_to_receive_is_prepared_again(void **unused)
{
    uint32_t posted = buffers[1][1].head;
    struct ibv_wc wc = {.status = IBV_WC_LOC_QP_OP_ERR, .wr_id = buffers[1][1].wr_id[0]};
    hca_greet_received(ends[1].hca, 1, &wc);
    wc.status = IBV_WC_WR_FLUSH_ERR;
    hca_greet_received(ends[1].hca, 1, &wc);
    assert_int_equal(buffers[1][1].head, posted + HCA_GREETINGS);
    call(0);
    say_next(0);
    heard = 1;
    exchange();
    assert_int_equal(other(1)->state, HCA_UP);
}

/* It is reported after ten seconds, once, unless no port here is up, which has been reported. */
static void peer_that_does_not_answer_is_reported(void **unused)
{
    struct capture output;
    assert_int_equal(aqi_log_configure("warn"), AQ_OK);
    for (unsigned down = 0; down < 4; down++) {
        if (down != 0) close_all(unused), open_two_rails(unused);
        struct hca_tp *hca = ends[0].hca;
        unsigned before = said;
        hca->down = down;
        capture_start(&output);
        call(0);
        hca->rdma.now += 10 * SECONDS - 1;
        hca_greet_timers(hca);
        assert_string_equal(capture_end(&output), "");
        assert_int_equal(said, before + 2);
        capture_start(&output);
        for (unsigned i = 0; i < 3; i++)
            say_next(0);
        const char *text = capture_end(&output), *at = strstr(text, "has not answered for 10 s");
        if (down == 3) {
            assert_string_equal(text, "");
            continue;
        }
        assert_non_null(at);
        assert_null(strstr(at + 1, "has not answered"));
    }
    assert_int_equal(aqi_log_configure("error"), AQ_OK);
}

/* Also on the second rail. */
static void all_rails_are_followed(void **unused)
{
    struct hca_peer *peer = other(1);
    call(0);
    exchange();
    for (unsigned r = 0; r < RAILS; r++) {
        struct letter letter = forged(AT_LID + r * sizeof(struct hca_place), 9, 2);
        peer->unroutable = 7;
        assert_true(hears_letter(1, &letter));
        assert_int_equal(peer->addr.place[r].lid, 9);
        assert_int_equal(peer->addr.place[1 - r].lid, 0);
        assert_int_equal(peer->addr.place[r].qpn, addresses[0].place[r].qpn);
        assert_int_equal(peer->unroutable, 7 & ~(1u << r));
        peer->addr.place[r].lid = 0;
    }
}

/* A greeting over a rail that its sender does not have. */
static void only_rails_of_both_count(void **unused)
{
    addresses[0].rails = 1;
    call(0);
    struct letter letter = letters[0];
    letter.rail = 1;
    assert_true(hears_letter(1, &letter));
    assert_int_equal(other(1)->state, HCA_IDLE);
    assert_int_equal(said, 1);
    assert_true(hears_letter(1, &letters[0]));
    assert_true(other(1)->connected);
    assert_int_equal(other(1)->used, 1);
}

/* A rail that has failed for one of them is used by neither until they meet again. */
static void both_agree_on_rails(void **unused)
{
    other(0)->failed = 1;
    call(0);
    exchange();
    for (unsigned i = 0; i < GREETERS; i++) {
        assert_int_equal(other(i)->state, HCA_UP);
        assert_int_equal(other(i)->used, 2);
        assert_int_equal(other(i)->first, 1);
        assert_int_equal(other(i)->failed, 1);
        assert_int_equal(cards[i][0].connected_to, 0);
    }
}

/*
 * If one of its rails cannot be connected, a process is not up, whatever the peer knows, but meets
 * it again without that rail.
 */
static void half_connected_is_not_up(void **unused)
{
    call(0);
    unconnectable[1] = true;
    struct letter letter = forged(AT_FLAGS, 1, 1);
    assert_true(hears_letter(1, &letter));
    assert_true(other(1)->broken);
    assert_int_equal(other(1)->state, HCA_CALLING);
    assert_int_equal(other(1)->failed, 2);
    assert_int_equal(said, 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        RAILS_TEST(two_meet_over_both_rails),
        RAILS_TEST(numbers_are_random),
        RAILS_TEST(greeting_contains_limits_of_the_adapter),
        RAILS_TEST(greetings_take_turns),
        RAILS_TEST(peer_without_route_is_lost),
        RAILS_TEST(unsent_greetings_make_room),
        RAILS_TEST(a_rail_that_fails_to_receive_is_prepared_again),
        RAILS_TEST(peer_that_does_not_answer_is_reported),
        RAILS_TEST(all_rails_are_followed),
        RAILS_TEST(only_rails_of_both_count),
        RAILS_TEST(both_agree_on_rails),
        RAILS_TEST(half_connected_is_not_up),
    };
    if (aqi_mac_missing() != NULL) {
        printf("skipped: %s\n", aqi_mac_missing());
        return 77;
    }
    return cmocka_run_group_tests_name("hca_greet_rails", tests, NULL, NULL);
}
