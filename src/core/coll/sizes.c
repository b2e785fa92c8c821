/*
 * Checks that the sizes of the blocks of a v-form match. Each member adds a hash of every block
 * that it sends, and subtracts one of every block that it expects; the sum over all members is zero
 * if and (except for one case in 2^64) only if they agree. In shared memory, the sums are published
 * with the addresses of the buffers; otherwise, they are first reduced by messages.
 */
#include "core/coll/shm.h"

static uint64_t sizes_hash(uint32_t from, uint32_t to, size_t len)
{
    uint64_t word = coll_mix(((uint64_t)from << 32 | to) + 1, len);
    return (word ^ word >> 32) * 0x94d049bb133111ebu;
}

uint64_t coll_sizes_of(const aq_team *team, const struct coll_args *args)
{
    uint32_t self = team->rank;
    bool sends = coll_sends(args, self), receives = coll_receives(args, self);
    const unsigned char *from;
    unsigned char *to;
    uint64_t word = 0;
    for (uint32_t i = 0; i < team->size; i++) {
        if (sends && coll_receives(args, i))
            word += sizes_hash(self, i, coll_send_block(args, i, &from));
        if (receives && coll_sends(args, i))
            word -= sizes_hash(i, self, coll_recv_block(args, i, &to));
    }
    return word;
}

uint32_t coll_sizes_of_table(const aq_team *team, const size_t *counts)
{
    uint64_t word = 0;
    for (uint32_t i = 0; i < team->size; i++)
        word += sizes_hash(i, i, counts[i]);
    return (uint32_t)(word >> 32);
}

bool coll_sizes_first(const aq_team *team, struct coll_op *op, struct coll_op *check)
{
    if (!op->args.vary || coll_shm_engine.takes(team, &op->args)) return false;
    op->sizes = coll_sizes_of(team, &op->args);
    check->args = (struct coll_args){.kind = COLL_ALLREDUCE,
                                     .code = COLL_CODE_SIZES,
                                     .src = &op->sizes,
                                     .dst = &op->sizes,
                                     .nbytes = sizeof(op->sizes)};
    check->args.fn = coll_builtin(AQ_TYPE_U64, AQ_OP_ADD, &check->args.element);
    check->then = op;
    atomic_store_explicit(&check->held, atomic_load(&op->held), memory_order_relaxed);
    atomic_store_explicit(&op->held, true, memory_order_relaxed);
    return true;
}
