/* A token visits all processes in turn; each increments it. Usage: ring [LAPS] */
#include "check.h"
#include <stdlib.h>
#include <time.h>

static int32_t token;
static int has_token;

/* A request handler may only reply, so it stores the token; main() forwards it. */
static void on_token(aq_am *am)
{
    token = am->args[0];
    has_token = 1;
}

static int arrived(void *unused)
{
    (void)unused;
    return has_token;
}

static double now_us(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int32_t laps_from(int argc, char **argv)
{
    if (argc == 1) return 100;
    char *end;
    long laps = strtol(argv[1], &end, 10);
    if (argc == 2 && *end == '\0' && laps >= 1 && laps <= 1000000) return (int32_t)laps;
    fprintf(stderr, "usage: ring [LAPS], with 1 to 1000000 laps\n");
    exit(2);
}

int main(int argc, char **argv)
{
    int32_t laps = laps_from(argc, argv);
    aq_team *world;
    check(aq_init(NULL, &world), "aq_init");
    aq_rank rank = aq_team_rank(world), size = aq_team_size(world), next = (rank + 1) % size;

    aq_handler_entry handler = {.nargs = 1, .accepts = AQ_AM_SHORT | AQ_AM_REQUEST, .fn = on_token};
    check(aq_am_register(aq_team_ep(world), &handler, 1), "aq_am_register");
    check(aq_barrier(world), "aq_barrier");

    double start = now_us();
    if (rank == 0) has_token = 1;
    for (int32_t lap = 0; lap < laps; lap++) {
        check(aq_poll_until(arrived, NULL, AQ_FOREVER), "aq_poll_until");
        has_token = 0;
        check(aq_am_short(world, next, handler.index, AQ_ARGS(token + 1), 0), "aq_am_short");
    }
    int wrong = 0;
    if (rank == 0) {
        check(aq_poll_until(arrived, NULL, AQ_FOREVER), "aq_poll_until"); /* back at the start */
        double hops = (double)laps * size;
        wrong = (double)token != hops;
        printf("the token made %d hops in %d laps of %u ranks, %.2f us each%s\n", token, laps, size,
               (now_us() - start) / hops, wrong ? "; WRONG" : "");
    }
    check(aq_barrier(world), "aq_barrier");
    check(aq_finalize(), "aq_finalize");
    return wrong;
}
