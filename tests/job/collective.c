/* Collective calls of the bootstrap: allgather, share, and how they fail. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

static void gather(const char *ranks, const char *step)
{
    struct run run;
    job_run(&run, "-n", ranks, JOB_CLIENT, "open", step, "barrier", step, "finalize", "close");
    expect_code(&run, 0);
    run_free(&run);
}

static void test_allgather(void **state)
{
    (void)state;
    gather("2", "gather=0");
    gather("3", "gather=1");
    gather("4", "gather=32768");
    gather("4", "gather=32769");
    gather("3", "gather=1048576");
    gather("32", "gather=512");
}

/* More than a socket holds, to more ranks than cores. */
static void test_big_allgather(void **state)
{
    (void)state;
    gather("256", "gather=512");
}

static void test_share(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "8", JOB_CLIENT, "open", "share=1000000", "share=8", "finalize");
    expect_code(&run, 0);
    run_free(&run);
}

static void test_share_of_nothing(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "2", JOB_CLIENT, "open", "share=0");
    expect_code(&run, 3);
    expect_text(&run, OUT, "share: AQ_");
    expect_text(&run, OUT, "of 0 bytes");
    run_free(&run);
}

static void test_ranks_that_disagree(void **state)
{
    (void)state;
    static const struct {
        const char *one, *other, *text;
    } cases[] = {
        {"gather=8@0?", "gather=16@1?", "allgather of 16 bytes"},
        {"gather=8@0?", "barrier@1?", "allgather of 0 bytes"},
        {"gather=8@0?", "share=8@1?", "share of 8 bytes as \"test\""},
        {"share=4096@0?", "share=8192@1?", "share of 8192 bytes as \"test\""},
        {"gather=100000@0?", "gather=100@1?", "allgather of 100 bytes"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct run run;
        /* Later calls fail too, and no rank dies unless it decides to. */
        job_run(&run, "-n", "2", JOB_CLIENT, "open", "barrier", cases[i].one, cases[i].other,
                "barrier?", "finalize");
        expect_code(&run, 0);
        expect_text(&run, OUT, "AQ_EMISMATCH: the ranks disagree in aq_init: rank");
        expect_text(&run, OUT, cases[i].text);
        expect_count(&run, OUT, "barrier: AQ_EMISMATCH: an earlier exchange", 2);
        run_free(&run);
    }
}

/* A rank that has left will not call: the others must not wait for a timeout. */
static void test_a_rank_that_leaves(void **state)
{
    (void)state;
    static const char *const orders[][2] = {{"leaving@1", "gather=8@0"},
                                            {"gather=8@0", "leaving@1"}};
    for (size_t i = 0; i < 2; i++) {
        struct run run;
        job_run(&run, "-n", "3", JOB_CLIENT, "open", "barrier", "gather=8@2", orders[i][0],
                orders[i][1], "wait");
        expect_code(&run, 3);
        expect_text(&run, OUT,
                    "gather: AQ_EMISMATCH: the ranks disagree: rank 1 called aq_finalize");
        expect_text(&run, OUT, "reached aq_init");
        run_free(&run);
    }
}

static void test_a_rank_that_left(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "3", JOB_CLIENT, "open", "barrier", "finalize@1", "barrier@0", "barrier@2");
    expect_code(&run, 3);
    expect_text(&run, OUT, "barrier: AQ_EPEER: rank 1 has left the job");
    run_free(&run);
}

static void test_a_rank_that_dies_in_between(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "3", JOB_CLIENT, "open", "barrier", "signal=9@2", "gather=512?", "wait");
    expect_code(&run, 128 + 9);
    expect_count(&run, OUT, "gather: AQ_EPEER: rank 2 (pid ", 2);
    expect_count(&run, OUT, "event 1 of rank 2 with code 137", 2);
    expect_count(&run, ERR, "was killed by signal 9", 1);
    run_free(&run);
}

/* One rank does not read its result: the others must not wait for that. */
static void test_a_deaf_rank(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "4", "-E", "AQ_EXIT_TIMEOUT=2s", JOB_CLIENT, "open", "deaf=500000@3",
            "gather=500000?", "print=6", "end=5@0", "wait");
    expect_code(&run, 5);
    expect_count(&run, OUT, "6\n", 3);
    expect_count(&run, OUT, "gather: AQ_EPROTO",
                 3); /* it contributed zeros, not the data that the test expects */
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allgather),
        cmocka_unit_test(test_big_allgather),
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_share_of_nothing),
        cmocka_unit_test(test_ranks_that_disagree),
        cmocka_unit_test(test_a_rank_that_leaves),
        cmocka_unit_test(test_a_rank_that_left),
        cmocka_unit_test(test_a_rank_that_dies_in_between),
        cmocka_unit_test(test_a_deaf_rank),
    };
    return cmocka_run_group_tests_name("collective", tests, NULL, NULL);
}
