/*
 * Tests calls.c: which pieces of collective calls a rank may send, since they size memory and place
 * data, and the results of valid ones. One hub, whose first rank is tested.
 */
#include "job/hooks_test.h"
#include "job/hub/impl.h"

#include <stdio.h>
#include <string.h>

#define LATER UINT64_C(1000000000000)

static struct {
    struct aqi_hub *hub;
    uint32_t ranks;
    unsigned results, failures, shares, tables;
    size_t len, shared;
    uint8_t bytes[8];
    char name[AQI_CONTROL_NAME + 1], said[AQI_CONTROL_TEXT];
} one;

static void on_rank(void *arg, uint32_t rank, const struct aqi_control *message,
                    struct aqi_parcel *parcel)
{
    if (message->type != AQI_CONTROL_RESULT) return;
    if (message->status != AQ_OK) {
        one.failures++;
        return;
    }
    one.results++;
    one.len = parcel != NULL ? parcel->len : 0;
    if (one.len != 0) memcpy(one.bytes, parcel->bytes, aqi_min(one.len, sizeof(one.bytes)));
}

static aq_status on_share(void *arg, const char *name, size_t bytes, struct aqi_parcel **parcel)
{
    snprintf(one.name, sizeof(one.name), "%s", name);
    one.shared = bytes;
    one.shares++;
    *parcel = aqi_parcel_new(NULL, 0);
    return AQ_OK;
}

static aq_status on_freeze(void *arg, const void *bytes, size_t len, struct aqi_parcel **parcel)
{
    one.tables++;
    *parcel = aqi_parcel_new(bytes, len);
    return AQ_OK;
}

static void on_say(void *arg, bool always, const char *text)
{
    if (always) snprintf(one.said, sizeof(one.said), "%s", text);
}

static void calls_open(uint32_t ranks)
{
    memset(&one, 0, sizeof(one));
    one.ranks = ranks;
    struct aqi_hub_params params = hooks_params(ranks, LATER);
    params.hooks.to_rank = on_rank;
    params.hooks.share = on_share;
    params.hooks.freeze = on_freeze;
    params.hooks.say = on_say;
    assert_int_equal(aqi_hub_open(&params, &one.hub), AQ_OK);
    hooks_join(one.hub, ranks, AQI_NO_RANK);
}

static const uint8_t data[AQI_CONTROL_CHUNK + 1] = {1, 2, 3, 4, 5, 6, 7, 8};

/* Valid calls of 8 bytes; tests change them. */
static struct aqi_control calls_piece(uint32_t call, uint32_t seq, uint64_t offset, size_t len)
{
    return (struct aqi_control){.type = AQI_CONTROL_CALL,
                                .call = call,
                                .seq = seq,
                                .bytes = 8,
                                .offset = offset,
                                .data = data + offset,
                                .len = len};
}

static void calls_expect(uint32_t rank, const struct aqi_control *message, aq_status status)
{
    assert_int_equal(aqi_hub_from_rank(one.hub, rank, message), status);
}

static void calls_expect_piece(uint32_t rank, uint32_t call, uint32_t seq, uint64_t offset,
                               size_t len, aq_status status)
{
    struct aqi_control message = calls_piece(call, seq, offset, len);
    calls_expect(rank, &message, status);
}

static void a_call_in_pieces(void **state)
{
    enum { GATHER = AQI_CALL_ALLGATHER };
    struct aqi_control another_size = calls_piece(GATHER, 1, 5, 3);
    another_size.bytes = 9;
    calls_open(2);
    calls_expect_piece(0, GATHER, 1, 5, 3, AQ_EPROTO); /* not the first piece */
    calls_expect_piece(0, GATHER, 2, 0, 5, AQ_EPROTO); /* of a later call */
    calls_expect_piece(0, GATHER, 0, 0, 5, AQ_EPROTO);
    calls_expect_piece(0, GATHER, 1, 0, 5, AQ_OK);
    calls_expect_piece(0, GATHER, 1, 0, 5, AQ_EPROTO); /* again */
    calls_expect_piece(0, GATHER, 1, 4, 3, AQ_EPROTO); /* overlaps */
    calls_expect_piece(0, GATHER, 1, 5, 4, AQ_EPROTO); /* too much */
    calls_expect(0, &another_size, AQ_EPROTO);
    calls_expect_piece(0, AQI_CALL_TABLE, 1, 5, 3, AQ_EPROTO); /* another call */
    calls_expect_piece(0, GATHER, 1, 5, 0, AQ_EPROTO);         /* nothing */
    calls_expect_piece(0, GATHER, 1, 5, 3, AQ_OK);
    calls_expect_piece(0, GATHER, 1, 8, 0, AQ_EPROTO); /* beyond the end */
    calls_expect_piece(0, GATHER, 2, 0, 8, AQ_EPROTO); /* this one has no result yet */
    calls_expect_piece(0, GATHER, 1, 0, 8, AQ_EPROTO);
    assert_int_equal(one.results, 0);
    calls_expect_piece(1, GATHER, 1, 0, 8, AQ_OK);
    assert_int_equal(one.results, 2);
    assert_int_equal(one.len, 16);
    assert_memory_equal(one.bytes, data, 8);
    calls_expect_piece(1, GATHER, 1, 0, 8, AQ_EPROTO); /* it has ended */
    calls_expect_piece(1, GATHER, 2, 0, 8, AQ_OK);
    aqi_hub_close(one.hub);
}

static void parts_have_a_maximum_size(void **state)
{
    static const struct {
        uint32_t ranks, call;
        uint64_t most;
    } cases[] = {
        {1, AQI_CALL_ALLGATHER, AQI_CONTROL_CHUNK},
        {2, AQI_CALL_ALLGATHER, AQI_CONTROL_CHUNK / 2},
        {64, AQI_CALL_ALLGATHER, AQI_CONTROL_CHUNK / 64},
        {1, AQI_CALL_TABLE, AQI_CONTROL_PART},
        {2, AQI_CALL_TABLE, AQI_CONTROL_PART},
        {2048, AQI_CALL_TABLE, AQI_CONTROL_GATHER / 2048},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        static const uint64_t huge[] = {UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 32};
        struct aqi_control message = calls_piece(cases[i].call, 1, 0, 8);
        calls_open(cases[i].ranks);
        message.bytes = cases[i].most + 1;
        calls_expect(0, &message, AQ_EPROTO);
        for (size_t k = 0; k < AQI_COUNT_OF(huge); k++) {
            message.bytes = huge[k]; /* times the ranks: it may wrap */
            calls_expect(0, &message, AQ_EPROTO);
        }
        message.bytes = cases[i].most;
        calls_expect(0, &message, AQ_OK);
        aqi_hub_close(one.hub);
    }
}

static void calls_without_data(void **state)
{
    calls_open(1);
    struct aqi_control message = calls_piece(AQI_CALL_TABLE, 1, 0, 0);
    message.bytes = 0;
    calls_expect(0, &message, AQ_EPROTO); /* a table must not be empty */
    message.call = AQI_CALL_ALLGATHER;
    message.len = 1;
    calls_expect(0, &message, AQ_EPROTO);
    message.len = 0;
    calls_expect(0, &message, AQ_OK); /* a barrier */
    assert_int_equal(one.results, 1);
    assert_int_equal(one.len, 0);
    calls_expect_piece(0, AQI_CALL_TABLE, 2, 0, 8, AQ_OK);
    assert_int_equal(one.tables, 1);
    assert_int_equal(one.len, 8);
    aqi_hub_close(one.hub);
}

static void names_of_shared_objects(void **state)
{
    char name[AQI_CONTROL_NAME + 1];
    memset(name, 'n', sizeof(name));
    calls_open(2);
    struct aqi_control message = calls_piece(AQI_CALL_SHARE, 1, 0, AQI_CONTROL_NAME + 1);
    message.data = name;
    calls_expect(0, &message, AQ_EPROTO);
    message.len = AQI_CONTROL_NAME;
    message.offset = 1;
    calls_expect(0, &message, AQ_EPROTO);
    message.offset = 0;
    calls_expect(0, &message, AQ_OK);
    calls_expect(0, &message, AQ_EPROTO);
    calls_expect(1, &message, AQ_OK);
    assert_int_equal(one.shares, 1);
    assert_int_equal(one.shared, 8);
    assert_int_equal(strlen(one.name), AQI_CONTROL_NAME);
    message = calls_piece(AQI_CALL_SHARE, 2, 0, 0); /* without a name */
    calls_expect(0, &message, AQ_OK);
    calls_expect(1, &message, AQ_OK);
    assert_int_equal(one.shares, 2);
    assert_string_equal(one.name, "");
    aqi_hub_close(one.hub);
}

/* Once a call has failed, so do later ones, one answer each. */
static void calls_after_a_failed_one(void **state)
{
    calls_open(2);
    struct aqi_control message = calls_piece(AQI_CALL_ALLGATHER, 1, 0, 8);
    calls_expect(0, &message, AQ_OK);
    message.bytes = 9; /* rank 1 calls with another size */
    calls_expect(1, &message, AQ_OK);
    message = calls_piece(AQI_CALL_ALLGATHER, 1, 8, 1);
    message.bytes = 9;
    (void)aqi_hub_from_rank(one.hub, 1, &message);
    assert_int_equal(one.results, 0);
    unsigned failures = one.failures;
    assert_true(failures >= 1);
    calls_expect_piece(0, AQI_CALL_ALLGATHER, 2, 0, 5, AQ_OK);
    assert_int_equal(one.failures, failures + 1);
    calls_expect_piece(0, AQI_CALL_ALLGATHER, 2, 5, 3, AQ_OK);
    assert_int_equal(one.failures, failures + 1);
    aqi_hub_close(one.hub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_in_pieces),         cmocka_unit_test(parts_have_a_maximum_size),
        cmocka_unit_test(calls_without_data),       cmocka_unit_test(names_of_shared_objects),
        cmocka_unit_test(calls_after_a_failed_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
