/* Vector, indexed and strided transfers, implemented with those of Aqueduct. */
#include "aqg.h"

#include <gasnet_vis.h>

static_assert(sizeof(gex_Memvec_t) == sizeof(aq_vec) &&
                  offsetof(gex_Memvec_t, gex_addr) == offsetof(aq_vec, addr) &&
                  offsetof(gex_Memvec_t, gex_len) == offsetof(aq_vec, len),
              "one layout for both");

static const aq_vec *vis_vec(gex_Memvec_t const *list)
{
    return (const aq_vec *)(const void *)list;
}

/* --- notification of the target --------------------------------------------------------------- */

/* The handler to run at the target when this thread's next put is complete. */
static __thread struct {
    gex_AM_Index_t handler; /* 0: none */
    const void *src;
    size_t nbytes;
} armed;
unsigned aqg_vis_armed;

/* Set the handler; 0 clears it. Returns the previous one. */
static gex_AM_Index_t vis_arm(gex_AM_Index_t handler)
{
    gex_AM_Index_t before = armed.handler;
    if (before == 0 && handler != 0) __atomic_add_fetch(&aqg_vis_armed, 1, __ATOMIC_RELAXED);
    if (before != 0 && handler == 0) __atomic_sub_fetch(&aqg_vis_armed, 1, __ATOMIC_RELAXED);
    armed.handler = handler;
    return before;
}

void gex_VIS_SetPeerCompletionHandler(gex_AM_Index_t handler, const void *src, size_t nbytes,
                                      gex_Flags_t flags)
{
    (void)flags;
    if (nbytes > GEX_VIS_MAX_PEERCOMPLETION)
        aqgi_die("%s: %zu bytes; the maximum payload of a completion is %d", __func__, nbytes,
                 GEX_VIS_MAX_PEERCOMPLETION);
    if (handler != 0 && handler < GEX_AM_INDEX_BASE)
        aqgi_die("%s: handler %u is outside the range for clients", __func__, (unsigned)handler);
    (void)vis_arm(handler);
    armed.src = src;
    armed.nbytes = nbytes;
}

/* Run the handler at the target when the put of `event` is complete. */
static gex_Event_t vis_notify(const char *call, gex_TM_t tm, gex_Rank_t rank, aq_event event,
                              bool nbi)
{
    const aq_arg handler = vis_arm(0);
    aqgi_done(call, (nbi ? aq_am_medium_after_nbi
                         : aq_am_medium_after_nb)(aqgi_aq(tm), rank, AQGI_COMPLETION, armed.src,
                                                  armed.nbytes, &handler, 1, 0, &event));
    return aqgi_event(event);
}

static void vis_on_completion(aq_am *am)
{
    gex_AM_Index_t index = (gex_AM_Index_t)am->args[0];
    if (!aqgi_deliver_reply(am, index))
        aqgi_die("rank %u completed a put with handler %u, which is not registered here",
                 (unsigned)am->source, (unsigned)index);
}

aq_status aqgi_vis_open(gex_EP_t ep)
{
    aq_handler_entry row = {.index = AQGI_COMPLETION,
                            .nargs = 1,
                            .accepts = AQ_AM_MEDIUM | AQ_AM_REQUEST,
                            .fn = vis_on_completion,
                            .name = "put completion"};
    return aq_am_register(ep->aq, &row, 1);
}

/* --- transfers -------------------------------------------------------------------------------- */

/*
 * GEX_FLAG_SELF_SEG_OFFSET: convert the offsets of the local side to addresses. The result is
 * freed after the transfer.
 */
static void *vis_place_base(gex_TM_t tm, void **base)
{
    *base = aqgi_at_offset(tm, *base);
    return NULL;
}

static void *vis_place_list(gex_TM_t tm, size_t count, void *const **list)
{
    void **placed = aqgi_alloc(count + 1, sizeof(*placed), "a list of gex_VIS");
    for (size_t i = 0; i < count; i++)
        placed[i] = aqgi_at_offset(tm, (*list)[i]);
    *list = placed;
    return placed;
}

static void *vis_place_vec(gex_TM_t tm, size_t count, gex_Memvec_t const **list)
{
    gex_Memvec_t *placed = aqgi_alloc(count + 1, sizeof(*placed), "a list of gex_VIS");
    for (size_t i = 0; i < count; i++)
        placed[i] = (gex_Memvec_t){aqgi_at_offset(tm, (*list)[i].gex_addr), (*list)[i].gex_len};
    *list = placed;
    return placed;
}

/*
 * The three forms of a transfer. Sources may be reused as with other puts, according to the leaf
 * event or AQ_NBI_LOCAL. Calls with local offsets, for which PLACE makes lists of addresses,
 * block.
 */
#define FORMS(NAME, CALL, ARMED, PEER, PLACE, IN, NAMES, ...)                                      \
    gex_Event_t aqg_vis_##NAME##_nb IN                                                             \
    {                                                                                              \
        static const char call[] = "gex_VIS_" #NAME "NB";                                          \
        aq_event event = AQ_EVENT_DONE;                                                            \
        if (AQG_UNLIKELY(flags & GEX_FLAG_SELF_SEG_OFFSET))                                        \
            return aqg_vis_##NAME NAMES == 0 ? GEX_EVENT_INVALID : GEX_EVENT_NO_OP;                \
        aq_status st = CALL##_nb(__VA_ARGS__, aqgi_flags(flags), &event);                          \
        if (AQG_UNLIKELY(ARMED) && st == AQ_OK) return vis_notify(call, tm, PEER, event, false);   \
        return aqgi_started_nb(call, st, event);                                                   \
    }                                                                                              \
    int aqg_vis_##NAME##_nbi IN                                                                    \
    {                                                                                              \
        static const char call[] = "gex_VIS_" #NAME "NBI";                                         \
        aq_event event = AQ_EVENT_DONE;                                                            \
        if (AQG_UNLIKELY(flags & GEX_FLAG_SELF_SEG_OFFSET)) return aqg_vis_##NAME NAMES;           \
        if (!AQG_UNLIKELY(ARMED))                                                                  \
            return aqgi_started(call, CALL##_nbi(__VA_ARGS__, aqgi_flags(flags)));                 \
        int refused = aqgi_started(call, CALL##_nb(__VA_ARGS__, aqgi_flags(flags), &event));       \
        if (!refused) (void)vis_notify(call, tm, PEER, event, true);                               \
        return refused;                                                                            \
    }                                                                                              \
    int aqg_vis_##NAME IN                                                                          \
    {                                                                                              \
        static const char call[] = "gex_VIS_" #NAME "Blocking";                                    \
        if (AQG_UNLIKELY(flags & GEX_FLAG_SELF_SEG_OFFSET)) {                                      \
            void *placed = PLACE;                                                                  \
            flags &= ~GEX_FLAG_SELF_SEG_OFFSET;                                                    \
            int refused = aqg_vis_##NAME NAMES;                                                    \
            free(placed);                                                                          \
            return refused;                                                                        \
        }                                                                                          \
        if (!AQG_UNLIKELY(ARMED)) return aqgi_started(call, CALL(__VA_ARGS__, aqgi_flags(flags))); \
        gex_Event_t event = aqg_vis_##NAME##_nb NAMES;                                             \
        if (event == GEX_EVENT_NO_OP) return 1;                                                    \
        gex_Event_Wait(event);                                                                     \
        return 0;                                                                                  \
    }

FORMS(VectorPut, aq_put_vector, armed.handler != 0, dstrank, vis_place_vec(tm, srccount, &srclist),
      AQG_VECTOR_PUT, AQG_VECTOR_PUT_VALUES, aqgi_aq(tm), dstrank, dstcount, vis_vec(dstlist),
      srccount, vis_vec(srclist))
FORMS(VectorGet, aq_get_vector, false, srcrank, vis_place_vec(tm, dstcount, &dstlist),
      AQG_VECTOR_GET, AQG_VECTOR_GET_VALUES, aqgi_aq(tm), srcrank, dstcount, vis_vec(dstlist),
      srccount, vis_vec(srclist))
FORMS(IndexedPut, aq_put_indexed, armed.handler != 0, dstrank,
      vis_place_list(tm, srccount, &srclist), AQG_INDEXED_PUT, AQG_INDEXED_PUT_VALUES, aqgi_aq(tm),
      dstrank, dstcount, dstlist, dstlen, srccount, srclist, srclen)
FORMS(IndexedGet, aq_get_indexed, false, srcrank, vis_place_list(tm, dstcount, &dstlist),
      AQG_INDEXED_GET, AQG_INDEXED_GET_VALUES, aqgi_aq(tm), srcrank, dstcount, dstlist, dstlen,
      srccount, srclist, srclen)
FORMS(StridedPut, aq_put_strided, armed.handler != 0, dstrank, vis_place_base(tm, &srcaddr),
      AQG_STRIDED_PUT, AQG_STRIDED_PUT_VALUES, aqgi_aq(tm), dstrank, dstaddr, dststrides, srcaddr,
      srcstrides, elemsz, count, stridelevels)
FORMS(StridedGet, aq_get_strided, false, srcrank, vis_place_base(tm, &dstaddr), AQG_STRIDED_GET,
      AQG_STRIDED_GET_VALUES, aqgi_aq(tm), srcrank, dstaddr, dststrides, srcaddr, srcstrides,
      elemsz, count, stridelevels)
