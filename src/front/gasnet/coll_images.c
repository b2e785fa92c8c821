/*
 * The collectives of GASNet-1 for processes with several images: threads that each make every call
 * with their own buffers. The data of a process's images is collected; the last image starts one
 * collective of the processes, whose result is distributed.
 *
 * The calls on a team form a queue in their order, which is the same in all processes. With
 * OUT_ALLSYNC, a barrier follows the distribution, and later entries of the queue start after it.
 * It uses a separate team: when it starts depends on the threads, so its order among other
 * collectives would differ between processes.
 */
#include "coll_legacy.h"

#include <pthread.h>

enum images_state { IMAGES_COLLECTS, IMAGES_RUNS, IMAGES_SETTLES, IMAGES_DONE };

struct images_op {
    struct images_op *next;
    struct images_team *team;
    struct aqgi_coll call; /* dst and src are those of the root image */
    enum images_state state;
    uint64_t number;
    gasnet_image_t arrived, left;
    aq_event event;
    void *staged; /* the data to send, then the received data */
    char *in, *out;
    size_t *counts, *offsets; /* of each process */
    void **dst;               /* of each image of this process */
    const void **src;
};

struct images_team {
    struct images_team *next;
    pthread_mutex_t lock;
    gex_TM_t tm;
    aq_team *aq;           /* has the same members */
    gasnet_image_t *first; /* the first image of each process, and the number of all images */
    gasnet_image_t count;  /* on this process */
    uint64_t *calls;       /* number of calls of each image of this process */
    struct images_op *head;
};

bool aqgi_images;
static gasnet_image_t *images_of_job;                          /* per process */
static __thread gasnet_image_t images_self = GEX_RANK_INVALID; /* index in this process */
static struct images_team *images_teams;
static pthread_mutex_t images_lock = PTHREAD_MUTEX_INITIALIZER;

static void *coll_images_alloc(size_t count, size_t size)
{
    return aqgi_alloc(count, size, "the images of gasnet_coll");
}

static struct images_team *coll_images_team_new(gex_TM_t tm)
{
    struct images_team *team = coll_images_alloc(1, sizeof(*team));
    *team = (struct images_team){.tm = tm, .next = images_teams};
    aqgi_done("gasnet_coll", aq_team_split(aqgi_aq(tm), 0, (int)tm->rank, 0, &team->aq));
    pthread_mutex_init(&team->lock, NULL);
    team->first = coll_images_alloc(tm->size + 1, sizeof(*team->first));
    for (gex_Rank_t rank = 0; rank < tm->size; rank++)
        team->first[rank + 1] =
            team->first[rank] + images_of_job[gex_TM_TranslateRankToJobrank(tm, rank)];
    team->count = images_of_job[aqgi.rank];
    team->calls = coll_images_alloc(team->count, sizeof(*team->calls));
    images_teams = team;
    return team;
}

/* Find the team's entry. The first call is collective over the team. */
static struct images_team *coll_images_team_of(gex_TM_t tm)
{
    pthread_mutex_lock(&images_lock);
    struct images_team *team = images_teams;
    while (team != NULL && team->tm != tm)
        team = team->next;
    if (team == NULL) team = coll_images_team_new(tm);
    pthread_mutex_unlock(&images_lock);
    return team;
}

void aqgi_images_learn(gex_TM_t tm)
{
    if (aqgi_has_images()) (void)coll_images_team_of(tm);
}

void aqgi_images_init(const gasnet_image_t images[], gasnet_image_t mine)
{
    static const char call[] = "gasnet_coll_init";
    gasnet_image_t first = 0;
    bool several = false;
    for (gex_Rank_t rank = 0; images != NULL && rank < aqgi.size; rank++) {
        if (images[rank] == 0) aqgi_die("%s: process %u has no image", call, (unsigned)rank);
        several = several || images[rank] > 1;
        if (rank < aqgi.rank) first += images[rank];
    }
    if (!several) return;
    if (aqgi.mode == 0)
        aqgi_die("%s: a program with GASNET_SEQ can have only one image per process", call);
    if (mine - first >= images[aqgi.rank])
        aqgi_die("%s: image %u does not belong to process %u, which has images %u to %u", call,
                 (unsigned)mine, (unsigned)aqgi.rank, (unsigned)first,
                 (unsigned)(first + images[aqgi.rank] - 1));
    images_self = mine - first;
    pthread_mutex_lock(&images_lock);
    if (images_of_job == NULL) {
        images_of_job = coll_images_alloc(aqgi.size, sizeof(*images));
        memcpy(images_of_job, images, aqgi.size * sizeof(*images));
        __atomic_store_n(&aqgi_images, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&images_lock);
    aqgi_images_learn(aqg_world);
}

void aqgi_images_forget(gex_TM_t tm)
{
    pthread_mutex_lock(&images_lock);
    for (struct images_team **at = &images_teams; *at != NULL; at = &(*at)->next) {
        struct images_team *team = *at;
        if (team->tm != tm) continue;
        *at = team->next;
        aqgi_done("gex_TM_Destroy", aq_team_destroy(team->aq));
        free(team->first);
        free(team->calls);
        free(team);
        break;
    }
    pthread_mutex_unlock(&images_lock);
}

/* --- one call --------------------------------------------------------------------------------- */

static struct images_op *coll_images_op_new(struct images_team *team, const struct aqgi_coll *c)
{
    gex_Rank_t size = team->tm->size;
    struct images_op *op = coll_images_alloc(1, sizeof(*op));
    if (c->root >= team->first[size])
        aqgi_die("gasnet_coll: image %u is the root, but the team has images 0 to %u",
                 (unsigned)c->root, (unsigned)(team->first[size] - 1));
    *op = (struct images_op){.team = team, .call = *c, .left = team->count};
    op->dst = coll_images_alloc(team->count, sizeof(*op->dst));
    op->src = coll_images_alloc(team->count, sizeof(*op->src));
    op->counts = coll_images_alloc(2 * size, sizeof(*op->counts));
    op->offsets = op->counts + size;
    size_t each = c->nbytes * (c->kind == AQGI_EXCHANGE ? team->count : 1);
    for (gex_Rank_t rank = 0; rank < size; rank++) {
        op->offsets[rank] = team->first[rank] * each;
        op->counts[rank] = team->first[rank + 1] * each - op->offsets[rank];
    }
    return op;
}

/* The operation of the image's current call; the first image appends it to the queue. */
static struct images_op *coll_images_op_of(struct images_team *team, const struct aqgi_coll *c)
{
    uint64_t number = team->calls[images_self]++;
    struct images_op **at = &team->head;
    while (*at != NULL && (*at)->number != number)
        at = &(*at)->next;
    if (*at == NULL) {
        *at = coll_images_op_new(team, c);
        (*at)->number = number;
    }
    if ((*at)->call.kind != c->kind || (*at)->call.root != c->root ||
        (*at)->call.nbytes != c->nbytes || (*at)->call.count != c->count)
        aqgi_die("gasnet_coll: image %u of this process makes a call other than that of the images "
                 "before it",
                 (unsigned)images_self);
    return *at;
}

/*
 * Permute the blocks of an exchange. Sent order: process, image here, image there; received order:
 * process, image there, image here.
 */
static void coll_images_blocks(const struct images_op *op, bool result)
{
    const struct images_team *team = op->team;
    size_t nbytes = op->call.nbytes;
    char *at = result ? op->out : op->in;
    for (gex_Rank_t rank = 0; rank < team->tm->size; rank++) {
        gasnet_image_t first = team->first[rank], there = team->first[rank + 1] - first;
        for (gasnet_image_t i = 0; i < there * team->count; i++, at += nbytes) {
            gasnet_image_t here = result ? i % team->count : i / there;
            size_t block = (first + (result ? i / team->count : i % there)) * nbytes;
            if (result)
                memcpy((char *)op->dst[here] + block, at, nbytes);
            else
                memcpy(at, (const char *)op->src[here] + block, nbytes);
        }
    }
}

static void coll_images_collect(struct images_op *op)
{
    const struct aqgi_coll *c = &op->call;
    gasnet_image_t here = op->team->count, all = op->team->first[op->team->tm->size];
    size_t mine = here * c->nbytes, bytes = c->kind == AQGI_EXCHANGE ? all * mine : mine;
    if (c->kind == AQGI_REDUCE) bytes = c->count * c->nbytes;
    op->staged = coll_images_alloc(2, bytes);
    op->in = op->staged;
    op->out = op->in + bytes;
    if (bytes == 0) return; /* buffers may be NULL */
    if (c->kind == AQGI_EXCHANGE) coll_images_blocks(op, false);
    if (c->kind == AQGI_GATHER || c->kind == AQGI_GATHER_ALL)
        for (gasnet_image_t i = 0; i < here; i++)
            memcpy(op->in + i * c->nbytes, op->src[i], c->nbytes);
    if (c->kind != AQGI_REDUCE) return;
    memcpy(op->in, op->src[here - 1], bytes); /* last first, to keep their order */
    for (gasnet_image_t i = here - 1; i-- > 0;)
        aqgi_coll_fold(c, op->src[i], op->in);
}

static aq_status coll_images_begin(struct images_op *op)
{
    struct aqgi_coll *c = &op->call;
    aq_team *aq = op->team->aq;
    aq_event *ev = &op->event;
    unsigned flags = aqgi_coll_flags(c->flags & ~GASNET_COLL_OUT_ALLSYNC);
    size_t mine = op->team->count * c->nbytes;
    gex_Rank_t root = 0;
    while (op->team->first[root + 1] <= c->root)
        root++;
    coll_images_collect(op);
    switch (c->kind) {
    case AQGI_BROADCAST:
        return aq_coll_broadcast_nb(aq, root, op->dst[0], c->src, c->nbytes, flags, ev);
    case AQGI_SCATTER:
        return aq_coll_scatterv_nb(aq, root, op->out, mine, c->src, op->counts, op->offsets, flags,
                                   ev);
    case AQGI_GATHER:
        return aq_coll_gatherv_nb(aq, root, c->dst, op->counts, op->offsets, op->in, mine, flags,
                                  ev);
    case AQGI_GATHER_ALL:
        return aq_coll_allgatherv_nb(aq, op->dst[0], op->counts, op->offsets, op->in, flags, ev);
    case AQGI_EXCHANGE:
        return aq_coll_alltoallv_nb(aq, op->out, op->counts, op->offsets, op->in, op->counts,
                                    op->offsets, flags, ev);
    default:
        return aqgi_coll_reduce(c, aq, root, c->dst, op->in, flags, ev);
    }
}

static void coll_images_deal(struct images_op *op)
{
    const struct aqgi_coll *c = &op->call;
    gasnet_image_t here = op->team->count, all = op->team->first[op->team->tm->size];
    size_t nbytes = c->kind == AQGI_GATHER_ALL ? all * c->nbytes : c->nbytes;
    if (c->kind == AQGI_EXCHANGE && nbytes != 0) coll_images_blocks(op, true);
    for (gasnet_image_t i = 0; i < here && nbytes != 0; i++) {
        if (c->kind == AQGI_SCATTER)
            memcpy(op->dst[i], op->out + i * nbytes, nbytes);
        else if ((c->kind == AQGI_BROADCAST || c->kind == AQGI_GATHER_ALL) &&
                 op->dst[i] != op->dst[0])
            memcpy(op->dst[i], op->dst[0], nbytes);
    }
    free(op->staged);
    op->staged = NULL;
}

/* --- the queue of a team ---------------------------------------------------------------------- */

static bool coll_images_complete(struct images_op *op)
{
    aq_status st = aq_event_test(&op->event);
    if (st != AQ_AGAIN) aqgi_done("gasnet_coll", st);
    return st == AQ_OK;
}

/* Advance all operations of the team as far as possible. */
static void coll_images_advance(struct images_team *team)
{
    for (struct images_op *op = team->head; op != NULL; op = op->next) {
        bool settles = (op->call.flags & GASNET_COLL_OUT_ALLSYNC) != 0;
        if (op->state == IMAGES_COLLECTS) {
            if (op->arrived < team->count) return;
            aqgi_done("gasnet_coll", coll_images_begin(op));
            op->state = IMAGES_RUNS;
        }
        if (op->state == IMAGES_RUNS && coll_images_complete(op)) {
            coll_images_deal(op);
            op->state = settles ? IMAGES_SETTLES : IMAGES_DONE;
            if (settles) aqgi_done("gasnet_coll", aq_barrier_nb(team->aq, 0, &op->event));
        }
        if (op->state == IMAGES_SETTLES && coll_images_complete(op)) op->state = IMAGES_DONE;
        if (op->state == IMAGES_RUNS && settles) return;
    }
}

void aqgi_images_poll(void)
{
    if (pthread_mutex_trylock(&images_lock) != 0) return;
    for (struct images_team *team = images_teams; team != NULL; team = team->next)
        if (pthread_mutex_trylock(&team->lock) == 0) {
            coll_images_advance(team);
            pthread_mutex_unlock(&team->lock);
        }
    pthread_mutex_unlock(&images_lock);
}

/* The calling image's entry of a list. */
static void *coll_images_mine(const struct images_team *team, void *const list[], int flags)
{
    gasnet_image_t first = flags & GASNET_COLL_SINGLE ? team->first[team->tm->rank] : 0;
    return list[first + images_self];
}

gasnet_coll_handle_t aqgi_images_start(const struct aqgi_coll *c)
{
    if (images_self == GEX_RANK_INVALID)
        aqgi_die("gasnet_coll: this thread is not an image: it has not called gasnet_coll_init");
    struct images_team *team = coll_images_team_of(c->team);
    pthread_mutex_lock(&team->lock);
    struct images_op *op = coll_images_op_of(team, c);
    op->dst[images_self] = c->dsts != NULL ? coll_images_mine(team, c->dsts, c->flags) : c->dst;
    op->src[images_self] = c->srcs != NULL ? coll_images_mine(team, c->srcs, c->flags) : c->src;
    if (c->root == team->first[team->tm->rank] + images_self) {
        op->call.dst = c->dst;
        op->call.src = c->src;
    }
    op->arrived++;
    coll_images_advance(team);
    pthread_mutex_unlock(&team->lock);
    return (gasnet_coll_handle_t)(void *)((char *)op + 1);
}

/* Whether the operation is complete; if so, the handle is released. The last image frees the
 * operation. */
static bool coll_images_over(gasnet_coll_handle_t *handle)
{
    if (((uintptr_t)*handle & 1) == 0) return gex_Event_Test(*handle) == GASNET_OK;
    struct images_op *op = (struct images_op *)(void *)((char *)*handle - 1);
    struct images_team *team = op->team;
    pthread_mutex_lock(&team->lock);
    coll_images_advance(team);
    bool over = op->state == IMAGES_DONE, last = over && --op->left == 0;
    for (struct images_op **at = &team->head; last && *at != NULL; at = &(*at)->next)
        if (*at == op) {
            *at = op->next;
            break;
        }
    pthread_mutex_unlock(&team->lock);
    if (!last) return over;
    free(op->counts);
    free(op->dst);
    free(op->src);
    free(op);
    return true;
}

int aqgi_images_test(gasnet_coll_handle_t *handles, size_t count, bool some)
{
    size_t pending = 0, over = 0;
    for (size_t i = 0; i < count; i++) {
        if (handles[i] == GASNET_COLL_INVALID_HANDLE) continue;
        pending++;
        if (!coll_images_over(&handles[i])) continue;
        handles[i] = GASNET_COLL_INVALID_HANDLE;
        over++;
    }
    return over == pending || (some && over != 0) ? GASNET_OK : GASNET_ERR_NOT_READY;
}
