/* Latency of a short active message: rank 0 repeatedly sends a request, and rank 1 replies. */
#include "check.h"
#include <stdatomic.h>
#include <time.h>

enum { WARM_UP = 1000, ROUNDS = 20000 };

static aq_handler ping, pong;
static atomic_long pongs; /* replies received */

static void on_ping(aq_am *am)
{
    check(aq_am_reply_short(am, pong, AQ_NO_ARGS, 0), "aq_am_reply_short");
}

static void on_pong(aq_am *am)
{
    (void)am;
    pongs++;
}

static int reached(void *wanted)
{
    return pongs >= *(long *)wanted;
}

static double now_ns(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Make round trips, one at a time, until `wanted` replies have been received in total. */
static void play(aq_team *world, aq_rank peer, long wanted)
{
    while (pongs < wanted) {
        long next = pongs + 1;
        check(aq_am_short(world, peer, ping, AQ_NO_ARGS, 0), "aq_am_short");
        check(aq_poll_until(reached, &next, AQ_FOREVER), "aq_poll_until");
    }
}

int main(void)
{
    aq_team *world;
    check(aq_init(NULL, &world), "aq_init");

    /* These get free indices, the same in each rank; entries with fixed indices would have to
     * precede them. */
    aq_handler_entry table[] = {
        {.accepts = AQ_AM_SHORT | AQ_AM_REQUEST, .fn = on_ping, .name = "ping"},
        {.accepts = AQ_AM_SHORT | AQ_AM_REPLY, .fn = on_pong, .name = "pong"},
    };
    check(aq_am_register(aq_team_ep(world), table, 2), "aq_am_register");
    ping = table[0].index;
    pong = table[1].index;
    check(aq_barrier(world), "aq_barrier"); /* all processes can receive now */

    if (aq_team_rank(world) == 0) {
        aq_rank peer = aq_team_size(world) > 1 ? 1 : 0; /* if alone, send to this process itself */
        play(world, peer, WARM_UP);
        double start = now_ns();
        play(world, peer, WARM_UP + ROUNDS);
        printf("a short request and its reply between rank 0 and rank %u: %.0f ns\n", peer,
               (now_ns() - start) / ROUNDS);
    }
    /* The other ranks wait here and run their handlers meanwhile. */
    check(aq_barrier(world), "aq_barrier");
    check(aq_finalize(), "aq_finalize");
    return 0;
}
