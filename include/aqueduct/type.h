/* Types of elements and operations on them, for atomics and reductions. */
#ifndef AQUEDUCT_TYPE_H
#define AQUEDUCT_TYPE_H

#ifdef __cplusplus
extern "C" {
#endif

/** Types of elements in memory; native byte order, naturally aligned. */
typedef enum aq_type {
    AQ_TYPE_I32 = 0,
    AQ_TYPE_U32 = 1,
    AQ_TYPE_I64 = 2,
    AQ_TYPE_U64 = 3,
    AQ_TYPE_F32 = 4,
    AQ_TYPE_F64 = 5
} aq_type;

/**
 * Operations on elements. In aq_atomic each but AQ_OP_SET returns the old value if `result` is
 * given. Reductions take AQ_OP_ADD, AQ_OP_MULT, AQ_OP_MIN, AQ_OP_MAX, AQ_OP_AND, AQ_OP_OR and
 * AQ_OP_XOR.
 */
typedef enum aq_op {
    AQ_OP_SET = 0,  /**< store operand1 */
    AQ_OP_GET = 1,  /**< load */
    AQ_OP_SWAP = 2, /**< store operand1, return the old value */
    AQ_OP_CAS = 3,  /**< if equal to operand1 (bitwise), store operand2 */
    AQ_OP_ADD = 4,
    AQ_OP_SUB = 5,
    AQ_OP_MULT = 6,
    AQ_OP_MIN = 7,
    AQ_OP_MAX = 8,
    AQ_OP_INC = 9,
    AQ_OP_DEC = 10,
    AQ_OP_AND = 11, /**< integers only, like AQ_OP_OR and AQ_OP_XOR */
    AQ_OP_OR = 12,
    AQ_OP_XOR = 13
} aq_op;

/** The bit of an operation in the mask for aq_atomic_domain_create. */
#define AQ_OP_BIT(op) (1u << (op))
#define AQ_OPS_ALL    0x3fffu

#ifdef __cplusplus
}
#endif
#endif
