/* The built-in reductions: each operator on each type, and combinations that do not exist. */
#include "core/coll/coll.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { COUNT = 3 };

/* Operands that tell the operators apart, and the result of each operator. */
static const int left[COUNT] = {6, 5, 12}, right[COUNT] = {3, 9, 10};
static const struct {
    aq_op op;
    bool bits; /* not for floating point */
    int result[COUNT];
} operators[] = {
    {AQ_OP_ADD, false, {9, 14, 22}}, {AQ_OP_MULT, false, {18, 45, 120}},
    {AQ_OP_MIN, false, {3, 5, 10}},  {AQ_OP_MAX, false, {6, 9, 12}},
    {AQ_OP_AND, true, {2, 1, 8}},    {AQ_OP_OR, true, {7, 13, 14}},
    {AQ_OP_XOR, true, {5, 12, 6}},
};

#define CHECK_TYPE(code, type)                                                                     \
    do {                                                                                           \
        size_t element = 0;                                                                        \
        type a[COUNT], b[COUNT];                                                                   \
        aq_reduce_fn *fn = coll_builtin(code, (int)operators[k].op, &element);                     \
        if ((code == AQ_TYPE_F32 || code == AQ_TYPE_F64) && operators[k].bits) {                   \
            assert_null(fn);                                                                       \
            break;                                                                                 \
        }                                                                                          \
        assert_non_null(fn);                                                                       \
        assert_int_equal(element, sizeof(type));                                                   \
        for (int i = 0; i < COUNT; i++) {                                                          \
            a[i] = (type)left[i];                                                                  \
            b[i] = (type)right[i];                                                                 \
        }                                                                                          \
        fn(a, b, COUNT, NULL);                                                                     \
        for (int i = 0; i < COUNT; i++)                                                            \
            assert_true(b[i] == (type)operators[k].result[i]);                                     \
    } while (0)

static void each_operator_on_each_type(void **state)
{
    for (size_t k = 0; k < AQI_COUNT_OF(operators); k++) {
        CHECK_TYPE(AQ_TYPE_I32, int32_t);
        CHECK_TYPE(AQ_TYPE_U32, uint32_t);
        CHECK_TYPE(AQ_TYPE_I64, int64_t);
        CHECK_TYPE(AQ_TYPE_U64, uint64_t);
        CHECK_TYPE(AQ_TYPE_F32, float);
        CHECK_TYPE(AQ_TYPE_F64, double);
    }
}

/* As a signed number, -1 is the least here; as an unsigned one, the greatest. */
static void signs_matter_where_they_do(void **state)
{
    size_t element;
    const int32_t minus = -1;
    int32_t low = 1, high = 1, sum = INT32_MIN;
    coll_builtin(AQ_TYPE_I32, AQ_OP_MIN, &element)(&minus, &low, 1, NULL);
    coll_builtin(AQ_TYPE_U32, AQ_OP_MIN, &element)(&minus, &high, 1, NULL);
    coll_builtin(AQ_TYPE_I32, AQ_OP_ADD, &element)(&minus, &sum, 1, NULL);
    assert_int_equal(low, -1);
    assert_int_equal(high, 1);
    assert_int_equal(sum, INT32_MAX); /* wraps */
}

static void others_do_not_exist(void **state)
{
    size_t element;
    assert_null(coll_builtin(-1, AQ_OP_ADD, &element));
    assert_null(coll_builtin(AQ_TYPE_F64 + 1, AQ_OP_ADD, &element));
    assert_null(coll_builtin(AQ_TYPE_I32, -1, &element));
    assert_null(coll_builtin(AQ_TYPE_I32, 1000, &element));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operator_on_each_type),
        cmocka_unit_test(signs_matter_where_they_do),
        cmocka_unit_test(others_do_not_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
