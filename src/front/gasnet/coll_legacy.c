/*
 * The collectives of GASNet-1, on Aqueduct's.
 *
 * Those of Aqueduct synchronise as IN_MYSYNC and OUT_MYSYNC ask. For IN_ALLSYNC a barrier comes
 * before the data, for OUT_ALLSYNC one after it; as calls without "blocking" must not wait, an
 * operation is a sequence of up to three steps. All members must start them in one order, but get
 * to them at different times: so barriers before, data and barriers after each have a team of
 * their own, made at the first use, on which steps are started in the order of the client's calls.
 */
#include "aqg.h"

#include <gasnet_coll.h>

#include <pthread.h>

enum kind { BROADCAST, SCATTER, GATHER, GATHER_ALL, EXCHANGE, REDUCE };
enum step { BEFORE, DATA, AFTER, STEPS };

struct coll {
    struct coll *next; /* in the order of calls on its team */
    struct lane *lane;
    enum kind kind;
    gasnet_image_t root;
    void *dst;
    const void *src;
    size_t nbytes; /* of a block, or of an element */
    size_t count;
    gasnet_coll_reduce_fn_t fn;
    int fn_arg, flags;
    enum step step; /* that is under way or to be started; STEPS: complete */
    bool started, synced;
    aq_event event;
};

/* The operations of a team that are not complete or not synchronised. */
struct lane {
    struct lane *next;
    aq_team *of, *teams[STEPS];
    struct coll *first, **last;
};

static struct lane *lanes;
int aqgi_coll_pending; /* operations begun and not synchronised */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
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

/* --- steps ------------------------------------------------------------------------------------ */

static const char call_name[] = "gasnet_coll";

static struct lane *lane_of(gasnet_team_handle_t team)
{
    aq_team *aq = aqgi_aq(team);
    pthread_mutex_lock(&lock);
    struct lane *lane = lanes;
    while (lane != NULL && lane->of != aq)
        lane = lane->next;
    pthread_mutex_unlock(&lock);
    if (lane != NULL) return lane;

    /* The first of this team: all members come here in the same collective call. */
    lane = calloc(1, sizeof(*lane));
    if (lane == NULL) aqgi_die("%s: no memory", call_name);
    lane->of = aq;
    lane->last = &lane->first;
    for (int step = 0; step < STEPS; step++)
        aqgi_done(call_name, aq_team_split(aq, 0, (int)aq_team_rank(aq), 0, &lane->teams[step]));
    pthread_mutex_lock(&lock);
    lane->next = lanes;
    lanes = lane;
    pthread_mutex_unlock(&lock);
    return lane;
}

/* A team is destroyed, by all its members: so is what was made at its first use here. */
void aqgi_coll_forget(aq_team *team)
{
    pthread_mutex_lock(&lock);
    struct lane **at = &lanes, *lane;
    while (*at != NULL && (*at)->of != team)
        at = &(*at)->next;
    lane = *at;
    if (lane != NULL) *at = lane->next;
    pthread_mutex_unlock(&lock);
    if (lane == NULL) return;
    if (lane->first != NULL)
        aqgi_die("gex_TM_Destroy: a collective of GASNet-1 on the team is not synchronised");
    for (int step = 0; step < STEPS; step++)
        aqgi_done("gex_TM_Destroy", aq_team_destroy(lane->teams[step]));
    free(lane);
}

static void combine(const void *left, void *right_and_out, size_t count, const void *context)
{
    const struct coll *c = context;
    c->fn(right_and_out, count, left, count, right_and_out, c->nbytes, c->flags, c->fn_arg);
}

static aq_status start_data(struct coll *c)
{
    aq_team *team = c->lane->teams[DATA];
    switch (c->kind) {
    case BROADCAST:
        return aq_coll_broadcast_nb(team, c->root, c->dst, c->src, c->nbytes, 0, &c->event);
    case SCATTER:
        return aq_coll_scatter_nb(team, c->root, c->dst, c->src, c->nbytes, 0, &c->event);
    case GATHER:
        return aq_coll_gather_nb(team, c->root, c->dst, c->src, c->nbytes, 0, &c->event);
    case GATHER_ALL:
        return aq_coll_allgather_nb(team, c->dst, c->src, c->nbytes, 0, &c->event);
    case EXCHANGE:
        return aq_coll_alltoall_nb(team, c->dst, c->src, c->nbytes, 0, &c->event);
    default:
        return aq_coll_reduce_user_nb(team, c->root, c->dst, c->src, c->count, c->nbytes, combine,
                                      c, 0, &c->event);
    }
}

static bool wanted(const struct coll *c)
{
    return c->step == DATA || (c->step == BEFORE && (c->flags & GASNET_COLL_IN_ALLSYNC)) ||
           (c->step == AFTER && (c->flags & GASNET_COLL_OUT_ALLSYNC));
}

/*
 * Let one operation go on as far as it can: past `limit`, the least step that an earlier one has
 * not started, it may not. Returns that of this one.
 */
static int advance_one(struct coll *c, int limit)
{
    for (; c->step < STEPS; c->step++, c->started = false) {
        if (!wanted(c)) continue;
        if (!c->started) {
            if ((int)c->step >= limit) break;
            aqgi_done(call_name, c->step == DATA
                                     ? start_data(c)
                                     : aq_coll_barrier_nb(c->lane->teams[c->step], 0, &c->event));
            c->started = true;
        }
        aq_status st = aq_event_test(&c->event);
        if (st == AQ_AGAIN) break;
        aqgi_done(call_name, st);
    }
    int reached = (int)c->step + c->started;
    return reached < limit ? reached : limit;
}

/* All operations of a team; those that are complete and synchronised go. Under the lock. */
static void advance(struct lane *lane)
{
    int limit = STEPS;
    struct coll **at = &lane->first;
    while (*at != NULL) {
        struct coll *c = *at;
        limit = advance_one(c, limit);
        if (c->step != STEPS || !c->synced) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        free(c);
        (void)__atomic_fetch_sub(&aqgi_coll_pending, 1, __ATOMIC_RELAXED);
    }
    lane->last = at;
}

static void advance_all(void)
{
    for (struct lane *lane = lanes; lane != NULL; lane = lane->next)
        advance(lane);
}

/* Steps that have become possible are started wherever the client polls. */
void aqgi_coll_progress(void)
{
    if (pthread_mutex_trylock(&lock) != 0) return; /* somebody is at it */
    advance_all();
    pthread_mutex_unlock(&lock);
}

static gasnet_coll_handle_t begin(gasnet_team_handle_t team, const struct coll *what)
{
    struct lane *lane = lane_of(team);
    struct coll *c = malloc(sizeof(*c));
    if (c == NULL) aqgi_die("%s: no memory", call_name);
    *c = *what;
    c->lane = lane;
    (void)__atomic_fetch_add(&aqgi_coll_pending, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    *lane->last = c;
    lane->last = &c->next;
    advance(lane);
    pthread_mutex_unlock(&lock);
    return (gasnet_coll_handle_t)(void *)c;
}

/* --- synchronisation -------------------------------------------------------------------------- */

/* 1: complete, and released. */
static int test(gasnet_coll_handle_t *handle)
{
    struct coll *c = (struct coll *)(void *)*handle;
    if (c == NULL) return 1;
    pthread_mutex_lock(&lock);
    advance_all();
    int done = c->step == STEPS;
    if (done) {
        c->synced = true;
        advance(c->lane);
        *handle = GASNET_COLL_INVALID_HANDLE;
    }
    pthread_mutex_unlock(&lock);
    return done;
}

static int test_many(gasnet_coll_handle_t *handles, size_t count, bool all)
{
    size_t left = 0, done = 0;
    for (size_t i = 0; i < count; i++) {
        if (handles[i] == GASNET_COLL_INVALID_HANDLE) continue;
        if (test(&handles[i]))
            done++;
        else
            left++;
    }
    return left == 0 || (!all && done > 0);
}

static void wait_many(gasnet_coll_handle_t *handles, size_t count, bool all)
{
    struct aqg_wait wait = {{0, 0, 0, 0}};
    while (!test_many(handles, count, all))
        aqg_wait_round(&wait);
}

static int try_many(gasnet_coll_handle_t *handles, size_t count, bool all)
{
    if (test_many(handles, count, all)) return GASNET_OK;
    (void)gasnet_AMPoll();
    return test_many(handles, count, all) ? GASNET_OK : GASNET_ERR_NOT_READY;
}

int gasnet_coll_try_sync(gasnet_coll_handle_t h)
{
    return try_many(&h, 1, true);
}

void gasnet_coll_wait_sync(gasnet_coll_handle_t h)
{
    wait_many(&h, 1, true);
}

int gasnet_coll_try_sync_some(gasnet_coll_handle_t *ph, size_t n)
{
    return try_many(ph, n, false);
}

void gasnet_coll_wait_sync_some(gasnet_coll_handle_t *ph, size_t n)
{
    wait_many(ph, n, false);
}

int gasnet_coll_try_sync_all(gasnet_coll_handle_t *ph, size_t n)
{
    return try_many(ph, n, true);
}

void gasnet_coll_wait_sync_all(gasnet_coll_handle_t *ph, size_t n)
{
    wait_many(ph, n, true);
}

/* --- the calls -------------------------------------------------------------------------------- */

/* The entry of a list of addresses that is this process's. */
static void *mine(gasnet_team_handle_t team, void *const list[], int flags)
{
    if (list == NULL) return NULL;
    return list[flags & GASNET_COLL_SINGLE ? team->rank : 0];
}

static struct coll reduction(gasnet_image_t root, void *dst, const void *src, size_t src_blksz,
                             size_t src_offset, size_t size, size_t count,
                             gasnet_coll_fn_handle_t func, int arg, int flags)
{
    static const char call[] = "gasnet_coll_reduce";
    if (src_blksz != 0 || src_offset != 0) aqgi_die("%s: src_blksz and src_offset must be 0", call);
    if (func < 0 || (size_t)func >= function_count)
        aqgi_die("%s: function %d is not in the table that gasnet_coll_init was given", call,
                 (int)func);
    if (functions[func].flags & GASNET_COLL_NONCOMM)
        aqgi_die("%s: function %d is not commutative, which is not supported", call, (int)func);
    return (struct coll){.kind = REDUCE,
                         .root = root,
                         .dst = dst,
                         .src = src,
                         .nbytes = size,
                         .count = count,
                         .fn = functions[func].fnptr,
                         .fn_arg = arg,
                         .flags = flags};
}

/* Each call twice: it waits, or it gives a handle. FINISH does the one or the other. */
#define HANDLE(call) return (call)
#define WAIT(call)   gasnet_coll_wait_sync(call)
#define CALLS(R, FORM, FINISH)                                                                     \
    R gasnet_coll_broadcast##FORM(gasnet_team_handle_t team, void *dst, gasnet_image_t srcimage,   \
                                  const void *src, size_t nbytes, int flags)                       \
    {                                                                                              \
        struct coll c = {.kind = BROADCAST,                                                        \
                         .root = srcimage,                                                         \
                         .dst = dst,                                                               \
                         .src = src,                                                               \
                         .nbytes = nbytes,                                                         \
                         .flags = flags};                                                          \
        FINISH(begin(team, &c));                                                                   \
    }                                                                                              \
    R gasnet_coll_broadcastM##FORM(gasnet_team_handle_t team, void *const dstlist[],               \
                                   gasnet_image_t srcimage, const void *src, size_t nbytes,        \
                                   int flags)                                                      \
    {                                                                                              \
        FINISH(gasnet_coll_broadcast_nb(team, mine(team, dstlist, flags), srcimage, src, nbytes,   \
                                        flags));                                                   \
    }                                                                                              \
    R gasnet_coll_scatter##FORM(gasnet_team_handle_t team, void *dst, gasnet_image_t srcimage,     \
                                const void *src, size_t nbytes, int flags)                         \
    {                                                                                              \
        struct coll c = {.kind = SCATTER,                                                          \
                         .root = srcimage,                                                         \
                         .dst = dst,                                                               \
                         .src = src,                                                               \
                         .nbytes = nbytes,                                                         \
                         .flags = flags};                                                          \
        FINISH(begin(team, &c));                                                                   \
    }                                                                                              \
    R gasnet_coll_scatterM##FORM(gasnet_team_handle_t team, void *const dstlist[],                 \
                                 gasnet_image_t srcimage, const void *src, size_t nbytes,          \
                                 int flags)                                                        \
    {                                                                                              \
        FINISH(gasnet_coll_scatter_nb(team, mine(team, dstlist, flags), srcimage, src, nbytes,     \
                                      flags));                                                     \
    }                                                                                              \
    R gasnet_coll_gather##FORM(gasnet_team_handle_t team, gasnet_image_t dstimage, void *dst,      \
                               const void *src, size_t nbytes, int flags)                          \
    {                                                                                              \
        struct coll c = {.kind = GATHER,                                                           \
                         .root = dstimage,                                                         \
                         .dst = dst,                                                               \
                         .src = src,                                                               \
                         .nbytes = nbytes,                                                         \
                         .flags = flags};                                                          \
        FINISH(begin(team, &c));                                                                   \
    }                                                                                              \
    R gasnet_coll_gatherM##FORM(gasnet_team_handle_t team, gasnet_image_t dstimage, void *dst,     \
                                void *const srclist[], size_t nbytes, int flags)                   \
    {                                                                                              \
        FINISH(gasnet_coll_gather_nb(team, dstimage, dst, mine(team, srclist, flags), nbytes,      \
                                     flags));                                                      \
    }                                                                                              \
    R gasnet_coll_gather_all##FORM(gasnet_team_handle_t team, void *dst, const void *src,          \
                                   size_t nbytes, int flags)                                       \
    {                                                                                              \
        struct coll c = {                                                                          \
            .kind = GATHER_ALL, .dst = dst, .src = src, .nbytes = nbytes, .flags = flags};         \
        FINISH(begin(team, &c));                                                                   \
    }                                                                                              \
    R gasnet_coll_gather_allM##FORM(gasnet_team_handle_t team, void *const dstlist[],              \
                                    void *const srclist[], size_t nbytes, int flags)               \
    {                                                                                              \
        FINISH(gasnet_coll_gather_all_nb(team, mine(team, dstlist, flags),                         \
                                         mine(team, srclist, flags), nbytes, flags));              \
    }                                                                                              \
    R gasnet_coll_exchange##FORM(gasnet_team_handle_t team, void *dst, const void *src,            \
                                 size_t nbytes, int flags)                                         \
    {                                                                                              \
        struct coll c = {                                                                          \
            .kind = EXCHANGE, .dst = dst, .src = src, .nbytes = nbytes, .flags = flags};           \
        FINISH(begin(team, &c));                                                                   \
    }                                                                                              \
    R gasnet_coll_exchangeM##FORM(gasnet_team_handle_t team, void *const dstlist[],                \
                                  void *const srclist[], size_t nbytes, int flags)                 \
    {                                                                                              \
        FINISH(gasnet_coll_exchange_nb(team, mine(team, dstlist, flags),                           \
                                       mine(team, srclist, flags), nbytes, flags));                \
    }                                                                                              \
    R gasnet_coll_reduce##FORM(gasnet_team_handle_t team, gasnet_image_t dstimage, void *dst,      \
                               const void *src, size_t src_blksz, size_t src_offset,               \
                               size_t elem_size, size_t elem_count, gasnet_coll_fn_handle_t func,  \
                               int func_arg, int flags)                                            \
    {                                                                                              \
        struct coll c = reduction(dstimage, dst, src, src_blksz, src_offset, elem_size,            \
                                  elem_count, func, func_arg, flags);                              \
        FINISH(begin(team, &c));                                                                   \
    }                                                                                              \
    R gasnet_coll_reduceM##FORM(gasnet_team_handle_t team, gasnet_image_t dstimage, void *dst,     \
                                void *const srclist[], size_t src_blksz, size_t src_offset,        \
                                size_t elem_size, size_t elem_count, gasnet_coll_fn_handle_t func, \
                                int func_arg, int flags)                                           \
    {                                                                                              \
        FINISH(gasnet_coll_reduce_nb(team, dstimage, dst, mine(team, srclist, flags), src_blksz,   \
                                     src_offset, elem_size, elem_count, func, func_arg, flags));   \
    }
CALLS(void, , WAIT)
CALLS(gasnet_coll_handle_t, _nb, HANDLE)

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
