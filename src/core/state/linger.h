/* The progress thread when it finds nothing to do. Knows no clock: the time is an argument. */
#ifndef AQI_CORE_STATE_LINGER_H
#define AQI_CORE_STATE_LINGER_H

#include "base/base.h"

/* All zero at first. Times in ns. */
struct core_linger {
    unsigned looks;     /* consecutive looks that found nothing */
    unsigned kept_away; /* times left to sleep at once, since it shares its core */
    uint64_t polls, at; /* the program's polls and the time, at the last check */
};

static inline void core_linger_found(struct core_linger *linger)
{
    linger->looks = 0;
}

/* Whether to yield and look again, rather than sleep. */
bool core_linger_looks(struct core_linger *linger);
/* The yield took `away` ns. Returns false if another thread computes on this core: then sleep. */
bool core_linger_looked(struct core_linger *linger, uint64_t away);
/* Whether the program, whose polls `polls` counts, polls so often that the thread need not. */
bool core_linger_stands_back(struct core_linger *linger, uint64_t polls, uint64_t now);

#endif
