/* MPI over the provider, and Aqueduct itself, in the same processes and at the same time. */
#include <aqueduct/aqueduct.h>
#include <mpi.h>
#include <stdio.h>

enum { HELLO = AQ_HANDLER_BASE, ROUNDS = 1000 };
static int got;

static void hello(aq_am *am)
{
    got += am->args[0];
}

static int has_come(void *round)
{
    return got >= *(const int *)round;
}

int main(int argc, char **argv)
{
    int rank, size, sum = 0;
    aq_team *world;
    aq_handler_entry table[] = {{.index = HELLO, .nargs = 1, .fn = hello}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (aq_init(NULL, &world) != AQ_OK || aq_am_register(aq_team_ep(world), table, 1) != AQ_OK ||
        aq_barrier(world) != AQ_OK)
        return 1;
    if (aq_team_size(world) != (aq_rank)size) {
        fprintf(stderr, "MPI has %d processes, Aqueduct %u\n", size, aq_team_size(world));
        return 1;
    }
    for (int round = 1; round <= ROUNDS; round++) {
        int one = 1, all = 0;
        aq_rank next = (aq_team_rank(world) + 1) % aq_team_size(world);
        if (aq_am_short(world, next, HELLO, AQ_ARGS(1), 0) != AQ_OK ||
            aq_poll_until(has_come, &round, AQ_FOREVER) != AQ_OK)
            return 1;
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        sum += all;
    }
    if (sum != ROUNDS * size || aq_finalize() != AQ_OK) return 1;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("%d ranks: all right\n", size);
    MPI_Finalize();
    return 0;
}
