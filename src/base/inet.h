/* IP addresses, and which addresses of a host to advertise. */
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

/*
 * Parse "10.0.0.7:4000", "[fd00::7]:4000" or "[fe80::7%eth0]:4000"; names are not resolved. Returns
 * false if it is malformed.
 */
bool aqi_sockaddr_read(const char *text, union aqi_sockaddr *at);
/* Likewise, without brackets and port. */
bool aqi_sockaddr_read_ip(const char *text, union aqi_sockaddr *at);
/* Whether it is 0.0.0.0 or [::]. */
bool aqi_sockaddr_is_any(const union aqi_sockaddr *at);
/* Whether both are the same IP address; ports are ignored. False if `a` is NULL. */
bool aqi_sockaddr_same_ip(const struct sockaddr *a, const struct sockaddr *b);
/* The reverse of aqi_sockaddr_read; an IPv4-mapped IPv6 address becomes an IPv4 one. */
#define AQI_SOCKADDR_TEXT 80u
const char *aqi_sockaddr_text(const union aqi_sockaddr *at, char text[AQI_SOCKADDR_TEXT]);
/* Likewise without brackets, scope and port; "" if it is no IP address. */
const char *aqi_sockaddr_ip_text(const struct sockaddr *at, char text[INET6_ADDRSTRLEN]);

/*
 * getaddrinfo, except that "localhost" is always the loopback addresses, even without /etc/hosts,
 * as on small systems. Returns an EAI_… error; free the list with freeaddrinfo.
 */
int aqi_inet_resolve(const char *host, const char *port, const struct addrinfo *hints,
                     struct addrinfo **list);

/* The preference for an interface when choosing automatically. */
enum aqi_interface_rank {
    AQI_INTERFACE_NEVER, /* down, or does not reach other hosts */
    AQI_INTERFACE_LOOPBACK,
    AQI_INTERFACE_VIRTUAL,
    AQI_INTERFACE_REAL
};
enum aqi_interface_rank aqi_interface_rank(const char *name, unsigned flags);

/* Preference for advertising an address to other hosts: IPv4 2, IPv6 1, unusable 0. */
unsigned aqi_sockaddr_rank(const struct sockaddr *at);

#endif
