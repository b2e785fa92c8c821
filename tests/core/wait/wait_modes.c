/*
 * The effects of aq_wait_mode_set: whether waits yield and sleep, according to the counters, and
 * whether endless polling does. A wait that should sleep ends once it has slept; others end after
 * more rounds and more time than any mode needs to sleep.
 *
 * usage: wait_modes [given]
 *   given  AQ_WAIT=block is set, and the mode does not change
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../support.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 10000, WAIT_MS = 20, POLLS = 1000 };

struct wait {
    bool sleeps;
    unsigned rounds;
    uint64_t slept;
    struct timespec since;
};

static int is_over(void *arg)
{
    struct wait *wait = arg;
    struct timespec now;
    if (wait->sleeps) return job_counter("sleep") > wait->slept;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ms = (int64_t)(now.tv_sec - wait->since.tv_sec) * 1000 +
                 (now.tv_nsec - wait->since.tv_nsec) / 1000000;
    return ++wait->rounds >= ROUNDS && ms >= WAIT_MS;
}

static void check_mode(aq_wait_mode mode, bool yields, bool sleeps)
{
    struct wait wait = {.sleeps = sleeps, .slept = job_counter("sleep")};
    uint64_t yielded = job_counter("yield");
    CHECK_OK(aq_wait_mode_set(mode));
    clock_gettime(CLOCK_MONOTONIC, &wait.since);
    CHECK_OK(aq_poll_until(is_over, &wait, AQ_FOREVER));
    CHECK_EQUAL(job_counter("yield") > yielded, yields);
    CHECK_EQUAL(job_counter("sleep") > wait.slept, sleeps);
}

static void check_polls(aq_wait_mode mode, bool yields)
{
    uint64_t yielded = job_counter("yield");
    CHECK_OK(aq_wait_mode_set(mode));
    for (unsigned i = 0; i < POLLS; i++)
        CHECK(aq_poll() >= AQ_OK);
    CHECK_EQUAL(job_counter("yield") > yielded, yields);
}

/* Run all ranks on one core, so that there are more ranks than cores. */
static void share_core(void)
{
    cpu_set_t all, one;
    unsigned cpu = 0;
    CHECK_EQUAL(sched_getaffinity(0, sizeof(all), &all), 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CHECK_EQUAL(sched_setaffinity(0, sizeof(one), &one), 0);
}

int main(int argc, char **argv)
{
    bool given = argc > 1 && strcmp(argv[1], "given") == 0;
    share_core();
    CHECK_REFUSED(aq_wait_mode_set(AQ_WAIT_SPIN), AQ_ESTATE);
    job_open(AQ_THREAD_SINGLE, 4096);
    check_mode(AQ_WAIT_BLOCK, false, true);
    check_mode(AQ_WAIT_SHARE, !given, true);
    check_mode(AQ_WAIT_YIELD, !given, given);
    check_mode(AQ_WAIT_SPIN, !given && job.size > 1, given || job.size > 1);
    check_mode(AQ_WAIT_AUTO, !given, true);
    check_polls(AQ_WAIT_BLOCK, false);
    check_polls(AQ_WAIT_SHARE, !given);
    check_polls(AQ_WAIT_SPIN, !given && job.size > 1);
    check_polls(AQ_WAIT_AUTO, !given && job.size > 1);
    CHECK_REFUSED(aq_wait_mode_set((aq_wait_mode)5), AQ_EINVAL);
    job_close();
    return 0;
}
