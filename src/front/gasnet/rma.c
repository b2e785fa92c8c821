/*
 * Puts and gets of memory that is not mapped here, and other cases that the inline code does not
 * handle.
 */
#include "aqg.h"

/* --- puts ------------------------------------------------------------------------------------ */

int aqg_put(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
            gex_Flags_t flags)
{
    return aqgi_started(
        "gex_RMA_PutBlocking",
        aq_put(aqgi_aq(tm), rank, dest, aqgi_local(tm, src, flags), nbytes, aqgi_flags(flags)));
}

int aqg_put_nbi(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                gex_Event_t *lc_opt, gex_Flags_t flags)
{
    unsigned how = aqgi_flags(flags);
    if (lc_opt == GEX_EVENT_NOW) how |= AQ_LOCAL_NOW;
    return aqgi_started("gex_RMA_PutNBI", aq_put_nbi(aqgi_aq(tm), rank, dest,
                                                     aqgi_local(tm, src, flags), nbytes, how));
}

gex_Event_t aqg_put_nb(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                       gex_Event_t *lc_opt, gex_Flags_t flags)
{
    aq_event event = AQ_EVENT_DONE;
    unsigned how = aqgi_flags(flags);
    if (lc_opt == GEX_EVENT_NOW) how |= AQ_LOCAL_NOW;
    aq_status st =
        aq_put_nb(aqgi_aq(tm), rank, dest, aqgi_local(tm, src, flags), nbytes, how, &event);
    if (st == AQ_OK && (uintptr_t)lc_opt > (uintptr_t)GEX_EVENT_GROUP)
        *lc_opt = aqgi_event(aq_event_local(event));
    return aqgi_started_nb("gex_RMA_PutNB", st, event);
}

/* --- transfers whose three forms differ only in the call -------------------------------------- */

#define FORMS(LIB, NAME, SUFFIX, PARAMS, CALL, ...)                                                \
    int LIB PARAMS                                                                                 \
    {                                                                                              \
        return aqgi_started(NAME "Blocking" SUFFIX, CALL(__VA_ARGS__, aqgi_flags(flags)));         \
    }                                                                                              \
    int LIB##_nbi PARAMS                                                                           \
    {                                                                                              \
        return aqgi_started(NAME "NBI" SUFFIX, CALL##_nbi(__VA_ARGS__, aqgi_flags(flags)));        \
    }                                                                                              \
    gex_Event_t LIB##_nb PARAMS                                                                    \
    {                                                                                              \
        aq_event event = AQ_EVENT_DONE;                                                            \
        aq_status st = CALL##_nb(__VA_ARGS__, aqgi_flags(flags), &event);                          \
        return aqgi_started_nb(NAME "NB" SUFFIX, st, event);                                       \
    }

FORMS(aqg_get, "gex_RMA_Get", "", AQG_GET, aq_get, aqgi_aq(tm), rank, aqgi_local(tm, dest, flags),
      src, nbytes)
FORMS(aqg_put_value, "gex_RMA_Put", "Val", AQG_PUT_VALUE, aq_put_value, aqgi_aq(tm), rank, dest,
      value, nbytes)

gex_RMA_Value_t aqg_get_value(gex_TM_t tm, gex_Rank_t rank, const void *src, size_t nbytes,
                              gex_Flags_t flags)
{
    uint64_t value = 0;
    aqgi_done("gex_RMA_GetBlockingVal",
              aq_get_value(aqgi_aq(tm), rank, src, nbytes, aqgi_flags(flags), &value));
    return value;
}
