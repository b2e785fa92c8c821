/* ibv: puts and gets by remote writes and reads. */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"

#include <string.h>

/* --- operations ------------------------------------------------------------------------------ */

void hca_transfer_end(struct hca_tp *hca, struct hca_op *op)
{
    if (AQI_UNLIKELY(op->far != NULL)) hca_far_end(hca, op);
    if (op->status != AQ_OK) aqi_comp_fail(op->comp, op->status);
    if (!op->get) aqi_comp_local(op->comp);
    aqi_comp_remote(op->comp);
    op->peer->busy--;
    aqi_pool_put(&hca->ops, op);
}

/* Give back what a piece had. */
static void hca_transfer_release(struct hca_tp *hca, struct hca_sent *sent)
{
    if (sent->buf != NULL) hca_bounce_put(hca, sent->buf);
    if (sent->pin != NULL) hca_pins_put(hca, sent);
}

void hca_transfer_piece_done(struct hca_tp *hca, struct hca_sent *sent, aq_status status)
{
    struct hca_op *op = sent->op;
    if (status != AQ_OK) op->status = status;
    if (sent->buf != NULL && op->get && status == AQ_OK)
        memcpy(op->local + sent->offset, sent->buf->bytes, sent->len);
    hca_transfer_release(hca, sent);
    op->done += sent->len;
    if (op->done == op->len) hca_transfer_end(hca, op);
}

/* Those that are not wholly posted end when what was posted has. */
void hca_transfer_fail(struct hca_tp *hca, struct hca_peer *peer, aq_status status)
{
    while (peer->ops != NULL) {
        struct hca_op *op = peer->ops;
        peer->ops = op->next;
        hca->waiting--;
        op->status = status;
        op->done += op->len - op->posted;
        op->posted = op->len;
        if (op->done == op->len) hca_transfer_end(hca, op);
    }
    peer->last_op = &peer->ops;
    hca_far_fail(hca, peer, status);
}

/* --- posting --------------------------------------------------------------------------------- */

/* The link for the next piece: in turn, of those with room; HCA_RAILS: none has. */
static unsigned hca_transfer_link(const struct hca_tp *hca, const struct hca_peer *peer)
{
    for (unsigned i = 0; i < hca->rails && hca->out < hca->room; i++) {
        unsigned r = (peer->turn + i) % hca->rails;
        if ((peer->used >> r & 1) != 0 && peer->link[r].pieces < hca_config.sends) return r;
    }
    return HCA_RAILS;
}

static uint32_t hca_transfer_rkey(const struct hca_op *op, uint64_t addr, unsigned rail)
{
    const struct hca_key *key = &op->there->key;
    uint32_t rkey;
    if (AQI_LIKELY(op->far == NULL))
        return key->rkey[((addr - op->there->rmem.addr) >> key->shift) * key->rails + rail];
    const unsigned char *far = op->far->wait.use.mem->key;
    memcpy(&rkey, far + rail * sizeof(rkey), sizeof(rkey));
    return rkey;
}

/* Where a piece is here. */
static struct ibv_sge hca_transfer_piece(const struct hca_sent *sent, unsigned rail)
{
    const struct hca_op *op = sent->op;
    const unsigned char *at = op->local + sent->offset;
    struct ibv_sge piece = {.addr = (uintptr_t)at, .length = (uint32_t)sent->len};
    if (sent->buf != NULL) {
        piece.addr = (uintptr_t)sent->buf->bytes;
        piece.lkey = sent->buf->chunk->mr[rail]->lkey;
    } else if (sent->pin != NULL) {
        piece.lkey = hca_pins_lkey(sent, rail);
    } else {
        size_t offset = (size_t)(at - (const unsigned char *)op->here->mem.addr);
        piece.lkey = op->here->mr[offset >> op->here->key.shift][rail]->lkey;
    }
    return piece;
}

aq_status hca_transfer_issue(struct hca_tp *hca, struct hca_peer *peer, struct hca_sent *sent)
{
    const struct hca_op *op = sent->op;
    unsigned rail = hca_transfer_link(hca, peer);
    if (rail == HCA_RAILS) return AQ_AGAIN;
    peer->turn = rail + 1;
    uint64_t remote = op->remote + sent->offset;
    struct ibv_sge piece = hca_transfer_piece(sent, rail);
    struct ibv_send_wr wr = {
        .sg_list = &piece,
        .num_sge = 1,
        .opcode = op->get ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
        .wr.rdma = {.remote_addr = remote, .rkey = hca_transfer_rkey(op, remote, rail)}};
    if (!op->get && sent->len <= hca->rail[rail].max_inline) wr.send_flags = IBV_SEND_INLINE;
    return hca_link_post(hca, peer, rail, &wr, sent);
}

/* Bytes from here to the end of the part that they lie in. */
static inline uint64_t hca_transfer_part(uint64_t offset, uint8_t shift)
{
    return (((offset >> shift) + 1) << shift) - offset;
}

/* How long the next piece is, if nothing has to be pinned or copied for it. */
static size_t hca_transfer_piece_len(const struct hca_op *op)
{
    uint64_t len = aqi_min(op->len - op->posted, hca_config.piece);
    uint64_t remote = op->remote + op->posted - op->there->rmem.addr;
    if (op->far == NULL) len = aqi_min(len, hca_transfer_part(remote, op->there->key.shift));
    if (op->by != HCA_BY_KNOWN) return (size_t)len;
    uint64_t local = (uintptr_t)op->local + op->posted - (uintptr_t)op->here->mem.addr;
    return (size_t)aqi_min(len, hca_transfer_part(local, op->here->key.shift));
}

static aq_status hca_transfer_post(struct hca_tp *hca, struct hca_op *op)
{
    struct hca_sent sent = {.op = op, .offset = op->posted, .len = hca_transfer_piece_len(op)};
    /* Before memory is pinned, or looked up again and again. */
    if (hca_transfer_link(hca, op->peer) == HCA_RAILS) return AQ_AGAIN;
    if (op->by == HCA_BY_PINS && !hca_pins_get(hca, &sent)) op->by = HCA_BY_BOUNCE;
    if (op->by == HCA_BY_BOUNCE) {
        sent.len = aqi_min(sent.len, hca->buffer);
        sent.buf = hca_bounce_get(hca, 0);
        if (sent.buf == NULL) return AQ_AGAIN;
        if (!op->get) memcpy(sent.buf->bytes, op->local + op->posted, sent.len);
    }
    op->posted += sent.len; /* first: a failure ends what is posted */
    aq_status st = hca_transfer_issue(hca, op->peer, &sent);
    if (st == AQ_EPEER) hca_transfer_piece_done(hca, &sent, st);
    if (st != AQ_AGAIN) return st;
    op->posted -= sent.len;
    hca_transfer_release(hca, &sent);
    return st;
}

void hca_transfer_queue(struct hca_tp *hca, struct hca_op *op)
{
    struct hca_peer *peer = op->peer;
    hca->waiting++;
    op->next = NULL;
    *peer->last_op = op;
    peer->last_op = &op->next;
}

void hca_transfer_push(struct hca_tp *hca, struct hca_peer *peer)
{
    while (peer->ops != NULL && peer->state == HCA_UP && peer->again == NULL) {
        struct hca_op *op = peer->ops;
        if (hca_transfer_post(hca, op) != AQ_OK) return;
        if (op->posted != op->len) continue;
        peer->ops = op->next;
        hca->waiting--;
        if (peer->ops == NULL) peer->last_op = &peer->ops;
    }
}

/* Memory of no registration is copied through buffers, or, if it is long enough, pinned. Where it
 * stays so, each further buffer, which is a write of its own, costs more than that. */
static void hca_transfer_local(const struct hca_tp *hca, struct hca_op *op,
                               const struct aqi_mem *mem)
{
    const struct hca_mem *here = (const struct hca_mem *)mem;
    op->here = here != NULL && here->key.parts != 0 ? here : NULL;
    if (!op->get && op->len <= sizeof(op->copy)) {
        memcpy(op->copy, op->local, op->len);
        op->local = op->copy;
        op->by = HCA_BY_BOUNCE;
    } else if (op->here == NULL) {
        uint64_t most = hca_config.bounce_limit;
        if (hca->pins.monitor != NULL) most = aqi_min(most, hca->buffer);
        op->by = op->len <= most ? HCA_BY_BOUNCE : HCA_BY_PINS;
    }
}

static aq_status hca_transfer_ready(struct hca_tp *hca, struct hca_peer *peer,
                                    const struct hca_rmem *rmem, uint64_t addr, size_t len)
{
    if (!aqi_within(addr, len, rmem->rmem.addr, rmem->rmem.len))
        return aqi_fail(AQ_ERANGE, "ibv",
                        "%zu bytes at 0x%llx of rank %u are not in its registered memory", len,
                        (unsigned long long)addr, peer->peer.id);
    if (AQI_LIKELY(peer->state == HCA_UP)) return AQ_OK;
    if (peer->state == HCA_DOWN) return AQ_EPEER;
    hca_greet_begin(hca, peer);
    return AQ_AGAIN;
}

static aq_status hca_transfer_begin(struct hca_tp *hca, struct hca_op *want,
                                    const struct hca_rmem *rmem, const struct aqi_mem *mem)
{
    struct hca_peer *peer = want->peer;
    aq_status st = hca_transfer_ready(hca, peer, rmem, want->remote, want->len);
    if (st != AQ_OK) return st;
    if (!want->get && hca_pins_fenced(hca)) return AQ_AGAIN;
    struct hca_op *op = aqi_pool_get(&hca->ops);
    if (op == NULL) return aqi_fail(AQ_ENOMEM, "ibv", "no memory for a transfer");
    *op = *want;
    op->there = rmem;
    hca_transfer_local(hca, op, mem);
    op->peer->busy++;
    if (rmem->key.parts != 0) {
        hca_transfer_queue(hca, op);
    } else {
        hca_far_begin(hca, op);
        hca_far_push(hca, peer);
    }
    hca_transfer_push(hca, peer);
    return AQ_OK;
}

aq_status hca_put(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, const void *src, size_t len, const struct aqi_mem *mem,
                  struct aqi_comp *comp)
{
    struct hca_tp *hca = (struct hca_tp *)tp;
    if (len == 0) {
        aqi_comp_local(comp);
        aqi_comp_remote(comp);
        return AQ_OK;
    }
    struct hca_op op = {.peer = (struct hca_peer *)peer,
                        .comp = comp,
                        .remote = addr,
                        .local = (unsigned char *)(uintptr_t)src,
                        .len = len};
    hca_lock(hca);
    aq_status st = hca_transfer_begin(hca, &op, (const struct hca_rmem *)rmem, mem);
    hca_unlock(hca);
    return st;
}

aq_status hca_get(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, void *dst, size_t len, const struct aqi_mem *mem,
                  struct aqi_comp *comp)
{
    struct hca_tp *hca = (struct hca_tp *)tp;
    if (len == 0) {
        aqi_comp_remote(comp);
        return AQ_OK;
    }
    struct hca_op op = {.peer = (struct hca_peer *)peer,
                        .comp = comp,
                        .get = true,
                        .remote = addr,
                        .local = dst,
                        .len = len};
    hca_lock(hca);
    aq_status st = hca_transfer_begin(hca, &op, (const struct hca_rmem *)rmem, mem);
    hca_unlock(hca);
    return st;
}
