/*
 * A port that bypasses the kernel's network stack (AF_XDP) for single small packets, which saves a
 * third of their time, and uses the sockets of an inner port for everything else: they carry bursts
 * several times faster. They also serve where AF_XDP cannot: for peers behind a router, and packets
 * that arrive through other queues.
 */
#include "base/fail.h"
#include "base/iov.h"
#include "base/log.h"
#include "base/spin.h"
#include "dgram/ports/address.h"
#include "dgram/ports/port.h"
#include "dgram/ports/send_error.h"
#include "dgram/ports/xdp_program.h"
#include "dgram/ports/xdp_rings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    ETHERNET = 14,
    IP = ETHERNET + 20,
    HEADERS = IP + 8,
    SHIFT = 48 - HEADERS, /* so that what follows the headers is aligned */
    LONGEST = 1536,       /* bytes of a frame */
    BATCH = 32,           /* maximum number of frames that one call of receive takes */
    WARM = 1024           /* calls without packets until short polls skip the inner port */
};

struct xdp_headers {
    uint8_t to[6], from[6];
    uint16_t type;
    uint8_t version, service;
    uint16_t len, id, fragment;
    uint8_t life, protocol;
    uint16_t sum;
    uint32_t source, target;
    uint16_t source_port, target_port, udp_len, udp_sum;
} __attribute__((packed));
static_assert(sizeof(struct xdp_headers) == HEADERS, "as on the wire");

struct xdp_port {
    struct aqi_port port;
    struct ports_xdp_program program;
    struct ports_xdp_rings rings[PORTS_XDP_QUEUES]; /* it sends through the first */
    unsigned queues;
    struct xdp_headers headers; /* of our packets */
    uint32_t mask;              /* of our network */
    int epoll;
    struct aqi_spin lock; /* for sending */
    atomic_bool waits;    /* the kernel needs another call to send */
    atomic_bool stuck;    /* it will not send again */
    unsigned warm;
    _Atomic uint64_t lost;
};

/* --- opening --------------------------------------------------------------------------------- */

static struct ifreq xdp_request(const char *name)
{
    struct ifreq request;
    memset(&request, 0, sizeof(request));
    memcpy(request.ifr_name, name, strnlen(name, sizeof(request.ifr_name) - 1));
    return request;
}

/* A veth with a program in its driver receives bursts already split into packets. */
static bool xdp_is_veth(int fd, const char *name)
{
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = xdp_request(name);
    request.ifr_data = (void *)&info;
    return ioctl(fd, SIOCETHTOOL, &request) == 0 && strcmp(info.driver, "veth") == 0;
}

/* Our side of the headers of all packets. */
static aq_status xdp_describe(struct xdp_port *self, int fd, const char *name)
{
    struct ifreq mask = xdp_request(name), ethernet = mask;
    union aqi_sockaddr at;
    if (!ports_address_to(&self->port.inner->address, AQI_DGRAM_COMMAND, 0, &at) ||
        at.any.sa_family != AF_INET || ioctl(fd, SIOCGIFNETMASK, &mask) != 0)
        return aqi_fail(AQ_ENOTSUP, "udp",
                        "AF_XDP on interface %s is supported with IPv4 only: name an IPv4 address "
                        "with AQ_UDP_INTERFACE, or set AQ_UDP_PORT=socket",
                        name);
    if (ioctl(fd, SIOCGIFHWADDR, &ethernet) != 0 || ethernet.ifr_hwaddr.sa_family != ARPHRD_ETHER)
        return aqi_fail(AQ_ENOTSUP, "udp",
                        "AF_XDP on interface %s: it is not an Ethernet interface: name another one "
                        "with AQ_UDP_INTERFACE, or set AQ_UDP_PORT=socket",
                        name);
    memcpy(&self->mask, &((struct sockaddr_in *)(void *)&mask.ifr_netmask)->sin_addr, 4);
    self->headers = (struct xdp_headers){.type = htons(0x0800),
                                         .version = 0x45,
                                         .fragment = htons(0x4000), /* don't fragment */
                                         .life = 64,
                                         .protocol = IPPROTO_UDP,
                                         .source = at.v4.sin_addr.s_addr,
                                         .source_port = at.v4.sin_port};
    memcpy(self->headers.from, ethernet.ifr_hwaddr.sa_data, 6);
    return AQ_OK;
}

static aq_status xdp_watch(struct xdp_port *self)
{
    int fds[2 + PORTS_XDP_QUEUES];
    unsigned n = self->port.inner->ops->descriptors(self->port.inner, fds);
    for (unsigned i = 0; i < self->queues; i++)
        fds[n++] = self->rings[i].fd;
    self->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < n && self->epoll >= 0; i++) {
        struct epoll_event event = {.events = EPOLLIN};
        if (epoll_ctl(self->epoll, EPOLL_CTL_ADD, fds[i], &event) == 0) continue;
        close(self->epoll);
        self->epoll = -1;
    }
    if (self->epoll < 0) return aqi_fail_errno(AQ_ESYS, errno, "udp", "cannot create an epoll set");
    return AQ_OK;
}

/* `check`: omit the steps that bind it to the interface. */
static aq_status xdp_open_all(struct xdp_port *self, int fd, bool check)
{
    const char *name = self->port.inner->limits.interface;
    aq_status status = xdp_describe(self, fd, name);
    if (status != AQ_OK) return status;
    struct ports_xdp_filter filter = {.name = name,
                                      .interface = if_nametoindex(name),
                                      .ip = self->headers.source,
                                      .port = self->headers.source_port,
                                      .longest = LONGEST,
                                      .generic = xdp_is_veth(fd, name)};
    status = ports_xdp_load(&self->program, &filter);
    if (status == AQ_OK && check) {
        status = ports_xdp_open(self->rings, name, PORTS_XDP_UNBOUND, 0, SHIFT);
        if (status == AQ_OK) self->queues = 1;
        return status;
    }
    if (status == AQ_OK) status = ports_xdp_attach(&self->program, &filter);
    for (unsigned i = 0; status == AQ_OK && i < PORTS_XDP_QUEUES; i++) {
        status = ports_xdp_open(&self->rings[i], name, filter.interface, i, SHIFT);
        if (status != AQ_OK) break;
        self->queues++;
        status = ports_xdp_steer(&self->program, &filter, i, self->rings[i].fd);
    }
    if (status != AQ_OK && status != AQ_ERANGE) return status;
    self->port.address = self->port.inner->address;
    ports_address_add_ethernet(&self->port.address, self->headers.from);
    self->port.limits = self->port.inner->limits;
    self->port.limits.xdp = self->program.generic ? "generic" : "native";
    self->port.limits.room =
        aqi_min(self->port.limits.room, (size_t)PORTS_XDP_RECEIVE * AQI_DGRAM_COMMAND_MAX);
    return xdp_watch(self);
}

/* Free everything but the inner port. */
static void xdp_free(struct xdp_port *self)
{
    ports_xdp_detach(&self->program);
    for (unsigned i = 0; i < self->queues; i++)
        ports_xdp_close(&self->rings[i]);
    if (self->epoll >= 0) close(self->epoll);
    free(self);
}

static aq_status xdp_open_around(struct aqi_port *inner, bool check, struct aqi_port **port)
{
    struct xdp_port *self = calloc(1, sizeof(*self));
    if (self == NULL) return aqi_fail(AQ_ENOMEM, "udp", "no memory for a port");
    int fds[2];
    (void)inner->ops->descriptors(inner, fds);
    self->port.ops = &aqi_port_xdp;
    self->port.inner = inner;
    self->program = PORTS_XDP_NO_PROGRAM;
    self->epoll = -1;
    aq_status status = xdp_open_all(self, fds[0], check);
    if (status == AQ_OK && !check)
        *port = &self->port;
    else
        xdp_free(self);
    return status;
}

static aq_status xdp_open(const struct aqi_port_params *params, struct aqi_port **port)
{
    struct aqi_port *inner;
    aq_status status = aqi_port_socket.open(params, &inner);
    if (status != AQ_OK) return status;
    status = xdp_open_around(inner, false, port);
    if (status == AQ_AGAIN) {
        *port = inner;
        return AQ_OK;
    }
    if (status != AQ_OK) inner->ops->close(inner);
    return status;
}

aq_status aqi_port_xdp_check(const struct aqi_port_params *params, const char **how)
{
    struct aqi_port *inner;
    int fds[2];
    aq_status status = aqi_port_socket.open(params, &inner);
    if (status != AQ_OK) return status;
    (void)inner->ops->descriptors(inner, fds);
    *how = xdp_is_veth(fds[0], inner->limits.interface) ? "generic mode"
                                                        : "native mode if the driver supports it";
    status = xdp_open_around(inner, true, NULL);
    inner->ops->close(inner);
    return status;
}

static void xdp_close(struct aqi_port *port)
{
    struct aqi_port *inner = port->inner;
    xdp_free((struct xdp_port *)port);
    inner->ops->close(inner);
}

/* --- sending --------------------------------------------------------------------------------- */

static uint16_t xdp_sum(const void *header, size_t len)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < len; i += 2) {
        uint16_t word;
        memcpy(&word, (const unsigned char *)header + i, 2);
        sum += word;
    }
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t) ~((sum & 0xffff) + (sum >> 16));
}

/* Write a frame for `to`; returns its length. It has no UDP checksum, which IPv4 does not require:
 * Ethernet has one. */
static uint32_t xdp_write(const struct xdp_port *self, unsigned char *frame,
                          const union aqi_sockaddr *to, const uint8_t *ethernet,
                          const struct iovec *iov, unsigned niov)
{
    struct xdp_headers headers = self->headers;
    size_t len = HEADERS + aqi_iov_gather(iov, niov, frame + HEADERS);
    memcpy(headers.to, ethernet, 6);
    headers.len = htons((uint16_t)(len - ETHERNET));
    headers.udp_len = htons((uint16_t)(len - IP));
    headers.target = to->v4.sin_addr.s_addr;
    headers.target_port = to->v4.sin_port;
    headers.sum = xdp_sum(&headers.version, IP - ETHERNET);
    memcpy(frame, &headers, HEADERS);
    return (uint32_t)len;
}

/* From now on all packets are sent through the sockets. Those in the ring are lost. */
static AQI_COLD void xdp_give_up(struct xdp_port *self, int error)
{
    static atomic_bool once;
    if (atomic_exchange_explicit(&self->stuck, true, memory_order_relaxed)) return;
    atomic_fetch_add_explicit(&self->lost, ports_xdp_waiting(self->rings), memory_order_relaxed);
    aqi_log_once(
        &once, AQI_LOG_WARN, "udp",
        "AF_XDP on interface %s can no longer send: %s; packets are sent through sockets instead",
        self->port.limits.interface, strerror(error));
}

static void xdp_kick(struct xdp_port *self)
{
    int error = ports_xdp_kick(self->rings);
    bool stays = error != 0 && ports_send_error(error)->stays;
    atomic_store_explicit(&self->waits, stays, memory_order_relaxed);
    if (error == EBUSY) atomic_fetch_add_explicit(&self->lost, 1, memory_order_relaxed);
    if (AQI_UNLIKELY(error != 0 && !stays)) xdp_give_up(self, error);
}

/* The Ethernet address of a peer in our subnet; NULL: unknown, elsewhere, or on this host. */
static const uint8_t *xdp_reaches(const struct xdp_port *self, const struct aqi_dgram_addr *to,
                                  union aqi_sockaddr *at)
{
    const uint8_t *ethernet = ports_address_ethernet(to);
    if (ethernet == NULL || !ports_address_to(to, AQI_DGRAM_COMMAND, 0, at)) return NULL;
    uint32_t other = at->v4.sin_addr.s_addr ^ self->headers.source;
    return other != 0 && (other & self->mask) == 0 ? ethernet : NULL;
}

static bool xdp_send(struct aqi_port *port, enum aqi_dgram_channel channel,
                     const struct aqi_dgram_addr *to, const struct iovec *iov, unsigned niov,
                     size_t segment, unsigned packets)
{
    struct xdp_port *self = (struct xdp_port *)port;
    union aqi_sockaddr at;
    const uint8_t *ethernet = NULL;
    unsigned char *frame = NULL;
    if (channel == AQI_DGRAM_COMMAND && packets == 1 && segment <= LONGEST - HEADERS &&
        !atomic_load_explicit(&self->stuck, memory_order_relaxed))
        ethernet = xdp_reaches(self, to, &at);
    if (ethernet != NULL) {
        aqi_spin_lock(&self->lock);
        frame = ports_xdp_reserve(self->rings);
        if (frame != NULL)
            ports_xdp_submit(self->rings, frame, xdp_write(self, frame, &at, ethernet, iov, niov));
        aqi_spin_unlock(&self->lock);
    }
    if (frame == NULL)
        return self->port.inner->ops->send(self->port.inner, channel, to, iov, niov, segment,
                                           packets);
    xdp_kick(self);
    return true;
}

/* --- receiving ------------------------------------------------------------------------------- */

/* Returns the bytes that a frame carries, or 0. The program has checked the headers, except
 * lengths. */
static size_t xdp_read(unsigned char *frame, size_t len, struct aqi_dgram_addr *from)
{
    struct xdp_headers headers;
    union aqi_sockaddr at = {.v4 = {.sin_family = AF_INET}};
    if (len < HEADERS) return 0;
    memcpy(&headers, frame, HEADERS);
    size_t bytes = ntohs(headers.udp_len);
    if (bytes < 8 || bytes > len - IP) return 0;
    at.v4.sin_addr.s_addr = headers.source;
    at.v4.sin_port = headers.source_port;
    ports_address_seen(&at, AQI_DGRAM_COMMAND, from);
    ports_address_add_ethernet(from, headers.from);
    return bytes - 8;
}

static unsigned xdp_drain(struct ports_xdp_rings *rings, uint64_t waited, aqi_port_take *take,
                          void *arg)
{
    unsigned n = 0;
    for (; n < BATCH; n++) {
        struct aqi_dgram_addr from;
        size_t len;
        uint64_t number;
        unsigned char *frame = ports_xdp_next(rings, &len, &number);
        if (frame == NULL) break;
        size_t bytes = xdp_read(frame, len, &from);
        unsigned char *packet = frame + HEADERS;
        size_t off = (uintptr_t)packet % 16;
        if (AQI_UNLIKELY(off != 0)) { /* a driver that ignores the headroom */
            memmove(packet - off, packet, bytes);
            packet -= off;
        }
        if (bytes > 0) take(arg, AQI_DGRAM_COMMAND, &from, packet, bytes, waited);
        ports_xdp_release(rings, number);
    }
    return n;
}

static unsigned xdp_receive(struct aqi_port *port, enum aqi_port_look look, aqi_port_take *take,
                            void *arg)
{
    struct xdp_port *self = (struct xdp_port *)port;
    unsigned n = 0, others = 0;
    /* The kernel does not report when it filled a frame. */
    uint64_t waited = look == AQI_PORT_RARE ? AQI_DGRAM_NEVER : 0;
    for (unsigned i = 0; i < self->queues; i++)
        n += xdp_drain(&self->rings[i], waited, take, arg);
    if (AQI_UNLIKELY(atomic_load_explicit(&self->waits, memory_order_relaxed))) xdp_kick(self);
    if (look != AQI_PORT_SHORT || self->warm > 0) {
        others = aqi_port_inner_receive(port, look, take, arg);
        if (others > 0)
            self->warm = WARM;
        else if (self->warm > 0)
            self->warm--;
    }
    return n + others;
}

static unsigned xdp_descriptors(struct aqi_port *port, int fds[2])
{
    fds[0] = ((const struct xdp_port *)port)->epoll;
    return 1;
}

static uint64_t xdp_drops(struct aqi_port *port)
{
    struct xdp_port *self = (struct xdp_port *)port;
    uint64_t drops = self->port.inner->ops->drops(self->port.inner) +
                     atomic_load_explicit(&self->lost, memory_order_relaxed);
    for (unsigned i = 0; i < self->queues; i++)
        drops += ports_xdp_drops(&self->rings[i]);
    return drops;
}

const struct aqi_port_ops aqi_port_xdp = {
    .open = xdp_open,
    .close = xdp_close,
    .send = xdp_send,
    .receive = xdp_receive,
    .descriptors = xdp_descriptors,
    .refused = aqi_port_inner_refused,
    .unreadable = aqi_port_inner_unreadable,
    .drops = xdp_drops,
};
