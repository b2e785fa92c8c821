/* Collectives: calls that every member of a team makes, in the same order. */
#ifndef AQUEDUCT_COLL_H
#define AQUEDUCT_COLL_H

#include <aqueduct/event.h>
#include <aqueduct/team.h>
#include <aqueduct/type.h>

#ifdef __cplusplus
extern "C" {
#endif

/** In `flags` of a collective: its data moves only after all members have started it. */
#define AQ_COLL_IN_ALL 0x10000u
/** In `flags` of a collective: it completes only when the buffers of all members are final. */
#define AQ_COLL_OUT_ALL 0x20000u
/**
 * In `flags` of a reduction: the operator need not be commutative. Operands are combined in rank
 * order, with any grouping; long reductions are slower.
 */
#define AQ_COLL_ORDERED 0x40000u

/**
 * A user-defined reduction: for all i below `count`, element i of `right_and_out` becomes left[i]
 * op right_and_out[i].
 *
 * The operator must be associative and, unless AQ_COLL_ORDERED is given, commutative. It is called
 * any number of times, for any `count`, on any thread that makes progress. It must not modify
 * `left` or call the library.
 */
typedef void aq_reduce_fn(const void *left, void *right_and_out, size_t count, const void *context);

/**
 * Broadcast `nbytes` from `src` in the member `root` to `dst` in all members, and wait.
 *
 * `src` is used in the root only; there `dst` may equal `src`.
 *
 * These rules apply to all collectives. The members of a team start them, including barriers
 * (aq_barrier_notify counts as one), in the same order and may complete them in any order;
 * different threads may have collectives in progress on different teams. Root, sizes, type and
 * operator must be the same in all members unless stated otherwise; a detected difference ends the
 * job. Buffers, tables and contexts must stay valid and unchanged until completion. `flags` may
 * contain AQ_COLL_IN_ALL, AQ_COLL_OUT_ALL and AQ_IMMEDIATE, which has no effect.
 *
 * Completion  On return the caller's own buffers are final: `dst` holds the data, and `src` may be
 *             reused. This implies nothing about other members. Any collective may synchronize
 *             members.
 * Blocking    Until complete; runs handlers.
 * Threads     One at a time per team; not from a handler.
 *
 * @return AQ_OK     Done.
 * @return AQ_ERANK  `root` is not in the team.
 * @return AQ_EPEER  A member died; the contents of `dst` are undefined.
 * @return AQ_EINVAL  The team does not support collectives, `flags` has a bit that this call does
 *                    not accept, or a pointer is NULL.
 * @return AQ_ENOMEM, AQ_ESTATE, AQ_ECONTEXT  Nothing was started.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_broadcast(aq_team *team, aq_rank root, void *dst,
                                               const void *src, size_t nbytes, unsigned flags);

/**
 * Start a broadcast that completes through an event; otherwise as aq_coll_broadcast.
 *
 * Completion  `*ev` completes when the caller's own buffers are final: `dst` holds the data, and
 *             `src` may be reused. This implies nothing about other members. Any collective may
 *             synchronize members.
 * Blocking    Never.
 * Threads     One at a time per team; not from a handler.
 *
 * @return AQ_OK      Started; `*ev` is valid (AQ_EVENT_DONE if already complete). Waiting for it
 *                    returns AQ_EPEER if a member died; the contents of `dst` are then undefined.
 * @return AQ_ERANK   `root` is not in the team.
 * @return AQ_EINVAL, AQ_ENOMEM, AQ_EPEER, AQ_ESTATE, AQ_ECONTEXT  Nothing was started.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_broadcast_nb(aq_team *team, aq_rank root, void *dst,
                                                  const void *src, size_t nbytes, unsigned flags,
                                                  aq_event *ev);

/**
 * Reduce the `count` elements at `src` of all members, element by element, to `dst` in the member
 * `root`, and wait.
 *
 * `op` is AQ_OP_ADD, AQ_OP_MULT, AQ_OP_MIN, AQ_OP_MAX or, for integers, AQ_OP_AND, AQ_OP_OR,
 * AQ_OP_XOR. `dst` is used in the root only, where it may equal `src`. Integers wrap around. The
 * order in which floating-point elements are combined is unspecified, but the same in each run with
 * the same members, sizes, settings and kind of memory. Otherwise as aq_coll_broadcast.
 *
 * @return AQ_OK, AQ_ERANK, AQ_EPEER, AQ_ENOMEM, AQ_ESTATE, AQ_ECONTEXT  As aq_coll_broadcast.
 * @return AQ_EINVAL  The type does not support `op`, or as aq_coll_broadcast.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_reduce(aq_team *team, aq_rank root, void *dst, const void *src,
                                            size_t count, aq_type type, aq_op op, unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_coll_reduce_nb(aq_team *team, aq_rank root, void *dst,
                                               const void *src, size_t count, aq_type type,
                                               aq_op op, unsigned flags, aq_event *ev);

/**
 * Reduce `count` elements of `size` bytes, of any type, to one member with a user-defined function,
 * and wait. `context` is passed to `fn` and may differ between members. Otherwise as
 * aq_coll_broadcast.
 *
 * @return As aq_coll_reduce; AQ_EINVAL also if `fn` is NULL or `size` is 0.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_reduce_user(aq_team *team, aq_rank root, void *dst,
                                                 const void *src, size_t count, size_t size,
                                                 aq_reduce_fn *fn, const void *context,
                                                 unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_coll_reduce_user_nb(aq_team *team, aq_rank root, void *dst,
                                                    const void *src, size_t count, size_t size,
                                                    aq_reduce_fn *fn, const void *context,
                                                    unsigned flags, aq_event *ev);

/**
 * Reduce the elements of all members to `dst` in all members, and wait.
 *
 * `dst` must equal `src` in all members or in none. Otherwise as aq_coll_reduce; the result is
 * bitwise identical in all members.
 *
 * @return As aq_coll_reduce, except AQ_ERANK.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_allreduce(aq_team *team, void *dst, const void *src,
                                               size_t count, aq_type type, aq_op op,
                                               unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_coll_allreduce_nb(aq_team *team, void *dst, const void *src,
                                                  size_t count, aq_type type, aq_op op,
                                                  unsigned flags, aq_event *ev);

/**
 * Reduce to all members with a user-defined function, and wait; as aq_coll_reduce_user and as
 * aq_coll_allreduce.
 *
 * @return As aq_coll_reduce_user, except AQ_ERANK.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_allreduce_user(aq_team *team, void *dst, const void *src,
                                                    size_t count, size_t size, aq_reduce_fn *fn,
                                                    const void *context, unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_coll_allreduce_user_nb(aq_team *team, void *dst, const void *src,
                                                       size_t count, size_t size, aq_reduce_fn *fn,
                                                       const void *context, unsigned flags,
                                                       aq_event *ev);

/**
 * Gather the `nbytes` at `src` of every member in the member `root`, and wait.
 *
 * Block i of `dst`, at offset i * nbytes, comes from rank i. `dst` is used in the root only, where
 * `src` may be its own block in `dst`. Otherwise as aq_coll_broadcast.
 *
 * @return As aq_coll_broadcast; AQ_EINVAL also if the total size overflows.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_gather(aq_team *team, aq_rank root, void *dst, const void *src,
                                            size_t nbytes, unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_coll_gather_nb(aq_team *team, aq_rank root, void *dst,
                                               const void *src, size_t nbytes, unsigned flags,
                                               aq_event *ev);

/**
 * Gather blocks of different sizes, `nbytes` from this member, and wait. In the root, block i has
 * counts[i] bytes and goes to dst + offsets[i]; the tables are used in the root only. Otherwise as
 * aq_coll_broadcast.
 *
 * @return AQ_EMISMATCH  A member's `nbytes` differs from the size that the root expects. Every
 *                       member gets this (in the `_nb` form, from the wait for the event); nothing
 *                       was moved, and the team remains usable.
 * @return As aq_coll_gather; AQ_EINVAL also if a table in the root is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_gatherv(aq_team *team, aq_rank root, void *dst,
                                             const size_t *counts, const size_t *offsets,
                                             const void *src, size_t nbytes, unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_coll_gatherv_nb(aq_team *team, aq_rank root, void *dst,
                                                const size_t *counts, const size_t *offsets,
                                                const void *src, size_t nbytes, unsigned flags,
                                                aq_event *ev);

/**
 * Gather the `nbytes` at `src` of every member in all members, and wait. Otherwise as
 * aq_coll_gather.
 *
 * @return As aq_coll_gather, except AQ_ERANK.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_allgather(aq_team *team, void *dst, const void *src,
                                               size_t nbytes, unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_coll_allgather_nb(aq_team *team, void *dst, const void *src,
                                                  size_t nbytes, unsigned flags, aq_event *ev);

/**
 * Gather blocks of different sizes in all members, and wait: block i has counts[i] bytes and goes
 * to dst + offsets[i]. `counts` is the same in all members; the caller's own block is at `src`.
 * Otherwise as aq_coll_broadcast.
 *
 * @return As aq_coll_allgather; AQ_EINVAL also if a table is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_allgatherv(aq_team *team, void *dst, const size_t *counts,
                                                const size_t *offsets, const void *src,
                                                unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_coll_allgatherv_nb(aq_team *team, void *dst, const size_t *counts,
                                                   const size_t *offsets, const void *src,
                                                   unsigned flags, aq_event *ev);

/**
 * Scatter the blocks at `src` in the member `root`, and wait: block i, of `nbytes` at offset i *
 * nbytes, goes to `dst` of rank i.
 *
 * `src` is used in the root only, where `dst` may be its own block in `src`. Otherwise as
 * aq_coll_broadcast.
 *
 * @return As aq_coll_broadcast; AQ_EINVAL also if the total size overflows.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_scatter(aq_team *team, aq_rank root, void *dst,
                                             const void *src, size_t nbytes, unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_coll_scatter_nb(aq_team *team, aq_rank root, void *dst,
                                                const void *src, size_t nbytes, unsigned flags,
                                                aq_event *ev);

/**
 * Scatter blocks of different sizes, `nbytes` to this member, and wait. In the root, block i has
 * counts[i] bytes and is at src + offsets[i]; the tables are used in the root only. Otherwise as
 * aq_coll_broadcast.
 *
 * @return AQ_EMISMATCH  A member's `nbytes` differs from the size that the root sends; as with
 *                       aq_coll_gatherv.
 * @return As aq_coll_scatter; AQ_EINVAL also if a table in the root is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_scatterv(aq_team *team, aq_rank root, void *dst, size_t nbytes,
                                              const void *src, const size_t *counts,
                                              const size_t *offsets, unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_coll_scatterv_nb(aq_team *team, aq_rank root, void *dst,
                                                 size_t nbytes, const void *src,
                                                 const size_t *counts, const size_t *offsets,
                                                 unsigned flags, aq_event *ev);

/**
 * Send a block from every member to every member, and wait: block i at `src`, of `nbytes`, goes to
 * rank i, and block i at `dst` comes from rank i. `src` and `dst` must not overlap. Otherwise as
 * aq_coll_broadcast.
 *
 * @return As aq_coll_broadcast, except AQ_ERANK; AQ_EINVAL also if the total size overflows.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_alltoall(aq_team *team, void *dst, const void *src,
                                              size_t nbytes, unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_coll_alltoall_nb(aq_team *team, void *dst, const void *src,
                                                 size_t nbytes, unsigned flags, aq_event *ev);

/**
 * Exchange blocks of different sizes between all members, and wait: src_counts[i] bytes at src +
 * src_offsets[i] go to rank i, and dst_counts[i] bytes come from rank i to dst + dst_offsets[i].
 * Sender and receiver must agree on the size of each block. Otherwise as aq_coll_broadcast.
 *
 * @return AQ_EMISMATCH  Two members disagree on the size of a block; as with aq_coll_gatherv.
 * @return As aq_coll_alltoall; AQ_EINVAL also if a table is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_alltoallv(aq_team *team, void *dst, const size_t *dst_counts,
                                               const size_t *dst_offsets, const void *src,
                                               const size_t *src_counts, const size_t *src_offsets,
                                               unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_coll_alltoallv_nb(
    aq_team *team, void *dst, const size_t *dst_counts, const size_t *dst_offsets, const void *src,
    const size_t *src_counts, const size_t *src_offsets, unsigned flags, aq_event *ev);

#ifdef __cplusplus
}
#endif
#endif
