/*
 * Collectives of GASNet-EX, checked against results that each member computes itself: broadcasts
 * and reductions with every type and operator, user-defined functions, every root, empty and large,
 * in place, many concurrently and on several teams.
 */
#include <gasnetex.h>

#include <gasnet_coll.h>

#include "draw.h"

enum { MANY = 24, BIG = 300000, TEAMS = 3, ELEMENTS = 257 };

/* The byte `i` that `root` sends in round `round`. */
static unsigned char byte_of(gex_Rank_t root, unsigned round, size_t i)
{
    return (unsigned char)(root * 31 + round * 17 + i * 7 + (i >> 8));
}

static void broadcast(gex_TM_t tm, size_t nbytes, unsigned round)
{
    gex_Rank_t me = gex_TM_QueryRank(tm), size = gex_TM_QuerySize(tm);
    unsigned char *src = (unsigned char *)malloc(nbytes + 1);
    unsigned char *dst = (unsigned char *)malloc(nbytes + 1);
    gex_Rank_t root;
    size_t i;
    CHECK(src != NULL && dst != NULL);
    for (root = 0; root < size; root++) {
        int in_place = (root + round) % 2 == 0;
        unsigned char *from = in_place ? dst : src;
        memset(dst, 0xEE, nbytes + 1);
        if (me == root)
            for (i = 0; i < nbytes; i++)
                from[i] = byte_of(root, round, i);
        gex_Event_Wait(gex_Coll_BroadcastNB(tm, root, dst, me == root ? from : NULL, nbytes, 0));
        for (i = 0; i < nbytes; i++)
            CHECK(dst[i] == byte_of(root, round, i));
        CHECK(dst[nbytes] == 0xEE);
    }
    free(src);
    free(dst);
}

/* --- reductions ------------------------------------------------------------------------------- */

/* The element `i` of a member, small enough for exact sums and products of nine. */
static int element(gex_Rank_t rank, size_t i)
{
    return (int)((rank * 5 + i * 3) % 7) + 1;
}

static long long combine(gex_OP_t op, long long a, long long b)
{
    switch (op) {
    case GEX_OP_ADD:
        return a + b;
    case GEX_OP_MULT:
        return a * b;
    case GEX_OP_MIN:
        return a < b ? a : b;
    case GEX_OP_MAX:
        return a > b ? a : b;
    case GEX_OP_AND:
        return a & b;
    case GEX_OP_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

static long long expected_of(gex_OP_t op, gex_Rank_t size, size_t i)
{
    long long all = element(0, i);
    gex_Rank_t rank;
    for (rank = 1; rank < size; rank++)
        all = combine(op, all, element(rank, i));
    return all;
}

static const gex_OP_t reduce_ops[] = {GEX_OP_ADD, GEX_OP_MULT, GEX_OP_MIN, GEX_OP_MAX,
                                      GEX_OP_AND, GEX_OP_OR,   GEX_OP_XOR};

/* A user-defined operator on built-in types: the sum, counted by its context. */
#define COLL_TYPE(DT, T, OPS)                                                                      \
    static void sum_##DT(const void *arg1, void *arg2_and_out, size_t count, const void *cdata)    \
    {                                                                                              \
        const T *left = (const T *)arg1;                                                           \
        T *right = (T *)arg2_and_out;                                                              \
        size_t i;                                                                                  \
        CHECK(*(const int *)cdata == 4711);                                                        \
        for (i = 0; i < count; i++)                                                                \
            right[i] = (T)(left[i] + right[i]);                                                    \
    }                                                                                              \
    static void reduce_##DT(gex_TM_t tm, size_t count, gex_OP_t op)                                \
    {                                                                                              \
        static const int context = 4711;                                                           \
        static T src[ELEMENTS], dst[ELEMENTS];                                                     \
        gex_Rank_t me = gex_TM_QueryRank(tm), size = gex_TM_QuerySize(tm), root;                   \
        gex_OP_t as = op == GEX_OP_USER ? GEX_OP_ADD : op;                                         \
        gex_Coll_ReduceFn_t fn = op == GEX_OP_USER ? sum_##DT : NULL;                              \
        size_t i;                                                                                  \
        for (root = 0; root <= size; root++) {                                                     \
            int in_place = (root + count) % 2 == 0, all = root == size;                            \
            T *to = in_place ? src : dst;                                                          \
            for (i = 0; i < count; i++) {                                                          \
                src[i] = (T)element(me, i);                                                        \
                dst[i] = (T)77;                                                                    \
            }                                                                                      \
            if (all)                                                                               \
                gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, to, src, GEX_DT_##DT, sizeof(T), count,  \
                                                      op, fn, (void *)(uintptr_t)&context, 0));    \
            else                                                                                   \
                gex_Event_Wait(gex_Coll_ReduceToOneNB(tm, root, me == root ? to : NULL, src,       \
                                                      GEX_DT_##DT, sizeof(T), count, op, fn,       \
                                                      (void *)(uintptr_t)&context, 0));            \
            for (i = 0; i < count; i++) {                                                          \
                if (all || me == root) CHECK_EQUAL(to[i], expected_of(as, size, i));               \
                if (to == dst || !(all || me == root)) CHECK_EQUAL(src[i], element(me, i));        \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void type_##DT(gex_TM_t tm)                                                             \
    {                                                                                              \
        size_t op;                                                                                 \
        for (op = 0; op < (OPS); op++) {                                                           \
            reduce_##DT(tm, 1, reduce_ops[op]);                                                    \
            reduce_##DT(tm, ELEMENTS, reduce_ops[op]);                                             \
        }                                                                                          \
        reduce_##DT(tm, 1, GEX_OP_USER);                                                           \
        reduce_##DT(tm, ELEMENTS, GEX_OP_USER);                                                    \
    }
COLL_TYPE(I32, int32_t, 7)
COLL_TYPE(U32, uint32_t, 7)
COLL_TYPE(I64, int64_t, 7)
COLL_TYPE(U64, uint64_t, 7)
COLL_TYPE(FLT, float, 4)
COLL_TYPE(DBL, double, 4)

/* User-defined elements: large, and with an odd size. */
static size_t user_size;

static void user_max(const void *arg1, void *arg2_and_out, size_t count, const void *cdata)
{
    const unsigned char *left = (const unsigned char *)arg1;
    unsigned char *right = (unsigned char *)arg2_and_out;
    size_t i;
    CHECK(cdata == NULL);
    for (i = 0; i < count * user_size; i++)
        if (left[i] > right[i]) right[i] = left[i];
}

static void reduce_user(gex_TM_t tm, size_t size, size_t count)
{
    gex_Rank_t me = gex_TM_QueryRank(tm), members = gex_TM_QuerySize(tm), rank;
    unsigned char *src = (unsigned char *)malloc(size * count);
    unsigned char *dst = (unsigned char *)malloc(size * count);
    gex_Rank_t root = members / 2;
    size_t i;
    int all;
    CHECK(src != NULL && dst != NULL);
    user_size = size;
    for (all = 0; all < 2; all++) {
        for (i = 0; i < size * count; i++)
            src[i] = byte_of(me, 3, i);
        if (all)
            gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, dst, src, GEX_DT_USER, size, count,
                                                  GEX_OP_USER, user_max, NULL, 0));
        else
            gex_Event_Wait(gex_Coll_ReduceToOneNB(tm, root, dst, src, GEX_DT_USER, size, count,
                                                  GEX_OP_USER, user_max, NULL, 0));
        for (i = 0; i < size * count && (all || me == root); i++) {
            unsigned char most = 0;
            for (rank = 0; rank < members; rank++)
                if (byte_of(rank, 3, i) > most) most = byte_of(rank, 3, i);
            CHECK(dst[i] == most);
        }
    }
    free(src);
    free(dst);
}

/*
 * Elements are ranges of ranks, which can only be joined if the left one ends where the right one
 * begins.
 */
static void join_ranges(const void *arg1, void *arg2_and_out, size_t count, const void *cdata)
{
    const uint32_t *left = (const uint32_t *)arg1;
    uint32_t *right = (uint32_t *)arg2_and_out;
    size_t i;
    (void)cdata;
    for (i = 0; i < 2 * count; i += 2) {
        if (left[i + 1] + 1 != right[i]) right[i + 1] = UINT32_MAX;
        right[i] = left[i];
    }
}

static void reduce_ordered(gex_TM_t tm, size_t count)
{
    gex_Rank_t me = gex_TM_QueryRank(tm), members = gex_TM_QuerySize(tm), root = members - 1;
    uint32_t *src = (uint32_t *)malloc(8 * count), *dst = (uint32_t *)malloc(8 * count);
    size_t i;
    int all, in_place;
    CHECK(src != NULL && dst != NULL);
    for (all = 0; all < 2; all++)
        for (in_place = 0; in_place < 2; in_place++) {
            uint32_t *to = in_place ? src : dst;
            for (i = 0; i < 2 * count; i++)
                src[i] = me + 10;
            if (all)
                gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, to, src, GEX_DT_USER, 8, count,
                                                      GEX_OP_USER_NC, join_ranges, NULL, 0));
            else
                gex_Event_Wait(gex_Coll_ReduceToOneNB(tm, root, me == root ? to : NULL, src,
                                                      GEX_DT_USER, 8, count, GEX_OP_USER_NC,
                                                      join_ranges, NULL, 0));
            for (i = 0; i < count && (all || me == root); i++)
                CHECK(to[2 * i] == 10 && to[2 * i + 1] == members + 9);
        }
    free(src);
    free(dst);
}

/* --- many at once ----------------------------------------------------------------------------- */

/*
 * Collectives on all teams and of all kinds, in progress together and completed in a different
 * order on each rank.
 */
static void overlap(gex_TM_t *teams, int count)
{
    static uint64_t in[TEAMS][MANY], out[TEAMS][MANY];
    gex_Event_t events[TEAMS * MANY * 2], left[TEAMS * MANY * 2];
    size_t n = 0, i;
    int t, k;
    for (t = 0; t < count; t++) {
        gex_Rank_t me = gex_TM_QueryRank(teams[t]), size = gex_TM_QuerySize(teams[t]);
        for (k = 0; k < MANY; k++) {
            in[t][k] = me * 100 + (uint64_t)k;
            out[t][k] = 0;
            switch (k % 3) {
            case 0:
                events[n++] = gex_Coll_BroadcastNB(teams[t], (gex_Rank_t)k % size, &out[t][k],
                                                   &in[t][k], sizeof(uint64_t), 0);
                break;
            case 1:
                events[n++] =
                    gex_Coll_ReduceToAllNB(teams[t], &out[t][k], &in[t][k], GEX_DT_U64,
                                           sizeof(uint64_t), 1, GEX_OP_ADD, NULL, NULL, 0);
                break;
            default:
                events[n++] = gex_Coll_ReduceToOneNB(teams[t], (gex_Rank_t)k % size, &out[t][k],
                                                     &in[t][k], GEX_DT_U64, sizeof(uint64_t), 1,
                                                     GEX_OP_MAX, NULL, NULL, 0);
                break;
            }
            events[n++] = gex_Coll_BarrierNB(teams[t], 0);
        }
    }
    for (i = 0; i < n; i++)
        left[i] = events[(i * 5 + job.rank * 7) % n];
    CHECK(n % 5 != 0); /* otherwise this is not a permutation */
    gex_Event_WaitSome(left, n, 0);
    while (gex_Event_TestAll(left, n, 0) != GASNET_OK)
        gasnet_AMPoll();
    for (i = 0; i < n; i++)
        CHECK(left[i] == GEX_EVENT_INVALID);
    for (t = 0; t < count; t++) {
        gex_Rank_t me = gex_TM_QueryRank(teams[t]), size = gex_TM_QuerySize(teams[t]), rank;
        for (k = 0; k < MANY; k++) {
            gex_Rank_t root = (gex_Rank_t)k % size;
            uint64_t sum = 0;
            for (rank = 0; rank < size; rank++)
                sum += rank * 100 + (uint64_t)k;
            if (k % 3 == 0) CHECK(out[t][k] == root * 100 + (uint64_t)k);
            if (k % 3 == 1) CHECK(out[t][k] == sum);
            if (k % 3 == 2) CHECK(out[t][k] == (me == root ? (size - 1) * 100 + (uint64_t)k : 0));
        }
    }
}

static void all_on(gex_TM_t tm)
{
    static const size_t sizes[] = {0, 1, 7, 64, 1000, 4096, 70001, BIG};
    unsigned i;
    for (i = 0; i < COUNT_OF(sizes); i++)
        broadcast(tm, sizes[i], i);
    type_I32(tm);
    type_U32(tm);
    type_I64(tm);
    type_U64(tm);
    type_FLT(tm);
    type_DBL(tm);
    reduce_user(tm, 3, 1);
    reduce_user(tm, 33, 100);
    reduce_user(tm, 32768, 2);
    reduce_user(tm, 40000, 1);
    reduce_ordered(tm, 1);
    reduce_ordered(tm, 20001);
    gex_Coll_BarrierBlocking(tm, 0);
}

int main(int argc, char **argv)
{
    gex_TM_t teams[TEAMS];
    int round;
    job_open(&argc, &argv, 64 * GASNET_PAGESIZE);
    teams[0] = job.tm;
    (void)gex_TM_Split(&teams[1], job.tm, (int)(job.rank % 2), -(int)job.rank, NULL, 0,
                       GEX_FLAG_TM_NO_SCRATCH);
    (void)gex_TM_Split(&teams[2], job.tm, 0, (int)(job.rank * 7 % 5), NULL, 0,
                       GEX_FLAG_TM_NO_SCRATCH);
    all_on(teams[0]);
    all_on(teams[1]);
    all_on(teams[2]);
    for (round = 0; round < 5; round++)
        overlap(teams, TEAMS);
    job_barrier();
    CHECK_EQUAL(gex_TM_Destroy(teams[1], NULL, 0), 0);
    CHECK_EQUAL(gex_TM_Destroy(teams[2], NULL, 0), 0);
    job_barrier();
    gasnet_exit(0);
}
