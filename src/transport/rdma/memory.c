/* rdma: segments. */
#include "transport/rdma/rdma.h"

#include "base/fail.h"
#include "base/log.h"

#include <stdlib.h>

static struct aqi_rdma_mem *rdma_mem_new(void *addr, size_t len, uint8_t shift, size_t parts)
{
    struct aqi_rdma_mem *mem = calloc(1, sizeof(*mem) + parts * sizeof(mem->mr[0]));
    if (mem == NULL) return NULL;
    mem->shift = shift;
    mem->parts = (uint16_t)parts;
    mem->mem = (struct aqi_mem){.addr = addr, .len = len, .key = mem->key};
    return mem;
}

static void rdma_mem_drop(struct aqi_rdma *rdma, struct aqi_rdma_mem *mem)
{
    if (rdma->driver->one_thread) aqi_rdma_lock(rdma);
    for (unsigned p = 0; p < mem->parts; p++)
        rdma->driver->dereg(rdma, mem->mr[p]);
    if (rdma->driver->one_thread) aqi_rdma_unlock(rdma);
    free(mem);
}

static bool rdma_mem_parts(struct aqi_rdma *rdma, struct aqi_rdma_mem *mem)
{
    aq_status st = AQ_OK;
    if (rdma->driver->one_thread) aqi_rdma_lock(rdma);
    for (unsigned p = 0; p < mem->parts && st == AQ_OK; p++) {
        size_t at = (size_t)p << mem->shift;
        st = rdma->driver->reg(rdma, (unsigned char *)mem->mem.addr + at,
                               aqi_min(mem->mem.len - at, UINT64_C(1) << mem->shift),
                               AQI_PINS_PEERS, mem->mr[p]);
    }
    if (rdma->driver->one_thread) aqi_rdma_unlock(rdma);
    if (st == AQ_OK) mem->mem.key_len = rdma->driver->seal(rdma, mem, mem->key);
    return mem->mem.key_len != 0;
}

static aq_status rdma_mem_known(struct aqi_rdma *rdma, void *addr, size_t len,
                                struct aqi_rdma_mem **out)
{
    static atomic_bool once;
    uint8_t shift;
    aq_status st = rdma->driver->split(rdma, len, &shift);
    if (st != AQ_OK) return st;
    *out = rdma_mem_new(addr, len, shift, ((len - 1) >> shift) + 1);
    if (*out == NULL) return AQ_ENOMEM;
    if (rdma_mem_parts(rdma, *out)) return AQ_OK;
    aqi_log_once(&once, aqi_rdma_loud(rdma), rdma->driver->name,
                 "%zu bytes are %s, as is all memory that cannot be registered from now on: %s",
                 len, aqi_rdma_instead(rdma), aq_error_message());
    rdma_mem_drop(rdma, *out);
    return AQ_ELIMIT;
}

static aq_status rdma_mem_lent(struct aqi_rdma *rdma, void *addr, size_t len,
                               struct aqi_rdma_mem **out)
{
    struct aqi_rdma_mem *mem = *out = rdma_mem_new(addr, len, 0, 0);
    if (mem == NULL) return AQ_ENOMEM;
    mem->mem.key_len = rdma->driver->seal(rdma, mem, mem->key);
    mem->segment = (struct aqi_pins_segment){.addr = (uintptr_t)addr, .len = len};
    aqi_rdma_lock(rdma);
    if (len != SIZE_MAX) aqi_pins_offer(&rdma->pins, &mem->segment);
    aqi_rdma_unlock(rdma);
    return AQ_OK;
}

aq_status aqi_rdma_mem_reg(struct aqi_tp *tp, void *addr, size_t len, struct aqi_mem **out)
{
    struct aqi_rdma *rdma = (struct aqi_rdma *)tp;
    struct aqi_rdma_mem *mem = NULL;
    bool all = len == SIZE_MAX; /* all memory of the process */
    aq_status st = all ? AQ_ELIMIT : rdma_mem_known(rdma, addr, len, &mem);
    if (st == AQ_ELIMIT && rdma->lending.on)
        st = rdma_mem_lent(rdma, addr, len, &mem);
    else if (all)
        st = AQ_ENOTSUP;
    if (st == AQ_OK) *out = &mem->mem;
    return st;
}

void aqi_rdma_mem_dereg(struct aqi_tp *tp, struct aqi_mem *out)
{
    struct aqi_rdma *rdma = (struct aqi_rdma *)tp;
    struct aqi_rdma_mem *mem = (struct aqi_rdma_mem *)out;
    aqi_rdma_lock(rdma);
    aqi_pins_withdraw(&rdma->pins, &mem->segment);
    aqi_rdma_unlock(rdma);
    rdma_mem_drop(rdma, mem);
}

aq_status aqi_rdma_mem_map(struct aqi_tp *tp, struct aqi_peer *peer, const void *key,
                           size_t key_len, uint64_t addr, size_t len, struct aqi_rmem **out)
{
    struct aqi_rdma *rdma = (struct aqi_rdma *)tp;
    const struct aqi_rdma_driver *driver = rdma->driver;
    struct aqi_rdma_rmem *rmem = calloc(1, driver->rmem_size);
    if (rmem == NULL) return aqi_fail(AQ_ENOMEM, driver->name, "no memory to map memory");
    rmem->rmem = (struct aqi_rmem){.addr = addr, .len = len};
    aq_status st = driver->map(rdma, key, key_len, rmem);
    *out = st == AQ_OK ? &rmem->rmem : NULL;
    if (st != AQ_OK) free(rmem);
    if (st == AQ_EPROTO)
        return aqi_fail(st, driver->name, "rank %u sent a malformed memory key", peer->id);
    return AQ_OK;
}

void aqi_rdma_mem_unmap(struct aqi_tp *tp, struct aqi_rmem *rmem)
{
    (void)tp;
    free(rmem);
}
