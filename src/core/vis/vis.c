/* Vector, indexed and strided transfers: checks, and copies where the segment is mapped. */
#include "core/vis/vis.h"

/* One call. `remote` and `local` are as the caller sees them, whichever is the destination. */
struct call {
    const char *name;
    bool get;
    enum core_mode mode;
    unsigned flags;
    aq_event *event;
    struct core_route *route;
    uint64_t base; /* of remote addresses: the segment's, when they are offsets */
};

/* A strided region, taken apart into `parts` of at most VIS_LEVELS levels. */
struct region {
    uint64_t remote, local;
    const ptrdiff_t *remote_strides, *local_strides;
    size_t elem;
    const size_t *counts;
    unsigned inner; /* levels of a part */
    size_t levels;
    size_t parts;
};

static bool begin(struct call *c, aq_team *team, aq_rank rank, aq_status *st)
{
    *st = core_callable(core_self(), c->name);
    if (AQI_UNLIKELY(*st != AQ_OK)) return false;
    c->route = core_route_to(team, rank, c->name, st);
    if (AQI_UNLIKELY(c->route == NULL)) return false;
    if ((c->flags & ~CORE_RMA_FLAGS) != 0 || (c->mode == EXPLICIT && c->event == NULL)) {
        *st = aqi_fail(AQ_EINVAL, "core", "%s: unknown flags, or no place for the event", c->name);
        return false;
    }
    c->base = c->flags & AQ_REMOTE_OFFSET ? c->route->seg_addr : 0;
    c->flags &= AQ_IMMEDIATE;
    return true;
}

/* --- moving ---------------------------------------------------------------------------------- */

static void copy(const struct call *c, struct vis_side *remote, struct vis_side *local)
{
    uint64_t shift = (uint64_t)(uintptr_t)c->route->local - c->route->seg_addr;
    if (vis_same_pieces(remote, local)) {
        struct vis_list there = {remote->shape, remote->base + shift, remote->list, remote->piece};
        struct vis_list here = {local->shape, local->base, local->list, local->piece};
        vis_copy_pieces(c->get ? &here : &there, c->get ? &there : &here, remote->entries);
        return;
    }
    struct vis_row row;
    while (vis_peek(remote, local, &row)) {
        unsigned char *there = (unsigned char *)(uintptr_t)(row.a + shift);
        unsigned char *here = (unsigned char *)(uintptr_t)row.b;
        if (c->get)
            vis_copy(here, row.b_step, there, row.a_step, row.len, row.count);
        else
            vis_copy(there, row.a_step, here, row.b_step, row.len, row.count);
        vis_take(remote, local, &row);
    }
}

/* Loops over the levels; the sides of a region have one shape, so there is nothing to walk. */
static void copy_levels(unsigned char *dst, const ptrdiff_t *dst_strides, const unsigned char *src,
                        const ptrdiff_t *src_strides, size_t elem, const size_t *counts,
                        size_t levels)
{
    while (levels > 1 && counts[levels - 1] == 1)
        levels--;
    if (levels <= 1) {
        vis_copy(dst, levels != 0 ? dst_strides[0] : 0, src, levels != 0 ? src_strides[0] : 0, elem,
                 levels != 0 ? counts[0] : 1);
        return;
    }
    levels--; /* not below 2 elements each, so they are nested at most as deep as a size has bits */
    for (size_t i = 0; i < counts[levels]; i++) {
        copy_levels(dst, dst_strides, src, src_strides, elem, counts, levels);
        dst += dst_strides[levels];
        src += src_strides[levels];
    }
}

static void copy_region(const struct call *c, const struct region *r)
{
    unsigned char *there = c->route->local + (r->remote - c->route->seg_addr);
    unsigned char *here = (unsigned char *)(uintptr_t)r->local;
    const ptrdiff_t *there_strides = r->remote_strides, *here_strides = r->local_strides;
    const size_t *counts = r->counts;
    size_t elem = r->elem, levels = r->levels;
    for (; levels > 0 && there_strides[0] == (ptrdiff_t)elem && here_strides[0] == (ptrdiff_t)elem;
         levels--, counts++, there_strides++, here_strides++)
        elem *= counts[0];
    if (c->get)
        copy_levels(here, here_strides, there, there_strides, elem, counts, levels);
    else
        copy_levels(there, there_strides, here, here_strides, elem, counts, levels);
}

/* The sides of part `k` of a region: where the indices of its outer levels lead. */
static void part_of(const struct region *r, size_t k, struct vis_side *remote,
                    struct vis_side *local)
{
    uint64_t there = r->remote, here = r->local;
    for (size_t l = r->inner; l < r->levels; l++) {
        size_t at = k % r->counts[l];
        k /= r->counts[l];
        there += (uint64_t)r->remote_strides[l] * at;
        here += (uint64_t)r->local_strides[l] * at;
    }
    vis_strided_begin(remote, there, r->elem, r->counts, r->remote_strides, r->inner);
    vis_strided_begin(local, here, r->elem, r->counts, r->local_strides, r->inner);
}

/* All parts by messages. `region` NULL: the sides are those of `t`, one part. */
struct parts {
    struct vis_transfer t;
    const struct region *region;
};

static aq_status carry_parts(void *arg, struct aqi_comp *comp)
{
    struct parts *parts = arg;
    struct vis_transfer *t = &parts->t;
    const struct region *region = parts->region;
    aq_status st = AQ_OK;
    if (!t->get) aqi_comp_add(comp, &comp->local, 1);
    aqi_comp_add(comp, &comp->remote, 1);
    for (size_t k = 0; st == AQ_OK && k < (region != NULL ? region->parts : 1); k++) {
        if (region != NULL) part_of(region, k, &t->remote, &t->local);
        st = vis_carry(t, comp);
    }
    if (st != AQ_OK && t->begun) { /* who waits for what is under way will hear of it */
        aqi_comp_fail(comp, st);
        st = AQ_OK;
    }
    if (!t->get) aqi_comp_local(comp);
    aqi_comp_remote(comp);
    return st;
}

/* Either two sides or a region. */
static aq_status move_now(const struct call *c, struct vis_side *remote, struct vis_side *local,
                          const struct region *region, size_t bytes)
{
    if (bytes != 0 && c->route->local == NULL) {
        struct parts parts = {
            .t = {.route = c->route, .get = c->get, .flags = c->flags, .call = c->name},
            .region = region};
        if (region == NULL) {
            parts.t.remote = *remote;
            parts.t.local = *local;
        }
        size_t kind = c->get ? offsetof(struct core_set, get) : offsetof(struct core_set, put);
        aq_status st = core_carry(c->mode, kind, c->route, carry_parts, &parts, c->event, c->name);
        if (st != AQ_OK) return st;
    } else if (bytes != 0) {
        if (c->get) atomic_thread_fence(memory_order_acquire);
        if (region != NULL)
            copy_region(c, region);
        else
            copy(c, remote, local);
        /* Whoever learns of the put (message, barrier, flag) sees its bytes. */
        if (!c->get) atomic_thread_fence(memory_order_release);
    }
    if (c->mode == EXPLICIT && (bytes == 0 || c->route->local != NULL)) *c->event = AQ_EVENT_DONE;
    aqi_count(c->get ? AQI_CTR_GET : AQI_CTR_PUT, 1);
    aqi_count(c->get ? AQI_CTR_GET_BYTES : AQI_CTR_PUT_BYTES, bytes);
    return AQ_OK;
}

static aq_status move(const struct call *c, struct vis_side *remote, struct vis_side *local,
                      const struct region *region, size_t bytes)
{
    uint64_t begun = aqi_trace_begin(AQI_TRACE_RMA);
    aq_status st = move_now(c, remote, local, region, bytes);
    aqi_trace_end(AQI_TRACE_RMA, c->name, begun, (uint32_t)c->route->rank, bytes);
    return st;
}

/* --- lists ----------------------------------------------------------------------------------- */

static AQI_COLD aq_status null_piece(const struct call *c, const char *which, size_t i)
{
    return aqi_fail(AQ_EINVAL, "core", "%s: entry %zu of the %s list is NULL", c->name, i, which);
}

static const char *name_of(const struct call *c, bool remote)
{
    return remote == c->get ? "src" : "dst";
}

static aq_status differ(const struct call *c, size_t remote, size_t local)
{
    return aqi_fail(AQ_ESIZE, "core", "%s: dst is %zu bytes in total, src %zu; they must be equal",
                    c->name, c->get ? local : remote, c->get ? remote : local);
}

/* Check each piece of one side, and add them up. */
static aq_status check_vector(const struct call *c, bool remote, const aq_vec *list, size_t count,
                              size_t *total)
{
    *total = 0;
    if (list == NULL && count != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: the %s list is NULL", c->name, name_of(c, remote));
    for (size_t i = 0; i < count; i++) {
        if (list[i].len == 0) continue;
        uint64_t addr = (uint64_t)(uintptr_t)list[i].addr;
        if (!remote && addr == 0) return null_piece(c, name_of(c, remote), i);
        if (remote && !core_in_segment(c->route, c->base + addr, list[i].len))
            return core_out_of_segment(c->route, c->base + addr, list[i].len, c->name);
        if (__builtin_add_overflow(*total, list[i].len, total))
            return aqi_fail(AQ_ESIZE, "core", "%s: the bytes of the %s list overflow", c->name,
                            name_of(c, remote));
    }
    return AQ_OK;
}

static aq_status check_indexed(const struct call *c, bool remote, void *const *list, size_t count,
                               size_t len, size_t *total)
{
    if (__builtin_mul_overflow(count, len, total))
        return aqi_fail(AQ_ESIZE, "core", "%s: %zu pieces of %zu bytes overflow", c->name, count,
                        len);
    if (*total == 0) return AQ_OK;
    if (list == NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: the %s list is NULL", c->name, name_of(c, remote));
    for (size_t i = 0; i < count; i++) {
        uint64_t addr = (uint64_t)(uintptr_t)list[i];
        if (!remote && addr == 0) return null_piece(c, name_of(c, remote), i);
        if (remote && !core_in_segment(c->route, c->base + addr, len))
            return core_out_of_segment(c->route, c->base + addr, len, c->name);
    }
    return AQ_OK;
}

static aq_status vector(struct call c, aq_team *team, aq_rank rank, size_t remote_count,
                        const aq_vec *remote, size_t local_count, const aq_vec *local)
{
    struct vis_side there, here;
    size_t there_bytes, here_bytes;
    aq_status st;
    if (!begin(&c, team, rank, &st)) return st;
    st = check_vector(&c, true, remote, remote_count, &there_bytes);
    if (st == AQ_OK) st = check_vector(&c, false, local, local_count, &here_bytes);
    if (st != AQ_OK) return st;
    if (there_bytes != here_bytes) return differ(&c, there_bytes, here_bytes);
    vis_vector_begin(&there, c.base, remote, remote_count);
    vis_vector_begin(&here, 0, local, local_count);
    return move(&c, &there, &here, NULL, here_bytes);
}

static aq_status indexed(struct call c, aq_team *team, aq_rank rank, size_t remote_count,
                         void *const *remote, size_t remote_len, size_t local_count,
                         void *const *local, size_t local_len)
{
    struct vis_side there, here;
    size_t there_bytes, here_bytes;
    aq_status st;
    if (!begin(&c, team, rank, &st)) return st;
    st = check_indexed(&c, true, remote, remote_count, remote_len, &there_bytes);
    if (st == AQ_OK) st = check_indexed(&c, false, local, local_count, local_len, &here_bytes);
    if (st != AQ_OK) return st;
    if (there_bytes != here_bytes) return differ(&c, there_bytes, here_bytes);
    vis_indexed_begin(&there, c.base, remote, there_bytes != 0 ? remote_count : 0, remote_len);
    vis_indexed_begin(&here, 0, local, here_bytes != 0 ? local_count : 0, local_len);
    return move(&c, &there, &here, NULL, here_bytes);
}

/* --- strided --------------------------------------------------------------------------------- */

static aq_status overflows(const struct call *c)
{
    return aqi_fail(AQ_ESIZE, "core", "%s: elements, counts and strides overflow", c->name);
}

/* How many bytes a region moves; 0: nothing, and then nothing else of it counts. */
static aq_status region_bytes(const struct call *c, const struct region *r, size_t *bytes)
{
    *bytes = r->elem;
    if (r->levels > AQ_STRIDED_LEVELS)
        return aqi_fail(AQ_EINVAL, "core", "%s: %zu levels, the most is %d", c->name, r->levels,
                        AQ_STRIDED_LEVELS);
    if (r->elem == 0 || r->levels == 0) return AQ_OK;
    if (r->counts == NULL || r->remote_strides == NULL || r->local_strides == NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: the counts or the strides are NULL", c->name);
    for (size_t l = 0; l < r->levels; l++)
        if (r->counts[l] == 0) *bytes = 0;
    for (size_t l = 0; l < r->levels && *bytes != 0; l++)
        if (__builtin_mul_overflow(*bytes, r->counts[l], bytes)) return overflows(c);
    return AQ_OK;
}

static aq_status check_region(const struct call *c, const struct region *r)
{
    int64_t low, high;
    if (!vis_extent(r->elem, r->counts, r->local_strides, r->levels, &low, &high) ||
        r->local + (uint64_t)low > r->local || r->local + (uint64_t)high < r->local)
        return overflows(c);
    if (r->local == 0) return aqi_fail(AQ_EINVAL, "core", "%s: the local address is NULL", c->name);
    if (!vis_extent(r->elem, r->counts, r->remote_strides, r->levels, &low, &high))
        return overflows(c);
    uint64_t first = r->remote + (uint64_t)low, span = (uint64_t)high - (uint64_t)low;
    if (!core_in_segment(c->route, first, span))
        return core_out_of_segment(c->route, first, span, c->name);
    return AQ_OK;
}

static aq_status strided(struct call c, aq_team *team, aq_rank rank, struct region r)
{
    size_t bytes;
    aq_status st;
    if (!begin(&c, team, rank, &st)) return st;
    r.remote += c.base;
    st = region_bytes(&c, &r, &bytes);
    if (st == AQ_OK && bytes != 0) st = check_region(&c, &r);
    if (st != AQ_OK) return st;
    r.inner = (unsigned)aqi_min(r.levels, VIS_LEVELS);
    r.parts = 1;
    for (size_t l = r.inner; l < r.levels && bytes != 0; l++)
        r.parts *= r.counts[l];
    return move(&c, NULL, NULL, &r, bytes);
}

/* --- the calls ------------------------------------------------------------------------------- */

/* clang-format off */
#define CALL(name_, get_, mode_, flags_, event_)                                                   \
    (struct call) { .name = name_, .get = get_, .mode = mode_, .flags = flags_, .event = event_ }
#define REGION(remote_, remote_strides_, local_, local_strides_)                                   \
    (struct region) {                                                                              \
        .remote = (uint64_t)(uintptr_t)(remote_), .local = (uint64_t)(uintptr_t)(local_),          \
        .remote_strides = remote_strides_, .local_strides = local_strides_, .elem = elem,          \
        .counts = counts, .levels = levels                                                         \
    }
/* clang-format on */

aq_status aq_put_vector(aq_team *team, aq_rank rank, size_t dst_count, const aq_vec *dst,
                        size_t src_count, const aq_vec *src, unsigned flags)
{
    return vector(CALL("aq_put_vector", false, BLOCKING, flags, NULL), team, rank, dst_count, dst,
                  src_count, src);
}

aq_status aq_put_vector_nb(aq_team *team, aq_rank rank, size_t dst_count, const aq_vec *dst,
                           size_t src_count, const aq_vec *src, unsigned flags, aq_event *ev)
{
    return vector(CALL("aq_put_vector_nb", false, EXPLICIT, flags, ev), team, rank, dst_count, dst,
                  src_count, src);
}

aq_status aq_put_vector_nbi(aq_team *team, aq_rank rank, size_t dst_count, const aq_vec *dst,
                            size_t src_count, const aq_vec *src, unsigned flags)
{
    return vector(CALL("aq_put_vector_nbi", false, IMPLICIT, flags, NULL), team, rank, dst_count,
                  dst, src_count, src);
}

aq_status aq_get_vector(aq_team *team, size_t dst_count, const aq_vec *dst, aq_rank rank,
                        size_t src_count, const aq_vec *src, unsigned flags)
{
    return vector(CALL("aq_get_vector", true, BLOCKING, flags, NULL), team, rank, src_count, src,
                  dst_count, dst);
}

aq_status aq_get_vector_nb(aq_team *team, size_t dst_count, const aq_vec *dst, aq_rank rank,
                           size_t src_count, const aq_vec *src, unsigned flags, aq_event *ev)
{
    return vector(CALL("aq_get_vector_nb", true, EXPLICIT, flags, ev), team, rank, src_count, src,
                  dst_count, dst);
}

aq_status aq_get_vector_nbi(aq_team *team, size_t dst_count, const aq_vec *dst, aq_rank rank,
                            size_t src_count, const aq_vec *src, unsigned flags)
{
    return vector(CALL("aq_get_vector_nbi", true, IMPLICIT, flags, NULL), team, rank, src_count,
                  src, dst_count, dst);
}

aq_status aq_put_indexed(aq_team *team, aq_rank rank, size_t dst_count, void *const *dst,
                         size_t dst_len, size_t src_count, void *const *src, size_t src_len,
                         unsigned flags)
{
    return indexed(CALL("aq_put_indexed", false, BLOCKING, flags, NULL), team, rank, dst_count, dst,
                   dst_len, src_count, src, src_len);
}

aq_status aq_put_indexed_nb(aq_team *team, aq_rank rank, size_t dst_count, void *const *dst,
                            size_t dst_len, size_t src_count, void *const *src, size_t src_len,
                            unsigned flags, aq_event *ev)
{
    return indexed(CALL("aq_put_indexed_nb", false, EXPLICIT, flags, ev), team, rank, dst_count,
                   dst, dst_len, src_count, src, src_len);
}

aq_status aq_put_indexed_nbi(aq_team *team, aq_rank rank, size_t dst_count, void *const *dst,
                             size_t dst_len, size_t src_count, void *const *src, size_t src_len,
                             unsigned flags)
{
    return indexed(CALL("aq_put_indexed_nbi", false, IMPLICIT, flags, NULL), team, rank, dst_count,
                   dst, dst_len, src_count, src, src_len);
}

aq_status aq_get_indexed(aq_team *team, size_t dst_count, void *const *dst, size_t dst_len,
                         aq_rank rank, size_t src_count, void *const *src, size_t src_len,
                         unsigned flags)
{
    return indexed(CALL("aq_get_indexed", true, BLOCKING, flags, NULL), team, rank, src_count, src,
                   src_len, dst_count, dst, dst_len);
}

aq_status aq_get_indexed_nb(aq_team *team, size_t dst_count, void *const *dst, size_t dst_len,
                            aq_rank rank, size_t src_count, void *const *src, size_t src_len,
                            unsigned flags, aq_event *ev)
{
    return indexed(CALL("aq_get_indexed_nb", true, EXPLICIT, flags, ev), team, rank, src_count, src,
                   src_len, dst_count, dst, dst_len);
}

aq_status aq_get_indexed_nbi(aq_team *team, size_t dst_count, void *const *dst, size_t dst_len,
                             aq_rank rank, size_t src_count, void *const *src, size_t src_len,
                             unsigned flags)
{
    return indexed(CALL("aq_get_indexed_nbi", true, IMPLICIT, flags, NULL), team, rank, src_count,
                   src, src_len, dst_count, dst, dst_len);
}

aq_status aq_put_strided(aq_team *team, aq_rank rank, void *dst, const ptrdiff_t *dst_strides,
                         const void *src, const ptrdiff_t *src_strides, size_t elem,
                         const size_t *counts, size_t levels, unsigned flags)
{
    return strided(CALL("aq_put_strided", false, BLOCKING, flags, NULL), team, rank,
                   REGION(dst, dst_strides, src, src_strides));
}

aq_status aq_put_strided_nb(aq_team *team, aq_rank rank, void *dst, const ptrdiff_t *dst_strides,
                            const void *src, const ptrdiff_t *src_strides, size_t elem,
                            const size_t *counts, size_t levels, unsigned flags, aq_event *ev)
{
    return strided(CALL("aq_put_strided_nb", false, EXPLICIT, flags, ev), team, rank,
                   REGION(dst, dst_strides, src, src_strides));
}

aq_status aq_put_strided_nbi(aq_team *team, aq_rank rank, void *dst, const ptrdiff_t *dst_strides,
                             const void *src, const ptrdiff_t *src_strides, size_t elem,
                             const size_t *counts, size_t levels, unsigned flags)
{
    return strided(CALL("aq_put_strided_nbi", false, IMPLICIT, flags, NULL), team, rank,
                   REGION(dst, dst_strides, src, src_strides));
}

aq_status aq_get_strided(aq_team *team, void *dst, const ptrdiff_t *dst_strides, aq_rank rank,
                         const void *src, const ptrdiff_t *src_strides, size_t elem,
                         const size_t *counts, size_t levels, unsigned flags)
{
    return strided(CALL("aq_get_strided", true, BLOCKING, flags, NULL), team, rank,
                   REGION(src, src_strides, dst, dst_strides));
}

aq_status aq_get_strided_nb(aq_team *team, void *dst, const ptrdiff_t *dst_strides, aq_rank rank,
                            const void *src, const ptrdiff_t *src_strides, size_t elem,
                            const size_t *counts, size_t levels, unsigned flags, aq_event *ev)
{
    return strided(CALL("aq_get_strided_nb", true, EXPLICIT, flags, ev), team, rank,
                   REGION(src, src_strides, dst, dst_strides));
}

aq_status aq_get_strided_nbi(aq_team *team, void *dst, const ptrdiff_t *dst_strides, aq_rank rank,
                             const void *src, const ptrdiff_t *src_strides, size_t elem,
                             const size_t *counts, size_t levels, unsigned flags)
{
    return strided(CALL("aq_get_strided_nbi", true, IMPLICIT, flags, NULL), team, rank,
                   REGION(src, src_strides, dst, dst_strides));
}
