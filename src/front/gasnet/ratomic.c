/*
 * Remote atomics: domains and operations, by name, on Aqueduct's domains. Where the segments of all
 * members are mapped, operations on integers are the processor's right here, as they would be at
 * the end of the way through Aqueduct.
 */
#include "aqg.h"

#include <gasnet_ratomic.h>

struct aqg_ad {
    aq_atomic_domain *aq;
    gex_TM_t tm;
    gex_DT_t dt;
    gex_OP_t ops;
    gex_Flags_t flags;
    void *cdata;
    gex_Rank_t *from_job; /* ranks in `tm` by job ranks; NULL: they are the same */
    bool direct;          /* all members are neighbours: nobody's adapter operates on the memory */
};

/* By the bit of a data type. */
static const aq_atomic_type types[] = {AQ_I32, AQ_U32, AQ_I64, AQ_U64, AQ_F32, AQ_F64};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

/* By the bit of an operation; from FETCHING on the old value is wanted. */
enum { FETCHING = 12, OPS = 25 };
static const aq_atomic_op ops[OPS] = {
    AQ_AND, AQ_OR,  AQ_XOR, AQ_ADD, AQ_SUB,  AQ_MULT, AQ_MIN, AQ_MAX, AQ_INC,
    AQ_DEC, AQ_SET, AQ_CAS, AQ_AND, AQ_OR,   AQ_XOR,  AQ_ADD, AQ_SUB, AQ_MULT,
    AQ_MIN, AQ_MAX, AQ_INC, AQ_DEC, AQ_SWAP, AQ_CAS,  AQ_GET,
};
static_assert(GEX_OP_FAND == 1 << FETCHING && GEX_OP_GET == 1 << (OPS - 1), "the table's order");
static_assert(GEX_DT_USER == 1 << TYPES, "the table's order");

static aq_atomic_type type_of(gex_DT_t dt)
{
    for (unsigned bit = 0; bit < TYPES; bit++)
        if (dt == 1u << bit) return types[bit];
    aqgi_die("gex_AD_Create: data type 0x%x is none: give one of GEX_DT_I32, U32, I64, U64, FLT "
             "and DBL",
             (unsigned)dt);
}

static unsigned ops_of(gex_OP_t set)
{
    unsigned mask = 0;
    if (set == 0 || (set >> OPS) != 0)
        aqgi_die("gex_AD_Create: operations 0x%x: give an OR of those that GASNet-EX has for "
                 "atomic domains",
                 (unsigned)set);
    for (unsigned bit = 0; bit < OPS; bit++)
        if (set & (1u << bit)) mask |= AQ_OP_BIT(ops[bit]);
    return mask;
}

static gex_Rank_t *inverse_of(gex_TM_t tm)
{
    if (tm->map == NULL) return NULL;
    gex_Rank_t *from_job = malloc(aqgi.size * sizeof(*from_job));
    if (from_job == NULL) aqgi_die("gex_AD_Create: no memory for a table of ranks");
    for (gex_Rank_t rank = 0; rank < aqgi.size; rank++)
        from_job[rank] = GEX_RANK_INVALID;
    for (gex_Rank_t rank = 0; rank < tm->size; rank++)
        from_job[tm->map[rank]] = rank;
    return from_job;
}

static bool all_neighbors(gex_TM_t tm)
{
    for (gex_Rank_t rank = 0; rank < tm->size; rank++)
        if (aq_team_from_job(aq_team_neighborhood(), tm->map != NULL ? tm->map[rank] : rank) ==
            AQ_RANK_NONE)
            return false;
    return true;
}

void gex_AD_Create(gex_AD_t *ad_p, gex_TM_t tm, gex_DT_t dt, gex_OP_t set, gex_Flags_t flags)
{
    struct aqg_ad *ad = malloc(sizeof(*ad));
    if (ad == NULL) aqgi_die("gex_AD_Create: no memory");
    *ad = (struct aqg_ad){.tm = tm, .dt = dt, .ops = set, .flags = flags};
    aqgi_done("gex_AD_Create",
              aq_atomic_domain_create(aqgi_aq(tm), type_of(dt), ops_of(set), &ad->aq));
    ad->from_job = inverse_of(tm);
    ad->direct = all_neighbors(tm);
    *ad_p = ad;
}

void gex_AD_Destroy(gex_AD_t ad)
{
    aq_atomic_domain_destroy(ad->aq);
    free(ad->from_job);
    free(ad);
}

gex_Flags_t gex_AD_QueryFlags(gex_AD_t ad)
{
    return ad->flags;
}

gex_TM_t gex_AD_QueryTM(gex_AD_t ad)
{
    return ad->tm;
}

gex_DT_t gex_AD_QueryDT(gex_AD_t ad)
{
    return ad->dt;
}

gex_OP_t gex_AD_QueryOps(gex_AD_t ad)
{
    return ad->ops;
}

void gex_AD_SetCData(gex_AD_t ad, const void *val)
{
    ad->cdata = (void *)(uintptr_t)val;
}

void *gex_AD_QueryCData(gex_AD_t ad)
{
    return ad->cdata;
}

/* An operation with its arguments in Aqueduct's terms. */
struct call {
    const char *name;
    aq_rank rank;
    aq_atomic_op op;
    void *result;
    unsigned flags;
};

static inline struct call call_of(const char *name, gex_AD_t ad, gex_DT_t dt, void *result,
                                  gex_Rank_t rank, gex_OP_t opcode, gex_Flags_t flags)
{
    if (AQG_UNLIKELY(ad->dt != dt))
        aqgi_die("%s: the domain is of data type 0x%x", name, (unsigned)ad->dt);
    if (AQG_UNLIKELY(opcode == 0 || (opcode & (opcode - 1)) != 0 || (opcode & ~ad->ops) != 0))
        aqgi_die("%s: 0x%x is not one of the domain's operations, 0x%x", name, (unsigned)opcode,
                 (unsigned)ad->ops);
    unsigned bit = (unsigned)__builtin_ctz(opcode);
    struct call call = {name, rank, ops[bit],
                        bit >= FETCHING ? aqgi_local(ad->tm, result, flags) : NULL,
                        aqgi_flags(flags)};
    if (flags & GEX_FLAG_AD_ACQ) call.flags |= AQ_ATOMIC_ACQUIRE;
    if (flags & GEX_FLAG_AD_REL) call.flags |= AQ_ATOMIC_RELEASE;
    if ((flags & GEX_FLAG_RANK_IS_JOBRANK) && ad->from_job != NULL)
        call.rank = rank < aqgi.size ? ad->from_job[rank] : GEX_RANK_INVALID;
    return call;
}

/* Perform an operation on mapped memory, if the processor has it; false: not here. */
#define DIRECT(DT, T)                                                                              \
    static inline bool direct_##DT(gex_AD_t ad, const struct call *c, void *addr, T a, T b)        \
    {                                                                                              \
        bool mapped = ad->direct && (c->flags & AQ_REMOTE_OFFSET) == 0;                            \
        T old = 0, *at = mapped ? aqg_mapped(ad->tm, c->rank, addr, sizeof(T)) : NULL;             \
        if (at == NULL || (uintptr_t)at % sizeof(T) != 0) return false;                            \
        switch (c->op) {                                                                           \
        case AQ_ADD:                                                                               \
            old = __atomic_fetch_add(at, a, __ATOMIC_SEQ_CST);                                     \
            break;                                                                                 \
        case AQ_SUB:                                                                               \
            old = __atomic_fetch_sub(at, a, __ATOMIC_SEQ_CST);                                     \
            break;                                                                                 \
        case AQ_INC:                                                                               \
            old = __atomic_fetch_add(at, (T)1, __ATOMIC_SEQ_CST);                                  \
            break;                                                                                 \
        case AQ_DEC:                                                                               \
            old = __atomic_fetch_sub(at, (T)1, __ATOMIC_SEQ_CST);                                  \
            break;                                                                                 \
        case AQ_AND:                                                                               \
            old = __atomic_fetch_and(at, a, __ATOMIC_SEQ_CST);                                     \
            break;                                                                                 \
        case AQ_OR:                                                                                \
            old = __atomic_fetch_or(at, a, __ATOMIC_SEQ_CST);                                      \
            break;                                                                                 \
        case AQ_XOR:                                                                               \
            old = __atomic_fetch_xor(at, a, __ATOMIC_SEQ_CST);                                     \
            break;                                                                                 \
        case AQ_SWAP:                                                                              \
            old = __atomic_exchange_n(at, a, __ATOMIC_SEQ_CST);                                    \
            break;                                                                                 \
        case AQ_SET:                                                                               \
            __atomic_store_n(at, a, __ATOMIC_SEQ_CST);                                             \
            break;                                                                                 \
        case AQ_GET:                                                                               \
            old = __atomic_load_n(at, __ATOMIC_SEQ_CST);                                           \
            break;                                                                                 \
        case AQ_CAS:                                                                               \
            old = a;                                                                               \
            (void)__atomic_compare_exchange_n(at, &old, b, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
            break;                                                                                 \
        default:                                                                                   \
            return false;                                                                          \
        }                                                                                          \
        if (c->result != NULL) *(T *)c->result = old;                                              \
        return true;                                                                               \
    }

DIRECT(I32, int32_t)
DIRECT(U32, uint32_t)
DIRECT(I64, int64_t)
DIRECT(U64, uint64_t)
/* Of floating types it has too few. */
#define direct_FLT(ad, c, addr, a, b) false
#define direct_DBL(ad, c, addr, a, b) false

#define OPERATIONS(DT, T)                                                                          \
    gex_Event_t gex_AD_OpNB_##DT(gex_AD_t ad, T *result_p, gex_Rank_t tgt_rank, void *tgt_addr,    \
                                 gex_OP_t opcode, T operand1, T operand2, gex_Flags_t flags)       \
    {                                                                                              \
        aq_event event = AQ_EVENT_DONE;                                                            \
        struct call c =                                                                            \
            call_of("gex_AD_OpNB_" #DT, ad, GEX_DT_##DT, result_p, tgt_rank, opcode, flags);       \
        if (direct_##DT(ad, &c, tgt_addr, operand1, operand2)) return GEX_EVENT_INVALID;           \
        aq_status st = aq_atomic_nb(ad->aq, c.rank, tgt_addr, c.op, &operand1, &operand2,          \
                                    c.result, c.flags, &event);                                    \
        return aqgi_started_nb(c.name, st, event);                                                 \
    }                                                                                              \
    int gex_AD_OpNBI_##DT(gex_AD_t ad, T *result_p, gex_Rank_t tgt_rank, void *tgt_addr,           \
                          gex_OP_t opcode, T operand1, T operand2, gex_Flags_t flags)              \
    {                                                                                              \
        struct call c =                                                                            \
            call_of("gex_AD_OpNBI_" #DT, ad, GEX_DT_##DT, result_p, tgt_rank, opcode, flags);      \
        if (direct_##DT(ad, &c, tgt_addr, operand1, operand2)) return 0;                           \
        return aqgi_started(c.name, aq_atomic_nbi(ad->aq, c.rank, tgt_addr, c.op, &operand1,       \
                                                  &operand2, c.result, c.flags));                  \
    }

OPERATIONS(I32, int32_t)
OPERATIONS(U32, uint32_t)
OPERATIONS(I64, int64_t)
OPERATIONS(U64, uint64_t)
OPERATIONS(FLT, float)
OPERATIONS(DBL, double)
