/* Remote atomic operations on the segments of other processes. */
#ifndef AQUEDUCT_ATOMIC_H
#define AQUEDUCT_ATOMIC_H

#include <aqueduct/event.h>
#include <aqueduct/segment.h>
#include <aqueduct/type.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Flags of operations. RELEASE: operations that this thread completed before this one are visible
 * to any process that acquires the result. ACQUIRE: once this operation is synchronized, those of
 * the releasing thread are visible.
 */
#define AQ_ATOMIC_ACQUIRE 0x1000u
#define AQ_ATOMIC_RELEASE 0x2000u

/** A set of operations on one type that are atomic with respect to each other. */
typedef struct aq_atomic_domain aq_atomic_domain;

/**
 * Create a domain of atomic operations. It fixes the type and the operations, so that the fastest
 * implementation that is coherent for all of them can be selected.
 *
 * Every member of `team` calls it with the same `type` and `ops` (a mask of AQ_OP_BIT). Operations
 * on a location are atomic with respect to all operations through the same domain by any process;
 * concurrent plain accesses are not allowed.
 *
 * Blocking    Never.
 * Threads     One at a time; not from a handler.
 *
 * @return AQ_OK       `*domain` is valid until aq_atomic_domain_destroy.
 * @return AQ_EINVAL   `ops` is empty, or has an unknown operation or a bit operation on a floating
 *                     type; or `flags` is not 0.
 * @return AQ_ENOMEM, AQ_ESTATE
 */
AQ_API AQ_MUST_USE aq_status aq_atomic_domain_create(aq_team *team, aq_type type, unsigned ops,
                                                     unsigned flags, aq_atomic_domain **domain);

/** The properties of a domain. */
typedef struct aq_atomic_domain_info {
    aq_team *team;
    aq_type type;
    unsigned ops; /**< a mask of AQ_OP_BIT */
    size_t size;  /**< of the type, in bytes */
    uint64_t aqi_reserved[4];
} aq_atomic_domain_info;

/**
 * Query the properties of a domain.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return AQ_OK      `*info` is filled in.
 * @return AQ_EINVAL  A pointer is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_atomic_domain_query(const aq_atomic_domain *domain,
                                                    aq_atomic_domain_info *info);

/**
 * Destroy a domain of atomic operations; all operations through it must be complete. NULL is
 * ignored.
 *
 * Blocking    Never.
 * Threads     One at a time; not from a handler.
 *
 * @return AQ_OK      The domain is destroyed.
 * @return AQ_EINVAL  Already destroyed, or not a domain.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API aq_status aq_atomic_domain_destroy(aq_atomic_domain *domain);

/**
 * Perform `op` on `addr` in the segment of `rank`, and wait.
 *
 * `operand1`, `operand2` and `result` point to local values of the domain's type. Operands that the
 * operation does not use may be NULL, as may `result` if the old value is not needed.
 *
 * With AQ_REMOTE_OFFSET in `flags`, `addr` is an offset into the segment of `rank`.
 *
 * Completion  On return it has been performed, and `*result` holds the old value.
 * Ordering    Acquire and release, regardless of the flags: operations that this thread completed
 *             before this one are visible to any process that sees the result.
 * Blocking    Until complete; may run handlers. With AQ_IMMEDIATE it fails instead of waiting for
 *             resources to start; once started, it waits.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK      Done.
 * @return AQ_AGAIN   Only with AQ_IMMEDIATE: not enough resources; nothing was started.
 * @return AQ_EINVAL  The domain does not have `op`, an operand is missing, or `addr` is misaligned.
 * @return AQ_ERANGE  `addr` is not inside the segment of `rank`.
 * @return AQ_ERANK, AQ_ECONTEXT, AQ_ESTATE, AQ_EPEER
 */
AQ_API AQ_MUST_USE aq_status aq_atomic(aq_atomic_domain *domain, aq_rank rank, void *addr, aq_op op,
                                       const void *operand1, const void *operand2, void *result,
                                       unsigned flags);

/**
 * Start an atomic operation with an explicit event; the operands are read before it returns.
 *
 * Completion  When `*ev` is complete the operation has been performed and `*result` is valid.
 * Ordering    As requested by AQ_ATOMIC_ACQUIRE and AQ_ATOMIC_RELEASE in `flags`; none otherwise.
 * Blocking    May poll for resources and run handlers meanwhile, unless AQ_IMMEDIATE is set.
 * Threads     Any; not from a handler.
 *
 * @return As aq_atomic; AQ_AGAIN only with AQ_IMMEDIATE.
 */
AQ_API AQ_MUST_USE aq_status aq_atomic_nb(aq_atomic_domain *domain, aq_rank rank, void *addr,
                                          aq_op op, const void *operand1, const void *operand2,
                                          void *result, unsigned flags, aq_event *ev);

/**
 * Start an atomic operation in the thread's implicit set: as AQ_NBI_PUT for AQ_OP_SET, AQ_NBI_GET
 * for AQ_OP_GET, otherwise AQ_NBI_ATOMIC. Otherwise as aq_atomic_nb.
 *
 * Completion  After aq_nbi_wait of that kind, or when the access region's event is complete, the
 *             operation has been performed and `*result` is valid.
 *
 * @return AQ_OK  Started.
 * @return As aq_atomic_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_atomic_nbi(aq_atomic_domain *domain, aq_rank rank, void *addr,
                                           aq_op op, const void *operand1, const void *operand2,
                                           void *result, unsigned flags);

#ifdef __cplusplus
}
#endif
#endif
