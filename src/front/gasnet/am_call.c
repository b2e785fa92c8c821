/* Calling handlers: from the arguments of a message to a C call with exactly as many arguments. */
#include "aqg.h"

#include "am_call.h"

/* A handler is called through the type it has: as many arguments as the message brings. */
static inline gex_AM_Fn_t am_call_handler_of(const aq_am *am)
{
    return ((const gex_AM_Entry_t *)am->context)->gex_fnptr;
}

static inline gex_Token_t am_call_token_of(aq_am *am)
{
    return (gex_Token_t)(void *)am;
}

/* So many arguments of a message, each with a comma before it. */
#define GIVEN_0
#define GIVEN_1  , am->args[0]
#define GIVEN_2  GIVEN_1, am->args[1]
#define GIVEN_3  GIVEN_2, am->args[2]
#define GIVEN_4  GIVEN_3, am->args[3]
#define GIVEN_5  GIVEN_4, am->args[4]
#define GIVEN_6  GIVEN_5, am->args[5]
#define GIVEN_7  GIVEN_6, am->args[6]
#define GIVEN_8  GIVEN_7, am->args[7]
#define GIVEN_9  GIVEN_8, am->args[8]
#define GIVEN_10 GIVEN_9, am->args[9]
#define GIVEN_11 GIVEN_10, am->args[10]
#define GIVEN_12 GIVEN_11, am->args[11]
#define GIVEN_13 GIVEN_12, am->args[12]
#define GIVEN_14 GIVEN_13, am->args[13]
#define GIVEN_15 GIVEN_14, am->args[14]
#define GIVEN_16 GIVEN_15, am->args[15]

#define CALLERS(M)                                                                                 \
    static void call_short_##M(aq_am *am)                                                          \
    {                                                                                              \
        ((void (*)(gex_Token_t AQG_PARAMS_##M))am_call_handler_of(am))(am_call_token_of(am)        \
                                                                           GIVEN_##M);             \
    }                                                                                              \
    static void call_bytes_##M(aq_am *am)                                                          \
    {                                                                                              \
        ((void (*)(gex_Token_t, void *, size_t AQG_PARAMS_##M))am_call_handler_of(am))(            \
            am_call_token_of(am), am->payload, am->nbytes GIVEN_##M);                              \
    }
AQG_EACH(CALLERS)

#define SHORT(M) call_short_##M,
#define BYTES(M) call_bytes_##M,
static aq_am_fn *const call_short[] = {AQG_EACH(SHORT)};
static aq_am_fn *const call_bytes[] = {AQG_EACH(BYTES)};
static_assert(sizeof(call_short) / sizeof(*call_short) == AQ_AM_MAX_ARGS + 1, "one for each");

static void am_call_call_any(aq_am *am)
{
    (am->category == AQ_AM_SHORT ? call_short : call_bytes)[am->nargs](am);
}

aq_am_fn *aqgi_caller(unsigned categories, unsigned nargs)
{
    if (nargs > AQ_AM_MAX_ARGS) return am_call_call_any;
    if (categories == AQ_AM_SHORT) return call_short[nargs];
    if (categories != 0 && (categories & AQ_AM_SHORT) == 0) return call_bytes[nargs];
    return am_call_call_any;
}
