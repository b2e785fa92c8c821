/* Locality: hosts, neighborhoods and segment limits, determined once at startup. */
#include "aqg.h"

/* The data that each process publishes. */
struct card {
    uint64_t max_segment;
    uint32_t host, neighborhood;
};
static struct card *cards;
static uint64_t least_max_segment;

/* The members of a team in GASNet's form. */
struct members {
    struct {
        gex_Rank_t gex_jobrank;
    } * info;
    gex_Rank_t count, mine;
};
static struct members neighborhood, host;

static void system_list_members(struct members *members, aq_team *team)
{
    members->count = aq_team_size(team);
    members->mine = aq_team_rank(team);
    members->info = aqgi_alloc(members->count, sizeof(*members->info), "a list of processes");
    for (gex_Rank_t i = 0; i < members->count; i++)
        members->info[i].gex_jobrank = aq_team_to_job(team, i);
}

/* Exchange the data; this is also the barrier at the end of startup. */
aq_status aqgi_system_open(void)
{
    aq_rank count, mine;
    struct card card = {.max_segment = aqgi_segment_max()};
    cards = aqgi_alloc(aqgi.size, sizeof(*cards), "the hosts of all processes");
    aq_job_hosts(&count, &mine);
    card.host = mine;
    aq_job_neighborhoods(&count, &mine);
    card.neighborhood = mine;
    system_list_members(&neighborhood, aq_team_neighborhood());
    system_list_members(&host, aq_team_host());
    aq_status st = aq_coll_allgather(aqgi.world.aq, cards, &card, sizeof(card), 0);
    least_max_segment = UINT64_MAX;
    for (gex_Rank_t rank = 0; rank < aqgi.size && st == AQ_OK; rank++)
        if (cards[rank].max_segment < least_max_segment)
            least_max_segment = cards[rank].max_segment;
    return st;
}

static void system_query_members(const struct members *members, gex_RankInfo_t **info_p,
                                 gex_Rank_t *count_p, gex_Rank_t *my_index_p)
{
    if (info_p != NULL) *info_p = (gex_RankInfo_t *)members->info;
    if (count_p != NULL) *count_p = members->count;
    if (my_index_p != NULL) *my_index_p = members->mine;
}

void gex_System_QueryNbrhdInfo(gex_RankInfo_t **info_p, gex_Rank_t *count_p, gex_Rank_t *my_index_p)
{
    system_query_members(&neighborhood, info_p, count_p, my_index_p);
}

void gex_System_QueryHostInfo(gex_RankInfo_t **info_p, gex_Rank_t *count_p, gex_Rank_t *my_index_p)
{
    system_query_members(&host, info_p, count_p, my_index_p);
}

void gex_System_QueryMyPosition(gex_Rank_t *nbrhd_set_size_p, gex_Rank_t *nbrhd_set_rank_p,
                                gex_Rank_t *host_set_size_p, gex_Rank_t *host_set_rank_p)
{
    aq_rank count, mine;
    aq_job_neighborhoods(&count, &mine);
    if (nbrhd_set_size_p != NULL) *nbrhd_set_size_p = count;
    if (nbrhd_set_rank_p != NULL) *nbrhd_set_rank_p = mine;
    aq_job_hosts(&count, &mine);
    if (host_set_size_p != NULL) *host_set_size_p = count;
    if (host_set_rank_p != NULL) *host_set_rank_p = mine;
}

uint64_t aqg_max_threads(unsigned mode)
{
    return mode == 0 ? 1 : aqgi.max_threads;
}

AQG_DEFINE(int, gex_System_QueryHiddenAMConcurrencyLevel, (void), aq_job_progress_thread())

/* The library starts its thread itself, so the client need not start one. */
int gex_System_QueryProgressThreads(gex_Client_t client, unsigned int *count_p,
                                    const gex_ProgressThreadInfo_t **info_p, gex_Flags_t flags)
{
    static const char call[] = "gex_System_QueryProgressThreads";
    static const gex_ProgressThreadInfo_t none = {"", 0, NULL, NULL};
    static bool asked;
    if (count_p == NULL || info_p == NULL || flags != 0)
        return aqgi_refuse(GASNET_ERR_BAD_ARG, "%s: a pointer is NULL, or flags are not 0", call);
    if (client == GEX_CLIENT_INVALID || (client->flags & GEX_FLAG_DEFER_THREADS) == 0 || asked)
        return aqgi_refuse(
            GASNET_ERR_RESOURCE,
            "%s: may be called only once, after gex_Client_Init with GEX_FLAG_DEFER_THREADS", call);
    asked = true;
    *count_p = 0;
    *info_p = &none;
    return GASNET_OK;
}

/* --- GASNet-1 -------------------------------------------------------------------------------- */

AQG_DEFINE(uintptr_t, gasnet_getMaxLocalSegmentSize, (void),
           aqgi.open ? cards[aqgi.rank].max_segment : 0)
AQG_DEFINE(uintptr_t, gasnet_getMaxGlobalSegmentSize, (void), least_max_segment)

int gasnet_getSegmentInfo(gasnet_seginfo_t *table, int numentries)
{
    aq_segment_info info;
    if (!aqgi.attached && aqgi.ep.segment == NULL && !aqgi_everything())
        return aqgi_refuse(GASNET_ERR_NOT_INIT,
                           "gasnet_getSegmentInfo: called before gasnet_attach");
    for (gex_Rank_t rank = 0; rank < aqgi.size && (int64_t)rank < numentries; rank++) {
        aqgi_done("gasnet_getSegmentInfo", aq_segment_query(aqgi.world.aq, rank, &info));
        table[rank].addr = info.addr;
        table[rank].size = info.size;
    }
    return GASNET_OK;
}

int gasnet_getNodeInfo(gasnet_nodeinfo_t *table, int numentries)
{
    if (!aqgi.open)
        return aqgi_refuse(GASNET_ERR_NOT_INIT, "gasnet_getNodeInfo: called before gasnet_init");
    for (gex_Rank_t rank = 0; rank < aqgi.size && (int64_t)rank < numentries; rank++) {
        table[rank].host = cards[rank].host;
        table[rank].supernode = cards[rank].neighborhood;
        table[rank].offset = aqgi.reach[0][rank].delta;
    }
    return GASNET_OK;
}

/* Every process inherits the environment of the launcher. */
AQG_DEFINE(char *, gasnet_getenv, (const char *name), getenv(name))
