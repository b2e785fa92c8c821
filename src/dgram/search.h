/*
 * Finds the largest packet that a path carries, if less than both ends handle. A round tries some
 * smaller sizes besides the largest. A size that passes is certain; one that does not may have been
 * lost. Common sizes come first; each further round divides the range between the largest that has
 * passed and the smallest that has not, until they are adjacent and stay so. After rounds in which
 * nothing passed, or one that could not be sent completely, a round tries only one size in between,
 * and sends the smallest first: some buffers never hold more.
 */
#ifndef DGRAM_SEARCH_H
#define DGRAM_SEARCH_H

#include "base/base.h"

#define DGRAM_SEARCH_SIZES 8 /* maximum number of smaller packets in a round */

/* All zero: nothing is known. */
struct dgram_search {
    uint8_t way;
    uint16_t largest;  /* bytes; this and the next two are multiples of 16 */
    uint16_t small;    /* the largest that has passed; 0: none */
    uint16_t ceiling;  /* the smallest that seems not to pass; 0: none but the largest */
    uint8_t rounds;    /* in which some size passed, but not the largest; less those without any */
    uint8_t sure;      /* rounds in a row with nothing left between `small` and the ceiling */
    unsigned silences; /* rounds in a row in which nothing passed */
    bool rough;        /* packets that the path carries were lost, or not sent */
    bool crowded;      /* a round overflowed some buffer: the next are short, smallest first */
    bool nearly;       /* the largest certainly does not pass */
    bool sent;         /* this round has been sent */
    bool partial;      /* but not all of it */
    uint16_t best;     /* bytes of the largest that passed in it */
    uint16_t passed;   /* which of its smaller ones did, as bits */
};

enum dgram_verdict {
    DGRAM_SILENT, /* nothing has passed: the next round must be longer */
    DGRAM_GO_ON,  /* something has passed; likewise */
    DGRAM_NEARLY, /* the largest does not pass: rounds of this length show which sizes do */
    DGRAM_FOUND   /* `small` is the largest that passes, as far as could be found */
};

/* Begin with this largest size and way, or resume if they are the same. */
void dgram_search_begin(struct dgram_search *search, uint16_t largest, uint8_t way);
/* The smaller sizes of the next round, in descending order. Returns their number. */
unsigned dgram_search_sizes(const struct dgram_search *search, uint16_t sizes[DGRAM_SEARCH_SIZES]);
/* Whether the largest must be sent as well. */
bool dgram_search_needs_largest(const struct dgram_search *search);
/* The round was sent; `all`: completely. If not, the next may be, or there is never room for the
 * largest. */
void dgram_search_sent(struct dgram_search *search, bool all);
/* A packet of `size` bytes has passed. */
void dgram_search_passed(struct dgram_search *search, uint16_t size);
/* The round has ended, and the largest has not passed. */
enum dgram_verdict dgram_search_judge(struct dgram_search *search);

#endif
