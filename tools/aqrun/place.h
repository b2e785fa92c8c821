/* Assigns ranks to hosts. Each host gets consecutive ranks. */
#ifndef AQRUN_PLACE_H
#define AQRUN_PLACE_H

#include "hosts.h"

struct place_request {
    uint32_t ranks;     /* 0: the number of slots, or without slots one per host */
    uint32_t hosts;     /* 0: as many as necessary */
    bool oversubscribe; /* more ranks than slots are allowed */
};

/* The first `hosts` of the list are used, with at least one rank each. */
struct place {
    uint32_t hosts;
    uint32_t ranks;
    uint32_t *first; /* first rank of each host, then `ranks`; from malloc */
};

/*
 * - With slots, hosts are filled one after the other, or if a number of hosts was requested, evenly
 *   as far as the slots allow.
 * - Without slots, ranks are spread evenly, over all hosts unless there are more hosts than ranks.
 * - "Evenly" means that the first hosts get one more rank if the numbers do not divide.
 * - With more ranks than slots, if allowed, all slots are filled as many times as possible; the
 *   remaining ranks are distributed as above.
 *
 * An empty list means this machine alone, for any number of ranks (one by default). On failure,
 * returns false with the problem and its solution in `why`.
 */
bool place_ranks(struct place *place, const struct hosts *hosts,
                 const struct place_request *request, char why[HOSTS_WHY]);

static inline uint32_t place_count(const struct place *place, uint32_t host)
{
    return place->first[host + 1] - place->first[host];
}

#endif
