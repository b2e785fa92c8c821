/* One-sided operations: by load and store where the segment is mapped, else by the transport. */
#include "core/rma/rma.h"
#include "core/mem/mem.h"

#include "base/copy.h"

#include <string.h>

/* The kind of a transfer, and so the counters that it counts in. */
enum kind { PUT, GET, FILL };

/* Where these count: fills as puts. */
#define KIND_OF(kind)                                                                              \
    ((kind) == GET ? offsetof(struct core_set, get) : offsetof(struct core_set, put))

/* One that the transport carries. */
struct transfer {
    struct core_route *route;
    uint64_t remote;
    void *local; /* the source of a put, the destination of a get */
    size_t len;
    const char *call;
    enum kind kind;
    int byte; /* of a fill */
    unsigned flags;
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
 * or not taken so, or that of this process has to be looked for. */
static AQI_INLINE aq_status rma_submit_straight(const struct core_route *route, enum kind kind,
                                                uint64_t remote, void *local, size_t len,
                                                struct aqi_comp *comp)
{
    struct aqi_tp *tp = route->tp;
    const struct aqi_mem *mem = NULL;
    bool copied = kind == PUT && len <= AQI_PUT_COPIED;
    if (kind == FILL || route->rmem == NULL ||
        (!copied && !core_local_mem_at_once(tp, local, len, &mem)))
        return AQ_ENOTSUP;
    if (kind == PUT && tp->straight_put != NULL)
        return tp->straight_put(tp, route->peer, route->rmem, remote, local, len, mem, comp);
    if (kind == GET && tp->straight_get != NULL)
        return tp->straight_get(tp, route->peer, route->rmem, remote, local, len, mem, comp);
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

/* It is counted in `comp`; `kind` is that of `t`, as a constant. */
static AQI_INLINE aq_status rma_hand_over(enum kind kind, const struct transfer *t,
                                          struct aqi_comp *comp)
{
    const struct transfer now = *t;
    AQI_KEEP_IN_MEMORY(*t);
    aq_status st = rma_submit_straight(now.route, kind, now.remote, now.local, now.len, comp);
    if (AQI_LIKELY(st == AQ_OK && (now.flags & AQ_LOCAL_NOW) == 0)) return AQ_OK;
    return rma_go_on(t, comp, st);
}

/* Count it in what others count in, too. */
static AQI_INLINE aq_status rma_start(enum kind kind, const struct transfer *t,
                                      struct aqi_comp *comp)
{
    if (kind == PUT) aqi_comp_add(comp, &comp->local, 1);
    aqi_comp_add(comp, &comp->remote, 1);
    return rma_hand_over(kind, t, comp);
}

aq_status core_start_run(struct core_route *route, bool get, uint64_t remote, void *local,
                         size_t len, unsigned flags, struct aqi_comp *comp, const char *call)
{
    const struct transfer t = {.route = route,
                               .kind = get ? GET : PUT,
                               .remote = remote,
                               .local = local,
                               .len = len,
                               .flags = flags,
                               .call = call};
    return rma_start(t.kind, &t, comp);
}

static AQI_INLINE aq_status rma_carry_explicit(enum kind kind, const struct transfer *t,
                                               aq_event *event)
{
    struct aqi_op *op = core_op_get(core_thread_mine);
    if (AQI_UNLIKELY(op == NULL)) return AQ_ENOMEM;
    struct aqi_comp *comp = core_kind_at(&op->set, KIND_OF(kind));
    if (kind == PUT) atomic_store_explicit(&comp->local, 1, memory_order_relaxed);
    atomic_store_explicit(&comp->remote, 1, memory_order_relaxed);
    aq_status st = rma_hand_over(kind, t, comp);
    if (AQI_LIKELY(st == AQ_OK))
        *event = op;
    else
        core_op_put(op);
    return st;
}

static AQI_INLINE aq_status rma_carry_and_wait(enum kind kind, const struct transfer *t)
{
    struct aqi_comp comp = {.local = kind == PUT, .remote = 1, .shared = core.multi};
    aq_status st = rma_hand_over(kind, t, &comp);
    core_wait_comp(&comp); /* also after a failure: a part of it may be under way */
    if (AQI_LIKELY(st == AQ_OK && comp.status == AQ_OK)) return AQ_OK;
    return st != AQ_OK ? st : core_failed(t->route, (aq_status)comp.status, t->call);
}

/* Transfers that the transport carries. */
static AQI_INLINE aq_status rma_carry(enum kind kind, enum core_mode mode, const struct transfer *t,
                                      aq_event *event)
{
    if (mode == EXPLICIT) return rma_carry_explicit(kind, t, event);
    if (mode == BLOCKING) return rma_carry_and_wait(kind, t);
    struct aqi_comp *comp = core_kind_at(core_implicit(core_thread_mine), KIND_OF(kind));
    return rma_start(kind, t, comp);
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
    /* A thread that learns of the put (message, barrier, flag) sees its bytes. */
    atomic_thread_fence(memory_order_release);
}

static inline void rma_count(struct aqi_counters *counters, enum kind kind, size_t len)
{
    aqi_count_in(counters, kind == GET ? AQI_CTR_GET : AQI_CTR_PUT, 1);
    aqi_count_in(counters, kind == GET ? AQI_CTR_GET_BYTES : AQI_CTR_PUT_BYTES, len);
}

/* Any, with all that may be wrong with it; but for its route. */
static aq_status rma_transfer_now(enum core_mode mode, aq_team *team, aq_rank rank,
                                  struct transfer *t, aq_event *event)
{
    struct core_thread *me = core_self();
    aq_status st = core_callable(me, t->call);
    if (st != AQ_OK) return st;
    t->route = core_route_to(team, rank, t->call, &st);
    if (t->route == NULL) return st;
    unsigned known = t->kind == PUT ? CORE_PUT_FLAGS : CORE_RMA_FLAGS;
    if ((t->flags & ~known) != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: unknown flags %#x", t->call, t->flags & ~known);
    if (mode == EXPLICIT && event == NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: the place for the event is NULL", t->call);
    if (t->kind != FILL && t->local == NULL && t->len != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: %zu bytes of this process at NULL", t->call,
                        t->len);
    if (t->flags & AQ_REMOTE_OFFSET) t->remote += t->route->seg_addr;
    if (t->len != 0 && !core_in_segment(t->route, t->remote, t->len))
        return core_out_of_segment(t->route, t->remote, t->len, t->call);
    if (t->route->local == NULL && t->len != 0) {
        st = rma_carry(t->kind, mode, t, event);
        if (st == AQ_OK) rma_count(aqi_counting(), t->kind, t->len);
        return st;
    }
    rma_count(aqi_counting(), t->kind, t->len);
    if (t->len != 0) rma_copy(t->route, t->kind, t->remote, t->local, t->byte, t->len);
    if (mode == EXPLICIT) *event = AQ_EVENT_DONE;
    if (mode == BLOCKING) core_done_directly(me);
    return AQ_OK;
}

static AQI_NOINLINE aq_status rma_transfer_any(enum kind kind, enum core_mode mode, aq_team *team,
                                               aq_rank rank, const void *there, const void *here,
                                               int byte, size_t len, unsigned flags,
                                               aq_event *event, const char *call)
{
    struct transfer t = {.kind = kind,
                         .remote = (uint64_t)(uintptr_t)there,
                         .local = (void *)(uintptr_t)here,
                         .byte = byte,
                         .len = len,
                         .flags = flags,
                         .call = call};
    uint64_t begun = aqi_trace_begin(AQI_TRACE_RMA);
    aq_status st = rma_transfer_now(mode, team, rank, &t, event);
    aqi_trace_end(AQI_TRACE_RMA, call, begun, rank, len);
    return st;
}

/* --- the usual one: without flags, and nothing is wrong with it ------------------------------ */

/* Where it goes. NULL: what is not usual about it is found the general way. Without a call, so that
 * the caller has nothing to save. */
static AQI_INLINE struct core_route *rma_usual_route(const aq_team *team, aq_rank rank,
                                                     uint64_t remote, const void *local, size_t len,
                                                     unsigned flags)
{
    if (AQI_UNLIKELY(flags != 0 || aqi_tracing(AQI_TRACE_RMA) || !core_may_call(core_thread_mine) ||
                     team == NULL || rank >= team->size || local == NULL))
        return NULL;
    struct core_route *route = core_team_route(team, rank);
    return AQI_LIKELY(core_in_segment(route, remote, len) && len != 0) ? route : NULL;
}

/* The rest of it, where memory is mapped and where it is not: functions of their own, which are
 * jumped to. */
typedef aq_status rma_usual_fn(struct core_route *route, aq_event *event, uint64_t remote,
                               void *local, size_t len, const char *call);
#define USUAL(KIND, MODE)                                                                          \
    static AQI_NOINLINE aq_status rma_near_##KIND##_##MODE(                                        \
        struct core_route *route, aq_event *event, uint64_t remote, void *local, size_t len,       \
        const char *call)                                                                          \
    {                                                                                              \
        (void)call;                                                                                \
        rma_copy(route, KIND, remote, local, 0, len);                                              \
        if (MODE == EXPLICIT) *event = AQ_EVENT_DONE;                                              \
        if (MODE == BLOCKING) core_done_directly(core_thread_mine);                                \
        return AQ_OK;                                                                              \
    }                                                                                              \
    static AQI_NOINLINE aq_status rma_far_##KIND##_##MODE(                                         \
        struct core_route *route, aq_event *event, uint64_t remote, void *local, size_t len,       \
        const char *call)                                                                          \
    {                                                                                              \
        const struct transfer t = {.route = route,                                                 \
                                   .kind = KIND,                                                   \
                                   .remote = remote,                                               \
                                   .local = local,                                                 \
                                   .len = len,                                                     \
                                   .call = call};                                                  \
        return rma_carry(KIND, MODE, &t, event);                                                   \
    }
USUAL(PUT, BLOCKING)
USUAL(PUT, EXPLICIT)
USUAL(PUT, IMPLICIT)
USUAL(GET, BLOCKING)
USUAL(GET, EXPLICIT)
USUAL(GET, IMPLICIT)

static rma_usual_fn *const rma_usual[2][3][2] = {
    [PUT] = {[BLOCKING] = {rma_near_PUT_BLOCKING, rma_far_PUT_BLOCKING},
             [EXPLICIT] = {rma_near_PUT_EXPLICIT, rma_far_PUT_EXPLICIT},
             [IMPLICIT] = {rma_near_PUT_IMPLICIT, rma_far_PUT_IMPLICIT}},
    [GET] = {[BLOCKING] = {rma_near_GET_BLOCKING, rma_far_GET_BLOCKING},
             [EXPLICIT] = {rma_near_GET_EXPLICIT, rma_far_GET_EXPLICIT},
             [IMPLICIT] = {rma_near_GET_IMPLICIT, rma_far_GET_IMPLICIT}}};

static AQI_INLINE aq_status rma_transfer(enum kind kind, enum core_mode mode, aq_team *team,
                                         aq_rank rank, const void *there, const void *here,
                                         int byte, size_t len, unsigned flags, aq_event *event,
                                         const char *call)
{
    uint64_t remote = (uint64_t)(uintptr_t)there;
    void *local = (void *)(uintptr_t)here;
    struct aqi_counters *counters = aqi_counters_mine;
    struct core_route *route = NULL;
    if (kind != FILL) route = rma_usual_route(team, rank, remote, local, len, flags);
    if (AQI_UNLIKELY(route == NULL || counters == NULL || (mode == EXPLICIT && event == NULL)))
        return rma_transfer_any(kind, mode, team, rank, there, here, byte, len, flags, event, call);
    rma_count(counters, kind, len);
    rma_usual_fn *const *rest = rma_usual[kind == GET ? GET : PUT][mode];
    return route->local != NULL ? rest[0](route, event, remote, local, len, call)
                                : rest[1](route, event, remote, local, len, call);
}

/* --- values: their bytes lie on the stack, for a put this small is copied before it returns -- */

static inline aq_status rma_put_value(enum core_mode mode, aq_team *team, aq_rank rank, void *dst,
                                      uint64_t value, size_t len, unsigned flags, aq_event *ev,
                                      const char *call)
{
    if (AQI_UNLIKELY(len < 1 || len > AQI_PUT_COPIED))
        return aqi_fail(AQ_ESIZE, "core", "%s: a value of %zu bytes; must be 1 to 8", call, len);
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
                        "aq_get_value: a value of %zu bytes; must be 1 to 8, with a place for it",
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
