/*
 * Which packets a path carries, while it is not the largest that both ends handle. A round tries
 * some smaller ones beside it; what passes is certain, what does not may have been lost. First come
 * sizes that are usual; each further round divides what is between the largest that has passed and
 * the smallest that has not, until they are next to each other and stay so. After rounds
 * that nothing passed, or one that did not leave whole, the next have one such size each and begin
 * with the smallest: some buffers never hold more.
 */
#ifndef DGRAM_SEARCH_H
#define DGRAM_SEARCH_H

#include "base/base.h"

#define DGRAM_SEARCH_SIZES 8 /* smaller packets in a round, at most */

/* Zeroed it knows nothing. */
struct dgram_search {
    uint8_t way;
    uint16_t largest;  /* bytes; what follows, too, are multiples of 16 */
    uint16_t small;    /* that have passed; 0: none */
    uint16_t ceiling;  /* that have not, as it seems; 0: none smaller than the largest */
    uint8_t rounds;    /* in which something passed, and not the largest, more than nothing did */
    uint8_t sure;      /* rounds with nothing left between `small` and what has not passed */
    unsigned silences; /* rounds that nothing passed, in succession */
    bool rough;        /* packets that the path carries were lost, or some did not leave */
    bool crowded;    /* a round was too much for some buffer: the next are short, smallest first */
    bool nearly;     /* it is certain that the largest does not pass */
    bool sent;       /* of this round: it has begun, */
    bool partial;    /* some of it did not leave, */
    uint16_t best;   /* bytes of the largest that passed, */
    uint16_t passed; /* and which of its smaller ones did, as bits */
};

enum dgram_verdict {
    DGRAM_SILENT, /* nothing has passed: the next round is to be longer */
    DGRAM_GO_ON,  /* something has; likewise */
    DGRAM_NEARLY, /* the path is small: rounds as long as this one show how small */
    DGRAM_FOUND   /* `small` is what it carries, as far as could be found */
};

/* With this largest size, by this way. What is known of others is forgotten. */
void dgram_search_begin(struct dgram_search *search, uint16_t largest, uint8_t way);
/* The smaller sizes of the next round, in falling order; how many. */
unsigned dgram_search_sizes(const struct dgram_search *search, uint16_t sizes[DGRAM_SEARCH_SIZES]);
/* Whether the largest is to be sent beside them. */
bool dgram_search_needs_largest(const struct dgram_search *search);
/* They were sent, but perhaps not all have left. The next time they may; or there is never room for
 * one so large, and always for others. */
void dgram_search_sent(struct dgram_search *search, bool all);
/* So many bytes have passed. */
void dgram_search_passed(struct dgram_search *search, uint16_t size);
/* The round has ended, and the largest has not passed. */
enum dgram_verdict dgram_search_judge(struct dgram_search *search);

#endif
