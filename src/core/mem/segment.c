/* Segments: registering ours, mapping those of peers, and those created by the program. */
#include "core/mem/mem.h"

#include "base/log.h"
#include "base/shmem.h"
#include "base/topology.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct core_mem_hooks core_mem_hooks;

aq_segment_mode aq_segment_mode_get(void)
{
    return (aq_segment_mode)aqi_core_config.segment_mode;
}

aq_status aqi_core_choose_segment_mode(unsigned modes)
{
    const char *const *names = core_setting("AQ_SEGMENT_MODE")->choices;
    unsigned given = (unsigned)aqi_core_config.segment_mode, first = 0;
    char served[64] = "";
    while ((modes & AQ_SEGMENT_BIT(first)) == 0)
        first++;
    if (core_setting_is_default("AQ_SEGMENT_MODE")) aqi_core_config.segment_mode = given = first;
    if ((modes & AQ_SEGMENT_BIT(given)) != 0) return AQ_OK;
    for (unsigned i = first; names[i] != NULL; i++)
        if ((modes & AQ_SEGMENT_BIT(i)) != 0)
            strcat(strcat(served, i > first ? " or " : ""), names[i]);
    return aqi_fail(AQ_ESETTING, "core",
                    "AQ_SEGMENT_MODE=%s: this program works with %s only: unset the variable",
                    names[given], served);
}

size_t aq_segment_max(void)
{
    if (!atomic_load(&core.open)) return 0;
    if (aqi_core_config.segment_mode == AQ_SEGMENT_EVERYTHING) return SIZE_MAX;
    struct core_segment_limit limit;
    (void)core_segment_read_limit(aqi_core_config.max_segment, &limit); /* validated when loaded */
    limit.physical = limit.physical || core_setting_is_alias("AQ_MAX_SEGMENT");
    return core_segment_limit_bytes(&limit, aqi_memory(), core.params.local_size, aqi_page_size());
}

static bool segment_covers(const aq_segment *segment, uint64_t addr, size_t len)
{
    return aqi_within(addr, len, (uintptr_t)segment->addr, segment->size);
}

/*
 * Whether a peer's message may read or write here: only inside a segment that is bound to an
 * endpoint.
 */
bool core_hook_range_ok(void *arg, uint64_t addr, size_t len)
{
    (void)arg;
    if (AQI_LIKELY(segment_covers(&core.segment, addr, len))) return true;
    bool ok = false;
    aqi_spin_lock(&core.lock);
    for (aq_segment *s = core.segments; s != NULL && !ok; s = s->next)
        ok = s->bound && segment_covers(s, addr, len);
    aqi_spin_unlock(&core.lock);
    return ok;
}

/* --- data exchanged between ranks ------------------------------------------------------------ */

struct fixed_part {
    uint64_t addr, size;
};

/*
 * Mapped memory of peers, unmapped only at the end: when a segment is republished, operations on
 * the old one may still be in flight.
 */
struct mapping {
    struct aqi_tp *tp;
    struct aqi_rmem *rmem;
    struct mapping *next;
};
static struct mapping *mappings;

size_t core_segment_card_size(void)
{
    return core_card_size(sizeof(struct fixed_part), CORE_KEYS);
}

void core_segment_register(aq_segment *segment)
{
    for (unsigned t = 0; t < core.tp_count && !segment->registered; t++) {
        struct aqi_tp *tp = core.tps[t];
        aq_status st = tp->ops.mem_reg(tp, segment->addr, segment->size, &segment->mems[t]);
        if (st == AQ_OK) continue;
        segment->mems[t] = NULL;
        aqi_log(AQI_LOG_INFO, "core", "transfers of the %zu bytes at %p go by messages over %s: %s",
                segment->size, segment->addr, tp->ops.name, aq_status_text(st));
    }
    segment->registered = true;
}

void core_segment_deregister(aq_segment *segment)
{
    for (unsigned t = 0; t < core.tp_count; t++)
        if (segment->mems[t] != NULL) core.tps[t]->ops.mem_dereg(core.tps[t], segment->mems[t]);
    memset(segment->mems, 0, sizeof(segment->mems));
    segment->registered = false;
}

void core_segment_card(const aq_segment *segment, void *card)
{
    memset(card, 0, core_segment_card_size());
    if (segment == NULL || segment->size == 0) return;
    struct fixed_part fixed = {(uint64_t)(uintptr_t)segment->addr, segment->size};
    memcpy(card, &fixed, sizeof(fixed));
    for (unsigned t = 0; t < core.tp_count; t++)
        if (segment->mems[t] != NULL)
            core_card_set(card, sizeof(fixed), CORE_KEYS, t, segment->mems[t]->key,
                          segment->mems[t]->key_len);
}

uint64_t core_segment_card_addr(const void *card)
{
    struct fixed_part fixed;
    memcpy(&fixed, card, sizeof(fixed));
    return fixed.addr;
}

aq_status core_segment_map(const struct core_route *route, const void *card, struct aqi_rmem **rmem,
                           size_t *size)
{
    struct fixed_part fixed;
    struct aqi_tp *tp = route->tp;
    size_t len;
    memcpy(&fixed, card, sizeof(fixed));
    *rmem = NULL;
    *size = fixed.size;
    const void *key = core_card_get(card, sizeof(fixed), CORE_KEYS, core_tp_index(tp), &len);
    if (fixed.size == 0 || len == 0) return AQ_OK;
    struct mapping *mapping = malloc(sizeof(*mapping));
    if (mapping == NULL)
        return aqi_fail(AQ_ENOMEM, "core", "no memory for information about a segment");
    aq_status st = tp->ops.mem_map(tp, route->peer, key, len, fixed.addr, fixed.size, rmem);
    if (st != AQ_OK) {
        free(mapping);
        return st;
    }
    aqi_spin_lock(&core.lock);
    *mapping = (struct mapping){tp, *rmem, mappings};
    mappings = mapping;
    aqi_spin_unlock(&core.lock);
    return AQ_OK;
}

aq_status core_segment_learn(struct core_route *route, const void *card)
{
    struct fixed_part fixed;
    struct aqi_rmem *rmem;
    size_t size;
    aq_status st = core_segment_map(route, card, &rmem, &size);
    if (st != AQ_OK || size == 0) return st;
    memcpy(&fixed, card, sizeof(fixed));
    route->rmem = rmem;
    route->seg_addr = fixed.addr;
    route->seg_size = size;
    route->local = rmem == NULL || core_is_apart(route->rank) ? NULL : rmem->local;
    return AQ_OK;
}

const struct aqi_mem *core_segment_mem(const struct aqi_tp *tp, const void *addr, size_t len)
{
    uint64_t at = (uint64_t)(uintptr_t)addr;
    unsigned t = core_tp_index(tp);
    if (t == core.tp_count) return NULL; /* the transport of a connection */
    if (segment_covers(&core.segment, at, len)) return core.segment.mems[t];
    const struct aqi_mem *mem = NULL;
    aqi_spin_lock(&core.lock);
    for (aq_segment *s = core.segments; s != NULL && mem == NULL; s = s->next)
        if (segment_covers(s, at, len)) mem = s->mems[t];
    aqi_spin_unlock(&core.lock);
    return mem;
}

/* --- segments created by the program --------------------------------------------------------- */

static void *segment_map_private(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static aq_status segment_check_new(void *addr, size_t size, aq_segment **segment, const char *call)
{
    aq_status st = aqi_core_callable(call);
    if (st != AQ_OK) return st;
    if (segment == NULL || size == 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: %s", call,
                        segment == NULL ? "segment is NULL" : "the size is 0");
    if (size > UINTPTR_MAX - (uintptr_t)addr)
        return aqi_fail(AQ_EINVAL, "core",
                        "%s: %zu bytes at %p extend beyond the end of the address space", call,
                        size, addr);
    if (addr == NULL && (size > SIZE_MAX - aqi_page_size() || size > aq_segment_max()))
        return aqi_fail(AQ_ESIZE, "core", "%s: %zu bytes; the maximum is %zu", call, size,
                        aq_segment_max());
    return AQ_OK;
}

aq_status core_segment_new(void *addr, size_t size, aq_segment **segment, const char *call)
{
    aq_segment *made = calloc(1, sizeof(*made));
    if (made == NULL) return aqi_fail(AQ_ENOMEM, "core", "%s: out of memory", call);
    *made = (aq_segment){.addr = addr, .size = size};
    if (addr == NULL) {
        made->size = aqi_round_up(size, aqi_page_size());
        made->addr = made->mapped = segment_map_private(made->size);
        if (made->mapped == NULL) {
            free(made);
            return aqi_fail_errno(AQ_ENOMEM, errno, "core", "%s: cannot map %zu bytes", call, size);
        }
    }
    aqi_spin_lock(&core.lock);
    made->next = core.segments;
    core.segments = made;
    aqi_spin_unlock(&core.lock);
    *segment = made;
    return AQ_OK;
}

aq_status aq_segment_create(void *addr, size_t size, unsigned flags, aq_segment **segment)
{
    aq_status st = segment_check_new(addr, size, segment, __func__);
    if (st == AQ_OK && flags != 0)
        st = aqi_fail(AQ_EINVAL, "core", "%s: unknown flags %#x", __func__, flags);
    return st == AQ_OK ? core_segment_new(addr, size, segment, __func__) : st;
}

bool core_is_segment(const aq_segment *segment)
{
    aqi_spin_lock(&core.lock);
    const aq_segment *s = segment == &core.segment ? segment : core.segments;
    while (s != NULL && s != segment)
        s = s->next;
    aqi_spin_unlock(&core.lock);
    return s != NULL;
}

/* Remove it from the list, so that messages cannot access it. Returns false if it is not listed. */
static bool segment_unlist(aq_segment *segment)
{
    aqi_spin_lock(&core.lock);
    aq_segment **at = &core.segments;
    while (*at != NULL && *at != segment)
        at = &(*at)->next;
    bool found = *at != NULL;
    if (found) *at = segment->next;
    aqi_spin_unlock(&core.lock);
    return found;
}

static void segment_release(aq_segment *segment)
{
    core_segment_deregister(segment);
    if (segment->mapped != NULL) munmap(segment->mapped, segment->size);
    free(segment);
}

aq_status aq_segment_destroy(aq_segment *segment)
{
    aq_status st = aqi_core_callable(__func__);
    if (st != AQ_OK || segment == NULL) return st;
    if (segment == &core.segment || !segment_unlist(segment))
        return aqi_fail(AQ_EINVAL, "core", "%s: the segment was not created by aq_segment_create",
                        __func__);
    core_eps_unbind(segment);
    core_mem_hooks.hide(segment);
    segment_release(segment);
    return AQ_OK;
}

void core_segments_close(void)
{
    while (mappings != NULL) {
        struct mapping *mapping = mappings;
        mappings = mapping->next;
        mapping->tp->ops.mem_unmap(mapping->tp, mapping->rmem);
        free(mapping);
    }
    core_segment_deregister(&core.segment);
    while (core.segments != NULL) {
        aq_segment *segment = core.segments;
        core.segments = segment->next;
        segment_release(segment);
    }
}

void *aq_segment_addr(const aq_segment *segment)
{
    return segment != NULL ? segment->addr : NULL;
}

size_t aq_segment_size(const aq_segment *segment)
{
    return segment != NULL ? segment->size : 0;
}

aq_status aq_segment_query(const aq_team *team, aq_rank rank, aq_segment_info *info)
{
    aq_status st = AQ_OK;
    if (!atomic_load(&core.open)) return core_not_callable("aq_segment_query");
    if (info == NULL) return aqi_fail(AQ_EINVAL, "core", "aq_segment_query: info is NULL");
    const struct core_route *route = core_route_to(team, rank, "aq_segment_query", &st);
    if (route == NULL) return st;
    *info = (aq_segment_info){
        .addr = (void *)(uintptr_t)route->seg_addr, .local = route->local, .size = route->seg_size};
    return AQ_OK;
}
