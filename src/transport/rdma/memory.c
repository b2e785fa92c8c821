/* rdma: memory that is registered on demand. */
#include "transport/rdma/rdma.h"

#include <stdlib.h>

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
