/* The order layer: numbers messages, and keeps those that arrive early until their turn. */
#include "transport/layers/order.h"

#include "base/early.h"
#include "base/fail.h"
#include "base/spin.h"
#include "base/stats.h"

#include <stdlib.h>
#include <string.h>

/*
 * The limit for messages that arrive ahead of a missing one, in messages and in bytes of memory
 * here. A packet of udp holds up to a thousand small messages, and 4,096 packets may be in flight,
 * which hold fewer bytes than that; a peer that exceeds the limit has omitted a message.
 */
static const struct aqi_early_most order_most = {.ahead = 1 << 23, .bytes = 256 << 20};

/* A message that arrived early, followed by its payload. */
struct order_kept {
    struct aqi_early_item item;
    uint32_t source;
    struct aqi_am am;
    int32_t args[AQI_AM_WIRE_ARGS];
    alignas(16) unsigned char payload[];
};

struct order_in {
    uint32_t done; /* the last number passed on, or being passed on */
    bool running;  /* its handler is running */
    struct aqi_early kept;
};

struct aqi_order {
    struct aqi_transport own;
    struct aqi_tp_hooks up;
    bool threads;
    atomic_bool broken, reported;
    uint32_t source;            /* sender of the message that broke the order */
    struct aqi_spin send[2];    /* numbers are assigned in the order of sending */
    uint32_t out[2];            /* next numbers of requests and replies */
    struct aqi_spin receive[2]; /* guards `in` */
    struct order_in in[2];
};

static inline unsigned order_stream(const struct aqi_am *am)
{
    return am->flags & AQI_AM_IS_REPLY;
}

/* --- sending --------------------------------------------------------------------------------- */

/* The word of credits stays last, where the layers below read it. */
static void order_swap_last(int32_t *args, unsigned nargs)
{
    int32_t last = args[nargs - 1];
    args[nargs - 1] = args[nargs - 2];
    args[nargs - 2] = last;
}

/* The number is an argument, since even the address of a Short may be in use (core/am/asked.c). */
static inline void order_number(struct aqi_am *am, uint32_t number, int32_t *args)
{
    if (am->nargs != 0) memcpy(args, am->args, am->nargs * sizeof(args[0]));
    args[am->nargs++] = (int32_t)number;
    am->args = args;
    if (AQI_UNLIKELY(am->flags & AQI_AM_CREDITS)) order_swap_last(args, am->nargs);
}

static aq_status order_am_send(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                               struct aqi_comp *comp)
{
    struct aqi_order *order = tp->order;
    unsigned stream = order_stream(am);
    int32_t args[AQI_AM_WIRE_ARGS];
    struct aqi_am out = *am;
    if (AQI_UNLIKELY(am->kind == AQI_AM_INTERNAL)) return order->own.am_send(tp, peer, am, comp);
    aqi_spin_lock_if(order->threads, &order->send[stream]);
    order_number(&out, order->out[stream], args);
    aq_status st = order->own.am_send(tp, peer, &out, comp);
    if (AQI_LIKELY(st == AQ_OK)) order->out[stream]++;
    aqi_spin_unlock_if(order->threads, &order->send[stream]);
    return st;
}

static aq_status order_am_reserve(struct aqi_tp *tp, struct aqi_peer *peer, bool reply,
                                  unsigned nargs, size_t nbytes, struct aqi_slot *slot)
{
    return tp->order->own.am_reserve(tp, peer, reply, nargs + 1, nbytes, slot);
}

static aq_status order_am_commit(struct aqi_tp *tp, struct aqi_peer *peer, struct aqi_slot *slot,
                                 const struct aqi_am *am)
{
    struct aqi_order *order = tp->order;
    int32_t args[AQI_AM_WIRE_ARGS];
    if (am == NULL || am->kind == AQI_AM_INTERNAL) return order->own.am_commit(tp, peer, slot, am);
    unsigned stream = order_stream(am);
    struct aqi_am out = *am;
    aqi_spin_lock_if(order->threads, &order->send[stream]);
    order_number(&out, order->out[stream], args);
    aq_status st = order->own.am_commit(tp, peer, slot, &out);
    if (AQI_LIKELY(st == AQ_OK)) order->out[stream]++;
    aqi_spin_unlock_if(order->threads, &order->send[stream]);
    return st;
}

/* --- receiving ------------------------------------------------------------------------------- */

/* Reported by progress, since a handler may be running here. */
static AQI_COLD void order_break(struct aqi_order *order, uint32_t source)
{
    aqi_count(AQI_CTR_AM_DROPPED, 1);
    order->source = source;
    atomic_store_explicit(&order->broken, true, memory_order_release);
}

/* Called with the lock held. Returns false if out of memory, or beyond the limit. */
static AQI_COLD bool order_keep(struct order_in *in, uint32_t number, uint32_t source,
                                const struct aqi_am *am)
{
    size_t len = sizeof(struct order_kept) + aqi_am_payload(am);
    struct order_kept *kept = aligned_alloc(16, aqi_round_up(len, 16));
    if (kept == NULL) return false;
    kept->item.bytes = len;
    kept->source = source;
    aqi_am_keep(&kept->am, am, kept->args, kept->payload);
    if (aqi_early_keep(&in->kept, in->done, number, &kept->item, &order_most)) return true;
    free(kept);
    return false;
}

/* Called with the lock held, which is released while handlers run. */
static AQI_COLD void order_pass_kept(struct aqi_order *order, struct aqi_spin *lock,
                                     struct order_in *in)
{
    for (struct order_kept *kept; (kept = aqi_early_take(&in->kept, in->done + 1)) != NULL;) {
        in->done++;
        aqi_spin_unlock_if(order->threads, lock);
        order->up.deliver(order->up.arg, kept->source, &kept->am);
        free(kept);
        aqi_spin_lock_if(order->threads, lock);
    }
}

static void order_hook_deliver(void *arg, uint32_t source, const struct aqi_am *am)
{
    struct aqi_order *order = arg;
    struct aqi_am plain = *am;
    int32_t args[AQI_AM_WIRE_ARGS];
    if (AQI_UNLIKELY(am->kind == AQI_AM_INTERNAL)) {
        order->up.deliver(order->up.arg, source, am);
        return;
    }
    bool credits = (am->flags & AQI_AM_CREDITS) != 0;
    if (AQI_UNLIKELY(am->nargs < 1 + credits)) {
        order_break(order, source);
        return;
    }
    if (AQI_UNLIKELY(credits)) {
        memcpy(args, am->args, am->nargs * sizeof(args[0]));
        order_swap_last(args, am->nargs);
        plain.args = args;
    }
    uint32_t number = (uint32_t)plain.args[--plain.nargs];
    unsigned stream = order_stream(am);
    struct aqi_spin *lock = &order->receive[stream];
    struct order_in *in = &order->in[stream];
    aqi_spin_lock_if(order->threads, lock);
    /* If another thread runs the handler of an earlier message, it also passes this one on. */
    if (AQI_UNLIKELY(number != in->done + 1 || in->running)) {
        bool kept = order_keep(in, number, source, &plain);
        aqi_spin_unlock_if(order->threads, lock);
        if (!kept) order_break(order, source);
        return;
    }
    in->done++;
    in->running = true;
    aqi_spin_unlock_if(order->threads, lock);
    order->up.deliver(order->up.arg, source, &plain);
    aqi_spin_lock_if(order->threads, lock);
    if (AQI_UNLIKELY(in->kept.count != 0)) order_pass_kept(order, lock, in);
    in->running = false;
    aqi_spin_unlock_if(order->threads, lock);
}

static void order_hook_peer_lost(void *arg, uint32_t id, const char *why)
{
    struct aqi_order *order = arg;
    atomic_store(&order->reported, true);
    order->up.peer_lost(order->up.arg, id, why);
}

static unsigned order_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    struct aqi_order *order = tp->order;
    unsigned n = order->own.progress(tp, mode, now);
    if (AQI_UNLIKELY(atomic_load_explicit(&order->broken, memory_order_acquire)) &&
        mode == AQI_PROGRESS_ALL && !atomic_exchange(&order->reported, true)) {
        order->up.peer_lost(order->up.arg, order->source,
                            "it omitted a message of an ordered connection");
        n++;
    }
    return n;
}

/* --- opening and closing --------------------------------------------------------------------- */

aq_status aqi_order_create(struct aqi_tp_params *inner, struct aqi_order **out)
{
    struct aqi_order *order = calloc(1, sizeof(*order));
    if (order == NULL) return aqi_fail(AQ_ENOMEM, "transport", "no memory to order messages");
    for (unsigned i = 0; i < AQI_COUNT_OF(order->in); i++)
        order->in[i].done = UINT32_MAX; /* so that the first one is 0 */
    order->up = inner->hooks;
    order->threads = inner->threads;
    inner->hooks.deliver = order_hook_deliver;
    inner->hooks.peer_lost = order_hook_peer_lost;
    inner->hooks.arg = order;
    *out = order;
    return AQ_OK;
}

void aqi_order_complete(struct aqi_order *order, struct aqi_tp *tp)
{
    struct aqi_transport *ops = &tp->ops;
    order->own = *ops;
    tp->order = order;
    ops->am_send = order_am_send;
    ops->progress = order_progress;
    if (ops->am_reserve != NULL) {
        ops->am_reserve = order_am_reserve;
        ops->am_commit = order_am_commit;
    }
    /* A Long by the transport's own operation is unordered: its header must be a message. */
    ops->am_long = NULL;
}

void aqi_order_destroy(struct aqi_order *order)
{
    if (order == NULL) return;
    for (unsigned i = 0; i < AQI_COUNT_OF(order->in); i++)
        aqi_early_drop(&order->in[i].kept);
    free(order);
}
