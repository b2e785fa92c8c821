/*
 * udp: watching the interfaces of listeners. The kernel announces changes at one socket, which is
 * watched together with those of the listeners, so nothing is done while nothing changes. The
 * contents of an announcement only decide whether to read the list of all interfaces: the state
 * always comes from there, so lost announcements do no harm.
 */
#include "base/fail.h"
#include "base/log.h"
#include "base/unforked.h"
#include "dgram/ports/changes.h"
#include "transport/udp/udp_channel.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static const struct {
    aq_status status;
    const char *text;
} udp_interfaces_rows[] = {
    [PORTS_INTERFACE_UP] = {AQ_OK, "is up"},
    [PORTS_INTERFACE_NO_CARRIER] = {AQ_EPEER, "has no carrier"},
    [PORTS_INTERFACE_DOWN] = {AQ_ESTATE, "is down"},
    [PORTS_INTERFACE_GONE] = {AQ_EINVAL, "was removed, or has lost the address"},
};

/* Once only: after an event the descriptor is armed again if it is still ours, see below. */
static bool udp_interfaces_arm(struct aqi_rendezvous *rendezvous, int operation)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = &rendezvous->changes};
    return epoll_ctl(rendezvous->epoll, operation, rendezvous->changes.fd, &event) == 0;
}

static void udp_interfaces_open(struct aqi_rendezvous *rendezvous)
{
    int fd = rendezvous->changes.fd = ports_changes_open();
    if (fd >= 0 && udp_interfaces_arm(rendezvous, EPOLL_CTL_ADD)) {
        rendezvous->hears_changes = true;
        aqi_unforked_add(fd);
        return;
    }
    static atomic_bool once;
    aqi_log_once(&once, AQI_LOG_DEBUG, "udp", "cannot detect interfaces that go down: %s",
                 strerror(errno));
    if (fd >= 0) close(fd);
}

/* Update the state; returns whether it has changed. */
static bool udp_interfaces_look_at(struct aqi_listener *listener, const struct ifaddrs *all)
{
    struct udp_interface *interface = &listener->interface;
    enum ports_interface_state before = interface->state;
    interface->state = ports_interface_state(all, &interface->at, interface->name);
    if (interface->state != PORTS_INTERFACE_GONE)
        interface->index = if_nametoindex(interface->name);
    return interface->state != before;
}

/* Get its address; an IPv4 one even if the socket is an IPv6 one. */
static bool udp_interfaces_name(const struct aqi_listener *listener, union aqi_sockaddr *at)
{
    union aqi_sockaddr four = {.v4.sin_family = AF_INET};
    socklen_t len = sizeof(*at);
    if (getsockname(listener->end.fd, &at->any, &len) != 0) return false;
    if (at->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&at->v6.sin6_addr)) return true;
    memcpy(&four.v4.sin_addr, &at->v6.sin6_addr.s6_addr[12], sizeof(four.v4.sin_addr));
    *at = four;
    return true;
}

void udp_interfaces_begin(struct aqi_listener *listener)
{
    struct aqi_rendezvous *rendezvous = listener->rendezvous;
    struct ifaddrs *all;
    if (!rendezvous->hears_changes) udp_interfaces_open(rendezvous);
    if (!rendezvous->hears_changes || !udp_interfaces_name(listener, &listener->interface.at) ||
        getifaddrs(&all) != 0)
        return;
    (void)udp_interfaces_look_at(listener, all);
    freeifaddrs(all);
    listener->interface.watched = true;
}

void udp_interfaces_end(struct aqi_rendezvous *rendezvous)
{
    if (!rendezvous->hears_changes || rendezvous->listeners != NULL) return;
    rendezvous->hears_changes = false;
    (void)epoll_ctl(rendezvous->epoll, EPOLL_CTL_DEL, rendezvous->changes.fd, NULL);
    aqi_unforked_close(rendezvous->changes.fd);
}

static bool udp_interfaces_concerns(void *arg, const struct ports_change *change)
{
    const struct aqi_rendezvous *rendezvous = arg;
    for (const struct aqi_listener *l = rendezvous->listeners; l != NULL; l = l->next) {
        const struct udp_interface *interface = &l->interface;
        if (!interface->watched) continue;
        if (change->index == interface->index || aqi_sockaddr_is_any(&interface->at) ||
            aqi_sockaddr_same_ip(&change->at.any, &interface->at.any))
            return true;
    }
    return false;
}

static void udp_interfaces_report(struct aqi_listener *listener)
{
    struct aqi_rendezvous *rendezvous = listener->rendezvous;
    const struct udp_interface *interface = &listener->interface;
    char text[AQI_SOCKADDR_TEXT];
    rendezvous->happened++;
    aqi_log(AQI_LOG_INFO, "udp", "interface %s of the listener at %s %s", interface->name,
            aqi_sockaddr_text(&interface->at, text), udp_interfaces_rows[interface->state].text);
    if (rendezvous->hooks.interface != NULL)
        rendezvous->hooks.interface(rendezvous->hooks.arg, listener->user,
                                    udp_interfaces_rows[interface->state].status);
}

void udp_interfaces_progress(struct aqi_rendezvous *rendezvous)
{
    struct ifaddrs *all;
    /*
     * A program may have closed the descriptor, and its number may be that of another file by now,
     * from which nothing must be read. Unarmed it does not keep the process awake.
     */
    if (!udp_interfaces_arm(rendezvous, EPOLL_CTL_MOD)) return;
    if (!ports_changes_read(rendezvous->changes.fd, udp_interfaces_concerns, rendezvous)) return;
    if (getifaddrs(&all) != 0) {
        aqi_log(AQI_LOG_DEBUG, "udp", "cannot list the interfaces: %s", strerror(errno));
        return;
    }
    for (struct aqi_listener *l = rendezvous->listeners; l != NULL; l = l->next)
        if (l->interface.watched && udp_interfaces_look_at(l, all)) udp_interfaces_report(l);
    freeifaddrs(all);
}
