/* Segments and endpoints, and the mappings of other processes' segments. */
#include "aqg.h"

#include <pthread.h>

/* --- mapped segments ------------------------------------------------------------------------- */

static struct aqg_reach segment_reach_of(aq_team *team, gex_Rank_t rank)
{
    aq_segment_info info;
    if (aq_segment_query(team, rank, &info) != AQ_OK || info.size == 0)
        return (struct aqg_reach){0};
    uintptr_t base = (uintptr_t)info.addr;
    /*
     * In mode everything, the segment is all memory from address 0, but for the inline calls, a
     * base of 0 means "not mapped".
     */
    if (rank == aqgi.rank && base == 0 && info.size == SIZE_MAX)
        return (struct aqg_reach){.base = 1, .size = SIZE_MAX - 1};
    if (info.local == NULL) return (struct aqg_reach){0};
    return (struct aqg_reach){
        .base = base, .size = info.size, .delta = (uintptr_t)info.local - base};
}

/* The team of the endpoints with this index in all processes. */
static aq_team *segment_team(unsigned index)
{
    return index == 0 ? aqgi.world.aq : aq_team_pair(aqgi.ep.aq, index);
}

static void segment_learn(struct aqg_reach *all, unsigned index)
{
    for (gex_Rank_t rank = 0; rank < aqgi.size; rank++)
        all[rank] = segment_reach_of(segment_team(index), rank);
}

struct aqg_reach *aqgi_reach(unsigned index)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (__atomic_load_n(&aqgi.reach[index], __ATOMIC_ACQUIRE) != NULL) return aqgi.reach[index];
    pthread_mutex_lock(&lock);
    if (aqgi.reach[index] == NULL) {
        struct aqg_reach *all = aqgi_alloc(aqgi.size, sizeof(*all), "segments of all processes");
        /* Publish a complete list: with a partial entry, another thread would store to a wrong
         * address. */
        segment_learn(all, index);
        __atomic_store_n(&aqgi.reach[index], all, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return aqgi.reach[index];
}

/* --- segments -------------------------------------------------------------------------------- */

static struct aqg_segment *segment_new(aq_segment *aq)
{
    struct aqg_segment *segment = aqgi_alloc(1, sizeof(*segment), "a segment's handle");
    segment->aq = aq;
    segment->addr = aq_segment_addr(aq);
    segment->size = aq_segment_size(aq);
    return segment;
}

int aqgi_attachable(const char *call, uintptr_t size)
{
    if (!aqgi.open)
        return aqgi_refuse(GASNET_ERR_NOT_INIT, "%s: called before gex_Client_Init", call);
    if (aqgi.attached)
        return aqgi_refuse(GASNET_ERR_RESOURCE, "%s: a segment is already attached", call);
    if (aqgi_everything() ||
        (size % GASNET_PAGESIZE == 0 && size <= gasnet_getMaxLocalSegmentSize()))
        return GASNET_OK;
    return aqgi_refuse(
        GASNET_ERR_BAD_ARG,
        "%s: %zu bytes; the size must be a multiple of %d of at most %zu (GASNET_MAX_SEGSIZE)",
        call, (size_t)size, GASNET_PAGESIZE, (size_t)gasnet_getMaxLocalSegmentSize());
}

int gex_Segment_Attach(gex_Segment_t *segment_p, gex_TM_t tm, uintptr_t size)
{
    aq_segment *aq;
    int refused = aqgi_attachable(__func__, size);
    if (refused != GASNET_OK) return refused;
    if (tm != aqg_world)
        return aqgi_refuse(GASNET_ERR_BAD_ARG, "%s: the team must be the primordial one", __func__);
    if (size == 0) size = GASNET_PAGESIZE;
    int code =
        aqgi_error(__func__, aqgi_everything() ? aq_barrier(aqgi.world.aq)
                                               : aq_segment_attach(aqgi.world.aq, size, &aq));
    if (code != GASNET_OK) return code;
    aqgi.attached = true;
    if (!aqgi_everything()) {
        segment_learn(aqgi.reach[0], 0);
        aqgi.ep.segment = segment_new(aq);
        if (gasnet_client_attach_hook != NULL)
            gasnet_client_attach_hook(aqgi.ep.segment->addr, aqgi.ep.segment->size);
    }
    if (segment_p != NULL) *segment_p = aqgi.ep.segment;
    return GASNET_OK;
}

aq_status aqgi_segment_open(void)
{
    aq_segment *everything;
    if (!aqgi_everything()) return AQ_OK;
    aq_status st = aq_segment_attach(aqgi.world.aq, 0, &everything);
    if (st == AQ_OK) segment_learn(aqgi.reach[0], 0);
    return st;
}

int gex_Segment_Create(gex_Segment_t *segment_p, gex_Client_t client, gex_Addr_t address,
                       uintptr_t length, gex_MK_t kind, gex_Flags_t flags)
{
    aq_segment *aq;
    if (!aqgi.open)
        return aqgi_refuse(GASNET_ERR_NOT_INIT, "%s: called before gex_Client_Init", __func__);
    if (segment_p == NULL || client != &aqgi.client || kind != GEX_MK_HOST || flags != 0 ||
        length == 0)
        return aqgi_refuse(GASNET_ERR_BAD_ARG,
                           "%s: an argument is NULL, the client is not this one, the kind is not "
                           "GEX_MK_HOST, the length is 0, or flags are not 0",
                           __func__);
    if (address == NULL && length > gasnet_getMaxLocalSegmentSize())
        return aqgi_refuse(GASNET_ERR_BAD_ARG,
                           "%s: %zu bytes; the maximum is %zu (GASNET_MAX_SEGSIZE)", __func__,
                           (size_t)length, (size_t)gasnet_getMaxLocalSegmentSize());
    int code = aqgi_error(__func__, aq_segment_create(address, length, 0, &aq));
    if (code == GASNET_OK) *segment_p = segment_new(aq);
    return code;
}

void gex_Segment_Destroy(gex_Segment_t segment, gex_Flags_t flags)
{
    if (segment == GEX_SEGMENT_INVALID) aqgi_die("gex_Segment_Destroy: the segment is invalid");
    aqgi_done("gex_Segment_Destroy", aq_segment_destroy(segment->aq));
    for (unsigned i = 0; i < AQGI_EPS; i++) {
        struct aqg_ep *ep = aqgi.eps[i];
        if (ep == NULL || ep->segment != segment) continue;
        ep->segment = NULL;
        if (i == 0 && aqgi_everything()) continue;
        if (aqgi.reach[i] != NULL) aqgi.reach[i][aqgi.rank] = (struct aqg_reach){0};
    }
    free(segment);
}

AQG_DEFINE(gex_Client_t, gex_Segment_QueryClient, (gex_Segment_t seg), &aqgi.client)
AQG_DEFINE(void *, gex_Segment_QueryAddr, (gex_Segment_t seg), seg->addr)
AQG_DEFINE(uintptr_t, gex_Segment_QuerySize, (gex_Segment_t seg), seg->size)
AQGI_OBJECT(gex_Segment, gex_Segment_t seg, seg)

/* --- GASNET_SEGMENT_EVERYTHING: segments bound to the first endpoints ------------------------ */

/*
 * All memory can be accessed from the start, but queries report no segment until the attach, or
 * the one that the client binds instead.
 */
static struct segment_published {
    void *addr;
    uintptr_t size;
} * segment_published; /* of other processes, by job rank, as published; NULL: none has been */

static bool segment_is_everything(const aq_segment_info *info)
{
    return aqgi_everything() && info->addr == NULL && info->size == SIZE_MAX;
}

static struct segment_published segment_everything(gex_Rank_t rank)
{
    const struct aqg_segment *own = rank == aqgi.rank ? aqgi.ep.segment : NULL;
    if (own != NULL) return (struct segment_published){own->addr, own->size};
    if (rank != aqgi.rank && segment_published != NULL && segment_published[rank].size != 0)
        return segment_published[rank];
    return (struct segment_published){NULL, aqgi.attached ? SIZE_MAX : 0};
}

/* Collective over the team: members that list their first endpoint publish the segment bound to
 * it. */
static int segment_publish(const char *call, gex_TM_t tm, const gex_EP_t *eps, size_t num_eps)
{
    aq_team *team = aqgi_aq(tm);
    gex_Rank_t size = aq_team_size(team);
    struct segment_published mine = {0}, *all;
    for (size_t i = 0; i < num_eps; i++)
        if (eps[i] == &aqgi.ep && aqgi.ep.segment != NULL) mine = segment_everything(aqgi.rank);
    all = aqgi_alloc(size, sizeof(*all), "the segments of a team");
    if (segment_published == NULL)
        segment_published = aqgi_alloc(aqgi.size, sizeof(*all), "the segments of all processes");
    int code = aqgi_error(call, aq_coll_allgather(team, all, &mine, sizeof(mine), 0));
    for (gex_Rank_t rank = 0; rank < size && code == GASNET_OK; rank++)
        if (all[rank].size != 0) segment_published[aq_team_to_job(team, rank)] = all[rank];
    free(all);
    return code;
}

/* --- queries of bound segments --------------------------------------------------------------- */

static size_t segment_bound(gex_TM_t tm, gex_Rank_t rank, void **owneraddr_p, void **localaddr_p,
                            uintptr_t *size_p)
{
    aq_segment_info info;
    aqgi_done("gex_EP_QueryBoundSegmentNB", aq_segment_query(aqgi_aq(tm), rank, &info));
    if (info.size == 0) return 0;
    gex_Rank_t job_rank = aq_team_to_job(aqgi_aq(tm), rank);
    if (segment_is_everything(&info)) {
        struct segment_published published = segment_everything(job_rank);
        if (published.size == 0) return 0;
        info = (aq_segment_info){.addr = published.addr, .size = published.size};
    }
    if (owneraddr_p != NULL) *owneraddr_p = info.addr;
    if (localaddr_p != NULL) *localaddr_p = job_rank == aqgi.rank ? info.addr : info.local;
    if (size_p != NULL) *size_p = info.size;
    return info.size;
}

gex_Event_t gex_EP_QueryBoundSegmentNB(gex_TM_t tm, gex_Rank_t rank, void **owneraddr_p,
                                       void **localaddr_p, uintptr_t *size_p, gex_Flags_t flags)
{
    if (segment_bound(tm, rank, owneraddr_p, localaddr_p, size_p) == 0 && size_p != NULL)
        *size_p = 0;
    return GEX_EVENT_INVALID;
}

AQG_DEFINE(int, gex_Segment_QueryBound,
           (gex_TM_t tm, gex_Rank_t rank, void **owneraddr_p, void **localaddr_p,
            uintptr_t *size_p),
           segment_bound(tm, rank, owneraddr_p, localaddr_p, size_p) == 0)

void *aqgi_at_offset(gex_TM_t tm, const void *offset)
{
    const struct aqg_segment *segment = aqgi_team(tm)->ep->segment;
    if (segment != NULL) return (char *)segment->addr + (uintptr_t)offset;
    if (!aqgi_everything())
        aqgi_die("GEX_FLAG_SELF_SEG_OFFSET: no segment is bound to the local endpoint");
    return (void *)(uintptr_t)offset;
}

/* --- endpoints ------------------------------------------------------------------------------- */

static const struct {
    gex_EP_Capabilities_t gex;
    unsigned aq;
} capabilities_table[] = {
    {GEX_EP_CAPABILITY_RMA, AQ_EP_RMA},   {GEX_EP_CAPABILITY_VIS, AQ_EP_RMA},
    {GEX_EP_CAPABILITY_AD, AQ_EP_ATOMIC}, {GEX_EP_CAPABILITY_AM, AQ_EP_AM},
    {GEX_EP_CAPABILITY_COLL, AQ_EP_COLL},
};

int gex_EP_Create(gex_EP_t *ep_p, gex_Client_t client, gex_EP_Capabilities_t capabilities,
                  gex_Flags_t flags)
{
    unsigned wanted = 0;
    aq_ep *aq;
    if (!aqgi.open)
        return aqgi_refuse(GASNET_ERR_NOT_INIT, "%s: called before gex_Client_Init", __func__);
    if (ep_p == NULL || client != &aqgi.client || capabilities == 0 ||
        (capabilities & ~GEX_EP_CAPABILITY_ALL) != 0)
        return aqgi_refuse(GASNET_ERR_BAD_ARG,
                           "%s: an argument is NULL, the client is not this one, or the "
                           "capabilities are 0 or unknown",
                           __func__);
    for (size_t i = 0; i < sizeof(capabilities_table) / sizeof(*capabilities_table); i++)
        if (capabilities & capabilities_table[i].gex) wanted |= capabilities_table[i].aq;
    /* Clients may register handlers only with the first endpoint, but send messages to any. */
    if (wanted & AQ_EP_AM) wanted |= AQ_EP_AM_SHARED;
    struct aqg_ep *ep = calloc(1, sizeof(*ep));
    if (ep == NULL) return aqgi_refuse(GASNET_ERR_RESOURCE, "%s: out of memory", __func__);
    int code = aqgi_error(__func__, aq_ep_create(wanted, &aq));
    if (code != GASNET_OK) {
        free(ep);
        return code;
    }
    *ep = (struct aqg_ep){.aq = aq,
                          .flags = flags,
                          .capabilities = capabilities,
                          .index = (gex_EP_Index_t)aq_ep_index(aq)};
    aqgi.eps[ep->index] = ep;
    *ep_p = ep;
    return wanted & AQ_EP_AM ? aqgi_error(__func__, aqgi_vis_open(ep)) : GASNET_OK;
}

int gex_EP_BindSegment(gex_EP_t ep, gex_Segment_t segment, gex_Flags_t flags)
{
    if (ep == GEX_EP_INVALID || segment == GEX_SEGMENT_INVALID || flags != 0 || ep->segment != NULL)
        return aqgi_refuse(GASNET_ERR_BAD_ARG,
                           "%s: the endpoint or the segment is invalid, the endpoint already has a "
                           "segment, or flags are not 0",
                           __func__);
    bool all = ep == &aqgi.ep && aqgi_everything(); /* all memory is bound to it already */
    int code = all ? GASNET_OK : aqgi_error(__func__, aq_ep_bind(ep->aq, segment->aq));
    if (code != GASNET_OK) return code;
    ep->segment = segment;
    if (all) return GASNET_OK;
    aqgi_reach(ep->index)[aqgi.rank] = segment_reach_of(segment_team(ep->index), aqgi.rank);
    return GASNET_OK;
}

int gex_EP_PublishBoundSegment(gex_TM_t tm, gex_EP_t *eps, size_t num_eps, gex_Flags_t flags)
{
    aq_ep *aq[AQGI_EPS];
    if (!aqgi.open)
        return aqgi_refuse(GASNET_ERR_NOT_INIT, "%s: called before gex_Client_Init", __func__);
    if (tm == GEX_TM_INVALID || flags != 0 || num_eps > AQGI_EPS || (eps == NULL && num_eps != 0))
        return aqgi_refuse(GASNET_ERR_BAD_ARG,
                           "%s: the team is invalid, flags are not 0, the endpoints are NULL, or "
                           "there are too many",
                           __func__);
    for (size_t i = 0; i < num_eps; i++)
        aq[i] = eps[i] != GEX_EP_INVALID ? eps[i]->aq : NULL;
    int published = aqgi_everything() ? segment_publish(__func__, tm, eps, num_eps) : GASNET_OK;
    if (published != GASNET_OK) return published;
    int code = aqgi_error(__func__, aq_ep_publish(aqgi_aq(tm), aq, num_eps, 0));
    for (unsigned i = 0; i < AQGI_EPS && code == GASNET_OK; i++)
        if (aqgi.reach[i] != NULL) segment_learn(aqgi.reach[i], i);
    return code;
}

AQG_DEFINE(gex_Client_t, gex_EP_QueryClient, (gex_EP_t ep), &aqgi.client)
AQG_DEFINE(gex_Segment_t, gex_EP_QuerySegment, (gex_EP_t ep), ep->segment)
AQG_DEFINE(gex_EP_Index_t, gex_EP_QueryIndex, (gex_EP_t ep), ep->index)
AQGI_OBJECT(gex_EP, gex_EP_t ep, ep)
