/*
 * Leaving: messages sent before aq_finalize, and their replies, have been handled by the time it
 * returns. No rank waits for anything before that.
 */
#include "../support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUESTION = 100, ANSWER, EACH = 60, LARGE = 30000 };

static _Atomic uint32_t asked, answered;
static unsigned char *answers; /* the bytes of the answers: the segment */

/* One of three kinds of reply; the Long is larger than a message. */
static void on_question(aq_am *am)
{
    static _Thread_local unsigned char large[LARGE]; /* a progress thread runs handlers, too */
    aq_arg number = am->args[0];
    asked++;
    fill(large, LARGE, (uint64_t)number);
    switch (number % 3) {
    case 0:
        CHECK_OK(aq_am_reply_short(am, ANSWER, am->args, 1, 0));
        break;
    case 1:
        CHECK_OK(aq_am_reply_medium(am, ANSWER, large, 500, am->args, 1, 0));
        break;
    default:
        CHECK_OK(aq_am_reply_long(am, ANSWER, large, LARGE,
                                  job_at(am->source, (size_t)number * LARGE), am->args, 1, 0));
    }
}

static void on_answer(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    answered++;
}

int main(void)
{
    aq_handler_entry table[] = {
        {QUESTION, 1, AQ_AM_SHORT | AQ_AM_REQUEST, on_question, NULL, "question"},
        {ANSWER, 1, AQ_AM_REPLY, on_answer, NULL, "answer"},
    };
    job_open(AQ_THREAD_SINGLE, (size_t)EACH * LARGE);
    answers = job.base;
    job_handlers(table, COUNT_OF(table));
    for (aq_arg i = 0; i < EACH; i++)
        CHECK_OK(aq_am_short(job.team, ((aq_rank)i + job.self) % job.size, QUESTION, &i, 1, 0));
    aq_rank size = job.size;
    CHECK_OK(aq_finalize());
    /* If EACH is a multiple of `size`, each rank is asked EACH times. */
    if (EACH % size == 0 && asked != EACH) {
        fprintf(stderr, "%u questions have arrived, not %u\n", asked, EACH);
        return 1;
    }
    if (answered != EACH) {
        fprintf(stderr, "%u answers have arrived, not %u\n", answered, EACH);
        return 1;
    }
    return 0;
}
