/*
 * Rank 0 floods rank 1, which computes and rarely polls: one poll takes everything that has arrived
 * meanwhile. That is a lot, because waiting in the receiver does not count as congestion.
 */
#include "../support.h"

#include <stdio.h>
#include <time.h>

enum { DATA = 100, COUNT = 1000, BYTES = 4000, COMPUTES_NS = 1000000, MOST_POLLS = 120 };

static _Atomic uint32_t received;

static void on_data(aq_am *am)
{
    CHECK_EQUAL(am->nbytes, BYTES);
    CHECK(filled(am->payload, BYTES, (uint64_t)am->args[0]));
    received++;
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void compute(void)
{
    uint64_t until = clock_ns() + COMPUTES_NS;
    while (clock_ns() < until)
        continue;
}

int main(void)
{
    aq_handler_entry table[] = {{DATA, 1, AQ_AM_MEDIUM | AQ_AM_REQUEST, on_data, NULL, "data"}};
    job.segment_modes = ALL_SEGMENT_MODES;
    job_open(AQ_THREAD_SINGLE, 0);
    job_handlers(table, COUNT_OF(table));
    job_barrier();
    if (job.self == 0) {
        unsigned char bytes[BYTES];
        for (aq_arg i = 0; i < COUNT; i++) {
            fill(bytes, BYTES, (uint64_t)i);
            CHECK_OK(aq_am_medium(job.team, 1, DATA, bytes, BYTES, &i, 1, 0, NULL));
        }
    }
    /* Polls that find nothing do not count: the machine may be busy with other processes. */
    unsigned polls = 0;
    while (job.self == 1 && received < COUNT) {
        uint32_t before = received;
        compute();
        aq_status got = aq_poll();
        CHECK(got == AQ_OK || got == AQ_AGAIN);
        if (received != before) polls++;
    }
    if (job.self == 1) printf("%u messages in %u polls\n", COUNT, polls);
    if (polls > MOST_POLLS)
        check_failed(__FILE__, __LINE__, "%u messages took %u polls, more than %u", COUNT, polls,
                     MOST_POLLS);
    job_barrier();
    job_close();
    return 0;
}
