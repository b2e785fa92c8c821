/*
 * How jobs end: a table (exits_table.c) of actions of one rank while the others are in some state,
 * or of actions from outside. Each row has the exit code of aqrun, its messages and output, and the
 * time until the job has ended; afterwards, no process, socket or file may be left.
 *
 * job_exits [--ranks N] [--over shm|udp|ibv] [--only HOW/WHERE[/NOTE],…] [--repeats N]
 * [--timeout-factor N]
 *
 * The actions of ranks are in tests/core/setup/victim*.c; death.c and kill.c test aqrun alone. The
 * times of signals are tested without waiting in src/job/hub/closing_test.c and
 * src/lib/limit_test.c.
 */
#include "exits.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * AQ_EXIT_TIMEOUT, in seconds, where ranks do not notice the end: SIGTERM comes after a quarter of
 * it, SIGKILL after three. Other rows use that of the harness, so that a job that needs signals
 * hangs.
 */
#define DEAF_TIMEOUT 0.6
#define LIMIT        2.0
/* A job may be late if other programs use the cores, but not each time. */
enum { TRIES = 3, NAME = 100 };

/* Rows in which ranks wait for signals run concurrently with other rows. */
enum part { ALL_ROWS, DEAF_ROWS, OTHER_ROWS };

static struct {
    unsigned ranks, repeats;
    const char *over, *only;
    enum part part;
} options = {.ranks = 3, .repeats = 1, .over = "shm"};

/* Seconds that the latest job took to start: on a busy machine, its end may take as long. */
static double start;

static char folder[] = "/tmp/job-exits-XXXXXX"; /* for temporary files of ranks */

static double exits_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void exits_name(const struct exit_case *row, char name[NAME])
{
    snprintf(name, NAME, "%s/%s%s%s", row->how, row->where, row->note != NULL ? "/" : "",
             row->note != NULL ? row->note : "");
}

static bool exits_far(void)
{
    return getenv("AQ_HOSTS") != NULL;
}

/* Agents of other hosts end their ranks in order even if aqrun is killed, as only the network
 * might have failed. */
static bool exits_deaf(const struct exit_case *row)
{
    return row->deaf || (row->killed && exits_far());
}

static double exits_timeout(void)
{
    return DEAF_TIMEOUT * run_timeout_factor + 2 * start;
}

static double exits_limit(const struct exit_case *row, double timeout)
{
    /*
     * If starting takes several times as long as usual, so does the kernel's ending of processes.
     */
    if (row->limit > 0) return row->limit * run_timeout_factor * JOB_SLOWNESS + start / 2;
    return (exits_deaf(row) ? timeout : LIMIT * run_timeout_factor) * JOB_SLOWNESS + start;
}

static void exits_start(struct run *run, const struct exit_case *row, unsigned ranks,
                        double timeout_s)
{
    char command[400], timeout[40] = "";
    if (exits_deaf(row))
        snprintf(timeout, sizeof(timeout), "-E AQ_EXIT_TIMEOUT=%.0fms", timeout_s * 1000);
    if (row->alone)
        snprintf(command, sizeof(command), "exec \"$1\" %s %s", row->how, row->where);
    else
        snprintf(command, sizeof(command), "exec \"$0\" -n %u %s %s %s %s %s \"$1\" %s %s %s",
                 ranks, row->drive != NULL || row->verbose ? "-v" : "", row->relayed ? "-p" : "",
                 timeout, row->set != NULL ? "-E" : "", row->set != NULL ? row->set : "", row->how,
                 row->where, row->shell != NULL ? row->shell : "");
    run_start(run, "sh", "-c", command, JOB_AQRUN, JOB_VICTIM, NULL);
}

/* Lines that begin with # are the marks of the program, possibly after "[RANK] ". */
static void expect_silence(const struct run *run)
{
    for (const char *line = run->text[ERR]; *line != '\0';) {
        const char *text = *line == '[' ? line + strcspn(line, "#\n") : line;
        if (*text != '#') expect_no_text(run, ERR, line);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
}

static void expect_said(const struct run *run, const struct exit_case *row, unsigned ranks)
{
    char text[256], *at;
    if (row->said == NULL) {
        if (row->drive == NULL && !row->verbose) expect_silence(run);
        return;
    }
    if (strcmp(row->said, ANYTHING) == 0) return;
    const char *mark = strchr(row->said, '@');
    if (mark == NULL) {
        expect_text(run, ERR, row->said);
        return;
    }
    int len = (int)(mark - row->said);
    at = text + snprintf(text, sizeof(text), "%.*s%u", len, row->said, ranks - 1);
    snprintf(at, sizeof(text) - (size_t)(at - text), "%s", mark + 1);
    expect_text(run, ERR, text);
}

static void expect_printed(const struct run *run, const struct exit_case *row, unsigned ranks)
{
    static const enum exit_prints last = PRINT_LAST, others = PRINT_OTHERS;
    for (unsigned rank = 0; rank < ranks && row->prints != PRINT_ANY; rank++) {
        char text[40];
        bool is_last = rank == ranks - 1;
        if ((is_last && row->prints == others) || (!is_last && row->prints == last)) continue;
        snprintf(text, sizeof(text), "rank %u was here\n", rank);
        expect_count(run, OUT, text, 1);
    }
    if (row->each != NULL) expect_count(run, OUT, row->each, ranks * row->times);
    /* In rows "handler" the last rank ends the job in rank 0. */
    unsigned first = strcmp(row->how, "handler") == 0 ? 2 : 1;
    if (row->quits) expect_count(run, OUT, "asked to quit\n", ranks - first);
}

static void expect_ended(const struct run *run, const struct exit_case *row, unsigned ranks)
{
    int code = row->code;
    if (code == CODE_OF_FIRST) {
        const char *said = strstr(run->text[ERR], row->said);
        assert_non_null(said);
        code = atoi(said + strlen(row->said));
        assert_in_range(code, 10, 10 + ranks - 1);
    }
    expect_code(run, code);
    expect_said(run, row, ranks);
    expect_printed(run, row, ranks);
}

static void expect_no_temporary(void)
{
    DIR *here = opendir(folder);
    struct dirent *entry;
    assert_non_null(here);
    while ((entry = readdir(here)) != NULL)
        if (entry->d_name[0] != '.') fail_msg("%s/%s was left behind", folder, entry->d_name);
    closedir(here);
}

/* Returns the time that the end has taken. */
static double exits_once(const struct exit_case *row, unsigned ranks, double timeout)
{
    struct run run;
    exits_start(&run, row, ranks, timeout);
    if (row->drive != NULL) {
        run_until(&run, ERR, "#ready\n", ranks);
        run_until(&run, ERR, "#armed\n", 1);
    } else {
        run_until(&run, ERR, "#ends\n", 1);
    }
    double began = exits_now();
    start = began - run.began;
    if (row->drive != NULL) row->drive(&run, ranks);
    if (row->killed)
        run_wait_killed(&run);
    else
        run_wait(&run);
    double took = exits_now() - began;
    expect_ended(&run, row, ranks);
    expect_no_socket(&run);
    expect_no_temporary();
    run_free(&run);
    return took;
}

static void exits_row(const struct exit_case *row, unsigned ranks)
{
    char name[NAME];
    double took = 0, limit = 0;
    exits_name(row, name);
    for (int i = 0; i < TRIES; i++) {
        double timeout = exits_timeout();
        took = exits_once(row, ranks, timeout);
        limit = exits_limit(row, timeout);
        print_message("%s of %u over %s: %.3f s, after %.3f s\n", name, ranks, options.over, took,
                      start);
        if (took <= limit) return;
    }
    fail_msg("%s has taken %.2f s, more than %.2f, %d times", name, took, limit, TRIES);
}

/* Whether it is one of the rows named by --only. */
static bool exits_named(const char *name)
{
    size_t len = strlen(name);
    for (const char *at = options.only; *at != '\0'; at += *at == ',') {
        size_t part = strcspn(at, ",");
        if (part == len && strncmp(at, name, len) == 0) return true;
        at += part;
    }
    return false;
}

static unsigned exits_least(void)
{
    unsigned count = 1;
    for (const char *at = options.only; at != NULL && (at = strchr(at, ',')) != NULL; at++)
        count++;
    return count;
}

/* Rows with their own number of ranks run only with --ranks 2, or if named. */
static bool exits_wanted(const struct exit_case *row, unsigned *ranks)
{
    char name[NAME];
    exits_name(row, name);
    *ranks = options.ranks;
    if (options.only != NULL) return exits_named(name);
    if (options.part != ALL_ROWS && exits_deaf(row) != (options.part == DEAF_ROWS)) return false;
    if (row->over != NULL && strcmp(row->over, options.over) != 0) return false;
    if (row->direct && exits_far()) return false;
    if (row->ranks == 0 && !row->alone) return true;
    *ranks = row->alone ? 1 : row->ranks;
    return options.ranks == 2 && (*ranks < 64 || JOB_SLOWNESS == 1);
}

static void test_exits(void **state)
{
    (void)state;
    unsigned rows = 0, ranks;
    for (unsigned i = 0; i < options.repeats; i++)
        for (size_t k = 0; k < exit_cases_count; k++) {
            const struct exit_case *row = &exit_cases[k];
            if (!exits_wanted(row, &ranks)) continue;
            rows++;
            for (unsigned j = 0; j < 1 || j < row->repeats; j++)
                exits_row(row, ranks);
        }
    assert_true(rows >= exits_least()); /* at least one of each name */
}

static const char *exits_transports(void)
{
    static const char *const lists[] = {"loop,shm", "loop,udp", "loop,ibv"};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        if (strcmp(lists[i] + strlen("loop,"), options.over) == 0) return lists[i];
    return NULL;
}

static int exits_read(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--ranks") == 0)
            options.ranks = (unsigned)atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--repeats") == 0)
            options.repeats = (unsigned)atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--timeout-factor") == 0)
            run_timeout_factor = (unsigned)atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--over") == 0)
            options.over = argv[i + 1];
        else if (strcmp(argv[i], "--only") == 0)
            options.only = argv[i + 1];
        else
            return -1;
    }
    if (run_timeout_factor == 0 || exits_transports() == NULL) return -1;
    return argc % 2 == 1 && options.ranks > 1 ? 0 : -1;
}

static int exits_run(enum part part)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exits)};
    options.part = part;
    if (mkdtemp(folder) == NULL) return 1;
    setenv("TMPDIR", folder, 1);
    int failed =
        cmocka_run_group_tests_name(part == DEAF_ROWS ? "deaf" : "exits", tests, NULL, NULL);
    rmdir(folder);
    return failed;
}

static int exits_run_parts(void)
{
    int status = 0;
    pid_t deaf = fork();
    if (deaf == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(exits_run(DEAF_ROWS));
    }
    int failed = exits_run(OTHER_ROWS);
    return deaf < 0 || waitpid(deaf, &status, 0) != deaf || status != 0 ? 1 : failed;
}

int main(int argc, char **argv)
{
    if (exits_read(argc, argv) != 0) {
        fprintf(stderr, "usage: job_exits [--ranks N] [--over shm|udp|ibv] [--only CASE,…] "
                        "[--repeats N] [--timeout-factor N], with N > 1 ranks\n");
        return 2;
    }
    /* A shell that starts us in the background ignores them. */
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    /* Over udp each rank is a host of its own. */
    setenv("AQ_TRANSPORTS", exits_transports(), 1);
    if (strcmp(options.over, "udp") == 0) setenv("AQ_NEIGHBORHOOD", "1", 1);
    setenv("AQT_MARKS", "1", 1);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* two processes write to it */
    return options.only != NULL ? exits_run(ALL_ROWS) : exits_run_parts();
}
