/* udp: its environment variables. */
#include "base/settings.h"
#include "transport/udp/udp_impl.h"

#include <stdlib.h>
#include <string.h>

struct udp_config udp_config;
const struct aqi_port_ops *aqi_udp_test_port;

static const char *const auths[] = {"cookie", "mac", NULL};
static const char *const ports[] = {[UDP_PORT_SOCKET] = "socket", [UDP_PORT_XDP] = "xdp", NULL};

#define SECOND 1000000000ull

static const struct aqi_setting rows[] = {
    {.name = "AQ_UDP_INTERFACE",
     .def = "",
     .doc = "The network interface that udp uses, by its name or one of its addresses. If empty: "
            "all that may lead to other hosts and have addresses of one family; each pair of hosts "
            "uses the first in the system's list that carries packets, and switches to another if "
            "it no longer does. In a job on one host: loopback.",
     .advice = "Name the fastest one if a host has several, such as eth1 or 10.0.0.7.",
     AQI_SETTING_IN(TEXT, struct udp_config, interface)},
    {.name = "AQ_UDP_PORT",
     .def = "socket",
     .doc = "How small packets are sent and received: socket, through the kernel's network stack; "
            "xdp, bypassing it (AF_XDP), which shortens their round trip by a third. All other "
            "packets go through sockets. Only one process per interface can use xdp: further "
            "processes of a host, and connections by URI, use sockets.",
     .advice = "Set xdp for one process per host or interface, in one IPv4 network, with CAP_BPF, "
               "CAP_NET_ADMIN and CAP_NET_RAW; \"aqinfo udp\" shows what is missing.",
     .choices = ports,
     AQI_SETTING_IN(CHOICE, struct udp_config, port)},
    {.name = "AQ_UDP_MTU",
     .def = "0",
     .doc = "The size of the largest packet, including the IP and UDP headers, at least 604; 0: "
            "the MTU of the interface.",
     .advice = "Lower it if a warning says that a path carries less than the interface.",
     .unit = "bytes",
     .max = 65535,
     AQI_SETTING_IN(BYTES, struct udp_config, mtu)},
    {.name = "AQ_UDP_BUFFER",
     .def = "4M",
     .doc = "The size of the kernel's buffer for packets that the process has not read yet; the "
            "kernel may grant less.",
     .advice = "Raise it, together with net.core.rmem_max, if AQ_STATS shows packets_no_room "
               "because processes compute for a long time between calls.",
     .unit = "bytes",
     .min = 64 << 10,
     .max = 1 << 30,
     AQI_SETTING_IN(BYTES, struct udp_config, buffer)},
    {.name = "AQ_UDP_RTO_MAX",
     .def = "250ms",
     .doc = "The longest timeout after which unacknowledged packets are retransmitted, and the "
            "interval of queries to a silent peer.",
     .unit = "ms",
     .min = 1000000,
     .max = 600 * SECOND,
     AQI_SETTING_IN(TIME, struct udp_config, rto_max_ns)},
    {.name = "AQ_UDP_IDLE_CLOSE",
     .def = "60s",
     .doc = "A connection without traffic for this long is closed, which frees its memory, and is "
            "re-established when it is needed; 0: never.",
     .advice = "Set a few seconds in jobs of thousands of processes that each communicate with "
               "many others in turn.",
     .unit = "s",
     .max = 86400 * SECOND,
     AQI_SETTING_IN(TIME, struct udp_config, idle_close_ns)},
    {.name = "AQ_UDP_DEAD_AFTER",
     .def = "0",
     .doc = "A peer that owes an answer and is silent for this long, at least 100 ms, counts as "
            "lost; 0: only the launcher declares peers dead. A peer that computes without making "
            "calls is not silent.",
     .advice = "Set a few seconds if the launcher cannot detect that a host is gone.",
     .unit = "s",
     .max = 86400 * SECOND,
     AQI_SETTING_IN(TIME, struct udp_config, dead_after_ns)},
    {.name = "AQ_UDP_AUTH",
     .def = "cookie",
     .doc = "Protection against outsiders: cookie, every packet contains a secret number of its "
            "connection, which others with access to the packets can copy; mac, every packet "
            "contains a keyed hash.",
     .advice = "Set mac if others may read or send packets on the network.",
     .choices = auths,
     .same = true,
     AQI_SETTING_IN(CHOICE, struct udp_config, auth)},
    {.name = "AQ_CONNECT_SECRET",
     .def = "",
     .doc = "Where to read the secret, of at least 16 bytes, that both sides of a connection over "
            "a network must know: file:PATH, readable only by the user, or fd:NUMBER, an inherited "
            "descriptor. If empty: there is no secret.",
     .advice = "Set it if programs connect over a network that they share with others "
               "(docs/security.md).",
     AQI_SETTING_IN(TEXT, struct udp_config, secret)},
    {.name = "AQ_UDP_KEEPALIVE",
     .def = "10s",
     .doc = "A connection by URI is lost when its peer has been silent for this long in spite of "
            "queries; 0: silence has no effect. A peer that computes without making calls is not "
            "silent.",
     .advice = "Lower it to detect lost hosts sooner.",
     .unit = "s",
     .max = 86400 * SECOND,
     AQI_SETTING_IN(TIME, struct udp_config, keepalive_ns)},
    {.name = "AQ_UDP_MULTICAST_TTL",
     .def = "1",
     .doc = "How far messages to a multicast group go: 1, to hosts of the same network; N, "
            "through up to N - 1 routers that forward multicast.",
     .min = 1,
     .max = 255,
     AQI_SETTING_IN(COUNT, struct udp_config, multicast_ttl)},
    {.name = "AQ_UDP_LOSSY",
     .def = "",
     .doc = "For tests: mistreat outgoing packets, except those to groups: how many packets in "
            "1000 to lose, duplicate, delay and alter, such as "
            "loss=10,dup=5,reorder=5,corrupt=1,seed=1. Only AQ_UDP_AUTH=mac detects altered ones.",
     AQI_SETTING_IN(TEXT, struct udp_config, lossy)},
};

static const char *const gone[] = {"AQ_UDP_ACK_DELAY", "AQ_UDP_RTO_MIN", "AQ_UDP_WINDOW", NULL};

struct aqi_settings_table aqi_udp_settings = {
    .group = "udp", .rows = rows, .count = AQI_COUNT_OF(rows), .values = &udp_config, .gone = gone};

static bool udp_read_number(const char **at, uint64_t *value)
{
    char *end;
    if (**at < '0' || **at > '9') return false;
    *value = strtoull(*at, &end, 10);
    *at = *end == ',' ? end + 1 : end;
    return *end == 0 || (*end == ',' && end[1] != 0);
}

bool udp_read_weather(const char *text, struct aqi_port_weather *weather)
{
    static const char *const names[] = {"loss=", "dup=", "reorder=", "corrupt=", "seed="};
    uint64_t values[AQI_COUNT_OF(names)] = {0, 0, 0, 0, 1}, sum = 0;
    for (const char *at = text; *at != 0;) {
        size_t i = 0, len = 0;
        for (; i < AQI_COUNT_OF(names); i++) {
            len = strlen(names[i]);
            if (strncmp(at, names[i], len) == 0) break;
        }
        if (i == AQI_COUNT_OF(names)) return false;
        at += len;
        if (!udp_read_number(&at, &values[i])) return false;
    }
    for (size_t i = 0; i < 4; i++) {
        if (values[i] > 1000) return false;
        sum += values[i];
    }
    *weather = (struct aqi_port_weather){.loss = (unsigned)values[0],
                                         .duplication = (unsigned)values[1],
                                         .reordering = (unsigned)values[2],
                                         .corruption = (unsigned)values[3],
                                         .seed = values[4]};
    return sum <= 1000;
}
