/* Puts, gets, values, events, implicit operations and access regions of GASNet-EX. */
#include <gasnetex.h>

#include "support.h"

enum { AREA = 1 << 20 };
static char *out, *in;
static const size_t sizes[] = {0, 1, 2, 3, 4, 7, 8, 9, 16, 63, 64, 1000, 4096, 65537, AREA};

/* The target at the next rank, at an odd address, and the data from the previous one here. */
static char *there(void)
{
    return job_at(job.next, 1);
}

static char *here(void)
{
    return job.base + 1;
}

/* Check the data after all ranks have written, and return when all have checked. */
static void check_here(size_t len, unsigned seed)
{
    job_barrier();
    CHECK(filled(here(), len, seed + job.previous));
    job_barrier();
}

static void test_blocking(size_t len, unsigned seed)
{
    fill(out, len, seed + job.rank);
    CHECK_EQUAL(gex_RMA_PutBlocking(job.tm, job.next, there(), out, len, 0), 0);
    check_here(len, seed);
    memset(in, 0, len);
    CHECK_EQUAL(gex_RMA_GetBlocking(job.tm, in, job.next, there(), len, 0), 0);
    CHECK(filled(in, len, seed + job.rank));
    job_barrier();
}

static void test_explicit(size_t len, unsigned seed)
{
    gex_Event_t *const lc_opts[] = {GEX_EVENT_NOW, GEX_EVENT_DEFER};
    size_t i;
    for (i = 0; i < COUNT_OF(lc_opts); i++) {
        gex_Event_t event;
        fill(out, len, seed + job.rank);
        event = gex_RMA_PutNB(job.tm, job.next, there(), out, len, lc_opts[i], 0);
        CHECK(event != GEX_EVENT_NO_OP);
        if (lc_opts[i] == GEX_EVENT_NOW) fill(out, len, 99); /* may be reused already */
        gex_Event_Wait(event);
        check_here(len, seed);
    }
}

/* The event of local completion, obtained in every way, and again after it is complete. */
static void test_leaf(size_t len, unsigned seed)
{
    gex_Event_t root, leaf = GEX_EVENT_NO_OP, queried, both[3];
    fill(out, len, seed + job.rank);
    root = gex_RMA_PutNB(job.tm, job.next, there(), out, len, &leaf, 0);
    CHECK(leaf != GEX_EVENT_NO_OP);
    queried = gex_Event_QueryLeaf(root, GEX_EC_LC);
    CHECK(queried == leaf || queried == GEX_EVENT_INVALID);
    gex_Event_Wait(leaf);
    CHECK_EQUAL(gex_Event_Test(leaf), GASNET_OK);
    gex_Event_Wait(queried);
    CHECK(gex_Event_QueryLeaf(root, GEX_EC_LC) == GEX_EVENT_INVALID);
    both[0] = leaf;
    both[1] = GEX_EVENT_INVALID;
    both[2] = queried;
    CHECK_EQUAL(gex_Event_TestAll(both, 3, 0), GASNET_OK);
    CHECK(both[0] == GEX_EVENT_INVALID && both[2] == GEX_EVENT_INVALID);
    fill(out, len, 99);
    both[0] = leaf;
    both[1] = root;
    gex_Event_WaitAll(both, 2, 0);
    CHECK(both[0] == GEX_EVENT_INVALID && both[1] == GEX_EVENT_INVALID);
    check_here(len, seed);
}

static void test_gets(size_t len, unsigned seed)
{
    gex_Event_t events[4];
    int left = 1, i;
    fill(job.base + 1, len, seed + job.rank);
    job_barrier();
    for (i = 0; i < 4; i++) {
        events[i] = GEX_EVENT_INVALID;
        if (i != 2) events[i] = gex_RMA_GetNB(job.tm, in, job.next, there(), len, 0);
        if (i == 0) gex_Event_Wait(events[i]), events[i] = GEX_EVENT_INVALID;
    }
    while (left) {
        gex_Event_WaitSome(events, 4, 0);
        for (left = 0, i = 0; i < 4; i++)
            left |= events[i] != GEX_EVENT_INVALID;
    }
    CHECK_EQUAL(gex_Event_TestSome(events, 4, 0), GASNET_OK);
    CHECK_EQUAL(gex_Event_TestAll(events, 0, 0), GASNET_OK);
    CHECK(filled(in, len, seed + job.next));
    job_barrier();
}

static void test_implicit(size_t len, unsigned seed)
{
    gex_Event_t *const lc_opts[] = {GEX_EVENT_NOW, GEX_EVENT_DEFER, GEX_EVENT_GROUP};
    size_t i;
    for (i = 0; i < COUNT_OF(lc_opts); i++) {
        fill(out, len, seed + job.rank);
        CHECK_EQUAL(gex_RMA_PutNBI(job.tm, job.next, there(), out, len, lc_opts[i], 0), 0);
        if (lc_opts[i] == GEX_EVENT_GROUP) gex_NBI_Wait(GEX_EC_LC, 0);
        if (lc_opts[i] != GEX_EVENT_DEFER) fill(out, len, 99);
        gex_NBI_Wait(GEX_EC_PUT, 0);
        check_here(len, seed);
    }
    memset(in, 0, len);
    CHECK_EQUAL(gex_RMA_GetNBI(job.tm, in, job.next, there(), len, 0), 0);
    while (gex_NBI_Test(GEX_EC_GET, 0) != GASNET_OK)
        CHECK_EQUAL(gasnet_AMPoll(), GASNET_OK);
    CHECK(filled(in, len, seed + job.rank));
    CHECK_EQUAL(gex_NBI_Test(GEX_EC_ALL, 0), GASNET_OK);
    job_barrier();
}

static void test_region(size_t len, unsigned seed)
{
    gex_Event_t event;
    gex_NBI_BeginAccessRegion(0);
    event = gex_NBI_EndAccessRegion(0);
    gex_Event_Wait(event);
    fill(out, len, seed + job.rank);
    gex_NBI_BeginAccessRegion(0);
    CHECK_EQUAL(gex_RMA_PutNBI(job.tm, job.next, there(), out, len, GEX_EVENT_GROUP, 0), 0);
    CHECK_EQUAL(gex_RMA_PutNBIVal(job.tm, job.next, job_at(job.next, AREA + 64), seed, 4, 0), 0);
    event = gex_NBI_EndAccessRegion(0);
    gex_Event_Wait(gex_Event_QueryLeaf(event, GEX_EC_LC));
    fill(out, len, 99);
    gex_Event_Wait(gex_Event_QueryLeaf(event, GEX_EC_GET));
    gex_Event_Wait(gex_Event_QueryLeaf(event, GEX_EC_PUT));
    gex_Event_Wait(event);
    CHECK_EQUAL(gex_RMA_GetBlockingVal(job.tm, job.next, job_at(job.next, AREA + 64), 4, 0), seed);
    check_here(len, seed);
}

static void test_values(void)
{
    const gex_RMA_Value_t value = 0xf1e2d3c4b5a69788u;
    size_t len;
    for (len = 1; len <= SIZEOF_GEX_RMA_VALUE_T; len++) {
        gex_RMA_Value_t want = len == 8 ? value : value & (((gex_RMA_Value_t)1 << (8 * len)) - 1);
        char *at = job_at(job.next, AREA + 128 + 3);
        int form;
        for (form = 0; form < 3; form++) {
            memset(job.base + AREA + 128, 0x55, 16);
            job_barrier();
            if (form == 0)
                CHECK_EQUAL(gex_RMA_PutBlockingVal(job.tm, job.next, at, value, len, 0), 0);
            if (form == 1) {
                CHECK_EQUAL(gex_RMA_PutNBIVal(job.tm, job.next, at, value, len, 0), 0);
                gex_NBI_Wait(GEX_EC_PUT, 0);
            }
            if (form == 2) gex_Event_Wait(gex_RMA_PutNBVal(job.tm, job.next, at, value, len, 0));
            CHECK(gex_RMA_GetBlockingVal(job.tm, job.next, at, len, 0) == want);
            job_barrier();
            CHECK(job.base[AREA + 128 + 2] == 0x55 && job.base[AREA + 128 + 3 + len] == 0x55);
            job_barrier();
        }
    }
}

/* Each argument is evaluated exactly once; a team and a pair name the same memory. */
static void test_arguments(void)
{
    gex_TM_t pair = gex_TM_Pair(job.ep, 0);
    int n = 0;
    char *at[2];
    at[0] = job_at(job.next, 64);
    at[1] = NULL;
    CHECK(pair != job.tm && pair == gex_TM_Pair(job.ep, 0));
    out[0] = 42;
    CHECK_EQUAL(gex_RMA_PutBlocking(pair, job.next, at[n++], out, 1, 0), 0);
    CHECK_EQUAL(n, 1);
    CHECK_EQUAL(gex_RMA_GetBlockingVal(job.tm, job.next, at[--n], 1, 0), 42);
    gex_Event_Wait(gex_RMA_PutNB(pair, job.next, at[0], out, 1, GEX_EVENT_NOW,
                                 GEX_FLAG_SELF_SEG_BOUND | GEX_FLAG_PEER_SEG_BOUND));
    job_barrier();
}

/*
 * Many operations at once, also in immediate mode: each is started or refused, and those started
 * complete.
 */
static void test_storm(void)
{
    enum { EACH = 64, ROUNDS = 200 };
    gex_Event_t events[EACH];
    unsigned round, i;
    for (round = 0; round < ROUNDS; round++) {
        fill(out, EACH * 64, round + job.rank);
        for (i = 0; i < EACH; i++)
            do
                events[i] = gex_RMA_PutNB(job.tm, job.next, there() + i * 64, out + i * 64, 64,
                                          GEX_EVENT_DEFER, i % 2 ? GEX_FLAG_IMMEDIATE : 0);
            while (events[i] == GEX_EVENT_NO_OP && gasnet_AMPoll() == GASNET_OK);
        gex_Event_WaitAll(events, EACH, 0);
        check_here(EACH * 64, round);
    }
}

int main(int argc, char **argv)
{
    size_t i;
    job_open(&argc, &argv, 2 * AREA);
    out = (char *)malloc(AREA);
    in = (char *)malloc(AREA);
    for (i = 0; i < COUNT_OF(sizes); i++) {
        unsigned seed = (unsigned)i * 100;
        test_blocking(sizes[i], seed);
        test_explicit(sizes[i], seed + 1);
        test_leaf(sizes[i], seed + 2);
        test_gets(sizes[i], seed + 3);
        test_implicit(sizes[i], seed + 4);
        test_region(sizes[i], seed + 5);
    }
    test_values();
    test_arguments();
    test_storm();
    job_barrier();
    free(out);
    free(in);
    gasnet_exit(0);
}
