/*
 * Checks whether UDP packets reach a host. They are sent to a port at which no program listens: an
 * ICMP error from the host shows that they arrived. No answer means that they did not, or that a
 * firewall dropped the error.
 */
#include "base/clock.h"
#include "base/inet.h"
#include "data.h"
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { TRIES = 4, WAIT_MS = 400, SMALL = 64, LARGEST = 9000 };

/* A socket connected to the host. */
struct probe {
    int fd;
    int ipv6;
    char to[INET6_ADDRSTRLEN], from[INET6_ADDRSTRLEN], interface[IF_NAMESIZE];
    int mtu;
};

/*
 * Bind to the interface specified by AQ_UDP_INTERFACE, a name or address. Returns 0 if it has no
 * address of this family.
 */
static int bind_interface(int fd, int family, const char *name)
{
    struct ifaddrs *all = NULL;
    int bound = 0;
    if (getifaddrs(&all) != 0) return 0;
    for (const struct ifaddrs *i = all; i != NULL && !bound; i = i->ifa_next) {
        char ip[INET6_ADDRSTRLEN];
        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != family) continue;
        aqi_sockaddr_ip_text(i->ifa_addr, ip);
        if (strcmp(i->ifa_name, name) != 0 && strcmp(ip, name) != 0) continue;
        bound = bind(fd, i->ifa_addr, aqi_sockaddr_len((const void *)i->ifa_addr)) == 0;
    }
    freeifaddrs(all);
    return bound;
}

/* Find the interface with our address, and its MTU. */
static void find_interface(struct probe *probe, const struct sockaddr *own)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) return;
    for (const struct ifaddrs *i = all; i != NULL && probe->interface[0] == '\0'; i = i->ifa_next) {
        struct ifreq request = {0};
        if (!aqi_sockaddr_same_ip(i->ifa_addr, own)) continue;
        snprintf(probe->interface, sizeof(probe->interface), "%s", i->ifa_name);
        memcpy(request.ifr_name, probe->interface, sizeof(request.ifr_name));
        if (ioctl(probe->fd, SIOCGIFMTU, &request) == 0) probe->mtu = request.ifr_mtu;
    }
    freeifaddrs(all);
}

/* Returns an errno, or 0. */
static int open_probe(struct probe *probe, const struct addrinfo *to, const char *interface)
{
    union aqi_sockaddr own;
    socklen_t len = sizeof(own);
    int no_fragments = IP_PMTUDISC_PROBE; /* IPv6 has the same value */
    *probe = (struct probe){.ipv6 = to->ai_family == AF_INET6};
    aqi_sockaddr_ip_text(to->ai_addr, probe->to);
    probe->fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe->fd < 0) return errno;
    setsockopt(probe->fd, probe->ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
               probe->ipv6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &no_fragments,
               sizeof(no_fragments));
    if (interface[0] != '\0' && !bind_interface(probe->fd, to->ai_family, interface))
        return EADDRNOTAVAIL;
    if (connect(probe->fd, to->ai_addr, to->ai_addrlen) != 0 ||
        getsockname(probe->fd, &own.any, &len) != 0)
        return errno;
    aqi_sockaddr_ip_text(&own.any, probe->from);
    find_interface(probe, &own.any);
    return 0;
}

/* Send a packet of this length. Returns the milliseconds until the host answered, or a negative
 * errno. */
static double try_packet(const struct probe *probe, size_t len)
{
    static const char zeros[LARGEST];
    uint64_t began = aqi_now_ns();
    int error = ETIMEDOUT;
    for (int i = 0; i < TRIES; i++) {
        struct pollfd ready = {.fd = probe->fd, .events = POLLIN};
        char byte;
        if (send(probe->fd, zeros, len, 0) < 0 && errno != ECONNREFUSED) error = errno;
        if (error != ETIMEDOUT && error != EAGAIN) break;
        if (poll(&ready, 1, WAIT_MS) <= 0) continue;
        /* a program may listen there, and have answered */
        if (recv(probe->fd, &byte, sizeof(byte), 0) >= 0 || errno == ECONNREFUSED)
            return (double)(aqi_now_ns() - began) / 1e6;
        error = errno;
    }
    return -error;
}

static const char *advice_of(int error)
{
    switch (error) {
    case ETIMEDOUT:
        return "no answer: a firewall drops UDP, there or on the path, or drops only the host's "
               "answer (ICMP)";
    case EPERM:
    case EACCES:
        return "forbidden by a firewall of this host";
    case EHOSTUNREACH:
        return "no route, or rejected by a firewall: the host is down, is on another network, or "
               "does not accept UDP";
    case ENETUNREACH:
        return "no route to that network: see \"ip route get\"";
    case EMSGSIZE:
        return "larger than a network on the path carries: set AQ_UDP_MTU, or correct an MTU";
    case EADDRNOTAVAIL:
        return "the interface of AQ_UDP_INTERFACE has no address of this family";
    default:
        return strerror(error);
    }
}

/* Returns 1 if packets arrive. */
static int show_probe(const struct addrinfo *to, const char *host, const char *interface)
{
    struct probe probe;
    int error = open_probe(&probe, to, interface);
    double took = error != 0 ? -error : try_packet(&probe, SMALL);
    printf("udp to %s (%s)", host, probe.to);
    if (error == 0)
        printf(" from %s (interface %s, MTU %d)", probe.from, probe.interface, probe.mtu);
    if (took < 0) {
        printf(": %s\n", advice_of((int)-took));
    } else {
        int payload = probe.mtu - (probe.ipv6 ? 48 : 28);
        printf(": packets arrive (%.1f ms)", took);
        if (payload > LARGEST) payload = LARGEST;
        if (payload > SMALL) {
            double large = try_packet(&probe, (size_t)payload);
            if (large < 0)
                printf("; those of %d bytes do not: %s", payload, advice_of((int)-large));
            else
                printf(", also those of %d bytes", payload);
        }
        putchar('\n');
    }
    if (probe.fd >= 0) close(probe.fd);
    return took >= 0;
}

int probe_show(char *const *hosts, const char *interface)
{
    int failed = 0;
    for (; *hosts != NULL; hosts++) {
        const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
        struct addrinfo *all;
        char port[8];
        int arrived = 0;
        /* A port of the dynamic range, at which hardly any program listens. */
        snprintf(port, sizeof(port), "%d", 61000 + getpid() % 4000);
        int error = getaddrinfo(*hosts, port, &hints, &all);
        if (error != 0) {
            fprintf(stderr, "aqinfo: unknown host %s: %s\n", *hosts, gai_strerror(error));
            failed = 1;
            continue;
        }
        for (const struct addrinfo *i = all; i != NULL; i = i->ai_next)
            if (i->ai_family == AF_INET || i->ai_family == AF_INET6)
                arrived |= show_probe(i, *hosts, interface);
        freeaddrinfo(all);
        failed |= !arrived;
    }
    return failed;
}
