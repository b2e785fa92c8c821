/* Which numbers of a channel have arrived: all before a base, and those after it with bits set. */
#ifndef AQI_DGRAM_SEEN_H
#define AQI_DGRAM_SEEN_H

#include "dgram/packet.h"

enum { DGRAM_WINDOW = 4096, DGRAM_COMMAND_WINDOW = 256 }; /* packets of a channel in flight */

struct dgram_seen {
    uint32_t base;                    /* all before it have arrived */
    uint32_t highest;                 /* one past the highest that has arrived */
    uint64_t bits[DGRAM_WINDOW / 64]; /* number n: bit n % DGRAM_WINDOW */
};

static inline bool dgram_seen_has(const struct dgram_seen *seen, uint32_t seq)
{
    if (dgram_diff(seq, seen->base) < 0) return true;
    unsigned bit = seq % DGRAM_WINDOW;
    return dgram_diff(seq, seen->highest) < 0 && (seen->bits[bit / 64] >> bit % 64 & 1) != 0;
}

/* Whether it may be marked: not before the base and not beyond the window. */
static inline bool dgram_seen_fits(const struct dgram_seen *seen, uint32_t seq)
{
    return (uint32_t)(seq - seen->base) < DGRAM_WINDOW;
}

/* Mark one that fits and is not marked yet. */
static inline void dgram_seen_mark(struct dgram_seen *seen, uint32_t seq)
{
    if (dgram_diff(seq, seen->highest) >= 0) seen->highest = seq + 1;
    seen->bits[seq % DGRAM_WINDOW / 64] |= UINT64_C(1) << seq % 64;
    while (seen->base != seen->highest) {
        unsigned bit = seen->base % DGRAM_WINDOW;
        uint64_t mask = UINT64_C(1) << bit % 64;
        if ((seen->bits[bit / 64] & mask) == 0) break;
        seen->bits[bit / 64] &= ~mask;
        seen->base++;
    }
}

/*
 * The numbers after a gap, if any: bit b of word w is number from + 1 + 64 w + b. Returns the
 * number of words.
 */
unsigned dgram_seen_words(const struct dgram_seen *seen, uint32_t from, uint64_t *words,
                          unsigned most);

#endif
