/* Random numbers for tests, from a seed that is printed. */
#ifndef AQI_CORE_VIS_DRAW_TEST_H
#define AQI_CORE_VIS_DRAW_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t random_state;

static inline size_t draw(size_t below)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (size_t)((random_state * 2685821657736338717u) >> 33) % below;
}

static inline void draw_from_seed(void)
{
    const char *seed = getenv("TEST_SEED");
    random_state = seed != NULL ? strtoull(seed, NULL, 0) : 20240611;
    printf("seed %llu\n", (unsigned long long)random_state);
}

#endif
