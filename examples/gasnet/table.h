/* Shared by both versions of the hash table: slots, keys, and their owners. */
#ifndef EXAMPLE_GASNET_TABLE_H
#define EXAMPLE_GASNET_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

enum { SLOTS = 1 << 15, KEYS = 10000 }; /* per process */

/* Atomic: with GASNET_RCV_THREAD=1, two threads run handlers. */
struct slot {
    _Atomic uint64_t key; /* 0: free */
    _Atomic uint64_t value;
};

/* Mix the bits of a key (the finalizer of splitmix64). */
static inline uint64_t mix(uint64_t key)
{
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
    key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
    return key ^ (key >> 31);
}

static inline uint32_t owner_of(uint64_t key, uint32_t ranks)
{
    return (uint32_t)(mix(key) % ranks);
}

static inline uint32_t first_slot(uint64_t key)
{
    return (uint32_t)(mix(key) >> 32) & (SLOTS - 1);
}

/* Key i of a process; never 0. */
static inline uint64_t key_of(uint32_t rank, uint32_t i)
{
    return mix(((uint64_t)rank + 1) << 40 | i) | 1;
}

/* Add to the value of a key in the local part; returns 0 if the table is full. */
static inline int table_add(struct slot *slots, uint64_t key, uint64_t value)
{
    uint32_t at = first_slot(key);
    for (uint32_t tried = 0; tried < SLOTS; tried++, at = (at + 1) & (SLOTS - 1)) {
        uint64_t found = 0;
        if (!atomic_compare_exchange_strong(&slots[at].key, &found, key) && found != key) continue;
        slots[at].value += value;
        return 1;
    }
    return 0;
}

#endif
