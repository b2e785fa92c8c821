/* Collectives: the public calls. Each checks what it was given and fills in one description. */
#include "core/coll/coll.h"

/* What all check. `places` are the pointers that must not be NULL unless nothing is moved. */
static aq_status check(const char *call, const aq_team *team, const struct coll_args *args,
                       unsigned flags, const aq_event *ev)
{
    aq_status st = core_team_usable(call, team);
    if (st != AQ_OK) return st;
    unsigned legal = AQ_IMMEDIATE;
    if (args->kind != COLL_BARRIER) legal |= AQ_COLL_IN_ALL | AQ_COLL_OUT_ALL;
    if (args->fn != NULL) legal |= AQ_COLL_ORDERED;
    if ((flags & ~legal) != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: unknown flags %#x", call, flags & ~legal);
    if (args->root >= team->size)
        return aqi_fail(AQ_ERANK, "core", "%s: root %u is not in the team, which has ranks 0 to %u",
                        call, args->root, team->size - 1);
    /* Of these each member has a block for each, so that all of them have an end. */
    bool blocks = args->kind == COLL_GATHER || args->kind == COLL_ALLGATHER ||
                  args->kind == COLL_SCATTER || args->kind == COLL_ALLTOALL;
    if (blocks && !args->vary && args->nbytes > SIZE_MAX / team->size)
        return aqi_fail(AQ_EINVAL, "core", "%s: %u blocks of %zu bytes are too many", call,
                        team->size, args->nbytes);
    return ev != NULL ? AQ_OK : aqi_fail(AQ_EINVAL, "core", "%s: the event is NULL", call);
}

static aq_status check_buffers(const char *call, const aq_team *team, const struct coll_args *args)
{
    bool root = team->rank == args->root, src = true, dst = true;
    if (args->kind == COLL_BROADCAST || args->kind == COLL_SCATTER) src = root;
    if (args->kind == COLL_REDUCE || args->kind == COLL_GATHER) dst = root;
    if (args->kind == COLL_ALLGATHER) src = args->nbytes != 0;
    if (coll_longest(team, args) == 0 || args->kind == COLL_BARRIER) return AQ_OK;
    if ((!src || args->src != NULL) && (!dst || args->dst != NULL)) return AQ_OK;
    if (args->vary && args->nbytes == 0) return AQ_OK;
    return aqi_fail(AQ_EINVAL, "core", "%s: %s is NULL", call,
                    src && args->src == NULL ? "the source" : "the destination");
}

static aq_status begin(const char *call, aq_team *team, struct coll_args *args, unsigned flags,
                       aq_event *ev)
{
    aq_status st = check(call, team, args, flags, ev);
    if (st == AQ_OK) st = check_buffers(call, team, args);
    args->ordered = (flags & AQ_COLL_ORDERED) != 0;
    return st == AQ_OK ? coll_start(call, team, args, flags, ev) : st;
}

static aq_status run(const char *call, aq_team *team, const struct coll_args *args)
{
    aq_event unused = AQ_EVENT_DONE;
    aq_status st = check(call, team, args, 0, &unused);
    if (st == AQ_OK) st = check_buffers(call, team, args);
    return st == AQ_OK ? coll_run(call, team, args) : st;
}

/* A table of counts makes no sense without one of offsets. */
static aq_status check_tables(const char *call, const size_t *counts, const size_t *offsets)
{
    if (counts != NULL && offsets != NULL) return AQ_OK;
    return aqi_fail(AQ_EINVAL, "core", "%s: a table of counts or offsets is NULL", call);
}

static struct coll_args args_of(enum coll_kind kind, aq_rank root, void *dst, const void *src,
                                size_t nbytes)
{
    return (struct coll_args){
        .kind = kind, .root = root, .dst = dst, .src = src, .nbytes = nbytes, .element = 1};
}

aq_status aq_coll_barrier_nb(aq_team *team, unsigned flags, aq_event *ev)
{
    struct coll_args args = args_of(COLL_BARRIER, 0, NULL, NULL, 1);
    return begin("aq_coll_barrier_nb", team, &args, flags, ev);
}

/* --- broadcast ------------------------------------------------------------------------------- */

aq_status aq_coll_broadcast(aq_team *team, aq_rank root, void *dst, const void *src, size_t nbytes)
{
    struct coll_args args = args_of(COLL_BROADCAST, root, dst, src, nbytes);
    return run("aq_coll_broadcast", team, &args);
}

aq_status aq_coll_broadcast_nb(aq_team *team, aq_rank root, void *dst, const void *src,
                               size_t nbytes, unsigned flags, aq_event *ev)
{
    struct coll_args args = args_of(COLL_BROADCAST, root, dst, src, nbytes);
    return begin("aq_coll_broadcast_nb", team, &args, flags, ev);
}

/* --- reductions ------------------------------------------------------------------------------ */

static aq_status reduction(const char *call, struct coll_args *args, size_t count, size_t size)
{
    if (count > SIZE_MAX / size)
        return aqi_fail(AQ_EINVAL, "core", "%s: %zu elements of %zu bytes are too many", call,
                        count, size);
    args->element = size;
    args->nbytes = count * size;
    return AQ_OK;
}

static aq_status built_in(const char *call, struct coll_args *args, size_t count,
                          aq_atomic_type type, aq_atomic_op op)
{
    size_t size = 0;
    args->fn = coll_builtin((int)type, (int)op, &size);
    if (args->fn == NULL)
        return aqi_fail(AQ_EINVAL, "core",
                        "%s: operator %d does not exist for type %d (see aq_atomic_op, "
                        "aq_atomic_type; a reduction takes ADD, MULT, MIN, MAX, AND, OR, XOR)",
                        call, (int)op, (int)type);
    args->code = (uint8_t)(1 + (unsigned)type * COLL_CODE_OPS + (unsigned)op);
    return reduction(call, args, count, size);
}

aq_status aq_coll_reduce(aq_team *team, aq_rank root, void *dst, const void *src, size_t count,
                         aq_atomic_type type, aq_atomic_op op)
{
    static const char call[] = "aq_coll_reduce";
    struct coll_args args = args_of(COLL_REDUCE, root, dst, src, 0);
    aq_status st = built_in(call, &args, count, type, op);
    return st == AQ_OK ? run(call, team, &args) : st;
}

aq_status aq_coll_reduce_nb(aq_team *team, aq_rank root, void *dst, const void *src, size_t count,
                            aq_atomic_type type, aq_atomic_op op, unsigned flags, aq_event *ev)
{
    static const char call[] = "aq_coll_reduce_nb";
    struct coll_args args = args_of(COLL_REDUCE, root, dst, src, 0);
    aq_status st = built_in(call, &args, count, type, op);
    return st == AQ_OK ? begin(call, team, &args, flags, ev) : st;
}

static aq_status user(const char *call, struct coll_args *args, size_t count, size_t size,
                      aq_reduce_fn *fn, const void *context)
{
    args->fn = fn;
    args->context = context;
    if (fn == NULL || size == 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: %s", call,
                        fn == NULL ? "the function is NULL" : "elements of 0 bytes");
    return reduction(call, args, count, size);
}

aq_status aq_coll_reduce_user(aq_team *team, aq_rank root, void *dst, const void *src, size_t count,
                              size_t size, aq_reduce_fn *fn, const void *context)
{
    static const char call[] = "aq_coll_reduce_user";
    struct coll_args args = args_of(COLL_REDUCE, root, dst, src, 0);
    aq_status st = user(call, &args, count, size, fn, context);
    return st == AQ_OK ? run(call, team, &args) : st;
}

aq_status aq_coll_reduce_user_nb(aq_team *team, aq_rank root, void *dst, const void *src,
                                 size_t count, size_t size, aq_reduce_fn *fn, const void *context,
                                 unsigned flags, aq_event *ev)
{
    static const char call[] = "aq_coll_reduce_user_nb";
    struct coll_args args = args_of(COLL_REDUCE, root, dst, src, 0);
    aq_status st = user(call, &args, count, size, fn, context);
    return st == AQ_OK ? begin(call, team, &args, flags, ev) : st;
}

aq_status aq_coll_allreduce(aq_team *team, void *dst, const void *src, size_t count,
                            aq_atomic_type type, aq_atomic_op op)
{
    static const char call[] = "aq_coll_allreduce";
    struct coll_args args = args_of(COLL_ALLREDUCE, 0, dst, src, 0);
    aq_status st = built_in(call, &args, count, type, op);
    return st == AQ_OK ? run(call, team, &args) : st;
}

aq_status aq_coll_allreduce_nb(aq_team *team, void *dst, const void *src, size_t count,
                               aq_atomic_type type, aq_atomic_op op, unsigned flags, aq_event *ev)
{
    static const char call[] = "aq_coll_allreduce_nb";
    struct coll_args args = args_of(COLL_ALLREDUCE, 0, dst, src, 0);
    aq_status st = built_in(call, &args, count, type, op);
    return st == AQ_OK ? begin(call, team, &args, flags, ev) : st;
}

aq_status aq_coll_allreduce_user(aq_team *team, void *dst, const void *src, size_t count,
                                 size_t size, aq_reduce_fn *fn, const void *context)
{
    static const char call[] = "aq_coll_allreduce_user";
    struct coll_args args = args_of(COLL_ALLREDUCE, 0, dst, src, 0);
    aq_status st = user(call, &args, count, size, fn, context);
    return st == AQ_OK ? run(call, team, &args) : st;
}

aq_status aq_coll_allreduce_user_nb(aq_team *team, void *dst, const void *src, size_t count,
                                    size_t size, aq_reduce_fn *fn, const void *context,
                                    unsigned flags, aq_event *ev)
{
    static const char call[] = "aq_coll_allreduce_user_nb";
    struct coll_args args = args_of(COLL_ALLREDUCE, 0, dst, src, 0);
    aq_status st = user(call, &args, count, size, fn, context);
    return st == AQ_OK ? begin(call, team, &args, flags, ev) : st;
}

/* --- gather, all-gather ---------------------------------------------------------------------- */

aq_status aq_coll_gather(aq_team *team, aq_rank root, void *dst, const void *src, size_t nbytes)
{
    struct coll_args args = args_of(COLL_GATHER, root, dst, src, nbytes);
    return run("aq_coll_gather", team, &args);
}

aq_status aq_coll_gather_nb(aq_team *team, aq_rank root, void *dst, const void *src, size_t nbytes,
                            unsigned flags, aq_event *ev)
{
    struct coll_args args = args_of(COLL_GATHER, root, dst, src, nbytes);
    return begin("aq_coll_gather_nb", team, &args, flags, ev);
}

/* A gather or scatter with tables, which matter in the root only. */
static aq_status root_tables(const char *call, const aq_team *team, struct coll_args *args,
                             const size_t *counts, const size_t *offsets)
{
    args->vary = true;
    if (team == NULL || team->rank != args->root) return AQ_OK;
    if (args->kind == COLL_GATHER) {
        args->recv_counts = counts;
        args->recv_offsets = offsets;
    } else {
        args->send_counts = counts;
        args->send_offsets = offsets;
    }
    return check_tables(call, counts, offsets);
}

aq_status aq_coll_gatherv(aq_team *team, aq_rank root, void *dst, const size_t *counts,
                          const size_t *offsets, const void *src, size_t nbytes)
{
    static const char call[] = "aq_coll_gatherv";
    struct coll_args args = args_of(COLL_GATHER, root, dst, src, nbytes);
    aq_status st = root_tables(call, team, &args, counts, offsets);
    return st == AQ_OK ? run(call, team, &args) : st;
}

aq_status aq_coll_gatherv_nb(aq_team *team, aq_rank root, void *dst, const size_t *counts,
                             const size_t *offsets, const void *src, size_t nbytes, unsigned flags,
                             aq_event *ev)
{
    static const char call[] = "aq_coll_gatherv_nb";
    struct coll_args args = args_of(COLL_GATHER, root, dst, src, nbytes);
    aq_status st = root_tables(call, team, &args, counts, offsets);
    return st == AQ_OK ? begin(call, team, &args, flags, ev) : st;
}

aq_status aq_coll_allgather(aq_team *team, void *dst, const void *src, size_t nbytes)
{
    struct coll_args args = args_of(COLL_ALLGATHER, 0, dst, src, nbytes);
    return run("aq_coll_allgather", team, &args);
}

aq_status aq_coll_allgather_nb(aq_team *team, void *dst, const void *src, size_t nbytes,
                               unsigned flags, aq_event *ev)
{
    struct coll_args args = args_of(COLL_ALLGATHER, 0, dst, src, nbytes);
    return begin("aq_coll_allgather_nb", team, &args, flags, ev);
}

static aq_status allgatherv(const char *call, const aq_team *team, struct coll_args *args,
                            const size_t *counts, const size_t *offsets)
{
    aq_status st = check_tables(call, counts, offsets);
    if (st == AQ_OK) st = core_team_usable(call, team);
    if (st != AQ_OK) return st;
    args->nbytes = counts[team->rank];
    args->recv_counts = counts;
    args->recv_offsets = offsets;
    return AQ_OK;
}

aq_status aq_coll_allgatherv(aq_team *team, void *dst, const size_t *counts, const size_t *offsets,
                             const void *src)
{
    static const char call[] = "aq_coll_allgatherv";
    struct coll_args args = args_of(COLL_ALLGATHER, 0, dst, src, 0);
    aq_status st = allgatherv(call, team, &args, counts, offsets);
    return st == AQ_OK ? run(call, team, &args) : st;
}

aq_status aq_coll_allgatherv_nb(aq_team *team, void *dst, const size_t *counts,
                                const size_t *offsets, const void *src, unsigned flags,
                                aq_event *ev)
{
    static const char call[] = "aq_coll_allgatherv_nb";
    struct coll_args args = args_of(COLL_ALLGATHER, 0, dst, src, 0);
    aq_status st = allgatherv(call, team, &args, counts, offsets);
    return st == AQ_OK ? begin(call, team, &args, flags, ev) : st;
}

/* --- scatter, all-to-all --------------------------------------------------------------------- */

aq_status aq_coll_scatter(aq_team *team, aq_rank root, void *dst, const void *src, size_t nbytes)
{
    struct coll_args args = args_of(COLL_SCATTER, root, dst, src, nbytes);
    return run("aq_coll_scatter", team, &args);
}

aq_status aq_coll_scatter_nb(aq_team *team, aq_rank root, void *dst, const void *src, size_t nbytes,
                             unsigned flags, aq_event *ev)
{
    struct coll_args args = args_of(COLL_SCATTER, root, dst, src, nbytes);
    return begin("aq_coll_scatter_nb", team, &args, flags, ev);
}

aq_status aq_coll_scatterv(aq_team *team, aq_rank root, void *dst, size_t nbytes, const void *src,
                           const size_t *counts, const size_t *offsets)
{
    static const char call[] = "aq_coll_scatterv";
    struct coll_args args = args_of(COLL_SCATTER, root, dst, src, nbytes);
    aq_status st = root_tables(call, team, &args, counts, offsets);
    return st == AQ_OK ? run(call, team, &args) : st;
}

aq_status aq_coll_scatterv_nb(aq_team *team, aq_rank root, void *dst, size_t nbytes,
                              const void *src, const size_t *counts, const size_t *offsets,
                              unsigned flags, aq_event *ev)
{
    static const char call[] = "aq_coll_scatterv_nb";
    struct coll_args args = args_of(COLL_SCATTER, root, dst, src, nbytes);
    aq_status st = root_tables(call, team, &args, counts, offsets);
    return st == AQ_OK ? begin(call, team, &args, flags, ev) : st;
}

aq_status aq_coll_alltoall(aq_team *team, void *dst, const void *src, size_t nbytes)
{
    struct coll_args args = args_of(COLL_ALLTOALL, 0, dst, src, nbytes);
    return run("aq_coll_alltoall", team, &args);
}

aq_status aq_coll_alltoall_nb(aq_team *team, void *dst, const void *src, size_t nbytes,
                              unsigned flags, aq_event *ev)
{
    struct coll_args args = args_of(COLL_ALLTOALL, 0, dst, src, nbytes);
    return begin("aq_coll_alltoall_nb", team, &args, flags, ev);
}

/* The tables are in `args`. */
static aq_status alltoallv(const char *call, struct coll_args *args)
{
    args->vary = true;
    aq_status st = check_tables(call, args->recv_counts, args->recv_offsets);
    return st == AQ_OK ? check_tables(call, args->send_counts, args->send_offsets) : st;
}

aq_status aq_coll_alltoallv(aq_team *team, void *dst, const size_t *dst_counts,
                            const size_t *dst_offsets, const void *src, const size_t *src_counts,
                            const size_t *src_offsets)
{
    static const char call[] = "aq_coll_alltoallv";
    struct coll_args args = args_of(COLL_ALLTOALL, 0, dst, src, 0);
    args.send_counts = src_counts;
    args.send_offsets = src_offsets;
    args.recv_counts = dst_counts;
    args.recv_offsets = dst_offsets;
    aq_status st = alltoallv(call, &args);
    return st == AQ_OK ? run(call, team, &args) : st;
}

aq_status aq_coll_alltoallv_nb(aq_team *team, void *dst, const size_t *dst_counts,
                               const size_t *dst_offsets, const void *src, const size_t *src_counts,
                               const size_t *src_offsets, unsigned flags, aq_event *ev)
{
    static const char call[] = "aq_coll_alltoallv_nb";
    struct coll_args args = args_of(COLL_ALLTOALL, 0, dst, src, 0);
    args.send_counts = src_counts;
    args.send_offsets = src_offsets;
    args.recv_counts = dst_counts;
    args.recv_offsets = dst_offsets;
    aq_status st = alltoallv(call, &args);
    return st == AQ_OK ? begin(call, team, &args, flags, ev) : st;
}
