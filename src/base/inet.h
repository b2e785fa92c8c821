/* Addresses of the Internet protocols, and which of a host's may be told to others. */
#ifndef AQI_INET_H
#define AQI_INET_H

#include "base/base.h"

#include <netdb.h>
#include <netinet/in.h>

union aqi_sockaddr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static inline socklen_t aqi_sockaddr_len(const union aqi_sockaddr *at)
{
    return at->any.sa_family == AF_INET6 ? sizeof(at->v6) : sizeof(at->v4);
}

static inline in_port_t *aqi_sockaddr_port(union aqi_sockaddr *at)
{
    return at->any.sa_family == AF_INET6 ? &at->v6.sin6_port : &at->v4.sin_port;
}

/* "10.0.0.7:4000", "[fd00::7]:4000" or "[fe80::7%eth0]:4000"; no names. False: it is none. */
bool aqi_sockaddr_read(const char *text, union aqi_sockaddr *at);
/* The same back, where an IPv4 address that IPv6 carries is one of IPv4. */
#define AQI_SOCKADDR_TEXT 80u
const char *aqi_sockaddr_text(const union aqi_sockaddr *at, char text[AQI_SOCKADDR_TEXT]);

/* getaddrinfo, to which "localhost" is the loopback addresses, whatever /etc/hosts says: a small
 * system may have none. An error is one of EAI_…; freeaddrinfo frees the list. */
int aqi_inet_resolve(const char *host, const char *port, const struct addrinfo *hints,
                     struct addrinfo **list);

/* How willingly an interface is taken by itself. */
enum aqi_interface_rank {
    AQI_INTERFACE_NEVER, /* it is down, or leads to no other host */
    AQI_INTERFACE_LOOPBACK,
    AQI_INTERFACE_VIRTUAL,
    AQI_INTERFACE_REAL
};
enum aqi_interface_rank aqi_interface_rank(const char *name, unsigned flags);

/* An address that others can be told of: 2 for IPv4, 1 for IPv6, 0 for none. */
unsigned aqi_sockaddr_rank(const struct sockaddr *at);

#endif
