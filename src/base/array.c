/* Growable arrays: the reallocation. */
#include "base/array.h"

#include <stdlib.h>
#include <string.h>

AQI_COLD bool aqi_array_grow(void *array, size_t *room, size_t count, size_t size)
{
    void *old, *larger;
    size_t more = aqi_max(count, aqi_max(2 * *room, 8));
    memcpy(&old, array, sizeof(old)); /* its type differs from void * */
    if (more > PTRDIFF_MAX / size) return false;
    larger = realloc(old, more * size);
    if (larger == NULL) return false;
    memcpy(array, &larger, sizeof(larger));
    *room = more;
    return true;
}
