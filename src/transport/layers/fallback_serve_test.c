/*
 * Tests fallback_serve.c: internal messages that peers may have made up; which are served with
 * which answer, which are rejected, which are dropped. Scattered transfers: fallback_rows_test.c;
 * answers: fallback_take_test.c. Two real layers: tests/contract.
 */
#include "transport/layers/fallback_world_test.h"

static void puts_are_written_and_acknowledged(void **state)
{
    static const unsigned char bytes[300] = {1, 2, 3};
    struct message put = {FB_PUT, 3, {5, 6, FB_ANSWER}, reach, bytes, 300};
    open_world();
    assert_int_equal(arrives(put), 0);
    assert_memory_equal(reach, bytes, 300);
    assert_int_equal(reach[300], (unsigned char)(300 * 7));
    expect_sent(1, FB_ACK, 3, (const int32_t[]){5, 6, 300 | FB_ANSWER});
    /* Unanswered pieces are added up until one is to be answered. */
    put.args[2] = 0;
    put.at = reach + REACH - 300;
    assert_int_equal(arrives(put), 0);
    assert_int_equal(arrives(put), 0);
    assert_int_equal(world.count, 1);
    put.args[2] = FB_ANSWER;
    assert_int_equal(arrives(put), 0);
    expect_sent(2, FB_ACK, 3, (const int32_t[]){5, 6, 900 | FB_ANSWER});
    put.args[2] = 0;
    assert_int_equal(arrives(put), 0);
    assert_int_equal(arrives((struct message){FB_SYNC, 2, {5, 6}, NULL, NULL, 0}), 0);
    expect_sent(3, FB_ACK, 3, (const int32_t[]){5, 6, 300 | FB_ANSWER});
    /* Acknowledgements held back for one put are sent with the next one of another put. */
    for (unsigned i = 0; i < 2; i++) {
        struct message next = {FB_PUT, 3, {5 + (i == 0), 6 + (i == 1), 0}, reach, bytes, 20};
        put.args[2] = 0;
        put.at = reach;
        assert_int_equal(arrives(put), 0);
        assert_int_equal(world.count, 3 + 4 * i);
        assert_int_equal(arrives(next), 0);
        expect_sent(4 + 4 * i, FB_ACK, 6,
                    (const int32_t[]){next.args[0], next.args[1], 0, 5, 6, 300});
        next.args[2] = FB_ANSWER;
        assert_int_equal(arrives(next), 0);
        expect_sent(5 + 4 * i, FB_ACK, 3,
                    (const int32_t[]){next.args[0], next.args[1], 40 | FB_ANSWER});
        assert_int_equal(arrives(put), 0);
        assert_int_equal(arrives(next), 0);
        expect_sent(6 + 4 * i, FB_ACK, 6,
                    (const int32_t[]){next.args[0], next.args[1], 20 | FB_ANSWER, 5, 6, 300});
        assert_int_equal(arrives((struct message){FB_SYNC, 2, {5, 6}, NULL, NULL, 0}), 0);
        expect_sent(7 + 4 * i, FB_ACK, 3, (const int32_t[]){5, 6, FB_ANSWER});
    }
    close_world();
}

/* At most this many bytes are held back, whatever the peer requests. */
static void no_sum_overflows(void **state)
{
    static unsigned char bytes[8 << 20], there[sizeof(bytes)];
    const struct message put = {FB_PUT, 3, {5, 6, 0}, there, bytes, sizeof(bytes)};
    enum { LAST = FB_MOST_HELD / sizeof(bytes) };
    open_world();
    assert_int_equal(arrives(put), 0);
    expect_answer(1, FB_REFUSED);
    world.fb->side[PEER].held.index = 5; /* as if all but two had arrived */
    world.fb->side[PEER].held.generation = 6;
    world.fb->side[PEER].held.bytes = (LAST - 2) * sizeof(bytes);
    const struct message small = {FB_PUT, 3, {5, 6, 0}, reach, bytes, 64};
    for (unsigned i = 0; i < 2 * sizeof(bytes) / 64 - 1; i++)
        assert_int_equal(arrives(small), 0);
    assert_int_equal(world.count, 1);
    assert_int_equal(arrives(small), 0);
    expect_sent(2, FB_ACK, 3, (const int32_t[]){5, 6, (int32_t)FB_MOST_HELD | FB_ANSWER});
    assert_int_equal(arrives(small), 0);
    assert_int_equal(world.count, 2);
    close_world();
}

static void only_memory_for_peers_is_accessed(void **state)
{
    static const unsigned char bytes[64] = {9};
    static const struct {
        struct message message;
        bool refused;
    } rows[] = {
        {{FB_PUT, 3, {5, 6, FB_ANSWER}, reach + REACH - 64, bytes, 64}, false},
        {{FB_PUT, 3, {5, 6, FB_ANSWER}, reach + REACH - 63, bytes, 64}, true},
        {{FB_GET, 4, {5, 6, 3, 64}, reach + REACH - 64, NULL, 0}, false},
        {{FB_GET, 4, {5, 6, 3, 64}, reach + REACH - 63, NULL, 0}, true},
        {{FB_GET, 4, {5, 6, 3, PIECE}, reach, NULL, 0}, false},
        {{FB_GET, 4, {5, 6, 3, PIECE + 1}, reach, NULL, 0}, true},
        {{FB_GET, 4, {5, 6, 3, -1}, reach, NULL, 0}, true},
        {{FB_FILL, 5, {5, 6, 1, 64, 0}, reach + REACH - 64, NULL, 0}, false},
        {{FB_FILL, 5, {5, 6, 1, 65, 0}, reach + REACH - 64, NULL, 0}, true},
        {{FB_FILL, 5, {5, 6, 1, 64, 1}, reach + REACH - 64, NULL, 0}, true},
        {{FB_ATOMIC, 8, {5, 6, 1, 0, 0, 0, ADD, U64}, reach + REACH - 8, NULL, 0}, false},
        {{FB_ATOMIC, 8, {5, 6, 1, 0, 0, 0, ADD, U64}, reach + REACH, NULL, 0}, true},
        {{FB_ATOMIC, 8, {5, 6, 1, 0, 0, 0, ADD, U32}, reach + REACH - 4, NULL, 0}, false},
        {{FB_ATOMIC, 8, {5, 6, 1, 0, 0, 0, ADD, U64}, reach + 4, NULL, 0}, true},
        {{FB_ATOMIC, 8, {5, 6, 1, 0, 0, 0, ADD, U32}, reach + 4, NULL, 0}, false},
        {{FB_ATOMIC, 8, {5, 6, 1, 0, 0, 0, ADD, U32}, reach + 2, NULL, 0}, true},
        {{FB_ATOMIC, 8, {5, 6, 1, 0, 0, 0, ADD, 200}, reach, NULL, 0}, true},
        {{FB_ATOMIC, 8, {5, 6, 1, 0, 0, 0, 200, U64}, reach, NULL, 0}, true},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        unsigned char before[sizeof(reach)];
        open_world();
        memcpy(before, reach, sizeof(reach));
        assert_int_equal(arrives(rows[i].message), 0);
        if (rows[i].refused) {
            expect_answer(1, FB_REFUSED);
            assert_memory_equal(reach, before, sizeof(reach));
        } else {
            assert_int_equal(world.count, 1);
            assert_int_not_equal(world.sent[0].am.handler, FB_REFUSED);
        }
        assert_memory_equal(reach + REACH, before + REACH, 64);
        close_world();
    }
}

static void the_answers_are_right(void **state)
{
    const uint64_t word = 0x1122334455667788u;
    uint64_t after;
    open_world();
    assert_int_equal(arrives((struct message){FB_GET, 4, {5, 6, 77, 100}, reach + 10, NULL, 0}), 0);
    expect_sent(1, FB_GET_DATA, 3, (const int32_t[]){5, 6, 77});
    assert_int_equal(world.sent[0].am.nbytes, 100);
    assert_memory_equal(world.sent[0].payload, reach + 10, 100);
    assert_int_equal(arrives((struct message){FB_FILL, 5, {5, 6, 0x1ab, 100, 0}, reach, NULL, 0}),
                     0);
    expect_answer(2, FB_DONE);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(reach[i], 0xab);
    assert_int_equal(reach[100], (unsigned char)(100 * 7));
    memcpy(reach, &word, sizeof(word));
    assert_int_equal(
        arrives((struct message){FB_ATOMIC, 8, {5, 6, 1, 2, 0, 0, ADD, U64}, reach, NULL, 0}), 0);
    expect_sent(3, FB_RESULT, 4, (const int32_t[]){5, 6, 0x55667788, 0x11223344});
    memcpy(&after, reach, sizeof(after));
    assert_true(after == word + 0x200000001u);
    memcpy(reach, &word, sizeof(word));
    assert_int_equal(
        arrives((struct message){
            FB_ATOMIC, 8, {5, 6, 0x55667788, 0x11223344, 3, 4, CAS, U64}, reach, NULL, 0}),
        0);
    memcpy(&after, reach, sizeof(after));
    assert_true(after == 0x400000003u);
    close_world();
}

static enum aqi_refusal region_of_64_bytes(void *host, const uint32_t ticket[AQI_TICKET],
                                           uint64_t offset, size_t len, bool write, void **at)
{
    static const uint32_t known[AQI_TICKET] = {11, 12, 13, 14};
    if (memcmp(ticket, known, sizeof(known)) != 0) return AQI_REFUSAL_UNKNOWN;
    if (write) return AQI_REFUSAL_RIGHT;
    *at = reach + 100 + offset;
    return aqi_within(offset, len, 0, 64) ? AQI_REFUSAL_NONE : AQI_REFUSAL_RANGE;
}

/* The owner of a region decides about each message, and its answer says why it refuses. */
static void owners_of_regions_decide(void **state)
{
    static const unsigned char bytes[8] = {9};
    static const struct {
        struct message message;
        enum aqi_refusal why;
    } rows[] = {
        {{FB_REGION_GET, 8, {5, 6, 77, 64, 11, 12, 13, 14}, NULL, NULL, 0}, AQI_REFUSAL_NONE},
        {{FB_REGION_GET, 8, {5, 6, 77, 63, 11, 12, 13, 14}, (void *)2, NULL, 0}, AQI_REFUSAL_RANGE},
        {{FB_REGION_GET, 8, {5, 6, 77, PIECE + 1, 11, 12, 13, 14}, NULL, NULL, 0},
         AQI_REFUSAL_RANGE},
        {{FB_REGION_GET, 8, {5, 6, 77, 64, 11, 12, 13, 15}, NULL, NULL, 0}, AQI_REFUSAL_UNKNOWN},
        {{FB_REGION_PUT, 7, {5, 6, FB_ANSWER, 11, 12, 13, 14}, NULL, bytes, 8}, AQI_REFUSAL_RIGHT},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        open_world();
        assert_int_equal(arrives(rows[i].message), 0); /* no regions at all */
        bool large = rows[i].message.args[3] > PIECE;
        expect_sent(1, FB_REFUSED, 4,
                    (const int32_t[]){5, 6, large ? AQ_ERANGE : AQ_EACCESS,
                                      large ? AQI_REFUSAL_RANGE : AQI_REFUSAL_UNKNOWN});
        world.fb->up.region = region_of_64_bytes;
        assert_int_equal(arrives(rows[i].message), 0);
        if (rows[i].why != AQI_REFUSAL_NONE) {
            bool range = rows[i].why == AQI_REFUSAL_RANGE;
            expect_sent(
                2, FB_REFUSED, 4,
                (const int32_t[]){5, 6, range ? AQ_ERANGE : AQ_EACCESS, (int32_t)rows[i].why});
        } else {
            expect_sent(2, FB_GET_DATA, 3, (const int32_t[]){5, 6, 77});
            assert_memory_equal(world.sent[1].payload, reach + 100, 64);
        }
        close_world();
    }
}

/* Each kind needs its number of arguments, and is accepted in its direction only. */
static void malformed_messages_are_dropped(void **state)
{
    static const uint8_t nargs[FB_MESSAGES] = {
        [FB_PUT] = 3,      [FB_SYNC] = 2,       [FB_ACK] = 3,        [FB_GET] = 4,
        [FB_GET_DATA] = 3, [FB_ATOMIC] = 8,     [FB_RESULT] = 4,     [FB_FILL] = 5,
        [FB_DONE] = 2,     [FB_PUT_ROWS] = 2,   [FB_ROWS] = 2,       [FB_REFUSED] = 2,
        [FB_GET_ROWS] = 2, [FB_REGION_PUT] = 7, [FB_REGION_GET] = 8, [FB_PING] = 2};
    const int32_t args[8] = {5, 6, 0, 1, 0, 0, ADD, U64};
    struct aqi_am am = {
        .kind = AQI_AM_INTERNAL, .args = args, .addr = (uintptr_t)reach, .payload = reach};
    open_world();
    for (unsigned handler = 0; handler <= UINT8_MAX; handler++)
        for (unsigned reply = 0; reply < 2; reply++) {
            am.handler = (uint8_t)handler;
            am.flags = reply ? AQI_AM_IS_REPLY : 0;
            bool known = handler != 0 && handler < FB_MESSAGES &&
                         reply == is_reply((enum fallback_message)handler);
            am.nargs = 8;
            world.count = 0;
            /* A reply is dropped nevertheless: no operation is in progress. */
            assert_int_equal(arrive_from(PEER, &am), !known || reply);
            if (!known) assert_int_equal(world.count, 0);
            if (!known) continue;
            am.nargs = nargs[handler];
            assert_int_equal(arrive_from(PEER, &am), reply);
            world.count = 0;
            am.nargs--;
            assert_int_equal(arrive_from(PEER, &am), 1);
            assert_int_equal(world.count, 0);
        }
    /* From a peer that does not exist. */
    am.handler = FB_SYNC;
    am.nargs = 2;
    am.flags = 0;
    assert_int_equal(arrive_from(ABSENT, &am), 1);
    assert_int_equal(arrive_from(PEERS, &am), 1);
    assert_int_equal(world.count, 0);
    assert_int_equal(world.delivered, 0);
    close_world();
}

/* The handler's thread waits for room, and handles replies meanwhile. */
static void an_answer_waits_for_room(void **state)
{
    const struct message sync = {FB_SYNC, 2, {5, 6}, NULL, NULL, 0};
    open_world();
    world.again = 5;
    assert_int_equal(arrives(sync), 0);
    assert_int_equal(world.relaxed, 5);
    assert_int_equal(world.count, 1);
    world.again = 5;
    world.progress = 1; /* there were arrivals, so there is no need to yield */
    assert_int_equal(arrives(sync), 0);
    assert_int_equal(world.relaxed, 5);
    assert_int_equal(world.count, 2);
    world.answer = AQ_EPEER;
    world.tries = 0;
    assert_int_equal(arrives(sync), 0);
    assert_int_equal(world.tries, 1);
    /* Or it waits until the peer is dead. */
    world.answer = AQ_OK;
    world.again = 1000;
    world.progress = 0;
    world.last_round = world.relaxed = 0;
    assert_int_equal(arrives(sync), 0);
    assert_int_equal(world.relaxed, 100);
    assert_int_equal(world.count, 2);
    close_world();
}

static void longs_are_for_the_memory_of_peers(void **state)
{
    static const unsigned char bytes[64] = {1, 2, 3, 4};
    static const struct {
        uint8_t kind;
        size_t at;
        uint32_t nbytes;
        bool ok;
    } rows[] = {
        {AQI_AM_LONG_PACKED, REACH - 64, 64, true}, {AQI_AM_LONG_PACKED, REACH - 63, 64, false},
        {AQI_AM_LONG_HEADER, REACH - 64, 64, true}, {AQI_AM_LONG_HEADER, REACH - 63, 64, false},
        {AQI_AM_LONG_LATE, REACH - 64, 64, true},   {AQI_AM_LONG_LATE, REACH - 63, 64, false},
        {AQI_AM_LONG_PACKED, REACH + 60, 0, true},  {AQI_AM_LONG_HEADER, REACH + 60, 0, true},
        {AQI_AM_LONG_HEADER, REACH + 60, 1, false},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        open_world();
        const struct aqi_am am = {.kind = rows[i].kind,
                                  .handler = 9,
                                  .nbytes = rows[i].nbytes,
                                  .addr = (uintptr_t)reach + rows[i].at,
                                  .payload = bytes};
        assert_int_equal(arrive_from(ABSENT, &am), 1);
        assert_int_equal(arrive_from(PEERS, &am), 1);
        assert_int_equal(world.delivered, 0);
        assert_int_equal(arrive_from(PEER, &am), !rows[i].ok);
        assert_int_equal(world.delivered, rows[i].ok);
        bool written = rows[i].ok && rows[i].kind == AQI_AM_LONG_PACKED && rows[i].nbytes != 0;
        assert_int_equal(memcmp(reach + REACH - 64, bytes, 64) == 0, written);
        assert_int_equal(reach[REACH], (unsigned char)(REACH * 7));
        if (rows[i].ok) {
            assert_int_equal(world.arrived.kind, AQI_AM_LONG);
            assert_int_equal(world.arrived.flags,
                             rows[i].kind == AQI_AM_LONG_LATE ? AQI_AM_IS_REPLY : 0);
            assert_ptr_equal(world.arrived.payload, reach + rows[i].at);
        }
        close_world();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_are_written_and_acknowledged),
        cmocka_unit_test(no_sum_overflows),
        cmocka_unit_test(only_memory_for_peers_is_accessed),
        cmocka_unit_test(the_answers_are_right),
        cmocka_unit_test(owners_of_regions_decide),
        cmocka_unit_test(malformed_messages_are_dropped),
        cmocka_unit_test(an_answer_waits_for_room),
        cmocka_unit_test(longs_are_for_the_memory_of_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
