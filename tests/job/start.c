/* Starting jobs: the command line, the environment of ranks, limits, and starts that fail. */
#include "harness.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_bad_command_lines(void **state)
{
    (void)state;
    static const struct {
        const char *args[4];
        const char *text;
    } cases[] = {
        {{"-n", "0", "true"}, "-n 0: give a number from 1 to 65536"},
        {{"-n", "100000", "true"}, "-n 100000: give a number from 1 to 65536"},
        {{"-n", "65537", "true"}, "from 1 to 65536"},
        {{"-n", "x", "true"}, "-n x: give"},
        {{"-n", "-1", "true"}, "-n -1: give"},
        {{"-n", "2x", "true"}, "-n 2x: give"},
        {{"-n", "", "true"}, "-n : give"},
        {{"-n", "99999999999999999999", "true"}, "from 1 to 65536"},
        {{"--ranks", "x", "true"}, "--ranks x: give"},
        {{"-np", "x", "true"}, "--np x: give"},
        {{"-n"}, "-n needs an argument"},
        {{"-n", "2"}, "no program given"},
        {{"--prefx", "true"}, "did you mean --prefix?"},
        {{"-Q", "true"}, "unknown option -Q"},
        {{"--ssh", "true"}, "--ssh is ambiguous: give one of --ssh-command, --ssh-options"},
        {{"-E", "JOB_NOT_SET", "true"}, "-E JOB_NOT_SET: this variable is not set"},
        {{"-E", "PATH,2x", "true"}, "\"2x\" is not a variable name"},
        {{"--timeout", "soon", "true"}, "--timeout=\"soon\" is not valid"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *const *a = cases[i].args;
        struct run run;
        job_run(&run, a[0], a[1], a[2], a[3]);
        expect_code(&run, 2);
        expect_text(&run, ERR, "aqrun: ");
        expect_text(&run, ERR, cases[i].text);
        assert_string_equal(run.text[OUT], "");
        run_free(&run);
    }
}

static void test_bad_settings(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-E", "AQ_EXIT_TIMEOUT=never", "true");
    expect_code(&run, 2);
    expect_text(&run, ERR, "AQ_EXIT_TIMEOUT=\"never\" is not valid");
    run_free(&run);
}

static void test_help_and_version(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "--help");
    expect_code(&run, 0);
    expect_text(&run, OUT, "usage: aqrun");
    expect_text(&run, OUT, "-E, --env");
    run_free(&run);
    job_run(&run, "--version");
    expect_code(&run, 0);
    expect_text(&run, OUT, "aqrun ");
    run_free(&run);
}

static void test_test_only(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-t", "-n", "2", "no_such_program", "a b");
    expect_code(&run, 0);
    expect_count(&run, OUT, "no_such_program 'a b'\n", 2);
    expect_text(&run, OUT, "AQ_RANK=1 AQ_SIZE=2 ");
    run_free(&run);
}

static void test_the_environment_of_ranks(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "3", "-E", "COLOUR=red,green", "-T", "shm", "sh", "-c",
            "echo \"$AQ_RANK/$AQ_SIZE $AQ_LOCAL_RANK/$AQ_LOCAL_SIZE $COLOUR $AQ_TRANSPORTS\"");
    expect_code(&run, 0);
    expect_text(&run, OUT, "0/3 0/3 red,green shm\n");
    expect_text(&run, OUT, "2/3 2/3 red,green shm\n");
    expect_count(&run, OUT, "\n", 3);
    assert_string_equal(run.text[ERR], "");
    run_free(&run);
}

/* Prints the processors that a rank may use, as in "0-3,8". */
#define PRINT_CPUS                                                                                 \
    "echo \"$AQ_RANK cores=$AQ_LOCAL_CORES "                                                       \
    "cpus=$(sed -n 's/Cpus_allowed_list:.//p' /proc/self/status)\""

static void read_cpus(const struct run *run, unsigned rank, unsigned cores, cpu_set_t *set)
{
    char start[40];
    snprintf(start, sizeof(start), "%u cores=%u cpus=", rank, cores);
    const char *at = strstr(run->text[OUT], start);
    if (at == NULL) fail_msg("no \"%s\" in: %s", start, run->text[OUT]);
    CPU_ZERO(set);
    for (at += strlen(start); *at >= '0' && *at <= '9';) {
        char *end;
        unsigned long first = strtoul(at, &end, 10);
        unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
        for (; first <= last; first++)
            CPU_SET(first, set);
        at = *end == ',' ? end + 1 : end;
    }
}

/* Each rank is bound to one of the cores of aqrun, in turn; together they use all of them. */
static void test_ranks_bound_to_cores(void **state)
{
    (void)state;
    cpu_set_t all, together, first, mine, common;
    if (sched_getaffinity(0, sizeof(all), &all) != 0) skip();
    unsigned cpus = (unsigned)CPU_COUNT(&all), ranks = cpus + 1, cores = 0;
    if (ranks > 128) skip(); /* a job of that many ranks would be too much load */
    char number[16];
    struct run run;
    snprintf(number, sizeof(number), "%u", ranks);
    job_run(&run, "--bind", "core", "-v", "-n", number, "sh", "-c", PRINT_CPUS);
    expect_code(&run, 0);
    expect_count(&run, ERR, " on processors ", ranks);
    const char *found = strstr(run.text[OUT], "cores=");
    assert_non_null(found);
    unsigned shared = (unsigned)atoi(found + strlen("cores="));
    assert_in_range(shared, 1, cpus); /* fewer if there is a quota of processor time */
    CPU_ZERO(&together);
    for (unsigned rank = 0; rank < ranks; rank++) {
        read_cpus(&run, rank, shared, &mine);
        if (rank == 0) first = mine;
        CPU_AND(&common, &mine, &together);
        if (CPU_COUNT(&common) == 0) {
            assert_int_equal(cores, rank); /* all previous ranks have different cores */
            cores++;
        } else if (rank % cores == 0)
            assert_true(CPU_EQUAL(&mine, &first));
        CPU_OR(&together, &together, &mine);
    }
    assert_true(CPU_EQUAL(&together, &all));
    run_free(&run);
}

static void test_ranks_not_bound(void **state)
{
    (void)state;
    cpu_set_t all, mine;
    if (sched_getaffinity(0, sizeof(all), &all) != 0) skip();
    struct run run;
    job_run(&run, "--bind", "none", "sh", "-c", "AQ_LOCAL_CORES=${AQ_LOCAL_CORES-0}; " PRINT_CPUS);
    expect_code(&run, 0);
    read_cpus(&run, 0, 0, &mine);
    assert_true(CPU_EQUAL(&mine, &all));
    run_free(&run);
}

static void test_ranks_that_cannot_be_bound(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "--bind", "anywhere", "true");
    expect_code(&run, 2);
    expect_text(&run, ERR, "AQ_BIND=\"anywhere\" is not valid");
    run_free(&run);
    static const char *const calls[] = {"sched_getaffinity", "sched_setaffinity"};
    for (size_t i = 0; i < COUNT(calls); i++) {
        run_start(&run, JOB_FORBID, calls[i], JOB_AQRUN, "--bind", "core", "-n", "3", "true", NULL);
        run_wait(&run);
        if (run.code == 77) skip();
        expect_code(&run, 1);
        expect_text(&run, ERR, calls[i]);
        expect_text(&run, ERR, ": Operation not permitted; start the job without --bind");
        expect_count(&run, ERR, "aqrun: ", 1);
        run_free(&run);
    }
}

static void test_all_sizes(void **state)
{
    (void)state;
    static const char *const sizes[] = {"1", "2", "3", "4", "8", "32"};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct run run;
        job_run(&run, "-n", sizes[i], JOB_CLIENT, "open", "barrier", "gather=100", "share=100",
                "print=7", "finalize", "close");
        expect_code(&run, 0);
        expect_count(&run, OUT, "7\n", (unsigned)atoi(sizes[i]));
        assert_string_equal(run.text[ERR], "");
        run_free(&run);
    }
}

/*
 * A rank has one descriptor from the launcher before it joins and one afterwards, whatever the
 * number of ranks.
 */
static void test_descriptors_of_ranks(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "8", JOB_CLIENT, "files=1", "open", "barrier", "files=1", "finalize",
            "close", "files=0");
    expect_code(&run, 0);
    run_free(&run);
}

static void test_programs_that_cannot_be_run(void **state)
{
    (void)state;
    static const struct {
        const char *program;
        int code;
        const char *text;
    } cases[] = {
        {"no_such_program", 127,
         "cannot run no_such_program: No such file or directory; it was not"},
        {"/no/such/program", 127, "cannot run /no/such/program: No such file or directory"},
        {"/dev/null", 126, "unless its file system is mounted noexec; ending the job\n"},
        {"/tmp", 126, "cannot run /tmp: Permission denied; it is a directory"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct run run;
        job_run(&run, "-n", "4", cases[i].program);
        expect_code(&run, cases[i].code);
        expect_text(&run, ERR, cases[i].text);
        expect_count(&run, ERR, "aqrun: ", 1);
        run_free(&run);
    }
}

static void test_a_crash_in_a_constructor(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "2", JOB_CONSTRUCTOR);
    expect_code(&run, 128 + 11);
    expect_text(&run, ERR, "was killed by signal 11 (Segmentation fault); ending the job");
    expect_count(&run, ERR, "aqrun: ", 1);
    run_free(&run);
}

static void test_too_few_descriptors(void **state)
{
    (void)state;
    struct run run;
    run_start(&run, "sh", "-c", "ulimit -n 64; exec \"$0\" -n 32 true", JOB_AQRUN, NULL);
    run_wait(&run);
    expect_code(&run, 1);
    expect_text(&run, ERR, "32 processes need 120 open files in aqrun, but the limit is 64");
    run_free(&run);
    /* A soft limit is raised, but not for the ranks. */
    run_start(&run, "sh", "-c", "ulimit -Sn 64; exec \"$0\" -n 32 sh -c 'ulimit -Sn'", JOB_AQRUN,
              NULL);
    run_wait(&run);
    expect_code(&run, 0);
    expect_count(&run, OUT, "64\n", 32);
    run_free(&run);
}

static void test_too_few_processes(void **state)
{
    (void)state;
    if (geteuid() != 0 || access("/usr/bin/setpriv", X_OK) != 0) skip();
    struct run run;
    /* The kernel does not enforce this limit for root. */
    run_start(&run, "bash", "-c",
              "ulimit -u 20; exec setpriv --reuid=65534 --clear-groups \"$0\" -n 32 true",
              JOB_AQRUN, NULL);
    run_wait(&run);
    if (run.code == 127 || run.code == 126)
        skip(); /* the folder may be inaccessible to other users */
    expect_code(&run, 1);
    expect_text(&run, ERR, "32 processes need 34 processes of this user, but the limit is 20");
    run_free(&run);
}

/* Tries growing limits: on a busy machine, the others may not arrive within a short one, either. */
static void test_a_rank_that_does_not_come(void **state)
{
    (void)state;
    struct run run;
    char limit[40], text[100];
    for (unsigned ms = 300;; ms *= 4) {
        snprintf(limit, sizeof(limit), "AQ_START_TIMEOUT=%ums", ms);
        snprintf(text, sizeof(text),
                 "barrier: AQ_ETIMEOUT: rank 1 did not reach aq_init within %.3g s", ms / 1e3);
        job_run(&run, "-n", "3", "-E", limit, JOB_CLIENT, "pause@1", "open", "barrier");
        if (count_text(&run, OUT, text) != 0 || ms > 10000) break;
        run_free(&run);
    }
    expect_code(&run, 3);
    expect_text(&run, OUT, text);
    expect_text(&run, OUT, "has not called aq_init");
    expect_no_sooner(&run, 0.3);
    run_free(&run);
}

static void test_a_rank_that_has_no_use_for_it(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "3", JOB_CLIENT, "code=0@1", "open", "barrier");
    expect_code(&run, 1);
    expect_text(&run, ERR, "exited with code 0 without calling aq_init, while rank");
    expect_text(&run, OUT, "barrier: AQ_EPEER: rank 1 (pid ");
    run_free(&run);
}

static void test_a_job_in_a_job(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "2", JOB_AQRUN, "-n", "3", JOB_CLIENT, "files=1", "open", "barrier",
            "print=5", "finalize");
    expect_code(&run, 0);
    expect_count(&run, OUT, "5\n", 6);
    run_free(&run);
}

/* Processes started by a rank are not ranks, unless executed in place of the rank. */
static void test_programs_that_ranks_start(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "2", "sh", "-c", "\"$0\" open barrier finalize; \"$0\" open", JOB_CLIENT);
    expect_code(&run, 3);
    expect_text(&run, OUT, "open: AQ_ESTATE: rank ");
    expect_text(&run, OUT, "A place can be used only once, by one program");
    run_free(&run);
}

static void test_time_limit(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "2", "--timeout", "200ms", "sleep", "1000");
    expect_code(&run, 124);
    expect_text(&run, ERR, "did not end within 0.2 s (--timeout); ending the job");
    expect_no_sooner(&run, 0.2);
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_command_lines),
        cmocka_unit_test(test_bad_settings),
        cmocka_unit_test(test_help_and_version),
        cmocka_unit_test(test_test_only),
        cmocka_unit_test(test_the_environment_of_ranks),
        cmocka_unit_test(test_ranks_bound_to_cores),
        cmocka_unit_test(test_ranks_not_bound),
        cmocka_unit_test(test_ranks_that_cannot_be_bound),
        cmocka_unit_test(test_all_sizes),
        cmocka_unit_test(test_descriptors_of_ranks),
        cmocka_unit_test(test_programs_that_cannot_be_run),
        cmocka_unit_test(test_a_crash_in_a_constructor),
        cmocka_unit_test(test_too_few_descriptors),
        cmocka_unit_test(test_too_few_processes),
        cmocka_unit_test(test_a_rank_that_does_not_come),
        cmocka_unit_test(test_a_rank_that_has_no_use_for_it),
        cmocka_unit_test(test_a_job_in_a_job),
        cmocka_unit_test(test_programs_that_ranks_start),
        cmocka_unit_test(test_time_limit),
    };
    return cmocka_run_group_tests_name("start", tests, NULL, NULL);
}
