/*
 * Large collectives in shared memory begin with an exchange of the buffers' addresses. If all
 * buffers lie in attached segments, or members can pull from those that do not, data is copied
 * once, directly; otherwise twice, through chunks.
 */
#include "core/coll/shm.h"

#include "base/touch.h"

#include <string.h>

enum { SHM_FOLD_BLOCK = 16 * 1024 }; /* of a long reduction: keeps the sum in the nearest cache */

/* --- the exchange of addresses --------------------------------------------------------------- */

/* The address, if it lies in our segment and others may have mapped that; else 0. */
static uint64_t coll_shm_in_segment(const void *at, size_t len)
{
    const struct core_route *self = &core.routes[core.params.rank];
    uint64_t addr = (uint64_t)(uintptr_t)at;
    return self->local != NULL && core_in_segment(self, addr, len) ? addr : 0;
}

static bool coll_shm_can_pull_from(const struct shm_view *v, uint32_t member)
{
    const struct core_route *route = coll_route(v->team, member);
    return member == v->shm->self ||
           route->tp->ops.pull(route->tp, route->peer, 0, NULL, 0) == AQ_OK;
}

/* Whether we can pull from all members whose data we get. */
static bool coll_shm_can_pull(const struct shm_view *v)
{
    const struct coll_args *args = &v->op->args;
    if (args->kind == COLL_SCATTER) return coll_shm_can_pull_from(v, args->root);
    for (uint32_t i = 0; i < v->shm->members; i++)
        if (!coll_shm_can_pull_from(v, i)) return false;
    return true;
}

void shm_buffers_stage(const struct shm_view *v)
{
    const struct coll_args *args = &v->op->args;
    const struct coll_flow *flow = &coll_flows[args->kind];
    struct shm_buffers *buffers = &shm_line_next(v->shm, v->slot)->buffers;
    size_t len = args->nbytes, most = coll_longest(v->team, args);
    bool ours = true;
    *buffers = (struct shm_buffers){.most = most, .src = SHM_NO_BUFFER, .dst = SHM_NO_BUFFER};
    if (args->vary) buffers->sizes = coll_sizes_of(v->team, args);
    if (flow->deals) len *= v->shm->members;
    if (coll_sends(args, v->shm->self)) {
        buffers->src =
            args->vary && args->send_counts != NULL ? 0 : coll_shm_in_segment(args->src, len);
        ours = buffers->src != 0;
    }
    if (flow->folds && coll_receives(args, v->shm->self))
        buffers->dst = coll_shm_in_segment(args->dst, len);
    /*
     * Pull private memory if each byte has one reader and all members read. Data with many readers
     * is cheaper to copy into shared memory once than to pull once per reader; data that only the
     * root reads is copied in parallel on its way through shared memory.
     */
    if (!flow->deals || (args->vary && args->send_counts != NULL)) return;
    if (!ours) {
        /* The kernel would report a fault to the reader; touching raises it here. */
        if (most >= SHM_DIRECT_LEAST) aqi_touch_read(args->src, len);
        buffers->src = len != 0 ? (uint64_t)(uintptr_t)args->src : SHM_NO_BUFFER;
        buffers->src_private = 1;
    }
    buffers->can_pull = coll_shm_can_pull(v);
}

/* --- the transfers --------------------------------------------------------------------------- */

/* The buffers published `age` rounds ago; valid until all reach the round after the next. */
static const struct shm_buffers *coll_shm_buffers_of(const struct shm_view *v, uint32_t member,
                                                     uint32_t age)
{
    return &shm_line_of(v->slot, member, v->slot->round - age)->buffers;
}

static unsigned char *coll_shm_mapped(const struct shm_view *v, uint32_t member, uint64_t addr)
{
    const struct core_route *route = coll_route(v->team, member);
    return route->local + (addr - route->seg_addr);
}

static const unsigned char *coll_shm_source_of(const struct shm_view *v, uint32_t member)
{
    return coll_shm_mapped(v, member, coll_shm_buffers_of(v, member, 0)->src);
}

/* Copy [at, at + len) of a member's source to `to`. */
static void coll_shm_fetch(const struct shm_view *v, uint32_t member, size_t at, void *to,
                           size_t len)
{
    const struct shm_buffers *buffers = coll_shm_buffers_of(v, member, 0);
    if (len == 0) return;
    if (!buffers->src_private) {
        memcpy(to, coll_shm_source_of(v, member) + at, len);
        return;
    }
    const struct core_route *route = coll_route(v->team, member);
    aq_status st = route->tp->ops.pull(route->tp, route->peer, buffers->src + at, to, len);
    if (st == AQ_OK || v->op->status != AQ_OK) return;
    if (st != AQ_EPEER && !shm_some_left(v->shm)) aqi_fail(st, "core", "%s", aq_error_message());
    v->op->status = st;
}

/* Fold our slice of all sources into that of `to`, which coincides with at most one source. */
static void shm_direct_fold(const struct shm_view *v, uint32_t first, unsigned char *to)
{
    size_t element = v->op->args.element;
    size_t at = shm_slice_begin(v, v->op->shm.most, v->shm->self);
    size_t end = shm_slice_begin(v, v->op->shm.most, v->shm->self + 1);
    size_t step = element >= SHM_FOLD_BLOCK ? element : SHM_FOLD_BLOCK / element * element;
    for (; at < end; at += step) {
        size_t len = aqi_min(step, end - at);
        coll_copy(to + at, coll_shm_source_of(v, first) + at, len);
        for (uint32_t i = 0; i < v->shm->members; i++)
            if (i != first) coll_fold(&v->op->args, coll_shm_source_of(v, i) + at, to + at, len);
    }
}

/* Starts with the next member, so that members do not all read from the same one. */
static void shm_direct_gather(const struct shm_view *v)
{
    const struct coll_args *args = &v->op->args;
    size_t at = coll_flows[args->kind].deals ? v->shm->self * args->nbytes : 0;
    for (uint32_t k = 1; k < v->shm->members; k++) {
        uint32_t i = (v->shm->self + k) % v->shm->members;
        unsigned char *to;
        size_t len = coll_recv_block(args, i, &to);
        coll_shm_fetch(v, i, at, to, len);
    }
}

/* Returns true if there is a second step. */
static bool shm_direct(const struct shm_view *v)
{
    const struct coll_args *args = &v->op->args;
    const struct coll_flow *flow = &coll_flows[args->kind];
    uint32_t self = v->shm->self, root = args->root;
    bool own = flow->collects || self == root;
    if (args->kind == COLL_REDUCE)
        shm_direct_fold(v, root, coll_shm_mapped(v, root, coll_shm_buffers_of(v, root, 0)->dst));
    if (args->kind == COLL_ALLREDUCE) shm_direct_fold(v, self, args->dst);
    if (flow->folds || !coll_receives(args, self)) return args->kind == COLL_ALLREDUCE;
    if (flow->collects)
        shm_direct_gather(v);
    else if (!own)
        coll_shm_fetch(v, root, flow->deals ? self * args->nbytes : 0, args->dst, args->nbytes);
    if (own) shm_own_block(v);
    return false;
}

/* All-reduce: collect the slices of the others from their destinations. */
void shm_direct_rest(const struct shm_view *v)
{
    for (uint32_t k = 1; k < v->shm->members; k++) {
        uint32_t i = (v->shm->self + k) % v->shm->members;
        size_t begin = shm_slice_begin(v, v->op->shm.most, i),
               end = shm_slice_begin(v, v->op->shm.most, i + 1);
        const unsigned char *from = coll_shm_mapped(v, i, coll_shm_buffers_of(v, i, 1)->dst);
        memcpy((unsigned char *)v->op->args.dst + begin, from + begin, end - begin);
    }
}

/* --- the decision ---------------------------------------------------------------------------- */

/*
 * Not if members may leave an operation: they could not know when others have stopped writing to
 * their memory.
 */
static bool coll_shm_others_may_write(const struct coll_args *args)
{
    return args->kind != COLL_REDUCE || !core.params.survive;
}

/* An address outside of the segment is not trusted. */
static bool coll_shm_may_go_direct(const struct shm_view *v, uint32_t member,
                                   const struct shm_buffers *buffers)
{
    const struct core_route *route = coll_route(v->team, member);
    if (buffers->src == 0 || buffers->dst == 0) return false;
    if (buffers->src != SHM_NO_BUFFER && !buffers->src_private &&
        !core_in_segment(route, buffers->src, buffers->most))
        return false;
    return buffers->dst == SHM_NO_BUFFER || core_in_segment(route, buffers->dst, buffers->most);
}

/* All members decide the same, from the same lines. */
enum coll_phase shm_buffers_read(const struct shm_view *v)
{
    struct coll_op *op = v->op;
    bool direct = coll_shm_others_may_write(&op->args), can_pull = true, some_private = false;
    uint64_t sizes = 0;
    op->shm.most = 0;
    for (uint32_t i = 0; i < v->shm->members; i++) {
        const struct shm_buffers *buffers = &shm_line_of(v->slot, i, v->slot->round)->buffers;
        op->shm.most = aqi_max(op->shm.most, buffers->most);
        direct = direct && coll_shm_may_go_direct(v, i, buffers);
        can_pull = can_pull && buffers->can_pull;
        some_private = some_private || buffers->src_private;
        sizes += buffers->sizes;
    }
    if (sizes != 0) op->status = AQ_EMISMATCH;
    if (sizes != 0) return SHM_DONE;
    op->shm.length = aqi_min(op->shm.unit, op->shm.most);
    if (op->shm.most == 0) return SHM_DONE;
    if (op->shm.most < SHM_DIRECT_LEAST) return SHM_CHUNK;
    if (!direct || (some_private && !can_pull)) return SHM_CHUNK;
    op->shm.more = shm_direct(v);
    return SHM_DIRECT;
}
