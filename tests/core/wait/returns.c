/*
 * With AQ_CATCH_EXIT=no a rank returns from main while others may still wait for its last message,
 * which the network has lost.
 */
#include "../support.h"

enum { ROUNDS = 20 };

int main(void)
{
    job_open(AQ_THREAD_SINGLE, 0);
    for (int i = 0; i < ROUNDS; i++)
        CHECK_OK(aq_barrier(job.team));
    return 0;
}
