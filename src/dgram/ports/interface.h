/* The network interface that a port uses, and what fits into its packets. */
#ifndef PORTS_INTERFACE_H
#define PORTS_INTERFACE_H

#include "dgram/ports/address.h"

#include <ifaddrs.h>
#include <net/if.h>

struct ports_interface {
    char name[IF_NAMESIZE];
    uint32_t index;
    unsigned flags;             /* IFF_ flags */
    union aqi_sockaddr address; /* the port is 0 */
    size_t mtu;
    size_t mtu_towards; /* that for packets to `towards`: loopback's, if that is this host */
};

/*
 * Find the interface of the name or address `wanted`; without one, that which routes to `towards`;
 * without either, the best that leads anywhere: up, and neither loopback nor a bridge for
 * containers; else loopback. If `towards` is this host, it is the interface with that address.
 *
 * @return AQ_EINVAL   There is no such interface or host, or it is down, or has no address.
 * @return AQ_ENOTSUP  No interface is up.
 */
aq_status ports_interface_find(const char *wanted, const char *towards,
                               struct ports_interface *found);

/* Addresses of other interfaces that may lead to other hosts, of the family of `first`, the best
 * first. Returns their number, at most `most`. */
unsigned ports_interface_others(const struct ports_interface *first, union aqi_sockaddr *others,
                                unsigned most);

/*
 * Whether only loopback can be used so far, although an interface that may lead to other hosts is
 * up and has a carrier: the kernel marks it as running a little later, and may add addresses even
 * later. Then `name` is that of the interface.
 */
bool ports_interface_is_coming(char name[IF_NAMESIZE]);

/* Whether the kernel has a route to `to` now. `*source`: our address in packets to it. */
bool ports_interface_route(const struct aqi_dgram_addr *to, union aqi_sockaddr *source);

/* The name of the interface with this address, whatever the port; "" if there is none. */
void ports_interface_named(const union aqi_sockaddr *address, char name[IF_NAMESIZE]);

enum ports_interface_state {
    PORTS_INTERFACE_UP,
    PORTS_INTERFACE_NO_CARRIER, /* up, but without a carrier */
    PORTS_INTERFACE_DOWN,
    PORTS_INTERFACE_GONE /* none has the address */
};

/*
 * The state of the interface in the list that has this address; for 0.0.0.0 or [::], of the best
 * one except loopback. `name` is set to its name; on entry it is the previous one, or "".
 */
enum ports_interface_state ports_interface_state(const struct ifaddrs *all,
                                                 const union aqi_sockaddr *address,
                                                 char name[IF_NAMESIZE]);

/* While loopback is down, no packets pass between processes of this host. */
bool ports_interface_loopback_is_down(void);

/*
 * Bytes of the largest datagram: what `mtu` leaves after the headers of IP and UDP, at most
 * `wanted` (0: the best size), rounded down to a multiple of 16.
 *
 * @return AQ_EINVAL  That is less than AQI_DGRAM_LEAST_PACKET.
 */
aq_status ports_interface_packet(const struct ports_interface *interface, size_t wanted,
                                 size_t *packet);

#endif
