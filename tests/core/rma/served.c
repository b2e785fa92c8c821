/*
 * Rank 0 writes and reads the memory of rank 1, which computes without a call, so something else
 * must serve it, such as a thread of the provider (AQ_OFI_PROGRESS=auto).
 */
#include "../support.h"

#include <sched.h>
#include <stdatomic.h>

enum { LEN = 4096, WORD = 0 };

int main(void)
{
    job_open(AQ_THREAD_SINGLE, LEN);
    CHECK_EQUAL(job.size, 2);
    uint64_t one = 1, got = 0;
    job_barrier();
    if (job.self == 0) {
        CHECK_OK(aq_put(job.team, 1, job_at(1, WORD), &one, sizeof(one), 0));
        CHECK_OK(aq_get(job.team, 1, &got, job_at(1, WORD), sizeof(got), 0));
        CHECK_EQUAL(got, 1);
    } else {
        while (atomic_load((const _Atomic uint64_t *)(const void *)job.base) == 0)
            sched_yield();
    }
    job_barrier();
    job_close();
    return 0;
}
