/*
 * libfabric, loaded on first use, so that the library starts without it. The inline functions of
 * <rdma/...> go through the objects and are called directly; the others are called through this
 * table.
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

/* The version of the interface; older libraries do not support it. */
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

/* NULL if it is available; otherwise why it is not, and what to do. */
const char *ofi_library_missing(void);

/* getinfo, with signal dispositions restored afterwards. */
int ofi_library_getinfo(const struct fi_info *hints, struct fi_info **info);

#endif
