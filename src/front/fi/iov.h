/* fi: lists of pieces of memory. */
#ifndef AFI_IOV_H
#define AFI_IOV_H

#include "base/base.h"
#include "base/copy.h"

#include <sys/uio.h>

/* A piece of a peer's memory. */
struct afi_piece {
    uint64_t addr, len;
};

static inline size_t afi_iov_len(const struct iovec *iov, size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        len += iov[i].iov_len;
    return len;
}
/* The part [at, at + len) of these pieces, as far as they reach; at most `count` pieces. */
unsigned afi_iov_part(const struct iovec *iov, unsigned count, size_t at, size_t len,
                      struct iovec *part);
/* Describe the memory for a peer that fetches it; omits empty pieces. */
unsigned afi_iov_pieces(const struct iovec *iov, unsigned count, struct afi_piece *pieces);
/* Copy to [at, at + len) of these pieces of memory, as far as they reach. */
void afi_iov_scatter_many(const struct iovec *iov, unsigned count, size_t at, const void *bytes,
                          size_t len);

static inline void afi_iov_scatter(const struct iovec *iov, unsigned count, size_t at,
                                   const void *bytes, size_t len)
{
    if (AQI_LIKELY(count == 1 && aqi_within(at, len, 0, iov->iov_len) && len != 0))
        aqi_copy_mostly_few((unsigned char *)iov->iov_base + at, bytes, len);
    else
        afi_iov_scatter_many(iov, count, at, bytes, len);
}

#endif
