/* Answering a misspelt name with the one that was probably meant. Depends on nothing: the tools
 * have a copy of their own. */
#ifndef AQI_NEAREST_H
#define AQI_NEAREST_H

#include <stddef.h>

/* The search for the known name nearest to `wanted`: offer them all, then look at `best`. */
struct aqi_nearest {
    const char *wanted;
    const char *best; /* NULL: none is near enough to be meant */
    size_t distance;  /* of the best; 0: it is the name, but for the case of letters */
};

void aqi_nearest_begin(struct aqi_nearest *nearest, const char *wanted);
void aqi_nearest_offer(struct aqi_nearest *nearest, const char *known);

#endif
