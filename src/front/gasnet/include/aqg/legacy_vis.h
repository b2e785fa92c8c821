/* Vector, indexed and strided transfers of GASNet-1: those of GASNet-EX on the primordial team.
 * Included by gasnet.h, which defines the types. */
#ifndef AQG_LEGACY_VIS_H
#define AQG_LEGACY_VIS_H

#include <gasnet_vis.h>

AQG_BEGIN

/* The interface guarantees that the layouts are the same. */
AQG_INLINE gex_Memvec_t const *aqg_memvec(gasnet_memvec_t const *list)
{
    return (gex_Memvec_t const *)(const void *)list;
}

/* Strides of GASNet-1 are never negative. */
AQG_INLINE const ptrdiff_t *aqg_strides(const size_t *strides)
{
    return (const ptrdiff_t *)(const void *)strides;
}

/* The three forms of a transfer: their parameters, and the corresponding ones of GASNet-EX. */
#define AQG_LEGACY_VIS(name, Name, PARAMS, ...)                                                    \
    AQG_VOID_CALL(gasnet_##name##_bulk, PARAMS,                                                    \
                  gex_VIS_##Name##Blocking(aqg_world, __VA_ARGS__, 0))                             \
    AQG_HANDLE_CALL(gasnet_##name##_nb_bulk, PARAMS,                                               \
                    gex_VIS_##Name##NB(aqg_world, __VA_ARGS__, 0))                                 \
    AQG_VOID_CALL(gasnet_##name##_nbi_bulk, PARAMS, gex_VIS_##Name##NBI(aqg_world, __VA_ARGS__, 0))

AQG_LEGACY_VIS(putv, VectorPut,
               (gasnet_node_t dstnode, size_t dstcount, gasnet_memvec_t const dstlist[],
                size_t srccount, gasnet_memvec_t const srclist[]),
               dstnode, dstcount, aqg_memvec(dstlist), srccount, aqg_memvec(srclist))
AQG_LEGACY_VIS(getv, VectorGet,
               (size_t dstcount, gasnet_memvec_t const dstlist[], gasnet_node_t srcnode,
                size_t srccount, gasnet_memvec_t const srclist[]),
               dstcount, aqg_memvec(dstlist), srcnode, srccount, aqg_memvec(srclist))
AQG_LEGACY_VIS(puti, IndexedPut,
               (gasnet_node_t dstnode, size_t dstcount, void *const dstlist[], size_t dstlen,
                size_t srccount, void *const srclist[], size_t srclen),
               dstnode, dstcount, dstlist, dstlen, srccount, srclist, srclen)
AQG_LEGACY_VIS(geti, IndexedGet,
               (size_t dstcount, void *const dstlist[], size_t dstlen, gasnet_node_t srcnode,
                size_t srccount, void *const srclist[], size_t srclen),
               dstcount, dstlist, dstlen, srcnode, srccount, srclist, srclen)
AQG_LEGACY_VIS(puts, StridedPut,
               (gasnet_node_t dstnode, void *dstaddr, const size_t dststrides[], void *srcaddr,
                const size_t srcstrides[], const size_t count[], size_t stridelevels),
               dstnode, dstaddr, aqg_strides(dststrides), srcaddr, aqg_strides(srcstrides),
               count[0], count + 1, stridelevels)
AQG_LEGACY_VIS(gets, StridedGet,
               (void *dstaddr, const size_t dststrides[], gasnet_node_t srcnode, void *srcaddr,
                const size_t srcstrides[], const size_t count[], size_t stridelevels),
               dstaddr, aqg_strides(dststrides), srcnode, srcaddr, aqg_strides(srcstrides),
               count[0], count + 1, stridelevels)

AQG_END

#endif
