/* udp: the datagrams of groups on the wire, and detection of repeated ones. */
#include "transport/udp/udp_group_wire.h"

#include <string.h>

#define GROUP_MAGIC 0x31756f7267757141ull /* "Aqugrou1" */

void udp_group_names(const union aqi_sockaddr *group, uint8_t address[UDP_CALL_BYTES],
                     uint8_t port[UDP_CALL_BYTES])
{
    memset(address, 0, UDP_CALL_BYTES);
    memset(port, 0, UDP_CALL_BYTES);
    if (group->any.sa_family == AF_INET6) {
        memcpy(address, &group->v6.sin6_addr, sizeof(group->v6.sin6_addr));
        memcpy(port, &group->v6.sin6_port, sizeof(group->v6.sin6_port));
    } else {
        memcpy(address, &group->v4.sin_addr, sizeof(group->v4.sin_addr));
        memcpy(port, &group->v4.sin_port, sizeof(group->v4.sin_port));
    }
}

void udp_group_seal(struct aqi_mac *mac, const uint8_t key[AQI_MAC_BYTES], const struct iovec *iov,
                    unsigned niov, uint8_t tag[AQI_MAC_BYTES])
{
    struct udp_group_head *head = iov[0].iov_base;
    head->magic = GROUP_MAGIC;
    head->version = aqi_wire_version(AQI_WIRE_GROUP);
    head->messages = aqi_wire_version(AQI_WIRE_MESSAGES);
    memset(head->unused, 0, sizeof(head->unused));
    aqi_mac_of(mac, key, iov, niov, tag);
}

enum udp_group_kind udp_group_read(struct aqi_mac *mac, const uint8_t key[AQI_MAC_BYTES],
                                   const void *bytes, size_t len, struct udp_group_head *head)
{
    struct udp_group_head read;
    uint8_t tag[AQI_MAC_BYTES];
    if (len < UDP_GROUP_COST) return UDP_GROUP_STRANGER;
    memcpy(&read, bytes, sizeof(read));
    if (read.magic != GROUP_MAGIC) return UDP_GROUP_STRANGER;
    aqi_mac_bytes(mac, NULL, key, bytes, len - AQI_MAC_BYTES, tag);
    if (!aqi_mac_same(tag, (const uint8_t *)bytes + len - AQI_MAC_BYTES)) return UDP_GROUP_STRANGER;
    *head = read;
    return read.version == aqi_wire_version(AQI_WIRE_GROUP) &&
                   read.messages == aqi_wire_version(AQI_WIRE_MESSAGES)
               ? UDP_GROUP_GOOD
               : UDP_GROUP_OTHER;
}

void udp_group_differs(const struct udp_group_head *head, char *why, size_t room)
{
    bool group = head->version != aqi_wire_version(AQI_WIRE_GROUP);
    aqi_wire_differs(why, room, group ? AQI_WIRE_GROUP : AQI_WIRE_MESSAGES, "a sender",
                     group ? head->version : head->messages, "this process");
}

/* The sender's place or, if it has none, that of the sender silent for longest. */
static unsigned udp_group_place(const struct udp_group_seen *seen, uint64_t sender)
{
    unsigned oldest = 0;
    for (unsigned i = 0; i < UDP_GROUP_SENDERS; i++) {
        if (seen->place[i].highest != 0 && seen->place[i].sender == sender) return i;
        if (seen->place[i].heard < seen->place[oldest].heard) oldest = i;
    }
    return oldest;
}

bool udp_group_is_new(struct udp_group_seen *seen, uint64_t sender, uint64_t number)
{
    if (number == 0) return false;
    unsigned i = udp_group_place(seen, sender);
    uint64_t highest = seen->place[i].sender == sender ? seen->place[i].highest : 0;
    uint64_t bits = highest != 0 ? seen->place[i].bits : 0;
    if (number > highest) {
        uint64_t ahead = number - highest;
        bits = (ahead < UDP_GROUP_WINDOW ? bits << ahead : 0) | 1;
        highest = number;
    } else {
        uint64_t behind = highest - number;
        if (behind >= UDP_GROUP_WINDOW || (bits >> behind & 1) != 0) return false;
        bits |= UINT64_C(1) << behind;
    }
    seen->place[i].sender = sender;
    seen->place[i].highest = highest;
    seen->place[i].bits = bits;
    seen->place[i].heard = ++seen->time;
    return true;
}
