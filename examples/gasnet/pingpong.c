/* GASNet-EX: measures the round-trip time of a short message, and puts and gets of 8 bytes, from
 * rank 0. */
#include <gasnetex.h>

#include <gasnet_tools.h>
#include <stdatomic.h>

enum { ROUNDS = 10000, PING = 200, PONG };

static gex_TM_t world;
static atomic_uint pongs;

static void on_ping(gex_Token_t token)
{
    gex_AM_ReplyShort0(token, PONG, 0);
}

static void on_pong(gex_Token_t token)
{
    (void)token;
    pongs++;
}

static double each_ns(gasnett_tick_t begun)
{
    return (double)gasnett_ticks_to_ns(gasnett_ticks_now() - begun) / ROUNDS;
}

static void measure(gex_Rank_t peer, void *there)
{
    uint64_t word = 1;
    gasnett_tick_t begun = gasnett_ticks_now();
    for (unsigned i = 0; i < ROUNDS; i++) {
        gex_AM_RequestShort0(world, peer, PING, 0);
        GASNET_BLOCKUNTIL(pongs > i);
    }
    printf("rank 0 and rank %u: %.0f ns for a message and its answer\n", peer, each_ns(begun));
    begun = gasnett_ticks_now();
    for (unsigned i = 0; i < ROUNDS; i++)
        gex_RMA_PutBlocking(world, peer, there, &word, sizeof(word), 0);
    printf("put of 8 bytes: %.1f ns\n", each_ns(begun));
    begun = gasnett_ticks_now();
    for (unsigned i = 0; i < ROUNDS; i++)
        gex_RMA_GetBlocking(world, &word, peer, there, sizeof(word), 0);
    printf("get of 8 bytes: %.1f ns\n", each_ns(begun));
}

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_Segment_t segment;
    gex_AM_Entry_t table[] = {
        {PING, (gex_AM_Fn_t)on_ping, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "ping"},
        {PONG, (gex_AM_Fn_t)on_pong, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, "pong"}};
    void *there;
    if (gex_Client_Init(&client, &ep, &world, "PINGPONG", &argc, &argv, 0) != GASNET_OK) return 1;
    if (gex_EP_RegisterHandlers(ep, table, 2) != GASNET_OK) gasnet_exit(1);
    if (gex_Segment_Attach(&segment, world, GASNET_PAGESIZE) != GASNET_OK) gasnet_exit(1);
    gex_Rank_t peer = gex_TM_QuerySize(world) > 1 ? 1 : 0;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(world, peer, &there, NULL, NULL, 0));
    if (gex_TM_QueryRank(world) == 0) measure(peer, there);
    gex_Event_Wait(gex_Coll_BarrierNB(world, 0));
    gasnet_exit(0);
}
