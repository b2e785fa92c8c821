/*
 * Numbered items that have overtaken others, until their turn comes: keeping and taking one costs
 * the same, however many there are and in whatever order they come. Numbers wrap.
 */
#ifndef AQI_EARLY_H
#define AQI_EARLY_H

#include "base/base.h"

/* The first member of an item, which is from malloc. */
struct aqi_early_item {
    size_t bytes; /* what it counts for */
};

/* Limits on what an honest peer may send ahead. */
struct aqi_early_most {
    uint32_t ahead; /* numbers */
    size_t bytes;
};

struct aqi_early {
    struct aqi_early_item **slots; /* number n is in slot n % room, a power of two */
    uint32_t room, count;
    size_t bytes;
};

/* Keep `number`, where `next` is the number whose turn it is. False: it is not ahead, is there
 * already, exceeds the most, or there is no memory for its place; it remains the caller's. */
bool aqi_early_keep(struct aqi_early *early, uint32_t next, uint32_t number,
                    struct aqi_early_item *item, const struct aqi_early_most *most);
/* Take out `number`, to be freed; NULL if it is not there. */
void *aqi_early_take(struct aqi_early *early, uint32_t number);
/* Drop all of them, and the memory. */
void aqi_early_drop(struct aqi_early *early);

#endif
