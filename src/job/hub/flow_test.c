/*
 * Tests flow.c: the paths of facts, entries and acknowledgments when links are lost. Frames that no
 * agent sends, and limits on waiting data: flow_frames_test.c.
 */
#include "job/hub/flow_world_test.h"

/* It attached to the root because 1, which started it, was too busy to answer. */
static void who_came_another_way_is_not_missed(void **state)
{
    static const char why[] = "the session has ended";
    const struct hub_note failed = {
        .type = HUB_FAILED, .rank = 3, .code = 1, .data = why, .len = strlen(why)};
    for (int came = 0; came < 2; came++) {
        open_one(0);
        attach(1, 1, 0);
        if (came) attach(3, 1, 0);
        fact(1, 1, 1, &failed);
        assert_int_equal(aqi_hub_ending(one.hub), !came);
        aqi_hub_close(one.hub);
    }
}

/* Agent 7 is attached to 1, bypassing 3, which has attached to the root itself. */
static void acknowledgements_go_where_facts_came_from(void **state)
{
    open_one(0);
    attach(1, 1, 0);
    fact(1, 7, 1, &say);
    attach(3, 2, 0);
    pass(TIME_OUT);
    assert_int_equal(sent(1, HUB_FRAME_GOT, 7, 1), 1);
    assert_int_equal(sent(3, HUB_FRAME_GOT, 7, 1), 0);
    aqi_hub_close(one.hub);
}

static void who_repeats_a_fact_is_told_again(void **state)
{
    open_one(0);
    attach(1, 1, 0);
    fact(1, 1, 1, &say);
    pass(TIME_OUT);
    assert_int_equal(sent(1, HUB_FRAME_GOT, 1, 1), 1);
    fact(1, 1, 1, &say);
    pass(TIME_OUT);
    assert_int_equal(sent(1, HUB_FRAME_GOT, 1, 1), 2);
    aqi_hub_close(one.hub);
}

/* An acknowledgment of another agent's many facts is forwarded by one that has sent nothing
 * itself. */
static void acknowledgements_are_of_whom_they_name(void **state)
{
    open_one(1);
    aqi_hub_attached(one.hub, 0);
    attach(3, 1, 0);
    frame(0, HUB_FRAME_GOT, 3, 99, NULL, 0);
    assert_int_equal(sent(3, HUB_FRAME_GOT, 3, 99), 1);
    aqi_hub_close(one.hub);
}

/* The log position of 7 implies nothing about 15 below it. */
static void entries_are_kept_for_all_below(void **state)
{
    const struct hub_note entry = {.type = HUB_PASS, .code = 18};
    open_one(1);
    aqi_hub_attached(one.hub, 0);
    attach(3, 1, 0);
    attach(4, 1, 0);
    note(0, HUB_FRAME_ENTRY, 0, 1, &entry);
    note(0, HUB_FRAME_ENTRY, 0, 2, &entry);
    frame(4, HUB_FRAME_APPLIED, 4, 2, NULL, 0);
    aqi_hub_link_lost(one.hub, 3, true, "it died");
    attach(7, 2, 2);
    pass(3 * TIME_OUT); /* nothing is kept for 3 now */
    aqi_hub_link_lost(one.hub, 7, true, "it died, too");
    attach(15, 2, 0);
    assert_int_equal(sent(15, HUB_FRAME_GONE, 15, 0), 0);
    assert_int_equal(sent(15, HUB_FRAME_ENTRY, 1, 1), 1);
    assert_int_equal(sent(15, HUB_FRAME_ENTRY, 1, 2), 1);
    aqi_hub_close(one.hub);
}

/* Agents below one that is declared dead may still need entries that it did not forward. */
static void entries_are_kept_for_orphans(void **state)
{
    const struct hub_note entry = {.type = HUB_PASS, .code = 18};
    const struct hub_note lost = {.type = HUB_LOST, .rank = 3, .data = "", .len = 0};
    open_one(1);
    aqi_hub_attached(one.hub, 0);
    attach(3, 1, 0);
    attach(4, 1, 0);
    note(0, HUB_FRAME_ENTRY, 0, 1, &entry);
    aqi_hub_link_lost(one.hub, 3, true, "it died");
    note(0, HUB_FRAME_ENTRY, 0, 2, &lost);
    frame(4, HUB_FRAME_APPLIED, 4, 2, NULL, 0);
    pass(TIME_OUT);
    attach(8, 2, 0);
    assert_int_equal(sent(8, HUB_FRAME_ENTRY, 1, 1), 1);
    pass(TIME_OUT + 1);
    frame(8, HUB_FRAME_APPLIED, 8, 2, NULL, 0);
    attach(7, 2, 0); /* too late here, but perhaps not further up */
    assert_int_equal(one.detached, 1u << 7);
    assert_int_equal(sent(7, HUB_FRAME_GONE, 7, 0), 0);
    aqi_hub_close(one.hub);
}

/* On another path, entries may have reached the attaching agent before us. */
static void who_is_ahead_is_taken(void **state)
{
    const struct hub_note entry = {.type = HUB_PASS, .code = 18};
    open_one(1);
    aqi_hub_attached(one.hub, 0);
    note(0, HUB_FRAME_ENTRY, 0, 1, &entry);
    attach(7, 2, 3);
    frame(7, HUB_FRAME_APPLIED, 7, 3, NULL, 0);
    assert_int_equal(sent(7, HUB_FRAME_GONE, 7, 0), 0);
    for (uint64_t number = 2; number <= 4; number++)
        note(0, HUB_FRAME_ENTRY, 0, number, &entry);
    assert_int_equal(sent(7, HUB_FRAME_ENTRY, 1, 4), 1);
    aqi_hub_close(one.hub);
}

/*
 * The report that 3 was attached to 1 and lost there arrives long after 3 has attached to the root.
 */
static void old_news_of_links_count_for_nothing(void **state)
{
    const struct hub_note here = {.type = HUB_HERE, .rank = 3, .seq = 1};
    const struct hub_note lost = {
        .type = HUB_HOST_LOST, .rank = 3, .seq = 1, .data = "reset", .len = 5};
    open_one(0);
    attach(3, 2, 0);
    attach(1, 1, 0);
    fact(1, 1, 1, &here);
    fact(1, 1, 2, &lost);
    assert_true(aqi_hub_agent_here(one.hub, 3));
    assert_false(aqi_hub_ending(one.hub));
    aqi_hub_link_lost(one.hub, 3, true, "it died");
    assert_false(aqi_hub_agent_here(one.hub, 3));
    assert_true(aqi_hub_ending(one.hub));
    aqi_hub_close(one.hub);
}

/* Here or elsewhere: an agent that returns in time is not lost. */
static void whose_line_breaks_has_a_while_to_come_again(void **state)
{
    const struct hub_note here = {.type = HUB_HERE, .rank = 3, .seq = 1};
    const struct hub_note lost = {
        .type = HUB_HOST_LOST, .rank = 3, .seq = 1, .code = 1, .data = "reset", .len = 5};
    for (int between = 0; between < 2; between++)
        for (int comes = 0; comes < 2; comes++) {
            open_one(0);
            attach(1, 1, 0);
            fact(1, 1, 1, &here);
            if (between != 0)
                fact(1, 1, 2, &lost);
            else
                aqi_hub_link_lost(one.hub, 1, false, "reset");
            uint32_t who = between != 0 ? 3 : 1;
            pass(TIME_OUT - 1);
            assert_true(aqi_hub_agent_here(one.hub, who));
            if (comes != 0) attach(who, 2, 0);
            pass(TIME_OUT);
            assert_int_equal(aqi_hub_agent_here(one.hub, who), comes != 0);
            assert_int_equal(aqi_hub_ending(one.hub), comes == 0);
            aqi_hub_close(one.hub);
        }
}

/* But not if the root has ended: there is no agent to call. */
static void the_root_is_called_again_when_the_line_broke(void **state)
{
    for (int ended = 0; ended < 2; ended++) {
        open_one(1);
        aqi_hub_attached(one.hub, 0);
        aqi_hub_link_lost(one.hub, 0, ended != 0, "reset");
        assert_int_equal(one.called, ended == 0);
        assert_int_equal(one.over, ended != 0);
        if (ended == 0) aqi_hub_unreachable(one.hub, 0, true, "refused");
        assert_true(one.over);
        aqi_hub_close(one.hub);
    }
}

/* One agent between it and the root. */
static void who_has_lost_its_parent_calls_twice(void **state)
{
    open_one(15);
    aqi_hub_attached(one.hub, 7);
    aqi_hub_link_lost(one.hub, 7, true, "it died");
    assert_int_equal(one.last_called, 3);
    aqi_hub_unreachable(one.hub, 3, false, "no answer");
    assert_int_equal(one.last_called, 0);
    assert_int_equal(one.called, 2);
    aqi_hub_unreachable(one.hub, 0, false, "no answer");
    assert_true(one.over);
    aqi_hub_close(one.hub);
}

/* It calls as long as the root waits, but not continuously. */
static void who_is_cut_off_calls_over_and_over(void **state)
{
    static const uint32_t callers[] = {1, 15};
    for (unsigned i = 0; i < AQI_COUNT_OF(callers); i++)
        for (int mended = 0; mended < 2; mended++) {
            uint32_t parent = aqi_hub_parent(callers[i], FANOUT);
            open_one(callers[i]);
            aqi_hub_attached(one.hub, parent);
            aqi_hub_link_lost(one.hub, parent, false, "silent");
            unsigned calls = 0, parents = 0, roots = 0;
            for (uint64_t until = one.now + TIME_OUT / 4 * 6; one.now < until;) {
                calls = one.called;
                parents += one.last_called == parent;
                roots += one.last_called == 0;
                pass(TIME_OUT / 100); /* no route: the failure is immediate */
                aqi_hub_unreachable(one.hub, one.last_called, false, "no route");
                while (one.called == calls)
                    pass(TIME_OUT / 100);
            }
            assert_in_range(one.called, 20, 100);
            assert_true(parents > 10 && roots > 10);
            assert_false(one.over);
            if (mended) {
                aqi_hub_attached(one.hub, one.last_called);
                calls = one.called;
                pass(10 * TIME_OUT);
                assert_int_equal(one.called, calls);
                assert_false(one.over);
            } else {
                pass(TIME_OUT / 2 - TIME_OUT / 10);
                assert_false(one.over);
                pass(TIME_OUT / 10);
                assert_true(one.over);
            }
            aqi_hub_close(one.hub);
        }
}

/* It ends, and agents below it, which still belong to the job, attach elsewhere. */
static void who_is_given_up_hears_it_from_the_log(void **state)
{
    const struct hub_note lost = {.type = HUB_LOST, .rank = 1, .data = "", .len = 0};
    open_one(1);
    aqi_hub_attached(one.hub, 0);
    attach(3, 1, 0);
    note(0, HUB_FRAME_ENTRY, 0, 1, &lost);
    assert_int_equal(one.detached, 1u << 0 | 1u << 3);
    one.detached = 0;
    attach(7, 2, 1); /* it has not been notified yet */
    assert_int_equal(one.detached, 1u << 7);
    assert_true(one.over);
    aqi_hub_close(one.hub);
}

static void ranks_that_have_ended_are_not_lost_with_their_host(void **state)
{
    const struct hub_note started = {.type = HUB_STARTED, .rank = 1, .pid = 5};
    const struct hub_note ended = {.type = HUB_ENDED, .rank = 1, .data = "", .len = 0};
    open_one(0);
    attach(1, 1, 0);
    fact(1, 1, 1, &started);
    fact(1, 1, 2, &ended);
    aqi_hub_link_lost(one.hub, 1, true, "it died");
    assert_false(aqi_hub_ending(one.hub));
    aqi_hub_close(one.hub);
}

/* Its last facts may hold the exit code of the job. */
static void who_has_closed_leaves_when_the_root_knows_all(void **state)
{
    const struct hub_note end = {.type = HUB_END, .rank = AQI_NO_RANK, .data = "", .len = 0};
    for (int known = 0; known < 2; known++) {
        open_one(3);
        aqi_hub_attached(one.hub, 1);
        note(1, HUB_FRAME_ENTRY, 0, 1, &end);
        assert_int_equal(sent(1, HUB_FRAME_FACT, 3, 1), 1); /* CLOSED */
        if (known != 0) frame(1, HUB_FRAME_GOT, 3, 1, NULL, 0);
        assert_false(one.over);
        aqi_hub_link_lost(one.hub, 1, true, "it was closed");
        assert_int_equal(one.over, known != 0);
        if (known == 0) aqi_hub_unreachable(one.hub, 0, true, "refused");
        assert_true(one.over);
        aqi_hub_close(one.hub);
    }
}

/* As long as the root waits for it, and no longer. */
static void who_is_alone_gives_up(void **state)
{
    open_one(3);
    aqi_hub_attached(one.hub, 1);
    aqi_hub_link_lost(one.hub, 1, true, "it died");
    pass(2 * TIME_OUT - 1);
    assert_false(one.over);
    pass(1);
    assert_true(one.over);
    aqi_hub_attached(one.hub, 0); /* it returns too late */
    assert_int_equal(one.detached, 1u << 0);
    aqi_hub_close(one.hub);
}

static void who_never_answers_ends_the_job(void **state)
{
    open_one(0);
    attach(1, 1, 0);
    attach(2, 1, 0);
    pass(60 * TIME_OUT - 1);
    assert_false(aqi_hub_ending(one.hub));
    pass(1);
    assert_true(aqi_hub_ending(one.hub));
    assert_int_equal(aqi_hub_code(one.hub), AQI_EXIT_FAILED);
    aqi_hub_close(one.hub);
}

/* Other hosts have the result, and would wait for the ranks of this one. */
static void who_has_no_room_for_a_result_ends_the_job(void **state)
{
    const struct hub_note result = {.type = HUB_RESULT,
                                    .seq = 1,
                                    .call = AQI_CALL_TABLE,
                                    .bytes = AGENTS,
                                    .data = "0123456789abcdef",
                                    .len = AGENTS};
    open_one(1);
    aqi_hub_attached(one.hub, 0);
    note(0, HUB_FRAME_ENTRY, 0, 1, &result);
    assert_int_equal(sent(0, HUB_FRAME_FACT, 1, 1), 1);
    for (unsigned i = 0; i < one.count; i++)
        if (one.sent[i].kind == HUB_FRAME_FACT) assert_int_equal(one.sent[i].type, HUB_FAILED);
    aqi_hub_close(one.hub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_came_another_way_is_not_missed),
        cmocka_unit_test(acknowledgements_go_where_facts_came_from),
        cmocka_unit_test(who_repeats_a_fact_is_told_again),
        cmocka_unit_test(acknowledgements_are_of_whom_they_name),
        cmocka_unit_test(entries_are_kept_for_all_below),
        cmocka_unit_test(entries_are_kept_for_orphans),
        cmocka_unit_test(who_is_ahead_is_taken),
        cmocka_unit_test(old_news_of_links_count_for_nothing),
        cmocka_unit_test(whose_line_breaks_has_a_while_to_come_again),
        cmocka_unit_test(the_root_is_called_again_when_the_line_broke),
        cmocka_unit_test(who_has_lost_its_parent_calls_twice),
        cmocka_unit_test(who_is_cut_off_calls_over_and_over),
        cmocka_unit_test(who_is_given_up_hears_it_from_the_log),
        cmocka_unit_test(ranks_that_have_ended_are_not_lost_with_their_host),
        cmocka_unit_test(who_has_closed_leaves_when_the_root_knows_all),
        cmocka_unit_test(who_is_alone_gives_up),
        cmocka_unit_test(who_never_answers_ends_the_job),
        cmocka_unit_test(who_has_no_room_for_a_result_ends_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
