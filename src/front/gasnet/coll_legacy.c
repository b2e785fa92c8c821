/*
 * The collectives of GASNet-1, on Aqueduct's. Those synchronise as IN_MYSYNC and OUT_MYSYNC ask;
 * for ALLSYNC there are flags. A handle is an event, so the calls that synchronise are those of
 * events, which poll here.
 */
#include "aqg.h"

#include <gasnet_coll.h>

#include <pthread.h>

static gasnet_coll_fn_entry_t *functions;
static size_t function_count;

void gasnet_coll_init(const gasnet_image_t images[], gasnet_image_t my_image,
                      gasnet_coll_fn_entry_t fn_tbl[], size_t fn_count, int flags)
{
    static const char call[] = "gasnet_coll_init";
    (void)my_image, (void)flags;
    for (gex_Rank_t rank = 0; images != NULL && rank < aqgi.size; rank++)
        if (images[rank] != 1)
            aqgi_die("%s: process %u has %u images; one for each process is what there is here: "
                     "let one thread make the calls",
                     call, (unsigned)rank, (unsigned)images[rank]);
    if (fn_count == 0) return;
    functions = malloc(fn_count * sizeof(*functions));
    if (functions == NULL) aqgi_die("%s: no memory for %zu functions", call, fn_count);
    memcpy(functions, fn_tbl, fn_count * sizeof(*functions));
    function_count = fn_count;
}

/* --- reductions ------------------------------------------------------------------------------- */

/*
 * What a function is called with besides the data. Nobody learns of the end of an operation, so
 * there is one of these for all alike, for good; the number of it and the argument make up the
 * pointer that Aqueduct carries for us.
 */
struct reduction {
    gasnet_coll_reduce_fn_t fn;
    size_t size;
    int flags;
};
static struct reduction *reductions; /* one that grew too small stays, since others may read it */
static size_t reduction_count, reduction_room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static_assert(sizeof(uintptr_t) == 8, "a number and an argument in one pointer");

static size_t number_of(const struct reduction *r)
{
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < reduction_count && (reductions[i].fn != r->fn || reductions[i].size != r->size ||
                                   reductions[i].flags != r->flags))
        i++;
    if (i == reduction_room) {
        size_t room = reduction_room ? 2 * reduction_room : 16;
        struct reduction *more = malloc(room * sizeof(*more));
        if (more == NULL) aqgi_die("gasnet_coll_reduce: no memory");
        if (i != 0) memcpy(more, reductions, i * sizeof(*more));
        reduction_room = room;
        __atomic_store_n(&reductions, more, __ATOMIC_RELEASE);
    }
    if (i == reduction_count) reductions[reduction_count++] = *r;
    pthread_mutex_unlock(&lock);
    return i;
}

static void combine(const void *left, void *right_and_out, size_t count, const void *context)
{
    const struct reduction *r =
        &__atomic_load_n(&reductions, __ATOMIC_ACQUIRE)[(uintptr_t)context >> 32];
    r->fn(right_and_out, count, left, count, right_and_out, r->size, r->flags,
          (int)(uint32_t)(uintptr_t)context);
}

static unsigned flags_of(int flags)
{
    return (flags & GASNET_COLL_IN_ALLSYNC ? AQ_COLL_IN_ALL : 0u) |
           (flags & GASNET_COLL_OUT_ALLSYNC ? AQ_COLL_OUT_ALL : 0u);
}

static aq_status reduce(aq_team *team, gasnet_image_t root, void *dst, const void *src,
                        size_t src_blksz, size_t src_offset, size_t size, size_t count,
                        gasnet_coll_fn_handle_t func, int arg, int flags, aq_event *event)
{
    static const char call[] = "gasnet_coll_reduce";
    if (src_blksz != 0 || src_offset != 0) aqgi_die("%s: src_blksz and src_offset must be 0", call);
    if (func < 0 || (size_t)func >= function_count)
        aqgi_die("%s: function %d is not in the table that gasnet_coll_init was given", call,
                 (int)func);
    struct reduction r = {functions[func].fnptr, size, flags};
    unsigned how = flags_of(flags);
    if (functions[func].flags & GASNET_COLL_NONCOMM) how |= AQ_COLL_ORDERED;
    uintptr_t context = (uintptr_t)number_of(&r) << 32 | (uint32_t)arg;
    return aq_coll_reduce_user_nb(team, root, dst, src, count, size, combine, (const void *)context,
                                  how, event);
}

/* --- synchronisation -------------------------------------------------------------------------- */

int gasnet_coll_try_sync(gasnet_coll_handle_t h)
{
    (void)gasnet_AMPoll();
    return gex_Event_Test(h);
}

void gasnet_coll_wait_sync(gasnet_coll_handle_t h)
{
    gex_Event_Wait(h);
}

int gasnet_coll_try_sync_some(gasnet_coll_handle_t *ph, size_t n)
{
    (void)gasnet_AMPoll();
    return gex_Event_TestSome(ph, n, 0);
}

void gasnet_coll_wait_sync_some(gasnet_coll_handle_t *ph, size_t n)
{
    gex_Event_WaitSome(ph, n, 0);
}

int gasnet_coll_try_sync_all(gasnet_coll_handle_t *ph, size_t n)
{
    (void)gasnet_AMPoll();
    return gex_Event_TestAll(ph, n, 0);
}

void gasnet_coll_wait_sync_all(gasnet_coll_handle_t *ph, size_t n)
{
    gex_Event_WaitAll(ph, n, 0);
}

/* --- the calls -------------------------------------------------------------------------------- */

/* The entry of a list of addresses that is this process's. */
static void *mine(gasnet_team_handle_t team, void *const list[], int flags)
{
    if (list == NULL) return NULL;
    return list[flags & GASNET_COLL_SINGLE ? team->rank : 0];
}

/*
 * A call and the one with lists of addresses, each as one that gives a handle and one that waits.
 * IN and IN_LISTS are the parameters, NAMES and FROM_LISTS the arguments for the first form; START
 * begins it.
 */
#define CALL(NAME, IN, NAMES, IN_LISTS, FROM_LISTS, START)                                         \
    gasnet_coll_handle_t gasnet_coll_##NAME##_nb IN                                                \
    {                                                                                              \
        aq_event event = AQ_EVENT_DONE;                                                            \
        aqgi_done("gasnet_coll_" #NAME, START);                                                    \
        return aqgi_event(event);                                                                  \
    }                                                                                              \
    void gasnet_coll_##NAME IN                                                                     \
    {                                                                                              \
        gex_Event_Wait(gasnet_coll_##NAME##_nb NAMES);                                             \
    }                                                                                              \
    gasnet_coll_handle_t gasnet_coll_##NAME##M_nb IN_LISTS                                         \
    {                                                                                              \
        return gasnet_coll_##NAME##_nb FROM_LISTS;                                                 \
    }                                                                                              \
    void gasnet_coll_##NAME##M IN_LISTS                                                            \
    {                                                                                              \
        gex_Event_Wait(gasnet_coll_##NAME##_nb FROM_LISTS);                                        \
    }

CALL(broadcast,
     (gasnet_team_handle_t team, void *dst, gasnet_image_t srcimage, const void *src, size_t nbytes,
      int flags),
     (team, dst, srcimage, src, nbytes, flags),
     (gasnet_team_handle_t team, void *const dstlist[], gasnet_image_t srcimage, const void *src,
      size_t nbytes, int flags),
     (team, mine(team, dstlist, flags), srcimage, src, nbytes, flags),
     aq_coll_broadcast_nb(aqgi_aq(team), srcimage, dst, src, nbytes, flags_of(flags), &event))

CALL(scatter,
     (gasnet_team_handle_t team, void *dst, gasnet_image_t srcimage, const void *src, size_t nbytes,
      int flags),
     (team, dst, srcimage, src, nbytes, flags),
     (gasnet_team_handle_t team, void *const dstlist[], gasnet_image_t srcimage, const void *src,
      size_t nbytes, int flags),
     (team, mine(team, dstlist, flags), srcimage, src, nbytes, flags),
     aq_coll_scatter_nb(aqgi_aq(team), srcimage, dst, src, nbytes, flags_of(flags), &event))

CALL(gather,
     (gasnet_team_handle_t team, gasnet_image_t dstimage, void *dst, const void *src, size_t nbytes,
      int flags),
     (team, dstimage, dst, src, nbytes, flags),
     (gasnet_team_handle_t team, gasnet_image_t dstimage, void *dst, void *const srclist[],
      size_t nbytes, int flags),
     (team, dstimage, dst, mine(team, srclist, flags), nbytes, flags),
     aq_coll_gather_nb(aqgi_aq(team), dstimage, dst, src, nbytes, flags_of(flags), &event))

CALL(gather_all, (gasnet_team_handle_t team, void *dst, const void *src, size_t nbytes, int flags),
     (team, dst, src, nbytes, flags),
     (gasnet_team_handle_t team, void *const dstlist[], void *const srclist[], size_t nbytes,
      int flags),
     (team, mine(team, dstlist, flags), mine(team, srclist, flags), nbytes, flags),
     aq_coll_allgather_nb(aqgi_aq(team), dst, src, nbytes, flags_of(flags), &event))

CALL(exchange, (gasnet_team_handle_t team, void *dst, const void *src, size_t nbytes, int flags),
     (team, dst, src, nbytes, flags),
     (gasnet_team_handle_t team, void *const dstlist[], void *const srclist[], size_t nbytes,
      int flags),
     (team, mine(team, dstlist, flags), mine(team, srclist, flags), nbytes, flags),
     aq_coll_alltoall_nb(aqgi_aq(team), dst, src, nbytes, flags_of(flags), &event))

CALL(reduce,
     (gasnet_team_handle_t team, gasnet_image_t dstimage, void *dst, const void *src,
      size_t src_blksz, size_t src_offset, size_t elem_size, size_t elem_count,
      gasnet_coll_fn_handle_t func, int func_arg, int flags),
     (team, dstimage, dst, src, src_blksz, src_offset, elem_size, elem_count, func, func_arg,
      flags),
     (gasnet_team_handle_t team, gasnet_image_t dstimage, void *dst, void *const srclist[],
      size_t src_blksz, size_t src_offset, size_t elem_size, size_t elem_count,
      gasnet_coll_fn_handle_t func, int func_arg, int flags),
     (team, dstimage, dst, mine(team, srclist, flags), src_blksz, src_offset, elem_size, elem_count,
      func, func_arg, flags),
     reduce(aqgi_aq(team), dstimage, dst, src, src_blksz, src_offset, elem_size, elem_count, func,
            func_arg, flags, &event))

/* --- teams, barriers, tuning ------------------------------------------------------------------ */

gasnet_team_handle_t gasnet_coll_team_split(gasnet_team_handle_t parent, gasnet_node_t color,
                                            gasnet_node_t relrank, void *clientdata)
{
    const gasnet_seginfo_t *scratch = clientdata;
    gex_TM_t team = GEX_TM_INVALID;
    (void)gex_TM_Split(&team, parent, (int)color, (int)relrank,
                       scratch != NULL ? scratch->addr : NULL, scratch != NULL ? scratch->size : 0,
                       scratch != NULL ? 0 : GEX_FLAG_TM_NO_SCRATCH);
    return team;
}

gasnet_node_t gasnet_coll_team_size(gasnet_team_handle_t team)
{
    return gex_TM_QuerySize(team);
}

gasnet_node_t gasnet_coll_team_rank2node(gasnet_team_handle_t team, int rank)
{
    return gex_TM_TranslateRankToJobrank(team, (gex_Rank_t)rank);
}

gasnet_node_t gasnet_coll_team_node2rank(gasnet_team_handle_t team, gasnet_node_t node)
{
    return gex_TM_TranslateJobrankToRank(team, node);
}

void gasnet_coll_barrier_notify(gasnet_team_handle_t team, int id, int flags)
{
    aqgi_barrier_notify(aqgi_aq(team), id, flags);
}

int gasnet_coll_barrier_wait(gasnet_team_handle_t team, int id, int flags)
{
    return aqgi_barrier_wait(aqgi_aq(team), id, flags);
}

int gasnet_coll_barrier_try(gasnet_team_handle_t team, int id, int flags)
{
    return aqgi_barrier_try(aqgi_aq(team), id, flags);
}

int gasnet_coll_barrier(gasnet_team_handle_t team, int id, int flags)
{
    aqgi_barrier_notify(aqgi_aq(team), id, flags);
    return aqgi_barrier_wait(aqgi_aq(team), id, flags);
}

int gasnet_coll_barrier_result(gasnet_team_handle_t team, int *id)
{
    return aqgi_barrier_result(aqgi_aq(team), id);
}

void gasnet_coll_dumpTuningState(char *filename, gasnet_team_handle_t team)
{
    (void)filename, (void)team;
}

void gasnet_coll_loadTuningState(char *filename, gasnet_team_handle_t team)
{
    (void)filename, (void)team;
}

void gasnet_coll_dumpProfile(char *filename, gasnet_team_handle_t team)
{
    (void)filename, (void)team;
}
