/*
 * Addresses given as offsets into segments: transfers, scattered transfers, atomics and the scratch
 * memory of teams with GEX_FLAG_SELF_SEG_OFFSET, GEX_FLAG_PEER_SEG_OFFSET and both.
 */
#include <gasnetex.h>

#include <gasnet_ratomic.h>
#include <gasnet_vis.h>

#include "support.h"

enum { SELF = GEX_FLAG_SELF_SEG_OFFSET, PEER = GEX_FLAG_PEER_SEG_OFFSET };
enum { HERE = 0, THERE = 4096, BACK = 8192, WORD = 3 * 4096, LEN = 777, AREA = 4 * 4096 };

static void *offset(size_t at)
{
    return (void *)(uintptr_t)at;
}

/* In the form that the flags require: an address of ours, and of the next rank. */
static void *ours(size_t at, gex_Flags_t flags)
{
    return flags & SELF ? offset(at) : job.base + at;
}

static void *theirs(size_t at, gex_Flags_t flags)
{
    return flags & PEER ? offset(at) : job_at(job.next, at);
}

static void reset(unsigned seed)
{
    job_barrier();
    memset(job.base, 0, AREA);
    fill(job.base + HERE, LEN, seed);
    job_barrier();
}

static void returned(unsigned seed)
{
    job_barrier();
    CHECK(filled(job.base + THERE, LEN, seed) && filled(job.base + BACK, LEN, seed));
}

static void plain(gex_Flags_t flags, unsigned seed, int form)
{
    void *here = ours(HERE, flags), *back = ours(BACK, flags), *there = theirs(THERE, flags);
    reset(seed);
    if (form == 0) {
        CHECK_EQUAL(gex_RMA_PutBlocking(job.tm, job.next, there, here, LEN, flags), 0);
        CHECK_EQUAL(gex_RMA_GetBlocking(job.tm, back, job.next, there, LEN, flags), 0);
    } else if (form == 1) {
        gex_Event_Wait(gex_RMA_PutNB(job.tm, job.next, there, here, LEN, GEX_EVENT_DEFER, flags));
        gex_Event_Wait(gex_RMA_GetNB(job.tm, back, job.next, there, LEN, flags));
    } else {
        CHECK_EQUAL(gex_RMA_PutNBI(job.tm, job.next, there, here, LEN, GEX_EVENT_NOW, flags), 0);
        gex_NBI_Wait(GEX_EC_PUT, 0);
        CHECK_EQUAL(gex_RMA_GetNBI(job.tm, back, job.next, there, LEN, flags), 0);
        gex_NBI_Wait(GEX_EC_GET, 0);
    }
    returned(seed);
    if (flags & SELF) return;
    there = theirs(WORD, flags);
    if (form == 0) CHECK_EQUAL(gex_RMA_PutBlockingVal(job.tm, job.next, there, seed, 8, flags), 0);
    if (form == 1) gex_Event_Wait(gex_RMA_PutNBVal(job.tm, job.next, there, seed, 8, flags));
    if (form == 2) CHECK_EQUAL(gex_RMA_PutNBIVal(job.tm, job.next, there, seed, 8, flags), 0);
    gex_NBI_Wait(GEX_EC_PUT, 0);
    CHECK_EQUAL(gex_RMA_GetBlockingVal(job.tm, job.next, there, 8, flags), seed);
}

static void finish(gex_Event_t event)
{
    CHECK(event != GEX_EVENT_NO_OP);
    gex_Event_Wait(event);
}

/* Each kind of transfer in each form; PUT and GET are macro parameters. */
#define FORMS(form, KIND, PUT, GET)                                                                \
    do {                                                                                           \
        if ((form) == 0) {                                                                         \
            CHECK_EQUAL(gex_VIS_##KIND##PutBlocking PUT, 0);                                       \
            CHECK_EQUAL(gex_VIS_##KIND##GetBlocking GET, 0);                                       \
        } else if ((form) == 1) {                                                                  \
            finish(gex_VIS_##KIND##PutNB PUT);                                                     \
            finish(gex_VIS_##KIND##GetNB GET);                                                     \
        } else {                                                                                   \
            CHECK_EQUAL(gex_VIS_##KIND##PutNBI PUT, 0);                                            \
            gex_NBI_Wait(GEX_EC_PUT, 0);                                                           \
            CHECK_EQUAL(gex_VIS_##KIND##GetNBI GET, 0);                                            \
            gex_NBI_Wait(GEX_EC_GET, 0);                                                           \
        }                                                                                          \
    } while (0)

static void scattered(gex_Flags_t flags, unsigned seed, int form)
{
    enum { CUT = 100 };
    void *here = ours(HERE, flags), *back = ours(BACK, flags), *there = theirs(THERE, flags);
    gex_Memvec_t src[2], dst[2], land[1];
    void *srcs[1], *dsts[7], *lands[1];
    ptrdiff_t row = 111;
    size_t count = 7;
    int i;
    src[0].gex_addr = here;
    src[0].gex_len = CUT;
    src[1].gex_addr = ours(HERE + CUT, flags);
    src[1].gex_len = LEN - CUT;
    dst[0].gex_addr = there;
    dst[0].gex_len = LEN - 1;
    dst[1].gex_addr = theirs(THERE + LEN - 1, flags);
    dst[1].gex_len = 1;
    land[0].gex_addr = back;
    land[0].gex_len = LEN;
    reset(seed);
    FORMS(form, Vector, (job.tm, job.next, 2, dst, 2, src, flags),
          (job.tm, 1, land, job.next, 2, dst, flags));
    returned(seed);
    srcs[0] = here;
    lands[0] = back;
    for (i = 0; i < 7; i++)
        dsts[i] = theirs(THERE + 111 * (size_t)i, flags);
    reset(seed + 1);
    FORMS(form, Indexed, (job.tm, job.next, 7, dsts, 111, 1, srcs, LEN, flags),
          (job.tm, 1, lands, LEN, job.next, 7, dsts, 111, flags));
    returned(seed + 1);
    reset(seed + 2);
    FORMS(form, Strided, (job.tm, job.next, there, &row, here, &row, 111, &count, 1, flags),
          (job.tm, back, &row, job.next, there, &row, 111, &count, 1, flags));
    returned(seed + 2);
}

static void atomics(gex_AD_t ad, gex_Flags_t flags)
{
    uint64_t *result = (uint64_t *)ours(BACK, flags);
    uint64_t *got = (uint64_t *)(void *)(job.base + BACK);
    reset(1);
    finish(gex_AD_OpNB_U64(ad, result, job.next, theirs(WORD, flags), GEX_OP_FADD, 5, 0, flags));
    CHECK_EQUAL(*got, 0);
    CHECK_EQUAL(
        gex_AD_OpNBI_U64(ad, result, job.next, theirs(WORD, flags), GEX_OP_FADD, 5, 0, flags), 0);
    gex_NBI_Wait(GEX_EC_RMW, 0);
    CHECK_EQUAL(*got, 5);
    job_barrier();
    memcpy(got, job.base + WORD, sizeof(*got));
    CHECK_EQUAL(*got, 10);
}

static void scratch(void)
{
    gex_TM_t team;
    gex_Memvec_t given;
    (void)gex_TM_Split(&team, job.tm, 0, 0, offset(WORD), 4096, GEX_FLAG_SCRATCH_SEG_OFFSET);
    CHECK(gex_TM_Destroy(team, &given, 0) != 0);
    CHECK(given.gex_addr == job.base + WORD && given.gex_len == 4096);
}

int main(int argc, char **argv)
{
    static const gex_Flags_t flags[] = {0, SELF, PEER, SELF | PEER};
    gex_AD_t ad;
    unsigned i;
    int form;
    job_open(&argc, &argv, AREA);
    gex_AD_Create(&ad, job.tm, GEX_DT_U64, GEX_OP_FADD, 0);
    for (i = 0; i < COUNT_OF(flags); i++) {
        for (form = 0; form < 3; form++) {
            plain(flags[i], i * 10, form);
            scattered(flags[i], i * 10 + 3, form);
        }
        atomics(ad, flags[i]);
    }
    gex_AD_Destroy(ad);
    scratch();
    job_barrier();
    gasnet_exit(0);
}
