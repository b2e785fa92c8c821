/* Output and input of ranks: complete, in whole lines, and never blocking the launcher. */
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Every line must be the next one of its rank. */
static void expect_lines(const struct run *run, int stream, const char *word, unsigned ranks,
                         unsigned lines)
{
    unsigned *next = calloc(ranks, sizeof(*next));
    unsigned rank, number;
    char got[8];
    for (char *line = run->text[stream]; *line != '\0'; line = strchr(line, '\n') + 1) {
        assert_non_null(strchr(line, '\n'));
        assert_int_equal(sscanf(line, "[%u] %7s %u\n", &rank, got, &number), 3);
        assert_string_equal(got, word);
        assert_true(rank < ranks);
        assert_int_equal(number, next[rank]);
        next[rank]++;
    }
    for (rank = 0; rank < ranks; rank++)
        assert_int_equal(next[rank], lines);
    free(next);
}

static void test_nothing_is_lost(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-p", "-n", "4", JOB_CLIENT, "lines=20000");
    expect_code(&run, 0);
    expect_lines(&run, OUT, "out", 4, 20000);
    expect_lines(&run, ERR, "err", 4, 20000);
    run_free(&run);
}

/* Not even output that a rank wrote just before it crashed. */
static void test_nothing_is_lost_in_a_crash(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-p", "-n", "2", JOB_CLIENT, "open", "lines=5000@1", "signal=11@1", "wait");
    expect_code(&run, 139);
    expect_count(&run, OUT, "[1] out ", 5000);
    expect_count(&run, ERR, "[1] err ", 5000);
    expect_count(&run, ERR, "ending the job", 1);
    run_free(&run);
}

static void test_lines_without_end(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-p", "-n", "2", "sh", "-c", "printf 'a\\n\\nb'; printf 'c' >&2");
    expect_code(&run, 0);
    expect_count(&run, OUT, "[0] a\n", 1);
    expect_count(&run, OUT, "[1] \n", 1);
    expect_count(&run, OUT, "[1] b\n", 1);
    expect_count(&run, ERR, "[0] c\n", 1);
    run_free(&run);
    job_run(&run, "-p", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x");
    expect_code(&run, 0);
    size_t letters = 0;
    for (const char *at = run.text[OUT]; *at != '\0'; at++)
        letters += *at == 'x';
    assert_int_equal(letters, 3000000);
    run_free(&run);
}

static void test_without_prefix_bytes_are_untouched(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "2", "printf", "ab");
    expect_code(&run, 0);
    assert_string_equal(run.text[OUT], "abab");
    run_free(&run);
}

/* As without a relay, ranks whose output has no reader get SIGPIPE, and the job ends. */
static void test_a_reader_that_leaves(void **state)
{
    (void)state;
    struct run run;
    run_start(&run, "bash", "-c", "\"$0\" -p -n 2 yes | head -n 1; echo code ${PIPESTATUS[0]}",
              JOB_AQRUN, NULL);
    run_wait(&run);
    expect_text(&run, OUT, "] y\ncode 141\n");
    expect_text(&run, ERR, "was killed by signal 13 (Broken pipe)");
    run_free(&run);
}

/*
 * While the output is not read, ranks have to wait, but the launcher does not; when the reader
 * continues, it gets all of it.
 */
static void test_a_reader_that_sleeps(void **state)
{
    (void)state;
    int ends[2], gate[2], held;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pipe(gate), 0);
    char path[2][40];
    snprintf(path[0], sizeof(path[0]), "/proc/%d/fd/%d", (int)getpid(), ends[1]);
    snprintf(path[1], sizeof(path[1]), "/proc/%d/fd/%d", (int)getpid(), gate[0]);
    struct run run;
    run_start(
        &run, "sh", "-c",
        "exec \"$0\" -v -p -n 3 sh -c 'test $AQ_RANK = 0 || exec yes; read x <\"$1\"; kill -9 $$'"
        " - \"$2\" >\"$1\"",
        JOB_AQRUN, path[0], path[1], NULL);
    struct pollfd room = {.fd = ends[1], .events = POLLOUT};
    while (poll(&room, 1, 0) == 1)
        usleep(1000);
    assert_int_equal(ioctl(ends[0], FIONREAD, &held), 0);
    assert_int_equal(write(gate[1], "\n", 1), 1);
    close(ends[1]); /* the job has opened it by now */
    run_until(&run, ERR, "was killed by signal 9 (Killed); ending the job", 1);
    /* The ranks end although aqrun still has their output. */
    run_until(&run, ERR, "was killed by signal 15", 2);
    struct pollfd alive = {.fd = run.pidfd, .events = POLLIN};
    assert_int_equal(poll(&alive, 1, 0), 0);
    char chunk[65536];
    size_t total = 0;
    ssize_t got;
    while ((got = read(ends[0], chunk, sizeof(chunk))) > 0)
        total += (size_t)got;
    assert_true(total > (size_t)held); /* including what aqrun could not write then */
    close(ends[0]);
    close(gate[0]);
    close(gate[1]);
    run_wait(&run);
    expect_code(&run, 137);
    run_free(&run);
}

static void test_a_closed_output(void **state)
{
    (void)state;
    struct run run;
    run_start(&run, "sh", "-c", "exec \"$0\" -n 2 sh -c 'echo x >&2' >&-", JOB_AQRUN, NULL);
    run_wait(&run);
    expect_code(&run, 0);
    expect_count(&run, ERR, "x\n", 2);
    run_free(&run);
    run_start(&run, "sh", "-c", "exec \"$0\" -p sh -c 'echo x; echo y >&2' >/dev/full", JOB_AQRUN,
              NULL);
    run_wait(&run);
    expect_code(&run, 1);
    expect_text(&run, ERR, "aqrun: cannot write standard output: No space left on device\n");
    expect_text(&run, ERR, "[0] y\n");
    run_free(&run);
}

static void test_input_goes_to_rank_0(void **state)
{
    (void)state;
    struct run run;
    run_start(&run, "sh", "-c", "echo hello | \"$0\" -p -n 3 cat", JOB_AQRUN, NULL);
    run_wait(&run);
    expect_code(&run, 0);
    assert_string_equal(run.text[OUT], "[0] hello\n");
    run_free(&run);
}

/*
 * Ranks are background processes of the terminal, which may not read from it: aqrun reads for them.
 */
static void test_input_from_a_terminal(void **state)
{
    (void)state;
    int terminal;
    pid_t pid = forkpty(&terminal, NULL, NULL, NULL);
    if (pid < 0) {
        print_message("skipped: no terminal can be opened: %s\n", strerror(errno));
        skip();
    }
    if (pid == 0) {
        execl(JOB_AQRUN, "aqrun", "-n", "2", "sh", "-c",
              "read word && echo \"$AQ_RANK got $word.\" || echo \"$AQ_RANK got nothing.\"", NULL);
        _exit(99);
    }
    assert_int_equal(write(terminal, "hello\n", 6), 6);
    char text[4096] = "";
    size_t used = 0;
    ssize_t got;
    while (used < sizeof(text) - 1 &&
           (got = read(terminal, text + used, sizeof(text) - 1 - used)) > 0)
        used += (size_t)got;
    int status;
    waitpid(pid, &status, 0);
    close(terminal);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_non_null(strstr(text, "0 got hello."));
    assert_non_null(strstr(text, "1 got nothing."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_lost),
        cmocka_unit_test(test_nothing_is_lost_in_a_crash),
        cmocka_unit_test(test_lines_without_end),
        cmocka_unit_test(test_without_prefix_bytes_are_untouched),
        cmocka_unit_test(test_a_reader_that_leaves),
        cmocka_unit_test(test_a_reader_that_sleeps),
        cmocka_unit_test(test_a_closed_output),
        cmocka_unit_test(test_input_goes_to_rank_0),
        cmocka_unit_test(test_input_from_a_terminal),
    };
    return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
