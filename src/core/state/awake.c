/*
 * How long a wait stays awake on a core of its own: until nothing has arrived for a while, or other
 * threads turn out to use the core.
 */
#include "core/state/awake.h"

/*
 * Polls are less than GAP_NS apart, unless another thread ran in between. Arrivals RARE_NS or more
 * apart are awaited asleep.
 */
enum { GAP_NS = 50000, RARE_NS = 500000000 };
/* Other threads may use 1/AWAY_PART of the time: daemons, threads of the library, the kernel. */
enum { AWAY_PART = 8 };

static void awake_account(struct core_awake *awake, uint64_t now)
{
    uint64_t gap = now - awake->looked_at;
    awake->looked_at = now;
    awake->silent += gap;
    if (gap > GAP_NS) awake->away += gap;
}

static void awake_restart(struct core_awake *awake, uint32_t activity, uint64_t most)
{
    awake->limit = awake->silent < RARE_NS ? most : 0;
    awake->silent = awake->away = 0;
    awake->activity = activity;
    awake->arrived = false;
}

static bool awake_has_arrival(const struct core_awake *awake, uint32_t activity)
{
    return activity != awake->activity || awake->arrived;
}

void core_awake_begin(struct core_awake *awake, uint32_t activity, bool goes_on, uint64_t most,
                      uint64_t now)
{
    awake->looked_at = now;
    if (!goes_on || awake_has_arrival(awake, activity)) awake_restart(awake, activity, most);
}

void core_awake_look(struct core_awake *awake, uint32_t activity, uint64_t most, uint64_t now)
{
    awake_account(awake, now);
    if (awake_has_arrival(awake, activity)) awake_restart(awake, activity, most);
}

void core_awake_slept(struct core_awake *awake, bool arrived, uint64_t now)
{
    awake_account(awake, now);
    awake->arrived = awake->arrived || arrived;
}

bool core_awake_stays(const struct core_awake *awake, uint64_t most)
{
    return awake->silent < aqi_min(awake->limit, most) && awake->away * AWAY_PART <= awake->silent;
}
