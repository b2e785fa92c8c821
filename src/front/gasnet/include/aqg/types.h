/*
 * Handles, structures and constants of GASNet-EX, and the data that inline calls of other headers
 * read: the mappings of segments, by endpoint index.
 */
#ifndef AQG_TYPES_H
#define AQG_TYPES_H

#include <aqg/config.h>
#include <gasnet_fwd.h>

AQG_BEGIN

typedef struct aqg_client *gex_Client_t;
typedef struct aqg_ep *gex_EP_t;
typedef struct aqg_tm *gex_TM_t;
typedef struct aqg_segment *gex_Segment_t;
typedef struct aqg_mk *gex_MK_t;
typedef struct aqg_ad *gex_AD_t;
typedef struct aqg_token *gex_Token_t; /* an aq_am */
typedef struct aqg_srcdesc *gex_AM_SrcDesc_t;

#define GEX_CLIENT_INVALID   ((gex_Client_t)(uintptr_t)0)
#define GEX_EP_INVALID       ((gex_EP_t)(uintptr_t)0)
#define GEX_TM_INVALID       ((gex_TM_t)(uintptr_t)0)
#define GEX_SEGMENT_INVALID  ((gex_Segment_t)(uintptr_t)0)
#define GEX_MK_INVALID       ((gex_MK_t)(uintptr_t)0)
#define GEX_MK_HOST          ((gex_MK_t)(uintptr_t)1)
#define GEX_AM_SRCDESC_NO_OP ((gex_AM_SrcDesc_t)(uintptr_t)0)

/* The calls that all objects have: flags, and the client's data. */
#define AQG_OBJECT(prefix, T)                                                                      \
    gex_Flags_t prefix##_QueryFlags(T object);                                                     \
    void prefix##_SetCData(T object, const void *val);                                             \
    void *prefix##_QueryCData(T object);

typedef unsigned int gex_TI_t;
typedef unsigned int gex_EC_t;
typedef uint8_t gex_AM_Index_t;
typedef int32_t gex_AM_Arg_t;
#if !defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#endif
typedef void (*gex_AM_Fn_t)(); /* with any arguments, in C; clients cast */
#if !defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
typedef uint64_t gex_RMA_Value_t;

typedef struct {
    void *gex_addr;
    size_t gex_len;
} gex_Memvec_t;

typedef struct {
    gex_AM_Index_t gex_index;
    gex_AM_Fn_t gex_fnptr;
    gex_Flags_t gex_flags;
    unsigned int gex_nargs;
    const void *gex_cdata;
    const char *gex_name;
} gex_AM_Entry_t;

typedef struct {
    gex_Rank_t gex_srcrank;
    gex_EP_t gex_ep;
    const gex_AM_Entry_t *gex_entry;
    int gex_is_req;
    int gex_is_long;
} gex_Token_Info_t;

typedef const struct {
    gex_Rank_t gex_jobrank;
} gex_RankInfo_t;

#define GEX_AM_INDEX_BASE 65 /* 64 is used by the library */

#define GEX_TI_SRCRANK 1U
#define GEX_TI_EP      2U
#define GEX_TI_ENTRY   4U
#define GEX_TI_IS_REQ  8U
#define GEX_TI_IS_LONG 16U
#define GEX_TI_ALL     31U

/* The same bits as AQ_NBI_…; the sources of puts and of messages are one category. */
#define GEX_EC_PUT 1U
#define GEX_EC_GET 2U
#define GEX_EC_RMW 4U
#define GEX_EC_LC  8U
#define GEX_EC_AM  8U
#define GEX_EC_ALL 15U

#define GASNET_OK                   0
#define GASNET_ERR_NOT_INIT         10001
#define GASNET_ERR_RESOURCE         10002
#define GASNET_ERR_BAD_ARG          10003
#define GASNET_ERR_NOT_READY        10004
#define GASNET_ERR_BARRIER_MISMATCH 10005

/* The mapping of a segment: [base, base + size) in its owner is [base + delta, ...) here. */
struct aqg_reach {
    uintptr_t base;
    uintptr_t size; /* 0: no segment, or not mapped here */
    uintptr_t delta;
};

/* The fields of a team used by inline calls. Private fields of the library follow. */
struct aqg_tm {
    const struct aqg_reach *reach; /* by job rank, of the members' endpoints */
    const gex_Rank_t *map;         /* job ranks of the members; NULL: identical to the ranks */
    gex_Rank_t rank, size;
    gex_Rank_t plain; /* ranks below this are job ranks: `size` without a map, else 0 */
};

/* The primordial team, used by the calls of GASNet-1. NULL before initialization. */
extern struct aqg_tm *aqg_world;

/* The address at which [addr, addr + len) of `rank` is mapped here; NULL: not mapped. */
AQG_INLINE void *aqg_mapped(const struct aqg_tm *tm, gex_Rank_t rank, const void *addr, size_t len)
{
    const struct aqg_reach *reach;
    uintptr_t offset;
    void *at;
    if (AQG_LIKELY(rank < tm->plain))
        reach = &tm->reach[rank];
    else if (rank < tm->size)
        reach = &tm->reach[tm->map[rank]];
    else
        return NULL;
    offset = (uintptr_t)addr - reach->base;
    if (AQG_UNLIKELY(offset >= reach->size || len > reach->size - offset)) return NULL;
    at = (void *)((uintptr_t)addr + reach->delta);
    if (at == NULL) __builtin_unreachable(); /* callers need not check */
    return at;
}

AQG_END

#endif
