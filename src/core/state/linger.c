/*
 * The idle progress thread: on a core of its own, it polls a few more times, since a wakeup takes
 * longer than most replies; otherwise it sleeps armed, since a yield to a computing thread takes
 * milliseconds.
 */
#include "core/state/linger.h"

enum { LOOKS = 20, AWAY_NS = 1000000, KEPT_AWAY = 1000 };
/* A program that polls more often than this needs no progress thread. */
enum { OFTEN_NS = 50000 };

bool core_linger_looks(struct core_linger *linger)
{
    if (linger->kept_away > 0) {
        linger->kept_away--;
        return false;
    }
    return linger->looks++ < LOOKS;
}

bool core_linger_looked(struct core_linger *linger, uint64_t away)
{
    if (away > AWAY_NS) linger->kept_away = KEPT_AWAY;
    return linger->kept_away == 0;
}

bool core_linger_stands_back(struct core_linger *linger, uint64_t polls, uint64_t now)
{
    bool often = (polls - linger->polls) * OFTEN_NS > now - linger->at;
    linger->polls = polls;
    linger->at = now;
    return often;
}
