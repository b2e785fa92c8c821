/* Signals to aqrun, up to kill -9 of aqrun and of all processes: nothing may be left behind. */
#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_kill_9_of_aqrun(void **state)
{
    (void)state;
    struct run run;
    job_start(&run, "-n", "4", JOB_CLIENT, "open", "barrier", "print=1", "hang");
    run_until(&run, OUT, "1\n", 4);
    kill(run.pid, SIGKILL);
    run_wait_killed(&run);
    expect_code(&run, 137);
    run_free(&run);
}

static void test_kill_9_before_joining(void **state)
{
    (void)state;
    struct run run;
    job_start(&run, "-n", "16", JOB_CLIENT, "print=1", "hang");
    run_until(&run, OUT, "1\n", 1);
    kill(run.pid, SIGKILL);
    run_wait_killed(&run);
    run_free(&run);
}

/* Processes started by a shell are not children of aqrun: the library or the guard ends them. */
static void test_kill_9_with_shells_between(void **state)
{
    (void)state;
    struct run run;
    job_start(&run, "-n", "2", "sh", "-c", "\"$0\" open barrier print=1 hang; true", JOB_CLIENT);
    run_until(&run, OUT, "1\n", 2);
    kill(run.pid, SIGKILL);
    run_wait_killed(&run);
    run_free(&run);
    job_start(&run, "-n", "2", "sh", "-c", "(echo 1; sleep 1000; true) & wait; true");
    run_until(&run, OUT, "1\n", 2);
    kill(run.pid, SIGKILL);
    run_wait_killed(&run);
    run_free(&run);
}

/* The guard of this aqrun, other than `but`. */
static pid_t await_guard(const struct run *run, pid_t but)
{
    pid_t pids[64];
    for (int tries = 0; tries < 5000; tries++, usleep(1000)) {
        size_t count = run_processes(run, pids, sizeof(pids) / sizeof(pids[0]));
        for (size_t i = 0; i < count; i++)
            if (pids[i] != but && process_is_named(pids[i], "aq-guard\n")) return pids[i];
    }
    fail_msg("there is no guard");
    return 0;
}

static void test_a_guard_that_is_killed_has_a_successor(void **state)
{
    (void)state;
    struct run run;
    job_start(&run, "-n", "2", "sh", "-c", "(echo 1; sleep 1000; true) & wait; true");
    run_until(&run, OUT, "1\n", 2);
    pid_t guard = await_guard(&run, 0);
    kill(guard, SIGKILL);
    (void)await_guard(&run, guard);
    kill(run.pid, SIGKILL);
    run_wait_killed(&run);
    run_free(&run);
}

/* aqrun, the ranks and the guard, all at the same time. */
static void test_kill_9_of_everything(void **state)
{
    (void)state;
    struct run run;
    job_start(&run, "-v", "-n", "4", JOB_CLIENT, "open", "barrier", "share=1000000", "print=1",
              "hang");
    run_until(&run, OUT, "1\n", 4);
    pid_t pids[4];
    for (unsigned i = 0; i < 4; i++)
        pids[i] = rank_pid(&run, i);
    kill(run.pid, SIGSTOP);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(kill(pids[i], SIGKILL), 0);
    kill(run.pid, SIGKILL);
    run_wait_killed(&run);
    run_free(&run);
}

static void test_signals_end_the_job(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        struct run run;
        char text[100], event[100];
        job_start(&run, "-n", "3", JOB_CLIENT, "open", "barrier", "print=1", "wait");
        run_until(&run, OUT, "1\n", 3);
        kill(run.pid, signals[i]);
        run_wait(&run);
        expect_code(&run, 128 + signals[i]);
        snprintf(text, sizeof(text), "aqrun: the launcher got signal %d (", signals[i]);
        expect_text(&run, ERR, text);
        expect_count(&run, ERR, "\n", 1);
        snprintf(event, sizeof(event), "event 1 of rank -1 with code %d", 128 + signals[i]);
        expect_count(&run, OUT, event, 3);
        run_free(&run);
    }
}

static void test_signals_end_programs_without_the_library(void **state)
{
    (void)state;
    struct run run;
    job_start(&run, "-n", "3", "sh", "-c", "echo 1; sleep 1000");
    run_until(&run, OUT, "1\n", 3);
    kill(run.pid, SIGINT);
    run_wait(&run);
    expect_code(&run, 130);
    run_free(&run);
}

static void test_the_second_signal_kills_at_once(void **state)
{
    (void)state;
    struct run run;
    job_start(&run, "-n", "3", "-E", "AQ_EXIT_TIMEOUT=100s", JOB_CLIENT, "open", "barrier",
              "print=1", "hang");
    run_until(&run, OUT, "1\n", 3);
    kill(run.pid, SIGINT);
    run_until(&run, ERR, "ending the job", 1);
    kill(run.pid, SIGINT);
    run_wait(&run);
    expect_code(&run, 130);
    run_free(&run);
}

/* A program that starts aqrun with a signal ignored, such as nohup, expects it to stay ignored. */
static void test_an_ignored_signal(void **state)
{
    (void)state;
    struct run run;
    run_start(&run, "sh", "-c",
              "trap '' HUP; exec \"$0\" -n 1 sh -c 'kill -HUP $PPID; kill -HUP $$; echo alive'",
              JOB_AQRUN, NULL);
    run_wait(&run);
    expect_code(&run, 0);
    expect_text(&run, OUT, "alive");
    run_free(&run);
}

static char process_state(pid_t pid)
{
    char path[40], text[400] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return 0;
    ssize_t len = read(fd, text, sizeof(text) - 1);
    close(fd);
    const char *end = len > 0 ? strrchr(text, ')') : NULL;
    return end != NULL ? end[2] : 0;
}

/* Poll for a state that is reached soon, as there is nothing to wait on. */
static void await_state(pid_t pid, const char *wanted)
{
    for (int i = 0; i < 5000 && (process_state(pid) == 0 || !strchr(wanted, process_state(pid)));
         i++)
        usleep(1000);
    assert_non_null(strchr(wanted, process_state(pid)));
}

static void test_stop_and_continue(void **state)
{
    (void)state;
    struct run run;
    /* With exec, since a shell stopped in the middle of vfork is in state D, not T. */
    job_start(&run, "-v", "-n", "2", "sh", "-c", "echo 1; exec sleep 1000");
    run_until(&run, OUT, "1\n", 2);
    pid_t pids[] = {rank_pid(&run, 0), rank_pid(&run, 1)};
    kill(run.pid, SIGTSTP);
    await_state(run.pid, "T");
    await_state(pids[0], "T");
    await_state(pids[1], "T");
    kill(run.pid, SIGCONT);
    await_state(pids[0], "SRD");
    await_state(pids[1], "SRD");
    kill(run.pid, SIGTERM);
    run_wait(&run);
    expect_code(&run, 128 + SIGTERM);
    run_free(&run);
}

/* Stopped ranks can be ended. */
static void test_a_stopped_rank_ends_too(void **state)
{
    (void)state;
    struct run run;
    job_start(&run, "-v", "-n", "2", "-E", "AQ_EXIT_TIMEOUT=2s", JOB_CLIENT, "open", "barrier",
              "print=1", "wait");
    run_until(&run, OUT, "1\n", 2);
    pid_t stopped = rank_pid(&run, 1);
    kill(stopped, SIGSTOP);
    await_state(stopped, "T");
    kill(rank_pid(&run, 0), SIGKILL);
    run_wait(&run);
    expect_code(&run, 137);
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill_9_of_aqrun),
        cmocka_unit_test(test_kill_9_before_joining),
        cmocka_unit_test(test_kill_9_with_shells_between),
        cmocka_unit_test(test_a_guard_that_is_killed_has_a_successor),
        cmocka_unit_test(test_kill_9_of_everything),
        cmocka_unit_test(test_signals_end_the_job),
        cmocka_unit_test(test_signals_end_programs_without_the_library),
        cmocka_unit_test(test_the_second_signal_kills_at_once),
        cmocka_unit_test(test_an_ignored_signal),
        cmocka_unit_test(test_stop_and_continue),
        cmocka_unit_test(test_a_stopped_rank_ends_too),
    };
    return cmocka_run_group_tests_name("kill", tests, NULL, NULL);
}
