/*
 * Memory that a transport registers on demand.
 *
 * After memory is unmapped, no message and no put is sent before all peers that hold it have
 * returned it (aqi_rdma_fenced). Other channels that may reveal the change, such as another
 * network, do not wait for that. So if an adapter has pinned the pages (`cut`), the next call also
 * deregisters such memory: a transfer in progress to other pages of the piece is rejected, and
 * repeated by messages.
 */
#include "transport/rdma/rdma.h"

#include "base/copy.h"
#include "base/log.h"
#include "base/stats.h"
#include "reg/limits.h"

#include <stdlib.h>

/* A registration. */
struct pins_pinned {
    uint64_t len;
    void *mr[AQI_RDMA_RAILS];
    uint64_t key[AQI_RDMA_KEY / sizeof(uint64_t)]; /* for peers */
};

/* --- hooks of the cache, whose `host` is the struct aqi_rdma --------------------------------- */

/* Kept registrations serve puts, gets and peers; otherwise the source of a put may be read-only. */
static enum aqi_pins_access pins_access(const struct aqi_rdma *rdma)
{
    const struct aqi_transfer *op = rdma->pins.op;
    if (op != NULL && rdma->pins.once) return op->get ? AQI_PINS_WRITE : AQI_PINS_READ;
    return rdma->lending.on ? AQI_PINS_PEERS : AQI_PINS_WRITE;
}

static aq_status pins_pin(void *host, uint64_t addr, uint64_t len, struct aqi_reg_mem *mem)
{
    struct aqi_rdma *rdma = host;
    const struct aqi_rdma_driver *driver = rdma->driver;
    struct pins_pinned *pinned = calloc(1, sizeof(*pinned));
    if (pinned == NULL) return AQ_ENOTSUP;
    aq_status st = driver->reg(rdma, (void *)(uintptr_t)addr, len, pins_access(rdma), pinned->mr);
    if (st != AQ_OK) {
        free(pinned);
        return st;
    }
    pinned->len = len;
    *mem = (struct aqi_reg_mem){.handle = pinned,
                                .key = pinned->key,
                                .key_len = driver->key(rdma, pinned->mr, addr, pinned->key)};
    aqi_count(AQI_CTR_REG_PINNED, len);
    return AQ_OK;
}

static void pins_unpin(void *host, const struct aqi_reg_mem *mem)
{
    struct aqi_rdma *rdma = host;
    struct pins_pinned *pinned = mem->handle;
    aqi_count(AQI_CTR_REG_UNPINNED, pinned->len);
    rdma->driver->dereg(rdma, pinned->mr);
    free(pinned);
}

/*
 * Whether these pages are in a segment, which is not unmapped while peers may access it. Then all
 * of its other pages may be pinned as well.
 */
static bool pins_segment(const struct aqi_pins *pins, uint64_t addr, uint64_t len, uint64_t *from,
                         uint64_t *to)
{
    uint64_t page = pins->page, first = addr & ~(page - 1);
    uint64_t end = aqi_round_up(addr + len, page);
    for (const struct aqi_pins_segment *at = pins->segments; at != NULL; at = at->next) {
        uint64_t begin = aqi_round_up(at->addr, page), behind = (at->addr + at->len) & ~(page - 1);
        if (first < begin || end > behind) continue;
        *from = begin;
        *to = behind;
        return true;
    }
    return false;
}

static bool pins_watch(struct aqi_pins *pins, uint64_t addr, uint64_t len)
{
    uint64_t first = addr & ~(pins->page - 1), end = aqi_round_up(addr + len, pins->page);
    if (pins->monitor == NULL) return pins->keeps;
    return aqi_monitor_watch(pins->monitor, first, end - first);
}

/* A key grants access to whole pages. Pinning memory that cannot be kept costs more than a
 * message. */
static enum aqi_reg_how pins_how_lent(struct aqi_rdma *rdma, uint64_t addr, uint64_t len)
{
    const struct aqi_tp_hooks *hooks = &rdma->params.hooks;
    uint64_t page = rdma->pins.page, first = addr & ~(page - 1);
    if (!hooks->range_ok(hooks->host, first, aqi_round_up(addr + len, page) - first))
        return AQI_REG_NEVER;
    if (pins_watch(&rdma->pins, addr, len)) return AQI_REG_KEEP;
    return len > rdma->tp.limits.max_medium ? AQI_REG_ONCE : AQI_REG_NEVER;
}

/* All pages of a transfer are watched at once. */
static enum aqi_reg_how pins_how(void *host, uint32_t who, uint64_t addr, uint64_t len,
                                 uint64_t *from, uint64_t *to)
{
    struct aqi_rdma *rdma = host;
    struct aqi_pins *pins = &rdma->pins;
    struct aqi_transfer *op = pins->op;
    pins->once = false;
    if (pins_segment(pins, addr, len, from, to)) return AQI_REG_KEEP;
    if (who != AQI_REG_SELF) return pins_how_lent(rdma, addr, len);
    if (op->how == AQI_REG_NEVER)
        op->how = pins_watch(pins, (uintptr_t)op->local, op->len) ? AQI_REG_KEEP : AQI_REG_ONCE;
    pins->once = op->how == AQI_REG_ONCE;
    return op->how;
}

static aq_status pins_ride(void *host, uint32_t peer, uint64_t addr, uint8_t tag, const void *bytes,
                           size_t nbytes)
{
    const struct aqi_tp_hooks *hooks = &((struct aqi_rdma *)host)->params.hooks;
    (void)peer, (void)tag;
    if (!hooks->range_ok(hooks->host, addr, nbytes)) return AQ_ERANGE;
    aqi_copy_put((void *)(uintptr_t)addr, bytes, nbytes);
    return AQ_OK;
}

static bool pins_changed(void *host, uint64_t *addr, uint64_t *len)
{
    struct aqi_monitor *monitor = ((struct aqi_rdma *)host)->pins.monitor;
    return monitor != NULL && aqi_monitor_next(monitor, addr, len);
}

/* --- opening --------------------------------------------------------------------------------- */

static aq_status pins_limits(struct aqi_rdma *rdma, uint64_t registrations,
                             struct aqi_reg_limits *limits)
{
    bool lends = rdma->lending.on;
    struct aqi_reg_machine machine = {.processes = rdma->params.local_size, .on_demand = lends};
    aqi_reg_machine_look(&machine);
    aq_status st = aqi_reg_limits_from(&aqi_reg_config, &machine, limits);
    if (st != AQ_OK) return st;
    if (lends) /* a control message fits a buffer */
        limits->ride = (uint32_t)aqi_min(
            limits->ride, rdma->tp.limits.max_medium - (AQI_REG_MESSAGE_MAX - AQI_REG_RIDE_MAX));
    if (registrations != 0) {
        uint64_t lent = lends ? registrations / 4 * 3 : 0;
        if (lends) limits->main.regions = aqi_min(limits->main.regions, lent);
        limits->victim.regions = aqi_min(limits->victim.regions, registrations - lent);
    }
    rdma->pins.page = machine.page;
    rdma->pins.region = limits->region;
    rdma->pins.ride = limits->ride;
    return AQ_OK;
}

aq_status aqi_pins_open(struct aqi_rdma *rdma, uint64_t registrations, bool cut)
{
    const char *name = rdma->driver->name;
    struct aqi_pins *pins = &rdma->pins;
    struct aqi_reg_params reg = {.peers = rdma->lending.on ? rdma->params.size : 1,
                                 .cut = cut,
                                 .hooks = {.pin = pins_pin,
                                           .unpin = pins_unpin,
                                           .how = pins_how,
                                           .changed = pins_changed,
                                           .send = aqi_lending_send,
                                           .ride = pins_ride,
                                           .host = rdma}};
    char why[160];
    aqi_pool_init(&pins->uses, sizeof(struct aqi_reg_use), 64, false);
    aq_status st = pins_limits(rdma, registrations, &reg.limits);
    if (st != AQ_OK) return st;
    if (aqi_reg_config.probe)
        reg.limits.victim.bytes = aqi_reg_probe(&reg.hooks, reg.limits.victim.bytes);
    /* Threads that make no calls here may also unmap memory. */
    if (cut && aqi_reg_config.monitor == AQI_REG_MONITOR_AUTO &&
        aqi_monitor_open(&pins->monitor, why, sizeof(why)) != AQ_OK)
        aqi_log(AQI_LOG_INFO, name, "%s", why);
    pins->keeps = !cut || pins->monitor != NULL;
    aqi_log(AQI_LOG_INFO, name,
            "registrations: %llu bytes in %llu pieces for peers, and %llu bytes in %llu pieces for "
            "this process, in regions of %llu bytes",
            (unsigned long long)reg.limits.main.bytes, (unsigned long long)reg.limits.main.regions,
            (unsigned long long)reg.limits.victim.bytes,
            (unsigned long long)reg.limits.victim.regions, (unsigned long long)reg.limits.region);
    return aqi_reg_open(&reg, &pins->reg);
}

void aqi_pins_close(struct aqi_pins *pins)
{
    if (pins->reg != NULL) aqi_reg_close(pins->reg);
    if (pins->monitor != NULL) aqi_monitor_close(pins->monitor);
    aqi_pool_destroy(&pins->uses);
}

void aqi_pins_advise(char *advice, size_t len)
{
    *advice = '\0';
    if (aqi_reg_config.monitor == AQI_REG_MONITOR_AUTO) aqi_monitor_check(advice, len);
}

/* --- using it -------------------------------------------------------------------------------- */

struct aqi_reg_use *aqi_pins_get(struct aqi_pins *pins, struct aqi_transfer *op, size_t offset,
                                 size_t *len)
{
    const struct aqi_reg_counts *counts = aqi_reg_counts(pins->reg);
    uint64_t addr = (uintptr_t)op->local + offset, hits = counts->hits;
    struct aqi_reg_use *use = aqi_pool_get(&pins->uses);
    if (use == NULL) return NULL;
    pins->op = op;
    aq_status st = aqi_reg_local(pins->reg, addr, *len, use);
    pins->op = NULL;
    aqi_count(counts->hits != hits ? AQI_CTR_REG_HIT : AQI_CTR_REG_MISS, 1);
    if (st != AQ_OK) {
        aqi_pool_put(&pins->uses, use);
        return NULL;
    }
    *len = (size_t)use->len;
    return use;
}

void aqi_pins_put(struct aqi_pins *pins, struct aqi_reg_use *use)
{
    aqi_reg_release(pins->reg, use);
    aqi_pool_put(&pins->uses, use);
    pins->due = true;
}

void *aqi_pins_mr(const struct aqi_reg_use *use, unsigned rail)
{
    return ((const struct pins_pinned *)use->mem->handle)->mr[rail];
}

void aqi_pins_offer(struct aqi_pins *pins, struct aqi_pins_segment *segment)
{
    segment->next = pins->segments;
    pins->segments = segment;
}

void aqi_pins_withdraw(struct aqi_pins *pins, const struct aqi_pins_segment *segment)
{
    struct aqi_pins_segment **at = &pins->segments;
    while (*at != NULL && *at != segment)
        at = &(*at)->next;
    if (*at == NULL) return;
    *at = segment->next;
    aqi_reg_invalidate(pins->reg, segment->addr, segment->len);
}
