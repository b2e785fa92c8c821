/* fi: remote writes and reads: the calls, and requests of peers. */
#include "front/fi/wire.h"

#include <string.h>

/* --- the calls ------------------------------------------------------------------------------- */

struct rma_call {
    const struct iovec *iov;
    size_t count;
    const struct fi_rma_iov *there;
    size_t there_count;
    fi_addr_t addr;
    uint64_t data, flags;
    bool silent;
    void *context;
};

static int rma_fill(const struct rma_call *call, enum afi_type type, struct afi_op *op)
{
    size_t len = 0;
    for (size_t i = 0; i < call->there_count; i++)
        len += call->there[i].len;
    op->type = type;
    op->cq_flags = FI_RMA | (type == AFI_READ ? FI_READ : FI_WRITE);
    op->injected = type == AFI_WRITE && (call->flags & FI_INJECT) != 0;
    op->has_data = type == AFI_WRITE && (call->flags & FI_REMOTE_CQ_DATA) != 0;
    op->data = call->data;
    op->count = (unsigned)call->count;
    op->len = afi_iov_len(call->iov, call->count);
    op->there_count = (unsigned)call->there_count;
    memcpy(op->iov, call->iov, call->count * sizeof(*call->iov));
    memcpy(op->there, call->there, call->there_count * sizeof(*call->there));
    if (op->len != len) return -FI_EINVAL;
    if ((call->flags & AFI_NO_FLAGS) != 0) return -FI_EBADFLAGS;
    return len > (op->injected ? AFI_INJECT : AFI_MAX_MESSAGE) ? -FI_EMSGSIZE : 0;
}

static ssize_t rma_start(struct afi_ep *ep, const struct rma_call *call, enum afi_type type)
{
    struct afi_peer *peer = afi_peer_of(ep, call->addr);
    if (!ep->enabled) return -FI_EOPBADSTATE;
    if (peer == NULL || call->count > AFI_IOVS || call->there_count > AFI_IOVS) return -FI_EINVAL;
    struct afi_op *op = afi_op_new(peer, call->flags, call->silent, call->context);
    return op != NULL ? afi_op_start(op, rma_fill(call, type, op)) : -FI_EAGAIN;
}

static ssize_t rma_call(struct fid_ep *fid, const struct rma_call *call, enum afi_type type)
{
    if (!afi_is_ep(fid)) return -FI_ENOSYS;
    afi_lock();
    ssize_t err = rma_start(afi_ep_of(fid), call, type);
    afi_unlock();
    return err;
}

static ssize_t rma_vector(struct fid_ep *ep, const struct iovec *iov, size_t count,
                          fi_addr_t peer_addr, uint64_t addr, uint64_t key, void *context,
                          enum afi_type type)
{
    const struct fi_rma_iov there = {.addr = addr, .len = afi_iov_len(iov, count), .key = key};
    return rma_call(ep,
                    &(struct rma_call){.iov = iov,
                                       .count = count,
                                       .there = &there,
                                       .there_count = 1,
                                       .addr = peer_addr,
                                       .flags = afi_tx_flags_of(ep),
                                       .context = context},
                    type);
}

static ssize_t rma_msg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags,
                       enum afi_type type)
{
    return rma_call(ep,
                    &(struct rma_call){.iov = msg->msg_iov,
                                       .count = msg->iov_count,
                                       .there = msg->rma_iov,
                                       .there_count = msg->rma_iov_count,
                                       .addr = msg->addr,
                                       .data = msg->data,
                                       .flags = flags,
                                       .context = msg->context},
                    type);
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
    return rma_vector(ep, iov, count, src_addr, addr, key, context, AFI_READ);
}

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
                        uint64_t addr, uint64_t key, void *context)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    return rma_vector(ep, &iov, 1, src_addr, addr, key, context, AFI_READ);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return rma_msg(ep, msg, flags, AFI_READ);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
    return rma_vector(ep, iov, count, dest_addr, addr, key, context, AFI_WRITE);
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                         fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    return rma_vector(ep, &iov, 1, dest_addr, addr, key, context, AFI_WRITE);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return rma_msg(ep, msg, flags, AFI_WRITE);
}

/* Write one piece, with data or silently. */
static ssize_t rma_write_one(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                             fi_addr_t dest_addr, uint64_t addr, uint64_t key, uint64_t flags,
                             bool silent, void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    const struct fi_rma_iov there = {.addr = addr, .len = len, .key = key};
    return rma_call(ep,
                    &(struct rma_call){.iov = &iov,
                                       .count = 1,
                                       .there = &there,
                                       .there_count = 1,
                                       .addr = dest_addr,
                                       .data = data,
                                       .flags = flags,
                                       .silent = silent,
                                       .context = context},
                    AFI_WRITE);
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr,
                          uint64_t addr, uint64_t key)
{
    return rma_write_one(ep, buf, len, 0, dest_addr, addr, key, FI_INJECT, true, NULL);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                             uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                             void *context)
{
    return rma_write_one(ep, buf, len, data, dest_addr, addr, key,
                         afi_tx_flags_of(ep) | FI_REMOTE_CQ_DATA, false, context);
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
    return rma_write_one(ep, buf, len, data, dest_addr, addr, key, FI_INJECT | FI_REMOTE_CQ_DATA,
                         true, NULL);
}

struct fi_ops_rma afi_rma_ops = {.size = sizeof(struct fi_ops_rma),
                                 .read = rma_read,
                                 .readv = rma_readv,
                                 .readmsg = rma_readmsg,
                                 .write = rma_write,
                                 .writev = rma_writev,
                                 .writemsg = rma_writemsg,
                                 .inject = rma_inject,
                                 .writedata = rma_writedata,
                                 .injectdata = rma_injectdata};

/* --- requests of peers ----------------------------------------------------------------------- */

struct rma_target {
    struct iovec iov[AFI_IOVS];
    struct afi_mr *mrs[AFI_IOVS]; /* the first one is NULL if there is no place */
    unsigned count;
    size_t len;
    int err;
};

/* Find the memory of the places that follow a head. Returns false if malformed. */
static bool rma_find(struct afi_peer *peer, const struct afi_wire *head, uint64_t access,
                     const unsigned char **bytes, size_t *len, struct rma_target *target)
{
    struct afi_place places[AFI_IOVS];
    size_t size = head->count * sizeof(places[0]);
    if (head->count > AFI_IOVS || size > *len) return false;
    memcpy(places, *bytes, size);
    *bytes += size;
    *len -= size;
    target->count = head->count;
    target->len = 0;
    target->err = 0;
    target->mrs[0] = NULL;
    for (unsigned i = 0; i < head->count; i++) {
        unsigned char *at = NULL;
        struct afi_mr *mr = afi_mr_find(peer->ep->domain, places[i].key, places[i].addr,
                                        places[i].len, access, &at);
        if (mr == NULL) target->err = FI_EACCES;
        target->mrs[i] = mr;
        target->iov[i] = (struct iovec){.iov_base = at, .iov_len = places[i].len};
        if (places[i].len > SIZE_MAX - target->len) return false;
        target->len += places[i].len;
    }
    return target->len == head->len;
}

static void rma_count(struct afi_peer *peer, const struct afi_mr *mr, enum afi_counts which)
{
    uint64_t kind = which == AFI_COUNT_REMOTE_READ ? FI_REMOTE_READ : FI_REMOTE_WRITE;
    afi_count(peer->ep->cntr[which], true);
    if (mr != NULL && (mr->counted & kind) != 0) afi_count(mr->cntr, true);
}

static void rma_written(struct afi_peer *peer, uint8_t flags, uint64_t data, size_t len,
                        const struct afi_mr *mr)
{
    struct afi_cq *cq = afi_rx_cq(peer->ep);
    rma_count(peer, mr, AFI_COUNT_REMOTE_WRITE);
    if ((flags & AFI_DATA_FLAG) == 0 || cq == NULL) return;
    const struct fi_cq_tagged_entry entry = {
        .flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, .len = len, .data = data};
    afi_cq_write(cq, &entry, afi_av_addr_of(peer->ep->av, peer->ident));
}

static void rma_put_fetched(struct afi_fetch *fetch)
{
    int err = fetch->status == AQ_OK ? 0 : fetch->status == AQ_EACCESS ? FI_EACCES : FI_EIO;
    if (err == 0) rma_written(fetch->peer, fetch->flags, fetch->data, fetch->total, fetch->mrs[0]);
    afi_wire_answer(fetch->peer, fetch->epoch, fetch->remote_op, err);
}

static bool rma_put_remote(struct afi_peer *peer, const struct afi_wire *head,
                           const unsigned char *bytes, size_t len, const struct rma_target *target)
{
    if (target->count == 0 || !afi_wire_has_pieces(head, bytes, len)) return false;
    struct afi_fetch *fetch = afi_fetch_new(peer, bytes, len);
    if (fetch == NULL) {
        afi_wire_answer(peer, peer->epoch, head->op, FI_ENOMEM);
        return true;
    }
    memcpy(fetch->to, target->iov, target->count * sizeof(struct iovec));
    fetch->to_count = target->count;
    fetch->len = fetch->total = target->len;
    fetch->flags = head->flags;
    fetch->data = head->data;
    memcpy(fetch->mrs, target->mrs, target->count * sizeof(target->mrs[0]));
    fetch->remote_op = head->op;
    fetch->done = rma_put_fetched;
    afi_fetch_begin(fetch);
    return true;
}

bool afi_target_put(struct afi_peer *peer, const struct afi_wire *head, const unsigned char *bytes,
                    size_t len)
{
    struct rma_target target;
    if (!rma_find(peer, head, FI_REMOTE_WRITE, &bytes, &len, &target)) return false;
    if (target.err != 0) {
        afi_wire_answer(peer, peer->epoch, head->op, target.err);
        return true;
    }
    if ((head->flags & AFI_REMOTE) != 0) return rma_put_remote(peer, head, bytes, len, &target);
    if (len != target.len) return false;
    afi_iov_scatter(target.iov, target.count, 0, bytes, len);
    rma_written(peer, head->flags, head->data, len, target.mrs[0]);
    afi_wire_answer(peer, peer->epoch, head->op, 0);
    return true;
}

bool afi_target_get(struct afi_peer *peer, const struct afi_wire *head, const unsigned char *bytes,
                    size_t len)
{
    struct rma_target target;
    struct afi_wire answer = {.kind = AFI_BYTES, .op = head->op};
    struct afi_piece pieces[AFI_IOVS];
    if (!rma_find(peer, head, FI_REMOTE_READ, &bytes, &len, &target) || len != 0) return false;
    if (target.err != 0) {
        afi_wire_answer(peer, peer->epoch, head->op, target.err);
        return true;
    }
    rma_count(peer, target.mrs[0], AFI_COUNT_REMOTE_READ);
    if (target.len + sizeof(answer) <= peer->eager) {
        afi_wire_note(peer, &answer, target.iov, target.count);
        return true;
    }
    answer.kind = AFI_GRANT;
    answer.pieces = (uint8_t)afi_iov_pieces(target.iov, target.count, pieces);
    answer.len = target.len;
    const struct iovec list = {.iov_base = pieces, .iov_len = answer.pieces * sizeof(pieces[0])};
    afi_wire_note(peer, &answer, &list, 1);
    return true;
}

/* Handle an atomic operation. Its data are the operands, one per element, and then the
 * comparands. */
bool afi_target_atomic(struct afi_peer *peer, const struct afi_wire *head,
                       const unsigned char *bytes, size_t len)
{
    unsigned datatype = (unsigned)head->tag & 0xff, op = (unsigned)(head->tag >> 8) & 0xff;
    bool fetches = (head->tag >> 16 & 1) != 0, compares = op >= FI_CSWAP;
    size_t size = afi_atomic_size(datatype), at = 0;
    uint64_t access = op == FI_ATOMIC_READ ? FI_REMOTE_READ : FI_REMOTE_WRITE;
    unsigned char old[AFI_ATOMIC];
    struct rma_target target;
    struct afi_wire answer = {.kind = AFI_BYTES, .op = head->op};
    if (fetches) access |= FI_REMOTE_READ;
    if (!rma_find(peer, head, access, &bytes, &len, &target) || !afi_atomic_valid(datatype, op) ||
        target.len > AFI_ATOMIC || target.len % size != 0)
        return false;
    size_t operands = op == FI_ATOMIC_READ ? 0 : target.len;
    if (len != operands + (compares ? target.len : 0)) return false;
    if (target.err != 0) {
        afi_wire_answer(peer, peer->epoch, head->op, target.err);
        return true;
    }
    for (unsigned i = 0; i < target.count; i++) {
        size_t part = target.iov[i].iov_len;
        if (part % size != 0) return false;
        afi_atomic_apply(datatype, op, target.iov[i].iov_base, bytes + at,
                         compares ? bytes + operands + at : NULL, old + at, part / size);
        at += part;
    }
    rma_count(peer, target.mrs[0], fetches ? AFI_COUNT_REMOTE_READ : AFI_COUNT_REMOTE_WRITE);
    const struct iovec result = {.iov_base = old, .iov_len = target.len};
    if (fetches)
        afi_wire_note(peer, &answer, &result, 1);
    else
        afi_wire_answer(peer, peer->epoch, head->op, 0);
    return true;
}
