/* Remote atomic operations on the segments of other processes. */
#ifndef AQUEDUCT_ATOMIC_H
#define AQUEDUCT_ATOMIC_H

#include <aqueduct/event.h>
#include <aqueduct/segment.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Types of the operand in memory; native byte order, naturally aligned. */
typedef enum aq_atomic_type {
    AQ_I32 = 0,
    AQ_U32 = 1,
    AQ_I64 = 2,
    AQ_U64 = 3,
    AQ_F32 = 4,
    AQ_F64 = 5
} aq_atomic_type;

/** Operations; each returns the old value if a place for it is given (AQ_SET may not ask for it).
 */
typedef enum aq_atomic_op {
    AQ_SET = 0,  /**< store operand1 */
    AQ_GET = 1,  /**< load */
    AQ_SWAP = 2, /**< store operand1, return the old value */
    AQ_CAS = 3,  /**< if equal to operand1 (bitwise), store operand2 */
    AQ_ADD = 4,
    AQ_SUB = 5,
    AQ_MULT = 6,
    AQ_MIN = 7,
    AQ_MAX = 8,
    AQ_INC = 9,
    AQ_DEC = 10,
    AQ_AND = 11, /**< integers only, as are AQ_OR and AQ_XOR */
    AQ_OR = 12,
    AQ_XOR = 13
} aq_atomic_op;

/** The bit of an operation in the mask for aq_atomic_domain_create. */
#define AQ_OP_BIT(op) (1u << (op))
#define AQ_OPS_ALL    0x3fffu

/**
 * Flags of operations: what this thread had completed before is visible to whoever acquires the
 * result (RELEASE); what the thread that released it had completed is visible once this operation
 * is synchronised (ACQUIRE).
 */
#define AQ_ATOMIC_ACQUIRE 0x200u
#define AQ_ATOMIC_RELEASE 0x400u

/** A set of operations on one type that are atomic among themselves. */
typedef struct aq_atomic_domain aq_atomic_domain;

/**
 * Create a domain: fixes the type and the operations, so that the fastest implementation that is
 * coherent for all of them can be chosen.
 *
 * Every member of `team` calls it with the same `type` and `ops` (a mask of AQ_OP_BIT). Operations
 * on a location are atomic against operations through the same domain by anybody; plain accesses
 * at the same time are not allowed.
 *
 * Blocking    Never.
 * Threads     Any one at a time; not from inside a handler.
 *
 * @return AQ_OK       `*domain` is valid until aq_atomic_domain_destroy.
 * @return AQ_EINVAL   `ops` is empty, unknown, or has a bit operation on a floating type.
 * @return AQ_ENOMEM, AQ_ESTATE
 */
AQ_API AQ_MUST_USE aq_status aq_atomic_domain_create(aq_team *team, aq_atomic_type type,
                                                     unsigned ops, aq_atomic_domain **domain);

/** What a domain is. */
typedef struct aq_atomic_domain_info {
    aq_team *team;
    aq_atomic_type type;
    unsigned ops; /**< AQ_OP_BIT()s */
    size_t size;  /**< of the type, in bytes */
} aq_atomic_domain_info;

/**
 * What a domain was created with.
 *
 * Threads     Any, also inside handlers.
 *
 * @return AQ_OK      `*info` is filled in.
 * @return AQ_EINVAL  A pointer is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_atomic_domain_query(const aq_atomic_domain *domain,
                                                    aq_atomic_domain_info *info);

/**
 * Destroy a domain; all operations through it must be complete. NULL is ignored.
 *
 * Blocking    Never.
 * Threads     Any one at a time; not from inside a handler.
 *
 * @return AQ_OK      `domain` is no more.
 * @return AQ_EINVAL  It is destroyed already, or no domain.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API aq_status aq_atomic_domain_destroy(aq_atomic_domain *domain);

/**
 * Perform `op` on `addr` in the segment of `rank`, and wait.
 *
 * `operand1`, `operand2` and `result` point to local values of the domain's type; operands that
 * the operation does not use, and `result` where the old value is not wanted, may be NULL.
 *
 * With AQ_REMOTE_OFFSET in `flags` `addr` is an offset into the segment of `rank`.
 *
 * Completion  On return it is performed, and `*result` holds the old value.
 * Ordering    Acquire and release, whatever the flags: what this thread did before is seen by
 *             whoever sees the result.
 * Blocking    Until complete; may run handlers. With AQ_IMMEDIATE it refuses instead of waiting
 *             for room to begin; once begun it waits.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK      Done.
 * @return AQ_AGAIN   Only with AQ_IMMEDIATE: resources are short, nothing began.
 * @return AQ_EINVAL  `op` is not one of the domain, an operand is missing, or `addr` not aligned.
 * @return AQ_ERANGE  `addr` is not inside the segment of `rank`.
 * @return AQ_ERANK, AQ_ECONTEXT, AQ_ESTATE, AQ_EPEER
 */
AQ_API AQ_MUST_USE aq_status aq_atomic(aq_atomic_domain *domain, aq_rank rank, void *addr,
                                       aq_atomic_op op, const void *operand1, const void *operand2,
                                       void *result, unsigned flags);

/**
 * Start an atomic operation with an explicit event; the operands are read before it returns.
 *
 * Completion  When `*ev` is complete the operation is performed and `*result` valid.
 * Ordering    As AQ_ATOMIC_ACQUIRE and AQ_ATOMIC_RELEASE in `flags` say; none otherwise.
 * Blocking    May poll for resources, and so may run handlers, unless AQ_IMMEDIATE is set.
 * Threads     Any; not from inside a handler.
 *
 * @return As aq_atomic; AQ_AGAIN only with AQ_IMMEDIATE.
 */
AQ_API AQ_MUST_USE aq_status aq_atomic_nb(aq_atomic_domain *domain, aq_rank rank, void *addr,
                                          aq_atomic_op op, const void *operand1,
                                          const void *operand2, void *result, unsigned flags,
                                          aq_event *ev);

/**
 * Start an atomic operation in the thread's implicit set: AQ_NBI_PUT for AQ_SET, AQ_NBI_GET for
 * AQ_GET, else AQ_NBI_ATOMIC. Otherwise as aq_atomic_nb.
 *
 * Completion  After aq_nbi_wait of that kind, or with the event of the access region, the operation
 *             is performed and `*result` valid.
 *
 * @return AQ_OK  Started.
 * @return As aq_atomic_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_atomic_nbi(aq_atomic_domain *domain, aq_rank rank, void *addr,
                                           aq_atomic_op op, const void *operand1,
                                           const void *operand2, void *result, unsigned flags);

#ifdef __cplusplus
}
#endif
#endif
