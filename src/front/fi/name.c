/* fi: names of endpoints, and the URIs derived from them. */
#include "front/fi/name.h"

#include "base/here.h"
#include "base/inet.h"
#include "base/log.h"
#include "base/mac.h"
#include "base/random.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const unsigned char name_magic[3] = {'a', 'q', 'f'};

static int name_random(void *at, size_t len)
{
    return aqi_random(at, len, "fi") == AQ_OK ? 0 : -EIO;
}

/*
 * Returns false if no other process is reached through shared memory, or if it is unknown which.
 * Processes on the same boot of a kernel and in the same network namespace reach each other
 * through shared memory, as its rendezvous is a socket in that namespace.
 */
static bool name_get_host(uint8_t host[AFI_ID])
{
    const char *alone = getenv("AQ_NEIGHBORHOOD");
    uint64_t number = aqi_here_network();
    if ((alone != NULL && strcmp(alone, "1") == 0) || number == 0) return false;
    memcpy(host, &number, sizeof(number));
    return true;
}

/* Add an address if there is room: all that fit of IPv4, or one of IPv6. */
static void name_add_ip(struct afi_name *name, const struct sockaddr *ip)
{
    if (ip->sa_family == AF_INET && name->count < AFI_ADDRESSES) {
        const struct sockaddr_in *in = (const void *)ip;
        memcpy(name->address[name->count++], &in->sin_addr, sizeof(in->sin_addr));
        name->transports = AFI_BY_UDP;
    } else if (ip->sa_family == AF_INET6 && name->count == 0) {
        const struct sockaddr_in6 *six = (const void *)ip;
        memcpy(name->address, &six->sin6_addr, sizeof(six->sin6_addr));
        name->count = 1;
        name->transports = AFI_BY_UDP6;
    }
}

static void name_add_interfaces(struct afi_name *name, const struct ifaddrs *all, int family,
                                enum aqi_interface_rank rank)
{
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next)
        if (aqi_sockaddr_rank(at->ifa_addr) != 0 && at->ifa_addr->sa_family == family &&
            aqi_interface_rank(at->ifa_name, at->ifa_flags) == rank)
            name_add_ip(name, at->ifa_addr);
}

/*
 * The best addresses come first, as there may be more than fit. Loopback is used only if there is
 * no other address, and IPv6 only if there is no IPv4 address, as space is limited.
 */
static void name_find_addresses(struct afi_name *name)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0) return;
    name_add_interfaces(name, all, AF_INET, AQI_INTERFACE_REAL);
    name_add_interfaces(name, all, AF_INET, AQI_INTERFACE_VIRTUAL);
    name_add_interfaces(name, all, AF_INET6, AQI_INTERFACE_REAL);
    name_add_interfaces(name, all, AF_INET6, AQI_INTERFACE_VIRTUAL);
    if (name->count == 0) name_add_interfaces(name, all, AF_INET, AQI_INTERFACE_LOOPBACK);
    name_add_interfaces(name, all, AF_INET6, AQI_INTERFACE_LOOPBACK);
    freeifaddrs(all);
}

static void name_begin(struct afi_name *name)
{
    memset(name, 0, sizeof(*name));
    memcpy(name->magic, name_magic, sizeof(name_magic));
    name->version = aqi_wire_version(AQI_WIRE_FI);
}

/* The same id on all hosts, and a secret that is public. */
static void name_begin_service(struct afi_name *name, uint16_t port)
{
    static const char id[AFI_ID] = "port";
    name_begin(name);
    memcpy(name->id, id, sizeof(id));
    name->id[AFI_ID - 2] = (uint8_t)(port >> 8);
    name->id[AFI_ID - 1] = (uint8_t)port;
    name->port = port;
}

int afi_name_make(struct afi_name *name, uint16_t service)
{
    int err = 0;
    if (service != 0) {
        name_begin_service(name, service);
    } else {
        name_begin(name);
        err = name_random(name->id, sizeof(name->id));
        if (err == 0) err = name_random(name->secret, sizeof(name->secret));
    }
    if (err == 0 && !name_get_host(name->host)) err = name_random(name->host, sizeof(name->host));
    if (err == 0) name_find_addresses(name);
    if (service != 0) name->transports |= AFI_SERVICE;
    return err;
}

/* --- services -------------------------------------------------------------------------------- */

/* The name of a host often stands for 127.0.1.1, which is the address of no interface. */
static bool name_is_loopback(const struct sockaddr *ip)
{
    const struct sockaddr_in *in = (const void *)ip;
    return ip->sa_family == AF_INET && ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static bool name_is_here(const struct addrinfo *list)
{
    struct ifaddrs *all;
    bool here = name_is_loopback(list->ai_addr);
    if (here) return true;
    if (getifaddrs(&all) != 0) return false;
    for (; list != NULL && !here; list = list->ai_next)
        for (const struct ifaddrs *at = all; at != NULL && !here; at = at->ifa_next)
            here = aqi_sockaddr_same_ip(at->ifa_addr, list->ai_addr);
    freeifaddrs(all);
    return here;
}

/* IPv6 only if there is no IPv4 address, as for the names of endpoints. */
static void name_add_resolved(struct afi_name *name, const struct addrinfo *list)
{
    static const int families[] = {AF_INET, AF_INET6};
    for (size_t i = 0; i < AQI_COUNT_OF(families); i++)
        for (const struct addrinfo *at = list; at != NULL; at = at->ai_next)
            if (at->ai_family == families[i]) name_add_ip(name, at->ai_addr);
}

/* Resolvers take ports modulo 2^16. */
static bool name_is_port(const char *service)
{
    char *end;
    unsigned long long number = strtoull(service, &end, 10);
    return *end != 0 || end == service || number <= UINT16_MAX;
}

static int name_lookup(const char *node, const char *service, uint64_t flags,
                       struct addrinfo **list)
{
    if (!name_is_port(service)) return -FI_ENODATA;
    bool numeric = (flags & FI_NUMERICHOST) != 0;
    if (numeric && strcasecmp(node, "localhost") == 0)
        return -FI_ENODATA; /* known without a resolver */
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_DGRAM,
                                   .ai_flags = numeric ? AI_NUMERICHOST : 0};
    int err = aqi_inet_resolve(node, service, &hints, list);
    if (err == 0) return 0;
    aqi_log(AQI_LOG_INFO, "fi", "cannot look up service %s of %s: %s", service, node,
            gai_strerror(err));
    return -FI_ENODATA;
}

/* `list` NULL: addresses of this host. */
static int name_from(struct afi_name *name, const struct addrinfo *list, uint16_t port)
{
    name_begin_service(name, port);
    if (list != NULL)
        name_add_resolved(name, list);
    else
        name_find_addresses(name);
    if (list == NULL && name_get_host(name->host)) name->transports |= AFI_BY_SHM;
    if (name->transports == 0) return -FI_ENODATA;
    name->transports |= AFI_SERVICE | AFI_RESOLVED;
    return 0;
}

/* An endpoint that is reached through shared memory only has addresses, too. */
static bool name_has_ipv4(const struct afi_name *name)
{
    return name->count != 0 && (name->transports & AFI_BY_UDP6) == 0;
}

/* Put an IPv4 address first. */
static void name_prefer(struct afi_name *name, const void *address)
{
    size_t at = 0, size = sizeof(name->address[0]);
    if (!name_has_ipv4(name)) return;
    while (at < name->count && memcmp(name->address[at], address, size) != 0)
        at++;
    if (at == AFI_ADDRESSES) at--;
    if (at == name->count) name->count++;
    memmove(name->address[1], name->address[0], at * size);
    memcpy(name->address[0], address, size);
}

/* The first entry has the port of all. `any`: of this host, whatever it contains. */
static int name_from_list(struct afi_name *name, const struct addrinfo *list, bool any, bool here)
{
    union aqi_sockaddr first = {.any.sa_family = AF_UNSPEC};
    memcpy(&first, list->ai_addr, aqi_min(sizeof(first), list->ai_addrlen));
    bool ours = any || name_is_here(list);
    if (here && !ours) return -FI_ENODATA;
    int err = name_from(name, ours ? NULL : list, ntohs(*aqi_sockaddr_port(&first)));
    while (list != NULL && list->ai_family != AF_INET)
        list = list->ai_next;
    if (ours && !any && list != NULL)
        name_prefer(name, &((const struct sockaddr_in *)(const void *)list->ai_addr)->sin_addr);
    return err;
}

/* An address in the format of FI_ADDR_STR, which includes the service. */
static int name_from_text(struct afi_name *name, const char *text, bool here)
{
    static const char *const formats[] = {"fi_sockaddr://", "fi_sockaddr_in://",
                                          "fi_sockaddr_in6://"};
    union aqi_sockaddr at;
    for (size_t i = 0; i < AQI_COUNT_OF(formats); i++) {
        size_t len = strlen(formats[i]);
        if (strncmp(text, formats[i], len) == 0 && aqi_sockaddr_read(text + len, &at))
            return afi_name_from_socket(name, &at, aqi_sockaddr_len(&at), here);
    }
    return -FI_ENODATA;
}

int afi_name_resolve(struct afi_name *name, const char *node, const char *service, uint64_t flags,
                     bool here)
{
    struct addrinfo *list;
    const char *host = node != NULL ? node : "localhost";
    if (node == NULL && service == NULL) return name_from(name, NULL, 0);
    if (service == NULL && strstr(node, "://") != NULL) return name_from_text(name, node, here);
    if (node == NULL) flags &= ~FI_NUMERICHOST;
    int err = name_lookup(host, service != NULL ? service : "0", flags, &list);
    if (err != 0) return err;
    err = name_from_list(name, list, node == NULL, here);
    freeaddrinfo(list);
    return err;
}

/* Addresses of hosts differ in their last 32 bits. */
static bool name_add_address(const char *text, size_t n, char *sum, size_t len)
{
    unsigned char address[sizeof(struct in6_addr)];
    int family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET;
    unsigned char *at = address + (family == AF_INET6 ? 12 : 0);
    uint32_t last;
    if (inet_pton(family, text, address) != 1) return false;
    memcpy(&last, at, sizeof(last));
    last = htonl((uint32_t)(ntohl(last) + n));
    memcpy(at, &last, sizeof(last));
    return inet_ntop(family, address, sum, (socklen_t)len) != NULL;
}

bool afi_name_add(const char *text, size_t n, char *sum, size_t len)
{
    size_t end = strlen(text), digits = 0;
    if (name_add_address(text, n, sum, len)) return true;
    while (digits < end && text[end - digits - 1] >= '0' && text[end - digits - 1] <= '9')
        digits++;
    if (n == 0) return snprintf(sum, len, "%s", text) < (int)len;
    errno = 0;
    unsigned long long number = strtoull(text + end - digits, NULL, 10);
    if (digits == 0 || errno != 0 || number > UINT64_MAX - n) return false;
    return snprintf(sum, len, "%.*s%0*llu", (int)(end - digits), text, (int)digits, number + n) <
           (int)len;
}

bool afi_name_is_socket(const void *addr, size_t len)
{
    const struct sockaddr *at = addr;
    return at != NULL && ((len == sizeof(struct sockaddr_in) && at->sa_family == AF_INET) ||
                          (len == sizeof(struct sockaddr_in6) && at->sa_family == AF_INET6));
}

int afi_name_from_socket(struct afi_name *name, const void *addr, size_t len, bool here)
{
    union aqi_sockaddr at;
    memcpy(&at, addr, len);
    const struct addrinfo list = {
        .ai_family = at.any.sa_family, .ai_addr = &at.any, .ai_addrlen = (socklen_t)len};
    return name_from_list(name, &list, here && aqi_sockaddr_is_any(&at), here);
}

bool afi_name_is_service(const void *addr, size_t len)
{
    const struct afi_name *name = addr;
    return name != NULL && len == sizeof(*name) && afi_name_is_valid(name) &&
           (name->transports & AFI_SERVICE) != 0;
}

uint16_t afi_name_service(const void *addr, size_t len)
{
    const struct afi_name *name = addr;
    if (afi_name_is_socket(addr, len)) {
        union aqi_sockaddr at;
        memcpy(&at, addr, len);
        return ntohs(*aqi_sockaddr_port(&at));
    }
    return afi_name_is_service(addr, len) ? name->port : 0;
}

static bool name_shares_address(const struct afi_name *a, const struct afi_name *b)
{
    uint8_t both = a->transports & b->transports;
    if ((both & AFI_BY_UDP6) != 0)
        return memcmp(a->address, b->address, sizeof(struct in6_addr)) == 0;
    for (unsigned i = 0; (both & AFI_BY_UDP) != 0 && i < a->count; i++)
        for (unsigned j = 0; j < b->count; j++)
            if (memcmp(a->address[i], b->address[j], sizeof(a->address[i])) == 0) return true;
    return false;
}

/* Hosts may share addresses, such as those of bridges to their containers. The host of a name that
 * was looked up may be unknown: 0. */
bool afi_name_same(const struct afi_name *a, const struct afi_name *b)
{
    static const uint8_t unknown[AFI_ID];
    if (memcmp(a->id, b->id, AFI_ID) != 0) return false;
    if ((a->transports & b->transports & AFI_SERVICE) == 0) return true;
    if (memcmp(a->host, b->host, AFI_ID) == 0 && memcmp(a->host, unknown, AFI_ID) != 0) return true;
    return ((a->transports | b->transports) & AFI_RESOLVED) != 0 && name_shares_address(a, b);
}

bool afi_name_before(const struct afi_name *a, const struct afi_name *b)
{
    int order = memcmp(a->id, b->id, AFI_ID);
    return (order != 0 ? order : memcmp(a, b, sizeof(*a))) < 0;
}

void afi_name_learn(struct afi_name *known, const struct afi_name *sent)
{
    if ((known->transports & AFI_RESOLVED) != 0 && memcmp(known->id, sent->id, AFI_ID) == 0)
        *known = *sent;
}

/* --- names in use ----------------------------------------------------------------------------- */

bool afi_name_is_other(const struct afi_name *name)
{
    return memcmp(name->magic, name_magic, sizeof(name_magic)) == 0 &&
           name->version != aqi_wire_version(AQI_WIRE_FI);
}

bool afi_name_is_valid(const struct afi_name *name)
{
    return memcmp(name->magic, name_magic, sizeof(name_magic)) == 0 &&
           name->version == aqi_wire_version(AQI_WIRE_FI) && name->count <= AFI_ADDRESSES &&
           (name->transports & (AFI_BY_SHM | AFI_BY_UDP | AFI_BY_UDP6)) != 0;
}

bool afi_name_is_reachable(const struct afi_name *name)
{
    return afi_name_is_valid(name) && ((name->transports & AFI_SERVICE) == 0 || name->port != 0);
}

static void name_hex(const uint8_t id[AFI_ID], char text[2 * AFI_ID + 1])
{
    for (unsigned i = 0; i < AFI_ID; i++)
        snprintf(text + 2 * i, 3, "%02x", id[i]);
}

static bool name_is_by_udp(const struct afi_name *name)
{
    return (name->transports & (AFI_BY_UDP | AFI_BY_UDP6)) != 0;
}

static void name_address_uri(const struct afi_name *name, unsigned n, char *uri, size_t len)
{
    char text[INET6_ADDRSTRLEN];
    bool six = (name->transports & AFI_BY_UDP6) != 0;
    inet_ntop(six ? AF_INET6 : AF_INET, six ? name->address[0] : name->address[n], text,
              sizeof(text));
    snprintf(uri, len, six ? "udp://[%s]:%u" : "udp://%s:%u", text, name->port);
}

bool afi_name_by_shm(const struct afi_name *self, const struct afi_name *name)
{
    return memcmp(self->host, name->host, AFI_ID) == 0 &&
           (self->transports & name->transports & AFI_BY_SHM) != 0;
}

bool afi_name_uri(const struct afi_name *self, const struct afi_name *name, unsigned n, char *uri,
                  size_t len)
{
    if (afi_name_by_shm(self, name)) {
        char id[2 * AFI_ID + 1];
        name_hex(name->id, id);
        snprintf(uri, len, "shm:///aqueduct-fi/%s", id);
        if (n == 0) return true;
        if ((name->transports & AFI_RESOLVED) == 0) return false;
        n--;
    }
    if (!name_is_by_udp(self) || !name_is_by_udp(name) || n >= name->count) return false;
    name_address_uri(name, n, uri, len);
    return true;
}

/* --- names in programs ------------------------------------------------------------------------ */

size_t afi_name_size(bool socket)
{
    return socket ? sizeof(struct sockaddr_in) : sizeof(struct afi_name);
}

void afi_name_write(bool socket, const struct afi_name *name, void *addr)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(name->port)};
    if (name_has_ipv4(name)) memcpy(&at.sin_addr, name->address[0], sizeof(at.sin_addr));
    if (socket)
        memcpy(addr, &at, sizeof(at));
    else
        memcpy(addr, name, sizeof(*name));
}

void afi_name_read(bool socket, const void *addr, struct afi_name *name)
{
    struct sockaddr_in at;
    if (!socket) {
        memcpy(name, addr, sizeof(*name));
        return;
    }
    memcpy(&at, addr, sizeof(at));
    if (at.sin_family != AF_INET || at.sin_addr.s_addr == htonl(INADDR_ANY) ||
        afi_name_from_socket(name, &at, sizeof(at), false) != 0)
        memset(name, 0, sizeof(*name));
}

int afi_name_text(bool socket, const void *addr, char *text, size_t len)
{
    char id[2 * AFI_ID + 1], at[AQI_SOCKADDR_TEXT] = "";
    if (socket) {
        union aqi_sockaddr from;
        memcpy(&from.v4, addr, sizeof(from.v4));
        return snprintf(text, len, "fi_sockaddr_in://%s", aqi_sockaddr_text(&from, at));
    }
    struct afi_name name;
    memcpy(&name, addr, sizeof(name));
    name_hex(name.id, id);
    if (name.count != 0 && name_is_by_udp(&name)) name_address_uri(&name, 0, at, sizeof(at));
    return snprintf(text, len, "fi_aqueduct://%s%s%s", id, at[0] != 0 ? "@" : "", at);
}

int afi_name_prove(const struct afi_name *to, const uint8_t *from, const char *what,
                   uint32_t number, uint8_t proof[AFI_SECRET])
{
    struct aqi_mac *mac;
    const struct iovec parts[] = {
        {.iov_base = (void *)(uintptr_t)from, .iov_len = AFI_ID},
        {.iov_base = (void *)(uintptr_t)to->id, .iov_len = AFI_ID},
        {.iov_base = &number, .iov_len = sizeof(number)},
    };
    if (aqi_mac_open(AQI_MAC_HMAC, &mac) != AQ_OK) return -ENOSYS;
    aqi_mac_for(mac, what, to->secret, parts, AQI_COUNT_OF(parts), proof);
    aqi_mac_close(mac);
    return 0;
}
