/* Floods by several threads of a rank: they begin together, and the last to end ends the time. */
#include "api_aq.h"
#include <pthread.h>
#include <stdio.h>

enum { MOST = 64 };

struct worker {
    struct perf *perf;
    size_t size;
    uint64_t n;
    api_aq_body *body;
    pthread_barrier_t *together;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    pthread_barrier_wait(w->together);
    w->body(w->perf, w->size, w->n);
    return NULL;
}

double api_aq_spread(struct perf *perf, size_t size, uint64_t n, api_aq_body *body)
{
    unsigned threads = perf->options.threads;
    pthread_t ids[MOST];
    pthread_barrier_t together;
    struct worker w = {perf, size, n / threads, body, &together};
    pthread_barrier_init(&together, NULL, threads);
    for (unsigned i = 1; i < threads; i++)
        if (pthread_create(&ids[i], NULL, work, &w) != 0) {
            fprintf(stderr, "aqperf: cannot start %u threads\n", threads);
            aq_exit(1);
        }
    pthread_barrier_wait(&together);
    double begun = measure_now_ns();
    body(perf, size, n - w.n * (threads - 1));
    for (unsigned i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
    double ns = measure_now_ns() - begun;
    pthread_barrier_destroy(&together);
    return ns;
}
