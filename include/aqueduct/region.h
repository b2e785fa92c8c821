/* Regions: memory that the peers of connections read and write by handle. */
#ifndef AQUEDUCT_REGION_H
#define AQUEDUCT_REGION_H

#include <aqueduct/connection.h>
#include <aqueduct/event.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Memory of this process that peers with its handle may access. */
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
 * `rights` is AQ_REGION_READ, AQ_REGION_WRITE, or both. If `only` is NULL, the peers of all
 * connections of this process may use the handle; otherwise only the peer of that connection may,
 * until it is closed. The memory, of any alignment, must remain valid until the region is revoked.
 * Regions may overlap each other and segments. Creating one is cheap: nothing is registered or
 * mapped; their number is limited only by memory.
 *
 * This process performs each access when it makes progress, after checking the handle, its rights
 * and the range. Handles contain a secret of 96 bits, so peers cannot guess them, but a peer may
 * pass a handle on. (Segments have no access rights: over shm, peers map them or access them
 * through the operating system, which permits this to every process of the same user.)
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK      `*region` is valid until aq_region_revoke or aq_finalize.
 * @return AQ_EINVAL  `addr` or `region` is NULL, `size` is 0, the range wraps around, or `rights`
 *                    has other bits or none.
 * @return AQ_ENOMEM, AQ_ESYS, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_region_create(aq_connection *only, void *addr, size_t size,
                                              unsigned rights, aq_region **region);

/**
 * Return the handle of a region, to be sent to peers. It is the same each time.
 *
 * Blocking    Never.
 * Threads     Any; may be called from a handler.
 *
 * @return AQ_OK      `*handle` is filled in.
 * @return AQ_EINVAL  A pointer is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_region_handle_of(const aq_region *region, aq_region_handle *handle);

/**
 * Return the size in bytes of the region that a handle refers to, as stored in the handle itself,
 * without contacting the peer. 0 if the bytes are not a handle, or `handle` is NULL.
 *
 * Blocking    Never.
 * Threads     Any; may be called from a handler.
 */
AQ_API uint64_t aq_region_handle_size(const aq_region_handle *handle);

/**
 * Revoke a region; NULL is ignored.
 *
 * Completion  On return no peer can access the memory. Accesses in progress, and later ones,
 *             fail with AQ_EACCESS at their initiators; a put in progress may have written a part.
 * Blocking    Until other threads have finished the accesses that they are performing for peers.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK      `region` is no longer valid.
 * @return AQ_EINVAL  Already revoked.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API aq_status aq_region_revoke(aq_region *region);

/**
 * Write `nbytes` from `src` to a region of the peer, at byte `offset`.
 *
 * `there` is a handle that the peer obtained from aq_region_handle_of. To send a message once the
 * bytes are written, pass `*ev` to aq_am_medium_after_nb.
 *
 * Completion  `*ev`, a root event, completes when the bytes are visible at the peer; its leaf from
 *             aq_event_local when `src` may be reused.
 * Ordering    None, not even on an ordered connection. With AQ_FENCE, everything that this process
 *             has begun on the connection is complete before the first byte is written.
 * Blocking    Until there is room for the first part and, with AQ_FENCE, until earlier operations
 *             are complete. Runs handlers meanwhile. Never with AQ_IMMEDIATE.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK       Started; `*ev` must be waited for. It fails with AQ_EACCESS if the peer has
 *                     revoked the region, never issued this handle, or restricted it to another
 *                     connection, and with AQ_EPEER if the peer is lost.
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
 * Read `nbytes` at byte `offset` of a region of the peer to `dst`. Otherwise as aq_region_put_nb,
 * with the right to read.
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
