/* One-sided operations: by load and store where the segment is mapped, else by the transport. */
#include "core/rma/rma.h"
#include "core/mem/mem.h"

#include "base/copy.h"

#include <string.h>

/* What kind it is, and so in which counters it counts. */
enum kind { PUT, GET, FILL };

/* Where these count: fills as puts. */
#define KIND_OF(kind)                                                                              \
    ((kind) == GET ? offsetof(struct core_set, get) : offsetof(struct core_set, put))

/* One that the transport carries. */
struct transfer {
    struct core_route *route;
    enum kind kind;
    uint64_t remote;
    void *local; /* the source of a put, the destination of a get */
    int byte;    /* of a fill */
    size_t len;
    unsigned flags;
    const char *call;
};

static aq_status rma_submit(const struct transfer *t, struct aqi_comp *comp)
{
    struct core_route *route = t->route;
    struct aqi_tp *tp = route->tp;
    const struct aqi_mem *mem = core_local_mem(tp, t->local, t->len);
    if (t->kind == PUT)
        return tp->ops.put(tp, route->peer, route->rmem, t->remote, t->local, t->len, mem, comp);
    if (t->kind == GET)
        return tp->ops.get(tp, route->peer, route->rmem, t->remote, t->local, t->len, mem, comp);
    return tp->ops.fill(tp, route->peer, route->rmem, t->remote, t->byte, t->len, comp);
}

/* Straight to the transport, where the memory there is registered with it; AQ_ENOTSUP: it is not,
 * or not taken so. */
static AQI_INLINE aq_status rma_submit_straight(const struct core_route *route, enum kind kind,
                                                uint64_t remote, void *local, size_t len,
                                                struct aqi_comp *comp)
{
    struct aqi_tp *tp = route->tp;
    if (kind == FILL || route->rmem == NULL) return AQ_ENOTSUP;
    if (kind == PUT && tp->straight_put != NULL)
        return tp->straight_put(tp, route->peer, route->rmem, remote, local, len,
                                len <= AQI_PUT_COPIED ? NULL /* it is copied */
                                                      : core_local_mem(tp, local, len),
                                comp);
    if (kind == GET && tp->straight_get != NULL)
        return tp->straight_get(tp, route->peer, route->rmem, remote, local, len,
                                core_local_mem(tp, local, len), comp);
    return AQ_ENOTSUP;
}

/* It went straight, or not: else wait for room unless told not to. */
static AQI_NOINLINE aq_status rma_go_on(const struct transfer *t, struct aqi_comp *comp,
                                        aq_status st)
{
    struct core_wait wait = {0};
    if (st == AQ_ENOTSUP) st = rma_submit(t, comp);
    while (core_retry(&st, &wait, t->route, false, t->flags))
        st = rma_submit(t, comp);
    if (st == AQ_OK) {
        if (t->flags & AQ_LOCAL_NOW) core_wait_zero(&comp->local);
        return AQ_OK;
    }
    if (t->kind == PUT) aqi_comp_local(comp);
    aqi_comp_remote(comp);
    return st == AQ_EPEER ? core_lost(t->route, t->call) : st;
}

/* Hand it to the transport, with the counters added. */
static aq_status rma_start(void *arg, struct aqi_comp *comp)
{
    const struct transfer *t = arg;
    if (t->kind == PUT) aqi_comp_add(comp, &comp->local, 1);
    aqi_comp_add(comp, &comp->remote, 1);
    aq_status st = rma_submit_straight(t->route, t->kind, t->remote, t->local, t->len, comp);
    if (AQI_LIKELY(st == AQ_OK && (t->flags & AQ_LOCAL_NOW) == 0)) return AQ_OK;
    return rma_go_on(t, comp, st);
}

aq_status core_start_run(struct core_route *route, bool get, uint64_t remote, void *local,
                         size_t len, unsigned flags, struct aqi_comp *comp, const char *call)
{
    struct transfer t = {.route = route,
                         .kind = get ? GET : PUT,
                         .remote = remote,
                         .local = local,
                         .len = len,
                         .flags = flags,
                         .call = call};
    return rma_start(&t, comp);
}

static AQI_NOINLINE aq_status rma_carry(enum core_mode mode, struct transfer *t, aq_event *event)
{
    return core_carry(mode, KIND_OF(t->kind), t->route, rma_start, t, event, t->call);
}

/* With an event of its own, which nobody else knows yet. */
static AQI_INLINE aq_status rma_carry_explicit(enum kind kind, struct core_thread *me,
                                               struct core_route *route, uint64_t remote,
                                               void *local, size_t len, unsigned flags,
                                               aq_event *event, const char *call)
{
    struct aqi_op *op = core_op_get(me);
    if (AQI_UNLIKELY(op == NULL)) return AQ_ENOMEM;
    struct aqi_comp *comp = core_kind_at(&op->set, KIND_OF(kind));
    if (kind == PUT) atomic_store_explicit(&comp->local, 1, memory_order_relaxed);
    atomic_store_explicit(&comp->remote, 1, memory_order_relaxed);
    aq_status st = rma_submit_straight(route, kind, remote, local, len, comp);
    if (AQI_UNLIKELY(st != AQ_OK || (flags & AQ_LOCAL_NOW) != 0)) {
        const struct transfer t = {.route = route,
                                   .kind = kind,
                                   .remote = remote,
                                   .local = local,
                                   .len = len,
                                   .flags = flags,
                                   .call = call};
        st = rma_go_on(&t, comp, st);
        if (st != AQ_OK) core_op_put(op);
    }
    if (AQI_LIKELY(st == AQ_OK)) *event = op;
    return st;
}

static inline void rma_copy(const struct core_route *route, enum kind kind, uint64_t remote,
                            void *local, int byte, size_t len)
{
    unsigned char *at = route->local + (remote - route->seg_addr);
    if (kind == GET) {
        atomic_thread_fence(memory_order_acquire);
        aqi_copy(local, at, len);
        return;
    }
    if (kind == PUT)
        aqi_copy(at, local, len);
    else
        memset(at, byte, len);
    /* Whoever learns of the put (message, barrier, flag) sees its bytes. */
    atomic_thread_fence(memory_order_release);
}

/* Its arguments are scalars, not a struct, so that they stay in registers where memory is mapped.
 */
static inline aq_status rma_transfer_now(enum kind kind, enum core_mode mode, aq_team *team,
                                         aq_rank rank, const void *there, const void *here,
                                         int byte, size_t len, unsigned flags, aq_event *event,
                                         const char *call)
{
    uint64_t remote = (uint64_t)(uintptr_t)there;
    void *local = (void *)(uintptr_t)here;
    struct core_thread *me = core_self();
    aq_status st = core_callable(me, call);
    if (AQI_UNLIKELY(st != AQ_OK)) return st;
    struct core_route *route = core_route_to(team, rank, call, &st);
    if (AQI_UNLIKELY(route == NULL)) return st;
    unsigned known = kind == PUT ? CORE_PUT_FLAGS : CORE_RMA_FLAGS;
    if (AQI_UNLIKELY((flags & ~known) != 0))
        return aqi_fail(AQ_EINVAL, "core", "%s: unknown flags %#x", call, flags & ~known);
    if (AQI_UNLIKELY(mode == EXPLICIT && event == NULL))
        return aqi_fail(AQ_EINVAL, "core", "%s: the place for the event is NULL", call);
    if (AQI_UNLIKELY(kind != FILL && local == NULL && len != 0))
        return aqi_fail(AQ_EINVAL, "core", "%s: %zu bytes of this process at NULL", call, len);
    if (AQI_UNLIKELY(flags & AQ_REMOTE_OFFSET)) remote += route->seg_addr;
    if (AQI_UNLIKELY(len != 0 && !core_in_segment(route, remote, len)))
        return core_out_of_segment(route, remote, len, call);
    struct aqi_counters *counters = aqi_counting();
    aqi_count_in(counters, kind == GET ? AQI_CTR_GET : AQI_CTR_PUT, 1);
    aqi_count_in(counters, kind == GET ? AQI_CTR_GET_BYTES : AQI_CTR_PUT_BYTES, len);
    if (AQI_UNLIKELY(route->local == NULL && len != 0)) {
        if (mode == EXPLICIT && kind != FILL)
            return rma_carry_explicit(kind, me, route, remote, local, len, flags, event, call);
        struct transfer t = {.route = route,
                             .kind = kind,
                             .remote = remote,
                             .local = local,
                             .byte = byte,
                             .len = len,
                             .flags = flags,
                             .call = call};
        return rma_carry(mode, &t, event);
    }
    if (len != 0) rma_copy(route, kind, remote, local, byte, len);
    if (mode == EXPLICIT) *event = AQ_EVENT_DONE;
    if (mode == BLOCKING) core_done_directly(me);
    return AQ_OK;
}

static AQI_COLD aq_status rma_transfer_traced(enum kind kind, enum core_mode mode, aq_team *team,
                                              aq_rank rank, const void *there, const void *here,
                                              int byte, size_t len, unsigned flags, aq_event *event,
                                              const char *call)
{
    uint64_t begun = aqi_trace_begin(AQI_TRACE_RMA);
    aq_status st =
        rma_transfer_now(kind, mode, team, rank, there, here, byte, len, flags, event, call);
    aqi_trace_end(AQI_TRACE_RMA, call, begun, rank, len);
    return st;
}

static inline aq_status rma_transfer(enum kind kind, enum core_mode mode, aq_team *team,
                                     aq_rank rank, const void *there, const void *here, int byte,
                                     size_t len, unsigned flags, aq_event *event, const char *call)
{
    if (aqi_tracing(AQI_TRACE_RMA))
        return rma_transfer_traced(kind, mode, team, rank, there, here, byte, len, flags, event,
                                   call);
    return rma_transfer_now(kind, mode, team, rank, there, here, byte, len, flags, event, call);
}

/* --- values: their bytes lie on the stack, for a put this small is copied before it returns -- */

static inline aq_status rma_put_value(enum core_mode mode, aq_team *team, aq_rank rank, void *dst,
                                      uint64_t value, size_t len, unsigned flags, aq_event *ev,
                                      const char *call)
{
    if (AQI_UNLIKELY(len < 1 || len > AQI_PUT_COPIED))
        return aqi_fail(AQ_ESIZE, "core", "%s: a value of %zu bytes; 1 to 8 are legal", call, len);
    const char *bytes = (const char *)&value;
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) bytes += sizeof(value) - len;
    return rma_transfer(PUT, mode, team, rank, dst, bytes, 0, len, flags, ev, call);
}

aq_status aq_get_value(aq_team *team, aq_rank rank, const void *src, size_t len, unsigned flags,
                       uint64_t *value)
{
    uint64_t bytes = 0;
    if (len < 1 || len > sizeof(bytes) || value == NULL)
        return aqi_fail(value == NULL ? AQ_EINVAL : AQ_ESIZE, "core",
                        "aq_get_value: a value of %zu bytes; 1 to 8 and a place for it are legal",
                        len);
    char *at = (char *)&bytes;
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) at += sizeof(bytes) - len;
    aq_status st =
        rma_transfer(GET, BLOCKING, team, rank, src, at, 0, len, flags, NULL, "aq_get_value");
    if (st == AQ_OK) *value = bytes;
    return st;
}

/* --- the calls ------------------------------------------------------------------------------- */

#define WAY(mode, ev, call, flags, kind, ...)                                                      \
    rma_transfer(kind, mode, team, rank, __VA_ARGS__, flags, ev, call)
#define VALUE_WAY(mode, ev, call, flags, ...)                                                      \
    rma_put_value(mode, team, rank, __VA_ARGS__, flags, ev, call)

CORE_FORMS(put, WAY,
           CORE_PARAMS(aq_team *team, aq_rank rank, void *dst, const void *src, size_t len), PUT,
           dst, src, 0, len)
CORE_FORMS(get, WAY,
           CORE_PARAMS(aq_team *team, void *dst, aq_rank rank, const void *src, size_t len), GET,
           src, dst, 0, len)
CORE_FORMS(memset, WAY, CORE_PARAMS(aq_team *team, aq_rank rank, void *dst, int byte, size_t len),
           FILL, dst, NULL, byte, len)
CORE_FORMS(put_value, VALUE_WAY,
           CORE_PARAMS(aq_team *team, aq_rank rank, void *dst, uint64_t value, size_t len), dst,
           value, len)
