/*
 * Counts the allocations of the engine and of the simulation by wrapping the allocator of the whole
 * program (-Wl,--wrap). Nothing is wrapped under a sanitizer, which detects leaks itself.
 */
#include "sim.h"

#include <stdlib.h>

#ifndef SIM_SANITIZED
#define SIM_SANITIZED 0
#endif

static long allocations_now;

long sim_allocations(void)
{
    return allocations_now;
}

#if !SIM_SANITIZED

#define WRAPPED(result, name, params)                                                              \
    result __real_##name params;                                                                   \
    result __wrap_##name params;                                                                   \
    result __wrap_##name params

WRAPPED(void *, malloc, (size_t size))
{
    void *memory = __real_malloc(size);
    if (memory != NULL) allocations_now++;
    return memory;
}

WRAPPED(void *, calloc, (size_t count, size_t size))
{
    void *memory = __real_calloc(count, size);
    if (memory != NULL) allocations_now++;
    return memory;
}

WRAPPED(void *, realloc, (void *old, size_t size))
{
    void *memory = __real_realloc(old, size);
    if (memory != NULL && old == NULL) allocations_now++;
    return memory;
}

WRAPPED(void *, aligned_alloc, (size_t align, size_t size))
{
    void *memory = __real_aligned_alloc(align, size);
    if (memory != NULL) allocations_now++;
    return memory;
}

WRAPPED(int, posix_memalign, (void **memory, size_t align, size_t size))
{
    int error = __real_posix_memalign(memory, align, size);
    if (error == 0) allocations_now++;
    return error;
}

WRAPPED(void, free, (void *memory))
{
    if (memory != NULL) allocations_now--;
    __real_free(memory);
}

#endif
