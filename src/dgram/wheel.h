/*
 * A hashed timer wheel: setting and canceling a timer take constant time. See Varghese and Lauck,
 * "Hashed and hierarchical timing wheels" (SOSP 1987), scheme 6.
 */
#ifndef AQI_DGRAM_WHEEL_H
#define AQI_DGRAM_WHEEL_H

#include "base/base.h"

enum {
    DGRAM_WHEEL_SLOTS = 2048,
    DGRAM_TICK_SHIFT = 14, /* 2^14 ns: a slot is 16 us, the whole wheel 34 ms */
};

struct dgram_timer {
    struct dgram_timer *next, **link; /* link NULL: not set */
    uint64_t when;
};

struct dgram_wheel {
    struct dgram_timer *slot[DGRAM_WHEEL_SLOTS];
    uint64_t busy[DGRAM_WHEEL_SLOTS / 64]; /* a bit for each slot that has timers */
    uint64_t tick;                         /* all slots before this have been visited */
    uint64_t next; /* all slots before this are empty, and far_tick is not before it */
    unsigned timers;
    struct dgram_timer *far; /* timers beyond the wheel's reach */
    uint64_t far_tick;       /* when the wheel reaches the first of them, or earlier */
};

/* Set a timer, or move one that has been set. */
void dgram_wheel_set(struct dgram_wheel *wheel, struct dgram_timer *timer, uint64_t when);
void dgram_wheel_cancel(struct dgram_wheel *wheel, struct dgram_timer *timer);

/* Cancel a timer that is due and return it; NULL: none is left. Cheap if none is due. */
struct dgram_timer *dgram_wheel_expire(struct dgram_wheel *wheel, uint64_t now);

/*
 * The earliest time when a timer is due, or comes within the wheel's reach. UINT64_MAX: no timer is
 * set.
 */
uint64_t dgram_wheel_next(const struct dgram_wheel *wheel);

#endif
