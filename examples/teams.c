/* Processes in a grid: a team for each row and each column, and sums along both. */
#include "check.h"

/* The number of columns of the most even grid for this number of processes. */
static aq_rank columns_of(aq_rank size)
{
    aq_rank columns = 1;
    for (aq_rank i = 1; i * i <= size; i++)
        if (size % i == 0) columns = size / i;
    return columns;
}

int main(void)
{
    aq_team *world, *row, *column;
    check(aq_init(NULL, &world), "aq_init");
    aq_rank self = aq_job_rank(), columns = columns_of(aq_job_size());
    int my_row = (int)(self / columns), my_column = (int)(self % columns);

    /* Processes with the same color form a team; the key determines their order in it. */
    check(aq_team_split(world, my_row, my_column, 0, &row), "aq_team_split");
    check(aq_team_split(world, my_column, my_row, 0, &column), "aq_team_split");

    uint32_t mine = self + 1, sums[2];
    aq_event events[2];
    check(aq_coll_allreduce_nb(row, &sums[0], &mine, 1, AQ_TYPE_U32, AQ_OP_ADD, 0, &events[0]),
          "aq_coll_allreduce_nb");
    check(aq_coll_allreduce_nb(column, &sums[1], &mine, 1, AQ_TYPE_U32, AQ_OP_ADD, 0, &events[1]),
          "aq_coll_allreduce_nb");
    check(aq_event_wait_all(events, 2, AQ_FOREVER), "aq_event_wait_all");

    /* The first member of each row sends the row's sum to rank 0, through the column's team. */
    uint32_t table[64];
    if (my_column == 0 && aq_team_size(column) <= 64) {
        check(aq_coll_gather(column, 0, table, &sums[0], sizeof(sums[0]), 0), "aq_coll_gather");
        for (aq_rank i = 0; self == 0 && i < aq_team_size(column); i++)
            printf("row %u: sum %u\n", i, table[i]);
    }
    check(aq_team_destroy(row), "aq_team_destroy");
    check(aq_team_destroy(column), "aq_team_destroy");
    aq_finalize();
    return 0;
}
