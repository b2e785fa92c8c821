/*
 * Vector, indexed and strided transfers: a fast path between mapped memory, and a general path for
 * everything else, including errors.
 */
#include "core/vis/vis.h"

#include "base/copy.h"
#include "core/vis/direct.h"

/* One call. `remote` and `local` are relative to the caller, whichever is the destination. */
struct call {
    const char *name;
    bool get;
    enum core_mode mode;
    unsigned flags;
    aq_event *event;
    aq_team *team;
    aq_rank rank;
    /* For the general path: */
    struct core_route *route;
    uint64_t base; /* added to remote addresses: that of the segment if they are offsets */
};

/* --- the fast path --------------------------------------------------------------------------- */

/* Set `w` to the mapped segment of a valid call; false: take the general path. */
static inline bool vis_window_of(const struct call c, struct vis_window *w)
{
    if (AQI_UNLIKELY(!core_may_call(core_self()) || c.team == NULL || c.rank >= c.team->size ||
                     (c.flags & ~CORE_RMA_FLAGS) != 0 || (c.mode == EXPLICIT && c.event == NULL)))
        return false;
    const struct core_route *route = core_team_route(c.team, c.rank);
    w->first = c.flags & AQ_REMOTE_OFFSET ? 0 : route->seg_addr;
    w->size = route->seg_size;
    w->mapped = route->local;
    w->get = c.get;
    return AQI_LIKELY(route->local != NULL);
}

static inline aq_status vis_done(const struct call c, uint64_t begun, size_t bytes)
{
    core_count_run(aqi_counting(), c.get, bytes);
    if (c.mode == EXPLICIT) *c.event = AQ_EVENT_DONE;
    if (c.mode == BLOCKING) core_done_directly(core_thread_mine);
    aqi_trace_end(AQI_TRACE_RMA, c.name, begun, c.rank, bytes);
    return AQ_OK;
}

/* Move a single small piece, like a put or get. Returns false if it was not moved. */
static AQI_INLINE bool vis_copy_piece(bool get, const aq_team *team, aq_rank rank, unsigned flags,
                                      const void *there, const void *here, size_t len)
{
    uint64_t remote = (uint64_t)(uintptr_t)there;
    void *local = (void *)(uintptr_t)here;
    const struct core_route *route = core_usual_route(team, rank, remote, local, len, flags);
    if (route == NULL || route->local == NULL || len > AQI_COPY_FEW) return false;
    core_count_run(aqi_counters_mine, get, len);
    core_copy_few(route, get, remote, local, len);
    return true;
}

/* --- the general path ------------------------------------------------------------------------ */

static bool vis_begin(struct call *c, aq_status *st)
{
    *st = core_callable(core_self(), c->name);
    if (*st != AQ_OK) return false;
    c->route = core_route_to(c->team, c->rank, c->name, st);
    if (c->route == NULL) return false;
    if ((c->flags & ~CORE_RMA_FLAGS) != 0 || (c->mode == EXPLICIT && c->event == NULL)) {
        *st = aqi_fail(AQ_EINVAL, "core", "%s: unknown flags, or the event is NULL", c->name);
        return false;
    }
    c->base = c->flags & AQ_REMOTE_OFFSET ? c->route->seg_addr : 0;
    c->flags &= AQ_IMMEDIATE;
    return true;
}

static void vis_copy_sides(const struct call *c, struct vis_side *remote, struct vis_side *local)
{
    uint64_t shift = (uint64_t)(uintptr_t)c->route->local - c->route->seg_addr;
    struct vis_row row;
    if (c->get) atomic_thread_fence(memory_order_acquire);
    while (vis_peek(remote, local, &row)) {
        unsigned char *there = (unsigned char *)(uintptr_t)(row.a + shift);
        unsigned char *here = (unsigned char *)(uintptr_t)row.b;
        if (c->get)
            aqi_copy_pieces(here, row.b_step, there, row.a_step, row.len, row.count);
        else
            aqi_copy_pieces(there, row.a_step, here, row.b_step, row.len, row.count);
        vis_take(remote, local, &row);
    }
    /* A thread that learns of the put (message, barrier, flag) sees its bytes. */
    if (!c->get) atomic_thread_fence(memory_order_release);
}

/* Move a transfer that has been checked. */
static aq_status vis_move(const struct call *c, struct vis_transfer *t, size_t bytes)
{
    uint64_t begun = aqi_trace_begin(AQI_TRACE_RMA);
    if (bytes != 0 && c->route->local == NULL) {
        t->route = c->route;
        t->get = c->get;
        t->flags = c->flags;
        t->call = c->name;
        t->begun = false;
        size_t kind = c->get ? offsetof(struct core_set, get) : offsetof(struct core_set, put);
        aq_status st = core_carry(c->mode, kind, c->route, vis_carry, t, c->event, c->name);
        if (st != AQ_OK) return st;
        struct call carried = *c;
        carried.mode = IMPLICIT; /* core_carry has taken care of completion */
        return vis_done(carried, begun, bytes);
    }
    if (bytes != 0) vis_copy_sides(c, &t->remote, &t->local);
    return vis_done(*c, begun, bytes);
}

/* --- lists ----------------------------------------------------------------------------------- */

static const char *vis_name_of(const struct call *c, bool remote)
{
    return remote == c->get ? "src" : "dst";
}

/* Check each piece of one side, and add up their lengths. */
static aq_status vis_check_list(const struct call *c, bool remote, const struct vis_list *list,
                                size_t *total)
{
    const char *name = vis_name_of(c, remote);
    *total = 0;
    if (list->shape == VIS_INDEXED && __builtin_mul_overflow(list->count, list->piece, total))
        return aqi_fail(AQ_ESIZE, "core", "%s: the total of %zu pieces of %zu bytes overflows",
                        c->name, list->count, list->piece);
    if (list->count == 0 || (list->shape == VIS_INDEXED && *total == 0)) return AQ_OK;
    if (list->at == NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: the %s list is NULL", c->name, name);
    *total = 0;
    for (size_t i = 0; i < list->count; i++) {
        size_t len;
        uint64_t addr = vis_list_entry(list, i, &len);
        if (len == 0) continue;
        if (!remote && addr == 0)
            return aqi_fail(AQ_EINVAL, "core", "%s: entry %zu of the %s list is NULL", c->name, i,
                            name);
        if (remote && !core_in_segment(c->route, c->base + addr, len))
            return core_out_of_segment(c->route, c->base + addr, len, c->name);
        if (__builtin_add_overflow(*total, len, total))
            return aqi_fail(AQ_ESIZE, "core", "%s: the total size of the %s list overflows",
                            c->name, name);
    }
    return AQ_OK;
}

static AQI_COLD aq_status vis_lists_checked(struct call *c, struct vis_list remote,
                                            struct vis_list local)
{
    struct vis_transfer t;
    size_t there = 0, here = 0;
    aq_status st;
    if (!vis_begin(c, &st)) return st;
    st = vis_check_list(c, true, &remote, &there);
    if (st == AQ_OK) st = vis_check_list(c, false, &local, &here);
    if (st != AQ_OK) return st;
    if (there != here)
        return aqi_fail(AQ_ESIZE, "core",
                        "%s: dst has %zu bytes in total and src %zu: they must be equal", c->name,
                        c->get ? here : there, c->get ? there : here);
    if (here == 0) remote.count = local.count = 0;
    vis_list_begin(&t.remote, c->base, remote);
    vis_list_begin(&t.local, 0, local);
    return vis_move(c, &t, here);
}

static inline aq_status vis_vector(const struct call c, size_t remote_count, const aq_vec *remote,
                                   size_t local_count, const aq_vec *local)
{
    uint64_t begun = aqi_trace_begin(AQI_TRACE_RMA);
    struct vis_window w;
    size_t bytes;
    if (vis_window_of(c, &w) &&
        vis_direct_vector(&w, remote_count, remote, local_count, local, &bytes))
        return vis_done(c, begun, bytes);
    struct call slow = c; /* a copy, so that `c` itself stays in registers */
    return vis_lists_checked(&slow, (struct vis_list){VIS_VECTOR, remote, remote_count, 0},
                             (struct vis_list){VIS_VECTOR, local, local_count, 0});
}

static inline aq_status vis_indexed(const struct call c, size_t remote_count, void *const *remote,
                                    size_t remote_len, size_t local_count, void *const *local,
                                    size_t local_len)
{
    uint64_t begun = aqi_trace_begin(AQI_TRACE_RMA);
    struct vis_window w;
    size_t bytes;
    if (vis_window_of(c, &w) && vis_direct_indexed(&w, remote_count, remote, remote_len,
                                                   local_count, local, local_len, &bytes))
        return vis_done(c, begun, bytes);
    struct call slow = c; /* a copy, so that `c` itself stays in registers */
    return vis_lists_checked(&slow,
                             (struct vis_list){VIS_INDEXED, remote, remote_count, remote_len},
                             (struct vis_list){VIS_INDEXED, local, local_count, local_len});
}

/* --- strided --------------------------------------------------------------------------------- */

static aq_status vis_overflows(const struct call *c)
{
    return aqi_fail(AQ_ESIZE, "core", "%s: the total of elements, counts and strides overflows",
                    c->name);
}

/* The number of bytes that a region moves. If it is 0, nothing else in the region is checked. */
static aq_status vis_region_bytes(const struct call *c, const struct vis_region *r, size_t *bytes)
{
    *bytes = r->elem;
    if (r->levels > AQ_STRIDED_LEVELS)
        return aqi_fail(AQ_EINVAL, "core", "%s: %zu levels; the maximum is %d", c->name, r->levels,
                        AQ_STRIDED_LEVELS);
    if (r->elem == 0 || r->levels == 0) return AQ_OK;
    if (r->counts == NULL || r->remote_strides == NULL || r->local_strides == NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: the counts or the strides are NULL", c->name);
    for (size_t l = 0; l < r->levels; l++)
        if (r->counts[l] == 0) *bytes = 0;
    for (size_t l = 0; l < r->levels && *bytes != 0; l++)
        if (__builtin_mul_overflow(*bytes, r->counts[l], bytes)) return vis_overflows(c);
    return AQ_OK;
}

static aq_status vis_check_region(const struct call *c, const struct vis_region *r)
{
    struct vis_bounds b;
    if (!vis_extent(r->elem, r->counts, r->local_strides, r->levels, &b) ||
        r->local + (uint64_t)b.low > r->local || r->local + (uint64_t)b.high < r->local)
        return vis_overflows(c);
    if (r->local == 0) return aqi_fail(AQ_EINVAL, "core", "%s: the local address is NULL", c->name);
    if (!vis_extent(r->elem, r->counts, r->remote_strides, r->levels, &b)) return vis_overflows(c);
    uint64_t first = r->remote + (uint64_t)b.low, span = (uint64_t)b.high - (uint64_t)b.low;
    if (!core_in_segment(c->route, first, span))
        return core_out_of_segment(c->route, first, span, c->name);
    return AQ_OK;
}

static AQI_COLD aq_status vis_strided_checked(struct call *c, struct vis_region *r)
{
    struct vis_transfer t;
    size_t bytes;
    aq_status st;
    if (!vis_begin(c, &st)) return st;
    r->remote += c->base;
    st = vis_region_bytes(c, r, &bytes);
    if (st == AQ_OK && bytes != 0) st = vis_check_region(c, r);
    if (st != AQ_OK) return st;
    unsigned levels = bytes != 0 ? (unsigned)r->levels : 0;
    vis_strided_begin(&t.remote, r->remote, r->elem, r->counts, r->remote_strides, levels);
    vis_strided_begin(&t.local, r->local, r->elem, r->counts, r->local_strides, levels);
    return vis_move(c, &t, bytes);
}

static inline aq_status vis_strided(const struct call c, struct vis_region r)
{
    uint64_t begun = aqi_trace_begin(AQI_TRACE_RMA);
    struct vis_window w;
    size_t bytes;
    if (vis_window_of(c, &w) && vis_direct_strided(&w, &r, &bytes))
        return vis_done(c, begun, bytes);
    struct call slow = c; /* a copy, so that `c` itself stays in registers */
    return vis_strided_checked(&slow, &r);
}

/* --- the calls ------------------------------------------------------------------------------- */

/* clang-format off */
#define CALL(name_, get_, mode_, event_)                                                           \
    (struct call) {                                                                                \
        .name = name_, .get = get_, .mode = mode_, .flags = flags, .event = event_, .team = team,  \
        .rank = rank                                                                               \
    }
#define REGION(remote_, remote_strides_, local_, local_strides_)                                   \
    (struct vis_region) {                                                                          \
        .remote = (uint64_t)(uintptr_t)(remote_), .local = (uint64_t)(uintptr_t)(local_),          \
        .remote_strides = remote_strides_, .local_strides = local_strides_, .elem = elem,          \
        .counts = counts, .levels = levels                                                         \
    }
/* clang-format on */

/* A form of a call. `ONE`: whether each side has a single piece, which `PIECE` describes. */
#define FORM(NAME, MODE, EV, PARAMS, VALUES, ONE, PIECE, GET, WAY, ...)                            \
    aq_status aq_##NAME PARAMS                                                                     \
    {                                                                                              \
        if (ONE && (MODE != EXPLICIT || EV != NULL) &&                                             \
            vis_copy_piece(GET, team, rank, flags, CORE_PARAMS PIECE)) {                           \
            if (MODE == EXPLICIT) *(aq_event *)EV = AQ_EVENT_DONE;                                 \
            return MODE == BLOCKING ? core_direct_end(core_thread_mine) : AQ_OK;                   \
        }                                                                                          \
        return WAY(CALL("aq_" #NAME, GET, MODE, EV), __VA_ARGS__);                                 \
    }

#define ONE_ENTRY (dst_count == 1 && src_count == 1 && dst != NULL && src != NULL)
#define ONE_ELEMENT                                                                                \
    (levels == 0 || (levels == 1 && counts != NULL && *counts == 1 && dst_strides != NULL &&       \
                     src_strides != NULL))

/* A put and its get have the same parameters: the destination first, whichever side it is on. */
#define VECTOR_PARAMS                                                                              \
    (aq_team * team, aq_rank rank, size_t dst_count, const aq_vec *dst, size_t src_count,          \
     const aq_vec *src)
#define VECTOR_VALUES (team, rank, dst_count, dst, src_count, src)
#define VECTOR_IS_ONE (ONE_ENTRY && dst->len == src->len)
#define INDEXED_PARAMS                                                                             \
    (aq_team * team, aq_rank rank, size_t dst_count, void *const *dst, size_t dst_len,             \
     size_t src_count, void *const *src, size_t src_len)
#define INDEXED_VALUES (team, rank, dst_count, dst, dst_len, src_count, src, src_len)
#define INDEXED_IS_ONE (ONE_ENTRY && dst_len == src_len)
#define STRIDED_PARAMS                                                                             \
    (aq_team * team, aq_rank rank, void *dst, const ptrdiff_t *dst_strides, const void *src,       \
     const ptrdiff_t *src_strides, size_t elem, const size_t *counts, size_t levels)
#define STRIDED_VALUES (team, rank, dst, dst_strides, src, src_strides, elem, counts, levels)

CORE_FORMS_BY(FORM, put_vector, VECTOR_PARAMS, VECTOR_VALUES, VECTOR_IS_ONE,
              (dst->addr, src->addr, src->len), false, vis_vector, dst_count, dst, src_count, src)
CORE_FORMS_BY(FORM, get_vector, VECTOR_PARAMS, VECTOR_VALUES, VECTOR_IS_ONE,
              (src->addr, dst->addr, src->len), true, vis_vector, src_count, src, dst_count, dst)
CORE_FORMS_BY(FORM, put_indexed, INDEXED_PARAMS, INDEXED_VALUES, INDEXED_IS_ONE,
              (*dst, *src, src_len), false, vis_indexed, dst_count, dst, dst_len, src_count, src,
              src_len)
CORE_FORMS_BY(FORM, get_indexed, INDEXED_PARAMS, INDEXED_VALUES, INDEXED_IS_ONE,
              (*src, *dst, src_len), true, vis_indexed, src_count, src, src_len, dst_count, dst,
              dst_len)
CORE_FORMS_BY(FORM, put_strided, STRIDED_PARAMS, STRIDED_VALUES, ONE_ELEMENT, (dst, src, elem),
              false, vis_strided, REGION(dst, dst_strides, src, src_strides))
CORE_FORMS_BY(FORM, get_strided, STRIDED_PARAMS, STRIDED_VALUES, ONE_ELEMENT, (src, dst, elem),
              true, vis_strided, REGION(src, src_strides, dst, dst_strides))
