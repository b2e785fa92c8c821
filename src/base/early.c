/* Numbered items that arrived ahead of their turn. */
#include "base/early.h"

#include <stdlib.h>

enum { EARLY_ROOM = 64 };

static struct aqi_early_item **early_slot(const struct aqi_early *early, uint32_t number)
{
    return &early->slots[number & (early->room - 1)];
}

/* All kept items are less than the old room ahead of `next`, so no two share a slot. */
static bool early_grow(struct aqi_early *early, uint32_t next, uint32_t ahead)
{
    struct aqi_early more = *early;
    if (more.room == 0) more.room = EARLY_ROOM;
    while (more.room <= ahead)
        more.room *= 2;
    more.slots = calloc(more.room, sizeof(struct aqi_early_item *));
    if (more.slots == NULL) return false;
    for (uint32_t i = 0; i < early->room; i++)
        *early_slot(&more, next + i) = *early_slot(early, next + i);
    free(early->slots);
    *early = more;
    return true;
}

bool aqi_early_keep(struct aqi_early *early, uint32_t next, uint32_t number,
                    struct aqi_early_item *item, const struct aqi_early_most *most)
{
    uint32_t ahead = number - next;
    if (ahead == 0 || ahead >= most->ahead) return false;
    if (item->bytes > most->bytes - early->bytes) return false;
    if (ahead >= early->room && !early_grow(early, next, ahead)) return false;
    struct aqi_early_item **slot = early_slot(early, number);
    if (*slot != NULL) return false;
    *slot = item;
    early->bytes += item->bytes;
    early->count++;
    return true;
}

void *aqi_early_take(struct aqi_early *early, uint32_t number)
{
    if (early->count == 0) return NULL;
    struct aqi_early_item **slot = early_slot(early, number), *item = *slot;
    if (item == NULL) return NULL;
    *slot = NULL;
    early->bytes -= item->bytes;
    early->count--;
    return item;
}

void aqi_early_drop(struct aqi_early *early)
{
    for (uint32_t i = 0; i < early->room; i++)
        free(early->slots[i]);
    free(early->slots);
    *early = (struct aqi_early){0};
}
