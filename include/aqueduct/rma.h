/* One-sided operations on remote segments: put, get, values and memset. */
#ifndef AQUEDUCT_RMA_H
#define AQUEDUCT_RMA_H

#include <aqueduct/event.h>
#include <aqueduct/segment.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Flag of aq_put_nb and aq_put_nbi: do not return before `src` may be reused. With aq_put_nbi the
 * call waits for the sources of all implicit puts of this thread (or of its access region). With
 * either call it may wait despite AQ_IMMEDIATE.
 */
#define AQ_LOCAL_NOW 0x200u

/**
 * Copy `len` bytes from local `src` to `dst` in the segment of `rank`, and wait.
 *
 * `dst` is an address in the target's own address space (aq_segment_info.addr plus an offset), or
 * with AQ_REMOTE_OFFSET in `flags` only the offset (aq_remote_offset). `src` may be anywhere in
 * this process; it must not overlap the destination. `len` may be 0.
 *
 * Completion  On return the bytes are visible at the target.
 * Ordering    After operations that this thread has already waited for; none otherwise.
 * Blocking    Until complete; may run handlers. With AQ_IMMEDIATE it fails instead of waiting for
 *             resources to start; once started, it waits.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK        Done.
 * @return AQ_AGAIN     Only with AQ_IMMEDIATE: not enough resources; nothing was started.
 * @return AQ_ERANGE    [dst, dst + len) is not inside the segment of `rank`.
 * @return AQ_ERANK, AQ_EINVAL, AQ_ECONTEXT, AQ_ESTATE  Nothing was started.
 * @return AQ_EPEER     The target died; how much was written is unknown.
 */
AQ_API AQ_MUST_USE aq_status aq_put(aq_team *team, aq_rank rank, void *dst, const void *src,
                                    size_t len, unsigned flags);

/**
 * Start a put with an explicit event. `src` may be reused once aq_event_local(*ev) is complete,
 * which may be before `*ev` is.
 *
 * Completion  `*ev` completes when the bytes are visible at the target; that of a get, when they
 *             are in `dst`.
 * Ordering    None, not even between two puts to one process.
 * Blocking    May poll for resources and run handlers meanwhile, unless AQ_IMMEDIATE is set.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK     Started; `*ev` is valid (AQ_EVENT_DONE if already complete).
 * @return AQ_AGAIN  Only with AQ_IMMEDIATE: not enough resources; nothing was started.
 * @return AQ_ERANGE, AQ_ERANK, AQ_EINVAL, AQ_ECONTEXT, AQ_ESTATE, AQ_EPEER  Nothing was started.
 */
AQ_API AQ_MUST_USE aq_status aq_put_nb(aq_team *team, aq_rank rank, void *dst, const void *src,
                                       size_t len, unsigned flags, aq_event *ev);

/**
 * Start a put that belongs to the thread's implicit set (aq_nbi_wait). `src` may be reused after
 * aq_nbi_wait(AQ_NBI_LOCAL). Otherwise as aq_put_nb.
 *
 * Completion  After aq_nbi_wait(AQ_NBI_PUT), or when the access region's event is complete, the
 *             bytes are visible at the target; those of a get are in `dst` after
 *             aq_nbi_wait(AQ_NBI_GET).
 *
 * @return AQ_OK  Started.
 * @return As aq_put_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_put_nbi(aq_team *team, aq_rank rank, void *dst, const void *src,
                                        size_t len, unsigned flags);

/**
 * Copy `len` bytes from `src` in the segment of `rank` to local `dst`, and wait as aq_put, or start
 * as aq_put_nb and aq_put_nbi. Otherwise as these.
 *
 * Completion  Of aq_get: on return the bytes are in `dst`.
 *
 * @return As the put.
 */
AQ_API AQ_MUST_USE aq_status aq_get(aq_team *team, aq_rank rank, void *dst, const void *src,
                                    size_t len, unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_get_nb(aq_team *team, aq_rank rank, void *dst, const void *src,
                                       size_t len, unsigned flags, aq_event *ev);
AQ_API AQ_MUST_USE aq_status aq_get_nbi(aq_team *team, aq_rank rank, void *dst, const void *src,
                                        size_t len, unsigned flags);

/**
 * Put the low `len` bytes (1 to 8) of `value`, in native byte order, and wait. Otherwise as aq_put.
 *
 * @return As aq_put; AQ_ESIZE if `len` is not 1 to 8.
 */
AQ_API AQ_MUST_USE aq_status aq_put_value(aq_team *team, aq_rank rank, void *dst, uint64_t value,
                                          size_t len, unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_put_value_nb(aq_team *team, aq_rank rank, void *dst, uint64_t value,
                                             size_t len, unsigned flags, aq_event *ev);
AQ_API AQ_MUST_USE aq_status aq_put_value_nbi(aq_team *team, aq_rank rank, void *dst,
                                              uint64_t value, size_t len, unsigned flags);

/**
 * Get `len` bytes (1 to 8) as a value, zero-extended, and wait. Otherwise as aq_get.
 *
 * Completion  On return the bytes are in `*value`.
 *
 * @return As aq_get; AQ_ESIZE if `len` is not 1 to 8.
 */
AQ_API AQ_MUST_USE aq_status aq_get_value(aq_team *team, aq_rank rank, const void *src, size_t len,
                                          unsigned flags, uint64_t *value);

/**
 * Set `len` bytes at `dst` in the segment of `rank` to `byte`, and wait. Otherwise as aq_put.
 *
 * @return As aq_put.
 */
AQ_API AQ_MUST_USE aq_status aq_memset(aq_team *team, aq_rank rank, void *dst, int byte, size_t len,
                                       unsigned flags);
AQ_API AQ_MUST_USE aq_status aq_memset_nb(aq_team *team, aq_rank rank, void *dst, int byte,
                                          size_t len, unsigned flags, aq_event *ev);
AQ_API AQ_MUST_USE aq_status aq_memset_nbi(aq_team *team, aq_rank rank, void *dst, int byte,
                                           size_t len, unsigned flags);

#ifdef __cplusplus
}
#endif
#endif
