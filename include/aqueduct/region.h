/* Regions: memory that the peers of connections read and write by handles. */
#ifndef AQUEDUCT_REGION_H
#define AQUEDUCT_REGION_H

#include <aqueduct/connection.h>
#include <aqueduct/event.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A piece of memory of this process for which handles were given out. */
typedef struct aq_region aq_region;

#define AQ_REGION_READ  0x4000u /**< peers with the handle may read the region */
#define AQ_REGION_WRITE 0x8000u /**< peers with the handle may write to the region */

/** A handle of a region: bytes that may be copied, stored, and sent to peers as data. */
typedef struct aq_region_handle {
    unsigned char bytes[32];
} aq_region_handle;

/**
 * Let peers access memory of this process by a handle, until it is revoked.
 *
 * `rights` is AQ_REGION_READ, AQ_REGION_WRITE, or both. With `only`, peers of other connections are
 * refused, and all once that connection is closed; NULL: peers of all connections of this process.
 * The memory, of any alignment, must remain valid until the region is revoked. Regions may overlap
 * each other and segments, and there may be any number of them; they cost no time.
 *
 * Each access is performed by this process when it makes progress, which checks the handle, its
 * rights and the range. Handles contain a secret of 96 bits, so peers cannot guess them, but a peer
 * may pass a handle on. (Segments have no rights: over shm peers map them, or access them by the
 * operating system, which gives that to all processes of the user.)
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK      `*region` is valid until aq_region_revoke or aq_finalize.
 * @return AQ_EINVAL  `addr` or `region` is NULL, `size` is 0, or `rights` has other bits or none.
 * @return AQ_ENOMEM, AQ_ESYS, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_region_create(aq_connection *only, void *addr, size_t size,
                                              unsigned rights, aq_region **region);

/**
 * Return the handle of a region, for peers. It is the same each time.
 *
 * Blocking    Never.
 * Threads     Any; may be called from a handler.
 *
 * @return AQ_OK      `*handle` is filled in.
 * @return AQ_EINVAL  A pointer is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_region_handle_of(const aq_region *region, aq_region_handle *handle);

/**
 * Return the size of the region that a handle is for, in bytes, as far as its bytes tell; 0: they
 * are no handle, or `handle` is NULL.
 *
 * Blocking    Never.
 * Threads     Any; may be called from a handler.
 */
AQ_API uint64_t aq_region_handle_size(const aq_region_handle *handle);

/**
 * End a region; NULL is ignored.
 *
 * Completion  On return no peer accesses the memory any more. Accesses in progress, and later ones,
 *             fail with AQ_EACCESS at their initiators; a put in progress may have written a part.
 * Blocking    Until other threads have finished what they do for peers.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK      `region` is no longer valid.
 * @return AQ_EINVAL  Already revoked.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API aq_status aq_region_revoke(aq_region *region);

/**
 * Write `nbytes` from `src` to a region of the peer, from `offset` on.
 *
 * `there` is a handle from aq_region_handle_of of that process. To send a message when the bytes
 * are written, pass `*ev` to aq_am_medium_after_nb.
 *
 * Completion  `*ev`, a root event, completes when the bytes are visible at the peer; its leaf from
 *             aq_event_local when `src` may be reused.
 * Ordering    None, not even on an ordered connection. With AQ_FENCE, everything that this process
 *             has begun on the connection is complete before the first byte is written.
 * Blocking    Until there is room for a part of it, with AQ_FENCE until it may begin, running
 *             handlers meanwhile; never with AQ_IMMEDIATE.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK       Started; `*ev` must be waited for. It fails with AQ_EACCESS if the peer has
 *                     revoked the region, never gave this handle, or gave it to another connection,
 *                     and with AQ_EPEER if the peer is lost.
 * @return AQ_AGAIN    Only with AQ_IMMEDIATE: not now; nothing was started.
 * @return AQ_EACCESS  The handle gives no right to write.
 * @return AQ_ERANGE   The range is not inside the region.
 * @return AQ_EINVAL   Not a handle, an unknown flag, or a pointer is NULL.
 * @return AQ_ESTATE   The connection is not open, or the library is not initialized.
 * @return AQ_EPEER, AQ_ENOMEM, AQ_ECONTEXT  Nothing was started.
 */
AQ_API AQ_MUST_USE aq_status aq_region_put_nb(aq_connection *connection,
                                              const aq_region_handle *there, uint64_t offset,
                                              const void *src, size_t nbytes, unsigned flags,
                                              aq_event *ev);

/**
 * Read `nbytes` from a region of the peer, from `offset` on, to `dst`. Otherwise as
 * aq_region_put_nb, with the right to read.
 *
 * Completion  `*ev`, a root event, completes when the bytes are in `dst`.
 *
 * @return As aq_region_put_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_region_get_nb(aq_connection *connection, void *dst,
                                              const aq_region_handle *there, uint64_t offset,
                                              size_t nbytes, unsigned flags, aq_event *ev);

#ifdef __cplusplus
}
#endif
#endif
