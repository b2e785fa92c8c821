/* shm: memory mapped by all ranks of the host, and one-sided operations on it by load and store. */
#include "base/copy.h"
#include "base/fail.h"
#include "base/shmem.h"
#include "transport/shm/shm_impl.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The types of memory. Private memory is accessed by CMA or messages. */
enum { KEY_PRIVATE = 1, KEY_SHARED = 2 };
#define NO_HANDLE UINT32_MAX

struct shm_key {
    uint32_t type;
    uint32_t local_rank;
    uint64_t offset; /* in the owner's part of the area; KEY_PRIVATE: generation of its handle */
    uint32_t area;   /* KEY_PRIVATE: its handle, or NO_HANDLE */
    uint32_t unused;
};
static_assert(sizeof(struct shm_key) == SHM_KEY, "as the transport's table says");

struct shm_mem {
    struct aqi_mem mem;
    struct shm_key key;
};

struct shm_rmem {
    struct aqi_rmem rmem;
    unsigned char *at; /* where this process can access it by load and store, or NULL */
    struct shm_key key;
};

aq_status shm_mem_alloc(struct aqi_tp *tp, size_t len, size_t most, void **addr)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    size_t stride = aqi_round_up(most ? most : 1, aqi_page_size());
    void *at;
    int fd;
    (void)len;
    if (shm->area_count == SHM_AREAS)
        return aqi_fail(AQ_ELIMIT, "shm", "memory has been allocated %d times, which is the limit",
                        SHM_AREAS);
    if (stride > SIZE_MAX / 2 / shm->params.local_size)
        return aqi_fail(AQ_ESIZE, "shm", "%u segments of %zu bytes do not fit in the address space",
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

/* A peer uses CMA on private memory only as long as the handle in the memory's key is valid. */
static void shm_rma_open_handle(struct shm_tp *shm, struct shm_key *key)
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

aq_status shm_mem_reg(struct aqi_tp *tp, void *addr, size_t len, struct aqi_mem **out)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_mem *mem = malloc(sizeof(*mem));
    if (mem == NULL) return AQ_ENOMEM;
    struct shm_key key = {.type = KEY_PRIVATE, .local_rank = shm->params.local_rank};
    for (uint32_t i = 0; i < shm->area_count; i++) {
        const struct shm_area *area = &shm->areas[i];
        uintptr_t mine = (uintptr_t)area->base + shm->params.local_rank * area->stride;
        if (!aqi_within((uintptr_t)addr, len, mine, area->stride)) continue;
        key.type = KEY_SHARED;
        key.area = i;
        key.offset = (uintptr_t)addr - mine;
    }
    if (key.type == KEY_PRIVATE) shm_rma_open_handle(shm, &key);
    mem->key = key;
    mem->mem = (struct aqi_mem){addr, len, &mem->key, sizeof(mem->key)};
    *out = &mem->mem;
    return AQ_OK;
}

aq_status shm_mem_fd(struct aqi_tp *tp, const void *addr, size_t len, int *fd, uint64_t *offset)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    for (uint32_t i = 0; i < shm->area_count && shm_config.map; i++) {
        const struct shm_area *area = &shm->areas[i];
        size_t size = area->stride * shm->params.local_size;
        if (!aqi_within((uintptr_t)addr, len, (uintptr_t)area->base, size)) continue;
        *fd = area->fd;
        *offset = (uintptr_t)addr - (uintptr_t)area->base;
        return AQ_OK;
    }
    return AQ_ENOTSUP;
}

void shm_mem_dereg(struct aqi_tp *tp, struct aqi_mem *mem)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    const struct shm_key *key = &((struct shm_mem *)mem)->key;
    if (key->type == KEY_PRIVATE && key->area < SHM_HANDLES)
        atomic_fetch_add(&shm->inbox->handles[key->area], 1);
    free(mem);
}

/* Find where the memory of a key is mapped here; `*at` is NULL if it is not. */
static aq_status shm_rma_find_memory(const struct shm_tp *shm, const struct shm_key *key,
                                     uint32_t id, size_t len, unsigned char **at)
{
    const struct shm_area *area = &shm->areas[key->area % SHM_AREAS];
    *at = NULL;
    if (key->type == KEY_PRIVATE) return AQ_OK;
    if (key->area >= shm->area_count || !aqi_within(key->offset, len, 0, area->stride))
        return aqi_fail(AQ_EPROTO, "shm", "peer %u sent a memory key that is out of range", id);
    if (shm_config.map) *at = area->base + key->local_rank * area->stride + key->offset;
    return AQ_OK;
}

aq_status shm_mem_map(struct aqi_tp *tp, struct aqi_peer *peer, const void *in, size_t key_len,
                      uint64_t addr, size_t len, struct aqi_rmem **out)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_peer *from = (struct shm_peer *)peer;
    struct shm_key key = {0};
    if (key_len == sizeof(key)) memcpy(&key, in, sizeof(key));
    if ((key.type != KEY_PRIVATE && key.type != KEY_SHARED) || key.local_rank != from->local_rank)
        return aqi_fail(AQ_EPROTO, "shm", "peer %u sent a malformed memory key", peer->id);
    unsigned char *at;
    aq_status st = shm_rma_find_memory(shm, &key, peer->id, len, &at);
    struct shm_rmem *rmem = st == AQ_OK ? malloc(sizeof(*rmem)) : NULL;
    if (st != AQ_OK) return st;
    if (rmem == NULL) return aqi_fail(AQ_ENOMEM, "shm", "no memory to map memory");
    *rmem = (struct shm_rmem){{.local = at, .addr = addr, .len = len}, .at = at, .key = key};
    if (key.type == KEY_PRIVATE && key.local_rank == shm->params.local_rank)
        rmem->at = (unsigned char *)(uintptr_t)addr;
    *out = &rmem->rmem;
    return AQ_OK;
}

void shm_mem_unmap(struct aqi_tp *tp, struct aqi_rmem *rmem)
{
    (void)tp;
    free(rmem);
}

/* Where `addr` of a peer's memory is mapped here; NULL if it is not. */
static void *shm_rma_translate(const struct aqi_rmem *rmem, uint64_t addr)
{
    const struct shm_rmem *mine = (const struct shm_rmem *)rmem;
    return mine->at != NULL ? mine->at + (addr - rmem->addr) : NULL;
}

/* Find where memory is mapped; `*at` is NULL if it needs CMA. AQ_ENOTSUP: it needs messages. */
static aq_status shm_rma_find(struct shm_tp *shm, struct shm_peer *peer,
                              const struct aqi_rmem *rmem, uint64_t addr, size_t len, void **at)
{
    const struct shm_key *key = &((const struct shm_rmem *)rmem)->key;
    *at = shm_rma_translate(rmem, addr);
    if (*at != NULL) return AQ_OK;
    if (AQI_UNLIKELY(peer->lost)) return AQ_EPEER;
    if (key->type == KEY_PRIVATE &&
        (key->area >= SHM_HANDLES || atomic_load_explicit(&peer->inbox->handles[key->area],
                                                          memory_order_acquire) != key->offset))
        return AQ_ENOTSUP;
    return shm_cma_better(shm, peer, len) ? AQ_OK : AQ_ENOTSUP;
}

aq_status shm_put(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, const void *src, size_t len, const struct aqi_mem *mem,
                  struct aqi_comp *comp)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_peer *to = (struct shm_peer *)peer;
    void *at;
    (void)mem;
    aq_status st = shm_rma_find(shm, to, rmem, addr, len, &at);
    if (st == AQ_OK && at == NULL)
        st = shm_cma_move(shm, to, true, (void *)(uintptr_t)src, addr, len, "shm");
    if (st != AQ_OK) return st;
    if (at != NULL) aqi_copy_put(at, src, len);
    atomic_thread_fence(memory_order_release);
    aqi_comp_local(comp);
    aqi_comp_remote(comp);
    return AQ_OK;
}

aq_status shm_get(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, void *dst, size_t len, const struct aqi_mem *mem,
                  struct aqi_comp *comp)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_peer *from = (struct shm_peer *)peer;
    void *at;
    (void)mem;
    atomic_thread_fence(memory_order_acquire);
    aq_status st = shm_rma_find(shm, from, rmem, addr, len, &at);
    if (st == AQ_OK && at == NULL) st = shm_cma_move(shm, from, false, dst, addr, len, "shm");
    if (st != AQ_OK) return st;
    if (at != NULL) memcpy(dst, at, len);
    aqi_comp_remote(comp);
    return AQ_OK;
}

aq_status shm_fill(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                   uint64_t addr, int byte, size_t len, struct aqi_comp *comp)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_peer *to = (struct shm_peer *)peer;
    void *at;
    aq_status st = shm_rma_find(shm, to, rmem, addr, len, &at);
    if (st == AQ_OK && at == NULL) st = shm_cma_fill(shm, to, addr, byte, len);
    if (st != AQ_OK) return st;
    if (at != NULL) memset(at, byte, len);
    atomic_thread_fence(memory_order_release);
    aqi_comp_remote(comp);
    return AQ_OK;
}

aq_status shm_atomic(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                     const struct aqi_atomic *req, void *result, struct aqi_comp *comp)
{
    void *at = shm_rma_translate(rmem, req->addr);
    (void)tp, (void)peer;
    if (at == NULL) return AQ_ENOTSUP;
    uint64_t old = aqi_atomic_apply(req, at);
    if (req->fetch) memcpy(result, &old, aqi_atomic_size(req->type));
    aqi_comp_remote(comp);
    return AQ_OK;
}
