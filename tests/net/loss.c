/*
 * Rank 0 measures performance over a network that loses packets: short requests with their replies
 * and puts of 8 bytes, one at a time, and puts of 1 MB, many of them under way. Prints a line of
 * names and values.
 *
 * usage: net_loss SECONDS, for each of the three
 */
#include "../core/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ASK = 100, ANSWER, OVER, ROUNDS = 200000, LARGE = 1 << 20, UNDER_WAY = 16, WARM = 200 };

static _Atomic uint32_t answers, over;
static double took[ROUNDS]; /* us */
static unsigned char source[LARGE];

static void on_ask(aq_am *am)
{
    CHECK_OK(aq_am_reply_short(am, ANSWER, NULL, 0, 0));
}

static void on_answer(aq_am *am)
{
    (void)am;
    answers++;
}

static void on_over(aq_am *am)
{
    (void)am;
    over = 1;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void ask(void)
{
    uint32_t before = answers;
    CHECK_OK(aq_am_short(job.team, 1, ASK, NULL, 0, 0));
    job_await(&answers, before + 1);
}

static void put(void)
{
    CHECK_OK(aq_put(job.team, 1, job_at(1, 0), source, 8, 0));
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One at a time, for this many seconds. */
static void alone(const char *name, void (*act)(void), double seconds)
{
    unsigned n = 0;
    for (unsigned i = 0; i < WARM; i++)
        act();
    double begun = now(), end = begun;
    for (double from = begun; n < ROUNDS && end - begun < seconds; from = end) {
        act();
        end = now();
        took[n++] = 1e6 * (end - from);
    }
    qsort(took, n, sizeof(took[0]), compare);
    printf("%s_mean %.1f %s_median %.1f %s_p99 %.1f %s_most %.0f ", name, 1e6 * (end - begun) / n,
           name, took[n / 2], name, took[n * 99 / 100], name, took[n - 1]);
}

static void large(double seconds)
{
    double begun = now(), end = begun, bytes = 0;
    for (unsigned i = 0; i < WARM / UNDER_WAY || end - begun < seconds; i++) {
        if (i == WARM / UNDER_WAY) {
            begun = now();
            bytes = 0;
        }
        for (size_t k = 0; k < UNDER_WAY; k++)
            CHECK_OK(aq_put_nbi(job.team, 1, job_at(1, k * LARGE), source, LARGE, 0));
        CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
        bytes += UNDER_WAY * (double)LARGE;
        end = now();
    }
    printf("large %.3f\n", 1e-9 * bytes / (end - begun));
}

int main(int argc, char **argv)
{
    aq_handler_entry table[] = {{ASK, 0, AQ_AM_REQUEST | AQ_AM_SHORT, on_ask, NULL, "ask"},
                                {ANSWER, 0, AQ_AM_REPLY | AQ_AM_SHORT, on_answer, NULL, "answer"},
                                {OVER, 0, AQ_AM_REQUEST | AQ_AM_SHORT, on_over, NULL, "over"}};
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 0;
    job_open(AQ_THREAD_SINGLE, UNDER_WAY * (size_t)LARGE);
    CHECK(seconds > 0);
    CHECK_EQUAL(job.size, 2);
    job_handlers(table, COUNT_OF(table));
    if (job.self == 0) {
        alone("ask", ask, seconds);
        alone("put", put, seconds);
        large(seconds);
        CHECK_OK(aq_am_short(job.team, 1, OVER, NULL, 0, 0));
    } else {
        job_await(&over, 1);
    }
    job_close();
    return 0;
}
