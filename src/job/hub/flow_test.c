/*
 * Tests flow.c: the paths of facts, entries and acknowledgments when links are lost. Frames that no
 * agent sends, and limits on waiting data: flow_frames_test.c.
 */
#include "job/hub/flow_world_test.h"

/* It attached to the root because 1, which started it, was too busy to answer. */
static void an_agent_that_attached_elsewhere_is_not_missing(void **state)
{
    static const char why[] = "the session has ended";
    const struct hub_note failed = {
        .type = HUB_FAILED, .rank = 3, .code = 1, .data = why, .len = strlen(why)};
    for (int attached = 0; attached < 2; attached++) {
        open_one(0);
        attach(1, 1, 0);
        if (attached) attach(3, 1, 0);
        fact(1, 1, 1, &failed);
        assert_int_equal(aqi_hub_ending(one.hub), !attached);
        aqi_hub_close(one.hub);
    }
}

/* Agent 7 is attached to 1, bypassing 3, which has attached to the root itself. */
static void acknowledgments_take_the_path_of_their_facts(void **state)
{
    open_one(0);
    attach(1, 1, 0);
    fact(1, 7, 1, &say);
    attach(3, 2, 0);
    pass(TIMEOUT_NS);
    assert_int_equal(sent(1, HUB_FRAME_GOT, 7, 1), 1);
    assert_int_equal(sent(3, HUB_FRAME_GOT, 7, 1), 0);
    aqi_hub_close(one.hub);
}

static void a_repeated_fact_is_acknowledged_again(void **state)
{
    open_one(0);
    attach(1, 1, 0);
    fact(1, 1, 1, &say);
    pass(TIMEOUT_NS);
    assert_int_equal(sent(1, HUB_FRAME_GOT, 1, 1), 1);
    fact(1, 1, 1, &say);
    pass(TIMEOUT_NS);
    assert_int_equal(sent(1, HUB_FRAME_GOT, 1, 1), 2);
    aqi_hub_close(one.hub);
}

/* An acknowledgment of another agent's many facts is forwarded by one that has sent nothing
 * itself. */
static void acknowledgments_are_forwarded_to_the_named_agent(void **state)
{
    open_attached(1);
    attach(3, 1, 0);
    frame(0, HUB_FRAME_GOT, 3, 99, NULL, 0);
    assert_int_equal(sent(3, HUB_FRAME_GOT, 3, 99), 1);
    aqi_hub_close(one.hub);
}

/* The log position of 7 implies nothing about 15 below it. */
static void entries_are_kept_for_the_whole_subtree(void **state)
{
    open_attached(1);
    attach(3, 1, 0);
    attach(4, 1, 0);
    note(0, HUB_FRAME_ENTRY, 0, 1, &entry);
    note(0, HUB_FRAME_ENTRY, 0, 2, &entry);
    frame(4, HUB_FRAME_APPLIED, 4, 2, NULL, 0);
    aqi_hub_link_lost(one.hub, 3, true, "it died");
    attach(7, 2, 2);
    pass(3 * TIMEOUT_NS); /* nothing is kept for 3 now */
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
    const struct hub_note lost = {.type = HUB_LOST, .rank = 3, .data = "", .len = 0};
    open_attached(1);
    attach(3, 1, 0);
    attach(4, 1, 0);
    note(0, HUB_FRAME_ENTRY, 0, 1, &entry);
    aqi_hub_link_lost(one.hub, 3, true, "it died");
    note(0, HUB_FRAME_ENTRY, 0, 2, &lost);
    frame(4, HUB_FRAME_APPLIED, 4, 2, NULL, 0);
    pass(TIMEOUT_NS);
    attach(8, 2, 0);
    assert_int_equal(sent(8, HUB_FRAME_ENTRY, 1, 1), 1);
    pass(TIMEOUT_NS + 1);
    frame(8, HUB_FRAME_APPLIED, 8, 2, NULL, 0);
    attach(7, 2, 0); /* too late here, but perhaps not further up */
    assert_int_equal(one.detached, 1u << 7);
    assert_int_equal(sent(7, HUB_FRAME_GONE, 7, 0), 0);
    aqi_hub_close(one.hub);
}

/* On another path, entries may have reached the attaching agent before us. */
static void an_agent_that_is_ahead_may_attach(void **state)
{
    open_attached(1);
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
static void outdated_reports_of_links_are_ignored(void **state)
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

/* It is not lost if it returns in time, whether the root or another agent reports its broken link.
 */
static void an_agent_with_a_broken_link_may_reconnect(void **state)
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
            uint32_t agent = between != 0 ? 3 : 1;
            pass(TIMEOUT_NS - 1);
            assert_true(aqi_hub_agent_here(one.hub, agent));
            if (comes != 0) attach(agent, 2, 0);
            pass(TIMEOUT_NS);
            assert_int_equal(aqi_hub_agent_here(one.hub, agent), comes != 0);
            assert_int_equal(aqi_hub_ending(one.hub), comes == 0);
            aqi_hub_close(one.hub);
        }
}

/* If the root has ended, there is no agent to call. */
static void the_root_is_called_again_after_a_broken_link(void **state)
{
    for (int ended = 0; ended < 2; ended++) {
        open_attached(1);
        aqi_hub_link_lost(one.hub, 0, ended != 0, "reset");
        assert_int_equal(one.called, ended == 0);
        assert_int_equal(one.over, ended != 0);
        if (ended == 0) aqi_hub_unreachable(one.hub, 0, true, "refused");
        assert_true(one.over);
        aqi_hub_close(one.hub);
    }
}

/* First its grandparent, then the root. */
static void an_agent_without_its_parent_calls_its_ancestors(void **state)
{
    open_attached(15);
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
static void a_disconnected_agent_keeps_calling(void **state)
{
    static const uint32_t callers[] = {1, 15};
    for (unsigned i = 0; i < AQI_COUNT_OF(callers); i++)
        for (int mended = 0; mended < 2; mended++) {
            uint32_t parent = aqi_hub_parent(callers[i], FANOUT);
            open_attached(callers[i]);
            aqi_hub_link_lost(one.hub, parent, false, "silent");
            unsigned calls = 0, parents = 0, roots = 0;
            for (uint64_t until = one.now + TIMEOUT_NS / 4 * 6; one.now < until;) {
                calls = one.called;
                parents += one.last_called == parent;
                roots += one.last_called == 0;
                pass(TIMEOUT_NS / 100); /* no route: the failure is immediate */
                aqi_hub_unreachable(one.hub, one.last_called, false, "no route");
                while (one.called == calls)
                    pass(TIMEOUT_NS / 100);
            }
            assert_in_range(one.called, 20, 100);
            assert_true(parents > 10 && roots > 10);
            assert_false(one.over);
            if (mended) {
                aqi_hub_attached(one.hub, one.last_called);
                calls = one.called;
                pass(10 * TIMEOUT_NS);
                assert_int_equal(one.called, calls);
                assert_false(one.over);
            } else {
                pass(TIMEOUT_NS / 2 - TIMEOUT_NS / 10);
                assert_false(one.over);
                pass(TIMEOUT_NS / 10);
                assert_true(one.over);
            }
            aqi_hub_close(one.hub);
        }
}

/* It ends, and agents below it, which still belong to the job, attach elsewhere. */
static void an_agent_declared_dead_ends(void **state)
{
    const struct hub_note lost = {.type = HUB_LOST, .rank = 1, .data = "", .len = 0};
    open_attached(1);
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
static void a_closed_agent_leaves_once_its_facts_are_acknowledged(void **state)
{
    for (int known = 0; known < 2; known++) {
        open_attached(3);
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
static void a_disconnected_agent_ends_after_the_timeout(void **state)
{
    open_attached(3);
    aqi_hub_link_lost(one.hub, 1, true, "it died");
    pass(2 * TIMEOUT_NS - 1);
    assert_false(one.over);
    pass(1);
    assert_true(one.over);
    aqi_hub_attached(one.hub, 0); /* it returns too late */
    assert_int_equal(one.detached, 1u << 0);
    aqi_hub_close(one.hub);
}

static void an_agent_that_never_attaches_ends_the_job(void **state)
{
    open_one(0);
    attach(1, 1, 0);
    attach(2, 1, 0);
    pass(60 * TIMEOUT_NS - 1);
    assert_false(aqi_hub_ending(one.hub));
    pass(1);
    assert_true(aqi_hub_ending(one.hub));
    assert_int_equal(aqi_hub_code(one.hub), AQI_EXIT_FAILED);
    aqi_hub_close(one.hub);
}

/* Other hosts have the result, and would wait for the ranks of this one. */
static void an_agent_without_memory_for_a_result_ends_the_job(void **state)
{
    const struct hub_note result = {.type = HUB_RESULT,
                                    .seq = 1,
                                    .call = AQI_CALL_TABLE,
                                    .bytes = AGENTS,
                                    .data = "0123456789abcdef",
                                    .len = AGENTS};
    open_attached(1);
    note(0, HUB_FRAME_ENTRY, 0, 1, &result);
    assert_int_equal(sent(0, HUB_FRAME_FACT, 1, 1), 1);
    for (unsigned i = 0; i < one.count; i++)
        if (one.sent[i].kind == HUB_FRAME_FACT) assert_int_equal(one.sent[i].type, HUB_FAILED);
    aqi_hub_close(one.hub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_that_attached_elsewhere_is_not_missing),
        cmocka_unit_test(acknowledgments_take_the_path_of_their_facts),
        cmocka_unit_test(a_repeated_fact_is_acknowledged_again),
        cmocka_unit_test(acknowledgments_are_forwarded_to_the_named_agent),
        cmocka_unit_test(entries_are_kept_for_the_whole_subtree),
        cmocka_unit_test(entries_are_kept_for_orphans),
        cmocka_unit_test(an_agent_that_is_ahead_may_attach),
        cmocka_unit_test(outdated_reports_of_links_are_ignored),
        cmocka_unit_test(an_agent_with_a_broken_link_may_reconnect),
        cmocka_unit_test(the_root_is_called_again_after_a_broken_link),
        cmocka_unit_test(an_agent_without_its_parent_calls_its_ancestors),
        cmocka_unit_test(a_disconnected_agent_keeps_calling),
        cmocka_unit_test(an_agent_declared_dead_ends),
        cmocka_unit_test(ranks_that_have_ended_are_not_lost_with_their_host),
        cmocka_unit_test(a_closed_agent_leaves_once_its_facts_are_acknowledged),
        cmocka_unit_test(a_disconnected_agent_ends_after_the_timeout),
        cmocka_unit_test(an_agent_that_never_attaches_ends_the_job),
        cmocka_unit_test(an_agent_without_memory_for_a_result_ends_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
