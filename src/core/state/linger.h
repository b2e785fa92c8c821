/* The idle progress thread. Reads no clock: the time is an argument. */
#ifndef AQI_CORE_STATE_LINGER_H
#define AQI_CORE_STATE_LINGER_H

#include "base/base.h"

/* Initially zero. Times in ns. */
struct core_linger {
    unsigned looks;     /* consecutive empty polls */
    unsigned kept_away; /* idle rounds left in which to sleep at once, since the core is shared */
    uint64_t polls, at; /* the program's poll count and the time, at the last check */
};

static inline void core_linger_found(struct core_linger *linger)
{
    linger->looks = 0;
}

/* Whether to yield and poll again, rather than sleep. */
bool core_linger_looks(struct core_linger *linger);
/* The yield took `away` ns. Returns false if another thread computes on this core: then sleep. */
bool core_linger_looked(struct core_linger *linger, uint64_t away);
/* Whether the program, with this count of `polls`, polls so often that the thread need not. */
bool core_linger_stands_back(struct core_linger *linger, uint64_t polls, uint64_t now);

#endif
