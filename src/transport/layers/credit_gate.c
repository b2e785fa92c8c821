/* The gate between all messages and a transport with posted buffers; see the header. */
#include "transport/layers/credit_gate.h"

#include "base/fail.h"
#include "base/spin.h"
#include "base/stats.h"

#include <stdlib.h>

static const struct aqi_credit_limits by_default = {.depth = 32, .bytes = 12288, .slack = 1};

/* The word of credits: 12 bits of count, above them 20 bits of bytes in units of 64. */
enum { COUNT_BITS = 12, UNIT = 64 };
static const uint32_t most_count = (1u << COUNT_BITS) - 1;
static const uint64_t most_bytes = ((1u << (32 - COUNT_BITS)) - 1) * (uint64_t)UNIT;

struct aqi_credit_gate {
    struct aqi_tp *tp;
    struct aqi_transport own; /* the transport's operations */
    struct aqi_tp_params params;
    struct aqi_peer *const *peers; /* by id; owned by the fallback layer */
    struct aqi_credits credits;
    struct aqi_credit_peer *accounts;
    bool *due;       /* by id: a hidden reply to the peer waits for room, in the queue: */
    uint32_t *queue; /* a ring with room for each peer */
    uint32_t due_head;
    _Atomic uint32_t due_count;
    struct aqi_spin lock; /* credits and due; params.threads only */
};

/* The request whose handler runs in this thread: at most one, since only replies nest in it. */
struct request {
    struct aqi_credit_gate *gate;
    uint32_t source;
    uint64_t bytes;
    bool replied;
};
static AQI_FAST_THREAD_LOCAL struct request *handling;

/* --- the word on the wire -------------------------------------------------------------------- */

static int32_t credit_gate_word_of(struct aqi_credit_note note)
{
    return (int32_t)(note.count | (uint32_t)(note.bytes / UNIT) << COUNT_BITS);
}

struct aqi_credit_note aqi_credit_of(const struct aqi_am *am)
{
    if ((am->flags & AQI_AM_CREDITS) == 0) return (struct aqi_credit_note){0};
    uint32_t word = (uint32_t)am->args[am->nargs - 1];
    return (struct aqi_credit_note){.count = word & most_count,
                                    .bytes = (uint64_t)(word >> COUNT_BITS) * UNIT};
}

/* Most messages have no payload, and their arguments fit the first unit. */
static inline uint64_t credit_gate_bytes_of(unsigned nargs, size_t nbytes)
{
    if (AQI_LIKELY(nbytes == 0 && nargs <= (UNIT - sizeof(struct aqi_am_wire)) / 4)) return UNIT;
    return aqi_round_up(aqi_am_payload_offset(nargs) + nbytes, UNIT);
}

uint64_t aqi_credit_bytes(const struct aqi_am *am)
{
    unsigned word = am->flags & AQI_AM_CREDITS ? 1 : 0;
    return credit_gate_bytes_of(am->nargs - word, aqi_am_payload(am));
}

static uint64_t credit_gate_charge(const struct aqi_credit_gate *g, uint64_t bytes)
{
    return g->credits.limits.bytes != 0 ? bytes : 0;
}

struct aqi_credit_limits aqi_credit_gate_limits(const struct aqi_tp_params *params,
                                                const struct aqi_tp_limits *limits)
{
    struct aqi_credit_limits c = params->credits.depth != 0 ? params->credits : by_default;
    if (limits->depth != 0 && c.depth > limits->depth) c.depth = limits->depth;
    if (c.depth > most_count) c.depth = most_count;
    if (limits->total != 0 && (c.total == 0 || c.total > limits->total)) c.total = limits->total;
    c.largest = (uint32_t)credit_gate_bytes_of(AQI_AM_MAX_ARGS, limits->max_medium);
    /* At least two of the largest, so that they overlap, and at most what the word can hold. */
    if (c.bytes != 0) c.bytes = aqi_min(aqi_max(c.bytes, 2 * (size_t)c.largest), most_bytes);
    return c;
}

/* --- returning credits ----------------------------------------------------------------------- */

static void credit_gate_count_due(struct aqi_credit_gate *g, uint32_t by)
{
    g->due_count += by;
    aqi_count_on(&aqi_tp_pending, g->params.threads, by);
}

static void credit_gate_mark_due(struct aqi_credit_gate *g, uint32_t id)
{
    if (g->due[id]) return;
    g->due[id] = true;
    g->queue[(g->due_head + g->due_count) % g->params.size] = id;
    credit_gate_count_due(g, 1);
}

/* Return the credits banked for a peer if they exceed the slack; without room, progress does. */
static bool credit_gate_flush(struct aqi_credit_gate *g, uint32_t id)
{
    struct aqi_credit_note note = {0};
    aqi_spin_lock_if(g->params.threads, &g->lock);
    if (aqi_credits_overdue(&g->credits, id)) note = aqi_credits_ride(&g->credits, id);
    aqi_spin_unlock_if(g->params.threads, &g->lock);
    if (note.count == 0) return false;
    int32_t word = credit_gate_word_of(note);
    struct aqi_am am = {.kind = AQI_AM_INTERNAL,
                        .handler = AQI_AM_INTERNAL_CREDITS,
                        .flags = AQI_AM_IS_REPLY | AQI_AM_CREDITS,
                        .nargs = 1,
                        .args = &word};
    aq_status st = g->own.am_send(g->tp, g->peers[id], &am, NULL);
    if (st == AQ_OK) aqi_count(AQI_CTR_CREDIT_HIDDEN, 1);
    if (st != AQ_AGAIN) return true;
    aqi_spin_lock_if(g->params.threads, &g->lock);
    aqi_credits_unride(&g->credits, id, note);
    credit_gate_mark_due(g, id);
    aqi_spin_unlock_if(g->params.threads, &g->lock);
    return false;
}

static AQI_COLD unsigned credit_gate_flush_due(struct aqi_credit_gate *g)
{
    unsigned n = 0;
    for (uint32_t left = g->due_count; left > 0; left--) {
        aqi_spin_lock_if(g->params.threads, &g->lock);
        bool some = g->due_count != 0;
        uint32_t id = g->queue[g->due_head];
        if (some) {
            g->due_head = (g->due_head + 1) % g->params.size;
            credit_gate_count_due(g, UINT32_MAX);
            g->due[id] = false;
        }
        aqi_spin_unlock_if(g->params.threads, &g->lock);
        if (some && credit_gate_flush(g, id)) n++;
    }
    return n;
}

/* --- receiving ------------------------------------------------------------------------------- */

void aqi_credit_gate_deliver(struct aqi_credit_gate *g, uint32_t source, const struct aqi_am *am,
                             void (*deliver)(void *arg, uint32_t source, const struct aqi_am *am),
                             void *arg)
{
    bool is_reply = (am->flags & AQI_AM_IS_REPLY) != 0;
    if (AQI_UNLIKELY(source >= g->params.size || g->peers[source] == NULL)) {
        aqi_count(AQI_CTR_AM_DROPPED, 1);
        return;
    }
    struct request request = {
        .gate = g, .source = source, .bytes = credit_gate_charge(g, aqi_credit_bytes(am))};
    aqi_spin_lock_if(g->params.threads, &g->lock);
    bool honest = (am->flags & AQI_AM_CREDITS) == 0 ||
                  aqi_credits_returned(&g->credits, source, aqi_credit_of(am));
    if (!is_reply) aqi_credits_arrived(&g->credits, source, request.bytes);
    aqi_spin_unlock_if(g->params.threads, &g->lock);
    if (AQI_UNLIKELY(!honest)) aqi_count(AQI_CTR_AM_DROPPED, 1);
    if (am->kind == AQI_AM_INTERNAL && am->handler == AQI_AM_INTERNAL_CREDITS) return;
    struct aqi_am visible;
    if (am->flags & AQI_AM_CREDITS) {
        visible = *am;
        visible.nargs--;
        visible.flags &= (uint8_t)~AQI_AM_CREDITS;
        am = &visible;
    }
    if (is_reply) {
        deliver(arg, source, am);
        return;
    }
    struct request *outer = handling;
    handling = &request;
    deliver(arg, source, am);
    handling = outer;
    if (request.replied) return;
    aqi_spin_lock_if(g->params.threads, &g->lock);
    aqi_credits_answered(&g->credits, source, request.bytes);
    bool overdue = aqi_credits_overdue(&g->credits, source);
    aqi_spin_unlock_if(g->params.threads, &g->lock);
    if (overdue) credit_gate_flush(g, source);
}

/* --- sending --------------------------------------------------------------------------------- */

/* The request that a reply to `id` answers; NULL: none. */
static struct request *credit_gate_answered_by(struct aqi_credit_gate *g, uint32_t id)
{
    struct request *r = handling;
    return r != NULL && r->gate == g && r->source == id && !r->replied ? r : NULL;
}

static struct aqi_credit_note credit_gate_begin_reply(struct aqi_credit_gate *g, uint32_t id,
                                                      struct request *to)
{
    aqi_spin_lock_if(g->params.threads, &g->lock);
    if (to != NULL) aqi_credits_answered(&g->credits, id, to->bytes);
    struct aqi_credit_note note = aqi_credits_ride(&g->credits, id);
    aqi_spin_unlock_if(g->params.threads, &g->lock);
    return note;
}

static void credit_gate_end_reply(struct aqi_credit_gate *g, uint32_t id, struct request *to,
                                  struct aqi_credit_note note, aq_status st)
{
    if (AQI_LIKELY(st == AQ_OK)) {
        if (to != NULL) to->replied = true;
        return;
    }
    aqi_spin_lock_if(g->params.threads, &g->lock);
    aqi_credits_unride(&g->credits, id, note);
    if (to != NULL) aqi_credits_unanswered(&g->credits, id, to->bytes);
    aqi_spin_unlock_if(g->params.threads, &g->lock);
}

static AQI_INLINE bool credit_gate_begin_request(struct aqi_credit_gate *g, uint32_t id,
                                                 uint64_t bytes, struct aqi_credit_note *note)
{
    aqi_spin_lock_if(g->params.threads, &g->lock);
    bool taken = aqi_credits_take(&g->credits, id, bytes);
    if (taken && note != NULL) *note = aqi_credits_ride(&g->credits, id);
    aqi_spin_unlock_if(g->params.threads, &g->lock);
    if (!taken) aqi_count(AQI_CTR_CREDIT_NONE, 1);
    return taken;
}

static AQI_COLD void credit_gate_undo_request(struct aqi_credit_gate *g, uint32_t id,
                                              uint64_t bytes, struct aqi_credit_note note)
{
    aqi_spin_lock_if(g->params.threads, &g->lock);
    aqi_credits_undo(&g->credits, id, bytes);
    aqi_credits_unride(&g->credits, id, note);
    aqi_spin_unlock_if(g->params.threads, &g->lock);
}

/* A message with the word as one more argument. */
struct credited {
    struct aqi_am am;
    int32_t args[AQI_AM_WIRE_ARGS];
};

static const struct aqi_am *credit_gate_with_word(struct credited *out, const struct aqi_am *am,
                                                  struct aqi_credit_note note)
{
    out->am = *am;
    for (unsigned i = 0; i < am->nargs; i++)
        out->args[i] = am->args[i];
    out->args[am->nargs] = credit_gate_word_of(note);
    out->am.args = out->args;
    out->am.nargs++;
    out->am.flags |= AQI_AM_CREDITS;
    return &out->am;
}

/* Pass a message to the transport; a Long sent by am_long is charged like its header. */
static AQI_INLINE aq_status credit_gate_pass(struct aqi_credit_gate *g, struct aqi_peer *peer,
                                             const struct aqi_am *am, const struct aqi_rmem *rmem,
                                             const struct aqi_mem *mem, struct aqi_comp *comp,
                                             struct aqi_credit_note note)
{
    struct credited credited;
    if (note.count != 0) am = credit_gate_with_word(&credited, am, note);
    return am->kind == AQI_AM_LONG ? g->own.am_long(g->tp, peer, am, rmem, mem, comp)
                                   : g->own.am_send(g->tp, peer, am, comp);
}

static AQI_NOINLINE aq_status credit_gate_reply(struct aqi_credit_gate *g, struct aqi_peer *peer,
                                                const struct aqi_am *am,
                                                const struct aqi_rmem *rmem,
                                                const struct aqi_mem *mem, struct aqi_comp *comp)
{
    struct request *to = credit_gate_answered_by(g, peer->id);
    struct aqi_credit_note note = credit_gate_begin_reply(g, peer->id, to);
    aq_status st = credit_gate_pass(g, peer, am, rmem, mem, comp, note);
    credit_gate_end_reply(g, peer->id, to, note, st);
    return st;
}

/* For am_long, and for messages that do not take the fast path, whose `rmem` and `mem` are NULL. */
static AQI_NOINLINE aq_status credit_gate_send(struct aqi_tp *tp, struct aqi_peer *peer,
                                               const struct aqi_am *am, const struct aqi_rmem *rmem,
                                               const struct aqi_mem *mem, struct aqi_comp *comp)
{
    struct aqi_credit_gate *g = tp->gate;
    struct aqi_credit_note note;
    if (am->flags & AQI_AM_IS_REPLY) return credit_gate_reply(g, peer, am, rmem, mem, comp);
    uint64_t bytes = credit_gate_charge(g, aqi_credit_bytes(am));
    if (!credit_gate_begin_request(g, peer->id, bytes, &note)) return AQ_AGAIN;
    aq_status st = credit_gate_pass(g, peer, am, rmem, mem, comp, note);
    if (AQI_UNLIKELY(st != AQ_OK)) credit_gate_undo_request(g, peer->id, bytes, note);
    return st;
}

/* The fast path: most messages are requests that return no credits. */
static aq_status credit_gate_am_send(struct aqi_tp *tp, struct aqi_peer *peer,
                                     const struct aqi_am *am, struct aqi_comp *comp)
{
    struct aqi_credit_gate *g = tp->gate;
    if (AQI_UNLIKELY((am->flags & AQI_AM_IS_REPLY) != 0 || g->params.threads ||
                     g->credits.peer[peer->id].banked.count != 0))
        return credit_gate_send(tp, peer, am, NULL, NULL, comp);
    uint64_t bytes = credit_gate_charge(g, credit_gate_bytes_of(am->nargs, aqi_am_payload(am)));
    if (!credit_gate_begin_request(g, peer->id, bytes, NULL)) return AQ_AGAIN;
    aq_status st = g->own.am_send(tp, peer, am, comp);
    if (AQI_UNLIKELY(st != AQ_OK))
        credit_gate_undo_request(g, peer->id, bytes, (struct aqi_credit_note){0});
    return st;
}

/* A prepared message always has room for the word, even if it will not be needed. */
static aq_status credit_gate_am_reserve(struct aqi_tp *tp, struct aqi_peer *peer, bool reply,
                                        unsigned nargs, size_t nbytes, struct aqi_slot *slot)
{
    struct aqi_credit_gate *g = tp->gate;
    uint64_t bytes = credit_gate_charge(g, credit_gate_bytes_of(nargs, nbytes));
    if (!reply && !credit_gate_begin_request(g, peer->id, bytes, NULL)) return AQ_AGAIN;
    aq_status st = g->own.am_reserve(tp, peer, reply, nargs + 1, nbytes, slot);
    if (st != AQ_OK && !reply)
        credit_gate_undo_request(g, peer->id, bytes, (struct aqi_credit_note){0});
    slot->charged = bytes;
    slot->is_request = !reply;
    return st;
}

static aq_status credit_gate_commit_request(struct aqi_credit_gate *g, struct aqi_peer *peer,
                                            struct aqi_slot *slot, const struct aqi_am *am)
{
    struct credited credited;
    uint64_t bytes = credit_gate_charge(g, aqi_credit_bytes(am));
    aqi_spin_lock_if(g->params.threads, &g->lock);
    /* If it is smaller than reserved, the receiver returns credits for the actual size. */
    aqi_credits_shrink(&g->credits, peer->id, slot->charged, bytes);
    struct aqi_credit_note note = aqi_credits_ride(&g->credits, peer->id);
    aqi_spin_unlock_if(g->params.threads, &g->lock);
    slot->charged = bytes;
    aq_status st = g->own.am_commit(g->tp, peer, slot, credit_gate_with_word(&credited, am, note));
    if (AQI_LIKELY(st == AQ_OK)) return st;
    aqi_spin_lock_if(g->params.threads, &g->lock);
    aqi_credits_unride(&g->credits, peer->id, note);
    if (st != AQ_AGAIN) aqi_credits_undo(&g->credits, peer->id, bytes);
    aqi_spin_unlock_if(g->params.threads, &g->lock);
    return st;
}

static aq_status credit_gate_am_commit(struct aqi_tp *tp, struct aqi_peer *peer,
                                       struct aqi_slot *slot, const struct aqi_am *am)
{
    struct aqi_credit_gate *g = tp->gate;
    if (am != NULL && slot->is_request) return credit_gate_commit_request(g, peer, slot, am);
    if (am == NULL) {
        if (slot->is_request)
            credit_gate_undo_request(g, peer->id, slot->charged, (struct aqi_credit_note){0});
        return g->own.am_commit(tp, peer, slot, NULL);
    }
    struct credited credited;
    struct request *to = credit_gate_answered_by(g, peer->id);
    struct aqi_credit_note note = credit_gate_begin_reply(g, peer->id, to);
    aq_status st = g->own.am_commit(tp, peer, slot, credit_gate_with_word(&credited, am, note));
    credit_gate_end_reply(g, peer->id, to, note, st);
    return st;
}

/* --- the rest -------------------------------------------------------------------------------- */

static void credit_gate_disconnect(struct aqi_tp *tp, struct aqi_peer *peer)
{
    struct aqi_credit_gate *g = tp->gate;
    if (g->own.disconnect != NULL) g->own.disconnect(tp, peer);
    aqi_spin_lock_if(g->params.threads, &g->lock);
    aqi_credits_forget(&g->credits, peer->id);
    aqi_spin_unlock_if(g->params.threads, &g->lock);
}

static unsigned credit_gate_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    struct aqi_credit_gate *g = tp->gate;
    unsigned n = g->own.progress(tp, mode, now);
    if (AQI_UNLIKELY(atomic_load_explicit(&g->due_count, memory_order_relaxed) != 0))
        n += credit_gate_flush_due(g);
    return n;
}

/* A hidden reply that waits for room needs progress even if nothing arrives. */
static aq_status credit_gate_quiet(struct aqi_tp *tp, struct aqi_peer *peer)
{
    struct aqi_credit_gate *g = tp->gate;
    return atomic_load(&g->due_count) != 0 ? AQ_AGAIN : g->own.quiet(tp, peer);
}

static aq_status credit_gate_arm(struct aqi_tp *tp, bool on)
{
    struct aqi_credit_gate *g = tp->gate;
    return on && atomic_load(&g->due_count) != 0 ? AQ_AGAIN : g->own.arm(tp, on);
}

aq_status aqi_credit_gate_create(const struct aqi_tp_params *params, struct aqi_credit_gate **gate)
{
    struct aqi_credit_gate *g = calloc(1, sizeof(*g));
    if (g != NULL) {
        g->params = *params;
        g->accounts = calloc(params->size, sizeof(*g->accounts));
        g->due = calloc(params->size, sizeof(*g->due));
        g->queue = calloc(params->size, sizeof(*g->queue));
        *gate = g;
        if (g->accounts != NULL && g->due != NULL && g->queue != NULL) return AQ_OK;
        aqi_credit_gate_destroy(g);
    }
    return aqi_fail(AQ_ENOMEM, "transport", "no memory for the credits of %u peers", params->size);
}

void aqi_credit_gate_complete(struct aqi_credit_gate *g, struct aqi_peer *const *peers,
                              struct aqi_tp *tp)
{
    struct aqi_transport *ops = &tp->ops;
    struct aqi_credit_limits limits = aqi_credit_gate_limits(&g->params, &tp->limits);
    aqi_credits_init(&g->credits, &limits, g->accounts, g->params.size);
    g->tp = tp;
    g->peers = peers;
    g->own = *ops;
    tp->gate = g;
    ops->am_send = credit_gate_am_send;
    if (ops->am_long != NULL) ops->am_long = credit_gate_send;
    ops->disconnect = credit_gate_disconnect;
    ops->progress = credit_gate_progress;
    ops->quiet = credit_gate_quiet;
    if (ops->arm != NULL) ops->arm = credit_gate_arm;
    if (ops->am_reserve != NULL) {
        ops->am_reserve = credit_gate_am_reserve;
        ops->am_commit = credit_gate_am_commit;
    }
}

void aqi_credit_gate_destroy(struct aqi_credit_gate *g)
{
    if (g == NULL) return;
    credit_gate_count_due(g, 0 - g->due_count);
    free(g->accounts);
    free(g->due);
    free(g->queue);
    free(g);
}
