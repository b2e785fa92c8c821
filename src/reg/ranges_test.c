/* Tests ranges.c: against a plain array of bytes, and with a full set. */
#include "reg/ranges.h"

#include "base/cmocka_test.h"

#include <stdlib.h>
#include <string.h>

enum { SPACE = 400, STEPS = 20000, WIDE = 40 };

static struct reg_ranges set;
static bool in[SPACE];

static bool all_in(unsigned from, unsigned to)
{
    while (from < to && in[from])
        from++;
    return from == to;
}

static void check_order(void)
{
    for (uint32_t i = 0; i < set.count; i++) {
        assert_true(set.at[i].from < set.at[i].to);
        if (i != 0) assert_true(set.at[i - 1].to < set.at[i].from);
    }
}

static void choose(unsigned *seed, unsigned *from, unsigned *to)
{
    *from = (unsigned)rand_r(seed) % SPACE;
    *to = *from + 1 + (unsigned)rand_r(seed) % WIDE;
    if (*to > SPACE) *to = SPACE;
}

static void as_an_array_of_bytes(void **unused)
{
    unsigned seed = 1;
    memset(&set, 0, sizeof(set));
    memset(in, 0, sizeof(in));
    for (unsigned i = 0; i < STEPS; i++) {
        unsigned from, to;
        choose(&seed, &from, &to);
        bool add = rand_r(&seed) % 2 != 0;
        if (add)
            reg_ranges_add(&set, from, to);
        else
            reg_ranges_take(&set, from, to);
        memset(in + from, add, to - from);
        check_order();
        choose(&seed, &from, &to);
        if (reg_ranges_cover(&set, from, to) != all_in(from, to))
            fail_msg("step %u: [%u, %u)", i, from, to);
    }
}

static void fill(void)
{
    memset(&set, 0, sizeof(set));
    for (uint64_t i = 0; i < REG_RANGES; i++)
        reg_ranges_add(&set, 10 * i, 10 * i + 5);
    assert_int_equal(set.count, REG_RANGES);
}

/* Ranges just added are never forgotten, and removed ones never return. */
static void without_room_it_forgets(void **unused)
{
    fill();
    reg_ranges_add(&set, 25, 30); /* closes a gap */
    assert_true(reg_ranges_cover(&set, 20, 35));
    assert_int_equal(set.count, REG_RANGES - 1);
    fill();
    reg_ranges_add(&set, 17, 18);
    assert_true(reg_ranges_cover(&set, 17, 18));
    check_order();
    fill();
    reg_ranges_take(&set, 22, 23); /* in two */
    assert_false(reg_ranges_cover(&set, 22, 23));
    assert_true(reg_ranges_cover(&set, 20, 22));
    assert_true(reg_ranges_cover(&set, 30, 35));
    assert_true(set.count <= REG_RANGES);
    check_order();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_an_array_of_bytes),
        cmocka_unit_test(without_room_it_forgets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
