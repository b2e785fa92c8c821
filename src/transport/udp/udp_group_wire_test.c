/* Datagrams of groups: truncated, altered in each byte, of other keys and versions; and repeats. */
#include "transport/udp/udp_group_wire.h"

#include "transport/udp/udp_mac_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MESSAGE = 40, WHOLE = sizeof(struct udp_group_head) + MESSAGE + AQI_MAC_BYTES };

static const uint8_t key[AQI_MAC_BYTES] = {1}, other_key[AQI_MAC_BYTES] = {2};

/* Sealed in two pieces, as when it is sent. */
static void sample(unsigned char bytes[WHOLE])
{
    struct udp_group_head head = {.unused = {1}, .sender = 7, .number = 9};
    unsigned char message[MESSAGE] = "message";
    const struct iovec iov[] = {{&head, sizeof(head)}, {message, sizeof(message)}};
    udp_group_seal(mac, key, iov, 2, bytes + WHOLE - AQI_MAC_BYTES);
    memcpy(bytes, &head, sizeof(head));
    memcpy(bytes + sizeof(head), message, sizeof(message));
}

static void test_whole(void **state)
{
    unsigned char bytes[WHOLE + 1] = {0};
    struct udp_group_head head, untouched;
    sample(bytes);
    memset(&head, 0xa5, sizeof(head));
    untouched = head;
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        unsigned char *exact = malloc(len + (len == 0));
        assert_non_null(exact);
        memcpy(exact, bytes, len);
        enum udp_group_kind kind = udp_group_read(mac, key, exact, len, &head);
        assert_int_equal(kind, len == WHOLE ? UDP_GROUP_GOOD : UDP_GROUP_STRANGER);
        if (len == WHOLE) {
            assert_int_equal(head.sender, 7);
            assert_int_equal(head.number, 9);
            assert_memory_equal(head.unused, &(uint8_t[sizeof(head.unused)]){0},
                                sizeof(head.unused));
        } else {
            assert_memory_equal(&head, &untouched, sizeof(head));
        }
        head = untouched;
        free(exact);
    }
}

static void test_altered(void **state)
{
    unsigned char bytes[WHOLE];
    struct udp_group_head head;
    sample(bytes);
    for (size_t i = 0; i < WHOLE; i++) {
        bytes[i] ^= 0x10;
        assert_int_equal(udp_group_read(mac, key, bytes, WHOLE, &head), UDP_GROUP_STRANGER);
        bytes[i] ^= 0x10;
    }
    assert_int_equal(udp_group_read(mac, other_key, bytes, WHOLE, &head), UDP_GROUP_STRANGER);
    assert_int_equal(udp_group_read(mac, key, bytes, WHOLE, &head), UDP_GROUP_GOOD);
}

/* A member of another version is recognized, but not a stranger that claims to be one. */
static void test_versions(void **state)
{
    unsigned char bytes[WHOLE];
    struct udp_group_head head;
    char why[200];
    for (unsigned i = 0; i < 2; i++) {
        const size_t at = i == 0 ? offsetof(struct udp_group_head, version)
                                 : offsetof(struct udp_group_head, messages);
        struct iovec all = {bytes, WHOLE - AQI_MAC_BYTES};
        sample(bytes);
        bytes[at]++;
        assert_int_equal(udp_group_read(mac, key, bytes, WHOLE, &head), UDP_GROUP_STRANGER);
        aqi_mac_of(mac, key, &all, 1, bytes + all.iov_len);
        assert_int_equal(udp_group_read(mac, key, bytes, WHOLE, &head), UDP_GROUP_OTHER);
        udp_group_differs(&head, why, sizeof(why));
        assert_non_null(strstr(why, i == 0 ? "\"group\"" : "\"messages\""));
        bytes[offsetof(struct udp_group_head, magic)]++;
        aqi_mac_of(mac, key, &all, 1, bytes + all.iov_len);
        assert_int_equal(udp_group_read(mac, key, bytes, WHOLE, &head), UDP_GROUP_STRANGER);
    }
}

/* Each group has its own key, although all share one secret. */
static void test_names(void **state)
{
    const union aqi_sockaddr groups[] = {
        {.v4 = {.sin_family = AF_INET, .sin_port = 1, .sin_addr.s_addr = 1}},
        {.v4 = {.sin_family = AF_INET, .sin_port = 2, .sin_addr.s_addr = 1}},
        {.v4 = {.sin_family = AF_INET, .sin_port = 1, .sin_addr.s_addr = 2}},
        {.v6 = {.sin6_family = AF_INET6, .sin6_port = 1, .sin6_addr.s6_addr = {[15] = 1}}},
        {.v6 = {.sin6_family = AF_INET6, .sin6_port = 1, .sin6_addr.s6_addr = {[15] = 2}}}};
    uint8_t names[AQI_COUNT_OF(groups)][2 * UDP_CALL_BYTES];
    const uint8_t first[sizeof(names[0])] = {[0] = 1, [UDP_CALL_BYTES] = 1};
    for (size_t i = 0; i < AQI_COUNT_OF(groups); i++) {
        memset(names[i], 0xa5, sizeof(names[i]));
        udp_group_names(&groups[i], names[i], names[i] + UDP_CALL_BYTES);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(names[i], names[j], sizeof(names[i]));
    }
    assert_memory_equal(names[0], first, sizeof(first));
}

static void test_repeats(void **state)
{
    static struct udp_group_seen seen;
    assert_false(udp_group_is_new(&seen, 1, 0));
    assert_true(udp_group_is_new(&seen, 1, 1));
    assert_false(udp_group_is_new(&seen, 1, 1));
    assert_true(udp_group_is_new(&seen, 0, 1)); /* another sender */
    assert_true(udp_group_is_new(&seen, 1, UDP_GROUP_WINDOW));
    for (uint64_t number = 2; number < UDP_GROUP_WINDOW; number++) {
        assert_true(udp_group_is_new(&seen, 1, number));
        assert_false(udp_group_is_new(&seen, 1, number));
    }
    assert_false(udp_group_is_new(&seen, 1, 1));
    assert_true(udp_group_is_new(&seen, 1, UDP_GROUP_WINDOW + 2));
    assert_true(udp_group_is_new(&seen, 1, UDP_GROUP_WINDOW + 1));
    assert_false(udp_group_is_new(&seen, 1, 2)); /* too late to tell */
    assert_true(udp_group_is_new(&seen, 2, 1));
    assert_true(udp_group_is_new(&seen, 2, 2));
    assert_true(udp_group_is_new(&seen, 2, 2 + UDP_GROUP_WINDOW)); /* the latest ones are missing */
    assert_true(udp_group_is_new(&seen, 2, 1 + UDP_GROUP_WINDOW));
    assert_true(udp_group_is_new(&seen, 1, UINT64_MAX));
    assert_false(udp_group_is_new(&seen, 1, UINT64_MAX));
    assert_true(udp_group_is_new(&seen, 1, UINT64_MAX - UDP_GROUP_WINDOW + 1));
    assert_false(udp_group_is_new(&seen, 1, UINT64_MAX - UDP_GROUP_WINDOW));
    assert_false(udp_group_is_new(&seen, 1, UDP_GROUP_WINDOW + 2));
}

/* Only the sender that was silent for longest is forgotten. */
static void test_many_senders(void **state)
{
    static struct udp_group_seen seen;
    for (uint64_t sender = 0; sender < UDP_GROUP_SENDERS; sender++)
        assert_true(udp_group_is_new(&seen, sender, 1));
    assert_true(udp_group_is_new(&seen, 0, 2));
    assert_true(udp_group_is_new(&seen, UDP_GROUP_SENDERS, 1));
    for (uint64_t sender = 0; sender <= UDP_GROUP_SENDERS; sender++)
        if (sender != 1) assert_false(udp_group_is_new(&seen, sender, 1));
    assert_true(udp_group_is_new(&seen, 1, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),    cmocka_unit_test(test_altered),
        cmocka_unit_test(test_versions), cmocka_unit_test(test_names),
        cmocka_unit_test(test_repeats),  cmocka_unit_test(test_many_senders)};
    if (mac_is_missing()) return 77;
    return cmocka_run_group_tests_name("transport/udp/udp_group_wire", tests, test_open,
                                       test_close);
}
