/* Collectives: calls that every member of a team makes, in the same order on the team. */
#ifndef AQUEDUCT_COLL_H
#define AQUEDUCT_COLL_H

#include <aqueduct/atomic.h>
#include <aqueduct/event.h>
#include <aqueduct/team.h>

#ifdef __cplusplus
extern "C" {
#endif

/** In `flags` of a collective: its data moves only when all members have started it. */
#define AQ_COLL_IN_ALL 0x100u
/** In `flags` of a collective: it is complete only when the buffers of all members are final. */
#define AQ_COLL_OUT_ALL 0x200u
/**
 * In `flags` of a reduction: the operator need not be commutative. Operands are combined in the
 * order of the ranks, in whatever grouping; long reductions take longer.
 */
#define AQ_COLL_ORDERED 0x400u

/**
 * A user's reduction: for all i below `count`, element i of `right_and_out` becomes
 * left[i] op right_and_out[i].
 *
 * The operator must be associative and, unless AQ_COLL_ORDERED is given, commutative. It is called
 * any number of times, for any `count`, on any thread that makes progress; `left` is read only. It
 * must not call the library.
 */
typedef void aq_reduce_fn(const void *left, void *right_and_out, size_t count, const void *context);

/**
 * Start a barrier of the team; several may be under way.
 *
 * All collectives share these rules. The members of a team start them in the same order (a notify
 * of a barrier counts as one of them) and may complete them in any order; different threads may
 * have collectives under way on different teams. Root, sizes, type and operator are the same in
 * all members where the text says no other: those that are found to differ end the job. Buffers,
 * tables and contexts stay valid and unchanged until completion. `flags` may have AQ_IMMEDIATE,
 * which changes nothing, and, but for barriers, AQ_COLL_IN_ALL and AQ_COLL_OUT_ALL.
 *
 * Completion  `*ev` becomes complete when all members have started it: release at the start,
 *             acquire at completion.
 * Blocking    Never.
 * Threads     One at a time for one team; not from inside a handler.
 *
 * @return AQ_OK      Started; `*ev` is valid (AQ_EVENT_DONE if it is already complete). Waiting for
 *                    it says AQ_EPEER if a member died.
 * @return AQ_EINVAL  The team cannot do collectives, a bit of `flags` is not for this call, or a
 *                    pointer is NULL.
 * @return AQ_ENOMEM, AQ_EPEER, AQ_ESTATE, AQ_ECONTEXT  Nothing began.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_barrier_nb(aq_team *team, unsigned flags, aq_event *ev);

/**
 * Copy `nbytes` from `src` of the member `root` to `dst` of all members, and wait.
 *
 * `src` matters in the root only; there `dst` may be equal to it.
 *
 * Completion  On return the own buffers are final: `dst` holds the data, `src` may be reused.
 *             Nothing is said about other members, and any collective may synchronise them.
 * Blocking    Until then; runs handlers.
 * Threads     One at a time for one team; not from inside a handler.
 *
 * @return AQ_OK     Done.
 * @return AQ_ERANK  `root` is not in the team.
 * @return AQ_EPEER  A member died; the content of `dst` is unknown.
 * @return AQ_EINVAL, AQ_ENOMEM, AQ_ESTATE, AQ_ECONTEXT  As aq_coll_barrier_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_broadcast(aq_team *team, aq_rank root, void *dst,
                                               const void *src, size_t nbytes);

/**
 * Start a broadcast: what aq_coll_broadcast does, with an event.
 *
 * Completion  `*ev` becomes complete when the own buffers are final: `dst` holds the data, `src`
 *             may be reused. Nothing is said about other members, and any collective may
 *             synchronise them.
 * Blocking    Never.
 * Threads     One at a time for one team; not from inside a handler.
 *
 * @return AQ_OK      Started; `*ev` is valid (AQ_EVENT_DONE if it is already complete). Waiting for
 *                    it says AQ_EPEER if a member died; then the content of `dst` is unknown.
 * @return AQ_ERANK   `root` is not in the team.
 * @return AQ_EINVAL, AQ_ENOMEM, AQ_EPEER, AQ_ESTATE, AQ_ECONTEXT  As aq_coll_barrier_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_broadcast_nb(aq_team *team, aq_rank root, void *dst,
                                                  const void *src, size_t nbytes, unsigned flags,
                                                  aq_event *ev);

/**
 * Combine the `count` elements at `src` of all members, each with those of the same index, to
 * `dst` of the member `root`, and wait.
 *
 * `op` is AQ_ADD, AQ_MULT, AQ_MIN, AQ_MAX or, for integers, AQ_AND, AQ_OR, AQ_XOR. `dst` matters in
 * the root only, where it may be equal to `src`. Integers wrap. The order in which floating
 * elements are combined is not specified, but is the same in each run with the same members,
 * sizes, settings and kind of memory.
 *
 * Completion, Blocking, Threads  As aq_coll_broadcast.
 *
 * @return AQ_OK, AQ_ERANK, AQ_EPEER, AQ_ENOMEM, AQ_ESTATE, AQ_ECONTEXT  As aq_coll_broadcast.
 * @return AQ_EINVAL  No such operator for the type, or as aq_coll_broadcast.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_reduce(aq_team *team, aq_rank root, void *dst, const void *src,
                                            size_t count, aq_atomic_type type, aq_atomic_op op);

/**
 * Start a reduction to one member: what aq_coll_reduce does, otherwise as aq_coll_broadcast_nb.
 *
 * @return As aq_coll_broadcast_nb; AQ_EINVAL also if there is no such operator for the type.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_reduce_nb(aq_team *team, aq_rank root, void *dst,
                                               const void *src, size_t count, aq_atomic_type type,
                                               aq_atomic_op op, unsigned flags, aq_event *ev);

/**
 * Combine with a function of the program, to one member, `count` elements of `size` bytes of any
 * type, and wait. `context` is handed to `fn` and may differ between members.
 *
 * Completion, Blocking, Threads  As aq_coll_broadcast.
 *
 * @return As aq_coll_reduce; AQ_EINVAL also if `fn` is NULL or `size` is 0.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_reduce_user(aq_team *team, aq_rank root, void *dst,
                                                 const void *src, size_t count, size_t size,
                                                 aq_reduce_fn *fn, const void *context);

/**
 * Start a reduction with a function of the program to one member: what aq_coll_reduce_user does,
 * otherwise as aq_coll_broadcast_nb.
 *
 * @return As aq_coll_broadcast_nb; AQ_EINVAL also if `fn` is NULL or `size` is 0.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_reduce_user_nb(aq_team *team, aq_rank root, void *dst,
                                                    const void *src, size_t count, size_t size,
                                                    aq_reduce_fn *fn, const void *context,
                                                    unsigned flags, aq_event *ev);

/**
 * Combine the elements of all members, to `dst` of all members, and wait.
 *
 * `dst` is equal to `src` in all members or in none. Otherwise as aq_coll_reduce; the result is
 * bitwise the same in all members.
 *
 * @return As aq_coll_reduce, but for AQ_ERANK.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_allreduce(aq_team *team, void *dst, const void *src,
                                               size_t count, aq_atomic_type type, aq_atomic_op op);

/**
 * Start a reduction to all members: what aq_coll_allreduce does, otherwise as
 * aq_coll_broadcast_nb.
 *
 * @return As aq_coll_broadcast_nb, but for AQ_ERANK; AQ_EINVAL also if there is no such operator
 * for the type.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_allreduce_nb(aq_team *team, void *dst, const void *src,
                                                  size_t count, aq_atomic_type type,
                                                  aq_atomic_op op, unsigned flags, aq_event *ev);

/**
 * Combine with a function of the program, to all members, and wait; as aq_coll_reduce_user and as
 * aq_coll_allreduce.
 *
 * @return As aq_coll_reduce_user, but for AQ_ERANK.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_allreduce_user(aq_team *team, void *dst, const void *src,
                                                    size_t count, size_t size, aq_reduce_fn *fn,
                                                    const void *context);

/**
 * Start a reduction with a function of the program to all members: what aq_coll_allreduce_user
 * does, otherwise as aq_coll_broadcast_nb.
 *
 * @return As aq_coll_broadcast_nb, but for AQ_ERANK; AQ_EINVAL also if `fn` is NULL or `size` is 0.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_allreduce_user_nb(aq_team *team, void *dst, const void *src,
                                                       size_t count, size_t size, aq_reduce_fn *fn,
                                                       const void *context, unsigned flags,
                                                       aq_event *ev);

/**
 * Bring the `nbytes` at `src` of every member to the member `root`, and wait.
 *
 * Block i of `dst`, at i * nbytes, comes from rank i. `dst` matters in the root only, where `src`
 * may be its own block in `dst`.
 *
 * Completion, Blocking, Threads  As aq_coll_broadcast.
 *
 * @return As aq_coll_broadcast.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_gather(aq_team *team, aq_rank root, void *dst, const void *src,
                                            size_t nbytes);

/**
 * Start a gather: what aq_coll_gather does, otherwise as aq_coll_broadcast_nb.
 *
 * @return As aq_coll_broadcast_nb; AQ_EINVAL also if the blocks of all are too many bytes.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_gather_nb(aq_team *team, aq_rank root, void *dst,
                                               const void *src, size_t nbytes, unsigned flags,
                                               aq_event *ev);

/**
 * Gather blocks of different sizes, `nbytes` of this member, and wait. In the root block i has
 * counts[i] bytes and goes to dst + offsets[i]; the tables matter in the root only.
 *
 * Completion, Blocking, Threads  As aq_coll_broadcast.
 *
 * @return AQ_EMISMATCH  A member's `nbytes` is not what the root expects: all hear of it, nothing
 *                       was moved, and the team goes on.
 * @return As aq_coll_gather; AQ_EINVAL also if a table of the root is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_gatherv(aq_team *team, aq_rank root, void *dst,
                                             const size_t *counts, const size_t *offsets,
                                             const void *src, size_t nbytes);

/**
 * Start a gather of blocks of different sizes: what aq_coll_gatherv does, otherwise as
 * aq_coll_broadcast_nb.
 *
 * @return As aq_coll_broadcast_nb; AQ_EINVAL also if a table of the root is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_gatherv_nb(aq_team *team, aq_rank root, void *dst,
                                                const size_t *counts, const size_t *offsets,
                                                const void *src, size_t nbytes, unsigned flags,
                                                aq_event *ev);

/**
 * Bring the `nbytes` at `src` of every member to all members, and wait. As aq_coll_gather.
 *
 * @return As aq_coll_gather, but for AQ_ERANK.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_allgather(aq_team *team, void *dst, const void *src,
                                               size_t nbytes);

/**
 * Start a gather to all: what aq_coll_allgather does, otherwise as aq_coll_broadcast_nb.
 *
 * @return As aq_coll_broadcast_nb, but for AQ_ERANK; AQ_EINVAL also if the blocks of all are too
 * many bytes.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_allgather_nb(aq_team *team, void *dst, const void *src,
                                                  size_t nbytes, unsigned flags, aq_event *ev);

/**
 * Gather blocks of different sizes to all members, and wait: block i has counts[i] bytes and goes
 * to dst + offsets[i]. `counts` is the same in all members; the own block is at `src`.
 *
 * Completion, Blocking, Threads  As aq_coll_broadcast.
 *
 * @return As aq_coll_allgather; AQ_EINVAL also if a table is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_allgatherv(aq_team *team, void *dst, const size_t *counts,
                                                const size_t *offsets, const void *src);

/**
 * Start a gather to all of blocks of different sizes: what aq_coll_allgatherv does, otherwise as
 * aq_coll_broadcast_nb.
 *
 * @return As aq_coll_broadcast_nb, but for AQ_ERANK; AQ_EINVAL also if a table is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_allgatherv_nb(aq_team *team, void *dst, const size_t *counts,
                                                   const size_t *offsets, const void *src,
                                                   unsigned flags, aq_event *ev);

/**
 * Deal the blocks at `src` of the member `root` out: block i, of `nbytes` at i * nbytes, goes to
 * `dst` of rank i; and wait.
 *
 * `src` matters in the root only, where `dst` may be its own block in `src`.
 *
 * Completion, Blocking, Threads  As aq_coll_broadcast.
 *
 * @return As aq_coll_broadcast.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_scatter(aq_team *team, aq_rank root, void *dst,
                                             const void *src, size_t nbytes);

/**
 * Start a scatter: what aq_coll_scatter does, otherwise as aq_coll_broadcast_nb.
 *
 * @return As aq_coll_broadcast_nb; AQ_EINVAL also if the blocks of all are too many bytes.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_scatter_nb(aq_team *team, aq_rank root, void *dst,
                                                const void *src, size_t nbytes, unsigned flags,
                                                aq_event *ev);

/**
 * Scatter blocks of different sizes, `nbytes` for this member, and wait. In the root block i has
 * counts[i] bytes and is at src + offsets[i]; the tables matter in the root only.
 *
 * Completion, Blocking, Threads  As aq_coll_broadcast.
 *
 * @return AQ_EMISMATCH  A member expects another size than the root sends: as of aq_coll_gatherv.
 * @return As aq_coll_scatter; AQ_EINVAL also if a table of the root is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_scatterv(aq_team *team, aq_rank root, void *dst, size_t nbytes,
                                              const void *src, const size_t *counts,
                                              const size_t *offsets);

/**
 * Start a scatter of blocks of different sizes: what aq_coll_scatterv does, otherwise as
 * aq_coll_broadcast_nb.
 *
 * @return As aq_coll_broadcast_nb; AQ_EINVAL also if a table of the root is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_scatterv_nb(aq_team *team, aq_rank root, void *dst,
                                                 size_t nbytes, const void *src,
                                                 const size_t *counts, const size_t *offsets,
                                                 unsigned flags, aq_event *ev);

/**
 * Every member sends a block to every member, and waits: block i at `src`, of `nbytes`, goes to
 * rank i, and block i at `dst` comes from rank i. `src` and `dst` do not overlap.
 *
 * Completion, Blocking, Threads  As aq_coll_broadcast.
 *
 * @return As aq_coll_broadcast, but for AQ_ERANK.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_alltoall(aq_team *team, void *dst, const void *src,
                                              size_t nbytes);

/**
 * Start an exchange: what aq_coll_alltoall does, otherwise as aq_coll_broadcast_nb.
 *
 * @return As aq_coll_broadcast_nb, but for AQ_ERANK; AQ_EINVAL also if the blocks of all are too
 * many bytes.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_alltoall_nb(aq_team *team, void *dst, const void *src,
                                                 size_t nbytes, unsigned flags, aq_event *ev);

/**
 * Exchange blocks of different sizes, and wait: src_counts[i] bytes at src + src_offsets[i] go to
 * rank i, and dst_counts[i] bytes come from it to dst + dst_offsets[i]. What one member sends to
 * another is as long as what that one expects.
 *
 * Completion, Blocking, Threads  As aq_coll_broadcast.
 *
 * @return AQ_EMISMATCH  Two members differ about the size of a block: as of aq_coll_gatherv.
 * @return As aq_coll_alltoall; AQ_EINVAL also if a table is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_alltoallv(aq_team *team, void *dst, const size_t *dst_counts,
                                               const size_t *dst_offsets, const void *src,
                                               const size_t *src_counts, const size_t *src_offsets);

/**
 * Start an exchange of blocks of different sizes: what aq_coll_alltoallv does, otherwise as
 * aq_coll_broadcast_nb.
 *
 * @return As aq_coll_broadcast_nb, but for AQ_ERANK; AQ_EINVAL also if a table is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_coll_alltoallv_nb(
    aq_team *team, void *dst, const size_t *dst_counts, const size_t *dst_offsets, const void *src,
    const size_t *src_counts, const size_t *src_offsets, unsigned flags, aq_event *ev);

#ifdef __cplusplus
}
#endif
#endif
