/*
 * The collectives of GASNet-1, implemented with Aqueduct's, which synchronize like IN_MYSYNC and
 * OUT_MYSYNC and have flags for ALLSYNC. A handle is an event, so the calls on handles are those
 * on events, with a poll; unless processes have several images (coll_images.c).
 */
#include "coll_legacy.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gasnet_coll_fn_entry_t *functions;
static size_t function_count;

void gasnet_coll_init(const gasnet_image_t images[], gasnet_image_t my_image,
                      gasnet_coll_fn_entry_t fn_tbl[], size_t fn_count, int flags)
{
    aqgi_images_init(images, my_image);
    pthread_mutex_lock(&lock);
    if (function_count == 0 && fn_count != 0) {
        functions = aqgi_alloc(fn_count, sizeof(*functions), "functions of gasnet_coll_init");
        memcpy(functions, fn_tbl, fn_count * sizeof(*functions));
        function_count = fn_count;
    }
    pthread_mutex_unlock(&lock);
}

/* --- reductions ------------------------------------------------------------------------------- */

/*
 * The parameters of a function. The library is not notified when an operation ends, so there is
 * one permanent list for all operations; the index in it and the argument are packed into the
 * context pointer that Aqueduct passes to the function.
 */
struct legacy_reduction {
    gasnet_coll_reduce_fn_t fn;
    size_t size;
    int flags;
};
static struct legacy_reduction
    *reductions; /* outgrown lists are not freed, as other threads may be reading them */
static size_t reduction_count, reduction_room;
static_assert(sizeof(uintptr_t) == 8, "a number and an argument in one pointer");

static size_t coll_legacy_number_of(const struct legacy_reduction *r)
{
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < reduction_count && (reductions[i].fn != r->fn || reductions[i].size != r->size ||
                                   reductions[i].flags != r->flags))
        i++;
    if (i == reduction_room) {
        size_t room = reduction_room ? 2 * reduction_room : 16;
        struct legacy_reduction *more = aqgi_alloc(room, sizeof(*more), "gasnet_coll_reduce");
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
    const struct legacy_reduction *r =
        &__atomic_load_n(&reductions, __ATOMIC_ACQUIRE)[(uintptr_t)context >> 32];
    r->fn(right_and_out, count, left, count, right_and_out, r->size, r->flags,
          (int)(uint32_t)(uintptr_t)context);
}

unsigned aqgi_coll_flags(int flags)
{
    return (flags & GASNET_COLL_IN_ALLSYNC ? AQ_COLL_IN_ALL : 0u) |
           (flags & GASNET_COLL_OUT_ALLSYNC ? AQ_COLL_OUT_ALL : 0u);
}

/* The context to pass to Aqueduct for the function of a call. */
static const void *coll_legacy_context(const struct aqgi_coll *c)
{
    static const char call[] = "gasnet_coll_reduce";
    if (c->blksz != 0 || c->offset != 0) aqgi_die("%s: src_blksz and src_offset must be 0", call);
    if (c->fn < 0 || (size_t)c->fn >= function_count)
        aqgi_die("%s: function %d is not in the table that was passed to gasnet_coll_init", call,
                 (int)c->fn);
    struct legacy_reduction r = {functions[c->fn].fnptr, c->nbytes, c->flags};
    return (const void *)((uintptr_t)coll_legacy_number_of(&r) << 32 | (uint32_t)c->arg);
}

aq_status aqgi_coll_reduce(const struct aqgi_coll *c, aq_team *team, gex_Rank_t root, void *dst,
                           const void *src, unsigned flags, aq_event *event)
{
    const void *context = coll_legacy_context(c);
    if (functions[c->fn].flags & GASNET_COLL_NONCOMM) flags |= AQ_COLL_ORDERED;
    return aq_coll_reduce_user_nb(team, root, dst, src, c->count, c->nbytes, coll_legacy_combine,
                                  context, flags, event);
}

void aqgi_coll_fold(const struct aqgi_coll *c, const void *left, void *right_and_out)
{
    coll_legacy_combine(left, right_and_out, c->count, coll_legacy_context(c));
}

/* --- synchronization -------------------------------------------------------------------------- */

/* Images also wait for other images of their process, whose threads may not be running. */
static void coll_legacy_images_wait(gasnet_coll_handle_t *ph, size_t n, bool some)
{
    while (aqgi_images_test(ph, n, some) != GASNET_OK) {
        (void)gasnet_AMPoll();
        gasnett_sched_yield();
    }
}

/* Both forms of a call for several handles. */
#define SYNC(Some, some, SOME)                                                                     \
    int gasnet_coll_try_sync_##some(gasnet_coll_handle_t *ph, size_t n)                            \
    {                                                                                              \
        (void)gasnet_AMPoll();                                                                     \
        return aqgi_has_images() ? aqgi_images_test(ph, n, SOME) : gex_Event_Test##Some(ph, n, 0); \
    }                                                                                              \
    void gasnet_coll_wait_sync_##some(gasnet_coll_handle_t *ph, size_t n)                          \
    {                                                                                              \
        if (aqgi_has_images())                                                                     \
            coll_legacy_images_wait(ph, n, SOME);                                                  \
        else                                                                                       \
            gex_Event_Wait##Some(ph, n, 0);                                                        \
    }
SYNC(Some, some, true)
SYNC(All, all, false)
AQG_DEFINE(int, gasnet_coll_try_sync, (gasnet_coll_handle_t h), gasnet_coll_try_sync_all(&h, 1))

void gasnet_coll_wait_sync(gasnet_coll_handle_t h)
{
    gasnet_coll_wait_sync_all(&h, 1);
}

/* --- the calls -------------------------------------------------------------------------------- */

/* This process's entry in a list of addresses, or the single address. */
static void *coll_legacy_mine(const struct aqgi_coll *c, void *const list[], const void *one)
{
    if (list == NULL) return (void *)(uintptr_t)one;
    return list[c->flags & GASNET_COLL_SINGLE ? c->team->rank : 0];
}

static aq_status coll_legacy_begin(const struct aqgi_coll *c, aq_event *ev)
{
    void *dst = coll_legacy_mine(c, c->dsts, c->dst), *src = coll_legacy_mine(c, c->srcs, c->src);
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

static gasnet_coll_handle_t coll_legacy_start(const char *name, const struct aqgi_coll *c)
{
    aq_event event = AQ_EVENT_DONE;
    if (aqgi_has_images() && (c->flags & GASNET_COLL_NO_IMAGES) == 0) return aqgi_images_start(c);
    aqgi_done(name, coll_legacy_begin(c, &event));
    return aqgi_event(event);
}

/*
 * The blocking form of a call, and the one that returns a handle. PARAMETERS are followed by their
 * names in struct aqgi_coll.
 */
#define CALL(NAME, KIND, PARAMETERS, ...)                                                          \
    gasnet_coll_handle_t gasnet_coll_##NAME##_nb(gasnet_team_handle_t team, AQG_UNPACK PARAMETERS, \
                                                 int flags)                                        \
    {                                                                                              \
        struct aqgi_coll c = {.kind = KIND, .team = team, .flags = flags, __VA_ARGS__};            \
        return coll_legacy_start("gasnet_coll_" #NAME, &c);                                        \
    }                                                                                              \
    void gasnet_coll_##NAME(gasnet_team_handle_t team, AQG_UNPACK PARAMETERS, int flags)           \
    {                                                                                              \
        struct aqgi_coll c = {.kind = KIND, .team = team, .flags = flags, __VA_ARGS__};            \
        gasnet_coll_wait_sync(coll_legacy_start("gasnet_coll_" #NAME, &c));                        \
    }

#define FROM .root = srcimage, .src = src, .nbytes = nbytes
CALL(broadcast, AQGI_BROADCAST, AQG_COLL_FROM, .dst = dst, FROM)
CALL(broadcastM, AQGI_BROADCAST, AQG_COLL_FROM_LIST, .dsts = dstlist, FROM)
CALL(scatter, AQGI_SCATTER, AQG_COLL_FROM, .dst = dst, FROM)
CALL(scatterM, AQGI_SCATTER, AQG_COLL_FROM_LIST, .dsts = dstlist, FROM)

#define TO .root = dstimage, .dst = dst, .nbytes = nbytes
CALL(gather, AQGI_GATHER, AQG_COLL_TO, .src = src, TO)
CALL(gatherM, AQGI_GATHER, AQG_COLL_TO_LIST, .srcs = srclist, TO)

#define ALL      .dst = dst, .src = src, .nbytes = nbytes
#define ALL_LIST .dsts = dstlist, .srcs = srclist, .nbytes = nbytes
CALL(gather_all, AQGI_GATHER_ALL, AQG_COLL_ALL, ALL)
CALL(gather_allM, AQGI_GATHER_ALL, AQG_COLL_ALL_LIST, ALL_LIST)
CALL(exchange, AQGI_EXCHANGE, AQG_COLL_ALL, ALL)
CALL(exchangeM, AQGI_EXCHANGE, AQG_COLL_ALL_LIST, ALL_LIST)

#define REDUCTION                                                                                  \
    .root = dstimage, .dst = dst, .nbytes = elem_size, .count = elem_count, .fn = func,            \
    .arg = func_arg, .blksz = src_blksz, .offset = src_offset
CALL(reduce, AQGI_REDUCE, AQG_COLL_REDUCE(const void *src), .src = src, REDUCTION)
CALL(reduceM, AQGI_REDUCE, AQG_COLL_REDUCE(void *const srclist[]), .srcs = srclist, REDUCTION)

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

AQG_DEFINE(gasnet_node_t, gasnet_coll_team_size, (gasnet_team_handle_t team),
           gex_TM_QuerySize(team))
AQG_DEFINE(gasnet_node_t, gasnet_coll_team_rank2node, (gasnet_team_handle_t team, int rank),
           gex_TM_TranslateRankToJobrank(team, (gex_Rank_t)rank))
AQG_DEFINE(gasnet_node_t, gasnet_coll_team_node2rank,
           (gasnet_team_handle_t team, gasnet_node_t node),
           gex_TM_TranslateJobrankToRank(team, node))
