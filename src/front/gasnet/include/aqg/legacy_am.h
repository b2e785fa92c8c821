/*
 * Active messages of GASNet-1, on the primordial team. The calls without a number in their name
 * have the number of arguments as a parameter before the arguments.
 */
#ifndef AQG_LEGACY_AM_H
#define AQG_LEGACY_AM_H

#include <aqg/am.h>
#include <aqg/system.h>

AQG_BEGIN

typedef gex_AM_Index_t gasnet_handler_t;
typedef gex_AM_Arg_t gasnet_handlerarg_t;
typedef gex_Token_t gasnet_token_t;

typedef struct {
    gasnet_handler_t index;
    gex_AM_Fn_t fnptr;
} gasnet_handlerentry_t;

AQG_CALL(size_t, gasnet_AMMaxArgs, (void), gex_AM_MaxArgs())
AQG_CALL(size_t, gasnet_AMMaxMedium, (void), gex_AM_LUBRequestMedium())
AQG_CALL(size_t, gasnet_AMMaxLongRequest, (void), gex_AM_LUBRequestLong())
AQG_CALL(size_t, gasnet_AMMaxLongReply, (void), gex_AM_LUBReplyLong())
int gasnet_AMGetMsgSource(gasnet_token_t token, gasnet_node_t *src);

#define AQG_LEGACY_NAMES(M)                                                                        \
    AQG_NUMBERED(M, int, return, gasnet_AMRequestShort##M,                                         \
                 (gasnet_node_t dest, gasnet_handler_t handler), aqg_request_short,                \
                 (aqg_world, dest, handler, 0))                                                    \
    AQG_NUMBERED(M, int, return, gasnet_AMRequestMedium##M,                                        \
                 (gasnet_node_t dest, gasnet_handler_t handler, const void *src, size_t nbytes),   \
                 aqg_request_medium, (aqg_world, dest, handler, src, nbytes, GEX_EVENT_NOW, 0))    \
    AQG_NUMBERED(M, int, return, gasnet_AMRequestLong##M,                                          \
                 (gasnet_node_t dest, gasnet_handler_t handler, const void *src, size_t nbytes,    \
                  void *dest_addr),                                                                \
                 aqg_request_long,                                                                 \
                 (aqg_world, dest, handler, src, nbytes, dest_addr, GEX_EVENT_NOW, 0))             \
    AQG_NUMBERED(M, int, return, gasnet_AMRequestLongAsync##M,                                     \
                 (gasnet_node_t dest, gasnet_handler_t handler, const void *src, size_t nbytes,    \
                  void *dest_addr),                                                                \
                 aqg_request_long_async, (aqg_world, dest, handler, src, nbytes, dest_addr))       \
    AQG_NUMBERED(M, int, return, gasnet_AMReplyShort##M,                                           \
                 (gasnet_token_t token, gasnet_handler_t handler), aqg_reply_short,                \
                 (token, handler, 0))                                                              \
    AQG_NUMBERED(M, int, return, gasnet_AMReplyMedium##M,                                          \
                 (gasnet_token_t token, gasnet_handler_t handler, const void *src, size_t nbytes), \
                 aqg_reply_medium, (token, handler, src, nbytes, GEX_EVENT_NOW, 0))                \
    AQG_NUMBERED(M, int, return, gasnet_AMReplyLong##M,                                            \
                 (gasnet_token_t token, gasnet_handler_t handler, const void *src, size_t nbytes,  \
                  void *dest_addr),                                                                \
                 aqg_reply_long, (token, handler, src, nbytes, dest_addr, GEX_EVENT_NOW, 0))

/* The source may be in use until the reply has arrived, so there is no event for it. */
int aqg_request_long_async(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *src,
                           size_t nbytes, void *dest_addr, const gex_AM_Arg_t *args,
                           unsigned nargs);

AQG_EACH(AQG_LEGACY_NAMES)

/* --- names that take the number of arguments ------------------------------------------------ */

/* Ends the job if the two numbers differ. */
void aqg_check_count(const char *name, unsigned announced, unsigned counted);

/* `name` has the number of arguments after its first 2, 4 or 5 parameters. */
#define AQG_COUNTED(name, ...)                                                                     \
    aqg_check_count(#name, AQG_FIRST(__VA_ARGS__), AQG_MORE(__VA_ARGS__)),                         \
        AQG_CAT(name, AQG_MORE(__VA_ARGS__))
#define AQG_COUNTED_2(name, a, b, ...) (AQG_COUNTED(name, __VA_ARGS__)(a, b AQG_REST(__VA_ARGS__)))
#define AQG_COUNTED_4(name, a, b, c, d, ...)                                                       \
    (AQG_COUNTED(name, __VA_ARGS__)(a, b, c, d AQG_REST(__VA_ARGS__)))
#define AQG_COUNTED_5(name, a, b, c, d, e, ...)                                                    \
    (AQG_COUNTED(name, __VA_ARGS__)(a, b, c, d, e AQG_REST(__VA_ARGS__)))

#define gasnet_AMRequestShort(...)     AQG_COUNTED_2(gasnet_AMRequestShort, __VA_ARGS__)
#define gasnet_AMRequestMedium(...)    AQG_COUNTED_4(gasnet_AMRequestMedium, __VA_ARGS__)
#define gasnet_AMRequestLong(...)      AQG_COUNTED_5(gasnet_AMRequestLong, __VA_ARGS__)
#define gasnet_AMRequestLongAsync(...) AQG_COUNTED_5(gasnet_AMRequestLongAsync, __VA_ARGS__)
#define gasnet_AMReplyShort(...)       AQG_COUNTED_2(gasnet_AMReplyShort, __VA_ARGS__)
#define gasnet_AMReplyMedium(...)      AQG_COUNTED_4(gasnet_AMReplyMedium, __VA_ARGS__)
#define gasnet_AMReplyLong(...)        AQG_COUNTED_5(gasnet_AMReplyLong, __VA_ARGS__)

AQG_END

#endif
