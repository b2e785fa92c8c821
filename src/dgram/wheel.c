/* A hashed timer wheel. */
#include "dgram/wheel.h"

static void wheel_insert(struct dgram_wheel *wheel, struct dgram_timer *timer)
{
    /* Never in a slot already visited, and never more than a turn ahead. */
    uint64_t tick = aqi_max(timer->when >> DGRAM_TICK_SHIFT, wheel->tick);
    struct dgram_timer **slot = &wheel->far;
    if (tick >= wheel->tick + DGRAM_WHEEL_SLOTS) {
        /* Half a turn early, to move timers of the following half turn with it. */
        uint64_t reached = tick - DGRAM_WHEEL_SLOTS / 2;
        if (wheel->far == NULL || reached < wheel->far_tick) wheel->far_tick = reached;
        wheel->next = aqi_min(wheel->next, wheel->far_tick);
    } else {
        unsigned number = (unsigned)(tick % DGRAM_WHEEL_SLOTS);
        slot = &wheel->slot[number];
        wheel->busy[number / 64] |= UINT64_C(1) << number % 64;
        wheel->next = aqi_min(wheel->next, tick);
    }
    timer->next = *slot;
    timer->link = slot;
    if (timer->next != NULL) timer->next->link = &timer->next;
    *slot = timer;
    wheel->timers++;
}

/* The wheel has reached far_tick: move timers that are near now to their slots. */
static void wheel_cascade(struct dgram_wheel *wheel)
{
    struct dgram_timer *timer = wheel->far, *next;
    wheel->tick = wheel->far_tick;
    wheel->far = NULL;
    for (; timer != NULL; timer = next) {
        next = timer->next;
        wheel->timers--;
        wheel_insert(wheel, timer);
    }
}

void dgram_wheel_cancel(struct dgram_wheel *wheel, struct dgram_timer *timer)
{
    if (timer->link == NULL) return;
    *timer->link = timer->next;
    if (timer->next != NULL) timer->next->link = timer->link;
    struct dgram_timer **first = &wheel->slot[0], **last = &wheel->slot[DGRAM_WHEEL_SLOTS];
    if (*timer->link == NULL && timer->link >= first && timer->link < last) {
        unsigned number = (unsigned)(timer->link - first);
        wheel->busy[number / 64] &= ~(UINT64_C(1) << number % 64);
    }
    timer->link = NULL;
    wheel->timers--;
}

void dgram_wheel_set(struct dgram_wheel *wheel, struct dgram_timer *timer, uint64_t when)
{
    dgram_wheel_cancel(wheel, timer);
    timer->when = when;
    wheel_insert(wheel, timer);
}

/* The number of empty slots from `tick` on, at most DGRAM_WHEEL_SLOTS. */
static unsigned wheel_empty_slots(const struct dgram_wheel *wheel, uint64_t tick)
{
    unsigned at = (unsigned)(tick % DGRAM_WHEEL_SLOTS), passed = 0;
    while (passed < DGRAM_WHEEL_SLOTS) {
        uint64_t word = wheel->busy[at / 64] >> at % 64;
        if (word != 0)
            return (unsigned)aqi_min(passed + (unsigned)__builtin_ctzll(word), DGRAM_WHEEL_SLOTS);
        passed += 64 - at % 64;
        at = (at + 64 - at % 64) % DGRAM_WHEEL_SLOTS;
    }
    return DGRAM_WHEEL_SLOTS;
}

static struct dgram_timer *wheel_expire_until(struct dgram_wheel *wheel, uint64_t now,
                                              uint64_t until)
{
    while (wheel->timers != 0) {
        uint64_t tick = wheel->tick + wheel_empty_slots(wheel, wheel->tick);
        if (wheel->far != NULL && wheel->far_tick <= aqi_min(tick, until)) {
            wheel_cascade(wheel);
            continue;
        }
        wheel->next = wheel->far != NULL ? aqi_min(tick, wheel->far_tick) : tick;
        if (tick > until) return NULL;
        wheel->tick = tick;
        struct dgram_timer *timer = wheel->slot[tick % DGRAM_WHEEL_SLOTS];
        for (; timer != NULL; timer = timer->next) {
            if (timer->when > now) continue;
            dgram_wheel_cancel(wheel, timer);
            return timer;
        }
        if (tick == until) return NULL;
        wheel->tick++;
    }
    wheel->next = UINT64_MAX;
    return NULL;
}

struct dgram_timer *dgram_wheel_expire(struct dgram_wheel *wheel, uint64_t now)
{
    uint64_t until = now >> DGRAM_TICK_SHIFT;
    struct dgram_timer *timer = until >= wheel->next ? wheel_expire_until(wheel, now, until) : NULL;
    if (timer == NULL && until > wheel->tick) wheel->tick = until;
    return timer;
}

uint64_t dgram_wheel_next(const struct dgram_wheel *wheel)
{
    if (wheel->timers == 0) return UINT64_MAX;
    uint64_t tick = wheel->tick + wheel_empty_slots(wheel, wheel->tick), earliest = UINT64_MAX;
    const struct dgram_timer *timer = wheel->slot[tick % DGRAM_WHEEL_SLOTS];
    for (; timer != NULL; timer = timer->next)
        if (timer->when < earliest) earliest = timer->when;
    uint64_t far = wheel->far != NULL ? wheel->far_tick << DGRAM_TICK_SHIFT : UINT64_MAX;
    return aqi_min(earliest, far);
}
