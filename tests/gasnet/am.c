/* Active messages of GASNet-EX: each number of arguments in each category, as request and reply. */
#include <gasnetex.h>

#include "support.h"

enum { AREA = 1 << 18, SHORT_BASE = 100, MEDIUM_BASE = 120, LONG_BASE = 140 };

/* Counts of messages, by category and number of arguments. */
static unsigned requests[3][17], replies[3][17];
static char payload[AREA];
static size_t payload_len;

/* Argument i of each message. Some are negative, to test the sign. */
#define ARG(i) ((gex_AM_Arg_t)((i) % 2 ? -1000000007 - (i) : 77 + (i)))

#define P0
#define P1  , gex_AM_Arg_t a0
#define P2  P1, gex_AM_Arg_t a1
#define P3  P2, gex_AM_Arg_t a2
#define P4  P3, gex_AM_Arg_t a3
#define P5  P4, gex_AM_Arg_t a4
#define P6  P5, gex_AM_Arg_t a5
#define P7  P6, gex_AM_Arg_t a6
#define P8  P7, gex_AM_Arg_t a7
#define P9  P8, gex_AM_Arg_t a8
#define P10 P9, gex_AM_Arg_t a9
#define P11 P10, gex_AM_Arg_t a10
#define P12 P11, gex_AM_Arg_t a11
#define P13 P12, gex_AM_Arg_t a12
#define P14 P13, gex_AM_Arg_t a13
#define P15 P14, gex_AM_Arg_t a14
#define P16 P15, gex_AM_Arg_t a15
#define V0  0
#define V1  a0
#define V2  V1, a1
#define V3  V2, a2
#define V4  V3, a3
#define V5  V4, a4
#define V6  V5, a5
#define V7  V6, a6
#define V8  V7, a7
#define V9  V8, a8
#define V10 V9, a9
#define V11 V10, a10
#define V12 V11, a11
#define V13 V12, a12
#define V14 V13, a13
#define V15 V14, a14
#define V16 V15, a15
#define S0
#define S1  , ARG(0)
#define S2  S1, ARG(1)
#define S3  S2, ARG(2)
#define S4  S3, ARG(3)
#define S5  S4, ARG(4)
#define S6  S5, ARG(5)
#define S7  S6, ARG(6)
#define S8  S7, ARG(7)
#define S9  S8, ARG(8)
#define S10 S9, ARG(9)
#define S11 S10, ARG(10)
#define S12 S11, ARG(11)
#define S13 S12, ARG(12)
#define S14 S13, ARG(13)
#define S15 S14, ARG(14)
#define S16 S15, ARG(15)

/*
 * Checks common to all handlers. Returns whether the message is a request, to be answered by a
 * reply of the same shape.
 */
static int check_message(gex_Token_t token, unsigned category, gex_AM_Index_t index,
                         const gex_AM_Arg_t *args, int nargs)
{
    gex_Token_Info_t info;
    gex_TI_t got = gex_Token_Info(token, &info, GEX_TI_ALL);
    int i;
    CHECK_EQUAL(got, GEX_TI_ALL);
    CHECK(info.gex_ep == job.ep);
    CHECK_EQUAL(info.gex_srcrank, info.gex_is_req ? job.previous : job.next);
    CHECK_EQUAL(info.gex_entry->gex_index, index);
    CHECK_EQUAL(info.gex_entry->gex_nargs, nargs);
    CHECK(info.gex_entry->gex_cdata == &job);
    CHECK_EQUAL(!info.gex_is_long, category != 2);
    for (i = 0; i < nargs; i++)
        CHECK_EQUAL(args[i], ARG(i));
    if (info.gex_is_req)
        one_more(&requests[category][nargs]);
    else
        one_more(&replies[category][nargs]);
    return info.gex_is_req;
}

static void check_payload(const void *buf, size_t nbytes, unsigned seed)
{
    CHECK_EQUAL(nbytes, payload_len);
    CHECK(nbytes == 0 || filled(buf, nbytes, seed));
}

/* The destination of Longs: one for requests, one for replies. */
static char *landing(gex_Rank_t rank, int reply)
{
    return job_at(rank, 64 + (reply ? AREA : 0));
}

#define DEFINE(M)                                                                                  \
    static void short_##M(gex_Token_t token P##M)                                                  \
    {                                                                                              \
        const gex_AM_Arg_t args[] = {V##M};                                                        \
        if (!check_message(token, 0, SHORT_BASE + M, args, M)) return;                             \
        CHECK_EQUAL(gex_AM_ReplyShort##M(token, SHORT_BASE + M, 0 S##M), 0);                       \
    }                                                                                              \
    static void medium_##M(gex_Token_t token, void *buf, size_t nbytes P##M)                       \
    {                                                                                              \
        const gex_AM_Arg_t args[] = {V##M};                                                        \
        check_payload(buf, nbytes, M);                                                             \
        CHECK_EQUAL((uintptr_t)buf % 8, 0);                                                        \
        if (!check_message(token, 1, MEDIUM_BASE + M, args, M)) return;                            \
        CHECK_EQUAL(                                                                               \
            gex_AM_ReplyMedium(token, MEDIUM_BASE + M, buf, nbytes, GEX_EVENT_NOW, 0 S##M), 0);    \
    }                                                                                              \
    static void long_##M(gex_Token_t token, void *buf, size_t nbytes P##M)                         \
    {                                                                                              \
        const gex_AM_Arg_t args[] = {V##M};                                                        \
        gex_Event_t lc = GEX_EVENT_NO_OP;                                                          \
        int request = check_message(token, 2, LONG_BASE + M, args, M);                             \
        CHECK(buf == landing(job.rank, !request));                                                 \
        check_payload(buf, nbytes, M);                                                             \
        if (!request) return;                                                                      \
        CHECK_EQUAL(gex_AM_ReplyLong##M(token, LONG_BASE + M, buf, nbytes,                         \
                                        landing(job.previous, 1), &lc, 0 S##M),                    \
                    0);                                                                            \
        CHECK(lc != GEX_EVENT_NO_OP);                                                              \
    }                                                                                              \
    /* Both spellings of each, and every form of local completion. */                              \
    static void send_##M(void)                                                                     \
    {                                                                                              \
        char *dst = landing(job.next, 0);                                                          \
        gex_Event_t lc = GEX_EVENT_NO_OP;                                                          \
        CHECK_EQUAL(gex_AM_RequestShort##M(job.tm, job.next, SHORT_BASE + M, 0 S##M), 0);          \
        CHECK_EQUAL(gex_AM_RequestShort(job.tm, job.next, SHORT_BASE + M, 0 S##M), 0);             \
        fill(payload, payload_len, M);                                                             \
        CHECK_EQUAL(gex_AM_RequestMedium##M(job.tm, job.next, MEDIUM_BASE + M, payload,            \
                                            payload_len, GEX_EVENT_NOW, 0 S##M),                   \
                    0);                                                                            \
        memset(payload, 0x77, payload_len);                                                        \
        fill(payload, payload_len, M);                                                             \
        CHECK_EQUAL(gex_AM_RequestMedium(job.tm, job.next, MEDIUM_BASE + M, payload, payload_len,  \
                                         &lc, 0 S##M),                                             \
                    0);                                                                            \
        gex_Event_Wait(lc);                                                                        \
        memset(payload, 0x77, payload_len);                                                        \
        fill(payload, payload_len, M);                                                             \
        CHECK_EQUAL(gex_AM_RequestLong##M(job.tm, job.next, LONG_BASE + M, payload, payload_len,   \
                                          dst, GEX_EVENT_GROUP, 0 S##M),                           \
                    0);                                                                            \
        gex_NBI_Wait(GEX_EC_AM, 0);                                                                \
        memset(payload, 0x77, payload_len);                                                        \
        GASNET_BLOCKUNTIL(replies[2][M] == 1);                                                     \
        fill(payload, payload_len, M);                                                             \
        CHECK_EQUAL(gex_AM_RequestLong(job.tm, job.next, LONG_BASE + M, payload, payload_len, dst, \
                                       GEX_EVENT_NOW, 0 S##M),                                     \
                    0);                                                                            \
        memset(payload, 0x77, payload_len);                                                        \
        GASNET_BLOCKUNTIL(requests[0][M] == 2 && requests[1][M] == 2 && requests[2][M] == 2);      \
        GASNET_BLOCKUNTIL(replies[0][M] == 2 && replies[1][M] == 2 && replies[2][M] == 2);         \
        job_barrier();                                                                             \
    }

DEFINE(0)
DEFINE(1)
DEFINE(2)
DEFINE(3)
DEFINE(4)
DEFINE(5)
DEFINE(6)
DEFINE(7)
DEFINE(8)
DEFINE(9)
DEFINE(10)
DEFINE(11)
DEFINE(12)
DEFINE(13)
DEFINE(14)
DEFINE(15)
DEFINE(16)

#define SHORT           GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP
#define BYTES(category) category | GEX_FLAG_AM_REQREP
#define ROWS(M)                                                                                    \
    {SHORT_BASE + M, (gex_AM_Fn_t)short_##M, SHORT, M, &job, "short"},                             \
        {MEDIUM_BASE + M, (gex_AM_Fn_t)medium_##M, BYTES(GEX_FLAG_AM_MEDIUM), M, &job, "medium"},  \
    {                                                                                              \
        LONG_BASE + M, (gex_AM_Fn_t)long_##M, BYTES(GEX_FLAG_AM_LONG), M, &job, "long"             \
    }

static gex_AM_Entry_t table[] = {ROWS(0),  ROWS(1),  ROWS(2),  ROWS(3),  ROWS(4),  ROWS(5),
                                 ROWS(6),  ROWS(7),  ROWS(8),  ROWS(9),  ROWS(10), ROWS(11),
                                 ROWS(12), ROWS(13), ROWS(14), ROWS(15), ROWS(16)};
static void (*const senders[])(void) = {send_0,  send_1,  send_2,  send_3,  send_4,  send_5,
                                        send_6,  send_7,  send_8,  send_9,  send_10, send_11,
                                        send_12, send_13, send_14, send_15, send_16};

/* Automatic indices: the highest free ones in table order; after errors nothing is registered. */
static void plain(gex_Token_t token)
{
    (void)token;
}

static void test_registration(void)
{
    gex_AM_Entry_t row[] = {
        {0, (gex_AM_Fn_t)plain, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "first"},
        {253, (gex_AM_Fn_t)plain, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "fixed"},
        {0, (gex_AM_Fn_t)plain, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "second"},
        {0, (gex_AM_Fn_t)plain, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "third"}};
    gex_AM_Entry_t taken[] = {
        {253, (gex_AM_Fn_t)plain, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "taken"}};
    CHECK_EQUAL(gex_EP_RegisterHandlers(job.ep, row, COUNT_OF(row)), GASNET_OK);
    CHECK_EQUAL(row[0].gex_index, 255);
    CHECK_EQUAL(row[2].gex_index, 254);
    CHECK_EQUAL(row[3].gex_index, 252);
    gex_System_SetVerboseErrors(0);
    CHECK_EQUAL(gex_System_GetVerboseErrors(), 0);
    CHECK(gex_EP_RegisterHandlers(job.ep, taken, 1) != GASNET_OK);
    taken[0].gex_index = GEX_AM_INDEX_BASE - 1;
    CHECK(gex_EP_RegisterHandlers(job.ep, taken, 1) != GASNET_OK);
    gex_System_SetVerboseErrors(1);
    CHECK_EQUAL(gex_System_GetVerboseErrors(), 1);
}

static void test_limits(void)
{
    const gex_Flags_t flags[] = {0, GEX_FLAG_IMMEDIATE};
    gex_Event_t event;
    const gex_Event_t *const lc_opts[] = {GEX_EVENT_NOW, GEX_EVENT_GROUP, &event, NULL};
    size_t f, l;
    gex_Rank_t r;
    CHECK(gex_AM_MaxArgs() >= 2 * sizeof(void *));
    for (f = 0; f < COUNT_OF(flags); f++)
        for (l = 0; l < COUNT_OF(lc_opts); l++)
            for (r = 0; r <= job.size; r++) {
                gex_Rank_t rank = r == job.size ? GEX_RANK_INVALID : r;
                CHECK_EQUAL(gex_AM_MaxRequestMedium(job.tm, rank, lc_opts[l], flags[f], 16),
                            gex_AM_LUBRequestMedium());
                CHECK_EQUAL(gex_AM_MaxReplyMedium(job.tm, rank, lc_opts[l], flags[f], 0),
                            gex_AM_LUBReplyMedium());
                CHECK_EQUAL(gex_AM_MaxRequestLong(job.tm, rank, lc_opts[l], flags[f], 0),
                            gex_AM_LUBRequestLong());
                CHECK_EQUAL(gex_AM_MaxReplyLong(job.tm, rank, lc_opts[l], flags[f], 16),
                            gex_AM_LUBReplyLong());
            }
    CHECK(gex_AM_LUBRequestMedium() >= 512 && gex_AM_LUBReplyMedium() >= 512);
    CHECK(gex_AM_LUBRequestLong() >= 512 && gex_AM_LUBReplyLong() >= 512);
}

static void test_all(size_t len)
{
    size_t i;
    payload_len = len;
    memset(requests, 0, sizeof(requests));
    memset(replies, 0, sizeof(replies));
    job_barrier();
    for (i = 0; i < COUNT_OF(senders); i++)
        senders[i]();
}

int main(int argc, char **argv)
{
    job_open(&argc, &argv, 4 * AREA);
    test_registration();
    CHECK_EQUAL(gex_EP_RegisterHandlers(job.ep, table, COUNT_OF(table)), GASNET_OK);
    test_limits();
    test_all(0);
    test_all(1);
    test_all(100);
    test_all(gex_AM_LUBRequestMedium());
    job_barrier();
    gasnet_exit(0);
}
