/* Parts of transfers to lent memory: requesting it, posting them, and the lending messages. */
#include "transport/rdma/rdma.h"

#include "base/fail.h"
#include "base/stats.h"

#include <string.h>

/*
 * Maximum number of parts in progress per peer, beyond which others wait; and number handed over
 * per call of progress.
 */
enum { PARTS = 64, HANDED = 64 };

/* --- parts ----------------------------------------------------------------------------------- */

/* Queue it before all others. */
static void lending_want_next(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    aqi_transfers_prepend(&op->peer->lender.wants, op);
    rdma->lending.waiting++;
}

static void lending_refuse(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    aqi_count(AQI_CTR_REG_FAR_REFUSED, 1);
    aqi_transfers_append(&rdma->lending.refused, op);
}

static void lending_over(struct aqi_rdma *rdma, struct aqi_transfer *op, aq_status status)
{
    op->status = status;
    aqi_rdma_over(rdma, op);
}

/* Split this range off `op` as a separate operation that has requested no memory yet. NULL: out of
 * memory. */
static struct aqi_transfer *lending_part(struct aqi_rdma *rdma, const struct aqi_transfer *op,
                                         size_t offset, size_t len)
{
    struct aqi_transfer *part = aqi_pool_get(&rdma->ops);
    if (part == NULL) return NULL;
    memcpy(part, op, rdma->driver->op_size);
    uintptr_t copied = (uintptr_t)op->local + offset - (uintptr_t)op->copy;
    part->remote = op->remote + offset;
    part->local = copied < sizeof(op->copy) ? part->copy + copied : op->local + offset;
    part->len = len;
    part->posted = part->done = 0;
    part->loan = NULL;
    part->status = AQ_OK;
    part->source = NULL;
    aqi_rdma_link(part);
    if (op->comp != NULL) {
        if (!op->get) aqi_comp_add(op->comp, &op->comp->local, 1);
        aqi_comp_add(op->comp, &op->comp->remote, 1);
    }
    return part;
}

/* Reduce `op` to its first `len` bytes; the rest is handled next. Returns false if out of
 * memory. */
static bool lending_cut(struct aqi_rdma *rdma, struct aqi_transfer *op, size_t len)
{
    if (op->len <= len) return true;
    struct aqi_transfer *rest = lending_part(rdma, op, len, op->len - len);
    if (rest == NULL) return false;
    op->len = len;
    lending_want_next(rdma, rest);
    return true;
}

void aqi_lending_end(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    struct aqi_loan *loan = op->loan;
    if (loan == NULL) return;
    op->loan = NULL;
    op->peer->lender.parts--;
    if (loan->held) {
        aqi_reg_release(rdma->pins.reg, &loan->wait.use);
        rdma->pins.due = true;
    }
    aqi_pool_put(&rdma->lending.loans, loan);
}

/* --- requests -------------------------------------------------------------------------------- */

/*
 * With AQ_OK, all of the memory or the start of it is available. The peer may have failed
 * meanwhile, without the cache having been notified.
 */
static void lending_have(struct aqi_rdma *rdma, struct aqi_transfer *op, aq_status st)
{
    op->loan->held = st == AQ_OK;
    if (st == AQ_EPEER || op->peer->lender.forget) {
        lending_over(rdma, op, AQ_EPEER);
    } else if (st != AQ_OK || !lending_cut(rdma, op, op->loan->wait.use.len) ||
               !rdma->driver->lent(rdma, op)) {
        aqi_lending_end(rdma, op);
        if (st == AQ_AGAIN)
            lending_want_next(rdma, op);
        else
            lending_refuse(rdma, op);
    } else {
        aqi_rdma_queue(rdma, op);
    }
}

/* Called by the cache, so only aqi_reg_release may be called on it. */
static void lending_ready(struct aqi_reg_wait *wait, aq_status st)
{
    struct aqi_loan *loan = (struct aqi_loan *)(void *)wait; /* its first member */
    if (!wait->rode) {
        lending_have(loan->rdma, loan->op, st);
        return;
    }
    loan->held = st == AQ_OK;
    lending_over(loan->rdma, loan->op, wait->ride_status);
}

/* Request memory for the first waiting part. Returns false if there is no room for the request. */
static bool lending_ask(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer)
{
    struct aqi_lender *lender = &peer->lender;
    struct aqi_pins *pins = &rdma->pins;
    struct aqi_transfer *op = aqi_transfers_take(&lender->wants);
    size_t most = pins->region - (op->remote & (pins->region - 1));
    struct aqi_loan *loan = aqi_pool_get(&rdma->lending.loans);
    rdma->lending.waiting--;
    if (loan == NULL || !lending_cut(rdma, op, most)) {
        if (loan != NULL) aqi_pool_put(&rdma->lending.loans, loan);
        lending_refuse(rdma, op);
        return true;
    }
    size_t rides = !op->get && op->len <= pins->ride ? op->len : 0;
    *loan = (struct aqi_loan){.wait = {.ready = lending_ready, .bytes = op->local, .nbytes = rides},
                              .rdma = rdma,
                              .op = op};
    op->loan = loan;
    lender->parts++;
    rdma->lending.full = false;
    aq_status st = aqi_reg_remote(pins->reg, peer->peer.id, op->remote, op->len, &loan->wait);
    aqi_count(st == AQ_OK ? AQI_CTR_REG_FAR_HIT : AQI_CTR_REG_FAR_MISS, st >= AQ_OK);
    if (st == AQ_AGAIN) {
        aqi_count(AQI_CTR_REG_RIDES, loan->wait.rode);
        return true;
    }
    bool full = st == AQ_ENOTSUP && rdma->lending.full;
    lending_have(rdma, op, full ? AQ_AGAIN : st);
    return !full;
}

static void lending_push(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer)
{
    const struct aqi_lender *lender = &peer->lender;
    while (lender->wants.first != NULL && lender->parts < PARTS &&
           rdma->driver->ready(rdma, peer) == AQ_OK)
        if (!lending_ask(rdma, peer)) return;
}

void aqi_lending_begin(struct aqi_rdma *rdma, struct aqi_transfer *op)
{
    rdma->lending.waiting++;
    aqi_transfers_append(&op->peer->lender.wants, op);
    lending_push(rdma, op->peer);
}

/* --- by messages ----------------------------------------------------------------------------- */

/* Transfer this range of `op` by messages. Returns false if out of memory. */
static bool lending_instead(struct aqi_rdma *rdma, const struct aqi_transfer *op, size_t offset,
                            size_t len)
{
    struct aqi_transfer *part = lending_part(rdma, op, offset, len);
    if (part != NULL) lending_refuse(rdma, part);
    return part != NULL;
}

/* The key is stale, so other posted pieces will be rejected as well, and the rest is not posted. */
bool aqi_lending_refused(struct aqi_rdma *rdma, struct aqi_transfer *op, size_t offset, size_t len)
{
    bool rest = !op->loan->stale && op->posted != op->len;
    op->loan->stale = true;
    if (rest && lending_instead(rdma, op, op->posted, op->len - op->posted)) op->len = op->posted;
    if (rest && op->len == op->posted) aqi_rdma_unqueue(rdma, op);
    return lending_instead(rdma, op, offset, len);
}

/* The messages count separately: `op` itself ends now. */
static aq_status lending_hand_over(struct aqi_rdma *rdma, const struct aqi_transfer *op)
{
    const struct aqi_tp_hooks *hooks = &rdma->params.hooks;
    struct aqi_comp *comp = op->comp;
    if (comp != NULL && !op->get) aqi_comp_add(comp, &comp->local, 1);
    if (comp != NULL) aqi_comp_add(comp, &comp->remote, 1);
    aq_status st = hooks->by_messages(hooks->messenger, op->peer->peer.id, op->get, op->remote,
                                      op->local, op->len, comp);
    if (st == AQ_OK) return st;
    if (!op->get) aqi_comp_local(comp);
    aqi_comp_remote(comp);
    return st;
}

unsigned aqi_lending_by_messages(struct aqi_rdma *rdma)
{
    for (unsigned n = 0; n < HANDED; n++) {
        aqi_rdma_lock(rdma);
        struct aqi_transfer *op = aqi_transfers_take(&rdma->lending.refused);
        aqi_rdma_unlock(rdma);
        if (op == NULL) return n;
        aq_status st = lending_hand_over(rdma, op);
        aqi_rdma_lock(rdma);
        if (st == AQ_AGAIN)
            aqi_transfers_prepend(&rdma->lending.refused, op);
        else
            lending_over(rdma, op, st);
        aqi_rdma_unlock(rdma);
        if (st == AQ_AGAIN) return n;
    }
    return HANDED;
}

/* --- lost peers ------------------------------------------------------------------------------ */

void aqi_lending_fail(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer, aq_status status)
{
    struct aqi_transfers refused = rdma->lending.refused;
    struct aqi_transfer *op;
    if (!rdma->lending.on) return;
    peer->lender.forget = rdma->lending.gone = true;
    while ((op = aqi_transfers_take(&peer->lender.wants)) != NULL) {
        rdma->lending.waiting--;
        lending_over(rdma, op, status);
    }
    rdma->lending.refused.first = NULL;
    while ((op = aqi_transfers_take(&refused)) != NULL)
        if (op->peer == peer)
            lending_over(rdma, op, status);
        else
            aqi_transfers_append(&rdma->lending.refused, op);
}

/* --- messages -------------------------------------------------------------------------------- */

static aq_status lending_post(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer, const void *bytes,
                              size_t len)
{
    const struct aqi_am_wire head = {.stamp = rdma->stamp,
                                     .kind = AQI_AM_NONE,
                                     .handler = AQI_RDMA_LENDING,
                                     .source = rdma->params.self,
                                     .nbytes = (uint32_t)len,
                                     .addr = peer->lender.received};
    struct aqi_rdma_buf *buf;
    aq_status st = rdma->driver->ready(rdma, peer);
    if (st == AQ_OK) st = rdma->driver->buffer(rdma, peer, AQI_RDMA_OWN, &buf);
    if (st != AQ_OK) return st;
    memcpy(buf->bytes, &head, sizeof(head));
    if (len != 0) memcpy(buf->bytes + sizeof(head), bytes, len);
    buf->len = (uint32_t)(sizeof(head) + len);
    return rdma->driver->send(rdma, peer, buf);
}

aq_status aqi_lending_send(void *host, uint32_t id, const void *bytes, size_t len)
{
    struct aqi_rdma *rdma = host;
    struct aqi_rdma_peer *peer = rdma->peers[id];
    if (peer == NULL || peer->lender.forget) return AQ_OK;
    aq_status st = AQ_AGAIN;
    if (peer->lender.sent - peer->lender.taken < AQI_LENDING_MESSAGES)
        st = lending_post(rdma, peer, bytes, len);
    if (st == AQ_OK) {
        peer->lender.sent++;
        peer->lender.acked = peer->lender.received;
    }
    if (st == AQ_AGAIN) rdma->lending.full = rdma->pins.due = true;
    return st == AQ_AGAIN ? st : AQ_OK;
}

static void lending_acknowledge(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer)
{
    struct aqi_lender *lender = &peer->lender;
    if (lender->forget || lender->received - lender->acked < AQI_LENDING_MESSAGES / 2) return;
    aq_status st = lending_post(rdma, peer, NULL, 0);
    if (st == AQ_OK) lender->acked = lender->received;
    if (st == AQ_AGAIN) rdma->lending.owed = true;
}

static aq_status lending_read(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer,
                              const struct aqi_rdma_buf *buf)
{
    struct aqi_lender *lender = &peer->lender;
    struct aqi_am_wire head;
    memcpy(&head, buf->bytes, sizeof(head));
    if (!rdma->lending.on || head.nbytes > buf->len - sizeof(head))
        return aqi_fail(AQ_EPROTO, rdma->driver->name, "a message about memory is malformed");
    uint32_t taken = (uint32_t)head.addr;
    if (taken - lender->taken <= lender->sent - lender->taken) lender->taken = taken;
    if (head.nbytes == 0 || lender->forget) return AQ_OK;
    aq_status st =
        aqi_reg_input(rdma->pins.reg, peer->peer.id, buf->bytes + sizeof(head), head.nbytes);
    lender->received++; /* after that call, which may send an acknowledgment */
    return st;
}

/* The buffer is reposted before the message is acknowledged. */
void aqi_lending_received(struct aqi_rdma *rdma, struct aqi_rdma_buf *buf)
{
    struct aqi_rdma_peer *peer = buf->peer;
    aq_status st = lending_read(rdma, peer, buf);
    rdma->driver->taken(rdma, buf);
    if (st != AQ_OK)
        aqi_rdma_fail(rdma, peer, "%s", aq_error_message());
    else
        lending_acknowledge(rdma, peer);
}

/* Report a lost peer to the cache, send a pending acknowledgment, and request memory for waiting
 * parts. */
static void lending_progress(struct aqi_rdma *rdma, struct aqi_rdma_peer *peer, bool gone,
                             bool owed)
{
    if (gone && peer->lender.forget) aqi_reg_peer_down(rdma->pins.reg, peer->peer.id);
    if (owed) lending_acknowledge(rdma, peer);
    if (rdma->lending.waiting != 0) lending_push(rdma, peer);
}

void aqi_lending_progress(struct aqi_rdma *rdma)
{
    bool gone = rdma->lending.gone, owed = rdma->lending.owed;
    if (!gone && !owed && rdma->lending.waiting == 0) return;
    rdma->lending.gone = rdma->lending.owed = false;
    for (uint32_t id = 0; id < rdma->params.size; id++)
        if (rdma->peers[id] != NULL) lending_progress(rdma, rdma->peers[id], gone, owed);
}
