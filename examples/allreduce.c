/* Estimate pi from random points in all processes, summed by an allreduce.
 *
 * Usage: allreduce [POINTS_PER_RANK] */
#include "check.h"
#include <stdlib.h>

/* splitmix64, with a different sequence in each process. */
static double next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

static uint64_t hits_of(uint64_t points, uint64_t seed)
{
    uint64_t hits = 0;
    for (uint64_t i = 0; i < points; i++) {
        double x = next_random(&seed), y = next_random(&seed);
        hits += x * x + y * y < 1;
    }
    return hits;
}

int main(int argc, char **argv)
{
    uint64_t points = argc > 1 ? strtoull(argv[1], NULL, 0) : 200000;
    if (argc > 2 || points == 0) {
        fprintf(stderr, "usage: allreduce [POINTS_PER_RANK]\n");
        return 2;
    }
    aq_team *world;
    check(aq_init(NULL, &world), "aq_init");

    uint64_t mine[2] = {hits_of(points, (uint64_t)aq_job_rank() << 32), points}, all[2];
    check(aq_coll_allreduce(world, all, mine, 2, AQ_TYPE_U64, AQ_OP_ADD, 0), "aq_coll_allreduce");
    if (aq_job_rank() == 0)
        printf("pi is about %.4f, from %llu points of %u processes\n",
               4 * (double)all[0] / (double)all[1], (unsigned long long)all[1], aq_job_size());
    aq_finalize();
    return 0;
}
