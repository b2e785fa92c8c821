/*
 * Collectives by messages: which process sends what to whom. A plan is made when the operation
 * starts. Small data goes through trees and by doubling, which take few steps; large data through
 * rings, which move every byte the fewest times.
 */
#include "core/coll/coll.h"

#include <stdlib.h>
#include <string.h>

enum {
    LARGE = 64 * 1024,       /* from here on every byte counts, not every message */
    SMALL_GATHER = 4 * 1024, /* of a block: gathered by doubling */
    SMALL_TREE = 1024,       /* of a block: to or from the root through a tree, among: */
    TREE_MEMBERS = 4
};

struct maker {
    struct coll_plan *plan;
    const struct coll_args *args;
    aq_rank n, self;
};

/* --- adding steps ---------------------------------------------------------------------------- */

static void add(struct maker *m, struct coll_step step)
{
    struct coll_plan *plan = m->plan;
    if (plan->count == plan->room) {
        size_t room = plan->room ? 2 * plan->room : 16;
        struct coll_step *steps = realloc(plan->steps, room * sizeof(*steps));
        if (steps == NULL) {
            plan->failed = true;
            return;
        }
        plan->steps = steps;
        plan->room = room;
    }
    plan->steps[plan->count++] = step;
}

static void add_send(struct maker *m, aq_rank peer, uint32_t tag, const void *from, size_t len)
{
    if (len == 0) return;
    add(m, (struct coll_step){
               .type = STEP_SEND, .peer = peer % m->n, .tag = tag, .from = from, .len = len});
}

static void add_recv(struct maker *m, aq_rank peer, uint32_t tag, void *to, size_t len)
{
    if (len == 0) return;
    add(m, (struct coll_step){
               .type = STEP_RECV, .peer = peer % m->n, .tag = tag, .to = to, .len = len});
}

static void add_copy(struct maker *m, void *to, const void *from, size_t len)
{
    if (len == 0 || to == from) return;
    add(m, (struct coll_step){.type = STEP_COPY, .to = to, .from = from, .len = len});
}

static void add_fold(struct maker *m, const void *from, void *into, size_t len)
{
    if (len == 0) return;
    add(m, (struct coll_step){.type = STEP_FOLD, .to = into, .from = from, .len = len});
}

/* Fold `*in`, which others sent, into `*sum`. Where the order matters and those ranks come `after`
 * ours, `*sum` is the left operand: then the two change places. */
static void add_combine(struct maker *m, unsigned char **sum, unsigned char **in, size_t len,
                        bool after)
{
    unsigned char *left = *in;
    if (m->args->ordered && after) {
        *in = *sum;
        *sum = left;
        left = *in;
    }
    add_fold(m, left, *sum, len);
}

static void add_fence(struct maker *m)
{
    add(m, (struct coll_step){.type = STEP_FENCE});
}

static unsigned char *temporary(struct maker *m, size_t len)
{
    m->plan->temporary = malloc(len ? len : 1);
    if (m->plan->temporary == NULL) m->plan->failed = true;
    return m->plan->temporary;
}

/* A division of `bytes` into one part for each member, at multiples of `element`. */
static size_t part_begin(const struct maker *m, size_t bytes, size_t element, aq_rank i)
{
    return bytes / element * i / m->n * element;
}

/* --- barrier, broadcast ---------------------------------------------------------------------- */

/* Dissemination: Hensgen, Finkel, Manber 1988. */
static void plan_barrier(struct maker *m)
{
    unsigned char *bytes = temporary(m, 33); /* a byte says nothing but that it has come */
    uint32_t tag = 0;
    if (bytes == NULL) return;
    bytes[32] = 0;
    for (uint64_t k = 1; k < m->n; k *= 2, tag++) {
        add_send(m, (aq_rank)(m->self + k), tag, &bytes[32], 1);
        add_recv(m, (aq_rank)(m->self + m->n - k), tag, &bytes[tag], 1);
        add_fence(m);
    }
}

static void plan_tree(struct maker *m, void *buf, size_t len)
{
    aq_rank place = (m->self + m->n - m->args->root) % m->n;
    uint64_t mask = 1;
    while (mask < m->n && (place & mask) == 0)
        mask *= 2;
    if (mask < m->n) {
        add_recv(m, (aq_rank)(m->self + m->n - mask), 0, buf, len);
        add_fence(m);
    }
    for (mask /= 2; mask > 0; mask /= 2)
        if (place + mask < m->n) add_send(m, (aq_rank)(m->self + mask), 0, buf, len);
}

/* Part i of `buf` is at member i (counted from `first`); afterwards all parts are everywhere. */
static void plan_ring(struct maker *m, unsigned char *buf, size_t len, size_t element,
                      aq_rank first, uint32_t tag)
{
    aq_rank place = (m->self + m->n - first) % m->n;
    for (aq_rank k = 0; k + 1 < m->n; k++) {
        aq_rank out = (place + m->n - k) % m->n, in = (place + 2 * m->n - k - 1) % m->n;
        size_t from = part_begin(m, len, element, out), to = part_begin(m, len, element, in);
        add_send(m, m->self + 1, tag + k, buf + from, part_begin(m, len, element, out + 1) - from);
        add_recv(m, m->self + m->n - 1, tag + k, buf + to,
                 part_begin(m, len, element, in + 1) - to);
        add_fence(m);
    }
}

/* Large: the root deals out parts, which then go round (van de Geijn 1994). */
static void plan_broadcast(struct maker *m)
{
    const struct coll_args *args = m->args;
    bool root = m->self == args->root;
    unsigned char *buf = args->dst;
    size_t len = args->nbytes;
    if (root) {
        add_copy(m, args->dst, args->src, len);
        buf = args->dst;
    }
    if (len < LARGE || m->n < 4) {
        plan_tree(m, buf, len);
        return;
    }
    for (aq_rank i = 1; root && i < m->n; i++) {
        size_t at = part_begin(m, len, 1, i);
        add_send(m, args->root + i, 0, buf + at, part_begin(m, len, 1, i + 1) - at);
    }
    if (!root) {
        aq_rank place = (m->self + m->n - args->root) % m->n;
        size_t at = part_begin(m, len, 1, place);
        add_recv(m, args->root, 0, buf + at, part_begin(m, len, 1, place + 1) - at);
        add_fence(m);
    }
    plan_ring(m, buf, len, 1, args->root, 1);
}

/* --- reductions ------------------------------------------------------------------------------ */

/* To the root, or, where the order matters, to rank 0, who sends the result on. */
static void plan_reduce_tree(struct maker *m)
{
    const struct coll_args *args = m->args;
    aq_rank top = args->ordered ? 0 : args->root, place = (m->self + m->n - top) % m->n;
    size_t len = args->nbytes;
    unsigned char *in = temporary(m, 2 * len), *sum;
    uint64_t mask = 1;
    if (in == NULL) return;
    sum = place == 0 && top == args->root ? args->dst : in + len;
    add_copy(m, sum, args->src, len);
    for (; mask < m->n && (place & mask) == 0; mask *= 2) {
        if (place + mask >= m->n) continue;
        add_recv(m, (aq_rank)(m->self + mask), 0, in, len);
        add_combine(m, &sum, &in, len, true);
    }
    if (place != 0) add_send(m, (aq_rank)(m->self + m->n - mask), 0, sum, len);
    if (m->self == args->root && place == 0) add_copy(m, args->dst, sum, len);
    if (m->self == args->root && place != 0) add_recv(m, top, 1, args->dst, len);
    if (m->self != args->root && place == 0) add_send(m, args->root, 1, sum, len);
}

/* Recursive doubling among a power of two places. Where there are more members, the first ones
 * share a place in pairs, of which the second adds to the first and gets the result from it; so the
 * places are in the order of the ranks. Returns where the result is, `sum` or `in`. */
static unsigned char *plan_doubling(struct maker *m, unsigned char *sum, unsigned char *in,
                                    size_t len)
{
    aq_rank places = 1;
    while (places * 2 <= m->n)
        places *= 2;
    aq_rank pairs = m->n - places;
    bool paired = m->self < 2 * pairs;
    if (paired && m->self % 2 == 1) {
        add_send(m, m->self - 1, 0, sum, len);
        add_recv(m, m->self - 1, 1, sum, len);
        return sum;
    }
    if (paired) {
        add_recv(m, m->self + 1, 0, in, len);
        add_combine(m, &sum, &in, len, true);
    }
    aq_rank place = paired ? m->self / 2 : m->self - pairs;
    uint32_t tag = 2;
    for (aq_rank mask = 1; mask < places; mask *= 2, tag++) {
        aq_rank other = place ^ mask, peer = other < pairs ? 2 * other : other + pairs;
        add_send(m, peer, tag, sum, len);
        add_recv(m, peer, tag, in, len);
        add_combine(m, &sum, &in, len, other > place);
    }
    add_fence(m);
    if (paired) add_send(m, m->self + 1, 1, sum, len);
    return sum;
}

/* Each part goes round once and is added to at every stop (ring reduce-scatter). */
static void plan_ring_fold(struct maker *m, unsigned char *sum, unsigned char *in, size_t len)
{
    size_t element = m->args->element;
    for (aq_rank k = 0; k + 1 < m->n; k++) {
        aq_rank out = (m->self + 2 * m->n - k - 1) % m->n;
        aq_rank got = (m->self + 2 * m->n - k - 2) % m->n;
        size_t from = part_begin(m, len, element, out), to = part_begin(m, len, element, got);
        size_t bytes = part_begin(m, len, element, got + 1) - to;
        add_send(m, m->self + 1, k, sum + from, part_begin(m, len, element, out + 1) - from);
        add_recv(m, m->self + m->n - 1, k, in, bytes);
        add_fence(m);
        add_fold(m, in, sum + to, bytes);
    }
}

static bool worth_parts(const struct maker *m)
{
    return m->args->nbytes >= LARGE && m->n >= 3 && m->args->nbytes / m->args->element >= m->n &&
           !m->args->ordered;
}

/* Large: each member folds a part, and the root collects them. In a tree it would get all of `len`
 * from several members, one after the other. */
static void plan_reduce(struct maker *m)
{
    const struct coll_args *args = m->args;
    bool root = m->self == args->root;
    size_t len = args->nbytes;
    if (!worth_parts(m)) {
        plan_reduce_tree(m);
        return;
    }
    unsigned char *in = temporary(m, root ? len : 2 * len), *sum = root ? args->dst : in + len;
    if (in == NULL) return;
    add_copy(m, sum, args->src, len);
    plan_ring_fold(m, sum, in, len);
    for (aq_rank i = 0; i < m->n; i++) {
        size_t at = part_begin(m, len, args->element, i);
        size_t bytes = part_begin(m, len, args->element, i + 1) - at;
        if (root && i != m->self) add_recv(m, i, m->n, sum + at, bytes);
        if (!root && i == m->self) add_send(m, args->root, m->n, sum + at, bytes);
    }
}

static void plan_allreduce(struct maker *m)
{
    const struct coll_args *args = m->args;
    unsigned char *in = temporary(m, args->nbytes);
    if (in == NULL) return;
    add_copy(m, args->dst, args->src, args->nbytes);
    if (!worth_parts(m)) {
        add_copy(m, args->dst, plan_doubling(m, args->dst, in, args->nbytes), args->nbytes);
        return;
    }
    plan_ring_fold(m, args->dst, in, args->nbytes);
    plan_ring(m, args->dst, args->nbytes, args->element, 0, m->n);
}

/* --- gather, all-gather, scatter, all-to-all ------------------------------------------------- */

/* How long the blocks of the members [from, to) are together, counted from member `first`. */
static size_t blocks(const struct maker *m, const size_t *counts, aq_rank first, uint64_t from,
                     uint64_t to)
{
    if (counts == NULL) return (to - from) * m->args->nbytes;
    size_t bytes = 0;
    for (uint64_t i = from; i < to; i++)
        bytes += counts[(first + i) % m->n];
    return bytes;
}

/* Are all blocks known to be of at most `most` bytes? */
static bool all_small(const struct maker *m, const size_t *counts, size_t most)
{
    if (m->args->vary) return false;
    for (aq_rank i = 0; counts != NULL && i < m->n; i++)
        if (counts[i] > most) return false;
    return counts != NULL || m->args->nbytes <= most;
}

/* In a binomial tree: our distance from the root, how many members from there on are below us, and
 * whose child we are. */
struct branch {
    aq_rank place, members, parent;
};

static struct branch branch_of(const struct maker *m)
{
    struct branch b = {.place = (m->self + m->n - m->args->root) % m->n};
    uint64_t span = 1;
    while (span < m->n && (b.place & span) == 0)
        span *= 2;
    b.members = (aq_rank)aqi_min(span, (uint64_t)m->n - b.place);
    b.parent = (aq_rank)(m->self + m->n - span % m->n);
    return b;
}

static void plan_gather_tree(struct maker *m)
{
    const struct coll_args *args = m->args;
    const size_t *counts = args->recv_counts;
    struct branch b = branch_of(m);
    aq_rank root = args->root;
    size_t all = blocks(m, counts, root, b.place, (uint64_t)b.place + b.members);
    if (b.members == 1) {
        add_send(m, b.parent, 0, args->src, all);
        return;
    }
    unsigned char *buf = temporary(m, all);
    if (buf == NULL) return;
    add_copy(m, buf, args->src, blocks(m, counts, root, b.place, b.place + 1u));
    for (uint64_t mask = 1; mask < b.members; mask *= 2) {
        uint64_t from = b.place + mask, to = b.place + aqi_min(2 * mask, b.members);
        add_recv(m, (aq_rank)(m->self + mask), 0, buf + blocks(m, counts, root, b.place, from),
                 blocks(m, counts, root, from, to));
    }
    add_fence(m);
    if (b.place != 0) add_send(m, b.parent, 0, buf, all);
    for (aq_rank i = 0; b.place == 0 && i < m->n; i++) {
        unsigned char *to;
        size_t len = coll_recv_block(args, (root + i) % m->n, &to);
        add_copy(m, to, buf, len);
        buf += len;
    }
}

static void plan_scatter_tree(struct maker *m)
{
    const struct coll_args *args = m->args;
    const size_t *counts = args->send_counts;
    struct branch b = branch_of(m);
    aq_rank root = args->root;
    size_t all = blocks(m, counts, root, b.place, (uint64_t)b.place + b.members);
    if (b.members == 1) {
        add_recv(m, b.parent, 0, args->dst, all);
        return;
    }
    unsigned char *buf = temporary(m, all), *at = buf;
    if (buf == NULL) return;
    for (aq_rank i = 0; b.place == 0 && i < m->n; i++) {
        const unsigned char *from;
        size_t len = coll_send_block(args, (root + i) % m->n, &from);
        add_copy(m, at, from, len);
        at += len;
    }
    if (b.place != 0) add_recv(m, b.parent, 0, buf, all);
    add_fence(m);
    uint64_t mask = 1;
    while (mask * 2 < b.members)
        mask *= 2;
    for (; mask > 0; mask /= 2) {
        uint64_t from = b.place + mask, to = b.place + aqi_min(2 * mask, b.members);
        add_send(m, (aq_rank)(m->self + mask), 0, buf + blocks(m, counts, root, b.place, from),
                 blocks(m, counts, root, from, to));
    }
    add_copy(m, args->dst, buf, blocks(m, counts, root, b.place, b.place + 1u));
}

static void plan_gather(struct maker *m)
{
    const struct coll_args *args = m->args;
    if (m->n >= TREE_MEMBERS && all_small(m, args->recv_counts, SMALL_TREE)) {
        plan_gather_tree(m);
        return;
    }
    if (m->self != args->root) {
        add_send(m, args->root, 0, args->src, args->nbytes);
        return;
    }
    for (aq_rank i = 0; i < m->n; i++) {
        unsigned char *to;
        size_t len = coll_recv_block(args, i, &to);
        if (i == m->self)
            add_copy(m, to, args->src, len);
        else
            add_recv(m, i, 0, to, len);
    }
}

static void plan_scatter(struct maker *m)
{
    const struct coll_args *args = m->args;
    if (m->n >= TREE_MEMBERS && all_small(m, args->send_counts, SMALL_TREE)) {
        plan_scatter_tree(m);
        return;
    }
    if (m->self != args->root) {
        add_recv(m, args->root, 0, args->dst, args->nbytes);
        return;
    }
    for (aq_rank i = 0; i < m->n; i++) {
        const unsigned char *from;
        size_t len = coll_send_block(args, i, &from);
        if (i == m->self)
            add_copy(m, args->dst, from, len);
        else
            add_send(m, i, 0, from, len);
    }
}

/* Few bytes: doubling with a rotation (Bruck and others 1997). */
static void plan_bruck(struct maker *m)
{
    const struct coll_args *args = m->args;
    const size_t *counts = args->recv_counts;
    unsigned char *all = temporary(m, blocks(m, counts, m->self, 0, m->n));
    if (all == NULL) return;
    uint32_t tag = 0;
    add_copy(m, all, args->src, blocks(m, counts, m->self, 0, 1));
    for (uint64_t have = 1; have < m->n; have *= 2, tag++) {
        uint64_t more = aqi_min(have, m->n - have);
        add_send(m, (aq_rank)(m->self + m->n - have), tag, all,
                 blocks(m, counts, m->self, 0, more));
        add_recv(m, (aq_rank)(m->self + have), tag, all + blocks(m, counts, m->self, 0, have),
                 blocks(m, counts, m->self, have, have + more));
        add_fence(m);
    }
    for (aq_rank i = 0; i < m->n; i++) {
        unsigned char *to;
        size_t len = coll_recv_block(args, (m->self + i) % m->n, &to);
        add_copy(m, to, all, len);
        all += len;
    }
}

static void plan_allgather(struct maker *m)
{
    const struct coll_args *args = m->args;
    unsigned char *own;
    if (all_small(m, args->recv_counts, SMALL_GATHER)) {
        plan_bruck(m);
        return;
    }
    size_t len = coll_recv_block(args, m->self, &own);
    add_copy(m, own, args->src, len);
    for (aq_rank k = 0; k + 1 < m->n; k++) {
        unsigned char *from, *to;
        size_t out = coll_recv_block(args, (m->self + m->n - k) % m->n, &from);
        size_t in = coll_recv_block(args, (m->self + 2 * m->n - k - 1) % m->n, &to);
        add_send(m, m->self + 1, k, from, out);
        add_recv(m, m->self + m->n - 1, k, to, in);
        add_fence(m);
    }
}

/* Pairs at growing distance, some at a time, so that no member gets all messages at once. */
static void plan_alltoall(struct maker *m)
{
    const struct coll_args *args = m->args;
    for (aq_rank k = 0; k < m->n; k++) {
        const unsigned char *from;
        unsigned char *to;
        aq_rank next = (m->self + k) % m->n, previous = (m->self + m->n - k) % m->n;
        size_t out = coll_send_block(args, next, &from), in = coll_recv_block(args, previous, &to);
        if (k == 0) {
            add_copy(m, to, from, aqi_min(in, out));
            continue;
        }
        add_send(m, next, k, from, out);
        add_recv(m, previous, k, to, in);
        if (k % 8 == 0) add_fence(m);
    }
}

static void (*const makers[COLL_KINDS])(struct maker *m) = {
    [COLL_BARRIER] = plan_barrier,     [COLL_GATE] = plan_barrier,
    [COLL_BROADCAST] = plan_broadcast, [COLL_REDUCE] = plan_reduce,
    [COLL_ALLREDUCE] = plan_allreduce, [COLL_GATHER] = plan_gather,
    [COLL_ALLGATHER] = plan_allgather, [COLL_SCATTER] = plan_scatter,
    [COLL_ALLTOALL] = plan_alltoall,
};

void coll_plan_make(struct coll_plan *plan, const struct coll_args *args, aq_rank n, aq_rank self)
{
    struct maker m = {plan, args, n, self};
    makers[args->kind](&m);
    add_fence(&m);
}

void coll_plan_free(struct coll_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        free(plan->steps[i].early);
    free(plan->steps);
    free(plan->temporary);
    *plan = (struct coll_plan){0};
}
