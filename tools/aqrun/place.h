/* Which ranks run on which host: each host has consecutive ranks. */
#ifndef AQRUN_PLACE_H
#define AQRUN_PLACE_H

#include "hosts.h"

/* The requested placement. */
struct place_wish {
    uint32_t ranks;     /* 0: as many as the hosts have slots, or otherwise one per host */
    uint32_t hosts;     /* 0: as many as are needed */
    bool oversubscribe; /* more ranks than slots are intended */
};

/* The first `hosts` of the list are used, each by at least one rank. */
struct place {
    uint32_t hosts;
    uint32_t ranks;
    uint32_t *first; /* first rank of each host; after the last one: `ranks` */
};

/*
 * - With slots, hosts are filled one after the other. With a requested number of hosts, the
 *   ranks are spread evenly over them, as far as the slots allow.
 * - Without slots, they are spread evenly, over all hosts if there are no more than ranks.
 * - Evenly: if the numbers do not divide, the first hosts get one more.
 * - With more ranks than slots, if intended, all slots of all hosts are filled as many times as
 * possible; the rest is distributed as above.
 *
 * An empty list means this machine alone, for any number of ranks (one by default). On failure,
 * returns false with the problem and its solution in `why`.
 */
bool place_ranks(struct place *place, const struct hosts *hosts, const struct place_wish *wish,
                 char why[HOSTS_WHY]);

static inline uint32_t place_count(const struct place *place, uint32_t host)
{
    return place->first[host + 1] - place->first[host];
}

void place_free(struct place *place);

#endif
