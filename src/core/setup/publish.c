/* aq_ep_publish: the members of a team learn of the segments of each other's endpoints. */
#include "core/team/team.h"

#include <stdlib.h>

/* Combine the sets of endpoints that members publish; fails in all members if it fails in one. */
static aq_status publish_agree(aq_team *team, aq_status mine, uint32_t *indices, const char *call)
{
    uint32_t all;
    aq_status st = team_begin(call, team, mine);
    if (st == AQ_OK) st = aq_coll_allreduce(team, &all, indices, 1, AQ_TYPE_U32, AQ_OP_OR, 0);
    if (st == AQ_OK) *indices = all;
    return st;
}

/* Exchange the segments of one index; `segment` NULL: we have none. `all`: room for all cards. */
static aq_status publish_exchange(aq_team *team, unsigned index, const aq_segment *segment,
                                  unsigned char *all)
{
    size_t bytes = core_segment_card_size();
    unsigned char mine[CORE_CARD_MAX];
    core_segment_card(segment, mine);
    aq_status st = aq_coll_allgather(team, all, mine, bytes, 0);
    core_ep_reach(index);
    for (aq_rank rank = 0; rank < team->size && st == AQ_OK; rank++) {
        aq_rank job_rank = aq_team_to_job(team, rank);
        if (job_rank == core.params.rank) continue;
        st = core_segment_learn(core_ep_route(index, job_rank), all + rank * bytes);
    }
    return st;
}

/* Sort the segments by index and register them first, so that nothing can fail later. */
static aq_status publish_collect(aq_ep *const *eps, size_t count, aq_segment *segments[CORE_EPS],
                                 uint32_t *indices, const char *call)
{
    *indices = 0;
    for (size_t i = 0; i < count; i++) {
        if (eps == NULL || !core_is_ep(eps[i]))
            return aqi_fail(AQ_EINVAL, "core", "%s: entry %zu is not an endpoint", call, i);
        if (eps[i]->segment == NULL) continue;
        core_segment_register(eps[i]->segment);
        segments[eps[i]->index] = eps[i]->segment;
        *indices |= 1u << eps[i]->index;
    }
    return AQ_OK;
}

aq_status aq_ep_publish(aq_team *team, aq_ep *const *eps, size_t count, unsigned flags)
{
    aq_segment *segments[CORE_EPS] = {NULL};
    uint32_t indices;
    aq_status st = core_team_usable(__func__, team);
    if (st != AQ_OK) return st;
    unsigned char *all = malloc(team->size * core_segment_card_size());
    aq_status mine = all != NULL ? publish_collect(eps, count, segments, &indices, __func__)
                                 : aqi_fail(AQ_ENOMEM, "core", "%s: out of memory", __func__);
    if (flags != 0) mine = aqi_fail(AQ_EINVAL, "core", "%s: unknown flags %#x", __func__, flags);
    if (mine != AQ_OK) indices = 0;
    st = publish_agree(team, mine, &indices, __func__);
    for (unsigned i = 0; i < CORE_EPS && st == AQ_OK; i++)
        if (indices & 1u << i) st = publish_exchange(team, i, segments[i], all);
    free(all);
    /* A member that returns may let a third process continue, so all must know the segments. */
    return st == AQ_OK ? aq_barrier(team) : st;
}
