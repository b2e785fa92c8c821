/*
 * udp: the rendezvous with processes that were not started with ours. A listener is a UDP socket
 * that keeps no state for a caller until it has shown that it receives at its address (udp_call.h).
 * The caller then gets a socket of its own, the control channel (udp_channel.h).
 */
#include "base/clock.h"
#include "base/fail.h"
#include "base/kick.h"
#include "base/log.h"
#include "base/random.h"
#include "base/shmem.h"
#include "base/stats.h"
#include "base/timer.h"
#include "base/unforked.h"
#include "dgram/ports/interface.h"
#include "dgram/ports/options.h"
#include "dgram/ports/receive_error.h"
#include "transport/udp/udp_channel.h"
#include "transport/udp/udp_impl.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum {
    RENDEZVOUS_BATCH = 64, /* events, and packets of a listener, in one call of progress */
    RENDEZVOUS_FIRST_PAUSE = 5000000, /* ns; doubled with each try, RENDEZVOUS_DOUBLED times */
    RENDEZVOUS_DOUBLED = 6,
    RENDEZVOUS_ANEW = 10,         /* tries before requesting a new cookie */
    RENDEZVOUS_COOKIE_SHIFT = 33, /* a cookie is valid for 8 to 17 s */
    RENDEZVOUS_ROOM = 1 << 20, /* bytes of a listener's buffer: room for the calls of thousands */
    RENDEZVOUS_FAREWELL = 5000 /* ms that closing takes at most */
};
static const uint64_t rendezvous_first_timeout_ns = 5000000000; /* for the first message */

/* A packet at a listener, and the way back, from the address to which it was sent. */
struct rendezvous_packet {
    union aqi_sockaddr from;
    struct msghdr header;
    struct iovec iov;
    struct udp_call call;
    unsigned char bytes[sizeof(struct udp_call) + 1];
    alignas(struct cmsghdr) unsigned char control[128];
};

static void udp_rendezvous_set_timer(struct aqi_rendezvous *rendezvous, uint64_t at)
{
    if (at == rendezvous->timer_at) return;
    rendezvous->timer_at = at;
    aqi_timer_at(rendezvous->timer, at);
}

void udp_rendezvous_needs_turn(struct aqi_control_channel *channel)
{
    struct aqi_rendezvous *rendezvous = channel->rendezvous;
    udp_rendezvous_set_timer(rendezvous, aqi_min(rendezvous->timer_at, channel->due));
}

/* --- calling --------------------------------------------------------------------------------- */

/* Call the next address of the name; returns 0 or an errno. */
static int udp_rendezvous_dial(struct aqi_control_channel *channel)
{
    int error = EHOSTUNREACH;
    while (channel->name != NULL) {
        const struct addrinfo *to = channel->name;
        channel->name = to->ai_next;
        int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        error = fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen) != 0 ? errno : 0;
        if (error == 0 && udp_channel_socket(channel, fd) == AQ_OK) {
            channel->tries = 0;
            channel->due = 0;
            return 0;
        }
        if (error == 0) error = ENOBUFS;
        if (fd >= 0 && channel->end.fd != fd) close(fd);
    }
    return error;
}

static void udp_rendezvous_say(struct aqi_control_channel *channel, bool with_cookie)
{
    const struct aqi_rendezvous *rendezvous = channel->rendezvous;
    struct iovec iov = {.iov_base = &channel->call, .iov_len = sizeof(channel->call)};
    udp_call_seal(rendezvous->macs.proofs, &rendezvous->secret,
                  with_cookie ? UDP_CALL_CALL : UDP_CALL_KNOCK, &channel->call);
    (void)channel->port->ops->send(channel->port, AQI_DGRAM_COMMAND, &channel->port->address, &iov,
                                   1, iov.iov_len, 1);
}

static const uint8_t no_cookie[UDP_CALL_BYTES];

/* There is no listener at this address, or it cannot be reached: try the next one, if any. */
static void udp_rendezvous_unreachable(struct aqi_control_channel *channel)
{
    int error = udp_wire_error(channel->wire);
    char why[96];
    memset(channel->call.cookie, 0, sizeof(channel->call.cookie));
    if (udp_rendezvous_dial(channel) == 0) return;
    snprintf(why, sizeof(why), "it cannot be reached: %s", strerror(error));
    if (error == ECONNREFUSED)
        udp_channel_end(channel, AQ_EREFUSED, NULL);
    else
        udp_channel_end(channel, AQ_ESYS, why);
}

void udp_rendezvous_call(struct aqi_control_channel *channel)
{
    struct aqi_dgram_addr addr;
    uint64_t now = channel->rendezvous->now;
    if (channel->port->ops->refused(channel->port, &addr)) udp_rendezvous_unreachable(channel);
    if (channel->state != UDP_CHANNEL_CALLS || now < channel->due) return;
    if (channel->tries == RENDEZVOUS_ANEW) {
        memset(channel->call.cookie, 0, sizeof(channel->call.cookie));
        channel->tries = RENDEZVOUS_DOUBLED;
    }
    udp_rendezvous_say(channel, memcmp(channel->call.cookie, no_cookie, sizeof(no_cookie)) != 0);
    channel->due =
        now + ((uint64_t)RENDEZVOUS_FIRST_PAUSE << aqi_min(channel->tries, RENDEZVOUS_DOUBLED));
    channel->tries++;
}

/* The listener has taken the call: continue at another of its ports. */
static void udp_rendezvous_move(struct aqi_control_channel *channel, const struct udp_call *call)
{
    const struct aqi_rendezvous *rendezvous = channel->rendezvous;
    union aqi_sockaddr at;
    socklen_t len = sizeof(at);
    if (!udp_call_proved(rendezvous->macs.proofs, &rendezvous->secret, call)) {
        udp_channel_end(channel, AQ_EACCESS,
                        "the server has not proved that it knows our AQ_CONNECT_SECRET");
        return;
    }
    memcpy(channel->call.listener, call->listener, sizeof(call->listener));
    aq_status st = getpeername(channel->end.fd, &at.any, &len) == 0 ? AQ_OK : AQ_ESYS;
    if (st == AQ_OK) {
        *aqi_sockaddr_port(&at) = call->port;
        st = connect(channel->end.fd, &at.any, len) == 0 ? udp_channel_up(channel) : AQ_ESYS;
    }
    if (st != AQ_OK) udp_channel_end(channel, st, "cannot open its control channel");
}

/* Handle a packet from the listener. */
static void udp_rendezvous_answered(struct aqi_control_channel *channel, const void *bytes,
                                    size_t len)
{
    struct aqi_mac *mac = channel->rendezvous->macs.proofs;
    struct udp_call call;
    char why[200];
    bool other = udp_call_read_other(mac, bytes, len, &call) && call.kind == UDP_CALL_OTHER;
    if ((!other && !udp_call_read(mac, bytes, len, &call)) ||
        memcmp(call.caller, channel->call.caller, sizeof(call.caller)) != 0) {
        aqi_count(AQI_CTR_HELLO_DROPPED, 1);
        return;
    }
    switch (call.kind) {
    case UDP_CALL_COOKIE:
        if (memcmp(channel->call.cookie, call.cookie, sizeof(call.cookie)) == 0) break;
        memcpy(channel->call.cookie, call.cookie, sizeof(call.cookie));
        channel->tries = 0;
        channel->due = 0;
        break;
    case UDP_CALL_TAKEN:
        udp_rendezvous_move(channel, &call);
        break;
    case UDP_CALL_BUSY: /* call again as the same caller, as earlier calls may still be taken */
        channel->busy = true;
        break;
    case UDP_CALL_OTHER:
        if (!other) break;
        udp_call_differs(&call, "the server", why, sizeof(why));
        udp_channel_end(channel, AQ_EMISMATCH, why);
        break;
    case UDP_CALL_DENIED:
        udp_channel_end(channel, AQ_EACCESS,
                        "its AQ_CONNECT_SECRET differs from ours, or only one of the two has one");
        break;
    default:
        break;
    }
}

static void udp_rendezvous_take(void *arg, enum aqi_dgram_channel lane,
                                const struct aqi_dgram_addr *from, unsigned char *packet,
                                size_t len, uint64_t waited)
{
    struct aqi_control_channel *channel = arg;
    (void)lane, (void)from, (void)waited;
    channel->rendezvous->happened++;
    if (channel->dgram != NULL)
        udp_channel_input(channel, packet, len);
    else if (channel->state == UDP_CHANNEL_CALLS && !channel->closed)
        udp_rendezvous_answered(channel, packet, len);
}

/* --- being called ---------------------------------------------------------------------------- */

static void udp_rendezvous_cookie(const struct aqi_rendezvous *rendezvous,
                                  const struct rendezvous_packet *packet, uint64_t age,
                                  uint8_t cookie[UDP_CALL_BYTES])
{
    uint64_t period = (rendezvous->now >> RENDEZVOUS_COOKIE_SHIFT) - age;
    const struct iovec iov[] = {
        {.iov_base = &period, .iov_len = sizeof(period)},
        {.iov_base = (void *)(uintptr_t)&packet->from, .iov_len = packet->header.msg_namelen},
        {.iov_base = (void *)(uintptr_t)packet->call.caller, .iov_len = UDP_CALL_BYTES}};
    aqi_mac_for(rendezvous->macs.proofs, "udp cookie", rendezvous->cookies, iov, AQI_COUNT_OF(iov),
                cookie);
}

static bool udp_rendezvous_cookie_good(const struct aqi_rendezvous *rendezvous,
                                       const struct rendezvous_packet *packet)
{
    uint8_t cookie[UDP_CALL_BYTES];
    for (uint64_t age = 0; age < 2; age++) {
        udp_rendezvous_cookie(rendezvous, packet, age, cookie);
        if (aqi_mac_same(cookie, packet->call.cookie)) return true;
    }
    return false;
}

/* Send the same bytes back the same way: the control message with the address at which the packet
 * was received now selects the source address of the answer. */
static void udp_rendezvous_answer(struct aqi_listener *listener, struct rendezvous_packet *packet,
                                  enum udp_call_kind kind)
{
    const struct aqi_rendezvous *rendezvous = listener->rendezvous;
    udp_call_seal(rendezvous->macs.proofs, &rendezvous->secret, kind, &packet->call);
    packet->iov = (struct iovec){&packet->call, sizeof(packet->call)};
    (void)sendmsg(listener->end.fd, &packet->header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Get the address to which it was sent. */
static bool udp_rendezvous_own_address(struct msghdr *header, int family, union aqi_sockaddr *own)
{
    memset(own, 0, sizeof(*own));
    own->any.sa_family = (sa_family_t)family;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c != NULL; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO && family == AF_INET) {
            struct in_pktinfo info;
            memcpy(&info, CMSG_DATA(c), sizeof(info));
            own->v4.sin_addr = info.ipi_spec_dst;
            return true;
        }
        if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO && family == AF_INET6) {
            struct in6_pktinfo info;
            memcpy(&info, CMSG_DATA(c), sizeof(info));
            own->v6.sin6_addr = info.ipi6_addr;
            if (IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr)) own->v6.sin6_scope_id = info.ipi6_ifindex;
            return true;
        }
    }
    return false;
}

/* Open a socket from there to the caller; returns -1 on failure. */
static int udp_rendezvous_socket_to(struct rendezvous_packet *packet, in_port_t *port)
{
    union aqi_sockaddr own;
    socklen_t len = sizeof(own);
    int family = packet->from.any.sa_family;
    if (!udp_rendezvous_own_address(&packet->header, family, &own)) return -1;
    int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (bind(fd, &own.any, aqi_sockaddr_len(&own)) == 0 &&
        connect(fd, &packet->from.any, packet->header.msg_namelen) == 0 &&
        getsockname(fd, &own.any, &len) == 0) {
        *port = *aqi_sockaddr_port(&own);
        return fd;
    }
    close(fd);
    return -1;
}

/* Find the channel of this call. NULL: there is none; sets `*room` if there is room for it. */
static struct aqi_control_channel *udp_rendezvous_find(const struct aqi_rendezvous *rendezvous,
                                                       const struct rendezvous_packet *packet,
                                                       bool *room)
{
    unsigned all = 0, same = 0;
    union aqi_sockaddr host = packet->from;
    *aqi_sockaddr_port(&host) = 0;
    for (struct aqi_control_channel *c = rendezvous->channels; c != NULL; c = c->next) {
        if (c->caller) continue;
        if (memcmp(c->call.caller, packet->call.caller, UDP_CALL_BYTES) == 0) return c;
        /* A closed channel keeps its socket until the caller has acknowledged the end. */
        if (c->state != UDP_CHANNEL_TAKEN && !c->closed) continue;
        all++;
        same += memcmp(&c->host, &host, packet->header.msg_namelen) == 0;
    }
    unsigned most = udp_call_most(rendezvous->secret.is_set);
    *room = all < most && same < aqi_max(most / 4, UDP_CALL_EACH);
    return NULL;
}

/* Returns NULL if there is no room, no memory or no descriptor now. */
static struct aqi_control_channel *udp_rendezvous_make(struct aqi_listener *listener,
                                                       struct rendezvous_packet *packet)
{
    struct aqi_rendezvous *rendezvous = listener->rendezvous;
    struct aqi_control_channel *channel = udp_channel_new(rendezvous, false);
    if (channel == NULL) return NULL;
    channel->state = UDP_CHANNEL_TAKEN;
    channel->listener = listener;
    channel->call = packet->call;
    channel->host = packet->from;
    *aqi_sockaddr_port(&channel->host) = 0;
    channel->until = rendezvous->now + rendezvous_first_timeout_ns;
    int fd = udp_rendezvous_socket_to(packet, &channel->call.port);
    if (fd >= 0 && aqi_random(channel->call.listener, UDP_CALL_BYTES, "udp") == AQ_OK &&
        udp_channel_socket(channel, fd) == AQ_OK && udp_channel_up(channel) == AQ_OK) {
        udp_rendezvous_needs_turn(channel);
        return channel;
    }
    if (fd >= 0 && channel->end.fd != fd) close(fd);
    udp_channel_free(channel);
    return NULL;
}

/* Take a call from a caller that has shown that it receives at its address. */
static void udp_rendezvous_take_call(struct aqi_listener *listener,
                                     struct rendezvous_packet *packet)
{
    struct aqi_rendezvous *rendezvous = listener->rendezvous;
    bool room = false;
    if (!udp_call_proved(rendezvous->macs.proofs, &rendezvous->secret, &packet->call)) {
        aqi_count(AQI_CTR_HELLO_DROPPED, 1);
        udp_rendezvous_answer(listener, packet, UDP_CALL_DENIED);
        return;
    }
    struct aqi_control_channel *channel = udp_rendezvous_find(rendezvous, packet, &room);
    if (channel == NULL && room) channel = udp_rendezvous_make(listener, packet);
    if (channel != NULL) {
        packet->call.port = channel->call.port;
        memcpy(packet->call.listener, channel->call.listener, UDP_CALL_BYTES);
    }
    udp_rendezvous_answer(listener, packet, channel != NULL ? UDP_CALL_TAKEN : UDP_CALL_BUSY);
}

void udp_rendezvous_called(struct aqi_control_channel *channel, struct aqi_handshake *message)
{
    struct aqi_rendezvous *rendezvous = channel->rendezvous;
    const struct aqi_writer writer = {.uid = UINT32_MAX, .ours = rendezvous->secret.is_set};
    struct aqi_listener *listener = channel->listener;
    channel->state = UDP_CHANNEL_OPEN;
    channel->until = 0;
    channel->listener = NULL;
    channel->user =
        rendezvous->hooks.call(rendezvous->hooks.arg, listener->user, channel, &writer, message);
    if (channel->user == NULL) udp_channel_close(channel);
}

/* Whether there may be packets after an error. */
static AQI_COLD bool udp_rendezvous_deaf(int error)
{
    static atomic_bool once;
    const struct ports_receive_error *row = ports_receive_error(error);
    if (row->verdict >= PORTS_DEAF)
        aqi_log_once(&once, AQI_LOG_WARN, "udp", "cannot receive connection requests: %s; %s",
                     strerror(error), row->reason);
    return row->verdict == PORTS_REREAD || row->verdict == PORTS_REPORTED;
}

/* Answer a caller of another version; the first one is also reported here. */
static void udp_rendezvous_hear_other(struct aqi_listener *listener,
                                      struct rendezvous_packet *packet, size_t len)
{
    static atomic_bool once;
    char why[200];
    aqi_count(AQI_CTR_HELLO_DROPPED, 1);
    if (!udp_call_read_other(listener->rendezvous->macs.proofs, packet->bytes, len,
                             &packet->call) ||
        packet->call.kind != UDP_CALL_KNOCK)
        return;
    udp_call_differs(&packet->call, "the caller", why, sizeof(why));
    aqi_log_once(&once, AQI_LOG_WARN, "udp", "refused a connection request: %s", why);
    udp_rendezvous_answer(listener, packet, UDP_CALL_OTHER);
}

/* Read one packet. Returns false if there is none. */
static bool udp_rendezvous_hear(struct aqi_listener *listener)
{
    struct rendezvous_packet packet;
    memset(&packet.from, 0, sizeof(packet.from));
    packet.iov = (struct iovec){packet.bytes, sizeof(packet.bytes)};
    packet.header = (struct msghdr){.msg_name = &packet.from,
                                    .msg_namelen = sizeof(packet.from),
                                    .msg_iov = &packet.iov,
                                    .msg_iovlen = 1,
                                    .msg_control = packet.control,
                                    .msg_controllen = sizeof(packet.control)};
    ssize_t len = recvmsg(listener->end.fd, &packet.header, MSG_DONTWAIT);
    if (len < 0) return errno != EAGAIN && udp_rendezvous_deaf(errno);
    packet.header.msg_flags = 0;
    struct aqi_rendezvous *rendezvous = listener->rendezvous;
    rendezvous->happened++;
    bool good = udp_call_read(rendezvous->macs.proofs, packet.bytes, (size_t)len, &packet.call);
    if (good && packet.call.kind == UDP_CALL_KNOCK) {
        udp_rendezvous_cookie(rendezvous, &packet, 0, packet.call.cookie);
        udp_rendezvous_answer(listener, &packet, UDP_CALL_COOKIE);
    } else if (good && packet.call.kind == UDP_CALL_CALL &&
               udp_rendezvous_cookie_good(rendezvous, &packet)) {
        udp_rendezvous_take_call(listener, &packet);
    } else if (good) {
        aqi_count(AQI_CTR_HELLO_DROPPED, 1);
    } else {
        udp_rendezvous_hear_other(listener, &packet, (size_t)len);
    }
    return true;
}

bool udp_rendezvous_hear_all(struct aqi_rendezvous *rendezvous)
{
    bool heard = false;
    for (struct aqi_listener *l = rendezvous->listeners; l != NULL; l = l->next)
        for (unsigned n = 0; n < RENDEZVOUS_BATCH && udp_rendezvous_hear(l); n++)
            heard = true;
    return heard;
}

/* --- listening ------------------------------------------------------------------------------- */

/* Open a socket at one of the addresses; returns -1 with errno set on failure. */
static int udp_rendezvous_bind(const struct addrinfo *names)
{
    int fd = -1, error = EADDRNOTAVAIL;
    for (const struct addrinfo *at = names; at != NULL && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd >= 0) {
            bool six = at->ai_family == AF_INET6;
            if (six) ports_options_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
            ports_options_set(fd, six ? IPPROTO_IPV6 : IPPROTO_IP,
                              six ? IPV6_RECVPKTINFO : IP_PKTINFO, 1);
            ports_options_set(fd, SOL_SOCKET, SO_RCVBUF, RENDEZVOUS_ROOM);
            if (bind(fd, at->ai_addr, at->ai_addrlen) == 0) return fd;
        }
        error = errno;
        if (fd >= 0) close(fd);
        fd = -1;
    }
    errno = error;
    return fd;
}

/*
 * Get the URI that clients must call: a listener at all addresses names one that others can reach.
 */
static aq_status udp_rendezvous_name(int fd, char *uri)
{
    union aqi_sockaddr at;
    struct ports_interface interface;
    socklen_t len = sizeof(at);
    char text[AQI_SOCKADDR_TEXT];
    const char *wanted = udp_config.interface[0] != 0 ? udp_config.interface : NULL;
    if (getsockname(fd, &at.any, &len) != 0)
        return aqi_fail_errno(AQ_ESYS, errno, "udp", "cannot query the address of a listener");
    if (aqi_sockaddr_is_any(&at)) {
        in_port_t number = *aqi_sockaddr_port(&at);
        aq_status st = ports_interface_find(wanted, NULL, &interface);
        if (st != AQ_OK) return st;
        at = interface.address;
        *aqi_sockaddr_port(&at) = number;
    }
    snprintf(uri, AQI_URI_MAX, "udp://%s", aqi_sockaddr_text(&at, text));
    return AQ_OK;
}

static aq_status udp_rendezvous_listen_at(const char *uri, int *fd, char *uri_out)
{
    struct udp_uri where;
    struct addrinfo *names;
    if (!udp_uri_read(uri, &where)) return udp_uri_bad(uri);
    if (where.host[0] == 0) strcpy(where.host, "0.0.0.0");
    aq_status st = udp_group_is_not(uri, &where);
    if (st == AQ_OK) st = udp_uri_resolve(&where, true, &names);
    if (st != AQ_OK) return st;
    *fd = udp_rendezvous_bind(names);
    int error = errno;
    freeaddrinfo(names);
    if (*fd >= 0) return udp_rendezvous_name(*fd, uri_out);
    if (error == EADDRINUSE)
        return aqi_fail(
            AQ_ESTATE, "udp",
            "another program is listening at %s: end it, or listen at another port (0: any)", uri);
    if (error == EADDRNOTAVAIL)
        return aqi_fail(
            AQ_EINVAL, "udp",
            "%s is an address of another host: listen at one of this host, or at 0.0.0.0", uri);
    if (error == EMFILE || error == ENFILE) return aqi_fail_no_fd(error, "udp", "listening");
    return aqi_fail_errno(error == EACCES ? AQ_EACCESS : AQ_ESYS, error, "udp",
                          "cannot listen at %s", uri);
}

static aq_status udp_rendezvous_listen(struct aqi_rendezvous *rendezvous, const char *uri,
                                       void *user, struct aqi_listener **out, char *uri_out)
{
    char chosen[AQI_URI_MAX];
    struct aqi_listener *listener = calloc(1, sizeof(*listener));
    if (listener == NULL) return aqi_fail(AQ_ENOMEM, "udp", "no memory to listen");
    int fd = -1;
    aq_status st = udp_rendezvous_listen_at(
        uri != NULL && strcmp(uri, "udp:///") != 0 ? uri : "udp://", &fd, chosen);
    *listener = (struct aqi_listener){
        .end = {.listener = true, .fd = fd}, .rendezvous = rendezvous, .user = user};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &listener->end};
    if (st == AQ_OK && epoll_ctl(rendezvous->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        st = aqi_fail_no_fd(errno, "udp", "cannot watch a listener");
    if (st != AQ_OK) {
        if (fd >= 0) close(fd);
        free(listener);
        return st;
    }
    aqi_unforked_add(fd);
    udp_rendezvous_lock(rendezvous);
    listener->next = rendezvous->listeners;
    rendezvous->listeners = listener;
    if (rendezvous->answer.running) pthread_cond_signal(&rendezvous->answer.changed);
    udp_rendezvous_unlock(rendezvous);
    udp_interfaces_begin(listener);
    memcpy(uri_out, chosen, sizeof(chosen));
    *out = listener;
    return AQ_OK;
}

static void udp_rendezvous_unlisten(struct aqi_rendezvous *rendezvous,
                                    struct aqi_listener *listener)
{
    struct aqi_listener **at = &rendezvous->listeners;
    udp_rendezvous_lock(rendezvous);
    while (*at != listener)
        at = &(*at)->next;
    *at = listener->next;
    for (struct aqi_control_channel *c = rendezvous->channels; c != NULL; c = c->next) {
        if (c->listener != listener) continue;
        c->listener = NULL;
        udp_channel_close(c); /* its caller will call again, and find no listener */
        udp_rendezvous_needs_turn(c);
    }
    udp_rendezvous_unlock(rendezvous);
    /* Closing alone does not end the watch if a child made by a bare clone() holds the socket. */
    (void)epoll_ctl(rendezvous->epoll, EPOLL_CTL_DEL, listener->end.fd, NULL);
    aqi_unforked_close(listener->end.fd);
    free(listener);
    udp_interfaces_end(rendezvous);
}

/* --- progress -------------------------------------------------------------------------------- */

static void udp_rendezvous_receive(struct aqi_control_channel *channel)
{
    (void)channel->port->ops->receive(channel->port, AQI_PORT_DEEP, udp_rendezvous_take, channel);
    udp_channel_turn(channel);
}

/* Do what is due, and free channels that are done. */
static void udp_rendezvous_turns(struct aqi_rendezvous *rendezvous)
{
    uint64_t next = UINT64_MAX;
    for (struct aqi_control_channel *c = rendezvous->channels; c != NULL; c = c->next)
        if (c->due <= rendezvous->now) udp_channel_turn(c);
    for (struct aqi_control_channel *c = rendezvous->channels, *after; c != NULL; c = after) {
        after = c->next;
        if (udp_channel_done(c))
            udp_channel_free(c);
        else
            next = aqi_min(next, c->due);
    }
    udp_rendezvous_set_timer(rendezvous, next);
}

static unsigned udp_rendezvous_progress(struct aqi_rendezvous *rendezvous)
{
    struct epoll_event event;
    udp_rendezvous_lock(rendezvous);
    rendezvous->answer.calls++;
    rendezvous->now = aqi_now_ns();
    rendezvous->happened = 0;
    rendezvous->inside = true;
    unsigned n = 0;
    /* One at a time: handling one may end another. */
    for (; n < RENDEZVOUS_BATCH && epoll_wait(rendezvous->epoll, &event, 1, 0) == 1; n++) {
        struct udp_end *end = event.data.ptr;
        if (end == NULL) {
            (void)aqi_kick_take(rendezvous->timer);
            rendezvous->timer_at = UINT64_MAX; /* the time it was set for may be after `now` */
        } else if (end == &rendezvous->changes) {
            udp_interfaces_progress(rendezvous);
        } else if (end->listener) {
            (void)udp_rendezvous_hear((struct aqi_listener *)end);
        } else {
            udp_rendezvous_receive((struct aqi_control_channel *)end);
        }
    }
    if (n > 0 || rendezvous->timer_at <= rendezvous->now) udp_rendezvous_turns(rendezvous);
    rendezvous->inside = false;
    n = rendezvous->happened;
    udp_rendezvous_unlock(rendezvous);
    return n;
}

/* --- the other operations -------------------------------------------------------------------- */

/* Call the addresses in `names`, which the channel takes over. */
static aq_status udp_rendezvous_begin(struct aqi_rendezvous *rendezvous, struct addrinfo *names,
                                      const struct aqi_handshake *message, void *user,
                                      struct aqi_control_channel **out)
{
    aq_status st = AQ_OK;
    struct aqi_control_channel *channel = udp_channel_new(rendezvous, true);
    if (channel == NULL) {
        freeaddrinfo(names);
        return aqi_fail(AQ_ENOMEM, "udp", "no memory to connect");
    }
    rendezvous->now = aqi_now_ns();
    channel->user = user;
    channel->called = rendezvous->now;
    channel->names = channel->name = names;
    int error = udp_rendezvous_dial(channel);
    if (error == EMFILE || error == ENFILE)
        st = aqi_fail_no_fd(error, "udp", "cannot connect to another program");
    else if (error != 0)
        st = aqi_fail_errno(AQ_ESYS, error, "udp", "it cannot be reached");
    if (st == AQ_OK) st = aqi_random(channel->call.caller, UDP_CALL_BYTES, "udp");
    if (st == AQ_OK) st = udp_channel_write(channel, message);
    if (st != AQ_OK) {
        udp_channel_free(channel);
        return st;
    }
    udp_rendezvous_call(channel);
    udp_rendezvous_needs_turn(channel);
    *out = channel;
    return AQ_OK;
}

static aq_status udp_rendezvous_connect(struct aqi_rendezvous *rendezvous, const char *uri,
                                        const struct aqi_handshake *message, void *user,
                                        struct aqi_control_channel **out)
{
    struct udp_uri where = {.host = ""};
    (void)udp_uri_read(uri, &where); /* left empty if it is none */
    if (where.host[0] == '\0' || strcmp(where.port, "0") == 0) return udp_uri_bad(uri);
    if (message->nfds != 0)
        return aqi_fail(AQ_ENOTSUP, "udp", "descriptors cannot be passed to other hosts");
    struct addrinfo *names = NULL; /* finding them may take long, so without the lock */
    aq_status st = udp_uri_resolve(&where, false, &names);
    if (st != AQ_OK) return st;
    udp_rendezvous_lock(rendezvous);
    st = udp_rendezvous_begin(rendezvous, names, message, user, out);
    udp_rendezvous_unlock(rendezvous);
    return st;
}

static aq_status udp_rendezvous_send(struct aqi_control_channel *channel,
                                     const struct aqi_handshake *message)
{
    if (message->nfds != 0)
        return aqi_fail(AQ_ENOTSUP, "udp", "descriptors cannot be passed to other hosts");
    udp_rendezvous_lock(channel->rendezvous);
    channel->rendezvous->now = aqi_now_ns();
    aq_status st = udp_channel_write(channel, message);
    if (st == AQ_OK) {
        udp_channel_flush(channel);
        udp_rendezvous_needs_turn(channel);
    }
    udp_rendezvous_unlock(channel->rendezvous);
    return st;
}

static void udp_rendezvous_close_channel(struct aqi_control_channel *channel)
{
    struct aqi_rendezvous *rendezvous = channel->rendezvous;
    udp_rendezvous_lock(rendezvous);
    rendezvous->now = aqi_now_ns();
    udp_channel_close(channel);
    if (!rendezvous->inside && udp_channel_done(channel)) {
        udp_channel_free(channel);
    } else {
        udp_channel_flush(channel);
        udp_rendezvous_needs_turn(channel);
    }
    udp_rendezvous_unlock(rendezvous);
}

static void udp_rendezvous_close(struct aqi_rendezvous *rendezvous)
{
    struct pollfd fd = {.fd = rendezvous->epoll, .events = POLLIN};
    udp_answer_close(rendezvous);
    uint64_t now = aqi_now_ns(), until = now + RENDEZVOUS_FAREWELL * 1000000ull;
    while (rendezvous->listeners != NULL)
        udp_rendezvous_unlisten(rendezvous, rendezvous->listeners);
    rendezvous->now = now;
    rendezvous->leaving = true;
    for (struct aqi_control_channel *c = rendezvous->channels; c != NULL; c = c->next) {
        udp_channel_leave(c);
        udp_rendezvous_needs_turn(c);
    }
    /* The last messages must arrive: give peers that answer time for them. */
    for (; rendezvous->channels != NULL && now < until; now = aqi_now_ns()) {
        (void)poll(&fd, 1, (int)((until - now) / 1000000) + 1);
        (void)udp_rendezvous_progress(rendezvous);
    }
    while (rendezvous->channels != NULL)
        udp_channel_free(rendezvous->channels);
    aqi_macs_close(&rendezvous->macs);
    if (rendezvous->timer >= 0) close(rendezvous->timer);
    if (rendezvous->epoll >= 0) close(rendezvous->epoll);
    explicit_bzero(rendezvous, sizeof(*rendezvous));
    free(rendezvous);
}

static aq_status udp_rendezvous_open(const struct aqi_rendezvous_hooks *hooks,
                                     struct aqi_rendezvous **out)
{
    struct aqi_rendezvous *rendezvous = calloc(1, sizeof(*rendezvous));
    if (rendezvous == NULL)
        return aqi_fail(AQ_ENOMEM, "udp", "no memory for connections with other programs");
    rendezvous->hooks = *hooks;
    rendezvous->now = aqi_now_ns();
    rendezvous->timer_at = UINT64_MAX;
    rendezvous->epoll = epoll_create1(EPOLL_CLOEXEC);
    rendezvous->timer = aqi_timer_new();
    struct epoll_event event = {.events = EPOLLIN};
    aq_status st = AQ_OK;
    if (rendezvous->epoll < 0 || rendezvous->timer < 0 ||
        epoll_ctl(rendezvous->epoll, EPOLL_CTL_ADD, rendezvous->timer, &event) != 0)
        st = aqi_fail_no_fd(errno, "udp",
                            "cannot create the descriptors with which connections wait");
    if (st == AQ_OK) st = aqi_macs_open(&rendezvous->macs);
    if (st == AQ_OK) st = aqi_random(rendezvous->cookies, sizeof(rendezvous->cookies), "udp");
    if (st == AQ_OK)
        st = udp_secret_read(udp_config.secret, rendezvous->macs.proofs, &rendezvous->secret);
    udp_connection_set_secret(&rendezvous->secret);
    if (st != AQ_OK) {
        udp_rendezvous_close(rendezvous);
        return st;
    }
    udp_answer_open(rendezvous);
    *out = rendezvous;
    return AQ_OK;
}

static void udp_rendezvous_unanswered(struct aqi_control_channel *channel, char *why, size_t len)
{
    udp_rendezvous_lock(channel->rendezvous);
    udp_channel_unanswered(channel, why, len);
    udp_rendezvous_unlock(channel->rendezvous);
}

static bool udp_rendezvous_knows_writers(const struct aqi_rendezvous *rendezvous)
{
    return rendezvous->secret.is_set;
}

static int udp_rendezvous_wait_fd(struct aqi_rendezvous *rendezvous)
{
    return rendezvous->epoll;
}

const struct aqi_rendezvous_ops udp_rendezvous = {
    .wire = AQI_WIRE_UDP,
    .open = udp_rendezvous_open,
    .close = udp_rendezvous_close,
    .listen = udp_rendezvous_listen,
    .unlisten = udp_rendezvous_unlisten,
    .connect = udp_rendezvous_connect,
    .send = udp_rendezvous_send,
    .close_channel = udp_rendezvous_close_channel,
    .progress = udp_rendezvous_progress,
    .wait_fd = udp_rendezvous_wait_fd,
    .unanswered = udp_rendezvous_unanswered,
    .knows_writers = udp_rendezvous_knows_writers,
    .group = &udp_group,
    .lingers = true,
};
