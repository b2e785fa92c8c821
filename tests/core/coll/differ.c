/*
 * Members of a team that are not in the same collective; started by differ_test. Usage: differ
 * FIRST SECOND. The last rank calls SECOND while the others call FIRST, and then all call barriers.
 * An operation is a name, possibly followed by ":root" or ":bytes".
 */
#include "../support.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 40000 };
static unsigned char in[64 * MOST], out[64 * MOST];
static aq_team *team;

static void do_operation(const char *what)
{
    const char *colon = strchr(what, ':');
    size_t number = colon != NULL ? strtoul(colon + 1, NULL, 10) : 8, name = strcspn(what, ":");
    aq_event ev;
#define IS(text) (strlen(text) == name && memcmp(what, text, name) == 0)
    CHECK(number <= MOST);
    if (IS("barrier")) CHECK_OK(aq_barrier(team));
    if (IS("barrier_nb")) {
        CHECK_OK(aq_barrier_nb(team, 0, &ev));
        CHECK_OK(aq_event_wait(&ev, AQ_FOREVER));
    }
    if (IS("allreduce_nb")) {
        CHECK_OK(aq_coll_allreduce_nb(team, out, in, number / 8, AQ_TYPE_I64, AQ_OP_ADD, 0, &ev));
        CHECK_OK(aq_event_wait(&ev, AQ_FOREVER));
    }
    if (IS("broadcast_all")) {
        aq_event two[2];
        CHECK_OK(aq_coll_broadcast_nb(team, 0, out, in, number, AQ_COLL_IN_ALL, &two[0]));
        CHECK_OK(aq_coll_broadcast_nb(team, 0, out, in, number, 0, &two[1]));
        CHECK_OK(aq_event_wait_all(two, 2, AQ_FOREVER));
    }
    if (IS("broadcast")) CHECK_OK(aq_coll_broadcast(team, 0, out, in, number, 0));
    if (IS("rooted")) CHECK_OK(aq_coll_broadcast(team, (aq_rank)number, out, in, 8, 0));
    if (IS("reduce"))
        CHECK_OK(aq_coll_reduce(team, 0, out, in, number / 8, AQ_TYPE_I64, AQ_OP_ADD, 0));
    if (IS("allreduce"))
        CHECK_OK(aq_coll_allreduce(team, out, in, number / 8, AQ_TYPE_I64, AQ_OP_ADD, 0));
    if (IS("maximum"))
        CHECK_OK(aq_coll_allreduce(team, out, in, number / 8, AQ_TYPE_I64, AQ_OP_MAX, 0));
    if (IS("gather")) CHECK_OK(aq_coll_gather(team, 0, out, in, number, 0));
    if (IS("gatherv")) {
        size_t counts[64] = {0}, offsets[64] = {0};
        CHECK_OK(aq_coll_gatherv(team, 0, out, counts, offsets, in, 0, 0));
    }
    if (IS("allgatherv")) {
        size_t counts[64] = {number}, offsets[64] = {0};
        CHECK_OK(aq_coll_allgatherv(team, out, counts, offsets, in, 0));
    }
    if (IS("scatter")) CHECK_OK(aq_coll_scatter(team, 0, out, in, number, 0));
    if (IS("alltoall")) CHECK_OK(aq_coll_alltoall(team, out, in, number, 0));
    if (IS("split")) {
        aq_team *half;
        CHECK_OK(aq_team_split(team, 0, 0, 0, &half));
    }
    if (IS("destroy")) CHECK_OK(aq_team_destroy(team));
    if (IS("destroy")) team = job.team;
    if (IS("all")) CHECK_OK(aq_barrier(job.team));
    if (IS("attach")) {
        aq_segment *segment;
        CHECK_OK(aq_segment_attach(job.team, 4096, &segment));
    }
    if (IS("all_sum")) CHECK_OK(aq_coll_allreduce(job.team, out, in, 1, AQ_TYPE_I64, AQ_OP_ADD, 0));
    if (IS("sum_then_finalize"))
        CHECK_STATUS(aq_coll_allreduce(job.team, out, in, 1, AQ_TYPE_I64, AQ_OP_ADD, 0), AQ_EPEER);
    if (IS("finalize") || IS("sum_then_finalize")) {
        (void)aq_finalize();
        exit(0); /* a job with one rank fewer would not notice the exit */
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    job_open(AQ_THREAD_SINGLE, 0);
    CHECK_OK(aq_team_split(job.team, 0, 0, 0, &team));
    do_operation(job.self + 1 == job.size ? argv[2] : argv[1]);
    for (;;)
        do_operation("barrier");
}
