/* The segments: registering ours, mapping those of peers, and the segments that programs make. */
#include "core/mem/mem.h"

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

size_t aq_segment_max(void)
{
    if (!atomic_load(&core.open)) return 0;
    if (aqi_core_config.segment_mode == AQ_SEGMENT_EVERYTHING) return SIZE_MAX;
    if (aqi_core_config.max_segment != 0) return aqi_core_config.max_segment;
    return aqi_memory() / core.params.local_size / aqi_page_size() * aqi_page_size();
}

static bool covers(const aq_segment *segment, uint64_t addr, size_t len)
{
    uint64_t offset = addr - (uint64_t)(uintptr_t)segment->addr;
    return len <= segment->size && offset <= segment->size - len;
}

/* May a peer's message read or write here? Only inside a segment that is bound to an endpoint. */
bool core_hook_range_ok(void *arg, uint64_t addr, size_t len)
{
    (void)arg;
    if (AQI_LIKELY(covers(&core.segment, addr, len))) return true;
    bool ok = false;
    aqi_spin_lock(&core.lock);
    for (aq_segment *s = core.segments; s != NULL && !ok; s = s->next)
        ok = s->bound && covers(s, addr, len);
    aqi_spin_unlock(&core.lock);
    return ok;
}

bool core_range_ok(const struct core_route *route, uint64_t addr, size_t len)
{
    return AQI_LIKELY(route->rank < core.params.size) ? core_hook_range_ok(NULL, addr, len)
                                                      : core_mem_hooks.range_ok(route, addr, len);
}

aq_status core_segment_register(aq_segment *segment, struct core_segment_card *card)
{
    aq_status st = AQ_OK;
    for (unsigned t = 0; t < core.tp_count && st == AQ_OK && !segment->registered; t++)
        st = core.tps[t]->ops.mem_reg(core.tps[t], segment->addr, segment->size, segment->keys[t]);
    if (st != AQ_OK) return st;
    segment->registered = true;
    *card = (struct core_segment_card){.addr = (uint64_t)(uintptr_t)segment->addr,
                                       .size = segment->size};
    memcpy(card->keys, segment->keys, sizeof(card->keys));
    return AQ_OK;
}

aq_status core_segment_learn(struct core_route *route, const struct core_segment_card *card)
{
    unsigned t = 0;
    while (core.tps[t] != route->tp)
        t++;
    if (card->size == 0) return AQ_OK;
    aq_status st = route->tp->ops.mem_map(route->tp, route->peer, card->keys[t], card->addr,
                                          card->size, route->rmem);
    if (st != AQ_OK) return st;
    route->seg_addr = card->addr;
    route->seg_size = card->size;
    route->local = core_is_apart(route->rank) ? NULL : route->rmem->local;
    return AQ_OK;
}

/* --- segments that a program makes ----------------------------------------------------------- */

static void *map_private(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static aq_status check_new(void *addr, size_t size, aq_segment **segment, const char *call)
{
    aq_status st = aqi_core_callable(call);
    if (st != AQ_OK) return st;
    if (segment == NULL || size == 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: %s", call,
                        segment == NULL ? "segment is NULL" : "0 bytes are no segment");
    if (size > UINTPTR_MAX - (uintptr_t)addr)
        return aqi_fail(AQ_EINVAL, "core", "%s: %zu bytes at %p end beyond the last address", call,
                        size, addr);
    if (addr == NULL && (size > SIZE_MAX - aqi_page_size() || size > aq_segment_max()))
        return aqi_fail(AQ_ESIZE, "core", "%s: %zu bytes, the most is %zu", call, size,
                        aq_segment_max());
    return AQ_OK;
}

aq_status aq_segment_create(void *addr, size_t size, aq_segment **segment)
{
    static const char call[] = "aq_segment_create";
    aq_status st = check_new(addr, size, segment, call);
    if (st != AQ_OK) return st;
    aq_segment *made = calloc(1, sizeof(*made));
    if (made == NULL) return aqi_fail(AQ_ENOMEM, "core", "%s: no memory", call);
    *made = (aq_segment){.addr = addr, .size = size};
    if (addr == NULL) {
        made->size = aqi_round_up(size, aqi_page_size());
        made->addr = made->mapped = map_private(made->size);
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

/* Take it off the list, so that messages no longer touch it. False: it is none of these. */
static bool unlist(aq_segment *segment)
{
    bool found = false;
    aqi_spin_lock(&core.lock);
    for (aq_segment **at = &core.segments; *at != NULL && !found; at = &(*at)->next)
        if (*at == segment) {
            *at = segment->next;
            found = true;
            break;
        }
    aqi_spin_unlock(&core.lock);
    return found;
}

static void release(aq_segment *segment)
{
    for (unsigned t = 0; t < core.tp_count && segment->registered; t++)
        core.tps[t]->ops.mem_dereg(core.tps[t], segment->keys[t]);
    if (segment->mapped != NULL) munmap(segment->mapped, segment->size);
    free(segment);
}

aq_status aq_segment_destroy(aq_segment *segment)
{
    static const char call[] = "aq_segment_destroy";
    aq_status st = aqi_core_callable(call);
    if (st != AQ_OK || segment == NULL) return st;
    if (segment == &core.segment || !unlist(segment))
        return aqi_fail(AQ_EINVAL, "core", "%s: not a segment of aq_segment_create", call);
    core_eps_unbind(segment);
    core_mem_hooks.hide(segment);
    release(segment);
    return AQ_OK;
}

/* The transports are closed already and their registrations with them. */
void core_segments_close(void)
{
    while (core.segments != NULL) {
        aq_segment *segment = core.segments;
        core.segments = segment->next;
        release(segment);
    }
}

void *aq_segment_addr(const aq_segment *segment)
{
    return segment->addr;
}

size_t aq_segment_size(const aq_segment *segment)
{
    return segment->size;
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
