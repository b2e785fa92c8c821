/*
 * Remote atomics: each operation of each type compared with a model in plain C, on every process,
 * in both forms; under contention; through teams with a different order of ranks; and the queries.
 */
#include <gasnetex.h>

#include <gasnet_ratomic.h>

#include "draw.h"

#include <pthread.h>

enum { CELLS = 64 };

/* In the segment of each target, each origin owns a cell of 8 bytes. */
static void *cell_of(gex_Rank_t target, gex_Rank_t origin)
{
    return job_at(target, 0) + 8 * (size_t)origin;
}

static const gex_OP_t both[] = {GEX_OP_ADD, GEX_OP_SUB, GEX_OP_MULT, GEX_OP_MIN,
                                GEX_OP_MAX, GEX_OP_INC, GEX_OP_DEC,  GEX_OP_AND,
                                GEX_OP_OR,  GEX_OP_XOR, GEX_OP_CAS};
enum { BOTH = sizeof(both) / sizeof(both[0]), INTEGER_ONLY = GEX_OP_AND | GEX_OP_OR | GEX_OP_XOR };

static gex_OP_t all_ops(int integer)
{
    gex_OP_t all = GEX_OP_SET | GEX_OP_GET | GEX_OP_SWAP;
    for (int i = 0; i < BOTH; i++)
        if (integer || !(both[i] & INTEGER_ONLY)) all |= both[i] | GEX_OP_TO_FETCHING(both[i]);
    return all;
}

/*
 * NB operations are completed through the event, by several kinds of waits; NBI operations through
 * their categories.
 */
static void finish_nbi(gex_OP_t op)
{
    gex_EC_t category = op == GEX_OP_SET ? GEX_EC_PUT : op == GEX_OP_GET ? GEX_EC_GET : GEX_EC_RMW;
    if (op & GEX_OP_ADD) {
        while (gex_NBI_Test(category, 0) != GASNET_OK)
            gasnet_AMPoll();
    } else {
        gex_NBI_Wait(category, 0);
    }
}

static const gex_Flags_t order_flags[] = {0, GEX_FLAG_AD_ACQ, GEX_FLAG_AD_REL,
                                          GEX_FLAG_AD_ACQ | GEX_FLAG_AD_REL};

/*
 * For one type, and W, the wrapping type to compute in: MODEL computes the contents of the memory
 * after an operation; every result is compared with the contents before. BITS are the operations on
 * bits, which floating types lack.
 */
#define RATOMIC_TYPE(DT, T, W, INTEGER, BITS)                                                      \
    static T model_##DT(gex_OP_t op, T old, T a, T b)                                              \
    {                                                                                              \
        if (op >= GEX_OP_FAND && op != GEX_OP_GET) op = GEX_OP_TO_NONFETCHING(op);                 \
        switch (op) {                                                                              \
        case GEX_OP_SET:                                                                           \
            return a;                                                                              \
        case GEX_OP_GET:                                                                           \
            return old;                                                                            \
        case GEX_OP_ADD:                                                                           \
            return (T)((W)old + (W)a);                                                             \
        case GEX_OP_SUB:                                                                           \
            return (T)((W)old - (W)a);                                                             \
        case GEX_OP_MULT:                                                                          \
            return (T)((W)old * (W)a);                                                             \
        case GEX_OP_MIN:                                                                           \
            return old < a ? old : a;                                                              \
        case GEX_OP_MAX:                                                                           \
            return old > a ? old : a;                                                              \
        case GEX_OP_INC:                                                                           \
            return (T)((W)old + 1);                                                                \
        case GEX_OP_DEC:                                                                           \
            return (T)((W)old - 1);                                                                \
        case GEX_OP_CAS:                                                                           \
            return memcmp(&old, &a, sizeof(T)) == 0 ? b : old;                                     \
        default:                                                                                   \
            return BITS(op, old, a);                                                               \
        }                                                                                          \
    }                                                                                              \
    static T draw_##DT(T near)                                                                     \
    {                                                                                              \
        switch (draw_below(4)) {                                                                   \
        case 0:                                                                                    \
            return near;                                                                           \
        case 1:                                                                                    \
            return (T)((W)near + 1);                                                               \
        default:                                                                                   \
            return (T)(INTEGER ? (T)(draw() % 30000) : (T)(draw_below(1000) / 4));                 \
        }                                                                                          \
    }                                                                                              \
    static void one_##DT(gex_AD_t ad, gex_Rank_t target, gex_OP_t op, T *now, int round)           \
    {                                                                                              \
        T a = draw_##DT(*now), b = draw_##DT(a), untouched = (T)77, got = untouched,               \
          before = *now;                                                                           \
        int fetches = op >= GEX_OP_FAND;                                                           \
        T *result = fetches || round % 2 ? &got : NULL;                                            \
        gex_Flags_t flags = order_flags[round % 4];                                                \
        if (target == job.rank && round % 3 == 0) flags |= GEX_FLAG_AD_MY_RANK;                    \
        if (round % 5 == 0) flags |= GEX_FLAG_RANK_IS_JOBRANK;                                     \
        void *at = cell_of(target, job.rank);                                                      \
        if (round % 2 == 0) {                                                                      \
            gex_Event_t ev = GEX_EVENT_NO_OP;                                                      \
            if (round % 4 == 0)                                                                    \
                ev = gex_AD_OpNB_##DT(ad, result, target, at, op, a, b,                            \
                                      flags | GEX_FLAG_IMMEDIATE);                                 \
            if (ev == GEX_EVENT_NO_OP)                                                             \
                ev = gex_AD_OpNB_##DT(ad, result, target, at, op, a, b, flags);                    \
            CHECK(ev != GEX_EVENT_NO_OP);                                                          \
            gex_Event_Wait(ev);                                                                    \
        } else {                                                                                   \
            CHECK(gex_AD_OpNBI_##DT(ad, result, target, at, op, a, b, flags) == 0);                \
            finish_nbi(op);                                                                        \
        }                                                                                          \
        *now = model_##DT(op, before, a, b);                                                       \
        if (fetches)                                                                               \
            CHECK(memcmp(&got, &before, sizeof(T)) == 0);                                          \
        else                                                                                       \
            CHECK(memcmp(&got, &untouched, sizeof(T)) == 0);                                       \
    }                                                                                              \
    static void run_##DT(void)                                                                     \
    {                                                                                              \
        gex_AD_t ad;                                                                               \
        gex_AD_Create(&ad, job.tm, GEX_DT_##DT, all_ops(INTEGER), GEX_FLAG_AD_FAVOR_REMOTE);       \
        CHECK(gex_AD_QueryDT(ad) == GEX_DT_##DT && gex_AD_QueryOps(ad) == all_ops(INTEGER));       \
        CHECK(gex_AD_QueryTM(ad) == job.tm && gex_AD_QueryFlags(ad) == GEX_FLAG_AD_FAVOR_REMOTE);  \
        CHECK(gex_AD_QueryCData(ad) == NULL);                                                      \
        gex_AD_SetCData(ad, &ad);                                                                  \
        CHECK(gex_AD_QueryCData(ad) == &ad);                                                       \
        for (gex_Rank_t target = 0; target < job.size; target++) {                                 \
            T now = (T)5;                                                                          \
            gex_Event_Wait(gex_AD_OpNB_##DT(ad, NULL, target, cell_of(target, job.rank),           \
                                            GEX_OP_SET, now, 0, 0));                               \
            for (int round = 0; round < 12; round++) {                                             \
                for (int i = 0; i < BOTH; i++) {                                                   \
                    if (!INTEGER && (both[i] & INTEGER_ONLY)) continue;                            \
                    one_##DT(ad, target, both[i], &now, round);                                    \
                    one_##DT(ad, target, GEX_OP_TO_FETCHING(both[i]), &now, round);                \
                }                                                                                  \
                one_##DT(ad, target, GEX_OP_SET, &now, round);                                     \
                one_##DT(ad, target, GEX_OP_SWAP, &now, round);                                    \
                one_##DT(ad, target, GEX_OP_GET, &now, round);                                     \
            }                                                                                      \
        }                                                                                          \
        job_barrier();                                                                             \
        contend_##DT(ad);                                                                          \
        job_barrier();                                                                             \
        gex_AD_Destroy(ad);                                                                        \
    }

/* All processes update one cell: sums lose no step, and no two FINC get the same value. */
#define RATOMIC_CONTENTION(DT, T)                                                                  \
    static void contend_##DT(gex_AD_t ad)                                                          \
    {                                                                                              \
        enum { STEPS = 300 };                                                                      \
        T *cells = (T *)(void *)(job_at(0, 0) + 8 * CELLS);                                        \
        T got[STEPS];                                                                              \
        if (job.rank == 0)                                                                         \
            for (int i = 0; i < 4; i++)                                                            \
                gex_Event_Wait(gex_AD_OpNB_##DT(ad, NULL, 0, &cells[i], GEX_OP_SET, (T)0, 0, 0));  \
        job_barrier();                                                                             \
        for (int i = 0; i < STEPS; i++) {                                                          \
            CHECK(gex_AD_OpNBI_##DT(ad, NULL, 0, &cells[0], GEX_OP_ADD, (T)2, 0, 0) == 0);         \
            CHECK(gex_AD_OpNBI_##DT(ad, NULL, 0, &cells[0], GEX_OP_DEC, 0, 0, 0) == 0);            \
            gex_Event_Wait(gex_AD_OpNB_##DT(ad, &got[i], 0, &cells[1], GEX_OP_FINC, 0, 0, 0));     \
            CHECK(i == 0 || got[i] > got[i - 1]);                                                  \
            T seen, old;                                                                           \
            gex_Event_Wait(gex_AD_OpNB_##DT(ad, &seen, 0, &cells[2], GEX_OP_GET, 0, 0, 0));        \
            for (;; seen = old) {                                                                  \
                gex_Event_Wait(gex_AD_OpNB_##DT(ad, &old, 0, &cells[2], GEX_OP_FCAS, seen,         \
                                                (T)(seen + 3), 0));                                \
                if (memcmp(&old, &seen, sizeof(T)) == 0) break;                                    \
            }                                                                                      \
            CHECK(gex_AD_OpNBI_##DT(ad, NULL, 0, &cells[3], GEX_OP_MAX,                            \
                                    (T)(i * (int)job.size + (int)job.rank), 0, 0) == 0);           \
        }                                                                                          \
        gex_NBI_Wait(GEX_EC_RMW, 0);                                                               \
        job_barrier();                                                                             \
        T last[4];                                                                                 \
        for (int i = 0; i < 4; i++)                                                                \
            gex_Event_Wait(gex_AD_OpNB_##DT(ad, &last[i], 0, &cells[i], GEX_OP_GET, 0, 0, 0));     \
        T steps = (T)((int)job.size * STEPS);                                                      \
        CHECK(last[0] >= steps && last[0] <= steps && last[1] >= steps && last[1] <= steps);       \
        CHECK(last[2] >= 3 * steps && last[2] <= 3 * steps);                                       \
        CHECK(last[3] >= steps - 1 && last[3] <= steps - 1);                                       \
    }

#define BITS_OF_INTEGER(op, old, a)                                                                \
    (op == GEX_OP_AND ? (old & a) : op == GEX_OP_OR ? (old | a) : (old ^ a))
#define BITS_OF_FLOAT(op, old, a) (abort(), (old))

RATOMIC_CONTENTION(I32, int32_t)
RATOMIC_CONTENTION(U32, uint32_t)
RATOMIC_CONTENTION(I64, int64_t)
RATOMIC_CONTENTION(U64, uint64_t)
RATOMIC_CONTENTION(FLT, float)
RATOMIC_CONTENTION(DBL, double)
RATOMIC_TYPE(I32, int32_t, uint32_t, 1, BITS_OF_INTEGER)
RATOMIC_TYPE(U32, uint32_t, uint32_t, 1, BITS_OF_INTEGER)
RATOMIC_TYPE(I64, int64_t, uint64_t, 1, BITS_OF_INTEGER)
RATOMIC_TYPE(U64, uint64_t, uint64_t, 1, BITS_OF_INTEGER)
RATOMIC_TYPE(FLT, float, float, 0, BITS_OF_FLOAT)
RATOMIC_TYPE(DBL, double, double, 0, BITS_OF_FLOAT)

/* In a team with the ranks in reverse order, team ranks and job ranks address the same cells. */
static void run_team(void)
{
    gex_TM_t tm;
    gex_AD_t ad;
    (void)gex_TM_Split(&tm, job.tm, 0, -(int)job.rank, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    CHECK(gex_TM_QuerySize(tm) == job.size && gex_TM_QueryRank(tm) == job.size - 1 - job.rank);
    gex_AD_Create(&ad, tm, GEX_DT_U64, GEX_OP_FADD | GEX_OP_SET | GEX_OP_GET, 0);
    for (gex_Rank_t rank = 0; rank < job.size; rank++) {
        uint64_t *at = (uint64_t *)cell_of(rank, job.rank), got = 0;
        gex_Rank_t in_team = job.size - 1 - rank;
        gex_Event_Wait(
            gex_AD_OpNB_U64(ad, NULL, rank, at, GEX_OP_SET, 40, 0, GEX_FLAG_RANK_IS_JOBRANK));
        gex_Event_Wait(gex_AD_OpNB_U64(ad, &got, in_team, at, GEX_OP_FADD, 2, 0, 0));
        CHECK(got == 40);
        gex_Event_Wait(
            gex_AD_OpNB_U64(ad, &got, rank, at, GEX_OP_GET, 0, 0, GEX_FLAG_RANK_IS_JOBRANK));
        CHECK(got == 42);
    }
    /* In an access region, the operations belong to its event, by category. */
    uint64_t fetched = 0, *mine = (uint64_t *)cell_of(job.rank, job.rank);
    gex_NBI_BeginAccessRegion(0);
    CHECK(gex_AD_OpNBI_U64(ad, NULL, gex_TM_QueryRank(tm), mine, GEX_OP_SET, 9, 0, 0) == 0);
    gex_Event_t region = gex_NBI_EndAccessRegion(0);
    gex_Event_Wait(gex_Event_QueryLeaf(region, GEX_EC_PUT));
    gex_Event_Wait(region);
    gex_Event_Wait(gex_AD_OpNB_U64(ad, &fetched, gex_TM_QueryRank(tm), mine, GEX_OP_FADD, 1, 0, 0));
    CHECK(fetched == 9);
    job_barrier();
    gex_AD_Destroy(ad);
    CHECK(gex_TM_Destroy(tm, NULL, GEX_FLAG_GLOBALLY_QUIESCED) == 0);
}

#if defined(GASNET_PAR)
/* Threads of all processes update the same cells through one domain: no step is lost. */
enum { THREADS = 4, THREAD_STEPS = 500 };
static gex_AD_t shared_ad;
static uint64_t *shared_cells;

static void *thread_steps(void *arg)
{
    uint64_t last = 0, got = 0, fetched[8];
    int i;
    (void)arg;
    for (i = 0; i < THREAD_STEPS; i++) {
        gex_Event_Wait(gex_AD_OpNB_U64(shared_ad, &got, 0, &shared_cells[0], GEX_OP_FADD, 1, 0, 0));
        CHECK(i == 0 || got > last);
        last = got;
        CHECK(gex_AD_OpNBI_U64(shared_ad, NULL, 0, &shared_cells[1], GEX_OP_SUB, 3, 0, 0) == 0);
        CHECK(gex_AD_OpNBI_U64(shared_ad, &fetched[i % 8], 0, &shared_cells[2], GEX_OP_FXOR,
                               (uint64_t)1 << (i % 64), 0, 0) == 0);
        if (i % 8 == 7) gex_NBI_Wait(GEX_EC_RMW, 0);
    }
    gex_NBI_Wait(GEX_EC_ALL, 0);
    return NULL;
}

static void run_threads(void)
{
    pthread_t ids[THREADS];
    uint64_t last[3];
    int i;
    gex_AD_Create(&shared_ad, job.tm, GEX_DT_U64,
                  GEX_OP_FADD | GEX_OP_SUB | GEX_OP_FXOR | GEX_OP_SET | GEX_OP_GET, 0);
    shared_cells = (uint64_t *)(void *)(job_at(0, 0) + 16 * CELLS);
    for (i = 0; i < 3 && job.rank == 0; i++)
        gex_Event_Wait(gex_AD_OpNB_U64(shared_ad, NULL, 0, &shared_cells[i], GEX_OP_SET, 0, 0, 0));
    job_barrier();
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_create(&ids[i], NULL, thread_steps, NULL) == 0);
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_join(ids[i], NULL) == 0);
    job_barrier();
    for (i = 0; i < 3; i++)
        gex_Event_Wait(
            gex_AD_OpNB_U64(shared_ad, &last[i], 0, &shared_cells[i], GEX_OP_GET, 0, 0, 0));
    CHECK_EQUAL(last[0], job.size * THREADS * THREAD_STEPS);
    CHECK_EQUAL(last[1], 0 - (uint64_t)3 * job.size * THREADS * THREAD_STEPS);
    CHECK_EQUAL(last[2], 0); /* an even number of toggles of each bit, as there are four threads */
    job_barrier();
    gex_AD_Destroy(shared_ad);
}
#endif

int main(int argc, char **argv)
{
    job_open(&argc, &argv, 64 * GASNET_PAGESIZE);
    draw_seed(job.rank);
    CHECK(job.size <= CELLS);
    run_I32();
    run_U32();
    run_I64();
    run_U64();
    run_FLT();
    run_DBL();
    run_team();
#if defined(GASNET_PAR)
    run_threads();
#endif
    job_barrier();
    gasnet_exit(0);
}
