/*
 * Datagrams to and from a multicast group. Not a port: members have no addresses, and nothing is
 * answered. Any number of processes of a host may be in a group.
 */
#ifndef PORTS_MULTICAST_H
#define PORTS_MULTICAST_H

#include "dgram/ports/interface.h"

struct ports_multicast_params {
    const union aqi_sockaddr *group; /* with its port; the scope of an IPv6 address is ignored */
    const char *interface;           /* its name or address; NULL: the one that routes to it */
    size_t packet;                   /* as in aqi_port_params */
    size_t buffer;                   /* bytes of receive buffer to request */
    unsigned hops;                   /* routers that datagrams may pass, plus 1 */
    bool sends, receives;
};

struct ports_multicast {
    union aqi_sockaddr group;
    struct ports_interface interface;
    size_t packet;                /* bytes of the largest datagram */
    char text[AQI_SOCKADDR_TEXT]; /* the group, for users */
    int out, in;                  /* -1: it does not send, or receive */
};

/*
 * Both descriptors of `multicast` are valid or -1 even on failure: close it.
 *
 * @return AQ_EINVAL  The address is not that of a group, or has no port; the interface does not
 *                    exist or does not carry multicast.
 * @return AQ_ESTATE  Another program has the port, and does not share it.
 */
aq_status ports_multicast_open(struct ports_multicast *multicast,
                               const struct ports_multicast_params *params);
void ports_multicast_close(struct ports_multicast *multicast);

/*
 * Send one datagram. AQ_OK even if it is lost on this host for lack of room. Any thread, several at
 * once.
 *
 * @return AQ_AGAIN  There is no room yet.
 * @return AQ_ESYS, AQ_EACCESS  It could not be sent.
 */
aq_status ports_multicast_send(const struct ports_multicast *multicast, const struct iovec *iov,
                               unsigned niov);
/* Receive the next datagram, up to `size` bytes of it, and its length in `*len`. AQ_AGAIN: there is
 * none. AQ_ESYS: there will be none, as the program has closed the socket; logged only once. */
aq_status ports_multicast_receive(const struct ports_multicast *multicast, void *buf, size_t size,
                                  size_t *len);

/* Datagrams that arrived and found no room. */
uint64_t ports_multicast_drops(const struct ports_multicast *multicast);

bool ports_multicast_is_group(const union aqi_sockaddr *at);

#endif
