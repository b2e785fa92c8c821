/* Segments: memory that other processes may read and write. */
#ifndef AQUEDUCT_SEGMENT_H
#define AQUEDUCT_SEGMENT_H

#include <aqueduct/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Memory of this process that peers may access. */
typedef struct aq_segment aq_segment;

/**
 * Flag of puts, gets, memsets, atomics and vector, indexed and strided transfers: remote addresses
 * are offsets from the first byte of the target's segment.
 */
#define AQ_REMOTE_OFFSET 0x100u

/**
 * Convert an offset to the address argument of a call with AQ_REMOTE_OFFSET.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return The value to pass; it is not a valid address.
 */
static inline void *aq_remote_offset(uint64_t offset)
{
    return (void *)(uintptr_t)offset;
}

/** The location of a segment, as seen from the caller. */
typedef struct aq_segment_info {
    void *addr;  /**< its address in the owner's process, for puts, gets and atomics */
    void *local; /**< the same memory for loads and stores by the caller; NULL: not mapped */
    size_t size; /**< in bytes */
    uint64_t aqi_reserved[4];
} aq_segment_info;

/** The memory that aq_segment_attach makes accessible. AQ_SEGMENT_MODE selects one of the modes
 * that the program listed in aq_init_params. */
typedef enum aq_segment_mode {
    AQ_SEGMENT_FAST = 0,      /**< a segment of limited size, fully prepared */
    AQ_SEGMENT_LARGE = 1,     /**< a larger segment, possibly slower */
    AQ_SEGMENT_EVERYTHING = 2 /**< all memory that the process can load and store */
} aq_segment_mode;

/** The bit of a mode in aq_init_params.segment_modes. */
#define AQ_SEGMENT_BIT(mode) (1u << (mode))

/**
 * Return the segment mode in effect.
 *
 * Threads     Any, after aq_init; may be called from a handler.
 */
AQ_API aq_segment_mode aq_segment_mode_get(void);

/**
 * Allocate a segment in every process of `team` and make each accessible to all others.
 *
 * `team` must be the team of the whole job. `size` is in bytes, rounded up to the page size, and
 * may differ between processes; a process that passes 0 has no segment. The memory is zero-filled
 * and page-aligned; physical memory is used only for pages that are touched. May be called once per
 * job.
 *
 * With AQ_SEGMENT_EVERYTHING `size` is ignored and nothing is allocated: the segment of every
 * process starts at address 0 and has SIZE_MAX bytes, and an access to an address that is not
 * mapped in its owner kills the owner. This mode is used only if the program lists it in
 * aq_init_params.
 *
 * Blocking    Collective, ending with a barrier; runs handlers.
 * Threads     One thread per process; not from a handler.
 *
 * @return AQ_OK        `*segment` is valid until aq_finalize.
 * @return AQ_ESIZE     `size` exceeds aq_segment_max().
 * @return AQ_ESTATE    Not initialized, or the first endpoint already has a segment.
 * @return AQ_EINVAL    `team` is not the whole job, or a pointer is NULL.
 * @return AQ_ENOMEM, AQ_ESYS, AQ_ELIMIT  See aq_error_message().
 */
AQ_API AQ_MUST_USE aq_status aq_segment_attach(aq_team *team, size_t size, aq_segment **segment);

/**
 * Create a segment from memory of this process, to be bound to an endpoint and published.
 *
 * If `addr` is NULL the library allocates `size` bytes, rounded up to the page size, zero-filled
 * and page-aligned. Otherwise [addr, addr + size) is the program's own memory, of any alignment; it
 * must remain readable and writable until the segment is destroyed. Peers access it with the
 * transport's puts and gets or by messages; only memory from aq_segment_attach is mapped into other
 * processes.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK      `*segment` is valid until aq_segment_destroy or aq_finalize.
 * @return AQ_EINVAL  `size` is 0, the range wraps around, `flags` is not 0, or `segment` is NULL.
 * @return AQ_ESIZE   `addr` is NULL and `size` exceeds aq_segment_max().
 * @return AQ_ENOMEM, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_segment_create(void *addr, size_t size, unsigned flags,
                                               aq_segment **segment);

/**
 * Destroy a segment created by aq_segment_create; NULL is ignored.
 *
 * Its endpoints have no segment afterwards. No operation on it may be in progress anywhere; one
 * that arrives later fails with AQ_ERANGE at its initiator.
 *
 * Blocking    Never.
 * Threads     One at a time; not from a handler.
 *
 * @return AQ_OK      Destroyed; memory that the library had allocated is freed.
 * @return AQ_EINVAL  Not created by aq_segment_create, or already destroyed.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API aq_status aq_segment_destroy(aq_segment *segment);

/**
 * Return the largest size that this process may pass to aq_segment_attach, in bytes.
 *
 * This is an optimistic bound: AQ_MAX_SEGMENT if set, otherwise the machine's memory divided by the
 * number of processes on this host.
 *
 * Threads     Any, after aq_init; may be called from a handler.
 */
AQ_API size_t aq_segment_max(void);

/**
 * Return the first byte of a segment of this process.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API void *aq_segment_addr(const aq_segment *segment);

/**
 * Return the size of a segment of this process in bytes.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API size_t aq_segment_size(const aq_segment *segment);

/**
 * Query the location of the segment of a process of `team`.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return AQ_OK      `*info` is filled in; size 0 means that the process has no segment.
 * @return AQ_ERANK   No such rank in `team`.
 * @return AQ_EINVAL  A pointer is NULL.
 * @return AQ_ESTATE  Not initialized.
 */
AQ_API AQ_MUST_USE aq_status aq_segment_query(const aq_team *team, aq_rank rank,
                                              aq_segment_info *info);

#ifdef __cplusplus
}
#endif
#endif
