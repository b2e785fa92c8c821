/* Active messages: registration, limits, tokens, requests and replies. */
#include "aqg.h"

static_assert(GEX_AM_INDEX_BASE == AQ_HANDLER_BASE + 1 && AQGI_COMPLETION == AQ_HANDLER_BASE,
              "one range of indices, in which the first is the library's");
static_assert(GEX_FLAG_AM_SHORT == AQ_AM_SHORT && GEX_FLAG_AM_MEDIUM == AQ_AM_MEDIUM &&
                  GEX_FLAG_AM_LONG == AQ_AM_LONG && GEX_FLAG_AM_REQUEST == AQ_AM_REQUEST &&
                  GEX_FLAG_AM_REPLY == AQ_AM_REPLY,
              "the same bits");

/* --- registration ---------------------------------------------------------------------------- */

enum {
    CATEGORIES = GEX_FLAG_AM_SHORT | GEX_FLAG_AM_MEDLONG,
    ACCEPTS = CATEGORIES | GEX_FLAG_AM_REQREP
};

/* The handlers of each endpoint, for deliveries without a message. */
struct handler {
    aq_am_fn *fn;
    gex_AM_Entry_t *entry;
};
static struct handler handlers[AQGI_EPS][AQGI_HANDLERS];

static void am_remember(gex_EP_t ep, const aq_handler_entry *row)
{
    struct handler *handler = &handlers[ep->index][row->index];
    handler->entry = row->context;
    __atomic_store_n(&handler->fn, row->fn, __ATOMIC_RELEASE);
}

bool aqgi_deliver_reply(const aq_am *carrier, gex_AM_Index_t index)
{
    struct handler *handler = &handlers[aqgi_ep_of(carrier)->index][index];
    aq_am_fn *fn = __atomic_load_n(&handler->fn, __ATOMIC_ACQUIRE);
    if (fn == NULL) { /* as with AQ_EP_AM_SHARED */
        handler = &handlers[0][index];
        fn = __atomic_load_n(&handler->fn, __ATOMIC_ACQUIRE);
    }
    if (fn == NULL) return false;
    aq_am am = *carrier;
    am.handler = index;
    am.is_reply = 1;
    am.nargs = 0;
    am.context = handler->entry;
    fn(&am);
    return true;
}

static bool am_row_of(gex_AM_Entry_t *entry, aq_handler_entry *row)
{
    unsigned accepts = entry->gex_flags & ACCEPTS;
    *row = (aq_handler_entry){.index = entry->gex_index,
                              .nargs = (uint8_t)entry->gex_nargs,
                              .accepts = accepts,
                              .context = entry,
                              .name = entry->gex_name,
                              .fn = aqgi_caller(accepts & CATEGORIES, entry->gex_nargs)};
    return entry->gex_fnptr != NULL && entry->gex_nargs <= UINT8_MAX;
}

/* The copies are never freed: messages and tokens refer to them. */
int aqgi_register(const char *call, gex_EP_t ep, gex_AM_Entry_t *table, size_t count)
{
    aq_handler_entry rows[AQGI_HANDLERS];
    int code = GASNET_OK;
    gex_AM_Entry_t *copies = malloc(count * sizeof(*copies));
    if (copies == NULL) return aqgi_refuse(GASNET_ERR_RESOURCE, "%s: out of memory", call);
    memcpy(copies, table, count * sizeof(*copies));
    for (size_t i = 0; i < count && code == GASNET_OK; i++)
        if (!am_row_of(&copies[i], &rows[i]))
            code = aqgi_refuse(
                GASNET_ERR_BAD_ARG,
                "%s: the function of entry %zu is NULL, or its %u arguments are too many", call, i,
                copies[i].gex_nargs);
    if (code == GASNET_OK) code = aqgi_error(call, aq_am_register(ep->aq, rows, count));
    if (code != GASNET_OK) {
        free(copies);
        return code;
    }
    for (size_t i = 0; i < count; i++) {
        table[i].gex_index = copies[i].gex_index = rows[i].index;
        am_remember(ep, &rows[i]);
    }
    return GASNET_OK;
}

int gex_EP_RegisterHandlers(gex_EP_t ep, gex_AM_Entry_t *table, size_t numentries)
{
    if (!aqgi.open)
        return aqgi_refuse(GASNET_ERR_NOT_INIT, "%s: called before gex_Client_Init", __func__);
    if (ep == GEX_EP_INVALID || (table == NULL && numentries != 0) || numentries > AQGI_HANDLERS)
        return aqgi_refuse(
            GASNET_ERR_BAD_ARG,
            "%s: the endpoint is invalid, the table is NULL, or it has too many entries", __func__);
    return numentries != 0 ? aqgi_register(__func__, ep, table, numentries) : GASNET_OK;
}

/* --- limits: the same for all processes, and for any number of arguments ---------------------- */

/* Larger payloads gain nothing from a buffer of the library, as they are copied. */
enum { MAX_LONG_ALLOC = 1 << 20 };
/* Clients store sizes in an int. */
enum { MAX_LONG = INT_MAX };

static size_t am_max_long(gex_Flags_t flags)
{
    size_t most = aq_am_max_long(aqgi.world.aq);
    if (most > MAX_LONG) most = MAX_LONG;
    return (flags & GEX_FLAG_AM_PREPARE_LEAST_ALLOC) && most > MAX_LONG_ALLOC ? MAX_LONG_ALLOC
                                                                              : most;
}

AQG_DEFINE(size_t, gex_AM_LUBRequestMedium, (void), aq_am_max_medium(aqgi.world.aq))
AQG_DEFINE(size_t, gex_AM_LUBRequestLong, (void), am_max_long(0))
AQG_DEFINE(size_t, gex_AM_MaxRequestMedium,
           (gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt, gex_Flags_t flags,
            unsigned int numargs),
           aq_am_max_medium(aqgi_aq(tm)))
AQG_DEFINE(size_t, gex_AM_MaxRequestLong,
           (gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt, gex_Flags_t flags,
            unsigned int numargs),
           am_max_long(flags))
AQG_DEFINE(size_t, gex_Token_MaxReplyMedium,
           (gex_Token_t token, const gex_Event_t *lc_opt, gex_Flags_t flags, unsigned int numargs),
           aq_am_max_medium(aqgi.world.aq))
AQG_DEFINE(size_t, gex_Token_MaxReplyLong,
           (gex_Token_t token, const gex_Event_t *lc_opt, gex_Flags_t flags, unsigned int numargs),
           am_max_long(flags))

/* --- tokens ---------------------------------------------------------------------------------- */

gex_TI_t gex_Token_Info(gex_Token_t token, gex_Token_Info_t *info, gex_TI_t mask)
{
    const aq_am *am = aqgi_am(token);
    info->gex_srcrank = am->source;
    info->gex_ep = aqgi_ep_of(am);
    info->gex_entry = am->context;
    info->gex_is_req = !am->is_reply;
    info->gex_is_long = am->category == AQ_AM_LONG;
    return GEX_TI_ALL;
}

/* --- sending --------------------------------------------------------------------------------- */

/* Where Aqueduct stores the event after which the source of a request may be reused. */
static inline aq_event *am_local_of(gex_Event_t *lc_opt)
{
    if (lc_opt == GEX_EVENT_NOW) return NULL;
    if (lc_opt == GEX_EVENT_GROUP) return AQ_EVENT_GROUP;
    return (aq_event *)(void *)lc_opt;
}

/* The source of a reply has been copied when the call returns. */
static inline void am_local_done(gex_Event_t *lc_opt)
{
    if ((uintptr_t)lc_opt > (uintptr_t)GEX_EVENT_GROUP) *lc_opt = GEX_EVENT_INVALID;
}

int aqg_request_short(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, gex_Flags_t flags,
                      const gex_AM_Arg_t *args, unsigned nargs)
{
    return aqgi_started("gex_AM_RequestShort", aq_am_short(aqgi_aq(tm), rank, handler, args, nargs,
                                                           aqgi_immediate(flags)));
}

int aqg_request_medium(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *src,
                       size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags,
                       const gex_AM_Arg_t *args, unsigned nargs)
{
    return aqgi_started("gex_AM_RequestMedium",
                        aq_am_medium(aqgi_aq(tm), rank, handler, src, nbytes, args, nargs,
                                     aqgi_immediate(flags), am_local_of(lc_opt)));
}

int aqg_request_long(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *src,
                     size_t nbytes, void *dest_addr, gex_Event_t *lc_opt, gex_Flags_t flags,
                     const gex_AM_Arg_t *args, unsigned nargs)
{
    return aqgi_started("gex_AM_RequestLong",
                        aq_am_long(aqgi_aq(tm), rank, handler, src, nbytes, dest_addr, args, nargs,
                                   aqgi_immediate(flags), am_local_of(lc_opt)));
}

int aqg_reply_short(gex_Token_t token, gex_AM_Index_t handler, gex_Flags_t flags,
                    const gex_AM_Arg_t *args, unsigned nargs)
{
    return aqgi_started("gex_AM_ReplyShort", aq_am_reply_short(aqgi_am(token), handler, args, nargs,
                                                               aqgi_immediate(flags)));
}

int aqg_reply_medium(gex_Token_t token, gex_AM_Index_t handler, const void *src, size_t nbytes,
                     gex_Event_t *lc_opt, gex_Flags_t flags, const gex_AM_Arg_t *args,
                     unsigned nargs)
{
    int refused =
        aqgi_started("gex_AM_ReplyMedium", aq_am_reply_medium(aqgi_am(token), handler, src, nbytes,
                                                              args, nargs, aqgi_immediate(flags)));
    am_local_done(lc_opt);
    return refused;
}

int aqg_reply_long(gex_Token_t token, gex_AM_Index_t handler, const void *src, size_t nbytes,
                   void *dest_addr, gex_Event_t *lc_opt, gex_Flags_t flags,
                   const gex_AM_Arg_t *args, unsigned nargs)
{
    int refused = aqgi_started("gex_AM_ReplyLong",
                               aq_am_reply_long(aqgi_am(token), handler, src, nbytes, dest_addr,
                                                args, nargs, aqgi_immediate(flags)));
    am_local_done(lc_opt);
    return refused;
}
