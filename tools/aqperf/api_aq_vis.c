/* The patterns of scattered transfers: words of 8 bytes, adjacent here, every other one there. */
#include "api_aq.h"
#include <stdio.h>
#include <stdlib.h>

enum { WORD = 8, STEP = 16 };

/* The lists of a transfer of `size` bytes: as aq_vec and as pointers. */
struct lists {
    size_t count;
    aq_vec *there, *here;
    void **there_at, **here_at;
};

static struct lists lists_of(struct perf *perf, unsigned char *here, size_t size)
{
    struct lists l = {.count = size / WORD};
    l.there = malloc(l.count * sizeof(*l.there));
    l.here = malloc(l.count * sizeof(*l.here));
    l.there_at = malloc(l.count * sizeof(*l.there_at));
    l.here_at = malloc(l.count * sizeof(*l.here_at));
    if (l.there == NULL || l.here == NULL || l.there_at == NULL || l.here_at == NULL) {
        fprintf(stderr, "aqperf: out of memory\n");
        aq_exit(1);
    }
    for (size_t i = 0; i < l.count; i++) {
        l.there[i] = (aq_vec){l.there_at[i] = perf->peer_addr->data + i * STEP, WORD};
        l.here[i] = (aq_vec){l.here_at[i] = here + i * WORD, WORD};
    }
    return l;
}

static void lists_free(struct lists *l)
{
    free(l->there);
    free(l->here);
    free(l->there_at);
    free(l->here_at);
}

double api_aq_strided_put(struct perf *perf, size_t size, uint64_t n)
{
    const ptrdiff_t there = STEP, here = WORD;
    const size_t count = size / WORD;
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(aq_put_strided_nbi(api_aq_world(), perf->peer, perf->peer_addr->data, &there,
                                        perf->source, &here, WORD, &count, 1, 0),
                     "aq_put_strided_nbi");
    api_aq_check(aq_nbi_wait(AQ_NBI_PUT), "aq_nbi_wait");
    return measure_now_ns() - begun;
}

double api_aq_strided_get(struct perf *perf, size_t size, uint64_t n)
{
    const ptrdiff_t there = STEP, here = WORD;
    const size_t count = size / WORD;
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(aq_get_strided_nbi(api_aq_world(), perf->target, &here, perf->peer,
                                        perf->peer_addr->data, &there, WORD, &count, 1, 0),
                     "aq_get_strided_nbi");
    api_aq_check(aq_nbi_wait(AQ_NBI_GET), "aq_nbi_wait");
    return measure_now_ns() - begun;
}

double api_aq_vector_put(struct perf *perf, size_t size, uint64_t n)
{
    struct lists l = lists_of(perf, perf->source, size);
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(
            aq_put_vector_nbi(api_aq_world(), perf->peer, l.count, l.there, l.count, l.here, 0),
            "aq_put_vector_nbi");
    api_aq_check(aq_nbi_wait(AQ_NBI_PUT), "aq_nbi_wait");
    double ns = measure_now_ns() - begun;
    lists_free(&l);
    return ns;
}

double api_aq_vector_get(struct perf *perf, size_t size, uint64_t n)
{
    struct lists l = lists_of(perf, perf->target, size);
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(
            aq_get_vector_nbi(api_aq_world(), l.count, l.here, perf->peer, l.count, l.there, 0),
            "aq_get_vector_nbi");
    api_aq_check(aq_nbi_wait(AQ_NBI_GET), "aq_nbi_wait");
    double ns = measure_now_ns() - begun;
    lists_free(&l);
    return ns;
}

double api_aq_indexed_put(struct perf *perf, size_t size, uint64_t n)
{
    struct lists l = lists_of(perf, perf->source, size);
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(aq_put_indexed_nbi(api_aq_world(), perf->peer, l.count, l.there_at, WORD,
                                        l.count, l.here_at, WORD, 0),
                     "aq_put_indexed_nbi");
    api_aq_check(aq_nbi_wait(AQ_NBI_PUT), "aq_nbi_wait");
    double ns = measure_now_ns() - begun;
    lists_free(&l);
    return ns;
}

double api_aq_indexed_get(struct perf *perf, size_t size, uint64_t n)
{
    struct lists l = lists_of(perf, perf->target, size);
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        api_aq_check(aq_get_indexed_nbi(api_aq_world(), l.count, l.here_at, WORD, perf->peer,
                                        l.count, l.there_at, WORD, 0),
                     "aq_get_indexed_nbi");
    api_aq_check(aq_nbi_wait(AQ_NBI_GET), "aq_nbi_wait");
    double ns = measure_now_ns() - begun;
    lists_free(&l);
    return ns;
}
