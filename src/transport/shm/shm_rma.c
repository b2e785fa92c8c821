/* shm: memory that all ranks of the host map, and one-sided operations on it by load and store. */
#include "base/fail.h"
#include "base/shmem.h"
#include "transport/shm/shm_impl.h"

#include <string.h>
#include <unistd.h>

/* What a key says. Private memory is reached by CMA or messages. */
enum { KEY_PRIVATE = 1, KEY_SHARED = 2 };
#define NO_HANDLE UINT32_MAX

struct shm_key {
    uint32_t type;
    uint32_t local_rank;
    uint64_t offset; /* in the owner's part of the area; KEY_PRIVATE: generation of its handle */
    uint64_t local;  /* in an rmem: where it is mapped in this process */
    uint32_t area;   /* KEY_PRIVATE: its handle, or NO_HANDLE */
    uint32_t mapped; /* in an rmem: `local` says where */
};
static_assert(sizeof(struct shm_key) <= AQI_KEY_MAX, "a key fits");

aq_status shm_mem_alloc(struct aqi_tp *tp, size_t len, size_t most, void **addr)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    size_t stride = aqi_round_up(most ? most : 1, aqi_page_size());
    void *at;
    int fd;
    (void)len;
    if (shm->area_count == SHM_AREAS)
        return aqi_fail(AQ_ELIMIT, "shm", "memory is allocated %d times at most", SHM_AREAS);
    if (stride > SIZE_MAX / 2 / shm->params.local_size)
        return aqi_fail(AQ_ESIZE, "shm", "%u segments of %zu bytes do not fit an address space",
                        shm->params.local_size, stride);
    size_t total = stride * shm->params.local_size;
    aq_status st = tp->hooks.share(tp->hooks.host, "aq-segments", total, &fd);
    if (st != AQ_OK) return st;
    st = aqi_shmem_map(fd, total, &at);
    if (st != AQ_OK) {
        close(fd);
        return st;
    }
    shm->areas[shm->area_count++] = (struct shm_area){at, stride, fd};
    *addr = (unsigned char *)at + shm->params.local_rank * stride;
    return AQ_OK;
}

/* A peer reaches into private memory by CMA only while the handle that it was told is in force. */
static void open_handle(struct shm_tp *shm, struct shm_key *key)
{
    key->area = NO_HANDLE;
    for (uint32_t i = 0; i < SHM_HANDLES; i++) {
        uint32_t old = atomic_load(&shm->inbox->handles[i]);
        if (old % 2 != 0 || !atomic_compare_exchange_strong(&shm->inbox->handles[i], &old, old + 1))
            continue;
        key->area = i;
        key->offset = old + 1;
        return;
    }
}

aq_status shm_mem_reg(struct aqi_tp *tp, void *addr, size_t len, unsigned char out[AQI_KEY_MAX])
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_key key = {.type = KEY_PRIVATE, .local_rank = shm->params.local_rank};
    for (uint32_t i = 0; i < shm->area_count; i++) {
        const struct shm_area *area = &shm->areas[i];
        uintptr_t mine = (uintptr_t)area->base + shm->params.local_rank * area->stride;
        uint64_t offset = (uintptr_t)addr - mine;
        if (len > area->stride || offset > area->stride - len) continue;
        key.type = KEY_SHARED;
        key.area = i;
        key.offset = offset;
    }
    if (key.type == KEY_PRIVATE) open_handle(shm, &key);
    memset(out, 0, AQI_KEY_MAX);
    memcpy(out, &key, sizeof(key));
    return AQ_OK;
}

aq_status shm_mem_fd(struct aqi_tp *tp, const void *addr, size_t len, int *fd, uint64_t *offset)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    for (uint32_t i = 0; i < shm->area_count && shm_config.map; i++) {
        const struct shm_area *area = &shm->areas[i];
        uint64_t at = (uintptr_t)addr - (uintptr_t)area->base;
        size_t size = area->stride * shm->params.local_size;
        if (len > size || at > size - len) continue;
        *fd = area->fd;
        *offset = at;
        return AQ_OK;
    }
    return AQ_ENOTSUP;
}

void shm_mem_dereg(struct aqi_tp *tp, const unsigned char in[AQI_KEY_MAX])
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_key key;
    memcpy(&key, in, sizeof(key));
    if (key.type != KEY_PRIVATE || key.area >= SHM_HANDLES) return;
    atomic_fetch_add(&shm->inbox->handles[key.area], 1);
}

aq_status shm_mem_map(struct aqi_tp *tp, struct aqi_peer *peer, const unsigned char in[AQI_KEY_MAX],
                      uint64_t addr, size_t len, struct aqi_rmem *rmem)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_peer *from = (struct shm_peer *)peer;
    struct shm_key key;
    memcpy(&key, in, sizeof(key));
    if ((key.type != KEY_PRIVATE && key.type != KEY_SHARED) || key.local_rank != from->local_rank)
        return aqi_fail(AQ_EPROTO, "shm", "peer %u sent a memory key that makes no sense",
                        peer->id);
    *rmem = (struct aqi_rmem){.addr = addr, .len = len};
    key.local = 0;
    key.mapped = 0;
    if (key.type == KEY_SHARED) {
        const struct shm_area *area = &shm->areas[key.area % SHM_AREAS];
        if (key.area >= shm->area_count || len > area->stride || key.offset > area->stride - len)
            return aqi_fail(AQ_EPROTO, "shm", "peer %u sent a memory key that is out of range",
                            peer->id);
        unsigned char *at = area->base + key.local_rank * area->stride + key.offset;
        key.local = (uint64_t)(uintptr_t)at;
        key.mapped = shm_config.map != 0;
        if (key.mapped) rmem->local = at;
    } else if (key.local_rank == shm->params.local_rank) {
        key.local = addr;
        key.mapped = true;
    }
    memcpy(rmem->key, &key, sizeof(key));
    return AQ_OK;
}

/* Where `addr` of a peer's memory is mapped here; NULL: it is not. */
static void *translate(const struct aqi_rmem *rmem, uint64_t addr)
{
    struct shm_key key;
    memcpy(&key, rmem->key, sizeof(key));
    if (!key.mapped) return NULL;
    return (void *)(uintptr_t)(key.local + (addr - rmem->addr));
}

/* Is memory that is not mapped to be reached by CMA? AQ_ENOTSUP: no, by messages. */
static aq_status check_cma(struct shm_tp *shm, struct shm_peer *peer, const struct aqi_rmem *rmem,
                           size_t len)
{
    struct shm_key key;
    memcpy(&key, rmem->key, sizeof(key));
    if (AQI_UNLIKELY(peer->lost)) return AQ_EPEER;
    if (key.type == KEY_PRIVATE &&
        (key.area >= SHM_HANDLES ||
         atomic_load_explicit(&peer->inbox->handles[key.area], memory_order_acquire) != key.offset))
        return AQ_ENOTSUP;
    return shm_cma_better(shm, peer, len) ? AQ_OK : AQ_ENOTSUP;
}

aq_status shm_put(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, const void *src, size_t len, struct aqi_comp *comp)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_peer *to = (struct shm_peer *)peer;
    void *at = translate(rmem, addr);
    if (at != NULL) {
        memcpy(at, src, len);
    } else {
        aq_status st = check_cma(shm, to, rmem, len);
        if (st == AQ_OK) st = shm_cma_move(shm, to, true, (void *)(uintptr_t)src, addr, len, "shm");
        if (st != AQ_OK) return st;
    }
    atomic_thread_fence(memory_order_release);
    aqi_comp_local(comp);
    aqi_comp_remote(comp);
    return AQ_OK;
}

aq_status shm_get(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, void *dst, size_t len, struct aqi_comp *comp)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_peer *from = (struct shm_peer *)peer;
    const void *at = translate(rmem, addr);
    atomic_thread_fence(memory_order_acquire);
    if (at != NULL) {
        memcpy(dst, at, len);
    } else {
        aq_status st = check_cma(shm, from, rmem, len);
        if (st == AQ_OK) st = shm_cma_move(shm, from, false, dst, addr, len, "shm");
        if (st != AQ_OK) return st;
    }
    aqi_comp_remote(comp);
    return AQ_OK;
}

aq_status shm_fill(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                   uint64_t addr, int byte, size_t len, struct aqi_comp *comp)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_peer *to = (struct shm_peer *)peer;
    void *at = translate(rmem, addr);
    if (at != NULL) {
        memset(at, byte, len);
    } else {
        aq_status st = check_cma(shm, to, rmem, len);
        if (st == AQ_OK) st = shm_cma_fill(shm, to, addr, byte, len);
        if (st != AQ_OK) return st;
    }
    atomic_thread_fence(memory_order_release);
    aqi_comp_remote(comp);
    return AQ_OK;
}

aq_status shm_atomic(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                     const struct aqi_atomic *req, void *result, struct aqi_comp *comp)
{
    void *at = translate(rmem, req->addr);
    (void)tp;
    (void)peer;
    if (at == NULL) return AQ_ENOTSUP;
    uint64_t old = aqi_atomic_apply(req, at);
    if (req->fetch) memcpy(result, &old, aqi_atomic_size(req->type));
    aqi_comp_remote(comp);
    return AQ_OK;
}
