/* GASNet-EX: every process greets the next one and waits for a greeting. */
#include <gasnetex.h>

static gex_TM_t world;
static int greeted;

static void on_greeting(gex_Token_t token, void *text, size_t nbytes)
{
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    printf("rank %u of %u was greeted by rank %u: %.*s\n", gex_TM_QueryRank(world),
           gex_TM_QuerySize(world), info.gex_srcrank, (int)nbytes, (const char *)text);
    greeted = 1;
}

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_AM_Entry_t table[] = {{0, (gex_AM_Fn_t)on_greeting,
                               GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 0, NULL, "greeting"}};
    if (gex_Client_Init(&client, &ep, &world, "HELLO", &argc, &argv, 0) != GASNET_OK) return 1;
    if (gex_EP_RegisterHandlers(ep, table, 1) != GASNET_OK) gasnet_exit(1);
    gex_Event_Wait(gex_Coll_BarrierNB(world, 0)); /* all processes have registered */
    gex_Rank_t next = (gex_TM_QueryRank(world) + 1) % gex_TM_QuerySize(world);
    gex_AM_RequestMedium0(world, next, table[0].gex_index, "hello", 5, GEX_EVENT_NOW, 0);
    GASNET_BLOCKUNTIL(greeted);
    gex_Event_Wait(gex_Coll_BarrierNB(world, 0));
    gasnet_exit(0);
}
