/*
 * Collectives by messages: which data each member sends to which others. Small data uses trees and
 * doubling, which take few steps; large data uses rings, which move the fewest bytes.
 */
#include "base/array.h"
#include "core/coll/coll.h"

#include <stdlib.h>

enum {
    PLAN_LARGE = 64 * 1024,       /* from here on, bandwidth matters more than latency */
    PLAN_SMALL_GATHER = 4 * 1024, /* largest block that is gathered by doubling */
    PLAN_SMALL_TREE = 1024, /* largest block that goes through a tree, if there are at least: */
    PLAN_TREE_MEMBERS = 4
};

struct maker {
    struct coll_plan *plan;
    const struct coll_args *args;
    aq_rank n, self;
};

/* --- adding steps ---------------------------------------------------------------------------- */

static void plan_add(struct maker *m, struct coll_step step)
{
    struct coll_plan *plan = m->plan;
    if (step.len == 0 && step.type != STEP_FENCE) return;
    if (aqi_array_reserve(&plan->steps, &plan->room, plan->count + 1, sizeof(*plan->steps)))
        plan->steps[plan->count++] = step;
    else
        plan->failed = true;
}

static void plan_send(struct maker *m, aq_rank peer, uint32_t tag, const void *from, size_t len)
{
    plan_add(m, (struct coll_step){
                    .type = STEP_SEND, .peer = peer % m->n, .tag = tag, .from = from, .len = len});
}

static void plan_recv(struct maker *m, aq_rank peer, uint32_t tag, void *to, size_t len)
{
    plan_add(m, (struct coll_step){
                    .type = STEP_RECV, .peer = peer % m->n, .tag = tag, .to = to, .len = len});
}

static void plan_copy(struct maker *m, void *to, const void *from, size_t len)
{
    if (to == from) return;
    plan_add(m, (struct coll_step){.type = STEP_COPY, .to = to, .from = from, .len = len});
}

static void plan_fold(struct maker *m, const void *from, void *into, size_t len)
{
    plan_add(m, (struct coll_step){.type = STEP_FOLD, .to = into, .from = from, .len = len});
}

/*
 * Fold the received `*in` into `*sum`. Where order matters and `*in` is from `later` ranks, `*sum`
 * is the left operand, and the two buffers are swapped.
 */
static void plan_combine(struct maker *m, unsigned char **sum, unsigned char **in, size_t len,
                         bool later)
{
    unsigned char *left = *in;
    if (m->args->ordered && later) {
        *in = *sum;
        *sum = left;
        left = *in;
    }
    plan_fold(m, left, *sum, len);
}

static void plan_fence(struct maker *m)
{
    plan_add(m, (struct coll_step){.type = STEP_FENCE});
}

static unsigned char *plan_temporary(struct maker *m, size_t len)
{
    m->plan->temporary = malloc(len ? len : 1);
    if (m->plan->temporary == NULL) m->plan->failed = true;
    return m->plan->temporary;
}

/* Where part i begins if `len` bytes are divided among members at multiples of `element`. */
static size_t plan_part(const struct maker *m, size_t len, size_t element, aq_rank i, size_t *bytes)
{
    size_t at = len / element * i / m->n * element;
    *bytes = len / element * (i + 1) / m->n * element - at;
    return at;
}

/* --- barrier, broadcast ---------------------------------------------------------------------- */

/*
 * Dissemination: Hensgen, Finkel, Manber 1988. With `fold`, received data is folded into `all`,
 * some of it more than once.
 */
static void plan_dissemination(struct maker *m, void *all, void *in, size_t len, bool fold)
{
    uint32_t tag = 0;
    for (uint64_t k = 1; k < m->n; k *= 2, tag++) {
        plan_send(m, (aq_rank)(m->self + k), tag, all, len);
        plan_recv(m, (aq_rank)(m->self + m->n - k), tag, in, len);
        if (fold)
            plan_fold(m, in, all, len);
        else
            plan_fence(m);
    }
}

static void plan_barrier(struct maker *m)
{
    unsigned char *bytes = plan_temporary(m, 2); /* one to send, one to receive */
    if (bytes == NULL) return;
    bytes[0] = 0;
    plan_dissemination(m, &bytes[0], &bytes[1], 1, false);
}

static void plan_broadcast_tree(struct maker *m, void *buf, size_t len)
{
    aq_rank place = (m->self + m->n - m->args->root) % m->n;
    uint64_t mask = 1;
    while (mask < m->n && (place & mask) == 0)
        mask *= 2;
    if (mask < m->n) {
        plan_recv(m, (aq_rank)(m->self + m->n - mask), 0, buf, len);
        plan_fence(m);
    }
    for (mask /= 2; mask > 0; mask /= 2)
        if (place + mask < m->n) plan_send(m, (aq_rank)(m->self + mask), 0, buf, len);
}

/* Part i of `buf` starts at member i (counted from `first`); in the end, all have all parts. */
static void plan_ring(struct maker *m, unsigned char *buf, size_t len, size_t element,
                      aq_rank first, uint32_t tag)
{
    aq_rank place = (m->self + m->n - first) % m->n;
    for (aq_rank k = 0; k + 1 < m->n; k++) {
        size_t out, in;
        size_t from = plan_part(m, len, element, (place + m->n - k) % m->n, &out);
        size_t to = plan_part(m, len, element, (place + 2 * m->n - k - 1) % m->n, &in);
        plan_send(m, m->self + 1, tag + k, buf + from, out);
        plan_recv(m, m->self + m->n - 1, tag + k, buf + to, in);
        plan_fence(m);
    }
}

/* For large data: scatter and ring all-gather (van de Geijn 1994). */
static void plan_broadcast(struct maker *m)
{
    const struct coll_args *args = m->args;
    bool root = m->self == args->root;
    unsigned char *buf = args->dst;
    size_t len = args->nbytes, bytes;
    if (root) plan_copy(m, buf, args->src, len);
    if (len < PLAN_LARGE || m->n < 4) {
        plan_broadcast_tree(m, buf, len);
        return;
    }
    for (aq_rank i = 1; root && i < m->n; i++) {
        size_t at = plan_part(m, len, 1, i, &bytes);
        plan_send(m, args->root + i, 0, buf + at, bytes);
    }
    if (!root) {
        size_t at = plan_part(m, len, 1, (m->self + m->n - args->root) % m->n, &bytes);
        plan_recv(m, args->root, 0, buf + at, bytes);
        plan_fence(m);
    }
    plan_ring(m, buf, len, 1, args->root, 1);
}

/* --- reductions ------------------------------------------------------------------------------ */

/* To the root, or, where order matters, to rank 0, which forwards the result. */
static void plan_reduce_tree(struct maker *m)
{
    const struct coll_args *args = m->args;
    aq_rank top = args->ordered ? 0 : args->root, place = (m->self + m->n - top) % m->n;
    size_t len = args->nbytes;
    unsigned char *in = plan_temporary(m, 2 * len), *sum;
    uint64_t mask = 1;
    if (in == NULL) return;
    sum = place == 0 && top == args->root ? args->dst : in + len;
    plan_copy(m, sum, args->src, len);
    for (; mask < m->n && (place & mask) == 0; mask *= 2) {
        if (place + mask >= m->n) continue;
        plan_recv(m, (aq_rank)(m->self + mask), 0, in, len);
        plan_combine(m, &sum, &in, len, true);
    }
    if (place != 0) plan_send(m, (aq_rank)(m->self + m->n - mask), 0, sum, len);
    if (m->self == args->root && place == 0) plan_copy(m, args->dst, sum, len);
    if (m->self == args->root && place != 0) plan_recv(m, top, 1, args->dst, len);
    if (m->self != args->root && place == 0) plan_send(m, args->root, 1, sum, len);
}

/*
 * Recursive doubling among a power of two of places. If there are more members, the first ones
 * share places in pairs: the second of a pair sends its operand to the first and gets the result
 * back, which keeps the places in rank order. Returns the buffer with the result, `sum` or `in`.
 */
static unsigned char *plan_doubling(struct maker *m, unsigned char *sum, unsigned char *in,
                                    size_t len)
{
    aq_rank places = 1;
    while (places * 2 <= m->n)
        places *= 2;
    aq_rank pairs = m->n - places;
    bool paired = m->self < 2 * pairs;
    if (paired && m->self % 2 == 1) {
        plan_send(m, m->self - 1, 0, sum, len);
        plan_recv(m, m->self - 1, 1, sum, len);
        return sum;
    }
    if (paired) {
        plan_recv(m, m->self + 1, 0, in, len);
        plan_combine(m, &sum, &in, len, true);
    }
    aq_rank place = paired ? m->self / 2 : m->self - pairs;
    uint32_t tag = 2;
    for (aq_rank mask = 1; mask < places; mask *= 2, tag++) {
        aq_rank other = place ^ mask, peer = other < pairs ? 2 * other : other + pairs;
        plan_send(m, peer, tag, sum, len);
        plan_recv(m, peer, tag, in, len);
        plan_combine(m, &sum, &in, len, other > place);
    }
    plan_fence(m);
    if (paired) plan_send(m, m->self + 1, 1, sum, len);
    return sum;
}

/* Ring reduce-scatter: part i ends up at member i. */
static void plan_ring_fold(struct maker *m, unsigned char *sum, unsigned char *in, size_t len)
{
    size_t element = m->args->element, out, got;
    for (aq_rank k = 0; k + 1 < m->n; k++) {
        size_t from = plan_part(m, len, element, (m->self + 2 * m->n - k - 1) % m->n, &out);
        size_t to = plan_part(m, len, element, (m->self + 2 * m->n - k - 2) % m->n, &got);
        plan_send(m, m->self + 1, k, sum + from, out);
        plan_recv(m, m->self + m->n - 1, k, in, got);
        plan_fence(m);
        plan_fold(m, in, sum + to, got);
    }
}

static bool plan_in_parts(const struct maker *m)
{
    return m->args->nbytes >= PLAN_LARGE && m->n >= 3 &&
           m->args->nbytes / m->args->element >= m->n && !m->args->ordered;
}

/*
 * For large data: reduce-scatter, then gather. In a tree, the root would receive all of `len`
 * several times, one after the other.
 */
static void plan_reduce(struct maker *m)
{
    const struct coll_args *args = m->args;
    bool root = m->self == args->root;
    size_t len = args->nbytes;
    if (!plan_in_parts(m)) {
        plan_reduce_tree(m);
        return;
    }
    unsigned char *in = plan_temporary(m, root ? len : 2 * len), *sum = root ? args->dst : in + len;
    if (in == NULL) return;
    plan_copy(m, sum, args->src, len);
    plan_ring_fold(m, sum, in, len);
    for (aq_rank i = 0; i < m->n; i++) {
        size_t bytes, at = plan_part(m, len, args->element, i, &bytes);
        if (root && i != m->self) plan_recv(m, i, m->n, sum + at, bytes);
        if (!root && i == m->self) plan_send(m, args->root, m->n, sum + at, bytes);
    }
}

static void plan_allreduce(struct maker *m)
{
    const struct coll_args *args = m->args;
    unsigned char *in = plan_temporary(m, args->nbytes);
    if (in == NULL) return;
    plan_copy(m, args->dst, args->src, args->nbytes);
    if (args->written) {
        plan_dissemination(m, args->dst, in, args->nbytes, true); /* barrier names */
        return;
    }
    if (!plan_in_parts(m)) {
        plan_copy(m, args->dst, plan_doubling(m, args->dst, in, args->nbytes), args->nbytes);
        return;
    }
    plan_ring_fold(m, args->dst, in, args->nbytes);
    plan_ring(m, args->dst, args->nbytes, args->element, 0, m->n);
}

/* --- gather, all-gather, scatter, all-to-all ------------------------------------------------- */

/* The total size of the blocks of members [from, to), counted from member `first`. */
static size_t plan_blocks(const struct maker *m, const size_t *counts, aq_rank first, uint64_t from,
                          uint64_t to)
{
    if (counts == NULL) return (to - from) * m->args->nbytes;
    size_t bytes = 0;
    for (uint64_t i = from; i < to; i++)
        bytes += counts[(first + i) % m->n];
    return bytes;
}

/* Whether all blocks are known to be at most `most` bytes long. */
static bool plan_all_small(const struct maker *m, const size_t *counts, size_t most)
{
    if (m->args->vary) return false;
    for (aq_rank i = 0; counts != NULL && i < m->n; i++)
        if (counts[i] > most) return false;
    return counts != NULL || m->args->nbytes <= most;
}

/* A member's block in the memory of the root: where a gather puts it, or a scatter takes it. */
static size_t plan_root_block(const struct maker *m, aq_rank member, unsigned char **at)
{
    if (m->args->kind == COLL_GATHER) return coll_recv_block(m->args, member, at);
    const unsigned char *from;
    size_t len = coll_send_block(m->args, member, &from);
    *at = (unsigned char *)(uintptr_t)from;
    return len;
}

/* A send towards the root in a gather, away from it in a scatter. */
static void plan_up_or_down(struct maker *m, bool sends, aq_rank peer, void *buf, size_t len)
{
    if (sends)
        plan_send(m, peer, 0, buf, len);
    else
        plan_recv(m, peer, 0, buf, len);
}

/* At the root: copy between its memory and `buf`, which holds all blocks, its own first. */
static void plan_sort(struct maker *m, unsigned char *buf, bool gather)
{
    for (aq_rank i = 0; i < m->n; i++) {
        unsigned char *block;
        size_t len = plan_root_block(m, (m->args->root + i) % m->n, &block);
        plan_copy(m, gather ? block : buf, gather ? buf : block, len);
        buf += len;
    }
}

/*
 * Gather or scatter through a binomial tree. Each member holds the blocks of its subtree
 * contiguously, its own first: members [place, place + span), counted from the root.
 */
static void plan_root_tree(struct maker *m, bool gather)
{
    const struct coll_args *args = m->args;
    const size_t *counts = gather ? args->recv_counts : args->send_counts;
    aq_rank root = args->root, place = (m->self + m->n - root) % m->n;
    uint64_t span = 1;
    while (span < m->n && (place & span) == 0)
        span *= 2;
    aq_rank parent = (aq_rank)(m->self + m->n - span % m->n);
    uint64_t end = aqi_min(place + span, (uint64_t)m->n);
    size_t all = plan_blocks(m, counts, root, place, end);
    size_t own = plan_blocks(m, counts, root, place, place + 1u);
    if (end == place + 1u) {
        plan_up_or_down(m, gather, parent, gather ? (void *)(uintptr_t)args->src : args->dst, all);
        return;
    }
    unsigned char *buf = plan_temporary(m, all);
    if (buf == NULL) return;
    if (gather)
        plan_copy(m, buf, args->src, own);
    else if (place == 0)
        plan_sort(m, buf, false);
    else
        plan_recv(m, parent, 0, buf, all);
    plan_fence(m);
    for (uint64_t mask = span / 2; mask > 0; mask /= 2) {
        uint64_t from = place + mask, to = aqi_min(from + mask, end);
        if (from >= end) continue;
        plan_up_or_down(m, !gather, (aq_rank)(m->self + mask),
                        buf + plan_blocks(m, counts, root, place, from),
                        plan_blocks(m, counts, root, from, to));
    }
    if (gather) plan_fence(m);
    if (!gather)
        plan_copy(m, args->dst, buf, own);
    else if (place == 0)
        plan_sort(m, buf, true);
    else
        plan_send(m, parent, 0, buf, all);
}

static void plan_gather_or_scatter(struct maker *m)
{
    const struct coll_args *args = m->args;
    bool gather = args->kind == COLL_GATHER;
    if (m->n >= PLAN_TREE_MEMBERS &&
        plan_all_small(m, gather ? args->recv_counts : args->send_counts, PLAN_SMALL_TREE)) {
        plan_root_tree(m, gather);
        return;
    }
    void *mine = gather ? (void *)(uintptr_t)args->src : args->dst;
    if (m->self != args->root) {
        plan_up_or_down(m, gather, args->root, mine, args->nbytes);
        return;
    }
    for (aq_rank i = 0; i < m->n; i++) {
        unsigned char *block;
        size_t len = plan_root_block(m, i, &block);
        if (i == m->self)
            plan_copy(m, gather ? block : mine, gather ? mine : block, len);
        else
            plan_up_or_down(m, !gather, i, block, len);
    }
}

/* For few bytes: doubling with a rotation (Bruck and others 1997). */
static void plan_bruck(struct maker *m)
{
    const struct coll_args *args = m->args;
    const size_t *counts = args->recv_counts;
    unsigned char *all = plan_temporary(m, plan_blocks(m, counts, m->self, 0, m->n));
    if (all == NULL) return;
    uint32_t tag = 0;
    plan_copy(m, all, args->src, plan_blocks(m, counts, m->self, 0, 1));
    for (uint64_t have = 1; have < m->n; have *= 2, tag++) {
        uint64_t more = aqi_min(have, m->n - have);
        plan_send(m, (aq_rank)(m->self + m->n - have), tag, all,
                  plan_blocks(m, counts, m->self, 0, more));
        plan_recv(m, (aq_rank)(m->self + have), tag, all + plan_blocks(m, counts, m->self, 0, have),
                  plan_blocks(m, counts, m->self, have, have + more));
        plan_fence(m);
    }
    for (aq_rank i = 0; i < m->n; i++) {
        unsigned char *to;
        size_t len = coll_recv_block(args, (m->self + i) % m->n, &to);
        plan_copy(m, to, all, len);
        all += len;
    }
}

static void plan_allgather(struct maker *m)
{
    const struct coll_args *args = m->args;
    unsigned char *own;
    if (plan_all_small(m, args->recv_counts, PLAN_SMALL_GATHER)) {
        plan_bruck(m);
        return;
    }
    size_t len = coll_recv_block(args, m->self, &own);
    plan_copy(m, own, args->src, len);
    for (aq_rank k = 0; k + 1 < m->n; k++) {
        unsigned char *from, *to;
        size_t out = coll_recv_block(args, (m->self + m->n - k) % m->n, &from);
        size_t in = coll_recv_block(args, (m->self + 2 * m->n - k - 1) % m->n, &to);
        plan_send(m, m->self + 1, k, from, out);
        plan_recv(m, m->self + m->n - 1, k, to, in);
        plan_fence(m);
    }
}

/* Pairs at growing distance, a few at a time, so that no member receives all messages at once. */
static void plan_alltoall(struct maker *m)
{
    const struct coll_args *args = m->args;
    for (aq_rank k = 0; k < m->n; k++) {
        const unsigned char *from;
        unsigned char *to;
        aq_rank next = (m->self + k) % m->n, previous = (m->self + m->n - k) % m->n;
        size_t out = coll_send_block(args, next, &from), in = coll_recv_block(args, previous, &to);
        if (k == 0) {
            plan_copy(m, to, from, aqi_min(in, out));
            continue;
        }
        plan_send(m, next, k, from, out);
        plan_recv(m, previous, k, to, in);
        if (k % 8 == 0) plan_fence(m);
    }
}

static void (*const plan_makers[COLL_KINDS])(struct maker *m) = {
    [COLL_BARRIER] = plan_barrier,           [COLL_THROTTLE] = plan_barrier,
    [COLL_BROADCAST] = plan_broadcast,       [COLL_REDUCE] = plan_reduce,
    [COLL_ALLREDUCE] = plan_allreduce,       [COLL_GATHER] = plan_gather_or_scatter,
    [COLL_SCATTER] = plan_gather_or_scatter, [COLL_ALLGATHER] = plan_allgather,
    [COLL_ALLTOALL] = plan_alltoall,
};

void coll_plan_make(struct coll_plan *plan, const struct coll_args *args, aq_rank n, aq_rank self)
{
    struct maker m = {plan, args, n, self};
    plan_makers[args->kind](&m);
    plan_fence(&m);
}

void coll_plan_free(struct coll_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        free(plan->steps[i].early);
    free(plan->steps);
    free(plan->temporary);
    *plan = (struct coll_plan){0};
}
