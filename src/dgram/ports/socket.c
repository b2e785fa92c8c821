/*
 * A port of two UDP sockets. A burst goes to the kernel in one call, as one datagram that the
 * network card or the kernel splits into packets (GSO), and the receiver's kernel merges them again
 * if it can (GRO). This is ten times faster than a call for each packet.
 */
#include "dgram/ports/port.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/shmem.h"
#include "base/unforked.h"
#include "dgram/ports/address.h"
#include "dgram/ports/interface.h"
#include "dgram/ports/options.h"
#include "dgram/ports/receive_error.h"
#include "dgram/ports/send_error.h"
#include "dgram/ports/slice.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/errqueue.h> /* needs <time.h> */

enum {
    BUFFER = 4 << 20, /* bytes of receive buffer, by default */
    SEND_BUFFER = 4 << 20,
    NESTING = 2,           /* receive, and once more from inside it */
    LARGEST = 1 << 16,     /* maximum number of bytes that one call receives */
    STREAK = 3,            /* successful calls in a row after which more is expected */
    BATCH = 16,            /* maximum number of datagrams, or bursts, that one call then takes */
    BATCH_BYTES = 1 << 16, /* and of bytes */
    WARM = 128,            /* calls without DATA until short polls skip its socket, on which
                            * retransmissions also arrive */
    CROWD = 64,            /* value of `company` from which on GRO is worthwhile */
    RARE = 1 << 10,        /* polls that outweigh a rare one that found something */
    RARE_MOST = 16 * RARE, /* at most; packets are timestamped after the second rare one */
    REFUSALS = 8           /* packets dropped in a row, in REFUSAL_TIME */
};

#define REFUSAL_TIME  4000000000u /* ns, less than until a peer counts as silent */
#define REFUSAL_PAUSE 1000000000u /* ns: a longer pause restarts the count */

/* Packets that the interface drops, apparently for their size. */
struct socket_refusal {
    _Atomic size_t size; /* bytes of the smallest; 0: there is none */
    atomic_uint times;
    _Atomic uint64_t since, last; /* the first and the latest drop */
};

struct socket_port {
    struct aqi_port port;
    int fd[AQI_DGRAM_CHANNELS];
    uint32_t scope;
    sa_family_t family;
    atomic_bool no_gso;
    atomic_bool errors[AQI_DGRAM_CHANNELS]; /* the socket's error queue must be read */
    _Atomic uint64_t lost;                  /* packets that could not be sent */
    atomic_bool unreadable;                 /* some of those because they could not be read */
    struct socket_refusal refusal;
    atomic_bool one_peer;
    atomic_bool connected[AQI_DGRAM_CHANNELS];
    struct aqi_dgram_addr peer[AQI_DGRAM_CHANNELS]; /* its peer, as seen */
    unsigned nested;
    unsigned streak[AQI_DGRAM_CHANNELS];
    unsigned warm;
    bool gro;         /* of COMMAND; DATA always has it */
    unsigned company; /* on COMMAND: packets that arrived together, less those that arrived alone */
    unsigned rare;    /* RARE for each recent rare poll, less other polls */
    bool stamped;     /* packets are timestamped by the kernel */
    bool dated;       /* at least one on arrival; until then the times may be those of reading */
    uint64_t clock;   /* the system's time when a rare poll began; 0: this poll is not rare */
    unsigned char *buffer[NESTING];
};

/* --- opening --------------------------------------------------------------------------------- */

/* Never fragment packets, and keep reported errors. */
static void socket_options(int fd, int family)
{
    bool six = family == AF_INET6;
    ports_options_whole(fd, family);
    ports_options_set(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_RECVERR : IP_RECVERR, 1);
}

static aq_status socket_open_channel(struct socket_port *self, enum aqi_dgram_channel channel,
                                     const struct ports_interface *interface)
{
    union aqi_sockaddr at = interface->address;
    in_port_t port;
    socklen_t len = sizeof(at);
    int fd = socket(at.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return aqi_fail_no_fd(errno, "udp", "cannot open a socket");
    self->fd[channel] = fd;
    aqi_unforked_add(fd);
    socket_options(fd, at.any.sa_family);
    if (channel == AQI_DGRAM_DATA) ports_options_set(fd, IPPROTO_UDP, UDP_GRO, 1);
    if (self->port.other_count != 0) {
        memset(&at, 0, sizeof(at)); /* any */
        at.any.sa_family = interface->address.any.sa_family;
    }
    if (bind(fd, &at.any, aqi_sockaddr_len(&at)) != 0)
        return aqi_fail_errno(errno == EACCES ? AQ_EACCESS : AQ_ESYS, errno, "udp",
                              "cannot bind a port of interface %s", interface->name);
    if (getsockname(fd, &at.any, &len) != 0)
        return aqi_fail_errno(AQ_ESYS, errno, "udp", "cannot query the address of a socket");
    port = *aqi_sockaddr_port(&at);
    at = interface->address;
    *aqi_sockaddr_port(&at) = port;
    if (channel == AQI_DGRAM_COMMAND)
        ports_address_seen(&at, channel, &self->port.address);
    else
        ports_address_add(&self->port.address, channel, port);
    return AQ_OK;
}

/* The addresses at which it receives: "10.0.0.7:4021, 10.1.0.7:4021". */
static void socket_name(struct socket_port *self, const union aqi_sockaddr *others)
{
    struct aqi_port_limits *limits = &self->port.limits;
    ports_address_text(&self->port.address, limits->text, sizeof(limits->text));
    for (unsigned i = 0; i < self->port.other_count; i++) {
        char text[64];
        size_t used = strlen(limits->text);
        ports_address_at(&self->port.address, &others[i], &self->port.others[i]);
        ports_address_text(&self->port.others[i], text, sizeof(text));
        if (used + strlen(text) + 3 <= sizeof(limits->text))
            snprintf(limits->text + used, sizeof(limits->text) - used, ", %s", text);
    }
}

static aq_status socket_open_all(struct socket_port *self, const struct aqi_port_params *params)
{
    struct ports_interface interface;
    union aqi_sockaddr others[AQI_DGRAM_WAYS - 1];
    struct aqi_port_limits *limits = &self->port.limits;
    aq_status status = ports_interface_find(params->interface, params->towards, &interface);
    if (status == AQ_OK && params->to_peer) interface.mtu = interface.mtu_towards;
    if (status == AQ_OK)
        status = ports_interface_packet(&interface, params->packet, &limits->packet);
    if (status == AQ_OK && params->several && params->interface == NULL && params->towards == NULL)
        self->port.other_count = ports_interface_others(&interface, others, AQI_DGRAM_WAYS - 1);
    self->one_peer = params->one_peer && self->port.other_count == 0;
    for (unsigned i = 0; i < AQI_DGRAM_CHANNELS && status == AQ_OK; i++)
        status = socket_open_channel(self, (enum aqi_dgram_channel)i, &interface);
    for (unsigned i = 0; i < NESTING && status == AQ_OK; i++) {
        self->buffer[i] = aligned_alloc(AQI_CACHE_LINE, LARGEST);
        if (self->buffer[i] == NULL)
            status = aqi_fail(AQ_ENOMEM, "udp", "no memory for a receive buffer of 64 KB");
    }
    if (status != AQ_OK) return status;
    size_t wanted = params->buffer != 0 ? params->buffer : BUFFER, given = 0;
    for (unsigned i = 0; i < AQI_DGRAM_CHANNELS; i++) {
        given = ports_options_receive_buffer(self->fd[i], wanted);
        (void)ports_options_buffer(self->fd[i], SO_SNDBUF, SO_SNDBUFFORCE, SEND_BUFFER);
    }
    /* The kernel charges a packet with its struct and a power of two for its bytes and a trailer:
     * at most twice its length plus AQI_DGRAM_COST, and the buffer was doubled. */
    limits->room = given;
    self->scope = interface.index;
    self->family = interface.address.any.sa_family;
    memcpy(limits->interface, interface.name, sizeof(interface.name));
    socket_name(self, others);
    return AQ_OK;
}

static void socket_close(struct aqi_port *port)
{
    struct socket_port *self = (struct socket_port *)port;
    for (unsigned i = 0; i < AQI_DGRAM_CHANNELS; i++)
        if (self->fd[i] >= 0) aqi_unforked_close(self->fd[i]);
    for (unsigned i = 0; i < NESTING; i++)
        free(self->buffer[i]);
    free(self);
}

static aq_status socket_open(const struct aqi_port_params *params, struct aqi_port **port)
{
    struct socket_port *self = calloc(1, sizeof(*self));
    if (self == NULL) return aqi_fail(AQ_ENOMEM, "udp", "no memory for a port");
    self->port.ops = &aqi_port_socket;
    self->fd[AQI_DGRAM_COMMAND] = self->fd[AQI_DGRAM_DATA] = -1;
    aq_status status = socket_open_all(self, params);
    if (status == AQ_OK)
        *port = &self->port;
    else
        socket_close(&self->port);
    return status;
}

/* --- sending --------------------------------------------------------------------------------- */

enum outcome { SENT, NO_ROOM, LOST, NO_GSO };

static AQI_COLD void socket_unsendable(const struct aqi_dgram_addr *to, int error)
{
    static atomic_bool once;
    const struct ports_send_error *row = ports_send_error(error);
    char peer[64];
    if (row->silent) return;
    ports_address_text(to, peer, sizeof(peer));
    aqi_log_once(&once, AQI_LOG_WARN, "udp", "cannot send packets to %s: %s; %s", peer,
                 strerror(error), row->advice != NULL ? row->advice : row->reason);
}

/* The interface has dropped a packet. If it drops all that are as large for REFUSAL_TIME, the cause
 * is not an occasionally full queue. */
static AQI_COLD void socket_dropped(struct socket_port *self, const struct aqi_dgram_addr *to,
                                    size_t size)
{
    static atomic_bool once;
    char peer[64];
    struct socket_refusal *refusal = &self->refusal;
    uint64_t now = aqi_now_ns();
    uint64_t before = atomic_exchange_explicit(&refusal->last, now, memory_order_relaxed);
    size_t least = atomic_load_explicit(&refusal->size, memory_order_relaxed);
    if (least == 0 || size < least)
        atomic_store_explicit(&refusal->size, size, memory_order_relaxed);
    if (least == 0 || aqi_elapsed_ns(now, before) > REFUSAL_PAUSE) {
        atomic_store_explicit(&refusal->times, 0, memory_order_relaxed);
        atomic_store_explicit(&refusal->since, now, memory_order_relaxed);
    }
    unsigned times = atomic_fetch_add_explicit(&refusal->times, 1, memory_order_relaxed);
    uint64_t since = atomic_load_explicit(&refusal->since, memory_order_relaxed);
    if (times < REFUSALS || aqi_elapsed_ns(now, since) < REFUSAL_TIME) return;
    ports_address_text(to, peer, sizeof(peer));
    aqi_log_once(&once, AQI_LOG_WARN, "udp",
                 "interface %s has dropped all packets of %zu bytes or more for %.1f s, the last "
                 "one to %s (%s): its queue is stuck or, if it is an end of a veth pair, the other "
                 "end now has a smaller MTU (\"ip link\" shows it)",
                 self->port.limits.interface, size, (double)aqi_elapsed_ns(now, since) / 1e9, peer,
                 strerror(ENOBUFS));
}

/* A packet was sent: the interface accepts this size. */
static AQI_COLD void socket_taken(struct socket_port *self, size_t size)
{
    if (size >= atomic_load_explicit(&self->refusal.size, memory_order_relaxed))
        atomic_store_explicit(&self->refusal.size, 0, memory_order_relaxed);
}

/* sendto passes less to the kernel than sendmsg, which saves 5 % of the time of a small packet. */
static ssize_t socket_call(int fd, const struct msghdr *message)
{
    if (message->msg_iovlen != 1 || message->msg_controllen != 0)
        return sendmsg(fd, message, MSG_NOSIGNAL);
    return sendto(fd, message->msg_iov->iov_base, message->msg_iov->iov_len, MSG_NOSIGNAL,
                  message->msg_name, message->msg_namelen);
}

/* Make the call and classify its outcome, for packets of `size` bytes. */
static enum outcome socket_try(struct socket_port *self, enum aqi_dgram_channel channel,
                               const struct msghdr *message, const struct aqi_dgram_addr *to,
                               size_t size)
{
    for (unsigned tries = 0;; tries++) {
        if (AQI_LIKELY(socket_call(self->fd[channel], message) >= 0)) {
            if (AQI_UNLIKELY(atomic_load_explicit(&self->refusal.size, memory_order_relaxed) != 0))
                socket_taken(self, size);
            return SENT;
        }
        int error = errno;
        const struct ports_send_error *row = ports_send_error(error);
        if (row->verdict == PORTS_NO_ROOM) return NO_ROOM;
        if (row->uncut && message->msg_controllen != 0) return NO_GSO;
        if (row->verdict == PORTS_REPEAT) continue;
        if (error == ENOBUFS) socket_dropped(self, to, size);
        /* Read by socket_unreadable in the thread that receives. */
        if (row->verdict == PORTS_UNREADABLE)
            atomic_store_explicit(&self->unreadable, true, memory_order_release);
        if (!row->final) atomic_store_explicit(&self->errors[channel], true, memory_order_relaxed);
        if (!row->final && tries == 0) continue;
        socket_unsendable(to, error);
        return LOST;
    }
}

static bool socket_lost(struct socket_port *self, unsigned packets)
{
    atomic_fetch_add_explicit(&self->lost, packets, memory_order_relaxed);
    return true;
}

/* Make a call for each packet, which is as fast as sendmmsg. */
static AQI_COLD bool socket_send_each(struct socket_port *self, enum aqi_dgram_channel channel,
                                      const struct aqi_dgram_addr *to, struct msghdr *message,
                                      size_t segment, unsigned packets)
{
    struct iovec pieces[AQI_PORT_PIECES];
    struct ports_slices at = {.iov = message->msg_iov, .niov = (unsigned)message->msg_iovlen};
    message->msg_iov = pieces;
    message->msg_control = NULL;
    message->msg_controllen = 0;
    for (unsigned i = 0; i < packets; i++) {
        size_t len;
        message->msg_iovlen = ports_slice(&at, segment, pieces, &len);
        enum outcome outcome = socket_try(self, channel, message, to, len);
        if (outcome == NO_ROOM && i == 0) return false;
        if (outcome != SENT) return socket_lost(self, packets - i);
    }
    return true;
}

/* The kernel rejected a burst. If single packets pass, disable GSO. */
static AQI_COLD bool socket_send_uncut(struct socket_port *self, enum aqi_dgram_channel channel,
                                       const struct aqi_dgram_addr *to, struct msghdr *message,
                                       size_t segment, unsigned packets)
{
    int error = errno;
    uint64_t lost = atomic_load_explicit(&self->lost, memory_order_relaxed);
    bool sent = socket_send_each(self, channel, to, message, segment, packets);
    if (!sent || lost != atomic_load_explicit(&self->lost, memory_order_relaxed)) return sent;
    aqi_log(AQI_LOG_INFO, "udp", "the kernel does not split bursts into packets (UDP_SEGMENT: %s)",
            strerror(error));
    atomic_store_explicit(&self->no_gso, true, memory_order_relaxed);
    return true;
}

/* Connect the socket, so that the kernel looks up the route once rather than for each packet, which
 * takes a tenth of the time of a small one. If that fails, each call passes the address. The kernel
 * allows other threads to receive meanwhile, but tsan assumes that connect() creates a
 * descriptor. */
static AQI_COLD bool socket_connect(struct socket_port *self, enum aqi_dgram_channel channel,
                                    const union aqi_sockaddr *at)
{
    ports_address_seen(at, channel, &self->peer[channel]);
    bool ok = syscall(SYS_connect, self->fd[channel], &at->any, aqi_sockaddr_len(at)) == 0;
    atomic_store_explicit(&self->one_peer, ok, memory_order_relaxed);
    /* Read by socket_take of another thread. */
    atomic_store_explicit(&self->connected[channel], ok, memory_order_release);
    return ok;
}

static bool socket_send(struct aqi_port *port, enum aqi_dgram_channel channel,
                        const struct aqi_dgram_addr *to, const struct iovec *iov, unsigned niov,
                        size_t segment, unsigned packets)
{
    struct socket_port *self = (struct socket_port *)port;
    union aqi_sockaddr at;
    union {
        struct cmsghdr header;
        unsigned char bytes[CMSG_SPACE(sizeof(uint16_t))];
    } control;
    if (!ports_address_to(to, channel, self->scope, &at)) return socket_lost(self, packets);
    if (AQI_UNLIKELY(at.any.sa_family != self->family)) {
        socket_unsendable(to, EAFNOSUPPORT);
        return socket_lost(self, packets);
    }
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = niov};
    bool connected = atomic_load_explicit(&self->connected[channel], memory_order_relaxed);
    if (!connected && atomic_load_explicit(&self->one_peer, memory_order_relaxed))
        connected = socket_connect(self, channel, &at);
    if (!connected) {
        message.msg_name = &at;
        message.msg_namelen = aqi_sockaddr_len(&at);
    }
    if (packets > 1) {
        if (atomic_load_explicit(&self->no_gso, memory_order_relaxed))
            return socket_send_each(self, channel, to, &message, segment, packets);
        uint16_t size = (uint16_t)segment;
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        control.header = (struct cmsghdr){.cmsg_level = IPPROTO_UDP,
                                          .cmsg_type = UDP_SEGMENT,
                                          .cmsg_len = CMSG_LEN(sizeof(size))};
        memcpy(CMSG_DATA(&control.header), &size, sizeof(size));
    }
    enum outcome outcome = socket_try(self, channel, &message, to, segment);
    if (AQI_LIKELY(outcome == SENT)) return true;
    if (outcome == NO_ROOM) return false;
    if (outcome == LOST) return socket_lost(self, packets);
    return socket_send_uncut(self, channel, to, &message, segment, packets);
}

/* --- receiving ------------------------------------------------------------------------------- */

/* The size of packets that arrived merged (GRO); 0: a packet arrived alone. */
static size_t socket_segment(struct msghdr *message)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c))
        if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
            int size;
            memcpy(&size, CMSG_DATA(c), sizeof(size));
            return size > 0 ? (size_t)size : 0;
        }
    return 0;
}

static uint64_t socket_ns(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

/* ns since the packet arrived, by its timestamp; AQI_DGRAM_NEVER: it has none. */
static uint64_t socket_waited(struct socket_port *self, struct msghdr *message)
{
    if (AQI_LIKELY(self->clock == 0)) return 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPNS) {
            struct timespec arrival;
            memcpy(&arrival, CMSG_DATA(c), sizeof(arrival));
            uint64_t at = socket_ns(&arrival);
            self->dated = self->dated || at <= self->clock;
            if (!self->dated) return AQI_DGRAM_NEVER;
            return at <= self->clock ? self->clock - at : 0;
        }
    return AQI_DGRAM_NEVER;
}

static AQI_COLD void socket_deaf(struct socket_port *self, int error,
                                 const struct ports_receive_error *row)
{
    static atomic_bool once;
    if (row->verdict == PORTS_GONE)
        atomic_store_explicit(&self->port.deaf, true, memory_order_relaxed);
    aqi_log_once(&once, AQI_LOG_WARN, "udp", "cannot receive packets to %s: %s; %s",
                 self->port.limits.text, strerror(error), row->reason);
}

/* Whether there may be packets after an error. */
static AQI_COLD bool socket_reread(struct socket_port *self, enum aqi_dgram_channel channel,
                                   int error)
{
    const struct ports_receive_error *row = ports_receive_error(error);
    if (row->verdict == PORTS_REREAD) return true;
    if (row->verdict == PORTS_NOTHING) return false;
    /* The socket counts as readable until its errors are read. */
    atomic_store_explicit(&self->errors[channel], true, memory_order_relaxed);
    if (row->verdict >= PORTS_DEAF) socket_deaf(self, error, row);
    return row->verdict == PORTS_REPORTED;
}

/* Read once. Returns false if there was nothing. Without `message` the kernel writes less. */
static bool socket_read(struct socket_port *self, enum aqi_dgram_channel channel,
                        unsigned char *buffer, struct msghdr *message, size_t *len)
{
    struct msghdr blank;
    if (message != NULL) blank = *message;
    for (unsigned tries = 0; tries < BATCH; tries++) {
        ssize_t got = message == NULL ? recv(self->fd[channel], buffer, LARGEST, 0)
                                      : recvmsg(self->fd[channel], message, 0);
        if (got >= 0) {
            *len = (size_t)got;
            return true;
        }
        if (AQI_LIKELY(errno == EAGAIN) || !socket_reread(self, channel, errno)) return false;
        if (message != NULL) *message = blank;
    }
    return false;
}

/* As socket_take, one by one, for a socket that is connected to its one peer. */
static unsigned socket_take_one(struct socket_port *self, enum aqi_dgram_channel channel,
                                unsigned char *buffer, aqi_port_take *take, void *arg,
                                size_t *bytes)
{
    size_t len;
    if (!socket_read(self, channel, buffer, NULL, &len)) return 0;
    *bytes += len;
    take(arg, channel, &self->peer[channel], buffer, len, 0);
    return 1;
}

/* Read a packet, or several merged ones, and hand them over. Returns their number. */
static unsigned socket_take(struct socket_port *self, enum aqi_dgram_channel channel,
                            unsigned char *buffer, aqi_port_take *take, void *arg, size_t *bytes)
{
    union aqi_sockaddr at;
    struct aqi_dgram_addr from;
    unsigned char control[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct timespec))]
        __attribute__((aligned(alignof(size_t))));
    struct iovec all = {buffer, LARGEST};
    bool grouped = channel == AQI_DGRAM_DATA || self->gro || self->clock != 0;
    bool connected = atomic_load_explicit(&self->connected[channel], memory_order_acquire);
    if (connected && !grouped) return socket_take_one(self, channel, buffer, take, arg, bytes);
    struct msghdr message = {.msg_iov = &all, .msg_iovlen = 1};
    if (grouped) {
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
    }
    if (!connected) {
        message.msg_name = &at;
        message.msg_namelen = sizeof(at);
    }
    size_t len;
    if (!socket_read(self, channel, buffer, &message, &len)) return 0;
    uint64_t waited = socket_waited(self, &message);
    size_t segment = socket_segment(&message);
    if (segment == 0) segment = aqi_max(len, 1);
    if (!connected) ports_address_seen(&at, channel, &from);
    *bytes += len;
    unsigned n = 0;
    size_t offset = 0;
    do {
        size_t part = aqi_min(segment, len - offset);
        unsigned char *packet = buffer + offset;
        if (AQI_UNLIKELY(offset % 16 != 0)) { /* small packets that were merged */
            packet -= offset % 16;
            memmove(packet, buffer + offset, part);
        }
        take(arg, channel, connected ? &self->peer[channel] : &from, packet, part, waited);
        offset += part;
        n++;
    } while (offset < len);
    return n;
}

/*
 * GRO makes single messages and replies 5 % slower, and a flood 1.5 times as fast. Once it is off,
 * packets that were merged before can no longer be separated and are dropped, but these are only
 * those that arrived since the last poll, which found nothing.
 */
static AQI_COLD void socket_gro(struct socket_port *self, bool on, unsigned char *buffer)
{
    int fd = self->fd[AQI_DGRAM_COMMAND];
    size_t len;
    ports_options_set(fd, IPPROTO_UDP, UDP_GRO, on);
    self->gro = on;
    for (unsigned i = 0; !on && socket_read(self, AQI_DGRAM_COMMAND, buffer, NULL, &len); i++) {
        if (i < WARM) continue;
        socket_gro(self, true, buffer); /* they arrive faster than they can be dropped */
        self->company = CROWD;
        return;
    }
}

/* A poll of COMMAND found `n` packets; `empty`: it also found that there were no more. */
static void socket_company(struct socket_port *self, unsigned n, bool empty, unsigned char *buffer)
{
    if (n <= 1)
        self->company -= n != 0 && self->company != 0;
    else
        self->company = (unsigned)aqi_min(self->company + n, 2 * CROWD);
    if (AQI_UNLIKELY(!self->gro && self->company > CROWD)) socket_gro(self, true, buffer);
    if (AQI_UNLIKELY(self->gro && self->company == 0 && empty)) socket_gro(self, false, buffer);
}

static unsigned socket_drain(struct socket_port *self, enum aqi_dgram_channel channel,
                             unsigned char *buffer, aqi_port_take *take, void *arg)
{
    unsigned *streak = &self->streak[channel], n = 0, got = 0;
    size_t bytes = 0;
    /* Reading again delays the reply to a single message by a system call, so do it only if more
     * packets are expected. */
    unsigned most = *streak < STREAK && self->clock == 0 ? 1 : BATCH;
    for (unsigned i = 0; i < most && bytes < BATCH_BYTES; i++) {
        got = socket_take(self, channel, buffer, take, arg, &bytes);
        if (got == 0) break;
        n += got;
    }
    *streak = got == 0 ? 0 : *streak + 1;
    if (channel == AQI_DGRAM_COMMAND) socket_company(self, n, got == 0, buffer);
    return n;
}

/* Enable timestamps only while packets tend to wait here for long: they make a short round trip 3
 * to 10 % slower. */
static AQI_COLD void socket_stamp(struct socket_port *self, bool on)
{
    for (unsigned i = 0; i < AQI_DGRAM_CHANNELS; i++)
        ports_options_set(self->fd[i], SOL_SOCKET, SO_TIMESTAMPNS, on);
    self->stamped = on;
    self->dated = false;
}

static void socket_look(struct socket_port *self, enum aqi_port_look look)
{
    struct timespec now = {.tv_sec = 0};
    if (look == AQI_PORT_RARE) (void)clock_gettime(CLOCK_REALTIME, &now);
    self->clock = socket_ns(&now);
    if (AQI_LIKELY(self->rare == 0) || look == AQI_PORT_RARE || --self->rare != 0) return;
    if (self->stamped) socket_stamp(self, false);
}

static unsigned socket_receive(struct aqi_port *port, enum aqi_port_look look, aqi_port_take *take,
                               void *arg)
{
    struct socket_port *self = (struct socket_port *)port;
    if (self->nested == NESTING) return 0;
    uint64_t outer = self->clock;
    socket_look(self, look);
    unsigned char *buffer = self->buffer[self->nested++];
    unsigned n = socket_drain(self, AQI_DGRAM_COMMAND, buffer, take, arg), data = 0;
    if (look != AQI_PORT_SHORT || self->warm > 0) {
        data = socket_drain(self, AQI_DGRAM_DATA, buffer, take, arg);
        if (data > 0)
            self->warm = WARM;
        else if (self->warm > 0)
            self->warm--;
    }
    /* The next ones that wait will be timestamped. */
    if (AQI_UNLIKELY(look == AQI_PORT_RARE && n + data > 0)) {
        self->rare = (unsigned)aqi_min(self->rare + RARE, RARE_MOST);
        if (!self->stamped && self->rare > RARE) socket_stamp(self, true);
    }
    self->clock = outer;
    self->nested--;
    return n + data;
}

static unsigned socket_descriptors(struct aqi_port *port, int fds[2])
{
    const struct socket_port *self = (const struct socket_port *)port;
    memcpy(fds, self->fd, sizeof(self->fd));
    return AQI_DGRAM_CHANNELS;
}

/* --- errors --------------------------------------------------------------------------------- */

/* Take the next error of a socket; `*refused`: it reports that nothing listens at `at`. */
static bool socket_next_error(int fd, union aqi_sockaddr *at, bool *refused)
{
    unsigned char control[512] __attribute__((aligned(alignof(size_t))));
    unsigned char byte;
    struct iovec all = {&byte, 1}; /* qemu does nothing without one */
    struct msghdr message = {.msg_name = at,
                             .msg_namelen = sizeof(*at),
                             .msg_iov = &all,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    if (recvmsg(fd, &message, MSG_ERRQUEUE) < 0) return false;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
        bool six = c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR;
        if (!six && !(c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR)) continue;
        struct sock_extended_err error;
        memcpy(&error, CMSG_DATA(c), sizeof(error));
        *refused = error.ee_errno == ECONNREFUSED && error.ee_origin != SO_EE_ORIGIN_LOCAL;
    }
    return true;
}

static bool socket_refused(struct aqi_port *port, struct aqi_dgram_addr *addr)
{
    struct socket_port *self = (struct socket_port *)port;
    for (unsigned i = 0; i < AQI_DGRAM_CHANNELS; i++) {
        if (AQI_LIKELY(!atomic_load_explicit(&self->errors[i], memory_order_relaxed))) continue;
        union aqi_sockaddr at;
        bool refused = false;
        atomic_store_explicit(&self->errors[i], false, memory_order_relaxed);
        while (!refused && socket_next_error(self->fd[i], &at, &refused))
            continue;
        if (!refused) continue;
        ports_address_seen(&at, (enum aqi_dgram_channel)i, addr);
        atomic_store_explicit(&self->errors[i], true, memory_order_relaxed); /* there may be more */
        return true;
    }
    return false;
}

static bool socket_unreadable(struct aqi_port *port)
{
    struct socket_port *self = (struct socket_port *)port;
    if (AQI_LIKELY(!atomic_load_explicit(&self->unreadable, memory_order_relaxed))) return false;
    return atomic_exchange_explicit(&self->unreadable, false, memory_order_acquire);
}

static uint64_t socket_drops(struct aqi_port *port)
{
    struct socket_port *self = (struct socket_port *)port;
    uint64_t drops = atomic_load_explicit(&self->lost, memory_order_relaxed);
    for (unsigned i = 0; i < AQI_DGRAM_CHANNELS; i++)
        drops += ports_options_drops(self->fd[i]);
    return drops;
}

const struct aqi_port_ops aqi_port_socket = {
    .open = socket_open,
    .close = socket_close,
    .send = socket_send,
    .receive = socket_receive,
    .descriptors = socket_descriptors,
    .refused = socket_refused,
    .unreadable = socket_unreadable,
    .drops = socket_drops,
};
