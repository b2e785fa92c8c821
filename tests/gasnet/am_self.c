/*
 * Requests of a process to itself: for every kind, team and endpoint, the handler and that of its
 * reply have run when the call returns. So a thread may send itself a request and then block even
 * if no thread polls.
 */
#include <gasnet.h>

#include "support.h"

#include <pthread.h>

enum { SHORT = 200, MEDIUM, LONG, ANSWERED, AREA = 4096, THREADS = 3, ROUNDS = 60 };

static unsigned handled, answered; /* by all threads */
static unsigned char source[AREA];
static size_t sent;

static void on_short(gex_Token_t token, gex_AM_Arg_t arg)
{
    CHECK_EQUAL(arg, 7);
    one_more(&handled);
    gex_AM_ReplyShort1(token, ANSWERED, 0, arg);
}

/* The payload is a copy, to which the handler may write. */
static void on_medium(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t arg)
{
    CHECK(nbytes == sent && filled(buf, nbytes, 3) && (uintptr_t)buf % 8 == 0);
    memset(buf, 0, nbytes);
    on_short(token, arg);
}

static void on_long(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t arg)
{
    CHECK(buf == job.base && nbytes == sent && filled(buf, nbytes, 3));
    memset(buf, 0, nbytes);
    on_short(token, arg);
}

static void on_answered(gex_Token_t token, gex_AM_Arg_t arg)
{
    (void)token;
    CHECK_EQUAL(arg, 7);
    one_more(&answered);
}

/* Check that the call has had one more request handled and answered, without a poll. */
#define RETURNED(call)                                                                             \
    do {                                                                                           \
        unsigned before = handled;                                                                 \
        call;                                                                                      \
        CHECK(handled == before + 1 && answered == before + 1);                                    \
        CHECK(filled(source, sent, 3));                                                            \
    } while (0)

static void commit_medium(gex_TM_t tm, gex_Rank_t me, const void *from)
{
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, me, from, sent, sent,
                                                      from != NULL ? GEX_EVENT_NOW : NULL, 0, 1);
    if (from == NULL) memcpy(gex_AM_SrcDescAddr(sd), source, sent);
    gex_AM_CommitRequestMedium1(sd, MEDIUM, sent, 7);
}

static void commit_long(gex_TM_t tm, gex_Rank_t me, const void *from)
{
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestLong(tm, me, from, sent, sent, job.base,
                                                    from != NULL ? GEX_EVENT_NOW : NULL, 0, 1);
    if (from == NULL) memcpy(gex_AM_SrcDescAddr(sd), source, sent);
    gex_AM_CommitRequestLong1(sd, LONG, sent, job.base, 7);
}

static void every_kind(gex_TM_t tm, gex_Rank_t me)
{
    static const size_t sizes[] = {0, 1, 8, 61, 512, AREA};
    gex_Event_t local;
    unsigned i;
    for (i = 0; i < COUNT_OF(sizes); i++) {
        sent = sizes[i];
        RETURNED(CHECK_EQUAL(gex_AM_RequestShort1(tm, me, SHORT, 0, 7), 0));
        RETURNED(CHECK_EQUAL(gex_AM_RequestShort1(tm, me, SHORT, GEX_FLAG_IMMEDIATE, 7), 0));
        RETURNED(CHECK_EQUAL(
            gex_AM_RequestMedium1(tm, me, MEDIUM, source, sent, GEX_EVENT_NOW, 0, 7), 0));
        RETURNED(CHECK_EQUAL(gex_AM_RequestMedium1(tm, me, MEDIUM, source, sent, &local, 0, 7), 0));
        gex_Event_Wait(local);
        RETURNED(CHECK_EQUAL(
            gex_AM_RequestLong1(tm, me, LONG, source, sent, job.base, GEX_EVENT_NOW, 0, 7), 0));
        RETURNED(CHECK_EQUAL(
            gex_AM_RequestLong1(tm, me, LONG, source, sent, job.base, GEX_EVENT_GROUP, 0, 7), 0));
        gex_NBI_Wait(GEX_EC_AM, 0);
        RETURNED(commit_medium(tm, me, NULL));
        RETURNED(commit_medium(tm, me, source));
        RETURNED(commit_long(tm, me, NULL));
        RETURNED(commit_long(tm, me, source));
    }
}

static void by_older_names(void)
{
    sent = 100;
    RETURNED(CHECK_EQUAL(gasnet_AMRequestShort1(job.rank, SHORT, 7), GASNET_OK));
    RETURNED(CHECK_EQUAL(gasnet_AMRequestMedium1(job.rank, MEDIUM, source, sent, 7), GASNET_OK));
    RETURNED(
        CHECK_EQUAL(gasnet_AMRequestLong1(job.rank, LONG, source, sent, job.base, 7), GASNET_OK));
    RETURNED(CHECK_EQUAL(gasnet_AMRequestLongAsync1(job.rank, LONG, source, sent, job.base, 7),
                         GASNET_OK));
}

#ifdef GASNET_PAR
static pthread_barrier_t meeting;

/*
 * The first thread sends, and then waits without polling; the others put until that message has
 * arrived.
 */
static void *sends_or_puts(void *arg)
{
    unsigned thread = (unsigned)(uintptr_t)arg, round;
    char *there = job_at(job.next, AREA + thread * 64);
    uint64_t word = 5;
    for (round = 1; round <= ROUNDS; round++) {
        if (thread == 0)
            CHECK_EQUAL(gex_AM_RequestShort1(job.tm, job.rank, SHORT, 0, 7), 0);
        else
            while (__atomic_load_n(&answered, __ATOMIC_ACQUIRE) < round)
                CHECK_EQUAL(gex_RMA_PutBlocking(job.tm, job.next, there, &word, sizeof(word), 0),
                            0);
        pthread_barrier_wait(&meeting);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    unsigned i;
    handled = answered = 0;
    CHECK_EQUAL(pthread_barrier_init(&meeting, NULL, THREADS), 0);
    for (i = 0; i < THREADS; i++)
        CHECK_EQUAL(pthread_create(&thread[i], NULL, sends_or_puts, (void *)(uintptr_t)i), 0);
    for (i = 0; i < THREADS; i++)
        CHECK_EQUAL(pthread_join(thread[i], NULL), 0);
    CHECK_EQUAL(answered, ROUNDS);
}
#endif

int main(int argc, char **argv)
{
    enum { REQUEST = GEX_FLAG_AM_REQUEST };
    gex_AM_Entry_t table[] = {
        {SHORT, (gex_AM_Fn_t)on_short, REQUEST | GEX_FLAG_AM_SHORT, 1, NULL, "short"},
        {MEDIUM, (gex_AM_Fn_t)on_medium, REQUEST | GEX_FLAG_AM_MEDIUM, 1, NULL, "medium"},
        {LONG, (gex_AM_Fn_t)on_long, REQUEST | GEX_FLAG_AM_LONG, 1, NULL, "long"},
        {ANSWERED, (gex_AM_Fn_t)on_answered, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1, NULL,
         "answered"}};
    gex_TM_t half;
    CHECK_EQUAL(
        gex_Client_Init(&job.client, &job.ep, &job.tm, "self", &argc, &argv, GEX_FLAG_USES_GASNET1),
        GASNET_OK);
    job_learn();
    CHECK_EQUAL(gex_Segment_Attach(&job.segment, job.tm, 2 * AREA), GASNET_OK);
    job.base = (char *)gex_Segment_QueryAddr(job.segment);
    CHECK_EQUAL(gex_EP_RegisterHandlers(job.ep, table, COUNT_OF(table)), GASNET_OK);
    fill(source, sizeof(source), 3);
    job_barrier();
    every_kind(job.tm, job.rank);
    every_kind(gex_TM_Pair(job.ep, 0), job.rank);
    (void)gex_TM_Split(&half, job.tm, (int)(job.rank % 2), -(int)job.rank, NULL, 0,
                       GEX_FLAG_TM_NO_SCRATCH);
    every_kind(half, gex_TM_QueryRank(half));
    CHECK_EQUAL(gex_TM_Destroy(half, NULL, 0), 0);
    by_older_names();
#ifdef GASNET_PAR
    threads();
#endif
    job_barrier();
    gasnet_exit(0);
}
