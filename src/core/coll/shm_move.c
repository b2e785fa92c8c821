/*
 * Collectives in shared memory: what each kind writes before it arrives and reads afterwards, for
 * the part [at, at + length) of every block.
 */
#include "core/coll/shm.h"

#include <string.h>

enum { FOLD_BLOCK = 16 * 1024 }; /* of a long reduction: the sum stays in the nearest cache */

/* --- where a part is ------------------------------------------------------------------------- */

/* What a member wrote in this round, and where the last to come puts the result. */
static unsigned char *part_of(const struct shm_view *v, uint32_t member)
{
    uint32_t round = v->slot->round;
    if (v->op->length <= SHM_INLINE) return shm_line_of(v->slot, member, round)->bytes;
    return shm_chunk_of(v->shm, v->slot, member, round);
}

static unsigned char *result_of(const struct shm_view *v)
{
    uint32_t round = v->slot->round;
    if (v->op->length <= SHM_INLINE) return shm_release_of(v->slot, round)->bytes;
    return shm_chunk_of(v->shm, v->slot, v->shm->members, round);
}

/* Where we write now, before we arrive. */
static unsigned char *part_next(const struct shm_view *v)
{
    if (v->op->length <= SHM_INLINE) return shm_line_next(v->shm, v->slot)->bytes;
    return shm_chunk_of(v->shm, v->slot, v->shm->self, v->slot->round + 1);
}

/* How much of a block of `len` bytes is in this round. */
static size_t part_len(const struct coll_op *op, size_t len)
{
    return len <= op->at ? 0 : aqi_min(op->length, len - op->at);
}

/* --- which kinds can, and how much in a round ------------------------------------------------ */

size_t shm_unit(const struct coll_shm *shm, const struct coll_args *args)
{
    switch (args->kind) {
    case COLL_BARRIER:
        return 1;
    case COLL_BROADCAST:
        return aqi_min(shm->area, shm->crowded ? SHM_CROWDED_BURST : SHM_MOST_BURST);
    case COLL_REDUCE:
    case COLL_ALLREDUCE:
        return shm->chunk / args->element * args->element;
    case COLL_ALLTOALL:
        return aqi_max(shm->chunk / shm->members / 8 * 8, SHM_LEAST_PIECE);
    default:
        return shm->chunk;
    }
}

/* --- broadcast, gather, all-gather, scatter, all-to-all -------------------------------------- */

/*
 * All-to-all: a chunk holds a piece for each member of [op->first, shm_group_end), all members if
 * it is large enough; else there is a round for each such group.
 */
static size_t piece_bytes(const struct coll_op *op)
{
    return aqi_round_up(op->length, 8);
}

uint32_t shm_group_end(const struct coll_shm *shm, const struct coll_op *op)
{
    if (op->args.kind != COLL_ALLTOALL) return shm->members;
    return (uint32_t)aqi_min(op->first + shm->chunk / piece_bytes(op), shm->members);
}

static void post_blocks(const struct shm_view *v)
{
    const struct coll_op *op = v->op;
    uint32_t next = v->slot->round + 1;
    bool all = op->args.kind == COLL_ALLTOALL;
    for (uint32_t i = op->first, end = shm_group_end(v->shm, op); i < end; i++) {
        const unsigned char *from;
        size_t len = part_len(op, coll_send_block(&op->args, i, &from));
        if (i == v->shm->self || len == 0) continue;
        unsigned char *to = shm_chunk_of(v->shm, v->slot, all ? v->shm->self : i, next);
        if (all) to += (i - op->first) * piece_bytes(op);
        memcpy(to, from + op->at, len);
    }
}

void shm_post(const struct shm_view *v)
{
    const struct coll_op *op = v->op;
    const struct coll_args *args = &op->args;
    bool root = v->team->rank == args->root;
    switch (args->kind) {
    case COLL_BROADCAST:
        if (!root) break;
        if (op->length <= SHM_INLINE)
            memcpy(part_next(v), (const unsigned char *)args->src + op->at, op->length);
        else
            memcpy(shm_chunk_of(v->shm, v->slot, 0, v->slot->round + 1),
                   (const unsigned char *)args->src + op->at, op->length);
        break;
    case COLL_GATHER:
        if (root) break;
        /* fall through */
    case COLL_ALLGATHER:
    case COLL_REDUCE:
    case COLL_ALLREDUCE:
        if (part_len(op, args->nbytes) != 0)
            memcpy(part_next(v), (const unsigned char *)args->src + op->at,
                   part_len(op, args->nbytes));
        break;
    case COLL_SCATTER:
        if (root) post_blocks(v);
        break;
    case COLL_ALLTOALL:
        post_blocks(v);
        break;
    default:
        break;
    }
}

/* The block that comes from us to us. */
static void own_block(const struct shm_view *v)
{
    const struct coll_args *args = &v->op->args;
    const unsigned char *from = args->src;
    unsigned char *to = args->dst;
    size_t len = args->nbytes;
    if (args->kind == COLL_SCATTER || args->kind == COLL_ALLTOALL)
        len = coll_send_block(args, v->shm->self, &from);
    if (args->kind != COLL_SCATTER && args->kind != COLL_BROADCAST)
        (void)coll_recv_block(args, v->shm->self, &to);
    coll_copy(to, from, len);
}

static void read_gathered(const struct shm_view *v)
{
    const struct coll_op *op = v->op;
    const uint32_t self = v->shm->self;
    bool all = op->args.kind == COLL_ALLTOALL;
    if (self < op->first || self >= shm_group_end(v->shm, op)) return;
    for (uint32_t i = 0; i < v->shm->members; i++) {
        unsigned char *to;
        size_t len = part_len(op, coll_recv_block(&op->args, i, &to));
        if (i == self || len == 0) continue;
        const unsigned char *from = all ? shm_chunk_of(v->shm, v->slot, i, v->slot->round) +
                                              (self - op->first) * piece_bytes(op)
                                        : part_of(v, i);
        memcpy(to + op->at, from, len);
    }
}

static void read_broadcast(const struct shm_view *v)
{
    const struct coll_op *op = v->op;
    const unsigned char *from = op->length <= SHM_INLINE
                                    ? part_of(v, op->args.root)
                                    : shm_chunk_of(v->shm, v->slot, 0, v->slot->round);
    memcpy((unsigned char *)op->args.dst + op->at, from, op->length);
}

static void read_scattered(const struct shm_view *v)
{
    const struct coll_op *op = v->op;
    size_t len = part_len(op, op->args.nbytes);
    if (len != 0)
        memcpy((unsigned char *)op->args.dst + op->at,
               shm_chunk_of(v->shm, v->slot, v->shm->self, v->slot->round), len);
}

/* --- reductions ------------------------------------------------------------------------------ */

/* All parts, folded in the order of the ranks from the last to the first: the same everywhere. */
static void fold_parts(const struct shm_view *v, unsigned char *into, size_t at, size_t len)
{
    uint32_t i = v->shm->members - 1;
    memcpy(into, part_of(v, i) + at, len);
    while (i-- > 0)
        coll_fold(&v->op->args, part_of(v, i) + at, into, len);
}

static bool wants_result(const struct shm_view *v)
{
    return v->op->args.kind == COLL_ALLREDUCE || v->team->rank == v->op->args.root;
}

void shm_last(const struct shm_view *v)
{
    if (v->op->args.kind == COLL_REDUCE || v->op->args.kind == COLL_ALLREDUCE)
        fold_parts(v, result_of(v), 0, v->op->length);
}

static void read_reduced(const struct shm_view *v)
{
    if (!wants_result(v)) return; /* dst may be NULL */
    unsigned char *to = (unsigned char *)v->op->args.dst + v->op->at;
    if (v->shm->flat)
        fold_parts(v, to, 0, v->op->length);
    else
        memcpy(to, result_of(v), v->op->length);
}

void shm_read(const struct shm_view *v)
{
    const struct coll_op *op = v->op;
    bool root = v->team->rank == op->args.root;
    switch (op->args.kind) {
    case COLL_BROADCAST:
        if (!root) read_broadcast(v);
        break;
    case COLL_REDUCE:
    case COLL_ALLREDUCE:
        read_reduced(v);
        return;
    case COLL_SCATTER:
        if (!root) read_scattered(v);
        break;
    case COLL_GATHER:
        if (root) read_gathered(v);
        break;
    case COLL_ALLGATHER:
    case COLL_ALLTOALL:
        read_gathered(v);
        root = true;
        break;
    default:
        return;
    }
    if (root && op->at == 0 && op->first == 0) own_block(v);
}

/* A long reduction is shared out: each folds a slice of all parts; a second round brings them
 * together. */
bool shm_in_slices(const struct coll_shm *shm, const struct coll_op *op)
{
    return (op->args.kind == COLL_REDUCE || op->args.kind == COLL_ALLREDUCE) &&
           op->length > SHM_SMALL && op->length / op->args.element >= shm->members;
}

static size_t slice_begin(const struct shm_view *v, size_t len, uint32_t member)
{
    size_t element = v->op->args.element;
    return len / element * member / v->shm->members * element;
}

void shm_slice_post(const struct shm_view *v)
{
    size_t begin = slice_begin(v, v->op->length, v->shm->self);
    size_t end = slice_begin(v, v->op->length, v->shm->self + 1);
    unsigned char *result =
        shm_chunk_of(v->shm, v->slot, v->shm->members, v->slot->round + 1) + begin;
    fold_parts(v, result, begin, end - begin);
}

void shm_slice_read(const struct shm_view *v)
{
    if (wants_result(v))
        memcpy((unsigned char *)v->op->args.dst + v->op->at, result_of(v), v->op->length);
}

/* --- between segments ------------------------------------------------------------------------ */

/* What a member said, which stays until all have come to the round after the next. */
static const struct shm_talk *talk_of(const struct shm_view *v, uint32_t member, uint32_t age)
{
    return &shm_line_of(v->slot, member, v->slot->round - age)->talk;
}

static unsigned char *mapped(const struct shm_view *v, uint32_t member, uint64_t addr)
{
    const struct core_route *route = coll_route(v->team, member);
    return route->local + (addr - route->seg_addr);
}

static const unsigned char *source_of(const struct shm_view *v, uint32_t member)
{
    return mapped(v, member, talk_of(v, member, 0)->src);
}

/* Get `len` bytes of a member's source, [at, at + len) of it. */
static void fetch(const struct shm_view *v, uint32_t member, size_t at, void *to, size_t len)
{
    const struct shm_talk *talk = talk_of(v, member, 0);
    if (len == 0) return;
    if (!talk->src_private) {
        memcpy(to, source_of(v, member) + at, len);
        return;
    }
    const struct core_route *route = coll_route(v->team, member);
    aq_status st = route->tp->ops.pull(route->tp, route->peer, talk->src + at, to, len);
    if (st == AQ_OK || v->op->status != AQ_OK) return;
    if (st != AQ_EPEER && !shm_some_left(v->shm)) aqi_fail(st, "core", "%s", aq_error_message());
    v->op->status = st;
}

/* Our slice of all sources into the same slice of `to`, which is on top of one source or none. */
static void direct_fold(const struct shm_view *v, uint32_t first, unsigned char *to)
{
    size_t element = v->op->args.element;
    size_t at = slice_begin(v, v->op->most, v->shm->self);
    size_t end = slice_begin(v, v->op->most, v->shm->self + 1);
    size_t step = element >= FOLD_BLOCK ? element : FOLD_BLOCK / element * element;
    for (; at < end; at += step) {
        size_t len = aqi_min(step, end - at);
        coll_copy(to + at, source_of(v, first) + at, len);
        for (uint32_t i = 0; i < v->shm->members; i++)
            if (i != first) coll_fold(&v->op->args, source_of(v, i) + at, to + at, len);
    }
}

/* Starts with the neighbour after us, so that not all read from one member at a time. */
static void direct_gather(const struct shm_view *v)
{
    const struct coll_args *args = &v->op->args;
    bool all = args->kind == COLL_ALLTOALL;
    for (uint32_t k = 1; k < v->shm->members; k++) {
        uint32_t i = (v->shm->self + k) % v->shm->members;
        unsigned char *to;
        size_t len = coll_recv_block(args, i, &to);
        fetch(v, i, all ? v->shm->self * args->nbytes : 0, to, len);
    }
}

bool shm_direct(const struct shm_view *v)
{
    const struct coll_args *args = &v->op->args;
    uint32_t self = v->shm->self, root = args->root;
    switch (args->kind) {
    case COLL_BROADCAST:
        if (self != root) fetch(v, root, 0, args->dst, args->nbytes);
        break;
    case COLL_SCATTER:
        if (self != root) fetch(v, root, self * args->nbytes, args->dst, args->nbytes);
        break;
    case COLL_REDUCE:
        direct_fold(v, root, mapped(v, root, talk_of(v, root, 0)->dst));
        return false;
    case COLL_ALLREDUCE:
        direct_fold(v, self, args->dst);
        return true;
    case COLL_GATHER:
        if (self == root) direct_gather(v);
        break;
    default:
        direct_gather(v);
        root = self;
    }
    if (self == root) own_block(v);
    return false;
}

/* All-reduce: the slices of the others are in their destinations. */
void shm_direct_rest(const struct shm_view *v)
{
    for (uint32_t k = 1; k < v->shm->members; k++) {
        uint32_t i = (v->shm->self + k) % v->shm->members;
        size_t begin = slice_begin(v, v->op->most, i), end = slice_begin(v, v->op->most, i + 1);
        const unsigned char *from = mapped(v, i, talk_of(v, i, 1)->dst);
        memcpy((unsigned char *)v->op->args.dst + begin, from + begin, end - begin);
    }
}
