/* A distributed hash table in GASNet-EX: an insertion is a message to the owner of the key, a
 * lookup is a get from its segment. Exit code 1 if a value was wrong or missing. */
#include "table.h"
#include <gasnetex.h>

enum { ADD = 200, ADDED };

static gex_TM_t world;
static struct slot *mine;
static atomic_uint added;

static void on_add(gex_Token_t token, gex_AM_Arg_t low, gex_AM_Arg_t high, gex_AM_Arg_t value)
{
    uint64_t key = (uint64_t)(uint32_t)high << 32 | (uint32_t)low;
    if (!table_add(mine, key, (uint64_t)value)) gasnet_exit(1);
    gex_AM_ReplyShort0(token, ADDED, 0);
}

static void on_added(gex_Token_t token)
{
    (void)token;
    added++;
}

static void add(uint64_t key, int value)
{
    gex_AM_RequestShort3(world, owner_of(key, gex_TM_QuerySize(world)), ADD, 0, (gex_AM_Arg_t)key,
                         (gex_AM_Arg_t)(key >> 32), value);
}

static uint64_t look_up(uint64_t key)
{
    gex_Rank_t owner = owner_of(key, gex_TM_QuerySize(world));
    void *address;
    struct slot *theirs, slot;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(world, owner, &address, NULL, NULL, 0));
    theirs = address;
    for (uint32_t tried = 0, at = first_slot(key); tried < SLOTS;
         tried++, at = (at + 1) & (SLOTS - 1)) {
        gex_RMA_GetBlocking(world, &slot, owner, &theirs[at], sizeof(slot), 0);
        if (slot.key == key) return slot.value;
        if (slot.key == 0) return 0;
    }
    return 0;
}

static void barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(world, 0));
}

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_Segment_t segment;
    gex_AM_Entry_t table[] = {
        {ADD, (gex_AM_Fn_t)on_add, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 3, NULL, "add"},
        {ADDED, (gex_AM_Fn_t)on_added, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, "added"}};
    unsigned wrong = 0;
    if (gex_Client_Init(&client, &ep, &world, "HASHTABLE", &argc, &argv, 0) != GASNET_OK) return 1;
    if (gex_EP_RegisterHandlers(ep, table, 2) != GASNET_OK) gasnet_exit(1);
    if (gex_Segment_Attach(&segment, world, SLOTS * sizeof(struct slot)) != GASNET_OK)
        gasnet_exit(1);
    mine = gex_Segment_QueryAddr(segment);
    gex_Rank_t rank = gex_TM_QueryRank(world), size = gex_TM_QuerySize(world);
    barrier();
    for (uint32_t i = 0; i < KEYS; i++)
        add(key_of(rank, i), (int)i + 1);
    GASNET_BLOCKUNTIL(added == KEYS);
    barrier();
    for (uint32_t i = 0; i < KEYS; i++)
        wrong += look_up(key_of((rank + 1) % size, i)) != i + 1;
    printf("rank %u of %u: %d keys added, %d looked up, %u wrong\n", rank, size, KEYS, KEYS, wrong);
    barrier();
    gasnet_exit(wrong != 0);
}
