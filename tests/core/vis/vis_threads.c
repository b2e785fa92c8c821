/*
 * Scattered transfers, messages with grouped sources and access regions from four threads of each
 * rank at once: each thread owns a part of the next rank's segment and reads back from it what it
 * put.
 */
#include "../support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, PART = 40000, ROUNDS = 30, PIECES = 40, TAKE = 100 };

static _Atomic uint32_t taken;

static void on_take(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    taken++;
}

struct worker {
    unsigned index;
    unsigned char *out, *in;
    char *there;
};

static void strided(struct worker *w, uint64_t seed)
{
    aq_event events[2];
    fill(w->out, PART / 2, seed);
    /* Even words of a column by one call, odd ones by another; read back in one piece. */
    for (size_t i = 0; i < 2; i++)
        CHECK_OK(aq_put_strided_nb(job.team, job_next(), w->there + 8 * i, (ptrdiff_t[]){16},
                                   w->out + 8 * i, (ptrdiff_t[]){16}, 8, (size_t[]){PART / 32}, 1,
                                   0, &events[i]));
    CHECK_OK(aq_event_wait_all(events, 2, AQ_FOREVER));
    CHECK_OK(aq_get(job.team, job_next(), w->in, w->there, PART / 2 / 16 * 16, 0));
    CHECK(memcmp(w->in, w->out, PART / 2 / 16 * 16) == 0);
}

static void indexed(struct worker *w, uint64_t seed)
{
    void *dst[PIECES], *src[PIECES], *back[PIECES];
    aq_event region;
    fill(w->out, PIECES * 100, seed);
    memset(w->in, 0, PIECES * 100);
    for (size_t i = 0; i < PIECES; i++) {
        dst[i] = w->there + (i * 7 % PIECES) * 150;
        src[i] = w->out + i * 100;
        back[i] = w->in + i * 100;
    }
    CHECK_OK(aq_nbi_begin());
    CHECK_OK(aq_put_indexed_nbi(job.team, job_next(), PIECES, dst, 100, PIECES, src, 100, 0));
    CHECK_OK(aq_am_medium(job.team, job_next(), TAKE, w->out, 500, AQ_ARGS((aq_arg)seed), 0,
                          AQ_EVENT_GROUP));
    CHECK_OK(aq_nbi_end(&region));
    aq_event leaf = aq_event_leaf(region, AQ_NBI_LOCAL);
    CHECK_OK(aq_event_wait(&leaf, AQ_FOREVER));
    CHECK_OK(aq_event_wait(&region, AQ_FOREVER));
    CHECK_OK(aq_get_indexed_nbi(job.team, job_next(), PIECES, back, 100, PIECES, dst, 100, 0));
    CHECK_OK(aq_nbi_wait(AQ_NBI_GET, AQ_FOREVER));
    CHECK(filled(w->in, PIECES * 100, seed));
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        strided(w, round * 64 + w->index);
        indexed(w, round * 64 + w->index + 7);
    }
    return NULL;
}

int main(void)
{
    aq_handler_entry table[] = {{TAKE, 1, AQ_AM_REQUEST, on_take, NULL, "take"}};
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    job_open(AQ_THREAD_MULTIPLE, THREADS * (size_t)PART);
    job_handlers(table, 1);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.index = i,
                                     .out = malloc(PART),
                                     .in = malloc(PART),
                                     .there = job_at(job_next(), i * (size_t)PART)};
        CHECK(workers[i].out != NULL && workers[i].in != NULL);
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        free(workers[i].out);
        free(workers[i].in);
    }
    job_await(&taken, THREADS * ROUNDS);
    job_close();
    return 0;
}
