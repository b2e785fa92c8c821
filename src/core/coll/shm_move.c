/*
 * Collectives in shared memory: what each kind writes before it arrives and reads afterwards, for
 * the part [at, at + length) of every block.
 */
#include "core/coll/shm.h"

#include <string.h>

/* --- locations of the parts ------------------------------------------------------------------ */

/*
 * The chunk of a member in a round. A broadcast fills a single chunk as large as all of them
 * together, from the first one on.
 */
static unsigned char *coll_shm_place(const struct shm_view *v, uint32_t member, uint32_t round)
{
    if (v->op->shm.length <= SHM_INLINE) return shm_line_of(v->slot, member, round)->bytes;
    if (v->op->args.kind == COLL_BROADCAST) member = 0;
    return shm_chunk_of(v->shm, v->slot, member, round);
}

static unsigned char *coll_shm_part_of(const struct shm_view *v, uint32_t member)
{
    return coll_shm_place(v, member, v->slot->round);
}

/* Where the last member to arrive puts the result. */
static unsigned char *coll_shm_result_of(const struct shm_view *v)
{
    uint32_t round = v->slot->round;
    if (v->op->shm.length <= SHM_INLINE) return shm_release_of(v->slot, round)->bytes;
    return shm_chunk_of(v->shm, v->slot, v->shm->members, round);
}

/* The number of bytes that this round moves of a block of `len` bytes. */
static size_t coll_shm_part_len(const struct coll_op *op, size_t len)
{
    return len <= op->shm.at ? 0 : aqi_min(op->shm.length, len - op->shm.at);
}

/* --- supported kinds, and the size of a round ------------------------------------------------ */

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
 * All-to-all: a chunk holds a piece for each member of [op->shm.first, shm_group_end), which are
 * all members if it is large enough; otherwise, each such group gets a round.
 */
static size_t coll_shm_piece_bytes(const struct coll_op *op)
{
    return aqi_round_up(op->shm.length, 8);
}

uint32_t shm_group_end(const struct coll_shm *shm, const struct coll_op *op)
{
    if (op->args.kind != COLL_ALLTOALL) return shm->members;
    return (uint32_t)aqi_min(op->shm.first + shm->chunk / coll_shm_piece_bytes(op), shm->members);
}

static void coll_shm_stage_blocks(const struct shm_view *v)
{
    const struct coll_op *op = v->op;
    uint32_t next = v->slot->round + 1;
    bool all = op->args.kind == COLL_ALLTOALL;
    for (uint32_t i = op->shm.first, end = shm_group_end(v->shm, op); i < end; i++) {
        const unsigned char *from;
        size_t len = coll_shm_part_len(op, coll_send_block(&op->args, i, &from));
        if (i == v->shm->self || len == 0) continue;
        unsigned char *to = shm_chunk_of(v->shm, v->slot, all ? v->shm->self : i, next);
        if (all) to += (i - op->shm.first) * coll_shm_piece_bytes(op);
        memcpy(to, from + op->shm.at, len);
    }
}

void shm_stage(const struct shm_view *v)
{
    const struct coll_op *op = v->op;
    const struct coll_args *args = &op->args;
    size_t len = coll_shm_part_len(op, args->nbytes);
    bool only_own = args->kind == COLL_GATHER && v->shm->self == args->root;
    if (!coll_sends(args, v->shm->self) || only_own) return;
    if (coll_flows[args->kind].deals)
        coll_shm_stage_blocks(v);
    else if (len != 0)
        memcpy(coll_shm_place(v, v->shm->self, v->slot->round + 1),
               (const unsigned char *)args->src + op->shm.at, len);
}

void shm_own_block(const struct shm_view *v)
{
    const struct coll_args *args = &v->op->args;
    const unsigned char *from = args->src;
    unsigned char *to = args->dst;
    size_t len = args->nbytes;
    if (coll_flows[args->kind].deals) len = coll_send_block(args, v->shm->self, &from);
    if (coll_flows[args->kind].collects) (void)coll_recv_block(args, v->shm->self, &to);
    coll_copy(to, from, len);
}

static void coll_shm_read_gathered(const struct shm_view *v)
{
    const struct coll_op *op = v->op;
    const uint32_t self = v->shm->self;
    bool all = op->args.kind == COLL_ALLTOALL;
    if (self < op->shm.first || self >= shm_group_end(v->shm, op)) return;
    for (uint32_t i = 0; i < v->shm->members; i++) {
        unsigned char *to;
        size_t len = coll_shm_part_len(op, coll_recv_block(&op->args, i, &to));
        if (i == self || len == 0) continue;
        const unsigned char *from = all ? shm_chunk_of(v->shm, v->slot, i, v->slot->round) +
                                              (self - op->shm.first) * coll_shm_piece_bytes(op)
                                        : coll_shm_part_of(v, i);
        memcpy(to + op->shm.at, from, len);
    }
}

/* For a broadcast or a scatter. */
static void coll_shm_read_from_root(const struct shm_view *v)
{
    const struct coll_op *op = v->op;
    size_t len = coll_shm_part_len(op, op->args.nbytes);
    const unsigned char *from = coll_flows[op->args.kind].deals
                                    ? shm_chunk_of(v->shm, v->slot, v->shm->self, v->slot->round)
                                    : coll_shm_part_of(v, op->args.root);
    if (len != 0) memcpy((unsigned char *)op->args.dst + op->shm.at, from, len);
}

/* --- reductions ------------------------------------------------------------------------------ */

/* Fold all parts, from the last rank to the first, so that the result is the same everywhere. */
static void coll_shm_fold_parts(const struct shm_view *v, unsigned char *into, size_t at,
                                size_t len)
{
    uint32_t i = v->shm->members - 1;
    memcpy(into, coll_shm_part_of(v, i) + at, len);
    while (i-- > 0)
        coll_fold(&v->op->args, coll_shm_part_of(v, i) + at, into, len);
}

void shm_last(const struct shm_view *v)
{
    if (coll_flows[v->op->args.kind].folds)
        coll_shm_fold_parts(v, coll_shm_result_of(v), 0, v->op->shm.length);
}

static void coll_shm_read_reduced(const struct shm_view *v)
{
    unsigned char *to = (unsigned char *)v->op->args.dst + v->op->shm.at;
    if (v->shm->flat)
        coll_shm_fold_parts(v, to, 0, v->op->shm.length);
    else
        memcpy(to, coll_shm_result_of(v), v->op->shm.length);
}

void shm_read(const struct shm_view *v)
{
    const struct coll_op *op = v->op;
    const struct coll_flow *flow = &coll_flows[op->args.kind];
    bool own = flow->collects || v->shm->self == op->args.root;
    if (!coll_receives(&op->args, v->shm->self)) return;
    if (flow->folds) {
        coll_shm_read_reduced(v);
        return;
    }
    if (flow->collects)
        coll_shm_read_gathered(v);
    else if (!own)
        coll_shm_read_from_root(v);
    if (own && op->shm.at == 0 && op->shm.first == 0) shm_own_block(v);
}

/* In a long reduction, each member folds a slice; a second round collects the slices. */
bool shm_in_slices(const struct coll_shm *shm, const struct coll_op *op)
{
    return coll_flows[op->args.kind].folds && op->shm.length > SHM_SMALL &&
           op->shm.length / op->args.element >= shm->members;
}

size_t shm_slice_begin(const struct shm_view *v, size_t len, uint32_t member)
{
    size_t element = v->op->args.element;
    return len / element * member / v->shm->members * element;
}

void shm_slice_stage(const struct shm_view *v)
{
    size_t begin = shm_slice_begin(v, v->op->shm.length, v->shm->self);
    size_t end = shm_slice_begin(v, v->op->shm.length, v->shm->self + 1);
    unsigned char *result =
        shm_chunk_of(v->shm, v->slot, v->shm->members, v->slot->round + 1) + begin;
    coll_shm_fold_parts(v, result, begin, end - begin);
}

void shm_slice_read(const struct shm_view *v)
{
    if (coll_receives(&v->op->args, v->shm->self))
        memcpy((unsigned char *)v->op->args.dst + v->op->shm.at, coll_shm_result_of(v),
               v->op->shm.length);
}
