/*
 * Values that clients depend on across binaries, widths of types, and bits of flags that must be
 * distinct, all checked at compile time in C and C++.
 */
#include <gasnet.h>
#include <gasnetex.h>

#include <gasnet_coll.h>
#include <gasnet_mk.h>
#include <gasnet_ratomic.h>
#include <gasnet_tools.h>
#include <gasnet_vis.h>

#include <stdio.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define MUST(condition)                                                                            \
    extern char JOIN(constants_check_, __LINE__)[(condition) ? 1 : -1] __attribute__((unused))

/* Values. */
MUST(GASNET_OK == 0);
MUST(GASNET_ERR_NOT_READY == 10004);
MUST(GEX_FLAG_IMMEDIATE == 1U << 0);
MUST(GEX_FLAG_AM_PREPARE_LEAST_CLIENT == 1U << 11);
MUST(GEX_FLAG_AM_PREPARE_LEAST_ALLOC == 1U << 12);
MUST(GEX_EP_CAPABILITY_RMA == 1U << 0);
MUST(GEX_DT_U64 == 1 << 3);
MUST(GEX_OP_ADD == 1 << 3);
MUST(10000 * GASNET_RELEASE_VERSION_MAJOR + 100 * GASNET_RELEASE_VERSION_MINOR +
         GASNET_RELEASE_VERSION_PATCH >=
     20210803);
MUST(GEX_SPEC_VERSION_MAJOR == 0 && GEX_SPEC_VERSION_MINOR == 19);
MUST(GASNET_SPEC_VERSION_MAJOR == 1 && GASNET_SPEC_VERSION_MINOR == 8 && GASNET_VERSION == 1);
MUST(GASNETT_SPEC_VERSION_MAJOR == 1 && GASNETT_SPEC_VERSION_MINOR == 20);
MUST(GASNET_SUPPORTS_AM_CANCEL == 20240418L && GASNET_SUPPORTS_AM_COMMIT_V2 == 20240906L);
MUST(GEX_AM_INDEX_BASE <= 128 && GEX_VIS_MAX_PEERCOMPLETION >= 127);
MUST((GASNET_PAGESIZE & (GASNET_PAGESIZE - 1)) == 0 && GASNETT_PAGESIZE == GASNET_PAGESIZE);
MUST(GASNET_MAXEPS >= 1 && GASNETT_MAX_THREADS >= 1);

/* Widths and signs. */
#define UNSIGNED(T) ((T)-1 > 0)
MUST(sizeof(gex_Flags_t) == 4 && UNSIGNED(gex_Flags_t));
MUST(sizeof(gex_Rank_t) == 4 && UNSIGNED(gex_Rank_t));
MUST(sizeof(gex_DT_t) == 4 && UNSIGNED(gex_DT_t));
MUST(sizeof(gex_OP_t) == 4 && UNSIGNED(gex_OP_t));
MUST(sizeof(gex_EP_Capabilities_t) == 4 && UNSIGNED(gex_EP_Capabilities_t));
MUST(sizeof(gex_EP_Index_t) == 2 && UNSIGNED(gex_EP_Index_t));
MUST(sizeof(gex_AM_Arg_t) == 4 && !UNSIGNED(gex_AM_Arg_t));
MUST(sizeof(gex_AM_Index_t) == 1);
MUST(sizeof(gex_RMA_Value_t) == SIZEOF_GEX_RMA_VALUE_T && UNSIGNED(gex_RMA_Value_t));
MUST(sizeof(gex_RMA_Value_t) >= sizeof(long) && sizeof(gex_RMA_Value_t) >= sizeof(void *));
MUST(sizeof(gasnet_register_value_t) == SIZEOF_GASNET_REGISTER_VALUE_T);
MUST(sizeof(gasnett_tick_t) == 8 && UNSIGNED(gasnett_tick_t));
MUST(sizeof(gasnett_atomic_sval_t) == sizeof(gasnett_atomic_val_t));
MUST(sizeof(GEX_CLIENT_INVALID) == sizeof(gex_Client_t) && sizeof(gex_Client_t) == sizeof(void *));
MUST(sizeof(GEX_EP_INVALID) == sizeof(gex_EP_t) && sizeof(gex_EP_t) == sizeof(void *));
MUST(sizeof(GEX_TM_INVALID) == sizeof(gex_TM_t) && sizeof(gex_TM_t) == sizeof(void *));
MUST(sizeof(GEX_SEGMENT_INVALID) == sizeof(gex_Segment_t));
MUST(sizeof(GEX_MK_INVALID) == sizeof(gex_MK_t) && sizeof(GEX_AD_INVALID) == sizeof(gex_AD_t));
MUST(sizeof(GEX_EVENT_INVALID) == sizeof(gex_Event_t) && sizeof(gex_Event_t) == sizeof(void *));
MUST(GEX_RANK_INVALID > 0xFFFFFF);
MUST(offsetof(gasnet_seginfo_t, addr) == 0 && offsetof(gasnet_handlerentry_t, index) == 0);
MUST(offsetof(gex_Memvec_t, gex_len) == offsetof(gasnet_memvec_t, len));
MUST(sizeof(gex_Memvec_t) == sizeof(gasnet_memvec_t));
MUST(offsetof(gex_MK_Create_args_t, gex_flags) == 0);

/* Flags that one call may combine: the sum of distinct bits equals their union. */
#define SEGS                                                                                       \
    (GEX_FLAG_SELF_SEG_UNKNOWN | GEX_FLAG_SELF_SEG_SOME | GEX_FLAG_SELF_SEG_BOUND |                \
     GEX_FLAG_SELF_SEG_OFFSET | GEX_FLAG_PEER_SEG_UNKNOWN | GEX_FLAG_PEER_SEG_SOME |               \
     GEX_FLAG_PEER_SEG_BOUND | GEX_FLAG_PEER_SEG_OFFSET)
#define COMMUNICATION                                                                              \
    (GEX_FLAG_IMMEDIATE | SEGS | GEX_FLAG_PEER_NEVER_NBRHD | GEX_FLAG_PEER_NEVER_SELF)
#define BITS(x) __builtin_popcount(x)
#if GEX_FLAG_PEER_NEVER_SELF == GEX_FLAG_PEER_NEVER_NBRHD
MUST(BITS(COMMUNICATION) == 10);
#else
MUST(BITS(COMMUNICATION) == 11);
#endif
#define ATOMICS                                                                                    \
    (GEX_FLAG_AD_MY_RANK | GEX_FLAG_AD_MY_NBRHD | GEX_FLAG_AD_ACQ | GEX_FLAG_AD_REL |              \
     GEX_FLAG_RANK_IS_JOBRANK)
MUST(BITS(ATOMICS) == 5 && (ATOMICS & COMMUNICATION) == 0);
MUST(BITS(GEX_FLAG_ENABLE_LEAF_LC) == 1 && (GEX_FLAG_ENABLE_LEAF_LC & COMMUNICATION) == 0);
MUST(BITS(GEX_FLAG_AM_PREPARE_LEAST_CLIENT | GEX_FLAG_AM_PREPARE_LEAST_ALLOC) == 2);
MUST(BITS(GEX_FLAG_AD_FAVOR_MY_RANK | GEX_FLAG_AD_FAVOR_MY_NBRHD | GEX_FLAG_AD_FAVOR_REMOTE) == 3);
MUST(BITS(GEX_FLAG_AM_SHORT | GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST |
          GEX_FLAG_AM_REPLY) == 5);
MUST(GEX_FLAG_AM_MEDLONG == (GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_LONG));
MUST(GEX_FLAG_AM_REQREP == (GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_REPLY));
MUST(BITS(GEX_FLAG_TM_SCRATCH_SIZE_MIN | GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED |
          GEX_FLAG_TM_GLOBAL_SCRATCH | GEX_FLAG_TM_LOCAL_SCRATCH | GEX_FLAG_TM_SYMMETRIC_SCRATCH |
          GEX_FLAG_TM_NO_SCRATCH | GEX_FLAG_SCRATCH_SEG_OFFSET) == 7);
MUST(BITS(GEX_FLAG_USES_GASNET1 | GEX_FLAG_DEFER_THREADS) == 2);
MUST(GEX_FLAG_GLOBALLY_QUIESCED != 0 && GEX_FLAG_LC_COPY_YES != 0 && GEX_FLAG_LC_COPY_NO != 0);
MUST((GEX_FLAG_HINT_ACCEL_ALL & (GEX_FLAG_HINT_ACCEL_AD | GEX_FLAG_HINT_ACCEL_COLL)) ==
     (GEX_FLAG_HINT_ACCEL_AD | GEX_FLAG_HINT_ACCEL_COLL));
#define CAPABILITIES                                                                               \
    (GEX_EP_CAPABILITY_RMA | GEX_EP_CAPABILITY_AM | GEX_EP_CAPABILITY_VIS |                        \
     GEX_EP_CAPABILITY_COLL | GEX_EP_CAPABILITY_AD)
MUST(BITS(CAPABILITIES) == 5 && (GEX_EP_CAPABILITY_ALL & CAPABILITIES) == CAPABILITIES);
#define CATEGORIES (GEX_EC_GET | GEX_EC_PUT | GEX_EC_AM | GEX_EC_LC | GEX_EC_RMW)
MUST((GEX_EC_ALL & CATEGORIES) == CATEGORIES && BITS(GEX_EC_GET | GEX_EC_PUT | GEX_EC_RMW) >= 3);
#define TOKENS (GEX_TI_SRCRANK | GEX_TI_EP | GEX_TI_ENTRY | GEX_TI_IS_REQ | GEX_TI_IS_LONG)
MUST(BITS(TOKENS) == 5 && (GEX_TI_ALL & TOKENS) == TOKENS);
MUST(BITS(GEX_THREAD_ROLE_RCV | GEX_THREAD_ROLE_SND) == 2);
MUST(BITS(GASNET_BARRIERFLAG_ANONYMOUS | GASNET_BARRIERFLAG_MISMATCH) == 2);
MUST((GASNET_BARRIERFLAG_UNNAMED & GASNET_BARRIERFLAG_ANONYMOUS) != 0);

/* Data types and operations. */
MUST(BITS(GEX_DT_I32 | GEX_DT_U32 | GEX_DT_I64 | GEX_DT_U64 | GEX_DT_FLT | GEX_DT_DBL |
          GEX_DT_USER) == 7);
#define PLAIN                                                                                      \
    (GEX_OP_ADD | GEX_OP_MULT | GEX_OP_MIN | GEX_OP_MAX | GEX_OP_SUB | GEX_OP_INC | GEX_OP_DEC |   \
     GEX_OP_AND | GEX_OP_OR | GEX_OP_XOR | GEX_OP_SET | GEX_OP_CAS)
#define FETCHING                                                                                   \
    (GEX_OP_FADD | GEX_OP_FMULT | GEX_OP_FMIN | GEX_OP_FMAX | GEX_OP_FSUB | GEX_OP_FINC |          \
     GEX_OP_FDEC | GEX_OP_FAND | GEX_OP_FOR | GEX_OP_FXOR | GEX_OP_SWAP | GEX_OP_FCAS)
MUST(BITS(PLAIN) == 12 && BITS(FETCHING) == 12 && (PLAIN & FETCHING) == 0);
MUST(BITS(PLAIN | FETCHING | GEX_OP_GET | GEX_OP_USER | GEX_OP_USER_NC) == 27);
MUST(GEX_OP_CSWAP == GEX_OP_FCAS);
MUST(GEX_OP_TO_FETCHING(GEX_OP_ADD) == GEX_OP_FADD &&
     GEX_OP_TO_NONFETCHING(GEX_OP_FADD) == GEX_OP_ADD);
MUST(GEX_OP_TO_FETCHING(GEX_OP_SET) == GEX_OP_SWAP &&
     GEX_OP_TO_NONFETCHING(GEX_OP_SWAP) == GEX_OP_SET);
MUST(GEX_OP_TO_FETCHING(GEX_OP_CAS) == GEX_OP_FCAS &&
     GEX_OP_TO_NONFETCHING(GEX_OP_FCAS) == GEX_OP_CAS);

/* Exactly one of each. */
#if defined(GASNET_CONDUIT_SMP) + defined(GASNET_CONDUIT_UDP) + defined(GASNET_CONDUIT_IBV) +      \
        defined(GASNET_CONDUIT_OFI) + defined(GASNET_CONDUIT_MPI) + defined(GASNET_CONDUIT_UCX) != \
    1
#error not one network
#endif
#if defined(GASNET_SEQ) + defined(GASNET_PAR) + defined(GASNET_PARSYNC) != 1
#error not one threading mode
#endif
#if defined(GASNET_SEGMENT_FAST) + defined(GASNET_SEGMENT_LARGE) +                                 \
        defined(GASNET_SEGMENT_EVERYTHING) !=                                                      \
    1
#error not one segment mode
#endif
#if defined(GASNET_DEBUG) + defined(GASNET_NDEBUG) != 1
#error both or neither of debug and not
#endif
#if !defined(_INCLUDED_GASNET_H) || !defined(_INCLUDED_GASNETEX_H) || !defined(_GASNETEX_H)
#error a mark of a header is missing
#endif

int main(void)
{
    static gex_Event_t *const kinds[] = {GEX_EVENT_NOW, GEX_EVENT_DEFER, GEX_EVENT_GROUP};
    int i, wrong = 0;
    for (i = 0; i < 3; i++)
        wrong += (uintptr_t)kinds[i] != (uintptr_t)i + 1;
    wrong += GEX_EVENT_INVALID != NULL || (uintptr_t)GEX_EVENT_NO_OP != 1;
    wrong += GEX_MK_INVALID != NULL || (uintptr_t)GEX_MK_HOST != 1;
    wrong += GEX_AM_SRCDESC_NO_OP != NULL || GEX_TM_INVALID != NULL || GEX_AD_INVALID != NULL;
    if (wrong != 0) fprintf(stderr, "%d constants of pointer type are wrong\n", wrong);
    return wrong != 0;
}
