/* Vector, indexed and strided transfers of GASNet-EX and GASNet-1. */
#ifndef AQG_GASNET_VIS_H
#define AQG_GASNET_VIS_H

#include <gasnetex.h>

AQG_BEGIN

/* Number of threads that have set a peer completion handler which no put has used yet. */
extern unsigned aqg_vis_armed;

/* A transfer with a single piece on both sides is a plain put or get if the memory is mapped
 * here. */
AQG_INLINE int aqg_vis_put1(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src,
                            size_t nbytes, gex_Flags_t flags)
{
    void *at = aqg_there(tm, rank, dest, nbytes, flags);
    if (AQG_UNLIKELY(at == NULL || __atomic_load_n(&aqg_vis_armed, __ATOMIC_RELAXED) != 0))
        return 0;
    aqg_store(at, src, nbytes);
    return 1;
}

#define AQG_VIS(Name, PARAMS, VALUES, ONE, DONE)                                                   \
    AQG_TRANSFER(gex_VIS_##Name##NB, gex_VIS_##Name##NBI, gex_VIS_##Name##Blocking,                \
                 aqg_vis_##Name, PARAMS, VALUES, (ONE) && DONE)

/* Also used by the library: the parameters of the transfers and their names. */
#define AQG_VECTOR_PUT                                                                             \
    (gex_TM_t tm, gex_Rank_t dstrank, size_t dstcount, gex_Memvec_t const dstlist[],               \
     size_t srccount, gex_Memvec_t const srclist[], gex_Flags_t flags)
#define AQG_VECTOR_PUT_VALUES (tm, dstrank, dstcount, dstlist, srccount, srclist, flags)
#define AQG_VECTOR_GET                                                                             \
    (gex_TM_t tm, size_t dstcount, gex_Memvec_t const dstlist[], gex_Rank_t srcrank,               \
     size_t srccount, gex_Memvec_t const srclist[], gex_Flags_t flags)
#define AQG_VECTOR_GET_VALUES (tm, dstcount, dstlist, srcrank, srccount, srclist, flags)
#define AQG_INDEXED_PUT                                                                            \
    (gex_TM_t tm, gex_Rank_t dstrank, size_t dstcount, void *const dstlist[], size_t dstlen,       \
     size_t srccount, void *const srclist[], size_t srclen, gex_Flags_t flags)
#define AQG_INDEXED_PUT_VALUES                                                                     \
    (tm, dstrank, dstcount, dstlist, dstlen, srccount, srclist, srclen, flags)
#define AQG_INDEXED_GET                                                                            \
    (gex_TM_t tm, size_t dstcount, void *const dstlist[], size_t dstlen, gex_Rank_t srcrank,       \
     size_t srccount, void *const srclist[], size_t srclen, gex_Flags_t flags)
#define AQG_INDEXED_GET_VALUES                                                                     \
    (tm, dstcount, dstlist, dstlen, srcrank, srccount, srclist, srclen, flags)
#define AQG_STRIDED_PUT                                                                            \
    (gex_TM_t tm, gex_Rank_t dstrank, void *dstaddr, const ptrdiff_t dststrides[], void *srcaddr,  \
     const ptrdiff_t srcstrides[], size_t elemsz, const size_t count[], size_t stridelevels,       \
     gex_Flags_t flags)
#define AQG_STRIDED_PUT_VALUES                                                                     \
    (tm, dstrank, dstaddr, dststrides, srcaddr, srcstrides, elemsz, count, stridelevels, flags)
#define AQG_STRIDED_GET                                                                            \
    (gex_TM_t tm, void *dstaddr, const ptrdiff_t dststrides[], gex_Rank_t srcrank, void *srcaddr,  \
     const ptrdiff_t srcstrides[], size_t elemsz, const size_t count[], size_t stridelevels,       \
     gex_Flags_t flags)
#define AQG_STRIDED_GET_VALUES                                                                     \
    (tm, dstaddr, dststrides, srcrank, srcaddr, srcstrides, elemsz, count, stridelevels, flags)

#define AQG_VECTOR_ONE dstcount == 1 && srccount == 1 && dstlist->gex_len == srclist->gex_len
AQG_VIS(VectorPut, AQG_VECTOR_PUT, AQG_VECTOR_PUT_VALUES, AQG_VECTOR_ONE,
        aqg_vis_put1(tm, dstrank, dstlist->gex_addr, srclist->gex_addr, srclist->gex_len, flags))
AQG_VIS(VectorGet, AQG_VECTOR_GET, AQG_VECTOR_GET_VALUES, AQG_VECTOR_ONE,
        aqg_get_here(tm, srcrank, dstlist->gex_addr, srclist->gex_addr, srclist->gex_len, flags))
#define AQG_INDEXED_ONE dstcount == 1 && srccount == 1 && dstlen == srclen
AQG_VIS(IndexedPut, AQG_INDEXED_PUT, AQG_INDEXED_PUT_VALUES, AQG_INDEXED_ONE,
        aqg_vis_put1(tm, dstrank, *dstlist, *srclist, srclen, flags))
AQG_VIS(IndexedGet, AQG_INDEXED_GET, AQG_INDEXED_GET_VALUES, AQG_INDEXED_ONE,
        aqg_get_here(tm, srcrank, *dstlist, *srclist, srclen, flags))
#define AQG_STRIDED_ONE elemsz != 0 && (stridelevels == 0 || (stridelevels == 1 && *count == 1))
AQG_VIS(StridedPut, AQG_STRIDED_PUT, AQG_STRIDED_PUT_VALUES, AQG_STRIDED_ONE,
        aqg_vis_put1(tm, dstrank, dstaddr, srcaddr, elemsz, flags))
AQG_VIS(StridedGet, AQG_STRIDED_GET, AQG_STRIDED_GET_VALUES, AQG_STRIDED_ONE,
        aqg_get_here(tm, srcrank, dstaddr, srcaddr, elemsz, flags))

/* Maximum payload of a peer completion handler. */
#define GEX_VIS_MAX_PEERCOMPLETION 127
void gex_VIS_SetPeerCompletionHandler(gex_AM_Index_t handler, const void *src, size_t nbytes,
                                      gex_Flags_t flags);

AQG_END

#endif
