/* The shapes of teams, checked against the numbers of the neighborhoods. */
#include "core/coll/coll.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void check_shape(const uint32_t *nodes, aq_rank n)
{
    aq_rank groups = 0;
    bool sorted = true;
    for (aq_rank self = 0; self < n; self++) {
        struct coll_shape *shape = coll_shape_new(n, self, nodes);
        assert_non_null(shape);
        assert_int_equal(shape->mine, shape->group_of[self]);
        groups = 0;
        for (aq_rank i = 0; i < n; i++) {
            /* Neighborhoods are numbered in the order of their first members. */
            aq_rank first = 0;
            while (nodes[first] != nodes[i])
                first++;
            assert_int_equal(shape->group_of[i], first < i ? shape->group_of[first] : groups);
            groups += first == i;
            assert_int_equal(shape->order[shape->place[i]], i);
            assert_true(shape->start[shape->group_of[i]] <= shape->place[i]);
            assert_true(shape->place[i] < shape->start[shape->group_of[i] + 1]);
        }
        assert_int_equal(shape->groups, groups);
        assert_int_equal(shape->start[0], 0);
        assert_int_equal(shape->start[groups], n);
        sorted = true;
        for (aq_rank p = 1; p < n; p++) {
            sorted = sorted && shape->order[p - 1] < shape->order[p];
            if (shape->group_of[shape->order[p - 1]] == shape->group_of[shape->order[p]])
                assert_true(shape->order[p - 1] < shape->order[p]);
        }
        assert_int_equal(shape->sorted, sorted);
        free(shape);
    }
}

static void all_divisions_of_few_members(void **state)
{
    enum { N = 5 };
    for (uint32_t code = 0; code < 4 * 4 * 4 * 4 * 4; code++) {
        uint32_t nodes[N];
        for (uint32_t i = 0, rest = code; i < N; i++, rest /= 4)
            nodes[i] = rest % 4;
        for (aq_rank n = 1; n <= N; n++)
            check_shape(nodes, n);
    }
}

static void many_members_with_large_numbers(void **state)
{
    enum { N = 60 };
    uint32_t nodes[N], seed = 7;
    for (uint32_t i = 0; i < N; i++) {
        seed = seed * 1103515245 + 12345;
        nodes[i] = (seed >> 16) % 9 * 1000;
    }
    check_shape(nodes, N);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_divisions_of_few_members),
        cmocka_unit_test(many_members_with_large_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
