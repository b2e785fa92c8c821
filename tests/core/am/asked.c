/*
 * Requests of every kind with an event for their answer. The event completes when the handler has
 * run, and the handler of the reply if there is one, and never earlier. It also completes if the
 * peer dies.
 *
 * usage: asked [dies]
 *   dies  rank 1 dies meanwhile
 */
#include "../support.h"

#include <stdlib.h>
#include <string.h>

enum { ASK = 100, ANSWER, MANY = 300, BYTES = 600, FILLED = 0x77 };
enum how { SILENT, SHORT, MEDIUM, LONG, RESERVED, CANCELED, HOWS };

static _Atomic uint32_t ran, answers, sums;

static void reserve(aq_am *am, const void *bytes, bool cancel)
{
    aq_am_buffer buffer;
    CHECK_OK(aq_am_reserve_reply(am, AQ_AM_MEDIUM, NULL, BYTES, BYTES, 2, 0, &buffer));
    memcpy(buffer.addr, bytes, BYTES);
    if (cancel)
        aq_am_cancel(&buffer);
    else
        CHECK_OK(aq_am_commit(&buffer, ANSWER, BYTES, NULL, am->args, 2, 0));
}

static void on_ask(aq_am *am)
{
    unsigned char bytes[BYTES];
    void *there = aq_arg_ptr(am, 2);
    aq_arg many[AQ_AM_MAX_ARGS] = {am->args[0], am->args[1]};
    memset(bytes, FILLED, BYTES);
    ran++;
    CHECK(!am->is_reply && am->nargs >= 4);
    if (am->category == AQ_AM_MEDIUM) CHECK(all_bytes(am->payload, am->nbytes, FILLED));
    switch (am->args[0]) {
    case SHORT:
        CHECK_OK(aq_am_reply_short(am, ANSWER, many, AQ_AM_MAX_ARGS, 0));
        CHECK_REFUSED(aq_am_reply_short(am, ANSWER, many, 2, 0), AQ_ECONTEXT);
        break;
    case MEDIUM:
        CHECK_OK(aq_am_reply_medium(am, ANSWER, bytes, BYTES, am->args, 2, 0));
        break;
    case LONG:
        CHECK_REFUSED(aq_am_reply_long(am, ANSWER, bytes, BYTES, there, many, 15, 0), AQ_EINVAL);
        CHECK_OK(aq_am_reply_long(am, ANSWER, bytes, BYTES, there, many, 14, 0));
        break;
    case RESERVED:
    case CANCELED:
        reserve(am, bytes, am->args[0] == CANCELED);
        break;
    default:
        break;
    }
}

/*
 * An answer arrives after its question. Another process ensures this, so a sanitizer does not see
 * it; this variable shows it the order.
 */
static _Atomic uint32_t asked;

static void on_answer(aq_am *am)
{
    static const unsigned nargs[] = {0, AQ_AM_MAX_ARGS, 2, 14, 2, 0};
    CHECK(asked != 0);
    CHECK(am->is_reply);
    CHECK_EQUAL(am->nargs, nargs[am->args[0]]);
    if (am->args[0] != SHORT) CHECK(am->nbytes == BYTES && all_bytes(am->payload, BYTES, FILLED));
    sums += (uint32_t)am->args[1];
    answers++;
}

/*
 * The place for the answer to the next question, if it is a Long. It changes because another thread
 * may still be reading the previous answer.
 */
static size_t place;

static aq_status ask(aq_rank rank, enum how how, bool medium, unsigned flags, aq_event *ev)
{
    static unsigned char bytes[BYTES];
    uint64_t here = (uint64_t)(uintptr_t)(job.base + place);
    aq_arg args[AQ_AM_MAX_ARGS] = {(aq_arg)how, (aq_arg)how + 1, AQ_ARG64(here)};
    memset(bytes, FILLED, BYTES);
    asked++;
    if (medium) return aq_am_medium_nb(job.team, rank, ASK, bytes, BYTES, args, 4, flags, ev);
    return aq_am_short_nb(job.team, rank, ASK, args, AQ_AM_MAX_ARGS, flags, ev);
}

static bool replies(enum how how)
{
    return how != SILENT && how != CANCELED;
}

/* One at a time: when the event completes, the answer has been handled. */
static void each(void)
{
    for (aq_rank rank = 0; rank < job.size; rank++) {
        for (int how = 0; how < HOWS; how++) {
            for (int medium = 0; medium < 2; medium++) {
                aq_event ev;
                uint32_t before = answers;
                memset(job.base, 0, BYTES);
                CHECK_OK(ask(rank, (enum how)how, medium != 0, 0, &ev));
                CHECK_OK(aq_event_wait(&ev, AQ_FOREVER));
                CHECK_EQUAL(answers - before, replies((enum how)how));
                if (how == LONG) CHECK(all_bytes(job.base, BYTES, FILLED));
            }
        }
    }
}

/* More requests than there is room for, all with events, which complete in any order. */
static void many(void)
{
    static aq_event events[MANY];
    uint32_t want = 0, before = answers;
    for (int i = 0; i < MANY; i++) {
        enum how how = (enum how)(job_random() % HOWS);
        aq_rank rank = (aq_rank)(job_random() % job.size);
        aq_status st;
        place = (size_t)i * BYTES;
        while ((st = ask(rank, how, i % 2 != 0, i % 3 == 0 ? AQ_IMMEDIATE : 0, &events[i])) ==
               AQ_AGAIN)
            CHECK(aq_poll() >= 0);
        CHECK_OK(st);
        want += replies(how);
    }
    CHECK_OK(aq_event_wait_all(events, MANY, AQ_FOREVER));
    place = 0;
    CHECK_EQUAL(answers - before, want);
}

static void refused(void)
{
    aq_event ev;
    CHECK_REFUSED(aq_am_short_nb(job.team, 0, ASK, AQ_NO_ARGS, 0, NULL), AQ_EINVAL);
    CHECK_REFUSED(aq_am_short_nb(job.team, job.size, ASK, AQ_NO_ARGS, 0, &ev), AQ_ERANK);
    CHECK_REFUSED(aq_am_short_nb(job.team, 0, 3, AQ_NO_ARGS, 0, &ev), AQ_EHANDLER);
    CHECK_REFUSED(aq_am_medium_nb(job.team, job_next(), ASK, job.base,
                                  aq_am_max_medium(job.team) + 1, AQ_NO_ARGS, 0, &ev),
                  AQ_ESIZE);
}

/* Every event completes, by the answer or by the death of the peer. */
static void until_death(void)
{
    aq_status st = AQ_OK;
    for (uint32_t lost = 0; lost == 0;) {
        aq_event events[20];
        size_t n = 0;
        while (n < COUNT_OF(events) && (st = ask(1, SHORT, n % 2 != 0, 0, &events[n])) == AQ_OK)
            n++;
        CHECK(st == AQ_OK || st == AQ_EPEER);
        lost += st == AQ_EPEER;
        for (size_t i = 0; i < n; i++) {
            st = aq_event_wait(&events[i], AQ_FOREVER);
            CHECK(st == AQ_OK || st == AQ_EPEER);
            lost += st == AQ_EPEER;
        }
    }
}

int main(int argc, char **argv)
{
    aq_handler_entry table[] = {{ASK, AQ_AM_ANY_ARGS, AQ_AM_REQUEST, on_ask, NULL, "ask"},
                                {ANSWER, AQ_AM_ANY_ARGS, AQ_AM_REPLY, on_answer, NULL, "answer"}};
    bool dies = argc > 1 && strcmp(argv[1], "dies") == 0;
    job_open(AQ_THREAD_SINGLE, MANY * BYTES);
    job_handlers(table, COUNT_OF(table));
    if (dies) {
        aq_error_log(0);
        if (job.self != 1) until_death();
        (void)aq_finalize();
        return 0;
    }
    each();
    many();
    refused();
    job_barrier();
    job_close();
    return 0;
}
