/*
 * The hotel: timers in a hashed wheel. A guest checks in with a time, and may check out again; both
 * take constant time. See Varghese and Lauck, "Hashed and hierarchical timing wheels" (SOSP 1987),
 * scheme 6; the name is from the notes on usNIC.
 */
#ifndef AQI_DGRAM_HOTEL_H
#define AQI_DGRAM_HOTEL_H

#include "base/base.h"

enum {
    DGRAM_ROOMS = 2048,
    DGRAM_TICK_SHIFT = 14, /* 2^14 ns: a room is 16 us, the whole wheel 34 ms */
};

struct dgram_guest {
    struct dgram_guest *next, **link; /* link NULL: not checked in */
    uint64_t when;
};

struct dgram_hotel {
    struct dgram_guest *room[DGRAM_ROOMS];
    uint64_t busy[DGRAM_ROOMS / 64]; /* a bit for each room that has guests */
    uint64_t tick;                   /* all rooms before this have been visited */
    uint64_t next; /* all rooms before this are empty, and far_tick is not before it */
    unsigned guests;
    struct dgram_guest *far; /* guests beyond the wheel's reach */
    uint64_t far_tick;       /* when the wheel reaches the first of them, or earlier */
};

/* Check in a guest, or move one that is checked in already. */
void dgram_check_in(struct dgram_hotel *hotel, struct dgram_guest *guest, uint64_t when);
void dgram_check_out(struct dgram_hotel *hotel, struct dgram_guest *guest);

/* Check out a guest that is due and return it; NULL: none is left. Cheap if none is due. */
struct dgram_guest *dgram_wake_up(struct dgram_hotel *hotel, uint64_t now);

/*
 * The earliest time when a guest is due, or comes within the wheel's reach. UINT64_MAX: the hotel
 * is empty.
 */
uint64_t dgram_next_wake(const struct dgram_hotel *hotel);

#endif
