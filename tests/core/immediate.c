/*
 * AQ_IMMEDIATE: a call that finds no room says so and leaves no trace. Requests to oneself, whose
 * ring nobody empties meanwhile; and replies, where AQ_FAULT=again=… refuses many: after a refused
 * one the request is still to be replied to, by any other form.
 */
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { COUNTED = 100, QUESTION, ANSWER, QUESTIONS = 500, BYTES = 200 };

static _Atomic uint32_t counted, answers;
static _Atomic uint32_t refused_replies;

static void on_counted(aq_am *am)
{
    (void)am;
    counted++;
}

static void fill_up(aq_rank rank, uint32_t *sent)
{
    aq_status status;
    while ((status = aq_am_short(job.team, rank, COUNTED, AQ_NO_ARGS, AQ_IMMEDIATE)) == AQ_OK) {
        ++*sent;
        CHECK(*sent < 1000000);
    }
    CHECK_STATUS(status, AQ_AGAIN);
}

/*
 * Every form of request, when there is no room. The faults refuse at random, and a progress thread
 * makes room at any time: then some go.
 */
static void test_requests(void)
{
    const char *fault = getenv("AQ_FAULT");
    bool random = (fault != NULL && strstr(fault, "again") != NULL) || aq_job_progress_thread();
    size_t max = aq_am_max_medium(job.team);
    unsigned char *buffer = calloc(1, max), *target = job.base + 4096;
    uint32_t sent = 0;
    CHECK(buffer != NULL);
    memset(target, 0x5a, max);
    fill_up(job.self, &sent);
    for (int i = 0; i < 200; i++) {
        aq_event none = (aq_event)&sent, event = none;
        aq_am_buffer reserved;
        aq_status status = aq_am_medium(job.team, job.self, COUNTED, buffer, 100, AQ_NO_ARGS,
                                        AQ_IMMEDIATE, &event);
        CHECK(status == AQ_AGAIN || (random && status == AQ_OK));
        if (status == AQ_AGAIN) CHECK(event == none);
        sent += status == AQ_OK;
        event = none;
        status = aq_am_long(job.team, job.self, COUNTED, buffer, max, target, AQ_NO_ARGS,
                            AQ_IMMEDIATE, &event);
        CHECK(status == AQ_AGAIN || (random && status == AQ_OK));
        if (status == AQ_AGAIN) {
            CHECK(event == none);
            CHECK(all_bytes(target, max, 0x5a));
        } else {
            CHECK_OK(aq_event_wait(&event));
            memset(target, 0x5a, max); /* its header may still be on its way, its data is not */
        }
        sent += status == AQ_OK;
        status = aq_am_reserve(job.team, job.self, AQ_AM_MEDIUM, NULL, 0, max, 0, AQ_IMMEDIATE,
                               &reserved);
        CHECK(status == AQ_OK || status == AQ_AGAIN);
        if (status == AQ_OK) aq_am_cancel(&reserved);
    }
    job_await(&counted, sent);
    job_barrier();
    CHECK_EQUAL(counted, sent);
    free(buffer);
}

static aq_status reply_now(aq_am *am, unsigned form, const void *payload)
{
    aq_am_buffer reserved;
    void *at = job_at(am->source, (size_t)job.self * 4096);
    aq_status status;
    switch (form % 4) {
    case 0:
        return aq_am_reply_short(am, ANSWER, am->args, 1, AQ_IMMEDIATE);
    case 1:
        return aq_am_reply_medium(am, ANSWER, payload, BYTES, am->args, 1, AQ_IMMEDIATE);
    case 2:
        return aq_am_reply_long(am, ANSWER, payload, BYTES, at, am->args, 1, AQ_IMMEDIATE);
    default:
        status =
            aq_am_reserve_reply(am, AQ_AM_MEDIUM, NULL, BYTES, BYTES, 1, AQ_IMMEDIATE, &reserved);
        if (status != AQ_OK) return status;
        /* What is reserved may be given back, and then the reply is open again. */
        if (form % 8 == 3) {
            aq_am_cancel(&reserved);
            return AQ_AGAIN;
        }
        memcpy(reserved.addr, payload, BYTES);
        return aq_am_commit(&reserved, ANSWER, BYTES, NULL, am->args, 1);
    }
}

static void on_question(aq_am *am)
{
    unsigned char payload[BYTES];
    unsigned form = (unsigned)am->args[0];
    aq_status status;
    fill(payload, BYTES, (uint64_t)am->args[0]);
    while ((status = reply_now(am, form, payload)) == AQ_AGAIN) {
        refused_replies++;
        if (++form < 200 + (unsigned)am->args[0]) continue;
        status = aq_am_reply_medium(am, ANSWER, payload, BYTES, am->args, 1, 0);
        break;
    }
    CHECK_STATUS(status, AQ_OK);
    CHECK_STATUS(aq_am_reply_short(am, ANSWER, am->args, 1, 0), AQ_ECONTEXT);
}

static void on_answer(aq_am *am)
{
    if (am->nbytes != 0) CHECK(filled(am->payload, BYTES, (uint64_t)am->args[0]));
    answers++;
}

static void test_replies(void)
{
    for (uint32_t i = 0; i < QUESTIONS; i++) {
        CHECK_OK(aq_am_short(job.team, job_next(), QUESTION, AQ_ARGS((aq_arg)i), 0));
        /* One Long at a time to the one place. */
        job_await(&answers, i + 1);
    }
    job_barrier();
    CHECK_EQUAL(answers, QUESTIONS);
    CHECK(refused_replies > 0);
}

int main(void)
{
    aq_handler_entry table[] = {
        {COUNTED, 0, AQ_AM_REQUEST, on_counted, NULL, "counted"},
        {QUESTION, 1, AQ_AM_REQUEST, on_question, NULL, "question"},
        {ANSWER, 1, AQ_AM_REPLY, on_answer, NULL, "answer"},
    };
    job_open(AQ_THREAD_SINGLE, 1 << 20);
    job_handlers(table, COUNT_OF(table));
    test_requests();
    test_replies();
    job_close();
    return 0;
}
