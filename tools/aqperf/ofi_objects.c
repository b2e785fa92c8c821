/* The libfabric objects of an endpoint. */
#include "ofi_objects.h"
#include <stddef.h>

static int objects_open_queue(struct ofi_objects *objects, const struct fi_cq_attr *queue)
{
    struct fi_cq_attr attr = *queue;
    int err = fi_cq_open(objects->domain, &attr, &objects->cq, NULL);
    if (err == 0 || attr.wait_obj == FI_WAIT_NONE) return err;
    attr.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(objects->domain, &attr, &objects->cq, NULL);
}

int ofi_objects_open(struct ofi_objects *objects, const struct fi_cq_attr *queue, const char **what)
{
    struct fi_info *info = objects->info;
    struct fi_av_attr av = {.type = info->domain_attr->av_type, .count = 2};
    int err;
#define STEP(name, call)                                                                           \
    *what = name;                                                                                  \
    if ((err = call) != 0) return err;
    STEP("fi_fabric", ofi_library.fabric(info->fabric_attr, &objects->fabric, NULL))
    STEP("fi_domain", fi_domain(objects->fabric, info, &objects->domain, NULL))
    STEP("fi_av_open", fi_av_open(objects->domain, &av, &objects->av, NULL))
    STEP("fi_cq_open", objects_open_queue(objects, queue))
    STEP("fi_endpoint", fi_endpoint(objects->domain, info, &objects->ep, NULL))
    STEP("fi_ep_bind", fi_ep_bind(objects->ep, &objects->av->fid, 0))
    STEP("fi_ep_bind", fi_ep_bind(objects->ep, &objects->cq->fid, FI_TRANSMIT | FI_RECV))
    STEP("fi_enable", fi_enable(objects->ep))
#undef STEP
    return 0;
}

static void objects_drop(struct fid *fid)
{
    if (fid != NULL) (void)fi_close(fid);
}

void ofi_objects_close(struct ofi_objects *objects)
{
    objects_drop(objects->mr != NULL ? &objects->mr->fid : NULL);
    objects_drop(objects->ep != NULL ? &objects->ep->fid : NULL);
    objects_drop(objects->cq != NULL ? &objects->cq->fid : NULL);
    objects_drop(objects->av != NULL ? &objects->av->fid : NULL);
    objects_drop(objects->domain != NULL ? &objects->domain->fid : NULL);
    objects_drop(objects->fabric != NULL ? &objects->fabric->fid : NULL);
    if (objects->info != NULL) ofi_library.freeinfo(objects->info);
}
