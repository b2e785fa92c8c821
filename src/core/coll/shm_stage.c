/*
 * Large collectives in shared memory begin with a round in which each member tells where its
 * buffers are. If all lie in attached segments, or members can pull what does not (one copy, by the
 * transport), the data goes straight from one to the other; else through chunks, with two copies.
 */
#include "core/coll/shm.h"

/*
 * Has each byte one reader, and all members something to read? Then a single copy wins. What many
 * want is cheaper copied into shared memory once than read by all of them through the system, and
 * what only the root wants is copied by all at once on its way through shared memory.
 */
static bool is_dealt_out(const struct coll_args *args)
{
    return args->kind == COLL_SCATTER || args->kind == COLL_ALLTOALL;
}

/* --- what we say ----------------------------------------------------------------------------- */

/* An address of our segment that the others may have mapped, or 0. */
static uint64_t in_segment(const void *at, size_t len)
{
    const struct core_route *self = &core.routes[core.params.rank];
    uint64_t addr = (uint64_t)(uintptr_t)at;
    return self->local != NULL && core_in_segment(self, addr, len) ? addr : 0;
}

static bool can_pull_from(const struct shm_view *v, uint32_t member)
{
    const struct core_route *route = coll_route(v->team, member);
    return member == v->shm->self ||
           route->tp->ops.pull(route->tp, route->peer, 0, NULL, 0) == AQ_OK;
}

/* From all whose data we get. */
static bool can_pull(const struct shm_view *v)
{
    const struct coll_args *args = &v->op->args;
    if (args->kind == COLL_SCATTER) return can_pull_from(v, args->root);
    for (uint32_t i = 0; i < v->shm->members; i++)
        if (!can_pull_from(v, i)) return false;
    return true;
}

void shm_talk_post(const struct shm_view *v)
{
    const struct coll_args *args = &v->op->args;
    struct shm_talk *talk = &shm_line_next(v->shm, v->slot)->talk;
    size_t n = v->shm->members, len = args->nbytes, most = coll_longest(v->team, args);
    bool root = v->team->rank == args->root, ours = true;
    *talk = (struct shm_talk){.most = most, .src = NO_BUFFER, .dst = NO_BUFFER};
    if (args->kind == COLL_SCATTER || args->kind == COLL_ALLTOALL) len *= n;
    if ((args->kind != COLL_BROADCAST && args->kind != COLL_SCATTER) || root) {
        talk->src = args->vary && args->send_counts != NULL ? 0 : in_segment(args->src, len);
        ours = talk->src != 0;
    }
    if (args->kind == COLL_ALLREDUCE || (args->kind == COLL_REDUCE && root))
        talk->dst = in_segment(args->dst, len);
    if (!is_dealt_out(args) || (args->vary && args->send_counts != NULL)) return;
    if (!ours) {
        talk->src = len != 0 ? (uint64_t)(uintptr_t)args->src : NO_BUFFER;
        talk->src_private = 1;
    }
    talk->can_pull = can_pull(v);
}

/* --- what all make of it --------------------------------------------------------------------- */

/* Where members may leave an operation, no other writes into their memory: they would not know
 * until when. */
static bool others_may_write(const struct coll_args *args)
{
    return args->kind != COLL_REDUCE || !core.params.survive;
}

/* Nothing that a member says leads out of its segment. */
static bool may_go_direct(const struct shm_view *v, uint32_t member, const struct shm_talk *talk)
{
    const struct core_route *route = coll_route(v->team, member);
    if (talk->src == 0 || talk->dst == 0) return false;
    if (talk->src != NO_BUFFER && !talk->src_private &&
        !core_in_segment(route, talk->src, talk->most))
        return false;
    return talk->dst == NO_BUFFER || core_in_segment(route, talk->dst, talk->most);
}

/* All decide alike, from the same lines. */
enum coll_phase shm_talk_read(const struct shm_view *v)
{
    struct coll_op *op = v->op;
    bool direct = others_may_write(&op->args), can_pull = true, some_private = false;
    op->most = 0;
    for (uint32_t i = 0; i < v->shm->members; i++) {
        const struct shm_talk *talk = &shm_line_of(v->slot, i, v->slot->round)->talk;
        op->most = aqi_max(op->most, talk->most);
        direct = direct && may_go_direct(v, i, talk);
        can_pull = can_pull && talk->can_pull;
        some_private = some_private || talk->src_private;
    }
    op->length = aqi_min(op->unit, op->most);
    if (op->most == 0) return SHM_DONE;
    if (op->most < SHM_DIRECT_LEAST) return SHM_CHUNK;
    if (!direct || (some_private && !can_pull)) return SHM_CHUNK;
    op->more = shm_direct(v);
    return SHM_DIRECT;
}
