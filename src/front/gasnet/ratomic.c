/*
 * Remote atomics, implemented with Aqueduct's domains. If the segments of all members are mapped,
 * the CPU performs operations, with the same effect as Aqueduct's, inline in the program if the
 * operation is a constant. This excludes GEX_OP_MULT, MIN and MAX on integers.
 */
#include "aqg.h"

#include <gasnet_ratomic.h>

struct aqgi_ad {
    struct aqg_ad head;
    gex_TM_t tm;
    aq_atomic_domain *aq;
    gex_OP_t ops;
    gex_Flags_t flags;
    void *cdata;
    gex_Rank_t *from_job; /* ranks in `tm` by job rank; NULL: identical */
};

static inline struct aqgi_ad *ratomic_aqgi_ad(gex_AD_t ad)
{
    return (struct aqgi_ad *)(void *)ad;
}

/* Indexed by the bit of an operation; those from FETCHING on return the old value. */
enum { FETCHING = 12, OPS = 25 };
static const aq_op ops[OPS] = {
    AQ_OP_AND, AQ_OP_OR,   AQ_OP_XOR, AQ_OP_ADD,  AQ_OP_SUB, AQ_OP_MULT, AQ_OP_MIN,
    AQ_OP_MAX, AQ_OP_INC,  AQ_OP_DEC, AQ_OP_SET,  AQ_OP_CAS, AQ_OP_AND,  AQ_OP_OR,
    AQ_OP_XOR, AQ_OP_ADD,  AQ_OP_SUB, AQ_OP_MULT, AQ_OP_MIN, AQ_OP_MAX,  AQ_OP_INC,
    AQ_OP_DEC, AQ_OP_SWAP, AQ_OP_CAS, AQ_OP_GET,
};
static_assert(GEX_OP_FAND == 1 << FETCHING && GEX_OP_GET == 1 << (OPS - 1), "the table's order");

/* Indexed by the bit of a data type. */
static const struct {
    aq_type type;
    size_t size;
} types[] = {{AQ_TYPE_I32, 4}, {AQ_TYPE_U32, 4}, {AQ_TYPE_I64, 8},
             {AQ_TYPE_U64, 8}, {AQ_TYPE_F32, 4}, {AQ_TYPE_F64, 8}};
static_assert(GEX_DT_USER == 1 << sizeof(types) / sizeof(*types), "the table's order");

aq_op aqgi_op(gex_OP_t op)
{
    return ops[__builtin_ctz(op)];
}

size_t aqgi_type(gex_DT_t dt, aq_type *type)
{
    if (dt == 0 || (dt & (dt - 1)) != 0 || dt >= GEX_DT_USER) return 0;
    *type = types[__builtin_ctz(dt)].type;
    return types[__builtin_ctz(dt)].size;
}

static aq_type ratomic_type_of(gex_DT_t dt)
{
    aq_type type;
    if (aqgi_type(dt, &type) == 0)
        aqgi_die("gex_AD_Create: data type 0x%x is not valid: give one of GEX_DT_I32, U32, I64, "
                 "U64, FLT and DBL",
                 (unsigned)dt);
    return type;
}

static unsigned ratomic_ops_of(gex_OP_t set)
{
    unsigned mask = 0;
    if (set == 0 || (set >> OPS) != 0)
        aqgi_die("gex_AD_Create: operations 0x%x: combine operations of GASNet-EX for atomic "
                 "domains by OR",
                 (unsigned)set);
    for (gex_OP_t left = set; left != 0; left &= left - 1)
        mask |= AQ_OP_BIT(ops[__builtin_ctz(left)]);
    return mask;
}

static gex_Rank_t *ratomic_inverse_of(gex_TM_t tm)
{
    if (tm->map == NULL) return NULL;
    gex_Rank_t *from_job = aqgi_alloc(aqgi.size, sizeof(*from_job), "the ranks of gex_AD_Create");
    for (gex_Rank_t rank = 0; rank < aqgi.size; rank++)
        from_job[rank] = GEX_RANK_INVALID;
    for (gex_Rank_t rank = 0; rank < tm->size; rank++)
        from_job[tm->map[rank]] = rank;
    return from_job;
}

static bool ratomic_all_neighbors(gex_TM_t tm)
{
    for (gex_Rank_t rank = 0; rank < tm->size; rank++)
        if (aq_team_from_job(aq_team_neighborhood(), tm->map != NULL ? tm->map[rank] : rank) ==
            AQ_RANK_NONE)
            return false;
    return true;
}

void gex_AD_Create(gex_AD_t *ad_p, gex_TM_t tm, gex_DT_t dt, gex_OP_t set, gex_Flags_t flags)
{
    struct aqgi_ad *ad = aqgi_alloc(1, sizeof(*ad), "gex_AD_Create");
    *ad = (struct aqgi_ad){.head = {.team = *tm, .dt = dt}, .tm = tm, .ops = set, .flags = flags};
    aqgi_done("gex_AD_Create", aq_atomic_domain_create(aqgi_aq(tm), ratomic_type_of(dt),
                                                       ratomic_ops_of(set), 0, &ad->aq));
    ad->from_job = ratomic_inverse_of(tm);
    /* If all members are neighbors, no adapter accesses the memory. */
    if (ratomic_all_neighbors(tm))
        ad->head.here = dt < GEX_DT_FLT ? set & AQG_AD_HERE_INTEGER : set;
    *ad_p = &ad->head;
}

void gex_AD_Destroy(gex_AD_t ad)
{
    aq_atomic_domain_destroy(ratomic_aqgi_ad(ad)->aq);
    free(ratomic_aqgi_ad(ad)->from_job);
    free(ad);
}

AQG_DEFINE(gex_TM_t, gex_AD_QueryTM, (gex_AD_t ad), ratomic_aqgi_ad(ad)->tm)
AQG_DEFINE(gex_DT_t, gex_AD_QueryDT, (gex_AD_t ad), ad->dt)
AQG_DEFINE(gex_OP_t, gex_AD_QueryOps, (gex_AD_t ad), ratomic_aqgi_ad(ad)->ops)
AQGI_OBJECT(gex_AD, gex_AD_t ad, ratomic_aqgi_ad(ad))

/* An operation and its arguments, converted to Aqueduct's. */
struct ratomic_call {
    const char *name;
    aq_rank rank;
    aq_op op;
    void *result;
    unsigned flags;
};

static struct ratomic_call ratomic_call_of(const char *name, gex_AD_t domain, gex_DT_t dt,
                                           void *result, gex_Rank_t rank, gex_OP_t opcode,
                                           gex_Flags_t flags)
{
    const struct aqgi_ad *ad = ratomic_aqgi_ad(domain);
    if (domain->dt != dt)
        aqgi_die("%s: the data type of the domain is another one, 0x%x", name,
                 (unsigned)domain->dt);
    if (opcode == 0 || (opcode & (opcode - 1)) != 0 || (opcode & ~ad->ops) != 0)
        aqgi_die("%s: operation 0x%x is not one of the domain's (0x%x)", name, (unsigned)opcode,
                 (unsigned)ad->ops);
    unsigned bit = (unsigned)__builtin_ctz(opcode);
    struct ratomic_call call = {name, rank, ops[bit],
                                bit >= FETCHING ? aqgi_local(ad->tm, result, flags) : NULL,
                                aqgi_flags(flags)};
    if (flags & GEX_FLAG_AD_ACQ) call.flags |= AQ_ATOMIC_ACQUIRE;
    if (flags & GEX_FLAG_AD_REL) call.flags |= AQ_ATOMIC_RELEASE;
    if ((flags & GEX_FLAG_RANK_IS_JOBRANK) && ad->from_job != NULL)
        call.rank = rank < aqgi.size ? ad->from_job[rank] : GEX_RANK_INVALID;
    return call;
}

#define OPERATIONS(DT, T, HERE)                                                                    \
    gex_Event_t aqg_ad_nb_##DT(AQG_AD_PARAMS(T))                                                   \
    {                                                                                              \
        aq_event event = AQ_EVENT_DONE;                                                            \
        if (HERE) return GEX_EVENT_INVALID;                                                        \
        struct ratomic_call c = ratomic_call_of("gex_AD_OpNB_" #DT, ad, GEX_DT_##DT, result_p,     \
                                                tgt_rank, opcode, flags);                          \
        aq_status st = aq_atomic_nb(ratomic_aqgi_ad(ad)->aq, c.rank, tgt_addr, c.op, &operand1,    \
                                    &operand2, c.result, c.flags, &event);                         \
        return aqgi_started_nb(c.name, st, event);                                                 \
    }                                                                                              \
    int aqg_ad_nbi_##DT(AQG_AD_PARAMS(T))                                                          \
    {                                                                                              \
        if (HERE) return 0;                                                                        \
        struct ratomic_call c = ratomic_call_of("gex_AD_OpNBI_" #DT, ad, GEX_DT_##DT, result_p,    \
                                                tgt_rank, opcode, flags);                          \
        return aqgi_started(c.name, aq_atomic_nbi(ratomic_aqgi_ad(ad)->aq, c.rank, tgt_addr, c.op, \
                                                  &operand1, &operand2, c.result, c.flags));       \
    }

OPERATIONS(I32, int32_t, aqg_ad_here_I32(AQG_AD_VALUES))
OPERATIONS(U32, uint32_t, aqg_ad_here_U32(AQG_AD_VALUES))
OPERATIONS(I64, int64_t, aqg_ad_here_I64(AQG_AD_VALUES))
OPERATIONS(U64, uint64_t, aqg_ad_here_U64(AQG_AD_VALUES))
OPERATIONS(FLT, float, aqg_ad_here_FLT(AQG_AD_VALUES))
OPERATIONS(DBL, double, aqg_ad_here_DBL(AQG_AD_VALUES))
