/* Vector, indexed and strided transfers of GASNet-EX and GASNet-1. */
#ifndef AQG_GASNET_VIS_H
#define AQG_GASNET_VIS_H

#include <gasnetex.h>

AQG_BEGIN

/* The three forms of a transfer, all with these parameters. */
#define AQG_VIS(Name, ...)                                                                         \
    gex_Event_t gex_VIS_##Name##NB(__VA_ARGS__, gex_Flags_t flags) AQG_MUST_USE;                   \
    int gex_VIS_##Name##NBI(__VA_ARGS__, gex_Flags_t flags);                                       \
    int gex_VIS_##Name##Blocking(__VA_ARGS__, gex_Flags_t flags);

AQG_VIS(VectorPut, gex_TM_t tm, gex_Rank_t dstrank, size_t dstcount, gex_Memvec_t const dstlist[],
        size_t srccount, gex_Memvec_t const srclist[])
AQG_VIS(VectorGet, gex_TM_t tm, size_t dstcount, gex_Memvec_t const dstlist[], gex_Rank_t srcrank,
        size_t srccount, gex_Memvec_t const srclist[])
AQG_VIS(IndexedPut, gex_TM_t tm, gex_Rank_t dstrank, size_t dstcount, void *const dstlist[],
        size_t dstlen, size_t srccount, void *const srclist[], size_t srclen)
AQG_VIS(IndexedGet, gex_TM_t tm, size_t dstcount, void *const dstlist[], size_t dstlen,
        gex_Rank_t srcrank, size_t srccount, void *const srclist[], size_t srclen)
AQG_VIS(StridedPut, gex_TM_t tm, gex_Rank_t dstrank, void *dstaddr, const ptrdiff_t dststrides[],
        void *srcaddr, const ptrdiff_t srcstrides[], size_t elemsz, const size_t count[],
        size_t stridelevels)
AQG_VIS(StridedGet, gex_TM_t tm, void *dstaddr, const ptrdiff_t dststrides[], gex_Rank_t srcrank,
        void *srcaddr, const ptrdiff_t srcstrides[], size_t elemsz, const size_t count[],
        size_t stridelevels)

/* The most bytes that travel with a peer completion. */
#define GEX_VIS_MAX_PEERCOMPLETION 127
void gex_VIS_SetPeerCompletionHandler(gex_AM_Index_t handler, const void *src, size_t nbytes,
                                      gex_Flags_t flags);

AQG_END

#endif
