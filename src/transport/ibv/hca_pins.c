/*
 * ibv: memory that is not registered is pinned for large transfers, piece by piece as they are
 * posted, and kept where the monitor tells when it changes (src/reg). What cannot be pinned is
 * copied. Nothing is lent to peers, so no key of such memory leaves the process, and the order in
 * which others hear of changes does not matter (aqi_reg_fenced never holds).
 */
#include "transport/ibv/hca_impl.h"

#include "base/log.h"
#include "base/stats.h"
#include "reg/limits.h"

#include <errno.h>
#include <stdlib.h>

struct hca_pinned {
    struct ibv_mr *mr[HCA_RAILS];
    uint64_t len;
};

/* --- what the cache asks for ----------------------------------------------------------------- */

static aq_status hca_pins_pin(void *host, uint64_t addr, uint64_t len, struct aqi_reg_mem *mem)
{
    struct hca_tp *hca = host;
    const struct hca_op *op = hca->pins.op;
    /* What is kept serves puts and gets; else what is put may lie in memory for reading only. */
    bool reads = op != NULL && !op->get && op->how == AQI_REG_ONCE;
    struct hca_pinned *pinned = calloc(1, sizeof(*pinned));
    if (pinned == NULL) return AQ_ENOTSUP;
    *mem = (struct aqi_reg_mem){.handle = pinned};
    if (hca_rails_register(hca, pinned->mr, (void *)(uintptr_t)addr, len,
                           reads ? 0 : IBV_ACCESS_LOCAL_WRITE)) {
        pinned->len = len;
        aqi_count(AQI_CTR_REG_PINNED, len);
        return AQ_OK;
    }
    bool full = errno == ENOMEM;
    hca_rails_deregister(pinned->mr);
    free(pinned);
    return full ? AQ_ELIMIT : AQ_ENOTSUP;
}

static void hca_pins_unpin(void *host, const struct aqi_reg_mem *mem)
{
    struct hca_pinned *pinned = mem->handle;
    (void)host;
    aqi_count(AQI_CTR_REG_UNPINNED, pinned->len);
    hca_rails_deregister(pinned->mr);
    free(pinned);
}

/* All pages of a transfer are watched at once. */
static enum aqi_reg_how hca_pins_how(void *host, uint32_t who, uint64_t addr, uint64_t len,
                                     uint64_t *from, uint64_t *to)
{
    struct hca_pins *pins = &((struct hca_tp *)host)->pins;
    struct hca_op *op = pins->op;
    (void)who, (void)addr, (void)len, (void)from, (void)to;
    if (op->how != AQI_REG_NEVER) return op->how;
    uint64_t first = (uintptr_t)op->local & ~(pins->page - 1);
    uint64_t end = aqi_round_up((uintptr_t)op->local + op->len, pins->page);
    bool watched = pins->monitor != NULL && aqi_monitor_watch(pins->monitor, first, end - first);
    op->how = watched ? AQI_REG_KEEP : AQI_REG_ONCE;
    return op->how;
}

static bool hca_pins_changed(void *host, uint64_t *addr, uint64_t *len)
{
    struct aqi_monitor *monitor = ((struct hca_tp *)host)->pins.monitor;
    return monitor != NULL && aqi_monitor_next(monitor, addr, len);
}

/* --- opening --------------------------------------------------------------------------------- */

aq_status hca_pins_open(struct hca_tp *hca)
{
    struct aqi_reg_machine machine = {.processes = hca->params.local_size};
    struct aqi_reg_params params = {.peers = 1,
                                    .hooks = {.pin = hca_pins_pin,
                                              .unpin = hca_pins_unpin,
                                              .how = hca_pins_how,
                                              .changed = hca_pins_changed,
                                              .host = hca}};
    char why[160];
    aqi_pool_init(&hca->pins.uses, sizeof(struct aqi_reg_use), 64, false);
    aqi_reg_machine_look(&machine);
    hca->pins.page = machine.page;
    aq_status st = aqi_reg_limits_from(&aqi_reg_config, &machine, &params.limits);
    if (st != AQ_OK) return st;
    if (aqi_reg_config.probe)
        params.limits.victim.bytes = aqi_reg_probe(&params.hooks, params.limits.victim.bytes);
    /* Threads that make no calls here may unmap memory all the same. */
    if (aqi_reg_config.monitor == AQI_REG_MONITOR_AUTO &&
        aqi_monitor_open(true, &hca->pins.monitor, why, sizeof(why)) != AQ_OK)
        aqi_log(AQI_LOG_INFO, "ibv", "%s", why);
    return aqi_reg_open(&params, &hca->pins.reg);
}

void hca_pins_close(struct hca_tp *hca)
{
    if (hca->pins.reg != NULL) aqi_reg_close(hca->pins.reg);
    if (hca->pins.monitor != NULL) aqi_monitor_close(hca->pins.monitor);
    aqi_pool_destroy(&hca->pins.uses);
}

void hca_pins_advise(char *advice, size_t len)
{
    *advice = '\0';
    if (aqi_reg_config.monitor == AQI_REG_MONITOR_AUTO) aqi_monitor_check(advice, len);
}

/* --- using it -------------------------------------------------------------------------------- */

bool hca_pins_get(struct hca_tp *hca, struct hca_sent *sent)
{
    const struct aqi_reg_counts *counts = aqi_reg_counts(hca->pins.reg);
    uint64_t addr = (uintptr_t)sent->op->local + sent->offset, hits = counts->hits;
    struct aqi_reg_use *use = aqi_pool_get(&hca->pins.uses);
    if (use == NULL) return false;
    hca->pins.op = sent->op;
    aq_status st = aqi_reg_local(hca->pins.reg, addr, sent->len, use);
    hca->pins.op = NULL;
    aqi_count(counts->hits != hits ? AQI_CTR_REG_HIT : AQI_CTR_REG_MISS, 1);
    if (st != AQ_OK) {
        aqi_pool_put(&hca->pins.uses, use);
        return false;
    }
    sent->len = (size_t)use->len;
    sent->pin = use;
    return true;
}

void hca_pins_put(struct hca_tp *hca, struct hca_sent *sent)
{
    aqi_reg_release(hca->pins.reg, sent->pin);
    aqi_pool_put(&hca->pins.uses, sent->pin);
    sent->pin = NULL;
    hca->pins.due = true;
}

uint32_t hca_pins_lkey(const struct hca_sent *sent, unsigned rail)
{
    const struct hca_pinned *pinned = sent->pin->mem->handle;
    return pinned->mr[rail]->lkey;
}

void hca_pins_progress(struct hca_tp *hca)
{
    if (AQI_LIKELY(!hca->pins.due &&
                   (hca->pins.monitor == NULL || !aqi_monitor_told(hca->pins.monitor))))
        return;
    hca->pins.due = aqi_reg_progress(hca->pins.reg);
}
