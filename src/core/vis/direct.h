/*
 * Scattered transfers between mapped memory in the forms that most programs use: lists with equal
 * pieces, a list and a contiguous block, regions. Each function checks all pieces before it moves
 * one, and neither counts nor reports errors. If one returns false, nothing was moved; take the
 * general path.
 */
#ifndef AQI_CORE_VIS_DIRECT_H
#define AQI_CORE_VIS_DIRECT_H

#include "base/base.h"

#include <aqueduct/vis.h>

/* The mapped segment of a transfer, and its direction. */
struct vis_window {
    uint64_t first; /* its start, as a remote address of the call or an offset */
    size_t size;
    unsigned char *mapped;
    bool get;
};

bool vis_direct_vector(const struct vis_window *w, size_t there_count, const aq_vec *there,
                       size_t here_count, const aq_vec *here, size_t *bytes);
bool vis_direct_indexed(const struct vis_window *w, size_t there_count, void *const *there,
                        size_t there_len, size_t here_count, void *const *here, size_t here_len,
                        size_t *bytes);

/* A strided region, as passed to the calls; remote and local are relative to the caller. */
struct vis_region {
    uint64_t remote, local;
    const ptrdiff_t *remote_strides, *local_strides;
    size_t elem;
    const size_t *counts;
    size_t levels;
};
bool vis_direct_strided(const struct vis_window *w, const struct vis_region *r, size_t *bytes);

#endif
