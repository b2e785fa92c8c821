/*
 * Scattered transfers between mapped memory in the forms that most programs use: lists that are cut
 * alike, a list and memory in one piece, regions. Each looks at all pieces before it moves one, and
 * neither counts nor reports: false means that nothing was moved, and that the long way knows why.
 */
#ifndef AQI_CORE_VIS_DIRECT_H
#define AQI_CORE_VIS_DIRECT_H

#include "base/base.h"

#include <aqueduct/vis.h>

/* The mapped segment of a transfer, and which way it goes. */
struct vis_window {
    uint64_t first; /* the address of its beginning, as the remote side of the call has it */
    size_t size;
    unsigned char *mapped;
    bool get;
};

bool vis_direct_vector(const struct vis_window *w, size_t there_count, const aq_vec *there,
                       size_t here_count, const aq_vec *here, size_t *bytes);
bool vis_direct_indexed(const struct vis_window *w, size_t there_count, void *const *there,
                        size_t there_len, size_t here_count, void *const *here, size_t here_len,
                        size_t *bytes);

/* A strided region as the calls have it, remote and local as seen by the caller. */
struct vis_region {
    uint64_t remote, local;
    const ptrdiff_t *remote_strides, *local_strides;
    size_t elem;
    const size_t *counts;
    size_t levels;
};
bool vis_direct_strided(const struct vis_window *w, const struct vis_region *r, size_t *bytes);

#endif
