/*
 * udp: the packets that paths to other hosts carry. The first process of a host to find that a path
 * carries only small packets informs the others through shared memory; they begin with such
 * packets.
 *
 * There is one warning per job, since all paths most likely have the same cause. Rank 0 prints it
 * at once; the others wait, longer on hosts with higher numbers, and longer if the peer is the one
 * to warn first. Once it has been printed, every packet carries a flag (aqi_dgram_set_flag).
 */
#include "transport/udp/udp_impl.h"

#include "base/log.h"
#include "base/shmem.h"

#include <unistd.h>

/* ms after which the path is tried again: it may have been repaired, or was only congested. */
#define PATHS_LAST_MS 60000
/* ns for which ranks other than 0 wait, as rank 0 may detect it seconds later. */
#define PATHS_DELAY UINT64_C(10000000000)

/* An entry per host: when it was found, in ms, and how many bytes; 0: nothing is known. */
enum { PATHS_SIZE_BITS = 16, PATHS_SIZE = (1 << PATHS_SIZE_BITS) - 1 };

static size_t udp_paths_bytes(const struct udp_tp *udp)
{
    return ((size_t)2 * udp->params.size + 1) * sizeof(*udp->paths);
}

void udp_paths_open(struct udp_tp *udp)
{
    const struct aqi_tp_hooks *hooks = &udp->params.hooks;
    void *at;
    int fd;
    /* Without it each process searches by itself. */
    if (hooks->share(hooks->host, "aq-paths", udp_paths_bytes(udp), &fd) != AQ_OK) return;
    if (aqi_shmem_map(fd, udp_paths_bytes(udp), &at) == AQ_OK) udp->paths = at;
    close(fd);
}

void udp_paths_close(struct udp_tp *udp)
{
    if (udp->paths != NULL) aqi_shmem_unmap(udp->paths, udp_paths_bytes(udp));
    udp->paths = NULL;
}

/* The entry in which the processes of this host keep the path to a peer; NULL: none is shared. */
static _Atomic uint64_t *udp_paths_to(const struct udp_tp *udp, uint32_t id)
{
    const struct udp_peer *peer = udp->peers[id];
    if (udp->paths == NULL || peer == NULL || peer->host >= udp->params.size) return NULL;
    return &udp->paths[peer->host];
}

static uint64_t udp_paths_now_ms(const struct udp_tp *udp)
{
    return udp->tp.hooks.now(udp->tp.hooks.host) / 1000000;
}

static size_t udp_paths_known(const struct udp_tp *udp, uint64_t entry)
{
    bool lasts = entry != 0 && udp_paths_now_ms(udp) - (entry >> PATHS_SIZE_BITS) < PATHS_LAST_MS;
    return lasts ? entry & PATHS_SIZE : SIZE_MAX;
}

size_t udp_hook_path(void *arg, uint32_t id)
{
    const struct udp_tp *udp = arg;
    const _Atomic uint64_t *path = udp_paths_to(udp, id);
    if (path == NULL) return SIZE_MAX;
    return udp_paths_known(udp, atomic_load_explicit(path, memory_order_relaxed));
}

/* --- warning the user ------------------------------------------------------------------------ */

/* The last word: whether one of this host's processes has warned. */
static _Atomic uint64_t *udp_paths_warned(const struct udp_tp *udp)
{
    return udp->paths != NULL ? &udp->paths[2 * udp->params.size] : NULL;
}

static bool udp_paths_has_warned(const struct udp_tp *udp)
{
    const _Atomic uint64_t *warned = udp_paths_warned(udp);
    return aqi_dgram_has_flag(udp->dgram) ||
           (warned != NULL && atomic_load_explicit(warned, memory_order_relaxed) != 0);
}

/* One of the two ends of a path warns first. */
static bool udp_paths_is_first(const struct udp_tp *udp, uint32_t id)
{
    uint32_t host = udp->peers[id] != NULL ? udp->peers[id]->host : udp->params.host;
    return host != udp->params.host ? udp->params.host < host : udp->params.self < id;
}

void udp_hook_small_path(void *arg, uint32_t id, size_t usable, bool agreed)
{
    enum { HOSTS = 64, PART = 16 };
    struct udp_tp *udp = arg;
    _Atomic uint64_t *path = udp_paths_to(udp, id);
    uint64_t entry = udp_paths_now_ms(udp) << PATHS_SIZE_BITS | usable, wait = 0;
    if (path != NULL) atomic_store_explicit(path, entry, memory_order_relaxed);
    if (udp->small.due != 0 || udp_paths_has_warned(udp)) return;
    if (udp->params.self != 0)
        wait = PATHS_DELAY + aqi_min(udp->params.host, HOSTS) * PATHS_DELAY / PART;
    bool alone = !agreed || udp_paths_is_first(udp, id);
    if (!alone) wait += 4 * PATHS_DELAY;
    udp->small =
        (struct udp_small){.due = udp->now + wait, .id = id, .usable = usable, .alone = alone};
}

void udp_paths_warn(struct udp_tp *udp, bool last)
{
    const struct aqi_port_limits *limits = &udp->port->limits;
    struct aqi_dgram_peer_info info = {.addr.len = 0};
    struct udp_small small = udp->small;
    char peer[64];
    bool warned = udp_paths_has_warned(udp);
    if (small.due == 0 || (!warned && !last && udp->now < small.due)) return;
    udp->small.due = 0;
    if (warned || (last && !small.alone)) return;
    aqi_dgram_set_flag(udp->dgram);
    _Atomic uint64_t *word = udp_paths_warned(udp);
    if (word != NULL && atomic_exchange_explicit(word, 1, memory_order_relaxed) != 0) return;
    (void)aqi_dgram_peer_info(udp->dgram, small.id, &info);
    ports_address_text(&info.addr, peer, sizeof(peer));
    aqi_log(AQI_LOG_WARN, "udp",
            "peer %u (%s) answers small packets from %s (%s), but not those of %zu bytes: the path "
            "carries only %zu, which costs bandwidth. Set AQ_UDP_MTU=%zu, or correct the MTU of a "
            "switch or interface in between. This is reported once per job: \"aqinfo --peers\" "
            "shows what each path carries",
            small.id, peer, limits->text, limits->interface, limits->packet + UDP_IP_HEADERS,
            small.usable + UDP_IP_HEADERS, small.usable + UDP_IP_HEADERS);
}

/* The second half of the memory: the hosts about which there was a warning. */
bool udp_paths_claim_warning(const struct udp_tp *udp, uint32_t id)
{
    _Atomic uint64_t *path = udp_paths_to(udp, id);
    if (path == NULL || udp->peers[id]->host == udp->params.host) return true;
    return atomic_exchange_explicit(path + udp->params.size, 1, memory_order_relaxed) == 0;
}
