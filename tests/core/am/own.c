/*
 * Messages of a rank to itself, of every kind and over every team: the handler has run when the
 * call returns, and so has that of the reply; payloads are copies; floods of them do not keep out
 * messages of others.
 */
#include "../support.h"

#include <stdlib.h>
#include <string.h>

enum { ASK = 100, ANSWER, TELL, SECOND, BYTES = 300 };
enum { FROM = 4096, TO = 8192, BACK = 12288 };

static unsigned asked, answered, seconds;
static _Atomic uint32_t notified;
static bool inside;

static void check_payload(const aq_am *am, size_t place)
{
    CHECK(am->source == job.self);
    CHECK_EQUAL(am->nbytes, am->category == AQ_AM_SHORT ? 0 : (size_t)am->args[1]);
    if (am->category == AQ_AM_MEDIUM) CHECK_EQUAL((uintptr_t)am->payload % 16, 0);
    if (am->category == AQ_AM_LONG) CHECK(am->payload == job.base + place);
    CHECK(filled(am->payload, am->nbytes, 7));
}

/*
 * The payload is a copy: neither the reply nor the sender sees that it is overwritten.
 */
static void on_ask(aq_am *am)
{
    unsigned char copy[1 << 16];
    unsigned before = answered;
    aq_am_buffer buffer;
    CHECK(!inside);
    inside = true;
    check_payload(am, TO);
    CHECK_REFUSED(aq_am_short(job.team, job.self, TELL, AQ_NO_ARGS, 0), AQ_ECONTEXT);
    if (am->nbytes != 0) memcpy(copy, am->payload, am->nbytes);
    if (am->category == AQ_AM_MEDIUM) memset(am->payload, 0xee, am->nbytes);
    switch (am->args[0]) {
    case AQ_AM_SHORT:
        CHECK_OK(aq_am_reply_short(am, ANSWER, am->args, 2, 0));
        break;
    case AQ_AM_MEDIUM:
        CHECK_OK(aq_am_reply_medium(am, ANSWER, copy, am->nbytes, am->args, 2, AQ_IMMEDIATE));
        CHECK(filled(copy, am->nbytes, 7));
        break;
    case AQ_AM_LONG:
        CHECK_OK(aq_am_reply_long(am, ANSWER, copy, am->nbytes, job.base + BACK, am->args, 2, 0));
        break;
    default:
        CHECK_OK(
            aq_am_reserve_reply(am, AQ_AM_MEDIUM, NULL, am->nbytes, am->nbytes, 2, 0, &buffer));
        memcpy(buffer.addr, copy, am->nbytes);
        CHECK_OK(aq_am_commit(&buffer, ANSWER, am->nbytes, NULL, am->args, 2, 0));
    }
    CHECK_EQUAL(answered, before + 1);
    CHECK_REFUSED(aq_am_reply_short(am, ANSWER, am->args, 2, 0), AQ_ECONTEXT);
    asked++;
    inside = false;
}

static void on_answer(aq_am *am)
{
    CHECK(inside && am->is_reply);
    check_payload(am, BACK);
    CHECK_REFUSED(aq_am_reply_short(am, ANSWER, am->args, 2, 0), AQ_ECONTEXT);
    if (am->category == AQ_AM_MEDIUM) memset(am->payload, 0xdd, am->nbytes);
    answered++;
}

static void on_tell(aq_am *am)
{
    (void)am;
    notified++;
}

static void on_second(aq_am *am)
{
    CHECK(am->source == job.self && aq_ep_index(am->ep) == 1 && am->nargs == 1);
    CHECK_EQUAL(am->source_ep, am->args[0]);
    seconds++;
}

/* A request of each form, answered in each form. */
static void test_forms(aq_team *team, aq_rank self, unsigned flags)
{
    static const size_t sizes[] = {0, 1, 8, 64, BYTES, 512};
    unsigned char *from = job.base + FROM;
    for (int reply = AQ_AM_SHORT; reply <= 8; reply *= 2) {
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            const aq_arg args[] = {reply, (aq_arg)sizes[i]};
            aq_event local = (aq_event)&local, other = local;
            aq_am_buffer buffer;
            unsigned before = asked;
            fill(from, sizes[i], 7);
            CHECK_OK(aq_am_medium(team, self, ASK, from, sizes[i], args, 2, flags, &local));
            CHECK(asked == before + 1 && local == AQ_EVENT_DONE && filled(from, sizes[i], 7));
            CHECK_OK(
                aq_am_long(team, self, ASK, from, sizes[i], job.base + TO, args, 2, flags, &other));
            CHECK(asked == before + 2 && other == AQ_EVENT_DONE);
            CHECK_OK(aq_am_reserve(team, self, AQ_AM_MEDIUM, NULL, 0, sizes[i], 2, flags, &buffer));
            aq_am_cancel(&buffer);
            CHECK_OK(aq_am_reserve(team, self, AQ_AM_MEDIUM, NULL, 0, sizes[i], 2, flags, &buffer));
            CHECK_EQUAL(buffer.size, sizes[i]);
            memcpy(buffer.addr, from, sizes[i]);
            CHECK_OK(aq_am_commit(&buffer, ASK, sizes[i], NULL, args, 2, flags));
            CHECK_EQUAL(asked, before + 3);
        }
    }
    unsigned before = asked;
    CHECK_OK(aq_am_short(team, self, ASK, AQ_ARGS(AQ_AM_SHORT, 0), flags));
    CHECK_EQUAL(asked, before + 1);
}

/* From one endpoint to another. */
static void test_endpoint(void)
{
    aq_ep *ep;
    aq_handler_entry entry = {SECOND, 1, 0, on_second, NULL, "second"};
    CHECK_OK(aq_ep_create(AQ_EP_AM, &ep));
    CHECK_OK(aq_am_register(ep, &entry, 1));
    for (int from = 0; from < 2; from++) {
        aq_team *pair = aq_team_pair(from == 0 ? job.ep : ep, 1);
        CHECK_OK(aq_am_short(pair, job.self, SECOND, AQ_ARGS(from), 0));
        CHECK_EQUAL(seconds, from + 1);
    }
}

static void test_counters(void)
{
    uint64_t sent = job_counter("am_sent"), received = job_counter("am_received");
    CHECK_OK(aq_am_short(job.team, job.self, ASK, AQ_ARGS(AQ_AM_SHORT, 0), AQ_IMMEDIATE));
    CHECK_EQUAL(job_counter("am_sent") - sent, 2);
    CHECK_EQUAL(job_counter("am_received") - received, 2);
    for (int reply = AQ_AM_SHORT; reply <= 8; reply *= 2) {
        const aq_arg args[] = {reply, BYTES};
        uint64_t bytes = job_counter("am_bytes");
        fill(job.base + FROM, BYTES, 7);
        CHECK_OK(aq_am_medium(job.team, job.self, ASK, job.base + FROM, BYTES, args, 2, 0, NULL));
        CHECK_EQUAL(job_counter("am_bytes") - bytes, reply == AQ_AM_SHORT ? BYTES : 2 * BYTES);
    }
}

/* A rank that keeps sending to itself still receives the message of another rank that stops it. */
static void test_flood(void)
{
    job_barrier();
    for (aq_rank rank = 0; rank < job.size; rank++)
        if (rank != job.self) CHECK_OK(aq_am_short(job.team, rank, TELL, AQ_NO_ARGS, 0));
    while (notified < job.size - 1)
        CHECK_OK(aq_am_short(job.team, job.self, ASK, AQ_ARGS(AQ_AM_SHORT, 0), 0));
    job_barrier();
}

int main(void)
{
    aq_handler_entry table[] = {
        {ASK, 2, AQ_AM_REQUEST, on_ask, NULL, "ask"},
        {ANSWER, 2, AQ_AM_REPLY, on_answer, NULL, "answer"},
        {TELL, 0, AQ_AM_REQUEST, on_tell, NULL, "tell"},
    };
    aq_team *alone;
    job_open(AQ_THREAD_SINGLE, 1 << 16);
    job_handlers(table, COUNT_OF(table));
    test_forms(job.team, job.self, 0);
    test_forms(job.team, job.self, AQ_IMMEDIATE);
    CHECK_OK(aq_team_split(job.team, (int)job.self, 0, 0, &alone));
    test_forms(alone, 0, 0);
    CHECK_OK(aq_team_destroy(alone));
    test_endpoint();
    test_counters();
    test_flood();
    job_close();
    return 0;
}
