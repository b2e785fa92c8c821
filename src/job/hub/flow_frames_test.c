/* Frames that no agent sends, the limit on unacknowledged data, and reports at the end. */
#include "job/hub/flow_world_test.h"

static size_t packed(const struct hub_note *what, uint8_t bytes[256])
{
    struct aqi_parcel *parcel = hub_note_encode(what);
    assert_non_null(parcel);
    size_t len = parcel->len - HUB_FRAME_HEAD;
    assert_true(len <= 256);
    memcpy(bytes, parcel->bytes + HUB_FRAME_HEAD, len);
    aqi_parcel_release(parcel);
    return len;
}

/* Sent to 1, with parent 0 and child 3, but not 4, attached; and to the root, with 1 and 2
 * attached. */
static void malformed_frames_change_nothing(void **state)
{
    const uint32_t epoch = 1;
    uint8_t pass_on[256], says[256];
    const size_t pass_len = packed(&entry, pass_on), says_len = packed(&say, says);
    const struct {
        uint32_t at;
        uint32_t from;
        uint8_t kind;
        uint32_t agent;
        uint64_t number;
        const void *data;
        size_t len;
    } rows[] = {
        /* entries, and others that only a parent sends */
        {1, 3, HUB_FRAME_ENTRY, 3, 1, pass_on, pass_len},
        {0, 1, HUB_FRAME_ENTRY, 1, 1, pass_on, pass_len},
        {1, 0, HUB_FRAME_ENTRY, 0, 2, pass_on, pass_len}, /* the first is missing */
        {1, 3, HUB_FRAME_GOT, 1, 0, NULL, 0},
        {0, 1, HUB_FRAME_GOT, 0, 0, NULL, 0},
        {1, 0, HUB_FRAME_GOT, AGENTS, 0, NULL, 0},
        {1, 0, HUB_FRAME_GOT, UINT32_MAX, 0, NULL, 0},
        {1, 0, HUB_FRAME_GOT, 1, 99, NULL, 0}, /* more than was sent */
        {1, 3, HUB_FRAME_RESEND, 3, 0, NULL, 0},
        {0, 1, HUB_FRAME_RESEND, 1, 0, NULL, 0},
        {1, 3, HUB_FRAME_GONE, 3, 0, NULL, 0},
        {0, 1, HUB_FRAME_GONE, 1, 0, NULL, 0},
        /* the agent that attaches is this one, another, or not below us */
        {1, 4, HUB_FRAME_ATTACH, 9, 0, &epoch, sizeof(epoch)},
        {1, AGENTS, HUB_FRAME_ATTACH, AGENTS, 0, &epoch, sizeof(epoch)},
        {0, AGENTS, HUB_FRAME_ATTACH, AGENTS, 0, &epoch, sizeof(epoch)},
        {1, 1, HUB_FRAME_ATTACH, 1, 0, &epoch, sizeof(epoch)},
        {1, 5, HUB_FRAME_ATTACH, 5, 0, &epoch, sizeof(epoch)},
        {1, 4, HUB_FRAME_ATTACH, 4, 0, &epoch, sizeof(epoch) - 1},
        {1, 4, HUB_FRAME_ATTACH, 4, 0, says, sizeof(epoch) + 1},
        {0, 3, HUB_FRAME_ATTACH, 3, 1, &epoch, sizeof(epoch)}, /* more than there were */
        /* facts arrive from attached children and are of agents below this one; other notes are
           rejected */
        {1, 4, HUB_FRAME_FACT, 4, 1, says, says_len},
        {1, 7, HUB_FRAME_FACT, 7, 1, says, says_len},
        {1, 3, HUB_FRAME_FACT, 5, 1, says, says_len},
        {0, 1, HUB_FRAME_FACT, AGENTS, 1, says, says_len},
        {1, 3, HUB_FRAME_FACT, 31, 1, says, says_len},
        {0, 1, HUB_FRAME_FACT, 1, 1, pass_on, pass_len},
        {0, 1, HUB_FRAME_FACT, 1, 1, says, 0},
        /* acknowledgments arrive from attached children, for entries that exist */
        {1, 4, HUB_FRAME_APPLIED, 4, 0, NULL, 0},
        {1, 7, HUB_FRAME_APPLIED, 7, 0, NULL, 0},
        {0, 1, HUB_FRAME_APPLIED, 1, 1, NULL, 0},
        {1, 0, HUB_FRAMES, 0, 1, NULL, 0},
        {1, 0, 0, 0, 1, NULL, 0},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        open_one(rows[i].at);
        if (rows[i].at != 0) aqi_hub_attached(one.hub, 0);
        attach(rows[i].at == 0 ? 1 : 3, 1, 0);
        if (rows[i].at == 0) attach(2, 1, 0);
        unsigned before = one.count;
        aq_status status = try_frame(rows[i].from, rows[i].kind, rows[i].agent, rows[i].number,
                                     rows[i].data, rows[i].len);
        if (status != AQ_EPROTO) fail_msg("row %zu: status %d", i, (int)status);
        assert_int_equal(one.count, before);
        assert_int_equal(one.detached, 0);
        aqi_hub_close(one.hub);
    }
}

static void entries_are_applied_once(void **state)
{
    open_attached(1);
    attach(4, 1, 0);
    note(0, HUB_FRAME_ENTRY, 0, 1, &entry);
    note(0, HUB_FRAME_ENTRY, 0, 1, &entry);
    note(0, HUB_FRAME_ENTRY, 0, 2, &entry);
    assert_int_equal(sent(4, HUB_FRAME_ENTRY, 1, 1), 1);
    assert_int_equal(sent(4, HUB_FRAME_ENTRY, 1, 2), 1);
    attach(3, 1, 1); /* it has the first */
    assert_int_equal(sent(3, HUB_FRAME_ENTRY, 1, 1), 0);
    assert_int_equal(sent(3, HUB_FRAME_ENTRY, 1, 2), 1);
    aqi_hub_close(one.hub);
}

/* 7 has one child, the last agent: nothing is kept for another. */
static void a_complete_subtree_is_reported(void **state)
{
    open_attached(7);
    attach(15, 1, 0);
    note(3, HUB_FRAME_ENTRY, 0, 1, &entry);
    assert_int_equal(sent(3, HUB_FRAME_APPLIED, 0, 1), 0);
    frame(15, HUB_FRAME_APPLIED, 15, 1, NULL, 0);
    assert_int_equal(sent(3, HUB_FRAME_APPLIED, 0, 1), 1);
    aqi_hub_link_lost(one.hub, 3, true, "it died");
    aqi_hub_attached(one.hub, 1); /* which it has not received */
    assert_int_equal(sent(1, HUB_FRAME_APPLIED, 0, 1), 1);
    aqi_hub_close(one.hub);
}

/* The child through which an agent's facts came is lost, but an ancestor of the agent is
 * attached. */
static void acknowledgments_find_another_path(void **state)
{
    open_one(0);
    attach(1, 1, 0);
    fact(1, 7, 1, &say);
    aqi_hub_link_lost(one.hub, 1, false, "reset");
    attach(3, 2, 0);
    pass(TIMEOUT_NS / 2);
    assert_int_equal(sent(3, HUB_FRAME_GOT, 7, 1), 1);
    aqi_hub_close(one.hub);
}

/* --- windows --------------------------------------------------------------------------------- */

enum { GOT_BYTES = 65536, WINDOW = 4 * GOT_BYTES };

static char text[2 * GOT_BYTES];

/* Output of ranks waits while a window of it is unacknowledged, or there is no receiver. */
static void output_has_a_window(void **state)
{
    for (unsigned room = 0; room < 2; room++) {
        uint64_t facts = 1;
        open_one(3);
        assert_false(aqi_hub_has_room(one.hub));
        aqi_hub_attached(one.hub, 1);
        one.bytes = 0; /* from now on only facts are sent */
        aqi_hub_started(one.hub, 3, 5);
        assert_true(aqi_hub_has_room(one.hub));
        size_t before = one.bytes;
        aqi_hub_printed(one.hub, 3, 0, text, 0);
        const size_t head = one.bytes - before;
        while (one.bytes < WINDOW - room) {
            size_t left = WINDOW - room - one.bytes;
            assert_true(aqi_hub_has_room(one.hub));
            aqi_hub_printed(one.hub, 3, 0, text, left > 16384 ? 8192 : left - head);
            facts++;
        }
        assert_int_equal(one.bytes, WINDOW - room);
        assert_int_equal(aqi_hub_has_room(one.hub), room);
        frame(1, HUB_FRAME_GOT, 3, facts, NULL, 0);
        assert_true(aqi_hub_has_room(one.hub));
        aqi_hub_link_lost(one.hub, 1, false, "reset");
        assert_false(aqi_hub_has_room(one.hub));
        aqi_hub_close(one.hub);
    }
}

/* A fact with this many bytes in its frame. */
static void large(uint64_t number, size_t bytes)
{
    struct hub_note output = {.type = HUB_OUTPUT, .rank = 1, .data = text};
    struct aqi_parcel *empty = hub_note_encode(&output);
    assert_non_null(empty);
    output.len = bytes - (empty->len - HUB_FRAME_HEAD);
    aqi_parcel_release(empty);
    fact(1, 1, number, &output);
}

/* The root acknowledges at exactly this many bytes, unless it has no room for more. */
static void many_bytes_are_acknowledged_at_once(void **state)
{
    open_one(0);
    attach(1, 1, 0);
    large(1, GOT_BYTES - 1);
    assert_int_equal(sent(1, HUB_FRAME_GOT, 1, 1), 0);
    large(2, 100);
    assert_int_equal(sent(1, HUB_FRAME_GOT, 1, 2), 1);
    large(3, GOT_BYTES - 1);
    assert_int_equal(sent(1, HUB_FRAME_GOT, 1, 3), 0);
    aqi_hub_hold_output(one.hub, true);
    large(4, 100);
    assert_int_equal(sent(1, HUB_FRAME_GOT, 1, 4), 0);
    aqi_hub_hold_output(one.hub, false);
    assert_int_equal(sent(1, HUB_FRAME_GOT, 1, 4), 1);
    large(5, GOT_BYTES);
    assert_int_equal(sent(1, HUB_FRAME_GOT, 1, 5), 1);
    unsigned before = one.count;
    aqi_hub_hold_output(one.hub, true);
    aqi_hub_hold_output(one.hub, false);
    assert_int_equal(one.count, before);
    aqi_hub_close(one.hub);
}

/* --- the end --------------------------------------------------------------------------------- */

/* Only an agent that has never reached the root needs the process that started it. */
static void the_process_that_started_the_agent_has_ended(void **state)
{
    for (unsigned runs = 0; runs < 2; runs++) {
        open_one(3);
        if (runs) aqi_hub_started(one.hub, 3, 5);
        aqi_hub_forsaken(one.hub);
        assert_int_equal(one.says, 1);
        assert_int_equal(one.always, runs); /* with ranks it matters */
        assert_non_null(strstr(one.text, "the process that started its agent is gone"));
        assert_int_equal(one.over, !runs);
        if (!runs) assert_int_equal(one.code, AQI_EXIT_FAILED);
        aqi_hub_forsaken(one.hub);
        assert_int_equal(one.says, 1);
        aqi_hub_close(one.hub);
    }
    open_attached(3);
    aqi_hub_forsaken(one.hub);
    assert_int_equal(one.says, 0);
    assert_false(one.over);
    aqi_hub_close(one.hub);
    open_one(0);
    aqi_hub_forsaken(one.hub);
    assert_int_equal(one.says, 0);
    assert_false(aqi_hub_ending(one.hub));
    aqi_hub_close(one.hub);
}

/* While its ranks end, it accepts no frames and no agents. */
static void an_agent_that_cannot_reach_the_root_ignores_frames(void **state)
{
    static const char why[] = "lost";
    open_one(1);
    aqi_hub_started(one.hub, 1, 5);
    aqi_hub_attached(one.hub, 0);
    attach(3, 1, 0);
    attach(4, 1, 0);
    frame(0, HUB_FRAME_GONE, 1, 0, why, strlen(why));
    assert_int_equal(one.detached, 1u << 0 | 1u << 3 | 1u << 4);
    assert_int_equal(one.says, 1);
    assert_false(one.over);
    one.detached = 0;
    unsigned calls = one.called, count = one.count;
    frame(0, HUB_FRAME_GONE, 1, 0, why, strlen(why));
    note(0, HUB_FRAME_ENTRY, 0, 1, &entry);
    attach(3, 2, 0);
    assert_int_equal(one.detached, 1u << 3);
    aqi_hub_attached(one.hub, 0);
    assert_int_equal(one.detached, 1u << 3 | 1u << 0);
    aqi_hub_unreachable(one.hub, 0, false, "no route");
    aqi_hub_unreachable(one.hub, 3, false, "no route");
    assert_int_equal(one.called, calls);
    assert_int_equal(one.count, count);
    assert_int_equal(one.says, 1);
    aqi_hub_close(one.hub);
}

/* The reason for the lost connection is reported if it is known, but not that of an earlier one. */
static void the_reason_for_the_lost_connection(void **state)
{
    for (unsigned known = 0; known < 3; known++) {
        open_attached(1);
        aqi_hub_link_lost(one.hub, 0, false, "cut");
        if (known != 0) aqi_hub_unreachable(one.hub, 0, false, known == 1 ? "X" : "no route");
        if (known == 2) {
            aqi_hub_attached(one.hub, 0);
            aqi_hub_link_lost(one.hub, 0, false, "cut");
        }
        pass(2 * TIMEOUT_NS);
        assert_true(one.over);
        const char *reason = strstr(one.text, "no connection for 2 s");
        assert_non_null(reason);
        assert_string_equal(reason + strlen("no connection for 2 s"), known == 1 ? ": X" : "");
        aqi_hub_close(one.hub);
    }
}

/* It is no longer needed, which is not a failure. */
static void an_agent_that_is_done_ends_with_code_0(void **state)
{
    open_attached(3);
    note(1, HUB_FRAME_ENTRY, 0, 1, &end);
    frame(1, HUB_FRAME_GOT, 3, 1, NULL, 0);
    aqi_hub_link_lost(one.hub, 1, true, "it was closed");
    assert_true(one.over);
    assert_int_equal(one.code, 0);
    aqi_hub_close(one.hub);
}

/* The hub must be called when it stops waiting for the first of them. */
static void lost_children_have_a_time_limit(void **state)
{
    open_attached(1);
    attach(3, 1, 0);
    attach(4, 1, 0);
    uint64_t first = one.now + 2 * TIMEOUT_NS;
    aqi_hub_link_lost(one.hub, 3, false, "cut");
    assert_true(aqi_hub_tick(one.hub) == first);
    pass(TIMEOUT_NS);
    aqi_hub_link_lost(one.hub, 4, false, "cut");
    assert_true(aqi_hub_tick(one.hub) == first);
    pass(TIMEOUT_NS);
    assert_true(aqi_hub_tick(one.hub) == first + TIMEOUT_NS);
    aqi_hub_close(one.hub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_frames_change_nothing),
        cmocka_unit_test(entries_are_applied_once),
        cmocka_unit_test(a_complete_subtree_is_reported),
        cmocka_unit_test(acknowledgments_find_another_path),
        cmocka_unit_test(output_has_a_window),
        cmocka_unit_test(many_bytes_are_acknowledged_at_once),
        cmocka_unit_test(the_process_that_started_the_agent_has_ended),
        cmocka_unit_test(an_agent_that_cannot_reach_the_root_ignores_frames),
        cmocka_unit_test(the_reason_for_the_lost_connection),
        cmocka_unit_test(an_agent_that_is_done_ends_with_code_0),
        cmocka_unit_test(lost_children_have_a_time_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
