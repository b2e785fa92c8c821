/* GASNet-1: all calls for messages, puts, gets, values, memset, regions, barriers, locks. */
#include <gasnet.h>
#include <gasnet_tools.h>

#include "support.h"

enum { AREA = 1 << 16, PING = 128, BYTES, REPLY, REPLY_BYTES, ARGS };

static char out[AREA], in[AREA];
static unsigned pings, bytes, replies, reply_bytes, many;
static gasnet_hsl_t lock = GASNET_HSL_INITIALIZER;

static char *at(gasnet_node_t node, size_t offset)
{
    static gasnet_seginfo_t *table;
    if (table == NULL) {
        table = (gasnet_seginfo_t *)malloc(gasnet_nodes() * sizeof(*table));
        CHECK_EQUAL(gasnet_getSegmentInfo(table, (int)gasnet_nodes()), GASNET_OK);
    }
    return (char *)table[node].addr + offset;
}

/* --- messages -------------------------------------------------------------------------------- */

static void on_ping(gasnet_token_t token, gasnet_handlerarg_t a, gasnet_handlerarg_t b)
{
    gasnet_node_t source = gasnet_nodes();
    CHECK_EQUAL(gasnet_AMGetMsgSource(token, &source), GASNET_OK);
    CHECK_EQUAL(source, job.previous);
    CHECK_EQUAL(a, -5);
    gasnet_hsl_lock(&lock);
    one_more(&pings);
    gasnet_hsl_unlock(&lock);
    if (b == 0) CHECK_EQUAL(gasnet_AMReplyShort0(token, REPLY), GASNET_OK);
    if (b == 1) CHECK_EQUAL(gasnet_AMReplyShort(token, REPLY, 0), GASNET_OK);
}

static void on_bytes(gasnet_token_t token, void *buf, size_t nbytes, gasnet_handlerarg_t kind)
{
    CHECK(filled(buf, nbytes, (unsigned)nbytes));
    if (kind >= 2) CHECK(buf == at(gasnet_mynode(), 0));
    one_more(&bytes);
    if (kind == 0) gasnet_AMReplyMedium1(token, REPLY_BYTES, buf, nbytes, 7);
    if (kind == 1) gasnet_AMReplyMedium(token, REPLY_BYTES, buf, nbytes, 1, 7);
    if (kind == 2) gasnet_AMReplyLong1(token, REPLY_BYTES, buf, nbytes, at(job.previous, AREA), 7);
    if (kind >= 3)
        gasnet_AMReplyLong(token, REPLY_BYTES, buf, nbytes, at(job.previous, AREA), 1, 7);
}

static void on_reply(gasnet_token_t token)
{
    gasnet_node_t source = gasnet_nodes();
    CHECK_EQUAL(gasnet_AMGetMsgSource(token, &source), GASNET_OK);
    CHECK_EQUAL(source, job.next);
    one_more(&replies);
}

static void on_reply_bytes(gasnet_token_t token, void *buf, size_t nbytes, gasnet_handlerarg_t a)
{
    (void)token;
    CHECK_EQUAL(a, 7);
    CHECK(filled(buf, nbytes, (unsigned)nbytes));
    one_more(&reply_bytes);
}

#define SIXTEEN 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, -16

static void on_args(gasnet_token_t token, gasnet_handlerarg_t a0, gasnet_handlerarg_t a1,
                    gasnet_handlerarg_t a2, gasnet_handlerarg_t a3, gasnet_handlerarg_t a4,
                    gasnet_handlerarg_t a5, gasnet_handlerarg_t a6, gasnet_handlerarg_t a7,
                    gasnet_handlerarg_t a8, gasnet_handlerarg_t a9, gasnet_handlerarg_t a10,
                    gasnet_handlerarg_t a11, gasnet_handlerarg_t a12, gasnet_handlerarg_t a13,
                    gasnet_handlerarg_t a14, gasnet_handlerarg_t a15)
{
    const gasnet_handlerarg_t args[] = {a0, a1, a2,  a3,  a4,  a5,  a6,  a7,
                                        a8, a9, a10, a11, a12, a13, a14, a15};
    const gasnet_handlerarg_t wanted[] = {SIXTEEN};
    (void)token;
    CHECK(memcmp(args, wanted, sizeof(args)) == 0);
    one_more(&many);
}

static void await(unsigned *counter, unsigned count)
{
    volatile unsigned *now = counter;
    GASNET_BLOCKUNTIL(*now == count);
}

static void test_messages(void)
{
    const size_t sizes[] = {0, 1, 100, 512};
    unsigned sent = 0;
    size_t i;
    CHECK_EQUAL(gasnet_AMRequestShort2(job.next, PING, -5, 0), GASNET_OK);
    CHECK_EQUAL(gasnet_AMRequestShort(job.next, PING, 2, -5, 1), GASNET_OK);
    await(&replies, 2);
    await(&pings, 2);
    CHECK_EQUAL(gasnet_AMRequestShort16(job.next, ARGS, SIXTEEN), GASNET_OK);
    CHECK_EQUAL(gasnet_AMRequestShort(job.next, ARGS, 8 + 8, SIXTEEN), GASNET_OK);
    await(&many, 2);
    for (i = 0; i < COUNT_OF(sizes); i++) {
        size_t len = sizes[i];
        char *dst = at(job.next, 0);
        fill(out, len, (unsigned)len);
        CHECK_EQUAL(gasnet_AMRequestMedium1(job.next, BYTES, out, len, 0), GASNET_OK);
        await(&reply_bytes, ++sent);
        CHECK_EQUAL(gasnet_AMRequestMedium(job.next, BYTES, out, len, 1, 1), GASNET_OK);
        await(&reply_bytes, ++sent);
        CHECK_EQUAL(gasnet_AMRequestLong1(job.next, BYTES, out, len, dst, 2), GASNET_OK);
        await(&reply_bytes, ++sent);
        CHECK_EQUAL(gasnet_AMRequestLong(job.next, BYTES, out, len, dst, 1, 3), GASNET_OK);
        await(&reply_bytes, ++sent);
        CHECK_EQUAL(gasnet_AMRequestLongAsync1(job.next, BYTES, out, len, dst, 4), GASNET_OK);
        await(&reply_bytes, ++sent);
        CHECK_EQUAL(gasnet_AMRequestLongAsync(job.next, BYTES, out, len, dst, 1, 5), GASNET_OK);
        await(&reply_bytes, ++sent);
        await(&bytes, sent);
        job_barrier();
    }
}

/* --- puts and gets --------------------------------------------------------------------------- */

/* Check the data that the previous process has put here; then let it put again. */
static void check_here(size_t len, unsigned seed)
{
    job_barrier();
    CHECK(filled(at(gasnet_mynode(), 0), len, seed + job.previous));
    job_barrier();
}

static void test_puts(size_t len, unsigned seed)
{
    char *dst = at(job.next, 0);
    gasnet_handle_t handles[3];
    fill(out, len, seed + job.rank);
    gasnet_put(job.next, dst, out, len);
    check_here(len, seed);
    gasnet_put_bulk(job.next, dst, out, len);
    check_here(len, seed);
    handles[0] = gasnet_put_nb(job.next, dst, out, len);
    memset(out, 1, len); /* may be reused on return */
    gasnet_wait_syncnb(handles[0]);
    check_here(len, seed);
    fill(out, len, seed + job.rank);
    handles[0] = gasnet_put_nb_bulk(job.next, dst, out, len);
    handles[1] = GASNET_INVALID_HANDLE;
    handles[2] = gasnet_memset_nb(job.next, dst + AREA, 0x3c, 100);
    while (gasnet_try_syncnb_all(handles, 3) != GASNET_OK) {
    }
    CHECK(handles[0] == GASNET_INVALID_HANDLE && handles[2] == GASNET_INVALID_HANDLE);
    CHECK_EQUAL(gasnet_try_syncnb_some_nopoll(handles, 3), GASNET_OK);
    check_here(len, seed);
    CHECK(at(gasnet_mynode(), AREA)[99] == 0x3c);
    gasnet_put_nbi(job.next, dst, out, len);
    memset(out, 1, len);
    gasnet_wait_syncnbi_puts();
    check_here(len, seed);
    fill(out, len, seed + job.rank);
    gasnet_put_nbi_bulk(job.next, dst, out, len);
    gasnet_memset_nbi(job.next, dst + AREA, 0x1d, 50);
    while (gasnet_try_syncnbi_puts() != GASNET_OK) {
    }
    check_here(len, seed);
    CHECK(at(gasnet_mynode(), AREA)[49] == 0x1d && at(gasnet_mynode(), AREA)[50] == 0x3c);
    gasnet_begin_nbi_accessregion();
    gasnet_put_nbi_bulk(job.next, dst, out, len);
    gasnet_get_nbi(in, job.next, dst + AREA, 100);
    handles[0] = gasnet_end_nbi_accessregion();
    gasnet_wait_syncnb_all(handles, 1);
    CHECK(in[49] == 0x1d && in[99] == 0x3c);
    check_here(len, seed);
    gasnet_memset(job.next, dst, 0, len);
    job_barrier();
}

static void test_gets(size_t len, unsigned seed)
{
    const char *src = at(job.next, 0);
    gasnet_handle_t handles[2];
    int form;
    fill(at(gasnet_mynode(), 0), len, seed + job.rank);
    job_barrier();
    for (form = 0; form < 6; form++) {
        memset(in, 0x7f, len);
        if (form == 0) gasnet_get(in, job.next, src, len);
        if (form == 1) gasnet_get_bulk(in, job.next, src, len);
        if (form == 2) gasnet_wait_syncnb(gasnet_get_nb(in, job.next, src, len));
        if (form == 3) {
            handles[0] = GASNET_INVALID_HANDLE;
            handles[1] = gasnet_get_nb_bulk(in, job.next, src, len);
            gasnet_wait_syncnb_some(handles, 2);
        }
        if (form == 4) {
            gasnet_get_nbi(in, job.next, src, len);
            gasnet_wait_syncnbi_gets();
        }
        if (form == 5) {
            gasnet_get_nbi_bulk(in, job.next, src, len);
            while (gasnet_try_syncnbi_all() != GASNET_OK) {
            }
        }
        CHECK(filled(in, len, seed + job.next));
    }
    job_barrier();
}

static void test_values(void)
{
    const gasnet_register_value_t value = 0x8182838485868788u;
    size_t len;
    for (len = 1; len <= SIZEOF_GASNET_REGISTER_VALUE_T; len++) {
        gasnet_register_value_t want =
            len == 8 ? value : value & (((gasnet_register_value_t)1 << (8 * len)) - 1);
        char *dst = at(job.next, 3);
        gasnet_valget_handle_t first, second;
        gasnet_put_val(job.next, dst, value, len);
        CHECK(gasnet_get_val(job.next, dst, len) == want);
        gasnet_put_nbi_val(job.next, dst, ~value, len);
        gasnet_wait_syncnbi_all();
        gasnet_wait_syncnb(gasnet_put_nb_val(job.next, dst, value, len));
        first = gasnet_get_nb_val(job.next, dst, len);
        second = gasnet_get_nb_val(job.next, dst, 1);
        CHECK(gasnet_wait_syncnb_valget(second) == (value & 0xff));
        CHECK(gasnet_wait_syncnb_valget(first) == want);
        job_barrier();
    }
}

/* --- barriers, locks, the rest ---------------------------------------------------------------- */

static void test_barriers(void)
{
    int several = gasnet_nodes() > 1, id = 0, i;
    for (i = 0; i < 20; i++) {
        CHECK_EQUAL(gasnet_barrier(i, 0), GASNET_OK);
        CHECK_EQUAL(gasnet_barrier_result(&id), 0);
        CHECK_EQUAL(id, i);
        gasnet_barrier_notify(i, GASNET_BARRIERFLAG_UNNAMED);
        while (gasnet_barrier_try(i, GASNET_BARRIERFLAG_UNNAMED) == GASNET_ERR_NOT_READY) {
        }
        CHECK(gasnet_barrier_result(&id) != 0);
        /*
         * A name at one end and an anonymous barrier at the other match; two names of one process
         * do not.
         */
        gasnet_barrier_notify(i, 0);
        CHECK_EQUAL(gasnet_barrier_wait(7, GASNET_BARRIERFLAG_ANONYMOUS), GASNET_OK);
        gasnet_barrier_notify(i, 0);
        CHECK_EQUAL(gasnet_barrier_wait(i + 1, 0), GASNET_ERR_BARRIER_MISMATCH);
        CHECK_EQUAL(gasnet_barrier((int)job.rank, 0),
                    several ? GASNET_ERR_BARRIER_MISMATCH : GASNET_OK);
        CHECK_EQUAL(gasnet_barrier(i, job.rank == 0 ? GASNET_BARRIERFLAG_MISMATCH : 0),
                    GASNET_ERR_BARRIER_MISMATCH);
    }
}

static void test_locks(void)
{
    gasnet_hsl_t mine;
    gasnet_hsl_init(&mine);
    CHECK_EQUAL(gasnet_hsl_trylock(&mine), GASNET_OK);
    CHECK_EQUAL(gasnet_hsl_trylock(&mine), GASNET_ERR_NOT_READY);
    gasnet_hsl_unlock(&mine);
    gasnet_hsl_lock(&mine);
    gasnet_hsl_unlock(&mine);
    gasnet_hsl_destroy(&mine);
    gasnet_hold_interrupts();
    gasnet_resume_interrupts();
}

static void test_queries(void)
{
    gasnet_nodeinfo_t *info = (gasnet_nodeinfo_t *)malloc(job.size * sizeof(*info));
    GASNET_BEGIN_FUNCTION();
    gasnet_node_t i;
    CHECK(gasnet_AMMaxArgs() == 16 && gasnet_AMMaxMedium() >= 512);
    CHECK(gasnet_AMMaxLongRequest() >= 512 && gasnet_AMMaxLongReply() >= 512);
    CHECK_EQUAL(gasnet_set_waitmode(GASNET_WAIT_BLOCK), GASNET_OK);
    CHECK_EQUAL(gasnet_set_waitmode(GASNET_WAIT_SPINBLOCK), GASNET_OK);
    CHECK(strcmp(gasnet_ErrorName(GASNET_ERR_BAD_ARG), "GASNET_ERR_BAD_ARG") == 0);
    CHECK(strcmp(gasnet_ErrorName(-77), "unknown error -77") == 0);
    CHECK(gasnet_ErrorDesc(-77)[0] != 0);
    CHECK_EQUAL(gasnet_getNodeInfo(info, (int)job.size), GASNET_OK);
    for (i = 0; i < job.size; i++)
        if (info[i].supernode == info[job.rank].supernode && info[job.rank].supernode == 0) {
            const char *here = (const char *)((uintptr_t)at(i, 0) + info[i].offset);
            gasnet_register_value_t value = gasnet_get_val(i, at(i, 0), 1);
            if (gasnett_getenv_yesno_withdefault("TEST_MAPPED", 1))
                CHECK((unsigned char)*here == value);
        }
    CHECK_EQUAL(info[job.rank].offset, 0);
    CHECK_EQUAL(gasneti_mynode, job.rank);
    free(info);
}

int main(int argc, char **argv)
{
    gasnet_handlerentry_t table[] = {
        {PING, (gex_AM_Fn_t)on_ping},   {BYTES, (gex_AM_Fn_t)on_bytes},
        {REPLY, (gex_AM_Fn_t)on_reply}, {REPLY_BYTES, (gex_AM_Fn_t)on_reply_bytes},
        {0, (gex_AM_Fn_t)on_reply},     {ARGS, (gex_AM_Fn_t)on_args}};
    const size_t sizes[] = {0, 1, 8, 100, 5000, AREA};
    size_t i;
    CHECK_EQUAL(gasnet_init(&argc, &argv), GASNET_OK);
    CHECK(gasnet_getMaxLocalSegmentSize() >= gasnet_getMaxGlobalSegmentSize());
    CHECK(gasnet_getMaxGlobalSegmentSize() > 0);
    gex_System_SetVerboseErrors(0); /* a refused attach has not registered the handlers */
    CHECK_EQUAL(gasnet_attach(table, COUNT_OF(table), 100, 0), GASNET_ERR_BAD_ARG);
    gex_System_SetVerboseErrors(1);
    CHECK_EQUAL(gasnet_attach(table, COUNT_OF(table), 2 * AREA, 0), GASNET_OK);
    CHECK_EQUAL(table[4].index, 255);
    gasnet_QueryGexObjects(&job.client, &job.ep, &job.tm, &job.segment);
    CHECK(strcmp(gex_Client_QueryName(job.client), "LEGACY") == 0);
    CHECK_EQUAL(gex_Client_QueryFlags(job.client), GEX_FLAG_USES_GASNET1);
    CHECK(gex_Segment_QueryAddr(job.segment) == at(gasnet_mynode(), 0));
    gex_System_SetVerboseErrors(0);
    CHECK(gasnet_init(&argc, &argv) != GASNET_OK);
    CHECK(gasnet_attach(table, COUNT_OF(table), 2 * AREA, 0) != GASNET_OK);
    gex_System_SetVerboseErrors(1);
    job_learn();
    job_barrier(); /* handlers may run as soon as others have attached */
    test_messages();
    for (i = 0; i < COUNT_OF(sizes); i++) {
        test_puts(sizes[i], (unsigned)i * 50);
        test_gets(sizes[i], (unsigned)i * 50 + 1);
    }
    test_values();
    test_barriers();
    test_locks();
    test_queries();
    job_barrier();
    gasnet_exit(0);
}
