/*
 * The progress thread: a rank that computes without calls still serves the others, and one that has
 * nothing to serve uses almost no processor time. Run with AQ_PROGRESS_THREAD=yes; the ranks
 * compute in turn. The sleep in `idle` is the period of the measurement.
 */
#include "../support.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { QUESTION = 100, ANSWER, RELEASE, QUESTIONS = 200, BYTES = 1000, IDLE_MS = 200 };

static _Atomic uint32_t answers, released;

static void on_question(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, (uint32_t)am->args[0]));
    CHECK_OK(aq_am_reply_medium(am, ANSWER, am->payload, am->nbytes, am->args, 1, 0));
}

static void on_answer(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, (uint32_t)am->args[0]));
    atomic_fetch_add(&answers, 1);
}

static void on_release(aq_am *am)
{
    (void)am;
    atomic_fetch_add(&released, 1);
}

static void ask(aq_rank rank)
{
    unsigned char payload[BYTES];
    uint32_t before = atomic_load(&answers);
    for (uint32_t i = 0; i < QUESTIONS; i++) {
        size_t nbytes = i * 7 % BYTES;
        fill(payload, nbytes, i);
        CHECK_OK(
            aq_am_medium(job.team, rank, QUESTION, payload, nbytes, AQ_ARGS((aq_arg)i), 0, NULL));
        if (i % 50 == 0) job_await(&answers, before + i + 1);
    }
    job_await(&answers, before + QUESTIONS);
    CHECK_OK(aq_am_short(job.team, rank, RELEASE, NULL, 0, 0));
}

/* Compute until handlers, which run on the progress thread, announce that the others are done. */
static void compute(void)
{
    while (atomic_load(&released) < job.size - 1)
        sched_yield();
    atomic_store(&released, 0);
}

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* A thread that spins or yields uses a whole processor, but this one less than a hundredth, which
 * load cannot raise to a half. */
static void idle(void)
{
    struct timespec away = {.tv_sec = IDLE_MS / 1000, .tv_nsec = IDLE_MS % 1000 * 1000000};
    double before = cpu_ms();
    while (nanosleep(&away, &away) != 0)
        ;
    double percent = (cpu_ms() - before) / IDLE_MS * 100;
    if (job.self == 0) printf("idle with a progress thread: %.2f %% of a processor\n", percent);
    CHECK(percent < 50);
}

int main(void)
{
    aq_handler_entry table[] = {
        {QUESTION, 1, AQ_AM_REQUEST, on_question, NULL, "question"},
        {ANSWER, 1, AQ_AM_REPLY, on_answer, NULL, "answer"},
        {RELEASE, 0, AQ_AM_REQUEST, on_release, NULL, "release"},
    };
    job_open(AQ_THREAD_SINGLE, 0);
    CHECK(aq_job_progress_thread());
    CHECK_EQUAL(aq_job_thread_mode(), AQ_THREAD_SINGLE);
    job_handlers(table, COUNT_OF(table));
    for (aq_rank computing = 0; computing < job.size && job.size > 1; computing++) {
        if (job.self == computing)
            compute();
        else
            ask(computing);
        job_barrier();
    }
    idle();
    job_barrier();
    job_close();
    CHECK(!aq_job_progress_thread());
    return 0;
}
