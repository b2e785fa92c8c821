/* Tests message.c: each kind encoded and decoded, and what a kind must not contain. */
#include "reg/message.h"

#include "base/cmocka_test.h"
#include "reg/reg.h"

#include <string.h>

static const struct reg_wire legal[] = {
    {.kind = REG_ASK, .serials = 2, .tag = 3, .nbytes = 4, .serial = 1, .addr = 5, .len = 6},
    {.kind = REG_ANSWER, .status = -3, .quota = 7, .nbytes = 4, .serial = 1, .addr = 5, .len = 6},
    {.kind = REG_ANSWER, .quota = 7, .serial = UINT64_MAX}, /* a refusal */
    {.kind = REG_REVOKE, .serial = 9},
    {.kind = REG_DROP, .serials = REG_SERIALS_MAX},
    {.kind = REG_ASK, .nbytes = 1, .serial = 1, .addr = UINT64_MAX - 6, .len = 6}, /* at the end */
};

static const struct reg_wire illegal[] = {
    {.kind = REG_MESSAGE_NONE},
    {.kind = REG_MESSAGE_NONE, .serial = 1},
    {.kind = REG_MESSAGE_KINDS},
    {.kind = REG_MESSAGE_KINDS, .serial = 1},
    {.kind = UINT8_MAX, .serial = 1},
    {.kind = REG_ASK, .serial = 1, .addr = UINT64_MAX, .len = 1},
    {.kind = REG_ASK, .serial = 1, .addr = UINT64_MAX - 5, .len = 6},
    {.kind = REG_ASK, .serial = 0, .addr = 5, .len = 6},
    {.kind = REG_ASK, .serial = 1, .addr = 5},
    {.kind = REG_ASK, .serial = 1, .addr = UINT64_MAX, .len = 6},
    {.kind = REG_ASK, .serial = 1, .addr = 5, .len = 6, .quota = 1},
    {.kind = REG_ASK, .serial = 1, .addr = 5, .len = 6, .status = 1},
    {.kind = REG_ANSWER, .serial = 1, .addr = 5, .len = 6}, /* no key */
    {.kind = REG_ANSWER, .serial = 1, .nbytes = 4},         /* no range */
    {.kind = REG_ANSWER, .serial = 1, .serials = 1},
    {.kind = REG_REVOKE, .serial = 1, .tag = 1},
    {.kind = REG_REVOKE, .serial = 1, .addr = 1},
    {.kind = REG_DROP},
    {.kind = REG_DROP, .serials = 1, .nbytes = 4},
};

static size_t encode(struct reg_wire wire, unsigned char *frame)
{
    struct reg_message message = {.wire = wire, .bytes = "data"};
    for (unsigned i = 0; i < wire.serials; i++)
        message.serials[i] = 100 + i;
    return reg_message_encode(&message, frame);
}

static void legal_messages_come_back(void **unused)
{
    unsigned char frame[AQI_REG_MESSAGE_MAX + 1];
    for (size_t i = 0; i < AQI_COUNT_OF(legal); i++) {
        struct reg_message message;
        size_t len = encode(legal[i], frame);
        assert_int_equal(reg_message_decode(frame, len, &message), AQ_OK);
        struct reg_wire wire = legal[i];
        wire.version = aqi_wire_version(AQI_WIRE_LENDING);
        assert_memory_equal(&message.wire, &wire, sizeof(wire));
        for (unsigned k = 0; k < wire.serials; k++)
            assert_int_equal(message.serials[k], 100 + k);
        assert_memory_equal(message.bytes, "data", wire.nbytes);
        for (size_t cut = 0; cut < len; cut++)
            assert_int_equal(reg_message_decode(frame, cut, &message), AQ_EPROTO);
        assert_int_equal(reg_message_decode(frame, len + 1, &message), AQ_EPROTO);
        frame[1]++;
        assert_int_equal(reg_message_decode(frame, len, &message), AQ_EPROTO);
    }
}

static void illegal_ones_are_refused(void **unused)
{
    unsigned char frame[AQI_REG_MESSAGE_MAX];
    for (size_t i = 0; i < AQI_COUNT_OF(illegal); i++) {
        struct reg_message message, before;
        memset(&message, 0x5a, sizeof(message));
        before = message;
        assert_int_equal(reg_message_decode(frame, encode(illegal[i], frame), &message), AQ_EPROTO);
        assert_memory_equal(&message, &before, sizeof(before));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legal_messages_come_back),
        cmocka_unit_test(illegal_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
