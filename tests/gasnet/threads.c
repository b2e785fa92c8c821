/*
 * GASNET_PAR with many concurrent threads: messages, puts, implicit operations, locks, events of
 * other threads.
 */
#include <gasnet.h>
#include <gasnet_tools.h>

#include "support.h"

enum { THREADS = 4, ROUNDS = 300, SLOT = 4096, ADD = 200, ADDED };

static gasnett_atomic_t answers[THREADS];
static gex_HSL_t lock = GEX_HSL_INITIALIZER;
static unsigned long sum;           /* of the arguments received, under the lock */
static gex_Event_t handed[THREADS]; /* waited for by a thread that did not start it */

static void on_add(gex_Token_t token, gex_AM_Arg_t value, gex_AM_Arg_t thread)
{
    gex_HSL_Lock(&lock);
    sum += (unsigned long)value;
    gex_HSL_Unlock(&lock);
    gex_AM_ReplyShort1(token, ADDED, 0, thread);
}

static void on_added(gex_Token_t token, gex_AM_Arg_t thread)
{
    (void)token;
    gasnett_atomic_increment(&answers[thread], GASNETT_ATOMIC_REL);
}

/* A put, a get of it, and a message with an answer; implicit operations belong to this thread. */
static void one_round(unsigned thread, unsigned round, char *out, char *in)
{
    char *there = job_at(job.next, (size_t)thread * SLOT);
    size_t len = 1 + (round * 37) % SLOT;
    unsigned seed = round * 7 + thread + job.rank;
    GASNET_BEGIN_FUNCTION();
    fill(out, len, seed);
    if (round % 2) {
        gex_Event_Wait(gex_RMA_PutNB(job.tm, job.next, there, out, len, GEX_EVENT_DEFER, 0));
        gex_Event_Wait(gex_RMA_GetNB(job.tm, in, job.next, there, len, 0));
    } else {
        gex_RMA_PutNBI(job.tm, job.next, there, out, len, GEX_EVENT_NOW, 0);
        gex_NBI_Wait(GEX_EC_ALL, 0);
        gex_NBI_BeginAccessRegion(0);
        gex_RMA_GetNBI(job.tm, in, job.next, there, len, 0);
        gex_Event_Wait(gex_NBI_EndAccessRegion(0));
    }
    CHECK(filled(in, len, seed));
    CHECK_EQUAL(
        gex_AM_RequestShort2(job.tm, job.next, ADD, 0, (gex_AM_Arg_t)round, (gex_AM_Arg_t)thread),
        0);
    GASNET_BLOCKUNTIL(gasnett_atomic_read(&answers[thread], GASNETT_ATOMIC_ACQ) == round + 1);
}

static void *work(void *arg)
{
    unsigned thread = (unsigned)(uintptr_t)arg, round;
    char *out = (char *)malloc(SLOT), *in = (char *)malloc(SLOT);
    for (round = 0; round < ROUNDS; round++)
        one_round(thread, round, out, in);
    handed[thread] = gex_RMA_PutNB(job.tm, job.next, job_at(job.next, (size_t)thread * SLOT), out,
                                   SLOT, GEX_EVENT_NOW, 0);
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char **argv)
{
    gex_AM_Entry_t table[] = {
        {ADD, (gex_AM_Fn_t)on_add, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 2, NULL, "add"},
        {ADDED, (gex_AM_Fn_t)on_added, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1, NULL, "added"}};
    pthread_t threads[THREADS];
    unsigned long wanted = 0, got;
    unsigned i;
    job_open(&argc, &argv, 16 * SLOT);
    CHECK(gex_System_QueryMaxThreads() >= THREADS);
    CHECK_EQUAL(gex_EP_RegisterHandlers(job.ep, table, COUNT_OF(table)), GASNET_OK);
    for (i = 0; i < THREADS; i++)
        gasnett_atomic_set(&answers[i], 0, 0);
    job_barrier();
    for (i = 0; i < THREADS; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i), 0);
    for (i = 0; i < THREADS; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    gex_Event_WaitAll(handed, THREADS, 0);
    job_barrier();
    for (i = 0; i < ROUNDS; i++)
        wanted += (unsigned long)i * THREADS;
    gex_HSL_Lock(&lock);
    got = sum;
    gex_HSL_Unlock(&lock);
    CHECK_EQUAL(got, wanted);
    job_barrier();
    gasnet_exit(0);
}
