/* The wire format of active messages, and remote atomics performed by the processor. */
#include "transport/am.h"

#include <aqueduct/type.h>

aq_status aqi_am_decode(const void *frame, size_t len, size_t max_payload, struct aqi_am *am,
                        uint32_t *source)
{
    return aqi_am_decode_here(frame, len, max_payload, am, source);
}

void aqi_am_encode(void *frame, const struct aqi_am *am, uint32_t source)
{
    aqi_am_encode_here(frame, am, source);
}

/*
 * For one type: the new value of an operation that has no instruction, and the operation by
 * compare-and-swap. Integers wrap, so they are added as unsigned ones.
 */
#define COMBINE(name, word, type, sum_type)                                                        \
    static inline word am_combine_##name(uint8_t op, word old, word operand)                       \
    {                                                                                              \
        union {                                                                                    \
            word bits;                                                                             \
            type value;                                                                            \
            sum_type sum;                                                                          \
        } x = {.bits = old}, a = {.bits = operand};                                                \
        switch (op) {                                                                              \
        case AQ_OP_ADD:                                                                            \
            x.sum += a.sum;                                                                        \
            break;                                                                                 \
        case AQ_OP_SUB:                                                                            \
            x.sum -= a.sum;                                                                        \
            break;                                                                                 \
        case AQ_OP_MULT:                                                                           \
            x.sum *= a.sum;                                                                        \
            break;                                                                                 \
        case AQ_OP_INC:                                                                            \
            x.sum += 1;                                                                            \
            break;                                                                                 \
        case AQ_OP_DEC:                                                                            \
            x.sum -= 1;                                                                            \
            break;                                                                                 \
        case AQ_OP_MIN:                                                                            \
            if (a.value < x.value) x = a;                                                          \
            break;                                                                                 \
        default:                                                                                   \
            if (a.value > x.value) x = a;                                                          \
        }                                                                                          \
        return x.bits;                                                                             \
    }                                                                                              \
    static __attribute__((noinline)) word am_swap_##name(uint8_t op, _Atomic word *at, word a)     \
    {                                                                                              \
        aqi_prefetch_write(at); /* a plain load would only get a shared copy of the cache line */  \
        word old = atomic_load_explicit(at, memory_order_relaxed);                                 \
        while (!atomic_compare_exchange_weak(at, &old, am_combine_##name(op, old, a)))             \
            ;                                                                                      \
        return old;                                                                                \
    }
COMBINE(i32, uint32_t, int32_t, uint32_t)
COMBINE(u32, uint32_t, uint32_t, uint32_t)
COMBINE(f32, uint32_t, float, float)
COMBINE(i64, uint64_t, int64_t, uint64_t)
COMBINE(u64, uint64_t, uint64_t, uint64_t)
COMBINE(f64, uint64_t, double, double)

/* One body for both widths: the common operations directly, the rest by compare-and-swap. */
#define APPLY(width)                                                                               \
    static inline uint64_t am_apply##width(uint8_t op, uint8_t type, _Atomic uint##width##_t *at,  \
                                           uint##width##_t a, uint##width##_t b)                   \
    {                                                                                              \
        bool integer = type != AQ_TYPE_F##width;                                                   \
        uint##width##_t old = a;                                                                   \
        switch (op) {                                                                              \
        case AQ_OP_SET:                                                                            \
            atomic_store(at, a);                                                                   \
            return 0;                                                                              \
        case AQ_OP_GET:                                                                            \
            return atomic_load(at);                                                                \
        case AQ_OP_SWAP:                                                                           \
            return atomic_exchange(at, a);                                                         \
        case AQ_OP_CAS:                                                                            \
            atomic_compare_exchange_strong(at, &old, b);                                           \
            return old;                                                                            \
        case AQ_OP_ADD:                                                                            \
        case AQ_OP_INC:                                                                            \
            if (integer) return atomic_fetch_add(at, op == AQ_OP_INC ? 1 : a);                     \
            break;                                                                                 \
        case AQ_OP_SUB:                                                                            \
        case AQ_OP_DEC:                                                                            \
            if (integer) return atomic_fetch_sub(at, op == AQ_OP_DEC ? 1 : a);                     \
            break;                                                                                 \
        case AQ_OP_AND:                                                                            \
            return atomic_fetch_and(at, a);                                                        \
        case AQ_OP_OR:                                                                             \
            return atomic_fetch_or(at, a);                                                         \
        case AQ_OP_XOR:                                                                            \
            return atomic_fetch_xor(at, a);                                                        \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
        return type == AQ_TYPE_I##width   ? am_swap_i##width(op, at, a)                            \
               : type == AQ_TYPE_U##width ? am_swap_u##width(op, at, a)                            \
                                          : am_swap_f##width(op, at, a);                           \
    }
APPLY(32)
APPLY(64)

uint64_t aqi_atomic_do(uint8_t op, uint8_t type, void *at, uint64_t a, uint64_t b)
{
    return aqi_atomic_size(type) == 4 ? am_apply32(op, type, at, (uint32_t)a, (uint32_t)b)
                                      : am_apply64(op, type, at, a, b);
}

uint64_t aqi_atomic_apply(const struct aqi_atomic *req, void *at)
{
    return aqi_atomic_do(req->op, req->type, at, req->operand1, req->operand2);
}

bool aqi_atomic_valid(uint8_t op, uint8_t type)
{
    if (op > AQ_OP_XOR || type > AQ_TYPE_F64) return false;
    bool floating = type == AQ_TYPE_F32 || type == AQ_TYPE_F64;
    return !(floating && (op == AQ_OP_AND || op == AQ_OP_OR || op == AQ_OP_XOR));
}
