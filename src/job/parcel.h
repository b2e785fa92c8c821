/* Bytes and a descriptor shared by several messages, and freed with the last of them. */
#ifndef AQI_PARCEL_H
#define AQI_PARCEL_H

#include "base/base.h"

struct aqi_parcel {
    size_t refs;
    size_t len;
    int fd; /* -1: none */
    uint8_t bytes[];
};

/*
 * Returns one reference, for the caller, or NULL if out of memory. If `bytes` is NULL, the bytes
 * are zero.
 */
struct aqi_parcel *aqi_parcel_new(const void *bytes, size_t len);
void aqi_parcel_release(struct aqi_parcel *parcel);

#endif
