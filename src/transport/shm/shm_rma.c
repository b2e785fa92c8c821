/* shm: memory that all ranks of the host map, and one-sided operations on it by load and store. */
#include "base/fail.h"
#include "base/shmem.h"
#include "transport/shm/shm_impl.h"

#include <string.h>
#include <unistd.h>

/* What a key says; private memory has none and is reached by messages. */
enum { KEY_PRIVATE = 1, KEY_SHARED = 2 };

struct shm_key {
    uint32_t type;
    uint32_t local_rank;
    uint64_t offset; /* in the owner's part of the segments */
    uint64_t local;  /* in an rmem: where it is mapped in this process */
};
static_assert(sizeof(struct shm_key) <= AQI_KEY_MAX, "a key fits");

aq_status shm_mem_alloc(struct aqi_tp *tp, size_t len, size_t most, void **addr)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    size_t stride = aqi_round_up(most ? most : 1, aqi_page_size());
    void *at;
    int fd;
    (void)len;
    if (shm->segments != NULL) return aqi_fail(AQ_ESTATE, "shm", "memory is allocated once only");
    if (stride > SIZE_MAX / 2 / shm->params.local_size)
        return aqi_fail(AQ_ESIZE, "shm", "%u segments of %zu bytes do not fit an address space",
                        shm->params.local_size, stride);
    size_t total = stride * shm->params.local_size;
    aq_status st = tp->hooks.share(tp->hooks.arg, "aq-segments", total, &fd);
    if (st != AQ_OK) return st;
    st = aqi_shmem_map(fd, total, &at);
    close(fd);
    if (st != AQ_OK) return st;
    shm->segments = at;
    shm->segment_stride = stride;
    *addr = shm->segments + shm->params.local_rank * stride;
    return AQ_OK;
}

aq_status shm_mem_reg(struct aqi_tp *tp, void *addr, size_t len, unsigned char out[AQI_KEY_MAX])
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_key key = {.type = KEY_PRIVATE, .local_rank = shm->params.local_rank};
    unsigned char *mine = shm->segments + shm->params.local_rank * shm->segment_stride;
    if (shm->segments != NULL && (unsigned char *)addr >= mine && len <= shm->segment_stride &&
        (size_t)((unsigned char *)addr - mine) <= shm->segment_stride - len) {
        key.type = KEY_SHARED;
        key.offset = (uint64_t)((unsigned char *)addr - mine);
    }
    memset(out, 0, AQI_KEY_MAX);
    memcpy(out, &key, sizeof(key));
    return AQ_OK;
}

void shm_mem_dereg(struct aqi_tp *tp, const unsigned char key[AQI_KEY_MAX])
{
    (void)tp;
    (void)key;
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
    if (key.type == KEY_SHARED) {
        if (shm->segments == NULL || len > shm->segment_stride ||
            key.offset > shm->segment_stride - len)
            return aqi_fail(AQ_EPROTO, "shm", "peer %u sent a memory key that is out of range",
                            peer->id);
        unsigned char *at = shm->segments + key.local_rank * shm->segment_stride + key.offset;
        key.local = (uint64_t)(uintptr_t)at;
        if (shm_config.map) rmem->local = at;
    }
    memcpy(rmem->key, &key, sizeof(key));
    return AQ_OK;
}

/* Where `addr` of a peer's memory is mapped here; NULL: it is not. */
static void *translate(const struct aqi_rmem *rmem, uint64_t addr)
{
    struct shm_key key;
    memcpy(&key, rmem->key, sizeof(key));
    if (key.type != KEY_SHARED) return NULL;
    return (void *)(uintptr_t)(key.local + (addr - rmem->addr));
}

aq_status shm_put(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, const void *src, size_t len, struct aqi_comp *comp)
{
    void *at = translate(rmem, addr);
    (void)tp;
    (void)peer;
    if (at == NULL) return AQ_ENOTSUP;
    memcpy(at, src, len);
    atomic_thread_fence(memory_order_release);
    aqi_comp_local(comp);
    aqi_comp_remote(comp);
    return AQ_OK;
}

aq_status shm_get(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, void *dst, size_t len, struct aqi_comp *comp)
{
    const void *at = translate(rmem, addr);
    (void)tp;
    (void)peer;
    if (at == NULL) return AQ_ENOTSUP;
    atomic_thread_fence(memory_order_acquire);
    memcpy(dst, at, len);
    aqi_comp_remote(comp);
    return AQ_OK;
}

aq_status shm_fill(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                   uint64_t addr, int byte, size_t len, struct aqi_comp *comp)
{
    void *at = translate(rmem, addr);
    (void)tp;
    (void)peer;
    if (at == NULL) return AQ_ENOTSUP;
    memset(at, byte, len);
    atomic_thread_fence(memory_order_release);
    aqi_comp_local(comp);
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
