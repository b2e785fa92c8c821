/*
 * Memory of processes that peers read and write. Each block has a guard on both sides and a pattern
 * with its expected contents. When an operation on it has ended, the owner overwrites the block,
 * which remains registered, so that late writes are detected.
 */
#include "sim.h"

#include <stdlib.h>

#define GUARD      64
#define GUARD_BYTE 0xa7
#define FORGOTTEN  0xdd /* fills memory that was forgotten */

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif
#ifdef SIM_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(addr, size)   ((void)(addr), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(addr, size) ((void)(addr), (void)(size))
#endif

struct sim_block *memory_make(struct sim_proc *owner, size_t len, size_t align, uint64_t pattern)
{
    struct sim_block *block = sim_alloc(sizeof(*block));
    block->base = sim_alloc(len + 2 * GUARD + 16);
    block->at = block->base + GUARD + align % 16;
    block->len = len;
    block->registered = true;
    memset(block->base, GUARD_BYTE, len + 2 * GUARD + 16);
    memory_set(block, pattern);
    block->next = owner->blocks;
    owner->blocks = block;
    return block;
}

void memory_set(struct sim_block *block, uint64_t pattern)
{
    block->pattern = pattern;
    fill(block->at, block->len, pattern);
}

void memory_drop(struct sim_proc *owner, struct sim_block *block)
{
    struct sim_block **link = &owner->blocks;
    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    free(block->base);
    free(block);
}

void memory_forget(struct sim_proc *owner, struct sim_block *block)
{
    aqi_dgram_forget(owner->dgram, block->at, block->len);
    block->registered = block->open = false;
    block->gone = true;
    memset(block->at, FORGOTTEN, block->len);
    ASAN_POISON_MEMORY_REGION(block->at, block->len);
}

bool memory_range_ok(const struct sim_proc *owner, uint64_t addr, size_t len)
{
    for (const struct sim_block *block = owner->blocks; block != NULL; block = block->next) {
        uint64_t at = (uintptr_t)block->at;
        if (block->registered && addr >= at && addr - at <= block->len &&
            len <= block->len - (addr - at))
            return true;
    }
    return false;
}

const char *memory_wrong(const struct sim_block *block)
{
    const unsigned char *end = block->at + block->len;
    for (const unsigned char *p = block->base; p < block->at; p++)
        if (*p != GUARD_BYTE) return "the bytes before it have been written";
    for (const unsigned char *p = end; p < block->base + block->len + 2 * GUARD + 16; p++)
        if (*p != GUARD_BYTE) return "the bytes after it have been written";
    if (block->open) return NULL;
    if (!block->gone)
        return filled(block->at, block->len, block->pattern) ? NULL : "its contents are wrong";
    ASAN_UNPOISON_MEMORY_REGION(block->at, block->len);
    const char *wrong = NULL;
    for (const unsigned char *p = block->at; p < end && wrong == NULL; p++)
        if (*p != FORGOTTEN) wrong = "it has been written after it was forgotten";
    ASAN_POISON_MEMORY_REGION(block->at, block->len);
    return wrong;
}

void memory_check(struct sim_proc *owner)
{
    for (const struct sim_block *block = owner->blocks; block != NULL; block = block->next) {
        const char *wrong = memory_wrong(block);
        SIM_REQUIRE(owner->sim, wrong == NULL, "process %u: a block of %zu bytes: %s", owner->id,
                    block->len, wrong);
    }
}

void memory_free(struct sim_proc *owner)
{
    struct sim_block *next;
    for (struct sim_block *block = owner->blocks; block != NULL; block = next) {
        next = block->next;
        ASAN_UNPOISON_MEMORY_REGION(block->at, block->len);
        free(block->base);
        free(block);
    }
    owner->blocks = NULL;
}
