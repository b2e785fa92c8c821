/* A model of the remote atomics, for the tests of transports and of the library. */
#ifndef AQT_ATOMIC_MODEL_H
#define AQT_ATOMIC_MODEL_H

#include <aqueduct/type.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MODEL_TYPES = AQ_TYPE_F64 + 1, MODEL_OPS = AQ_OP_XOR + 1 };

union model_value {
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    float f32;
    double f64;
};

/* The result of an operation in memory, for one type; integers wrap, so `wide` is unsigned. */
#define MODEL(name, type, wide, bits)                                                              \
    static inline type model_##name(unsigned op, type old, type a, type b)                         \
    {                                                                                              \
        switch (op) {                                                                              \
        case AQ_OP_SET:                                                                            \
        case AQ_OP_SWAP:                                                                           \
            return a;                                                                              \
        case AQ_OP_CAS:                                                                            \
            return memcmp(&old, &a, sizeof(a)) == 0 ? b : old;                                     \
        case AQ_OP_ADD:                                                                            \
            return (type)((wide)old + (wide)a);                                                    \
        case AQ_OP_SUB:                                                                            \
            return (type)((wide)old - (wide)a);                                                    \
        case AQ_OP_MULT:                                                                           \
            return (type)((wide)old * (wide)a);                                                    \
        case AQ_OP_MIN:                                                                            \
            return old < a ? old : a;                                                              \
        case AQ_OP_MAX:                                                                            \
            return old > a ? old : a;                                                              \
        case AQ_OP_INC:                                                                            \
            return (type)((wide)old + 1);                                                          \
        case AQ_OP_DEC:                                                                            \
            return (type)((wide)old - 1);                                                          \
        default:                                                                                   \
            return bits(type, wide, op, old, a);                                                   \
        }                                                                                          \
    }
#define MODEL_BITS(type, wide, op, old, a)                                                         \
    ((op) == AQ_OP_AND   ? (type)((wide)(old) & (wide)(a))                                         \
     : (op) == AQ_OP_OR  ? (type)((wide)(old) | (wide)(a))                                         \
     : (op) == AQ_OP_XOR ? (type)((wide)(old) ^ (wide)(a))                                         \
                         : (old))
#define MODEL_NO_BITS(type, wide, op, old, a) (old)
MODEL(i32, int32_t, uint32_t, MODEL_BITS)
MODEL(u32, uint32_t, uint32_t, MODEL_BITS)
MODEL(i64, int64_t, uint64_t, MODEL_BITS)
MODEL(u64, uint64_t, uint64_t, MODEL_BITS)
MODEL(f32, float, float, MODEL_NO_BITS)
MODEL(f64, double, double, MODEL_NO_BITS)

static inline union model_value model_after(unsigned type, unsigned op, union model_value old,
                                            union model_value a, union model_value b)
{
    union model_value result = {.u64 = 0};
    switch (type) {
    case AQ_TYPE_I32:
        result.i32 = model_i32(op, old.i32, a.i32, b.i32);
        break;
    case AQ_TYPE_U32:
        result.u32 = model_u32(op, old.u32, a.u32, b.u32);
        break;
    case AQ_TYPE_I64:
        result.i64 = model_i64(op, old.i64, a.i64, b.i64);
        break;
    case AQ_TYPE_U64:
        result.u64 = model_u64(op, old.u64, a.u64, b.u64);
        break;
    case AQ_TYPE_F32:
        result.f32 = model_f32(op, old.f32, a.f32, b.f32);
        break;
    default:
        result.f64 = model_f64(op, old.f64, a.f64, b.f64);
    }
    return result;
}

static inline bool model_is_float(unsigned type)
{
    return type == AQ_TYPE_F32 || type == AQ_TYPE_F64;
}

static inline size_t model_size(unsigned type)
{
    return type == AQ_TYPE_I32 || type == AQ_TYPE_U32 || type == AQ_TYPE_F32 ? 4 : 8;
}

/* The operations that exist for a type, as bits. */
static inline unsigned model_ops(unsigned type)
{
    unsigned bits = AQ_OP_BIT(AQ_OP_AND) | AQ_OP_BIT(AQ_OP_OR) | AQ_OP_BIT(AQ_OP_XOR);
    return model_is_float(type) ? AQ_OPS_ALL & ~bits : AQ_OPS_ALL;
}

/* The number of operands of an operation. */
static inline unsigned model_operands(unsigned op)
{
    return op == AQ_OP_CAS ? 2 : op == AQ_OP_GET || op == AQ_OP_INC || op == AQ_OP_DEC ? 0 : 1;
}

/* Whether an operation may return the old value (model_may_fetch), or must. */
static inline bool model_may_fetch(unsigned op)
{
    return op != AQ_OP_SET;
}

static inline bool model_must_fetch(unsigned op)
{
    return op == AQ_OP_GET || op == AQ_OP_SWAP;
}

/* A value that is likely to reveal mistakes, selected by two random numbers: the ends of the range,
 * both signs, zeros. For floating-point types it is never NaN. */
static inline union model_value model_some(unsigned type, uint64_t random, uint64_t more)
{
    static const double reals[] = {0, 1, -1, 0.5, 1e30, -1e30, 3.25, 1e-30};
    static const uint64_t wholes[] = {0,          1,          UINT64_MAX,  INT64_MAX, 1ull << 63,
                                      1ull << 31, 0x7fffffff, 0xffffffffu, 2};
    const size_t kinds = sizeof(wholes) / sizeof(wholes[0]);
    double real = reals[random % (sizeof(reals) / sizeof(reals[0]))];
    union model_value value = {.u64 = 0};
    if (type == AQ_TYPE_F64)
        value.f64 = real;
    else if (type == AQ_TYPE_F32)
        value.f32 = (float)real;
    else
        value.u64 = random % 2 ? wholes[random / 2 % kinds] : more;
    if (model_size(type) == 4) value.u64 &= UINT32_MAX;
    return value;
}

#endif
