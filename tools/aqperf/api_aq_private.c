/* The patterns on memory that the peer has allocated itself, so that nobody else has it mapped. */
#include "api_aq.h"

static aq_team *pair;

void api_aq_attach_private(struct perf *perf, unsigned other)
{
    aq_ep *ep;
    aq_segment *segment;
    aq_segment_info info;
    api_aq_check(aq_ep_create(AQ_EP_RMA, &ep), "aq_ep_create");
    if (perf->target != NULL) {
        api_aq_check(aq_segment_create(perf->target, perf->max_size, &segment),
                     "aq_segment_create");
        api_aq_check(aq_ep_bind(ep, segment), "aq_ep_bind");
    }
    api_aq_check(aq_ep_publish(api_aq_world(), &ep, 1), "aq_ep_publish");
    pair = aq_team_pair(ep, aq_ep_index(ep));
    api_aq_check(aq_segment_query(pair, other, &info), "aq_segment_query");
    perf->peer_target = info.addr;
}

double api_aq_put_private(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(aq_put_nbi(pair, perf->peer, perf->peer_target, perf->source, size, 0),
                     "aq_put_nbi");
    api_aq_check(aq_nbi_wait(AQ_NBI_PUT), "aq_nbi_wait");
    return measure_now_ns() - begun;
}

double api_aq_get_private(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(aq_get_nbi(pair, perf->source, perf->peer, perf->peer_target, size, 0),
                     "aq_get_nbi");
    api_aq_check(aq_nbi_wait(AQ_NBI_GET), "aq_nbi_wait");
    return measure_now_ns() - begun;
}
