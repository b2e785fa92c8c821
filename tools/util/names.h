/* Answering a misspelt name with the one that was probably meant. */
#ifndef TOOLS_NAMES_H
#define TOOLS_NAMES_H

#include <stddef.h>

/* The search for the known name nearest to `wanted`: offer them all, then look at `best`. */
struct nearest {
    const char *wanted;
    const char *best; /* NULL: none is near enough to be meant */
    size_t distance;
};

void nearest_begin(struct nearest *nearest, const char *wanted);
void nearest_offer(struct nearest *nearest, const char *known);

#endif
