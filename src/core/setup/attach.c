/* aq_segment_attach: a segment for every process of the job, known to all of them. */
#include "core/coll/coll.h"
#include "core/mem/mem.h"

#include "base/shmem.h"

#include <stdlib.h>

/* The memory comes from the first transport that allocates memory, which peers reach best. */
static aq_status attach_allocate(size_t size, size_t most)
{
    unsigned t = core_scratch_allocator();
    struct aqi_tp *tp = core.tps[t < core.tp_count ? t : 0];
    aq_status st = tp->ops.mem_alloc(tp, size, most, &core.segment.addr);
    core.segment.size = st == AQ_OK ? size : 0;
    return st;
}

static aq_status attach_publish(void)
{
    unsigned char mine[CORE_CARD_MAX];
    size_t bytes = core_segment_card_size();
    const void *all;
    if (core.segment.size != 0) core_segment_register(&core.segment);
    core_segment_card(&core.segment, mine);
    aq_status st = core.boot.table(core.boot.arg, mine, bytes, &all);
    for (uint32_t rank = 0; rank < core.params.size && st == AQ_OK; rank++)
        st = core_segment_learn(&core.routes[rank], (const unsigned char *)all + rank * bytes);
    return st;
}

/* Every rank must take part in the exchanges below, so a rank that cannot notifies all others. */
static aq_status attach_agree(size_t size, aq_status mine, size_t *most)
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

static aq_status attach_check_size(size_t *size, const char *call)
{
    if (aqi_core_config.segment_mode == AQ_SEGMENT_EVERYTHING) {
        *size = 0;
    } else if (*size > SIZE_MAX - aqi_page_size() || *size > aq_segment_max()) {
        return aqi_fail(
            AQ_ESIZE, "core",
            "%s: %zu bytes; the maximum is %zu (the host's memory divided by its ranks, or %s)",
            call, *size, aq_segment_max(), aqi_setting_variable("AQ_MAX_SEGMENT"));
    } else {
        *size = aqi_round_up(*size, aqi_page_size());
    }
    return AQ_OK;
}

aq_status aq_segment_attach(aq_team *team, size_t size, aq_segment **segment)
{
    aq_status st = aqi_core_callable(__func__);
    if (st != AQ_OK) return st;
    if (team != &core.world || segment == NULL)
        return aqi_fail(AQ_EINVAL, "core",
                        "%s: the team is not that of the whole job, or the segment pointer is NULL",
                        __func__);
    if (core.attached || core.ep.segment != NULL)
        return aqi_fail(AQ_ESTATE, "core", "%s: the first endpoint already has a segment",
                        __func__);
    size_t most = 0;
    uint64_t begun = aqi_trace_begin(AQI_TRACE_JOB);
    st = attach_check_size(&size, __func__);
    /* The exchanges below are bounded by AQ_START_TIMEOUT, so first let every rank arrive. */
    aq_status arrived = core_barrier_of(__func__, COLL_CODE_ATTACH, team);
    if (arrived != AQ_OK) return arrived;
    st = attach_agree(size, st, &most);
    if (st == AQ_OK && aqi_core_config.segment_mode == AQ_SEGMENT_EVERYTHING)
        core.segment.size = SIZE_MAX; /* from address 0 */
    else if (st == AQ_OK)
        st = attach_allocate(size, most);
    if (st == AQ_OK) st = attach_publish();
    if (st != AQ_OK) return st;
    core.attached = true;
    core.ep.segment = &core.segment;
    aqi_trace_end(AQI_TRACE_JOB, __func__, begun, AQI_TRACE_NOBODY, size);
    *segment = &core.segment;
    return AQ_OK;
}
