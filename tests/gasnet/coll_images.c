/*
 * The collectives of GASNet-1 with several images (threads) in each process, as many as the
 * argument says; "mixed": one to three. Checks data, order and synchronization of every call in all
 * its forms, on all processes and on a split team.
 */
#include <gasnet.h>
#include <gasnet_tools.h>

#include <gasnet_coll.h>

#include "support.h"

#include <pthread.h>

enum { BLOCK = 61, PROCESSES = 4, IMAGES = 3, MOST = PROCESSES * IMAGES, ROUNDS = 18 };
enum { BROADCAST, SCATTER, GATHER, GATHER_ALL, EXCHANGE, REDUCE, CALLS };
enum { SLOT = 4096 };

static const int ins[] = {GASNET_COLL_IN_NOSYNC, GASNET_COLL_IN_MYSYNC, GASNET_COLL_IN_ALLSYNC};
static const int outs[] = {GASNET_COLL_OUT_NOSYNC, GASNET_COLL_OUT_MYSYNC, GASNET_COLL_OUT_ALLSYNC};

static gasnet_image_t counts[PROCESSES];
static gasnet_team_handle_t half;
static pthread_barrier_t here;
enum { NOTIFY = 200 };
static uint32_t notified; /* the round that image 0 has announced to this process */

static void on_notify(gasnet_token_t token, gasnet_handlerarg_t round)
{
    (void)token;
    __atomic_store_n(&notified, (uint32_t)round, __ATOMIC_RELEASE);
}

/* The images of a team as seen by one of them. */
struct view {
    gasnet_team_handle_t team;
    gasnet_image_t self, all, local,
        first; /* its number; the number of images; its local number; the first local image */
};

/* Buffers of an image, where the others of its process find them. */
static struct buffers {
    unsigned char src[CALLS][MOST * BLOCK], dst[CALLS][MOST * BLOCK];
} buffers[IMAGES];

static unsigned char byte_of(gasnet_image_t from, gasnet_image_t to, unsigned round, size_t i)
{
    return (unsigned char)(from * 41 + to * 13 + round * 5 + i);
}

/* Ranges are joined if the left one ends where the right one begins, and otherwise invalidated. */
static void join_ranges(void *results, size_t result_count, const void *left_operands,
                        size_t left_count, const void *right_operands, size_t elem_size, int flags,
                        int arg)
{
    unsigned char *out = (unsigned char *)results;
    const unsigned char *left = (const unsigned char *)left_operands;
    const unsigned char *right = (const unsigned char *)right_operands;
    size_t i;
    (void)flags;
    CHECK(result_count == left_count && elem_size == 2 && arg == -5);
    for (i = 0; i < 2 * result_count; i += 2) {
        unsigned char first = left[i];
        unsigned char last = left[i + 1] + 1 == right[i] ? right[i + 1] : 255;
        out[i] = first;
        out[i + 1] = last;
    }
}

static struct view view_of(gasnet_team_handle_t team, gasnet_image_t local)
{
    struct view v = {team, 0, 0, local, 0};
    gex_Rank_t rank;
    for (rank = 0; rank < gasnet_coll_team_size(team); rank++) {
        gasnet_node_t node = gasnet_coll_team_rank2node(team, (int)rank);
        if (node == gasnet_mynode()) v.first = v.all;
        v.all += counts[node];
    }
    v.self = v.first + local;
    return v;
}

/* A barrier of all images of the job; only one thread calls the barrier of GASNet. */
static void images_barrier(const struct view *v)
{
    pthread_barrier_wait(&here);
    if (v->local == 0)
        CHECK_EQUAL(gasnet_coll_barrier(v->team, 0, GASNET_BARRIERFLAG_ANONYMOUS), GASNET_OK);
    pthread_barrier_wait(&here);
}

static void prepare(const struct view *v, int call, unsigned round)
{
    struct buffers *mine = &buffers[v->local];
    gasnet_image_t to;
    size_t i;
    memset(mine->dst[call], 0xEE, sizeof(mine->dst[call]));
    for (to = 0; to < v->all; to++)
        for (i = 0; i < BLOCK; i++)
            mine->src[call][to * BLOCK + i] =
                call == REDUCE
                    ? (unsigned char)v->self
                    : byte_of(v->self, call == SCATTER || call == EXCHANGE ? to : 0, round, i);
}

static void expect(const unsigned char *block, gasnet_image_t from, gasnet_image_t to,
                   unsigned round)
{
    size_t i;
    for (i = 0; i < BLOCK; i++)
        CHECK_EQUAL(block[i], byte_of(from, to, round, i));
}

static void verify(const struct view *v, int call, gasnet_image_t root, unsigned round)
{
    const unsigned char *dst = buffers[v->local].dst[call];
    gasnet_image_t from;
    size_t i;
    if (call == BROADCAST || call == SCATTER) {
        expect(dst, root, call == SCATTER ? v->self : 0, round);
    } else if (call == REDUCE) {
        for (i = 0; i < BLOCK - 1 && v->self == root; i += 2)
            CHECK(dst[i] == 0 && dst[i + 1] == v->all - 1);
    } else if (call != GATHER || v->self == root) {
        for (from = 0; from < v->all; from++)
            expect(dst + from * BLOCK, from, call == EXCHANGE ? v->self : 0, round);
    }
}

#define REDUCED 0, 0, 2, BLOCK / 2, 0, -5
/* Start a collective, with a handle or blocking, with addresses or with the lists d and s. */
#define EITHER(NAME, LISTS, ...)                                                                   \
    if (nb) return gasnet_coll_##NAME##LISTS##_nb(v->team, __VA_ARGS__, flags);                    \
    gasnet_coll_##NAME##LISTS(v->team, __VA_ARGS__, flags);                                        \
    break

static gasnet_coll_handle_t start(const struct view *v, int call, int nb, gasnet_image_t root,
                                  int flags)
{
    void *dst = buffers[v->local].dst[call], *src = buffers[v->local].src[call];
    switch (call) {
    case BROADCAST:
        EITHER(broadcast, , dst, root, src, BLOCK);
    case SCATTER:
        EITHER(scatter, , dst, root, src, BLOCK);
    case GATHER:
        EITHER(gather, , root, dst, src, BLOCK);
    case GATHER_ALL:
        EITHER(gather_all, , dst, src, BLOCK);
    case EXCHANGE:
        EITHER(exchange, , dst, src, BLOCK);
    default:
        EITHER(reduce, , root, dst, src, REDUCED);
    }
    return GASNET_COLL_INVALID_HANDLE;
}

/*
 * LOCAL: an entry for each image of this process; SINGLE: for each image of the team, read by all
 * images.
 */
static gasnet_coll_handle_t start_lists(const struct view *v, int call, int nb, gasnet_image_t root,
                                        int flags)
{
    static __thread void *d[MOST], *s[MOST];
    void *dst = buffers[v->local].dst[call], *src = buffers[v->local].src[call];
    gasnet_image_t i, before = flags & GASNET_COLL_SINGLE ? v->first : 0;
    for (i = 0; i < MOST; i++)
        d[i] = s[i] = (void *)(uintptr_t)8;
    for (i = 0; i < counts[gasnet_mynode()]; i++) {
        d[before + i] = buffers[i].dst[call];
        s[before + i] = buffers[i].src[call];
    }
    switch (call) {
    case BROADCAST:
        EITHER(broadcast, M, d, root, src, BLOCK);
    case SCATTER:
        EITHER(scatter, M, d, root, src, BLOCK);
    case GATHER:
        EITHER(gather, M, root, dst, s, BLOCK);
    case GATHER_ALL:
        EITHER(gather_all, M, d, s, BLOCK);
    case EXCHANGE:
        EITHER(exchange, M, d, s, BLOCK);
    default:
        EITHER(reduce, M, root, dst, s, REDUCED);
    }
    return GASNET_COLL_INVALID_HANDLE;
}

static void finish(const struct view *v, gasnet_coll_handle_t *handles, unsigned round)
{
    unsigned i;
    switch (round % 4) {
    case 0:
        gasnet_coll_wait_sync_all(handles, CALLS);
        break;
    case 1:
        while (gasnet_coll_try_sync_all(handles, CALLS) != GASNET_OK)
            sched_yield();
        break;
    case 2: /* each image in a different order */
        for (i = 0; i < CALLS; i++)
            gasnet_coll_wait_sync(handles[(i + v->self) % CALLS]);
        return;
    default:
        gasnet_coll_wait_sync_some(handles, CALLS);
        while (gasnet_coll_try_sync_some(handles, CALLS) != GASNET_OK)
            sched_yield();
        for (i = 0; i < CALLS; i++)
            while (gasnet_coll_try_sync(handles[i]) != GASNET_OK)
                sched_yield();
        return;
    }
    for (i = 0; i < CALLS; i++)
        CHECK(handles[i] == GASNET_COLL_INVALID_HANDLE);
}

static void all_calls(const struct view *v)
{
    gasnet_coll_handle_t handles[CALLS];
    unsigned round;
    int call;
    for (round = 0; round < ROUNDS; round++) {
        int how = round % 2 ? GASNET_COLL_SINGLE : GASNET_COLL_LOCAL;
        int flags = ins[round % 3] | outs[round / 3 % 3] | how;
        gasnet_image_t root = round % v->all;
        for (call = 0; call < CALLS; call++) {
            prepare(v, call, round);
            (void)(round % 4 < 2 ? start_lists(v, call, 0, root, flags)
                                 : start(v, call, 0, root, flags));
            if ((flags & GASNET_COLL_OUT_NOSYNC) == 0) verify(v, call, root, round);
        }
        images_barrier(v);
        for (call = 0; call < CALLS; call++) {
            prepare(v, call, round + 50);
            handles[call] = round % 4 < 2 ? start(v, call, 1, root, flags)
                                          : start_lists(v, call, 1, root, flags);
        }
        finish(v, handles, round);
        images_barrier(v);
        for (call = 0; call < CALLS; call++)
            verify(v, call, root, round + 50);
    }
}

/*
 * IN_ALLSYNC: the data that any image has put into the root's source before its call is sent.
 * OUT_ALLSYNC: an image whose call is complete may read the results of the others. These may merely
 * poll until image 0, whose call completes when theirs have, notifies them.
 */
static void synchronized(const struct view *v)
{
    const int flags = GASNET_COLL_IN_ALLSYNC | GASNET_COLL_OUT_ALLSYNC | GASNET_COLL_LOCAL;
    gex_Rank_t rank;
    gasnet_image_t i;
    unsigned round;
    for (round = 0; round < 60; round++) {
        gex_Rank_t root = round % job.size;
        gasnet_image_t root_image = 0;
        uint32_t mine = round * 100 + v->self, seen[MOST];
        uint32_t *src = (uint32_t *)(void *)job.base;
        uint32_t *dst = (uint32_t *)(void *)(job.base + (1 + v->local) * SLOT);
        gasnet_coll_handle_t h;
        for (rank = 0; rank < root; rank++)
            root_image += counts[rank];
        gasnet_put(root, job_at(root, v->self * sizeof(mine)), &mine, sizeof(mine));
        h = gasnet_coll_broadcast_nb(v->team, dst, root_image, src, v->all * sizeof(mine), flags);
        if (round % 3 == 0 && v->self != 0)
            while (__atomic_load_n(&notified, __ATOMIC_ACQUIRE) != round + 1)
                gasnet_AMPoll();
        gasnet_coll_wait_sync(h);
        for (rank = 0; rank < job.size && v->self == 0; rank++)
            CHECK_EQUAL(gasnet_AMRequestShort1(rank, NOTIFY, (gasnet_handlerarg_t)(round + 1)), 0);
        for (rank = 0; rank < job.size; rank++) {
            gasnet_image_t their = round % counts[rank];
            gasnet_get(seen, rank, job_at(rank, (1 + their) * SLOT), v->all * sizeof(mine));
            for (i = 0; i < v->all; i++)
                CHECK_EQUAL(seen[i], round * 100 + i);
        }
        images_barrier(v); /* the next round writes to the memory that is read here */
    }
}

/* One call for the whole process, and calls of no bytes. */
static void whole_processes(const struct view *v)
{
    const int flags = GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC | GASNET_COLL_LOCAL;
    uint32_t mine = 7 + job.rank, all[PROCESSES];
    gex_Rank_t rank;
    gasnet_coll_exchange(v->team, NULL, NULL, 0, flags);
    images_barrier(v);
    if (v->local == 0) {
        gasnet_coll_gather_all(v->team, all, &mine, sizeof(mine), flags | GASNET_COLL_NO_IMAGES);
        for (rank = 0; rank < job.size; rank++)
            CHECK_EQUAL(all[rank], 7 + rank);
    }
    images_barrier(v);
}

static void *image(void *arg)
{
    gasnet_image_t local = (gasnet_image_t)(uintptr_t)arg;
    gasnet_coll_fn_entry_t table[1];
    struct view world = view_of(GASNET_TEAM_ALL, local), part;
    table[0].fnptr = join_ranges;
    table[0].flags = GASNET_COLL_NONCOMM;
    gasnet_coll_init(counts, world.self, table, 1, 0);
    images_barrier(&world);
    all_calls(&world);
    synchronized(&world);
    whole_processes(&world);
    if (local == 0) /* one for each process */
        half = gasnet_coll_team_split(GASNET_TEAM_ALL, gasnet_mynode() % 2,
                                      gasnet_nodes() - gasnet_mynode(), NULL);
    images_barrier(&world);
    part = view_of(half, local);
    all_calls(&part);
    all_calls(&world);
    images_barrier(&world);
    if (local == 0) CHECK_EQUAL(gex_TM_Destroy(half, NULL, 0), 0);
    images_barrier(&world);
    return NULL;
}

int main(int argc, char **argv)
{
    gasnet_handlerentry_t table[] = {{NOTIFY, (gex_AM_Fn_t)on_notify}};
    pthread_t threads[IMAGES];
    gasnet_image_t i;
    gex_Rank_t rank;
    CHECK_EQUAL(gasnet_init(&argc, &argv), GASNET_OK);
    CHECK_EQUAL(gasnet_attach(table, 1, (1 + IMAGES) * SLOT, 0), GASNET_OK);
    gasnet_QueryGexObjects(&job.client, &job.ep, &job.tm, &job.segment);
    job_learn();
    job.base = (char *)gex_Segment_QueryAddr(job.segment);
    CHECK(job.size <= PROCESSES && argc == 2);
    for (rank = 0; rank < job.size; rank++)
        counts[rank] =
            strcmp(argv[1], "mixed") == 0 ? 1 + rank % IMAGES : (gasnet_image_t)atoi(argv[1]);
    CHECK_EQUAL(pthread_barrier_init(&here, NULL, counts[job.rank]), 0);
    for (i = 0; i < counts[job.rank]; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, image, (void *)(uintptr_t)i), 0);
    for (i = 0; i < counts[job.rank]; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    job_barrier();
    gasnet_exit(0);
}
