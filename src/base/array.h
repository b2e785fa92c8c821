/* Growable arrays: a pointer, its capacity in elements, and the size of an element. */
#ifndef AQI_ARRAY_H
#define AQI_ARRAY_H

#include "base/base.h"

bool aqi_array_grow(void *array, size_t *room, size_t count, size_t size);

/*
 * Ensure that `array`, the address of a pointer from malloc or NULL, has room for `count` elements
 * of `size` bytes. The capacity at least doubles, so appending takes amortized constant time.
 * Returns false, with nothing changed, if out of memory.
 */
static inline bool aqi_array_reserve(void *array, size_t *room, size_t count, size_t size)
{
    return AQI_LIKELY(count <= *room) || aqi_array_grow(array, room, count, size);
}

#endif
