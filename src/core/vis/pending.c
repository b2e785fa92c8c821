/* The table of messages that wait for their answers. */
#include "core/vis/pending.h"

#include <stdlib.h>

static void lock(struct vis_table *table)
{
    if (table->locked) aqi_spin_lock(&table->lock);
}

static void unlock(struct vis_table *table)
{
    if (table->locked) aqi_spin_unlock(&table->lock);
}

void vis_table_open(struct vis_table *table, bool locked)
{
    *table = (struct vis_table){.locked = locked};
    aqi_pool_init(&table->pool, sizeof(struct vis_pending), 32, false);
}

void vis_table_close(struct vis_table *table)
{
    free(table->entries);
    aqi_pool_destroy(&table->pool);
    *table = (struct vis_table){.locked = false}; /* a loss that is told late finds nothing */
}

static struct vis_pending *grow(struct vis_table *table)
{
    if (table->count == table->room) {
        uint32_t room = table->room != 0 ? 2 * table->room : 64;
        struct vis_pending **entries = realloc(table->entries, room * sizeof(*entries));
        if (entries == NULL) return NULL;
        table->entries = entries;
        table->room = room;
    }
    struct vis_pending *pending = aqi_pool_get(&table->pool);
    if (pending == NULL) return NULL;
    pending->index = table->count;
    pending->generation = 0;
    table->entries[table->count++] = pending;
    return pending;
}

bool vis_pending_enter(struct vis_table *table, uint32_t rank, struct aqi_comp *comp, size_t bytes,
                       const struct vis_side *local, uint32_t cookie[2])
{
    lock(table);
    struct vis_pending *pending = table->free;
    if (pending != NULL)
        table->free = pending->next;
    else
        pending = grow(table);
    if (pending != NULL) {
        pending->generation++;
        pending->rank = rank;
        pending->get = local != NULL;
        pending->comp = comp;
        pending->bytes = bytes;
        if (local != NULL) pending->local = *local;
        pending->live = true;
        cookie[0] = pending->index;
        cookie[1] = pending->generation;
    }
    unlock(table);
    return pending != NULL;
}

struct vis_pending *vis_pending_take(struct vis_table *table, uint32_t index, uint32_t generation,
                                     uint32_t rank)
{
    struct vis_pending *pending = NULL;
    lock(table);
    if (index < table->count) pending = table->entries[index];
    if (pending != NULL &&
        (!pending->live || pending->generation != generation || pending->rank != rank))
        pending = NULL;
    if (pending != NULL) pending->live = false;
    unlock(table);
    return pending;
}

struct vis_pending *vis_pending_take_any(struct vis_table *table, uint32_t rank)
{
    struct vis_pending *pending = NULL;
    lock(table);
    for (uint32_t i = 0; i < table->count && pending == NULL; i++)
        if (table->entries[i]->live && table->entries[i]->rank == rank) pending = table->entries[i];
    if (pending != NULL) pending->live = false;
    unlock(table);
    return pending;
}

void vis_pending_put(struct vis_table *table, struct vis_pending *pending)
{
    lock(table);
    pending->next = table->free;
    table->free = pending;
    unlock(table);
}
