/* udp: warnings of a peer that does not answer. */
#include "transport/udp/udp_impl.h"

#include "base/fail.h"
#include "base/log.h"
#include "base/settings.h"
#include "dgram/ports/interface.h"

#include <stdio.h>
#include <string.h>

enum { SILENCE_PEER = 96 };

/* Its addresses: "10.0.0.8:4021, 10.1.0.8:4021". */
static void udp_silence_peer(const struct udp_tp *udp, uint32_t id, char text[SILENCE_PEER])
{
    struct aqi_dgram_peer_info info;
    struct udp_job_addr announced;
    if (!udp->own.is_connection && udp_ways_announced(udp, id, &announced) == AQ_OK) {
        text[0] = '\0';
        for (unsigned i = 0; i < announced.count; i++) {
            char one[64];
            size_t used = strlen(text);
            ports_address_text(&announced.at[i], one, sizeof(one));
            snprintf(text + used, SILENCE_PEER - used, "%s%s", i != 0 ? ", " : "", one);
        }
    } else if (aqi_dgram_peer_info(udp->dgram, id, &info)) {
        ports_address_text(&info.addr, text, SILENCE_PEER);
    } else {
        snprintf(text, SILENCE_PEER, "an unknown address");
    }
}

/* Whether the peer has our address. Packets to it then go through loopback. */
static bool udp_silence_is_here(const struct udp_tp *udp, uint32_t id)
{
    struct aqi_dgram_addr at;
    return aqi_udp_test_port == NULL && udp_hook_lookup((void *)(uintptr_t)udp, id, &at) == AQ_OK &&
           ports_address_same_ip(&at, &udp->port->address);
}

/* Possible causes, and remedies. */
static const char *udp_silence_causes(const struct udp_tp *udp, uint32_t id)
{
    return udp_silence_is_here(udp, id)
               ? "it is on this host, and lo is down (\"ip link set lo up\"), a firewall drops "
                 "UDP, or that process is stopped"
               : "a firewall drops UDP, one of the addresses is in a network that the other host "
                 "cannot reach (AQ_UDP_INTERFACE chooses another), or that process is stopped; "
                 "\"aqinfo udp HOST\" tries it";
}

aq_status udp_check_loopback(struct udp_tp *udp, uint32_t id, const struct aqi_dgram_addr *addr)
{
    char peer[SILENCE_PEER];
    ports_address_text(addr, peer, sizeof(peer));
    if (udp->loopback_up || !udp_silence_is_here(udp, id)) return AQ_OK;
    if (ports_interface_loopback_is_down())
        return aqi_fail(AQ_EINVAL, "udp",
                        "peer %u is on this host, too: packets to its address, %s, go through the "
                        "loopback interface, which is down: \"ip link set lo up\", or use shared "
                        "memory instead (AQ_TRANSPORTS=auto, and no %s)",
                        id, peer, aqi_setting_variable("AQ_NEIGHBORHOOD"));
    udp->loopback_up = true;
    return AQ_OK;
}

void udp_hook_silent(void *arg, uint32_t id, uint64_t waited_ns)
{
    struct udp_tp *udp = arg;
    char peer[SILENCE_PEER], end[96] = "";
    struct aqi_dgram_peer_info info = {.reached = false};
    if (udp->silence_warned || !udp_paths_claim_warning(udp, id)) return;
    udp->silence_warned = true;
    udp_silence_peer(udp, id, peer);
    (void)aqi_dgram_peer_info(udp->dgram, id, &info);
    if (!info.reached && udp->params.reach_within_ns != 0)
        snprintf(end, sizeof(end),
                 ". If there is no answer, it counts as lost after %.3g s (AQ_START_TIMEOUT)",
                 (double)udp->params.reach_within_ns / 1e9);
    aqi_log(AQI_LOG_WARN, "udp",
            "nothing has arrived from peer %u at %s to %s (interface %s) for %.0f s%s: %s%s", id,
            peer, udp->port->limits.text, udp->port->limits.interface, (double)waited_ns / 1e9,
            info.reached ? ", although it was connected" : "", udp_silence_causes(udp, id), end);
}

void udp_hook_lost(void *arg, uint32_t id, enum aqi_dgram_loss loss, const char *why)
{
    struct udp_tp *udp = arg;
    struct udp_peer *peer = udp->peers[id];
    char at[SILENCE_PEER];
    if (peer == NULL || peer->lost) return;
    peer->lost = true;
    peer->unreached = loss == AQI_DGRAM_UNREACHED;
    udp_silence_peer(udp, id, at);
    if (!peer->unreached)
        snprintf(peer->why, sizeof(peer->why), "%s%s (at %s, from %s, interface %s)", why,
                 loss == AQI_DGRAM_SILENT ? " within AQ_UDP_DEAD_AFTER" : "", at,
                 udp->port->limits.text, udp->port->limits.interface);
    else
        snprintf(
            peer->why, sizeof(peer->why),
            "no answer arrived from %s to %s (interface %s) within %.3g s (AQ_START_TIMEOUT): %s",
            at, udp->port->limits.text, udp->port->limits.interface,
            (double)udp->params.reach_within_ns / 1e9, udp_silence_causes(udp, id));
    peer->next = udp->lost;
    udp->lost = peer;
}

void udp_silence_lose_all(struct udp_tp *udp)
{
    for (uint32_t id = 0; id < udp->params.size; id++) {
        if (udp->peers[id] == NULL || udp->peers[id]->lost) continue;
        aqi_dgram_down(udp->dgram, id);
        udp_hook_lost(udp, id, AQI_DGRAM_BROKEN, "this process can no longer receive anything");
        udp->peers[id]->unreached = true; /* nor will that peer notice: the job must end */
    }
}
