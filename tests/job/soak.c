/*
 * Kills at random moments: after a random time, some processes of a job get a random signal: aqrun,
 * its guard, ranks, or all. Nothing may be left behind: no process, no file, no socket.
 *
 *   job_soak [--repeats N] [--seed S]        by hand: 500; in the test suite a few
 */
#include "harness.h"

#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PROCESSES = 64 };

static unsigned long repeats = 40;
static uint64_t seed, state;

static uint64_t soak_random(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

/* A program to run: its undisturbed duration bounds the random moment. */
struct program {
    const char *name;
    const char *argv[6];
    double seconds; /* 0: it never ends by itself */
};

static struct program programs[] = {
    {"start and leave", {JOB_CLIENT, "open", "gather=4000", "share=1000000", "finalize"}, 0.02},
    {"stress", {JOB_STRESS}, 0.3},
    {"hang", {JOB_CLIENT, "open", "barrier", "hang"}, 0},
    {"shell", {"sh", "-c", "\"$0\" open barrier pause; true", JOB_CLIENT}, 0},
    {"no library", {"sh", "-c", "sleep 1000; true"}, 0},
};

enum target { AQRUN, GUARD, RANK, RANKS, AQRUN_AND_RANKS, AQRUN_AND_GUARD, ALL, TARGETS };

static const char *const target_names[TARGETS] = {
    "aqrun",     "the guard", "a rank", "the ranks", "aqrun and the ranks", "aqrun and the guard",
    "everything"};

static const int signals[] = {SIGKILL, SIGKILL, SIGTERM, SIGINT};

struct processes {
    pid_t guard;
    pid_t others[MOST_PROCESSES];
    size_t count;
};

/*
 * A process still named aqrun may be the guard, which has not set its name yet. It is excluded
 * where the guard must live, see possible().
 */
static void look(const struct run *run, struct processes *found, bool shell)
{
    pid_t pids[MOST_PROCESSES];
    size_t count = run_processes(run, pids, MOST_PROCESSES);
    *found = (struct processes){0};
    for (size_t i = 0; i < count; i++) {
        if (pids[i] == run->pid) continue;
        if (shell && process_is_named(pids[i], "aqrun\n")) continue;
        if (process_is_named(pids[i], "aq-guard\n"))
            found->guard = pids[i];
        else
            found->others[found->count++] = pids[i];
    }
}

static void hit(const struct run *run, enum target target, int number, bool shell)
{
    struct processes found;
    look(run, &found, shell);
    bool aqrun = target == AQRUN || target >= AQRUN_AND_RANKS;
    bool guard = target == GUARD || target == AQRUN_AND_GUARD || target == ALL;
    bool ranks = target == RANKS || target == AQRUN_AND_RANKS || target == ALL;
    if (target == RANK && found.count > 0) kill(found.others[soak_random(found.count)], number);
    /* In a random order: either may notice the other's end first. */
    bool ranks_first = soak_random(2) == 0;
    for (int step = 0; step < 2; step++) {
        if (aqrun && step == (int)ranks_first) kill(run->pid, number);
        if (guard && found.guard != 0 && step == 0) kill(found.guard, SIGKILL);
        for (size_t i = 0; ranks && step != (int)ranks_first && i < found.count; i++)
            kill(found.others[i], number);
    }
}

static void nap(uint64_t us)
{
    struct timespec time = {.tv_sec = (time_t)(us / 1000000),
                            .tv_nsec = (long)(us % 1000000) * 1000};
    while (nanosleep(&time, &time) != 0)
        continue;
}

static bool is_shell(const struct program *program)
{
    return strcmp(program->argv[0], "sh") == 0;
}

/*
 * Processes started by a shell are ended by aqrun or the guard; if both are killed, nothing ends
 * them (docs/semantics.md), so that is not tested.
 */
static bool possible(const struct program *program, enum target target)
{
    return !is_shell(program) || (target != AQRUN_AND_GUARD && target != ALL);
}

static void one(unsigned long number)
{
    struct program *program;
    enum target target;
    do {
        program = &programs[soak_random(sizeof(programs) / sizeof(programs[0]))];
        target = (enum target)soak_random(TARGETS);
    } while (!possible(program, target));
    int signal_number = signals[soak_random(sizeof(signals) / sizeof(signals[0]))];
    double longest = program->seconds > 0 ? program->seconds : 0.05;
    uint64_t us = soak_random((uint64_t)(longest * 1.2e6));
    char ranks[16];
    snprintf(ranks, sizeof(ranks), "%u", 1 + (unsigned)soak_random(6));
    print_message("%lu: %s of %s ranks; after %llu us signal %d to %s\n", number, program->name,
                  ranks, (unsigned long long)us, signal_number, target_names[target]);
    struct run run;
    const char *const *argv = program->argv;
    job_start(&run, "-E", "AQ_EXIT_TIMEOUT=2s", "-n", ranks, argv[0], argv[1], argv[2], argv[3],
              argv[4], argv[5]);
    nap(us);
    hit(&run, target, signal_number, is_shell(program));
    /* It may have hit no process, or one that the job can do without. */
    if (target < AQRUN_AND_RANKS && target != AQRUN) {
        nap(soak_random(100000));
        kill(run.pid, SIGTERM);
    }
    run_wait_killed(&run);
    expect_no_socket(&run);
    run_free(&run);
}

static void test_kills(void **unused)
{
    (void)unused;
    for (unsigned long i = 0; i < repeats; i++)
        one(i);
}

int main(int argc, char **argv)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    seed = (uint64_t)time.tv_nsec;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--repeats") == 0) repeats = strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    }
    state = seed * 2654435761u + 88172645463325252u;
    print_message("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kills)};
    return cmocka_run_group_tests_name("soak", tests, NULL, NULL);
}
