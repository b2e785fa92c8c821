/*
 * Messages of a peer that have overtaken others, until their turn comes. The datagram engine of an
 * honest peer has at most 4,096 packets under way, so both bounds are far beyond what it can send
 * early.
 */
#ifndef AFI_EARLY_H
#define AFI_EARLY_H

#include "base/base.h"

enum { AFI_EARLY_MESSAGES = 1 << 20, AFI_EARLY_BYTES = 256 << 20 };

struct afi_early_message {
    size_t len;
    unsigned char bytes[];
};

struct afi_early {
    struct afi_early_message **slots; /* message n is in slot n % room, a power of two */
    uint32_t room, count;
    size_t bytes;
};

/* Keep a copy of message `number`, where `next` is the number whose turn it is. False: it is not
 * ahead, is there already, is too far ahead, or there is no memory for it. */
bool afi_early_keep(struct afi_early *early, uint32_t next, uint32_t number, const void *bytes,
                    size_t len);
/* Take out message `number`, to be freed; NULL if it is not there. */
struct afi_early_message *afi_early_take(struct afi_early *early, uint32_t number);
/* Drop all of them, and the memory. */
void afi_early_drop(struct afi_early *early);

#endif
