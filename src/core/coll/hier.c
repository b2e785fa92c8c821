/*
 * Collectives of a team that spans neighborhoods, in up to three parts: *up* in shared memory to
 * the leader of each neighborhood, *across* by messages between the leaders, and back *down*. The
 * parts in shared memory are operations of the neighborhood's own team (team->local), which all its
 * members append in the same order; a part that depends on the one before is held.
 *
 * The leader is the root in its neighborhood, and the first member in the others.
 */
#include "core/coll/coll.h"

#include <stdlib.h>
#include <string.h>

enum {
    HIER_SMALL_BLOCK = 4 * 1024, /* larger blocks go directly between root and member */
    HIER_SMALL_EXCHANGE = 512    /* up to this size, blocks of an all-to-all are worth collecting */
};

enum hier_at { HIER_UP, HIER_ACROSS, HIER_DOWN };

struct coll_hier {
    struct coll_op up, down; /* operations of team->local */
    bool has_up, has_down;   /* neither if we have no neighbors in the team */
    bool leads;              /* we are the leader of our neighborhood */
    bool waits;              /* the operation is held, and so are its parts */
    bool down_waits;         /* `down` stays held when the operation is released */
    enum hier_at at;
    aq_rank root_group; /* the root's neighborhood; AQ_RANK_NONE: the kind has no root */
    struct coll_args across;
    unsigned char *memory; /* allocated for the parts, or NULL */
    unsigned char *all;    /* blocks by neighborhood: in `memory`, or in the program's buffer */
    unsigned char *packed; /* all-to-all: the leader's send buffer, then its receive buffer */
    size_t *tables;        /* see hier_get_table */
};

/* An operation, with the values that the functions below need. */
struct hier_view {
    const aq_team *team;
    const struct coll_shape *shape;
    struct coll_hier *h;
    const struct coll_args *args;
    aq_rank n;           /* number of members */
    aq_rank first, size; /* of our neighborhood: first place, number of members */
    aq_rank local_root;  /* the rank of its leader in team->local */
};

static struct hier_view hier_view_of(const aq_team *team, const struct coll_op *op)
{
    const struct coll_shape *shape = team->shape;
    struct hier_view v = {.team = team,
                          .shape = shape,
                          .h = op->msg.hier,
                          .args = &op->args,
                          .n = team->size,
                          .first = shape->start[shape->mine],
                          .size = coll_group_size(shape, shape->mine)};
    if (op->msg.hier->root_group == shape->mine)
        v.local_root = shape->place[op->args.root] - v.first;
    return v;
}

/* --- memory ---------------------------------------------------------------------------------- */

static bool hier_get_memory(struct coll_hier *h, size_t bytes)
{
    h->memory = malloc(bytes ? bytes : 1);
    h->all = h->memory;
    return h->memory != NULL;
}

/* One of four tables, each with room for an entry per neighborhood or per neighbor. */
static size_t *hier_get_table(const struct hier_view *v, unsigned which)
{
    size_t entries = aqi_max(v->shape->groups, v->size) + (size_t)1;
    if (v->h->tables == NULL) v->h->tables = calloc(4 * entries, sizeof(size_t));
    return v->h->tables != NULL ? v->h->tables + which * entries : NULL;
}

/* For equal blocks: the size of each neighborhood's blocks, and where they begin. */
static bool hier_set_tables(const struct hier_view *v, size_t block, const size_t **counts,
                            const size_t **offsets)
{
    size_t *count = hier_get_table(v, 0), *offset = hier_get_table(v, 1);
    if (count == NULL) return false;
    for (aq_rank g = 0; g < v->shape->groups; g++) {
        count[g] = coll_group_size(v->shape, g) * block;
        offset[g] = v->shape->start[g] * block;
    }
    *counts = count;
    *offsets = offset;
    return true;
}

/* --- parts ----------------------------------------------------------------------------------- */

static struct coll_args *hier_part(struct coll_op *part, bool *has, const struct hier_view *v,
                                   enum coll_kind kind)
{
    *has = v->size > 1;
    part->args = *v->args;
    part->args.kind = kind;
    part->args.root = v->local_root;
    part->args.written = false;
    part->args.send_counts = part->args.send_offsets = NULL;
    part->args.recv_counts = part->args.recv_offsets = NULL;
    return &part->args;
}

static struct coll_args *hier_use_up(const struct hier_view *v, enum coll_kind kind)
{
    return hier_part(&v->h->up, &v->h->has_up, v, kind);
}

static struct coll_args *hier_use_down(const struct hier_view *v, enum coll_kind kind)
{
    atomic_store_explicit(&v->h->down.held, v->h->leads, memory_order_relaxed);
    return hier_part(&v->h->down, &v->h->has_down, v, kind);
}

static bool hier_is_root(const struct hier_view *v)
{
    return v->h->root_group != AQ_RANK_NONE && v->team->rank == v->args->root;
}

static bool hier_set_barrier(const struct hier_view *v)
{
    hier_use_up(v, COLL_BARRIER);
    hier_use_down(v, COLL_BARRIER);
    return true;
}

static bool hier_set_broadcast(const struct hier_view *v)
{
    struct coll_args *down = hier_use_down(v, COLL_BROADCAST);
    if (!hier_is_root(v)) {
        down->src = v->args->dst;
        return true;
    }
    /* Across and down run concurrently; our own copy is made by the part across. */
    atomic_store_explicit(&v->h->down.held, false, memory_order_relaxed);
    if (v->h->leads) down->dst = (void *)(uintptr_t)down->src;
    return true;
}

static bool hier_set_reduce(const struct hier_view *v)
{
    struct coll_args *up = hier_use_up(v, COLL_REDUCE);
    if (!v->h->leads || v->size == 1) return true;
    if (!hier_is_root(v)) {
        if (!hier_get_memory(v->h, v->args->nbytes)) return false;
        up->dst = v->h->memory;
    }
    v->h->across.src = up->dst;
    return true;
}

static bool hier_set_allreduce(const struct hier_view *v)
{
    hier_use_up(v, COLL_REDUCE);
    hier_use_down(v, COLL_BROADCAST)->src = v->args->dst;
    if (v->size > 1) v->h->across.src = v->args->dst;
    return true;
}

/* The root gathers into `dst` if neighborhoods are in rank order, else into a copy. */
static bool hier_set_gather(const struct hier_view *v)
{
    struct coll_hier *h = v->h;
    struct coll_args *up = hier_use_up(v, COLL_GATHER);
    size_t block = v->args->nbytes;
    if (!h->leads) return true;
    if (!hier_set_tables(v, block, &h->across.recv_counts, &h->across.recv_offsets)) return false;
    h->across.nbytes = v->size * block;
    if (hier_is_root(v) && v->shape->sorted)
        h->all = v->args->dst;
    else if (!hier_get_memory(h, (hier_is_root(v) ? v->n : v->size) * block))
        return false;
    up->dst = h->all + (hier_is_root(v) ? v->first * block : 0);
    h->across.dst = h->all;
    if (v->size > 1) h->across.src = up->dst;
    return true;
}

/* The root scatters from `src` if neighborhoods are in rank order, else from a copy. */
static bool hier_set_scatter(const struct hier_view *v)
{
    struct coll_hier *h = v->h;
    struct coll_args *down = hier_use_down(v, COLL_SCATTER);
    size_t block = v->args->nbytes;
    if (!h->leads) return true;
    if (!hier_set_tables(v, block, &h->across.send_counts, &h->across.send_offsets)) return false;
    h->across.nbytes = v->size * block;
    if (hier_is_root(v)) {
        h->across.src = v->args->src;
        if (!v->shape->sorted) {
            if (!hier_get_memory(h, v->n * block)) return false;
            for (aq_rank i = 0; i < v->n; i++)
                memcpy(h->all + i * block,
                       (const unsigned char *)v->args->src + v->shape->order[i] * block, block);
            h->across.src = h->all;
        }
        down->src = (const unsigned char *)h->across.src + v->first * block;
        /* The blocks of the root's own neighborhood go down from where they are. */
        if (v->size > 1) h->across.dst = (void *)(uintptr_t)down->src;
        atomic_store_explicit(&h->down.held, false, memory_order_relaxed);
    } else if (v->size > 1) {
        if (!hier_get_memory(h, v->size * block)) return false;
        down->src = h->across.dst = h->all;
    }
    return true;
}

static size_t hier_block_at(const struct hier_view *v, aq_rank place)
{
    const size_t *counts = v->args->recv_counts;
    return counts != NULL ? counts[v->shape->order[place]] : v->args->nbytes;
}

/* Measure each neighborhood and each neighbor; returns the total, or SIZE_MAX if out of memory. */
static size_t hier_measure_blocks(const struct hier_view *v)
{
    size_t *counts = hier_get_table(v, 0), *offsets = hier_get_table(v, 1), at = 0;
    size_t *near_counts = hier_get_table(v, 2), *near_offsets = hier_get_table(v, 3);
    if (counts == NULL) return SIZE_MAX;
    for (aq_rank g = 0, place = 0; g < v->shape->groups; g++) {
        offsets[g] = at;
        for (; place < v->shape->start[g + 1]; place++) {
            if (g == v->shape->mine) {
                near_counts[place - v->first] = hier_block_at(v, place);
                near_offsets[place - v->first] = at - offsets[g];
            }
            at += hier_block_at(v, place);
        }
        counts[g] = at - offsets[g];
    }
    v->h->across.recv_counts = counts;
    v->h->across.recv_offsets = offsets;
    return at;
}

static bool hier_in_place(const struct hier_view *v)
{
    return v->shape->sorted && v->args->recv_counts == NULL;
}

static bool hier_set_allgather(const struct hier_view *v)
{
    struct coll_hier *h = v->h;
    size_t all = hier_measure_blocks(v);
    if (all == SIZE_MAX) return false;
    if (hier_in_place(v))
        h->all = v->args->dst;
    else if (!hier_get_memory(h, all))
        return false;
    unsigned char *own = h->all + h->across.recv_offsets[v->shape->mine];
    struct coll_args *up = hier_use_up(v, COLL_GATHER);
    up->dst = own;
    up->vary = v->args->recv_counts != NULL;
    if (up->vary && h->leads) {
        up->recv_counts = hier_get_table(v, 2);
        up->recv_offsets = hier_get_table(v, 3);
    }
    if (v->size > 1) h->across.src = own;
    h->across.dst = h->all;
    struct coll_args *down = hier_use_down(v, COLL_BROADCAST);
    down->dst = h->all;
    down->src = h->all;
    down->nbytes = all;
    return true;
}

/*
 * The leader gathers the blocks of its neighbors, sorts them by destination, exchanges them with
 * the other leaders, and sorts the received blocks by receiver.
 */
static bool hier_set_alltoall(const struct hier_view *v)
{
    struct coll_hier *h = v->h;
    size_t block = v->args->nbytes, row = v->n * block, all = v->size * row;
    struct coll_args *up = hier_use_up(v, COLL_GATHER), *down = hier_use_down(v, COLL_SCATTER);
    up->nbytes = down->nbytes = row;
    if (!h->leads) return true;
    if (!hier_get_memory(h, 3 * all) ||
        !hier_set_tables(v, v->size * block, &h->across.send_counts, &h->across.send_offsets))
        return false;
    h->across.recv_counts = h->across.send_counts;
    h->across.recv_offsets = h->across.send_offsets;
    h->packed = h->all + all;
    h->across.src = h->packed;
    h->across.dst = h->packed + all;
    up->dst = h->all;
    down->src = h->all;
    return true;
}

static bool (*const hier_setters[COLL_KINDS])(const struct hier_view *v) = {
    [COLL_BARRIER] = hier_set_barrier,     [COLL_THROTTLE] = hier_set_barrier,
    [COLL_BROADCAST] = hier_set_broadcast, [COLL_REDUCE] = hier_set_reduce,
    [COLL_ALLREDUCE] = hier_set_allreduce, [COLL_GATHER] = hier_set_gather,
    [COLL_ALLGATHER] = hier_set_allgather, [COLL_SCATTER] = hier_set_scatter,
    [COLL_ALLTOALL] = hier_set_alltoall,
};

/* --- between the parts ----------------------------------------------------------------------- */

/* Blocks of an all-to-all: [neighbor][rank] to [neighborhood][neighbor][its member]. */
static void hier_pack_exchange(const struct hier_view *v)
{
    size_t block = v->args->nbytes;
    const unsigned char *from = v->size > 1 ? v->h->all : v->args->src;
    unsigned char *to = v->h->packed;
    for (aq_rank g = 0; g < v->shape->groups; g++)
        for (aq_rank near = 0; near < v->size; near++)
            for (aq_rank p = v->shape->start[g]; p < v->shape->start[g + 1]; p++, to += block)
                memcpy(to, from + ((size_t)near * v->n + v->shape->order[p]) * block, block);
}

/* [neighborhood][its member][neighbor] to [neighbor][rank]. */
static void hier_unpack_exchange(const struct hier_view *v)
{
    size_t block = v->args->nbytes;
    const unsigned char *from = v->h->across.dst;
    unsigned char *to = v->size > 1 ? v->h->all : v->args->dst;
    for (aq_rank p = 0; p < v->n; p++)
        for (aq_rank near = 0; near < v->size; near++, from += block)
            memcpy(to + ((size_t)near * v->n + v->shape->order[p]) * block, from, block);
}

/* From the order of the neighborhoods to that of the ranks. */
static void hier_reorder(const struct hier_view *v)
{
    bool gathered = v->args->kind == COLL_GATHER && hier_is_root(v) && !v->shape->sorted;
    if (!gathered && (v->args->kind != COLL_ALLGATHER || hier_in_place(v))) return;
    const unsigned char *from = v->h->all;
    for (aq_rank p = 0; p < v->n; p++) {
        unsigned char *to;
        size_t len = coll_recv_block(v->args, v->shape->order[p], &to);
        coll_copy(to, from, len);
        from += len;
    }
}

/* --- the life of an operation ---------------------------------------------------------------- */

static bool hier_takes(const aq_team *team, const struct coll_args *args)
{
    if (team->shape == NULL || args->vary) return false;
    switch (args->kind) {
    case COLL_GATHER:
    case COLL_SCATTER:
        return args->nbytes <= HIER_SMALL_BLOCK;
    case COLL_ALLTOALL:
        return args->nbytes <= HIER_SMALL_EXCHANGE;
    case COLL_REDUCE:
    case COLL_ALLREDUCE:
        return team->shape->sorted || !args->ordered;
    default:
        return true;
    }
}

static aq_rank hier_leader(const struct coll_shape *shape, const struct coll_op *op, aq_rank group)
{
    return group == op->msg.hier->root_group ? op->args.root : shape->order[shape->start[group]];
}

static void hier_free(struct coll_op *op)
{
    coll_msg_free(op);
    if (op->msg.hier == NULL) return;
    free(op->msg.hier->memory);
    free(op->msg.hier->tables);
    free(op->msg.hier);
}

static aq_status hier_prepare(aq_team *team, struct coll_op *op)
{
    const struct coll_shape *shape = team->shape;
    struct coll_hier *h = calloc(1, sizeof(*h));
    op->msg = (struct coll_msg_state){.hier = h};
    if (h != NULL) {
        h->root_group = coll_rooted(op->args.kind) ? shape->group_of[op->args.root] : AQ_RANK_NONE;
        h->leads = hier_leader(shape, op, shape->mine) == team->rank;
        h->across = op->args;
        if (coll_rooted(op->args.kind)) h->across.root = h->root_group;
        struct hier_view v = hier_view_of(team, op);
        if (hier_setters[op->args.kind](&v)) return AQ_OK;
    }
    return aqi_fail(AQ_ENOMEM, "core", "no memory for a collective");
}

/* All neighbors append the same parts in the same order. */
static void hier_begin(aq_team *team, struct coll_op *op)
{
    struct coll_hier *h = op->msg.hier;
    aq_status st = AQ_OK;
    h->waits = atomic_load_explicit(&op->held, memory_order_relaxed);
    if (h->waits) {
        h->down_waits = atomic_load_explicit(&h->down.held, memory_order_relaxed);
        atomic_store_explicit(&h->up.held, true, memory_order_relaxed);
        atomic_store_explicit(&h->down.held, true, memory_order_relaxed);
    }
    if (h->has_up) st = coll_append(team->local, &h->up);
    if (st == AQ_OK && h->has_down) st = coll_append(team->local, &h->down);
    if (st != AQ_OK) core.boot.fatal(core.boot.arg, "no memory for a part of a collective");
}

static void hier_plan(aq_team *team, struct coll_op *op)
{
    const struct coll_shape *shape = team->shape;
    coll_plan_make(&op->msg.plan, &op->msg.hier->across, shape->groups, shape->mine);
    for (size_t i = 0; i < op->msg.plan.count; i++)
        op->msg.plan.steps[i].peer = hier_leader(shape, op, op->msg.plan.steps[i].peer);
    coll_msg_begin(team, op);
}

static bool hier_over(const struct coll_op *part, bool used, struct coll_op *op)
{
    if (!used) return true;
    if (!atomic_load_explicit(&part->done, memory_order_acquire)) return false;
    if (op->status == AQ_OK) op->status = part->status;
    return true;
}

/* The operation is no longer held. The thread that pushes the parts reads `held` with acquire. */
static void hier_release(const aq_team *team, struct coll_hier *h)
{
    h->waits = false;
    atomic_store_explicit(&h->up.held, false, memory_order_release);
    atomic_store_explicit(&h->down.held, h->down_waits, memory_order_release);
    if (team->local != NULL) coll_push_team(team->local);
}

/* After a death the team is broken: coll_fail has also ended the remaining parts. */
static bool hier_push(aq_team *team, struct coll_op *op, bool *no_room)
{
    struct coll_hier *h = op->msg.hier;
    struct hier_view v = hier_view_of(team, op);
    if (h->waits) hier_release(team, h);
    if (h->at == HIER_UP) {
        if (!hier_over(&h->up, h->has_up, op)) return false;
        if (h->leads) {
            if (op->args.kind == COLL_ALLTOALL) hier_pack_exchange(&v);
            hier_plan(team, op);
        }
        h->at = HIER_ACROSS;
    }
    if (h->at == HIER_ACROSS) {
        if (h->leads && !coll_msg_push(team, op, no_room)) return false;
        /* The neighbors learn of a death, but not of other failures: they would use bad data. */
        if (AQI_UNLIKELY(op->status != AQ_OK) && op->status != AQ_EPEER && h->leads && h->has_down)
            core.boot.fatal(core.boot.arg, aq_error_message());
        if (h->leads && op->args.kind == COLL_ALLTOALL) hier_unpack_exchange(&v);
        h->at = HIER_DOWN;
        if (h->has_down) {
            /* Read with acquire by the thread that pushes it. */
            atomic_store_explicit(&h->down.held, false, memory_order_release);
            coll_push_team(team->local);
        }
    }
    if (!hier_over(&h->down, h->has_down, op)) return false;
    hier_reorder(&v);
    return true;
}

const struct coll_engine coll_hier_engine = {.messages = true,
                                             .takes = hier_takes,
                                             .prepare = hier_prepare,
                                             .begin = hier_begin,
                                             .push = hier_push,
                                             .free = hier_free};
