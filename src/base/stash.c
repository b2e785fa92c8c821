/* Kept memory: the rare paths. See stash.h. */
#include "base/stash.h"

void *aqi_stash_new(size_t len, unsigned order)
{
    size_t bytes =
        order < AQI_STASH_CLASSES ? aqi_stash_bytes(order) : len + sizeof(struct aqi_stash_block);
    struct aqi_stash_block *block = len < PTRDIFF_MAX / 2 ? malloc(bytes) : NULL;
    if (block == NULL) return NULL;
    block->order = order;
    return block->bytes;
}

void aqi_stash_drop(struct aqi_stash *stash)
{
    for (unsigned i = 0; i < AQI_STASH_CLASSES; i++) {
        for (struct aqi_stash_block *next; stash->kept[i].first != NULL;
             stash->kept[i].first = next) {
            next = stash->kept[i].first->next;
            free(stash->kept[i].first);
        }
        stash->kept[i].count = 0;
    }
}
