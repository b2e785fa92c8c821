/*
 * A client of the GASNet interface as users write it, in the common subset of C and C++: mixes
 * GASNet-1 and EX, sends a message around the ring, and prints its arguments. With CLIENT_SAME, its
 * static data must have the same address in all processes.
 */
#include <gasnet.h>
#include <gasnet_tools.h>

static int greeted;
static const char *same;

static void on_reply(gasnet_token_t token)
{
    (void)token;
    greeted++;
}

static void on_greeting(gasnet_token_t token, gasnet_handlerarg_t value, gasnet_handlerarg_t place)
{
    gasnet_node_t source;
    gasnet_AMGetMsgSource(token, &source);
    if (value != 42 + (int)source) gasnet_exit(9);
    if (same != NULL && place != (gasnet_handlerarg_t)(uintptr_t)&greeted) gasnet_exit(10);
    greeted++;
    gasnet_AMReplyShort0(token, 201);
}

int main(int argc, char **argv)
{
    gasnet_handlerentry_t table[] = {{200, (void (*)())on_greeting}, {201, (void (*)())on_reply}};
    gasnet_node_t next;
    gex_TM_t tm;
    gasnett_tick_t began;
    int i;
    if (gasnet_init(&argc, &argv) != GASNET_OK) return 1;
    if (gasnet_attach(table, 2, 16 * GASNET_PAGESIZE, 0) != GASNET_OK) return 1;
    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
    same = gasnet_getenv("CLIENT_SAME");
    gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    began = gasnett_ticks_now();
    next = (gasnet_mynode() + 1) % gasnet_nodes();
    gasnet_AMRequestShort2(next, 200, 42 + (int)gasnet_mynode(),
                           (gasnet_handlerarg_t)(uintptr_t)&greeted);
    GASNET_BLOCKUNTIL(greeted == 2);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    if (gasnett_ticks_to_ns(gasnett_ticks_now() - began) == 0) gasnet_exit(8);
    printf("client %u of %u in mode %s:", (unsigned)gasnet_mynode(), (unsigned)gasnet_nodes(),
           GASNET_CONDUIT_NAME_STR);
    for (i = 1; i < argc; i++)
        printf(" [%s]", argv[i]);
    printf("\n");
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_exit(gasnet_getenv("CLIENT_EXIT") ? atoi(gasnet_getenv("CLIENT_EXIT")) : 0);
    return 0;
}
