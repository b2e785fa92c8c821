/*
 * Datagrams to and from a multicast group. They are sent through a connected socket, which receives
 * nothing, and received by a socket bound to the group's address, to which the kernel delivers
 * nothing else.
 */
#include "dgram/ports/multicast.h"

#include "base/fail.h"
#include "base/log.h"
#include "base/shmem.h"
#include "base/unforked.h"
#include "dgram/ports/options.h"
#include "dgram/ports/receive_error.h"
#include "dgram/ports/send_error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

bool ports_multicast_is_group(const union aqi_sockaddr *at)
{
    return at->any.sa_family == AF_INET6
               ? IN6_IS_ADDR_MULTICAST(&at->v6.sin6_addr)
               : at->any.sa_family == AF_INET && IN_MULTICAST(ntohl(at->v4.sin_addr.s_addr));
}

/* --- opening --------------------------------------------------------------------------------- */

/* Loopback carries multicast, though its flags do not show it. */
static aq_status multicast_check_interface(const struct ports_multicast *self)
{
    const char *name = self->interface.name;
    if ((self->interface.flags & (IFF_MULTICAST | IFF_LOOPBACK)) != 0) return AQ_OK;
    return aqi_fail(AQ_EINVAL, "udp",
                    "group %s: interface %s does not carry multicast: \"ip link set %s multicast "
                    "on\", or name another interface with AQ_UDP_INTERFACE",
                    self->text, name, name);
}

static aq_status multicast_find_interface(struct ports_multicast *self, const char *wanted)
{
    char host[INET6_ADDRSTRLEN];
    bool six = self->group.any.sa_family == AF_INET6;
    aq_status st = ports_interface_find(wanted, aqi_sockaddr_ip_text(&self->group.any, host),
                                        &self->interface);
    if (st == AQ_OK) st = multicast_check_interface(self);
    if (st != AQ_OK) return st;
    /* The size of the headers depends on the group's family. */
    self->interface.address.any.sa_family = self->group.any.sa_family;
    if (six) self->group.v6.sin6_scope_id = self->interface.index;
    return AQ_OK;
}

static aq_status multicast_socket(const struct ports_multicast *self, int *out)
{
    int fd = socket(self->group.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return aqi_fail_no_fd(errno, "udp", "cannot open the socket of a group");
    aqi_unforked_add(fd);
    *out = fd;
    return AQ_OK;
}

static aq_status multicast_open_out(struct ports_multicast *self, unsigned hops)
{
    aq_status st = multicast_socket(self, &self->out);
    if (st != AQ_OK) return st;
    bool six = self->group.any.sa_family == AF_INET6;
    int fd = self->out, level = six ? IPPROTO_IPV6 : IPPROTO_IP;
    const struct ip_mreqn by = {.imr_ifindex = (int)self->interface.index};
    ports_options_whole(fd, self->group.any.sa_family);
    ports_options_set(fd, level, six ? IPV6_MULTICAST_HOPS : IP_MULTICAST_TTL, (int)hops);
    ports_options_set(fd, level, six ? IPV6_MULTICAST_LOOP : IP_MULTICAST_LOOP, 1);
    if (six)
        ports_options_set(fd, level, IPV6_MULTICAST_IF, by.imr_ifindex);
    else
        (void)setsockopt(fd, level, IP_MULTICAST_IF, &by, sizeof(by));
    if (connect(fd, &self->group.any, aqi_sockaddr_len(&self->group)) == 0) return AQ_OK;
    return aqi_fail_errno(
        errno == EACCES || errno == EPERM ? AQ_EACCESS : AQ_ESYS, errno, "udp",
        "cannot send to group %s through interface %s: %s, or name another interface with "
        "AQ_UDP_INTERFACE",
        self->text, self->interface.name,
        six ? "create a route for groups with \"ip -6 route add ff00::/8 dev INTERFACE table "
              "local\""
            : "create a route for groups with \"ip route add 224.0.0.0/4 dev INTERFACE\"");
}

static aq_status multicast_join(const struct ports_multicast *self)
{
    int error;
    if (self->group.any.sa_family == AF_INET6) {
        const struct ipv6_mreq to = {.ipv6mr_multiaddr = self->group.v6.sin6_addr,
                                     .ipv6mr_interface = self->interface.index};
        error = setsockopt(self->in, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &to, sizeof(to));
    } else {
        const struct ip_mreqn to = {.imr_multiaddr = self->group.v4.sin_addr,
                                    .imr_ifindex = (int)self->interface.index};
        error = setsockopt(self->in, IPPROTO_IP, IP_ADD_MEMBERSHIP, &to, sizeof(to));
    }
    if (error == 0) return AQ_OK;
    return aqi_fail_errno(AQ_ESYS, errno, "udp", "cannot join group %s at interface %s%s",
                          self->text, self->interface.name,
                          errno == ENOBUFS
                              ? ", which is in too many groups: raise net.ipv4.igmp_max_memberships"
                              : "");
}

static aq_status multicast_open_in(struct ports_multicast *self, size_t buffer)
{
    aq_status st = multicast_socket(self, &self->in);
    if (st != AQ_OK) return st;
    bool six = self->group.any.sa_family == AF_INET6;
    ports_options_set(self->in, SOL_SOCKET, SO_REUSEADDR, 1);
    /* Ignore datagrams from other interfaces at which other sockets of this host have joined the
     * group. */
    ports_options_set(self->in, six ? IPPROTO_IPV6 : IPPROTO_IP,
                      six ? IPV6_MULTICAST_ALL : IP_MULTICAST_ALL, 0);
    (void)ports_options_receive_buffer(self->in, buffer);
    if (bind(self->in, &self->group.any, aqi_sockaddr_len(&self->group)) == 0)
        return multicast_join(self);
    if (errno == EADDRINUSE)
        return aqi_fail(AQ_ESTATE, "udp",
                        "group %s: another program uses this port and does not share it: end that "
                        "program, or use another port",
                        self->text);
    return aqi_fail_errno(errno == EACCES ? AQ_EACCESS : AQ_ESYS, errno, "udp",
                          "group %s: cannot receive there", self->text);
}

aq_status ports_multicast_open(struct ports_multicast *self,
                               const struct ports_multicast_params *params)
{
    memset(self, 0, sizeof(*self));
    self->out = self->in = -1;
    self->group = *params->group;
    (void)aqi_sockaddr_text(&self->group, self->text);
    if (!ports_multicast_is_group(&self->group))
        return aqi_fail(AQ_EINVAL, "udp",
                        "%s is the address of one host: group addresses are 224.0.0.0 to "
                        "239.255.255.255, and ff00::/8 with IPv6",
                        self->text);
    if (*aqi_sockaddr_port(&self->group) == 0)
        return aqi_fail(AQ_EINVAL, "udp",
                        "group %s has no port: all members must name the same one", self->text);
    aq_status st = multicast_find_interface(self, params->interface);
    if (st == AQ_OK) st = ports_interface_packet(&self->interface, params->packet, &self->packet);
    if (st == AQ_OK && params->receives) st = multicast_open_in(self, params->buffer);
    if (st == AQ_OK && params->sends) st = multicast_open_out(self, params->hops);
    return st;
}

void ports_multicast_close(struct ports_multicast *self)
{
    if (self->out >= 0) aqi_unforked_close(self->out);
    if (self->in >= 0) aqi_unforked_close(self->in);
    self->out = self->in = -1;
}

/* --- sending and receiving ------------------------------------------------------------------- */

static AQI_COLD aq_status multicast_unsent(const struct ports_multicast *self, int error)
{
    const struct ports_send_error *row = ports_send_error(error);
    if (error == ENOBUFS) return AQ_OK;
    return aqi_fail_errno(error == EPERM || error == EACCES ? AQ_EACCESS : AQ_ESYS, error, "udp",
                          "cannot send to group %s through interface %s: %s", self->text,
                          self->interface.name, row->advice != NULL ? row->advice : row->reason);
}

aq_status ports_multicast_send(const struct ports_multicast *self, const struct iovec *iov,
                               unsigned niov)
{
    const struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = niov};
    for (unsigned tries = 0;; tries++) {
        if (AQI_LIKELY(sendmsg(self->out, &message, MSG_NOSIGNAL) >= 0)) return AQ_OK;
        int error = errno;
        const struct ports_send_error *row = ports_send_error(error);
        if (row->verdict == PORTS_NO_ROOM) return AQ_AGAIN;
        if (row->verdict == PORTS_REPEAT || (!row->final && tries == 0)) continue;
        return multicast_unsent(self, error);
    }
}

aq_status ports_multicast_receive(const struct ports_multicast *self, void *buf, size_t size,
                                  size_t *len)
{
    static atomic_bool once;
    for (unsigned tries = 0;; tries++) {
        ssize_t got = recv(self->in, buf, size, MSG_DONTWAIT);
        if (AQI_LIKELY(got >= 0)) {
            *len = (size_t)got;
            return AQ_OK;
        }
        int error = errno;
        if (AQI_LIKELY(error == EAGAIN)) return AQ_AGAIN;
        const struct ports_receive_error *row = ports_receive_error(error);
        if (row->verdict >= PORTS_DEAF)
            aqi_log_once(&once, AQI_LOG_WARN, "udp", "group %s: cannot receive: %s; %s", self->text,
                         strerror(error), row->reason);
        if (row->verdict == PORTS_GONE) return AQ_ESYS;
        if (row->verdict == PORTS_NOTHING || row->verdict == PORTS_DEAF || tries != 0)
            return AQ_AGAIN;
    }
}

uint64_t ports_multicast_drops(const struct ports_multicast *self)
{
    return self->in >= 0 ? ports_options_drops(self->in) : 0;
}
