/* Collectives: the public calls. Each builds a description, which is checked and started here. */
#include "core/coll/coll.h"

const struct coll_flow coll_flows[COLL_KINDS] = {
    [COLL_BROADCAST] = {.sends = COLL_ROOT, .receives = COLL_EACH},
    [COLL_REDUCE] = {.sends = COLL_EACH, .receives = COLL_ROOT, .folds = true},
    [COLL_ALLREDUCE] = {.sends = COLL_EACH, .receives = COLL_EACH, .folds = true},
    [COLL_GATHER] = {.sends = COLL_EACH, .receives = COLL_ROOT, .collects = true},
    [COLL_ALLGATHER] = {.sends = COLL_EACH, .receives = COLL_EACH, .collects = true},
    [COLL_SCATTER] = {.sends = COLL_ROOT, .receives = COLL_EACH, .deals = true},
    [COLL_ALLTOALL] = {.sends = COLL_EACH, .receives = COLL_EACH, .deals = true, .collects = true},
};

struct coll_call {
    const char *name;
    struct coll_args args;
    aq_status st; /* an error in the description itself */
};

static aq_status coll_check(const aq_team *team, const struct coll_call *c, unsigned flags)
{
    const struct coll_args *args = &c->args;
    aq_status st = c->st != AQ_OK ? c->st : core_team_usable(c->name, team);
    if (st != AQ_OK) return st;
    unsigned legal = AQ_IMMEDIATE;
    if (args->kind != COLL_BARRIER) legal |= AQ_COLL_IN_ALL | AQ_COLL_OUT_ALL;
    if (args->fn != NULL) legal |= AQ_COLL_ORDERED;
    if ((flags & ~legal) != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: unknown flags %#x", c->name, flags & ~legal);
    if (args->root >= team->size)
        return aqi_fail(AQ_ERANK, "core", "%s: root %u is not in the team, whose ranks are 0 to %u",
                        c->name, args->root, team->size - 1);
    bool blocks = coll_flows[args->kind].deals || coll_flows[args->kind].collects;
    if (blocks && !args->vary && args->nbytes > SIZE_MAX / team->size)
        return aqi_fail(AQ_EINVAL, "core", "%s: %u blocks of %zu bytes are too many", c->name,
                        team->size, args->nbytes);
    return AQ_OK;
}

static aq_status coll_check_buffers(const aq_team *team, const struct coll_call *c)
{
    const struct coll_args *args = &c->args;
    bool src = coll_sends(args, team->rank), dst = coll_receives(args, team->rank);
    if (args->kind == COLL_ALLGATHER) src = args->nbytes != 0;
    if (coll_longest(team, args) == 0 || (args->vary && args->nbytes == 0)) return AQ_OK;
    if ((!src || args->src != NULL) && (!dst || args->dst != NULL)) return AQ_OK;
    return aqi_fail(AQ_EINVAL, "core", "%s: %s is NULL", c->name,
                    src && args->src == NULL ? "the source" : "the destination");
}

static aq_status coll_complete_call(const aq_team *team, struct coll_call *c, unsigned flags)
{
    c->args.ordered = (flags & AQ_COLL_ORDERED) != 0;
    aq_status st = coll_check(team, c, flags);
    return st == AQ_OK ? coll_check_buffers(team, c) : st;
}

static aq_status coll_call(aq_team *team, struct coll_call c, unsigned flags)
{
    aq_event ev;
    aq_status st = coll_complete_call(team, &c, flags);
    if (st != AQ_OK) return st;
    if ((flags & (AQ_COLL_IN_ALL | AQ_COLL_OUT_ALL)) == 0) return coll_run(c.name, team, &c.args);
    st = coll_start(c.name, team, &c.args, flags, &ev);
    return st == AQ_OK ? aq_event_wait(&ev, AQ_FOREVER) : st;
}

static aq_status coll_call_nb(aq_team *team, struct coll_call c, unsigned flags, aq_event *ev)
{
    aq_status st = coll_complete_call(team, &c, flags);
    if (st != AQ_OK) return st;
    if (ev == NULL) return aqi_fail(AQ_EINVAL, "core", "%s: the event is NULL", c.name);
    return coll_start(c.name, team, &c.args, flags, ev);
}

/* --- descriptions of the calls --------------------------------------------------------------- */

static struct coll_call coll_of(const char *name, enum coll_kind kind, aq_rank root, void *dst,
                                const void *src, size_t nbytes)
{
    return (struct coll_call){
        .name = name,
        .args = {
            .kind = kind, .root = root, .dst = dst, .src = src, .nbytes = nbytes, .element = 1}};
}

static void coll_set_elements(struct coll_call *c, size_t count, size_t size)
{
    if (count > SIZE_MAX / size)
        c->st = aqi_fail(AQ_EINVAL, "core", "%s: %zu elements of %zu bytes are too many", c->name,
                         count, size);
    c->args.element = size;
    c->args.nbytes = count * size;
}

static struct coll_call coll_built_in(const char *name, enum coll_kind kind, aq_rank root,
                                      void *dst, const void *src, size_t count, aq_type type,
                                      aq_op op)
{
    struct coll_call c = coll_of(name, kind, root, dst, src, 0);
    size_t size = 0;
    c.args.fn = coll_builtin((int)type, (int)op, &size);
    c.args.code = (uint8_t)(1 + (unsigned)type * COLL_CODE_OPS + (unsigned)op);
    if (c.args.fn != NULL)
        coll_set_elements(&c, count, size);
    else
        c.st = aqi_fail(AQ_EINVAL, "core",
                        "%s: operator %d does not exist for type %d (see aq_op, aq_type; "
                        "reductions support ADD, MULT, MIN, MAX, AND, OR, XOR)",
                        name, (int)op, (int)type);
    return c;
}

static struct coll_call coll_user(const char *name, enum coll_kind kind, aq_rank root, void *dst,
                                  const void *src, size_t count, size_t size, aq_reduce_fn *fn,
                                  const void *context)
{
    struct coll_call c = coll_of(name, kind, root, dst, src, 0);
    c.args.fn = fn;
    c.args.context = context;
    if (fn != NULL && size != 0)
        coll_set_elements(&c, count, size);
    else
        c.st = aqi_fail(AQ_EINVAL, "core", "%s: %s", name,
                        fn == NULL ? "the function is NULL" : "the element size is 0");
    return c;
}

static void coll_check_tables(struct coll_call *c, const size_t *counts, const size_t *offsets)
{
    if (counts != NULL && offsets != NULL) return;
    c->st = aqi_fail(AQ_EINVAL, "core", "%s: the array of counts or of offsets is NULL", c->name);
}

/* A gather or scatter with tables, which are significant at the root only. */
static struct coll_call coll_rooted_v(const char *name, enum coll_kind kind, const aq_team *team,
                                      aq_rank root, void *dst, const void *src, size_t nbytes,
                                      const size_t *counts, const size_t *offsets)
{
    struct coll_call c = coll_of(name, kind, root, dst, src, nbytes);
    c.args.vary = true;
    if (team == NULL || team->rank != root) return c;
    if (kind == COLL_GATHER) {
        c.args.recv_counts = counts;
        c.args.recv_offsets = offsets;
    } else {
        c.args.send_counts = counts;
        c.args.send_offsets = offsets;
    }
    coll_check_tables(&c, counts, offsets);
    return c;
}

static struct coll_call coll_allgather_v(const char *name, const aq_team *team, void *dst,
                                         const size_t *counts, const size_t *offsets,
                                         const void *src)
{
    struct coll_call c = coll_of(name, COLL_ALLGATHER, 0, dst, src, 0);
    coll_check_tables(&c, counts, offsets);
    if (c.st == AQ_OK) c.st = core_team_usable(name, team);
    if (c.st == AQ_OK) c.args.nbytes = counts[team->rank];
    if (c.st == AQ_OK) c.args.table = coll_sizes_of_table(team, counts);
    c.args.recv_counts = counts;
    c.args.recv_offsets = offsets;
    return c;
}

static struct coll_call coll_alltoall_v(const char *name, void *dst, const size_t *dst_counts,
                                        const size_t *dst_offsets, const void *src,
                                        const size_t *src_counts, const size_t *src_offsets)
{
    struct coll_call c = coll_of(name, COLL_ALLTOALL, 0, dst, src, 0);
    c.args.vary = true;
    c.args.send_counts = src_counts;
    c.args.send_offsets = src_offsets;
    c.args.recv_counts = dst_counts;
    c.args.recv_offsets = dst_offsets;
    coll_check_tables(&c, dst_counts, dst_offsets);
    if (c.st == AQ_OK) coll_check_tables(&c, src_counts, src_offsets);
    return c;
}

/* --- the calls ------------------------------------------------------------------------------- */

aq_status aq_barrier_nb(aq_team *team, unsigned flags, aq_event *ev)
{
    return coll_call_nb(team, coll_of(__func__, COLL_BARRIER, 0, NULL, NULL, 1), flags, ev);
}

/* aq_coll_NAME and aq_coll_NAME_nb: the parameters before `flags`, and the arguments of DESCRIBE.
 */
#define FORMS(NAME, PARAMS, DESCRIBE, ...)                                                         \
    aq_status aq_coll_##NAME(PARAMS, unsigned flags)                                               \
    {                                                                                              \
        return coll_call(team, DESCRIBE(__func__, __VA_ARGS__), flags);                            \
    }                                                                                              \
    aq_status aq_coll_##NAME##_nb(PARAMS, unsigned flags, aq_event *ev)                            \
    {                                                                                              \
        return coll_call_nb(team, DESCRIBE(__func__, __VA_ARGS__), flags, ev);                     \
    }
#define PARAMS(...) __VA_ARGS__

FORMS(broadcast, PARAMS(aq_team *team, aq_rank root, void *dst, const void *src, size_t nbytes),
      coll_of, COLL_BROADCAST, root, dst, src, nbytes)
FORMS(reduce,
      PARAMS(aq_team *team, aq_rank root, void *dst, const void *src, size_t count, aq_type type,
             aq_op op),
      coll_built_in, COLL_REDUCE, root, dst, src, count, type, op)
FORMS(reduce_user,
      PARAMS(aq_team *team, aq_rank root, void *dst, const void *src, size_t count, size_t size,
             aq_reduce_fn *fn, const void *context),
      coll_user, COLL_REDUCE, root, dst, src, count, size, fn, context)
FORMS(allreduce,
      PARAMS(aq_team *team, void *dst, const void *src, size_t count, aq_type type, aq_op op),
      coll_built_in, COLL_ALLREDUCE, 0, dst, src, count, type, op)
FORMS(allreduce_user,
      PARAMS(aq_team *team, void *dst, const void *src, size_t count, size_t size, aq_reduce_fn *fn,
             const void *context),
      coll_user, COLL_ALLREDUCE, 0, dst, src, count, size, fn, context)
FORMS(gather, PARAMS(aq_team *team, aq_rank root, void *dst, const void *src, size_t nbytes),
      coll_of, COLL_GATHER, root, dst, src, nbytes)
FORMS(gatherv,
      PARAMS(aq_team *team, aq_rank root, void *dst, const size_t *counts, const size_t *offsets,
             const void *src, size_t nbytes),
      coll_rooted_v, COLL_GATHER, team, root, dst, src, nbytes, counts, offsets)
FORMS(allgather, PARAMS(aq_team *team, void *dst, const void *src, size_t nbytes), coll_of,
      COLL_ALLGATHER, 0, dst, src, nbytes)
FORMS(allgatherv,
      PARAMS(aq_team *team, void *dst, const size_t *counts, const size_t *offsets,
             const void *src),
      coll_allgather_v, team, dst, counts, offsets, src)
FORMS(scatter, PARAMS(aq_team *team, aq_rank root, void *dst, const void *src, size_t nbytes),
      coll_of, COLL_SCATTER, root, dst, src, nbytes)
FORMS(scatterv,
      PARAMS(aq_team *team, aq_rank root, void *dst, size_t nbytes, const void *src,
             const size_t *counts, const size_t *offsets),
      coll_rooted_v, COLL_SCATTER, team, root, dst, src, nbytes, counts, offsets)
FORMS(alltoall, PARAMS(aq_team *team, void *dst, const void *src, size_t nbytes), coll_of,
      COLL_ALLTOALL, 0, dst, src, nbytes)
FORMS(alltoallv,
      PARAMS(aq_team *team, void *dst, const size_t *dst_counts, const size_t *dst_offsets,
             const void *src, const size_t *src_counts, const size_t *src_offsets),
      coll_alltoall_v, dst, dst_counts, dst_offsets, src, src_counts, src_offsets)
