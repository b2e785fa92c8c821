/* fi: the calls that send and receive messages. */
#include "front/fi/wire.h"

#include <stdlib.h>
#include <string.h>

/* --- sending --------------------------------------------------------------------------------- */

struct message_send {
    const struct iovec *iov;
    size_t count;
    fi_addr_t addr;
    uint64_t tag, data, flags;
    bool tagged, silent; /* silent: never report a completion */
    void *context;
};

#define MESSAGE_SPECIAL                                                                            \
    (FI_FENCE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | AFI_NO_FLAGS)

static uint64_t message_cq_flags(const struct message_send *send)
{
    return FI_SEND | (send->tagged ? FI_TAGGED : FI_MSG);
}

static bool message_has_data(const struct message_send *send)
{
    return (send->flags & FI_REMOTE_CQ_DATA) != 0;
}

static bool message_fits(const struct message_send *send, size_t len)
{
    return len <= ((send->flags & FI_INJECT) != 0 ? AFI_INJECT : AFI_MAX_MESSAGE);
}

/* A message that arrives before a receive is delivered to the provider of the peer: to wait for the
 * program would be FI_MATCH_COMPLETE, except for long messages, which are fetched. */
static uint8_t message_ack(uint64_t flags)
{
    if ((flags & FI_MATCH_COMPLETE) != 0) return AFI_ACK_DELIVERED;
    return (flags & (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)) != 0 ? AFI_ACK_ARRIVED : 0;
}

static int message_fill(const struct message_send *send, struct afi_op *op)
{
    op->type = AFI_SEND;
    op->cq_flags = message_cq_flags(send);
    op->injected = (send->flags & FI_INJECT) != 0;
    op->tagged = send->tagged;
    op->has_data = message_has_data(send);
    op->ack = message_ack(send->flags);
    op->tag = send->tag;
    op->data = send->data;
    op->count = (unsigned)send->count;
    op->len = afi_iov_len(send->iov, send->count);
    memcpy(op->iov, send->iov, send->count * sizeof(*send->iov));
    if ((send->flags & AFI_NO_FLAGS) != 0) return -FI_EBADFLAGS;
    return message_fits(send, op->len) ? 0 : -FI_EMSGSIZE;
}

static uint8_t message_wire_flags(const struct message_send *send)
{
    return afi_wire_flags(send->tagged, message_has_data(send));
}

/* Complete a message that has been sent and needs no operation. */
static AQI_INLINE void message_left(struct afi_ep *ep, const struct message_send *send)
{
    afi_count(ep->cntr[AFI_COUNT_SEND], true);
    if (ep->tx_cq == NULL || !afi_tx_reports(ep, send->flags, send->silent)) return;
    const struct fi_cq_tagged_entry entry = {.op_context = send->context,
                                             .flags = message_cq_flags(send)};
    afi_cq_write(ep->tx_cq, &entry, FI_ADDR_NOTAVAIL);
}

/* Send a message immediately, without an operation, as is possible for most. */
static bool message_sent(struct afi_ep *ep, struct afi_peer *peer, const struct message_send *send)
{
    if ((send->flags & MESSAGE_SPECIAL) != 0 || !afi_wire_may_send(peer)) return false;
    size_t len = afi_iov_len(send->iov, send->count);
    uint8_t flags = message_wire_flags(send);
    if (!message_fits(send, len)) return false;
    if (!(send->count == 1 && len <= AFI_BRIEF_MAX &&
          afi_wire_send_brief(peer, flags, send->tag, send->data, send->iov->iov_base, len)) &&
        !afi_wire_send(peer, flags, send->tag, send->data, send->iov, (unsigned)send->count, len))
        return false;
    message_left(ep, send);
    return true;
}

static ssize_t message_start(struct afi_ep *ep, const struct message_send *send)
{
    struct afi_peer *peer = afi_peer_of(ep, send->addr);
    if (AQI_UNLIKELY(!ep->enabled)) return -FI_EOPBADSTATE;
    if (AQI_UNLIKELY(peer == NULL || send->count > AFI_IOVS)) return -FI_EINVAL;
    bool full = afi_tx_is_full(ep, send->flags, send->silent);
    if (AQI_LIKELY(!full && message_sent(ep, peer, send))) return 0;
    struct afi_op *op = afi_op_new(peer, send->flags, send->silent, send->context);
    return op != NULL ? afi_op_start(op, message_fill(send, op)) : -FI_EAGAIN;
}

static ssize_t message_send(struct fid_ep *fid, const struct message_send *send)
{
    struct afi_ep *ep = afi_ep_of(fid);
    if (ep == NULL) return -FI_ENOSYS;
    afi_lock();
    ssize_t err = message_start(ep, send);
    afi_unlock();
    return err;
}

/*
 * The same for one piece of memory. Short messages to a peer with an empty queue take the fast
 * path, which determines the latency of most programs: all calls are inlined, and `send` stays in
 * registers.
 */
static AQI_INLINE ssize_t message_send_one(struct fid_ep *fid, const void *buf, size_t len,
                                           struct message_send send)
{
    struct afi_ep *ep = afi_ep_of(fid);
    if (AQI_LIKELY(len <= AFI_BRIEF_MAX && (send.flags & MESSAGE_SPECIAL) == 0 && ep != NULL)) {
        afi_lock();
        struct afi_peer *peer = afi_peer_known(ep, send.addr);
        bool sent =
            AQI_LIKELY(peer != NULL && afi_wire_may_send(peer)) &&
            !afi_tx_is_full(ep, send.flags, send.silent) &&
            afi_wire_send_brief(peer, message_wire_flags(&send), send.tag, send.data, buf, len);
        if (AQI_LIKELY(sent)) message_left(ep, &send);
        afi_unlock();
        if (AQI_LIKELY(sent)) return 0;
    }
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct message_send rest = send;
    rest.iov = &iov;
    rest.count = 1;
    return message_send(fid, &rest);
}

/* --- receiving ------------------------------------------------------------------------------- */

static ssize_t message_receive_at(struct fid_ep *fid, struct afi_receive_request *request,
                                  fi_addr_t addr)
{
    struct afi_rxq *rxq;
    struct afi_av *av;
    bool selective;
    if (fid->fid.fclass == FI_CLASS_SRX_CTX) {
        struct afi_srx *srx = AQI_OF(fid, struct afi_srx, fid);
        rxq = &srx->rxq;
        av = afi_srx_av(srx);
        request->cq = afi_srx_cq(srx);
        selective = afi_srx_is_selective(srx);
        if (!srx->directed) addr = FI_ADDR_UNSPEC;
    } else {
        struct afi_ep *ep = afi_ep_of(fid);
        if (!ep->enabled || ep->srx != NULL) return -FI_EOPBADSTATE;
        rxq = ep->rxq;
        av = ep->av;
        request->cq = ep->rx_cq;
        selective = ep->rx_selective;
        if ((ep->caps & FI_DIRECTED_RECV) == 0) addr = FI_ADDR_UNSPEC;
    }
    request->report = !selective || (request->flags & FI_COMPLETION) != 0;
    if (request->report && afi_cq_is_full(request->cq)) return -FI_EAGAIN;
    if (addr != FI_ADDR_UNSPEC) {
        request->source = afi_av_ident(av, addr);
        if (request->source == NULL) return -FI_EINVAL;
    }
    return afi_receive_post(rxq, request);
}

static ssize_t message_receive(struct fid_ep *fid, struct afi_receive_request *request,
                               fi_addr_t addr)
{
    if (request->count > AFI_IOVS) return -FI_EINVAL;
    if ((request->flags & AFI_NO_FLAGS) != 0) return -FI_EBADFLAGS;
    afi_lock();
    ssize_t err = message_receive_at(fid, request, addr);
    afi_unlock();
    return err;
}

static uint64_t message_rx_flags(struct fid_ep *fid)
{
    return afi_is_ep(fid) ? afi_flags_of(fid)->rx
                          : AQI_OF(fid, const struct afi_srx, fid)->rx_flags;
}

/* --- messages -------------------------------------------------------------------------------- */

#define MESSAGE_IOV(buf, len)                                                                      \
    (&(struct iovec){.iov_base = (void *)(uintptr_t)(buf), .iov_len = len})

static ssize_t message_msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc,
                                 size_t count, fi_addr_t src_addr, void *context)
{
    struct afi_receive_request request = {
        .iov = iov, .count = count, .flags = message_rx_flags(ep), .context = context};
    return message_receive(ep, &request, src_addr);
}

static ssize_t message_msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc,
                                fi_addr_t src_addr, void *context)
{
    return message_msg_recvv(ep, MESSAGE_IOV(buf, len), NULL, 1, src_addr, context);
}

static ssize_t message_msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    struct afi_receive_request request = {
        .iov = msg->msg_iov, .count = msg->iov_count, .flags = flags, .context = msg->context};
    return message_receive(ep, &request, msg->addr);
}

static ssize_t message_msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc,
                                 size_t count, fi_addr_t dest_addr, void *context)
{
    return message_send(ep, &(struct message_send){.iov = iov,
                                                   .count = count,
                                                   .addr = dest_addr,
                                                   .flags = afi_tx_flags_of(ep),
                                                   .context = context});
}

static ssize_t message_msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                                fi_addr_t dest_addr, void *context)
{
    return message_send_one(
        ep, buf, len,
        (struct message_send){.addr = dest_addr, .flags = afi_tx_flags_of(ep), .context = context});
}

static ssize_t message_msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    return message_send(ep, &(struct message_send){.iov = msg->msg_iov,
                                                   .count = msg->iov_count,
                                                   .addr = msg->addr,
                                                   .data = msg->data,
                                                   .flags = flags,
                                                   .context = msg->context});
}

static ssize_t message_msg_inject(struct fid_ep *ep, const void *buf, size_t len,
                                  fi_addr_t dest_addr)
{
    return message_send_one(
        ep, buf, len, (struct message_send){.addr = dest_addr, .flags = FI_INJECT, .silent = true});
}

static ssize_t message_msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                                    uint64_t data, fi_addr_t dest_addr, void *context)
{
    return message_send_one(ep, buf, len,
                            (struct message_send){.addr = dest_addr,
                                                  .data = data,
                                                  .flags = afi_tx_flags_of(ep) | FI_REMOTE_CQ_DATA,
                                                  .context = context});
}

static ssize_t message_msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                                      fi_addr_t dest_addr)
{
    return message_send_one(ep, buf, len,
                            (struct message_send){.addr = dest_addr,
                                                  .data = data,
                                                  .flags = FI_INJECT | FI_REMOTE_CQ_DATA,
                                                  .silent = true});
}

struct fi_ops_msg afi_msg_ops = {.size = sizeof(struct fi_ops_msg),
                                 .recv = message_msg_recv,
                                 .recvv = message_msg_recvv,
                                 .recvmsg = message_msg_recvmsg,
                                 .send = message_msg_send,
                                 .sendv = message_msg_sendv,
                                 .sendmsg = message_msg_sendmsg,
                                 .inject = message_msg_inject,
                                 .senddata = message_msg_senddata,
                                 .injectdata = message_msg_injectdata};

/* --- tagged messages ------------------------------------------------------------------------- */

static ssize_t message_tagged_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc,
                                    size_t count, fi_addr_t src_addr, uint64_t tag, uint64_t ignore,
                                    void *context)
{
    struct afi_receive_request request = {.iov = iov,
                                          .count = count,
                                          .tag = tag,
                                          .ignore = ignore,
                                          .flags = message_rx_flags(ep) & ~FI_MULTI_RECV,
                                          .tagged = true,
                                          .context = context};
    return message_receive(ep, &request, src_addr);
}

static ssize_t message_tagged_recv(struct fid_ep *ep, void *buf, size_t len, void *desc,
                                   fi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context)
{
    return message_tagged_recvv(ep, MESSAGE_IOV(buf, len), NULL, 1, src_addr, tag, ignore, context);
}

static ssize_t message_tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg,
                                      uint64_t flags)
{
    struct afi_receive_request request = {.iov = msg->msg_iov,
                                          .count = msg->iov_count,
                                          .tag = msg->tag,
                                          .ignore = msg->ignore,
                                          .flags = flags & ~FI_MULTI_RECV,
                                          .tagged = true,
                                          .context = msg->context};
    return message_receive(ep, &request, msg->addr);
}

static ssize_t message_tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc,
                                    size_t count, fi_addr_t dest_addr, uint64_t tag, void *context)
{
    return message_send(ep, &(struct message_send){.iov = iov,
                                                   .count = count,
                                                   .addr = dest_addr,
                                                   .tag = tag,
                                                   .flags = afi_tx_flags_of(ep),
                                                   .tagged = true,
                                                   .context = context});
}

static ssize_t message_tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                                   fi_addr_t dest_addr, uint64_t tag, void *context)
{
    return message_send_one(ep, buf, len,
                            (struct message_send){.addr = dest_addr,
                                                  .tag = tag,
                                                  .flags = afi_tx_flags_of(ep),
                                                  .tagged = true,
                                                  .context = context});
}

static ssize_t message_tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg,
                                      uint64_t flags)
{
    return message_send(ep, &(struct message_send){.iov = msg->msg_iov,
                                                   .count = msg->iov_count,
                                                   .addr = msg->addr,
                                                   .tag = msg->tag,
                                                   .data = msg->data,
                                                   .flags = flags,
                                                   .tagged = true,
                                                   .context = msg->context});
}

static ssize_t message_tagged_inject(struct fid_ep *ep, const void *buf, size_t len,
                                     fi_addr_t dest_addr, uint64_t tag)
{
    return message_send_one(
        ep, buf, len,
        (struct message_send){
            .addr = dest_addr, .tag = tag, .tagged = true, .flags = FI_INJECT, .silent = true});
}

static ssize_t message_tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                                       uint64_t data, fi_addr_t dest_addr, uint64_t tag,
                                       void *context)
{
    return message_send_one(ep, buf, len,
                            (struct message_send){.addr = dest_addr,
                                                  .tag = tag,
                                                  .data = data,
                                                  .flags = afi_tx_flags_of(ep) | FI_REMOTE_CQ_DATA,
                                                  .tagged = true,
                                                  .context = context});
}

static ssize_t message_tagged_injectdata(struct fid_ep *ep, const void *buf, size_t len,
                                         uint64_t data, fi_addr_t dest_addr, uint64_t tag)
{
    return message_send_one(ep, buf, len,
                            (struct message_send){.addr = dest_addr,
                                                  .tag = tag,
                                                  .data = data,
                                                  .tagged = true,
                                                  .flags = FI_INJECT | FI_REMOTE_CQ_DATA,
                                                  .silent = true});
}

struct fi_ops_tagged afi_tagged_ops = {.size = sizeof(struct fi_ops_tagged),
                                       .recv = message_tagged_recv,
                                       .recvv = message_tagged_recvv,
                                       .recvmsg = message_tagged_recvmsg,
                                       .send = message_tagged_send,
                                       .sendv = message_tagged_sendv,
                                       .sendmsg = message_tagged_sendmsg,
                                       .inject = message_tagged_inject,
                                       .senddata = message_tagged_senddata,
                                       .injectdata = message_tagged_injectdata};
