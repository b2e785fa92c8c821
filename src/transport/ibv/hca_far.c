/*
 * ibv: puts and gets of memory that its owner lends on demand (firehose, src/reg).
 *
 * Such a transfer is cut where regions of AQ_REG_REGION end there. Each part is a transfer of its
 * own, with the same counters: it asks the cache for its memory, may wait for the owner's answer
 * (wait.ready), and then is posted as others are, with the key that it holds until it ends. A small
 * put may ride on the question. What cannot be had so (the owner has no room, or its memory cannot
 * be registered) goes by messages, as does what the owner's adapter has refused, since the memory
 * around it was unmapped there meanwhile.
 *
 * Operations that have not asked lie in `wants` of the peer; what is to go by messages in `refused`
 * until progress hands it over, since that may not be done with the lock held.
 */
#include "transport/ibv/hca_impl.h"

#include "base/stats.h"

/* Parts of transfers to a peer under way at a time, which others have to wait for; and such as are
 * handed over in a call of progress. */
enum { FAR_PARTS = 64, FAR_HANDED = 64 };

/* --- parts ----------------------------------------------------------------------------------- */

/* Before all others. */
static void hca_far_want(struct hca_tp *hca, struct hca_op *op)
{
    struct hca_peer *peer = op->peer;
    if (peer->wants == NULL) peer->last_want = &op->next;
    op->next = peer->wants;
    peer->wants = op;
    hca->waiting++;
}

static struct hca_op *hca_far_wanted(struct hca_tp *hca, struct hca_peer *peer)
{
    struct hca_op *op = peer->wants;
    peer->wants = op->next;
    if (peer->wants == NULL) peer->last_want = &peer->wants;
    hca->waiting--;
    return op;
}

static void hca_far_refuse(struct hca_tp *hca, struct hca_op *op)
{
    struct hca_lending *lending = &hca->lending;
    aqi_count(AQI_CTR_REG_FAR_REFUSED, 1);
    if (lending->refused == NULL) lending->last_refused = &lending->refused;
    op->next = NULL;
    *lending->last_refused = op;
    lending->last_refused = &op->next;
}

/* So much of `op`, as an operation of its own that has asked for nothing; NULL: no memory. */
static struct hca_op *hca_far_new(struct hca_tp *hca, const struct hca_op *op, size_t offset,
                                  size_t len)
{
    struct hca_op *part = aqi_pool_get(&hca->ops);
    if (part == NULL) return NULL;
    *part = *op;
    part->op.remote += offset;
    part->op.local += offset;
    uintptr_t copied = (uintptr_t)part->op.local - (uintptr_t)op->op.copy;
    if (copied < sizeof(op->op.copy)) part->op.local = part->op.copy + copied;
    part->op.len = len;
    part->op.posted = part->op.done = 0;
    part->far = NULL;
    part->op.status = AQ_OK;
    op->peer->busy++;
    if (op->op.comp != NULL) {
        if (!op->op.get) aqi_comp_add(op->op.comp, &op->op.comp->local, 1);
        aqi_comp_add(op->op.comp, &op->op.comp->remote, 1);
    }
    return part;
}

/* Let `op` be its first `len` bytes; the rest is wanted next. False: no memory. */
static bool hca_far_cut(struct hca_tp *hca, struct hca_op *op, size_t len)
{
    if (op->op.len <= len) return true;
    struct hca_op *rest = hca_far_new(hca, op, len, op->op.len - len);
    if (rest == NULL) return false;
    op->op.len = len;
    hca_far_want(hca, rest);
    return true;
}

void hca_far_end(struct hca_tp *hca, struct hca_op *op)
{
    struct hca_far *far = op->far;
    op->far = NULL;
    op->peer->parts--;
    if (far->held) {
        aqi_reg_release(hca->pins.reg, &far->wait.use);
        hca->pins.due = true;
    }
    aqi_pool_put(&hca->lending.fars, far);
}

/* --- asking ---------------------------------------------------------------------------------- */

static void hca_far_over(struct hca_tp *hca, struct hca_op *op, aq_status status)
{
    op->op.status = status;
    hca_transfer_end(hca, op);
}

/* With AQ_OK it has its memory, or the beginning of it. The peer may have failed meanwhile, of
 * which the cache is told later. */
static void hca_far_have(struct hca_tp *hca, struct hca_op *op, aq_status st)
{
    const struct aqi_reg_use *use = &op->far->wait.use;
    size_t keys = aqi_min(hca->rails, op->peer->addr.rails) * sizeof(uint32_t);
    op->far->held = st == AQ_OK;
    if (st == AQ_EPEER || op->peer->state == HCA_DOWN) {
        hca_far_over(hca, op, AQ_EPEER);
    } else if (st == AQ_OK && use->mem->key_len >= keys && hca_far_cut(hca, op, use->len)) {
        hca_transfer_queue(hca, op);
    } else {
        hca_far_end(hca, op);
        if (st == AQ_AGAIN)
            hca_far_want(hca, op);
        else
            hca_far_refuse(hca, op);
    }
}

/* Called by the cache, of which nothing but aqi_reg_release may be called. */
static void hca_far_ready(struct aqi_reg_wait *wait, aq_status st)
{
    struct hca_far *far = (struct hca_far *)(void *)wait; /* its first member */
    if (!wait->rode) {
        hca_far_have(far->hca, far->op, st);
        return;
    }
    far->held = st == AQ_OK;
    hca_far_over(far->hca, far->op, wait->ride_status);
}

/* Ask for the first that is wanted; false: there is no room for the question. */
static bool hca_far_ask(struct hca_tp *hca, struct hca_peer *peer)
{
    struct hca_op *op = hca_far_wanted(hca, peer);
    size_t most = hca->pins.region - (op->op.remote & (hca->pins.region - 1));
    struct hca_far *far = aqi_pool_get(&hca->lending.fars);
    if (far == NULL || !hca_far_cut(hca, op, most)) {
        if (far != NULL) aqi_pool_put(&hca->lending.fars, far);
        hca_far_refuse(hca, op);
        return true;
    }
    size_t rides = !op->op.get && op->op.len <= hca->pins.ride ? op->op.len : 0;
    *far =
        (struct hca_far){.wait = {.ready = hca_far_ready, .bytes = op->op.local, .nbytes = rides},
                         .hca = hca,
                         .op = op};
    op->far = far;
    peer->parts++;
    hca->lending.full = false;
    aq_status st =
        aqi_reg_remote(hca->pins.reg, peer->peer.id, op->op.remote, op->op.len, &far->wait);
    aqi_count(st == AQ_OK ? AQI_CTR_REG_FAR_HIT : AQI_CTR_REG_FAR_MISS, st >= AQ_OK);
    if (st == AQ_AGAIN) {
        aqi_count(AQI_CTR_REG_RIDES, far->wait.rode);
        return true;
    }
    bool full = st == AQ_ENOTSUP && hca->lending.full;
    hca_far_have(hca, op, full ? AQ_AGAIN : st);
    return !full;
}

void hca_far_push(struct hca_tp *hca, struct hca_peer *peer)
{
    while (peer->wants != NULL && peer->parts < FAR_PARTS && peer->state == HCA_UP &&
           peer->again == NULL)
        if (!hca_far_ask(hca, peer)) return;
}

void hca_far_begin(struct hca_tp *hca, struct hca_op *op)
{
    hca->waiting++;
    op->next = NULL;
    *op->peer->last_want = op;
    op->peer->last_want = &op->next;
}

/* --- by messages ----------------------------------------------------------------------------- */

/* Do this range of it by messages. */
static bool hca_far_instead(struct hca_tp *hca, const struct hca_op *op, size_t offset, size_t len)
{
    struct hca_op *part = hca_far_new(hca, op, offset, len);
    if (part != NULL) hca_far_refuse(hca, part);
    return part != NULL;
}

/* Its key is worth nothing any more: nor is what else of it was posted, and the rest is not. */
static void hca_far_stop(struct hca_tp *hca, struct hca_op *op)
{
    struct hca_op **at = &op->peer->ops;
    op->far->stale = true;
    if (op->op.posted == op->op.len ||
        !hca_far_instead(hca, op, op->op.posted, op->op.len - op->op.posted))
        return;
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
    if (*at == NULL) op->peer->last_op = at;
    hca->waiting--;
    op->op.len = op->op.posted;
}

bool hca_far_again(struct hca_tp *hca, struct hca_sent *sent)
{
    struct hca_op *op = sent->op;
    if (op == NULL || op->far == NULL || !(sent->refused || op->far->stale)) return false;
    if (!op->far->stale) hca_far_stop(hca, op);
    return hca_far_instead(hca, op, sent->offset, sent->len);
}

void hca_far_fail(struct hca_tp *hca, struct hca_peer *peer, aq_status status)
{
    while (peer->wants != NULL)
        hca_far_over(hca, hca_far_wanted(hca, peer), status);
    struct hca_op *op = hca->lending.refused, *next;
    hca->lending.last_refused = &hca->lending.refused;
    hca->lending.refused = NULL;
    for (; op != NULL; op = next) {
        next = op->next;
        if (op->peer == peer) {
            hca_far_over(hca, op, status);
            continue;
        }
        op->next = NULL;
        *hca->lending.last_refused = op;
        hca->lending.last_refused = &op->next;
    }
}

void hca_far_forget(struct hca_tp *hca)
{
    if (!hca->lending.gone) return;
    hca->lending.gone = false;
    for (uint32_t id = 0; id < hca->params.size; id++) {
        struct hca_peer *peer = hca->peers[id];
        if (peer == NULL || !peer->forget) continue;
        peer->forget = false;
        aqi_reg_peer_down(hca->pins.reg, id);
    }
}

/* The counters of messages are beside our own, which ends now. */
static aq_status hca_far_hand_over(const struct hca_tp *hca, const struct hca_op *op)
{
    const struct aqi_tp_hooks *hooks = &hca->params.hooks;
    struct aqi_comp *comp = op->op.comp;
    if (comp != NULL && !op->op.get) aqi_comp_add(comp, &comp->local, 1);
    if (comp != NULL) aqi_comp_add(comp, &comp->remote, 1);
    aq_status st = hooks->by_messages(hooks->messenger, op->peer->peer.id, op->op.get,
                                      op->op.remote, op->op.local, op->op.len, comp);
    if (st == AQ_OK) return st;
    if (!op->op.get) aqi_comp_local(comp);
    aqi_comp_remote(comp);
    return st;
}

unsigned hca_far_by_messages(struct hca_tp *hca)
{
    struct hca_lending *lending = &hca->lending;
    for (unsigned n = 0; n < FAR_HANDED; n++) {
        hca_lock(hca);
        struct hca_op *op = lending->refused;
        if (op != NULL) lending->refused = op->next;
        hca_unlock(hca);
        if (op == NULL) return n;
        aq_status st = hca_far_hand_over(hca, op);
        hca_lock(hca);
        if (st == AQ_AGAIN) {
            if (lending->refused == NULL) lending->last_refused = &op->next;
            op->next = lending->refused;
            lending->refused = op;
        } else {
            hca_far_over(hca, op, st);
        }
        hca_unlock(hca);
        if (st == AQ_AGAIN) return n;
    }
    return FAR_HANDED;
}
