/* Parts of what is gathered from several pieces. */
#ifndef PORTS_SLICE_H
#define PORTS_SLICE_H

#include "base/base.h"

#include <sys/uio.h>

/* Goes once through the bytes of `iov`. */
struct ports_slices {
    const struct iovec *iov;
    unsigned niov;
    unsigned piece; /* where the next bytes begin: in this one, */
    size_t offset;  /* behind so many */
};

/* The next `len` bytes, or what is left, as pieces: at most as many as `iov` has. Returns how many,
 * and the bytes in `*got`. */
unsigned ports_slice(struct ports_slices *at, size_t len, struct iovec *out, size_t *got);

#endif
