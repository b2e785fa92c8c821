/* The listener for other hosts, its addresses, and rejected callers. */
#include "job/link_impl.h"

#include "base/clock.h"
#include "base/fail.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINK_LISTEN_ACCEPTS   16u         /* connections accepted per wakeup */
#define LINK_LISTEN_PAUSE_NS  100000000u  /* pause after descriptors have run out */
#define LINK_LISTEN_REPORT_NS 1000000000u /* interval of reports of strangers */
#define LINK_LISTEN_SHORT                                                                          \
    "connections from other hosts must wait: no file descriptor or memory is available"

void link_listen_report(struct aqi_links *links, const char *why)
{
    uint64_t now = aqi_now_ns();
    if (now < links->stranger_ns) {
        links->strangers_unreported++;
        return;
    }
    unsigned more = links->strangers_unreported;
    links->strangers_unreported = 0;
    links->stranger_ns = now + LINK_LISTEN_REPORT_NS;
    links->config.hooks->stranger(links->config.arg, why, more);
}

static void link_listen_drop_oldest(struct aqi_links *links, const char *why)
{
    struct aqi_node *at = links->all.next;
    while (at != &links->all && AQI_OF(at, struct aqi_link, node)->state != LINK_STRANGER)
        at = at->next;
    if (at != &links->all) link_doom(AQI_OF(at, struct aqi_link, node), AQ_ELIMIT, "%s", why);
}

static void link_listen_accepted(struct aqi_links *links, int fd, const union aqi_sockaddr *from)
{
    const struct aqi_seal_call own = {.to = links->config.host};
    if (links->strangers >= AQI_LINK_STRANGERS)
        link_listen_drop_oldest(links, "too many connections have not proved yet that they belong "
                                       "to this job: closing the oldest");
    struct aqi_link *link = link_new(links, LINK_STRANGER);
    if (link == NULL) {
        close(fd);
        return;
    }
    aqi_sockaddr_text(from, link->name);
    link->deadline_ns = aqi_now_ns() + links->config.prove_ns;
    link_due(links, link->deadline_ns);
    link_begin(link, fd, AQI_SEAL_LISTENER, &own);
}

/* Pause: accepting would fail until descriptors are closed. */
static void link_listen_pause(struct aqi_links *links)
{
    link_listen_drop_oldest(links,
                            "no file descriptor or memory is available: closing the oldest "
                            "connection that has not proved yet that it belongs to this job");
    aqi_source_watch(&links->listener, 0);
    links->listen_ns = aqi_now_ns() + LINK_LISTEN_PAUSE_NS;
    link_due(links, links->listen_ns);
    link_listen_report(links, LINK_LISTEN_SHORT);
}

static void link_listen_ready(struct aqi_source *source)
{
    struct aqi_links *links = AQI_OF(source, struct aqi_links, listener);
    for (unsigned i = 0; i < LINK_LISTEN_ACCEPTS; i++) {
        union aqi_sockaddr from;
        socklen_t len = sizeof(from);
        memset(&from, 0, sizeof(from));
        int fd = accept4(source->fd, &from.any, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            link_listen_accepted(links, fd, &from);
        } else if (aqi_lacks_descriptors(errno)) {
            link_listen_pause(links);
            return;
        } else if (errno == EAGAIN) {
            return;
        } /* any other error concerns only that connection */
    }
}

uint64_t link_listen_tick(struct aqi_links *links, uint64_t now)
{
    if (now < links->listen_ns) return links->listen_ns;
    links->listen_ns = UINT64_MAX;
    aqi_source_watch(&links->listener, EPOLLIN);
    return UINT64_MAX;
}

/* "" is 0-0: any free port. Blanks and signs, which strtoul would accept, are less than '0'. */
static bool link_listen_range(const char *text, unsigned long *first, unsigned long *last)
{
    char *end;
    *first = *last = 0;
    if (*text == '\0') return true;
    if (*text < '0') return false;
    *first = *last = strtoul(text, &end, 10);
    if (*end == '-' && end[1] >= '0') *last = strtoul(end + 1, &end, 10);
    return *end == '\0' && *first >= 1 && *first <= *last && *last <= UINT16_MAX;
}

/* Bind a new socket to the port. Returns an errno, or 0. */
static int link_listen_bind(bool only_v4, uint16_t port, int *out)
{
    union aqi_sockaddr any;
    int off = 0;
    memset(&any, 0, sizeof(any));
    any.any.sa_family = only_v4 ? AF_INET : AF_INET6;
    *aqi_sockaddr_port(&any) = htons(port);
    int fd = socket(any.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return errno;
    link_keep_short(fd);
    if ((!only_v4 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0) ||
        bind(fd, &any.any, aqi_sockaddr_len(&any)) != 0 || listen(fd, SOMAXCONN) != 0) {
        int error = errno;
        close(fd);
        return error;
    }
    *out = fd;
    return 0;
}

static int link_listen_on(struct aqi_links *links, unsigned long port, int *fd)
{
    int error = links->only_v4 ? EAFNOSUPPORT : link_listen_bind(false, (uint16_t)port, fd);
    if (error != EAFNOSUPPORT && error != EADDRNOTAVAIL) return error;
    links->only_v4 = true; /* there is no IPv6 on this host */
    return link_listen_bind(true, (uint16_t)port, fd);
}

aq_status aqi_links_listen(struct aqi_links *links, const char *ports)
{
    unsigned long first, last;
    union aqi_sockaddr bound;
    socklen_t len = sizeof(bound);
    int fd = -1, error = EADDRINUSE;
    if (!link_listen_range(ports, &first, &last))
        return aqi_fail(
            AQ_ESETTING, "job",
            "AQ_CONTROL_PORTS=%s: give a range of ports from 1 to 65535, such as 40000-40099",
            ports);
    for (unsigned long i = first; i <= last && error == EADDRINUSE; i++)
        error = link_listen_on(links, i, &fd);
    if (error == EADDRINUSE)
        return aqi_fail(AQ_ELIMIT, "job",
                        "all ports of AQ_CONTROL_PORTS=%s are in use on this host: widen the range "
                        "(each job needs one port)",
                        ports);
    if (error == 0 && getsockname(fd, &bound.any, &len) != 0) error = errno;
    if (error != 0) {
        if (fd >= 0) close(fd);
        return aqi_fail_errno(AQ_ESYS, error, "job", "cannot listen for other hosts (port %s)",
                              first != 0 ? ports : "any");
    }
    aqi_source_open(&links->listener, fd, link_listen_ready);
    aqi_source_watch(&links->listener, EPOLLIN);
    links->port = ntohs(*aqi_sockaddr_port(&bound));
    return AQ_OK;
}

/* The preference for offering an address; 0: not offered. */
static unsigned link_listen_worth(const struct aqi_links *links, const struct ifaddrs *at)
{
    unsigned rank = aqi_sockaddr_rank(at->ifa_addr);
    enum aqi_interface_rank interface = aqi_interface_rank(at->ifa_name, at->ifa_flags);
    if (rank == 0 || interface == AQI_INTERFACE_NEVER) return 0;
    if (links->only_v4 && at->ifa_addr->sa_family != AF_INET) return 0;
    return 4 * interface + rank;
}

enum { WORTH_LOOPBACK = 4 * AQI_INTERFACE_LOOPBACK + 3, WORTH_MAX = 4 * AQI_INTERFACE_REAL + 3 };

/* Add addresses of this preference while there is room; returns whether there was one. */
static bool link_listen_add(const struct aqi_links *links, const struct ifaddrs *all,
                            unsigned worth, char *text, size_t len)
{
    bool added = false;
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        union aqi_sockaddr at;
        char one[AQI_SOCKADDR_TEXT];
        if (link_listen_worth(links, i) != worth) continue;
        memset(&at, 0, sizeof(at));
        memcpy(&at, i->ifa_addr,
               i->ifa_addr->sa_family == AF_INET6 ? sizeof(at.v6) : sizeof(at.v4));
        *aqi_sockaddr_port(&at) = htons(links->port);
        aqi_sockaddr_text(&at, one);
        if (strlen(text) + strlen(one) + 2 > len) break;
        aqi_append(text, len, "%s%s", text[0] != '\0' ? "," : "", one);
        added = true;
    }
    return added;
}

aq_status aqi_links_offer(struct aqi_links *links, char *text, size_t len)
{
    struct ifaddrs *all = NULL;
    bool any = false;
    if (links->port == 0)
        return aqi_fail(AQ_ESTATE, "job", "aqi_links_offer was called before aqi_links_listen");
    if (getifaddrs(&all) != 0)
        return aqi_fail_errno(AQ_ESYS, errno, "job", "cannot list the addresses of this host");
    text[0] = '\0';
    for (unsigned worth = WORTH_MAX; worth > 0; worth--)
        if (!any || worth > WORTH_LOOPBACK) any |= link_listen_add(links, all, worth, text, len);
    freeifaddrs(all);
    if (!any)
        return aqi_fail(
            AQ_ENOTSUP, "job",
            "no interface of this host is up and has an address, so other hosts cannot reach it");
    return AQ_OK;
}
