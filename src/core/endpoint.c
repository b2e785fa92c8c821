/* Endpoints beyond the first: creating them, binding and publishing segments, addressing them. */
#include "core/impl.h"

#include <stdlib.h>
#include <string.h>

enum { FURTHER = AQ_EP_RMA | AQ_EP_ATOMIC };

unsigned aq_ep_max(void)
{
    return CORE_EPS;
}

unsigned aq_ep_index(const aq_ep *ep)
{
    return ep->index;
}

unsigned aq_ep_capabilities(const aq_ep *ep)
{
    return ep->capabilities;
}

aq_segment *aq_ep_segment(const aq_ep *ep)
{
    return ep->segment;
}

aq_status aq_ep_create(unsigned capabilities, aq_ep **ep)
{
    static const char call[] = "aq_ep_create";
    aq_status st = aqi_core_callable(call);
    if (st != AQ_OK) return st;
    if (ep == NULL || capabilities == 0 || (capabilities & ~AQ_EP_ALL) != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: needs a place and AQ_EP_ capabilities, not %#x",
                        call, capabilities);
    if ((capabilities & ~(unsigned)FURTHER) != 0)
        return aqi_fail(AQ_ENOTSUP, "core",
                        "%s: only the first endpoint has messages and collectives: ask for "
                        "AQ_EP_RMA and AQ_EP_ATOMIC",
                        call);
    unsigned index = 1;
    while (index < CORE_EPS && core.more_eps[index] != NULL)
        index++;
    if (index == CORE_EPS)
        return aqi_fail(AQ_ELIMIT, "core", "%s: a process has at most %u endpoints", call,
                        CORE_EPS);
    aq_ep *made = calloc(1, sizeof(*made));
    if (made == NULL) return aqi_fail(AQ_ENOMEM, "core", "%s: no memory", call);
    made->index = index;
    made->capabilities = capabilities;
    core.more_eps[index] = made;
    *ep = made;
    return AQ_OK;
}

void core_ep_reach(unsigned index)
{
    size_t size = core.params.size;
    aqi_spin_lock(&core.lock);
    if ((atomic_load(&core.reached_eps) & 1u << index) == 0) {
        struct core_route *routes = core.routes + index * size;
        memset(routes, 0, size * sizeof(*routes));
        for (uint32_t rank = 0; rank < size; rank++) {
            routes[rank].tp = core.routes[rank].tp;
            routes[rank].peer = core.routes[rank].peer;
            routes[rank].rmem = &core.rmems[index * size + rank];
            routes[rank].rank = rank;
            routes[rank].ep = (uint8_t)index;
            routes[rank].lost = core.routes[rank].lost;
        }
        atomic_fetch_or(&core.reached_eps, 1u << index);
    }
    aqi_spin_unlock(&core.lock);
}

void core_eps_close(void)
{
    for (unsigned i = 0; i < CORE_EPS; i++) {
        free(core.more_eps[i]);
        core.more_eps[i] = NULL;
    }
}

static bool is_ep(const aq_ep *ep)
{
    bool known = ep == &core.ep;
    for (unsigned i = 1; i < CORE_EPS; i++)
        known = known || (ep != NULL && ep == core.more_eps[i]);
    return known;
}

aq_team *aq_team_pair(aq_ep *ep, unsigned remote_index)
{
    if (!atomic_load(&core.open) || !is_ep(ep) || remote_index >= CORE_EPS) return NULL;
    core_ep_reach(remote_index);
    aq_team *pair = &core.pairs[ep->index][remote_index];
    aqi_spin_lock(&core.lock);
    if (!pair->pair)
        *pair = (aq_team){.rank = core.params.rank,
                          .size = core.params.size,
                          .first_route = remote_index * (size_t)core.params.size,
                          .ep = ep,
                          .pair = true};
    aqi_spin_unlock(&core.lock);
    return pair;
}

aq_status aq_ep_bind(aq_ep *ep, aq_segment *segment)
{
    static const char call[] = "aq_ep_bind";
    aq_status st = aqi_core_callable(call);
    if (st != AQ_OK) return st;
    if (!is_ep(ep) || segment == NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: needs an endpoint and a segment", call);
    if (ep->segment != NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: endpoint %u has a segment already", call,
                        ep->index);
    core_ep_reach(ep->index);
    struct core_segment_card card;
    st = core_segment_register(segment, &card);
    if (st != AQ_OK) return st;
    st = core_segment_learn(&core.routes[ep->index * (size_t)core.params.size + core.params.rank],
                            &card);
    if (st != AQ_OK) return st;
    ep->segment = segment;
    aqi_spin_lock(&core.lock);
    segment->bound = true;
    aqi_spin_unlock(&core.lock);
    return AQ_OK;
}

void core_eps_unbind(const aq_segment *segment)
{
    for (unsigned i = 0; i < CORE_EPS; i++) {
        aq_ep *ep = i == 0 ? &core.ep : core.more_eps[i];
        if (ep == NULL || ep->segment != segment) continue;
        struct core_route *own = &core.routes[i * (size_t)core.params.size + core.params.rank];
        own->local = NULL;
        own->seg_addr = own->seg_size = 0;
        ep->segment = NULL;
    }
}

/* --- publishing ------------------------------------------------------------------------------ */

struct intent {
    uint32_t indices; /* bit i: endpoint i has a segment to publish */
    int32_t status;
};

/* What everybody wants to publish; a failure of one is everybody's. */
static aq_status agree(const struct intent *mine, uint32_t *indices, const char *call)
{
    struct intent *all = malloc(core.params.size * sizeof(*all));
    if (all == NULL) return aqi_fail(AQ_ENOMEM, "core", "%s: no memory", call);
    aq_status st = core.boot.allgather(core.boot.arg, mine, sizeof(*mine), all);
    *indices = 0;
    for (uint32_t rank = 0; rank < core.params.size && st == AQ_OK; rank++) {
        *indices |= all[rank].indices;
        if (all[rank].status != AQ_OK && rank == core.params.rank)
            st = (aq_status)mine->status;
        else if (all[rank].status != AQ_OK)
            st = aqi_fail((aq_status)all[rank].status, "core",
                          "%s: rank %u could not publish its segments", call, rank);
    }
    free(all);
    return st;
}

/* One index of all ranks; `segment` NULL: we have none there. */
static aq_status exchange(unsigned index, aq_segment *segment, const char *call)
{
    uint32_t size = core.params.size;
    struct core_segment_card mine = {0}, *all = malloc(size * sizeof(*all));
    aq_status st = all != NULL ? AQ_OK : aqi_fail(AQ_ENOMEM, "core", "%s: no memory", call);
    if (st == AQ_OK && segment != NULL) st = core_segment_register(segment, &mine);
    if (st == AQ_OK) st = core.boot.allgather(core.boot.arg, &mine, sizeof(mine), all);
    core_ep_reach(index);
    for (uint32_t rank = 0; rank < size && st == AQ_OK; rank++)
        if (rank != core.params.rank)
            st = core_segment_learn(&core.routes[index * (size_t)size + rank], &all[rank]);
    free(all);
    return st;
}

aq_status aq_ep_publish(aq_team *team, aq_ep *const *eps, size_t count)
{
    static const char call[] = "aq_ep_publish";
    aq_segment *segments[CORE_EPS] = {NULL};
    struct intent mine = {0, AQ_OK};
    uint32_t indices;
    aq_status st = aqi_core_callable(call);
    if (st != AQ_OK) return st;
    if (team != &core.world)
        return aqi_fail(AQ_EINVAL, "core", "%s: needs the team of the whole job", call);
    for (size_t i = 0; i < count && mine.status == AQ_OK; i++) {
        if (eps == NULL || !is_ep(eps[i])) {
            mine.status = aqi_fail(AQ_EINVAL, "core", "%s: entry %zu is no endpoint", call, i);
        } else if (eps[i]->segment != NULL) {
            segments[eps[i]->index] = eps[i]->segment;
            mine.indices |= 1u << eps[i]->index;
        }
    }
    /* While we sit in the exchanges below we do not poll, so first let every rank arrive. */
    st = aq_barrier(team);
    if (st == AQ_OK) st = agree(&mine, &indices, call);
    for (unsigned i = 0; i < CORE_EPS && st == AQ_OK; i++)
        if (indices & 1u << i) st = exchange(i, segments[i], call);
    /* Nobody accesses what its owner does not serve yet. */
    return st == AQ_OK ? aq_barrier(team) : st;
}
