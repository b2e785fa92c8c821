/* Messages of connections: encoded and decoded, cut at every byte, with invalid fields. */
#include "transport/hello.h"

#include "base/cmocka_test.h"

#include <stdlib.h>
#include <string.h>

static unsigned char buf[AQI_HELLO_MAX + 1];

static struct aqi_hello sample(void)
{
    struct aqi_hello hello = {.type = AQI_HELLO_CALL,
                              .objects = 2,
                              .memory = 1,
                              .messages = 7,
                              .transport = 9,
                              .code = 0x01020304,
                              .max_medium = 8192,
                              .segment_addr = 0x7f0012345000,
                              .segment_size = 65536,
                              .segment_offset = 4096,
                              .addr = "address with \0 inside",
                              .addr_len = 21,
                              .key = "\0key",
                              .key_len = 4,
                              .data = "hello",
                              .nbytes = 5};
    return hello;
}

static void test_there_and_back(void **state)
{
    struct aqi_hello hello = sample(), again;
    for (uint8_t type = 1; type < AQI_HELLO_END; type++) {
        hello.type = type;
        hello.status = type == AQI_HELLO_REFUSE ? -12 : 0;
        size_t len = aqi_hello_encode(&hello, buf);
        assert_int_equal(len, AQI_HELLO_HEADER + 21 + 4 + 5);
        assert_int_equal(aqi_hello_decode(buf, len, &again), AQ_OK);
        assert_int_equal(again.type, type);
        assert_int_equal(again.status, hello.status);
        assert_int_equal(again.code, 0x01020304);
        assert_int_equal(again.max_medium, 8192);
        assert_int_equal(again.objects + again.memory, 3);
        assert_int_equal(again.messages * 10 + again.transport, 79);
        assert_int_equal(again.version, aqi_wire_version(AQI_WIRE_CONNECTION));
        assert_int_equal(again.segment_addr, hello.segment_addr);
        assert_int_equal(again.segment_size, hello.segment_size);
        assert_int_equal(again.segment_offset, hello.segment_offset);
        assert_int_equal(again.addr_len, 21);
        assert_memory_equal(again.addr, hello.addr, 21);
        assert_int_equal(again.key_len, 4);
        assert_memory_equal(again.key, hello.key, 4);
        assert_int_equal(again.nbytes, 5);
        assert_memory_equal(again.data, "hello", 5);
    }
}

static void test_largest(void **state)
{
    struct aqi_hello hello = sample(), again;
    void *data = calloc(1, AQI_HELLO_DATA_MAX);
    assert_non_null(data);
    hello.addr = hello.key = hello.data = data;
    hello.addr_len = AQI_ADDR_MAX;
    hello.key_len = AQI_KEY_MAX;
    hello.nbytes = AQI_HELLO_DATA_MAX;
    size_t len = aqi_hello_encode(&hello, buf);
    assert_int_equal(len, AQI_HELLO_MAX);
    assert_int_equal(aqi_hello_decode(buf, len, &again), AQ_OK);
    free(data);
}

/* A message with any byte missing is rejected, and so is one with an extra byte. */
static void test_cut(void **state)
{
    struct aqi_hello hello = sample(), again;
    size_t len = aqi_hello_encode(&hello, buf);
    for (size_t cut = 0; cut < len; cut++)
        assert_int_equal(aqi_hello_decode(buf, cut, &again), AQ_EPROTO);
    assert_int_equal(aqi_hello_decode(buf, len + 1, &again), AQ_EPROTO);
}

static void test_other_version(void **state)
{
    struct aqi_hello hello = sample(), again;
    size_t len = aqi_hello_encode(&hello, buf);
    buf[8]++;
    /* Whatever follows the version, and however much. */
    for (size_t cut = 10; cut <= len; cut++) {
        memset(&again, 0, sizeof(again));
        assert_int_equal(aqi_hello_decode(buf, cut, &again), AQ_EMISMATCH);
        assert_int_equal(again.version, aqi_wire_version(AQI_WIRE_CONNECTION) + 1);
    }
    assert_int_equal(aqi_hello_decode(buf, 9, &again), AQ_EPROTO);
    buf[0]++; /* not one of ours */
    assert_int_equal(aqi_hello_decode(buf, len, &again), AQ_EPROTO);
}

static aq_status decoded(const struct aqi_hello *hello)
{
    struct aqi_hello again;
    return aqi_hello_decode(buf, aqi_hello_encode(hello, buf), &again);
}

static void test_invalid_fields(void **state)
{
    struct aqi_hello hello;
#define REFUSED(change)                                                                            \
    hello = sample();                                                                              \
    change;                                                                                        \
    assert_int_equal(decoded(&hello), AQ_EPROTO)
    REFUSED(hello.type = 0);
    REFUSED(hello.type = AQI_HELLO_END);
    REFUSED(hello.objects = AQI_RENDEZVOUS_FDS + 1);
    REFUSED(hello.memory = 2);
    REFUSED(hello.traits = AQI_HELLO_TRAITS + 1);
    REFUSED(hello.traits = AQI_HELLO_ORDERED | AQI_HELLO_UNRELIABLE);
    REFUSED(hello.traits = AQI_HELLO_NUMBERED);
    REFUSED(hello.traits = AQI_HELLO_NUMBERED | AQI_HELLO_UNRELIABLE);
    REFUSED(hello.type = AQI_HELLO_ACCEPT; hello.traits = AQI_HELLO_ORDERED);
    REFUSED(hello.max_medium = 0);
    REFUSED(hello.max_medium = 448);
    REFUSED(hello.max_medium = (1u << 20) + 64);
    REFUSED(hello.segment_size = 0);
    REFUSED(hello.segment_addr = UINT64_MAX - 65534);
    REFUSED(hello.segment_offset = UINT64_MAX - 65534);
    REFUSED(hello.status = -1);
    REFUSED(hello.status = 1);
    REFUSED(hello.type = AQI_HELLO_REFUSE);
    static const char bytes[AQI_KEY_MAX + 1];
    REFUSED(hello.addr = bytes; hello.addr_len = AQI_ADDR_MAX + 1);
    REFUSED(hello.key = bytes; hello.key_len = AQI_KEY_MAX + 1);
    REFUSED(hello.type = AQI_HELLO_ACCEPT; hello.max_medium = 0);
#undef REFUSED
}

/* Values just within bounds. */
static void test_bounds(void **state)
{
    struct aqi_hello hello, again;
#define TAKEN(change)                                                                              \
    hello = sample();                                                                              \
    change;                                                                                        \
    assert_int_equal(decoded(&hello), AQ_OK)
    TAKEN(hello.objects = AQI_RENDEZVOUS_FDS);
    TAKEN(hello.max_medium = 512);
    TAKEN(hello.max_medium = 1u << 20);
    TAKEN(hello.segment_addr = UINT64_MAX - hello.segment_size);
    TAKEN(hello.segment_offset = UINT64_MAX - hello.segment_size);
    TAKEN(hello.memory = 0; hello.segment_size = 0);
    TAKEN(hello.type = AQI_HELLO_BYE; hello.max_medium = 0);
    TAKEN(hello.addr_len = hello.key_len = hello.nbytes = 0);
    TAKEN(hello.addr_len = hello.key_len = hello.nbytes = 1);
#undef TAKEN
    size_t len = aqi_hello_encode(&hello, buf);
    assert_int_equal(aqi_hello_decode(buf, len, &again), AQ_OK);
    assert_memory_equal(again.addr, hello.addr, 1);
    assert_memory_equal(again.data, "h", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_other_version),
        cmocka_unit_test(test_invalid_fields),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
