/*
 * The barrier of GASNet-1: names, anonymous barriers and mismatches at notify and at wait, drawn at
 * random for each process and compared with the arguments of the others; on all processes and on a
 * split team, while barriers of GASNet-EX are in progress.
 */
#include <gasnet.h>

#include <gasnet_coll.h>

#include "draw.h"

enum { ROUNDS = 150, MOST = 64 };

static const int kinds[] = {0, GASNET_BARRIERFLAG_ANONYMOUS, GASNET_BARRIERFLAG_MISMATCH,
                            GASNET_BARRIERFLAG_UNNAMED};

/* The arguments of one process. Each process draws those of all, and so knows them. */
struct drawn {
    int id, flags, wait_id, wait_flags;
};

static void draw_all(struct drawn *drawn, gex_Rank_t size)
{
    /* In most rounds, processes differ in a single respect; otherwise nothing would ever match. */
    int style = (int)draw_below(6), id = (int)draw_below(3) - 1;
    gex_Rank_t i;
    for (i = 0; i < size; i++) {
        struct drawn *d = &drawn[i];
        d->id = style == 1 ? (int)draw_below(2) : id;
        d->flags = style == 2 ? kinds[draw_below(2)] : 0;
        if (style == 3) d->flags = GASNET_BARRIERFLAG_UNNAMED;
        if (style == 4) d->flags = kinds[draw_below(3)];
        if (style == 5) d->flags = GASNET_BARRIERFLAG_ANONYMOUS;
        d->wait_id = draw_below(4) == 0 ? d->id + 1 : d->id;
        d->wait_flags = draw_below(3) == 0 && style != 3 ? GASNET_BARRIERFLAG_ANONYMOUS : d->flags;
        if (d->flags == GASNET_BARRIERFLAG_ANONYMOUS && draw_below(2) == 0) d->wait_flags = 0;
    }
}

/* Returns 1 on a mismatch. Sets `*named` if some process gave a name, and `*id` to that name. */
static int mismatched(const struct drawn *drawn, gex_Rank_t size, int *named, int *id)
{
    int bad = 0;
    gex_Rank_t i;
    *named = 0;
    for (i = 0; i < size; i++) {
        if (drawn[i].flags == GASNET_BARRIERFLAG_MISMATCH) bad = 1;
        if (drawn[i].flags != 0) continue;
        if (*named && *id != drawn[i].id) bad = 1;
        *id = drawn[i].id;
        *named = 1;
    }
    return bad;
}

static void one_round(gasnet_team_handle_t team, unsigned round)
{
    gex_Rank_t size = gex_TM_QuerySize(team), me = gex_TM_QueryRank(team);
    static struct drawn drawn[MOST];
    struct drawn mine;
    int named, id = 0, got, agreed = 0, world = team == GASNET_TEAM_ALL;
    int bad, own;
    draw_all(drawn, size);
    mine = drawn[me];
    bad = mismatched(drawn, size, &named, &id);
    own = named && mine.wait_flags == 0 && id != mine.wait_id;
    if (world && round % 4 == 0 && mine.wait_id == mine.id && mine.wait_flags == mine.flags) {
        got = gasnet_barrier(mine.id, mine.flags);
    } else if (world) {
        gasnet_barrier_notify(mine.id, mine.flags);
        do
            got = round % 2 ? gasnet_barrier_try(mine.wait_id, mine.wait_flags)
                            : gasnet_barrier_wait(mine.wait_id, mine.wait_flags);
        while (got == GASNET_ERR_NOT_READY);
    } else {
        gasnet_coll_barrier_notify(team, mine.id, mine.flags);
        do
            got = round % 2 ? gasnet_coll_barrier_try(team, mine.wait_id, mine.wait_flags)
                            : gasnet_coll_barrier_wait(team, mine.wait_id, mine.wait_flags);
        while (got == GASNET_ERR_NOT_READY);
    }
    CHECK_EQUAL(got, bad || own ? GASNET_ERR_BARRIER_MISMATCH : GASNET_OK);
    if (bad) return;
    got = world ? gasnet_barrier_result(&agreed) : gasnet_coll_barrier_result(team, &agreed);
    CHECK_EQUAL(got == 0, named);
    if (named) CHECK_EQUAL(agreed, id);
}

int main(int argc, char **argv)
{
    gex_TM_t half;
    unsigned round;
    CHECK_EQUAL(gasnet_init(&argc, &argv), GASNET_OK);
    CHECK_EQUAL(gasnet_attach(NULL, 0, GASNET_PAGESIZE, 0), GASNET_OK);
    gasnet_QueryGexObjects(&job.client, &job.ep, &job.tm, &job.segment);
    job_learn();
    CHECK(job.size <= MOST);
    (void)gex_TM_Split(&half, job.tm, (int)(job.rank % 2), -(int)job.rank, NULL, 0,
                       GEX_FLAG_TM_NO_SCRATCH);
    draw_seed(0); /* equal on all processes */
    for (round = 0; round < ROUNDS; round++)
        one_round(job.tm, round);
    draw_seed(1000 + job.rank % 2);
    for (round = 0; round < ROUNDS; round++)
        one_round(half, round);
    for (round = 0; round < ROUNDS; round++) {
        gex_Event_t events[8];
        unsigned i;
        for (i = 0; i < 8; i++)
            events[i] = gex_Coll_BarrierNB(i % 2 ? half : job.tm, 0);
        gex_Event_WaitAll(events, 8, 0);
        CHECK_EQUAL(gasnet_barrier((int)round, 0), GASNET_OK);
    }
    CHECK_EQUAL(gex_TM_Destroy(half, NULL, 0), 0);
    gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_exit(0);
}
