/*
 * The collectives of GASNet-1, on Aqueduct's. Those synchronise as IN_MYSYNC and OUT_MYSYNC ask;
 * for ALLSYNC there are flags. A handle is an event, so the calls that synchronise are those of
 * events, which poll here; but where processes have several images (coll_images.c).
 */
#include "coll_legacy.h"

#include <gasnet_tools.h>

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gasnet_coll_fn_entry_t *functions;
static size_t function_count;

void gasnet_coll_init(const gasnet_image_t images[], gasnet_image_t my_image,
                      gasnet_coll_fn_entry_t fn_tbl[], size_t fn_count, int flags)
{
    (void)flags;
    aqgi_images_init(images, my_image);
    pthread_mutex_lock(&lock);
    if (function_count == 0 && fn_count != 0) {
        functions = malloc(fn_count * sizeof(*functions));
        if (functions == NULL) aqgi_die("gasnet_coll_init: no memory for %zu functions", fn_count);
        memcpy(functions, fn_tbl, fn_count * sizeof(*functions));
        function_count = fn_count;
    }
    pthread_mutex_unlock(&lock);
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
static_assert(sizeof(uintptr_t) == 8, "a number and an argument in one pointer");

static size_t coll_legacy_number_of(const struct reduction *r)
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

static void coll_legacy_combine(const void *left, void *right_and_out, size_t count,
                                const void *context)
{
    const struct reduction *r =
        &__atomic_load_n(&reductions, __ATOMIC_ACQUIRE)[(uintptr_t)context >> 32];
    r->fn(right_and_out, count, left, count, right_and_out, r->size, r->flags,
          (int)(uint32_t)(uintptr_t)context);
}

unsigned aqgi_coll_flags(int flags)
{
    return (flags & GASNET_COLL_IN_ALLSYNC ? AQ_COLL_IN_ALL : 0u) |
           (flags & GASNET_COLL_OUT_ALLSYNC ? AQ_COLL_OUT_ALL : 0u);
}

/* What Aqueduct's function is called with for the function of a call. */
static const void *coll_legacy_coll_context(const struct aqgi_coll *c)
{
    static const char call[] = "gasnet_coll_reduce";
    if (c->blksz != 0 || c->offset != 0) aqgi_die("%s: src_blksz and src_offset must be 0", call);
    if (c->fn < 0 || (size_t)c->fn >= function_count)
        aqgi_die("%s: function %d is not in the table that gasnet_coll_init was given", call,
                 (int)c->fn);
    struct reduction r = {functions[c->fn].fnptr, c->nbytes, c->flags};
    return (const void *)((uintptr_t)coll_legacy_number_of(&r) << 32 | (uint32_t)c->arg);
}

aq_status aqgi_coll_reduce(const struct aqgi_coll *c, aq_team *team, gex_Rank_t root, void *dst,
                           const void *src, unsigned flags, aq_event *event)
{
    const void *context = coll_legacy_coll_context(c);
    if (functions[c->fn].flags & GASNET_COLL_NONCOMM) flags |= AQ_COLL_ORDERED;
    return aq_coll_reduce_user_nb(team, root, dst, src, c->count, c->nbytes, coll_legacy_combine,
                                  context, flags, event);
}

void aqgi_coll_fold(const struct aqgi_coll *c, const void *left, void *right_and_out)
{
    coll_legacy_combine(left, right_and_out, c->count, coll_legacy_coll_context(c));
}

/* --- synchronisation -------------------------------------------------------------------------- */

/* Images wait for those of their own process, too, which may have no processor. */
static void coll_legacy_coll_images_wait(gasnet_coll_handle_t *ph, size_t n, bool some)
{
    while (aqgi_images_test(ph, n, some) != GASNET_OK) {
        (void)gasnet_AMPoll();
        gasnett_sched_yield();
    }
}

int gasnet_coll_try_sync(gasnet_coll_handle_t h)
{
    (void)gasnet_AMPoll();
    return aqgi_has_images() ? aqgi_images_test(&h, 1, false) : gex_Event_Test(h);
}

void gasnet_coll_wait_sync(gasnet_coll_handle_t h)
{
    if (aqgi_has_images())
        coll_legacy_coll_images_wait(&h, 1, false);
    else
        gex_Event_Wait(h);
}

int gasnet_coll_try_sync_some(gasnet_coll_handle_t *ph, size_t n)
{
    (void)gasnet_AMPoll();
    return aqgi_has_images() ? aqgi_images_test(ph, n, true) : gex_Event_TestSome(ph, n, 0);
}

void gasnet_coll_wait_sync_some(gasnet_coll_handle_t *ph, size_t n)
{
    if (aqgi_has_images())
        coll_legacy_coll_images_wait(ph, n, true);
    else
        gex_Event_WaitSome(ph, n, 0);
}

int gasnet_coll_try_sync_all(gasnet_coll_handle_t *ph, size_t n)
{
    (void)gasnet_AMPoll();
    return aqgi_has_images() ? aqgi_images_test(ph, n, false) : gex_Event_TestAll(ph, n, 0);
}

void gasnet_coll_wait_sync_all(gasnet_coll_handle_t *ph, size_t n)
{
    if (aqgi_has_images())
        coll_legacy_coll_images_wait(ph, n, false);
    else
        gex_Event_WaitAll(ph, n, 0);
}

/* --- the calls -------------------------------------------------------------------------------- */

/* The entry of a list of addresses that is this process's, or the one that is given. */
static void *coll_legacy_coll_mine(const struct aqgi_coll *c, void *const list[], const void *one)
{
    if (list == NULL) return (void *)(uintptr_t)one;
    return list[c->flags & GASNET_COLL_SINGLE ? c->team->rank : 0];
}

static aq_status coll_legacy_coll_begin(const struct aqgi_coll *c, aq_event *ev)
{
    void *dst = coll_legacy_coll_mine(c, c->dsts, c->dst),
         *src = coll_legacy_coll_mine(c, c->srcs, c->src);
    aq_team *aq = aqgi_aq(c->team);
    unsigned flags = aqgi_coll_flags(c->flags);
    switch (c->kind) {
    case AQGI_BROADCAST:
        return aq_coll_broadcast_nb(aq, c->root, dst, src, c->nbytes, flags, ev);
    case AQGI_SCATTER:
        return aq_coll_scatter_nb(aq, c->root, dst, src, c->nbytes, flags, ev);
    case AQGI_GATHER:
        return aq_coll_gather_nb(aq, c->root, dst, src, c->nbytes, flags, ev);
    case AQGI_GATHER_ALL:
        return aq_coll_allgather_nb(aq, dst, src, c->nbytes, flags, ev);
    case AQGI_EXCHANGE:
        return aq_coll_alltoall_nb(aq, dst, src, c->nbytes, flags, ev);
    default:
        return aqgi_coll_reduce(c, aq, c->root, dst, src, flags, ev);
    }
}

static gasnet_coll_handle_t coll_legacy_coll_start(const char *name, struct aqgi_coll c)
{
    aq_event event = AQ_EVENT_DONE;
    if (aqgi_has_images() && (c.flags & GASNET_COLL_NO_IMAGES) == 0) return aqgi_images_start(&c);
    aqgi_done(name, coll_legacy_coll_begin(&c, &event));
    return aqgi_event(event);
}

/*
 * A call, the one with lists of addresses, and of each the form that gives a handle. PARAMETERS are
 * those between the team and the flags, GIVEN what they are in struct aqgi_coll.
 */
#define UNPACK(...) __VA_ARGS__
#define CALL(NAME, KIND, PARAMETERS, GIVEN)                                                        \
    gasnet_coll_handle_t gasnet_coll_##NAME##_nb(gasnet_team_handle_t team, UNPACK PARAMETERS,     \
                                                 int flags)                                        \
    {                                                                                              \
        return coll_legacy_coll_start(                                                             \
            "gasnet_coll_" #NAME,                                                                  \
            (struct aqgi_coll){.kind = KIND, .team = team, .flags = flags, UNPACK GIVEN});         \
    }                                                                                              \
    void gasnet_coll_##NAME(gasnet_team_handle_t team, UNPACK PARAMETERS, int flags)               \
    {                                                                                              \
        gasnet_coll_wait_sync(coll_legacy_coll_start(                                              \
            "gasnet_coll_" #NAME,                                                                  \
            (struct aqgi_coll){.kind = KIND, .team = team, .flags = flags, UNPACK GIVEN}));        \
    }

#define ROOTED_BY(IMAGE) .root = IMAGE, .nbytes = nbytes
CALL(broadcast, AQGI_BROADCAST,
     (void *dst, gasnet_image_t srcimage, const void *src, size_t nbytes),
     (.dst = dst, .src = src, ROOTED_BY(srcimage)))
CALL(broadcastM, AQGI_BROADCAST,
     (void *const dstlist[], gasnet_image_t srcimage, const void *src, size_t nbytes),
     (.dsts = dstlist, .src = src, ROOTED_BY(srcimage)))
CALL(scatter, AQGI_SCATTER, (void *dst, gasnet_image_t srcimage, const void *src, size_t nbytes),
     (.dst = dst, .src = src, ROOTED_BY(srcimage)))
CALL(scatterM, AQGI_SCATTER,
     (void *const dstlist[], gasnet_image_t srcimage, const void *src, size_t nbytes),
     (.dsts = dstlist, .src = src, ROOTED_BY(srcimage)))
CALL(gather, AQGI_GATHER, (gasnet_image_t dstimage, void *dst, const void *src, size_t nbytes),
     (.dst = dst, .src = src, ROOTED_BY(dstimage)))
CALL(gatherM, AQGI_GATHER,
     (gasnet_image_t dstimage, void *dst, void *const srclist[], size_t nbytes),
     (.dst = dst, .srcs = srclist, ROOTED_BY(dstimage)))
CALL(gather_all, AQGI_GATHER_ALL, (void *dst, const void *src, size_t nbytes),
     (.dst = dst, .src = src, .nbytes = nbytes))
CALL(gather_allM, AQGI_GATHER_ALL, (void *const dstlist[], void *const srclist[], size_t nbytes),
     (.dsts = dstlist, .srcs = srclist, .nbytes = nbytes))
CALL(exchange, AQGI_EXCHANGE, (void *dst, const void *src, size_t nbytes),
     (.dst = dst, .src = src, .nbytes = nbytes))
CALL(exchangeM, AQGI_EXCHANGE, (void *const dstlist[], void *const srclist[], size_t nbytes),
     (.dsts = dstlist, .srcs = srclist, .nbytes = nbytes))

#define REDUCTION                                                                                  \
    .root = dstimage, .dst = dst, .nbytes = elem_size, .count = elem_count, .fn = func,            \
    .arg = func_arg, .blksz = src_blksz, .offset = src_offset
CALL(reduce, AQGI_REDUCE,
     (gasnet_image_t dstimage, void *dst, const void *src, size_t src_blksz, size_t src_offset,
      size_t elem_size, size_t elem_count, gasnet_coll_fn_handle_t func, int func_arg),
     (.src = src, REDUCTION))
CALL(reduceM, AQGI_REDUCE,
     (gasnet_image_t dstimage, void *dst, void *const srclist[], size_t src_blksz,
      size_t src_offset, size_t elem_size, size_t elem_count, gasnet_coll_fn_handle_t func,
      int func_arg),
     (.srcs = srclist, REDUCTION))

/* --- teams, barriers, tuning ------------------------------------------------------------------ */

gasnet_team_handle_t gasnet_coll_team_split(gasnet_team_handle_t parent, gasnet_node_t color,
                                            gasnet_node_t relrank, void *clientdata)
{
    const gasnet_seginfo_t *scratch = clientdata;
    gex_TM_t team = GEX_TM_INVALID;
    (void)gex_TM_Split(&team, parent, (int)color, (int)relrank,
                       scratch != NULL ? scratch->addr : NULL, scratch != NULL ? scratch->size : 0,
                       scratch != NULL ? 0 : GEX_FLAG_TM_NO_SCRATCH);
    aqgi_images_learn(team);
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
