/* Memory that the other processes may read and write. */
#ifndef AQUEDUCT_SEGMENT_H
#define AQUEDUCT_SEGMENT_H

#include <aqueduct/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A piece of memory of this process that peers may access. */
typedef struct aq_segment aq_segment;

/**
 * Flag of puts, gets, memsets, atomics and scattered transfers: remote addresses are offsets from
 * the first byte of the target's segment.
 */
#define AQ_REMOTE_OFFSET 0x100u

/**
 * An offset for a call with AQ_REMOTE_OFFSET, in place of the address.
 *
 * Blocking    Never.
 * Threads     Any, also inside handlers.
 *
 * @return What to pass; not an address of anything.
 */
static inline void *aq_remote_offset(uint64_t offset)
{
    return (void *)(uintptr_t)offset;
}

/** Where a segment is, as seen from the caller. */
typedef struct aq_segment_info {
    void *addr;  /**< its address in the process that owns it: what put, get and atomics take */
    void *local; /**< the same memory in the caller's address space, for plain loads and stores;
                    NULL: not mapped */
    size_t size; /**< in bytes */
} aq_segment_info;

/** What aq_segment_attach makes accessible; AQ_SEGMENT_MODE chooses among those that the program
 * has named in aq_init_params. */
typedef enum aq_segment_mode {
    AQ_SEGMENT_FAST = 0,      /**< a segment of limited size, all of it prepared */
    AQ_SEGMENT_LARGE = 1,     /**< a larger one, perhaps slower */
    AQ_SEGMENT_EVERYTHING = 2 /**< whatever the process itself can load and store */
} aq_segment_mode;

/** The bit of a mode in aq_init_params.segment_modes. */
#define AQ_SEGMENT_BIT(mode) (1u << (mode))

/**
 * The mode in force.
 *
 * Threads     Any, after aq_init, also inside handlers.
 */
AQ_API aq_segment_mode aq_segment_mode_get(void);

/**
 * Allocate a segment in every process of `team` and make all of them accessible to all.
 *
 * `team` is the team of the whole job. `size` is in bytes, rounded up to the page size, and may
 * differ from process to process; 0 is a process without a segment. The memory is zero-filled,
 * page aligned, and takes physical memory only where it is touched. Once per job.
 *
 * With AQ_SEGMENT_EVERYTHING `size` is ignored and nothing is allocated: the segment of every
 * process begins at address 0, has SIZE_MAX bytes, and an access to an address that its owner does
 * not have ends the owner. Only programs that name this mode in aq_init_params ever see it.
 *
 * Blocking    Collective, with a barrier at its end; runs handlers.
 * Threads     One thread of each process; not from inside a handler.
 *
 * @return AQ_OK        `*segment` is valid until aq_finalize.
 * @return AQ_ESIZE     `size` is above aq_segment_max().
 * @return AQ_ESTATE    Not initialised, or the first endpoint has a segment already.
 * @return AQ_EINVAL    `team` is not the whole job, or a pointer is NULL.
 * @return AQ_ENOMEM, AQ_ESYS, AQ_ELIMIT  As the message says.
 */
AQ_API AQ_MUST_USE aq_status aq_segment_attach(aq_team *team, size_t size, aq_segment **segment);

/**
 * Describe memory of this process as a segment, to be bound to an endpoint and published.
 *
 * With `addr` NULL the library allocates `size` bytes, rounded up to the page size, zero-filled and
 * page aligned; else [addr, addr + size) is the program's own, of any alignment, and stays
 * readable and writable until the segment is destroyed. Peers reach it by the transport's puts and
 * gets or by messages; only memory of aq_segment_attach is mapped into other processes.
 *
 * Blocking    Never.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK      `*segment` is valid until aq_segment_destroy or aq_finalize.
 * @return AQ_EINVAL  `size` is 0, the range wraps, or `segment` is NULL.
 * @return AQ_ESIZE   `addr` is NULL and `size` above aq_segment_max().
 * @return AQ_ENOMEM, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_segment_create(void *addr, size_t size, aq_segment **segment);

/**
 * Destroy a segment of aq_segment_create; NULL is ignored.
 *
 * Its endpoints are without a segment afterwards. Nobody uses it any more: no operation on it is
 * under way anywhere. One that comes all the same is refused with AQ_ERANGE at its initiator.
 *
 * Blocking    Never.
 * Threads     Any one at a time; not from inside a handler.
 *
 * @return AQ_OK      Memory that the library had allocated is freed.
 * @return AQ_EINVAL  It is not from aq_segment_create, or was destroyed.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API aq_status aq_segment_destroy(aq_segment *segment);

/**
 * The most that this process may ask of aq_segment_attach, in bytes.
 *
 * An optimistic bound: the machine's memory divided among the processes of this host, or
 * AQ_MAX_SEGMENT if that is set.
 *
 * Threads     Any, after aq_init, also inside handlers.
 */
AQ_API size_t aq_segment_max(void);

/**
 * The first byte of a segment of this process.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API void *aq_segment_addr(const aq_segment *segment);

/**
 * The size of a segment of this process in bytes.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API size_t aq_segment_size(const aq_segment *segment);

/**
 * Where the segment of a process of `team` is.
 *
 * Blocking    Never.
 * Threads     Any, also inside handlers.
 *
 * @return AQ_OK      `*info` is filled in; size 0 says that the process has no segment.
 * @return AQ_ERANK   No such rank in `team`.
 * @return AQ_EINVAL  A pointer is NULL.
 * @return AQ_ESTATE  Not initialised.
 */
AQ_API AQ_MUST_USE aq_status aq_segment_query(const aq_team *team, aq_rank rank,
                                              aq_segment_info *info);

#ifdef __cplusplus
}
#endif
#endif
