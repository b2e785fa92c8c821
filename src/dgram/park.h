/* Packets that arrive while the program makes no call: parked unread until it makes one. */
#ifndef AQI_DGRAM_PARK_H
#define AQI_DGRAM_PARK_H

#include "dgram/packet.h"
#include "dgram/seen.h"

struct dgram_parked {
    struct dgram_parked *next, *next_alike;
    unsigned char *bytes; /* from malloc */
    size_t len;
    uint64_t arrived; /* 0: unknown */
};

enum { DGRAM_PARK_LISTS = 64 };

/* All zero: empty. */
struct dgram_park {
    struct dgram_parked *first, *last;
    struct {
        struct dgram_parked *first, *last;
    } alike[DGRAM_PARK_LISTS]; /* by hash: those that may be duplicates */
    uint32_t count;
    size_t bytes;
};

/*
 * Keep one copy of a packet, whose head is `head`. `room`: bytes that may be parked. Returns false
 * if there is no room or no memory.
 */
bool dgram_park_put(struct dgram_park *park, const struct dgram_head *head,
                    const unsigned char *packet, size_t len, uint64_t arrived, size_t room);
/* Take the oldest one, which the caller must free; NULL: there is none. */
struct dgram_parked *dgram_park_take(struct dgram_park *park);
void dgram_parked_free(struct dgram_parked *parked);

#endif
