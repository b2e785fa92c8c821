/* The patterns of scattered transfers, and what the machine does with a plain loop. */
#include "api_aq.h"

/* Every other word of the target, from adjacent words: a column of a matrix, an array of structs.
 */
enum { WORD = 8, STEP = 16 };

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
