/* The choice of the interface: by the routing table if there is a peer to reach, else a guess. */
#include "dgram/ports/interface.h"

#include "base/fail.h"
#include "base/shmem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Larger packets gain nothing (docs/measurements.md) and fewer fit into the socket's buffer. */
enum { BEST_PACKET = 8944 };

/* List the interfaces, for messages: "lo 127.0.0.1, eth1 (down)". */
static void interface_list(const struct ifaddrs *all, char *text, size_t len)
{
    size_t at = 0;
    text[0] = '\0';
    for (const struct ifaddrs *i = all; i != NULL && at < len; i = i->ifa_next) {
        char ip[INET6_ADDRSTRLEN] = "";
        bool up = (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_RUNNING) != 0;
        if (i->ifa_addr != NULL) (void)aqi_sockaddr_ip_text(i->ifa_addr, ip);
        if (up && ip[0] == '\0') continue; /* listed with its addresses, if any */
        int n = snprintf(text + at, len - at, "%s%s%s%s", at == 0 ? "" : ", ", i->ifa_name,
                         ip[0] != '\0' ? " " : "", up ? ip : " (down)");
        at += n > 0 ? (size_t)n : 0;
    }
}

static void interface_take(const struct ifaddrs *from, struct ports_interface *found)
{
    snprintf(found->name, sizeof(found->name), "%s", from->ifa_name);
    found->index = if_nametoindex(from->ifa_name);
    found->flags = from->ifa_flags;
    memset(&found->address, 0, sizeof(found->address));
    if (from->ifa_addr->sa_family == AF_INET)
        memcpy(&found->address.v4, from->ifa_addr, sizeof(found->address.v4));
    else
        memcpy(&found->address.v6, from->ifa_addr, sizeof(found->address.v6));
}

static const struct ifaddrs *interface_with(const struct ifaddrs *all,
                                            const union aqi_sockaddr *address)
{
    while (all != NULL && !aqi_sockaddr_same_ip(all->ifa_addr, &address->any))
        all = all->ifa_next;
    return all;
}

/* The interface for packets from this host to itself; NULL: it is down. */
static const struct ifaddrs *interface_loopback(const struct ifaddrs *all)
{
    while (all != NULL && ((all->ifa_flags & IFF_LOOPBACK) == 0 || (all->ifa_flags & IFF_UP) == 0))
        all = all->ifa_next;
    return all;
}

static const struct ifaddrs *interface_named(const struct ifaddrs *all, const char *name)
{
    const struct ifaddrs *best = NULL;
    for (; all != NULL; all = all->ifa_next)
        if (strcmp(all->ifa_name, name) == 0 &&
            (best == NULL || aqi_sockaddr_rank(all->ifa_addr) > aqi_sockaddr_rank(best->ifa_addr)))
            best = all;
    return best;
}

static const struct ifaddrs *interface_guess(const struct ifaddrs *all)
{
    const struct ifaddrs *best = NULL;
    unsigned best_rank = 0;
    for (; all != NULL; all = all->ifa_next) {
        unsigned rank = 4 * aqi_interface_rank(all->ifa_name, all->ifa_flags);
        unsigned address = aqi_sockaddr_rank(all->ifa_addr);
        if (rank == 4 * AQI_INTERFACE_NEVER || address == 0 || rank + address <= best_rank)
            continue;
        best = all;
        best_rank = rank + address;
    }
    return best;
}

/* Find our address in packets to `to`, without sending any. Returns 0 or an errno. */
static int interface_source(const struct sockaddr *to, socklen_t to_len, union aqi_sockaddr *source)
{
    int fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof(*source);
    if (fd < 0) return errno;
    memset(source, 0, sizeof(*source));
    int error = connect(fd, to, to_len) != 0               ? errno
                : getsockname(fd, &source->any, &len) != 0 ? errno
                                                           : 0;
    close(fd);
    return error;
}

/*
 * IPv4 is preferred, here and elsewhere, so that all hosts of a job choose alike. `*here`: the host
 * is this one, whose packets to itself have the same address at both ends.
 */
static aq_status interface_towards(const char *host, union aqi_sockaddr *source, bool *here)
{
    static const int families[] = {AF_INET, AF_INET6};
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *all;
    int error = aqi_inet_resolve(host, "9", &hints, &all); /* any port: nothing is sent */
    if (error != 0)
        return aqi_fail(AQ_EINVAL, "udp", "host \"%s\" is unknown: %s", host, gai_strerror(error));
    error = ENETUNREACH;
    for (unsigned f = 0; f < AQI_COUNT_OF(families); f++)
        for (const struct addrinfo *i = all; i != NULL && error != 0; i = i->ai_next)
            if (i->ai_family == families[f]) {
                error = interface_source(i->ai_addr, i->ai_addrlen, source);
                *here = error == 0 && aqi_sockaddr_same_ip(i->ai_addr, &source->any);
            }
    freeaddrinfo(all);
    if (error != 0 && strcasecmp(host, "localhost") == 0)
        return aqi_fail_errno(
            AQ_EINVAL, error, "udp",
            "processes of one host use its loopback interface, which does not work: \"ip link set "
            "lo up\", or name another one with AQ_UDP_INTERFACE");
    if (error != 0)
        return aqi_fail_errno(AQ_EINVAL, error, "udp",
                              "no interface leads to host \"%s\"; name one with AQ_UDP_INTERFACE",
                              host);
    return AQ_OK;
}

static aq_status interface_pick(const struct ifaddrs *all, const char *wanted, const char *towards,
                                struct ports_interface *found, bool *here)
{
    union aqi_sockaddr address;
    const struct ifaddrs *best;
    char list[512];
    interface_list(all, list, sizeof(list));
    if (wanted != NULL) {
        best = aqi_sockaddr_read_ip(wanted, &address) ? interface_with(all, &address)
                                                      : interface_named(all, wanted);
    } else if (towards != NULL) {
        aq_status status = interface_towards(towards, &address, here);
        if (status != AQ_OK) return status;
        best = interface_with(all, &address);
    } else {
        best = interface_guess(all);
    }
    if (best == NULL && wanted == NULL)
        return aqi_fail(AQ_ENOTSUP, "udp",
                        "no interface that is up has an address (interfaces: %s)", list);
    if (best == NULL)
        return aqi_fail(AQ_EINVAL, "udp",
                        "no interface has the name or the address \"%s\" (interfaces: %s): correct "
                        "AQ_UDP_INTERFACE, or the URI",
                        wanted, list);
    if ((best->ifa_flags & IFF_UP) == 0 || (best->ifa_flags & IFF_RUNNING) == 0)
        return aqi_fail(
            AQ_EINVAL, "udp",
            "interface %s is down: \"ip link set %s up\", or name another (interfaces: %s)",
            best->ifa_name, best->ifa_name, list);
    if (best->ifa_addr == NULL ||
        (best->ifa_addr->sa_family != AF_INET && best->ifa_addr->sa_family != AF_INET6))
        return aqi_fail(
            AQ_EINVAL, "udp",
            "interface %s has no IP address: give it one, or name another (interfaces: %s)",
            best->ifa_name, list);
    interface_take(best, found);
    return AQ_OK;
}

static aq_status interface_mtu(const char *name, size_t *mtu)
{
    struct ifreq request;
    memset(&request, 0, sizeof(request));
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int error = fd < 0 || ioctl(fd, SIOCGIFMTU, &request) != 0 ? errno : 0;
    if (fd >= 0) close(fd);
    if (error != 0)
        return aqi_fail_errno(AQ_ESYS, error, "udp", "cannot read the MTU of interface %s", name);
    *mtu = (size_t)request.ifr_mtu;
    return AQ_OK;
}

aq_status ports_interface_find(const char *wanted, const char *towards,
                               struct ports_interface *found)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0 || all == NULL)
        return aqi_fail_no_fd(errno, "udp", "cannot list the interfaces");
    struct ports_interface interface;
    bool here = false;
    aq_status status = interface_pick(all, wanted, towards, &interface, &here);
    const struct ifaddrs *carrier = here ? interface_loopback(all) : NULL;
    size_t mtu = 0;
    if (status == AQ_OK) status = interface_mtu(interface.name, &mtu);
    interface.mtu = interface.mtu_towards = mtu;
    if (status == AQ_OK && carrier != NULL)
        status = interface_mtu(carrier->ifa_name, &interface.mtu_towards);
    freeifaddrs(all);
    if (status == AQ_OK) *found = interface;
    return status;
}

static bool interface_is_coming(const struct ifaddrs *one)
{
    enum { LOWER_UP = 1 << 16 }; /* IFF_LOWER_UP of linux/if.h, which clashes with net/if.h */
    return (one->ifa_flags & LOWER_UP) != 0 &&
           aqi_interface_rank(one->ifa_name, one->ifa_flags | IFF_RUNNING) > AQI_INTERFACE_LOOPBACK;
}

bool ports_interface_is_coming(char name[IF_NAMESIZE])
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) return false;
    const struct ifaddrs *best = interface_guess(all), *i = all;
    if (best != NULL && (best->ifa_flags & IFF_LOOPBACK) == 0) i = NULL;
    while (i != NULL && !interface_is_coming(i))
        i = i->ifa_next;
    if (i != NULL) snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
    freeifaddrs(all);
    return i != NULL;
}

unsigned ports_interface_others(const struct ports_interface *first, union aqi_sockaddr *others,
                                unsigned most)
{
    struct ifaddrs *all = NULL;
    unsigned count = 0;
    if (getifaddrs(&all) != 0) return 0;
    for (unsigned rank = AQI_INTERFACE_REAL; rank > AQI_INTERFACE_LOOPBACK; rank--)
        for (const struct ifaddrs *i = all; i != NULL && count < most; i = i->ifa_next) {
            if (aqi_interface_rank(i->ifa_name, i->ifa_flags) != rank ||
                aqi_sockaddr_rank(i->ifa_addr) == 0 ||
                i->ifa_addr->sa_family != first->address.any.sa_family ||
                aqi_sockaddr_same_ip(i->ifa_addr, &first->address.any))
                continue;
            memset(&others[count], 0, sizeof(others[count]));
            memcpy(&others[count], i->ifa_addr, aqi_sockaddr_len(&first->address));
            count++;
        }
    freeifaddrs(all);
    return count;
}

bool ports_interface_route(const struct aqi_dgram_addr *to, union aqi_sockaddr *source)
{
    union aqi_sockaddr at;
    return ports_address_to(to, AQI_DGRAM_COMMAND, 0, &at) &&
           interface_source(&at.any, aqi_sockaddr_len(&at), source) == 0;
}

void ports_interface_named(const union aqi_sockaddr *address, char name[IF_NAMESIZE])
{
    struct ifaddrs *all = NULL;
    name[0] = '\0';
    if (getifaddrs(&all) != 0) return;
    const struct ifaddrs *found = interface_with(all, address);
    if (found != NULL) snprintf(name, IF_NAMESIZE, "%s", found->ifa_name);
    freeifaddrs(all);
}

static bool interface_is_of(const struct ifaddrs *one, const union aqi_sockaddr *address)
{
    int family = one->ifa_addr != NULL ? one->ifa_addr->sa_family : AF_UNSPEC;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)one->ifa_addr;
    if (aqi_sockaddr_is_any(address))
        return (one->ifa_flags & IFF_LOOPBACK) == 0 &&
               (family == AF_INET || (family == AF_INET6 && address->any.sa_family == AF_INET6));
    return aqi_sockaddr_same_ip(one->ifa_addr, &address->any) &&
           (family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) ||
            six->sin6_scope_id == address->v6.sin6_scope_id);
}

static enum ports_interface_state interface_state_of(unsigned flags)
{
    if ((flags & IFF_UP) == 0) return PORTS_INTERFACE_DOWN;
    return (flags & IFF_RUNNING) == 0 ? PORTS_INTERFACE_NO_CARRIER : PORTS_INTERFACE_UP;
}

enum ports_interface_state ports_interface_state(const struct ifaddrs *all,
                                                 const union aqi_sockaddr *address,
                                                 char name[IF_NAMESIZE])
{
    enum ports_interface_state best = PORTS_INTERFACE_GONE;
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        enum ports_interface_state state = interface_state_of(i->ifa_flags);
        if (state >= best || !interface_is_of(i, address)) continue;
        best = state;
        snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
        name[strcspn(name, ":")] = '\0'; /* without the label of an address */
    }
    /* One that is down has also lost its IPv6 addresses. */
    for (const struct ifaddrs *i = all; i != NULL && best == PORTS_INTERFACE_GONE; i = i->ifa_next)
        if ((i->ifa_flags & IFF_UP) == 0 && strcmp(i->ifa_name, name) == 0)
            best = PORTS_INTERFACE_DOWN;
    return best;
}

bool ports_interface_loopback_is_down(void)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) return false;
    bool down = interface_loopback(all) == NULL;
    freeifaddrs(all);
    return down;
}

aq_status ports_interface_packet(const struct ports_interface *interface, size_t wanted,
                                 size_t *packet)
{
    size_t headers = interface->address.any.sa_family == AF_INET6 ? 40 + 8 : 20 + 8;
    size_t fits = interface->mtu > headers ? interface->mtu - headers : 0;
    size_t len =
        aqi_min(aqi_min(fits, wanted != 0 ? wanted : BEST_PACKET), AQI_DGRAM_MOST_PACKET) / 16 * 16;
    if (fits < AQI_DGRAM_LEAST_PACKET)
        return aqi_fail(AQ_EINVAL, "udp",
                        "packets of interface %s (MTU %zu) carry only %zu bytes, and %u are "
                        "needed: \"ip link set %s mtu 1500\", or name another interface",
                        interface->name, interface->mtu, fits, AQI_DGRAM_LEAST_PACKET,
                        interface->name);
    if (len < AQI_DGRAM_LEAST_PACKET)
        return aqi_fail(AQ_EINVAL, "udp",
                        "packets of %zu bytes were requested; at least %u bytes are needed", wanted,
                        AQI_DGRAM_LEAST_PACKET);
    *packet = len;
    return AQ_OK;
}
