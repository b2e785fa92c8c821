/* Tests limit.c: the last output of a process, into pipes that are read slowly. */
#include "base/cmocka_test.h"
#include "job/settings.h"
#include "lib/lib.h"

#include <aqueduct/job.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char text[] = "the last line\n";

/* A process that prints into the pipe, and flushes on a signal; returns how it ended. */
static int run_child(const int *pipe_fd, void (*prepare)(void))
{
    pid_t child = fork();
    if (child == 0) {
        struct itimerval timer;
        dup2(pipe_fd[1], STDOUT_FILENO);
        setvbuf(stdout, NULL, _IOFBF, 4096);
        fputs(text, stdout);
        aqi_job_config.exit_timeout_ns = 400000000;
        if (prepare != NULL) prepare();
        aq_job_flush(SIGUSR1);
        getitimer(ITIMER_REAL, &timer);
        _exit(timer.it_interval.tv_sec != 0 || timer.it_interval.tv_usec != 0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void make_pipe(int *pipe_fd)
{
    assert_int_equal(pipe(pipe_fd), 0);
}

static void close_pipe(const int *pipe_fd)
{
    close(pipe_fd[0]);
    close(pipe_fd[1]);
}

/* So that the next write blocks. */
static void fill_pipe(const int *pipe_fd)
{
    static const char bytes[4096];
    int flags = fcntl(pipe_fd[1], F_GETFL);
    fcntl(pipe_fd[1], F_SETFL, flags | O_NONBLOCK);
    while (write(pipe_fd[1], bytes, sizeof(bytes)) > 0)
        ;
    fcntl(pipe_fd[1], F_SETFL, flags);
}

static void printed_text_is_written(void **state)
{
    int pipe_fd[2];
    char buf[2 * sizeof(text)];
    make_pipe(pipe_fd);
    int status = run_child(pipe_fd, NULL);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(read(pipe_fd[0], buf, sizeof(buf)), strlen(text));
    assert_memory_equal(buf, text, strlen(text));
    close_pipe(pipe_fd);
}

/* As inside the handler of that signal. */
static void block_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static void a_process_that_cannot_write_dies_of_the_signal(void **state)
{
    void (*const prepare[])(void) = {NULL, block_signal};
    for (size_t i = 0; i < AQI_COUNT_OF(prepare); i++) {
        int pipe_fd[2];
        make_pipe(pipe_fd);
        fill_pipe(pipe_fd);
        int status = run_child(pipe_fd, prepare[i]);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGUSR1);
        close_pipe(pipe_fd);
    }
}

static pthread_barrier_t held;

static void *hold_stream(void *arg)
{
    flockfile(stdout);
    pthread_barrier_wait(&held);
    for (;;)
        pause();
    return NULL;
}

static void begin_holding(void)
{
    pthread_t thread;
    pthread_barrier_init(&held, NULL, 2);
    pthread_create(&thread, NULL, hold_stream, NULL);
    pthread_barrier_wait(&held);
}

static void a_stream_that_is_held_is_left_out(void **state)
{
    int pipe_fd[2];
    make_pipe(pipe_fd);
    int status = run_child(pipe_fd, begin_holding);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close_pipe(pipe_fd);
}

static void leave_already(void)
{
    _exit(7);
}

static void begin_leaving(void)
{
    lib_limit(leave_already);
}

/* An existing limit remains: it is for the whole process. */
static void a_process_that_is_leaving_keeps_its_limit(void **state)
{
    int pipe_fd[2];
    make_pipe(pipe_fd);
    fill_pipe(pipe_fd);
    int status = run_child(pipe_fd, begin_leaving);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    close_pipe(pipe_fd);
}

/* --- expiry: the test sends the alarms, so no time has to pass ------------------------------- */

enum { LIMIT_S = 1000, ROUNDS = 10 };

/*
 * A process under a limit that stops itself `stops` times; returns how it ended. Each time,
 * `alarms` of its timer arrive meanwhile.
 */
static int run_stopped(unsigned stops, unsigned alarms)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        struct itimerval timer;
        aqi_job_config.exit_timeout_ns = LIMIT_S * 1000000000ull;
        lib_limit(leave_already);
        getitimer(ITIMER_REAL, &timer);
        if (timer.it_interval.tv_sec != LIMIT_S / 2 / ROUNDS) _exit(1);
        for (unsigned i = 0; i < stops; i++)
            raise(SIGSTOP);
        _exit(0);
    }
    for (unsigned i = 0; i < stops; i++) {
        assert_int_equal(waitpid(child, &status, WUNTRACED), child);
        if (!WIFSTOPPED(status)) return status;
        for (unsigned k = 0; k < alarms; k++)
            kill(child, SIGALRM);
        kill(child, SIGCONT);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void time_is_up_after_ten_rounds_of_half_the_timeout(void **state)
{
    assert_int_equal(run_stopped(ROUNDS - 1, 1), 0);
    assert_int_equal(run_stopped(ROUNDS, 1), 7 << 8);
}

/* However long a stop lasts, it costs the process no more rounds than a short one. */
static void a_stop_counts_as_one_round(void **state)
{
    assert_int_equal(run_stopped(1, 100 * ROUNDS), 0);
    assert_int_equal(run_stopped(ROUNDS - 1, 100 * ROUNDS), 0);
    assert_int_equal(run_stopped(ROUNDS, 100 * ROUNDS), 7 << 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printed_text_is_written),
        cmocka_unit_test(a_process_that_cannot_write_dies_of_the_signal),
        cmocka_unit_test(a_stream_that_is_held_is_left_out),
        cmocka_unit_test(a_process_that_is_leaving_keeps_its_limit),
        cmocka_unit_test(time_is_up_after_ten_rounds_of_half_the_timeout),
        cmocka_unit_test(a_stop_counts_as_one_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
