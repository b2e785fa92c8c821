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
 * not overlap each other or a source. Empty lists are allowed. The forms _nb and _nbi need the
 * memory of `src` as long as aq_put_nb and aq_put_nbi, and the lists themselves only until they
 * return.
 *
 * Everything is checked before any data moves. If the segment of `rank` is mapped, the pieces are
 * copied. Otherwise pieces smaller than AQ_VIS_PACK bytes are packed into messages and larger ones
 * are sent as puts. AQ_IMMEDIATE concerns the room for the first message; once it is sent, the
 * operation is completed.
 *
 * With AQ_REMOTE_OFFSET in `flags` the addresses of the pieces of `dst` are offsets. Otherwise as
 * aq_put, also in the forms _nb and _nbi; the pieces of one call are unordered, too.
 *
 * @return AQ_ERANGE    A piece is not inside the segment of `rank`; nothing was started.
 * @return AQ_ESIZE     The lists differ in total size, or a total overflows; nothing was started.
 * @return AQ_EINVAL    A list or the address of a piece is NULL; nothing was started.
 * @return AQ_EPEER     The target died; how much was written is unknown, with all three forms.
 * @return As aq_put.
 */
AQ_API AQ_MUST_USE aq_status aq_put_vector(aq_team *team, aq_rank rank, size_t dst_count,
                                           const aq_vec *dst, size_t src_count, const aq_vec *src,
                                           unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_put_vector_nb(aq_team *team, aq_rank rank, size_t dst_count,
                                              const aq_vec *dst, size_t src_count,
                                              const aq_vec *src, unsigned flags, aq_event *ev);
AQ_API AQ_MUST_USE aq_status aq_put_vector_nbi(aq_team *team, aq_rank rank, size_t dst_count,
                                               const aq_vec *dst, size_t src_count,
                                               const aq_vec *src, unsigned flags);

/**
 * Get the bytes of the pieces `src` in the segment of `rank`, in order, into the local pieces
 * `dst`, and wait. The forms _nb and _nbi need the list `dst` until the operation is complete.
 * Otherwise as aq_get and aq_put_vector.
 *
 * @return As aq_put_vector.
 */
AQ_API AQ_MUST_USE aq_status aq_get_vector(aq_team *team, aq_rank rank, size_t dst_count,
                                           const aq_vec *dst, size_t src_count, const aq_vec *src,
                                           unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_get_vector_nb(aq_team *team, aq_rank rank, size_t dst_count,
                                              const aq_vec *dst, size_t src_count,
                                              const aq_vec *src, unsigned flags, aq_event *ev);
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
