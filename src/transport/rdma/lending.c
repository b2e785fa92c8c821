/*
 * Parts of transfers whose memory is lent on demand: what they wait for, how they continue, and the
 * messages.
 */
#include "transport/rdma/lending.h"

#include "base/stats.h"

/*
 * Maximum number of parts in progress per peer, beyond which others wait; and number handed over
 * per call of progress.
 */
enum { PARTS = 64, HANDED = 64 };

void aqi_lending_open(struct aqi_lending *lending, const struct aqi_lending_hooks *hooks,
                      const struct aqi_tp_params *params, struct aqi_pins *pins,
                      struct aqi_spin *lock)
{
    *lending = (struct aqi_lending){
        .on = lending->on, .hooks = *hooks, .params = params, .pins = pins, .lock = lock};
    aqi_pool_init(&lending->loans, sizeof(struct aqi_loan), 64, false);
}

void aqi_lending_close(struct aqi_lending *lending)
{
    aqi_pool_destroy(&lending->loans);
}

/* --- lists ----------------------------------------------------------------------------------- */

static void lending_append(struct aqi_transfer **first, struct aqi_transfer **last,
                           struct aqi_transfer *op)
{
    op->next_part = NULL;
    if (*first == NULL)
        *first = op;
    else
        (*last)->next_part = op;
    *last = op;
}

static struct aqi_transfer *lending_take(struct aqi_transfer **first)
{
    struct aqi_transfer *op = *first;
    if (op != NULL) *first = op->next_part;
    return op;
}

/* Before all others. */
static void lending_want_next(struct aqi_lending *lending, struct aqi_transfer *op)
{
    struct aqi_lender *lender = op->lender;
    if (lender->wants == NULL) lender->last_want = op;
    op->next_part = lender->wants;
    lender->wants = op;
    lending->waiting++;
}

static void lending_refuse(struct aqi_lending *lending, struct aqi_transfer *op)
{
    aqi_count(AQI_CTR_REG_FAR_REFUSED, 1);
    lending_append(&lending->refused, &lending->last_refused, op);
}

static void lending_over(struct aqi_lending *lending, struct aqi_transfer *op, aq_status status)
{
    op->status = status;
    lending->hooks.over(lending->hooks.host, op);
}

/* --- parts ----------------------------------------------------------------------------------- */

/*
 * Split this much off `op` as an operation of its own that has requested nothing; NULL: out of
 * memory.
 */
static struct aqi_transfer *lending_part(struct aqi_lending *lending, const struct aqi_transfer *op,
                                         size_t offset, size_t len)
{
    struct aqi_transfer *part = lending->hooks.copy(lending->hooks.host, op);
    if (part == NULL) return NULL;
    uintptr_t copied = (uintptr_t)op->local + offset - (uintptr_t)op->copy;
    part->remote = op->remote + offset;
    part->local = copied < sizeof(op->copy) ? part->copy + copied : op->local + offset;
    part->len = len;
    part->posted = part->done = 0;
    part->loan = NULL;
    part->status = AQ_OK;
    if (op->comp != NULL) {
        if (!op->get) aqi_comp_add(op->comp, &op->comp->local, 1);
        aqi_comp_add(op->comp, &op->comp->remote, 1);
    }
    return part;
}

/* Reduce `op` to its first `len` bytes; the rest is handled next. False: out of memory. */
static bool lending_cut(struct aqi_lending *lending, struct aqi_transfer *op, size_t len)
{
    if (op->len <= len) return true;
    struct aqi_transfer *rest = lending_part(lending, op, len, op->len - len);
    if (rest == NULL) return false;
    op->len = len;
    lending_want_next(lending, rest);
    return true;
}

void aqi_lending_end(struct aqi_lending *lending, struct aqi_transfer *op)
{
    struct aqi_loan *loan = op->loan;
    if (loan == NULL) return;
    op->loan = NULL;
    op->lender->parts--;
    if (loan->held) {
        aqi_reg_release(lending->pins->reg, &loan->wait.use);
        lending->pins->due = true;
    }
    aqi_pool_put(&lending->loans, loan);
}

/* --- asking ---------------------------------------------------------------------------------- */

/*
 * With AQ_OK it has its memory, or the beginning of it. The peer may have failed meanwhile, which
 * the cache learns later.
 */
static void lending_have(struct aqi_lending *lending, struct aqi_transfer *op, aq_status st)
{
    op->loan->held = st == AQ_OK;
    if (st == AQ_EPEER || op->lender->forget) {
        lending_over(lending, op, AQ_EPEER);
    } else if (st != AQ_OK || !lending_cut(lending, op, op->loan->wait.use.len) ||
               !lending->hooks.have(lending->hooks.host, op)) {
        aqi_lending_end(lending, op);
        if (st == AQ_AGAIN)
            lending_want_next(lending, op);
        else
            lending_refuse(lending, op);
    }
}

/* Called by the cache, so only aqi_reg_release may be called on it. */
static void lending_ready(struct aqi_reg_wait *wait, aq_status st)
{
    struct aqi_loan *loan = (struct aqi_loan *)(void *)wait; /* its first member */
    if (!wait->rode) {
        lending_have(loan->lending, loan->op, st);
        return;
    }
    loan->held = st == AQ_OK;
    lending_over(loan->lending, loan->op, wait->ride_status);
}

/* Request memory for the first waiting part; false: there is no room for the request. */
static bool lending_ask(struct aqi_lending *lending, struct aqi_lender *lender)
{
    struct aqi_pins *pins = lending->pins;
    struct aqi_transfer *op = lending_take(&lender->wants);
    size_t most = pins->region - (op->remote & (pins->region - 1));
    struct aqi_loan *loan = aqi_pool_get(&lending->loans);
    lending->waiting--;
    if (loan == NULL || !lending_cut(lending, op, most)) {
        if (loan != NULL) aqi_pool_put(&lending->loans, loan);
        lending_refuse(lending, op);
        return true;
    }
    size_t rides = !op->get && op->len <= pins->ride ? op->len : 0;
    *loan = (struct aqi_loan){.wait = {.ready = lending_ready, .bytes = op->local, .nbytes = rides},
                              .lending = lending,
                              .op = op};
    op->loan = loan;
    lender->parts++;
    lending->full = false;
    aq_status st = aqi_reg_remote(pins->reg, lender->id, op->remote, op->len, &loan->wait);
    aqi_count(st == AQ_OK ? AQI_CTR_REG_FAR_HIT : AQI_CTR_REG_FAR_MISS, st >= AQ_OK);
    if (st == AQ_AGAIN) {
        aqi_count(AQI_CTR_REG_RIDES, loan->wait.rode);
        return true;
    }
    bool full = st == AQ_ENOTSUP && lending->full;
    lending_have(lending, op, full ? AQ_AGAIN : st);
    return !full;
}

static void lending_push(struct aqi_lending *lending, struct aqi_lender *lender)
{
    while (lender->wants != NULL && lender->parts < PARTS &&
           lending->hooks.ready(lending->hooks.host, lender))
        if (!lending_ask(lending, lender)) return;
}

void aqi_lending_push(struct aqi_lending *lending)
{
    for (uint32_t id = 0; id < lending->params->size && lending->waiting != 0; id++) {
        struct aqi_lender *lender = lending->hooks.lender(lending->hooks.host, id);
        if (lender != NULL) lending_push(lending, lender);
    }
}

void aqi_lending_begin(struct aqi_lending *lending, struct aqi_transfer *op)
{
    struct aqi_lender *lender = op->lender;
    lending->waiting++;
    lending_append(&lender->wants, &lender->last_want, op);
    lending_push(lending, lender);
}

/* --- by messages ----------------------------------------------------------------------------- */

/* Transfer this range of it by messages. */
static bool lending_instead(struct aqi_lending *lending, const struct aqi_transfer *op,
                            size_t offset, size_t len)
{
    struct aqi_transfer *part = lending_part(lending, op, offset, len);
    if (part != NULL) lending_refuse(lending, part);
    return part != NULL;
}

/* Its key is no longer valid: neither are its other posted parts, and the rest is not posted. */
bool aqi_lending_refused(struct aqi_lending *lending, struct aqi_transfer *op, size_t offset,
                         size_t len)
{
    bool rest = !op->loan->stale && op->posted != op->len;
    op->loan->stale = true;
    if (rest && lending_instead(lending, op, op->posted, op->len - op->posted))
        op->len = op->posted;
    return lending_instead(lending, op, offset, len);
}

/* The counters of the messages are in addition to ours, which end now. */
static aq_status lending_hand_over(const struct aqi_lending *lending, const struct aqi_transfer *op)
{
    const struct aqi_tp_hooks *hooks = &lending->params->hooks;
    struct aqi_comp *comp = op->comp;
    if (comp != NULL && !op->get) aqi_comp_add(comp, &comp->local, 1);
    if (comp != NULL) aqi_comp_add(comp, &comp->remote, 1);
    aq_status st = hooks->by_messages(hooks->messenger, op->lender->id, op->get, op->remote,
                                      op->local, op->len, comp);
    if (st == AQ_OK) return st;
    if (!op->get) aqi_comp_local(comp);
    aqi_comp_remote(comp);
    return st;
}

static void lending_lock(const struct aqi_lending *lending)
{
    if (lending->lock != NULL) aqi_spin_lock(lending->lock);
}

static void lending_unlock(const struct aqi_lending *lending)
{
    if (lending->lock != NULL) aqi_spin_unlock(lending->lock);
}

unsigned aqi_lending_by_messages(struct aqi_lending *lending)
{
    for (unsigned n = 0; n < HANDED; n++) {
        lending_lock(lending);
        struct aqi_transfer *op = lending_take(&lending->refused);
        lending_unlock(lending);
        if (op == NULL) return n;
        aq_status st = lending_hand_over(lending, op);
        lending_lock(lending);
        if (st == AQ_AGAIN) {
            if (lending->refused == NULL) lending->last_refused = op;
            op->next_part = lending->refused;
            lending->refused = op;
        } else {
            lending_over(lending, op, st);
        }
        lending_unlock(lending);
        if (st == AQ_AGAIN) return n;
    }
    return HANDED;
}

/* --- peers that are gone --------------------------------------------------------------------- */

void aqi_lending_fail(struct aqi_lending *lending, struct aqi_lender *lender, aq_status status)
{
    struct aqi_transfer *op, *refused = lending->refused;
    lender->forget = lending->gone = lending->on;
    while ((op = lending_take(&lender->wants)) != NULL) {
        lending->waiting--;
        lending_over(lending, op, status);
    }
    lending->refused = NULL;
    while ((op = lending_take(&refused)) != NULL)
        if (op->lender == lender)
            lending_over(lending, op, status);
        else
            lending_append(&lending->refused, &lending->last_refused, op);
}

static void lending_forget(struct aqi_lending *lending)
{
    lending->gone = false;
    for (uint32_t id = 0; id < lending->params->size; id++) {
        struct aqi_lender *lender = lending->hooks.lender(lending->hooks.host, id);
        if (lender == NULL || !lender->forget) continue;
        aqi_reg_peer_down(lending->pins->reg, id);
    }
}

/* --- messages -------------------------------------------------------------------------------- */

aq_status aqi_lending_send(struct aqi_lending *lending, uint32_t id, const void *bytes, size_t len)
{
    struct aqi_lender *lender = lending->hooks.lender(lending->hooks.host, id);
    if (lender == NULL || lender->forget) return AQ_OK;
    aq_status st = AQ_AGAIN;
    if (lender->sent - lender->taken < AQI_LENDING_MESSAGES)
        st = lending->hooks.post(lending->hooks.host, lender, lender->received, bytes, len);
    if (st == AQ_OK) {
        lender->sent++;
        lender->told = lender->received;
    }
    if (st == AQ_AGAIN) lending->full = lending->pins->due = true;
    return st == AQ_AGAIN ? st : AQ_OK;
}

void aqi_lending_acknowledge(struct aqi_lending *lending, struct aqi_lender *lender)
{
    if (lender->forget || lender->received - lender->told < AQI_LENDING_MESSAGES / 2) return;
    aq_status st = lending->hooks.post(lending->hooks.host, lender, lender->received, NULL, 0);
    if (st == AQ_OK) lender->told = lender->received;
    if (st == AQ_AGAIN) lending->owed = true;
}

aq_status aqi_lending_received(struct aqi_lending *lending, struct aqi_lender *lender,
                               uint32_t taken, const void *bytes, size_t len)
{
    if (taken - lender->taken <= lender->sent - lender->taken) lender->taken = taken;
    if (len == 0 || lender->forget) return AQ_OK;
    aq_status st = aqi_reg_input(lending->pins->reg, lender->id, bytes, len);
    lender->received++; /* not before, as its buffer is not posted again */
    return st;
}

void aqi_lending_progress(struct aqi_lending *lending)
{
    if (lending->gone) lending_forget(lending);
    if (lending->owed) {
        lending->owed = false;
        for (uint32_t id = 0; id < lending->params->size; id++) {
            struct aqi_lender *lender = lending->hooks.lender(lending->hooks.host, id);
            if (lender != NULL) aqi_lending_acknowledge(lending, lender);
        }
    }
    if (lending->waiting != 0) aqi_lending_push(lending);
}
