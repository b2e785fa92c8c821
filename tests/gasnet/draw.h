/* Repeatable random numbers: xorshift from TEST_SEED, which each program prints. */
#ifndef AQT_GASNET_DRAW_H
#define AQT_GASNET_DRAW_H

#include "support.h"

static uint64_t draw_state = 1;

__attribute__((unused)) static uint64_t draw(void)
{
    draw_state ^= draw_state << 13;
    draw_state ^= draw_state >> 7;
    draw_state ^= draw_state << 17;
    return draw_state;
}

__attribute__((unused)) static size_t draw_below(size_t limit)
{
    return (size_t)(draw() % limit);
}

/* Start the sequence; another `salt` gives another sequence, such as one for each rank. */
__attribute__((unused)) static void draw_seed(uint64_t salt)
{
    const char *text = getenv("TEST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 20251121;
    int i;
    if (job.rank == 0) printf("TEST_SEED=%" PRIu64 "\n", seed);
    draw_state = (seed + salt) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    for (i = 0; i < 8; i++)
        (void)draw();
}

#endif
