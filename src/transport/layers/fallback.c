/*
 * The fallback layer: sits between a transport and its opener, and supplies the operations that the
 * transport lacks. Above it, no operation is NULL, and capabilities need not be checked.
 */
#include "transport/layers/fallback_impl.h"

#include "base/fail.h"
#include "base/shmem.h"
#include "base/stats.h"
#include "base/touch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* --- calls from the transport ---------------------------------------------------------------- */

static void fallback_hook_deliver(void *arg, uint32_t source, const struct aqi_am *am)
{
    struct aqi_fallback *fb = arg;
    bool more = am->nargs > AQI_AM_MAX_ARGS;
    if (AQI_LIKELY(am->kind <= AQI_AM_MEDIUM && (am->flags & AQI_AM_CREDITS) == 0 && !more))
        fb->up.deliver(fb->up.arg, source, am);
    else if ((am->flags & AQI_AM_CREDITS) || more) /* which only a layer here would have removed */
        aqi_count(AQI_CTR_AM_DROPPED, 1);
    else if (!fallback_serve(fb, source, am))
        fb->up.deliver(fb->up.arg, source, am);
}

static void fallback_hook_deliver_credited(void *arg, uint32_t source, const struct aqi_am *am)
{
    struct aqi_fallback *fb = arg;
    bool credits = (am->flags & AQI_AM_CREDITS) != 0;
    if (AQI_UNLIKELY(am->nargs > AQI_AM_MAX_ARGS + credits))
        aqi_count(AQI_CTR_AM_DROPPED, 1);
    else if (AQI_LIKELY(am->kind <= AQI_AM_MEDIUM)) /* the gate removes its credits */
        aqi_credit_gate_deliver(fb->gate, source, am, fb->up.deliver, fb->up.arg);
    else
        aqi_credit_gate_deliver(fb->gate, source, am, fallback_hook_deliver, fb);
}

static void fallback_hook_peer_lost(void *arg, uint32_t id, const char *why)
{
    struct aqi_fallback *fb = arg;
    if (id >= fb->params.size || atomic_exchange(&fb->side[id].down, true)) return;
    aqi_fallback_peer_down(fb, id);
    fb->up.peer_lost(fb->up.arg, id, why);
}

/* `addr` is an offset in the region of the ticket or, without one, an address. */
static aq_status fallback_carry(struct aqi_fallback *fb, struct aqi_peer *peer, bool get,
                                const uint32_t *ticket, uint64_t addr, void *local, size_t len,
                                struct aqi_comp *comp)
{
    struct fallback_op op = {.kind = get ? FB_OP_GET : FB_OP_PUT,
                             .peer = peer,
                             .local = local,
                             .addr = addr,
                             .len = len,
                             .comp = comp,
                             .in_region = ticket != NULL};
    for (unsigned i = 0; ticket != NULL && i < AQI_TICKET; i++)
        op.ticket[i] = (int32_t)ticket[i];
    /* The messages may be sent later by another thread, which must not fault. */
    if (get)
        aqi_touch_write(local, len);
    else
        aqi_touch_read(local, len);
    return fallback_submit(fb, &op, false);
}

aq_status aqi_fallback_region(struct aqi_fallback *fb, struct aqi_peer *peer, bool get,
                              const uint32_t ticket[AQI_TICKET], uint64_t offset, void *local,
                              size_t len, struct aqi_comp *comp)
{
    if (len != 0) return fallback_carry(fb, peer, get, ticket, offset, local, len, comp);
    if (!get) aqi_comp_local(comp);
    aqi_comp_remote(comp);
    return AQ_OK;
}

aq_status aqi_fallback_ping(struct aqi_fallback *fb, struct aqi_peer *peer, struct aqi_comp *comp)
{
    const struct fallback_op op = {.kind = FB_OP_PING, .peer = peer, .len = 1, .comp = comp};
    return fallback_submit(fb, &op, true);
}

static aq_status fallback_hook_by_messages(void *arg, uint32_t id, bool get, uint64_t addr,
                                           void *local, size_t len, struct aqi_comp *comp)
{
    struct aqi_fallback *fb = arg;
    return fallback_carry(fb, fb->peers[id], get, NULL, addr, local, len, comp);
}

/* --- calls from the opener, wrapped around the transport's own ------------------------------- */

static aq_status fallback_wrap_connect(struct aqi_tp *tp, uint32_t id, uint32_t host,
                                       struct aqi_peer **peer)
{
    struct aqi_fallback *fb = tp->fallback;
    if (id >= fb->params.size)
        return aqi_fail(AQ_EINVAL, "transport", "%s: peer id %u is not less than %u", tp->ops.name,
                        id, fb->params.size);
    aq_status st = fb->own.connect(tp, id, host, peer);
    if (st != AQ_OK) return st;
    struct aqi_peer *p = fb->peers[id] = *peer;
    const struct aqi_tp_limits *limits = &tp->limits;
    if (p->max_medium == 0) p->max_medium = (uint32_t)limits->max_medium;
    if (p->max_piece == 0) p->max_piece = (uint32_t)aqi_max(limits->max_piece, p->max_medium);
    if (p->max_long == 0) p->max_long = limits->max_long;
    return AQ_OK;
}

static unsigned fallback_wrap_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    struct aqi_fallback *fb = tp->fallback;
    unsigned n = fb->own.progress(tp, mode, now);
    if (AQI_UNLIKELY(atomic_load_explicit(&fb->waiting, memory_order_relaxed) != 0) &&
        mode == AQI_PROGRESS_ALL)
        n += fallback_push_all(fb);
    return n;
}

static aq_status fallback_wrap_quiet(struct aqi_tp *tp, struct aqi_peer *peer)
{
    struct aqi_fallback *fb = tp->fallback;
    if (atomic_load_explicit(&fb->active, memory_order_acquire) != 0) return AQ_AGAIN;
    aq_status st = fb->own.quiet(tp, peer);
    /* Meanwhile by_messages may have added an operation. */
    bool more = atomic_load_explicit(&fb->active, memory_order_acquire) != 0;
    return st == AQ_OK && more ? AQ_AGAIN : st;
}

/* --- missing operations ---------------------------------------------------------------------- */

/* The transport's own operation, or AQ_ENOTSUP if it has none or does not know the memory. */
#define OWN(operation, ...)                                                                        \
    (tp->fallback->own.operation != NULL && rmem != NULL                                           \
         ? tp->fallback->own.operation(tp, peer, rmem, __VA_ARGS__)                                \
         : AQ_ENOTSUP)

static aq_status fallback_any_put(struct aqi_tp *tp, struct aqi_peer *peer,
                                  const struct aqi_rmem *rmem, uint64_t addr, const void *src,
                                  size_t len, const struct aqi_mem *mem, struct aqi_comp *comp)
{
    aq_status st = OWN(put, addr, src, len, mem, comp);
    if (st != AQ_ENOTSUP) return st;
    if (len == 0) {
        aqi_comp_local(comp);
        aqi_comp_remote(comp);
        return AQ_OK;
    }
    return fallback_carry(tp->fallback, peer, false, NULL, addr, (void *)(uintptr_t)src, len, comp);
}

static aq_status fallback_any_get(struct aqi_tp *tp, struct aqi_peer *peer,
                                  const struct aqi_rmem *rmem, uint64_t addr, void *dst, size_t len,
                                  const struct aqi_mem *mem, struct aqi_comp *comp)
{
    aq_status st = OWN(get, addr, dst, len, mem, comp);
    if (st != AQ_ENOTSUP) return st;
    if (len == 0) {
        aqi_comp_remote(comp);
        return AQ_OK;
    }
    return fallback_carry(tp->fallback, peer, true, NULL, addr, dst, len, comp);
}

static aq_status fallback_any_put_rows(struct aqi_tp *tp, struct aqi_peer *peer,
                                       const struct aqi_rmem *rmem, struct aqi_row *rows,
                                       unsigned n, unsigned *taken, struct aqi_comp *comp)
{
    aq_status st = OWN(put_rows, rows, n, taken, comp);
    return st != AQ_ENOTSUP ? st : fallback_rows(tp->fallback, true, peer, rows, n, taken, comp);
}

static aq_status fallback_any_get_rows(struct aqi_tp *tp, struct aqi_peer *peer,
                                       const struct aqi_rmem *rmem, struct aqi_row *rows,
                                       unsigned n, unsigned *taken, struct aqi_comp *comp)
{
    aq_status st = OWN(get_rows, rows, n, taken, comp);
    return st != AQ_ENOTSUP ? st : fallback_rows(tp->fallback, false, peer, rows, n, taken, comp);
}

/* A block filled with a byte, which never changes: a put from it may complete at any time. */
static void *fallback_block(struct aqi_fallback *fb, int byte)
{
    _Atomic(void *) *place = &fb->blocks[(unsigned char)byte];
    void *block = atomic_load_explicit(place, memory_order_acquire), *other = NULL;
    if (AQI_LIKELY(block != NULL)) return block;
    block = malloc(FB_FILL_BY_PUT);
    if (block == NULL) return NULL;
    memset(block, byte, FB_FILL_BY_PUT);
    if (atomic_compare_exchange_strong(place, &other, block)) return block;
    free(block);
    return other;
}

/* An adapter writes by itself, while a message would have to wait for progress of the owner. */
static aq_status fallback_fill_by_put(struct aqi_tp *tp, struct aqi_peer *peer,
                                      const struct aqi_rmem *rmem, uint64_t addr, int byte,
                                      size_t len, struct aqi_comp *comp)
{
    const void *block = fallback_block(tp->fallback, byte);
    if (block == NULL) return AQ_ENOTSUP;
    aqi_comp_add(comp, &comp->local, 1);
    aq_status st = tp->fallback->own.put(tp, peer, rmem, addr, block, len, NULL, comp);
    if (st != AQ_OK) aqi_comp_local(comp);
    return st;
}

static aq_status fallback_any_fill(struct aqi_tp *tp, struct aqi_peer *peer,
                                   const struct aqi_rmem *rmem, uint64_t addr, int byte, size_t len,
                                   struct aqi_comp *comp)
{
    const struct aqi_fallback *fb = tp->fallback;
    bool adapter = fb->gate != NULL && fb->own.put != NULL && rmem != NULL;
    aq_status st = adapter && len <= FB_FILL_BY_PUT
                       ? fallback_fill_by_put(tp, peer, rmem, addr, byte, len, comp)
                       : OWN(fill, addr, byte, len, comp);
    if (st != AQ_ENOTSUP) return st;
    struct fallback_op op = {.kind = FB_OP_FILL,
                             .peer = peer,
                             .addr = addr,
                             .len = 1,
                             .comp = comp,
                             .fill_len = len,
                             .fill_byte = byte};
    return fallback_submit(tp->fallback, &op, false);
}

static aq_status fallback_any_atomic(struct aqi_tp *tp, struct aqi_peer *peer,
                                     const struct aqi_rmem *rmem, const struct aqi_atomic *req,
                                     void *result, struct aqi_comp *comp)
{
    aq_status st = OWN(atomic, req, result, comp);
    if (st != AQ_ENOTSUP) return st;
    struct fallback_op op = {.kind = FB_OP_ATOMIC,
                             .peer = peer,
                             .addr = req->addr,
                             .len = 1,
                             .comp = comp,
                             .result = req->fetch ? result : NULL,
                             .atomic = *req};
    return fallback_submit(tp->fallback, &op, false);
}

/*
 * A Long that fits a message is packed; a larger one, if the transport does not support it, becomes
 * a put followed by a header. With credits, a packed Long is charged for its payload, so this is
 * decided here, above the gate.
 */
static aq_status fallback_any_long(struct aqi_tp *tp, struct aqi_peer *peer,
                                   const struct aqi_am *am, const struct aqi_rmem *rmem,
                                   const struct aqi_mem *mem, struct aqi_comp *comp)
{
    struct aqi_fallback *fb = tp->fallback;
    struct aqi_am packed = *am;
    packed.kind = AQI_AM_LONG_PACKED;
    size_t apart = fb->params.long_apart;
    size_t most = tp->limits.packed != 0 ? tp->limits.packed : peer->max_medium;
    bool packs = am->nbytes <= most && (apart == 0 || am->nbytes < apart);
    bool own = fb->own.am_long != NULL && rmem != NULL && (!packs || fb->gate == NULL);
    aq_status st = own ? fb->own.am_long(tp, peer, am, rmem, mem, comp) : AQ_ENOTSUP;
    if (st != AQ_ENOTSUP) return st;
    if (packs) return fb->own.am_send(tp, peer, &packed, comp);
    struct fallback_op op = {.kind = FB_OP_LONG,
                             .peer = peer,
                             .local = (unsigned char *)(uintptr_t)am->payload,
                             .addr = am->addr,
                             .len = am->nbytes,
                             .comp = comp,
                             .header = *am,
                             .rmem = rmem,
                             .mem = mem};
    op.header.kind = AQI_AM_LONG_HEADER;
    if (am->nargs != 0) memcpy(op.args, am->args, am->nargs * sizeof(am->args[0]));
    /* A reply must not wait for request resources, as the put does: it is queued as a copy. */
    if (comp == NULL) {
        op.copy = malloc(am->nbytes);
        if (op.copy == NULL)
            return aqi_fail(AQ_ENOMEM, "transport", "no memory to queue a Long of %u bytes",
                            am->nbytes);
        memcpy(op.copy, am->payload, am->nbytes);
        op.local = op.copy;
        op.mem = NULL;
    } else {
        aqi_touch_read(op.local, op.len);
    }
    return fallback_submit(fb, &op, (am->flags & AQI_AM_IS_REPLY) != 0);
}

static aq_status fallback_gap_pull(struct aqi_tp *tp, struct aqi_peer *peer, uint64_t addr,
                                   void *dst, size_t len)
{
    (void)tp, (void)peer, (void)addr, (void)dst, (void)len;
    return AQ_ENOTSUP;
}

/* Without am_reserve, the payload is collected in a buffer and sent at commit. */
static aq_status fallback_gap_reserve(struct aqi_tp *tp, struct aqi_peer *peer, bool reply,
                                      unsigned nargs, size_t nbytes, struct aqi_slot *slot)
{
    (void)tp, (void)peer, (void)reply, (void)nargs;
    slot->payload = aligned_alloc(AQI_CACHE_LINE, aqi_round_up(nbytes + 1, AQI_CACHE_LINE));
    if (slot->payload == NULL)
        return aqi_fail(AQ_ENOMEM, "transport", "no memory for a payload of %zu bytes", nbytes);
    return AQ_OK;
}

/* AQ_AGAIN leaves the slot unchanged; the caller makes progress and commits again. */
static aq_status fallback_gap_commit(struct aqi_tp *tp, struct aqi_peer *peer,
                                     struct aqi_slot *slot, const struct aqi_am *am)
{
    aq_status st = AQ_OK;
    if (am != NULL) {
        struct aqi_am out = *am;
        out.payload = slot->payload;
        st = tp->ops.am_send(tp, peer, &out, NULL);
    }
    if (st != AQ_AGAIN) free(slot->payload);
    return st;
}

static aq_status fallback_gap_alloc(struct aqi_tp *tp, size_t len, size_t most, void **addr)
{
    (void)most;
    struct gap_memory *memory = malloc(sizeof(*memory));
    size_t size = aqi_round_up(len ? len : 1, aqi_page_size());
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (memory == NULL || at == MAP_FAILED) {
        if (at != MAP_FAILED) munmap(at, size);
        free(memory);
        return aqi_fail(AQ_ENOMEM, "transport",
                        "cannot map a segment of %zu bytes: lower the size or raise ulimit -v",
                        size);
    }
    *memory = (struct gap_memory){at, size, tp->fallback->memory};
    tp->fallback->memory = memory;
    *addr = at;
    return AQ_OK;
}

/* Nothing is registered: all memory is accessed by messages. */
static aq_status fallback_gap_reg(struct aqi_tp *tp, void *addr, size_t len, struct aqi_mem **mem)
{
    (void)tp, (void)addr, (void)len, (void)mem;
    return AQ_ENOTSUP;
}

static void fallback_gap_dereg(struct aqi_tp *tp, struct aqi_mem *mem)
{
    (void)tp, (void)mem;
}

static aq_status fallback_gap_map(struct aqi_tp *tp, struct aqi_peer *peer, const void *key,
                                  size_t key_len, uint64_t addr, size_t len, struct aqi_rmem **rmem)
{
    (void)tp, (void)key, (void)key_len, (void)addr, (void)len, (void)rmem;
    return aqi_fail(AQ_EPROTO, "transport",
                    "peer %u sent a memory key for %s, which has no memory keys", peer->id,
                    tp->ops.name);
}

static void fallback_gap_unmap(struct aqi_tp *tp, struct aqi_rmem *rmem)
{
    (void)tp, (void)rmem;
}

static aq_status fallback_gap_mem_fd(struct aqi_tp *tp, const void *addr, size_t len, int *fd,
                                     uint64_t *offset)
{
    (void)tp, (void)addr, (void)len, (void)fd, (void)offset;
    return AQ_ENOTSUP;
}

static void fallback_gap_disconnect(struct aqi_tp *tp, struct aqi_peer *peer)
{
    (void)tp, (void)peer;
}

static uint64_t fallback_gap_deadline(struct aqi_tp *tp)
{
    (void)tp;
    return AQI_NO_DEADLINE;
}

static aq_status fallback_gap_drain(struct aqi_tp *tp, uint64_t deadline)
{
    (void)tp, (void)deadline;
    return AQ_OK;
}

static int fallback_gap_wait_fd(struct aqi_tp *tp)
{
    (void)tp;
    return -1;
}

static aq_status fallback_gap_arm(struct aqi_tp *tp, bool on)
{
    (void)tp, (void)on;
    return AQ_OK;
}

static int fallback_gap_describe(struct aqi_tp *tp, char *buf, size_t len)
{
    return snprintf(buf, len, "%s: messages up to %zu bytes", tp->ops.name, tp->limits.max_medium);
}

/* --- putting it together --------------------------------------------------------------------- */

aq_status aqi_fallback_create(const struct aqi_tp_params *params, bool credits,
                              struct aqi_tp_params *inner, struct aqi_fallback **fallback)
{
    struct aqi_fallback *fb = calloc(1, sizeof(*fb));
    if (fb == NULL) goto no_memory;
    if (credits && aqi_credit_gate_create(params, &fb->gate) != AQ_OK) goto no_memory;
    fb->peers = calloc(params->size, sizeof(struct aqi_peer *));
    fb->side = calloc(params->size, sizeof(*fb->side));
    if (fb->peers == NULL || fb->side == NULL) goto no_memory;
    fb->params = *params;
    fb->up = params->hooks;
    aqi_pool_init(&fb->op_pool, sizeof(struct fallback_op), 32, params->threads);
    *inner = *params;
    inner->hooks.deliver = credits ? fallback_hook_deliver_credited : fallback_hook_deliver;
    inner->hooks.peer_lost = fallback_hook_peer_lost;
    inner->hooks.arg = fb;
    inner->hooks.by_messages = fallback_hook_by_messages;
    inner->hooks.messenger = fb;
    *fallback = fb;
    return AQ_OK;
no_memory:
    if (fb != NULL) {
        aqi_credit_gate_destroy(fb->gate);
        free(fb->peers);
        free(fb->side);
    }
    free(fb);
    return aqi_fail(AQ_ENOMEM, "transport", "no memory for %u peers", params->size);
}

void aqi_fallback_complete(struct aqi_fallback *fb, struct aqi_tp *tp)
{
    struct aqi_transport *ops = &tp->ops;
    if (fb->gate != NULL) aqi_credit_gate_complete(fb->gate, fb->peers, tp);
    fb->tp = tp;
    fb->own = *ops;
    tp->fallback = fb;
    /* Faults are timed in polls, so every poll must call progress. */
    if (tp->fault != NULL) {
        tp->watched = false;
        tp->moved = NULL;
    }
    ops->connect = fallback_wrap_connect;
    ops->progress = fallback_wrap_progress;
    ops->quiet = fallback_wrap_quiet;
#define FILL(slot, gap) ops->slot = ops->slot != NULL ? ops->slot : (gap)
    FILL(disconnect, fallback_gap_disconnect);
    FILL(next_deadline, fallback_gap_deadline);
    FILL(drain, fallback_gap_drain);
    FILL(am_reserve, fallback_gap_reserve);
    FILL(am_commit, fallback_gap_commit);
    ops->am_long = fallback_any_long;
    if (tp->straight_put == NULL || tp->fault != NULL) tp->straight_put = ops->put;
    if (tp->straight_get == NULL || tp->fault != NULL) tp->straight_get = ops->get;
    ops->put = fallback_any_put;
    ops->get = fallback_any_get;
    ops->put_rows = fallback_any_put_rows;
    ops->get_rows = fallback_any_get_rows;
    ops->fill = fallback_any_fill;
    ops->atomic = fallback_any_atomic;
    FILL(pull, fallback_gap_pull);
    FILL(mem_alloc, fallback_gap_alloc);
    FILL(mem_reg, fallback_gap_reg);
    FILL(mem_dereg, fallback_gap_dereg);
    FILL(mem_map, fallback_gap_map);
    FILL(mem_unmap, fallback_gap_unmap);
    FILL(mem_fd, fallback_gap_mem_fd);
    FILL(wait_fd, fallback_gap_wait_fd);
    FILL(arm, fallback_gap_arm);
    FILL(describe, fallback_gap_describe);
#undef FILL
}

void aqi_fallback_destroy(struct aqi_fallback *fb)
{
    for (uint32_t id = 0; id < fb->params.size; id++) {
        for (uint32_t i = 0; i < fb->side[id].op_count; i++)
            free(fb->side[id].ops[i]->copy);
        free(fb->side[id].ops);
    }
    aqi_pool_destroy(&fb->op_pool);
    for (size_t i = 0; i < AQI_COUNT_OF(fb->blocks); i++)
        free(fb->blocks[i]);
    while (fb->memory != NULL) {
        struct gap_memory *memory = fb->memory;
        fb->memory = memory->next;
        munmap(memory->addr, memory->len);
        free(memory);
    }
    fallback_wait(fb, 0 - fb->waiting);
    aqi_credit_gate_destroy(fb->gate);
    free(fb->peers);
    free(fb->side);
    free(fb);
}

bool aqi_fallback_waits(const struct aqi_fallback *fb)
{
    return atomic_load_explicit(&fb->waiting, memory_order_relaxed) != 0;
}

void aqi_fallback_peer_down(struct aqi_fallback *fb, uint32_t id)
{
    struct fallback_peer *side = &fb->side[id];
    atomic_store(&side->down, true);
    if (fb->peers[id] == NULL) return;
    fb->tp->ops.disconnect(fb->tp, fb->peers[id]);
    aqi_spin_lock_if(fb->params.threads, &side->lock);
    for (uint32_t i = 0; i < side->op_count; i++)
        if (side->ops[i]->kind != FB_OP_FREE) fallback_op_fail(fb, side->ops[i], AQ_EPEER);
    aqi_spin_unlock_if(fb->params.threads, &side->lock);
}
