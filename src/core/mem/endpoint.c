/* Endpoints beyond the first: creating them, binding segments, addressing them. */
#include "core/mem/mem.h"

#include <stdlib.h>

unsigned aq_ep_max(void)
{
    return CORE_EPS;
}

unsigned aq_ep_index(const aq_ep *ep)
{
    return ep != NULL ? ep->index : CORE_EPS;
}

unsigned aq_ep_capabilities(const aq_ep *ep)
{
    return ep != NULL ? ep->capabilities : 0;
}

aq_segment *aq_ep_segment(const aq_ep *ep)
{
    return ep != NULL ? ep->segment : NULL;
}

aq_status aq_ep_create(unsigned capabilities, aq_ep **ep)
{
    aq_status st = aqi_core_callable(__func__);
    if (st != AQ_OK) return st;
    if (ep == NULL || capabilities == 0 || (capabilities & ~(AQ_EP_ALL | AQ_EP_AM_SHARED)) != 0)
        return aqi_fail(AQ_EINVAL, "core",
                        "%s: the endpoint pointer is NULL, or capabilities %#x are not AQ_EP_ bits",
                        __func__, capabilities);
    unsigned index = 1;
    while (index < CORE_EPS && atomic_load(&core.eps[index]) != NULL)
        index++;
    if (index == CORE_EPS)
        return aqi_fail(AQ_ELIMIT, "core", "%s: a process has at most %u endpoints", __func__,
                        CORE_EPS);
    aq_ep *made = calloc(1, sizeof(*made));
    if (made == NULL) return aqi_fail(AQ_ENOMEM, "core", "%s: out of memory", __func__);
    made->index = index;
    made->capabilities = capabilities;
    atomic_store_explicit(&core.eps[index], made, memory_order_release); /* read in dispatch.c */
    *ep = made;
    return AQ_OK;
}

void core_ep_reach(unsigned index)
{
    if (atomic_load(&core.reached_eps) & 1u << index) return;
    aqi_spin_lock(&core.lock);
    if ((atomic_load(&core.reached_eps) & 1u << index) == 0) {
        for (uint32_t rank = 0; rank < core.params.size; rank++) {
            const struct core_route *first = &core.routes[rank];
            *core_ep_route(index, rank) = (struct core_route){.tp = first->tp,
                                                              .peer = first->peer,
                                                              .rank = rank,
                                                              .max_medium = first->max_medium,
                                                              .to = aqi_am_to(index),
                                                              .lost = first->lost,
                                                              .self = first->self};
        }
        atomic_fetch_or(&core.reached_eps, 1u << index);
    }
    aqi_spin_unlock(&core.lock);
}

void core_eps_close(void)
{
    for (unsigned i = 1; i < CORE_EPS; i++)
        free(atomic_exchange(&core.eps[i], NULL));
}

bool core_is_ep(const aq_ep *ep)
{
    for (unsigned i = 0; i < CORE_EPS; i++)
        if (ep != NULL && ep == atomic_load(&core.eps[i])) return true;
    return false;
}

aq_team *aq_team_pair(aq_ep *ep, unsigned remote_index)
{
    if (!atomic_load(&core.open) || !core_is_ep(ep) || remote_index >= CORE_EPS) return NULL;
    core_ep_reach(remote_index);
    aq_team *pair = &core.pairs[ep->index][remote_index];
    aqi_spin_lock(&core.lock);
    if (!pair->pair)
        *pair = (aq_team){.rank = core.params.rank,
                          .size = core.params.size,
                          .routes = core_ep_route(remote_index, 0),
                          .ep = ep,
                          .from = aqi_am_from(ep->index),
                          .pair = true};
    aqi_spin_unlock(&core.lock);
    return pair;
}

aq_status aq_ep_bind(aq_ep *ep, aq_segment *segment)
{
    aq_status st = aqi_core_callable(__func__);
    if (st != AQ_OK) return st;
    if (!core_is_ep(ep) || !core_is_segment(segment))
        return aqi_fail(AQ_EINVAL, "core", "%s: the endpoint or the segment is NULL", __func__);
    if (ep->segment != NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: endpoint %u already has a segment", __func__,
                        ep->index);
    core_ep_reach(ep->index);
    unsigned char card[CORE_CARD_MAX];
    core_segment_register(segment);
    core_segment_card(segment, card);
    st = core_segment_learn(core_ep_route(ep->index, core.params.rank), card);
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
        aq_ep *ep = atomic_load(&core.eps[i]);
        if (ep == NULL || ep->segment != segment) continue;
        struct core_route *own = core_ep_route(i, core.params.rank);
        own->local = NULL;
        own->seg_addr = own->seg_size = 0;
        ep->segment = NULL;
    }
}
