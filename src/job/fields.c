/* Conversion between structs and bytes: see fields.h. */
#include "job/fields.h"

#include <string.h>

size_t aqi_fields_bytes(const struct aqi_field *fields)
{
    size_t bytes = 0;
    for (; fields->width != 0; fields++)
        bytes += fields->width;
    return bytes;
}

uint8_t *aqi_fields_write(const struct aqi_field *fields, const void *from, uint8_t *at)
{
    for (; fields->width != 0; fields++) {
        memcpy(at, (const uint8_t *)from + fields->offset, fields->width);
        at += fields->width;
    }
    return at;
}

const uint8_t *aqi_fields_read(const struct aqi_field *fields, const uint8_t *at, void *to)
{
    for (; fields->width != 0; fields++) {
        memcpy((uint8_t *)to + fields->offset, at, fields->width);
        at += fields->width;
    }
    return at;
}
