/*
 * udp: what the paths to other hosts carry. Whoever of a host's processes finds first that a path
 * carries small packets only tells it the user, and the others by memory that they share: they
 * begin with such packets, and say nothing.
 */
#include "transport/udp/udp_impl.h"

#include "base/shmem.h"

#include <unistd.h>

/* Then the path is tried anew: it may have been mended, or was only full when it was found. */
#define PATHS_LAST_MS 60000

/* An entry, by the number of a host: when it was found, in ms, and how many bytes; 0: nothing was.
 */
enum { PATHS_SIZE_BITS = 16, PATHS_SIZE = (1 << PATHS_SIZE_BITS) - 1 };

static size_t udp_paths_bytes(const struct udp_tp *udp)
{
    return (size_t)2 * udp->params.size * sizeof(*udp->paths);
}

void udp_paths_open(struct udp_tp *udp)
{
    const struct aqi_tp_hooks *hooks = &udp->params.hooks;
    void *at;
    int fd;
    /* Without it each process finds out by itself. */
    if (hooks->share(hooks->host, "aq-paths", udp_paths_bytes(udp), &fd) != AQ_OK) return;
    if (aqi_shmem_map(fd, udp_paths_bytes(udp), &at) == AQ_OK) udp->paths = at;
    close(fd);
}

void udp_paths_close(struct udp_tp *udp)
{
    if (udp->paths != NULL) aqi_shmem_unmap(udp->paths, udp_paths_bytes(udp));
    udp->paths = NULL;
}

/* What this process and its neighbours know of the path to a peer; NULL: they share nothing. */
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

size_t udp_paths_find(const struct udp_tp *udp, uint32_t id)
{
    const _Atomic uint64_t *path = udp_paths_to(udp, id);
    if (path == NULL) return SIZE_MAX;
    return udp_paths_known(udp, atomic_load_explicit(path, memory_order_relaxed));
}

bool udp_paths_tell(const struct udp_tp *udp, uint32_t id, size_t usable)
{
    _Atomic uint64_t *path = udp_paths_to(udp, id);
    if (path == NULL) return true;
    uint64_t entry = udp_paths_now_ms(udp) << PATHS_SIZE_BITS | usable;
    uint64_t before = atomic_exchange_explicit(path, entry, memory_order_relaxed);
    return (before & PATHS_SIZE) != usable;
}

/* The second half of the memory: of which hosts the user has heard. */
bool udp_paths_tell_silent(const struct udp_tp *udp, uint32_t id)
{
    _Atomic uint64_t *path = udp_paths_to(udp, id);
    if (path == NULL) return true;
    return atomic_exchange_explicit(path + udp->params.size, 1, memory_order_relaxed) == 0;
}
