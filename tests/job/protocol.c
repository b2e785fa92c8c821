/* Input on the control sockets: refusals, other versions, garbage, other users. */
#include "harness.h"

#include "job/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void test_two_hellos(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "2", JOB_CLIENT, "hello@1", "hello@1", "open@0", "wait@0");
    expect_text(&run, OUT, "answer 2: ");
    expect_text(&run, OUT, "answer 3: AQ_ESTATE: rank 1's place in the job is taken: process ");
    expect_text(&run, OUT, "joined there and has not left");
    expect_text(&run, ERR, "exited with code 0 before aq_finalize");
    expect_code(&run, 1);
    run_free(&run);
}

static void test_another_version(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "2", JOB_CLIENT, "hello=99", "open", "barrier", "finalize");
    expect_code(&run, 0);
    expect_count(&run, OUT,
                 "answer 3: AQ_EPROTO: this program's library uses version 99 of the control "
                 "protocol, but this aqrun uses version ",
                 2);
    run_free(&run);
}

static void test_garbage(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "3", JOB_CLIENT, "garbage=500@1", "open", "gather=10", "garbage=500@1",
            "gather=10", "finalize", "garbage=500?@2");
    expect_code(&run, 0);
    expect_count(&run, ERR, "to its control socket; it is ignored", 2);
    expect_count(&run, ERR, "rank 1 (pid ", 1);
    run_free(&run);
}

static void test_another_user(void **state)
{
    (void)state;
    struct run run;
    if (geteuid() != 0 || access("/usr/bin/setpriv", X_OK) != 0) skip();
    job_run(&run, "-n", "2", "setpriv", "--reuid=65534", "--clear-groups", JOB_CLIENT, "open");
    if (run.code == 127 || run.code == 126)
        skip(); /* the folder may be inaccessible to other users */
    expect_code(&run, 3);
    expect_text(&run, OUT, "open: AQ_EACCESS: rank ");
    expect_text(&run, OUT, "belongs to user 65534, but the job belongs to user 0");
    run_free(&run);
}

/* A rank gets the job's key through its socket, not from where other users could read it. */
static void test_the_environment_holds_no_secret(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "1", "sh", "-c", "env | grep ^AQ_ | sed 's/=.*//' | sort | tr '\\n' ' '");
    expect_code(&run, 0);
    assert_string_equal(run.text[OUT], "AQ_BOOT_FD AQ_EXIT_TIMEOUT AQ_JOB_ID AQ_LOCAL_RANK "
                                       "AQ_LOCAL_SIZE AQ_RANK AQ_SIZE AQ_STDERR ");
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_hellos),
        cmocka_unit_test(test_another_version),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_another_user),
        cmocka_unit_test(test_the_environment_holds_no_secret),
    };
    return cmocka_run_group_tests_name("protocol", tests, NULL, NULL);
}
