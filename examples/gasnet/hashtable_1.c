/* A distributed hash table in GASNet-1: an insertion is a message to the owner of the key, a lookup
 * is a get from its segment. Exit code 1 if a value was wrong or missing. */
#include "table.h"
#include <gasnet.h>

enum { ADD = 200, ADDED };

static struct slot *mine;
static gasnet_seginfo_t *parts;
static atomic_uint added;

static void on_add(gasnet_token_t token, gasnet_handlerarg_t low, gasnet_handlerarg_t high,
                   gasnet_handlerarg_t value)
{
    uint64_t key = (uint64_t)(uint32_t)high << 32 | (uint32_t)low;
    if (!table_add(mine, key, (uint64_t)value)) gasnet_exit(1);
    gasnet_AMReplyShort0(token, ADDED);
}

static void on_added(gasnet_token_t token)
{
    (void)token;
    added++;
}

static void add(uint64_t key, int value)
{
    gasnet_AMRequestShort3(owner_of(key, gasnet_nodes()), ADD, (gasnet_handlerarg_t)key,
                           (gasnet_handlerarg_t)(key >> 32), value);
}

static uint64_t look_up(uint64_t key)
{
    gasnet_node_t owner = owner_of(key, gasnet_nodes());
    struct slot *theirs = parts[owner].addr, slot;
    for (uint32_t tried = 0, at = first_slot(key); tried < SLOTS;
         tried++, at = (at + 1) & (SLOTS - 1)) {
        gasnet_get(&slot, owner, &theirs[at], sizeof(slot));
        if (slot.key == key) return slot.value;
        if (slot.key == 0) return 0;
    }
    return 0;
}

static void barrier(void)
{
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
}

int main(int argc, char **argv)
{
    gasnet_handlerentry_t table[] = {{ADD, (gex_AM_Fn_t)on_add}, {ADDED, (gex_AM_Fn_t)on_added}};
    uintptr_t size = SLOTS * sizeof(struct slot);
    unsigned wrong = 0;
    if (gasnet_init(&argc, &argv) != GASNET_OK) return 1;
    if (gasnet_attach(table, 2, size, 0) != GASNET_OK) gasnet_exit(1);
    parts = malloc(gasnet_nodes() * sizeof(*parts));
    if (parts == NULL) gasnet_exit(1);
    gasnet_getSegmentInfo(parts, (int)gasnet_nodes());
    mine = parts[gasnet_mynode()].addr;
    barrier();
    for (uint32_t i = 0; i < KEYS; i++)
        add(key_of(gasnet_mynode(), i), (int)i + 1);
    GASNET_BLOCKUNTIL(added == KEYS);
    barrier();
    for (uint32_t i = 0; i < KEYS; i++)
        wrong += look_up(key_of((gasnet_mynode() + 1) % gasnet_nodes(), i)) != i + 1;
    printf("rank %u of %u: %d keys added, %d looked up, %u wrong\n", gasnet_mynode(),
           gasnet_nodes(), KEYS, KEYS, wrong);
    barrier();
    gasnet_exit(wrong != 0);
}
