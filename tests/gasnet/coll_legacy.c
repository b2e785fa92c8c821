/*
 * The collectives of GASNet-1: data and synchronization flags of each, blocking and not, on all
 * processes and on a split team; the guarantees of ALLSYNC about accesses of other processes.
 */
#include <gasnet.h>

#include <gasnet_coll.h>

#include "draw.h"

enum { BLOCK = 257, MOST = 16, ROUNDS = 2, NOTES = 5 };

static const int ins[] = {GASNET_COLL_IN_NOSYNC, GASNET_COLL_IN_MYSYNC, GASNET_COLL_IN_ALLSYNC};
static const int outs[] = {GASNET_COLL_OUT_NOSYNC, GASNET_COLL_OUT_MYSYNC, GASNET_COLL_OUT_ALLSYNC};

static void sum_ints(void *results, size_t result_count, const void *left_operands,
                     size_t left_count, const void *right_operands, size_t elem_size, int flags,
                     int arg)
{
    int *out = (int *)results;
    const int *left = (const int *)left_operands, *right = (const int *)right_operands;
    size_t i;
    (void)flags;
    CHECK(result_count == left_count && elem_size == sizeof(int) && arg == 17);
    for (i = 0; i < result_count; i++)
        out[i] = left[i] + right[i];
}

/* Ranges of ranks, which can be joined only if the left one ends where the right one begins. */
static void join_ranges(void *results, size_t result_count, const void *left_operands,
                        size_t left_count, const void *right_operands, size_t elem_size, int flags,
                        int arg)
{
    int *out = (int *)results;
    const int *left = (const int *)left_operands, *right = (const int *)right_operands;
    size_t i;
    (void)flags;
    CHECK(result_count == left_count && elem_size == 2 * sizeof(int) && arg == -5);
    for (i = 0; i < 2 * result_count; i += 2) {
        int first = left[i], last = left[i + 1] + 1 == right[i] ? right[i + 1] : -1;
        out[i] = first;
        out[i + 1] = last;
    }
}

static unsigned char byte_of(gex_Rank_t from, gex_Rank_t to, unsigned round, size_t i)
{
    return (unsigned char)(from * 41 + to * 13 + round * 5 + i);
}

/* Check a block from `from` to `to` in the current round. */
static void expect(const unsigned char *block, gex_Rank_t from, gex_Rank_t to, unsigned round,
                   size_t nbytes)
{
    size_t i;
    for (i = 0; i < nbytes; i++)
        CHECK(block[i] == byte_of(from, to, round, i));
}

/* The six calls, by number: blocking, with handles, and with lists of addresses. */
static gasnet_coll_handle_t begin(int call, int lists, gasnet_team_handle_t team,
                                  gasnet_image_t root, unsigned char *dst, unsigned char *src,
                                  size_t nbytes, int flags)
{
    void *dsts[1], *srcs[1];
    dsts[0] = dst;
    srcs[0] = src;
    switch (call * 2 + lists) {
    case 0:
        return gasnet_coll_broadcast_nb(team, dst, root, src, nbytes, flags);
    case 1:
        return gasnet_coll_broadcastM_nb(team, dsts, root, src, nbytes, flags);
    case 2:
        return gasnet_coll_scatter_nb(team, dst, root, src, nbytes, flags);
    case 3:
        return gasnet_coll_scatterM_nb(team, dsts, root, src, nbytes, flags);
    case 4:
        return gasnet_coll_gather_nb(team, root, dst, src, nbytes, flags);
    case 5:
        return gasnet_coll_gatherM_nb(team, root, dst, srcs, nbytes, flags);
    case 6:
        return gasnet_coll_gather_all_nb(team, dst, src, nbytes, flags);
    case 7:
        return gasnet_coll_gather_allM_nb(team, dsts, srcs, nbytes, flags);
    case 8:
        return gasnet_coll_exchange_nb(team, dst, src, nbytes, flags);
    default:
        return gasnet_coll_exchangeM_nb(team, dsts, srcs, nbytes, flags);
    }
}

static void blocking(int call, int lists, gasnet_team_handle_t team, gasnet_image_t root,
                     unsigned char *dst, unsigned char *src, size_t nbytes, int flags)
{
    void *dsts[1], *srcs[1];
    dsts[0] = dst;
    srcs[0] = src;
    switch (call * 2 + lists) {
    case 0:
        gasnet_coll_broadcast(team, dst, root, src, nbytes, flags);
        break;
    case 1:
        gasnet_coll_broadcastM(team, dsts, root, src, nbytes, flags);
        break;
    case 2:
        gasnet_coll_scatter(team, dst, root, src, nbytes, flags);
        break;
    case 3:
        gasnet_coll_scatterM(team, dsts, root, src, nbytes, flags);
        break;
    case 4:
        gasnet_coll_gather(team, root, dst, src, nbytes, flags);
        break;
    case 5:
        gasnet_coll_gatherM(team, root, dst, srcs, nbytes, flags);
        break;
    case 6:
        gasnet_coll_gather_all(team, dst, src, nbytes, flags);
        break;
    case 7:
        gasnet_coll_gather_allM(team, dsts, srcs, nbytes, flags);
        break;
    case 8:
        gasnet_coll_exchange(team, dst, src, nbytes, flags);
        break;
    default:
        gasnet_coll_exchangeM(team, dsts, srcs, nbytes, flags);
        break;
    }
}

enum { CALLS = 5, BROADCAST = 0, SCATTER, GATHER, GATHER_ALL, EXCHANGE };

static void prepare(int call, gex_Rank_t me, gex_Rank_t size, unsigned char *src, unsigned round,
                    size_t nbytes)
{
    gex_Rank_t to;
    size_t i;
    for (to = 0; to < size; to++)
        for (i = 0; i < nbytes; i++)
            src[to * nbytes + i] =
                byte_of(me, call == SCATTER || call == EXCHANGE ? to : 0, round, i);
}

static void verify(int call, gex_Rank_t me, gex_Rank_t size, gex_Rank_t root,
                   const unsigned char *dst, unsigned round, size_t nbytes)
{
    gex_Rank_t from;
    switch (call) {
    case BROADCAST:
        expect(dst, root, 0, round, nbytes);
        break;
    case SCATTER:
        expect(dst, root, me, round, nbytes);
        break;
    default:
        if (call == GATHER && me != root) break;
        for (from = 0; from < size; from++)
            expect(dst + from * nbytes, from, call == EXCHANGE ? me : 0, round, nbytes);
    }
}

static void all_calls(gasnet_team_handle_t team)
{
    static unsigned char src[CALLS][MOST * BLOCK], dst[CALLS][MOST * BLOCK];
    gasnet_coll_handle_t handles[CALLS];
    gex_Rank_t me = gasnet_coll_team_node2rank(team, gasnet_mynode());
    gex_Rank_t size = gasnet_coll_team_size(team);
    unsigned round = 0, in, out;
    int call;
    for (in = 0; in < COUNT_OF(ins); in++) {
        for (out = 0; out < COUNT_OF(outs); out++, round++) {
            int flags = ins[in] | outs[out] | GASNET_COLL_LOCAL;
            gex_Rank_t root = round % size;
            size_t nbytes = round % 4 == 3 ? 0 : BLOCK;
            int all_final = (flags & GASNET_COLL_OUT_NOSYNC) == 0;
            for (call = 0; call < CALLS; call++) {
                prepare(call, me, size, src[call], round, nbytes);
                memset(dst[call], 0xEE, sizeof(dst[call]));
                blocking(call, round % 2, team, root, dst[call], src[call], nbytes, flags);
                if (all_final) verify(call, me, size, root, dst[call], round, nbytes);
            }
            CHECK_EQUAL(gasnet_coll_barrier(team, 0, GASNET_BARRIERFLAG_ANONYMOUS), GASNET_OK);
            /* All concurrently, and synchronized in a different order on each process. */
            for (call = 0; call < CALLS; call++) {
                prepare(call, me, size, src[call], round + 50, nbytes);
                handles[call] =
                    begin(call, round % 2, team, root, dst[call], src[call], nbytes, flags);
            }
            if (round % 3 == 0) {
                gasnet_coll_wait_sync_all(handles, CALLS);
            } else if (round % 3 == 1) {
                while (gasnet_coll_try_sync_all(handles, CALLS) != GASNET_OK) {
                }
            } else {
                gasnet_coll_wait_sync(handles[(me + round) % CALLS]);
                handles[(me + round) % CALLS] = GASNET_COLL_INVALID_HANDLE;
                gasnet_coll_wait_sync_some(handles, CALLS);
                while (gasnet_coll_try_sync_some(handles, CALLS) != GASNET_OK) {
                }
                for (call = 0; call < CALLS; call++)
                    while (gasnet_coll_try_sync(handles[call]) != GASNET_OK) {
                    }
            }
            CHECK_EQUAL(gasnet_coll_barrier(team, 5, 0), GASNET_OK);
            for (call = 0; call < CALLS; call++)
                verify(call, me, size, root, dst[call], round + 50, nbytes);
        }
    }
}

static void reductions(gasnet_team_handle_t team)
{
    int in[BLOCK], out[BLOCK], lists;
    void *srcs[1];
    gex_Rank_t me = gasnet_coll_team_node2rank(team, gasnet_mynode()), root;
    gex_Rank_t size = gasnet_coll_team_size(team);
    int flags = GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC | GASNET_COLL_LOCAL;
    size_t i;
    srcs[0] = in;
    for (root = 0; root < size; root++) {
        for (lists = 0; lists < 4; lists++) {
            for (i = 0; i < BLOCK; i++)
                in[i] = (int)(me * 3 + i);
            switch (lists) {
            case 0:
                gasnet_coll_reduce(team, root, out, in, 0, 0, sizeof(int), BLOCK, 0, 17, flags);
                break;
            case 1:
                gasnet_coll_reduceM(team, root, out, srcs, 0, 0, sizeof(int), BLOCK, 0, 17, flags);
                break;
            case 2:
                gasnet_coll_wait_sync(gasnet_coll_reduce_nb(team, root, out, in, 0, 0, sizeof(int),
                                                            BLOCK, 0, 17, flags));
                break;
            default:
                gasnet_coll_wait_sync(gasnet_coll_reduceM_nb(team, root, out, srcs, 0, 0,
                                                             sizeof(int), BLOCK, 0, 17, flags));
            }
            for (i = 0; i < BLOCK && me == root; i++)
                CHECK_EQUAL(out[i], (int)(size * (size - 1) / 2 * 3 + size * i));
        }
    }
}

/* In the order of ranks, and with handles, which are events and can be used as such. */
static void ordered(gasnet_team_handle_t team)
{
    int in[2 * BLOCK], out[2 * BLOCK];
    gex_Rank_t me = gasnet_coll_team_node2rank(team, gasnet_mynode()), root;
    gex_Rank_t size = gasnet_coll_team_size(team);
    int flags = GASNET_COLL_IN_ALLSYNC | GASNET_COLL_OUT_NOSYNC | GASNET_COLL_LOCAL;
    size_t i;
    for (root = 0; root < size; root++) {
        for (i = 0; i < 2 * BLOCK; i++)
            in[i] = (int)me;
        gex_Event_Wait(
            gasnet_coll_reduce_nb(team, root, out, in, 0, 0, 2 * sizeof(int), BLOCK, 1, -5, flags));
        for (i = 0; i < 2 * BLOCK && me == root; i += 2)
            CHECK(out[i] == 0 && out[i + 1] == (int)size - 1);
    }
}

/*
 * IN_ALLSYNC: the data that any process has put into the root's source before its call is sent.
 * OUT_ALLSYNC: a process whose call is complete may read the results of the others. Both blocking
 * and not.
 */
static void synchronized(void)
{
    const int flags = GASNET_COLL_IN_ALLSYNC | GASNET_COLL_OUT_ALLSYNC | GASNET_COLL_LOCAL;
    gasnet_coll_handle_t handles[NOTES];
    unsigned round, k;
    gex_Rank_t rank;
    for (round = 0; round < 200; round++) {
        gex_Rank_t root = round % job.size;
        uint32_t mine = round * 1000 + job.rank, *dst = (uint32_t *)(void *)(job.base + 4096);
        for (k = 0; k < (round % 2 ? NOTES : 1); k++)
            gasnet_put(root, job_at(root, (k * job.size + job.rank) * sizeof(mine)), &mine,
                       sizeof(mine));
        if (round % 2 == 0) {
            gasnet_coll_broadcast(GASNET_TEAM_ALL, dst, root, job.base, job.size * sizeof(mine),
                                  flags);
        } else {
            for (k = 0; k < NOTES; k++)
                handles[k] = gasnet_coll_broadcast_nb(GASNET_TEAM_ALL, dst + k * job.size, root,
                                                      job.base + k * job.size * sizeof(mine),
                                                      job.size * sizeof(mine), flags);
            for (k = 0; k < NOTES; k++)
                gasnet_coll_wait_sync(handles[(k + job.rank) % NOTES]);
        }
        for (k = 0; k < (round % 2 ? NOTES : 1); k++) {
            uint32_t theirs[MOST];
            gasnet_get(theirs, job.next, job_at(job.next, 4096 + k * job.size * sizeof(mine)),
                       job.size * sizeof(mine));
            for (rank = 0; rank < job.size; rank++) {
                CHECK_EQUAL(theirs[rank], round * 1000 + rank);
                CHECK_EQUAL(dst[k * job.size + rank], round * 1000 + rank);
            }
        }
        /* The next round writes to the memory that is read here. */
        gasnet_barrier(0, GASNET_BARRIERFLAG_UNNAMED);
    }
}

/*
 * A process that has started a collective may just poll, or wait for something else, until the
 * others have completed it.
 */
static void polled(void)
{
    const int flags = GASNET_COLL_IN_ALLSYNC | GASNET_COLL_OUT_ALLSYNC | GASNET_COLL_LOCAL;
    uint32_t *done = (uint32_t *)(void *)(job.base + 12 * 4096);
    unsigned round;
    for (round = 1; round <= 20; round++) {
        gex_Rank_t waits = round % job.size;
        uint32_t in = round, out = 0;
        gasnet_coll_handle_t h =
            gasnet_coll_broadcast_nb(GASNET_TEAM_ALL, &out, waits, &in, sizeof(in), flags);
        if (job.rank == waits) {
            gex_Rank_t rank;
            gasnet_coll_wait_sync(h);
            for (rank = 0; rank < job.size; rank++)
                gasnet_put_val(rank, job_at(rank, 12 * 4096), round, sizeof(uint32_t));
        } else {
            if (round % 2) GASNET_BLOCKUNTIL(__atomic_load_n(done, __ATOMIC_RELAXED) == round);
            while (__atomic_load_n(done, __ATOMIC_RELAXED) != round)
                gasnet_AMPoll();
            gasnet_coll_wait_sync(h);
        }
        CHECK_EQUAL(out, round);
        gasnet_barrier(0, GASNET_BARRIERFLAG_UNNAMED);
    }
}

static void barriers(gasnet_team_handle_t team)
{
    gex_Rank_t me = gasnet_coll_team_node2rank(team, gasnet_mynode());
    gex_Rank_t size = gasnet_coll_team_size(team);
    int id = 0, got;
    gasnet_coll_barrier_notify(team, 0, GASNET_BARRIERFLAG_UNNAMED);
    CHECK_EQUAL(gasnet_coll_barrier_wait(team, 0, GASNET_BARRIERFLAG_UNNAMED), GASNET_OK);
    CHECK(gasnet_coll_barrier_result(team, &id) != 0);
    gasnet_coll_barrier_notify(team, 42, 0);
    while ((got = gasnet_coll_barrier_try(team, 42, 0)) == GASNET_ERR_NOT_READY) {
    }
    CHECK_EQUAL(got, GASNET_OK);
    CHECK(gasnet_coll_barrier_result(team, &id) == 0 && id == 42);
    CHECK_EQUAL(gasnet_coll_barrier(team, (int)me, 0),
                size > 1 ? GASNET_ERR_BARRIER_MISMATCH : GASNET_OK);
    CHECK_EQUAL(gasnet_coll_barrier(team, 0, me == 0 ? GASNET_BARRIERFLAG_MISMATCH : 0),
                GASNET_ERR_BARRIER_MISMATCH);
    CHECK_EQUAL(gasnet_coll_barrier(team, 7, me == 0 ? GASNET_BARRIERFLAG_ANONYMOUS : 0),
                GASNET_OK);
}

int main(int argc, char **argv)
{
    gasnet_coll_fn_entry_t table[2];
    gasnet_seginfo_t scratch;
    gasnet_image_t images[MOST];
    gasnet_team_handle_t half;
    gex_Rank_t rank;
    unsigned round;
    CHECK_EQUAL(gasnet_init(&argc, &argv), GASNET_OK);
    CHECK_EQUAL(gasnet_attach(NULL, 0, 16 * GASNET_PAGESIZE, 0), GASNET_OK);
    gasnet_QueryGexObjects(&job.client, &job.ep, &job.tm, &job.segment);
    job_learn();
    job.base = (char *)gex_Segment_QueryAddr(job.segment);
    CHECK(job.size <= MOST);
    table[0].fnptr = sum_ints;
    table[0].flags = 0;
    table[1].fnptr = join_ranges;
    table[1].flags = GASNET_COLL_NONCOMM;
    for (rank = 0; rank < job.size; rank++)
        images[rank] = 1;
    gasnet_coll_init(images, gasnet_mynode(), table, 2, 0);
    scratch.addr = job.base + 8 * GASNET_PAGESIZE;
    scratch.size = GASNET_PAGESIZE;
    half = gasnet_coll_team_split(GASNET_TEAM_ALL, gasnet_mynode() % 2,
                                  gasnet_nodes() - gasnet_mynode(), &scratch);
    for (rank = 0; rank < gasnet_coll_team_size(half); rank++)
        CHECK_EQUAL(gasnet_coll_team_node2rank(half, gasnet_coll_team_rank2node(half, (int)rank)),
                    rank);
    CHECK_EQUAL(gasnet_coll_team_size(GASNET_TEAM_ALL), gasnet_nodes());
    for (round = 0; round < ROUNDS; round++) {
        all_calls(GASNET_TEAM_ALL);
        all_calls(half);
        reductions(GASNET_TEAM_ALL);
        reductions(half);
        ordered(GASNET_TEAM_ALL);
        ordered(half);
        barriers(half);
        barriers(GASNET_TEAM_ALL);
    }
    synchronized();
    polled();
    gasnet_coll_dumpTuningState(NULL, GASNET_TEAM_ALL);
    gasnet_coll_loadTuningState(NULL, GASNET_TEAM_ALL);
    gasnet_coll_dumpProfile(NULL, GASNET_TEAM_ALL);
    CHECK(gex_TM_Destroy(half, NULL, 0) == 0);
    gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_exit(0);
}
