/* The vector, indexed and strided transfers of GASNet-1: those of GASNet-EX on all processes.
 * Included by gasnet.h, which has the types. */
#ifndef AQG_LEGACY_VIS_H
#define AQG_LEGACY_VIS_H

#include <gasnet_vis.h>

AQG_BEGIN

/* Of the same layout, as the interface promises. */
AQG_INLINE gex_Memvec_t const *aqg_memvec(gasnet_memvec_t const *list)
{
    return (gex_Memvec_t const *)(const void *)list;
}

/* Strides of GASNet-1 are not negative. */
AQG_INLINE const ptrdiff_t *aqg_strides(const size_t *strides)
{
    return (const ptrdiff_t *)(const void *)strides;
}

AQG_INLINE void gasnet_putv_bulk(gasnet_node_t dstnode, size_t dstcount,
                                 gasnet_memvec_t const dstlist[], size_t srccount,
                                 gasnet_memvec_t const srclist[])
{
    (void)gex_VIS_VectorPutBlocking(aqg_world, dstnode, dstcount, aqg_memvec(dstlist), srccount,
                                    aqg_memvec(srclist), 0);
}

AQG_MUST_USE AQG_INLINE gasnet_handle_t gasnet_putv_nb_bulk(gasnet_node_t dstnode, size_t dstcount,
                                                            gasnet_memvec_t const dstlist[],
                                                            size_t srccount,
                                                            gasnet_memvec_t const srclist[])
{
    return gex_VIS_VectorPutNB(aqg_world, dstnode, dstcount, aqg_memvec(dstlist), srccount,
                               aqg_memvec(srclist), 0);
}

AQG_INLINE void gasnet_putv_nbi_bulk(gasnet_node_t dstnode, size_t dstcount,
                                     gasnet_memvec_t const dstlist[], size_t srccount,
                                     gasnet_memvec_t const srclist[])
{
    (void)gex_VIS_VectorPutNBI(aqg_world, dstnode, dstcount, aqg_memvec(dstlist), srccount,
                               aqg_memvec(srclist), 0);
}

AQG_INLINE void gasnet_getv_bulk(size_t dstcount, gasnet_memvec_t const dstlist[],
                                 gasnet_node_t srcnode, size_t srccount,
                                 gasnet_memvec_t const srclist[])
{
    (void)gex_VIS_VectorGetBlocking(aqg_world, dstcount, aqg_memvec(dstlist), srcnode, srccount,
                                    aqg_memvec(srclist), 0);
}

AQG_MUST_USE AQG_INLINE gasnet_handle_t gasnet_getv_nb_bulk(size_t dstcount,
                                                            gasnet_memvec_t const dstlist[],
                                                            gasnet_node_t srcnode, size_t srccount,
                                                            gasnet_memvec_t const srclist[])
{
    return gex_VIS_VectorGetNB(aqg_world, dstcount, aqg_memvec(dstlist), srcnode, srccount,
                               aqg_memvec(srclist), 0);
}

AQG_INLINE void gasnet_getv_nbi_bulk(size_t dstcount, gasnet_memvec_t const dstlist[],
                                     gasnet_node_t srcnode, size_t srccount,
                                     gasnet_memvec_t const srclist[])
{
    (void)gex_VIS_VectorGetNBI(aqg_world, dstcount, aqg_memvec(dstlist), srcnode, srccount,
                               aqg_memvec(srclist), 0);
}

AQG_INLINE void gasnet_puti_bulk(gasnet_node_t dstnode, size_t dstcount, void *const dstlist[],
                                 size_t dstlen, size_t srccount, void *const srclist[],
                                 size_t srclen)
{
    (void)gex_VIS_IndexedPutBlocking(aqg_world, dstnode, dstcount, dstlist, dstlen, srccount,
                                     srclist, srclen, 0);
}

AQG_MUST_USE AQG_INLINE gasnet_handle_t gasnet_puti_nb_bulk(gasnet_node_t dstnode, size_t dstcount,
                                                            void *const dstlist[], size_t dstlen,
                                                            size_t srccount, void *const srclist[],
                                                            size_t srclen)
{
    return gex_VIS_IndexedPutNB(aqg_world, dstnode, dstcount, dstlist, dstlen, srccount, srclist,
                                srclen, 0);
}

AQG_INLINE void gasnet_puti_nbi_bulk(gasnet_node_t dstnode, size_t dstcount, void *const dstlist[],
                                     size_t dstlen, size_t srccount, void *const srclist[],
                                     size_t srclen)
{
    (void)gex_VIS_IndexedPutNBI(aqg_world, dstnode, dstcount, dstlist, dstlen, srccount, srclist,
                                srclen, 0);
}

AQG_INLINE void gasnet_geti_bulk(size_t dstcount, void *const dstlist[], size_t dstlen,
                                 gasnet_node_t srcnode, size_t srccount, void *const srclist[],
                                 size_t srclen)
{
    (void)gex_VIS_IndexedGetBlocking(aqg_world, dstcount, dstlist, dstlen, srcnode, srccount,
                                     srclist, srclen, 0);
}

AQG_MUST_USE AQG_INLINE gasnet_handle_t gasnet_geti_nb_bulk(size_t dstcount, void *const dstlist[],
                                                            size_t dstlen, gasnet_node_t srcnode,
                                                            size_t srccount, void *const srclist[],
                                                            size_t srclen)
{
    return gex_VIS_IndexedGetNB(aqg_world, dstcount, dstlist, dstlen, srcnode, srccount, srclist,
                                srclen, 0);
}

AQG_INLINE void gasnet_geti_nbi_bulk(size_t dstcount, void *const dstlist[], size_t dstlen,
                                     gasnet_node_t srcnode, size_t srccount, void *const srclist[],
                                     size_t srclen)
{
    (void)gex_VIS_IndexedGetNBI(aqg_world, dstcount, dstlist, dstlen, srcnode, srccount, srclist,
                                srclen, 0);
}

AQG_INLINE void gasnet_puts_bulk(gasnet_node_t dstnode, void *dstaddr, const size_t dststrides[],
                                 void *srcaddr, const size_t srcstrides[], const size_t count[],
                                 size_t stridelevels)
{
    (void)gex_VIS_StridedPutBlocking(aqg_world, dstnode, dstaddr, aqg_strides(dststrides), srcaddr,
                                     aqg_strides(srcstrides), count[0], count + 1, stridelevels, 0);
}

AQG_MUST_USE AQG_INLINE gasnet_handle_t
gasnet_puts_nb_bulk(gasnet_node_t dstnode, void *dstaddr, const size_t dststrides[], void *srcaddr,
                    const size_t srcstrides[], const size_t count[], size_t stridelevels)
{
    return gex_VIS_StridedPutNB(aqg_world, dstnode, dstaddr, aqg_strides(dststrides), srcaddr,
                                aqg_strides(srcstrides), count[0], count + 1, stridelevels, 0);
}

AQG_INLINE void gasnet_puts_nbi_bulk(gasnet_node_t dstnode, void *dstaddr,
                                     const size_t dststrides[], void *srcaddr,
                                     const size_t srcstrides[], const size_t count[],
                                     size_t stridelevels)
{
    (void)gex_VIS_StridedPutNBI(aqg_world, dstnode, dstaddr, aqg_strides(dststrides), srcaddr,
                                aqg_strides(srcstrides), count[0], count + 1, stridelevels, 0);
}

AQG_INLINE void gasnet_gets_bulk(void *dstaddr, const size_t dststrides[], gasnet_node_t srcnode,
                                 void *srcaddr, const size_t srcstrides[], const size_t count[],
                                 size_t stridelevels)
{
    (void)gex_VIS_StridedGetBlocking(aqg_world, dstaddr, aqg_strides(dststrides), srcnode, srcaddr,
                                     aqg_strides(srcstrides), count[0], count + 1, stridelevels, 0);
}

AQG_MUST_USE AQG_INLINE gasnet_handle_t
gasnet_gets_nb_bulk(void *dstaddr, const size_t dststrides[], gasnet_node_t srcnode, void *srcaddr,
                    const size_t srcstrides[], const size_t count[], size_t stridelevels)
{
    return gex_VIS_StridedGetNB(aqg_world, dstaddr, aqg_strides(dststrides), srcnode, srcaddr,
                                aqg_strides(srcstrides), count[0], count + 1, stridelevels, 0);
}

AQG_INLINE void gasnet_gets_nbi_bulk(void *dstaddr, const size_t dststrides[],
                                     gasnet_node_t srcnode, void *srcaddr,
                                     const size_t srcstrides[], const size_t count[],
                                     size_t stridelevels)
{
    (void)gex_VIS_StridedGetNBI(aqg_world, dstaddr, aqg_strides(dststrides), srcnode, srcaddr,
                                aqg_strides(srcstrides), count[0], count + 1, stridelevels, 0);
}

AQG_END

#endif
