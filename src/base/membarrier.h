/* A memory barrier on all processors that run a process which has registered for it. */
#ifndef AQI_MEMBARRIER_H
#define AQI_MEMBARRIER_H

#include "base/base.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns false if the kernel does not support it. */
static inline bool aqi_membarrier_register(void)
{
    return syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0u, 0) == 0;
}

/* A process that could not register executes a fence instead; the fence here pairs with it. */
static inline void aqi_membarrier(void)
{
    if (syscall(__NR_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0u, 0) != 0)
        atomic_thread_fence(memory_order_seq_cst);
}

#endif
