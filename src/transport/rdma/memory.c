/* rdma: segments, and memory that is registered on demand. */
#include "transport/rdma/rdma.h"

#include <stdlib.h>

aq_status aqi_rdma_mem_reg(struct aqi_tp *tp, void *addr, size_t len, struct aqi_mem **out)
{
    struct aqi_rdma *rdma = (struct aqi_rdma *)tp;
    struct aqi_rdma_mem *mem = NULL;
    bool all = len == SIZE_MAX; /* all memory of the process */
    aq_status st = all ? AQ_ELIMIT : rdma->driver->mem_reg(rdma, addr, len, &mem);
    if (st == AQ_OK) *out = &mem->mem;
    if (st != AQ_ELIMIT) return st;
    if (!rdma->lending.on) return all ? AQ_ENOTSUP : AQ_ELIMIT;
    mem = rdma->driver->mem_lent(rdma, addr, len);
    if (mem == NULL) return AQ_ENOMEM;
    mem->segment = (struct aqi_pins_segment){.addr = (uintptr_t)addr, .len = len};
    aqi_rdma_lock(rdma);
    if (!all) aqi_pins_offer(&rdma->pins, &mem->segment);
    aqi_rdma_unlock(rdma);
    *out = &mem->mem;
    return AQ_OK;
}

void aqi_rdma_mem_dereg(struct aqi_tp *tp, struct aqi_mem *out)
{
    struct aqi_rdma *rdma = (struct aqi_rdma *)tp;
    struct aqi_rdma_mem *mem = (struct aqi_rdma_mem *)out;
    aqi_rdma_lock(rdma);
    aqi_pins_withdraw(&rdma->pins, &mem->segment);
    aqi_rdma_unlock(rdma);
    rdma->driver->mem_drop(rdma, mem);
    free(mem);
}

void aqi_rdma_mem_unmap(struct aqi_tp *tp, struct aqi_rmem *rmem)
{
    (void)tp;
    free(rmem);
}

/* --- on demand ------------------------------------------------------------------------------- */

struct rdma_pinned {
    struct aqi_pinned pinned;
    void *mr[AQI_RDMA_RAILS];
    uint64_t key[AQI_RDMA_KEY / sizeof(uint64_t)]; /* for peers */
};

static aq_status rdma_pin(void *host, uint64_t addr, uint64_t len, enum aqi_pins_access access,
                          struct aqi_reg_mem *mem)
{
    struct aqi_rdma *rdma = host;
    struct rdma_pinned *pinned = calloc(1, sizeof(*pinned));
    if (pinned == NULL) return AQ_ENOTSUP;
    aq_status st = rdma->driver->reg(rdma, (void *)(uintptr_t)addr, len, access, pinned->mr);
    if (st != AQ_OK) {
        free(pinned);
        return st;
    }
    *mem = (struct aqi_reg_mem){.handle = pinned,
                                .key = pinned->key,
                                .key_len = rdma->driver->key(rdma, pinned->mr, addr, pinned->key)};
    return AQ_OK;
}

static void rdma_unpin(void *host, const struct aqi_reg_mem *mem)
{
    struct aqi_rdma *rdma = host;
    struct rdma_pinned *pinned = mem->handle;
    rdma->driver->dereg(rdma, pinned->mr);
    free(pinned);
}

void *aqi_rdma_pinned_mr(const struct aqi_reg_use *use, unsigned rail)
{
    return ((const struct rdma_pinned *)use->mem->handle)->mr[rail];
}

aq_status aqi_rdma_pins_open(struct aqi_rdma *rdma, uint64_t registrations, bool cut)
{
    const struct aqi_pins_params params = {.tp = &rdma->params,
                                           .name = rdma->driver->name,
                                           .max_medium = rdma->tp.limits.max_medium,
                                           .registrations = registrations,
                                           .lends = rdma->lending.on,
                                           .cut = cut,
                                           .pin = rdma_pin,
                                           .unpin = rdma_unpin,
                                           .send = aqi_lending_send,
                                           .host = rdma};
    return aqi_pins_open(&params, &rdma->pins);
}
