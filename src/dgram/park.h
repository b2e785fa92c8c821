/* Packets that came while the program made no call: parked as they are, and taken when it does. */
#ifndef AQI_DGRAM_PARK_H
#define AQI_DGRAM_PARK_H

#include "dgram/packet.h"
#include "dgram/seen.h"

struct dgram_parked {
    struct dgram_parked *next, *next_alike;
    unsigned char *bytes; /* from malloc */
    size_t len;
    uint64_t arrived; /* 0: not known */
};

enum { DGRAM_PARK_LISTS = 64 };

/* All zero: empty. */
struct dgram_park {
    struct dgram_parked *first, *last;
    struct {
        struct dgram_parked *first, *last;
    } alike[DGRAM_PARK_LISTS]; /* those that may be the same packet */
    uint32_t count;
    size_t bytes;
};

/*
 * Keep a copy of a packet, whose head is `head`; once if it comes again. `room`: bytes that may be
 * parked. False: no room, or no memory.
 */
bool dgram_park_put(struct dgram_park *park, const struct dgram_head *head,
                    const unsigned char *packet, size_t len, uint64_t arrived, size_t room);
/* The first one, which is the caller's now; NULL: there is none. */
struct dgram_parked *dgram_park_take(struct dgram_park *park);
void dgram_parked_free(struct dgram_parked *parked);

#endif
