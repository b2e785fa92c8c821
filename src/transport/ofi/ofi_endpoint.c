/* ofi: the libfabric objects of an open transport. */
#include "transport/ofi/ofi_impl.h"

#include "base/fail.h"
#include "base/shmem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
    OFI_CQ_SLACK = 64,
    OFI_FEW_FDS = 16 /* providers open about as many at once, and may not report EMFILE */
};

/* ofi_rxm sizes the queues below it for FI_UNIVERSE_SIZE peers; small adapters and rxe reject too
 * many (ofi_provider_size). */
static void ofi_endpoint_universe(char *text, size_t len)
{
    const char *peers = getenv("FI_UNIVERSE_SIZE");
    snprintf(text, len,
             "the adapter may have no room for as many peers as FI_UNIVERSE_SIZE says (%.20s): "
             "set it to the number of processes, or lower; or ",
             peers != NULL ? peers : "not set: 256");
}

/* Returns false if memory is not limited. */
static bool ofi_endpoint_memory(char *text, size_t len)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
    snprintf(text, len, "raise the memory limit of %llu KiB (ulimit -v), or ",
             (unsigned long long)limit.rlim_cur / 1024);
    return true;
}

static aq_status ofi_endpoint_check(const struct ofi_tp *ofi, int err, const char *what)
{
    if (err == 0) return AQ_OK;
    const char *name = ofi_name(ofi), *domain = ofi->info->domain_attr->name;
    unsigned fds = aqi_free_fds(OFI_FEW_FDS);
    if (err == -FI_EMFILE || fds < OFI_FEW_FDS)
        return aqi_fail(AQ_ELIMIT, "ofi",
                        "%s on %s: %s: %s: only %u more file descriptors may be opened: raise the "
                        "limit with `ulimit -n %llu`",
                        name, domain, what, ofi_library.strerror(-err), fds, aqi_fd_advice());
    bool rxm = strstr(name, "ofi_rxm") != NULL && (err == -FI_EINVAL || err == -FI_ENOMEM);
    char advice[192] = "";
    bool limited = err == -FI_ENOMEM && ofi_endpoint_memory(advice, sizeof(advice));
    if (rxm && !limited) ofi_endpoint_universe(advice, sizeof(advice));
    return aqi_fail(AQ_ESYS, "ofi", "%s on %s: %s: %s: %sset %s or %s to choose another", name,
                    domain, what, ofi_library.strerror(-err), advice,
                    aqi_setting_variable("AQ_OFI_PROVIDER"), aqi_setting_variable("AQ_OFI_DOMAIN"));
}

/* With a descriptor if the provider supports one. */
static int ofi_endpoint_open_queue(struct ofi_tp *ofi)
{
    /* Twice, for each message and the write of a Long before it. */
    struct fi_cq_attr attr = {.size = 2 * aqi_min(ofi->messages, ofi->info->rx_attr->size) +
                                      2 * ofi->room + OFI_CQ_SLACK,
                              .format = FI_CQ_FORMAT_DATA,
                              .wait_obj = FI_WAIT_FD};
    int err = ofi->without & OFI_WAKE ? -FI_ENOSYS : fi_cq_open(ofi->domain, &attr, &ofi->cq, NULL);
    if (err == 0 && fi_control(&ofi->cq->fid, FI_GETWAIT, &ofi->rdma.fd) == 0 && ofi->rdma.fd >= 0)
        return 0;
    ofi->rdma.fd = -1;
    if (err == 0) fi_close(&ofi->cq->fid);
    ofi->cq = NULL;
    attr.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(ofi->domain, &attr, &ofi->cq, NULL);
}

int ofi_endpoint_enable(struct fid_ep *ep, struct fid_av *av, struct fid_cq *cq)
{
    int err = fi_ep_bind(ep, &av->fid, 0);
    if (err == 0) err = fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV);
    return err == 0 ? fi_enable(ep) : err;
}

void ofi_endpoint_drop(void *object)
{
    if (object != NULL) (void)fi_close(object);
}

static aq_status ofi_endpoint_open_objects(struct ofi_tp *ofi)
{
    struct fi_av_attr av = {.type = ofi->info->domain_attr->av_type,
                            .count = ofi->rdma.params.size};
    struct fi_info *info = ofi->info;
    int err = ofi_library.fabric(info->fabric_attr, &ofi->fabric, NULL);
    if (err != 0) return ofi_endpoint_check(ofi, err, "opening the fabric");
    err = fi_domain(ofi->fabric, info, &ofi->domain, NULL);
    if (err != 0) return ofi_endpoint_check(ofi, err, "opening the domain");
    err = fi_av_open(ofi->domain, &av, &ofi->av, NULL);
    if (err != 0) return ofi_endpoint_check(ofi, err, "creating an address vector");
    err = ofi_endpoint_open_queue(ofi);
    if (err != 0) return ofi_endpoint_check(ofi, err, "creating a completion queue");
    return ofi_endpoint_check(ofi, fi_endpoint(ofi->domain, info, &ofi->ep, NULL),
                              "creating an endpoint");
}

/*
 * Let the provider release a buffer for many messages when the next one may not fit. If the
 * endpoint were not enabled yet, shm would end the process here.
 */
static void ofi_endpoint_ask_many(struct ofi_tp *ofi)
{
    size_t least = ofi->rdma.buffer;
    if ((ofi->without & OFI_MANY) == 0 &&
        fi_setopt(&ofi->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)) !=
            0)
        ofi->without |= OFI_MANY;
    ofi_receive_size(ofi);
}

aq_status ofi_endpoint_open(struct ofi_tp *ofi)
{
    ofi_receive_size(ofi);
    aq_status st = ofi_endpoint_open_objects(ofi);
    if (st != AQ_OK) return st;
    int err = ofi_endpoint_enable(ofi->ep, ofi->av, ofi->cq);
    if (err == 0) ofi_endpoint_ask_many(ofi);
    return ofi_endpoint_check(ofi, err, "starting the endpoint");
}

/* Close the endpoint first: after that, posted buffers are no longer accessed. */
void ofi_endpoint_close(struct ofi_tp *ofi)
{
    ofi_farewell_close(ofi);
    ofi_endpoint_drop(ofi->ep);
    aqi_rdma_drop_chunks(&ofi->rdma);
    ofi->free_areas = NULL;
    aqi_pins_close(&ofi->rdma.pins);
    ofi_endpoint_drop(ofi->cq);
    ofi_endpoint_drop(ofi->av);
    ofi_endpoint_drop(ofi->domain);
    ofi_endpoint_drop(ofi->fabric);
    ofi->ep = NULL;
    ofi->cq = NULL;
    ofi->av = NULL;
    ofi->domain = NULL;
    ofi->fabric = NULL;
    ofi->rdma.fd = -1;
    ofi->posted = 0;
}
