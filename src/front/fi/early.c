/* Messages of a peer that have overtaken others. */
#include "front/fi/early.h"

#include <stdlib.h>
#include <string.h>

enum { EARLY_ROOM = 64 };

static struct afi_early_message **early_slot(const struct afi_early *early, uint32_t number)
{
    return &early->slots[number & (early->room - 1)];
}

/* All that are there lie less than the old room ahead of `next`, so no two share a slot. */
static bool early_grow(struct afi_early *early, uint32_t next, uint32_t ahead)
{
    struct afi_early more = *early;
    if (more.room == 0) more.room = EARLY_ROOM;
    while (more.room <= ahead)
        more.room *= 2;
    more.slots = calloc(more.room, sizeof(struct afi_early_message *));
    if (more.slots == NULL) return false;
    for (uint32_t i = 0; i < early->room; i++)
        *early_slot(&more, next + i) = *early_slot(early, next + i);
    free(early->slots);
    *early = more;
    return true;
}

bool afi_early_keep(struct afi_early *early, uint32_t next, uint32_t number, const void *bytes,
                    size_t len)
{
    uint32_t ahead = number - next;
    if (ahead == 0 || ahead >= AFI_EARLY_MESSAGES) return false;
    if (len > AFI_EARLY_BYTES - early->bytes) return false;
    if (ahead >= early->room && !early_grow(early, next, ahead)) return false;
    struct afi_early_message **slot = early_slot(early, number);
    if (*slot != NULL) return false;
    *slot = malloc(sizeof(**slot) + len);
    if (*slot == NULL) return false;
    (*slot)->len = len;
    memcpy((*slot)->bytes, bytes, len);
    early->bytes += len;
    early->count++;
    return true;
}

struct afi_early_message *afi_early_take(struct afi_early *early, uint32_t number)
{
    if (early->count == 0) return NULL;
    struct afi_early_message **slot = early_slot(early, number), *message = *slot;
    if (message == NULL) return NULL;
    *slot = NULL;
    early->bytes -= message->len;
    early->count--;
    return message;
}

void afi_early_drop(struct afi_early *early)
{
    for (uint32_t i = 0; i < early->room; i++)
        free(early->slots[i]);
    free(early->slots);
    *early = (struct afi_early){0};
}
