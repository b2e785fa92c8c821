/* fi: the provider's entry point, its capabilities (fi_getinfo), and fabrics. */
#include "front/fi/fi.h"

#include <aqueduct/version.h>
#include <rdma/providers/fi_prov.h>
#include <stdlib.h>
#include <string.h>

static const char provider_name[] = "aqueduct";

enum {
    PROVIDER_PROTOCOL = AFI_PROVIDER_SPECIFIC | 0x61710001u,
    PROVIDER_PROTOCOL_VERSION = 1,
    PROVIDER_ENDPOINTS = 1 << 10,
    PROVIDER_QUEUES = 1 << 16, /* the same number of counters is allowed */
    PROVIDER_REGIONS = 1 << 20
};

#define PROVIDER_TAG_FORMAT UINT64_C(0xaaaaaaaaaaaaaaaa) /* every bit is a separate field */
#define PROVIDER_PRIMARY    (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC)
#define PROVIDER_TX_CAPS    (PROVIDER_PRIMARY | FI_SEND | FI_READ | FI_WRITE | FI_FENCE)
#define PROVIDER_RX_CAPS                                                                           \
    (PROVIDER_PRIMARY | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV |               \
     FI_DIRECTED_RECV | FI_SOURCE | FI_SOURCE_ERR | FI_RMA_EVENT)
#define PROVIDER_BOTH (FI_LOCAL_COMM | FI_REMOTE_COMM)

static struct aqi_node provider_fabrics = {.prev = &provider_fabrics, .next = &provider_fabrics};

/* --- capabilities ---------------------------------------------------------------------------- */

/* A primary capability without a direction implies all its directions. */
static uint64_t provider_caps(const struct fi_info *hints)
{
    uint64_t caps = hints != NULL ? hints->caps : 0;
    if (caps == 0) return AFI_CAPS;
    if ((caps & (FI_MSG | FI_TAGGED)) != 0 && (caps & (FI_SEND | FI_RECV)) == 0)
        caps |= FI_SEND | FI_RECV;
    if ((caps & (FI_RMA | FI_ATOMIC)) != 0 &&
        (caps & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)) == 0)
        caps |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    if ((caps & PROVIDER_BOTH) == 0) caps |= PROVIDER_BOTH;
    return caps;
}

/* The requested value, or ours if it is unspecified. */
static uint64_t provider_or(uint64_t wanted, uint64_t ours)
{
    return wanted != 0 ? wanted : ours;
}

bool afi_tx_fits(const struct fi_tx_attr *tx)
{
    return tx == NULL ||
           ((tx->caps & ~(PROVIDER_TX_CAPS | PROVIDER_BOTH)) == 0 &&
            (tx->op_flags & ~AFI_OP_FLAGS) == 0 && (tx->msg_order & ~AFI_ORDER) == 0 &&
            tx->inject_size <= AFI_INJECT && tx->size <= AFI_MOST_SIZE &&
            tx->iov_limit <= AFI_IOVS && tx->rma_iov_limit <= AFI_IOVS && tx->comp_order == 0);
}

bool afi_rx_fits(const struct fi_rx_attr *rx)
{
    return rx == NULL ||
           ((rx->caps & ~(PROVIDER_RX_CAPS | PROVIDER_BOTH)) == 0 &&
            (rx->op_flags & ~AFI_OP_FLAGS) == 0 && (rx->msg_order & ~AFI_ORDER) == 0 &&
            rx->size <= AFI_MOST_SIZE && rx->iov_limit <= AFI_IOVS && rx->comp_order == 0);
}

static bool provider_ep_fits(const struct fi_ep_attr *ep)
{
    return ep == NULL ||
           ((ep->type == FI_EP_UNSPEC || ep->type == FI_EP_RDM) &&
            (ep->protocol == FI_PROTO_UNSPEC || ep->protocol == PROVIDER_PROTOCOL) &&
            ep->protocol_version <= PROVIDER_PROTOCOL_VERSION &&
            ep->max_msg_size <= AFI_MAX_MESSAGE && ep->msg_prefix_size == 0 &&
            ep->max_order_raw_size <= AFI_ATOMIC && ep->max_order_war_size <= AFI_ATOMIC &&
            ep->max_order_waw_size <= AFI_ATOMIC && ep->auth_key_size == 0 &&
            (ep->tx_ctx_cnt <= 1 || ep->tx_ctx_cnt == FI_SHARED_CONTEXT) &&
            (ep->rx_ctx_cnt <= 1 || ep->rx_ctx_cnt == FI_SHARED_CONTEXT));
}

/* The members that only libfabric 2 has. */
static bool provider_groups_fit(const struct fi_domain_attr *domain)
{
#if FI_MAJOR_VERSION >= 2
    return domain->max_ep_auth_key == 0 && domain->max_group_id == 0;
#else
    return true;
#endif
}

/* Whether the program has chosen among values that exist. */
static bool provider_models_fit(const struct fi_domain_attr *domain)
{
    return (unsigned)domain->threading <= AFI_THREAD_LAST &&
           (unsigned)domain->control_progress <= AFI_PROGRESS_CONTROL_UNIFIED &&
           (unsigned)domain->data_progress <= FI_PROGRESS_MANUAL &&
           (unsigned)domain->resource_mgmt <= FI_RM_ENABLED &&
           (unsigned)domain->av_type <= FI_AV_TABLE;
}

static bool provider_domain_fits(const struct fi_domain_attr *domain)
{
    return domain == NULL ||
           ((domain->name == NULL || strcmp(domain->name, provider_name) == 0) &&
            (domain->caps & ~PROVIDER_BOTH) == 0 && domain->auth_key_size == 0 &&
            domain->cq_data_size <= sizeof(uint64_t) && domain->mr_key_size <= sizeof(uint64_t) &&
            domain->mr_iov_limit <= 1 && domain->cq_cnt <= PROVIDER_QUEUES &&
            domain->cntr_cnt <= PROVIDER_QUEUES && domain->ep_cnt <= PROVIDER_ENDPOINTS &&
            domain->tx_ctx_cnt <= PROVIDER_ENDPOINTS && domain->rx_ctx_cnt <= PROVIDER_ENDPOINTS &&
            domain->max_ep_tx_ctx <= 1 && domain->max_ep_rx_ctx <= 1 &&
            domain->max_ep_stx_ctx <= PROVIDER_ENDPOINTS &&
            domain->max_ep_srx_ctx <= PROVIDER_ENDPOINTS && domain->mr_cnt <= PROVIDER_REGIONS &&
            domain->max_err_data <= sizeof(struct afi_name) && provider_models_fit(domain) &&
            provider_groups_fit(domain));
}

static bool provider_fabric_fits(const struct fi_fabric_attr *fabric)
{
    return fabric == NULL || fabric->name == NULL || strcmp(fabric->name, provider_name) == 0;
}

/*
 * Addresses of sockets stand for services, as programs give them to any provider. Programs can
 * choose the name of a service for an endpoint, but no other.
 */
static bool provider_address_fits(const struct fi_info *info)
{
    const void *from = info->src_addr, *to = info->dest_addr;
    size_t from_len = info->src_addrlen, to_len = info->dest_addrlen;
    bool named = to_len == sizeof(struct afi_name) && to != NULL && afi_name_is_valid(to);
    if (to != NULL && !named && !afi_name_is_socket(to, to_len)) return false;
    return from == NULL || afi_name_is_socket(from, from_len) ||
           afi_name_is_service(from, from_len);
}

/* Returns 0, or -FI_ENODATA if a hint requests something that is not offered. */
static int provider_check(const struct fi_info *hints)
{
    if (hints == NULL) return 0;
    bool paired = (hints->caps & FI_SOURCE_ERR) == 0 || (hints->caps & FI_SOURCE) != 0;
    bool fits = (hints->caps & ~AFI_ALL_CAPS) == 0 && paired &&
                (hints->addr_format == FI_FORMAT_UNSPEC || hints->addr_format == AFI_FORMAT ||
                 afi_info_has_sockets(hints)) &&
                provider_address_fits(hints) && afi_tx_fits(hints->tx_attr) &&
                afi_rx_fits(hints->rx_attr) && provider_ep_fits(hints->ep_attr) &&
                provider_domain_fits(hints->domain_attr) &&
                provider_fabric_fits(hints->fabric_attr);
    return fits ? 0 : -FI_ENODATA;
}

/* A transmit or receive context has no capability that its endpoint lacks. */
static int provider_check_subsets(const struct fi_info *hints)
{
    if (hints == NULL || hints->caps == 0) return 0;
    uint64_t caps = hints->tx_attr != NULL ? hints->tx_attr->caps : 0;
    if (hints->rx_attr != NULL) caps |= hints->rx_attr->caps;
    return (caps & ~provider_caps(hints)) == 0 ? 0 : -FI_ENODATA;
}

int afi_info_check(const struct fi_info *info)
{
    if (info == NULL || info->domain_attr == NULL) return -FI_EINVAL;
    return provider_check(info) == 0 ? 0 : -FI_EINVAL;
}

static void provider_fill_queues(struct fi_info *info, const struct fi_info *hints)
{
    const struct fi_tx_attr *tx = hints != NULL ? hints->tx_attr : NULL;
    const struct fi_rx_attr *rx = hints != NULL ? hints->rx_attr : NULL;
    *info->tx_attr = (struct fi_tx_attr){
        .caps = tx != NULL && tx->caps != 0 ? tx->caps
                                            : info->caps & (PROVIDER_TX_CAPS | PROVIDER_BOTH),
        .op_flags = tx != NULL ? tx->op_flags : 0,
        .msg_order = provider_or(tx != NULL ? tx->msg_order : 0, AFI_ORDER),
        .inject_size = AFI_INJECT,
        .size = provider_or(tx != NULL ? tx->size : 0, AFI_SIZE),
        .iov_limit = AFI_IOVS,
        .rma_iov_limit = AFI_IOVS};
    *info->rx_attr = (struct fi_rx_attr){
        .caps = rx != NULL && rx->caps != 0 ? rx->caps
                                            : info->caps & (PROVIDER_RX_CAPS | PROVIDER_BOTH),
        .op_flags = rx != NULL ? rx->op_flags : 0,
        .msg_order = provider_or(rx != NULL ? rx->msg_order : 0, AFI_ORDER),
        .size = provider_or(rx != NULL ? rx->size : 0, AFI_SIZE),
        .iov_limit = AFI_IOVS};
}

/* Only programs for the old modes get one of these; all others need not register local memory. */
static int provider_mr_mode(uint32_t version, const struct fi_domain_attr *domain)
{
    int wanted = domain != NULL ? domain->mr_mode : 0;
    if (wanted == AFI_MR_BASIC || wanted == AFI_MR_SCALABLE) return wanted;
    return FI_VERSION_LT(version, FI_VERSION(1, 5)) ? AFI_MR_SCALABLE : 0;
}

/* Both kinds of addresses are alike here, but libfabric 2 deprecates maps. */
static enum fi_av_type provider_av_type(uint32_t version, const struct fi_domain_attr *domain)
{
    if (domain != NULL && domain->av_type != FI_AV_UNSPEC) return domain->av_type;
    return FI_VERSION_LT(version, FI_VERSION(2, 0)) ? FI_AV_MAP : FI_AV_TABLE;
}

/* Set members only: the structure is smaller in a libfabric older than the headers, and larger in a
 * newer one. */
static int provider_fill_domain(struct fi_info *info, const struct fi_info *hints, uint32_t version)
{
    const struct fi_domain_attr *domain = hints != NULL ? hints->domain_attr : NULL;
    struct fi_domain_attr *to = info->domain_attr;
    enum fi_progress control = domain != NULL ? domain->control_progress : FI_PROGRESS_UNSPEC;
    enum fi_progress data = domain != NULL ? domain->data_progress : FI_PROGRESS_UNSPEC;
    bool alone = control == FI_PROGRESS_AUTO || data == FI_PROGRESS_AUTO;
    to->name = strdup(provider_name);
    to->threading = FI_THREAD_SAFE;
    to->control_progress = to->data_progress = alone ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
    if (!alone && (int)control == AFI_PROGRESS_CONTROL_UNIFIED) to->control_progress = control;
    to->resource_mgmt = FI_RM_ENABLED;
    to->av_type = provider_av_type(version, domain);
    to->mr_mode = provider_mr_mode(version, domain);
    to->mr_key_size = to->cq_data_size = sizeof(uint64_t);
    to->cq_cnt = to->cntr_cnt = PROVIDER_QUEUES;
    to->ep_cnt = to->tx_ctx_cnt = to->rx_ctx_cnt = PROVIDER_ENDPOINTS;
    to->max_ep_stx_ctx = to->max_ep_srx_ctx = PROVIDER_ENDPOINTS;
    to->max_ep_tx_ctx = to->max_ep_rx_ctx = 1;
    to->mr_iov_limit = 1;
    to->max_err_data = sizeof(struct afi_name);
    to->caps = PROVIDER_BOTH;
    to->mr_cnt = PROVIDER_REGIONS;
    return to->name != NULL ? 0 : -FI_ENOMEM;
}

static int provider_fill_address(bool sockets, const struct afi_name *name, void **addr,
                                 size_t *len)
{
    if (!afi_name_is_valid(name)) return 0;
    if (sockets && (name->transports & AFI_BY_UDP) == 0) return -FI_ENODATA;
    *len = afi_name_size(sockets);
    *addr = malloc(*len);
    if (*addr == NULL) return -FI_ENOMEM;
    afi_name_write(sockets, name, *addr);
    return 0;
}

/* The names of endpoints, from hosts and services, or else from the hints; all 0: none. */
struct provider_ends {
    struct afi_name from, to;
};

static int provider_read_hint(const void *addr, size_t len, bool here, struct afi_name *name)
{
    if (afi_name_is_socket(addr, len)) return afi_name_from_socket(name, addr, len, here);
    memcpy(name, addr, sizeof(*name));
    return 0;
}

/* As the source, this host, which may have no address. */
static int provider_find_source(const struct fi_info *hints, struct afi_name *name)
{
    if (hints != NULL && hints->src_addr != NULL)
        return provider_read_hint(hints->src_addr, hints->src_addrlen, true, name);
    (void)afi_name_resolve(name, NULL, NULL, 0, true);
    return 0;
}

/* A node without a service is any of its endpoints; a service without a node is on this host. */
static int provider_find_ends(const char *node, const char *service, uint64_t flags,
                              const struct fi_info *hints, struct provider_ends *ends)
{
    bool source = (flags & FI_SOURCE) != 0, named = node != NULL || service != NULL;
    *ends = (struct provider_ends){0};
    int err = source ? afi_name_resolve(&ends->from, node, service, flags, true)
                     : provider_find_source(hints, &ends->from);
    if (err != 0) return err;
    if (named && !source) return afi_name_resolve(&ends->to, node, service, flags, false);
    if (hints == NULL || hints->dest_addr == NULL) return 0;
    return provider_read_hint(hints->dest_addr, hints->dest_addrlen, false, &ends->to);
}

static int provider_fill_addresses(struct fi_info *info, const struct provider_ends *ends)
{
    bool sockets = afi_info_has_sockets(info);
    int err = provider_fill_address(sockets, &ends->from, &info->src_addr, &info->src_addrlen);
    if (err != 0) return err;
    return provider_fill_address(sockets, &ends->to, &info->dest_addr, &info->dest_addrlen);
}

static int provider_fill(struct fi_info *info, const struct fi_info *hints,
                         const struct provider_ends *ends, uint32_t version)
{
    const struct fi_ep_attr *ep = hints != NULL ? hints->ep_attr : NULL;
    info->caps = provider_caps(hints);
    info->addr_format = hints != NULL && afi_info_has_sockets(hints) ? FI_SOCKADDR_IN : AFI_FORMAT;
    *info->ep_attr = (struct fi_ep_attr){
        .type = FI_EP_RDM,
        .protocol = PROVIDER_PROTOCOL,
        .protocol_version = PROVIDER_PROTOCOL_VERSION,
        .max_msg_size = AFI_MAX_MESSAGE,
        .max_order_raw_size = AFI_ATOMIC,
        .max_order_war_size = AFI_ATOMIC,
        .max_order_waw_size = AFI_ATOMIC,
        .mem_tag_format = provider_or(ep != NULL ? ep->mem_tag_format : 0, PROVIDER_TAG_FORMAT),
        .tx_ctx_cnt = ep != NULL && ep->tx_ctx_cnt == FI_SHARED_CONTEXT ? FI_SHARED_CONTEXT : 1,
        .rx_ctx_cnt = ep != NULL && ep->rx_ctx_cnt == FI_SHARED_CONTEXT ? FI_SHARED_CONTEXT : 1};
    provider_fill_queues(info, hints);
    info->fabric_attr->name = strdup(provider_name);
    info->fabric_attr->prov_version = FI_VERSION(AQ_VERSION_MAJOR, AQ_VERSION_MINOR);
    info->fabric_attr->api_version = version;
    if (info->fabric_attr->name == NULL) return -FI_ENOMEM;
    int err = provider_fill_addresses(info, ends);
    return err == 0 ? provider_fill_domain(info, hints, version) : err;
}

/* Find an open domain, and its fabric: those of the hints, otherwise the first ones. Returns false
 * if those of the hints are not open. */
static bool provider_find_open(const struct fi_info *hints, struct fi_info *info)
{
    struct fid_fabric *fabric = NULL;
    struct fid_domain *domain = NULL;
    if (hints != NULL && hints->fabric_attr != NULL) fabric = hints->fabric_attr->fabric;
    if (hints != NULL && hints->domain_attr != NULL) domain = hints->domain_attr->domain;
    for (struct aqi_node *at = provider_fabrics.next; at != &provider_fabrics; at = at->next) {
        struct afi_fabric *each = AQI_OF(at, struct afi_fabric, link);
        if (fabric != NULL && fabric != &each->fid) continue;
        if (info->fabric_attr->fabric == NULL) info->fabric_attr->fabric = &each->fid;
        for (struct aqi_node *in = each->domains.next; in != &each->domains; in = in->next) {
            struct afi_domain *found = AQI_OF(in, struct afi_domain, link);
            if (domain != NULL && domain != &found->fid) continue;
            info->fabric_attr->fabric = &each->fid;
            info->domain_attr->domain = &found->fid;
            return true;
        }
    }
    return domain == NULL && (fabric == NULL || info->fabric_attr->fabric != NULL);
}

/* The name of the provider stays NULL: libfabric fills it in. */
static int provider_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                            const struct fi_info *hints, struct fi_info **out)
{
    struct provider_ends ends;
    if ((flags & FI_PROV_ATTR_ONLY) != 0) {
        node = service = NULL;
        hints = NULL;
    }
    int err = provider_check(hints);
    if (err == 0) err = provider_check_subsets(hints);
    if (err == 0) err = provider_find_ends(node, service, flags, hints, &ends);
    if (err != 0) return err;
    struct fi_info *info = fi_allocinfo();
    if (info == NULL) return -FI_ENOMEM;
    err = provider_fill(info, hints, &ends, version);
    afi_lock();
    if (err == 0 && !provider_find_open(hints, info)) err = -FI_ENODATA;
    afi_unlock();
    if (err != 0)
        fi_freeinfo(info);
    else
        *out = info;
    return err;
}

/* --- unsupported operations ------------------------------------------------------------------ */

int afi_no_control(struct fid *fid, int command, void *arg)
{
    return -FI_ENOSYS;
}

int afi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    return -FI_ENOSYS;
}

/* --- fabrics --------------------------------------------------------------------------------- */

static int provider_fabric_close(struct fid *fid)
{
    struct afi_fabric *fabric = AQI_OF(fid, struct afi_fabric, fid.fid);
    afi_lock();
    bool busy = fabric->users != 0;
    if (!busy) aqi_list_remove(&fabric->link);
    afi_unlock();
    if (busy) return -FI_EBUSY;
    free(fabric);
    return 0;
}

static int provider_no_pep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                           void *context)
{
    return -FI_ENOSYS;
}

static struct fi_ops_fabric provider_fabric_ops = {.size = sizeof(struct fi_ops_fabric),
                                                   .domain = afi_domain_open,
                                                   .passive_ep = provider_no_pep,
                                                   .eq_open = afi_eq_open,
                                                   .wait_open = afi_wait_set_open,
                                                   .trywait = afi_trywait};

static struct fi_ops provider_fid_ops = {.size = sizeof(struct fi_ops),
                                         .close = provider_fabric_close,
                                         .control = afi_no_control,
                                         .ops_open = afi_no_ops_open};

static int provider_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
    if (!provider_fabric_fits(attr)) return -FI_ENODATA;
    struct afi_fabric *fabric = calloc(1, sizeof(*fabric));
    if (fabric == NULL) return -FI_ENOMEM;
    fabric->fid.fid =
        (struct fid){.fclass = FI_CLASS_FABRIC, .context = context, .ops = &provider_fid_ops};
    fabric->fid.ops = &provider_fabric_ops;
    fabric->fid.api_version = attr->api_version;
    aqi_list_init(&fabric->domains);
    afi_lock();
    aqi_list_append(&provider_fabrics, &fabric->link);
    afi_unlock();
    *out = &fabric->fid;
    return 0;
}

/* At exit, open objects are left to the kernel: libraries that are needed to close connections may
 * have already been finalized. */
static void provider_cleanup(void)
{
}

static struct fi_provider provider = {.version = FI_VERSION(AQ_VERSION_MAJOR, AQ_VERSION_MINOR),
                                      .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
                                      .name = provider_name,
                                      .getinfo = provider_getinfo,
                                      .fabric = provider_fabric,
                                      .cleanup = provider_cleanup};

struct fi_provider *fi_prov_ini(void);
__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
    return &provider;
}
