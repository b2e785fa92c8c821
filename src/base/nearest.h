/*
 * Finding the known name that a misspelled one was probably meant to be. Depends on nothing else,
 * since the tools link their own copy.
 */
#ifndef AQI_NEAREST_H
#define AQI_NEAREST_H

#include <stddef.h>

/* The search for the known name nearest to `wanted`: offer all names, then read `best`. */
struct aqi_nearest {
    const char *wanted;
    const char *best; /* NULL: none is near enough */
    size_t distance;  /* distance of the best; 0: the name is equal except for case */
};

void aqi_nearest_begin(struct aqi_nearest *nearest, const char *wanted);
void aqi_nearest_offer(struct aqi_nearest *nearest, const char *known);

#endif
