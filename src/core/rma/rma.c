/* One-sided operations: by load and store where the segment is mapped, else by the transport. */
#include "core/rma/rma.h"
#include "core/mem/mem.h"

#include "base/copy.h"

#include <string.h>

/* The kind of a transfer, which determines its counters. */
enum kind { PUT, GET, FILL };

/* The counters of a kind: fills count as puts. */
#define KIND_OF(kind)                                                                              \
    ((kind) == GET ? offsetof(struct core_set, get) : offsetof(struct core_set, put))

/* A transfer carried by the transport. */
struct transfer {
    struct core_route *route;
    uint64_t remote;
    void *local; /* the source of a put, the destination of a get */
    size_t len;
    const char *call;
    enum kind kind;
    int byte; /* fill only */
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

/*
 * Submit directly to the transport if the remote memory is registered with it. AQ_ENOTSUP: not
 * registered, not supported, or the registration of local memory is not found without a call.
 */
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

/*
 * Continue after a direct attempt: submit if unsupported, and wait for room unless flags forbid it.
 */
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

/* Hand over a transfer that is already counted in `comp`; `kind` is t->kind, as a constant. */
static AQI_INLINE aq_status rma_hand_over(enum kind kind, const struct transfer *t,
                                          struct aqi_comp *comp)
{
    const struct transfer now = *t;
    AQI_KEEP_IN_MEMORY(*t);
    aq_status st = rma_submit_straight(now.route, kind, now.remote, now.local, now.len, comp);
    if (AQI_LIKELY(st == AQ_OK && (now.flags & AQ_LOCAL_NOW) == 0)) return AQ_OK;
    return rma_go_on(t, comp, st);
}

/* Start a transfer that is counted with other operations. */
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
    core_wait_comp(&comp); /* even after a failure: a part may be in flight */
    if (AQI_LIKELY(st == AQ_OK && comp.status == AQ_OK)) return AQ_OK;
    return st != AQ_OK ? st : core_failed(t->route, (aq_status)comp.status, t->call);
}

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

/* Any transfer, with all checks; finds the route itself. */
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
        return aqi_fail(AQ_EINVAL, "core", "%s: the event is NULL", t->call);
    if (t->kind != FILL && t->local == NULL && t->len != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: %zu bytes of this process, but the address is NULL",
                        t->call, t->len);
    if (t->flags & AQ_REMOTE_OFFSET) t->remote += t->route->seg_addr;
    if (t->len != 0 && !core_in_segment(t->route, t->remote, t->len))
        return core_out_of_segment(t->route, t->remote, t->len, t->call);
    if (t->route->local == NULL && t->len != 0) {
        st = rma_carry(t->kind, mode, t, event);
        if (st == AQ_OK) core_count_run(aqi_counting(), t->kind == GET, t->len);
        return st;
    }
    core_count_run(aqi_counting(), t->kind == GET, t->len);
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

/* --- the common case: no flags, and no errors ------------------------------------------------- */

/*
 * The rest of the common case if it is more than a few moves: tail-called, so that the caller need
 * not save registers.
 */
#define USUAL(KIND, MODE)                                                                          \
    static AQI_NOINLINE aq_status rma_near_##KIND##_##MODE(                                        \
        struct core_route *route, aq_event *event, uint64_t remote, void *local, size_t len)       \
    {                                                                                              \
        if (len <= AQI_COPY_FEW) __builtin_unreachable(); /* saves checks for single words */      \
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

typedef aq_status rma_near_fn(struct core_route *route, aq_event *event, uint64_t remote,
                              void *local, size_t len);
typedef aq_status rma_far_fn(struct core_route *route, aq_event *event, uint64_t remote,
                             void *local, size_t len, const char *call);
static const struct {
    rma_near_fn *near;
    rma_far_fn *far;
} rma_usual[2][3] = {[PUT] = {[BLOCKING] = {rma_near_PUT_BLOCKING, rma_far_PUT_BLOCKING},
                              [EXPLICIT] = {rma_near_PUT_EXPLICIT, rma_far_PUT_EXPLICIT},
                              [IMPLICIT] = {rma_near_PUT_IMPLICIT, rma_far_PUT_IMPLICIT}},
                     [GET] = {[BLOCKING] = {rma_near_GET_BLOCKING, rma_far_GET_BLOCKING},
                              [EXPLICIT] = {rma_near_GET_EXPLICIT, rma_far_GET_EXPLICIT},
                              [IMPLICIT] = {rma_near_GET_IMPLICIT, rma_far_GET_IMPLICIT}}};

/* A transfer whose arguments are valid, to the peer at the end of the route. */
static AQI_INLINE aq_status rma_usually(enum kind kind, enum core_mode mode,
                                        struct core_route *route, const void *there,
                                        const void *here, size_t len, aq_event *event,
                                        const char *call)
{
    uint64_t remote = (uint64_t)(uintptr_t)there;
    void *local = (void *)(uintptr_t)here;
    core_count_run(aqi_counters_mine, kind == GET, len);
    if (route->local == NULL)
        return rma_usual[kind][mode].far(route, event, remote, local, len, call);
    if (len > AQI_COPY_FEW) return rma_usual[kind][mode].near(route, event, remote, local, len);
    core_copy_few(route, kind == GET, remote, local, len);
    if (mode == EXPLICIT) *event = AQ_EVENT_DONE;
    return mode == BLOCKING ? core_direct_end(core_thread_mine) : AQ_OK;
}

static AQI_INLINE aq_status rma_transfer(enum kind kind, enum core_mode mode, aq_team *team,
                                         aq_rank rank, const void *there, const void *here,
                                         size_t len, unsigned flags, aq_event *event,
                                         const char *call)
{
    struct core_route *route =
        core_usual_route(team, rank, (uint64_t)(uintptr_t)there, here, len, flags);
    if (AQI_UNLIKELY(route == NULL || (mode == EXPLICIT && event == NULL)))
        return rma_transfer_any(kind, mode, team, rank, there, here, 0, len, flags, event, call);
    return rma_usually(kind, mode, route, there, here, len, event, call);
}

/* --- values: in a buffer on the stack, since a put this small is copied before it returns ----- */

static inline aq_status rma_put_value(enum core_mode mode, aq_team *team, aq_rank rank, void *dst,
                                      uint64_t value, size_t len, unsigned flags, aq_event *ev,
                                      const char *call)
{
    if (AQI_UNLIKELY(len < 1 || len > AQI_PUT_COPIED))
        return aqi_fail(AQ_ESIZE, "core", "%s: the size is %zu; it must be 1 to 8", call, len);
    const char *bytes = (const char *)&value;
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) bytes += sizeof(value) - len;
    return rma_transfer(PUT, mode, team, rank, dst, bytes, len, flags, ev, call);
}

aq_status aq_get_value(aq_team *team, aq_rank rank, const void *src, size_t len, unsigned flags,
                       uint64_t *value)
{
    uint64_t bytes = 0;
    if (len < 1 || len > sizeof(bytes) || value == NULL)
        return aqi_fail(value == NULL ? AQ_EINVAL : AQ_ESIZE, "core",
                        "aq_get_value: the size is %zu; it must be 1 to 8, and the pointer to the "
                        "value not NULL",
                        len);
    char *at = (char *)&bytes;
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) at += sizeof(bytes) - len;
    aq_status st =
        rma_transfer(GET, BLOCKING, team, rank, src, at, len, flags, NULL, "aq_get_value");
    if (st == AQ_OK) *value = bytes;
    return st;
}

/* --- the calls ------------------------------------------------------------------------------- */

/* A form of a put or get. The general path is tail-called, with the same parameters. */
#define FORM(NAME, MODE, EV, PARAMS, VALUES, KIND, THERE, HERE)                                    \
    static AQI_NOINLINE aq_status rma_any_##NAME PARAMS                                            \
    {                                                                                              \
        return rma_transfer_any(KIND, MODE, team, rank, THERE, HERE, 0, len, flags, EV,            \
                                "aq_" #NAME);                                                      \
    }                                                                                              \
    aq_status aq_##NAME PARAMS                                                                     \
    {                                                                                              \
        struct core_route *route =                                                                 \
            core_usual_route(team, rank, (uint64_t)(uintptr_t)(THERE), HERE, len, flags);          \
        if (AQI_UNLIKELY(route == NULL || (MODE == EXPLICIT && EV == NULL)))                       \
            return rma_any_##NAME VALUES;                                                          \
        return rma_usually(KIND, MODE, route, THERE, HERE, len, EV, "aq_" #NAME);                  \
    }
#define FILL_WAY(mode, ev, call, flags, ...)                                                       \
    rma_transfer_any(FILL, mode, team, rank, __VA_ARGS__, flags, ev, call)
#define VALUE_WAY(mode, ev, call, flags, ...)                                                      \
    rma_put_value(mode, team, rank, __VA_ARGS__, flags, ev, call)

CORE_FORMS_BY(FORM, put, (aq_team * team, aq_rank rank, void *dst, const void *src, size_t len),
              (team, rank, dst, src, len), PUT, dst, src)
CORE_FORMS_BY(FORM, get, (aq_team * team, aq_rank rank, void *dst, const void *src, size_t len),
              (team, rank, dst, src, len), GET, src, dst)
CORE_FORMS(memset, FILL_WAY,
           CORE_PARAMS(aq_team *team, aq_rank rank, void *dst, int byte, size_t len), dst, NULL,
           byte, len)
CORE_FORMS(put_value, VALUE_WAY,
           CORE_PARAMS(aq_team *team, aq_rank rank, void *dst, uint64_t value, size_t len), dst,
           value, len)
