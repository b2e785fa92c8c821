/* Consecutive parts of bytes that lie in several pieces. */
#include "dgram/ports/slice.h"

unsigned ports_slice(struct ports_slices *at, size_t len, struct iovec *out, size_t *got)
{
    unsigned n = 0;
    *got = 0;
    while (len > 0 && at->piece < at->niov) {
        const struct iovec *piece = &at->iov[at->piece];
        size_t take = aqi_min(len, piece->iov_len - at->offset);
        if (take > 0)
            out[n++] = (struct iovec){(unsigned char *)piece->iov_base + at->offset, take};
        *got += take;
        len -= take;
        at->offset += take;
        if (at->offset == piece->iov_len) {
            at->piece++;
            at->offset = 0;
        }
    }
    return n;
}
