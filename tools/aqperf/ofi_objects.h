/* The libfabric objects of an endpoint. */
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
    struct fid_mr *mr; /* opened by the caller, but closed with the rest */
};

/*
 * Open the objects described by `info`, with one queue for all completions, which has no file
 * descriptor if the provider refuses it. Returns an error of libfabric, and in `*what` the call
 * that failed.
 */
int ofi_objects_open(struct ofi_objects *objects, const struct fi_cq_attr *queue,
                     const char **what);
/* Close all open objects, and free `info`. */
void ofi_objects_close(struct ofi_objects *objects);

#endif
