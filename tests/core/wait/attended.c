/*
 * Transfers of peers count as activity of a rank whose processor serves them: the rank, which waits
 * meanwhile and gets no messages for its program, stays awake. Run with AQ_WAIT=share, so that it
 * sleeps at most once per millisecond; a rank that did not count transfers would sleep between any
 * two of them. On a busy machine the test takes longer, but the number of sleeps is not higher.
 */
#include "../support.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { DONE = 200, TRANSFERS = 3000, BYTES = 64, AT_THE_ENDS = 20 };

static _Atomic uint32_t done;

static void on_done(aq_am *am)
{
    (void)am;
    atomic_fetch_add(&done, 1);
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void transfers(void)
{
    unsigned char out[BYTES], in[BYTES];
    for (uint32_t i = 0; i < TRANSFERS; i++) {
        fill(out, BYTES, i);
        CHECK_OK(aq_put(job.team, 1, job_at(1, 0), out, BYTES, 0));
        CHECK_OK(aq_get(job.team, 1, in, job_at(1, 0), BYTES, 0));
        CHECK(filled(in, BYTES, i));
    }
    CHECK_OK(aq_am_short(job.team, 1, DONE, AQ_NO_ARGS, 0));
}

static void wait(void)
{
    double begun = now_ms();
    uint64_t before = job_counter("sleep");
    job_await(&done, 1);
    uint64_t sleeps = job_counter("sleep") - before;
    double ms = now_ms() - begun;
    printf("%llu sleeps in %.1f ms\n", (unsigned long long)sleeps, ms);
    CHECK((double)sleeps < ms + AT_THE_ENDS);
}

int main(void)
{
    aq_handler_entry table[] = {{DONE, 0, 0, on_done, NULL, "done"}};
    job_open(AQ_THREAD_SINGLE, 4096);
    job_handlers(table, COUNT_OF(table));
    if (job.self == 0) transfers();
    if (job.self == 1) wait();
    job_close();
    return 0;
}
