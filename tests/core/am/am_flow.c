/*
 * Negotiated payloads, nonblocking sends, and floods: around a ring, to one rank, and in both
 * directions with replies.
 */
#include "../support.h"

#include <stdlib.h>
#include <string.h>

enum { PLAIN = 100, LONG, ECHO, ANSWER, QUESTION, COUNTED };

static _Atomic uint32_t received, answered;

static void on_plain(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    CHECK(filled_args(am->args + 1, am->nargs - 1u, (uint64_t)am->args[0]));
    received++;
}

static void on_counted(aq_am *am)
{
    (void)am;
    received++;
}

static void on_answer(aq_am *am)
{
    CHECK(am->is_reply);
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    answered++;
}

static void on_question(aq_am *am)
{
    received++;
    CHECK_OK(aq_am_reply_short(am, ANSWER, am->args, 1, 0));
}

/* --- reserve and commit ------------------------------------------------------------------ */

/* Reserve a message of either category, with a buffer of the program (`own`) or of the library, and
 * commit or cancel it. Fewer than `most` bytes may be granted. */
static void reserve_one(uint32_t number, aq_rank rank, unsigned category, bool own, bool give_up)
{
    static unsigned char mine[1024];
    size_t limit = category == AQ_AM_MEDIUM ? aq_am_max_medium(job.team) : aq_am_max_long(job.team);
    size_t least = job_random() % 300, most = least + job_random() % 700;
    if (least > limit) least = limit;
    unsigned nargs = 1 + (unsigned)(job_random() % 16);
    aq_am_buffer buffer;
    CHECK_OK(
        aq_am_reserve(job.team, rank, category, own ? mine : NULL, least, most, nargs, 0, &buffer));
    CHECK(buffer.size >= least && buffer.size <= most);
    if (own)
        CHECK(buffer.addr == mine);
    else
        CHECK((uintptr_t)buffer.addr % 16 == 0);
    fill(buffer.addr, buffer.size, ~(uint64_t)number);
    if (give_up) {
        aq_am_cancel(&buffer);
        return;
    }
    size_t nbytes = number % 4 == 0 ? buffer.size : job_random() % (buffer.size + 1);
    aq_arg args[AQ_AM_MAX_ARGS] = {(aq_arg)number};
    fill_args(args + 1, nargs - 1, number);
    fill(buffer.addr, nbytes, number);
    size_t place = ((size_t)job.self * 64 + number % 64) * 1024;
    CHECK_OK(aq_am_commit(&buffer, PLAIN, nbytes,
                          category == AQ_AM_LONG ? job_at(rank, place) : NULL, args, nargs, 0));
    memset(mine, 0, sizeof(mine)); /* the source may be reused */
}

static void test_reserve(void)
{
    enum { COUNT = 240 };
    uint32_t sent = 0;
    received = 0;
    job_barrier();
    for (uint32_t i = 0; i < COUNT; i++) {
        bool give_up = i % 5 == 0;
        sent += !give_up;
        reserve_one(i, job_next(), i % 2 ? AQ_AM_MEDIUM : AQ_AM_LONG, i / 2 % 2, give_up);
        if (i % 60 == 59) { /* Longs reuse their places */
            job_await(&received, sent);
            job_barrier();
        }
    }
    job_await(&received, sent);
    job_barrier();
    CHECK_EQUAL(received, sent);
}

/* Canceled reservations cost nothing, so more of them than there are buffers are possible. */
static void test_cancel(void)
{
    received = 0;
    job_barrier();
    for (uint32_t i = 0; i < 3000; i++) {
        aq_am_buffer buffer;
        CHECK_OK(aq_am_reserve(job.team, job_next(), i % 2 ? AQ_AM_MEDIUM : AQ_AM_LONG, NULL, 1,
                               aq_am_max_medium(job.team), i % 17, 0, &buffer));
        aq_am_cancel(&buffer);
    }
    CHECK_OK(aq_am_short(job.team, job_next(), COUNTED, AQ_NO_ARGS, 0));
    job_await(&received, 1);
    job_barrier();
}

/* After a failed commit the reservation is still valid, and can be committed. */
static void test_commit_errors(void)
{
    aq_am_buffer buffer;
    received = 0;
    job_barrier();
    CHECK_OK(aq_am_reserve(job.team, job_next(), AQ_AM_MEDIUM, NULL, 16, 32, 1, 0, &buffer));
    fill(buffer.addr, 10, 3);
    CHECK_REFUSED(aq_am_commit(&buffer, PLAIN, buffer.size + 1, NULL, AQ_ARGS(3), 0), AQ_ESIZE);
    CHECK_REFUSED(aq_am_commit(&buffer, 5, 10, NULL, AQ_ARGS(3), 0), AQ_EHANDLER);
    CHECK_REFUSED(aq_am_commit(&buffer, PLAIN, 10, NULL, AQ_ARGS(3, 4), 0), AQ_EINVAL);
    CHECK_REFUSED(aq_am_commit(&buffer, PLAIN, 10, NULL, AQ_ARGS(3), 0x8000), AQ_EINVAL);
    CHECK_OK(aq_am_commit(&buffer, PLAIN, 10, NULL, AQ_ARGS(3), 0));
    CHECK_OK(aq_am_reserve(job.team, job_next(), AQ_AM_LONG, NULL, 16, 32, 1, 0, &buffer));
    fill(buffer.addr, 10, 4);
    CHECK_REFUSED(aq_am_commit(&buffer, PLAIN, 10, &buffer, AQ_ARGS(4), 0), AQ_ERANGE);
    CHECK_OK(aq_am_commit(&buffer, PLAIN, 10, job_at(job_next(), 100), AQ_ARGS(4), 0));
    job_await(&received, 2);
    job_barrier();
}

/* A reply can be prepared again after it was canceled, but not after it was sent. */
static void on_echo(aq_am *am)
{
    aq_am_buffer buffer;
    unsigned category = am->category;
    void *place = category == AQ_AM_LONG ? job_at(am->source, (size_t)am->args[1]) : NULL;
    CHECK_OK(aq_am_reserve_reply(am, category, NULL, am->nbytes, am->nbytes + 10, 1, 0, &buffer));
    CHECK(buffer.size >= am->nbytes && (uintptr_t)buffer.addr % 16 == 0);
    aq_am_cancel(&buffer);
    CHECK_OK(aq_am_reserve_reply(am, category, NULL, am->nbytes, am->nbytes + 10, 1, 0, &buffer));
    memcpy(buffer.addr, am->payload, am->nbytes);
    CHECK_OK(aq_am_commit(&buffer, ANSWER, am->nbytes, place, am->args, 1, 0));
    CHECK_REFUSED(aq_am_reply_short(am, ANSWER, am->args, 1, 0), AQ_ECONTEXT);
    CHECK_REFUSED(aq_am_reserve_reply(am, AQ_AM_MEDIUM, NULL, 0, 10, 1, 0, &buffer), AQ_ECONTEXT);
}

static void test_reserve_reply(void)
{
    unsigned char buffer[512];
    answered = 0;
    job_barrier();
    for (uint32_t i = 0; i < 60; i++) {
        size_t nbytes = job_random() % sizeof(buffer);
        size_t place = (size_t)job.self * 65536 + i % 2 * 1024;
        fill(buffer, nbytes, i);
        if (i % 3 == 0)
            CHECK_OK(aq_am_medium(job.team, i % job.size, ECHO, buffer, nbytes,
                                  AQ_ARGS((aq_arg)i, 0), 0, NULL));
        else
            CHECK_OK(aq_am_long(job.team, i % job.size, ECHO, buffer, nbytes,
                                job_at(i % job.size, place),
                                AQ_ARGS((aq_arg)i, (aq_arg)(place + 4096)), 0, NULL));
        job_await(&answered, i + 1);
    }
    job_barrier();
    CHECK_EQUAL(answered, 60);
}

/* --- not now ----------------------------------------------------------------------------- */

/*
 * Send without blocking until there is no room, at most `limit` times. Returns how many were sent.
 */
static uint32_t send_until_again(aq_rank rank, uint32_t limit)
{
    uint32_t sent = 0;
    aq_status status = AQ_OK;
    while (sent < limit &&
           (status = aq_am_short(job.team, rank, COUNTED, AQ_NO_ARGS, AQ_IMMEDIATE)) == AQ_OK)
        sent++;
    CHECK(status == AQ_OK || status == AQ_AGAIN);
    if (rank == job.self) CHECK_EQUAL(sent, limit); /* each has already been handled */
    return sent;
}

/* The other nonblocking calls. Returns how many messages they sent. */
static uint32_t immediate_others(aq_rank rank)
{
    uint32_t sent = 0;
    size_t max = aq_am_max_medium(job.team);
    void *buffer = calloc(1, max);
    CHECK(buffer != NULL);
    for (int i = 0; i < 1000; i++) {
        aq_am_buffer reserved;
        aq_status status =
            aq_am_medium(job.team, rank, COUNTED, buffer, max, AQ_NO_ARGS, AQ_IMMEDIATE, NULL);
        CHECK(status == AQ_OK || status == AQ_AGAIN);
        sent += status == AQ_OK;
        status = aq_am_long(job.team, rank, COUNTED, buffer, max, job_at(rank, 1024), AQ_NO_ARGS,
                            AQ_IMMEDIATE, NULL);
        CHECK(status == AQ_OK || status == AQ_AGAIN);
        sent += status == AQ_OK;
        status =
            aq_am_reserve(job.team, rank, AQ_AM_MEDIUM, NULL, 0, max, 0, AQ_IMMEDIATE, &reserved);
        CHECK(status == AQ_OK || status == AQ_AGAIN);
        if (status == AQ_OK) aq_am_cancel(&reserved);
    }
    free(buffer);
    return sent;
}

/*
 * AQ_AGAIN means that nothing was sent, AQ_OK that the message was: the receiver's count agrees
 * exactly.
 */
static void test_immediate(void)
{
    aq_rank ranks[2] = {job.self, job_next()};
    for (size_t i = 0; i < COUNT_OF(ranks); i++) {
        received = 0;
        job_barrier();
        uint32_t sent = send_until_again(ranks[i], 200000) + immediate_others(ranks[i]);
        CHECK_OK(aq_put_value(job.team, ranks[i], job_at(ranks[i], 0), sent, 4, 0));
        job_barrier();
        uint32_t expected;
        memcpy(&expected, job.base, sizeof(expected));
        job_await(&received, expected);
        job_barrier();
        CHECK_EQUAL(received, expected);
    }
}

/* --- floods ------------------------------------------------------------------------------ */

/* Every rank makes blocking sends to all ranks. The sends must make progress themselves, or no rank
 * would ever continue. */
static void test_flood_all(void)
{
    uint32_t each = 4000 / job.size;
    unsigned char buffer[300];
    received = 0;
    job_barrier();
    for (uint32_t i = 0; i < each; i++) {
        for (aq_rank rank = 0; rank < job.size; rank++) {
            size_t nbytes = job_random() % sizeof(buffer);
            fill(buffer, nbytes, i);
            CHECK_OK(
                aq_am_medium(job.team, rank, PLAIN, buffer, nbytes, AQ_ARGS((aq_arg)i), 0, NULL));
        }
    }
    job_await(&received, each * job.size);
    job_barrier();
    CHECK_EQUAL(received, each * job.size);
}

/* Requests with replies, from every rank to every rank and then from all to one. */
static void test_flood_questions(bool to_one)
{
    uint32_t each = 6000 / job.size;
    answered = received = 0;
    job_barrier();
    for (uint32_t i = 0; i < each; i++)
        CHECK_OK(aq_am_short(job.team, to_one ? 0 : (job.self + i) % job.size, QUESTION,
                             AQ_ARGS((aq_arg)i), 0));
    job_await(&answered, each);
    job_barrier();
    CHECK_EQUAL(answered, each);
    if (to_one) CHECK_EQUAL(received, job.self == 0 ? each * job.size : 0);
}

/* Longs larger than a Medium, without an event: the copies that are queued must be bounded. */
static void test_flood_longs(void)
{
    enum { SIZE = 30000, EACH = 100 };
    unsigned char *buffer = malloc(SIZE);
    CHECK(buffer != NULL);
    fill(buffer, SIZE, 5);
    received = 0;
    job_barrier();
    for (uint32_t i = 0; i < EACH; i++)
        CHECK_OK(aq_am_long(job.team, job_next(), PLAIN, buffer, SIZE, job_at(job_next(), 1024),
                            AQ_ARGS(5), 0, NULL));
    job_await(&received, EACH);
    job_barrier();
    free(buffer);
}

int main(void)
{
    aq_handler_entry table[] = {
        {PLAIN, AQ_AM_ANY_ARGS, 0, on_plain, NULL, "plain"},
        {ECHO, 2, AQ_AM_REQUEST, on_echo, NULL, "echo"},
        {ANSWER, 1, AQ_AM_REPLY, on_answer, NULL, "answer"},
        {QUESTION, 1, AQ_AM_SHORT, on_question, NULL, "question"},
        {COUNTED, 0, 0, on_counted, NULL, "counted"},
    };
    job_open(AQ_THREAD_SINGLE, 65536 * 33);
    job_handlers(table, COUNT_OF(table));
    test_reserve();
    test_cancel();
    test_commit_errors();
    test_reserve_reply();
    test_immediate();
    test_flood_all();
    test_flood_questions(false);
    test_flood_questions(true);
    test_flood_longs();
    job_close();
    return 0;
}
