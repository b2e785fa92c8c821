/* The smallest program: every process prints its rank and the transport to its neighbor. */
#include "check.h"

int main(void)
{
    aq_team *world;
    check(aq_init(NULL, &world), "aq_init");

    aq_rank rank = aq_team_rank(world), size = aq_team_size(world);
    aq_rank next = (rank + 1) % size;
    const char *route;
    check(aq_info_route(world, next, &route), "aq_info_route");
    printf("hello from rank %u of %u; I reach rank %u over %s\n", rank, size, next, route);

    check(aq_finalize(), "aq_finalize");
    return 0;
}
