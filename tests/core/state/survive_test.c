/*
 * Jobs that continue when processes die, as seen from outside: the exit code and the messages give
 * the cause of each death, the survivors leave cleanly, and nothing is left behind.
 */
#include "../../job/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long seed = 20260101;
static bool all;

struct death {
    const char *how;
    int code;
    const char *text;
};

static const struct death deaths[] = {
    {"kill", 137, "was killed by signal 9 (Killed)"},
    {"abort", 134, "was killed by signal 6 (Aborted)"},
    {"quick4", 4, "exited with code 4 before aq_finalize"},
    {"exit3", 3, "exited with code 3 before aq_finalize"},
};

struct job {
    const char *ranks, *victims, *how, *apart, *setting;
};

static void run_job(const struct job *job, const struct death *death)
{
    struct run run;
    char seeded[64], ends[64];
    unsigned ranks = (unsigned)atoi(job->ranks), victims = (unsigned)atoi(job->victims);
    snprintf(seeded, sizeof(seeded), "TEST_SEED=%lu", ++seed);
    print_message("%s of %s ranks die by %s %s, %s, %s\n", job->victims, job->ranks, death->how,
                  job->apart, job->setting, seeded);
    job_start(&run, "--survive", "--timeout", "100s", "-n", job->ranks, "-E", job->setting, "-E",
              seeded, CORE_SURVIVOR, job->victims, death->how,
              job->apart[0] != '\0' ? job->apart : NULL);
    run_wait(&run);
    expect_code(&run, death->code);
    snprintf(ends, sizeof(ends), "%s; the job goes on without it\n", death->text);
    expect_count(&run, ERR, ends, victims);
    expect_count(&run, ERR, "aqrun: the job ended without rank ", victims);
    expect_count(&run, OUT, " leaves\n", ranks - victims);
    expect_count(&run, ERR, "dead",
                 0); /* a call that fails because of it does not report it again */
    run_free(&run);
}

/* Each size with a different death, in another combination for each setting, so that each pair of
 * the three occurs; with "all", all combinations. */
static void run_setting(const char *setting)
{
    static const char *const sizes[][2] = {{"2", "1"}, {"3", "1"}, {"4", "2"}, {"8", "5"}};
    static size_t turn;
    turn++;
    for (size_t d = 0; d < COUNT(deaths); d++)
        for (size_t s = 0; s < COUNT(sizes); s++) {
            if (!all && (s + d + turn) % COUNT(deaths) != 0) continue;
            struct job job = {sizes[s][0], sizes[s][1], NULL, "", setting};
            run_job(&job, &deaths[d]);
            job.apart = "apart";
            if (d == 0) run_job(&job, &deaths[d]);
        }
}

static void test_plain(void **state)
{
    (void)state;
    run_setting("AQ_FAULT=");
}

static void test_storm(void **state)
{
    (void)state;
    run_setting("AQ_FAULT=again=30,late=5");
}

/* Everything by messages: replies of dead ranks never arrive. */
static void test_bare(void **state)
{
    (void)state;
    run_setting("AQ_FAULT=hide=reserve+put+get+atomic+long+map+alloc+wait");
}

static void test_credits(void **state)
{
    (void)state;
    run_setting("AQ_FAULT=credits=1");
}

static void test_progress_thread(void **state)
{
    (void)state;
    if (CORE_THREAD_SANITIZED) skip();
    run_setting("AQ_PROGRESS_THREAD=yes");
}

static void test_block(void **state)
{
    (void)state;
    run_setting("AQ_WAIT=block");
}

/* Many more ranks than cores. */
static void test_many_ranks(void **state)
{
    (void)state;
    if (CORE_SANITIZED) skip();
    struct job job = {all ? "256" : "64", "3", NULL, "", "AQ_FAULT="};
    run_job(&job, &deaths[0]);
}

/* A member that has left an operation does not harm those still in it. */
static void test_left(void **state)
{
    static const char *const memory[] = {"private", "segment"};
    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        struct run run;
        job_run(&run, "--survive", "-n", "4", CORE_LEFT, memory[i % 2]);
        expect_code(&run, 137);
        expect_count(&run, OUT, " leaves\n", 3);
        run_free(&run);
    }
}

/* A requested end is carried out. */
static void test_requested_ends(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "--survive", "-n", "3", CORE_VICTIM, "aq_exit7", "poll");
    expect_code(&run, 7);
    expect_no_text(&run, ERR, "goes on");
    run_free(&run);
}

/* Without deaths, the job behaves as without the option. */
static void test_no_deaths(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "--survive", "-n", "4", CORE_SURVIVOR, "0", "kill");
    expect_code(&run, 0);
    assert_string_equal(run.text[ERR], "");
    expect_count(&run, OUT, " leaves\n", 4);
    run_free(&run);
    job_run(&run, "--survive", "-n", "2", CORE_STRESS);
    expect_code(&run, 0);
    run_free(&run);
    run_start(&run, CORE_SURVIVOR, "0", "kill", NULL);
    run_wait(&run);
    expect_code(&run, 0);
    run_free(&run);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),          cmocka_unit_test(test_storm),
        cmocka_unit_test(test_bare),           cmocka_unit_test(test_credits),
        cmocka_unit_test(test_block),          cmocka_unit_test(test_left),
        cmocka_unit_test(test_requested_ends), cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_no_deaths),      cmocka_unit_test(test_progress_thread),
    };
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    const char *given = getenv("TEST_SEED");
    if (given != NULL) seed = strtoul(given, NULL, 0);
    return cmocka_run_group_tests_name("survive", tests, NULL, NULL);
}
