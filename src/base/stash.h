/*
 * Memory for blocks of many sizes that are freed soon, such as messages that a program holds.
 * free() would return that much memory to the kernel, and malloc() would fault it in again. So a
 * stash keeps freed blocks, in a list per size class; each class is twice the previous one, and the
 * bytes kept of each are limited. A stash belongs to one thread.
 */
#ifndef AQI_STASH_H
#define AQI_STASH_H

#include "base/base.h"

#include <stdlib.h>

enum {
    AQI_STASH_CLASSES = 10,
    AQI_STASH_LEAST = 256, /* bytes of the smallest class */
    AQI_STASH_KEPT = 4096  /* maximum blocks kept of that; half as many of the next, ... */
};

struct aqi_stash_block {
    struct aqi_stash_block *next; /* while it is kept */
    unsigned order;               /* its class */
    alignas(16) unsigned char bytes[];
};

/* All zero: an empty stash. */
struct aqi_stash {
    struct {
        struct aqi_stash_block *first;
        size_t count;
    } kept[AQI_STASH_CLASSES];
};

static inline size_t aqi_stash_bytes(unsigned order)
{
    return (size_t)AQI_STASH_LEAST << order;
}

/* The class of blocks with `len` bytes for the caller. AQI_STASH_CLASSES: too large to be kept. */
static inline unsigned aqi_stash_class(size_t len)
{
    const size_t head = sizeof(struct aqi_stash_block);
    if (len > aqi_stash_bytes(AQI_STASH_CLASSES - 1) - head) return AQI_STASH_CLASSES;
    uint32_t more = (uint32_t)((len + head - 1) / AQI_STASH_LEAST);
    return more == 0 ? 0 : 32 - (unsigned)__builtin_clz(more);
}

/* Get at least `len` bytes, aligned to 16 bytes and not initialized. NULL: out of memory. */
void *aqi_stash_new(size_t len, unsigned order);
static inline void *aqi_stash_get(struct aqi_stash *stash, size_t len)
{
    unsigned order = aqi_stash_class(len);
    if (AQI_UNLIKELY(order >= AQI_STASH_CLASSES || stash->kept[order].first == NULL))
        return aqi_stash_new(len, order);
    struct aqi_stash_block *block = stash->kept[order].first;
    stash->kept[order].first = block->next;
    stash->kept[order].count--;
    return block->bytes;
}

/* Return a block to the stash from which it was taken; NULL is ignored. */
static inline void aqi_stash_put(struct aqi_stash *stash, void *bytes)
{
    if (bytes == NULL) return;
    struct aqi_stash_block *block =
        (void *)((unsigned char *)bytes - offsetof(struct aqi_stash_block, bytes));
    unsigned order = block->order;
    if (AQI_UNLIKELY(order >= AQI_STASH_CLASSES ||
                     stash->kept[order].count >= (size_t)AQI_STASH_KEPT >> order)) {
        free(block);
        return;
    }
    block->next = stash->kept[order].first;
    stash->kept[order].first = block;
    stash->kept[order].count++;
}

/* Free the blocks that are not in use; the stash is empty then. */
void aqi_stash_drop(struct aqi_stash *stash);

#endif
