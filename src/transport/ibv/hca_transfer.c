/* ibv: puts and gets by remote writes and reads, and the memory that they reach. */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"

#include <stdlib.h>
#include <string.h>

static const unsigned char hca_key_magic[4] = {'i', 'b', 'v', 'k'};

enum { HCA_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

/* --- operations ------------------------------------------------------------------------------ */

static void hca_transfer_end(struct hca_tp *hca, struct hca_op *op)
{
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

aq_status hca_transfer_issue(struct hca_tp *hca, struct hca_peer *peer, struct hca_sent *sent)
{
    const struct hca_op *op = sent->op;
    unsigned rail = hca_transfer_link(hca, peer);
    if (rail == HCA_RAILS) return AQ_AGAIN;
    peer->turn = rail + 1;
    struct ibv_sge piece = {.addr = (uintptr_t)op->local + sent->offset,
                            .length = (uint32_t)sent->len,
                            .lkey = op->lkey[rail]};
    struct ibv_send_wr wr = {
        .sg_list = &piece,
        .num_sge = 1,
        .opcode = op->get ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
        .wr.rdma = {.remote_addr = op->remote + sent->offset, .rkey = op->rkey[rail]}};
    if (sent->buf != NULL) {
        piece.addr = (uintptr_t)sent->buf->bytes;
        piece.lkey = sent->buf->chunk->mr[rail]->lkey;
    } else if (sent->pin != NULL) {
        piece.lkey = hca_pins_lkey(sent, rail);
    }
    if (!op->get && sent->len <= hca->rail[rail].max_inline) wr.send_flags = IBV_SEND_INLINE;
    return hca_link_post(hca, peer, rail, &wr, sent);
}

static aq_status hca_transfer_post(struct hca_tp *hca, struct hca_op *op)
{
    struct hca_sent sent = {.op = op,
                            .offset = op->posted,
                            .len = aqi_min(op->len - op->posted, (size_t)hca_config.piece)};
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

/* Memory of no registration is copied through buffers, or, if it is long enough, pinned. */
static void hca_transfer_local(const struct hca_tp *hca, struct hca_op *op,
                               const struct aqi_mem *mem)
{
    const struct hca_mem *known = (const struct hca_mem *)mem;
    if (!op->get && op->len <= sizeof(op->copy)) {
        memcpy(op->copy, op->local, op->len);
        op->local = op->copy;
        op->by = HCA_BY_BOUNCE;
    } else if (known == NULL) {
        op->by = op->len <= hca_config.bounce_limit ? HCA_BY_BOUNCE : HCA_BY_PINS;
    }
    for (unsigned r = 0; r < hca->rails && op->by == HCA_BY_KNOWN; r++)
        op->lkey[r] = known->mr[r]->lkey;
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
    struct hca_op *op = aqi_pool_get(&hca->ops);
    if (op == NULL) return aqi_fail(AQ_ENOMEM, "ibv", "no memory for a transfer");
    *op = *want;
    memcpy(op->rkey, rmem->key.rkey, sizeof(op->rkey));
    hca_transfer_local(hca, op, mem);
    op->peer->busy++;
    hca->waiting++;
    op->next = NULL;
    *peer->last_op = op;
    peer->last_op = &op->next;
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

/* --- memory ---------------------------------------------------------------------------------- */

aq_status hca_mem_reg(struct aqi_tp *tp, void *addr, size_t len, struct aqi_mem **out)
{
    struct hca_tp *hca = (struct hca_tp *)tp;
    if (len == SIZE_MAX) return AQ_ENOTSUP; /* all memory there is */
    struct hca_mem *mem = calloc(1, sizeof(*mem) + sizeof(struct hca_key));
    if (mem == NULL) return AQ_ENOMEM;
    mem->key = (struct hca_key *)(void *)(mem + 1);
    memcpy(mem->key->magic, hca_key_magic, sizeof(hca_key_magic));
    mem->key->rails = hca->rails;
    mem->mem =
        (struct aqi_mem){.addr = addr, .len = len, .key = mem->key, .key_len = sizeof(*mem->key)};
    if (!hca_rails_register(hca, mem->mr, addr, len, HCA_ACCESS)) {
        hca_mem_dereg(tp, &mem->mem);
        return AQ_ELIMIT;
    }
    for (unsigned r = 0; r < hca->rails; r++)
        mem->key->rkey[r] = mem->mr[r]->rkey;
    *out = &mem->mem;
    return AQ_OK;
}

void hca_mem_dereg(struct aqi_tp *tp, struct aqi_mem *out)
{
    struct hca_mem *mem = (struct hca_mem *)out;
    (void)tp;
    hca_rails_deregister(mem->mr);
    free(mem);
}

aq_status hca_mem_map(struct aqi_tp *tp, struct aqi_peer *peer, const void *key, size_t key_len,
                      uint64_t addr, size_t len, struct aqi_rmem **out)
{
    struct hca_key given;
    (void)tp;
    if (key_len == sizeof(given)) memcpy(&given, key, sizeof(given));
    if (key_len != sizeof(given) || memcmp(given.magic, hca_key_magic, 4) != 0 ||
        given.rails == 0 || given.rails > HCA_RAILS)
        return aqi_fail(AQ_EPROTO, "ibv", "peer %u sent a memory key that makes no sense",
                        peer->id);
    struct hca_rmem *rmem = malloc(sizeof(*rmem));
    if (rmem == NULL) return aqi_fail(AQ_ENOMEM, "ibv", "no memory to map memory");
    *rmem = (struct hca_rmem){.rmem = {.addr = addr, .len = len}, .key = given};
    *out = &rmem->rmem;
    return AQ_OK;
}

void hca_mem_unmap(struct aqi_tp *tp, struct aqi_rmem *rmem)
{
    (void)tp;
    free(rmem);
}
