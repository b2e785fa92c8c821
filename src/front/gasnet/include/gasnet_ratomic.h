/* Remote atomics of GASNet-EX, on segments, through atomic domains. */
#ifndef AQG_GASNET_RATOMIC_H
#define AQG_GASNET_RATOMIC_H

#include <gasnetex.h>

AQG_BEGIN

#define GEX_AD_INVALID ((gex_AD_t)(uintptr_t)0)

void gex_AD_Create(gex_AD_t *ad_p, gex_TM_t tm, gex_DT_t dt, gex_OP_t ops, gex_Flags_t flags);
void gex_AD_Destroy(gex_AD_t ad);
gex_TM_t gex_AD_QueryTM(gex_AD_t ad);
gex_DT_t gex_AD_QueryDT(gex_AD_t ad);
gex_OP_t gex_AD_QueryOps(gex_AD_t ad);
AQG_OBJECT(gex_AD, gex_AD_t)

/* The fields of a domain used by inline calls. Private fields of the library follow. */
struct aqg_ad {
    struct aqg_tm team; /* a copy, which saves a load before the access */
    gex_DT_t dt;
    gex_OP_t here; /* operations that the CPU performs on mapped memory */
};

/* Performed by the library: operations on memory that is not mapped, those that the CPU lacks, and
 * those that are unknown at compile time. */
#define AQG_AD_PARAMS(T)                                                                           \
    gex_AD_t ad, T *result_p, gex_Rank_t tgt_rank, void *tgt_addr, gex_OP_t opcode, T operand1,    \
        T operand2, gex_Flags_t flags
#define AQG_AD_VALUES ad, result_p, tgt_rank, tgt_addr, opcode, operand1, operand2, flags
#define AQG_AD(DT, T, HERE)                                                                        \
    gex_Event_t aqg_ad_nb_##DT(AQG_AD_PARAMS(T));                                                  \
    int aqg_ad_nbi_##DT(AQG_AD_PARAMS(T));                                                         \
    AQG_MUST_USE AQG_INLINE gex_Event_t gex_AD_OpNB_##DT(AQG_AD_PARAMS(T))                         \
    {                                                                                              \
        if (__builtin_constant_p(opcode) && HERE) return GEX_EVENT_INVALID;                        \
        return aqg_ad_nb_##DT(AQG_AD_VALUES);                                                      \
    }                                                                                              \
    AQG_INLINE int gex_AD_OpNBI_##DT(AQG_AD_PARAMS(T))                                             \
    {                                                                                              \
        if (__builtin_constant_p(opcode) && HERE) return 0;                                        \
        return aqg_ad_nbi_##DT(AQG_AD_VALUES);                                                     \
    }

/* Perform an operation on mapped memory if the CPU supports it. Returns 0 if not performed. */
#define AQG_AD_HERE_INTEGER                                                                        \
    (GEX_OP_ADD | GEX_OP_SUB | GEX_OP_INC | GEX_OP_DEC | GEX_OP_AND | GEX_OP_OR | GEX_OP_XOR |     \
     GEX_OP_SET | GEX_OP_CAS | GEX_OP_FADD | GEX_OP_FSUB | GEX_OP_FINC | GEX_OP_FDEC |             \
     GEX_OP_FAND | GEX_OP_FOR | GEX_OP_FXOR | GEX_OP_SWAP | GEX_OP_FCAS | GEX_OP_GET)
/* The mapped address on which the CPU can operate; NULL: call the library, which performs the
 * operation or reports an error. */
AQG_INLINE void *aqg_ad_at(gex_AD_t ad, gex_DT_t dt, gex_Rank_t rank, void *addr, size_t nbytes,
                           gex_OP_t opcode, gex_Flags_t flags)
{
    const gex_Flags_t general =
        GEX_FLAG_SELF_SEG_OFFSET | GEX_FLAG_PEER_SEG_OFFSET | GEX_FLAG_RANK_IS_JOBRANK;
    void *at = aqg_mapped(&ad->team, rank, addr, nbytes);
    return (uintptr_t)at % nbytes == 0 && ad->dt == dt && (opcode & ad->here) != 0 &&
                   (flags & general) == 0
               ? at
               : NULL;
}
#define AQG_AD_CASE(op, old, value)                                                                \
    case op:                                                                                       \
    case GEX_OP_TO_FETCHING(op):                                                                   \
        old = value;                                                                               \
        break;
/* ARITHMETIC performs the other operations; `old` becomes the value before. */
#define AQG_AD_HERE(DT, T, ARITHMETIC)                                                             \
    AQG_INLINE int aqg_ad_here_##DT(AQG_AD_PARAMS(T))                                              \
    {                                                                                              \
        T old = operand1;                                                                          \
        T *at = (T *)aqg_ad_at(ad, GEX_DT_##DT, tgt_rank, tgt_addr, sizeof(T), opcode, flags);     \
        if (AQG_UNLIKELY(at == NULL)) return 0;                                                    \
        switch (opcode) {                                                                          \
        case GEX_OP_SET:                                                                           \
            __atomic_store(at, &operand1, __ATOMIC_SEQ_CST);                                       \
            return 1;                                                                              \
        case GEX_OP_SWAP:                                                                          \
            __atomic_exchange(at, &operand1, &old, __ATOMIC_SEQ_CST);                              \
            break;                                                                                 \
        case GEX_OP_GET:                                                                           \
            __atomic_load(at, &old, __ATOMIC_SEQ_CST);                                             \
            break;                                                                                 \
        case GEX_OP_CAS:                                                                           \
        case GEX_OP_FCAS:                                                                          \
            (void)__atomic_compare_exchange(at, &old, &operand2, 0, __ATOMIC_SEQ_CST,              \
                                            __ATOMIC_SEQ_CST);                                     \
            break;                                                                                 \
            ARITHMETIC(T)                                                                          \
        }                                                                                          \
        if (opcode >= GEX_OP_TO_FETCHING(1)) *result_p = old;                                      \
        return 1;                                                                                  \
    }                                                                                              \
    AQG_AD(DT, T, aqg_ad_here_##DT(AQG_AD_VALUES))

#define AQG_AD_INTEGER(T)                                                                          \
    AQG_AD_CASE(GEX_OP_ADD, old, __atomic_fetch_add(at, operand1, __ATOMIC_SEQ_CST))               \
    AQG_AD_CASE(GEX_OP_SUB, old, __atomic_fetch_sub(at, operand1, __ATOMIC_SEQ_CST))               \
    AQG_AD_CASE(GEX_OP_INC, old, __atomic_fetch_add(at, (T)1, __ATOMIC_SEQ_CST))                   \
    AQG_AD_CASE(GEX_OP_DEC, old, __atomic_fetch_sub(at, (T)1, __ATOMIC_SEQ_CST))                   \
    AQG_AD_CASE(GEX_OP_AND, old, __atomic_fetch_and(at, operand1, __ATOMIC_SEQ_CST))               \
    AQG_AD_CASE(GEX_OP_OR, old, __atomic_fetch_or(at, operand1, __ATOMIC_SEQ_CST))                 \
    AQG_AD_CASE(GEX_OP_XOR, old, __atomic_fetch_xor(at, operand1, __ATOMIC_SEQ_CST))               \
    default: /* a set of several */                                                                \
        return 0;
AQG_AD_HERE(I32, int32_t, AQG_AD_INTEGER)
AQG_AD_HERE(U32, uint32_t, AQG_AD_INTEGER)
AQG_AD_HERE(I64, int64_t, AQG_AD_INTEGER)
AQG_AD_HERE(U64, uint64_t, AQG_AD_INTEGER)

/* Floating-point types have no bitwise operations; arithmetic uses compare-and-swap. */
#define AQG_AD_FLOATING(T)                                                                         \
    default:                                                                                       \
        __atomic_load(at, &old, __ATOMIC_RELAXED);                                                 \
        for (;;) {                                                                                 \
            T next;                                                                                \
            switch (opcode) {                                                                      \
                AQG_AD_CASE(GEX_OP_ADD, next, old + operand1)                                      \
                AQG_AD_CASE(GEX_OP_SUB, next, old - operand1)                                      \
                AQG_AD_CASE(GEX_OP_MULT, next, old *operand1)                                      \
                AQG_AD_CASE(GEX_OP_MIN, next, operand1 < old ? operand1 : old)                     \
                AQG_AD_CASE(GEX_OP_MAX, next, operand1 > old ? operand1 : old)                     \
                AQG_AD_CASE(GEX_OP_INC, next, old + (T)1)                                          \
                AQG_AD_CASE(GEX_OP_DEC, next, old - (T)1)                                          \
            default: /* a set of several */                                                        \
                return 0;                                                                          \
            }                                                                                      \
            if (__atomic_compare_exchange(at, &old, &next, 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) \
                break;                                                                             \
        }
AQG_AD_HERE(FLT, float, AQG_AD_FLOATING)
AQG_AD_HERE(DBL, double, AQG_AD_FLOATING)

AQG_END

#endif
