/*
 * The datagrams of groups on the wire, and detection of repeated ones: a head, a message as in
 * am.h, and a MAC of both.
 */
#ifndef UDP_GROUP_WIRE_H
#define UDP_GROUP_WIRE_H

#include "base/inet.h"
#include "transport/udp/udp_call.h"

struct udp_group_head {
    uint64_t magic;
    uint8_t version, messages; /* of the formats "group" and "messages" */
    uint8_t unused[6];
    uint64_t sender; /* random */
    uint64_t number; /* of the sender's datagrams, from 1 on */
};
static_assert(sizeof(struct udp_group_head) == 32, "no padding, and the message is aligned");

enum udp_group_kind {
    UDP_GROUP_GOOD,
    UDP_GROUP_OTHER,   /* from a member that uses other versions */
    UDP_GROUP_STRANGER /* its sender does not know the secret, or it was altered */
};

/* Bytes of a datagram besides the message. */
#define UDP_GROUP_COST (sizeof(struct udp_group_head) + AQI_MAC_BYTES)

/* Get the address and port of a group, from which its key is derived, for udp_secret_derive. */
void udp_group_names(const union aqi_sockaddr *group, uint8_t address[UDP_CALL_BYTES],
                     uint8_t port[UDP_CALL_BYTES]);

/* Fill in the first fields of the head in iov[0], and compute the MAC of all pieces. */
void udp_group_seal(struct aqi_mac *mac, const uint8_t key[AQI_MAC_BYTES], const struct iovec *iov,
                    unsigned niov, uint8_t tag[AQI_MAC_BYTES]);
/* Check a datagram, trusting nothing; a stranger's leaves `head` unchanged. The message follows the
 * head. */
enum udp_group_kind udp_group_read(struct aqi_mac *mac, const uint8_t key[AQI_MAC_BYTES],
                                   const void *bytes, size_t len, struct udp_group_head *head);
/* Which version differs, as aqi_wire_differs. */
void udp_group_differs(const struct udp_group_head *head, char *why, size_t room);

/* The most recent senders, and the latest numbers of each. */
enum { UDP_GROUP_SENDERS = 64, UDP_GROUP_WINDOW = 64 };
struct udp_group_seen {
    uint64_t time; /* in datagrams */
    struct {
        uint64_t sender, heard;
        uint64_t highest; /* 0: an unused place */
        uint64_t bits;    /* bit b: highest - b has arrived */
    } place[UDP_GROUP_SENDERS];
};
/* Whether it arrives for the first time. If late by the window or more, it counts as repeated. */
bool udp_group_is_new(struct udp_group_seen *seen, uint64_t sender, uint64_t number);

#endif
