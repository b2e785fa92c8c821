/* Reference-counted bytes: see parcel.h. */
#include "job/parcel.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct aqi_parcel *aqi_parcel_new(const void *bytes, size_t len)
{
    struct aqi_parcel *parcel = calloc(1, sizeof(*parcel) + len);
    if (parcel == NULL) return NULL;
    parcel->refs = 1;
    parcel->len = len;
    parcel->fd = -1;
    if (bytes != NULL && len != 0) memcpy(parcel->bytes, bytes, len);
    return parcel;
}

void aqi_parcel_release(struct aqi_parcel *parcel)
{
    if (--parcel->refs != 0) return;
    if (parcel->fd >= 0) close(parcel->fd);
    free(parcel);
}
