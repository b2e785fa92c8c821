/*
 * Members of a team start different collectives, or the same one with different sizes or roots, or
 * use a team that others destroy: the job ends with an error that names both calls, and nothing
 * hangs.
 */
#include "../../job/harness.h"

#include <stdlib.h>
#include <string.h>

static const struct pair {
    const char *first, *second; /* as tests/core/coll/differ.c takes them */
    const char *names[2];       /* in the error */
} pairs[] = {
    {"broadcast", "reduce", {"aq_coll_broadcast of 8 bytes", "aq_coll_reduce of 8 bytes"}},
    {"broadcast", "barrier", {"aq_coll_broadcast", "aq_barrier"}},
    {"barrier", "alltoall", {"aq_barrier", "aq_coll_alltoall"}},
    {"reduce", "barrier_nb", {"aq_coll_reduce", "aq_barrier_nb"}},
    /* With events instead of blocking calls. */
    {"barrier", "allreduce_nb", {"aq_barrier", "aq_coll_allreduce"}},
    {"allreduce_nb", "barrier", {"aq_coll_allreduce", "aq_barrier"}},
    {"barrier", "broadcast_all", {"aq_barrier", "aq_barrier_nb"}},
    {"broadcast:8", "broadcast:16", {"broadcast of 8 bytes", "broadcast of 16 bytes"}},
    {"broadcast:8", "broadcast:20000", {"of 8 bytes", "of 20000 bytes"}},
    {"rooted:0", "rooted:1", {"with root 0", "with root 1"}},
    {"allreduce", "maximum", {"AQ_TYPE_I64, AQ_OP_ADD", "AQ_TYPE_I64, AQ_OP_MAX"}},
    {"gather", "gatherv", {"aq_coll_gather of 8 bytes", "aq_coll_gatherv"}},
    {"allgatherv:8", "allgatherv:16", {"aq_coll_allgatherv", "the same root, sizes"}},
    {"gather", "scatter", {"aq_coll_gather", "aq_coll_scatter"}},
    {"scatter", "gather", {"aq_coll_scatter", "aq_coll_gather"}},
    {"gather:40000", "scatter:40000", {"aq_coll_gather of 40000", "aq_coll_scatter of 40000"}},
    {"barrier", "split", {"aq_barrier", "a call that creates teams"}},
    {"barrier", "destroy", {"aq_barrier", "aq_team_destroy"}},
    {"destroy", "allreduce", {"aq_team_destroy", "aq_coll_allreduce"}},
    {"all", "finalize", {"aq_barrier", "in aq_finalize"}},
    {"finalize", "all", {"in aq_finalize", "aq_barrier"}},
    {"all", "attach", {"in aq_barrier", "in aq_segment_attach"}},
    {"attach", "finalize", {"in aq_segment_attach", "in aq_finalize"}},
    {"all_sum", "finalize", {"aq_coll_allreduce", "in aq_finalize"}},
    {"finalize", "all_sum", {"in aq_finalize", "aq_coll_allreduce"}},
};

static void run_pair(const char *ranks, const char *set, const struct pair *pair)
{
    struct run run;
    print_message("%s ranks, %s: %s and %s\n", ranks, set, pair->first, pair->second);
    job_run(&run, "-n", ranks, "-E", set, CORE_DIFFER, pair->first, pair->second);
    expect_code(&run, 1);
    expect_text(&run, ERR, "are in different collectives: its rank ");
    expect_text(&run, ERR, pair->names[0]);
    expect_text(&run, ERR, pair->names[1]);
    run_free(&run);
}

/* Each world runs a third of the pairs, and the next world the next third. With "all", each runs
 * all. */
static bool all;
static size_t world;

static bool in_this_world(size_t pair)
{
    return all || (pair + world) % 3 == 0;
}

static void run_pairs(const char *ranks, const char *set)
{
    world++;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (in_this_world(i)) run_pair(ranks, set, &pairs[i]);
}

/* Each member checks all others. */
static void test_few(void **state)
{
    (void)state;
    run_pairs("3", "AQ_WAIT=auto");
}

/* Many members, on few cores: members only count matches. */
static void test_many(void **state)
{
    (void)state;
    run_pairs("17", "AQ_WAIT=auto");
}

static void test_messages(void **state)
{
    (void)state;
    run_pairs("3", "AQ_SHM_MAP=no");
    run_pairs("2", "AQ_FAULT=hide=map,again=30,late=5");
}

/*
 * Barriers by remote writes. Mismatches are detected by questions in messages, and by words in
 * memory.
 */
static void test_written(void **state)
{
    (void)state;
    setenv("AQ_BARRIER", "writes", 1);
    run_pairs("3", "AQ_COLL_SCRATCH=0");
    unsetenv("AQ_BARRIER");
}

/* Mismatches in the parts of collectives, in each neighborhood and between them. */
static void test_neighborhoods(void **state)
{
    (void)state;
    world++;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct run run;
        if (!in_this_world(i)) continue;
        job_run(&run, "-n", "5", "-E", "AQ_NEIGHBORHOOD=2", CORE_DIFFER, pairs[i].first,
                pairs[i].second);
        expect_code(&run, 1);
        expect_text(&run, ERR, "are in different collectives: its rank ");
        run_free(&run);
    }
}

/* If deaths could be the cause, the calls fail instead. */
static void test_survivors(void **state)
{
    (void)state;
    static const char *const sets[] = {"AQ_WAIT=auto", "AQ_SHM_MAP=no"};
    for (size_t i = 0; i < 2; i++) {
        struct run run;
        job_run(&run, "-n", "3", "--survive", "-E", sets[i], CORE_DIFFER, "all", "finalize");
        expect_text(&run, ERR, "members of the team are in different collectives");
        run_free(&run);
        job_run(&run, "-n", "3", "--survive", "-E", sets[i], CORE_DIFFER, "finalize", "all_sum");
        expect_text(&run, ERR, "members of the team are in different collectives");
        run_free(&run);
    }
}

/* The first member that reports the mismatch and leaves ends those that still wait for it in the
 * final barrier: in memory, by messages, and between neighborhoods. */
static void test_leave_after_failure(void **state)
{
    static const char *const sets[] = {"AQ_WAIT=auto", "AQ_SHM_MAP=no", "AQ_NEIGHBORHOOD=2",
                                       "AQ_BARRIER=writes"};
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        struct run run;
        job_run(&run, "-n", i < 4 ? "3" : "5", "--survive", "--timeout", "60s", "-E", sets[i % 4],
                CORE_DIFFER, "finalize", "sum_then_finalize");
        expect_code(&run, 0);
        expect_text(&run, ERR, "in different collectives: its rank ");
        run_free(&run);
    }
}

static void test_progress_thread(void **state)
{
    (void)state;
    run_pairs("2", "AQ_PROGRESS_THREAD=yes");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_written),
        cmocka_unit_test(test_neighborhoods),
        cmocka_unit_test(test_survivors),
        cmocka_unit_test(test_leave_after_failure),
        cmocka_unit_test(test_progress_thread),
    };
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    return cmocka_run_group_tests_name("differ", tests, NULL, NULL);
}
