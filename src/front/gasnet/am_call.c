/* Calling handlers: converts the arguments of a message to a C call with exactly as many
 * arguments. */
#include "aqg.h"

/* A handler must be called through its real type: with as many arguments as the message has. */
static inline gex_AM_Fn_t am_call_handler_of(const aq_am *am)
{
    return ((const gex_AM_Entry_t *)am->context)->gex_fnptr;
}

static inline gex_Token_t am_call_token_of(aq_am *am)
{
    return (gex_Token_t)(void *)am;
}

#define GIVEN(i) , am->args[i]
#define CALLERS(M)                                                                                 \
    static void call_short_##M(aq_am *am)                                                          \
    {                                                                                              \
        ((void (*)(gex_Token_t AQG_LIST_##M(AQG_PARAM, AQG_NOTHING)))am_call_handler_of(am))(      \
            am_call_token_of(am) AQG_LIST_##M(GIVEN, AQG_NOTHING));                                \
    }                                                                                              \
    static void call_bytes_##M(aq_am *am)                                                          \
    {                                                                                              \
        ((void (*)(gex_Token_t, void *,                                                            \
                   size_t AQG_LIST_##M(AQG_PARAM, AQG_NOTHING)))am_call_handler_of(am))(           \
            am_call_token_of(am), am->payload, am->nbytes AQG_LIST_##M(GIVEN, AQG_NOTHING));       \
    }
AQG_EACH(CALLERS)

#define SHORT(M) call_short_##M,
#define BYTES(M) call_bytes_##M,
static aq_am_fn *const call_short[] = {AQG_EACH(SHORT)};
static aq_am_fn *const call_bytes[] = {AQG_EACH(BYTES)};
static_assert(sizeof(call_short) / sizeof(*call_short) == AQ_AM_MAX_ARGS + 1, "one for each");

static void am_call_any(aq_am *am)
{
    (am->category == AQ_AM_SHORT ? call_short : call_bytes)[am->nargs](am);
}

aq_am_fn *aqgi_caller(unsigned categories, unsigned nargs)
{
    if (nargs > AQ_AM_MAX_ARGS) return am_call_any;
    if (categories == AQ_AM_SHORT) return call_short[nargs];
    if (categories != 0 && (categories & AQ_AM_SHORT) == 0) return call_bytes[nargs];
    return am_call_any;
}
