/* The objects of libfabric that an endpoint needs. */
#ifndef AQPERF_OFI_OBJECTS_H
#define AQPERF_OFI_OBJECTS_H

#include "transport/ofi/ofi_library.h"

struct ofi_objects {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct fid_mr *mr; /* of the caller, closed with the rest */
};

/*
 * Open those that `info` describes, with one queue for all completions: without a descriptor if the
 * provider refuses one. Returns an error of libfabric, and in `*what` the call that failed.
 */
int ofi_objects_open(struct ofi_objects *objects, const struct fi_cq_attr *queue,
                     const char **what);
/* Close those that are open, and free `info`. */
void ofi_objects_close(struct ofi_objects *objects);

#endif
