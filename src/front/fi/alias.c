/*
 * fi: aliases of endpoints, which differ from them by the default flags of operations. Calls for
 * messages are passed to the endpoint, those that have no flags as calls that have them: for speed,
 * the endpoint's own calls know no aliases. Those for remote memory do.
 */
#include "front/fi/fi.h"

#include <stdlib.h>

static struct afi_alias *alias_of(struct fid_ep *fid)
{
    return AQI_OF(fid, struct afi_alias, fid);
}

static struct fid_ep *alias_ep(struct fid_ep *fid)
{
    return &alias_of(fid)->ep->fid;
}

static uint64_t alias_tx_flags(struct fid_ep *fid)
{
    return alias_of(fid)->tx_flags;
}

static uint64_t alias_rx_flags(struct fid_ep *fid)
{
    return alias_of(fid)->rx_flags;
}

static struct iovec alias_iov(const void *buf, size_t len)
{
    return (struct iovec){.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
}

/* --- messages -------------------------------------------------------------------------------- */

static struct fi_msg alias_msg(const struct iovec *iov, size_t count, fi_addr_t addr, void *context)
{
    return (struct fi_msg){.msg_iov = iov, .iov_count = count, .addr = addr, .context = context};
}

static ssize_t alias_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                           fi_addr_t src_addr, void *context)
{
    const struct fi_msg msg = alias_msg(iov, count, src_addr, context);
    (void)desc;
    return fi_recvmsg(alias_ep(ep), &msg, alias_rx_flags(ep));
}

static ssize_t alias_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
                          void *context)
{
    const struct iovec iov = alias_iov(buf, len);
    (void)desc;
    return alias_recvv(ep, &iov, NULL, 1, src_addr, context);
}

static ssize_t alias_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    return fi_recvmsg(alias_ep(ep), msg, flags);
}

static ssize_t alias_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                           fi_addr_t dest_addr, void *context)
{
    const struct fi_msg msg = alias_msg(iov, count, dest_addr, context);
    (void)desc;
    return fi_sendmsg(alias_ep(ep), &msg, alias_tx_flags(ep));
}

static ssize_t alias_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                          fi_addr_t dest_addr, void *context)
{
    const struct iovec iov = alias_iov(buf, len);
    (void)desc;
    return alias_sendv(ep, &iov, NULL, 1, dest_addr, context);
}

static ssize_t alias_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    return fi_sendmsg(alias_ep(ep), msg, flags);
}

static ssize_t alias_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr)
{
    return fi_inject(alias_ep(ep), buf, len, dest_addr);
}

static ssize_t alias_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                              uint64_t data, fi_addr_t dest_addr, void *context)
{
    const struct iovec iov = alias_iov(buf, len);
    struct fi_msg msg = alias_msg(&iov, 1, dest_addr, context);
    (void)desc;
    msg.data = data;
    return fi_sendmsg(alias_ep(ep), &msg, alias_tx_flags(ep) | FI_REMOTE_CQ_DATA);
}

static ssize_t alias_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                                fi_addr_t dest_addr)
{
    return fi_injectdata(alias_ep(ep), buf, len, data, dest_addr);
}

static struct fi_ops_msg alias_msg_ops = {.size = sizeof(struct fi_ops_msg),
                                          .recv = alias_recv,
                                          .recvv = alias_recvv,
                                          .recvmsg = alias_recvmsg,
                                          .send = alias_send,
                                          .sendv = alias_sendv,
                                          .sendmsg = alias_sendmsg,
                                          .inject = alias_inject,
                                          .senddata = alias_senddata,
                                          .injectdata = alias_injectdata};

/* --- tagged messages ------------------------------------------------------------------------- */

static struct fi_msg_tagged alias_tagged(const struct iovec *iov, size_t count, fi_addr_t addr,
                                         uint64_t tag, void *context)
{
    return (struct fi_msg_tagged){
        .msg_iov = iov, .iov_count = count, .addr = addr, .tag = tag, .context = context};
}

static ssize_t alias_trecvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context)
{
    struct fi_msg_tagged msg = alias_tagged(iov, count, src_addr, tag, context);
    (void)desc;
    msg.ignore = ignore;
    return fi_trecvmsg(alias_ep(ep), &msg, alias_rx_flags(ep));
}

static ssize_t alias_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
                           uint64_t tag, uint64_t ignore, void *context)
{
    const struct iovec iov = alias_iov(buf, len);
    (void)desc;
    return alias_trecvv(ep, &iov, NULL, 1, src_addr, tag, ignore, context);
}

static ssize_t alias_trecvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return fi_trecvmsg(alias_ep(ep), msg, flags);
}

static ssize_t alias_tsendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t dest_addr, uint64_t tag, void *context)
{
    const struct fi_msg_tagged msg = alias_tagged(iov, count, dest_addr, tag, context);
    (void)desc;
    return fi_tsendmsg(alias_ep(ep), &msg, alias_tx_flags(ep));
}

static ssize_t alias_tsend(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                           fi_addr_t dest_addr, uint64_t tag, void *context)
{
    const struct iovec iov = alias_iov(buf, len);
    (void)desc;
    return alias_tsendv(ep, &iov, NULL, 1, dest_addr, tag, context);
}

static ssize_t alias_tsendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return fi_tsendmsg(alias_ep(ep), msg, flags);
}

static ssize_t alias_tinject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr,
                             uint64_t tag)
{
    return fi_tinject(alias_ep(ep), buf, len, dest_addr, tag);
}

static ssize_t alias_tsenddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                               uint64_t data, fi_addr_t dest_addr, uint64_t tag, void *context)
{
    const struct iovec iov = alias_iov(buf, len);
    struct fi_msg_tagged msg = alias_tagged(&iov, 1, dest_addr, tag, context);
    (void)desc;
    msg.data = data;
    return fi_tsendmsg(alias_ep(ep), &msg, alias_tx_flags(ep) | FI_REMOTE_CQ_DATA);
}

static ssize_t alias_tinjectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                                 fi_addr_t dest_addr, uint64_t tag)
{
    return fi_tinjectdata(alias_ep(ep), buf, len, data, dest_addr, tag);
}

static struct fi_ops_tagged alias_tagged_ops = {.size = sizeof(struct fi_ops_tagged),
                                                .recv = alias_trecv,
                                                .recvv = alias_trecvv,
                                                .recvmsg = alias_trecvmsg,
                                                .send = alias_tsend,
                                                .sendv = alias_tsendv,
                                                .sendmsg = alias_tsendmsg,
                                                .inject = alias_tinject,
                                                .senddata = alias_tsenddata,
                                                .injectdata = alias_tinjectdata};

/* --- control --------------------------------------------------------------------------------- */

static ssize_t alias_cancel(struct fid *fid, void *context)
{
    return fi_cancel(&AQI_OF(fid, struct afi_alias, fid.fid)->ep->fid.fid, context);
}

static int alias_getopt(struct fid *fid, int level, int name, void *value, size_t *len)
{
    return fi_getopt(&AQI_OF(fid, struct afi_alias, fid.fid)->ep->fid.fid, level, name, value, len);
}

static int alias_setopt(struct fid *fid, int level, int name, const void *value, size_t len)
{
    return fi_setopt(&AQI_OF(fid, struct afi_alias, fid.fid)->ep->fid.fid, level, name, value, len);
}

static ssize_t alias_rx_size_left(struct fid_ep *ep)
{
    return alias_ep(ep)->ops->rx_size_left(alias_ep(ep));
}

static ssize_t alias_tx_size_left(struct fid_ep *ep)
{
    return alias_ep(ep)->ops->tx_size_left(alias_ep(ep));
}

static int alias_setname(struct fid *fid, void *addr, size_t addrlen)
{
    return fi_setname(&AQI_OF(fid, struct afi_alias, fid.fid)->ep->fid.fid, addr, addrlen);
}

static int alias_getname(struct fid *fid, void *addr, size_t *addrlen)
{
    return fi_getname(&AQI_OF(fid, struct afi_alias, fid.fid)->ep->fid.fid, addr, addrlen);
}

/* The default flags of the direction that `flags` names; NULL: it names none or both. */
static uint64_t *alias_flags(struct afi_alias *alias, uint64_t flags)
{
    uint64_t way = flags & (FI_TRANSMIT | FI_RECV);
    if (way == FI_TRANSMIT) return &alias->tx_flags;
    return way == FI_RECV ? &alias->rx_flags : NULL;
}

static int alias_set_flags(struct afi_alias *alias, uint64_t flags)
{
    return afi_op_flags_set(alias_flags(alias, flags), flags);
}

static int alias_control(struct fid *fid, int command, void *arg)
{
    struct afi_alias *alias = AQI_OF(fid, struct afi_alias, fid.fid);
    int err;
    if (command != FI_SETOPSFLAG && command != FI_GETOPSFLAG && command != FI_ALIAS)
        return fi_control(&alias->ep->fid.fid, command, arg);
    afi_lock();
    if (command == FI_ALIAS)
        err = afi_alias_open(alias->ep, alias->tx_flags, alias->rx_flags, arg);
    else
        err = command == FI_SETOPSFLAG
                  ? alias_set_flags(alias, *(const uint64_t *)arg)
                  : afi_op_flags_get(alias_flags(alias, *(const uint64_t *)arg), arg);
    afi_unlock();
    return err;
}

static int alias_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    return fi_ep_bind(&AQI_OF(fid, struct afi_alias, fid.fid)->ep->fid, bfid, flags);
}

static int alias_close(struct fid *fid)
{
    struct afi_alias *alias = AQI_OF(fid, struct afi_alias, fid.fid);
    afi_lock();
    alias->ep->aliases--;
    afi_unlock();
    free(alias);
    return 0;
}

struct fi_ops afi_alias_ops = {.size = sizeof(struct fi_ops),
                               .close = alias_close,
                               .bind = alias_bind,
                               .control = alias_control,
                               .ops_open = afi_no_ops_open};

int afi_alias_open(struct afi_ep *ep, uint64_t tx_flags, uint64_t rx_flags, struct fi_alias *to)
{
    struct afi_alias *alias = calloc(1, sizeof(*alias));
    if (alias == NULL) return -FI_ENOMEM;
    *alias = (struct afi_alias){.ops = *ep->fid.ops,
                                .cm = *ep->fid.cm,
                                .fid = {.fid = {.fclass = FI_CLASS_EP,
                                                .context = ep->fid.fid.context,
                                                .ops = &afi_alias_ops},
                                        .ops = &alias->ops,
                                        .cm = &alias->cm,
                                        .msg = &alias_msg_ops,
                                        .rma = &afi_rma_ops,
                                        .tagged = &alias_tagged_ops,
                                        .atomic = &afi_atomic_ops},
                                .ep = ep,
                                .tx_flags = tx_flags,
                                .rx_flags = rx_flags};
    /* All other calls fail in the same way for every endpoint. */
    alias->ops.cancel = alias_cancel;
    alias->ops.getopt = alias_getopt;
    alias->ops.setopt = alias_setopt;
    alias->ops.rx_size_left = alias_rx_size_left;
    alias->ops.tx_size_left = alias_tx_size_left;
    alias->cm.setname = alias_setname;
    alias->cm.getname = alias_getname;
    int err = alias_set_flags(alias, to->flags);
    if (err != 0) {
        free(alias);
        return err;
    }
    ep->aliases++;
    *to->fid = &alias->fid.fid;
    return 0;
}
