/* How long a wait stays awake on a core of its own. Knows no clock: the time is an argument. */
#ifndef AQI_CORE_STATE_AWAKE_H
#define AQI_CORE_STATE_AWAKE_H

#include "base/base.h"

/* State of a thread, from one of its waits to the next. All times in ns. */
struct core_awake {
    uint64_t looked_at; /* the last look of the wait that is under way */
    uint64_t silent;    /* time spent waiting since something came last */
    uint64_t away;      /* part of that during which others ran on our core */
    uint64_t limit;     /* of `silent` */
    uint32_t activity;  /* a count of arrivals, as of the last one */
    bool arrived;       /* something that is not counted has come since the last look */
};

/*
 * A wait begins, and may stay awake for `most`. A wait that continues the one before, as those of
 * limited time may, has only what is left of that, unless something has come.
 */
void core_awake_begin(struct core_awake *awake, uint32_t activity, bool goes_on, uint64_t most,
                      uint64_t now);
/* A look of the wait found nothing to do. */
void core_awake_look(struct core_awake *awake, uint32_t activity, uint64_t most, uint64_t now);
/*
 * The wait has slept. An arrival ended that, which nothing else may announce: a peer's put or get,
 * say, that the transport serves.
 */
void core_awake_slept(struct core_awake *awake, bool arrived, uint64_t now);
/* Whether to look again at once. */
bool core_awake_stays(const struct core_awake *awake, uint64_t most);

#endif
