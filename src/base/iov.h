/* Scattered memory (struct iovec). */
#ifndef AQI_IOV_H
#define AQI_IOV_H

#include "base/base.h"

#include <string.h>
#include <sys/uio.h>

/* Copy all pieces to `bytes`, one after the other; returns their total length. */
static inline size_t aqi_iov_gather(const struct iovec *iov, size_t count, void *bytes)
{
    size_t len = 0;
    for (size_t i = 0; i < count; len += iov[i++].iov_len)
        if (iov[i].iov_len != 0) /* an empty piece may have no address */
            memcpy((unsigned char *)bytes + len, iov[i].iov_base, iov[i].iov_len);
    return len;
}

#endif
