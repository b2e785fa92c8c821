/*
 * Any bytes as a datagram of a group, also with the right MAC; and any numbers from a few senders.
 */
#include "fuzz.h"
#include "transport/udp/udp_group_wire.h"

#include <string.h>

static const uint8_t key[AQI_MAC_BYTES] = {1};

static void check_datagram(struct aqi_mac *mac, const uint8_t *exact, size_t len)
{
    struct udp_group_head head, before;
    memset(&head, 0xa5, sizeof(head));
    before = head;
    if (udp_group_read(mac, key, exact, len, &head) == UDP_GROUP_STRANGER)
        fuzz_require(memcmp(&head, &before, sizeof(head)) == 0, "a refusal writes nothing");
    else
        fuzz_require(len >= UDP_GROUP_COST && memcmp(&head, exact, sizeof(head)) == 0,
                     "the head of an accepted datagram is unchanged");
}

/* Likewise if it is sealed, as a datagram of this version and then of a later one. */
static void check_sealed(struct aqi_mac *mac, uint8_t *bytes, size_t len)
{
    struct udp_group_head head;
    struct iovec all = {.iov_base = bytes, .iov_len = len - AQI_MAC_BYTES};
    if (len < UDP_GROUP_COST) return;
    udp_group_seal(mac, key, &all, 1, bytes + all.iov_len);
    fuzz_require(udp_group_read(mac, key, bytes, len, &head) == UDP_GROUP_GOOD,
                 "a sealed datagram is accepted");
    fuzz_require(udp_group_read(mac, key, bytes, len - 1, &head) == UDP_GROUP_STRANGER,
                 "one without its last byte is not");
    bytes[offsetof(struct udp_group_head, version)]++;
    fuzz_require(udp_group_read(mac, key, bytes, len, &head) == UDP_GROUP_STRANGER,
                 "nor is one with an altered version");
    aqi_mac_of(mac, key, &all, 1, bytes + all.iov_len);
    fuzz_require(udp_group_read(mac, key, bytes, len, &head) == UDP_GROUP_OTHER,
                 "a sealed one of another version is recognized");
}

/* Two bytes per datagram: the sender, and the distance of its number from the one before. */
static void check_numbers(const uint8_t *bytes, size_t len)
{
    enum { SENDERS = 8, NUMBERS = 4096 };
    static struct udp_group_seen seen;
    static bool arrived[SENDERS][NUMBERS];
    uint64_t last[SENDERS], highest[SENDERS] = {0};
    memset(&seen, 0, sizeof(seen));
    memset(arrived, 0, sizeof(arrived));
    for (unsigned s = 0; s < SENDERS; s++)
        last[s] = NUMBERS / 2;
    for (size_t i = 0; i + 2 <= len; i += 2) {
        unsigned s = bytes[i] % SENDERS;
        uint64_t number = (last[s] + bytes[i + 1] - 128) % NUMBERS;
        bool late = highest[s] >= number + UDP_GROUP_WINDOW;
        bool first = number != 0 && !late && !arrived[s][number];
        fuzz_require(udp_group_is_new(&seen, s, number) == first,
                     "a number is new if it has not arrived before and is not too late");
        arrived[s][number] = arrived[s][number] || first;
        if (first) highest[s] = aqi_max(highest[s], number);
        last[s] = number;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct aqi_mac *mac;
    if (mac == NULL && aqi_mac_open(AQI_MAC_HMAC, &mac) != AQ_OK) fuzz_missing();
    /* An exact copy, so that a sanitizer detects a read beyond it. */
    uint8_t *exact = malloc(len != 0 ? len : 1);
    if (exact == NULL) abort();
    if (len != 0) memcpy(exact, data, len);
    check_datagram(mac, exact, len);
    check_numbers(exact, len);
    check_sealed(mac, exact, len);
    free(exact);
    return 0;
}
