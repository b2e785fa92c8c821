/*
 * Asynchronous Longs: with an event the call returns before the source may be reused, and the data
 * that arrives is that of the source until the event completes. Where the segment is mapped the
 * event completes at once; with AQ_FAULT=hide=map that of a large Long does not. The source of a
 * reply may be reused at once.
 */
#include "../support.h"

#include <stdlib.h>
#include <string.h>

enum { LANDED = 100, ANSWER, COUNT = 40, LARGE = 60000, SMALL = 300 };

static _Atomic uint32_t landed, answered;

static size_t size_of(uint32_t number)
{
    return number % 4 == 3 ? SMALL : LARGE - number;
}

/* Segment: COUNT places for Longs, then as many for their answers. */
static size_t place_of(uint32_t number)
{
    return (size_t)number * LARGE;
}

static void on_landed(aq_am *am)
{
    static unsigned char answer[LARGE];
    uint32_t number = (uint32_t)am->args[0];
    CHECK_EQUAL(am->nbytes, size_of(number));
    CHECK(am->payload == job.base + place_of(number));
    CHECK(filled(am->payload, am->nbytes, number));
    landed++;
    fill(answer, am->nbytes, number + 1000);
    CHECK_OK(aq_am_reply_long(am, ANSWER, answer, am->nbytes,
                              job_at(am->source, place_of(COUNT + number)), am->args, 1, 0));
    memset(answer, 0xdd, sizeof(answer));
}

static void on_answer(aq_am *am)
{
    uint32_t number = (uint32_t)am->args[0];
    CHECK(filled(am->payload, am->nbytes, number + 1000));
    answered++;
}

int main(void)
{
    aq_handler_entry table[] = {
        {LANDED, 1, AQ_AM_LONG | AQ_AM_REQUEST, on_landed, NULL, "landed"},
        {ANSWER, 1, AQ_AM_LONG | AQ_AM_REPLY, on_answer, NULL, "answer"},
    };
    const char *fault = getenv("AQ_FAULT");
    bool hidden = fault != NULL && strstr(fault, "map") != NULL;
    unsigned char *source[COUNT];
    aq_event event[COUNT];
    uint32_t later = 0;
    aq_segment_info info;
    job_open(AQ_THREAD_SINGLE, place_of(2 * COUNT));
    CHECK_OK(aq_segment_query(job.team, job_next(), &info));
    job_handlers(table, COUNT_OF(table));
    for (uint32_t i = 0; i < COUNT; i++) {
        CHECK((source[i] = malloc(LARGE)) != NULL);
        fill(source[i], LARGE, i);
        CHECK_OK(aq_am_long(job.team, job_next(), LANDED, source[i], size_of(i),
                            job_at(job_next(), place_of(i)), AQ_ARGS((aq_arg)i), 0, &event[i]));
        later += event[i] != AQ_EVENT_DONE;
    }
    /* The latest first. Each source is overwritten as soon as that is allowed. */
    for (uint32_t i = COUNT; i-- > 0;) {
        CHECK_OK(aq_event_wait(&event[i], AQ_FOREVER));
        CHECK(event[i] == AQ_EVENT_DONE);
        memset(source[i], 0xee, LARGE);
    }
    if (hidden)
        CHECK(later > COUNT / 2);
    else if (fault == NULL && info.local != NULL)
        CHECK_EQUAL(later, 0);
    job_await(&landed, COUNT);
    job_await(&answered, COUNT);
    job_barrier();
    CHECK_EQUAL(landed, COUNT);
    for (uint32_t i = 0; i < COUNT; i++)
        free(source[i]);
    job_close();
    return 0;
}
