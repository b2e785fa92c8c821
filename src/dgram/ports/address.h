/*
 * The addresses that ports announce to each other: an IP address and the UDP ports of both
 * channels.
 */
#ifndef PORTS_ADDRESS_H
#define PORTS_ADDRESS_H

#include "base/inet.h"
#include "dgram/dgram.h"

/* Make an address with the port of one channel only, such as that of a received packet. */
void ports_address_seen(const union aqi_sockaddr *at, enum aqi_dgram_channel channel,
                        struct aqi_dgram_addr *addr);

/* Add the port, in network order, of the other channel. */
void ports_address_add(struct aqi_dgram_addr *addr, enum aqi_dgram_channel channel, in_port_t port);

/* Get the address at which a channel receives. Returns false if `addr` is malformed, or lacks that
 * port. `scope` is the interface for link-local addresses. */
bool ports_address_to(const struct aqi_dgram_addr *addr, enum aqi_dgram_channel channel,
                      uint32_t scope, union aqi_sockaddr *at);

/* An Ethernet address may follow an IPv4 address: 6 bytes, or NULL. */
void ports_address_add_ethernet(struct aqi_dgram_addr *addr, const uint8_t ethernet[6]);
const uint8_t *ports_address_ethernet(const struct aqi_dgram_addr *addr);

/* The same ports at another IP address of the same family. */
void ports_address_at(const struct aqi_dgram_addr *ports, const union aqi_sockaddr *ip,
                      struct aqi_dgram_addr *addr);

/* Whether both have the same IP address. */
bool ports_address_same_ip(const struct aqi_dgram_addr *a, const struct aqi_dgram_addr *b);

/* Its text, for users: "10.0.0.7:4021". */
void ports_address_text(const struct aqi_dgram_addr *addr, char *buf, size_t len);
/* Whether packets from `own` can reach `peer`: both channels, in the same family. */
bool ports_address_reaches(const struct aqi_dgram_addr *own, const struct aqi_dgram_addr *peer);

#endif
