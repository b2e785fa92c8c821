/* ibv: puts and gets by remote writes and reads. */
#include "transport/ibv/hca_impl.h"

#include "base/copy.h"
#include "base/stats.h"

#include <string.h>

/* --- operations ------------------------------------------------------------------------------ */

bool hca_transfer_lent_again(struct hca_tp *hca, struct hca_sent *sent)
{
    const struct aqi_rdma_piece *piece = &sent->piece;
    struct aqi_transfer *op = piece->op;
    if (op == NULL || op->loan == NULL || !(sent->refused || op->loan->stale)) return false;
    return aqi_lending_refused(&hca->rdma, op, piece->offset, piece->len);
}

/* --- posting --------------------------------------------------------------------------------- */

/* The rail for the next piece: rails with room take turns, but pieces of a Long always use the one
 * for messages. HCA_RAILS: no room. */
static unsigned hca_transfer_link(const struct hca_tp *hca, const struct hca_op *op)
{
    const struct hca_peer *peer = hca_op_peer(op);
    unsigned first = op->op.is_long ? peer->first : peer->next->rail;
    unsigned count = op->op.is_long ? 1 : hca->rails;
    for (unsigned i = 0; i < count && hca->out < hca->room; i++) {
        unsigned r = (first + i) % hca->rails;
        if (hca_has_rail(peer->used, r) && peer->link[r].pieces < hca_config.sends) return r;
    }
    return HCA_RAILS;
}

/* Move on to the rail after this one. */
static inline void hca_transfer_turn(const struct hca_tp *hca, struct hca_peer *peer, unsigned rail)
{
    peer->next = &peer->link[(rail + 1) % hca->rails];
}

static uint32_t hca_transfer_rkey(const struct hca_op *op, uint64_t addr, unsigned rail)
{
    const struct hca_key *key = &op->there->key;
    uint32_t rkey;
    if (AQI_LIKELY(op->op.loan == NULL))
        return key->rkey[((addr - op->there->rdma.rmem.addr) >> key->shift) * key->rails + rail];
    const unsigned char *lent = op->op.loan->wait.use.mem->key;
    memcpy(&rkey, lent + rail * sizeof(rkey), sizeof(rkey));
    return rkey;
}

/* The local address of a piece, and its key. */
static struct ibv_sge hca_transfer_piece(const struct aqi_rdma_piece *piece, unsigned rail)
{
    const struct aqi_rdma_mem *here = ((const struct hca_op *)piece->op)->here;
    const unsigned char *at = piece->op->local + piece->offset;
    struct ibv_sge sge = {.addr = (uintptr_t)at, .length = (uint32_t)piece->len};
    if (piece->buf != NULL) {
        sge.addr = (uintptr_t)piece->buf->bytes;
        sge.lkey = hca_buf_lkey(piece->buf, rail);
    } else if (piece->pin != NULL) {
        sge.lkey = hca_lkey_of(aqi_pins_mr(piece->pin, rail));
    } else {
        size_t offset = (size_t)(at - (const unsigned char *)here->mem.addr);
        sge.lkey = hca_lkey_of(here->mr[offset >> here->shift][rail]);
    }
    return sge;
}

aq_status hca_transfer_issue(struct hca_tp *hca, struct hca_peer *peer, struct hca_sent *sent)
{
    const struct hca_op *op = hca_sent_op(sent);
    unsigned rail = hca_transfer_link(hca, op);
    if (rail == HCA_RAILS) return AQ_AGAIN;
    hca_transfer_turn(hca, peer, rail);
    uint64_t remote = op->op.remote + sent->piece.offset;
    return hca_link_access(hca, peer, rail, op->op.get, hca_transfer_piece(&sent->piece, rail),
                           remote, hca_transfer_rkey(op, remote, rail), sent);
}

/* Bytes from here to the end of the part that contains them. */
static inline uint64_t hca_transfer_part(uint64_t offset, uint8_t shift)
{
    return (((offset >> shift) + 1) << shift) - offset;
}

/* The length of the next piece, if nothing has to be pinned or copied for it. */
static size_t hca_transfer_piece_len(const struct hca_op *op)
{
    uint64_t len = aqi_min(op->op.len - op->op.posted, hca_config.piece);
    uint64_t remote = op->op.remote + op->op.posted - op->there->rdma.rmem.addr;
    if (op->op.loan == NULL) len = aqi_min(len, hca_transfer_part(remote, op->there->key.shift));
    if (op->op.by != AQI_BY_KNOWN) return (size_t)len;
    uint64_t local = (uintptr_t)op->op.local + op->op.posted - (uintptr_t)op->here->mem.addr;
    return (size_t)aqi_min(len, hca_transfer_part(local, op->here->shift));
}

static aq_status hca_transfer_post_piece(struct hca_tp *hca, struct hca_op *op)
{
    struct hca_sent sent = {.number = 0};
    /* Check this first, lest memory be pinned or looked up in vain. */
    if (hca_transfer_link(hca, op) == HCA_RAILS) return AQ_AGAIN;
    if (!aqi_rdma_piece_begin(&hca->rdma, &op->op, hca_transfer_piece_len(op), &sent.piece))
        return hca_bounce_none(hca, hca_op_peer(op), 0);
    op->op.posted += sent.piece.len; /* before posting: a failure there ends all posted requests */
    aq_status st = hca_transfer_issue(hca, hca_op_peer(op), &sent);
    if (st == AQ_EPEER) aqi_rdma_piece_done(&hca->rdma, &sent.piece, st);
    if (st != AQ_AGAIN) return st;
    op->op.posted -= sent.piece.len;
    aqi_rdma_piece_drop(&hca->rdma, &sent.piece);
    return st;
}

aq_status hca_transfer_post(struct aqi_rdma *rdma, struct aqi_transfer *want)
{
    struct hca_tp *hca = (struct hca_tp *)rdma;
    struct hca_op *op = (struct hca_op *)want;
    const struct hca_peer *peer = hca_op_peer(op);
    if (peer->state != HCA_UP || peer->again != NULL) return AQ_AGAIN;
    aq_status st = want->posted != want->len ? hca_transfer_post_piece(hca, op) : AQ_OK;
    return st == AQ_OK && want->posted == want->len && want->follows ? hca_long_follow(hca, op)
                                                                     : st;
}

/* Memory without a registration is copied through buffers or, if it is long enough, pinned. */
void hca_transfer_reach(struct aqi_rdma *rdma, struct aqi_transfer *want,
                        const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem)
{
    struct hca_op *op = (struct hca_op *)want;
    const struct aqi_rdma_mem *here = (const struct aqi_rdma_mem *)mem;
    op->there = (const struct hca_rmem *)rmem;
    op->here = here != NULL && here->parts != 0 ? here : NULL;
    aqi_rdma_local(rdma, want, op->here != NULL, hca_config.bounce_limit);
    if (want->source != NULL && want->len <= hca_config.bounce_limit)
        want->by = AQI_BY_BOUNCE; /* it is a short-lived copy, not worth pinning */
}

/* --- straight transfers ---------------------------------------------------------------------- */

/*
 * Find the key of [addr, addr + len) of the peer. Returns false if no single registration covers
 * it, or if its memory is registered in parts and `parts` is false.
 */
static AQI_INLINE bool hca_transfer_straight_there(const struct hca_rmem *rmem, uint64_t addr,
                                                   size_t len, unsigned rail, bool parts,
                                                   uint32_t *rkey)
{
    const struct hca_key *key = &rmem->key;
    if (AQI_LIKELY(key->parts == 1)) {
        *rkey = key->rkey[rail];
        return true;
    }
    if (!parts || key->parts == 0) return false;
    uint64_t at = addr - rmem->rdma.rmem.addr, part = at >> key->shift;
    *rkey = key->rkey[part * key->rails + rail];
    return (at + len - 1) >> key->shift == part;
}

/* Likewise for local memory. */
static AQI_INLINE bool hca_transfer_straight_here(const struct aqi_rdma_mem *here,
                                                  const unsigned char *local, size_t len,
                                                  unsigned rail, bool parts, uint32_t *lkey)
{
    if (AQI_LIKELY(here != NULL && here->parts == 1)) {
        *lkey = hca_lkey_of(here->mr[0][rail]);
        return true;
    }
    if (!parts || here == NULL || here->parts == 0) return false;
    size_t at = (size_t)(local - (const unsigned char *)here->mem.addr);
    size_t part = at >> here->shift;
    *lkey = hca_lkey_of(here->mr[part][rail]);
    return (at + len - 1) >> here->shift == part;
}

/*
 * Whether no other transfer has to precede it, and this link has room. (Few enough requests are
 * posted that the limits on transfers and on the total cannot be exceeded.)
 */
static inline bool hca_transfer_straight_may(const struct hca_tp *hca, const struct hca_peer *peer,
                                             const struct hca_link *link)
{
    return peer->state == HCA_UP &&
           ((uintptr_t)peer->rdma.waiting.first | (uintptr_t)peer->again) == 0 &&
           hca_has_rail(peer->used, link->rail) && link->head - link->tail < hca_config.sends &&
           hca->out < hca->room;
}

void hca_transfer_again(struct hca_tp *hca, struct hca_peer *peer, const struct hca_sent *sent)
{
    bool copied = !sent->get && sent->len <= sizeof(sent->copy);
    const struct aqi_transfer want = {.peer = &peer->rdma,
                                      .comp = sent->comp,
                                      .get = sent->get,
                                      .remote = sent->remote,
                                      .local = copied ? (void *)(uintptr_t)sent->copy : sent->local,
                                      .len = sent->len};
    struct aqi_transfer *op = aqi_rdma_new(&hca->rdma, &want, &sent->there->rdma,
                                           sent->here != NULL ? &sent->here->mem : NULL);
    if (op == NULL) {
        hca_transfer_straight_end(sent, AQ_ENOMEM);
        return;
    }
    ((struct hca_op *)op)->refused = sent->refused;
    aqi_rdma_queue(&hca->rdma, op);
}

/* The adapter rejected it: post it on the general path, which determines the reason. */
static AQI_NOINLINE void hca_transfer_straight_refused(struct hca_tp *hca, struct hca_link *link)
{
    struct hca_peer *peer = hca_link_peer(link);
    hca_transfer_again(hca, peer, hca_link_place(hca, link, link->head));
    aqi_rdma_push(&hca->rdma, &peer->rdma);
}

static AQI_INLINE void hca_transfer_straight_post(struct hca_tp *hca, struct hca_link *link)
{
    struct ibv_send_wr *bad;
    if (AQI_UNLIKELY(ibv_post_send(link->qp, &hca->post, &bad) != 0)) {
        hca_transfer_straight_refused(hca, link);
        return;
    }
    struct aqi_counters *counters = aqi_counting();
    link->head++;
    link->pieces++;
    link->unsignaled = 0;
    hca->out++;
    aqi_count_in(counters, AQI_CTR_POSTS, 1);
    aqi_count_in(counters, AQI_CTR_POSTS_SIGNALED, 1);
    if (hca->rails > 1) hca_transfer_turn(hca, hca_link_peer(link), link->rail);
}

/*
 * The fast path of almost all transfers: to a connected peer, between registered memory, in one
 * piece. The transfer is posted at once, and its entry in the send queue holds everything that its
 * completion needs. The entry is written first, before any call, so that few values must be kept in
 * registers. Returns false, without effect, if the transfer has to take the general path.
 */
static AQI_INLINE bool hca_transfer_straight(struct hca_tp *hca, struct hca_peer *peer,
                                             const struct hca_rmem *rmem, uint64_t addr,
                                             unsigned char *local, size_t len,
                                             const struct aqi_rdma_mem *here, struct aqi_comp *comp,
                                             bool get, bool parts)
{
    struct hca_link *link = peer->next;
    struct ibv_send_wr *wr = &hca->post;
    bool in_line = !get && len <= link->max_inline;
    if (AQI_UNLIKELY(
            !hca_transfer_straight_may(hca, peer, link) || len - 1 >= hca_config.piece ||
            !hca_transfer_straight_there(rmem, addr, len, link->rail, parts, &wr->wr.rdma.rkey)))
        return false;
    if (!in_line && AQI_UNLIKELY(!hca_transfer_straight_here(here, local, len, link->rail, parts,
                                                             &hca->post_piece.lkey) ||
                                 (!get && len <= AQI_PUT_COPIED)))
        return false;
    struct hca_sent *sent = hca_link_place(hca, link, link->head);
    sent->comp = comp;
    sent->remote = addr;
    sent->local = local;
    sent->here = here;
    sent->there = rmem;
    sent->len = len;
    sent->is = 0;
    sent->straight = true;
    sent->get = get;
    if (!get && len <= AQI_PUT_COPIED) aqi_copy_short(sent->copy, local, len);
    hca->post_piece.addr = (uintptr_t)local;
    hca->post_piece.length = (uint32_t)len;
    wr->wr_id = hca_wr_of_place(link, link->head);
    wr->opcode = get ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    wr->send_flags = in_line ? IBV_SEND_SIGNALED | IBV_SEND_INLINE : IBV_SEND_SIGNALED;
    wr->wr.rdma.remote_addr = addr;
    hca_transfer_straight_post(hca, link);
    return true;
}

/* Also between memory that is registered in parts. */
bool hca_transfer_at_once(struct aqi_rdma *rdma, const struct aqi_transfer *want,
                          const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem)
{
    return hca_transfer_straight((struct hca_tp *)rdma, (struct hca_peer *)want->peer,
                                 (const struct hca_rmem *)rmem, want->remote, want->local,
                                 want->len, (const struct aqi_rdma_mem *)mem, want->comp, want->get,
                                 true);
}

/* Not if it needs the lock, or may be held back by lent memory. */
aq_status hca_put_within(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                         uint64_t addr, const void *src, size_t len, const struct aqi_mem *mem,
                         struct aqi_comp *comp)
{
    struct hca_tp *hca = (struct hca_tp *)tp;
    if (AQI_LIKELY(!hca->rdma.locks && !hca->rdma.lending.on) &&
        hca_transfer_straight(hca, (struct hca_peer *)peer, (const struct hca_rmem *)rmem, addr,
                              (void *)(uintptr_t)src, len, (const struct aqi_rdma_mem *)mem, comp,
                              false, false))
        return AQ_OK;
    return aqi_rdma_put_bytes(tp, peer, rmem, addr, src, len, mem, comp);
}

aq_status hca_get_within(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                         uint64_t addr, void *dst, size_t len, const struct aqi_mem *mem,
                         struct aqi_comp *comp)
{
    struct hca_tp *hca = (struct hca_tp *)tp;
    if (AQI_LIKELY(!hca->rdma.locks) &&
        hca_transfer_straight(hca, (struct hca_peer *)peer, (const struct hca_rmem *)rmem, addr,
                              dst, len, (const struct aqi_rdma_mem *)mem, comp, true, false))
        return AQ_OK;
    return aqi_rdma_get_bytes(tp, peer, rmem, addr, dst, len, mem, comp);
}
