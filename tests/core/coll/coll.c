/*
 * Collectives compared with an oracle: every kind, in place and not, with all roots or some, empty
 * and large, blocking and several under way, on the whole job and on teams.
 *
 * usage: coll [large|many|few]
 */
#include "../support.h"

#include <stdlib.h>
#include <string.h>

static aq_team *team; /* under test */
static aq_rank self, size;
static unsigned char *in, *out; /* private, or in the segment */
static size_t room;             /* bytes of each */

static uint64_t seed_of(aq_rank rank, uint64_t round)
{
    return job.seed * 31 + round * 1009 + rank * 100003;
}

/* The block that `from` sends to `to`. */
static uint64_t block_seed(aq_rank from, aq_rank to, uint64_t round)
{
    return seed_of(from, round) + to * 7919u;
}

static void check_filled(const char *what, const void *at, size_t len, uint64_t seed)
{
    if (!filled(at, len, seed)) check_failed(__FILE__, __LINE__, "%s of %zu bytes", what, len);
}

static void finish(aq_status status, aq_event *event)
{
    CHECK_OK(status);
    CHECK_OK(aq_event_wait(event, AQ_FOREVER));
    CHECK(*event == AQ_EVENT_DONE);
}

/* --- kinds with blocks ------------------------------------------------------------------- */

static void test_broadcast(aq_rank root, size_t len, bool in_place)
{
    aq_event ev;
    unsigned char *dst = in_place && self == root ? in : out;
    memset(out, 0xee, len);
    if (self == root) fill(in, len, seed_of(root, len));
    if (len % 2)
        CHECK_OK(aq_coll_broadcast(team, root, dst, self == root ? in : NULL, len, 0));
    else
        finish(aq_coll_broadcast_nb(team, root, dst, in, len, 0, &ev), &ev);
    check_filled("broadcast", dst, len, seed_of(root, len));
}

static void test_gather(aq_rank root, size_t len, bool in_place)
{
    aq_event ev;
    unsigned char *src = in_place && self == root ? out + root * len : in;
    fill(src, len, seed_of(self, len));
    if (len % 2)
        CHECK_OK(aq_coll_gather(team, root, self == root ? out : NULL, src, len, 0));
    else
        finish(aq_coll_gather_nb(team, root, out, src, len, 0, &ev), &ev);
    for (aq_rank i = 0; self == root && i < size; i++)
        check_filled("gather", out + i * len, len, seed_of(i, len));
}

static void test_allgather(size_t len, bool in_place)
{
    aq_event ev;
    unsigned char *src = in_place ? out + self * len : in;
    memset(out, 0xee, size * len);
    fill(src, len, seed_of(self, len));
    if (len % 2)
        CHECK_OK(aq_coll_allgather(team, out, src, len, 0));
    else
        finish(aq_coll_allgather_nb(team, out, src, len, 0, &ev), &ev);
    for (aq_rank i = 0; i < size; i++)
        check_filled("all-gather", out + i * len, len, seed_of(i, len));
}

static void test_scatter(aq_rank root, size_t len, bool in_place)
{
    aq_event ev;
    unsigned char *dst = in_place && self == root ? in + root * len : out;
    for (aq_rank i = 0; self == root && i < size; i++)
        fill(in + i * len, len, block_seed(root, i, len));
    if (len % 2)
        CHECK_OK(aq_coll_scatter(team, root, dst, in, len, 0));
    else
        finish(aq_coll_scatter_nb(team, root, dst, in, len, 0, &ev), &ev);
    check_filled("scatter", dst, len, block_seed(root, self, len));
}

static void test_alltoall(size_t len)
{
    aq_event ev;
    for (aq_rank i = 0; i < size; i++)
        fill(in + i * len, len, block_seed(self, i, len));
    memset(out, 0xee, size * len);
    if (len % 2)
        CHECK_OK(aq_coll_alltoall(team, out, in, len, 0));
    else
        finish(aq_coll_alltoall_nb(team, out, in, len, 0, &ev), &ev);
    for (aq_rank i = 0; i < size; i++)
        check_filled("all-to-all", out + i * len, len, block_seed(i, self, len));
}

/* --- v-forms: some blocks are empty ------------------------------------------------------ */

static size_t ragged(aq_rank from, aq_rank to, size_t most)
{
    uint64_t word = mix(from * 131 + to * 17 + most + job.seed);
    return word % 4 == 0 ? 0 : word / 4 % (most + 1);
}

static size_t table(size_t *counts, size_t *offsets, aq_rank from, aq_rank to, size_t most)
{
    size_t at = 0;
    for (aq_rank i = 0; i < size; i++) {
        counts[i] = ragged(from == AQ_RANK_NONE ? i : from, to == AQ_RANK_NONE ? i : to, most);
        offsets[i] = at;
        at += counts[i] + 3;
    }
    CHECK(at <= room);
    return at;
}

static void test_ragged(aq_rank root, size_t most)
{
    size_t counts[64], offsets[64], src_counts[64], src_offsets[64];
    aq_event ev;

    table(counts, offsets, AQ_RANK_NONE, root, most);
    fill(in, counts[self], block_seed(self, root, most));
    if (most % 2)
        CHECK_OK(aq_coll_gatherv(team, root, out, counts, offsets, in, counts[self], 0));
    else
        finish(aq_coll_gatherv_nb(team, root, out, counts, offsets, in, counts[self], 0, &ev), &ev);
    for (aq_rank i = 0; self == root && i < size; i++)
        check_filled("gatherv", out + offsets[i], counts[i], block_seed(i, root, most));

    fill(in, counts[self], block_seed(self, root, most + 1));
    const unsigned char *own = counts[self] != 0 ? in : NULL;
    if (most % 2)
        CHECK_OK(aq_coll_allgatherv(team, out, counts, offsets, own, 0));
    else
        finish(aq_coll_allgatherv_nb(team, out, counts, offsets, own, 0, &ev), &ev);
    for (aq_rank i = 0; i < size; i++)
        check_filled("allgatherv", out + offsets[i], counts[i], block_seed(i, root, most + 1));

    table(counts, offsets, root, AQ_RANK_NONE, most);
    for (aq_rank i = 0; self == root && i < size; i++)
        fill(in + offsets[i], counts[i], block_seed(root, i, most));
    if (most % 2)
        CHECK_OK(aq_coll_scatterv(team, root, out, counts[self], in, counts, offsets, 0));
    else
        finish(aq_coll_scatterv_nb(team, root, out, counts[self], in, counts, offsets, 0, &ev),
               &ev);
    check_filled("scatterv", out, counts[self], block_seed(root, self, most));

    table(counts, offsets, AQ_RANK_NONE, self, most);
    table(src_counts, src_offsets, self, AQ_RANK_NONE, most);
    for (aq_rank i = 0; i < size; i++)
        fill(in + src_offsets[i], src_counts[i], block_seed(self, i, most));
    if (most % 2)
        CHECK_OK(aq_coll_alltoallv(team, out, counts, offsets, in, src_counts, src_offsets, 0));
    else
        finish(
            aq_coll_alltoallv_nb(team, out, counts, offsets, in, src_counts, src_offsets, 0, &ev),
            &ev);
    for (aq_rank i = 0; i < size; i++)
        check_filled("alltoallv", out + offsets[i], counts[i], block_seed(i, self, most));
}

/* --- reductions -------------------------------------------------------------------------- */

/* Small integers, so that results are exact in every type and in any order of evaluation. */
static int64_t value_of(aq_rank rank, size_t i, aq_op op)
{
    uint64_t word = mix(rank * 977 + i * 13 + job.seed);
    if (op == AQ_OP_MULT) return word % 5 == 0 ? 2 : 1;
    return (int64_t)(word % 1000) -
           (op == AQ_OP_AND || op == AQ_OP_OR || op == AQ_OP_XOR ? 0 : 300);
}

static int64_t combine(aq_op op, int64_t a, int64_t b)
{
    switch (op) {
    case AQ_OP_ADD:
        return a + b;
    case AQ_OP_MULT:
        return (int64_t)((uint64_t)a * (uint64_t)b); /* may wrap */
    case AQ_OP_MIN:
        return a < b ? a : b;
    case AQ_OP_MAX:
        return a > b ? a : b;
    case AQ_OP_AND:
        return a & b;
    case AQ_OP_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

#define TYPED(type, T, at, i, value)                                                               \
    case type:                                                                                     \
        ((T *)(void *)(at))[i] = (T)(value);                                                       \
        break

static void store(aq_type type, void *at, size_t i, int64_t value)
{
    switch (type) {
        TYPED(AQ_TYPE_I32, int32_t, at, i, value);
        TYPED(AQ_TYPE_U32, uint32_t, at, i, value);
        TYPED(AQ_TYPE_I64, int64_t, at, i, value);
        TYPED(AQ_TYPE_U64, uint64_t, at, i, value);
        TYPED(AQ_TYPE_F32, float, at, i, value);
        TYPED(AQ_TYPE_F64, double, at, i, value);
    }
}

static size_t size_of(aq_type type)
{
    return type == AQ_TYPE_I32 || type == AQ_TYPE_U32 || type == AQ_TYPE_F32 ? 4 : 8;
}

static bool is_unsigned(aq_type type)
{
    return type == AQ_TYPE_U32 || type == AQ_TYPE_U64;
}

/* Values for a type. They are not negative where that would change their order. */
static int64_t typed_value(aq_rank rank, size_t i, aq_type type, aq_op op)
{
    return value_of(rank, i, op) + (is_unsigned(type) ? 300 : 0);
}

static void check_reduced(const unsigned char *at, size_t count, aq_type type, aq_op op)
{
    for (size_t i = 0; i < count; i++) {
        int64_t want = typed_value(0, i, type, op);
        for (aq_rank rank = 1; rank < size; rank++)
            want = combine(op, want, typed_value(rank, i, type, op));
        unsigned char bytes[8];
        store(type, bytes, 0, want);
        if (memcmp(bytes, at + i * size_of(type), size_of(type)) != 0)
            check_failed(__FILE__, __LINE__, "element %zu of %zu, type %d, operator %d", i, count,
                         (int)type, (int)op);
    }
}

static void test_reduce(aq_rank root, size_t count, aq_type type, aq_op op, bool in_place)
{
    aq_event ev;
    size_t len = count * size_of(type);
    unsigned char *dst = in_place && self == root ? in : out;
    for (size_t i = 0; i < count; i++)
        store(type, in, i, typed_value(self, i, type, op));
    memset(out, 0xee, len);
    if (count % 2)
        CHECK_OK(aq_coll_reduce(team, root, dst, in, count, type, op, 0));
    else
        finish(aq_coll_reduce_nb(team, root, dst, in, count, type, op, 0, &ev), &ev);
    if (self == root) check_reduced(dst, count, type, op);

    for (size_t i = 0; i < count; i++)
        store(type, in, i, typed_value(self, i, type, op));
    dst = in_place ? in : out;
    if (count % 2)
        CHECK_OK(aq_coll_allreduce(team, dst, in, count, type, op, 0));
    else
        finish(aq_coll_allreduce_nb(team, dst, in, count, type, op, 0, &ev), &ev);
    check_reduced(dst, count, type, op);
}

/* A user-defined element: a sum, and the number of values added. The rest identifies wrong
 * elements. */
struct user {
    uint64_t sum, count;
};

static void add_users(const void *left, void *right_and_out, size_t count, const void *context)
{
    size_t bytes = *(const size_t *)context;
    for (size_t i = 0; i < count; i++) {
        const struct user *a = (const void *)((const unsigned char *)left + i * bytes);
        struct user *b = (void *)((unsigned char *)right_and_out + i * bytes);
        for (size_t j = 0; j < bytes / sizeof(*a); j++) {
            b[j].sum += a[j].sum;
            b[j].count += a[j].count;
        }
    }
}

static void test_user(aq_rank root, size_t count, size_t bytes)
{
    aq_event ev;
    size_t all = count * bytes / sizeof(struct user);
    struct user *mine = (void *)in, *got = (void *)out;
    for (int to_all = 0; to_all < 2; to_all++) {
        for (size_t i = 0; i < all; i++)
            mine[i] = (struct user){self * 3 + i, 1};
        if (to_all && count % 2)
            CHECK_OK(aq_coll_allreduce_user(team, out, in, count, bytes, add_users, &bytes, 0));
        else if (count % 2)
            CHECK_OK(aq_coll_reduce_user(team, root, out, in, count, bytes, add_users, &bytes, 0));
        else if (to_all)
            finish(
                aq_coll_allreduce_user_nb(team, out, in, count, bytes, add_users, &bytes, 0, &ev),
                &ev);
        else
            finish(aq_coll_reduce_user_nb(team, root, out, in, count, bytes, add_users, &bytes, 0,
                                          &ev),
                   &ev);
        for (size_t i = 0; (to_all || self == root) && i < all; i++) {
            CHECK_EQUAL(got[i].count, size);
            CHECK_EQUAL(got[i].sum, 3 * ((uint64_t)size * (size - 1) / 2) + (uint64_t)i * size);
        }
    }
}

/*
 * Elements are ranges of ranks, which can be joined only if the left one ends where the right one
 * begins.
 */
struct range {
    uint32_t first, last;
};

static void join_ranges(const void *left, void *right_and_out, size_t count, const void *context)
{
    const struct range *a = left;
    struct range *b = right_and_out;
    (void)context;
    for (size_t i = 0; i < count; i++) {
        if (a[i].last + 1 != b[i].first) b[i].last = UINT32_MAX;
        b[i].first = a[i].first;
    }
}

static void test_ordered(aq_rank root, size_t count, bool in_place)
{
    for (int to_all = 0; to_all < 2; to_all++) {
        aq_event ev;
        bool mine = to_all || self == root;
        struct range *from = (void *)in, *to = (void *)(in_place && mine ? in : out);
        for (size_t i = 0; i < count; i++)
            from[i] = (struct range){self + (uint32_t)i, self + (uint32_t)i};
        finish(to_all ? aq_coll_allreduce_user_nb(team, to, from, count, 8, join_ranges, NULL,
                                                  AQ_COLL_ORDERED, &ev)
                      : aq_coll_reduce_user_nb(team, root, to, from, count, 8, join_ranges, NULL,
                                               AQ_COLL_ORDERED, &ev),
               &ev);
        for (size_t i = 0; mine && i < count; i++) {
            CHECK_EQUAL(to[i].first, i);
            CHECK_EQUAL(to[i].last, size - 1 + i);
        }
    }
}

/* With AQ_COLL_IN_ALL and AQ_COLL_OUT_ALL: a table at rank 0 shows which ranks have started, and
 * a get from a peer shows whether its result is final. Everything is at an offset in the
 * segments. */
static void test_together(void)
{
    enum { AT = 4096 };
    static const unsigned flags[] = {0, AQ_COLL_IN_ALL, AQ_COLL_OUT_ALL,
                                     AQ_COLL_IN_ALL | AQ_COLL_OUT_ALL};
    static unsigned char data[20000], got[20000];
    static uint64_t table[AT / 8];
    CHECK(size <= COUNT_OF(table));
    for (unsigned round = 1; round <= 12; round++) {
        aq_event ev[2];
        aq_rank root = round % size, peer = (self + round) % size;
        size_t len = round % 3 == 0 ? sizeof(data) : 64 + round;
        unsigned how = flags[round % COUNT_OF(flags)];
        void *mine = (void *)(self * sizeof(*table)); /* NOLINT: an offset */
        CHECK_OK(aq_put_value(team, 0, mine, round, 8, AQ_REMOTE_OFFSET));
        fill(data, len, seed_of(root, round));
        CHECK_OK(aq_coll_broadcast_nb(team, root, (unsigned char *)job.base + AT, data, len, how,
                                      &ev[0]));
        CHECK_OK(aq_barrier_nb(team, 0, &ev[1]));
        CHECK_OK(aq_event_wait(&ev[0], AQ_FOREVER));
        if (how != 0) {
            CHECK_OK(aq_get(team, 0, table, NULL, size * sizeof(*table), AQ_REMOTE_OFFSET));
            for (aq_rank i = 0; i < size; i++)
                CHECK(table[i] >= round);
        }
        if (how & AQ_COLL_OUT_ALL) {
            CHECK_OK(aq_get(team, peer, got, (void *)AT, len, AQ_REMOTE_OFFSET));
            check_filled("broadcast, at a peer", got, len, seed_of(root, round));
        }
        CHECK_OK(aq_event_wait(&ev[1], AQ_FOREVER));
        CHECK_OK(aq_barrier(team));
    }
}

/* --- several under way ------------------------------------------------------------------- */

enum { UNDER_WAY = 40 };

static void test_under_way(aq_team *other)
{
    static uint64_t src[UNDER_WAY], dst[UNDER_WAY], src2[UNDER_WAY], dst2[UNDER_WAY];
    aq_event events[2 * UNDER_WAY], barriers[8];
    aq_rank size2 = aq_team_size(other), self2 = aq_team_rank(other);
    for (unsigned i = 0; i < 8; i++)
        CHECK_OK(aq_barrier_nb(team, 0, &barriers[i]));
    for (unsigned i = 0; i < UNDER_WAY; i++) {
        src[i] = self + i;
        src2[i] = self2 * 2 + i;
        CHECK_OK(i % 3 == 0
                     ? aq_coll_broadcast_nb(team, i % size, &dst[i], &src[i], 8, 0, &events[2 * i])
                     : aq_coll_allreduce_nb(team, &dst[i], &src[i], 1, AQ_TYPE_U64, AQ_OP_ADD, 0,
                                            &events[2 * i]));
        CHECK_OK(aq_coll_allreduce_nb(other, &dst2[i], &src2[i], 1, AQ_TYPE_U64, AQ_OP_ADD, 0,
                                      &events[2 * i + 1]));
    }
    /* Completed in reverse order. */
    for (unsigned i = 2 * UNDER_WAY; i-- > 0;)
        CHECK_OK(aq_event_wait(&events[i], AQ_FOREVER));
    CHECK_OK(aq_event_wait_all(barriers, 8, AQ_FOREVER));
    for (uint64_t i = 0; i < UNDER_WAY; i++) {
        uint64_t sum = (uint64_t)size * (size - 1) / 2 + i * size;
        CHECK_EQUAL(dst[i], i % 3 == 0 ? i % size + i : sum);
        CHECK_EQUAL(dst2[i], (uint64_t)size2 * (size2 - 1) + i * size2);
    }
}

/* --- main -------------------------------------------------------------------------------- */

static const struct {
    aq_op op;
    bool floats;
} operators[] = {{AQ_OP_ADD, true},  {AQ_OP_MULT, true}, {AQ_OP_MIN, true}, {AQ_OP_MAX, true},
                 {AQ_OP_AND, false}, {AQ_OP_OR, false},  {AQ_OP_XOR, false}};

static void test_operators(void)
{
    for (unsigned type = AQ_TYPE_I32; type <= AQ_TYPE_F64; type++)
        for (size_t i = 0; i < COUNT_OF(operators); i++) {
            if (!operators[i].floats && type >= AQ_TYPE_F32) continue;
            test_reduce((aq_rank)i % size, 1 + i, (aq_type)type, operators[i].op, i % 2);
        }
}

static void test_sizes(size_t most)
{
    static const size_t lens[] = {0, 1, 8, 48, 49, 333, 4096, 4097, 20000, 70001, 1100000};
    for (size_t i = 0; i < COUNT_OF(lens); i++) {
        size_t len = lens[i];
        aq_rank root = (aq_rank)(i * 7 + 1) % size;
        if (len > most) break;
        test_broadcast(root, len, i % 2);
        test_reduce(root, len / 8, AQ_TYPE_I64, AQ_OP_ADD, i % 2);
        test_ordered(root, len / 8, i % 2);
        if (len * size > room) continue;
        test_gather(root, len, i % 2);
        test_allgather(len, i % 2);
        test_scatter(root, len, i % 2);
        test_alltoall(len);
        if (size <= 64 && (len + 3) * size <= room) test_ragged(root, len);
    }
}

static void use_team(aq_team *which)
{
    team = which;
    self = aq_team_rank(team);
    size = aq_team_size(team);
}

static void test_all(size_t most)
{
    test_operators();
    test_sizes(most);
    for (aq_rank root = 0; root < size; root++) {
        test_broadcast(root, 100 + root, false);
        test_reduce(root, 3, AQ_TYPE_F64, AQ_OP_ADD, root % 2);
    }
    test_user(size - 1, 3, 48);
    test_user(size / 2, 20, 4096);
    test_user(size / 2, 2, 40000);
    test_together();
}

static void test_misuse(void)
{
    aq_event ev;
    int32_t one = 1, got;
    CHECK_REFUSED(aq_coll_broadcast(team, size, &got, &one, 4, 0), AQ_ERANK);
    CHECK_REFUSED(aq_barrier_nb(NULL, 0, &ev), AQ_EINVAL);
    CHECK_REFUSED(aq_barrier_nb(team, 0x8000, &ev), AQ_EINVAL);
    CHECK_REFUSED(aq_barrier_nb(team, 0, NULL), AQ_EINVAL);
    CHECK_REFUSED(aq_barrier_nb(team, AQ_COLL_IN_ALL, &ev), AQ_EINVAL);
    CHECK_REFUSED(aq_coll_broadcast_nb(team, 0, &got, &one, 4, AQ_COLL_ORDERED, &ev), AQ_EINVAL);
    CHECK_REFUSED(aq_coll_allreduce(team, &got, &one, 1, AQ_TYPE_F32, AQ_OP_XOR, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_coll_allreduce(team, &got, &one, 1, AQ_TYPE_I32, AQ_OP_CAS, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_coll_allreduce(team, NULL, &one, 1, AQ_TYPE_I32, AQ_OP_ADD, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_coll_allreduce_user(team, &got, &one, 1, 4, NULL, NULL, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_coll_reduce_user(team, size, &got, &one, 1, 4, add_users, NULL, 0), AQ_ERANK);
    CHECK_REFUSED(aq_coll_reduce_user(team, 0, &got, &one, 1, 0, add_users, NULL, 0), AQ_EINVAL);
    if (size > 1) { /* more bytes than the address space has */
        size_t most = SIZE_MAX / size + 1;
        CHECK_REFUSED(aq_coll_gather(team, 0, &got, &one, most, 0), AQ_EINVAL);
        CHECK_REFUSED(aq_coll_scatter_nb(team, 0, &got, &one, most, 0, &ev), AQ_EINVAL);
        CHECK_REFUSED(aq_coll_allgather(team, &got, &one, SIZE_MAX, 0), AQ_EINVAL);
        CHECK_REFUSED(aq_coll_alltoall(team, &got, &one, most, 0), AQ_EINVAL);
    }
    CHECK_REFUSED(aq_coll_gatherv(team, self, &got, NULL, NULL, &one, 4, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_coll_allgatherv(team, &got, NULL, NULL, &one, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_coll_scatterv(team, self, &got, 4, &one, NULL, NULL, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_coll_alltoallv(team, &got, NULL, NULL, &one, NULL, NULL, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_barrier_nb(aq_team_pair(job.ep, 0), 0, &ev), AQ_EINVAL);
    CHECK_REFUSED(aq_coll_gather(team, 0, &got, &one, 4, AQ_COLL_ORDERED), AQ_EINVAL);
}

/* The flags of the blocking forms: when the last member leaves, the buffers of all members are
 * final. */
static void test_blocking_flags(void)
{
    static uint64_t mine, sum;
    for (unsigned i = 0; i < 4; i++) {
        unsigned flags = (i & 1 ? AQ_COLL_IN_ALL : 0) | (i & 2 ? AQ_COLL_OUT_ALL : 0);
        mine = self + i;
        CHECK_OK(aq_coll_allreduce(team, &sum, &mine, 1, AQ_TYPE_U64, AQ_OP_ADD,
                                   flags | AQ_COLL_ORDERED | AQ_IMMEDIATE));
        CHECK_EQUAL(sum, (uint64_t)size * (size - 1) / 2 + (uint64_t)i * size);
        mine = UINT64_MAX; /* free to be reused */
        CHECK_OK(aq_coll_broadcast(team, size - 1, &sum, &mine, 8, flags));
        CHECK_EQUAL(sum, UINT64_MAX);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    bool large = strcmp(mode, "large") == 0, many = strcmp(mode, "many") == 0;
    size_t half = large ? 20u << 20 : many ? 2u << 20 : 4u << 20;
    job_open(AQ_THREAD_SINGLE, 2 * half);
    room = half;
    aq_team *parity, *mixed;
    CHECK_OK(aq_team_split(job.team, (int)(job.self % 2), -(int)job.self, 0, &parity));
    CHECK_OK(aq_team_split(job.team, 0, (int)(mix(job.seed + job.self) % 1000), 0, &mixed));

    in = malloc(room);
    out = malloc(room);
    CHECK(in != NULL && out != NULL);
    use_team(job.team);
    test_misuse();
    test_blocking_flags();
    if (strcmp(mode, "few") != 0) {
        test_all(large ? room : many ? 5000 : 80000);
        test_under_way(parity);
        use_team(parity);
        test_all(many ? 400 : 5000);
        test_under_way(job.team);
        use_team(mixed);
        test_all(many ? 400 : 5000);
        test_under_way(job.team);
    }
    free(in);
    free(out);

    /* The same with buffers in segments, and with only some of them in segments. */
    in = job.base;
    out = job.base + half;
    use_team(job.team);
    if (!many) test_sizes(large ? room : 80000);
    if (!many) test_user(0, 3, 40000);
    if (job.self % 2) out = malloc(room);
    if (!many) test_sizes(20000);
    if (job.self % 2) free(out);
    CHECK_OK(aq_team_destroy(mixed));
    CHECK_OK(aq_team_destroy(parity));
    job_close();
    return 0;
}
