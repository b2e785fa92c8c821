/*
 * Constants and plain types of GASNet-EX that clients may use in their own headers: this header
 * needs no mode macro and declares only types. Flags that can be used in the same call have
 * different bits; see the groups.
 */
#ifndef GEX_FWD_H
#define GEX_FWD_H

#include <stdint.h>

typedef uint32_t gex_Rank_t;
typedef uint16_t gex_EP_Index_t;
typedef uint32_t gex_Flags_t;
typedef uint32_t gex_EP_Capabilities_t;
typedef uint32_t gex_DT_t;
typedef uint32_t gex_OP_t;
typedef void *gex_Addr_t;
typedef struct aqg_event *gex_Event_t; /* an aq_event; the structure is never defined */

typedef struct {
    gex_Rank_t gex_rank;
    gex_EP_Index_t gex_ep_index;
} gex_EP_Location_t;

#define GEX_RANK_INVALID ((gex_Rank_t)0xFFFFFFFFu)

#define GEX_EVENT_INVALID ((gex_Event_t)(uintptr_t)0)
#define GEX_EVENT_NO_OP   ((gex_Event_t)(uintptr_t)1)
#define GEX_EVENT_NOW     ((gex_Event_t *)(uintptr_t)1)
#define GEX_EVENT_DEFER   ((gex_Event_t *)(uintptr_t)2)
#define GEX_EVENT_GROUP   ((gex_Event_t *)(uintptr_t)3)

/* Communication. (PEER_NEVER_NBRHD is bit 9, PEER_NEVER_SELF bit 10.) */
#define GEX_FLAG_IMMEDIATE               (1U << 0)
#define GEX_FLAG_SELF_SEG_UNKNOWN        (1U << 1)
#define GEX_FLAG_SELF_SEG_SOME           (1U << 2)
#define GEX_FLAG_SELF_SEG_BOUND          (1U << 3)
#define GEX_FLAG_SELF_SEG_OFFSET         (1U << 4)
#define GEX_FLAG_PEER_SEG_UNKNOWN        (1U << 5)
#define GEX_FLAG_PEER_SEG_SOME           (1U << 6)
#define GEX_FLAG_PEER_SEG_BOUND          (1U << 7)
#define GEX_FLAG_PEER_SEG_OFFSET         (1U << 8)
#define GEX_FLAG_PEER_NEVER_NBRHD        (1U << 9)
#define GEX_FLAG_PEER_NEVER_SELF         (1U << 10)
#define GEX_FLAG_AM_PREPARE_LEAST_CLIENT (1U << 11)
#define GEX_FLAG_AM_PREPARE_LEAST_ALLOC  (1U << 12)
#define GEX_FLAG_AD_MY_RANK              (1U << 13)
#define GEX_FLAG_AD_MY_NBRHD             (1U << 14)
#define GEX_FLAG_AD_ACQ                  (1U << 15)
#define GEX_FLAG_AD_REL                  (1U << 16)
#define GEX_FLAG_RANK_IS_JOBRANK         (1U << 17)
#define GEX_FLAG_ENABLE_LEAF_LC          (1U << 18)
/* Declared but without effect; distinct from the flags above and from those of a client. */
#define GEX_FLAG_LC_COPY_YES (1U << 30)
#define GEX_FLAG_LC_COPY_NO  (1U << 31)

/* Creation of atomic domains. */
#define GEX_FLAG_AD_FAVOR_MY_RANK  (1U << 19)
#define GEX_FLAG_AD_FAVOR_MY_NBRHD (1U << 20)
#define GEX_FLAG_AD_FAVOR_REMOTE   (1U << 21)

/* Teams. */
#define GEX_FLAG_TM_SCRATCH_SIZE_MIN         (1U << 22)
#define GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED (1U << 23)
#define GEX_FLAG_TM_GLOBAL_SCRATCH           (1U << 24)
#define GEX_FLAG_TM_LOCAL_SCRATCH            (1U << 25)
#define GEX_FLAG_TM_SYMMETRIC_SCRATCH        (1U << 26)
#define GEX_FLAG_TM_NO_SCRATCH               (1U << 27)
#define GEX_FLAG_SCRATCH_SEG_OFFSET          (1U << 28)
#define GEX_FLAG_GLOBALLY_QUIESCED           (1U << 29)

/* Client. */
#define GEX_FLAG_USES_GASNET1  (1U << 30)
#define GEX_FLAG_DEFER_THREADS (1U << 31)

/* Handler tables: the same bits as AQ_AM_SHORT etc. */
#define GEX_FLAG_AM_SHORT   (1U << 0)
#define GEX_FLAG_AM_MEDIUM  (1U << 1)
#define GEX_FLAG_AM_LONG    (1U << 2)
#define GEX_FLAG_AM_MEDLONG (GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_LONG)
#define GEX_FLAG_AM_REQUEST (1U << 3)
#define GEX_FLAG_AM_REPLY   (1U << 4)
#define GEX_FLAG_AM_REQREP  (GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_REPLY)

/* Endpoints. */
#define GEX_FLAG_HINT_ACCEL_AD   (1U << 0)
#define GEX_FLAG_HINT_ACCEL_COLL (1U << 1)
#define GEX_FLAG_HINT_ACCEL_ALL  (GEX_FLAG_HINT_ACCEL_AD | GEX_FLAG_HINT_ACCEL_COLL)

#define GEX_EP_CAPABILITY_RMA  (1U << 0)
#define GEX_EP_CAPABILITY_AM   (1U << 1)
#define GEX_EP_CAPABILITY_VIS  (1U << 2)
#define GEX_EP_CAPABILITY_COLL (1U << 3)
#define GEX_EP_CAPABILITY_AD   (1U << 4)
#define GEX_EP_CAPABILITY_ALL                                                                      \
    (GEX_EP_CAPABILITY_RMA | GEX_EP_CAPABILITY_AM | GEX_EP_CAPABILITY_VIS |                        \
     GEX_EP_CAPABILITY_COLL | GEX_EP_CAPABILITY_AD)

#define GEX_DT_I32  (1 << 0)
#define GEX_DT_U32  (1 << 1)
#define GEX_DT_I64  (1 << 2)
#define GEX_DT_U64  (1 << 3)
#define GEX_DT_FLT  (1 << 4)
#define GEX_DT_DBL  (1 << 5)
#define GEX_DT_USER (1 << 6)

/* The fetching variant of an operation is 12 bits above it. */
#define GEX_OP_AND     (1 << 0)
#define GEX_OP_OR      (1 << 1)
#define GEX_OP_XOR     (1 << 2)
#define GEX_OP_ADD     (1 << 3)
#define GEX_OP_SUB     (1 << 4)
#define GEX_OP_MULT    (1 << 5)
#define GEX_OP_MIN     (1 << 6)
#define GEX_OP_MAX     (1 << 7)
#define GEX_OP_INC     (1 << 8)
#define GEX_OP_DEC     (1 << 9)
#define GEX_OP_SET     (1 << 10)
#define GEX_OP_CAS     (1 << 11)
#define GEX_OP_FAND    (GEX_OP_AND << 12)
#define GEX_OP_FOR     (GEX_OP_OR << 12)
#define GEX_OP_FXOR    (GEX_OP_XOR << 12)
#define GEX_OP_FADD    (GEX_OP_ADD << 12)
#define GEX_OP_FSUB    (GEX_OP_SUB << 12)
#define GEX_OP_FMULT   (GEX_OP_MULT << 12)
#define GEX_OP_FMIN    (GEX_OP_MIN << 12)
#define GEX_OP_FMAX    (GEX_OP_MAX << 12)
#define GEX_OP_FINC    (GEX_OP_INC << 12)
#define GEX_OP_FDEC    (GEX_OP_DEC << 12)
#define GEX_OP_SWAP    (GEX_OP_SET << 12)
#define GEX_OP_FCAS    (GEX_OP_CAS << 12)
#define GEX_OP_CSWAP   GEX_OP_FCAS
#define GEX_OP_GET     (1 << 24)
#define GEX_OP_USER    (1 << 25)
#define GEX_OP_USER_NC (1 << 26)

#define GEX_OP_TO_FETCHING(op)    ((op) << 12)
#define GEX_OP_TO_NONFETCHING(op) ((op) >> 12)

#endif
