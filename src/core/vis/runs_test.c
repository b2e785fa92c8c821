/*
 * Walking two sides of random shapes, checked against a list of every byte's address; and merging.
 */
#include "core/vis/runs.h"

#include "core/vis/draw_test.h"

enum { MOST = 4096 };

/* A side in any shape, and the address of each of its bytes. */
struct shape {
    struct vis_side side;
    uint64_t bytes[MOST];
    size_t total;
    aq_vec vecs[MOST];
    void *list[MOST];
};

static void add(struct shape *s, uint64_t addr, size_t len)
{
    for (size_t i = 0; i < len; i++)
        s->bytes[s->total++] = addr + i;
}

static void make_vector(struct shape *s, size_t total, uint64_t base)
{
    size_t count = 0;
    uint64_t at = 1000;
    while (s->total < total) {
        size_t len = draw(3) == 0 ? 0 : 1 + draw(total - s->total);
        if (draw(2) == 0 && len > 5) len = 1 + draw(5);
        if (draw(3) != 0) at += draw(50);
        s->vecs[count++] = (aq_vec){(void *)(uintptr_t)(len != 0 ? at : draw(9)), len};
        add(s, base + at, len);
        at += len;
    }
    if (draw(2)) s->vecs[count++] = (aq_vec){NULL, 0};
    vis_list_begin(&s->side, base, (struct vis_list){VIS_VECTOR, s->vecs, count, 0});
}

static void make_indexed(struct shape *s, size_t total, uint64_t base)
{
    size_t len = 1 + draw(total);
    while (total % len != 0)
        len--;
    uint64_t at = 5000;
    for (size_t i = 0; i < total / len; i++) {
        if (draw(2)) at += draw(100);
        s->list[i] = (void *)(uintptr_t)at;
        add(s, base + at, len);
        at += len;
    }
    vis_list_begin(&s->side, base, (struct vis_list){VIS_INDEXED, s->list, total / len, len});
}

static void add_strided(struct shape *s, uint64_t addr, size_t elem, const size_t *counts,
                        const ptrdiff_t *strides, unsigned levels)
{
    if (levels == 0) {
        add(s, addr, elem);
        return;
    }
    for (size_t i = 0; i < counts[levels - 1]; i++)
        add_strided(s, addr + (uint64_t)strides[levels - 1] * i, elem, counts, strides, levels - 1);
}

static void make_strided(struct shape *s, size_t total, uint64_t base)
{
    size_t counts[AQ_STRIDED_LEVELS], elem = total;
    ptrdiff_t strides[AQ_STRIDED_LEVELS];
    unsigned levels = (unsigned)draw(AQ_STRIDED_LEVELS + 1);
    size_t run = 0;
    for (unsigned l = levels; l-- > 0;) {
        counts[l] = 1 + draw(4);
        while (elem % counts[l] != 0)
            counts[l]--;
        elem /= counts[l];
    }
    run = elem;
    for (unsigned l = 0; l < levels; l++) { /* often contiguous, to make levels merge */
        strides[l] = draw(2) ? (ptrdiff_t)run : (ptrdiff_t)draw(300) - 150;
        run *= counts[l];
    }
    add_strided(s, base + 100000, elem, counts, strides, levels);
    vis_strided_begin(&s->side, base + 100000, elem, counts, strides, levels);
}

static void make(struct shape *s, size_t total)
{
    uint64_t base = draw(3) * 7777;
    s->total = 0;
    switch (draw(3)) {
    case 0:
        make_vector(s, total, base);
        break;
    case 1:
        make_indexed(s, total, base);
        break;
    default:
        make_strided(s, total, base);
    }
    assert_int_equal(s->total, total);
}

static void check_row(const struct vis_row *row, const uint64_t *a, const uint64_t *b)
{
    for (size_t i = 0, at = 0; i < row->count; i++)
        for (size_t j = 0; j < row->len; j++, at++) {
            assert_int_equal(row->a + (uint64_t)row->a_step * i + j, a[at]);
            if (b != NULL) assert_int_equal(row->b + (uint64_t)row->b_step * i + j, b[at]);
        }
}

static void cut(struct vis_row *row, size_t most)
{
    row->count = row->len > most ? 1 : aqi_min(row->count, most / row->len);
    row->len = aqi_min(row->len, most);
}

static void two_sides_meet_byte_by_byte(void **state)
{
    static struct shape a, b;
    for (int i = 0; i < 3000; i++) {
        size_t total = 1 + draw(draw(4) == 0 ? MOST - 2 : 60), done = 0;
        struct vis_row row;
        make(&a, total);
        make(&b, total);
        while (vis_peek(&a.side, &b.side, &row)) {
            if (draw(3) == 0) cut(&row, 1 + draw(40));
            assert_in_range(row.len * row.count, 1, total - done);
            check_row(&row, a.bytes + done, b.bytes + done);
            vis_take(&a.side, &b.side, &row);
            done += row.len * row.count;
        }
        assert_int_equal(done, total);
    }
}

static void what_is_adjacent_is_one_run(void **state)
{
    char memory[64];
    aq_vec vecs[] = {{memory, 8}, {memory + 8, 0}, {memory + 8, 24}, {memory + 40, 8}};
    void *list[] = {memory, memory + 16, memory + 32};
    struct vis_side side;
    vis_list_begin(&side, 0, (struct vis_list){VIS_VECTOR, vecs, 4, 0});
    assert_int_equal(side.len, 32);
    vis_list_begin(&side, 0, (struct vis_list){VIS_INDEXED, list, 3, 16});
    assert_int_equal(side.len, 48);
    size_t counts[] = {4, 2, 3};
    vis_strided_begin(&side, 0, 2, counts, (ptrdiff_t[]){2, 8, 16}, 3);
    assert_int_equal(side.len, 48);
    assert_int_equal(side.count, 1);
    vis_strided_begin(&side, 0, 2, counts, (ptrdiff_t[]){2, 20, 40}, 3);
    assert_int_equal(side.len, 8);
    assert_int_equal(side.count, 6);
    vis_list_begin(&side, 0, (struct vis_list){VIS_VECTOR, NULL, 0, 0});
    assert_int_equal(side.count, 0);
}

static void extents_are_exact_and_checked(void **state)
{
    struct vis_bounds bounds;
    size_t counts[] = {3, 5};
    assert_true(vis_extent(8, counts, (ptrdiff_t[]){-10, 100}, 2, &bounds));
    assert_int_equal(bounds.low, -20);
    assert_int_equal(bounds.high, 408);
    assert_true(vis_extent(8, NULL, NULL, 0, &bounds));
    assert_int_equal(bounds.high, 8);
    assert_false(vis_extent(8, counts, (ptrdiff_t[]){PTRDIFF_MAX / 2 + 1, 0}, 2, &bounds));
    assert_false(vis_extent(8, counts, (ptrdiff_t[]){PTRDIFF_MIN, 0}, 2, &bounds));
    assert_false(vis_extent(SIZE_MAX, counts, (ptrdiff_t[]){0, 0}, 2, &bounds));
    size_t huge[] = {SIZE_MAX};
    assert_false(vis_extent(1, huge, (ptrdiff_t[]){2}, 1, &bounds));
}

int main(void)
{
    draw_from_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_sides_meet_byte_by_byte),
        cmocka_unit_test(what_is_adjacent_is_one_run),
        cmocka_unit_test(extents_are_exact_and_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
