/*
 * Checks whether UDP packets reach a host. They are sent to a port at which no program listens: an
 * ICMP error from the host shows that they arrived. No answer means that they did not, or that a
 * firewall dropped the error.
 */
#include "data.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 4, WAIT_MS = 400, SMALL = 64, LARGEST = 9000 };

struct way {
    int fd;
    int six;
    char to[INET6_ADDRSTRLEN], from[INET6_ADDRSTRLEN], interface[IF_NAMESIZE];
    int mtu;
};

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void ip_of(const struct sockaddr *at, char text[INET6_ADDRSTRLEN])
{
    const void *ip = at->sa_family == AF_INET6
                         ? (const void *)&((const struct sockaddr_in6 *)(const void *)at)->sin6_addr
                         : (const void *)&((const struct sockaddr_in *)(const void *)at)->sin_addr;
    if (inet_ntop(at->sa_family, ip, text, INET6_ADDRSTRLEN) == NULL) strcpy(text, "?");
}

/*
 * Send from the interface specified by AQ_UDP_INTERFACE, a name or address. Returns 0 if it has no
 * address of this family.
 */
static int leave_by(int fd, int family, const char *name)
{
    struct ifaddrs *all = NULL;
    int bound = 0;
    if (getifaddrs(&all) != 0) return 0;
    for (const struct ifaddrs *i = all; i != NULL && !bound; i = i->ifa_next) {
        char ip[INET6_ADDRSTRLEN];
        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != family) continue;
        ip_of(i->ifa_addr, ip);
        if (strcmp(i->ifa_name, name) != 0 && strcmp(ip, name) != 0) continue;
        bound = bind(fd, i->ifa_addr,
                     family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                        : sizeof(struct sockaddr_in)) == 0;
    }
    freeifaddrs(all);
    return bound;
}

/* Find the interface with our address, and its MTU. */
static void find_interface(struct way *way)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) return;
    for (const struct ifaddrs *i = all; i != NULL && way->interface[0] == '\0'; i = i->ifa_next) {
        char ip[INET6_ADDRSTRLEN];
        struct ifreq request;
        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != (way->six ? AF_INET6 : AF_INET))
            continue;
        ip_of(i->ifa_addr, ip);
        if (strcmp(ip, way->from) != 0) continue;
        snprintf(way->interface, sizeof(way->interface), "%s", i->ifa_name);
        memset(&request, 0, sizeof(request));
        memcpy(request.ifr_name, way->interface, sizeof(request.ifr_name));
        if (ioctl(way->fd, SIOCGIFMTU, &request) == 0) way->mtu = request.ifr_mtu;
    }
    freeifaddrs(all);
}

/* Returns an errno, or 0. */
static int open_way(struct way *way, const struct addrinfo *to, const char *interface)
{
    struct sockaddr_storage own;
    socklen_t len = sizeof(own);
    int whole = IP_PMTUDISC_PROBE; /* IPv6 has the same value */
    memset(way, 0, sizeof(*way));
    way->six = to->ai_family == AF_INET6;
    ip_of(to->ai_addr, way->to);
    way->fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (way->fd < 0) return errno;
    setsockopt(way->fd, way->six ? IPPROTO_IPV6 : IPPROTO_IP,
               way->six ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &whole, sizeof(whole));
    if (interface[0] != '\0' && !leave_by(way->fd, to->ai_family, interface)) return EADDRNOTAVAIL;
    if (connect(way->fd, to->ai_addr, to->ai_addrlen) != 0 ||
        getsockname(way->fd, (struct sockaddr *)&own, &len) != 0)
        return errno;
    ip_of((const struct sockaddr *)&own, way->from);
    find_interface(way);
    return 0;
}

/* Send a packet of this length. Returns the milliseconds until the host answered; < 0: a negative
 * errno. */
static double try_packet(const struct way *way, size_t len)
{
    static const char zeros[LARGEST];
    double began = now_ms();
    int error = ETIMEDOUT;
    for (int i = 0; i < TRIES; i++) {
        struct pollfd ready = {.fd = way->fd, .events = POLLIN};
        char byte;
        if (send(way->fd, zeros, len, 0) < 0 && errno != ECONNREFUSED) error = errno;
        if (error != ETIMEDOUT && error != EAGAIN) break;
        if (poll(&ready, 1, WAIT_MS) <= 0) continue;
        /* a program listens there, and has answered */
        if (recv(way->fd, &byte, sizeof(byte), 0) >= 0 || errno == ECONNREFUSED)
            return now_ms() - began;
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
static int show_way(const struct addrinfo *to, const char *host, const char *interface)
{
    struct way way;
    int error = open_way(&way, to, interface);
    double took = error != 0 ? -error : try_packet(&way, SMALL);
    printf("udp to %s (%s)", host, way.to);
    if (error == 0) printf(" from %s (interface %s, MTU %d)", way.from, way.interface, way.mtu);
    if (took < 0) {
        printf(": %s\n", advice_of((int)-took));
    } else {
        int most = way.mtu - (way.six ? 48 : 28);
        printf(": packets arrive (%.1f ms)", took);
        if (most > LARGEST) most = LARGEST;
        if (most > SMALL) {
            double large = try_packet(&way, (size_t)most);
            printf(large < 0 ? "; those of %d bytes do not: %s" : "; those of %d bytes, too", most,
                   large < 0 ? advice_of((int)-large) : "");
        }
        putchar('\n');
    }
    if (way.fd >= 0) close(way.fd);
    return took >= 0;
}

int way_show(char *const *hosts, const char *interface)
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
                arrived |= show_way(i, *hosts, interface);
        freeaddrinfo(all);
        failed |= !arrived;
    }
    return failed;
}
