/* Vector, indexed and strided transfers: Aqueduct's own, by GASNet's names. */
#include "aqg.h"

#include <gasnet_vis.h>

static_assert(sizeof(gex_Memvec_t) == sizeof(aq_vec) &&
                  offsetof(gex_Memvec_t, gex_addr) == offsetof(aq_vec, addr) &&
                  offsetof(gex_Memvec_t, gex_len) == offsetof(aq_vec, len),
              "one layout for both");

static const aq_vec *vec(gex_Memvec_t const *list)
{
    return (const aq_vec *)(const void *)list;
}

/* --- completion at the peer ------------------------------------------------------------------- */

/* What this thread's next put is to start at its target when it is complete. */
static __thread struct {
    gex_AM_Index_t handler; /* 0: nothing */
    const void *src;
    size_t nbytes;
} armed;

void gex_VIS_SetPeerCompletionHandler(gex_AM_Index_t handler, const void *src, size_t nbytes,
                                      gex_Flags_t flags)
{
    static const char call[] = "gex_VIS_SetPeerCompletionHandler";
    (void)flags;
    if (nbytes > GEX_VIS_MAX_PEERCOMPLETION)
        aqgi_die("%s: %zu bytes; at most %d travel with a completion", call, nbytes,
                 GEX_VIS_MAX_PEERCOMPLETION);
    if (handler != 0 && handler < GEX_AM_INDEX_BASE)
        aqgi_die("%s: handler %u is not the client's", call, (unsigned)handler);
    armed.handler = handler;
    armed.src = src;
    armed.nbytes = nbytes;
}

/* The put is complete: so this message cannot be there before its data. */
static void tell(const char *call, aq_status st, gex_TM_t tm, gex_Rank_t rank)
{
    aqgi_done(call, st);
    const aq_arg handler = armed.handler;
    armed.handler = 0;
    aqgi_done(call, aq_am_medium(aqgi_aq(tm), rank, AQGI_COMPLETION, armed.src, armed.nbytes,
                                 &handler, 1, 0, NULL));
}

static void on_completion(aq_am *am)
{
    gex_AM_Index_t index = (gex_AM_Index_t)am->args[0];
    if (!aqgi_deliver_reply(am, index))
        aqgi_die("rank %u completes a put with handler %u, which is not registered here",
                 (unsigned)am->source, (unsigned)index);
}

aq_status aqgi_vis_open(gex_EP_t ep)
{
    aq_handler_entry row = {.index = AQGI_COMPLETION,
                            .nargs = 1,
                            .accepts = AQ_AM_MEDIUM | AQ_AM_REQUEST,
                            .fn = on_completion,
                            .name = "put completion"};
    return aq_am_register(ep->aq, &row, 1);
}

/* --- transfers -------------------------------------------------------------------------------- */

/*
 * The three forms of one transfer; IN are its parameters, the rest the same as Aqueduct takes them.
 * Its sources become free as those of an implicit or explicit put: with the leaf or AQ_NBI_LOCAL.
 * A put that is to be told of, IS_ARMED, is waited for in each form.
 */
#define FORMS(NAME, CALL, IS_ARMED, PEER, IN, ...)                                                 \
    gex_Event_t gex_VIS_##NAME##NB IN                                                              \
    {                                                                                              \
        static const char call[] = "gex_VIS_" #NAME "NB";                                          \
        aq_event event = AQ_EVENT_DONE;                                                            \
        if (IS_ARMED) {                                                                            \
            tell(call, CALL(__VA_ARGS__, 0), tm, PEER);                                            \
            return GEX_EVENT_INVALID;                                                              \
        }                                                                                          \
        aq_status st = CALL##_nb(__VA_ARGS__, aqgi_immediate(flags), &event);                      \
        return aqgi_started_nb(call, st, event);                                                   \
    }                                                                                              \
    int gex_VIS_##NAME##NBI IN                                                                     \
    {                                                                                              \
        static const char call[] = "gex_VIS_" #NAME "NBI";                                         \
        if (IS_ARMED) {                                                                            \
            tell(call, CALL(__VA_ARGS__, 0), tm, PEER);                                            \
            return 0;                                                                              \
        }                                                                                          \
        return aqgi_started(call, CALL##_nbi(__VA_ARGS__, aqgi_immediate(flags)));                 \
    }                                                                                              \
    int gex_VIS_##NAME##Blocking IN                                                                \
    {                                                                                              \
        static const char call[] = "gex_VIS_" #NAME "Blocking";                                    \
        if (IS_ARMED) {                                                                            \
            tell(call, CALL(__VA_ARGS__, 0), tm, PEER);                                            \
            return 0;                                                                              \
        }                                                                                          \
        return aqgi_started(call, CALL(__VA_ARGS__, aqgi_immediate(flags)));                       \
    }

FORMS(VectorPut, aq_put_vector, AQG_UNLIKELY(armed.handler != 0), dstrank,
      (gex_TM_t tm, gex_Rank_t dstrank, size_t dstcount, gex_Memvec_t const dstlist[],
       size_t srccount, gex_Memvec_t const srclist[], gex_Flags_t flags),
      aqgi_aq(tm), dstrank, dstcount, vec(dstlist), srccount, vec(srclist))

FORMS(VectorGet, aq_get_vector, false, srcrank,
      (gex_TM_t tm, size_t dstcount, gex_Memvec_t const dstlist[], gex_Rank_t srcrank,
       size_t srccount, gex_Memvec_t const srclist[], gex_Flags_t flags),
      aqgi_aq(tm), dstcount, vec(dstlist), srcrank, srccount, vec(srclist))

FORMS(IndexedPut, aq_put_indexed, AQG_UNLIKELY(armed.handler != 0), dstrank,
      (gex_TM_t tm, gex_Rank_t dstrank, size_t dstcount, void *const dstlist[], size_t dstlen,
       size_t srccount, void *const srclist[], size_t srclen, gex_Flags_t flags),
      aqgi_aq(tm), dstrank, dstcount, dstlist, dstlen, srccount, srclist, srclen)

FORMS(IndexedGet, aq_get_indexed, false, srcrank,
      (gex_TM_t tm, size_t dstcount, void *const dstlist[], size_t dstlen, gex_Rank_t srcrank,
       size_t srccount, void *const srclist[], size_t srclen, gex_Flags_t flags),
      aqgi_aq(tm), dstcount, dstlist, dstlen, srcrank, srccount, srclist, srclen)

FORMS(StridedPut, aq_put_strided, AQG_UNLIKELY(armed.handler != 0), dstrank,
      (gex_TM_t tm, gex_Rank_t dstrank, void *dstaddr, const ptrdiff_t dststrides[], void *srcaddr,
       const ptrdiff_t srcstrides[], size_t elemsz, const size_t count[], size_t stridelevels,
       gex_Flags_t flags),
      aqgi_aq(tm), dstrank, dstaddr, dststrides, srcaddr, srcstrides, elemsz, count, stridelevels)

FORMS(StridedGet, aq_get_strided, false, srcrank,
      (gex_TM_t tm, void *dstaddr, const ptrdiff_t dststrides[], gex_Rank_t srcrank, void *srcaddr,
       const ptrdiff_t srcstrides[], size_t elemsz, const size_t count[], size_t stridelevels,
       gex_Flags_t flags),
      aqgi_aq(tm), dstaddr, dststrides, srcrank, srcaddr, srcstrides, elemsz, count, stridelevels)
