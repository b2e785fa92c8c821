/* Calling handlers: from the arguments of a message to a C call with exactly as many arguments. */
#include "aqg.h"

#include "am_call.h"

/* A handler is called through the type it has: as many arguments as the message brings. */
typedef gex_AM_Arg_t arg;
static inline gex_AM_Fn_t handler_of(const aq_am *am)
{
    return ((const gex_AM_Entry_t *)am->context)->gex_fnptr;
}

static inline gex_Token_t token_of(aq_am *am)
{
    return (gex_Token_t)(void *)am;
}

#define A(i) am->args[i]
static void call_short_0(aq_am *am)
{
    ((void (*)(gex_Token_t))handler_of(am))(token_of(am));
}
static void call_bytes_0(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t))handler_of(am))(token_of(am), am->payload, am->nbytes);
}
static void call_short_1(aq_am *am)
{
    ((void (*)(gex_Token_t, arg))handler_of(am))(token_of(am), A(0));
}
static void call_bytes_1(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg))handler_of(am))(token_of(am), am->payload,
                                                                 am->nbytes, A(0));
}
static void call_short_2(aq_am *am)
{
    ((void (*)(gex_Token_t, arg, arg))handler_of(am))(token_of(am), A(0), A(1));
}
static void call_bytes_2(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg, arg))handler_of(am))(token_of(am), am->payload,
                                                                      am->nbytes, A(0), A(1));
}
static void call_short_3(aq_am *am)
{
    ((void (*)(gex_Token_t, arg, arg, arg))handler_of(am))(token_of(am), A(0), A(1), A(2));
}
static void call_bytes_3(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg, arg, arg))handler_of(am))(
        token_of(am), am->payload, am->nbytes, A(0), A(1), A(2));
}
static void call_short_4(aq_am *am)
{
    ((void (*)(gex_Token_t, arg, arg, arg, arg))handler_of(am))(token_of(am), A(0), A(1), A(2),
                                                                A(3));
}
static void call_bytes_4(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg, arg, arg, arg))handler_of(am))(
        token_of(am), am->payload, am->nbytes, A(0), A(1), A(2), A(3));
}
static void call_short_5(aq_am *am)
{
    ((void (*)(gex_Token_t, arg, arg, arg, arg, arg))handler_of(am))(token_of(am), A(0), A(1), A(2),
                                                                     A(3), A(4));
}
static void call_bytes_5(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg, arg, arg, arg, arg))handler_of(am))(
        token_of(am), am->payload, am->nbytes, A(0), A(1), A(2), A(3), A(4));
}
static void call_short_6(aq_am *am)
{
    ((void (*)(gex_Token_t, arg, arg, arg, arg, arg, arg))handler_of(am))(token_of(am), A(0), A(1),
                                                                          A(2), A(3), A(4), A(5));
}
static void call_bytes_6(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg, arg, arg, arg, arg, arg))handler_of(am))(
        token_of(am), am->payload, am->nbytes, A(0), A(1), A(2), A(3), A(4), A(5));
}
static void call_short_7(aq_am *am)
{
    ((void (*)(gex_Token_t, arg, arg, arg, arg, arg, arg, arg))handler_of(am))(
        token_of(am), A(0), A(1), A(2), A(3), A(4), A(5), A(6));
}
static void call_bytes_7(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg, arg, arg, arg, arg, arg, arg))handler_of(am))(
        token_of(am), am->payload, am->nbytes, A(0), A(1), A(2), A(3), A(4), A(5), A(6));
}
static void call_short_8(aq_am *am)
{
    ((void (*)(gex_Token_t, arg, arg, arg, arg, arg, arg, arg, arg))handler_of(am))(
        token_of(am), A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7));
}
static void call_bytes_8(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg, arg, arg, arg, arg, arg, arg, arg))handler_of(am))(
        token_of(am), am->payload, am->nbytes, A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7));
}
static void call_short_9(aq_am *am)
{
    ((void (*)(gex_Token_t, arg, arg, arg, arg, arg, arg, arg, arg, arg))handler_of(am))(
        token_of(am), A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8));
}
static void call_bytes_9(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg, arg, arg, arg, arg, arg, arg, arg, arg))handler_of(
        am))(token_of(am), am->payload, am->nbytes, A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7),
             A(8));
}
static void call_short_10(aq_am *am)
{
    ((void (*)(gex_Token_t, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg))handler_of(am))(
        token_of(am), A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9));
}
static void call_bytes_10(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg, arg, arg, arg, arg, arg, arg, arg, arg,
               arg))handler_of(am))(token_of(am), am->payload, am->nbytes, A(0), A(1), A(2), A(3),
                                    A(4), A(5), A(6), A(7), A(8), A(9));
}
static void call_short_11(aq_am *am)
{
    ((void (*)(gex_Token_t, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg))handler_of(am))(
        token_of(am), A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10));
}
static void call_bytes_11(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg,
               arg))handler_of(am))(token_of(am), am->payload, am->nbytes, A(0), A(1), A(2), A(3),
                                    A(4), A(5), A(6), A(7), A(8), A(9), A(10));
}
static void call_short_12(aq_am *am)
{
    ((void (*)(gex_Token_t, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg))handler_of(
        am))(token_of(am), A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10),
             A(11));
}
static void call_bytes_12(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg,
               arg))handler_of(am))(token_of(am), am->payload, am->nbytes, A(0), A(1), A(2), A(3),
                                    A(4), A(5), A(6), A(7), A(8), A(9), A(10), A(11));
}
static void call_short_13(aq_am *am)
{
    ((void (*)(gex_Token_t, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg,
               arg))handler_of(am))(token_of(am), A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7),
                                    A(8), A(9), A(10), A(11), A(12));
}
static void call_bytes_13(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg,
               arg, arg))handler_of(am))(token_of(am), am->payload, am->nbytes, A(0), A(1), A(2),
                                         A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10), A(11),
                                         A(12));
}
static void call_short_14(aq_am *am)
{
    ((void (*)(gex_Token_t, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg,
               arg))handler_of(am))(token_of(am), A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7),
                                    A(8), A(9), A(10), A(11), A(12), A(13));
}
static void call_bytes_14(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg,
               arg, arg, arg))handler_of(am))(token_of(am), am->payload, am->nbytes, A(0), A(1),
                                              A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10),
                                              A(11), A(12), A(13));
}
static void call_short_15(aq_am *am)
{
    ((void (*)(gex_Token_t, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg,
               arg))handler_of(am))(token_of(am), A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7),
                                    A(8), A(9), A(10), A(11), A(12), A(13), A(14));
}
static void call_bytes_15(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg,
               arg, arg, arg, arg))handler_of(am))(token_of(am), am->payload, am->nbytes, A(0),
                                                   A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8),
                                                   A(9), A(10), A(11), A(12), A(13), A(14));
}
static void call_short_16(aq_am *am)
{
    ((void (*)(gex_Token_t, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg,
               arg, arg))handler_of(am))(token_of(am), A(0), A(1), A(2), A(3), A(4), A(5), A(6),
                                         A(7), A(8), A(9), A(10), A(11), A(12), A(13), A(14),
                                         A(15));
}
static void call_bytes_16(aq_am *am)
{
    ((void (*)(gex_Token_t, void *, size_t, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg, arg,
               arg, arg, arg, arg, arg))handler_of(am))(
        token_of(am), am->payload, am->nbytes, A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8),
        A(9), A(10), A(11), A(12), A(13), A(14), A(15));
}
#undef A

static aq_am_fn *const call_short[] = {
    call_short_0,  call_short_1,  call_short_2,  call_short_3,  call_short_4,  call_short_5,
    call_short_6,  call_short_7,  call_short_8,  call_short_9,  call_short_10, call_short_11,
    call_short_12, call_short_13, call_short_14, call_short_15, call_short_16};
static aq_am_fn *const call_bytes[] = {
    call_bytes_0,  call_bytes_1,  call_bytes_2,  call_bytes_3,  call_bytes_4,  call_bytes_5,
    call_bytes_6,  call_bytes_7,  call_bytes_8,  call_bytes_9,  call_bytes_10, call_bytes_11,
    call_bytes_12, call_bytes_13, call_bytes_14, call_bytes_15, call_bytes_16};
static_assert(sizeof(call_short) / sizeof(*call_short) == AQ_AM_MAX_ARGS + 1, "one for each");

static void call_any(aq_am *am)
{
    (am->category == AQ_AM_SHORT ? call_short : call_bytes)[am->nargs](am);
}

aq_am_fn *aqgi_caller(unsigned categories, unsigned nargs)
{
    if (nargs > AQ_AM_MAX_ARGS) return call_any;
    if (categories == AQ_AM_SHORT) return call_short[nargs];
    if (categories != 0 && (categories & AQ_AM_SHORT) == 0) return call_bytes[nargs];
    return call_any;
}
