/* The allocator of scratch memory: ranges never overlap, and freed ranges are found again. */
#include "core/mem/mem.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void the_first_gap_that_fits_is_taken(void **state)
{
    struct scratch_range *taken = NULL;
    uint64_t a, b, c, d;
    assert_true(scratch_take(&taken, 100, 200, 40, &a));
    assert_true(scratch_take(&taken, 100, 200, 30, &b));
    assert_true(scratch_take(&taken, 100, 200, 30, &c));
    assert_int_equal(a, 100);
    assert_int_equal(b, 140);
    assert_int_equal(c, 170);
    assert_false(scratch_take(&taken, 100, 200, 1, &d));
    scratch_give(&taken, a);
    scratch_give(&taken, c);
    assert_true(scratch_take(&taken, 100, 200, 30, &d));
    assert_int_equal(d, 100);
    assert_true(scratch_take(&taken, 100, 200, 30, &d)); /* the ten bytes before b are too few */
    assert_int_equal(d, 170);
    assert_true(scratch_take(&taken, 100, 200, 10, &d));
    assert_int_equal(d, 130);
    scratch_give(&taken, 150); /* not the start of a range */
    for (unsigned n = 4; n > 0; n--) {
        assert_non_null(taken);
        scratch_give(&taken, taken->offset);
    }
    assert_null(taken);
}

static void an_area_of_no_bytes_has_no_room(void **state)
{
    struct scratch_range *taken = NULL;
    uint64_t offset;
    assert_false(scratch_take(&taken, 0, 0, 4096, &offset));
    assert_null(taken);
}

/* Checked against a map of the bytes. */
static void random_ranges_never_overlap(void **state)
{
    enum { BYTES = 256, TURNS = 20000 };
    struct scratch_range *taken = NULL;
    bool used[BYTES] = {false};
    unsigned seed = 1;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        seed = seed * 1103515245 + 12345;
        uint64_t size = 1 + (seed >> 16) % 40, at = 0, run = 0, offset;
        if (seed & 1u << 30 && taken != NULL) {
            struct scratch_range *range = taken;
            for (unsigned skip = (seed >> 8) % 8; skip > 0 && range->next != NULL; skip--)
                range = range->next;
            for (uint64_t i = 0; i < range->size; i++)
                used[range->offset + i] = false;
            scratch_give(&taken, range->offset);
            continue;
        }
        while (at < BYTES && run < size)
            run = used[at++] ? 0 : run + 1;
        bool got = scratch_take(&taken, 0, BYTES, size, &offset);
        assert_int_equal(got, run == size);
        if (!got) continue;
        assert_int_equal(offset, at - size);
        for (uint64_t i = 0; i < size; i++)
            used[offset + i] = true;
    }
    while (taken != NULL)
        scratch_give(&taken, taken->offset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_gap_that_fits_is_taken),
        cmocka_unit_test(an_area_of_no_bytes_has_no_room),
        cmocka_unit_test(random_ranges_never_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
