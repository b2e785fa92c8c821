/* Transfers between mapped memory: all pieces or none, checked against a byte-by-byte oracle. */
#include "core/vis/direct.h"

#include "core/vis/draw_test.h"

enum { MOST = 70, ROOM = 256, SIZE = MOST * ROOM };

/* The segment is mapped at `mapped`; its addresses begin at w->first. */
static unsigned char mapped[SIZE], near[SIZE], before[SIZE], want[SIZE];

/* A list in both forms, and its pieces as offsets into the memory, for the oracle. */
struct side {
    size_t count, at[MOST], len[MOST];
    aq_vec vecs[MOST];
    void *list[MOST];
};
static struct side there, here;

static void place(struct side *s, uint64_t base)
{
    for (size_t i = 0; i < s->count; i++) {
        s->list[i] = (void *)(uintptr_t)(base + s->at[i]);
        s->vecs[i] = (aq_vec){s->list[i], s->len[i]};
    }
}

/* Make pieces of these lengths in separate rooms, in any order, or a single piece for all. */
static void make(struct side *s, const size_t *lens, size_t count, bool run, uint64_t base)
{
    size_t total = 0, turn = draw(count);
    for (size_t i = 0; i < count; i++) {
        total += lens[i];
        s->at[i] = (i + turn) % count * ROOM + draw(ROOM - lens[i] + 1);
        s->len[i] = lens[i];
    }
    s->count = run ? 1 : count;
    if (run) {
        s->len[0] = total;
        s->at[0] = draw(2) ? SIZE - total : draw(SIZE - total + 1);
    }
    place(s, base);
}

static void fill(unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)draw(256);
}

static size_t byte_at(const struct side *s, size_t k)
{
    size_t i = 0;
    for (; k >= s->len[i]; i++)
        k -= s->len[i];
    return s->at[i] + k;
}

static bool move(const struct vis_window *w, bool vector, size_t *bytes)
{
    if (vector) return vis_direct_vector(w, there.count, there.vecs, here.count, here.vecs, bytes);
    return vis_direct_indexed(w, there.count, there.list, there.len[0], here.count, here.list,
                              here.len[0], bytes);
}

static void check_moved(const struct vis_window *w, bool vector, size_t total)
{
    unsigned char *to = w->get ? near : mapped;
    size_t bytes = 0;
    fill(mapped, SIZE);
    fill(near, SIZE);
    memcpy(want, to, SIZE);
    for (size_t k = 0; k < total; k++) {
        size_t far = byte_at(&there, k), close = byte_at(&here, k);
        want[w->get ? close : far] = w->get ? mapped[far] : near[close];
    }
    assert_true(move(w, vector, &bytes));
    assert_int_equal(bytes, total);
    assert_memory_equal(to, want, SIZE);
}

/* A wrong entry anywhere prevents any move. */
static void check_refused(const struct vis_window *w, bool vector)
{
    struct side good_there = there, good_here = here;
    unsigned char *to = w->get ? near : mapped;
    size_t i = draw(there.count), k = draw(here.count), bytes;
    int wrong = (int)draw(vector ? 5 : 4);
    if (wrong == 0) there.at[i] = SIZE - there.len[i] + 1;
    if (wrong == 1) there.at[i] = (size_t)0 - 1;
    if (wrong == 2) there.at[i] = (size_t)1 << 62;
    place(&there, w->first);
    if (wrong == 3) here.vecs[k].addr = here.list[k] = NULL;
    if (wrong == 4) here.vecs[k].len++;
    memcpy(before, to, SIZE);
    assert_false(move(w, vector, &bytes));
    assert_memory_equal(to, before, SIZE);
    there = good_there;
    here = good_here;
}

static void lists_are_moved_or_refused(void **state)
{
    static const size_t lengths[] = {1, 3, 4, 8, 16, 31, 32, 64, 65, 200};
    for (int turn = 0; turn < 2000; turn++) {
        size_t count = 1 + draw(draw(2) ? 6 : MOST), total = 0, lens[MOST];
        bool vector = draw(2), mixed = vector && draw(3) == 0;
        size_t len = lengths[draw(AQI_COUNT_OF(lengths))];
        for (size_t i = 0; i < count; i++) {
            lens[i] = mixed ? (draw(4) == 0 ? 0 : lengths[draw(AQI_COUNT_OF(lengths))]) : len;
            total += lens[i];
        }
        struct vis_window w = {
            .first = draw(2) ? 0 : 0x7f0000001000, .size = SIZE, .mapped = mapped, .get = draw(2)};
        size_t run = draw(3);
        make(&there, lens, count, run == 1, w.first);
        make(&here, lens, count, run == 2, (uint64_t)(uintptr_t)near);
        if (total == 0) continue;
        check_moved(&w, vector, total);
        if (!mixed) check_refused(&w, vector);
    }
}

static void what_is_cut_differently_goes_the_long_way(void **state)
{
    struct vis_window w = {.size = SIZE, .mapped = mapped};
    void *places[] = {(void *)64, (void *)128, (void *)192};
    void *sources[] = {near, near + 8, near + 16};
    aq_vec vecs[] = {{(void *)64, 8}, {(void *)128, 16}}, local[] = {{near, 16}, {near + 16, 8}};
    size_t bytes;
    assert_false(vis_direct_indexed(&w, 2, places, 12, 3, sources, 8, &bytes));
    assert_false(vis_direct_indexed(&w, 3, places, 8, 3, sources, 4, &bytes));
    assert_false(vis_direct_indexed(&w, 3, places, 8, 1, sources, 8, &bytes));
    assert_false(vis_direct_indexed(&w, 1, places, 8, 3, sources, 8, &bytes));
    assert_false(vis_direct_indexed(&w, SIZE_MAX, places, 4, SIZE_MAX, sources, 4, &bytes));
    assert_false(vis_direct_indexed(&w, 0, places, 4, 0, sources, 4, &bytes));
    assert_false(vis_direct_indexed(&w, 3, places, 0, 3, sources, 0, &bytes));
    assert_false(vis_direct_indexed(&w, 3, NULL, 4, 3, sources, 4, &bytes));
    assert_false(vis_direct_indexed(&w, 3, places, 4, 3, NULL, 4, &bytes));
    assert_false(vis_direct_vector(&w, 2, vecs, 2, local, &bytes));
    assert_false(vis_direct_vector(&w, 2, vecs, 1, local, &bytes));
    assert_false(vis_direct_vector(&w, 1, vecs, 2, local, &bytes));
    assert_false(vis_direct_vector(&w, 0, NULL, 0, NULL, &bytes));
    local[0].len = SIZE_MAX;
    vecs[0].len = SIZE_MAX;
    assert_false(vis_direct_vector(&w, 2, vecs, 2, local, &bytes));
}

/* A region may begin with the first byte of the segment and end with its last. */
static void regions_reach_the_borders(void **state)
{
    struct vis_window w = {.first = 4096, .size = 64, .mapped = mapped};
    ptrdiff_t far[] = {16, 4}, close[] = {4, 16};
    size_t counts[] = {4, 4}, bytes;
    struct vis_region r = {.remote = 4096,
                           .local = (uint64_t)(uintptr_t)near,
                           .elem = 4,
                           .remote_strides = far,
                           .local_strides = close,
                           .counts = counts,
                           .levels = 2};
    fill(near, 64);
    memset(mapped, 0, 128);
    assert_true(vis_direct_strided(&w, &r, &bytes));
    assert_int_equal(bytes, 64);
    for (size_t i = 0; i < 16; i++)
        assert_memory_equal(mapped + i % 4 * 16 + i / 4 * 4, near + i * 4, 4);
    for (r.remote = 4095; r.remote <= 4097; r.remote += 2)
        assert_false(vis_direct_strided(&w, &r, &bytes));
    r.remote = 4096 + 48; /* backwards */
    far[0] = -16;
    assert_true(vis_direct_strided(&w, &r, &bytes));
    assert_memory_equal(mapped + 48, near, 4);
    r.remote = 4096 + 47;
    assert_false(vis_direct_strided(&w, &r, &bytes));
    r.remote = 4096 + 48;
    counts[1] = 0;
    assert_false(vis_direct_strided(&w, &r, &bytes));
    counts[1] = SIZE_MAX;
    assert_false(vis_direct_strided(&w, &r, &bytes));
    counts[1] = 4;
    r.local = 0;
    assert_false(vis_direct_strided(&w, &r, &bytes));
    r.local = 8; /* would begin below 0 */
    close[0] = -4;
    assert_false(vis_direct_strided(&w, &r, &bytes));
}

int main(void)
{
    draw_from_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_moved_or_refused),
        cmocka_unit_test(what_is_cut_differently_goes_the_long_way),
        cmocka_unit_test(regions_reach_the_borders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
