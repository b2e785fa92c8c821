/* Which numbers of a channel have arrived. */
#include "dgram/seen.h"

unsigned dgram_seen_words(const struct dgram_seen *seen, uint32_t from, uint64_t *words,
                          unsigned most)
{
    int32_t span = dgram_diff(seen->highest, from + 1);
    unsigned n = 0;
    for (; span > 0 && n < most; span -= 64, n++) {
        words[n] = 0;
        for (unsigned b = 0; b < 64 && (int32_t)b < span; b++)
            if (dgram_seen_has(seen, from + 1 + 64 * n + b)) words[n] |= UINT64_C(1) << b;
    }
    return n;
}
