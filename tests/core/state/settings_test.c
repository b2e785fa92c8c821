/*
 * The environment of a job: settings that are unknown, invalid or have an alias, and tight limits.
 */
#include "../../job/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* --- settings ---------------------------------------------------------------------------- */

static void test_unknown_names(void **state)
{
    (void)state;
    static const struct {
        const char *set, *maybe;
    } cases[] = {
        {"AQ_WIAT=spin", "AQ_WAIT"},
        {"AQ_SHM_SLOT=64", "AQ_SHM_SLOTS"},
        {"AQ_TRANSPORT=shm", "AQ_TRANSPORTS"},
    };
    struct run run;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        job_run(&run, "-n", "2", "-E", cases[i].set, CORE_STRESS, "100");
        char name[64];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(cases[i].set, "="), cases[i].set);
        expect_code(&run, 0);
        expect_text(&run, ERR, name);
        expect_text(&run, ERR, cases[i].maybe);
        run_free(&run);
    }
}

/* An invalid value is an error that names the variable, the value and the valid values. */
static void test_bad_values(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *legal;
    } cases[] = {
        {"AQ_SHM_SLOTS", "17", "power of two"},
        {"AQ_SHM_SLOTS", "8", "16"},
        {"AQ_SHM_SLOTS", "many", "16"},
        {"AQ_AM_MAX_MEDIUM", "100", "512"},
        {"AQ_AM_MAX_MEDIUM", "-1", "512"},
        {"AQ_AM_MAX_MEDIUM", "8Q", "512"},
        {"AQ_WAIT", "never", "block"},
        {"AQ_LOG", "loudly", "debug"},
        {"AQ_FAULT", "again=200", "again="},
        {"AQ_TRANSPORTS", "pigeon", "shm"},
        {"AQ_NEIGHBORHOOD", "few", "sizes"},
        {"AQ_STATS", "perhaps", "yes"},
        {"AQ_MAX_SEGMENT", "9E", "or a fraction"},
        {"AQ_SEGMENT_MODE", "everything", "fast or large"},
    };
    struct run run;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char set[80];
        snprintf(set, sizeof(set), "%s=%s", cases[i].name, cases[i].value);
        print_message("%s\n", set);
        job_run(&run, "-n", "2", "-E", set, CORE_BARRIER);
        assert_int_not_equal(run.code, 0);
        expect_text(&run, ERR, cases[i].name);
        expect_text(&run, ERR, cases[i].value);
        expect_text(&run, ERR, cases[i].legal);
        expect_count(&run, ERR, "aq[pid", 0); /* reported by ranks */
        run_free(&run);
        /* The same without a launcher. */
        run_start(&run, "env", set, CORE_BARRIER, NULL);
        run_wait(&run);
        assert_int_not_equal(run.code, 0);
        expect_text(&run, ERR, cases[i].name);
        expect_text(&run, ERR, cases[i].legal);
        run_free(&run);
    }
}

/* Valid values at the ends of their ranges. */
static void test_good_values(void **state)
{
    (void)state;
    static const char *const sets[] = {"AQ_SHM_SLOTS=16",        "AQ_SHM_SLOTS=1024",
                                       "AQ_SHM_PAYLOAD=1M",      "AQ_SHM_MAP=no",
                                       "AQ_AM_MAX_MEDIUM=512",   "AQ_AM_MAX_MEDIUM=64K",
                                       "AQ_WAIT=spin",           "AQ_WAIT=yield",
                                       "AQ_WAIT=block",          "AQ_STATS=yes",
                                       "AQ_LOG=error",           "AQ_TRANSPORTS=shm",
                                       "AQ_TRANSPORTS=loop,shm", "GASNET_MAX_SEGSIZE=64M",
                                       "AQ_SEGMENT_MODE=large",  "AQ_SEGMENT_MODE=everything"};
    struct run run;
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        print_message("%s\n", sets[i]);
        job_run(&run, "-n", "2", "-E", sets[i], CORE_STRESS, "1000");
        expect_code(&run, 0);
        run_free(&run);
    }
}

/* The error is not the one for a program whose ranks make different calls. */
static void test_memory_from_elsewhere(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "3", "sh", "-c",
            "[ $AQ_RANK = 1 ] && export AQ_FAULT=hide=alloc; exec \"$0\"", CORE_BARRIER);
    assert_int_not_equal(run.code, 0);
    expect_text(&run, ERR, "rank 1 allocates memory from a different transport than rank 0");
    expect_text(&run, ERR, "hide=alloc");
    run_free(&run);
}

static void test_no_route(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "2", "-E", "AQ_TRANSPORTS=loop", CORE_BARRIER);
    assert_int_not_equal(run.code, 0);
    expect_text(&run, ERR, "AQ_TRANSPORTS");
    expect_text(&run, ERR, "rank");
    run_free(&run);
    run_start(&run, "env", "AQ_TRANSPORTS=loop", CORE_BARRIER, NULL);
    run_wait(&run);
    expect_code(&run, 0);
    run_free(&run);
}

/* Ranks with different rings cannot communicate, which is reported. */
static void test_ranks_that_differ(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "2", "sh", "-c",
            "test $AQ_RANK = 0 || export AQ_SHM_SLOTS=128; exec \"$0\"", CORE_BARRIER);
    assert_int_not_equal(run.code, 0);
    expect_text(&run, ERR, "the ranks disagree");
    expect_text(&run, ERR, "the same settings");
    run_free(&run);
}

/*
 * Other settings are compared before differences can do harm: the error names the variable, the
 * ranks and the values.
 */
static void test_settings_that_differ(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"AQ_AM_CREDITS=64",
         "AQ_AM_CREDITS or GASNET_AM_CREDITS_PP is \"128\" in rank 0 and \"64\" in rank 2"},
        {"GASNET_AM_OUST_PP=16", "GASNET_AM_CREDITS_PP is \"128\" in rank 0 and \"16\" in rank 2"},
        {"GASNET_NETWORKDEPTH=12",
         "GASNET_AM_CREDITS_PP is \"128\" in rank 0 and \"12\" in rank 2"},
        {"AQ_AM_BYTES=1M",
         "AQ_AM_BYTES or GASNET_NETWORKDEPTH_SPACE is \"512K\" in rank 0 and \"1M\" in rank 2"},
        {"AQ_AM_CREDITS_TOTAL=8", "GASNET_AM_CREDITS_TOTAL is \"0\" in rank 0 and \"8\" in rank 2"},
        {"AQ_COLL_SCRATCH=1M", "AQ_COLL_SCRATCH is \"8M\" in rank 0 and \"1M\" in rank 2"},
        {"AQ_SHM_FRAGMENT=1M", "AQ_SHM_FRAGMENT is \"0\" in rank 0 and \"1M\" in rank 2"},
        {"AQ_AM_MAX_MEDIUM=1K", "AQ_AM_MAX_MEDIUM is \"64K\" in rank 0 and \"1K\" in rank 2"},
        {"AQ_TRANSPORTS=shm,loop",
         "AQ_TRANSPORTS is \"auto\" in rank 0 and \"shm,loop\" in rank 2"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct run run;
        char command[200];
        snprintf(command, sizeof(command), "test $AQ_RANK != 2 || export %s; exec \"$0\"",
                 cases[i][0]);
        job_run(&run, "-n", "3", "sh", "-c", command, CORE_BARRIER);
        assert_int_not_equal(run.code, 0);
        expect_text(&run, ERR, cases[i][1]);
        run_free(&run);
    }
}

static void test_stats(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "2", "-E", "AQ_STATS=yes", CORE_STRESS, "500");
    expect_code(&run, 0);
    expect_text(&run, ERR, "rank 0: am_sent ");
    expect_text(&run, ERR, "rank 1: am_sent ");
    run_free(&run);
}

/* --- limits ------------------------------------------------------------------------------ */

/*
 * With any number of descriptors, the job works or reports which limit to raise; it never hangs or
 * crashes.
 */
static void test_few_descriptors(void **state)
{
    (void)state;
    unsigned worked = 0, refused = 0;
    for (int limit = 3; limit <= 40; limit += limit < 16 ? 1 : 6) {
        struct run run;
        char command[200];
        snprintf(command, sizeof(command), "ulimit -n %d; exec \"$0\" \"$@\"", limit);
        job_run(&run, "-n", "3", "sh", "-c", command, CORE_STRESS, "100");
        if (run.code == 0) {
            worked++;
        } else {
            refused++;
            /* With very few, not even the loader can start the program. */
            if (strstr(run.text[ERR], "error while loading shared libraries") == NULL)
                expect_text(&run, ERR, "ulimit -n");
            assert_true(run.code < 128);
        }
        run_free(&run);
    }
    assert_true(worked > 0);
    assert_true(refused > 0);
}

static void test_no_locked_memory(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "3", "sh", "-c", "ulimit -l 0; exec \"$0\" 2000", CORE_STRESS);
    expect_code(&run, 0);
    run_free(&run);
}

/* Too little address space: an error, not a crash. */
static void test_little_memory(void **state)
{
    (void)state;
    if (CORE_SANITIZED) skip(); /* sanitizers need more */
    struct run run;
    job_run(&run, "-n", "2", "sh", "-c", "ulimit -v 20000; exec \"$0\"", CORE_RMA);
    if (run.code != 0) {
        assert_true(run.code < 128);
        expect_text(&run, ERR, "aq");
    }
    run_free(&run);
}

/* /dev/shm is not needed: it may have a single page, as in containers. */
static void test_full_dev_shm(void **state)
{
    (void)state;
    int status = system("unshare -rm mount -t tmpfs -o size=4k none /dev/shm 2>/dev/null");
    if (status != 0) {
        print_message("unshare -rm is not permitted here\n");
        skip();
    }
    struct run run;
    run_start(&run, "unshare", "-rm", "sh", "-c",
              "mount -t tmpfs -o size=4k none /dev/shm && head -c 4096 /dev/zero >/dev/shm/full && "
              "exec \"$0\" -n 3 \"$1\"",
              JOB_AQRUN, CORE_STRESS, NULL);
    run_wait(&run);
    expect_code(&run, 0);
    run_free(&run);
    /* A read-only /dev/shm, and /tmp (unless the tested programs are in it). */
    run_start(&run, "unshare", "-rm", "sh", "-c",
              "mount -t tmpfs -o ro none /dev/shm && "
              "case $0 in /tmp/*) ;; *) mount -t tmpfs -o ro none /tmp ;; esac && "
              "exec \"$0\" -n 3 \"$1\"",
              JOB_AQRUN, CORE_STRESS, NULL);
    run_wait(&run);
    expect_code(&run, 0);
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_good_values),
        cmocka_unit_test(test_memory_from_elsewhere),
        cmocka_unit_test(test_no_route),
        cmocka_unit_test(test_ranks_that_differ),
        cmocka_unit_test(test_settings_that_differ),
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_few_descriptors),
        cmocka_unit_test(test_no_locked_memory),
        cmocka_unit_test(test_little_memory),
        cmocka_unit_test(test_full_dev_shm),
    };
    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
