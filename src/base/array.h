/* Growing arrays, described by a pointer, the number of elements they have room for, and a size. */
#ifndef AQI_ARRAY_H
#define AQI_ARRAY_H

#include "base/base.h"

bool aqi_array_grow(void *array, size_t *room, size_t count, size_t size);

/*
 * Make room in `array`, the address of a pointer from malloc or NULL, for `count` elements of
 * `size` bytes; it at least doubles, so appending takes constant time on average. Returns false,
 * with nothing changed, if out of memory.
 */
static inline bool aqi_array_reserve(void *array, size_t *room, size_t count, size_t size)
{
    return AQI_LIKELY(count <= *room) || aqi_array_grow(array, room, count, size);
}

#endif
