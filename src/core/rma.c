/* One-sided operations: by load and store where the segment is mapped, else by the transport. */
#include "core/impl.h"

#include <string.h>

/* How an operation completes. */
enum mode { BLOCKING, EXPLICIT, IMPLICIT };

/* What kind it is, and so in which counters it counts. */
enum kind { PUT, GET, FILL };

struct transfer {
    enum kind kind;
    enum mode mode;
    uint64_t remote;
    void *local; /* the source of a put, the destination of a get */
    int byte;    /* of a fill */
    size_t len;
    unsigned flags;
    aq_event *event;
    const char *call;
};

/* Find the route and check the range. NULL: `*st` says why. */
static inline struct core_route *begin(struct transfer *t, aq_team *team, aq_rank rank,
                                       aq_status *st)
{
    *st = core_callable(core_self(), t->call);
    if (AQI_UNLIKELY(*st != AQ_OK)) return NULL;
    struct core_route *route = core_route_to(team, rank, t->call, st);
    if (AQI_UNLIKELY(route == NULL)) return NULL;
    if (AQI_UNLIKELY((t->flags & ~CORE_RMA_FLAGS) != 0 ||
                     (t->mode == EXPLICIT && t->event == NULL) ||
                     (t->local == NULL && t->len != 0 && t->kind != FILL))) {
        *st = aqi_fail(AQ_EINVAL, "core", "%s: unknown flags, or a pointer is NULL", t->call);
        return NULL;
    }
    if (AQI_UNLIKELY(t->flags & AQ_REMOTE_OFFSET)) t->remote += route->seg_addr;
    if (AQI_UNLIKELY(t->len != 0 && !core_in_segment(route, t->remote, t->len))) {
        *st = core_out_of_segment(route, t->remote, t->len, t->call);
        return NULL;
    }
    return route;
}

static AQI_COLD aq_status lost(const struct core_route *route, const struct transfer *t)
{
    return aqi_fail(AQ_EPEER, "core", "%s: rank %u is dead or unreachable", t->call,
                    (unsigned)route->rank);
}

static aq_status submit(struct core_route *route, const struct transfer *t, struct aqi_comp *comp)
{
    struct aqi_tp *tp = route->tp;
    if (t->kind == PUT)
        return tp->ops.put(tp, route->peer, route->rmem, t->remote, t->local, t->len, comp);
    if (t->kind == GET)
        return tp->ops.get(tp, route->peer, route->rmem, t->remote, t->local, t->len, comp);
    return tp->ops.fill(tp, route->peer, route->rmem, t->remote, t->byte, t->len, comp);
}

/* Hand it to the transport, with the counters added, waiting for room unless told not to. */
static aq_status start(struct core_route *route, const struct transfer *t, struct aqi_comp *comp)
{
    struct core_wait wait = {0};
    uint32_t local = t->kind == PUT ? 1 : 0;
    aq_status st;
    if (local) aqi_comp_add(comp, &comp->local, 1);
    aqi_comp_add(comp, &comp->remote, 1);
    while ((st = submit(route, t, comp)) == AQ_AGAIN) {
        if (t->flags & AQ_IMMEDIATE) break;
        if (atomic_load_explicit(&route->lost, memory_order_relaxed)) {
            st = AQ_EPEER;
            break;
        }
        if (core_progress() == 0) core_wait_round(&wait, 1);
    }
    if (st == AQ_OK) return AQ_OK;
    if (local) aqi_comp_local(comp);
    aqi_comp_remote(comp);
    return st == AQ_EPEER ? lost(route, t) : st;
}

aq_status core_start_run(struct core_route *route, bool get, uint64_t remote, void *local,
                         size_t len, unsigned flags, struct aqi_comp *comp, const char *call)
{
    struct transfer t = {.kind = get ? GET : PUT,
                         .remote = remote,
                         .local = local,
                         .len = len,
                         .flags = flags,
                         .call = call};
    return start(route, &t, comp);
}

static aq_status carried(struct core_route *route, const struct transfer *t)
{
    struct core_thread *me = core_self();
    struct aqi_op *op;
    aq_status st;
    if (t->mode == IMPLICIT) {
        struct core_set *set = core_implicit(me);
        return start(route, t, t->kind == GET ? &set->get : &set->put);
    }
    if (t->mode == BLOCKING) {
        struct aqi_comp comp = {.shared = core.multi};
        st = start(route, t, &comp);
        if (st != AQ_OK) return st;
        core_wait_zero(&comp.remote);
        core_wait_zero(&comp.local);
        if (comp.status == AQ_EPEER) return lost(route, t);
        return comp.status == AQ_OK
                   ? AQ_OK
                   : aqi_fail((aq_status)comp.status, "core", "%s: failed at the target: %s",
                              t->call, aq_status_text((aq_status)comp.status));
    }
    op = core_op_get(me);
    if (op == NULL) return AQ_ENOMEM;
    st = start(route, t, t->kind == GET ? &op->set.get : &op->set.put);
    if (st != AQ_OK)
        core_op_put(op);
    else
        *t->event = op;
    return st;
}

static inline void copy(const struct core_route *route, const struct transfer *t)
{
    unsigned char *at = route->local + (t->remote - route->seg_addr);
    if (t->kind == GET) {
        atomic_thread_fence(memory_order_acquire);
        memcpy(t->local, at, t->len);
        return;
    }
    if (t->kind == PUT)
        memcpy(at, t->local, t->len);
    else
        memset(at, t->byte, t->len);
    /* Whoever learns of the put (message, barrier, flag) sees its bytes. */
    atomic_thread_fence(memory_order_release);
}

static inline aq_status transfer(aq_team *team, aq_rank rank, struct transfer *t)
{
    aq_status st;
    struct core_route *route = begin(t, team, rank, &st);
    if (AQI_UNLIKELY(route == NULL)) return st;
    aqi_count(t->kind == GET ? AQI_CTR_GET : AQI_CTR_PUT, 1);
    aqi_count(t->kind == GET ? AQI_CTR_GET_BYTES : AQI_CTR_PUT_BYTES, t->len);
    if (AQI_UNLIKELY(route->local == NULL && t->len != 0)) return carried(route, t);
    if (t->len != 0) copy(route, t);
    if (t->mode == EXPLICIT) *t->event = AQ_EVENT_DONE;
    if (t->mode == BLOCKING) core_done_directly(core_self());
    return AQ_OK;
}

/* --- puts and gets --------------------------------------------------------------------------- */

static inline aq_status put(enum mode mode, aq_team *team, aq_rank rank, void *dst, const void *src,
                            size_t len, unsigned flags, aq_event *ev, const char *call)
{
    struct transfer t = {.kind = PUT,
                         .mode = mode,
                         .remote = (uint64_t)(uintptr_t)dst,
                         .local = (void *)(uintptr_t)src,
                         .len = len,
                         .flags = flags,
                         .event = ev,
                         .call = call};
    return transfer(team, rank, &t);
}

static inline aq_status get(enum mode mode, aq_team *team, void *dst, aq_rank rank, const void *src,
                            size_t len, unsigned flags, aq_event *ev, const char *call)
{
    struct transfer t = {.kind = GET,
                         .mode = mode,
                         .remote = (uint64_t)(uintptr_t)src,
                         .local = dst,
                         .len = len,
                         .flags = flags,
                         .event = ev,
                         .call = call};
    return transfer(team, rank, &t);
}

aq_status aq_put(aq_team *team, aq_rank rank, void *dst, const void *src, size_t len)
{
    return put(BLOCKING, team, rank, dst, src, len, 0, NULL, "aq_put");
}

aq_status aq_put_nb(aq_team *team, aq_rank rank, void *dst, const void *src, size_t len,
                    unsigned flags, aq_event *ev)
{
    return put(EXPLICIT, team, rank, dst, src, len, flags, ev, "aq_put_nb");
}

aq_status aq_put_nbi(aq_team *team, aq_rank rank, void *dst, const void *src, size_t len,
                     unsigned flags)
{
    return put(IMPLICIT, team, rank, dst, src, len, flags, NULL, "aq_put_nbi");
}

aq_status aq_get(aq_team *team, void *dst, aq_rank rank, const void *src, size_t len)
{
    return get(BLOCKING, team, dst, rank, src, len, 0, NULL, "aq_get");
}

aq_status aq_get_nb(aq_team *team, void *dst, aq_rank rank, const void *src, size_t len,
                    unsigned flags, aq_event *ev)
{
    return get(EXPLICIT, team, dst, rank, src, len, flags, ev, "aq_get_nb");
}

aq_status aq_get_nbi(aq_team *team, void *dst, aq_rank rank, const void *src, size_t len,
                     unsigned flags)
{
    return get(IMPLICIT, team, dst, rank, src, len, flags, NULL, "aq_get_nbi");
}

/* --- values: their bytes lie on the stack, for a put this small is copied before it returns ----
 */

static inline aq_status put_value(enum mode mode, aq_team *team, aq_rank rank, void *dst,
                                  uint64_t value, size_t len, unsigned flags, aq_event *ev,
                                  const char *call)
{
    if (AQI_UNLIKELY(len < 1 || len > AQI_PUT_COPIED))
        return aqi_fail(AQ_ESIZE, "core", "%s: a value of %zu bytes; 1 to 8 are legal", call, len);
    const char *bytes = (const char *)&value;
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) bytes += sizeof(value) - len;
    return put(mode, team, rank, dst, bytes, len, flags, ev, call);
}

aq_status aq_put_value(aq_team *team, aq_rank rank, void *dst, uint64_t value, size_t len)
{
    return put_value(BLOCKING, team, rank, dst, value, len, 0, NULL, "aq_put_value");
}

aq_status aq_put_value_nb(aq_team *team, aq_rank rank, void *dst, uint64_t value, size_t len,
                          unsigned flags, aq_event *ev)
{
    return put_value(EXPLICIT, team, rank, dst, value, len, flags, ev, "aq_put_value_nb");
}

aq_status aq_put_value_nbi(aq_team *team, aq_rank rank, void *dst, uint64_t value, size_t len,
                           unsigned flags)
{
    return put_value(IMPLICIT, team, rank, dst, value, len, flags, NULL, "aq_put_value_nbi");
}

aq_status aq_get_value(aq_team *team, aq_rank rank, const void *src, size_t len, uint64_t *value)
{
    uint64_t bytes = 0;
    if (len < 1 || len > sizeof(bytes) || value == NULL)
        return aqi_fail(value == NULL ? AQ_EINVAL : AQ_ESIZE, "core",
                        "aq_get_value: a value of %zu bytes; 1 to 8 and a place for it are legal",
                        len);
    char *at = (char *)&bytes;
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) at += sizeof(bytes) - len;
    aq_status st = get(BLOCKING, team, at, rank, src, len, 0, NULL, "aq_get_value");
    if (st == AQ_OK) *value = bytes;
    return st;
}

/* --- memset ---------------------------------------------------------------------------------- */

static inline aq_status fill(enum mode mode, aq_team *team, aq_rank rank, void *dst, int byte,
                             size_t len, unsigned flags, aq_event *ev, const char *call)
{
    struct transfer t = {.kind = FILL,
                         .mode = mode,
                         .remote = (uint64_t)(uintptr_t)dst,
                         .byte = byte,
                         .len = len,
                         .flags = flags,
                         .event = ev,
                         .call = call};
    return transfer(team, rank, &t);
}

aq_status aq_memset(aq_team *team, aq_rank rank, void *dst, int byte, size_t len)
{
    return fill(BLOCKING, team, rank, dst, byte, len, 0, NULL, "aq_memset");
}

aq_status aq_memset_nb(aq_team *team, aq_rank rank, void *dst, int byte, size_t len, unsigned flags,
                       aq_event *ev)
{
    return fill(EXPLICIT, team, rank, dst, byte, len, flags, ev, "aq_memset_nb");
}

aq_status aq_memset_nbi(aq_team *team, aq_rank rank, void *dst, int byte, size_t len,
                        unsigned flags)
{
    return fill(IMPLICIT, team, rank, dst, byte, len, flags, NULL, "aq_memset_nbi");
}
