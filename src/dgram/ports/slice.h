/* Consecutive parts of bytes that lie in several pieces. */
#ifndef PORTS_SLICE_H
#define PORTS_SLICE_H

#include "base/base.h"

#include <sys/uio.h>

/* A position in the bytes of `iov`. */
struct ports_slices {
    const struct iovec *iov;
    unsigned niov;
    unsigned piece; /* the next bytes begin in this one */
    size_t offset;  /* at this offset */
};

/* The next `len` bytes, or what is left, as at most as many pieces as `iov` has. Returns their
 * number, and the bytes in `*got`. */
unsigned ports_slice(struct ports_slices *at, size_t len, struct iovec *out, size_t *got);

#endif
