/* Collectives of GASNet-EX: Aqueduct's own, under GASNet's names. */
#include "aqg.h"

#include <gasnet_coll.h>

gex_Event_t gex_Coll_BroadcastNB(gex_TM_t tm, gex_Rank_t root, void *dst, const void *src,
                                 size_t nbytes, gex_Flags_t flags)
{
    aq_event event = AQ_EVENT_DONE;
    aqgi_done(__func__, aq_coll_broadcast_nb(aqgi_aq(tm), root, dst, src, nbytes, 0, &event));
    return aqgi_event(event);
}

/* The elements of a reduction: of one of Aqueduct's types, or combined by a function of the
 * client. */
struct reduction {
    bool user;
    unsigned how; /* flags */
    aq_type type;
    aq_op op;
};

static struct reduction coll_reduction_of(const char *call, gex_DT_t dt, size_t dt_sz, gex_OP_t op,
                                          gex_Coll_ReduceFn_t user_op)
{
    static const gex_OP_t known =
        GEX_OP_ADD | GEX_OP_MULT | GEX_OP_MIN | GEX_OP_MAX | GEX_OP_AND | GEX_OP_OR | GEX_OP_XOR;
    struct reduction r = {.user = op == GEX_OP_USER || op == GEX_OP_USER_NC,
                          .how = op == GEX_OP_USER_NC ? AQ_COLL_ORDERED : 0};
    if (r.user && user_op == NULL) aqgi_die("%s: GEX_OP_USER needs a function", call);
    if (r.user && dt == GEX_DT_USER) return r;

    size_t size = aqgi_type(dt, &r.type);
    if (size == 0)
        aqgi_die("%s: data type 0x%x %s", call, (unsigned)dt,
                 dt == GEX_DT_USER ? "needs GEX_OP_USER" : "does not exist");
    if (dt_sz != size)
        aqgi_die("%s: the element size %zu differs from that of data type 0x%x, which is %zu", call,
                 dt_sz, (unsigned)dt, size);
    if (r.user) return r;
    if (op == 0 || (op & (op - 1)) != 0 || (op & known) == 0)
        aqgi_die("%s: operation 0x%x is not valid for reductions", call, (unsigned)op);
    r.op = aqgi_op(op);
    return r;
}

gex_Event_t gex_Coll_ReduceToOneNB(gex_TM_t tm, gex_Rank_t root, void *dst, const void *src,
                                   gex_DT_t dt, size_t dt_sz, size_t dt_cnt, gex_OP_t op,
                                   gex_Coll_ReduceFn_t user_op, void *user_cdata, gex_Flags_t flags)
{
    struct reduction r = coll_reduction_of(__func__, dt, dt_sz, op, user_op);
    aq_event event = AQ_EVENT_DONE;
    aq_team *team = aqgi_aq(tm);
    aqgi_done(__func__,
              r.user ? aq_coll_reduce_user_nb(team, root, dst, src, dt_cnt, dt_sz, user_op,
                                              user_cdata, r.how, &event)
                     : aq_coll_reduce_nb(team, root, dst, src, dt_cnt, r.type, r.op, 0, &event));
    return aqgi_event(event);
}

gex_Event_t gex_Coll_ReduceToAllNB(gex_TM_t tm, void *dst, const void *src, gex_DT_t dt,
                                   size_t dt_sz, size_t dt_cnt, gex_OP_t op,
                                   gex_Coll_ReduceFn_t user_op, void *user_cdata, gex_Flags_t flags)
{
    struct reduction r = coll_reduction_of(__func__, dt, dt_sz, op, user_op);
    aq_event event = AQ_EVENT_DONE;
    aq_team *team = aqgi_aq(tm);
    aqgi_done(__func__,
              r.user ? aq_coll_allreduce_user_nb(team, dst, src, dt_cnt, dt_sz, user_op, user_cdata,
                                                 r.how, &event)
                     : aq_coll_allreduce_nb(team, dst, src, dt_cnt, r.type, r.op, 0, &event));
    return aqgi_event(event);
}
