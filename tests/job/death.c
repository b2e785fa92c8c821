/*
 * Ends of ranks: which of them end the job, with which message and exit code, and how long it
 * takes.
 */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static void test_killed_ranks(void **state)
{
    (void)state;
    static const struct {
        const char *step;
        int code;
        const char *text;
    } cases[] = {
        {"signal=11@1", 139, "was killed by signal 11 (Segmentation fault); ending the job"},
        {"signal=9@1", 137, "was killed by signal 9 (Killed); ending the job"},
        {"signal=6@1", 134, "was killed by signal 6 (Aborted); ending the job"},
        {"signal=15@1", 143, "was killed by signal 15 (Terminated); ending the job"},
        {"signal=13@1", 141, "was killed by signal 13 (Broken pipe); ending the job"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct run run;
        job_run(&run, "-n", "3", JOB_CLIENT, "open", "barrier", cases[i].step, "wait");
        expect_code(&run, cases[i].code);
        expect_text(&run, ERR, "aqrun: rank 1 (pid ");
        expect_text(&run, ERR, "/job_client) was");
        expect_text(&run, ERR, cases[i].text);
        expect_count(&run, ERR, "\n", 1);
        expect_count(&run, OUT, "event 1 of rank 1 with code ", 2);
        run_free(&run);
    }
}

/* Likewise for ranks that only watch the job page. */
static void test_the_job_page(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "4", JOB_CLIENT, "open", "barrier", "signal=11@3", "alert");
    expect_code(&run, 139);
    expect_count(&run, OUT, "event 1 of rank 3 with code 139", 3);
    run_free(&run);
}

static void test_leaving_without_finalize(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "2", JOB_CLIENT, "open", "barrier", "code=7@0", "wait");
    expect_code(&run, 7);
    expect_text(&run, ERR, ") exited with code 7 before aq_finalize; ending the job\n");
    expect_count(&run, ERR, "\n", 1);
    run_free(&run);
    /* Code 0 does not hide that the job did not end as it should. */
    job_run(&run, "-n", "2", JOB_CLIENT, "open", "barrier", "code=0@0", "wait");
    expect_code(&run, 1);
    expect_text(&run, ERR, ") exited with code 0 before aq_finalize; ending the job\n");
    run_free(&run);
    job_run(&run, "-n", "2", JOB_CLIENT, "open", "barrier", "close@1", "code=0@1", "wait");
    expect_code(&run, 1);
    expect_text(&run, ERR, "rank 1 (pid ");
    run_free(&run);
}

static void test_ending_before_joining(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "3", "sh", "-c", "test $AQ_RANK != 1 || exit 9; sleep 1000");
    expect_code(&run, 9);
    expect_text(&run, ERR, "aqrun: rank 1 (pid ");
    expect_text(&run, ERR, ", sh) exited with code 9; ending the job\n");
    run_free(&run);
    job_run(&run, "-n", "3", "sh", "-c", "true");
    expect_code(&run, 0);
    run_free(&run);
}

/* Ranks that never look are ended regardless: SIGTERM after 0.5 s, SIGKILL after 1.5 s. */
static void test_ranks_that_do_not_listen(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "3", "-E", "AQ_EXIT_TIMEOUT=2s", JOB_CLIENT, "open", "barrier",
            "signal=11@0", "pause");
    expect_code(&run, 139);
    expect_no_sooner(&run, 0.5);
    run_free(&run);
    job_run(&run, "-n", "3", "-E", "AQ_EXIT_TIMEOUT=2s", JOB_CLIENT, "open", "barrier",
            "signal=11@0", "hang");
    expect_code(&run, 139);
    expect_no_sooner(&run, 1.4);
    run_free(&run);
    job_run(&run, "-n", "3", "-E", "AQ_EXIT_TIMEOUT=200ms", JOB_CLIENT, "open", "barrier",
            "signal=11@0", "hang");
    expect_code(&run, 139);
    expect_no_sooner(&run, 0.1);
    run_free(&run);
}

static void test_exit_by_request(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "3", JOB_CLIENT, "open", "barrier", "end=4@2", "wait");
    expect_code(&run, 4);
    expect_count(&run, OUT, "event 1 of rank 2 with code 4: rank 2 (pid", 2);
    assert_string_equal(run.text[ERR], "");
    run_free(&run);
    job_run(&run, "-v", "-n", "3", JOB_CLIENT, "open", "barrier", "end=4@2", "wait");
    expect_text(&run, ERR, ") ended the job with code 4\n");
    run_free(&run);
    job_run(&run, "-n", "3", "-E", "AQ_EXIT_TIMEOUT=2s", JOB_CLIENT, "open", "barrier", "end=0@2",
            "pause");
    expect_code(&run, 0);
    assert_string_equal(run.text[ERR], "");
    expect_no_sooner(&run, 0.4);
    run_free(&run);
    /* All at once, as in a program that ends with aq_exit everywhere. */
    job_run(&run, "-n", "8", JOB_CLIENT, "open", "barrier", "end=6");
    expect_code(&run, 6);
    assert_string_equal(run.text[ERR], "");
    run_free(&run);
    /* Before the others have joined. */
    job_run(&run, "-n", "2", "-E", "AQ_EXIT_TIMEOUT=2s", JOB_CLIENT, "pause@1", "open", "end=8");
    expect_code(&run, 8);
    run_free(&run);
    /* The system keeps eight bits. */
    job_run(&run, "-n", "2", "-E", "AQ_EXIT_TIMEOUT=2s", JOB_CLIENT, "open", "barrier", "end=-1@0",
            "pause");
    expect_code(&run, 255);
    run_free(&run);
}

/* The first code counts, except that any other one replaces 0. */
static void test_several_codes(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "2", "-E", "AQ_EXIT_TIMEOUT=20s", "sh", "-c",
            "if test $AQ_RANK = 0; then \"$0\" open barrier end=0; else"
            " \"$0\" open barrier alert?; exit 5; fi",
            JOB_CLIENT);
    expect_code(&run, 5);
    run_free(&run);
    job_run(&run, "-n", "2", "-E", "AQ_EXIT_TIMEOUT=20s", "sh", "-c",
            "if test $AQ_RANK = 0; then \"$0\" open barrier end=3; else"
            " \"$0\" open barrier alert?; exit 5; fi",
            JOB_CLIENT);
    expect_code(&run, 3);
    run_free(&run);
}

static void test_a_reason_is_passed_on(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "2", JOB_CLIENT, "open", "barrier", "why=139@1", "signal=11@1", "wait");
    expect_code(&run, 139);
    expect_text(&run, ERR, "): the disk is on fire; ending the job\n");
    expect_text(&run, ERR, "was killed by signal 11 (Segmentation fault)\n");
    expect_text(&run, OUT, "event 1 of rank 1 with code 139: rank 1 (pid ");
    expect_text(&run, OUT, "the disk is on fire\n");
    run_free(&run);
}

static void test_after_finalize_nothing_harms(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "3", JOB_CLIENT, "open", "barrier", "finalize", "close", "code=5@1",
            "print=8");
    expect_code(&run, 5);
    expect_count(&run, OUT, "8\n", 2);
    assert_string_equal(run.text[ERR], "");
    run_free(&run);
    job_run(&run, "-n", "3", JOB_CLIENT, "open", "barrier", "finalize", "close", "signal=11@1",
            "print=8");
    expect_code(&run, 139);
    expect_count(&run, OUT, "8\n", 2);
    expect_text(&run, ERR, "was killed by signal 11 (Segmentation fault) after aq_finalize\n");
    run_free(&run);
}

static void test_a_program_under_a_shell(void **state)
{
    (void)state;
    struct run run;
    /* The shell turns the signal into a code. */
    job_run(&run, "-n", "2", "sh", "-c", "\"$0\" open barrier signal=11@1 wait; exit $?",
            JOB_CLIENT);
    expect_code(&run, 139);
    expect_text(&run, ERR, "aqrun: rank 1 (pid ");
    expect_text(&run, ERR, "was killed by signal 11 (Segmentation fault); ending the job\n");
    run_free(&run);
    /* The shell hides it. */
    job_run(&run, "-n", "2", "-E", "AQ_EXIT_TIMEOUT=2s", "sh", "-c",
            "\"$0\" open barrier signal=11@1 wait; sleep 1000", JOB_CLIENT);
    expect_code(&run, 1);
    expect_text(&run, ERR, "job_client) ended before aq_finalize; ending the job\n");
    run_free(&run);
}

static void test_strays_are_ended(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "2", "sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 0");
    expect_code(&run, 0);
    run_free(&run);
    job_run(&run, "-n", "2", "sh", "-c",
            "(trap '' TERM; setsid sh -c 'sleep 1000; true' & sleep 1000; true) & exit 3");
    expect_code(&run, 3);
    run_free(&run);
}

/* While the first of many processes have ended, others have not: none is named again. */
static void test_strays_are_named_once(void **state)
{
    (void)state;
    static const char text[] = "killing process ";
    struct run run;
    job_run(&run, "-v", "sh", "-c", "for i in $(seq 100); do setsid sleep 1000 & done; exit 0");
    expect_code(&run, 0);
    expect_text(&run, ERR, text);
    for (const char *at = run.text[ERR]; (at = strstr(at, text)) != NULL; at += strlen(text)) {
        char named[40];
        snprintf(named, sizeof(named), "%s%d,", text, atoi(at + strlen(text)));
        expect_count(&run, ERR, named, 1);
    }
    run_free(&run);
}

static void test_many_ranks_die_at_once(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "32", JOB_CLIENT, "open", "barrier", "signal=6");
    expect_code(&run, 134);
    expect_text(&run, ERR, "was killed by signal 6 (Aborted); ending the job\n");
    expect_count(&run, ERR, "ending the job", 1);
    run_free(&run);
}

static void test_a_rank_killed_from_outside(void **state)
{
    (void)state;
    struct run run;
    job_start(&run, "-v", "-n", "32", JOB_CLIENT, "open", "barrier", "print=1", "wait");
    run_until(&run, OUT, "1\n", 32);
    pid_t victim = rank_pid(&run, 17);
    assert_true(victim > 0);
    assert_int_equal(kill(victim, SIGKILL), 0);
    run_wait(&run);
    expect_code(&run, 137);
    expect_text(&run, ERR, "aqrun: rank 17 (pid ");
    expect_text(&run, ERR, "was killed by signal 9 (Killed); ending the job\n");
    expect_count(&run, OUT, "event 1 of rank 17", 31);
    run_free(&run);
}

/*
 * A rank was killed but still exists, like a process that frees much memory; here, it is the zombie
 * of a tracer.
 */
static void test_a_killed_rank_that_takes_long(void **state)
{
    (void)state;
    struct run run;
    int status = 0;
    job_start(&run, "-v", "-n", "2", "-E", "AQ_EXIT_TIMEOUT=4s", JOB_CLIENT, "open", "barrier",
              "print=1", "hang@1", "wait");
    run_until(&run, OUT, "1\n", 2);
    pid_t slow = rank_pid(&run, 1), victim = rank_pid(&run, 0);
    assert_true(slow > 0 && victim > 0);
    bool traced = ptrace(PTRACE_SEIZE, slow, NULL, NULL) == 0;
    assert_int_equal(kill(victim, SIGKILL), 0);
    if (traced) {
        run_until(&run, ERR, "was killed but has not ended yet", 1);
        while (waitpid(slow, &status, __WALL) == slow && !WIFSIGNALED(status))
            continue;
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    run_wait(&run);
    expect_code(&run, 137);
    expect_no_text(&run, ERR, "leaving it behind");
    run_free(&run);
    if (!traced) skip(); /* not allowed here */
}

/* One rank has left by aq_finalize, and the other does not follow. */
static void test_left_behind(void **state)
{
    (void)state;
    struct run run;
    char limit[20];
    for (unsigned seconds = 1;; seconds *= 4) { /* longer if ranks are late */
        snprintf(limit, sizeof(limit), "%us", seconds);
        job_run(&run, "-n", "2", "--timeout", limit, "-E", "AQ_EXIT_TIMEOUT=200ms", JOB_CLIENT,
                "open", "barrier", "leaving@0", "finalize@0", "close@0", "pause@1");
        expect_code(&run, 124);
        if (count_text(&run, ERR, "has left the job") != 0 || seconds > 10) break;
        run_free(&run);
    }
    expect_text(&run, ERR, "rank 0 has left the job, while rank 1 (pid ");
    expect_text(&run, ERR, "has not called aq_finalize");
    run_free(&run);
    /* A rank that has called it too is about to leave. */
    job_run(&run, "-n", "2", "--timeout", "1s", "-E", "AQ_EXIT_TIMEOUT=200ms", JOB_CLIENT, "open",
            "leaving", "finalize@0", "close@0", "pause@1");
    expect_code(&run, 124);
    expect_count(&run, ERR, "has left the job", 0);
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_ranks),
        cmocka_unit_test(test_the_job_page),
        cmocka_unit_test(test_leaving_without_finalize),
        cmocka_unit_test(test_ending_before_joining),
        cmocka_unit_test(test_ranks_that_do_not_listen),
        cmocka_unit_test(test_exit_by_request),
        cmocka_unit_test(test_several_codes),
        cmocka_unit_test(test_a_reason_is_passed_on),
        cmocka_unit_test(test_after_finalize_nothing_harms),
        cmocka_unit_test(test_a_program_under_a_shell),
        cmocka_unit_test(test_strays_are_ended),
        cmocka_unit_test(test_strays_are_named_once),
        cmocka_unit_test(test_many_ranks_die_at_once),
        cmocka_unit_test(test_a_rank_killed_from_outside),
        cmocka_unit_test(test_a_killed_rank_that_takes_long),
        cmocka_unit_test(test_left_behind),
    };
    return cmocka_run_group_tests_name("death", tests, NULL, NULL);
}
