/*
 * A member that waits long for a collective to begin, and then takes long to leave it, delays the
 * next one. This is not reported as a mismatch between members, and the job continues.
 */
#include "../support.h"

#include <time.h>

/* Whole pieces and a shorter last one, which each member reduces once all have arrived. */
enum { LAST = 100, COUNT = 3 * 256 * 1024 / (int)sizeof(uint32_t) + LAST };
static uint32_t mine[COUNT], sum[COUNT];

/* Longer than waiting members take to suspect a mismatch, or the test would prove nothing. */
static void idle(int tenths)
{
    struct timespec now, until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += tenths / 10;
    until.tv_nsec += tenths % 10 * 100000000L;
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec < until.tv_sec ||
           (now.tv_sec == until.tv_sec && now.tv_nsec < until.tv_nsec));
}

static void add(const void *left, void *right_and_out, size_t count, const void *context)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        ((uint32_t *)right_and_out)[i] += ((const uint32_t *)left)[i];
    if (job.self == 1 && count == LAST) idle(10);
}

int main(void)
{
    job_open(AQ_THREAD_SINGLE, 0);
    uint32_t one = 1, all;
    for (uint32_t i = 0; i < COUNT; i++)
        mine[i] = i;
    if (job.self == 0) idle(5);
    CHECK_OK(aq_coll_allreduce_user(job.team, sum, mine, COUNT, sizeof(*sum), add, NULL, 0));
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK_EQUAL(sum[i], i * job.size);
    CHECK_OK(aq_coll_allreduce(job.team, &all, &one, 1, AQ_TYPE_U32, AQ_OP_ADD, 0));
    CHECK_EQUAL(all, job.size);
    job_close();
    return 0;
}
