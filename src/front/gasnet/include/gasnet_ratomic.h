/* Remote atomics of GASNet-EX: operations on the segments of others, through atomic domains. */
#ifndef AQG_GASNET_RATOMIC_H
#define AQG_GASNET_RATOMIC_H

#include <gasnetex.h>

AQG_BEGIN

#define GEX_AD_INVALID ((gex_AD_t)(uintptr_t)0)

void gex_AD_Create(gex_AD_t *ad_p, gex_TM_t tm, gex_DT_t dt, gex_OP_t ops, gex_Flags_t flags);
void gex_AD_Destroy(gex_AD_t ad);
gex_Flags_t gex_AD_QueryFlags(gex_AD_t ad);
gex_TM_t gex_AD_QueryTM(gex_AD_t ad);
gex_DT_t gex_AD_QueryDT(gex_AD_t ad);
gex_OP_t gex_AD_QueryOps(gex_AD_t ad);
void gex_AD_SetCData(gex_AD_t ad, const void *val);
void *gex_AD_QueryCData(gex_AD_t ad);

#define AQG_AD(DT, T)                                                                              \
    gex_Event_t gex_AD_OpNB_##DT(gex_AD_t ad, T *result_p, gex_Rank_t tgt_rank, void *tgt_addr,    \
                                 gex_OP_t opcode, T operand1, T operand2, gex_Flags_t flags)       \
        AQG_MUST_USE;                                                                              \
    int gex_AD_OpNBI_##DT(gex_AD_t ad, T *result_p, gex_Rank_t tgt_rank, void *tgt_addr,           \
                          gex_OP_t opcode, T operand1, T operand2, gex_Flags_t flags);
AQG_AD(I32, int32_t)
AQG_AD(U32, uint32_t)
AQG_AD(I64, int64_t)
AQG_AD(U64, uint64_t)
AQG_AD(FLT, float)
AQG_AD(DBL, double)

AQG_END

#endif
