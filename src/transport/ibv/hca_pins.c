/*
 * ibv: memory that is not registered is pinned for large transfers, piece by piece as they are
 * posted, and kept where the monitor tells when it changes (src/reg). What cannot be pinned is
 * copied.
 *
 * Where segments may be too large to be registered, pieces of them are lent to peers that ask
 * (hca_far.c). Of what was unmapped no message and no put leaves before all who hold it have given
 * it back (hca_pins_fenced). What else may tell of it, such as another network, knows nothing of
 * that, so with the next call such memory is deregistered, too (`cut`): a transfer to other pages
 * of the piece that is under way is refused by the adapter, and done again by messages.
 */
#include "transport/ibv/hca_impl.h"

#include "base/log.h"
#include "base/stats.h"
#include "reg/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct hca_pinned {
    struct ibv_mr *mr[HCA_RAILS];
    uint32_t rkey[HCA_RAILS]; /* what peers get */
    uint64_t len;
};

/* --- what the cache asks for ----------------------------------------------------------------- */

/* What is kept serves puts, gets and peers; else what is put may lie in memory for reading only. */
static int hca_pins_access(const struct hca_tp *hca)
{
    const struct hca_op *op = hca->pins.op;
    if (op != NULL && hca->pins.once) return op->get ? IBV_ACCESS_LOCAL_WRITE : 0;
    return hca->lending.on ? HCA_ACCESS : IBV_ACCESS_LOCAL_WRITE;
}

static aq_status hca_pins_pin(void *host, uint64_t addr, uint64_t len, struct aqi_reg_mem *mem)
{
    struct hca_tp *hca = host;
    struct hca_pinned *pinned = calloc(1, sizeof(*pinned));
    if (pinned == NULL) return AQ_ENOTSUP;
    *mem = (struct aqi_reg_mem){
        .handle = pinned, .key = pinned->rkey, .key_len = hca->rails * sizeof(pinned->rkey[0])};
    if (hca_rails_register(hca, pinned->mr, (void *)(uintptr_t)addr, len, hca_pins_access(hca))) {
        pinned->len = len;
        for (unsigned r = 0; r < hca->rails; r++)
            pinned->rkey[r] = pinned->mr[r]->rkey;
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

/* Are these pages in a segment, which is not unmapped while it may be reached? Then all of its
 * other pages may be pinned along. */
static bool hca_pins_segment(const struct hca_tp *hca, uint64_t addr, uint64_t len, uint64_t *from,
                             uint64_t *to)
{
    uint64_t page = hca->pins.page, first = addr & ~(page - 1);
    uint64_t end = aqi_round_up(addr + len, page);
    for (const struct hca_mem *mem = hca->lending.segments; mem != NULL; mem = mem->next) {
        uint64_t begin = aqi_round_up((uintptr_t)mem->mem.addr, page);
        uint64_t behind = ((uintptr_t)mem->mem.addr + mem->mem.len) & ~(page - 1);
        if (first < begin || end > behind) continue;
        *from = begin;
        *to = behind;
        return true;
    }
    return false;
}

static bool hca_pins_watch(struct hca_pins *pins, uint64_t addr, uint64_t len)
{
    uint64_t first = addr & ~(pins->page - 1), end = aqi_round_up(addr + len, pins->page);
    return pins->monitor != NULL && aqi_monitor_watch(pins->monitor, first, end - first);
}

/* A key opens whole pages. What cannot be kept costs more than a message. */
static enum aqi_reg_how hca_pins_how_lent(struct hca_tp *hca, uint64_t addr, uint64_t len)
{
    const struct aqi_tp_hooks *hooks = &hca->params.hooks;
    uint64_t page = hca->pins.page, first = addr & ~(page - 1);
    if (!hooks->range_ok(hooks->host, first, aqi_round_up(addr + len, page) - first))
        return AQI_REG_NEVER;
    if (hca_pins_watch(&hca->pins, addr, len)) return AQI_REG_KEEP;
    return len > hca->tp.limits.max_medium ? AQI_REG_ONCE : AQI_REG_NEVER;
}

/* All pages of a transfer are watched at once. */
static enum aqi_reg_how hca_pins_how(void *host, uint32_t who, uint64_t addr, uint64_t len,
                                     uint64_t *from, uint64_t *to)
{
    struct hca_tp *hca = host;
    struct hca_op *op = hca->pins.op;
    hca->pins.once = false;
    if (hca_pins_segment(hca, addr, len, from, to)) return AQI_REG_KEEP;
    if (who != AQI_REG_SELF) return hca_pins_how_lent(hca, addr, len);
    if (op->how == AQI_REG_NEVER)
        op->how =
            hca_pins_watch(&hca->pins, (uintptr_t)op->local, op->len) ? AQI_REG_KEEP : AQI_REG_ONCE;
    hca->pins.once = op->how == AQI_REG_ONCE;
    return op->how;
}

static aq_status hca_pins_ride(void *host, uint32_t peer, uint64_t addr, uint8_t tag,
                               const void *bytes, size_t nbytes)
{
    const struct aqi_tp_hooks *hooks = &((struct hca_tp *)host)->params.hooks;
    (void)peer, (void)tag;
    if (!hooks->range_ok(hooks->host, addr, nbytes)) return AQ_ERANGE;
    memcpy((void *)(uintptr_t)addr, bytes, nbytes);
    return AQ_OK;
}

static bool hca_pins_changed(void *host, uint64_t *addr, uint64_t *len)
{
    struct aqi_monitor *monitor = ((struct hca_tp *)host)->pins.monitor;
    return monitor != NULL && aqi_monitor_next(monitor, addr, len);
}

/* --- opening --------------------------------------------------------------------------------- */

aq_status hca_pins_open(struct hca_tp *hca)
{
    struct aqi_reg_machine machine = {.processes = hca->params.local_size,
                                      .on_demand = hca->lending.on};
    struct aqi_reg_params params = {.peers = hca->lending.on ? hca->params.size : 1,
                                    .cut = true,
                                    .hooks = {.pin = hca_pins_pin,
                                              .unpin = hca_pins_unpin,
                                              .how = hca_pins_how,
                                              .changed = hca_pins_changed,
                                              .send = hca_control_send,
                                              .ride = hca_pins_ride,
                                              .host = hca}};
    char why[160];
    aqi_pool_init(&hca->pins.uses, sizeof(struct aqi_reg_use), 64, false);
    aqi_pool_init(&hca->lending.fars, sizeof(struct hca_far), 64, false);
    aqi_reg_machine_look(&machine);
    hca->pins.page = machine.page;
    aq_status st = aqi_reg_limits_from(&aqi_reg_config, &machine, &params.limits);
    if (st != AQ_OK) return st;
    if (hca->lending.on) /* a control message fits a buffer */
        params.limits.ride =
            (uint32_t)aqi_min(params.limits.ride,
                              hca->tp.limits.max_medium - (AQI_REG_MESSAGE_MAX - AQI_REG_RIDE_MAX));
    hca->pins.region = params.limits.region;
    hca->pins.ride = params.limits.ride;
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
    aqi_pool_destroy(&hca->lending.fars);
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
    if (AQI_UNLIKELY(hca->lending.on)) {
        hca_far_forget(hca);
        hca_control_progress(hca);
    }
    if (AQI_LIKELY(!hca->pins.due &&
                   (hca->pins.monitor == NULL || !aqi_monitor_told(hca->pins.monitor))))
        return;
    hca->pins.due = aqi_reg_progress(hca->pins.reg);
}
