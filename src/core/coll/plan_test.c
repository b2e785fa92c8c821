/* Plans of collectives, executed in one process for 1 to 17 members and checked by an oracle. */
#include "core/coll/coll.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 17, BIG = 9 * 1024 };

/* A message in flight. */
struct letter {
    aq_rank from, to;
    uint32_t tag;
    size_t len;
    unsigned char *bytes;
};

static struct {
    struct coll_op op[MOST];
    uint64_t *src[MOST], *dst[MOST];
    struct letter *letters;
    size_t count, room;
} world;

static void post(aq_rank from, const struct coll_step *step)
{
    if (world.count == world.room) {
        world.room = world.room ? 2 * world.room : 64;
        world.letters = realloc(world.letters, world.room * sizeof(*world.letters));
        assert_non_null(world.letters);
    }
    struct letter letter = {from, step->peer, step->tag, step->len, malloc(step->len)};
    assert_non_null(letter.bytes);
    memcpy(letter.bytes, step->from, step->len);
    for (size_t i = 0; i < world.count; i++) /* else the receiver could not tell them apart */
        assert_false(world.letters[i].from == from && world.letters[i].to == letter.to &&
                     world.letters[i].tag == letter.tag);
    world.letters[world.count++] = letter;
}

static bool fetch(aq_rank to, const struct coll_step *step)
{
    for (size_t i = 0; i < world.count; i++) {
        struct letter *letter = &world.letters[i];
        if (letter->to != to || letter->from != step->peer || letter->tag != step->tag) continue;
        assert_int_equal(letter->len, step->len);
        memcpy(step->to, letter->bytes, step->len);
        free(letter->bytes);
        *letter = world.letters[--world.count];
        return true;
    }
    return false;
}

/* Run one member as far as possible; returns false if it is done, or has to wait. */
static bool advance(aq_rank rank)
{
    struct coll_op *op = &world.op[rank];
    struct coll_plan *plan = &op->msg.plan;
    bool moved = false, all = true;
    for (size_t i = plan->at; i < plan->count; i++) {
        struct coll_step *step = &plan->steps[i];
        if (step->type == STEP_SEND || step->type == STEP_RECV) {
            if (step->done) continue;
            if (step->type == STEP_SEND) post(rank, step);
            step->done = step->type == STEP_SEND || fetch(rank, step);
            moved = moved || step->done;
            all = all && step->done;
            continue;
        }
        if (!all) break;
        if (step->type == STEP_COPY) memmove(step->to, step->from, step->len);
        if (step->type == STEP_FOLD) coll_fold(&op->args, step->from, step->to, step->len);
        plan->at = i + 1;
        moved = true;
    }
    return moved;
}

static void carry_out(aq_rank n, const struct coll_args *args)
{
    for (aq_rank rank = 0; rank < n; rank++) {
        world.op[rank] = (struct coll_op){.args = *args};
        world.op[rank].args.src = world.src[rank];
        world.op[rank].args.dst = world.dst[rank];
        /* Every member knows the length of its own block, even without the tables. */
        if (args->recv_counts != NULL) world.op[rank].args.nbytes = args->recv_counts[rank];
        if (args->send_counts != NULL) world.op[rank].args.nbytes = args->send_counts[rank];
        coll_plan_make(&world.op[rank].msg.plan, &world.op[rank].args, n, rank);
        assert_false(world.op[rank].msg.plan.failed);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (aq_rank rank = n; rank-- > 0;)
            moved = advance(rank) || moved;
    }
    assert_int_equal(world.count, 0);
    for (aq_rank rank = 0; rank < n; rank++) {
        assert_int_equal(world.op[rank].msg.plan.at, world.op[rank].msg.plan.count);
        coll_plan_free(&world.op[rank].msg.plan);
    }
}

static uint64_t word(aq_rank rank, size_t i)
{
    return rank * 1000003u + i * 7u + 1;
}

/* Fill the sources of all ranks: `blocks` blocks of `words` words. */
static void fill(aq_rank n, size_t words, size_t blocks)
{
    for (aq_rank rank = 0; rank < n; rank++)
        for (size_t i = 0; i < words * blocks; i++) {
            world.src[rank][i] = word(rank, i);
            world.dst[rank][i] = 0;
        }
}

static const size_t sizes[] = {1, 5, 1000, BIG};

static void each(void (*fn)(aq_rank n, aq_rank root, size_t words))
{
    for (aq_rank n = 1; n <= MOST; n++)
        for (size_t i = 0; i < AQI_COUNT_OF(sizes); i++)
            fn(n, (aq_rank)(i * 5 + n / 2) % n, sizes[i]);
}

static struct coll_args args_of(enum coll_kind kind, aq_rank root, size_t words)
{
    struct coll_args args = {.kind = kind, .root = root, .nbytes = words * 8};
    args.fn = coll_builtin(AQ_TYPE_U64, AQ_OP_ADD, &args.element);
    return args;
}

static void broadcast(aq_rank n, aq_rank root, size_t words)
{
    struct coll_args args = args_of(COLL_BROADCAST, root, words);
    fill(n, words, 1);
    carry_out(n, &args);
    for (aq_rank rank = 0; rank < n; rank++)
        assert_memory_equal(world.dst[rank], world.src[root], words * 8);
}

static void check_sum(aq_rank n, aq_rank rank, size_t words)
{
    for (size_t i = 0; i < words; i++) {
        uint64_t sum = 0;
        for (aq_rank k = 0; k < n; k++)
            sum += word(k, i);
        assert_int_equal(world.dst[rank][i], sum);
    }
}

static void reduce(aq_rank n, aq_rank root, size_t words)
{
    struct coll_args args = args_of(COLL_REDUCE, root, words);
    fill(n, words, 1);
    carry_out(n, &args);
    check_sum(n, root, words);
    args.kind = COLL_ALLREDUCE;
    fill(n, words, 1);
    carry_out(n, &args);
    for (aq_rank rank = 0; rank < n; rank++)
        check_sum(n, rank, words);
}

/* Words are ranges of ranks, which join only if the right one begins where the left one ends. */
static void join(const void *left, void *right_and_out, size_t count, const void *context)
{
    const uint64_t *a = left;
    uint64_t *b = right_and_out;
    for (size_t i = 0; i < count; i++) {
        bool meet = (uint32_t)a[i] + 1 == b[i] >> 32;
        b[i] = meet ? (a[i] & 0xffffffff00000000) | (uint32_t)b[i] : UINT64_MAX;
    }
}

static void ordered(aq_rank n, aq_rank root, size_t words)
{
    struct coll_args args = {.root = root, .nbytes = words * 8, .element = 8, .fn = join};
    args.ordered = true;
    for (int all = 0; all < 2; all++) {
        args.kind = all ? COLL_ALLREDUCE : COLL_REDUCE;
        for (aq_rank rank = 0; rank < n; rank++)
            for (size_t i = 0; i < words; i++)
                world.src[rank][i] = (uint64_t)(rank + i) << 32 | (uint32_t)(rank + i);
        carry_out(n, &args);
        for (aq_rank rank = 0; rank < n; rank++)
            for (size_t i = 0; (all || rank == root) && i < words; i++)
                assert_int_equal(world.dst[rank][i], (uint64_t)i << 32 | (uint32_t)(n - 1 + i));
    }
}

static void gather(aq_rank n, aq_rank root, size_t words)
{
    struct coll_args args = args_of(COLL_GATHER, root, words);
    for (int all = 0; all < 2; all++) {
        fill(n, words, n);
        carry_out(n, &args);
        for (aq_rank rank = 0; rank < n; rank++)
            for (aq_rank i = 0; (all || rank == root) && i < n; i++)
                assert_memory_equal(world.dst[rank] + i * words, world.src[i], words * 8);
        args.kind = COLL_ALLGATHER;
    }
}

static void exchange(aq_rank n, aq_rank root, size_t words)
{
    struct coll_args args = args_of(COLL_SCATTER, root, words);
    fill(n, words, n);
    carry_out(n, &args);
    for (aq_rank rank = 0; rank < n; rank++)
        assert_memory_equal(world.dst[rank], world.src[root] + rank * words, words * 8);
    args.kind = COLL_ALLTOALL;
    fill(n, words, n);
    carry_out(n, &args);
    for (aq_rank rank = 0; rank < n; rank++)
        for (aq_rank i = 0; i < n; i++)
            assert_memory_equal(world.dst[rank] + i * words, world.src[i] + rank * words,
                                words * 8);
}

/* Blocks of different sizes, some empty, known to all members, as between neighborhoods. */
static void known_sizes(aq_rank n, aq_rank root, size_t words)
{
    size_t counts[MOST], offsets[MOST];
    struct coll_args args = args_of(COLL_GATHER, root, 0);
    for (aq_rank i = 0; i < n; i++) {
        counts[i] = (words + i) % 3 == 0 ? 0 : (words / (i + 1) + i) * 8;
        offsets[i] = i * (words + MOST) * 8;
    }
    args.recv_counts = counts;
    args.recv_offsets = offsets;
    for (int all = 0; all < 2 && words < BIG; all++) {
        fill(n, words + MOST, n);
        carry_out(n, &args);
        for (aq_rank rank = 0; rank < n; rank++)
            for (aq_rank i = 0; (all || rank == root) && i < n; i++)
                assert_memory_equal((unsigned char *)world.dst[rank] + offsets[i], world.src[i],
                                    counts[i]);
        args.kind = COLL_ALLGATHER;
    }
    args = args_of(COLL_SCATTER, root, 0);
    args.send_counts = counts;
    args.send_offsets = offsets;
    if (words == BIG) return;
    fill(n, words + MOST, n);
    carry_out(n, &args);
    for (aq_rank rank = 0; rank < n; rank++)
        assert_memory_equal(world.dst[rank], (unsigned char *)world.src[root] + offsets[rank],
                            counts[rank]);
}

static void test_known_sizes(void **state)
{
    each(known_sizes);
}

static void test_broadcast(void **state)
{
    each(broadcast);
}

static void test_reductions(void **state)
{
    each(reduce);
    each(ordered);
}

static void test_gather(void **state)
{
    each(gather);
}

static void test_exchange(void **state)
{
    each(exchange);
}

static void test_barrier(void **state)
{
    for (aq_rank n = 1; n <= MOST; n++) {
        struct coll_args args = {.kind = COLL_BARRIER};
        carry_out(n, &args);
    }
}

static void greatest(const void *left, void *right_and_out, size_t count, const void *context)
{
    const uint64_t *a = left;
    uint64_t *b = right_and_out;
    for (size_t i = 0; i < count; i++)
        b[i] = aqi_max(a[i], b[i]);
}

/* Data that may be combined more than once, as in words.c. */
static void test_written(void **state)
{
    for (aq_rank n = 1; n <= MOST; n++)
        for (aq_rank most = 0; most < n; most++) {
            struct coll_args args = {
                .kind = COLL_ALLREDUCE, .nbytes = 8, .element = 8, .fn = greatest, .written = true};
            for (aq_rank rank = 0; rank < n; rank++)
                world.src[rank][0] = (rank + n - most - 1) % n;
            carry_out(n, &args);
            for (aq_rank rank = 0; rank < n; rank++)
                assert_int_equal(world.dst[rank][0], n - 1);
        }
}

static int set_up(void **state)
{
    for (aq_rank rank = 0; rank < MOST; rank++) {
        world.src[rank] = malloc((size_t)MOST * BIG * 8);
        world.dst[rank] = malloc((size_t)MOST * BIG * 8);
        if (world.src[rank] == NULL || world.dst[rank] == NULL) return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    for (aq_rank rank = 0; rank < MOST; rank++) {
        free(world.src[rank]);
        free(world.dst[rank]);
    }
    free(world.letters);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broadcast), cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_gather),    cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_barrier),   cmocka_unit_test(test_known_sizes),
        cmocka_unit_test(test_written),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
