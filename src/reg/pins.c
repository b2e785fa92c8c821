/* The memory pinned by this process: lookup, pools, victims, and the handling of refused pins. */
#include "reg/reg_impl.h"

#include <stdlib.h>

/* If the system refuses to pin a piece, unpin up to this many others; more would not help. */
enum { PINS_TRIES = 8 };
/* After this many pins at a lowered limit, it is raised by a region as a trial. */
enum { PINS_AT_LIMIT = 256 };

static void pins_count(struct aqi_reg_pool *pool, uint64_t bytes, bool more)
{
    pool->bytes = more ? pool->bytes + bytes : pool->bytes - bytes;
    pool->regions = more ? pool->regions + 1 : pool->regions - 1;
}

static bool pins_fit(const struct aqi_reg_pool *pool, uint64_t bytes, uint64_t regions,
                     const struct aqi_reg_pool *limit)
{
    return pool->bytes + bytes <= limit->bytes && pool->regions + regions <= limit->regions;
}

/* Pieces that are not lent. */
static struct aqi_reg_pool pins_own(const struct aqi_reg *reg)
{
    const struct aqi_reg_counts *counts = &reg->counts;
    return (struct aqi_reg_pool){.bytes = counts->pinned.bytes - counts->lent.bytes,
                                 .regions = counts->pinned.regions - counts->lent.regions};
}

static void pins_unpin(struct aqi_reg *reg, struct reg_pin *pin)
{
    reg->params.hooks.unpin(reg->params.hooks.host, &pin->mem);
    pin->pinned = false;
    reg->counts.unpins++;
    pins_count(&reg->counts.pinned, pin->len, false);
    if (pin->holders != 0) pins_count(&reg->counts.lent, pin->len, false);
}

static void pins_free(struct aqi_reg *reg, struct reg_pin *pin)
{
    if (pin->pinned) pins_unpin(reg, pin);
    aqi_list_remove(&pin->unused);
    reg_table_take(&reg->pins, &pin->entry);
    free(pin);
}

/* Unpin the least needed piece. Returns false if all are in use. */
static bool pins_evict(struct aqi_reg *reg)
{
    struct aqi_node *from = aqi_list_is_empty(&reg->doomed) ? &reg->victims : &reg->doomed;
    if (aqi_list_is_empty(from)) return false;
    pins_free(reg, AQI_OF(from->next, struct reg_pin, unused));
    return true;
}

/* Make room for a new piece: the pools together never exceed the sum of their limits. */
static bool pins_make_room(struct aqi_reg *reg, uint64_t len, bool lent)
{
    const struct aqi_reg_limits *limits = &reg->params.limits;
    const struct aqi_reg_pool all = {.bytes = reg->most,
                                     .regions = limits->main.regions + limits->victim.regions};
    if (lent && !pins_fit(&reg->counts.lent, len, 1, &limits->main)) return false;
    for (;;) {
        struct aqi_reg_pool own = pins_own(reg);
        if (pins_fit(&reg->counts.pinned, len, 1, &all) &&
            (lent || pins_fit(&own, len, 1, &limits->victim)))
            return true;
        if (!pins_evict(reg)) return false;
    }
}

/* The system refuses more, so the current amount becomes the limit. */
static void pins_lower_limit(struct aqi_reg *reg)
{
    uint64_t now = aqi_max(reg->counts.pinned.bytes, reg->params.limits.region);
    reg->most = aqi_min(reg->most, now);
    reg->full = 0;
}

static void pins_raise_limit(struct aqi_reg *reg)
{
    const struct aqi_reg_limits *limits = &reg->params.limits;
    uint64_t all = limits->main.bytes + limits->victim.bytes;
    if (reg->most >= all || reg->counts.pinned.bytes + limits->region <= reg->most) return;
    if (++reg->full < PINS_AT_LIMIT) return;
    reg->most = aqi_min(all, reg->most + limits->region);
    reg->full = 0;
}

/* AQ_ELIMIT: no room. Other failures: this memory cannot be pinned. */
static aq_status pins_pin(struct aqi_reg *reg, struct reg_pin *pin, bool lent)
{
    const struct aqi_reg_hooks *hooks = &reg->params.hooks;
    for (unsigned tries = 0; tries < PINS_TRIES; tries++) {
        if (!pins_make_room(reg, pin->len, lent)) return AQ_ELIMIT;
        aq_status st = hooks->pin(hooks->host, pin->addr, pin->len, &pin->mem);
        if (st == AQ_OK) {
            pin->pinned = true;
            reg->counts.pins++;
            pins_count(&reg->counts.pinned, pin->len, true);
            reg->counts.pinned_most = aqi_max(reg->counts.pinned_most, reg->counts.pinned.bytes);
            pins_raise_limit(reg);
            return AQ_OK;
        }
        reg->counts.failed++;
        if (st != AQ_ENOMEM && st != AQ_ELIMIT) return st;
        pins_lower_limit(reg);
        if (!pins_evict(reg)) break;
    }
    return AQ_ELIMIT;
}

static struct reg_pin *pins_next(const struct aqi_reg *reg, uint64_t region,
                                 const struct reg_pin *after)
{
    struct reg_entry *entry =
        reg_table_next(&reg->pins, reg_hash(region, 0), after != NULL ? &after->entry : NULL);
    return entry != NULL ? AQI_OF(entry, struct reg_pin, entry) : NULL;
}

static struct reg_pin *pins_find(const struct aqi_reg *reg, uint64_t addr)
{
    struct reg_pin *pin = NULL;
    while ((pin = pins_next(reg, reg_region(reg, addr), pin)) != NULL)
        if (pin->current && addr - pin->addr < pin->len) return pin;
    return NULL;
}

static bool pins_in_use(const struct reg_pin *pin)
{
    return pin->users != 0 || pin->holders != 0;
}

/* Whether a process may access all of the piece, since the key grants access to all of it. */
static bool pins_allowed(const struct aqi_reg *reg, uint32_t process, const struct reg_pin *pin)
{
    const struct aqi_reg_hooks *hooks = &reg->params.hooks;
    uint64_t from = pin->addr, to = pin->addr + pin->len;
    return process == AQI_REG_SELF ||
           hooks->how(hooks->host, process, pin->addr, pin->len, &from, &to) == AQI_REG_KEEP;
}

/* An unused piece that overlaps or touches the range. */
static struct reg_pin *pins_neighbor(const struct aqi_reg *reg, uint32_t process, uint64_t from,
                                     uint64_t to)
{
    struct reg_pin *pin = NULL;
    while ((pin = pins_next(reg, reg_region(reg, from), pin)) != NULL)
        if (pin->current && !pins_in_use(pin) && pin->addr <= to && from <= pin->addr + pin->len &&
            pins_allowed(reg, process, pin))
            return pin;
    return NULL;
}

/* Stop at neighbors that are in use or that the peer may not access, and absorb the others. */
static void pins_combine(struct aqi_reg *reg, uint32_t process, uint64_t addr, uint64_t *from,
                         uint64_t *to)
{
    struct reg_pin *pin = NULL;
    while ((pin = pins_next(reg, reg_region(reg, addr), pin)) != NULL) {
        if (!pin->current || (!pins_in_use(pin) && pins_allowed(reg, process, pin))) continue;
        if (pin->addr > addr)
            *to = aqi_min(*to, pin->addr);
        else
            *from = aqi_max(*from, pin->addr + pin->len);
    }
    while ((pin = pins_neighbor(reg, process, *from, *to)) != NULL) {
        *from = aqi_min(*from, pin->addr);
        *to = aqi_max(*to, pin->addr + pin->len);
        pins_free(reg, pin);
    }
}

/* The wanted range of a region, and the range that may be pinned around it. */
struct pins_range {
    uint64_t addr;
    uint64_t least_from, least_to;
    uint64_t from, to;
};

static enum aqi_reg_how pins_range(const struct aqi_reg *reg, uint32_t process, uint64_t addr,
                                   uint64_t len, struct pins_range *range)
{
    const struct aqi_reg_limits *limits = &reg->params.limits;
    uint64_t region = reg_region(reg, addr);
    len = aqi_min(len, limits->region - (addr - region));
    range->addr = addr;
    range->least_from = range->from = addr & ~(limits->page - 1);
    range->least_to = range->to = ((addr + len - 1) | (limits->page - 1)) + 1;
    enum aqi_reg_how how =
        reg->params.hooks.how(reg->params.hooks.host, process, addr, len, &range->from, &range->to);
    range->from = aqi_max(aqi_min(range->from, range->least_from), region);
    range->to = aqi_min(aqi_max(range->to, range->least_to), region + limits->region);
    return how;
}

static aq_status pins_make(struct aqi_reg *reg, uint32_t process, const struct pins_range *range,
                           bool current, struct reg_pin **made)
{
    bool lent = process != AQI_REG_SELF;
    struct reg_pin *pin = calloc(1, sizeof(*pin));
    if (pin == NULL) return AQ_ENOTSUP;
    uint64_t from = range->least_from, to = range->least_to;
    if (current) {
        from = range->from;
        to = range->to;
        pins_combine(reg, process, range->addr, &from, &to);
    }
    pin->addr = from;
    pin->len = to - from;
    aq_status st = pins_pin(reg, pin, lent);
    if (st != AQ_OK && pin->len > range->least_to - range->least_from) {
        pin->addr = aqi_max(from, range->least_from);
        pin->len = aqi_min(to, range->least_to) - pin->addr;
        st = pins_pin(reg, pin, lent);
    }
    if (st != AQ_OK) {
        free(pin);
        return AQ_ENOTSUP;
    }
    pin->current = current;
    aqi_list_init(&pin->unused);
    aqi_list_init(&pin->holds);
    reg_table_put(&reg->pins, &pin->entry, reg_hash(reg_region(reg, range->addr), 0));
    *made = pin;
    return AQ_OK;
}

aq_status reg_pin_get(struct aqi_reg *reg, uint32_t process, uint64_t addr, uint64_t len,
                      struct reg_pin **pin)
{
    struct reg_pin *found = pins_find(reg, addr);
    bool lent = process != AQI_REG_SELF;
    if (!lent && found != NULL) {
        reg->counts.hits++;
        *pin = found;
        return AQ_OK;
    }
    struct pins_range range;
    enum aqi_reg_how how = pins_range(reg, process, addr, len, &range);
    if (!lent) reg->counts.misses++;
    if (how == AQI_REG_NEVER) return AQ_ENOTSUP;
    /*
     * If the peer may have only part of the piece, or for only one use, the memory is pinned again
     * for this peer alone.
     */
    if (found != NULL && how == AQI_REG_KEEP && pins_allowed(reg, process, found)) {
        if (found->holders == 0 &&
            !pins_fit(&reg->counts.lent, found->len, 1, &reg->params.limits.main))
            return AQ_ENOTSUP;
        *pin = found;
        return AQ_OK;
    }
    return pins_make(reg, process, &range, how == AQI_REG_KEEP && found == NULL, pin);
}

/* The piece is unused now, except perhaps by peers that have yet to return it. */
static void pins_settle(struct aqi_reg *reg, struct reg_pin *pin)
{
    if (pin->users != 0) return;
    if (pin->holders != 0) {
        if (pin->stale && reg->params.cut && pin->pinned) pins_unpin(reg, pin);
        return;
    }
    if (!pin->pinned) {
        pins_free(reg, pin);
        return;
    }
    aqi_list_remove(&pin->unused);
    aqi_list_append(pin->current ? &reg->victims : &reg->doomed, &pin->unused);
    for (;;) { /* pieces returned by a peer count here */
        struct aqi_reg_pool own = pins_own(reg);
        if (pins_fit(&own, 0, 0, &reg->params.limits.victim) || !pins_evict(reg)) return;
    }
}

void reg_pin_use(struct reg_pin *pin)
{
    aqi_list_remove(&pin->unused);
    pin->users++;
}

void reg_pin_unuse(struct aqi_reg *reg, struct reg_pin *pin)
{
    pin->users--;
    pins_settle(reg, pin);
}

void reg_pin_lend(struct aqi_reg *reg, struct reg_pin *pin)
{
    aqi_list_remove(&pin->unused);
    if (pin->holders++ == 0) pins_count(&reg->counts.lent, pin->len, true);
}

void reg_pin_unlend(struct aqi_reg *reg, struct reg_pin *pin)
{
    if (--pin->holders == 0 && pin->pinned) pins_count(&reg->counts.lent, pin->len, false);
    pins_settle(reg, pin);
}

static void pins_invalidate(struct aqi_reg *reg, struct reg_pin *pin)
{
    pin->current = false;
    pin->stale = true;
    pin->users++; /* while holds are removed */
    reg_lend_revoke(reg, pin);
    reg_pin_unuse(reg, pin);
}

/* Invalidate the overlapping pieces of a row; start over after each, as others may be freed. */
static void pins_invalidate_row(struct aqi_reg *reg, size_t row, uint64_t addr, uint64_t len)
{
    struct reg_entry *entry = reg->pins.rows[row];
    while (entry != NULL) {
        struct reg_pin *pin = AQI_OF(entry, struct reg_pin, entry);
        entry = entry->next;
        if (pin->stale || !reg_overlap(pin->addr, pin->len, addr, len)) continue;
        pins_invalidate(reg, pin);
        entry = reg->pins.rows[row];
    }
}

void reg_pins_invalidate(struct aqi_reg *reg, uint64_t addr, uint64_t len)
{
    uint64_t region = reg->params.limits.region, first = reg_region(reg, addr);
    uint64_t regions = (reg_region(reg, addr + (len - 1)) - first) / region + 1;
    if (regions <= reg->pins.mask) {
        for (uint64_t i = 0; i < regions; i++)
            pins_invalidate_row(reg, reg_hash(first + i * region, 0) & reg->pins.mask, addr, len);
        return;
    }
    for (size_t row = 0; row <= reg->pins.mask; row++)
        pins_invalidate_row(reg, row, addr, len);
}

void reg_pins_unpin_some(struct aqi_reg *reg, unsigned most)
{
    for (; most != 0 && !aqi_list_is_empty(&reg->doomed); most--)
        (void)pins_evict(reg);
}

void reg_pins_close(struct aqi_reg *reg)
{
    for (size_t row = 0; reg->pins.rows != NULL && row <= reg->pins.mask; row++)
        while (reg->pins.rows[row] != NULL)
            pins_free(reg, AQI_OF(reg->pins.rows[row], struct reg_pin, entry));
    reg_table_close(&reg->pins);
}
