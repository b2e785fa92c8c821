/*
 * Vector, indexed and strided transfers compared with a naive oracle: random shapes of both sides
 * are recorded byte by byte, and afterwards every byte of both areas must be as the oracle
 * predicts.
 */
#include "../support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AREA = 100000, MOST = 30000, PIECES = 2000, LEVELS = 12 };

enum shape { VECTOR, INDEXED, STRIDED, SHAPES };
enum form { BLOCKING, NB, NB_LEAF, NBI, NBI_LEAF, REGION, OFFSETS, FORMS };

/* One side of a transfer: its bytes by offset in an area, and how the calls describe it. */
struct side {
    size_t bytes[MOST];
    size_t total;
    size_t origin; /* of a strided side */
    ptrdiff_t strides[LEVELS];
    size_t starts[PIECES], lens[PIECES], pieces;
    aq_vec vecs[PIECES];
    void *list[PIECES];
};

static struct side dst, src;
static size_t elem, counts[LEVELS], levels;
static unsigned char *local, *model;
static aq_rank target;

static size_t draw(size_t below)
{
    return (size_t)(job_random() % below);
}

/* Half of the results are small. */
static size_t draw_size(size_t most)
{
    return 1 + (draw(2) ? draw(most) : draw(most < 40 ? most : 40));
}

/* --- shapes ------------------------------------------------------------------------------ */

static void add_run(struct side *s, size_t at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        s->bytes[s->total++] = at + i;
}

static void shuffle(struct side *s)
{
    for (size_t i = s->pieces; i > 1; i--) {
        size_t k = draw(i), start = s->starts[i - 1], len = s->lens[i - 1];
        s->starts[i - 1] = s->starts[k];
        s->lens[i - 1] = s->lens[k];
        s->starts[k] = start;
        s->lens[k] = len;
    }
}

/* Pieces in any order, often adjacent. If `len` is 0, they have any length, and some are empty. */
static void make_list(struct side *s, size_t total, size_t len)
{
    size_t at = draw(100), spare = AREA - total - 100, left = total;
    s->total = s->pieces = 0;
    while (left > 0) {
        bool last = s->pieces == PIECES - 1;
        size_t n = len != 0 ? len : last ? left : draw(8) == 0 ? 0 : draw_size(left);
        size_t gap = draw(3) == 0 || spare == 0 ? 0 : draw(spare < 60 ? spare : 60);
        at += gap;
        spare -= gap;
        s->starts[s->pieces] = at;
        s->lens[s->pieces++] = n;
        at += n;
        left -= n;
    }
    if (draw(2)) shuffle(s);
    for (size_t i = 0; i < s->pieces; i++)
        add_run(s, s->starts[i], s->lens[i]);
}

static void expand(struct side *s, size_t at, size_t level)
{
    if (level == 0) {
        add_run(s, at, elem);
        return;
    }
    for (size_t i = 0; i < counts[level - 1]; i++)
        expand(s, at + (size_t)s->strides[level - 1] * i, level - 1);
}

/* Strides in any order of the levels and with either sign, with gaps of at most `gap` between
 * elements. Returns the extent of the region. */
static size_t choose_strides(struct side *s, bool may_repeat, size_t gap)
{
    size_t order[LEVELS], extent = elem;
    s->origin = 0;
    for (size_t l = 0; l < levels; l++)
        order[l] = l;
    for (size_t l = levels; l > 1; l--) {
        size_t k = draw(3) == 0 ? draw(l) : l - 1, swap = order[l - 1];
        order[l - 1] = order[k];
        order[k] = swap;
    }
    for (size_t i = 0; i < levels; i++) {
        size_t l = order[i], step = extent + (draw(2) ? 0 : draw(gap + 1));
        extent = step * counts[l];
        if (may_repeat && draw(6) == 0) {
            s->strides[l] = 0;
        } else if (draw(4) == 0) {
            s->strides[l] = -(ptrdiff_t)step;
            s->origin += step * (counts[l] - 1);
        } else {
            s->strides[l] = (ptrdiff_t)step;
        }
    }
    return extent;
}

static void make_strides(struct side *s, bool may_repeat)
{
    if (choose_strides(s, may_repeat, 20) > AREA - 100)
        CHECK(choose_strides(s, may_repeat, 0) <= AREA - 100);
    s->origin += draw(100);
    s->total = 0;
    expand(s, s->origin, levels);
}

static void make_region(bool put)
{
    size_t total = MOST / 4;
    levels = draw(5) == 0 ? draw(LEVELS + 1) : draw(4);
    elem = draw(4) == 0 ? draw_size(3000) : (size_t)1 << draw(5);
    total /= elem;
    for (size_t l = 0; l < levels; l++) {
        counts[l] = 1 + draw(total < 60 ? total : 60);
        if (levels > 4 && counts[l] > 3) counts[l] = 1 + draw(3);
        if (counts[l] > total) counts[l] = total;
        total /= counts[l];
    }
    make_strides(&dst, false);
    make_strides(&src, put);
}

static void make(enum shape shape, bool put)
{
    size_t total = draw_size(MOST - 1);
    if (shape == STRIDED) {
        make_region(put);
    } else if (shape == VECTOR) {
        make_list(&dst, total, 0);
        make_list(&src, total, 0);
    } else {
        size_t each = draw_size(200), wide = 1 + draw(8);
        total = (1 + draw(MOST / (each * wide))) * each * wide;
        if (total / each > PIECES) total = PIECES / wide * wide * each;
        make_list(&dst, total, draw(2) ? each : each * wide);
        make_list(&src, total, draw(2) ? each : each * wide);
    }
    CHECK_EQUAL(dst.total, src.total);
}

static void describe(struct side *s, uintptr_t base)
{
    for (size_t i = 0; i < s->pieces; i++) {
        s->list[i] = (void *)(base + s->starts[i]);
        s->vecs[i] = (aq_vec){s->lens[i] != 0 ? s->list[i] : NULL, s->lens[i]};
    }
}

/* --- calls ------------------------------------------------------------------------------- */

static aq_status put(enum shape shape, enum form form, uintptr_t base, unsigned flags, aq_event *ev)
{
    aq_team *t = job.team;
    size_t nd = dst.pieces, ns = src.pieces, ld = dst.lens[0], ls = src.lens[0];
    void *to = (void *)(base + dst.origin), *from = local + src.origin;
    describe(&dst, base);
    describe(&src, (uintptr_t)local);
    switch ((int)shape * 3 + (form == BLOCKING ? 0 : ev != NULL ? 1 : 2)) {
    case 0:
        return aq_put_vector(t, target, nd, dst.vecs, ns, src.vecs, 0);
    case 1:
        return aq_put_vector_nb(t, target, nd, dst.vecs, ns, src.vecs, flags, ev);
    case 2:
        return aq_put_vector_nbi(t, target, nd, dst.vecs, ns, src.vecs, flags);
    case 3:
        return aq_put_indexed(t, target, nd, dst.list, ld, ns, src.list, ls, 0);
    case 4:
        return aq_put_indexed_nb(t, target, nd, dst.list, ld, ns, src.list, ls, flags, ev);
    case 5:
        return aq_put_indexed_nbi(t, target, nd, dst.list, ld, ns, src.list, ls, flags);
    case 6:
        return aq_put_strided(t, target, to, dst.strides, from, src.strides, elem, counts, levels,
                              0);
    case 7:
        return aq_put_strided_nb(t, target, to, dst.strides, from, src.strides, elem, counts,
                                 levels, flags, ev);
    default:
        return aq_put_strided_nbi(t, target, to, dst.strides, from, src.strides, elem, counts,
                                  levels, flags);
    }
}

static aq_status get(enum shape shape, enum form form, uintptr_t base, unsigned flags, aq_event *ev)
{
    aq_team *t = job.team;
    size_t nd = dst.pieces, ns = src.pieces, ld = dst.lens[0], ls = src.lens[0];
    void *to = local + dst.origin, *from = (void *)(base + src.origin);
    describe(&dst, (uintptr_t)local);
    describe(&src, base);
    switch ((int)shape * 3 + (form == BLOCKING ? 0 : ev != NULL ? 1 : 2)) {
    case 0:
        return aq_get_vector(t, target, nd, dst.vecs, ns, src.vecs, 0);
    case 1:
        return aq_get_vector_nb(t, target, nd, dst.vecs, ns, src.vecs, flags, ev);
    case 2:
        return aq_get_vector_nbi(t, target, nd, dst.vecs, ns, src.vecs, flags);
    case 3:
        return aq_get_indexed(t, target, nd, dst.list, ld, ns, src.list, ls, 0);
    case 4:
        return aq_get_indexed_nb(t, target, nd, dst.list, ld, ns, src.list, ls, flags, ev);
    case 5:
        return aq_get_indexed_nbi(t, target, nd, dst.list, ld, ns, src.list, ls, flags);
    case 6:
        return aq_get_strided(t, target, to, dst.strides, from, src.strides, elem, counts, levels,
                              0);
    case 7:
        return aq_get_strided_nb(t, target, to, dst.strides, from, src.strides, elem, counts,
                                 levels, flags, ev);
    default:
        return aq_get_strided_nbi(t, target, to, dst.strides, from, src.strides, elem, counts,
                                  levels, flags);
    }
}

static void spoil(bool put_now)
{
    if (put_now) memset(local, 0xee, AREA);
}

/* Make one transfer by one of its calls, and wait until it is complete. */
static void perform(bool put_now, enum shape shape, enum form form)
{
    aq_status (*call)(enum shape, enum form, uintptr_t, unsigned, aq_event *) = put_now ? put : get;
    uintptr_t base = (uintptr_t)job_at(target, job.self * (size_t)AREA);
    aq_event event = AQ_EVENT_DONE, leaf;
    switch (form) {
    case OFFSETS:
        CHECK_OK(call(shape, form, job.self * (size_t)AREA, AQ_REMOTE_OFFSET, &event));
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
        break;
    case NB:
    case NB_LEAF:
        CHECK_OK(call(shape, form, base, 0, &event));
        leaf = aq_event_local(event);
        if (form == NB_LEAF) {
            CHECK_OK(aq_event_wait(&leaf, AQ_FOREVER));
            spoil(put_now);
        }
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
        break;
    case NBI:
    case NBI_LEAF:
        CHECK_OK(call(shape, form, base, 0, NULL));
        if (form == NBI_LEAF) {
            CHECK_OK(aq_nbi_wait(AQ_NBI_LOCAL, AQ_FOREVER));
            spoil(put_now);
        }
        CHECK_OK(aq_nbi_wait(put_now ? AQ_NBI_PUT : AQ_NBI_GET, AQ_FOREVER));
        break;
    case REGION:
        CHECK_OK(aq_nbi_begin());
        CHECK_OK(call(shape, form, base, 0, NULL));
        CHECK_OK(aq_nbi_end(&event));
        CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
        break;
    default:
        CHECK_OK(call(shape, form, base, 0, NULL));
    }
    spoil(put_now);
}

static void compare(const unsigned char *got, const char *what, enum shape shape, enum form form)
{
    if (memcmp(got, model, AREA) == 0) return;
    for (size_t i = 0; i < AREA; i++)
        if (got[i] != model[i])
            check_failed(__FILE__, __LINE__,
                         "%s, shape %d, form %d, %zu bytes: byte %zu is %u, not %u", what,
                         (int)shape, (int)form, dst.total, i, got[i], model[i]);
}

static void test_put(enum shape shape, enum form form)
{
    void *there = job_at(target, job.self * (size_t)AREA);
    make(shape, true);
    fill(model, AREA, job_random());
    CHECK_OK(aq_put(job.team, target, there, model, AREA, 0));
    fill(local, AREA, job_random());
    for (size_t i = 0; i < dst.total; i++)
        model[dst.bytes[i]] = local[src.bytes[i]];
    perform(true, shape, form);
    CHECK_OK(aq_get(job.team, target, local, there, AREA, 0));
    compare(local, "put", shape, form);
}

static void test_get(enum shape shape, enum form form)
{
    uint64_t there = job_random(), here = job_random();
    make(shape, false);
    fill(local, AREA, there);
    CHECK_OK(aq_put(job.team, target, job_at(target, job.self * (size_t)AREA), local, AREA, 0));
    fill(model, AREA, here);
    for (size_t i = 0; i < dst.total; i++)
        model[dst.bytes[i]] = local[src.bytes[i]];
    fill(local, AREA, here);
    perform(false, shape, form);
    compare(local, "get", shape, form);
}

/* --- many at once ------------------------------------------------------------------------ */

/* The rows of a matrix are put such that it is transposed, all at once, and read back in one
 * call. */
static void test_transpose(void)
{
    enum { N = 100 };
    aq_event events[N];
    uint32_t *matrix = (uint32_t *)(void *)local, *copy = (uint32_t *)(void *)model;
    char *there = job_at(target, job.self * (size_t)AREA);
    for (uint32_t i = 0; i < N * N; i++)
        matrix[i] = i * 7 + job.self;
    for (size_t row = 0; row < N; row++)
        CHECK_OK(aq_put_strided_nb(job.team, target, there + row * 4, (ptrdiff_t[]){N * 4},
                                   matrix + row * N, (ptrdiff_t[]){4}, 4, (size_t[]){N}, 1, 0,
                                   &events[row]));
    CHECK_OK(aq_event_wait_all(events, N, AQ_FOREVER));
    memset(copy, 0, N * N * 4);
    CHECK_OK(aq_get_strided(job.team, target, copy, (ptrdiff_t[]){4, N * 4}, there,
                            (ptrdiff_t[]){N * 4, 4}, 4, (size_t[]){N, N}, 2, 0));
    CHECK(memcmp(matrix, copy, N * N * 4) == 0);
}

/* --- refused calls, and calls without effect ---------------------------------------------- */

static void test_empty(void)
{
    size_t none[] = {4, 0}, huge[] = {SIZE_MAX, 0, SIZE_MAX};
    ptrdiff_t strides[] = {8, 8, 8};
    aq_vec empty[] = {{NULL, 0}, {(void *)1, 0}};
    aq_event event = (aq_event)local;
    CHECK_OK(aq_put_vector(job.team, target, 0, NULL, 0, NULL, 0));
    CHECK_OK(aq_get_vector(job.team, target, 2, empty, 0, NULL, 0));
    CHECK_OK(aq_put_vector_nb(job.team, target, 1, empty, 2, empty, 0, &event));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    CHECK_OK(aq_put_indexed(job.team, target, 5, NULL, 0, 0, NULL, 9, 0));
    CHECK_OK(aq_put_strided(job.team, target, NULL, NULL, NULL, NULL, 0, NULL, 3, 0));
    CHECK_OK(aq_put_strided(job.team, target, NULL, strides, NULL, strides, 4, none, 2, 0));
    CHECK_OK(aq_get_strided(job.team, target, NULL, strides, NULL, strides, 4, huge, 3, 0));
    CHECK_OK(aq_put_strided(job.team, target, job_at(target, job.self * (size_t)AREA), NULL, local,
                            NULL, 7, NULL, 0, 0));
    CHECK_OK(aq_nbi_wait(AQ_NBI_ALL, AQ_FOREVER));
}

static void test_refused_lists(void *inside)
{
    aq_team *t = job.team;
    char *end = (char *)job_at(target, 0) + aq_segment_size(job.segment);
    aq_vec good[] = {{inside, 8}, {inside, 0}}, here[] = {{local, 8}};
    aq_vec outside[] = {{inside, 4}, {end - 3, 4}}, longer[] = {{local, 4}, {local, 5}};
    aq_vec null[] = {{NULL, 8}}, wrap[] = {{local, SIZE_MAX}, {local, 9}};
    void *list[] = {inside, end}, *mine[] = {local, local}, *nulls[] = {local, NULL};
    aq_event event;
    CHECK_REFUSED(aq_put_vector(t, target, 2, outside, 1, here, 0), AQ_ERANGE);
    CHECK_REFUSED(aq_get_vector(t, target, 1, here, 2, outside, 0), AQ_ERANGE);
    CHECK_REFUSED(aq_put_vector(t, target, 2, good, 2, longer, 0), AQ_ESIZE);
    CHECK_REFUSED(aq_put_vector(t, target, 2, good, 2, wrap, 0), AQ_ESIZE);
    CHECK_REFUSED(aq_put_vector(t, target, 2, good, 1, null, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_put_vector(t, target, 2, NULL, 1, here, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_put_vector(NULL, target, 1, good, 1, here, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_put_vector(t, job.size, 1, good, 1, here, 0), AQ_ERANK);
    CHECK_REFUSED(aq_put_vector_nb(t, target, 1, good, 1, here, 0, NULL), AQ_EINVAL);
    CHECK_REFUSED(aq_put_vector_nb(t, target, 1, good, 1, here, 0x8000, &event), AQ_EINVAL);
    CHECK_REFUSED(aq_put_indexed(t, target, 2, list, 4, 2, mine, 4, 0), AQ_ERANGE);
    CHECK_REFUSED(aq_put_indexed(t, target, 1, list, 4, 2, mine, 4, 0), AQ_ESIZE);
    CHECK_REFUSED(aq_put_indexed(t, target, SIZE_MAX, list, 4, 2, mine, 4, 0), AQ_ESIZE);
    CHECK_REFUSED(aq_put_indexed(t, target, 1, list, 8, 2, nulls, 4, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_get_indexed(t, target, 2, NULL, 4, 1, list, 8, 0), AQ_EINVAL);
}

static void test_refused_regions(char *inside)
{
    aq_team *t = job.team;
    size_t two[] = {2, 2}, huge[] = {SIZE_MAX / 2, 3};
    ptrdiff_t near[] = {4, 8}, far[] = {4, PTRDIFF_MAX}, back[] = {4, PTRDIFF_MIN};
    char *first = job_at(target, 0);
    /* Too many levels: the arrays are shorter and must not be read. */
    CHECK_REFUSED(
        aq_put_strided(t, target, inside, near, local, near, 4, two, AQ_STRIDED_LEVELS + 1, 0),
        AQ_EINVAL);
    CHECK_REFUSED(aq_get_strided(t, target, local, near, inside, near, 4, NULL, SIZE_MAX, 0),
                  AQ_EINVAL);
    CHECK_REFUSED(aq_put_strided(t, target, inside, far, local, near, 4, two, 2, 0), AQ_ESIZE);
    CHECK_REFUSED(aq_put_strided(t, target, inside, near, local, back, 4, two, 2, 0), AQ_ESIZE);
    CHECK_REFUSED(aq_put_strided(t, target, inside, near, local, near, 4, huge, 2, 0), AQ_ESIZE);
    CHECK_REFUSED(aq_put_strided(t, target, inside, near, local, near, SIZE_MAX, two, 2, 0),
                  AQ_ESIZE);
    CHECK_REFUSED(aq_put_strided(t, target, inside, near, NULL, near, 4, two, 2, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_put_strided(t, target, inside, NULL, local, near, 4, two, 2, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_put_strided(t, target, inside, near, local, near, 4, NULL, 2, 0), AQ_EINVAL);
    CHECK_REFUSED(
        aq_put_strided(t, target, first + 3, (ptrdiff_t[]){-4}, local, near, 4, two, 1, 0),
        AQ_ERANGE);
    CHECK_REFUSED(aq_get_strided(t, target, local, near, first + aq_segment_size(job.segment) - 7,
                                 near, 4, two, 1, 0),
                  AQ_ERANGE);
}

static void test_refused(void)
{
    void *inside = job_at(target, job.self * (size_t)AREA);
    fill(model, AREA, 5);
    CHECK_OK(aq_put(job.team, target, inside, model, AREA, 0));
    fill(local, AREA, 6);
    test_refused_lists(inside);
    test_refused_regions(inside);
    CHECK_OK(aq_nbi_wait(AQ_NBI_ALL, AQ_FOREVER));
    CHECK_OK(aq_get(job.team, target, local, inside, AREA, 0));
    compare(local, "refused", 0, 0); /* nothing has been transferred */
}

/* --- progress ---------------------------------------------------------------------------- */

static void on_release(aq_am *am)
{
    (void)am;
    *(uint64_t *)job_at(job.self, 0) = 1;
}

/* A rank that only makes blocking gets until a word is set receives the message that sets it. */
static void test_progress(void)
{
    aq_handler_entry row = {
        .index = 200, .accepts = AQ_AM_SHORT | AQ_AM_REQUEST, .fn = on_release, .name = "release"};
    void *at = job_at(job.self, 0), *to = local;
    uint64_t *word = (uint64_t *)(void *)local;
    job_barrier();
    memset(at, 0, 8);
    job_handlers(&row, 1);
    CHECK_OK(aq_am_short(job.team, job_next(), 200, NULL, 0, 0));
    for (size_t turns = 0; turns == 0 || *word == 0; turns++) {
        CHECK(turns < 100000000);
        CHECK_OK(aq_get_indexed(job.team, job.self, 1, &to, 8, 1, &at, 8, 0));
    }
}

int main(int argc, char **argv)
{
    int times = argc > 1 ? atoi(argv[1]) : 12;
    job_open(AQ_THREAD_SINGLE, 0);
    job_attach(job.size * (size_t)AREA);
    local = malloc(AREA);
    model = malloc(AREA);
    CHECK(local != NULL && model != NULL);
    for (int i = 0; i < times; i++)
        for (int form = 0; form < FORMS; form++)
            for (int shape = 0; shape < SHAPES; shape++) {
                target = (aq_rank)((job.self + (unsigned)i) % job.size);
                test_put((enum shape)shape, (enum form)form);
                test_get((enum shape)shape, (enum form)form);
            }
    target = job_next();
    test_transpose();
    test_empty();
    test_refused();
    test_progress();
    job_barrier();
    free(local);
    free(model);
    job_close();
    return 0;
}
