/* udp: opening, addresses, connecting and closing. */
#include "transport/udp/udp_impl.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/random.h"
#include "base/stats.h"
#include "dgram/ports/interface.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ns, for an interface that is up but cannot be used yet */
#define UDP_WARN_COMING UINT64_C(5000000000)

/* --- random numbers -------------------------------------------------------------------------- */

aq_status udp_random_config(struct aqi_dgram_config *config)
{
    aq_status st = aqi_random(&config->epoch, sizeof(config->epoch), "udp");
    if (st == AQ_OK) st = aqi_random(&config->seed, sizeof(config->seed), "udp");
    return st == AQ_OK ? aqi_random(config->secret, sizeof(config->secret), "udp") : st;
}

/* --- opening --------------------------------------------------------------------------------- */

aq_status udp_port_weather(struct aqi_port **port, uint64_t seed)
{
    struct aqi_port_weather weather;
    if (udp_config.lossy[0] == 0) return AQ_OK;
    if (!udp_read_weather(udp_config.lossy, &weather))
        return aqi_fail(AQ_ESETTING, "udp",
                        "AQ_UDP_LOSSY=\"%s\": give loss=, dup=, reorder= and corrupt=, each per "
                        "1000 packets and together at most 1000, and seed=",
                        udp_config.lossy);
    weather.seed += seed;
    return aqi_port_lossy(*port, &weather, port);
}

/* A busy host may take this long to answer. */
#define UDP_LEAST_SILENCE_NS 100000000ull

aq_status udp_port_params(const char *towards, struct aqi_port_params *want)
{
    *want = (struct aqi_port_params){.towards = towards, .buffer = (size_t)udp_config.buffer};
    if (udp_config.interface[0] != 0) want->interface = udp_config.interface;
    if (udp_config.mtu != 0 && udp_config.mtu < AQI_DGRAM_LEAST_PACKET + UDP_IP_HEADERS)
        return aqi_fail(AQ_ESETTING, "udp", "AQ_UDP_MTU=%llu: give 0 or at least %u",
                        (unsigned long long)udp_config.mtu,
                        AQI_DGRAM_LEAST_PACKET + UDP_IP_HEADERS);
    if (udp_config.dead_after_ns != 0 && udp_config.dead_after_ns < UDP_LEAST_SILENCE_NS)
        return aqi_fail(AQ_ESETTING, "udp", "AQ_UDP_DEAD_AFTER=%llu us: give 0 or at least %llu ms",
                        (unsigned long long)udp_config.dead_after_ns / 1000,
                        UDP_LEAST_SILENCE_NS / 1000000);
    if (udp_config.mtu != 0) want->packet = (size_t)udp_config.mtu - UDP_IP_HEADERS;
    return AQ_OK;
}

static const struct aqi_port_ops *udp_port_kind(const struct udp_tp *udp)
{
    if (udp->own.is_connection) return &aqi_port_socket;
    if (aqi_udp_test_port != NULL) return aqi_udp_test_port;
    return udp_config.port == UDP_PORT_XDP ? &aqi_port_xdp : &aqi_port_socket;
}

static aq_status udp_open_port(const struct udp_tp *udp, const char *towards,
                               struct aqi_port **port)
{
    const struct aqi_port_ops *kind = udp_port_kind(udp);
    struct aqi_port_params want;
    struct aqi_port *opened;
    aq_status st = udp_port_params(towards, &want);
    want.one_peer = udp->params.size == 2;
    want.to_peer = udp->own.is_connection;
    want.several = kind == &aqi_port_socket;
    if (st == AQ_OK) st = kind->open(&want, &opened);
    if (st != AQ_OK) return st;
    /* The other process may be of this job. */
    if (kind == &aqi_port_xdp && opened->limits.xdp == NULL)
        aqi_log(udp->params.local_size > 1 ? AQI_LOG_INFO : AQI_LOG_WARN, "udp",
                "AF_XDP on interface %s is in use by another process: this process uses sockets "
                "instead",
                opened->limits.interface);
    st = udp_port_weather(&opened, udp->params.self);
    if (st == AQ_OK)
        *port = opened;
    else
        opened->ops->close(opened);
    return st;
}

/*
 * The job may have been started while its networks come up. Until they are up, only loopback can be
 * used, which leads to no other host.
 */
static void udp_await_interface(const struct udp_tp *udp)
{
    static const struct timespec pause = {.tv_nsec = 5000000};
    char name[IF_NAMESIZE];
    uint64_t begin = aqi_now_ns(), waited = 0, limit = udp->params.reach_within_ns / 2;
    bool warned = false;
    while (waited < limit && ports_interface_is_coming(name)) {
        if (waited == 0) aqi_log(AQI_LOG_INFO, "udp", "waiting for interface %s", name);
        nanosleep(&pause, NULL);
        waited = aqi_now_ns() - begin;
        if (waited < UDP_WARN_COMING || warned) continue;
        warned = true;
        aqi_log(AQI_LOG_WARN, "udp",
                "interface %s is up, but is not running or has no address yet (\"ip address\" "
                "shows it); without it, only loopback is left, which reaches no other host, and "
                "which is used after %llu s. AQ_UDP_INTERFACE chooses an interface without waiting",
                name, (unsigned long long)(limit / 1000000000));
    }
}

/* Find the interface that leads to other hosts and whether xdp can be used. */
static aq_status udp_probe_port(struct aqi_tp_probe *probe)
{
    struct aqi_port_params want;
    struct aqi_port *port;
    aq_status st = udp_port_params(NULL, &want);
    if (st == AQ_OK) st = aqi_port_socket.open(&want, &port);
    if (st != AQ_OK) return st;
    snprintf(probe->device, sizeof(probe->device), "%s", port->limits.interface);
    st = udp_port_weather(&port, 0);
    port->ops->close(port);
    if (st != AQ_OK) return st;
    const char *how;
    st = aqi_port_xdp_check(&want, &how);
    if (udp_config.port == UDP_PORT_XDP) return st;
    snprintf(probe->reason, sizeof(probe->reason),
             st == AQ_OK ? "AQ_UDP_PORT=xdp can be used: %s" : "AQ_UDP_PORT=xdp cannot be used: %s",
             st == AQ_OK ? how : aq_error_message());
    return AQ_OK;
}

static bool udp_probe(unsigned device, struct aqi_tp_probe *probe)
{
    const char *missing = aqi_mac_missing();
    *probe = (struct aqi_tp_probe){.device = "no interface"};
    aq_status st = missing == NULL ? udp_probe_port(probe) : AQ_ENOTSUP;
    probe->usable = st == AQ_OK;
    probe->bad_setting = st == AQ_ESETTING;
    if (!probe->usable)
        snprintf(probe->reason, sizeof(probe->reason), "%s",
                 missing != NULL ? missing : aq_error_message());
    return device == 0;
}

/* --- the engine's hooks ---------------------------------------------------------------------- */

static bool udp_hook_transmit(void *arg, enum aqi_dgram_channel channel,
                              const struct aqi_dgram_addr *to, const struct iovec *iov,
                              unsigned niov, size_t segment, unsigned packets)
{
    struct udp_tp *udp = arg;
    udp->sent += segment * packets;
    return udp->port->ops->send(udp->port, channel, to, iov, niov, segment, packets);
}

static uint64_t udp_hook_now(void *arg)
{
    const struct aqi_tp_hooks *hooks = &((struct udp_tp *)arg)->tp.hooks;
    return hooks->now(hooks->host);
}

static bool udp_hook_range_ok(void *arg, uint64_t addr, size_t len)
{
    const struct aqi_tp_hooks *hooks = &((struct udp_tp *)arg)->tp.hooks;
    return hooks->range_ok(hooks->host, addr, len);
}

static void udp_hook_mac(void *arg, const char *use, const uint8_t key[16], const struct iovec *iov,
                         unsigned niov, uint8_t tag[16])
{
    aqi_macs_of(&((const struct udp_tp *)arg)->macs, use, key, iov, niov, tag);
}

static const enum aqi_counter udp_counters[AQI_DGRAM_COUNTERS] = {
    [AQI_DGRAM_SENT] = AQI_CTR_PACKETS,
    [AQI_DGRAM_RESENT] = AQI_CTR_PACKETS_AGAIN,
    [AQI_DGRAM_RECEIVED] = AQI_CTR_PACKETS_RECEIVED,
    [AQI_DGRAM_ACKS] = AQI_CTR_PACKETS_ACK,
    [AQI_DGRAM_DUPLICATES] = AQI_CTR_PACKETS_REPEATED,
    [AQI_DGRAM_TIMEOUTS] = AQI_CTR_PACKETS_TIMEOUT,
    [AQI_DGRAM_DROP_SHORT] = AQI_CTR_PACKETS_DROPPED,
    [AQI_DGRAM_DROP_COOKIE] = AQI_CTR_PACKETS_DROPPED,
    [AQI_DGRAM_DROP_MAC] = AQI_CTR_PACKETS_DROPPED,
    [AQI_DGRAM_DROP_WINDOW] = AQI_CTR_PACKETS_DROPPED,
    [AQI_DGRAM_DROP_MALFORMED] = AQI_CTR_PACKETS_DROPPED,
    [AQI_DGRAM_DROP_VERSION] = AQI_CTR_PACKETS_DROPPED,
    [AQI_DGRAM_DROP_POOL] = AQI_CTR_PACKETS_NO_ROOM,
};

uint64_t udp_count_drops(struct udp_tp *udp)
{
    uint64_t drops = udp->port->ops->drops(udp->port);
    aqi_count(AQI_CTR_PACKETS_NO_ROOM, drops - udp->drops);
    udp->drops = drops;
    return drops;
}

/* --- opening and closing --------------------------------------------------------------------- */

static void udp_close(struct aqi_tp *tp)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    udp_idle_close(udp);
    if (udp->dgram != NULL) {
        (void)udp_count_drops(udp);
        udp_rma_report_kept(udp);
        udp_paths_warn(udp, true);
        aqi_dgram_destroy(udp->dgram);
    }
    udp_peers_close(udp);
    udp_paths_close(udp);
    free(udp->kept);
    free(udp->touched);
    if (udp->port != NULL) udp->port->ops->close(udp->port);
    aqi_macs_close(&udp->macs);
    for (uint32_t id = 0; udp->peers != NULL && id < udp->params.size; id++)
        free(udp->peers[id]);
    free(udp->peers);
    free(udp);
}

static void udp_configure(const struct udp_tp *udp, struct aqi_dgram_config *config)
{
    aqi_dgram_defaults(config);
    config->self = udp->params.self;
    config->size = udp->params.size;
    memcpy(config->key, udp->params.key, sizeof(config->key));
    config->address = udp->port->address;
    config->packet = udp->port->limits.packet;
    config->room = udp->port->limits.room;
    config->max_message =
        sizeof(struct udp_head) + aqi_max(udp->tp.limits.max_medium, UDP_PACKED_LONG);
    config->rto_max = udp_config.rto_max_ns;
    config->idle_close = udp_config.idle_close_ns;
    config->dead_after = udp_config.dead_after_ns;
    config->authenticate = udp->authenticate;
    config->loose = udp->params.loose;
    config->at_once = 8;
    config->reach_within = udp->params.reach_within_ns;
    config->counters = udp_counters;
}

/* A message that may be lost is one packet, with the maximum number of arguments. */
static aq_status udp_limit_loose(struct udp_tp *udp, const struct aqi_dgram_config *config)
{
    const size_t least = 512, head = aqi_round_up(sizeof(struct udp_head), 16);
    size_t most = aqi_dgram_most_cast(config);
    most = most > head ? (most - head) / 64 * 64 : 0;
    if (most < least)
        return aqi_fail(AQ_ENOTSUP, "udp",
                        "packets of %zu bytes have no room for messages of %zu bytes, as needed by "
                        "an unreliable connection: raise AQ_UDP_MTU",
                        config->packet, least);
    udp->max_loose = (uint32_t)aqi_min(most, udp->tp.limits.max_medium);
    return AQ_OK;
}

static aq_status udp_open_engine(struct udp_tp *udp)
{
    struct aqi_dgram_config config;
    bool several = udp_port_kind(udp) == &aqi_port_socket && !udp->own.is_connection;
    const struct aqi_dgram_hooks hooks = {.transmit = udp_hook_transmit,
                                          .deliver = udp_am_deliver,
                                          .local = udp_rma_local,
                                          .remote = udp_rma_remote,
                                          .gathers = udp_hook_gathers,
                                          .range_ok = udp_hook_range_ok,
                                          .now = udp_hook_now,
                                          .lookup = udp_hook_lookup,
                                          .way = several ? udp_hook_way : NULL,
                                          .silent = udp_hook_silent,
                                          .lost = udp_hook_lost,
                                          .path = udp_hook_path,
                                          .small_path = udp_hook_small_path,
                                          .mac = udp_hook_mac,
                                          .source = udp_rma_source,
                                          .arg = udp};
    udp_configure(udp, &config);
    aq_status st = udp_random_config(&config);
    if (st == AQ_OK && udp->params.loose) st = udp_limit_loose(udp, &config);
    if (st == AQ_OK) st = aqi_dgram_create(&config, &hooks, &udp->dgram);
    udp->tp.limits.pool = config.pool;
    return st;
}

static aq_status udp_open(const struct aqi_tp_params *params, struct aqi_tp **tp)
{
    struct udp_tp *udp = calloc(1, sizeof(*udp));
    if (udp == NULL) return aqi_fail(AQ_ENOMEM, "udp", "no memory to open the transport");
    udp->params = *params;
    udp->tp.hooks = params->hooks;
    udp->tp.limits = (struct aqi_tp_limits){.max_medium = aqi_round_up(params->max_medium, 64),
                                            .max_long = UINT32_MAX};
    udp->idle.arrivals = udp->idle.leftover = udp->idle.tick = -1;
    udp->locks = params->threads;
    udp->peers = calloc(params->size, sizeof(struct udp_peer *));
    aq_status st = udp->peers != NULL
                       ? AQ_OK
                       : aqi_fail(AQ_ENOMEM, "udp", "no memory for %u peers", params->size);
    if (st == AQ_OK) st = aqi_macs_open(&udp->macs);
    char towards[AQI_URI_MAX] = "localhost";
    if (st == AQ_OK) st = udp_connection_begin(udp, towards);
    bool alone = udp->own.is_connection || params->local_size == params->size;
    /* Even on one host, whose ranks may be in different network namespaces. */
    if (st == AQ_OK && !udp->own.is_connection && params->size > 1) udp_paths_open(udp);
    if (st == AQ_OK && !alone && udp_config.interface[0] == 0 && aqi_udp_test_port == NULL)
        udp_await_interface(udp);
    if (st == AQ_OK) st = udp_open_port(udp, alone ? towards : NULL, &udp->port);
    if (st == AQ_OK) st = udp_open_engine(udp);
    if (st == AQ_OK) udp_peers_open(udp);
    if (st == AQ_OK) st = udp_idle_open(udp);
    if (st != AQ_OK) {
        udp_close(&udp->tp);
        return st;
    }
    *tp = &udp->tp;
    return AQ_OK;
}

/* Perhaps another transport reaches it; if not, this is the reason. */
static aq_status udp_unreachable(const struct udp_tp *udp, uint32_t id,
                                 const struct aqi_dgram_addr *addr)
{
    static atomic_bool once;
    char peer[64];
    ports_address_text(addr, peer, sizeof(peer));
    aqi_log_once(
        &once, AQI_LOG_WARN, "udp",
        "peer %u is at %s, which packets from %s cannot reach: give all processes the same "
        "AQ_UDP_PORT, and choose addresses of one family, IPv4 or IPv6, with AQ_UDP_INTERFACE",
        id, peer, udp->port->limits.text);
    return AQ_ENOTSUP;
}

/* The connection is made when it is first used. */
static aq_status udp_connect(struct aqi_tp *tp, uint32_t id, uint32_t host, struct aqi_peer **out)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    struct aqi_dgram_addr addr;
    if (id == udp->params.self) return AQ_ENOTSUP;
    udp_lock(udp);
    aq_status st = udp_hook_lookup(udp, id, &addr);
    if (st == AQ_OK && !udp->own.is_connection &&
        !ports_address_reaches(&udp->port->address, &addr))
        st = udp_unreachable(udp, id, &addr);
    if (st == AQ_OK && aqi_udp_test_port == NULL && !udp->own.is_connection)
        st = udp_check_loopback(udp, id, &addr);
    if (st == AQ_AGAIN) st = AQ_OK;
    if (st == AQ_EPROTO) aqi_fail(st, "udp", "the address of peer %u is malformed", id);
    if (st == AQ_OK && udp->peers[id] == NULL) {
        struct udp_peer *peer = calloc(1, sizeof(*peer));
        st = peer != NULL ? aqi_dgram_peer(udp->dgram, id) : AQ_ENOMEM;
        if (st == AQ_OK) {
            peer->peer.id = id;
            peer->peer.max_medium = udp->max_loose;
            peer->host = host;
            udp->peers[id] = peer;
        } else {
            free(peer);
            aqi_fail(st, "udp", "no memory for peer %u", id);
        }
    }
    if (st == AQ_OK) *out = &udp->peers[id]->peer;
    udp_unlock(udp);
    return st;
}

static void udp_disconnect(struct aqi_tp *tp, struct aqi_peer *peer)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    udp_lock(udp);
    aqi_dgram_down(udp->dgram, peer->id);
    udp_unlock(udp);
}

/* --- state ----------------------------------------------------------------------------------- */

static aq_status udp_quiet(struct aqi_tp *tp, struct aqi_peer *peer)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    udp_lock(udp);
    /* Progress must still report operations that completed while the thread helped. */
    bool quiet = udp->kept_count == 0 &&
                 aqi_dgram_quiet(udp->dgram, peer != NULL ? peer->id : AQI_DGRAM_ALL);
    udp_unlock(udp);
    return quiet ? AQ_OK : AQ_AGAIN;
}

static uint64_t udp_next_deadline(struct aqi_tp *tp)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    udp_lock(udp);
    uint64_t at = udp->lost != NULL ? 0 : aqi_dgram_deadline(udp->dgram);
    udp_unlock(udp);
    return at;
}
static_assert(AQI_NO_DEADLINE == AQI_DGRAM_NEVER, "no deadline is none of the engine's");

static aq_status udp_drain(struct aqi_tp *tp, uint64_t deadline)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    udp_lock(udp);
    bool over = udp->now >= deadline || aqi_dgram_drained(udp->dgram, udp->now);
    if (over) udp_peers_show(udp, udp->now); /* so that the final state is shown */
    /* Only calls of progress that read the sockets advance the time. */
    if (!over) atomic_store_explicit(&udp->idle.rests_until, 0, memory_order_relaxed);
    udp_unlock(udp);
    return over ? AQ_OK : AQ_AGAIN;
}

static int udp_describe(struct aqi_tp *tp, char *buf, size_t len)
{
    const struct udp_tp *udp = (const struct udp_tp *)tp;
    const struct aqi_port_limits *limits = &udp->port->limits;
    return snprintf(buf, len, "%s, %s, packets of %zu bytes, room for %zu KB%s%s%s%s%s",
                    limits->interface, limits->text, limits->packet, limits->room >> 10,
                    limits->xdp != NULL ? ", AF_XDP " : "", limits->xdp != NULL ? limits->xdp : "",
                    udp_config.auth == UDP_AUTH_MAC ? ", each with a MAC" : "",
                    udp->idle.helped ? "" : ", no thread that waits for them",
                    udp_config.lossy[0] != 0 ? ", lossy" : "");
}

const struct aqi_transport aqi_udp_transport = {
    .name = "udp",
    .doc = "processes of different hosts over UDP",
    .caps = AQI_CAP_TIMERS | AQI_CAP_PUT | AQI_CAP_GET | AQI_CAP_LONG | AQI_CAP_REG |
            AQI_CAP_WAIT_FD | AQI_CAP_ROOM | AQI_CAP_FAR | AQI_CAP_RENDEZVOUS | AQI_CAP_REST,
    .addr_max = sizeof(struct udp_job_addr),
    .key_max = UDP_KEY,
    .settings = &aqi_udp_settings,
    .probe = udp_probe,
    .open = udp_open,
    .close = udp_close,
    .address = udp_address,
    .connect = udp_connect,
    .disconnect = udp_disconnect,
    .am_send = udp_am_send,
    .progress = udp_progress,
    .quiet = udp_quiet,
    .next_deadline = udp_next_deadline,
    .drain = udp_drain,
    .am_long = udp_am_long,
    .put = udp_put,
    .get = udp_get,
    .mem_reg = udp_mem_reg,
    .mem_dereg = udp_mem_dereg,
    .mem_map = udp_mem_map,
    .mem_unmap = udp_mem_unmap,
    .rendezvous = &udp_rendezvous,
    .wait_fd = udp_wait_fd,
    .arm = udp_arm,
    .rest = udp_rest,
    .describe = udp_describe,
};
