/*
 * Numbered items that arrived ahead of their turn. Keeping and taking an item takes constant time,
 * regardless of their number and order. Numbers wrap.
 */
#ifndef AQI_EARLY_H
#define AQI_EARLY_H

#include "base/base.h"

/* The first member of an item; items are allocated by malloc. */
struct aqi_early_item {
    size_t bytes; /* counted against the limit */
};

/* Limits that a conforming peer never exceeds. */
struct aqi_early_most {
    uint32_t ahead; /* distance from the next number; exclusive */
    size_t bytes;
};

struct aqi_early {
    struct aqi_early_item **slots; /* number n is in slot n % room, a power of two */
    uint32_t room, count;
    size_t bytes;
};

/*
 * Keep the item `number`; `next` is the number whose turn it is. Returns false if the item is not
 * ahead, is already kept or exceeds a limit, or if out of memory; it then remains the caller's.
 */
bool aqi_early_keep(struct aqi_early *early, uint32_t next, uint32_t number,
                    struct aqi_early_item *item, const struct aqi_early_most *most);
/* Remove and return an item, to be freed by the caller. NULL: it is not kept. */
void *aqi_early_take(struct aqi_early *early, uint32_t number);
/* Free all items and the table. */
void aqi_early_drop(struct aqi_early *early);

#endif
