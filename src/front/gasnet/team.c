/* Teams, pairs, and nonblocking barriers. */
#include "aqg.h"

#include <pthread.h>

/* The library allocates its own memory, but GASNet requires a nonzero size: report a page. */
enum { CREATED_SCRATCH = 4096 };

/* --- queries --------------------------------------------------------------------------------- */

AQG_DEFINE(gex_Client_t, gex_TM_QueryClient, (gex_TM_t tm), &aqgi.client)
AQG_DEFINE(gex_EP_t, gex_TM_QueryEP, (gex_TM_t tm), aqgi_team(tm)->ep)
AQGI_OBJECT(gex_TM, gex_TM_t tm, aqgi_team(tm))

static void team_check_rank(const char *call, gex_TM_t tm, gex_Rank_t rank)
{
    if (rank >= tm->size)
        aqgi_die("%s: rank %u is not in the team, whose ranks are 0 to %u", call, rank,
                 tm->size - 1);
}

gex_Rank_t gex_TM_TranslateRankToJobrank(gex_TM_t tm, gex_Rank_t rank)
{
    team_check_rank("gex_TM_TranslateRankToJobrank", tm, rank);
    return tm->map != NULL ? tm->map[rank] : rank;
}

gex_Rank_t gex_TM_TranslateJobrankToRank(gex_TM_t tm, gex_Rank_t jobrank)
{
    aq_rank rank = aq_team_from_job(aqgi_aq(tm), jobrank);
    return rank == AQ_RANK_NONE ? GEX_RANK_INVALID : rank;
}

gex_EP_Location_t gex_TM_TranslateRankToEP(gex_TM_t tm, gex_Rank_t rank, gex_Flags_t flags)
{
    gex_EP_Location_t location = {gex_TM_TranslateRankToJobrank(tm, rank),
                                  (gex_EP_Index_t)aq_team_ep_index(aqgi_aq(tm), rank)};
    return location;
}

/* --- creating teams -------------------------------------------------------------------------- */

static size_t team_scratch_size(void)
{
    return aqgi.coll_scratch != 0 ? aqgi.coll_scratch : CREATED_SCRATCH;
}

static bool team_is_query(gex_Flags_t flags)
{
    return (flags & (GEX_FLAG_TM_SCRATCH_SIZE_MIN | GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED)) != 0;
}

/* The job ranks of a team's members; NULL if they are identical to its ranks. */
static gex_Rank_t *team_map_of(aq_team *aq)
{
    aq_rank size = aq_team_size(aq);
    bool same = true;
    gex_Rank_t *map = aqgi_alloc(size, sizeof(*map), "the ranks of a team");
    for (aq_rank rank = 0; rank < size; rank++) {
        map[rank] = aq_team_to_job(aq, rank);
        same = same && map[rank] == rank;
    }
    if (!same) return map;
    free(map);
    return NULL;
}

/* Where the segments of the members' endpoints are mapped. */
static const struct aqg_reach *team_reach_of(aq_team *aq)
{
    static struct aqg_reach *nothing;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    unsigned index = aq_team_ep_index(aq, 0);
    aq_rank rank = 1;
    while (rank < aq_team_size(aq) && aq_team_ep_index(aq, rank) == index)
        rank++;
    if (rank == aq_team_size(aq)) return aqgi_reach(index);
    /* Endpoints with different indices share no list: Aqueduct looks them up. */
    pthread_mutex_lock(&lock);
    if (nothing == NULL)
        nothing = aqgi_alloc(aqgi.size, sizeof(*nothing), "the segments of all processes");
    pthread_mutex_unlock(&lock);
    return nothing;
}

static gex_TM_t team_new(aq_team *aq, void *scratch, size_t size, gex_Flags_t flags)
{
    struct aqgi_team *team = aqgi_alloc(1, sizeof(*team), "a team's handle");
    const gex_Rank_t *map = team_map_of(aq);
    *team = (struct aqgi_team){.head = {.reach = team_reach_of(aq),
                                        .map = map,
                                        .rank = aq_team_rank(aq),
                                        .size = aq_team_size(aq),
                                        .plain = map != NULL ? 0 : aq_team_size(aq)},
                               .aq = aq,
                               .ep = aqgi.eps[aq_ep_index(aq_team_ep(aq))],
                               .flags = flags};
    if ((flags & GEX_FLAG_TM_NO_SCRATCH) == 0 && size != 0) {
        team->scratch.gex_addr =
            flags & GEX_FLAG_SCRATCH_SEG_OFFSET ? aqgi_at_offset(&team->head, scratch) : scratch;
        team->scratch.gex_len = size;
    }
    return &team->head;
}

size_t gex_TM_Split(gex_TM_t *new_tm_p, gex_TM_t parent_tm, int color, int key, void *scratch_addr,
                    size_t scratch_size_given, gex_Flags_t flags)
{
    aq_team *aq;
    if (team_is_query(flags)) return new_tm_p != NULL ? team_scratch_size() : 0;
    if (new_tm_p != NULL && color < 0) aqgi_die("%s: color %d is negative", __func__, color);
    aqgi_done(__func__, aq_team_split(aqgi_aq(parent_tm), new_tm_p != NULL ? color : AQ_COLOR_NONE,
                                      key, 0, &aq));
    if (new_tm_p != NULL) *new_tm_p = team_new(aq, scratch_addr, scratch_size_given, flags);
    return 0;
}

static void *team_scratch_of(gex_Addr_t *scratch_addrs, gex_Flags_t flags, aq_rank rank)
{
    if (scratch_addrs == NULL || (flags & GEX_FLAG_TM_NO_SCRATCH)) return NULL;
    return scratch_addrs[flags & GEX_FLAG_TM_GLOBAL_SCRATCH ? rank : 0];
}

/* The members as ranks of the parent, followed by the indices of their endpoints. */
static aq_rank *team_members_of(aq_team *parent, const gex_EP_Location_t *args, size_t count,
                                gex_Flags_t flags)
{
    static_assert(sizeof(aq_rank) == sizeof(unsigned), "one array holds both");
    aq_rank *members = aqgi_alloc(count, 2 * sizeof(*members), "the members of gex_TM_Create");
    for (size_t i = 0; i < count; i++) {
        members[i] = flags & GEX_FLAG_RANK_IS_JOBRANK ? aq_team_from_job(parent, args[i].gex_rank)
                                                      : args[i].gex_rank;
        members[count + i] = args[i].gex_ep_index;
    }
    return members;
}

size_t gex_TM_Create(gex_TM_t *new_tms, size_t num_new_tms, gex_TM_t parent_tm,
                     gex_EP_Location_t *args, size_t numargs, gex_Addr_t *scratch_addrs,
                     size_t scratch_size_given, gex_Flags_t flags)
{
    aq_team *aq = NULL;
    /* If either number is 0, this process joins no team, regardless of the other arguments. */
    if (numargs == 0 || num_new_tms == 0) num_new_tms = numargs = 0;
    if (team_is_query(flags)) return num_new_tms != 0 ? team_scratch_size() : 0;
    if (num_new_tms > 1)
        aqgi_die("%s: %zu teams requested, but a process can join only one, with one endpoint",
                 __func__, num_new_tms);
    aq_rank *members =
        numargs != 0 ? team_members_of(aqgi_aq(parent_tm), args, numargs, flags) : NULL;
    const unsigned *eps = members != NULL ? members + numargs : NULL;
    aqgi_done(__func__, aq_team_create_eps(aqgi_aq(parent_tm), members, eps, numargs, 0, &aq));
    free(members);
    if (num_new_tms == 0) return 0;
    void *scratch = team_scratch_of(scratch_addrs, flags, aq_team_rank(aq));
    new_tms[0] = team_new(aq, scratch, scratch_size_given, flags);
    return 0;
}

int gex_TM_Destroy(gex_TM_t tm, gex_Memvec_t *scratch_p, gex_Flags_t flags)
{
    struct aqgi_team *team = aqgi_team(tm);
    aqgi_images_forget(tm);
    aqgi_done("gex_TM_Destroy", aq_team_destroy(team->aq));
    int given = scratch_p != NULL && team->scratch.gex_len != 0;
    if (given) *scratch_p = team->scratch;
    free((void *)(uintptr_t)team->head.map);
    free(team);
    return given;
}

gex_TM_t gex_TM_Pair(gex_EP_t local_ep, gex_EP_Index_t remote_ep_index)
{
    static struct aqgi_team pairs[AQGI_EPS][AQGI_EPS];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (remote_ep_index >= AQGI_EPS)
        aqgi_die("gex_TM_Pair: endpoint %u is out of range: a process has at most %d",
                 remote_ep_index, AQGI_EPS);
    struct aqgi_team *pair = &pairs[local_ep->index][remote_ep_index];
    if (__atomic_load_n(&pair->pair, __ATOMIC_ACQUIRE)) return &pair->head;
    struct aqg_reach *reach = aqgi_reach(remote_ep_index);
    pthread_mutex_lock(&lock);
    if (!pair->pair) {
        pair->head = (struct aqg_tm){
            .reach = reach, .rank = aqgi.rank, .size = aqgi.size, .plain = aqgi.size};
        pair->aq = aq_team_pair(local_ep->aq, remote_ep_index);
        pair->ep = local_ep;
        __atomic_store_n(&pair->pair, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return &pair->head;
}

/* --- nonblocking barriers --------------------------------------------------------------------- */

gex_Event_t gex_Coll_BarrierNB(gex_TM_t tm, gex_Flags_t flags)
{
    aq_event event = AQ_EVENT_DONE;
    aqgi_done("gex_Coll_BarrierNB", aq_barrier_nb(aqgi_aq(tm), 0, &event));
    return aqgi_event(event);
}

void gex_Coll_BarrierBlocking(gex_TM_t tm, gex_Flags_t flags)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, flags));
}
