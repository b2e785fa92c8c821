/*
 * libfabric, loaded when it is first asked for, so that the library starts where it is absent. What
 * <rdma/...> has as inline functions goes through the objects and is called as it is; the others
 * are called through this table.
 */
#ifndef AQI_OFI_LIBRARY_H
#define AQI_OFI_LIBRARY_H

#include "base/base.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

/* The interface that is spoken; an older library does not know it. */
#define OFI_API FI_VERSION(1, 14)

struct ofi_library {
    uint32_t (*version)(void);
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int err);
};
extern struct ofi_library ofi_library;

/* NULL: it is here; else why not and what to do. */
const char *ofi_library_missing(void);

/* getinfo, after which signals do what they did before. */
int ofi_library_getinfo(const struct fi_info *hints, struct fi_info **info);

#endif
