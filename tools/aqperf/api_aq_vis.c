/* The patterns of scattered transfers: words of 8 bytes, adjacent here, every other one there. */
#include "api_aq.h"
#include <stdio.h>
#include <stdlib.h>

enum { WORD = 8, STEP = 16 };

/* The places of a transfer, as aq_vec and as pointers. */
static struct list {
    aq_vec *vecs;
    void **at;
} there, here;
static size_t count;

static void make_list(struct list *list, unsigned char *base, size_t step)
{
    list->vecs = realloc(list->vecs, count * sizeof(*list->vecs));
    list->at = realloc(list->at, count * sizeof(*list->at));
    if (list->vecs == NULL || list->at == NULL) {
        fprintf(stderr, "aqperf: out of memory\n");
        aq_exit(1);
    }
    for (size_t i = 0; i < count; i++)
        list->vecs[i] = (aq_vec){list->at[i] = base + i * step, WORD};
}

void api_aq_put_lists(struct perf *perf, size_t size, uint64_t n)
{
    (void)n;
    count = size / WORD;
    make_list(&there, perf->peer_addr->data, STEP);
    make_list(&here, perf->source, WORD);
}

void api_aq_get_lists(struct perf *perf, size_t size, uint64_t n)
{
    (void)n;
    count = size / WORD;
    make_list(&there, perf->peer_addr->data, STEP);
    make_list(&here, perf->target, WORD);
}

void api_aq_strided_put(struct perf *perf, size_t size, uint64_t n)
{
    const ptrdiff_t step = STEP, word = WORD;
    const size_t words = size / WORD;
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_put_strided_nbi(api_aq_team, perf->peer, perf->peer_addr->data, &step,
                                 perf->source, &word, WORD, &words, 1, 0));
    CHECK(aq_nbi_wait(AQ_NBI_PUT));
}

void api_aq_strided_get(struct perf *perf, size_t size, uint64_t n)
{
    const ptrdiff_t step = STEP, word = WORD;
    const size_t words = size / WORD;
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_get_strided_nbi(api_aq_team, perf->target, &word, perf->peer,
                                 perf->peer_addr->data, &step, WORD, &words, 1, 0));
    CHECK(aq_nbi_wait(AQ_NBI_GET));
}

void api_aq_vector_put(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_put_vector_nbi(api_aq_team, perf->peer, count, there.vecs, count, here.vecs, 0));
    CHECK(aq_nbi_wait(AQ_NBI_PUT));
}

void api_aq_vector_get(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_get_vector_nbi(api_aq_team, count, here.vecs, perf->peer, count, there.vecs, 0));
    CHECK(aq_nbi_wait(AQ_NBI_GET));
}

void api_aq_indexed_put(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_put_indexed_nbi(api_aq_team, perf->peer, count, there.at, WORD, count, here.at,
                                 WORD, 0));
    CHECK(aq_nbi_wait(AQ_NBI_PUT));
}

void api_aq_indexed_get(struct perf *perf, size_t size, uint64_t n)
{
    (void)size;
    for (uint64_t i = 0; i < n; i++)
        CHECK(aq_get_indexed_nbi(api_aq_team, count, here.at, WORD, perf->peer, count, there.at,
                                 WORD, 0));
    CHECK(aq_nbi_wait(AQ_NBI_GET));
}
