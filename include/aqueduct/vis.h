/* Vector, indexed and strided transfers: many pieces of memory in one operation. */
#ifndef AQUEDUCT_VIS_H
#define AQUEDUCT_VIS_H

#include <aqueduct/event.h>
#include <aqueduct/segment.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The most `levels` of a strided region: more with two elements or more fit no address space. */
#define AQ_STRIDED_LEVELS 64

/** A piece of memory. */
typedef struct aq_vec {
    void *addr;
    size_t len; /**< in bytes; 0 is legal, and then `addr` is not looked at */
} aq_vec;

/**
 * Put the bytes of the local pieces `src`, one after the other, into the pieces `dst` in the
 * segment of `rank`, and wait.
 *
 * Both lists have the same bytes in total, however they are cut. Pieces of `dst` may overlap
 * neither each other nor a source. Empty lists are legal.
 *
 * Everything is checked before anything moves. Where the segment of `rank` is mapped the pieces are
 * copied; else pieces below AQ_VIS_PACK bytes travel together in messages and larger ones as puts.
 *
 * With AQ_REMOTE_OFFSET in `flags` the addresses of the pieces of `dst` are offsets, as with
 * aq_put.
 *
 * Completion  On return the bytes are visible at the target.
 * Ordering    After what this thread has already waited for; none otherwise, nor among the pieces.
 * Blocking    Until complete; may run handlers. AQ_IMMEDIATE is as with aq_put_vector_nb.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK        Done.
 * @return AQ_AGAIN     Only with AQ_IMMEDIATE: resources are short, nothing began.
 * @return AQ_ERANGE    A piece is not inside the segment of `rank`; nothing began.
 * @return AQ_ESIZE     The two lists differ in bytes, or a total overflows; nothing began.
 * @return AQ_EINVAL    A list or the address of a piece is NULL; nothing began.
 * @return AQ_ERANK, AQ_ECONTEXT, AQ_ESTATE  Nothing began.
 * @return AQ_EPEER     The target died; unknown how much was written.
 */
AQ_API AQ_MUST_USE aq_status aq_put_vector(aq_team *team, aq_rank rank, size_t dst_count,
                                           const aq_vec *dst, size_t src_count, const aq_vec *src,
                                           unsigned flags);

/**
 * Start a vector put with an explicit event.
 *
 * Completion  `*ev` becomes complete when the bytes are visible at the target. Memory of `src` may
 *             be reused once aq_event_local(*ev) is complete; the lists themselves on return.
 * Ordering    None.
 * Blocking    Polls for resources, and so may run handlers. With AQ_IMMEDIATE it refuses instead
 *             if the first of its messages finds no room; once begun it is carried through.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK     Started; `*ev` is valid (AQ_EVENT_DONE if it is already complete).
 * @return AQ_AGAIN  Only with AQ_IMMEDIATE: resources are short, nothing began.
 * @return As aq_put_vector otherwise.
 */
AQ_API AQ_MUST_USE aq_status aq_put_vector_nb(aq_team *team, aq_rank rank, size_t dst_count,
                                              const aq_vec *dst, size_t src_count,
                                              const aq_vec *src, unsigned flags, aq_event *ev);

/**
 * Start a vector put in the thread's implicit set. Otherwise as aq_put_vector_nb.
 *
 * Completion  After aq_nbi_wait(AQ_NBI_PUT), or with the event of the access region, the bytes are
 *             visible at the target; after aq_nbi_wait(AQ_NBI_LOCAL) `src` may be reused.
 *
 * @return AQ_OK  Started.
 * @return As aq_put_vector_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_put_vector_nbi(aq_team *team, aq_rank rank, size_t dst_count,
                                               const aq_vec *dst, size_t src_count,
                                               const aq_vec *src, unsigned flags);

/**
 * Get the bytes of the pieces `src` in the segment of `rank`, one after the other, into the local
 * pieces `dst`, and wait. Otherwise as aq_put_vector.
 *
 * Completion  On return the bytes are in `dst`.
 *
 * @return As aq_put_vector.
 */
AQ_API AQ_MUST_USE aq_status aq_get_vector(aq_team *team, size_t dst_count, const aq_vec *dst,
                                           aq_rank rank, size_t src_count, const aq_vec *src,
                                           unsigned flags);

/**
 * Start a vector get with an explicit event. Otherwise as aq_put_vector_nb.
 *
 * Completion  When `*ev` is complete the pieces of `dst` are valid, and the list `dst` may be
 *             reused; that of `src` on return.
 *
 * @return As aq_put_vector_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_get_vector_nb(aq_team *team, size_t dst_count, const aq_vec *dst,
                                              aq_rank rank, size_t src_count, const aq_vec *src,
                                              unsigned flags, aq_event *ev);

/**
 * Start a vector get in the thread's implicit set. Otherwise as aq_get_vector_nb.
 *
 * Completion  After aq_nbi_wait(AQ_NBI_GET), or with the event of the access region, the pieces of
 *             `dst` are valid, and the list `dst` may be reused; that of `src` on return.
 *
 * @return AQ_OK  Started.
 * @return As aq_put_vector_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_get_vector_nbi(aq_team *team, size_t dst_count, const aq_vec *dst,
                                               aq_rank rank, size_t src_count, const aq_vec *src,
                                               unsigned flags);

/**
 * Put `src_count` local pieces of `src_len` bytes into `dst_count` pieces of `dst_len` bytes in the
 * segment of `rank`, and wait: a vector put whose pieces are equal on each side.
 *
 * `dst_count * dst_len` equals `src_count * src_len`. Otherwise as aq_put_vector.
 *
 * @return As aq_put_vector.
 */
AQ_API AQ_MUST_USE aq_status aq_put_indexed(aq_team *team, aq_rank rank, size_t dst_count,
                                            void *const *dst, size_t dst_len, size_t src_count,
                                            void *const *src, size_t src_len, unsigned flags);

/**
 * Start an indexed put with an explicit event. Otherwise as aq_put_vector_nb and aq_put_indexed.
 *
 * @return As aq_put_vector_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_put_indexed_nb(aq_team *team, aq_rank rank, size_t dst_count,
                                               void *const *dst, size_t dst_len, size_t src_count,
                                               void *const *src, size_t src_len, unsigned flags,
                                               aq_event *ev);

/**
 * Start an indexed put in the thread's implicit set. Otherwise as aq_put_vector_nbi and
 * aq_put_indexed.
 *
 * @return AQ_OK  Started.
 * @return As aq_put_vector_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_put_indexed_nbi(aq_team *team, aq_rank rank, size_t dst_count,
                                                void *const *dst, size_t dst_len, size_t src_count,
                                                void *const *src, size_t src_len, unsigned flags);

/**
 * Get `src_count` pieces of `src_len` bytes of the segment of `rank` into `dst_count` local pieces
 * of `dst_len` bytes, and wait. Otherwise as aq_get_vector and aq_put_indexed.
 *
 * @return As aq_put_vector.
 */
AQ_API AQ_MUST_USE aq_status aq_get_indexed(aq_team *team, size_t dst_count, void *const *dst,
                                            size_t dst_len, aq_rank rank, size_t src_count,
                                            void *const *src, size_t src_len, unsigned flags);

/**
 * Start an indexed get with an explicit event. Otherwise as aq_get_vector_nb and aq_get_indexed.
 *
 * @return As aq_put_vector_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_get_indexed_nb(aq_team *team, size_t dst_count, void *const *dst,
                                               size_t dst_len, aq_rank rank, size_t src_count,
                                               void *const *src, size_t src_len, unsigned flags,
                                               aq_event *ev);

/**
 * Start an indexed get in the thread's implicit set. Otherwise as aq_get_vector_nbi and
 * aq_get_indexed.
 *
 * @return AQ_OK  Started.
 * @return As aq_put_vector_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_get_indexed_nbi(aq_team *team, size_t dst_count, void *const *dst,
                                                size_t dst_len, aq_rank rank, size_t src_count,
                                                void *const *src, size_t src_len, unsigned flags);

/**
 * Put a region of equal elements with regular distances, and wait.
 *
 * There are `counts[0] * … * counts[levels - 1]` elements of `elem` bytes. The one with the indices
 * i0, i1, … is at `src` plus the sum of i * src_strides[i] here and at `dst` plus the sum of
 * i * dst_strides[i] at the target; level 0 is the innermost. Strides are in bytes, signed, and
 * independent of each other: negative ones reflect, exchanged ones transpose, and one of 0 on the
 * source side repeats. Elements of the destination may overlap neither each other nor a source.
 *
 * `elem` 0 or any count 0 does nothing. With `levels` 0 it is one element and the arrays are not
 * looked at. The arrays may be reused on return, in all forms. Otherwise as aq_put_vector.
 *
 * @return AQ_EINVAL  Also with more than AQ_STRIDED_LEVELS `levels`; the arrays are not looked at.
 * @return As aq_put_vector otherwise.
 */
AQ_API AQ_MUST_USE aq_status aq_put_strided(aq_team *team, aq_rank rank, void *dst,
                                            const ptrdiff_t *dst_strides, const void *src,
                                            const ptrdiff_t *src_strides, size_t elem,
                                            const size_t *counts, size_t levels, unsigned flags);

/**
 * Start a strided put with an explicit event. Otherwise as aq_put_vector_nb and aq_put_strided.
 *
 * @return As aq_put_vector_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_put_strided_nb(aq_team *team, aq_rank rank, void *dst,
                                               const ptrdiff_t *dst_strides, const void *src,
                                               const ptrdiff_t *src_strides, size_t elem,
                                               const size_t *counts, size_t levels, unsigned flags,
                                               aq_event *ev);

/**
 * Start a strided put in the thread's implicit set. Otherwise as aq_put_vector_nbi and
 * aq_put_strided.
 *
 * @return AQ_OK  Started.
 * @return As aq_put_vector_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_put_strided_nbi(aq_team *team, aq_rank rank, void *dst,
                                                const ptrdiff_t *dst_strides, const void *src,
                                                const ptrdiff_t *src_strides, size_t elem,
                                                const size_t *counts, size_t levels,
                                                unsigned flags);

/**
 * Get a region of equal elements with regular distances from the segment of `rank`, and wait.
 * Otherwise as aq_get_vector and aq_put_strided.
 *
 * @return As aq_put_vector.
 */
AQ_API AQ_MUST_USE aq_status aq_get_strided(aq_team *team, void *dst, const ptrdiff_t *dst_strides,
                                            aq_rank rank, const void *src,
                                            const ptrdiff_t *src_strides, size_t elem,
                                            const size_t *counts, size_t levels, unsigned flags);

/**
 * Start a strided get with an explicit event. Otherwise as aq_get_vector_nb and aq_get_strided.
 *
 * @return As aq_put_vector_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_get_strided_nb(aq_team *team, void *dst,
                                               const ptrdiff_t *dst_strides, aq_rank rank,
                                               const void *src, const ptrdiff_t *src_strides,
                                               size_t elem, const size_t *counts, size_t levels,
                                               unsigned flags, aq_event *ev);

/**
 * Start a strided get in the thread's implicit set. Otherwise as aq_get_vector_nbi and
 * aq_get_strided.
 *
 * @return AQ_OK  Started.
 * @return As aq_put_vector_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_get_strided_nbi(aq_team *team, void *dst,
                                                const ptrdiff_t *dst_strides, aq_rank rank,
                                                const void *src, const ptrdiff_t *src_strides,
                                                size_t elem, const size_t *counts, size_t levels,
                                                unsigned flags);

#ifdef __cplusplus
}
#endif
#endif
