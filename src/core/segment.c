/* The segments: allocating ours, making it known to the peers, and learning theirs. */
#include "core/impl.h"

#include "base/shmem.h"
#include "base/topology.h"

#include <stdlib.h>
#include <string.h>

/* What a rank tells the others about its segment: a key for each of its transports. */
struct segment_card {
    uint64_t addr, size;
    unsigned char keys[CORE_MAX_TRANSPORTS][AQI_KEY_MAX];
};

size_t aq_segment_max(void)
{
    if (!atomic_load(&core.open)) return 0;
    if (aqi_core_config.max_segment != 0) return aqi_core_config.max_segment;
    return aqi_memory() / core.params.local_size / aqi_page_size() * aqi_page_size();
}

/* May a peer's message read or write here? Only inside our segment. */
bool core_hook_range_ok(void *arg, uint64_t addr, size_t len)
{
    uint64_t offset = addr - (uint64_t)(uintptr_t)core.segment.addr;
    (void)arg;
    return len <= core.segment.size && offset <= core.segment.size - len;
}

/* The memory comes from the first transport that has memory of its own: peers reach it best. */
static aq_status allocate(size_t size, size_t most)
{
    struct aqi_tp *tp = core.tps[0];
    for (unsigned t = 0; t < core.tp_count; t++)
        if (core.tps[t]->ops.caps & AQI_CAP_ALLOC) {
            tp = core.tps[t];
            break;
        }
    aq_status st = tp->ops.mem_alloc(tp, size, most, &core.segment.addr);
    core.segment.size = st == AQ_OK ? size : 0;
    return st;
}

static aq_status learn(uint32_t rank, const struct segment_card *card)
{
    struct core_route *route = &core.routes[rank];
    unsigned t = 0;
    while (core.tps[t] != route->tp)
        t++;
    if (card->size == 0) return AQ_OK;
    aq_status st = route->tp->ops.mem_map(route->tp, route->peer, card->keys[t], card->addr,
                                          card->size, route->rmem);
    if (st != AQ_OK) return st;
    route->seg_addr = card->addr;
    route->seg_size = card->size;
    route->local = route->rmem->local;
    return AQ_OK;
}

static aq_status publish(void)
{
    struct segment_card mine = {.addr = (uint64_t)(uintptr_t)core.segment.addr,
                                .size = core.segment.size};
    struct segment_card *all = malloc(core.params.size * sizeof(*all));
    aq_status st = AQ_OK;
    if (all == NULL)
        return aqi_fail(AQ_ENOMEM, "core", "no memory to learn of %u segments", core.params.size);
    for (unsigned t = 0; t < core.tp_count && st == AQ_OK && mine.size != 0; t++)
        st = core.tps[t]->ops.mem_reg(core.tps[t], core.segment.addr, mine.size, mine.keys[t]);
    if (st == AQ_OK) st = core.boot.allgather(core.boot.arg, &mine, sizeof(mine), all);
    for (uint32_t rank = 0; rank < core.params.size && st == AQ_OK; rank++)
        st = learn(rank, &all[rank]);
    free(all);
    return st;
}

/* Every rank must take part in what follows, so a rank that cannot says so to all. */
static aq_status agree(size_t size, aq_status mine, size_t *most)
{
    struct {
        uint64_t size;
        int64_t status;
    } card = {size, mine}, *all = malloc(core.params.size * sizeof(card));
    if (all == NULL)
        return aqi_fail(AQ_ENOMEM, "core", "no memory to attach %u segments", core.params.size);
    aq_status st = core.boot.allgather(core.boot.arg, &card, sizeof(card), all);
    *most = 0;
    for (uint32_t rank = 0; rank < core.params.size && st == AQ_OK; rank++) {
        *most = aqi_max(*most, all[rank].size);
        if (all[rank].status != AQ_OK)
            st = rank == core.params.rank
                     ? mine
                     : aqi_fail((aq_status)all[rank].status, "core",
                                "aq_segment_attach: rank %u could not attach its segment", rank);
    }
    free(all);
    return st;
}

aq_status aq_segment_attach(aq_team *team, size_t size, aq_segment **segment)
{
    static const char call[] = "aq_segment_attach";
    aq_status st = aqi_core_callable(call);
    if (st != AQ_OK) return st;
    if (team != &core.world || segment == NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: needs the team of the whole job and a place", call);
    if (core.attached)
        return aqi_fail(AQ_ESTATE, "core", "%s: a segment is attached already", call);
    size_t most = 0;
    if (size > SIZE_MAX - aqi_page_size() || size > aq_segment_max())
        st = aqi_fail(AQ_ESIZE, "core",
                      "%s: %zu bytes, the most is %zu (the host's memory divided by its ranks, or "
                      "AQ_MAX_SEGMENT)",
                      call, size, aq_segment_max());
    else
        size = aqi_round_up(size, aqi_page_size());
    /* While we sit in the exchanges below we do not poll, so first let every rank arrive. */
    aq_status arrived = aq_barrier(team);
    if (arrived != AQ_OK) return arrived;
    st = agree(size, st, &most);
    if (st == AQ_OK) st = allocate(size, most);
    if (st == AQ_OK) st = publish();
    if (st != AQ_OK) return st;
    core.attached = true;
    *segment = &core.segment;
    return AQ_OK;
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
