/* Tests control.c: only encoded messages can be decoded. */
#include "job/control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t packet(const struct aqi_control *message, uint8_t *buf)
{
    size_t head = aqi_control_encode(message, buf);
    assert_true(head != 0);
    if (message->len != 0) memcpy(buf + head, message->data, message->len);
    return head + message->len;
}

/* A message of each type with a different value in each of its fields. */
static struct aqi_control sample(uint16_t type)
{
    static const char text[] = "why";
    struct aqi_control message = {.type = type};
    switch (type) {
    case AQI_CONTROL_JOB:
        message.rank = 3;
        message.size = 5000;
        message.host = 1;
        message.hosts = 2;
        message.local_rank = 4;
        message.local_size = 5;
        for (uint8_t i = 0; i < AQI_JOB_KEY_BYTES; i++)
            message.key[i] = (uint8_t)(200 + i);
        return message;
    case AQI_CONTROL_REFUSE:
        message.status = AQ_ESTATE;
        break;
    case AQI_CONTROL_CALL:
        message.seq = 0x01020304;
        message.call = AQI_CALL_SHARE;
        message.bytes = 1ull << 40;
        message.offset = 5;
        break;
    case AQI_CONTROL_RESULT:
        message.seq = 9;
        message.bytes = 1ull << 33;
        break;
    case AQI_CONTROL_EVENT:
        message.event = AQI_BOOT_EXIT;
        message.rank = UINT32_MAX;
        message.code = -1;
        break;
    case AQI_CONTROL_EXIT:
        message.code = INT32_MIN;
        break;
    case AQI_CONTROL_SHOW:
        message.call = AQI_SHOW_COUNTERS;
        message.bytes = 0x0102030405060708;
        return message;
    case AQI_CONTROL_ENDING:
        message.code = 3;
        message.wait = 1ull << 40;
        return message;
    case AQI_CONTROL_AGREE:
    case AQI_CONTROL_AGREED:
        message.status = AQ_EPEER;
        message.name[0] = 1ull << 63;
        message.name[1] = 77;
        break;
    default:
        return message;
    }
    message.data = text;
    message.len = sizeof(text) - 1;
    return message;
}

static void assert_same(const struct aqi_control *a, const struct aqi_control *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->wait, b->wait);
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->host, b->host);
    assert_int_equal(a->hosts, b->hosts);
    assert_int_equal(a->local_rank, b->local_rank);
    assert_int_equal(a->local_size, b->local_size);
    assert_int_equal(a->seq, b->seq);
    assert_int_equal(a->call, b->call);
    assert_int_equal(a->event, b->event);
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->code, b->code);
    assert_true(a->bytes == b->bytes && a->offset == b->offset);
    assert_memory_equal(a->key, b->key, sizeof(a->key));
    assert_memory_equal(a->name, b->name, sizeof(a->name));
    assert_int_equal(a->len, b->len);
    if (a->len != 0) assert_memory_equal(a->data, b->data, a->len);
}

static void test_round_trip(void **state)
{
    for (uint16_t type = 1; type < AQI_CONTROL_TYPES; type++) {
        uint8_t buf[AQI_CONTROL_MAX];
        struct aqi_control in = sample(type), out;
        size_t len = packet(&in, buf);
        assert_int_equal(aqi_control_decode(buf, len, &out), AQ_OK);
        assert_int_equal(out.version, aqi_wire_version(AQI_WIRE_CONTROL));
        assert_same(&in, &out);
    }
}

static void test_bytes_are_pinned(void **state)
{
    uint8_t buf[AQI_CONTROL_MAX];
    struct aqi_control refuse = {
        .type = AQI_CONTROL_REFUSE, .status = AQ_ESTATE, .data = "no", .len = 2};
    static const uint8_t expected[] = {8, 0, 3, 0, 0xfa, 0xff, 0xff, 0xff, 'n', 'o'};
    assert_int_equal(packet(&refuse, buf), sizeof(expected));
    assert_memory_equal(buf, expected, sizeof(expected));
    struct aqi_control hello = {.type = AQI_CONTROL_HELLO};
    static const uint8_t hello_bytes[] = {8, 0, 1, 0};
    assert_int_equal(packet(&hello, buf), sizeof(hello_bytes));
    assert_memory_equal(buf, hello_bytes, sizeof(hello_bytes));
}

static void test_short_packets_are_rejected(void **state)
{
    for (uint16_t type = 1; type < AQI_CONTROL_TYPES; type++) {
        uint8_t buf[AQI_CONTROL_MAX];
        struct aqi_control in = sample(type), out;
        size_t head = packet(&in, buf) - in.len;
        for (size_t len = 0; len < head; len++) {
            /* In memory of exactly that size, so that the sanitizer detects a read beyond it. */
            uint8_t *exact = malloc(len + 1);
            memcpy(exact, buf, len);
            assert_int_equal(aqi_control_decode(exact, len, &out), AQ_EPROTO);
            free(exact);
        }
    }
}

/* The maximum data of each type, and not a byte more, in both directions. */
static void test_maximum_data(void **state)
{
    static const size_t most[AQI_CONTROL_TYPES] = {
        [AQI_CONTROL_REFUSE] = AQI_CONTROL_TEXT,  [AQI_CONTROL_CALL] = AQI_CONTROL_CHUNK,
        [AQI_CONTROL_RESULT] = AQI_CONTROL_CHUNK, [AQI_CONTROL_EVENT] = AQI_CONTROL_TEXT,
        [AQI_CONTROL_EXIT] = AQI_CONTROL_TEXT,    [AQI_CONTROL_AGREE] = AQI_CONTROL_SET,
        [AQI_CONTROL_AGREED] = AQI_CONTROL_SET};
    static uint8_t data[AQI_CONTROL_CHUNK + 1], buf[AQI_CONTROL_HEAD + sizeof(data)];
    struct aqi_control out;
    for (uint16_t type = 1; type < AQI_CONTROL_TYPES; type++) {
        struct aqi_control in = sample(type);
        in.data = data;
        in.len = most[type];
        size_t len = packet(&in, buf);
        assert_int_equal(aqi_control_decode(buf, len, &out), AQ_OK);
        assert_int_equal(out.len, most[type]);
        assert_int_equal(aqi_control_decode(buf, len + 1, &out), AQ_EPROTO);
        in.len++;
        assert_int_equal(aqi_control_encode(&in, buf), 0);
    }
}

static void test_types_that_do_not_exist(void **state)
{
    uint8_t buf[AQI_CONTROL_MAX] = {aqi_wire_version(AQI_WIRE_CONTROL)};
    struct aqi_control message = {.type = AQI_CONTROL_TYPES};
    assert_int_equal(aqi_control_encode(&message, buf), 0);
    message.type = 0;
    assert_int_equal(aqi_control_encode(&message, buf), 0);
    assert_int_equal(aqi_control_decode(buf, 60, &message), AQ_EPROTO);
    buf[2] = AQI_CONTROL_TYPES;
    for (size_t len = 4; len <= sizeof(buf); len++)
        assert_int_equal(aqi_control_decode(buf, len, &message), AQ_EPROTO);
}

static void test_values_out_of_range(void **state)
{
    uint8_t buf[AQI_CONTROL_MAX];
    struct aqi_control out;
    struct aqi_control bad[] = {
        sample(AQI_CONTROL_JOB),   sample(AQI_CONTROL_JOB),  sample(AQI_CONTROL_JOB),
        sample(AQI_CONTROL_JOB),   sample(AQI_CONTROL_CALL), sample(AQI_CONTROL_RESULT),
        sample(AQI_CONTROL_EVENT), sample(AQI_CONTROL_JOB),  sample(AQI_CONTROL_JOB),
        sample(AQI_CONTROL_JOB),   sample(AQI_CONTROL_SHOW)};
    bad[0].rank = bad[0].size;
    bad[1].size = AQI_MAX_RANKS + 1;
    bad[2].host = bad[2].hosts;
    bad[3].local_rank = bad[3].local_size;
    bad[4].call = AQI_CALLS;
    bad[5].bytes = bad[5].len - 1;
    bad[6].event = AQI_BOOT_ENDING + 1;
    bad[7].rank = bad[7].size = 0;
    bad[8].host = bad[8].hosts = 0;
    bad[9].local_size = bad[9].size + 1;
    bad[10].call = AQI_SHOWS;
    for (size_t i = 0; i < AQI_COUNT_OF(bad); i++)
        assert_int_equal(aqi_control_decode(buf, packet(&bad[i], buf), &out), AQ_EPROTO);
}

static void test_values_at_their_limits(void **state)
{
    uint8_t buf[AQI_CONTROL_MAX];
    struct aqi_control out,
        good[] = {sample(AQI_CONTROL_JOB),  sample(AQI_CONTROL_JOB),    sample(AQI_CONTROL_CALL),
                  sample(AQI_CONTROL_SHOW), sample(AQI_CONTROL_RESULT), sample(AQI_CONTROL_EVENT)};
    good[0].rank = good[0].host = good[0].local_rank = 0;
    good[0].size = good[0].hosts = good[0].local_size = 1;
    good[1].size = good[1].hosts = good[1].local_size = AQI_MAX_RANKS;
    good[1].rank = good[1].host = good[1].local_rank = AQI_MAX_RANKS - 1;
    good[2].call = AQI_CALLS - 1;
    good[3].call = AQI_SHOWS - 1;
    good[4].bytes = good[4].len;
    good[5].event = AQI_BOOT_ENDING;
    for (size_t i = 0; i < AQI_COUNT_OF(good); i++) {
        assert_int_equal(aqi_control_decode(buf, packet(&good[i], buf), &out), AQ_OK);
        assert_same(&good[i], &out);
    }
}

static void test_other_versions(void **state)
{
    uint8_t buf[AQI_CONTROL_MAX];
    struct aqi_control in = sample(AQI_CONTROL_CALL), out = {0};
    size_t len = packet(&in, buf);
    buf[0] = aqi_wire_version(AQI_WIRE_CONTROL) + 1;
    assert_int_equal(aqi_control_decode(buf, len, &out), AQ_EMISMATCH);
    assert_int_equal(out.version, aqi_wire_version(AQI_WIRE_CONTROL) + 1);
    assert_int_equal(out.type, AQI_CONTROL_CALL);
    /* A refusal must be understood whichever version sent it. */
    in = sample(AQI_CONTROL_REFUSE);
    len = packet(&in, buf);
    buf[0] = aqi_wire_version(AQI_WIRE_CONTROL) + 1;
    assert_int_equal(aqi_control_decode(buf, len, &out), AQ_OK);
    assert_same(&in, &out);
}

static void test_texts_are_made_printable(void **state)
{
    char text[AQI_CONTROL_TEXT + 1];
    static const unsigned char data[AQI_CONTROL_TEXT + 1] = "a\nb\033c\0d \177\200~";
    struct aqi_control message = {.data = data, .len = 11};
    aqi_control_text(&message, text);
    assert_string_equal(text, "a?b?c?d ?\200~");
    message.len = sizeof(data);
    aqi_control_text(&message, text);
    assert_int_equal(strlen(text), AQI_CONTROL_TEXT);
    message.len = 0;
    aqi_control_text(&message, text);
    assert_string_equal(text, "");
}

/* Random bytes, mostly with a plausible start: any that are accepted must encode to the same
 * bytes. */
static void test_random_bytes(void **state)
{
    unsigned seed = (unsigned)(getenv("TEST_SEED") != NULL ? atoi(getenv("TEST_SEED")) : 1);
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 200000; round++) {
        uint8_t buf[128], again[AQI_CONTROL_MAX];
        size_t len = (size_t)rand() % sizeof(buf);
        for (size_t i = 0; i < len; i++)
            buf[i] = rand() % 3 == 0 ? (uint8_t)rand() : 0;
        if (len > 2 && rand() % 8 != 0) {
            buf[0] = aqi_wire_version(AQI_WIRE_CONTROL);
            buf[1] = buf[3 % len] = 0;
            buf[2] = (uint8_t)(rand() % (AQI_CONTROL_TYPES + 1));
        }
        struct aqi_control message;
        if (aqi_control_decode(buf, len, &message) != AQ_OK) continue;
        if (message.version != aqi_wire_version(AQI_WIRE_CONTROL)) continue;
        assert_int_equal(packet(&message, again), len);
        assert_memory_equal(buf, again, len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_bytes_are_pinned),
        cmocka_unit_test(test_short_packets_are_rejected),
        cmocka_unit_test(test_maximum_data),
        cmocka_unit_test(test_types_that_do_not_exist),
        cmocka_unit_test(test_values_out_of_range),
        cmocka_unit_test(test_values_at_their_limits),
        cmocka_unit_test(test_other_versions),
        cmocka_unit_test(test_texts_are_made_printable),
        cmocka_unit_test(test_random_bytes),
    };
    return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
