/*
 * An all-to-all of large blocks, twice, in which all pairs of processes connect at the same time.
 *
 * usage: exchange BYTES
 */
#include "../support.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t block_seed(aq_rank from, aq_rank to, unsigned round)
{
    return mix(job.seed + ((uint64_t)round << 48) + ((uint64_t)from << 24) + to);
}

int main(int argc, char **argv)
{
    size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    CHECK(bytes > 0);
    job_open(AQ_THREAD_SINGLE, 0);
    unsigned char *from = malloc(job.size * bytes), *to = malloc(job.size * bytes);
    CHECK(from != NULL && to != NULL);
    for (unsigned round = 0; round < 2; round++) {
        for (aq_rank rank = 0; rank < job.size; rank++)
            fill(from + rank * bytes, bytes, block_seed(job.self, rank, round));
        CHECK_OK(aq_coll_alltoall(job.team, to, from, bytes, 0));
        for (aq_rank rank = 0; rank < job.size; rank++)
            CHECK(filled(to + rank * bytes, bytes, block_seed(rank, job.self, round)));
    }
    free(from);
    free(to);
    job_close();
    return 0;
}
