/*
 * Negotiated payloads: every combination of owner and category, for requests and replies;
 * cancellation; immediate mode.
 */
#include <gasnetex.h>

#include "support.h"

enum { AREA = 1 << 18, MEDIUM = 130, LONG, REPLY, CANCELED };

static unsigned heard, answers, canceled;
static char mine[AREA];
static int owner_is_library; /* owner of the payloads of replies */

static char *landing(gex_Rank_t rank, int reply)
{
    return job_at(rank, 64 + (reply ? AREA : 0));
}

/* Prepare a buffer, write into it, and check how much was granted. */
static size_t write_payload(gex_AM_SrcDesc_t sd, const void *client_buf, size_t least, size_t most,
                            unsigned seed)
{
    size_t size = gex_AM_SrcDescSize(sd);
    CHECK(size >= least && size <= most);
    CHECK(client_buf == NULL || gex_AM_SrcDescAddr(sd) == client_buf);
    if (size > 1000) size = 1000 + seed % 7; /* committing less than granted is allowed */
    fill(gex_AM_SrcDescAddr(sd), size, seed);
    return size;
}

/* A reply is canceled first and then sent, in the category given by `is_long`. */
static void answer(gex_Token_t token, int is_long, gex_AM_Arg_t seed)
{
    void *client_buf = owner_is_library ? NULL : mine;
    gex_Event_t lc = GEX_EVENT_NO_OP;
    gex_Event_t *lc_opt = client_buf != NULL ? &lc : NULL;
    gex_AM_SrcDesc_t sd;
    size_t len;
    sd = gex_AM_PrepareReplyMedium(token, client_buf, 8, 16, lc_opt, 0, 1);
    CHECK_EQUAL(gex_AM_CancelReplyMedium(sd, 0), 0);
    if (is_long) {
        sd = gex_AM_PrepareReplyLong(token, client_buf, 10, 4000, landing(job.previous, 1), lc_opt,
                                     0, 2);
        len = write_payload(sd, client_buf, 10, 4000, (unsigned)seed);
        gex_AM_CommitReplyLong2(sd, REPLY, len, landing(job.previous, 1), seed, 1);
    } else {
        sd = gex_AM_PrepareReplyMedium(token, client_buf, 10, 500, lc_opt, 0, 2);
        len = write_payload(sd, client_buf, 10, 500, (unsigned)seed);
        /* A refused commit leaves the descriptor unchanged. */
        if (gex_AM_CommitReplyMedium_v2(sd, REPLY, len, GEX_FLAG_IMMEDIATE, seed, 0) != 0)
            CHECK_EQUAL(gex_AM_CommitReplyMedium_v2(sd, REPLY, len, 0, seed, 0), 0);
    }
    CHECK(client_buf == NULL || lc == GEX_EVENT_INVALID);
}

static void on_medium(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t seed)
{
    CHECK(filled(buf, nbytes, (unsigned)seed));
    one_more(&heard);
    answer(token, 0, seed);
}

static void on_long(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t seed)
{
    CHECK(buf == landing(job.rank, 0));
    CHECK(filled(buf, nbytes, (unsigned)seed));
    one_more(&heard);
    answer(token, 1, seed);
}

static void on_reply(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t seed,
                     gex_AM_Arg_t is_long)
{
    (void)token;
    CHECK(filled(buf, nbytes, (unsigned)seed));
    CHECK(!is_long || buf == landing(job.rank, 1));
    one_more(&answers);
}

static void on_canceled(gex_Token_t token, void *buf, size_t nbytes)
{
    (void)token, (void)buf, (void)nbytes;
    one_more(&canceled);
}

static void wait_for_answer(unsigned count)
{
    GASNET_BLOCKUNTIL(answers == count && heard == count);
    job_barrier();
}

static void test_owner(void *client_buf, unsigned *count)
{
    gex_Event_t lc = GEX_EVENT_NO_OP;
    gex_Event_t *const lc_opt = client_buf != NULL ? &lc : NULL;
    size_t most = gex_AM_MaxRequestMedium(
        job.tm, job.next, lc_opt,
        client_buf != NULL ? GEX_FLAG_AM_PREPARE_LEAST_CLIENT : GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 1);
    char *dst = landing(job.next, 0);
    gex_AM_SrcDesc_t sd;
    size_t len;
    owner_is_library = client_buf == NULL;
    job_barrier();
    /* The largest Medium, when more than the limit is requested. */
    sd = gex_AM_PrepareRequestMedium(job.tm, job.next, client_buf, most, most + 5, lc_opt, 0, 1);
    CHECK_EQUAL(gex_AM_SrcDescSize(sd), most);
    fill(gex_AM_SrcDescAddr(sd), most, 3);
    gex_AM_CommitRequestMedium1(sd, MEDIUM, most, 3);
    wait_for_answer(++*count);
    /* No bytes. */
    sd = gex_AM_PrepareRequestMedium(job.tm, job.next, client_buf, 0, 0, lc_opt, 0, 1);
    gex_AM_CommitRequestMedium(sd, MEDIUM, 0, 4);
    wait_for_answer(++*count);
    /* Longs, with the destination given at prepare or only at commit. */
    sd = gex_AM_PrepareRequestLong(job.tm, job.next, client_buf, 100, 70000, dst, lc_opt, 0, 1);
    len = write_payload(sd, client_buf, 100, 70000, 5);
    gex_AM_CommitRequestLong(sd, LONG, len, dst, 5);
    wait_for_answer(++*count);
    sd = gex_AM_PrepareRequestLong(job.tm, job.next, client_buf, 1, 50, NULL, lc_opt, 0, 1);
    len = write_payload(sd, client_buf, 1, 50, 6);
    CHECK_EQUAL(gex_AM_CommitRequestLong1_v2(sd, LONG, len, dst, 0, 6), 0);
    wait_for_answer(++*count);
    /* Canceled. */
    sd = gex_AM_PrepareRequestMedium(job.tm, job.next, client_buf, 1, 50, lc_opt, 0, 0);
    CHECK_EQUAL(gex_AM_CancelRequestMedium(sd, 0), 0);
    sd = gex_AM_PrepareRequestLong(job.tm, job.next, client_buf, 1, 50, NULL, lc_opt, 0, 0);
    CHECK_EQUAL(gex_AM_CancelRequestLong(sd, 0), 0);
    CHECK(client_buf == NULL || lc == GEX_EVENT_INVALID);
}

/* With GEX_FLAG_IMMEDIATE some messages of a flood are refused; those that are granted arrive. */
static void test_immediate(unsigned *count)
{
    unsigned sent = 0, refused = 0, before = *count;
    while (sent < 3000) {
        gex_AM_SrcDesc_t sd =
            gex_AM_PrepareRequestMedium(job.tm, job.next, NULL, 8, 8, NULL, GEX_FLAG_IMMEDIATE, 1);
        if (sd == GEX_AM_SRCDESC_NO_OP) {
            refused++;
            CHECK_EQUAL(gasnet_AMPoll(), GASNET_OK);
            continue;
        }
        fill(gex_AM_SrcDescAddr(sd), 8, sent);
        gex_AM_CommitRequestMedium1(sd, MEDIUM, 8, (gex_AM_Arg_t)sent);
        sent++;
    }
    *count = before + sent;
    wait_for_answer(*count);
    if (job.rank == 0) printf("%u sent, %u refused\n", sent, refused);
}

/*
 * Commits that may be refused, by all ranks concurrently and without a poll: at least one rank
 * finds no room. Refused messages are sent eventually, exactly once.
 */
static void test_immediate_commit(unsigned *count)
{
    unsigned sent, refused = 0, all = 0;
    gex_Rank_t rank;
    owner_is_library = 1;
    job_barrier();
    for (sent = 0; sent < 20000 && refused == 0; sent++) {
        gex_AM_SrcDesc_t sd =
            gex_AM_PrepareRequestMedium(job.tm, job.next, mine, 1000, 1000, GEX_EVENT_NOW, 0, 1);
        fill(mine, 1000, sent);
        if (gex_AM_CommitRequestMedium1_v2(sd, MEDIUM, 1000, GEX_FLAG_IMMEDIATE,
                                           (gex_AM_Arg_t)sent) == 0)
            continue;
        refused++;
        CHECK(gex_AM_SrcDescAddr(sd) == mine && gex_AM_SrcDescSize(sd) == 1000);
        gex_AM_CommitRequestMedium1(sd, MEDIUM, 1000, (gex_AM_Arg_t)sent);
    }
    GASNET_BLOCKUNTIL(answers == *count + sent);
    job_barrier();
    CHECK_EQUAL(
        gex_RMA_PutBlockingVal(job.tm, 0, job_at(0, 2 * AREA + 4 * job.rank), refused, 4, 0), 0);
    job_barrier();
    *count = heard = answers = 0;
    for (rank = 0; job.rank == 0 && rank < job.size; rank++)
        all += ((unsigned *)(void *)(job.base + 2 * AREA))[rank];
    /* A thread that receives messages may make room for all of them. */
    if (job.rank == 0 && job.size > 1 && gex_System_QueryHiddenAMConcurrencyLevel() == 0)
        CHECK(all > 0);
    job_barrier();
}

int main(int argc, char **argv)
{
    gex_AM_Entry_t table[] = {
        {MEDIUM, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1, NULL, "m"},
        {LONG, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 1, NULL, "l"},
        {REPLY, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REPLY, 2, NULL, "r"},
        {CANCELED, (gex_AM_Fn_t)on_canceled, GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REQREP, 0, NULL,
         "c"}};
    unsigned count = 0;
    int round;
    job_open(&argc, &argv, 4 * AREA);
    CHECK_EQUAL(gex_EP_RegisterHandlers(job.ep, table, COUNT_OF(table)), GASNET_OK);
    job_barrier();
    for (round = 0; round < 20; round++) {
        test_owner(NULL, &count);
        test_owner(mine, &count);
    }
    test_immediate(&count);
    test_immediate_commit(&count);
    CHECK_EQUAL(canceled, 0);
    job_barrier();
    gasnet_exit(0);
}
