/* The progress thread when it finds nothing. Knows no clock: the time is an argument. */
#ifndef AQI_CORE_STATE_LINGER_H
#define AQI_CORE_STATE_LINGER_H

#include "base/base.h"

/* All zero at first. Times in ns. */
struct core_linger {
    unsigned looks;     /* looks in succession that found nothing */
    unsigned kept_away; /* times left to sleep at once, as it has to share its core */
    uint64_t polls, at; /* polls of the program, when they were last checked */
};

static inline void core_linger_found(struct core_linger *linger)
{
    linger->looks = 0;
}

/* Whether to yield and look again; else sleep. */
bool core_linger_looks(struct core_linger *linger);
/* The yield returned after `away` ns. False: sleep, as another thread computes on that core. */
bool core_linger_looked(struct core_linger *linger, uint64_t away);
/* Whether the program polls so often that the thread need not. `polls` counts its polls. */
bool core_linger_stands_back(struct core_linger *linger, uint64_t polls, uint64_t now);

#endif
