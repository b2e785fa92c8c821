/* Memory and rings of an AF_XDP socket, through the kernel's own interface. */
#include "dgram/ports/xdp_rings.h"

#include "base/fail.h"
#include "base/unforked.h"
#include "dgram/ports/xdp_program.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#ifndef SOL_XDP
#define SOL_XDP 283
#endif
#ifndef AF_XDP
#define AF_XDP 44
#endif

enum { FRAMES = PORTS_XDP_RECEIVE + PORTS_XDP_SEND };
/* After a process has ended the kernel takes some time to release a queue. */
enum { BIND_TRIES = 500, BIND_PAUSE_MS = 10 };

static const char privilege[] = "CAP_NET_RAW";

static int xdp_rings_size(int fd, int option, uint32_t entries)
{
    return setsockopt(fd, SOL_XDP, option, &entries, sizeof(entries));
}

static bool xdp_rings_map(int fd, struct ports_xdp_ring *ring, const struct xdp_ring_offset *at,
                          off_t which, uint32_t entries, size_t entry)
{
    ring->map_len = at->desc + entries * entry;
    void *map =
        mmap(NULL, ring->map_len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, which);
    if (map == MAP_FAILED) return false;
    ring->map = map;
    ring->producer = (void *)((unsigned char *)map + at->producer);
    ring->consumer = (void *)((unsigned char *)map + at->consumer);
    ring->entries = (unsigned char *)map + at->desc;
    ring->mask = entries - 1;
    return true;
}

static bool xdp_rings_map_all(struct ports_xdp_rings *rings)
{
    struct xdp_mmap_offsets at;
    socklen_t len = sizeof(at);
    int fd = rings->fd;
    return getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &len) == 0 &&
           xdp_rings_map(fd, &rings->fill, &at.fr, (off_t)XDP_UMEM_PGOFF_FILL_RING,
                         PORTS_XDP_RECEIVE, sizeof(uint64_t)) &&
           xdp_rings_map(fd, &rings->completion, &at.cr, (off_t)XDP_UMEM_PGOFF_COMPLETION_RING,
                         PORTS_XDP_SEND, sizeof(uint64_t)) &&
           xdp_rings_map(fd, &rings->receive, &at.rx, XDP_PGOFF_RX_RING, PORTS_XDP_RECEIVE,
                         sizeof(struct xdp_desc)) &&
           xdp_rings_map(fd, &rings->send, &at.tx, (off_t)XDP_PGOFF_TX_RING, PORTS_XDP_SEND,
                         sizeof(struct xdp_desc));
}

static int xdp_rings_bind(int fd, uint32_t interface, uint32_t queue)
{
    struct sockaddr_xdp at = {.sxdp_family = AF_XDP,
                              .sxdp_ifindex = interface,
                              .sxdp_queue_id = queue,
                              .sxdp_flags = XDP_COPY};
    for (unsigned i = 0; i < BIND_TRIES; i++) {
        if (bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0) return 0;
        if (errno != EBUSY) return errno;
        (void)poll(NULL, 0, BIND_PAUSE_MS);
    }
    return EBUSY;
}

static aq_status xdp_rings_open(struct ports_xdp_rings *rings, const char *name, uint32_t interface,
                                uint32_t queue, uint32_t shift)
{
    rings->memory_len = (size_t)FRAMES * PORTS_XDP_FRAME;
    void *memory = mmap(NULL, rings->memory_len, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        return aqi_fail_errno(AQ_ENOMEM, errno, "udp", "no memory for AF_XDP frames");
    rings->memory = memory;
    (void)madvise(memory, rings->memory_len,
                  MADV_DONTFORK); /* after a fork, copy-on-write would move our pages */
    rings->fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (rings->fd < 0) return ports_xdp_failed(errno, name, "opening a socket", privilege);
    aqi_unforked_add(rings->fd);
    struct xdp_umem_reg reg = {.addr = (uintptr_t)memory,
                               .len = rings->memory_len,
                               .chunk_size = PORTS_XDP_FRAME,
                               .headroom = shift};
    if (setsockopt(rings->fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)) != 0) {
        if (errno == ENOBUFS)
            return aqi_fail(AQ_ELIMIT, "udp",
                            "AF_XDP on interface %s: locking %zu bytes is not allowed: raise "
                            "\"ulimit -l\", run as root, or set AQ_UDP_PORT=socket",
                            name, rings->memory_len);
        return ports_xdp_failed(errno, name, "registering memory", privilege);
    }
    if (xdp_rings_size(rings->fd, XDP_UMEM_FILL_RING, PORTS_XDP_RECEIVE) != 0 ||
        xdp_rings_size(rings->fd, XDP_UMEM_COMPLETION_RING, PORTS_XDP_SEND) != 0 ||
        xdp_rings_size(rings->fd, XDP_RX_RING, PORTS_XDP_RECEIVE) != 0 ||
        xdp_rings_size(rings->fd, XDP_TX_RING, PORTS_XDP_SEND) != 0 || !xdp_rings_map_all(rings))
        return ports_xdp_failed(errno, name, "creating its rings", privilege);
    if (interface == PORTS_XDP_UNBOUND) return AQ_OK;
    int error = xdp_rings_bind(rings->fd, interface, queue);
    if (error == EBUSY) return AQ_AGAIN;
    if (error == EINVAL && queue > 0) return AQ_ERANGE;
    if (error != 0) return ports_xdp_failed(error, name, "binding to a queue", privilege);
    return AQ_OK;
}

aq_status ports_xdp_open(struct ports_xdp_rings *rings, const char *name, uint32_t interface,
                         uint32_t queue, uint32_t shift)
{
    memset(rings, 0, sizeof(*rings));
    rings->fd = -1;
    aq_status status = xdp_rings_open(rings, name, interface, queue, shift);
    if (status != AQ_OK) {
        ports_xdp_close(rings);
        return status;
    }
    for (uint32_t i = 0; i < PORTS_XDP_RECEIVE; i++)
        ports_xdp_release(rings, (uint64_t)i * PORTS_XDP_FRAME);
    while (rings->free < PORTS_XDP_SEND) {
        rings->frames[rings->free] = (PORTS_XDP_RECEIVE + rings->free) * PORTS_XDP_FRAME;
        rings->free++;
    }
    return AQ_OK;
}

void ports_xdp_close(struct ports_xdp_rings *rings)
{
    struct ports_xdp_ring *all[] = {&rings->fill, &rings->completion, &rings->receive,
                                    &rings->send};
    for (unsigned i = 0; i < AQI_COUNT_OF(all); i++)
        if (all[i]->map != NULL) munmap(all[i]->map, all[i]->map_len);
    if (rings->fd >= 0) aqi_unforked_close(rings->fd);
    if (rings->memory != NULL) munmap(rings->memory, rings->memory_len);
    memset(rings, 0, sizeof(*rings));
    rings->fd = -1;
}

/* The kernel writes its end of each ring with a release, and reads ours with an acquire. */

unsigned char *ports_xdp_next(struct ports_xdp_rings *rings, size_t *len, uint64_t *frame)
{
    struct ports_xdp_ring *ring = &rings->receive;
    if (atomic_load_explicit(ring->producer, memory_order_acquire) == ring->at) return NULL;
    struct xdp_desc at = ((const struct xdp_desc *)ring->entries)[ring->at++ & ring->mask];
    atomic_store_explicit(ring->consumer, ring->at, memory_order_release);
    *len = at.len;
    *frame = at.addr / PORTS_XDP_FRAME * PORTS_XDP_FRAME;
    return rings->memory + at.addr;
}

void ports_xdp_release(struct ports_xdp_rings *rings, uint64_t frame)
{
    struct ports_xdp_ring *ring = &rings->fill;
    ((uint64_t *)ring->entries)[ring->at++ & ring->mask] = frame;
    atomic_store_explicit(ring->producer, ring->at, memory_order_release);
}

unsigned char *ports_xdp_reserve(struct ports_xdp_rings *rings)
{
    struct ports_xdp_ring *sent = &rings->completion;
    uint32_t end = atomic_load_explicit(sent->producer, memory_order_acquire);
    for (; sent->at != end; sent->at++)
        rings->frames[rings->free++] =
            (uint32_t)((const uint64_t *)sent->entries)[sent->at & sent->mask];
    atomic_store_explicit(sent->consumer, end, memory_order_release);
    return rings->free > 0 ? rings->memory + rings->frames[--rings->free] : NULL;
}

void ports_xdp_submit(struct ports_xdp_rings *rings, unsigned char *frame, uint32_t len)
{
    struct ports_xdp_ring *ring = &rings->send;
    uint64_t at = (uint64_t)(frame - rings->memory);
    ((struct xdp_desc *)ring->entries)[ring->at++ & ring->mask] =
        (struct xdp_desc){.addr = at, .len = len};
    atomic_store_explicit(ring->producer, ring->at, memory_order_release);
}

int ports_xdp_kick(struct ports_xdp_rings *rings)
{
    if (sendto(rings->fd, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) >= 0) return 0;
    return errno;
}

unsigned ports_xdp_waiting(const struct ports_xdp_rings *rings)
{
    uint32_t end = atomic_load_explicit(rings->send.producer, memory_order_relaxed);
    return end - atomic_load_explicit(rings->send.consumer, memory_order_acquire);
}

uint64_t ports_xdp_drops(const struct ports_xdp_rings *rings)
{
    struct xdp_statistics statistics;
    socklen_t len = sizeof(statistics);
    memset(&statistics, 0, sizeof(statistics));
    if (getsockopt(rings->fd, SOL_XDP, XDP_STATISTICS, &statistics, &len) != 0) return 0;
    return statistics.rx_dropped + statistics.rx_invalid_descs + statistics.rx_ring_full +
           statistics.rx_fill_ring_empty_descs;
}
