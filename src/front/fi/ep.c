/* fi: endpoints, their aliases, and shared contexts: opening, binding, options. */
#include "front/fi/fi.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* --- binding --------------------------------------------------------------------------------- */

static int ep_bind_cq(struct afi_ep *ep, struct afi_cq *cq, uint64_t flags)
{
    bool selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
    bool sends = (flags & FI_TRANSMIT) != 0, receives = (flags & FI_RECV) != 0;
    if ((flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) != 0 || !(sends || receives) ||
        (sends && ep->tx_cq != NULL) || (receives && ep->rx_cq != NULL))
        return -FI_EINVAL;
    if (sends) {
        ep->tx_cq = cq;
        ep->tx_selective = selective;
        cq->users++;
    }
    if (receives) {
        ep->rx_cq = cq;
        ep->rx_selective = selective;
        cq->users++;
    }
    return 0;
}

static int ep_bind_cntr(struct afi_ep *ep, struct afi_cntr *cntr, uint64_t flags)
{
    static const uint64_t bits[AFI_COUNTS] = {FI_SEND,  FI_RECV,        FI_READ,
                                              FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE};
    uint64_t known = 0, taken = 0;
    for (unsigned i = 0; i < AFI_COUNTS; i++) {
        known |= bits[i];
        if (ep->cntr[i] != NULL) taken |= bits[i];
    }
    if (flags == 0 || (flags & ~known) != 0 || (flags & taken) != 0) return -FI_EINVAL;
    for (unsigned i = 0; i < AFI_COUNTS; i++) {
        if ((flags & bits[i]) == 0) continue;
        ep->cntr[i] = cntr;
        cntr->users++;
    }
    return 0;
}

/* The domain to which an object belongs; NULL: none, or it is not bound to endpoints. */
static const struct afi_domain *ep_domain_of(const struct fid *fid)
{
    switch (fid->fclass) {
    case FI_CLASS_CQ:
        return AQI_OF(fid, const struct afi_cq, fid.fid)->domain;
    case FI_CLASS_CNTR:
        return AQI_OF(fid, const struct afi_cntr, fid.fid)->domain;
    case FI_CLASS_AV:
        return AQI_OF(fid, const struct afi_av, fid.fid)->domain;
    case FI_CLASS_STX_CTX:
        return AQI_OF(fid, const struct afi_stx, fid.fid)->domain;
    case FI_CLASS_SRX_CTX:
        return AQI_OF(fid, const struct afi_srx, fid.fid)->domain;
    case FI_CLASS_MR:
        return AQI_OF(fid, const struct afi_mr, fid.fid)->domain;
    default:
        return NULL;
    }
}

static int ep_bind_locked(struct afi_ep *ep, struct fid *bfid, uint64_t flags)
{
    switch (bfid->fclass) {
    case FI_CLASS_CQ:
        return ep_bind_cq(ep, AQI_OF(bfid, struct afi_cq, fid.fid), flags);
    case FI_CLASS_CNTR:
        return ep_bind_cntr(ep, AQI_OF(bfid, struct afi_cntr, fid.fid), flags);
    case FI_CLASS_AV:
        if (ep->av != NULL) return -FI_EINVAL;
        ep->av = AQI_OF(bfid, struct afi_av, fid.fid);
        ep->av->users++;
        return 0;
    case FI_CLASS_EQ:
        if (ep->eq != NULL) return -FI_EINVAL;
        ep->eq = AQI_OF(bfid, struct afi_eq, fid.fid);
        ep->eq->users++;
        return 0;
    case FI_CLASS_SRX_CTX:
        if (ep->srx != NULL) return -FI_EINVAL;
        ep->srx = AQI_OF(bfid, struct afi_srx, fid.fid);
        ep->srx->users++;
        ep->rxq = &ep->srx->rxq;
        return 0;
    case FI_CLASS_STX_CTX:
        if (ep->stx != NULL) return -FI_EINVAL;
        ep->stx = AQI_OF(bfid, struct afi_stx, fid.fid);
        ep->stx->users++;
        return 0;
    case FI_CLASS_MR:
        return 0;
    default:
        return -FI_EINVAL;
    }
}

static struct afi_ep *ep_of(struct fid *fid)
{
    return afi_ep_of(AQI_OF(fid, struct fid_ep, fid));
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct afi_ep *ep = ep_of(fid);
    const struct afi_domain *domain = ep_domain_of(bfid);
    if (domain != NULL && domain != ep->domain) return -FI_EDOMAIN;
    afi_lock();
    int err = ep->enabled ? -FI_EOPBADSTATE : ep_bind_locked(ep, bfid, flags);
    afi_unlock();
    return err;
}

/* --- control --------------------------------------------------------------------------------- */

/* Counters suffice for programs that do not need to know which operation has failed. */
static bool ep_reports(const struct afi_ep *ep)
{
    bool reports = ep->tx_cq != NULL || afi_rx_cq(ep) != NULL;
    for (unsigned i = 0; i < AFI_COUNTS; i++)
        reports = reports || ep->cntr[i] != NULL;
    return reports;
}

static bool ep_is_served(const struct afi_ep *ep)
{
    for (struct aqi_node *at = afi.eps.next; at != &afi.eps; at = at->next) {
        const struct afi_ep *other = AQI_OF(at, const struct afi_ep, link);
        if (other->enabled && other->service == ep->service) return true;
    }
    return false;
}

/* Programs open several endpoints with the same fi_info, whose service the first one gets. */
static int ep_enable(struct afi_ep *ep)
{
    if (ep->enabled) return 0;
    if (ep->av == NULL) return -FI_ENOAV;
    if (!ep_reports(ep)) return -FI_ENOCQ;
    if (ep->service != 0 && !ep->must_serve && ep_is_served(ep)) ep->service = 0;
    int err = afi_peer_listen(ep);
    ep->enabled = err == 0;
    if (err == 0 && ep->srx != NULL && ep->srx->ep == NULL) ep->srx->ep = ep;
    return err;
}

/* The default flags of this direction; NULL: it is none or both. */
static uint64_t *ep_direction_flags(struct afi_op_flags *flags, uint64_t direction)
{
    switch (direction & (FI_TRANSMIT | FI_RECV)) {
    case FI_TRANSMIT:
        return &flags->tx;
    case FI_RECV:
        return &flags->rx;
    default:
        return NULL;
    }
}

static int ep_set_flags(struct afi_op_flags *flags, uint64_t wanted)
{
    uint64_t *to = ep_direction_flags(flags, wanted);
    if (to == NULL) return -FI_EINVAL;
    wanted &= ~(FI_TRANSMIT | FI_RECV);
    if ((wanted & ~AFI_OP_FLAGS) != 0) return -FI_EBADFLAGS;
    *to = wanted;
    return 0;
}

static int ep_get_flags(struct afi_op_flags *flags, uint64_t *out)
{
    const uint64_t *from = ep_direction_flags(flags, *out);
    if (from == NULL) return -FI_EINVAL;
    *out = *from;
    return 0;
}

/* The alias has the flags of `fid`, except in the direction of those in `to`. */
static int ep_alias_open(struct fid_ep *fid, struct fi_alias *to)
{
    struct afi_alias *alias = malloc(sizeof(*alias));
    if (alias == NULL) return -FI_ENOMEM;
    *alias = (struct afi_alias){.fid = *fid, .ep = afi_ep_of(fid), .flags = *afi_flags_of(fid)};
    alias->fid.fid.ops = &afi_alias_ops;
    int err = ep_set_flags(&alias->flags, to->flags);
    if (err != 0) {
        free(alias);
        return err;
    }
    alias->ep->aliases++;
    *to->fid = &alias->fid.fid;
    return 0;
}

static int ep_alias_close(struct fid *fid)
{
    afi_lock();
    ep_of(fid)->aliases--;
    afi_unlock();
    free(AQI_OF(fid, struct afi_alias, fid.fid));
    return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    struct fid_ep *handle = AQI_OF(fid, struct fid_ep, fid);
    afi_lock();
    int err = command == FI_ENABLE       ? ep_enable(afi_ep_of(handle))
              : command == FI_SETOPSFLAG ? ep_set_flags(afi_flags_of(handle), *(uint64_t *)arg)
              : command == FI_GETOPSFLAG ? ep_get_flags(afi_flags_of(handle), arg)
              : command == FI_ALIAS      ? ep_alias_open(handle, arg)
                                         : -FI_ENOSYS;
    afi_unlock();
    return err;
}

struct fi_ops afi_alias_ops = {.size = sizeof(struct fi_ops),
                               .close = ep_alias_close,
                               .bind = ep_bind,
                               .control = ep_control,
                               .ops_open = afi_no_ops_open};

/* Shared transmit contexts have the same calls, but no receives. */
static bool ep_receives(const struct fid *fid)
{
    return fid->fclass != FI_CLASS_STX_CTX;
}

static struct afi_rxq *ep_rxq(struct fid *fid)
{
    return fid->fclass == FI_CLASS_SRX_CTX ? &AQI_OF(fid, struct afi_srx, fid.fid)->rxq
                                           : ep_of(fid)->rxq;
}

static struct afi_op *ep_find_unsent(struct afi_ep *ep, const void *context)
{
    for (unsigned i = 0; i < AFI_PEERS; i++)
        for (struct aqi_node *at = ep->peers[i].next; at != &ep->peers[i]; at = at->next) {
            struct aqi_node *waiting = &AQI_OF(at, struct afi_peer, link)->waiting;
            for (struct aqi_node *each = waiting->next; each != waiting; each = each->next)
                if (AQI_OF(each, struct afi_op, link)->context == context)
                    return AQI_OF(each, struct afi_op, link);
        }
    return NULL;
}

/* An operation that has been sent cannot be canceled. */
static int ep_cancel_unsent(struct afi_ep *ep, const void *context)
{
    struct afi_op *op = context != NULL ? ep_find_unsent(ep, context) : NULL;
    if (op == NULL) return -FI_ENOENT;
    op->peer->waiting_count--;
    afi_op_end(op, FI_ECANCELED);
    return 0;
}

static ssize_t ep_cancel(struct fid *fid, void *context)
{
    bool shared = fid->fclass == FI_CLASS_SRX_CTX;
    const struct afi_srx *srx = AQI_OF(fid, const struct afi_srx, fid.fid);
    if (!ep_receives(fid)) return -FI_ENOENT;
    afi_lock();
    struct afi_ep *ep = shared ? srx->ep : ep_of(fid);
    int err = afi_rxq_cancel(ep_rxq(fid), shared ? afi_srx_cq(srx) : afi_rx_cq(ep),
                             ep != NULL ? ep->cntr[AFI_COUNT_RECV] : NULL, context);
    if (err == -FI_ENOENT && !shared) err = ep_cancel_unsent(ep, context);
    afi_unlock();
    return err;
}

static bool ep_knows(const struct fid *fid, int level, int name)
{
    return ep_receives(fid) && level == FI_OPT_ENDPOINT && name == FI_OPT_MIN_MULTI_RECV;
}

static int ep_getopt(struct fid *fid, int level, int name, void *value, size_t *len)
{
    if (!ep_knows(fid, level, name)) return -FI_ENOPROTOOPT;
    bool fits = *len >= sizeof(size_t);
    *len = sizeof(size_t);
    if (fits) *(size_t *)value = ep_rxq(fid)->least;
    return fits ? 0 : -FI_ETOOSMALL;
}

static int ep_setopt(struct fid *fid, int level, int name, const void *value, size_t len)
{
    if (!ep_knows(fid, level, name)) return -FI_ENOPROTOOPT;
    if (len < sizeof(size_t)) return -FI_EINVAL;
    ep_rxq(fid)->least = aqi_max(*(const size_t *)value, 1); /* must release full buffers */
    return 0;
}

static int ep_no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
                        void *context)
{
    return -FI_ENOSYS;
}

static int ep_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
                        void *context)
{
    return -FI_ENOSYS;
}

/* At least as many receives can be posted; for programs that post until none is left, not as many
 * as in fact. */
static ssize_t ep_rx_size_left(struct fid_ep *ep)
{
    return AFI_SIZE - (ssize_t)aqi_min(ep_rxq(&ep->fid)->posted_count, AFI_SIZE);
}

/* For the peer with the longest queue. */
static ssize_t ep_tx_size_left(struct fid_ep *fid)
{
    const struct afi_ep *ep = afi_ep_of(fid);
    size_t waiting = 0;
    if (ep == NULL) return -FI_EINVAL;
    afi_lock();
    for (unsigned i = 0; i < AFI_PEERS; i++)
        for (const struct aqi_node *at = ep->peers[i].next; at != &ep->peers[i]; at = at->next)
            waiting = aqi_max(waiting, AQI_OF(at, const struct afi_peer, link)->waiting_count);
    afi_unlock();
    return afi_cq_is_full(ep->tx_cq) ? 0 : (ssize_t)(ep->tx_size - waiting);
}

static struct fi_ops_ep ep_ops = {.size = sizeof(struct fi_ops_ep),
                                  .cancel = ep_cancel,
                                  .getopt = ep_getopt,
                                  .setopt = ep_setopt,
                                  .tx_ctx = ep_no_tx_ctx,
                                  .rx_ctx = ep_no_rx_ctx,
                                  .rx_size_left = ep_rx_size_left,
                                  .tx_size_left = ep_tx_size_left};

/* --- names ----------------------------------------------------------------------------------- */

/* The address of a socket is what fi_getname returns; peers reach the endpoint at all addresses of
 * the host. */
static void ep_choose_name(struct afi_ep *ep, const void *addr, size_t len)
{
    ep->service = afi_name_service(addr, len);
    if (len != sizeof(struct sockaddr_in)) return;
    struct sockaddr_in at;
    memcpy(&at, addr, sizeof(at));
    ep->ip = at.sin_addr.s_addr;
}

/* Only the name of a service can be chosen. */
static int ep_setname(struct fid *fid, void *addr, size_t addrlen)
{
    struct afi_ep *ep = ep_of(fid);
    if (ep == NULL || !(afi_name_is_socket(addr, addrlen) || afi_name_is_service(addr, addrlen)))
        return -FI_EINVAL;
    if (ep->enabled) return -FI_EOPBADSTATE;
    ep_choose_name(ep, addr, addrlen);
    ep->must_serve = true;
    return 0;
}

static int ep_getname(struct fid *fid, void *addr, size_t *addrlen)
{
    const struct afi_ep *ep = ep_of(fid);
    if (ep == NULL || !ep->enabled) return -FI_EOPBADSTATE;
    bool sockets = ep->domain->sockets;
    size_t room = *addrlen, size = afi_name_size(sockets);
    struct afi_name name = ep->name;
    unsigned char bytes[sizeof(name)];
    if (sockets && ep->ip != 0) memcpy(name.address[0], &ep->ip, sizeof(ep->ip));
    afi_name_write(sockets, &name, bytes);
    if (addr != NULL) memcpy(addr, bytes, aqi_min(room, size));
    *addrlen = size;
    return addr == NULL || room < size ? -FI_ETOOSMALL : 0;
}

static int ep_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
    return -FI_ENOSYS;
}

static int ep_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
    return -FI_ENOSYS;
}

static int ep_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
    return -FI_ENOSYS;
}

static int ep_shutdown(struct fid_ep *ep, uint64_t flags)
{
    return -FI_ENOSYS;
}

static int ep_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
                   void *context)
{
    return -FI_ENOSYS;
}

static struct fi_ops_cm ep_cm_ops = {.size = sizeof(struct fi_ops_cm),
                                     .setname = ep_setname,
                                     .getname = ep_getname,
                                     .getpeer = ep_getpeer,
                                     .connect = ep_connect,
                                     .accept = ep_accept,
                                     .shutdown = ep_shutdown,
                                     .join = ep_join};

/* --- endpoints ------------------------------------------------------------------------------- */

static struct fid_ep ep_fid(size_t fclass, void *context, struct fi_ops *ops)
{
    return (struct fid_ep){.fid = {.fclass = fclass, .context = context, .ops = ops},
                           .ops = &ep_ops,
                           .cm = &ep_cm_ops,
                           .msg = &afi_msg_ops,
                           .rma = &afi_rma_ops,
                           .tagged = &afi_tagged_ops,
                           .atomic = &afi_atomic_ops};
}

static void ep_leave_srx(struct afi_ep *ep)
{
    struct afi_srx *srx = ep->srx;
    srx->users--;
    if (srx->ep == ep) srx->ep = NULL;
    for (struct aqi_node *at = afi.eps.next; at != &afi.eps && srx->ep == NULL; at = at->next) {
        struct afi_ep *other = AQI_OF(at, struct afi_ep, link);
        if (other != ep && other->srx == srx && other->enabled) srx->ep = other;
    }
}

static void ep_unbind(struct afi_ep *ep)
{
    if (ep->tx_cq != NULL) ep->tx_cq->users--;
    if (ep->rx_cq != NULL) ep->rx_cq->users--;
    if (ep->av != NULL) ep->av->users--;
    if (ep->eq != NULL) ep->eq->users--;
    if (ep->stx != NULL) ep->stx->users--;
    if (ep->srx != NULL) ep_leave_srx(ep);
    for (unsigned i = 0; i < AFI_COUNTS; i++)
        if (ep->cntr[i] != NULL) ep->cntr[i]->users--;
    ep->domain->users--;
}

/* Pending operations end without a completion. */
static int ep_close(struct fid *fid)
{
    struct afi_ep *ep = AQI_OF(fid, struct afi_ep, fid.fid);
    afi_lock();
    if (ep->aliases != 0) {
        afi_unlock();
        return -FI_EBUSY;
    }
    afi_peer_close_all(ep);
    afi_rxq_close(&ep->own);
    ep_unbind(ep);
    aqi_list_remove(&ep->link);
    afi_unlock();
    free(ep);
    return 0;
}

static struct fi_ops ep_fid_ops = {.size = sizeof(struct fi_ops),
                                   .close = ep_close,
                                   .bind = ep_bind,
                                   .control = ep_control,
                                   .ops_open = afi_no_ops_open};

int afi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out, void *context)
{
    int err = afi_info_check(info);
    if (err != 0) return err;
    if (afi_info_has_sockets(info) != AQI_OF(domain, struct afi_domain, fid)->sockets)
        return -FI_EINVAL;
    struct afi_ep *ep = calloc(1, sizeof(*ep));
    if (ep == NULL) return -FI_ENOMEM;
    *ep = (struct afi_ep){.fid = ep_fid(FI_CLASS_EP, context, &ep_fid_ops),
                          .domain = AQI_OF(domain, struct afi_domain, fid),
                          .caps = info->caps,
                          .tx_size = AFI_SIZE};
    if (info->tx_attr != NULL) {
        ep->flags.tx = info->tx_attr->op_flags;
        ep->tx_size = (uint32_t)aqi_max(info->tx_attr->size, AFI_SIZE);
    }
    if (info->src_addr != NULL) ep_choose_name(ep, info->src_addr, info->src_addrlen);
    afi_rxq_init(&ep->own);
    if (info->rx_attr != NULL) ep->flags.rx = info->rx_attr->op_flags;
    ep->rxq = &ep->own;
    for (unsigned i = 0; i < AFI_PEERS; i++)
        aqi_list_init(&ep->peers[i]);
    afi_lock();
    aqi_list_append(&afi.eps, &ep->link);
    ep->domain->users++;
    afi_unlock();
    *out = &ep->fid;
    return 0;
}

/* --- shared receive contexts ----------------------------------------------------------------- */

static int ep_srx_close(struct fid *fid)
{
    struct afi_srx *srx = AQI_OF(fid, struct afi_srx, fid.fid);
    afi_lock();
    bool busy = srx->users != 0;
    if (!busy) {
        afi_rxq_close(&srx->rxq);
        srx->domain->users--;
        if (srx->cq != NULL) srx->cq->users--;
        if (srx->av != NULL) srx->av->users--;
    }
    afi_unlock();
    if (busy) return -FI_EBUSY;
    free(srx);
    return 0;
}

static int ep_srx_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct afi_srx *srx = AQI_OF(fid, struct afi_srx, fid.fid);
    bool to_av = bfid->fclass == FI_CLASS_AV && srx->av == NULL;
    bool to_cq = bfid->fclass == FI_CLASS_CQ && srx->cq == NULL;
    if (!to_av && !to_cq) return -FI_EINVAL;
    if (ep_domain_of(bfid) != srx->domain) return -FI_EDOMAIN;
    afi_lock();
    if (to_av) {
        srx->av = AQI_OF(bfid, struct afi_av, fid.fid);
        srx->av->users++;
    } else {
        srx->cq = AQI_OF(bfid, struct afi_cq, fid.fid);
        srx->cq->users++;
        srx->selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
    }
    afi_unlock();
    return 0;
}

static int ep_srx_control(struct fid *fid, int command, void *arg)
{
    struct afi_srx *srx = AQI_OF(fid, struct afi_srx, fid.fid);
    uint64_t *flags = arg;
    if (command == FI_ENABLE) return 0;
    if (command != FI_SETOPSFLAG && command != FI_GETOPSFLAG) return -FI_ENOSYS;
    if ((*flags & (FI_TRANSMIT | FI_RECV)) != FI_RECV) return -FI_EINVAL;
    if (command == FI_SETOPSFLAG && (*flags & ~(FI_RECV | AFI_OP_FLAGS)) != 0) return -FI_EBADFLAGS;
    afi_lock();
    if (command == FI_SETOPSFLAG) srx->rx_flags = *flags & ~FI_RECV;
    *flags = srx->rx_flags;
    afi_unlock();
    return 0;
}

static struct fi_ops ep_srx_fid_ops = {.size = sizeof(struct fi_ops),
                                       .close = ep_srx_close,
                                       .bind = ep_srx_bind,
                                       .control = ep_srx_control,
                                       .ops_open = afi_no_ops_open};

int afi_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **out,
                 void *context)
{
    if (attr != NULL && (attr->op_flags & FI_PEER) != 0) return -FI_ENOSYS;
    if (!afi_rx_fits(attr)) return -FI_EINVAL;
    struct afi_srx *srx = calloc(1, sizeof(*srx));
    if (srx == NULL) return -FI_ENOMEM;
    *srx = (struct afi_srx){.fid = ep_fid(FI_CLASS_SRX_CTX, context, &ep_srx_fid_ops),
                            .domain = AQI_OF(domain, struct afi_domain, fid),
                            .directed = attr == NULL || attr->caps == 0 ||
                                        (attr->caps & FI_DIRECTED_RECV) != 0};
    afi_rxq_init(&srx->rxq);
    srx->rx_flags = attr != NULL ? attr->op_flags : 0;
    afi_use(&srx->domain->users);
    *out = &srx->fid;
    return 0;
}

/* --- shared transmit contexts ---------------------------------------------------------------- */

static int ep_stx_close(struct fid *fid)
{
    struct afi_stx *stx = AQI_OF(fid, struct afi_stx, fid.fid);
    if (!afi_release(&stx->users, &stx->domain->users)) return -FI_EBUSY;
    free(stx);
    return 0;
}

static struct fi_ops ep_stx_fid_ops = {.size = sizeof(struct fi_ops),
                                       .close = ep_stx_close,
                                       .control = afi_no_control,
                                       .ops_open = afi_no_ops_open};

int afi_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **out,
                 void *context)
{
    if (!afi_tx_fits(attr)) return -FI_EINVAL;
    struct afi_stx *stx = calloc(1, sizeof(*stx));
    if (stx == NULL) return -FI_ENOMEM;
    *stx = (struct afi_stx){
        .fid = {.fid = {.fclass = FI_CLASS_STX_CTX, .context = context, .ops = &ep_stx_fid_ops},
                .ops = &ep_ops},
        .domain = AQI_OF(domain, struct afi_domain, fid)};
    afi_use(&stx->domain->users);
    *out = &stx->fid;
    return 0;
}
