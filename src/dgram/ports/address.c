/* Addresses of ports as bytes: the family, the ports of both channels, the IP address, and for some
 * the Ethernet address. */
#include "dgram/ports/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

enum { FAMILY = 0, PORTS = 1, IP = 5, ETHERNET = IP + 4, WITH_ETHERNET = ETHERNET + 6 };

/* The length of an IP address of this family; 0: there is no such family. */
static size_t address_ip_len(unsigned family)
{
    return family == 4 ? 4 : family == 6 ? 16 : 0;
}

void ports_address_add(struct aqi_dgram_addr *addr, enum aqi_dgram_channel channel, in_port_t port)
{
    memcpy(&addr->bytes[PORTS + 2 * channel], &port, sizeof(port));
}

void ports_address_seen(const union aqi_sockaddr *at, enum aqi_dgram_channel channel,
                        struct aqi_dgram_addr *addr)
{
    bool six = at->any.sa_family == AF_INET6;
    memset(addr, 0, sizeof(*addr));
    addr->bytes[FAMILY] = six ? 6 : 4;
    if (six)
        memcpy(&addr->bytes[IP], &at->v6.sin6_addr, 16);
    else
        memcpy(&addr->bytes[IP], &at->v4.sin_addr, 4);
    addr->len = six ? IP + 16 : IP + 4;
    ports_address_add(addr, channel, six ? at->v6.sin6_port : at->v4.sin_port);
}

void ports_address_at(const struct aqi_dgram_addr *ports, const union aqi_sockaddr *ip,
                      struct aqi_dgram_addr *addr)
{
    ports_address_seen(ip, AQI_DGRAM_COMMAND, addr);
    memcpy(&addr->bytes[PORTS], &ports->bytes[PORTS], IP - PORTS);
}

bool ports_address_same_ip(const struct aqi_dgram_addr *a, const struct aqi_dgram_addr *b)
{
    size_t ip = address_ip_len(a->bytes[FAMILY]);
    return ip != 0 && a->bytes[FAMILY] == b->bytes[FAMILY] &&
           memcmp(&a->bytes[IP], &b->bytes[IP], ip) == 0;
}

bool ports_address_to(const struct aqi_dgram_addr *addr, enum aqi_dgram_channel channel,
                      uint32_t scope, union aqi_sockaddr *at)
{
    size_t ip = address_ip_len(addr->bytes[FAMILY]);
    in_port_t port;
    memcpy(&port, &addr->bytes[PORTS + 2 * channel], sizeof(port));
    if (ip == 0 || addr->len < IP + ip || port == 0) return false;
    memset(at, 0, sizeof(*at));
    if (ip == 4) {
        at->v4.sin_family = AF_INET;
        at->v4.sin_port = port;
        memcpy(&at->v4.sin_addr, &addr->bytes[IP], 4);
        return true;
    }
    at->v6.sin6_family = AF_INET6;
    at->v6.sin6_port = port;
    memcpy(&at->v6.sin6_addr, &addr->bytes[IP], 16);
    if (IN6_IS_ADDR_LINKLOCAL(&at->v6.sin6_addr)) at->v6.sin6_scope_id = scope;
    return true;
}

void ports_address_add_ethernet(struct aqi_dgram_addr *addr, const uint8_t ethernet[6])
{
    memcpy(&addr->bytes[ETHERNET], ethernet, 6);
    addr->len = WITH_ETHERNET;
}

const uint8_t *ports_address_ethernet(const struct aqi_dgram_addr *addr)
{
    return addr->bytes[FAMILY] == 4 && addr->len >= WITH_ETHERNET ? &addr->bytes[ETHERNET] : NULL;
}

void ports_address_text(const struct aqi_dgram_addr *addr, char *buf, size_t len)
{
    char ip[INET6_ADDRSTRLEN];
    size_t ip_len = address_ip_len(addr->bytes[FAMILY]);
    if (ip_len == 0 || addr->len < IP + ip_len) {
        snprintf(buf, len, "an unknown address");
        return;
    }
    uint16_t port[AQI_DGRAM_CHANNELS];
    memcpy(port, &addr->bytes[PORTS], sizeof(port));
    (void)inet_ntop(ip_len == 4 ? AF_INET : AF_INET6, &addr->bytes[IP], ip, sizeof(ip));
    snprintf(buf, len, ip_len == 4 ? "%s:%u" : "[%s]:%u", ip,
             ntohs(port[AQI_DGRAM_COMMAND] != 0 ? port[AQI_DGRAM_COMMAND] : port[AQI_DGRAM_DATA]));
}

bool ports_address_reaches(const struct aqi_dgram_addr *own, const struct aqi_dgram_addr *peer)
{
    union aqi_sockaddr at;
    return own->bytes[FAMILY] == peer->bytes[FAMILY] &&
           ports_address_to(peer, AQI_DGRAM_COMMAND, 0, &at) &&
           ports_address_to(peer, AQI_DGRAM_DATA, 0, &at);
}
