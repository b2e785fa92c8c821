/*
 * Active messages. The numbered calls collect their arguments in an array on the stack, from which
 * the transport reads them; the calls without a number are macros that count their arguments.
 */
#ifndef AQG_AM_H
#define AQG_AM_H

#include <aqg/count.h>
#include <aqg/types.h>

AQG_BEGIN

int gex_EP_RegisterHandlers(gex_EP_t ep, gex_AM_Entry_t *table, size_t numentries);

/* --- limits ---------------------------------------------------------------------------------- */

AQG_CALL(unsigned int, gex_AM_MaxArgs, (void), 16)
size_t gex_AM_LUBRequestMedium(void);
size_t gex_AM_LUBRequestLong(void);
size_t gex_AM_MaxRequestMedium(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt,
                               gex_Flags_t flags, unsigned int numargs);
size_t gex_AM_MaxRequestLong(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt,
                             gex_Flags_t flags, unsigned int numargs);

/* The same for replies. */
#define gex_AM_LUBReplyMedium gex_AM_LUBRequestMedium
#define gex_AM_LUBReplyLong   gex_AM_LUBRequestLong
#define gex_AM_MaxReplyMedium gex_AM_MaxRequestMedium
#define gex_AM_MaxReplyLong   gex_AM_MaxRequestLong

/* --- tokens ---------------------------------------------------------------------------------- */

gex_TI_t gex_Token_Info(gex_Token_t token, gex_Token_Info_t *info, gex_TI_t mask);
size_t gex_Token_MaxReplyMedium(gex_Token_t token, const gex_Event_t *lc_opt, gex_Flags_t flags,
                                unsigned int numargs);
size_t gex_Token_MaxReplyLong(gex_Token_t token, const gex_Event_t *lc_opt, gex_Flags_t flags,
                              unsigned int numargs);

/* --- functions called by the numbered ones ---------------------------------------------------- */

int aqg_request_short(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, gex_Flags_t flags,
                      const gex_AM_Arg_t *args, unsigned nargs);
int aqg_request_medium(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *src,
                       size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags,
                       const gex_AM_Arg_t *args, unsigned nargs);
int aqg_request_long(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *src,
                     size_t nbytes, void *dest_addr, gex_Event_t *lc_opt, gex_Flags_t flags,
                     const gex_AM_Arg_t *args, unsigned nargs);
int aqg_reply_short(gex_Token_t token, gex_AM_Index_t handler, gex_Flags_t flags,
                    const gex_AM_Arg_t *args, unsigned nargs);
int aqg_reply_medium(gex_Token_t token, gex_AM_Index_t handler, const void *src, size_t nbytes,
                     gex_Event_t *lc_opt, gex_Flags_t flags, const gex_AM_Arg_t *args,
                     unsigned nargs);
int aqg_reply_long(gex_Token_t token, gex_AM_Index_t handler, const void *src, size_t nbytes,
                   void *dest_addr, gex_Event_t *lc_opt, gex_Flags_t flags,
                   const gex_AM_Arg_t *args, unsigned nargs);
int aqg_commit(gex_AM_SrcDesc_t sd, unsigned kind, gex_AM_Index_t handler, size_t nbytes,
               void *dest_addr, gex_Flags_t flags, const gex_AM_Arg_t *args, unsigned nargs);
int aqg_cancel(gex_AM_SrcDesc_t sd, unsigned kind, gex_Flags_t flags);

/* Kinds of prepared messages. */
#define AQG_REQUEST_MEDIUM 0u
#define AQG_REQUEST_LONG   1u
#define AQG_REPLY_MEDIUM   2u
#define AQG_REPLY_LONG     3u

/* --- negotiated payload ----------------------------------------------------------------------- */

gex_AM_SrcDesc_t aqg_prepare_request(unsigned kind, gex_TM_t tm, gex_Rank_t rank,
                                     const void *client_buf, size_t least, size_t most,
                                     void *dest_addr, gex_Event_t *lc_opt, gex_Flags_t flags,
                                     unsigned nargs);
gex_AM_SrcDesc_t aqg_prepare_reply(unsigned kind, gex_Token_t token, const void *client_buf,
                                   size_t least, size_t most, void *dest_addr, gex_Event_t *lc_opt,
                                   gex_Flags_t flags, unsigned nargs);
AQG_CALL(AQG_MUST_USE gex_AM_SrcDesc_t, gex_AM_PrepareRequestMedium,
         (gex_TM_t tm, gex_Rank_t rank, const void *client_buf, size_t least, size_t most,
          gex_Event_t *lc_opt, gex_Flags_t flags, unsigned nargs),
         aqg_prepare_request(AQG_REQUEST_MEDIUM, tm, rank, client_buf, least, most, NULL, lc_opt,
                             flags, nargs))
AQG_CALL(AQG_MUST_USE gex_AM_SrcDesc_t, gex_AM_PrepareRequestLong,
         (gex_TM_t tm, gex_Rank_t rank, const void *client_buf, size_t least, size_t most,
          void *dest_addr, gex_Event_t *lc_opt, gex_Flags_t flags, unsigned nargs),
         aqg_prepare_request(AQG_REQUEST_LONG, tm, rank, client_buf, least, most, dest_addr, lc_opt,
                             flags, nargs))
AQG_CALL(AQG_MUST_USE gex_AM_SrcDesc_t, gex_AM_PrepareReplyMedium,
         (gex_Token_t token, const void *client_buf, size_t least, size_t most, gex_Event_t *lc_opt,
          gex_Flags_t flags, unsigned nargs),
         aqg_prepare_reply(AQG_REPLY_MEDIUM, token, client_buf, least, most, NULL, lc_opt, flags,
                           nargs))
AQG_CALL(AQG_MUST_USE gex_AM_SrcDesc_t, gex_AM_PrepareReplyLong,
         (gex_Token_t token, const void *client_buf, size_t least, size_t most, void *dest_addr,
          gex_Event_t *lc_opt, gex_Flags_t flags, unsigned nargs),
         aqg_prepare_reply(AQG_REPLY_LONG, token, client_buf, least, most, dest_addr, lc_opt, flags,
                           nargs))
void *gex_AM_SrcDescAddr(gex_AM_SrcDesc_t sd);
size_t gex_AM_SrcDescSize(gex_AM_SrcDesc_t sd);

#define AQG_CANCEL (gex_AM_SrcDesc_t sd, gex_Flags_t flags)
AQG_CALL(int, gex_AM_CancelRequestMedium, AQG_CANCEL, aqg_cancel(sd, AQG_REQUEST_MEDIUM, flags))
AQG_CALL(int, gex_AM_CancelRequestLong, AQG_CANCEL, aqg_cancel(sd, AQG_REQUEST_LONG, flags))
AQG_CALL(int, gex_AM_CancelReplyMedium, AQG_CANCEL, aqg_cancel(sd, AQG_REPLY_MEDIUM, flags))
AQG_CALL(int, gex_AM_CancelReplyLong, AQG_CANCEL, aqg_cancel(sd, AQG_REPLY_LONG, flags))

/* --- numbered calls -------------------------------------------------------------------------- */

#define AQG_AM_NAMES(M)                                                                            \
    AQG_NUMBERED(M, int, return, gex_AM_RequestShort##M,                                           \
                 (gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, gex_Flags_t flags),        \
                 aqg_request_short, (tm, rank, handler, flags))                                    \
    AQG_NUMBERED(M, int, return, gex_AM_RequestMedium##M,                                          \
                 (gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *src,           \
                  size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags),                          \
                 aqg_request_medium, (tm, rank, handler, src, nbytes, lc_opt, flags))              \
    AQG_NUMBERED(M, int, return, gex_AM_RequestLong##M,                                            \
                 (gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *src,           \
                  size_t nbytes, void *dest_addr, gex_Event_t *lc_opt, gex_Flags_t flags),         \
                 aqg_request_long, (tm, rank, handler, src, nbytes, dest_addr, lc_opt, flags))     \
    AQG_NUMBERED(M, int, return, gex_AM_ReplyShort##M,                                             \
                 (gex_Token_t token, gex_AM_Index_t handler, gex_Flags_t flags), aqg_reply_short,  \
                 (token, handler, flags))                                                          \
    AQG_NUMBERED(M, int, return, gex_AM_ReplyMedium##M,                                            \
                 (gex_Token_t token, gex_AM_Index_t handler, const void *src, size_t nbytes,       \
                  gex_Event_t *lc_opt, gex_Flags_t flags),                                         \
                 aqg_reply_medium, (token, handler, src, nbytes, lc_opt, flags))                   \
    AQG_NUMBERED(M, int, return, gex_AM_ReplyLong##M,                                              \
                 (gex_Token_t token, gex_AM_Index_t handler, const void *src, size_t nbytes,       \
                  void *dest_addr, gex_Event_t *lc_opt, gex_Flags_t flags),                        \
                 aqg_reply_long, (token, handler, src, nbytes, dest_addr, lc_opt, flags))

/* For prepared messages, with and without flags. */
#define AQG_COMMIT_NAMES(M, Kind, KIND)                                                            \
    AQG_NUMBERED(M, void, (void), gex_AM_Commit##Kind##Medium##M,                                  \
                 (gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes), aqg_commit,         \
                 (sd, AQG_##KIND##_MEDIUM, handler, nbytes, NULL, 0))                              \
    AQG_NUMBERED(M, int, return, gex_AM_Commit##Kind##Medium##M##_v2,                              \
                 (gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes, gex_Flags_t flags),  \
                 aqg_commit, (sd, AQG_##KIND##_MEDIUM, handler, nbytes, NULL, flags))              \
    AQG_NUMBERED(M, void, (void), gex_AM_Commit##Kind##Long##M,                                    \
                 (gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes, void *dest_addr),    \
                 aqg_commit, (sd, AQG_##KIND##_LONG, handler, nbytes, dest_addr, 0))               \
    AQG_NUMBERED(M, int, return, gex_AM_Commit##Kind##Long##M##_v2,                                \
                 (gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes, void *dest_addr,     \
                  gex_Flags_t flags),                                                              \
                 aqg_commit, (sd, AQG_##KIND##_LONG, handler, nbytes, dest_addr, flags))

#define AQG_AM_ALL_NAMES(M)                                                                        \
    AQG_AM_NAMES(M)                                                                                \
    AQG_COMMIT_NAMES(M, Request, REQUEST)                                                          \
    AQG_COMMIT_NAMES(M, Reply, REPLY)

AQG_EACH(AQG_AM_ALL_NAMES)

/* --- calls that count their arguments -------------------------------------------------------- */

#define gex_AM_RequestShort(...)  AQG_NAME_4(gex_AM_RequestShort, __VA_ARGS__)(__VA_ARGS__)
#define gex_AM_RequestMedium(...) AQG_NAME_7(gex_AM_RequestMedium, __VA_ARGS__)(__VA_ARGS__)
#define gex_AM_RequestLong(...)   AQG_NAME_8(gex_AM_RequestLong, __VA_ARGS__)(__VA_ARGS__)
#define gex_AM_ReplyShort(...)    AQG_NAME_3(gex_AM_ReplyShort, __VA_ARGS__)(__VA_ARGS__)
#define gex_AM_ReplyMedium(...)   AQG_NAME_6(gex_AM_ReplyMedium, __VA_ARGS__)(__VA_ARGS__)
#define gex_AM_ReplyLong(...)     AQG_NAME_7(gex_AM_ReplyLong, __VA_ARGS__)(__VA_ARGS__)
#define gex_AM_CommitRequestMedium(...)                                                            \
    AQG_NAME_3(gex_AM_CommitRequestMedium, __VA_ARGS__)(__VA_ARGS__)
#define gex_AM_CommitReplyMedium(...) AQG_NAME_3(gex_AM_CommitReplyMedium, __VA_ARGS__)(__VA_ARGS__)
#define gex_AM_CommitRequestLong(...) AQG_NAME_4(gex_AM_CommitRequestLong, __VA_ARGS__)(__VA_ARGS__)
#define gex_AM_CommitReplyLong(...)   AQG_NAME_4(gex_AM_CommitReplyLong, __VA_ARGS__)(__VA_ARGS__)
#define gex_AM_CommitRequestMedium_v2(...)                                                         \
    AQG_NAME_V2_4(gex_AM_CommitRequestMedium, __VA_ARGS__)(__VA_ARGS__)
#define gex_AM_CommitReplyMedium_v2(...)                                                           \
    AQG_NAME_V2_4(gex_AM_CommitReplyMedium, __VA_ARGS__)(__VA_ARGS__)
#define gex_AM_CommitRequestLong_v2(...)                                                           \
    AQG_NAME_V2_5(gex_AM_CommitRequestLong, __VA_ARGS__)(__VA_ARGS__)
#define gex_AM_CommitReplyLong_v2(...)                                                             \
    AQG_NAME_V2_5(gex_AM_CommitReplyLong, __VA_ARGS__)(__VA_ARGS__)

AQG_END

#endif
