/*
 * How a call reaches a listener over UDP: four packets of one size, so that no address receives
 * more than was sent from it, and the values computed from a secret that both sides may share.
 *
 *   KNOCK   the caller: a random number
 *   COOKIE  the listener: a number derived from the caller's, its address, and the time; nothing is
 *           kept
 *   CALL    the caller: the cookie, which shows that it receives at the address it claims
 *   TAKEN   the listener: the port of its end of the control channel, and a random number; or BUSY,
 *           there is no room: the same CALL is repeated later; or DENIED, the secrets differ
 *
 * Both then have the key of the control channel, on which a datagram engine takes over.
 *
 * A listener of another version answers a KNOCK by OTHER. In every version these two have the same
 * size, kind, fields up to `caller`, and `check`.
 */
#ifndef UDP_CALL_H
#define UDP_CALL_H

#include "base/mac.h"
#include "transport/transport.h"

#define UDP_CALL_BYTES 16 /* of random numbers, cookies and proofs */

enum udp_call_kind {
    UDP_CALL_KNOCK = 1,
    UDP_CALL_COOKIE,
    UDP_CALL_CALL,
    UDP_CALL_TAKEN,
    UDP_CALL_BUSY,
    UDP_CALL_DENIED,
    UDP_CALL_OTHER,
    UDP_CALL_KINDS
};

struct udp_call {
    uint64_t magic;
    uint8_t version, kind;
    uint16_t port;   /* TAKEN: the channel's port, in network order */
    uint8_t packets; /* version of the format "udp", which the channel uses */
    uint8_t unused[3];
    uint8_t caller[UDP_CALL_BYTES], listener[UDP_CALL_BYTES]; /* random numbers */
    uint8_t cookie[UDP_CALL_BYTES];
    uint8_t proof[UDP_CALL_BYTES]; /* CALL, TAKEN: proves that the sender knows the secret */
    uint8_t check[UDP_CALL_BYTES]; /* of all before: shows that it arrived unaltered */
};
static_assert(sizeof(struct udp_call) == 96, "no padding");

/* A key that both sides have: derived from the secret, or zeros if there is none. */
struct udp_secret {
    uint8_t key[AQI_MAC_BYTES];
    bool is_set;
};

/*
 * Read AQ_CONNECT_SECRET; a descriptor is read only once in a process, and then closed.
 *
 * @return AQ_ESETTING  It is neither "file:PATH" nor "fd:NUMBER", or there are too few bytes.
 * @return AQ_EACCESS   Other users may read the file.
 */
aq_status udp_secret_read(const char *setting, struct aqi_mac *mac, struct udp_secret *secret);

/* Derive a key from the secret, `what` (at most 16 characters), and two random numbers. */
void udp_secret_derive(struct aqi_mac *mac, const struct udp_secret *secret, const char *what,
                       const uint8_t caller[UDP_CALL_BYTES], const uint8_t listener[UDP_CALL_BYTES],
                       uint8_t key[AQI_MAC_BYTES]);

/* Fill in the fields that all kinds have. */
void udp_call_seal(struct aqi_mac *mac, const struct udp_secret *secret, enum udp_call_kind kind,
                   struct udp_call *call);
/* Returns false if it is of another version or protocol, or was altered on its way. */
bool udp_call_read(struct aqi_mac *mac, const void *bytes, size_t len, struct udp_call *call);
/* Whether it is a KNOCK or OTHER of another version: only the fields up to `caller` are set. */
bool udp_call_read_other(struct aqi_mac *mac, const void *bytes, size_t len, struct udp_call *call);
/* The first version in which it differs, as aqi_wire_differs; `them` is its sender. */
void udp_call_differs(const struct udp_call *call, const char *them, char *why, size_t room);
/* Whether the sender knows the same secret as we do, or neither side has one. */
bool udp_call_proved(struct aqi_mac *mac, const struct udp_secret *secret,
                     const struct udp_call *call);

enum { UDP_HOST_MAX = 253 }; /* bytes of a host's name (RFC 1035, 2.3.4, without the lengths) */

/*
 * "udp://HOST:PORT", "udp://[IPv6]:PORT"; without ":PORT" the port is "0", and without a host it is
 * "". Returns false if it is no such URI.
 */
struct udp_uri {
    char host[UDP_HOST_MAX + 1];
    char port[8];
};
bool udp_uri_read(const char *uri, struct udp_uri *out);
/* Find its addresses, to listen at or to call, which may take long; free them. Fails with
 * AQ_EINVAL. */
struct addrinfo;
aq_status udp_uri_resolve(const struct udp_uri *uri, bool listen, struct addrinfo **names);
/* Fail with AQ_EINVAL: it is not a URI of udp. */
aq_status udp_uri_bad(const char *uri);

enum { UDP_CALL_EACH = 64 }; /* calls of one address that may be kept, at least */
/* The most calls kept until their first message, each with a socket: more if callers must know a
 * secret, and at most a quarter of the descriptors. */
unsigned udp_call_most(bool secret);

#endif
