/* The hotel: timers in a hashed wheel. */
#include "dgram/hotel.h"

static void dgram_put_up(struct dgram_hotel *hotel, struct dgram_guest *guest)
{
    /* Never in a room already visited, and never more than a turn ahead. */
    uint64_t tick = aqi_max(guest->when >> DGRAM_TICK_SHIFT, hotel->tick);
    struct dgram_guest **room = &hotel->far;
    if (tick >= hotel->tick + DGRAM_ROOMS) {
        /* Half a turn early, to move guests of the following half turn with it. */
        uint64_t reached = tick - DGRAM_ROOMS / 2;
        if (hotel->far == NULL || reached < hotel->far_tick) hotel->far_tick = reached;
        hotel->next = aqi_min(hotel->next, hotel->far_tick);
    } else {
        unsigned number = (unsigned)(tick % DGRAM_ROOMS);
        room = &hotel->room[number];
        hotel->busy[number / 64] |= UINT64_C(1) << number % 64;
        hotel->next = aqi_min(hotel->next, tick);
    }
    guest->next = *room;
    guest->link = room;
    if (guest->next != NULL) guest->next->link = &guest->next;
    *room = guest;
    hotel->guests++;
}

/* The wheel has reached far_tick: move guests that are near now to their rooms. */
static void dgram_call_near(struct dgram_hotel *hotel)
{
    struct dgram_guest *guest = hotel->far, *next;
    hotel->tick = hotel->far_tick;
    hotel->far = NULL;
    for (; guest != NULL; guest = next) {
        next = guest->next;
        hotel->guests--;
        dgram_put_up(hotel, guest);
    }
}

void dgram_check_out(struct dgram_hotel *hotel, struct dgram_guest *guest)
{
    if (guest->link == NULL) return;
    *guest->link = guest->next;
    if (guest->next != NULL) guest->next->link = guest->link;
    struct dgram_guest **first = &hotel->room[0], **last = &hotel->room[DGRAM_ROOMS];
    if (*guest->link == NULL && guest->link >= first && guest->link < last) {
        unsigned number = (unsigned)(guest->link - first);
        hotel->busy[number / 64] &= ~(UINT64_C(1) << number % 64);
    }
    guest->link = NULL;
    hotel->guests--;
}

void dgram_check_in(struct dgram_hotel *hotel, struct dgram_guest *guest, uint64_t when)
{
    dgram_check_out(hotel, guest);
    guest->when = when;
    dgram_put_up(hotel, guest);
}

/* The number of empty rooms from `tick` on, at most DGRAM_ROOMS. */
static unsigned dgram_empty_rooms(const struct dgram_hotel *hotel, uint64_t tick)
{
    unsigned at = (unsigned)(tick % DGRAM_ROOMS), passed = 0;
    while (passed < DGRAM_ROOMS) {
        uint64_t word = hotel->busy[at / 64] >> at % 64;
        if (word != 0)
            return (unsigned)aqi_min(passed + (unsigned)__builtin_ctzll(word), DGRAM_ROOMS);
        passed += 64 - at % 64;
        at = (at + 64 - at % 64) % DGRAM_ROOMS;
    }
    return DGRAM_ROOMS;
}

static struct dgram_guest *dgram_look_up_to(struct dgram_hotel *hotel, uint64_t now, uint64_t until)
{
    while (hotel->guests != 0) {
        uint64_t tick = hotel->tick + dgram_empty_rooms(hotel, hotel->tick);
        if (hotel->far != NULL && hotel->far_tick <= aqi_min(tick, until)) {
            dgram_call_near(hotel);
            continue;
        }
        hotel->next = hotel->far != NULL ? aqi_min(tick, hotel->far_tick) : tick;
        if (tick > until) return NULL;
        hotel->tick = tick;
        struct dgram_guest *guest = hotel->room[tick % DGRAM_ROOMS];
        for (; guest != NULL; guest = guest->next) {
            if (guest->when > now) continue;
            dgram_check_out(hotel, guest);
            return guest;
        }
        if (tick == until) return NULL;
        hotel->tick++;
    }
    hotel->next = UINT64_MAX;
    return NULL;
}

struct dgram_guest *dgram_wake_up(struct dgram_hotel *hotel, uint64_t now)
{
    uint64_t until = now >> DGRAM_TICK_SHIFT;
    struct dgram_guest *guest = until >= hotel->next ? dgram_look_up_to(hotel, now, until) : NULL;
    if (guest == NULL && until > hotel->tick) hotel->tick = until;
    return guest;
}

uint64_t dgram_next_wake(const struct dgram_hotel *hotel)
{
    if (hotel->guests == 0) return UINT64_MAX;
    uint64_t tick = hotel->tick + dgram_empty_rooms(hotel, hotel->tick), earliest = UINT64_MAX;
    const struct dgram_guest *guest = hotel->room[tick % DGRAM_ROOMS];
    for (; guest != NULL; guest = guest->next)
        if (guest->when < earliest) earliest = guest->when;
    uint64_t far = hotel->far != NULL ? hotel->far_tick << DGRAM_TICK_SHIFT : UINT64_MAX;
    return aqi_min(earliest, far);
}
