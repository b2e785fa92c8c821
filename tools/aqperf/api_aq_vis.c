/* The patterns of scattered transfers. */
#include "api_aq.h"

_Static_assert(sizeof(struct piece) == sizeof(aq_vec), "one layout for both");

static const aq_vec *vecs(const struct pieces *pieces)
{
    return (const aq_vec *)(const void *)pieces->vecs;
}

/* A loop of one call, and a wait for all operations after it. */
#define SCATTER(name, kind, here_, ...)                                                            \
    LOOP(api_aq_##name, CHECK(aq_nbi_wait(kind, AQ_FOREVER)), {                                    \
        const struct pieces *there = &row_pieces.there, *here = &row_pieces.here_;                 \
        const size_t len = row_pieces.len, count = row_pieces.count;                               \
        (void)len;                                                                                 \
        CHECK(__VA_ARGS__);                                                                        \
    })

SCATTER(strided_put, AQ_NBI_PUT, source,
        aq_put_strided_nbi(api_aq_team, perf->peer, there->base, &there->step, here->base,
                           &here->step, len, &count, 1, 0))
SCATTER(strided_get, AQ_NBI_GET, target,
        aq_get_strided_nbi(api_aq_team, perf->peer, here->base, &here->step, there->base,
                           &there->step, len, &count, 1, 0))
SCATTER(vector_put, AQ_NBI_PUT, source,
        aq_put_vector_nbi(api_aq_team, perf->peer, count, vecs(there), count, vecs(here), 0))
SCATTER(vector_get, AQ_NBI_GET, target,
        aq_get_vector_nbi(api_aq_team, perf->peer, count, vecs(here), count, vecs(there), 0))
SCATTER(indexed_put, AQ_NBI_PUT, source,
        aq_put_indexed_nbi(api_aq_team, perf->peer, count, there->at, len, count, here->at, len, 0))
SCATTER(indexed_get, AQ_NBI_GET, target,
        aq_get_indexed_nbi(api_aq_team, perf->peer, count, here->at, len, count, there->at, len, 0))
