/* How long a wait stays awake on a core of its own. Knows no clock: the time is an argument. */
#ifndef AQI_CORE_STATE_AWAKE_H
#define AQI_CORE_STATE_AWAKE_H

#include "base/base.h"

/* State of a thread, from one of its waits to the next. All times in ns. */
struct core_awake {
    uint64_t looked_at; /* the last look of the current wait */
    uint64_t silent;    /* time spent waiting since the last arrival */
    uint64_t away;      /* part of that during which others ran on our core */
    uint64_t limit;     /* of `silent` */
    uint32_t activity;  /* the count of arrivals at the last one */
    bool arrived;       /* an uncounted arrival since the last look */
};

/*
 * Begin a wait, which may stay awake for `most`. A wait that continues the previous one
 * (`goes_on`), as timed waits may, gets only the rest of that, unless something has arrived.
 */
void core_awake_begin(struct core_awake *awake, uint32_t activity, bool goes_on, uint64_t most,
                      uint64_t now);
/* The wait has looked and found nothing to do. */
void core_awake_look(struct core_awake *awake, uint32_t activity, uint64_t most, uint64_t now);
/*
 * The wait has slept. `arrived`: it was woken by an arrival, which may be announced in no other
 * way: for example, a put or get of a peer that the transport serves.
 */
void core_awake_slept(struct core_awake *awake, bool arrived, uint64_t now);
/* Whether to look again at once. */
bool core_awake_stays(const struct core_awake *awake, uint64_t most);

#endif
