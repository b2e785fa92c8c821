/* Changes of interfaces: the socket, and the parser of its messages. */
#include "dgram/ports/changes.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CHANGES_BATCH = 64,  /* maximum number of datagrams read in one call */
    CHANGES_BYTES = 8192 /* of a datagram; truncation of longer ones is detected */
};

/* --- the parser ------------------------------------------------------------------------------ */

/* Bytes to skip for an item that claims `says` bytes, and needs `need`; 0: it is truncated. */
static size_t changes_piece(size_t says, size_t need, size_t left)
{
    if (says < need || says > left) return 0;
    return aqi_min((says + 3) & ~(size_t)3, left);
}

static void changes_take_address(int family, const unsigned char *from, size_t len,
                                 struct ports_change *change)
{
    union aqi_sockaddr *at = &change->at;
    if (family == AF_INET && len == sizeof(at->v4.sin_addr))
        memcpy(&at->v4.sin_addr, from, len);
    else if (family == AF_INET6 && len == sizeof(at->v6.sin6_addr))
        memcpy(&at->v6.sin6_addr, from, len);
    else
        return;
    at->any.sa_family = (sa_family_t)family;
}

/* Our own address is LOCAL, if there is one, as ADDRESS is then that of the link's other end. */
static bool changes_read_address(const unsigned char *bytes, size_t len,
                                 struct ports_change *change)
{
    struct ifaddrmsg head;
    struct rtattr attr;
    bool local = false;
    if (len < sizeof(head)) return false;
    memcpy(&head, bytes, sizeof(head));
    change->index = head.ifa_index;
    for (size_t at = sizeof(head), skip; at + sizeof(attr) <= len; at += skip) {
        memcpy(&attr, bytes + at, sizeof(attr));
        skip = changes_piece(attr.rta_len, sizeof(attr), len - at);
        if (skip == 0) return false;
        if (attr.rta_type != IFA_LOCAL && (attr.rta_type != IFA_ADDRESS || local)) continue;
        local = attr.rta_type == IFA_LOCAL;
        changes_take_address(head.ifa_family, bytes + at + sizeof(attr),
                             attr.rta_len - sizeof(attr), change);
    }
    return true;
}

static bool changes_read_link(const unsigned char *bytes, size_t len, struct ports_change *change)
{
    struct ifinfomsg head;
    if (len < sizeof(head)) return false;
    memcpy(&head, bytes, sizeof(head));
    change->index = (uint32_t)head.ifi_index;
    return true;
}

enum ports_changes_next ports_changes_next(const unsigned char *bytes, size_t len, size_t *at,
                                           struct ports_change *change)
{
    struct nlmsghdr head;
    while (len - *at >= sizeof(head)) {
        memcpy(&head, bytes + *at, sizeof(head));
        size_t skip = changes_piece(head.nlmsg_len, sizeof(head), len - *at);
        if (skip == 0) return PORTS_CHANGES_BAD;
        const unsigned char *body = bytes + *at + sizeof(head);
        size_t n = head.nlmsg_len - sizeof(head);
        *at += skip;
        bool link = head.nlmsg_type == RTM_NEWLINK || head.nlmsg_type == RTM_DELLINK;
        bool address = head.nlmsg_type == RTM_NEWADDR || head.nlmsg_type == RTM_DELADDR;
        if (!link && !address) continue;
        memset(change, 0, sizeof(*change));
        bool good =
            link ? changes_read_link(body, n, change) : changes_read_address(body, n, change);
        return good ? PORTS_CHANGES_ONE : PORTS_CHANGES_BAD;
    }
    return *at == len ? PORTS_CHANGES_OVER : PORTS_CHANGES_BAD;
}

/* --- the socket ------------------------------------------------------------------------------ */

int ports_changes_open(void)
{
    const struct sockaddr_nl at = {.nl_family = AF_NETLINK,
                                   .nl_groups =
                                       RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) return -1;
    if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool changes_concern(const unsigned char *bytes, size_t len,
                            bool (*concerns)(void *arg, const struct ports_change *change),
                            void *arg)
{
    struct ports_change change;
    enum ports_changes_next next;
    size_t at = 0;
    while ((next = ports_changes_next(bytes, len, &at, &change)) == PORTS_CHANGES_ONE)
        if (concerns(arg, &change)) return true;
    return next == PORTS_CHANGES_BAD;
}

bool ports_changes_read(int fd, bool (*concerns)(void *arg, const struct ports_change *change),
                        void *arg)
{
    alignas(struct nlmsghdr) unsigned char bytes[CHANGES_BYTES];
    bool look = false;
    for (unsigned n = 0; n < CHANGES_BATCH; n++) {
        struct sockaddr_nl from = {.nl_family = AF_UNSPEC};
        struct iovec iov = {bytes, sizeof(bytes)};
        struct msghdr header = {
            .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1};
        ssize_t len = recvmsg(fd, &header, MSG_DONTWAIT);
        if (len < 0 && errno == EINTR) continue;
        if (len < 0 && errno != ENOBUFS) break;
        if (len < 0) /* some were lost */
            look = true;
        else if (from.nl_pid == 0) /* other programs can also send to it */
            look = look || (header.msg_flags & MSG_TRUNC) != 0 ||
                   changes_concern(bytes, (size_t)len, concerns, arg);
    }
    return look;
}
