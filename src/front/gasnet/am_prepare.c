/* Active messages with a negotiated payload: prepare, commit or cancel. */
#include "aqg.h"

/* The message being prepared: a thread has at most one request and, in a handler, one reply. */
struct aqg_srcdesc {
    aq_am_buffer buffer;
    gex_Event_t *lc_opt;
    void *dest_addr; /* passed to prepare; NULL: only at commit */
    unsigned kind;
    bool prepared; /* neither committed nor canceled yet */
};
static _Thread_local struct aqg_srcdesc prepared[2];

static const char *const prepare_names[] = {
    [AQG_REQUEST_MEDIUM] = "gex_AM_PrepareRequestMedium",
    [AQG_REQUEST_LONG] = "gex_AM_PrepareRequestLong",
    [AQG_REPLY_MEDIUM] = "gex_AM_PrepareReplyMedium",
    [AQG_REPLY_LONG] = "gex_AM_PrepareReplyLong",
};
static const char *const commit_names[] = {
    [AQG_REQUEST_MEDIUM] = "gex_AM_CommitRequestMedium",
    [AQG_REQUEST_LONG] = "gex_AM_CommitRequestLong",
    [AQG_REPLY_MEDIUM] = "gex_AM_CommitReplyMedium",
    [AQG_REPLY_LONG] = "gex_AM_CommitReplyLong",
};

static inline unsigned am_prepare_category(unsigned kind)
{
    return kind == AQG_REQUEST_LONG || kind == AQG_REPLY_LONG ? AQ_AM_LONG : AQ_AM_MEDIUM;
}

static gex_AM_SrcDesc_t am_prepare_keep(unsigned kind, aq_status st, const aq_am_buffer *buffer,
                                        gex_Event_t *lc_opt, void *dest_addr)
{
    if (aqgi_started(prepare_names[kind], st) != 0) return GEX_AM_SRCDESC_NO_OP;
    struct aqg_srcdesc *sd = &prepared[kind >= AQG_REPLY_MEDIUM];
    *sd = (struct aqg_srcdesc){.buffer = *buffer,
                               .lc_opt = lc_opt,
                               .dest_addr = dest_addr,
                               .kind = kind,
                               .prepared = true};
    return sd;
}

gex_AM_SrcDesc_t aqg_prepare_request(unsigned kind, gex_TM_t tm, gex_Rank_t rank,
                                     const void *client_buf, size_t least, size_t most,
                                     void *dest_addr, gex_Event_t *lc_opt, gex_Flags_t flags,
                                     unsigned nargs)
{
    aq_am_buffer buffer;
    aq_status st = aq_am_reserve(aqgi_aq(tm), rank, am_prepare_category(kind), client_buf, least,
                                 most, nargs, aqgi_immediate(flags), &buffer);
    return am_prepare_keep(kind, st, &buffer, lc_opt, dest_addr);
}

gex_AM_SrcDesc_t aqg_prepare_reply(unsigned kind, gex_Token_t token, const void *client_buf,
                                   size_t least, size_t most, void *dest_addr, gex_Event_t *lc_opt,
                                   gex_Flags_t flags, unsigned nargs)
{
    aq_am_buffer buffer;
    aq_status st = aq_am_reserve_reply(aqgi_am(token), am_prepare_category(kind), client_buf, least,
                                       most, nargs, aqgi_immediate(flags), &buffer);
    return am_prepare_keep(kind, st, &buffer, lc_opt, dest_addr);
}

AQG_DEFINE(void *, gex_AM_SrcDescAddr, (gex_AM_SrcDesc_t sd), sd->buffer.addr)
AQG_DEFINE(size_t, gex_AM_SrcDescSize, (gex_AM_SrcDesc_t sd), sd->buffer.size)

static void am_prepare_check_kind(const char *call, gex_AM_SrcDesc_t sd, unsigned kind)
{
    if (sd == GEX_AM_SRCDESC_NO_OP || !sd->prepared)
        aqgi_die("%s: the source descriptor was not prepared by this thread", call);
    if (sd->kind != kind)
        aqgi_die("%s: the source descriptor comes from %s", call, prepare_names[sd->kind]);
}

/*
 * The descriptor is released before the message is sent, since a commit may run handlers that
 * prepare another one. If a commit would have to wait, but its flags forbid that, the descriptor
 * remains in use.
 */
int aqg_commit(gex_AM_SrcDesc_t sd, unsigned kind, gex_AM_Index_t handler, size_t nbytes,
               void *dest_addr, gex_Flags_t flags, const gex_AM_Arg_t *args, unsigned nargs)
{
    am_prepare_check_kind(commit_names[kind], sd, kind);
    if (sd->dest_addr != NULL && sd->dest_addr != dest_addr)
        aqgi_die("%s: the destination is %p, but prepare was called with %p", commit_names[kind],
                 dest_addr, sd->dest_addr);
    aq_am_buffer buffer = sd->buffer;
    gex_Event_t *lc_opt = sd->lc_opt;
    sd->prepared = false;
    if (aqgi_started(commit_names[kind], aq_am_commit(&buffer, handler, nbytes, dest_addr, args,
                                                      nargs, aqgi_immediate(flags))) != 0) {
        sd->prepared = true;
        return 1;
    }
    if ((uintptr_t)lc_opt > (uintptr_t)GEX_EVENT_GROUP) *lc_opt = GEX_EVENT_INVALID;
    return 0;
}

int aqg_cancel(gex_AM_SrcDesc_t sd, unsigned kind, gex_Flags_t flags)
{
    am_prepare_check_kind("gex_AM_Cancel", sd, kind);
    aq_am_cancel(&sd->buffer);
    sd->prepared = false;
    return 0;
}
