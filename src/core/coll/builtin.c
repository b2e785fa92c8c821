/* Collectives: the built-in reductions, a function for each operator and type. */
#include "core/coll/coll.h"

#define FOLD_ADD(a, b)  ((a) + (b))
#define FOLD_MULT(a, b) ((a) * (b))
#define FOLD_MIN(a, b)  ((a) < (b) ? (a) : (b))
#define FOLD_MAX(a, b)  ((a) > (b) ? (a) : (b))
#define FOLD_AND(a, b)  ((a) & (b))
#define FOLD_OR(a, b)   ((a) | (b))
#define FOLD_XOR(a, b)  ((a) ^ (b))

/* Signed integers wrap: they are folded as unsigned ones where the result is the same. */
#define FOLD(op, name, type)                                                                       \
    static void fold_##op##_##name(const void *left, void *right_and_out, size_t count,            \
                                   const void *context)                                            \
    {                                                                                              \
        const type *a = left;                                                                      \
        type *b = right_and_out;                                                                   \
        (void)context;                                                                             \
        for (size_t i = 0; i < count; i++)                                                         \
            b[i] = (type)FOLD_##op(a[i], b[i]);                                                    \
    }

#define FOLD_ALL(op, m) m(op, u32, uint32_t) m(op, u64, uint64_t)
FOLD_ALL(ADD, FOLD)
FOLD(ADD, f32, float)
FOLD(ADD, f64, double)
FOLD_ALL(MULT, FOLD)
FOLD(MULT, f32, float)
FOLD(MULT, f64, double)
FOLD_ALL(AND, FOLD)
FOLD_ALL(OR, FOLD)
FOLD_ALL(XOR, FOLD)
FOLD_ALL(MIN, FOLD)
FOLD(MIN, i32, int32_t)
FOLD(MIN, i64, int64_t)
FOLD(MIN, f32, float)
FOLD(MIN, f64, double)
FOLD_ALL(MAX, FOLD)
FOLD(MAX, i32, int32_t)
FOLD(MAX, i64, int64_t)
FOLD(MAX, f32, float)
FOLD(MAX, f64, double)

enum { BUILTIN_TYPES = AQ_TYPE_F64 + 1, BUILTIN_OPERATORS = AQ_OP_XOR + 1 };
static_assert(AQ_TYPE_I32 == 0 && AQ_TYPE_F64 == 5, "the columns of the table below");

static const size_t builtin_sizes[BUILTIN_TYPES] = {4, 4, 8, 8, 4, 8};

#define ROW(op, i32, i64)                                                                          \
    {                                                                                              \
        fold_##op##_##i32, fold_##op##_u32, fold_##op##_##i64, fold_##op##_u64, fold_##op##_f32,   \
            fold_##op##_f64                                                                        \
    }
#define BITS(op)                                                                                   \
    {                                                                                              \
        fold_##op##_u32, fold_##op##_u32, fold_##op##_u64, fold_##op##_u64, NULL, NULL             \
    }

static aq_reduce_fn *const builtin_functions[BUILTIN_OPERATORS][BUILTIN_TYPES] = {
    [AQ_OP_ADD] = ROW(ADD, u32, u64), [AQ_OP_MULT] = ROW(MULT, u32, u64),
    [AQ_OP_MIN] = ROW(MIN, i32, i64), [AQ_OP_MAX] = ROW(MAX, i32, i64),
    [AQ_OP_AND] = BITS(AND),          [AQ_OP_OR] = BITS(OR),
    [AQ_OP_XOR] = BITS(XOR),
};

aq_reduce_fn *coll_builtin(int type, int op, size_t *element)
{
    if (type < 0 || type >= BUILTIN_TYPES || op < 0 || op >= BUILTIN_OPERATORS) return NULL;
    *element = builtin_sizes[type];
    return builtin_functions[op][type];
}
