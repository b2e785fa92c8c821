/*
 * Active messages of GASNet-1, on the team of all processes. The names without a number take the
 * number of arguments before these.
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

AQG_INLINE size_t gasnet_AMMaxArgs(void)
{
    return gex_AM_MaxArgs();
}
AQG_INLINE size_t gasnet_AMMaxMedium(void)
{
    return gex_AM_LUBRequestMedium();
}
AQG_INLINE size_t gasnet_AMMaxLongRequest(void)
{
    return gex_AM_LUBRequestLong();
}
AQG_INLINE size_t gasnet_AMMaxLongReply(void)
{
    return gex_AM_LUBReplyLong();
}
int gasnet_AMGetMsgSource(gasnet_token_t token, gasnet_node_t *src);

#define AQG_LEGACY_NAMES(M)                                                                        \
    AQG_INLINE int gasnet_AMRequestShort##M(gasnet_node_t dest,                                    \
                                            gasnet_handler_t handler AQG_PARAMS_##M)               \
    {                                                                                              \
        AQG_ARRAY_##M return aqg_request_short(aqg_world, dest, handler, 0, aqg_args, M);          \
    }                                                                                              \
    AQG_INLINE int gasnet_AMRequestMedium##M(gasnet_node_t dest, gasnet_handler_t handler,         \
                                             const void *src, size_t nbytes AQG_PARAMS_##M)        \
    {                                                                                              \
        AQG_ARRAY_##M return aqg_request_medium(aqg_world, dest, handler, src, nbytes,             \
                                                GEX_EVENT_NOW, 0, aqg_args, M);                    \
    }                                                                                              \
    AQG_INLINE int gasnet_AMRequestLong##M(gasnet_node_t dest, gasnet_handler_t handler,           \
                                           const void *src, size_t nbytes,                         \
                                           void *dest_addr AQG_PARAMS_##M)                         \
    {                                                                                              \
        AQG_ARRAY_##M return aqg_request_long(aqg_world, dest, handler, src, nbytes, dest_addr,    \
                                              GEX_EVENT_NOW, 0, aqg_args, M);                      \
    }                                                                                              \
    AQG_INLINE int gasnet_AMRequestLongAsync##M(gasnet_node_t dest, gasnet_handler_t handler,      \
                                                const void *src, size_t nbytes,                    \
                                                void *dest_addr AQG_PARAMS_##M)                    \
    {                                                                                              \
        AQG_ARRAY_##M return aqg_request_long_async(aqg_world, dest, handler, src, nbytes,         \
                                                    dest_addr, aqg_args, M);                       \
    }                                                                                              \
    AQG_INLINE int gasnet_AMReplyShort##M(gasnet_token_t token,                                    \
                                          gasnet_handler_t handler AQG_PARAMS_##M)                 \
    {                                                                                              \
        AQG_ARRAY_##M return aqg_reply_short(token, handler, 0, aqg_args, M);                      \
    }                                                                                              \
    AQG_INLINE int gasnet_AMReplyMedium##M(gasnet_token_t token, gasnet_handler_t handler,         \
                                           const void *src, size_t nbytes AQG_PARAMS_##M)          \
    {                                                                                              \
        AQG_ARRAY_##M return aqg_reply_medium(token, handler, src, nbytes, GEX_EVENT_NOW, 0,       \
                                              aqg_args, M);                                        \
    }                                                                                              \
    AQG_INLINE int gasnet_AMReplyLong##M(gasnet_token_t token, gasnet_handler_t handler,           \
                                         const void *src, size_t nbytes,                           \
                                         void *dest_addr AQG_PARAMS_##M)                           \
    {                                                                                              \
        AQG_ARRAY_##M return aqg_reply_long(token, handler, src, nbytes, dest_addr, GEX_EVENT_NOW, \
                                            0, aqg_args, M);                                       \
    }

/* The source may be in use until the reply; nobody waits for an event of it. */
int aqg_request_long_async(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *src,
                           size_t nbytes, void *dest_addr, const gex_AM_Arg_t *args,
                           unsigned nargs);

AQG_LEGACY_NAMES(0)
AQG_LEGACY_NAMES(1)
AQG_LEGACY_NAMES(2)
AQG_LEGACY_NAMES(3)
AQG_LEGACY_NAMES(4)
AQG_LEGACY_NAMES(5)
AQG_LEGACY_NAMES(6)
AQG_LEGACY_NAMES(7)
AQG_LEGACY_NAMES(8)
AQG_LEGACY_NAMES(9)
AQG_LEGACY_NAMES(10)
AQG_LEGACY_NAMES(11)
AQG_LEGACY_NAMES(12)
AQG_LEGACY_NAMES(13)
AQG_LEGACY_NAMES(14)
AQG_LEGACY_NAMES(15)
AQG_LEGACY_NAMES(16)

/* --- the names that are told the count ----------------------------------------------------------
 */

/* Ends the job if the two differ. */
void aqg_check_count(const char *name, unsigned told, unsigned counted);

#define AQG_TOLD_ARGS_0
#define AQG_TOLD_ARGS_1  , AQG_VALUES_1
#define AQG_TOLD_ARGS_2  , AQG_VALUES_2
#define AQG_TOLD_ARGS_3  , AQG_VALUES_3
#define AQG_TOLD_ARGS_4  , AQG_VALUES_4
#define AQG_TOLD_ARGS_5  , AQG_VALUES_5
#define AQG_TOLD_ARGS_6  , AQG_VALUES_6
#define AQG_TOLD_ARGS_7  , AQG_VALUES_7
#define AQG_TOLD_ARGS_8  , AQG_VALUES_8
#define AQG_TOLD_ARGS_9  , AQG_VALUES_9
#define AQG_TOLD_ARGS_10 , AQG_VALUES_10
#define AQG_TOLD_ARGS_11 , AQG_VALUES_11
#define AQG_TOLD_ARGS_12 , AQG_VALUES_12
#define AQG_TOLD_ARGS_13 , AQG_VALUES_13
#define AQG_TOLD_ARGS_14 , AQG_VALUES_14
#define AQG_TOLD_ARGS_15 , AQG_VALUES_15
#define AQG_TOLD_ARGS_16 , AQG_VALUES_16

#define AQG_TOLD_NAMES(M)                                                                          \
    AQG_INLINE int aqg_told_RequestShort##M(gasnet_node_t dest, gasnet_handler_t handler,          \
                                            unsigned told AQG_PARAMS_##M)                          \
    {                                                                                              \
        aqg_check_count("gasnet_AMRequestShort", told, M);                                         \
        return gasnet_AMRequestShort##M(dest, handler AQG_TOLD_ARGS_##M);                          \
    }                                                                                              \
    AQG_INLINE int aqg_told_RequestMedium##M(gasnet_node_t dest, gasnet_handler_t handler,         \
                                             const void *src, size_t nbytes,                       \
                                             unsigned told AQG_PARAMS_##M)                         \
    {                                                                                              \
        aqg_check_count("gasnet_AMRequestMedium", told, M);                                        \
        return gasnet_AMRequestMedium##M(dest, handler, src, nbytes AQG_TOLD_ARGS_##M);            \
    }                                                                                              \
    AQG_INLINE int aqg_told_RequestLong##M(gasnet_node_t dest, gasnet_handler_t handler,           \
                                           const void *src, size_t nbytes, void *dest_addr,        \
                                           unsigned told AQG_PARAMS_##M)                           \
    {                                                                                              \
        aqg_check_count("gasnet_AMRequestLong", told, M);                                          \
        return gasnet_AMRequestLong##M(dest, handler, src, nbytes, dest_addr AQG_TOLD_ARGS_##M);   \
    }                                                                                              \
    AQG_INLINE int aqg_told_RequestLongAsync##M(gasnet_node_t dest, gasnet_handler_t handler,      \
                                                const void *src, size_t nbytes, void *dest_addr,   \
                                                unsigned told AQG_PARAMS_##M)                      \
    {                                                                                              \
        aqg_check_count("gasnet_AMRequestLongAsync", told, M);                                     \
        return gasnet_AMRequestLongAsync##M(dest, handler, src, nbytes,                            \
                                            dest_addr AQG_TOLD_ARGS_##M);                          \
    }                                                                                              \
    AQG_INLINE int aqg_told_ReplyShort##M(gasnet_token_t token, gasnet_handler_t handler,          \
                                          unsigned told AQG_PARAMS_##M)                            \
    {                                                                                              \
        aqg_check_count("gasnet_AMReplyShort", told, M);                                           \
        return gasnet_AMReplyShort##M(token, handler AQG_TOLD_ARGS_##M);                           \
    }                                                                                              \
    AQG_INLINE int aqg_told_ReplyMedium##M(gasnet_token_t token, gasnet_handler_t handler,         \
                                           const void *src, size_t nbytes,                         \
                                           unsigned told AQG_PARAMS_##M)                           \
    {                                                                                              \
        aqg_check_count("gasnet_AMReplyMedium", told, M);                                          \
        return gasnet_AMReplyMedium##M(token, handler, src, nbytes AQG_TOLD_ARGS_##M);             \
    }                                                                                              \
    AQG_INLINE int aqg_told_ReplyLong##M(gasnet_token_t token, gasnet_handler_t handler,           \
                                         const void *src, size_t nbytes, void *dest_addr,          \
                                         unsigned told AQG_PARAMS_##M)                             \
    {                                                                                              \
        aqg_check_count("gasnet_AMReplyLong", told, M);                                            \
        return gasnet_AMReplyLong##M(token, handler, src, nbytes, dest_addr AQG_TOLD_ARGS_##M);    \
    }

AQG_TOLD_NAMES(0)
AQG_TOLD_NAMES(1)
AQG_TOLD_NAMES(2)
AQG_TOLD_NAMES(3)
AQG_TOLD_NAMES(4)
AQG_TOLD_NAMES(5)
AQG_TOLD_NAMES(6)
AQG_TOLD_NAMES(7)
AQG_TOLD_NAMES(8)
AQG_TOLD_NAMES(9)
AQG_TOLD_NAMES(10)
AQG_TOLD_NAMES(11)
AQG_TOLD_NAMES(12)
AQG_TOLD_NAMES(13)
AQG_TOLD_NAMES(14)
AQG_TOLD_NAMES(15)
AQG_TOLD_NAMES(16)

#define gasnet_AMRequestShort(...)  AQG_NAME_3(aqg_told_RequestShort, __VA_ARGS__)(__VA_ARGS__)
#define gasnet_AMRequestMedium(...) AQG_NAME_5(aqg_told_RequestMedium, __VA_ARGS__)(__VA_ARGS__)
#define gasnet_AMRequestLong(...)   AQG_NAME_6(aqg_told_RequestLong, __VA_ARGS__)(__VA_ARGS__)
#define gasnet_AMRequestLongAsync(...)                                                             \
    AQG_NAME_6(aqg_told_RequestLongAsync, __VA_ARGS__)(__VA_ARGS__)
#define gasnet_AMReplyShort(...)  AQG_NAME_3(aqg_told_ReplyShort, __VA_ARGS__)(__VA_ARGS__)
#define gasnet_AMReplyMedium(...) AQG_NAME_5(aqg_told_ReplyMedium, __VA_ARGS__)(__VA_ARGS__)
#define gasnet_AMReplyLong(...)   AQG_NAME_6(aqg_told_ReplyLong, __VA_ARGS__)(__VA_ARGS__)

AQG_END

#endif
