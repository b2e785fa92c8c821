/* How long a wait stays awake on a core of its own. Reads no clock: the time is an argument. */
#ifndef AQI_CORE_STATE_AWAKE_H
#define AQI_CORE_STATE_AWAKE_H

#include "base/base.h"

/* Per-thread state, kept from one wait to the next. All times in ns. */
struct core_awake {
    uint64_t looked_at; /* of the last poll in the current wait */
    uint64_t silent;    /* time spent waiting since the last arrival */
    uint64_t away;      /* part of `silent` during which other threads ran on this core */
    uint64_t limit;     /* maximum of `silent` */
    uint32_t activity;  /* the arrival counter at the last arrival */
    bool arrived;       /* an uncounted arrival since the last poll */
};

/*
 * Begin a wait, which may stay awake for `most`. A wait that continues the previous one
 * (`goes_on`), as timed waits may, gets only the remainder, unless something has arrived.
 */
void core_awake_begin(struct core_awake *awake, uint32_t activity, bool goes_on, uint64_t most,
                      uint64_t now);
/* Account for a poll that found nothing. */
void core_awake_look(struct core_awake *awake, uint32_t activity, uint64_t most, uint64_t now);
/*
 * Account for a sleep. `arrived`: an arrival ended it, possibly one that nothing else announces,
 * such as a put or get of a peer that the transport serves.
 */
void core_awake_slept(struct core_awake *awake, bool arrived, uint64_t now);
/* Whether to stay awake and poll again. */
bool core_awake_stays(const struct core_awake *awake, uint64_t most);

#endif
