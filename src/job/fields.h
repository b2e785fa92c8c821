/* Conversion between structs and bytes. A table lists the members that a kind of message has; one
 * loop each way copies them, little-endian and without gaps. */
#ifndef AQI_FIELDS_H
#define AQI_FIELDS_H

#include "base/base.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fields are copied as they are");

struct aqi_field {
    uint16_t offset; /* in the struct */
    uint16_t width;  /* 0: end of the table */
};

#define AQI_FIELD(type, name)                                                                      \
    {                                                                                              \
        offsetof(type, name), sizeof(((type *)NULL)->name)                                         \
    }

size_t aqi_fields_bytes(const struct aqi_field *fields);
/*
 * Both return the end of the last field; the buffer has at least aqi_fields_bytes bytes.
 * Async-signal-safe.
 */
uint8_t *aqi_fields_write(const struct aqi_field *fields, const void *from, uint8_t *at);
const uint8_t *aqi_fields_read(const struct aqi_field *fields, const uint8_t *at, void *to);

#endif
