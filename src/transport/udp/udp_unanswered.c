/* udp: texts about calls of connections that were not answered in time. */
#include "base/log.h"
#include "dgram/ports/interface.h"
#include "transport/udp/udp_channel.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* ns; a little more than the default of AQ_CONN_TIMEOUT, which ends with an error. */
static const uint64_t unanswered_warn_after = 6000000000;

/* "10.0.0.7:4000 to 10.0.0.8:41234 (interface eth0)" */
static void udp_unanswered_ends(const struct aqi_control_channel *channel, char *text, size_t size)
{
    union aqi_sockaddr peer = {.any.sa_family = 0}, own = {.any.sa_family = 0};
    socklen_t peer_len = sizeof(peer), own_len = sizeof(own);
    char to[AQI_SOCKADDR_TEXT], from[AQI_SOCKADDR_TEXT], interface[IF_NAMESIZE];
    if (getpeername(channel->end.fd, &peer.any, &peer_len) != 0 ||
        getsockname(channel->end.fd, &own.any, &own_len) != 0) {
        snprintf(text, size, "its address");
        return;
    }
    ports_interface_named(&own, interface);
    snprintf(text, size, "%s to %s (interface %s)", aqi_sockaddr_text(&peer, to),
             aqi_sockaddr_text(&own, from), interface[0] != '\0' ? interface : "?");
}

void udp_channel_unanswered(const struct aqi_control_channel *channel, char *why, size_t len)
{
    char ends[2 * AQI_SOCKADDR_TEXT + 40];
    udp_unanswered_ends(channel, ends, sizeof(ends));
    if (udp_channel_reached(channel))
        snprintf(
            why, len,
            "the server exists, but does not accept: it computes without making calls, or is busy");
    else if (channel->dgram != NULL)
        snprintf(
            why, len,
            "the server exists, but nothing arrives from %s, the port of this connection: the "
            "server is stopped, or a firewall lets through only packets of the listener's port",
            ends);
    else if (channel->busy)
        snprintf(why, len,
                 "the server exists, but is full: too many connection requests wait for it, or it "
                 "is out of memory or descriptors (\"ulimit -n\" there)");
    else
        snprintf(why, len,
                 "no answer arrives from %s: no program is listening there, it is stopped or full, "
                 "or a firewall drops UDP; \"aqinfo udp HOST\" tries it",
                 ends);
}

void udp_channel_warn(struct aqi_control_channel *channel)
{
    struct aqi_rendezvous *rendezvous = channel->rendezvous;
    char why[320];
    if (rendezvous->now - channel->called < unanswered_warn_after) return;
    channel->called = 0;
    if (rendezvous->warned || channel->closed || udp_channel_reached(channel)) return;
    rendezvous->warned = true;
    udp_channel_unanswered(channel, why, sizeof(why));
    aqi_log(AQI_LOG_WARN, "udp", "still connecting to another program after %u s: %s",
            (unsigned)(unanswered_warn_after / 1000000000), why);
}
