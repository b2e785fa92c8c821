/* ofi: puts and gets by remote writes and reads. */
#include "transport/ofi/ofi_impl.h"

#include "base/fail.h"
#include "base/stats.h"

#include <string.h>

enum { OFI_CANCELLED = 3 /* attempts canceled before a piece counts as rejected */ };

/* --- operations ------------------------------------------------------------------------------ */

/* The provider no longer has the piece. */
static void ofi_transfer_piece_end(struct ofi_tp *ofi, struct ofi_piece *piece, aq_status status)
{
    aqi_rdma_piece_done(&ofi->rdma, &piece->rdma, status);
    aqi_pool_put(&ofi->pieces, piece);
}

void ofi_transfer_piece_done(struct ofi_tp *ofi, struct ofi_piece *piece, aq_status status)
{
    ofi->out--;
    ofi_transfer_piece_end(ofi, piece, status);
}

void ofi_transfer_piece_refused(struct ofi_tp *ofi, struct ofi_piece *piece)
{
    struct ofi_op *op = ofi_piece_op(piece);
    bool again = false;
    if (op->op.loan != NULL && !op->op.ended && !op->op.peer->down)
        again = aqi_lending_refused(&ofi->rdma, &op->op, piece->rdma.offset, piece->rdma.len);
    ofi_transfer_piece_done(ofi, piece, again ? AQ_OK : AQ_ERANGE);
}

/*
 * Providers over connections report the same error whether the peer has died or rejects the access.
 * A peer that rejects it does so again over a new connection; one that has died is reported by the
 * job.
 */
void ofi_transfer_piece_cancelled(struct ofi_tp *ofi, struct ofi_piece *piece, bool reached)
{
    if (reached) piece->cancelled++;
    if (piece->rdma.op->peer->down || piece->cancelled == OFI_CANCELLED) {
        ofi_transfer_piece_refused(ofi, piece);
        return;
    }
    ofi->out--;
    piece->next_again = ofi->again;
    ofi->again = piece;
}

bool ofi_transfer_is_posted(const struct ofi_peer *peer)
{
    for (const struct aqi_transfer *op = peer->rdma.ops; op != NULL; op = op->next_op)
        if (op->posted != op->done) return true;
    return false;
}

void ofi_transfer_fail(struct ofi_tp *ofi, struct ofi_peer *peer, bool now)
{
    for (struct ofi_piece **at = &ofi->again; *at != NULL;) {
        struct ofi_piece *piece = *at;
        if (ofi_op_peer(ofi_piece_op(piece)) == peer) {
            *at = piece->next_again;
            ofi_transfer_piece_end(ofi, piece, AQ_EPEER);
        } else {
            at = &piece->next_again;
        }
    }
    aqi_rdma_fail_transfers(&ofi->rdma, &peer->rdma, now);
}

/* --- posting --------------------------------------------------------------------------------- */

/*
 * A completion must mean that the data is visible to the peer's processor: providers guarantee this
 * only on request.
 */
ssize_t ofi_transfer_give(struct ofi_tp *ofi, const struct ofi_op *op, struct ofi_piece *piece)
{
    void *desc = piece->rdma.buf != NULL   ? ofi_mr_desc(piece->rdma.buf->chunk->mr[0])
                 : piece->rdma.pin != NULL ? fi_mr_desc(aqi_pins_mr(piece->rdma.pin, 0))
                                           : op->desc;
    struct iovec part = {.iov_base = piece->rdma.buf != NULL
                                         ? (void *)piece->rdma.buf->bytes
                                         : (void *)(op->op.local + piece->rdma.offset),
                         .iov_len = piece->rdma.len};
    struct fi_rma_iov there = {.addr = op->op.remote + op->shift + piece->rdma.offset,
                               .len = piece->rdma.len,
                               .key = op->key};
    struct fi_msg_rma msg = {.msg_iov = &part,
                             .desc = &desc,
                             .iov_count = 1,
                             .addr = ofi_op_peer(op)->addr,
                             .rma_iov = &there,
                             .rma_iov_count = 1,
                             .context = &piece->ctx};
    if (op->op.get) return fi_readmsg(ofi->ep, &msg, FI_COMPLETION);
    uint64_t more = op->inject ? FI_INJECT : 0;
    if (op->op.is_long) {
        msg.data = op->data;
        more |= FI_REMOTE_CQ_DATA;
    }
    return fi_writemsg(ofi->ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE | more);
}

static void ofi_transfer_drop_piece(struct ofi_tp *ofi, struct ofi_piece *piece)
{
    aqi_rdma_piece_drop(&ofi->rdma, &piece->rdma);
    aqi_pool_put(&ofi->pieces, piece);
}

/* Prepare the next piece of it, not yet counted in `posted`. NULL: no memory or buffer now. */
static struct ofi_piece *ofi_transfer_piece(struct ofi_tp *ofi, struct ofi_op *op)
{
    struct ofi_piece *piece = aqi_pool_get(&ofi->pieces);
    if (piece == NULL) return NULL;
    size_t most = aqi_min(ofi_config.piece, ofi->info->ep_attr->max_msg_size);
    *piece = (struct ofi_piece){.ctx.kind = OFI_PIECE};
    most = aqi_min(most, op->op.len - op->op.posted);
    if (aqi_rdma_piece_begin(&ofi->rdma, &op->op, most, &piece->rdma)) return piece;
    aqi_pool_put(&ofi->pieces, piece);
    return NULL;
}

static void ofi_transfer_count(const struct ofi_piece *piece)
{
    aqi_count(AQI_CTR_POSTS, 1);
    aqi_count(AQI_CTR_POSTS_SIGNALED, 1);
    if (ofi_piece_op(piece)->inject) aqi_count(AQI_CTR_POSTS_INJECTED, 1);
    if (piece->rdma.buf != NULL) aqi_count(AQI_CTR_POSTS_BOUNCED, 1);
}

/* A rejected piece is dropped. */
static aq_status ofi_transfer_post_piece(struct ofi_tp *ofi, struct ofi_op *op,
                                         struct ofi_piece *piece)
{
    ssize_t err = ofi_transfer_give(ofi, op, piece);
    if (err != 0) {
        ofi_transfer_drop_piece(ofi, piece);
        return ofi_peer_rejected(ofi, ofi_op_peer(op), err, "a remote write or read");
    }
    ofi_transfer_count(piece);
    op->op.posted += piece->rdma.len;
    op->op.exposed = op->op.exposed || (piece->rdma.buf == NULL && !op->inject &&
                                        op->op.source == NULL && op->op.local != op->op.copy);
    ofi_op_peer(op)->refused = 0;
    ofi->out++;
    return AQ_OK;
}

aq_status ofi_transfer_post(struct aqi_rdma *rdma, struct aqi_transfer *want)
{
    struct ofi_tp *ofi = (struct ofi_tp *)rdma;
    struct ofi_op *op = (struct ofi_op *)want;
    if (ofi->out >= ofi->room) return AQ_AGAIN;
    struct ofi_piece *piece = ofi_transfer_piece(ofi, op);
    return piece != NULL ? ofi_transfer_post_piece(ofi, op, piece) : AQ_AGAIN;
}

/* Pieces that the provider rejects now stay; if the peer is lost meanwhile, all of its pieces
 * end. */
void ofi_transfer_push_again(struct ofi_tp *ofi)
{
    struct ofi_piece *list = ofi->again;
    struct ofi_peer *hard = NULL;
    ssize_t hard_err = 0;
    ofi->again = NULL;
    while (list != NULL) {
        struct ofi_piece *piece = list;
        struct ofi_peer *peer = ofi_op_peer(ofi_piece_op(piece));
        list = piece->next_again;
        if (ofi_long_has_arrived(ofi_piece_op(piece))) {
            ofi_transfer_piece_end(ofi, piece, AQ_OK);
            continue;
        }
        /* A query will show whether it has arrived. */
        bool doubtful = piece->rdma.op->is_long && (peer->failed || peer->broken != 0);
        bool room = ofi->out < ofi->room && !doubtful;
        ssize_t err = room ? ofi_transfer_give(ofi, ofi_piece_op(piece), piece) : -FI_EAGAIN;
        if (err == 0) {
            ofi_transfer_count(piece);
            ofi->out++;
            peer->refused = 0;
            continue;
        }
        piece->next_again = ofi->again;
        ofi->again = piece;
        if (room && ofi_peer_is_full(err)) {
            (void)ofi_peer_refused(ofi, peer);
        } else if (room) {
            hard = peer;
            hard_err = err;
        }
    }
    if (hard != NULL) (void)ofi_peer_rejected(ofi, hard, hard_err, "a remote write or read");
}

/*
 * If the provider needs local memory to be registered, memory that is neither registered nor
 * injected is copied or pinned. The source of an injected put stays in use, as the put may be
 * canceled and posted again.
 */
void ofi_transfer_reach(struct aqi_rdma *rdma, struct aqi_transfer *want,
                        const struct aqi_rdma_rmem *there, const struct aqi_mem *mem)
{
    struct ofi_tp *ofi = (struct ofi_tp *)rdma;
    struct ofi_op *op = (struct ofi_op *)want;
    const struct ofi_rmem *rmem = (const struct ofi_rmem *)there;
    const struct aqi_rdma_mem *here = (const struct aqi_rdma_mem *)mem;
    bool known = here != NULL && here->parts != 0;
    op->key = rmem->key;
    op->shift = rmem->base - there->rmem.addr;
    op->inject = !want->get && want->len <= ofi->put_inject;
    if (AQI_UNLIKELY(ofi_op_peer(op)->ask_at == 0)) ofi->look_at = 0;
    if (op->inject || !ofi_wants(ofi, FI_MR_LOCAL)) {
        (void)aqi_rdma_copied(want);
        return;
    }
    aqi_rdma_local(rdma, want, known, want->get ? ofi_config.get_bounce : ofi_config.put_bounce);
    if (known && want->by == AQI_BY_KNOWN) op->desc = fi_mr_desc(here->mr[0][0]);
}

aq_status ofi_transfer_write_reported(struct ofi_tp *ofi, const struct ofi_op *want,
                                      const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem)
{
    struct ofi_op *op = aqi_pool_get(&ofi->rdma.ops);
    aq_status st = AQ_AGAIN;
    if (op == NULL) return aqi_fail(AQ_ENOMEM, "ofi", "no memory for a transfer");
    *op = *want;
    if (op->op.comp == NULL) {
        if (!aqi_rdma_copy(&ofi->rdma, &op->op)) goto no_copy;
        mem = NULL;
    }
    ofi_transfer_reach(&ofi->rdma, &op->op, rmem, mem);
    struct ofi_piece *piece = ofi_transfer_piece(ofi, op);
    if (piece == NULL) goto no_piece;
    st = piece->rdma.len == op->op.len ? ofi_transfer_post_piece(ofi, op, piece) : AQ_ENOTSUP;
    if (st == AQ_ENOTSUP) ofi_transfer_drop_piece(ofi, piece);
    if (st != AQ_OK) goto no_piece;
    aqi_rdma_link(&op->op);
    return AQ_OK;
no_piece:
    aqi_rdma_drop_copy(&ofi->rdma, &op->op);
no_copy:
    aqi_pool_put(&ofi->rdma.ops, op);
    return st;
}
