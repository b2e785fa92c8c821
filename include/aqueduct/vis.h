/* Vector, indexed and strided transfers: many pieces of memory in one operation. */
#ifndef AQUEDUCT_VIS_H
#define AQUEDUCT_VIS_H

#include <aqueduct/event.h>
#include <aqueduct/segment.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The maximum `levels` of a strided region. More levels could not fit in an address space. */
#define AQ_STRIDED_LEVELS 64

/** A piece of memory. */
typedef struct aq_vec {
    void *addr;
    size_t len; /**< in bytes; may be 0, and then `addr` is ignored */
} aq_vec;

/**
 * Put the bytes of the local pieces `src`, in order, into the pieces `dst` in the segment of
 * `rank`, and wait.
 *
 * Both lists must have the same total size; they may be divided differently. Pieces of `dst` must
 * not overlap each other or a source. Empty lists are allowed.
 *
 * Everything is checked before any data moves. If the segment of `rank` is mapped, the pieces are
 * copied. Otherwise pieces smaller than AQ_VIS_PACK bytes are packed into messages and larger ones
 * are sent as puts.
 *
 * With AQ_REMOTE_OFFSET in `flags` the addresses of the pieces of `dst` are offsets, as for aq_put.
 *
 * Completion  On return the bytes are visible at the target.
 * Ordering    After operations that this thread has already waited for; none otherwise, nor among
 *             the pieces.
 * Blocking    Until complete; may run handlers. AQ_IMMEDIATE works as described for
 *             aq_put_vector_nb.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK        Done.
 * @return AQ_AGAIN     Only with AQ_IMMEDIATE: not enough resources; nothing was started.
 * @return AQ_ERANGE    A piece is not inside the segment of `rank`; nothing was started.
 * @return AQ_ESIZE     The lists differ in total size, or a total overflows; nothing was started.
 * @return AQ_EINVAL    A list or the address of a piece is NULL; nothing was started.
 * @return AQ_ERANK, AQ_ECONTEXT, AQ_ESTATE  Nothing was started.
 * @return AQ_EPEER     The target died; how much was written is unknown.
 */
AQ_API AQ_MUST_USE aq_status aq_put_vector(aq_team *team, aq_rank rank, size_t dst_count,
                                           const aq_vec *dst, size_t src_count, const aq_vec *src,
                                           unsigned flags);

/**
 * Start a vector put with an explicit event.
 *
 * Completion  `*ev` completes when the bytes are visible at the target. Memory of `src` may be
 *             reused once aq_event_local(*ev) is complete; the lists themselves on return.
 * Ordering    None.
 * Blocking    May poll for resources and run handlers meanwhile. With AQ_IMMEDIATE it fails instead
 *             if there is no room for its first message; once started, it is completed.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK     Started; `*ev` is valid (AQ_EVENT_DONE if already complete).
 * @return AQ_AGAIN  Only with AQ_IMMEDIATE: not enough resources; nothing was started.
 * @return As aq_put_vector otherwise.
 */
AQ_API AQ_MUST_USE aq_status aq_put_vector_nb(aq_team *team, aq_rank rank, size_t dst_count,
                                              const aq_vec *dst, size_t src_count,
                                              const aq_vec *src, unsigned flags, aq_event *ev);

/**
 * Start a vector put in the thread's implicit set. Otherwise as aq_put_vector_nb.
 *
 * Completion  After aq_nbi_wait(AQ_NBI_PUT), or when the access region's event is complete, the
 *             bytes are visible at the target; after aq_nbi_wait(AQ_NBI_LOCAL) `src` may be reused.
 *
 * @return AQ_OK  Started.
 * @return As aq_put_vector_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_put_vector_nbi(aq_team *team, aq_rank rank, size_t dst_count,
                                               const aq_vec *dst, size_t src_count,
                                               const aq_vec *src, unsigned flags);

/**
 * Get the bytes of the pieces `src` in the segment of `rank`, in order, into the local pieces
 * `dst`, and wait. Otherwise as aq_put_vector.
 *
 * Completion  On return the bytes are in `dst`.
 *
 * @return As aq_put_vector.
 */
AQ_API AQ_MUST_USE aq_status aq_get_vector(aq_team *team, aq_rank rank, size_t dst_count,
                                           const aq_vec *dst, size_t src_count, const aq_vec *src,
                                           unsigned flags);

/**
 * Start a vector get with an explicit event. Otherwise as aq_put_vector_nb.
 *
 * Completion  When `*ev` is complete the pieces of `dst` are valid and the list `dst` may be
 *             reused; the list `src` may be reused on return.
 *
 * @return As aq_put_vector_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_get_vector_nb(aq_team *team, aq_rank rank, size_t dst_count,
                                              const aq_vec *dst, size_t src_count,
                                              const aq_vec *src, unsigned flags, aq_event *ev);

/**
 * Start a vector get in the thread's implicit set. Otherwise as aq_get_vector_nb.
 *
 * Completion  After aq_nbi_wait(AQ_NBI_GET), or when the access region's event is complete, the
 *             pieces of `dst` are valid and the list `dst` may be reused; the list `src` may be
 *             reused on return.
 *
 * @return AQ_OK  Started.
 * @return As aq_put_vector_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_get_vector_nbi(aq_team *team, aq_rank rank, size_t dst_count,
                                               const aq_vec *dst, size_t src_count,
                                               const aq_vec *src, unsigned flags);

/**
 * Put `src_count` local pieces of `src_len` bytes into `dst_count` pieces of `dst_len` bytes in the
 * segment of `rank`, and wait: a vector put whose pieces have equal size on each side.
 *
 * `dst_count * dst_len` must equal `src_count * src_len`. Otherwise as aq_put_vector.
 *
 * @return As aq_put_vector.
 */
AQ_API AQ_MUST_USE aq_status aq_put_indexed(aq_team *team, aq_rank rank, size_t dst_count,
                                            void *const *dst, size_t dst_len, size_t src_count,
                                            void *const *src, size_t src_len, unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_put_indexed_nb(aq_team *team, aq_rank rank, size_t dst_count,
                                               void *const *dst, size_t dst_len, size_t src_count,
                                               void *const *src, size_t src_len, unsigned flags,
                                               aq_event *ev);
AQ_API AQ_MUST_USE aq_status aq_put_indexed_nbi(aq_team *team, aq_rank rank, size_t dst_count,
                                                void *const *dst, size_t dst_len, size_t src_count,
                                                void *const *src, size_t src_len, unsigned flags);

/**
 * Get `src_count` pieces of `src_len` bytes in the segment of `rank` into `dst_count` local pieces
 * of `dst_len` bytes, and wait. Otherwise as aq_get_vector and aq_put_indexed.
 *
 * @return As aq_put_vector.
 */
AQ_API AQ_MUST_USE aq_status aq_get_indexed(aq_team *team, aq_rank rank, size_t dst_count,
                                            void *const *dst, size_t dst_len, size_t src_count,
                                            void *const *src, size_t src_len, unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_get_indexed_nb(aq_team *team, aq_rank rank, size_t dst_count,
                                               void *const *dst, size_t dst_len, size_t src_count,
                                               void *const *src, size_t src_len, unsigned flags,
                                               aq_event *ev);
AQ_API AQ_MUST_USE aq_status aq_get_indexed_nbi(aq_team *team, aq_rank rank, size_t dst_count,
                                                void *const *dst, size_t dst_len, size_t src_count,
                                                void *const *src, size_t src_len, unsigned flags);

/**
 * Put a strided region of elements of equal size, and wait.
 *
 * There are `counts[0] * … * counts[levels - 1]` elements of `elem` bytes. The element with indices
 * i0, i1, … is i0 * src_strides[0] + i1 * src_strides[1] + … bytes from `src` locally, and likewise
 * with dst_strides from `dst` at the target; level 0 is the innermost. Strides are in bytes,
 * signed, and independent of each other: negative strides reflect, exchanged strides transpose, and
 * a stride of 0 at the source repeats. Elements of the destination must not overlap each other or a
 * source.
 *
 * If `elem` or any count is 0, nothing is transferred. If `levels` is 0, there is one element and
 * the arrays are ignored. The arrays may be reused on return, in all variants. Otherwise as
 * aq_put_vector.
 *
 * @return AQ_EINVAL  Also if `levels` exceeds AQ_STRIDED_LEVELS; the arrays are not read then.
 * @return As aq_put_vector otherwise.
 */
AQ_API AQ_MUST_USE aq_status aq_put_strided(aq_team *team, aq_rank rank, void *dst,
                                            const ptrdiff_t *dst_strides, const void *src,
                                            const ptrdiff_t *src_strides, size_t elem,
                                            const size_t *counts, size_t levels, unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_put_strided_nb(aq_team *team, aq_rank rank, void *dst,
                                               const ptrdiff_t *dst_strides, const void *src,
                                               const ptrdiff_t *src_strides, size_t elem,
                                               const size_t *counts, size_t levels, unsigned flags,
                                               aq_event *ev);
AQ_API AQ_MUST_USE aq_status aq_put_strided_nbi(aq_team *team, aq_rank rank, void *dst,
                                                const ptrdiff_t *dst_strides, const void *src,
                                                const ptrdiff_t *src_strides, size_t elem,
                                                const size_t *counts, size_t levels,
                                                unsigned flags);

/**
 * Get a strided region of elements of equal size from the segment of `rank`, and wait. Otherwise as
 * aq_get_vector and aq_put_strided.
 *
 * @return As aq_put_vector.
 */
AQ_API AQ_MUST_USE aq_status aq_get_strided(aq_team *team, aq_rank rank, void *dst,
                                            const ptrdiff_t *dst_strides, const void *src,
                                            const ptrdiff_t *src_strides, size_t elem,
                                            const size_t *counts, size_t levels, unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_get_strided_nb(aq_team *team, aq_rank rank, void *dst,
                                               const ptrdiff_t *dst_strides, const void *src,
                                               const ptrdiff_t *src_strides, size_t elem,
                                               const size_t *counts, size_t levels, unsigned flags,
                                               aq_event *ev);
AQ_API AQ_MUST_USE aq_status aq_get_strided_nbi(aq_team *team, aq_rank rank, void *dst,
                                                const ptrdiff_t *dst_strides, const void *src,
                                                const ptrdiff_t *src_strides, size_t elem,
                                                const size_t *counts, size_t levels,
                                                unsigned flags);

#ifdef __cplusplus
}
#endif
#endif
