/* Interface of a fuzz target, and how it reports failures. */
#ifndef AQI_FUZZ_H
#define AQI_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Called by libFuzzer, or by replay.c; always returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Check a property of the code under test; abort if it does not hold, so that the input is kept. */
static inline void fuzz_require(int holds, const char *property)
{
    if (holds) return;
    fprintf(stderr, "fuzz: not true: %s\n", property);
    abort();
}

/* Skip the test: a library that the code under test loads is missing, which it has reported. */
static inline void fuzz_missing(void)
{
    exit(77);
}

#endif
