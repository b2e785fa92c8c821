/* Assigns ranks to hosts. */
#include "place.h"

#include "base/fail.h"
#include "job/boot.h"

#include <stdlib.h>

/* The result: the number of ranks of each host. */
struct place_deal {
    const struct hosts *list;
    uint32_t hosts; /* number of hosts that may be used */
    uint32_t *ranks;
};

static uint32_t place_room(const struct place_deal *deal, uint32_t host)
{
    return deal->list->counted ? deal->list->list[host].slots : AQI_MAX_RANKS;
}

static void place_fill(const struct place_deal *deal, uint32_t ranks)
{
    for (uint32_t i = 0; i < deal->hosts && ranks > 0; i++) {
        uint32_t some = (uint32_t)aqi_min(ranks, place_room(deal, i));
        deal->ranks[i] += some;
        ranks -= some;
    }
}

static uint64_t place_below(const struct place_deal *deal, uint32_t level)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < deal->hosts; i++)
        sum += aqi_min(level, place_room(deal, i));
    return sum;
}

/*
 * Distribute ranks evenly: fill all hosts to the highest level for which there are enough ranks;
 * the remaining ones go to the first hosts, one each.
 */
static void place_spread(const struct place_deal *deal, uint32_t ranks)
{
    uint32_t level = 0;
    for (uint32_t step = AQI_MAX_RANKS; step > 0; step /= 2)
        if (place_below(deal, level + step) <= ranks) level += step;
    uint32_t rest = ranks - (uint32_t)aqi_min(place_below(deal, level), ranks);
    for (uint32_t i = 0; i < deal->hosts; i++) {
        uint32_t room = place_room(deal, i);
        bool more = rest > 0 && room > level;
        deal->ranks[i] += (uint32_t)aqi_min(level, room) + more;
        rest -= more;
    }
}

static bool place_check_hosts(const struct hosts *list, const struct place_request *request,
                              char why[HOSTS_WHY])
{
    if (request->hosts > 1 && list->count == 0)
        return aqi_explain(
            why, HOSTS_WHY,
            "-N %u: only this machine is known; name hosts with --hosts or --hostfile, or omit -N",
            request->hosts);
    if (list->count > 0 && request->hosts > list->count)
        return aqi_explain(why, HOSTS_WHY,
                           "-N %u: only %u host%s known; name more, or request fewer",
                           request->hosts, list->count, list->count == 1 ? " is" : "s are");
    if (request->ranks != 0 && request->hosts > request->ranks)
        return aqi_explain(why, HOSTS_WHY,
                           "-n %u -N %u: each host needs at least one process; request fewer hosts",
                           request->ranks, request->hosts);
    return true;
}

static bool place_check_ranks(const struct hosts *list, const struct place_request *request,
                              uint32_t hosts, uint64_t ranks, char why[HOSTS_WHY])
{
    uint64_t slots = hosts_slots(list, hosts);
    if (ranks > AQI_MAX_RANKS)
        return aqi_explain(
            why, HOSTS_WHY,
            "the hosts have %llu slots, but a job has at most %u processes: set the number with -n",
            (unsigned long long)ranks, AQI_MAX_RANKS);
    if (!list->counted || ranks <= slots || request->oversubscribe) return true;
    return aqi_explain(why, HOSTS_WHY,
                       "-n %llu: the hosts in use (%u) have only %llu slots; start fewer "
                       "processes, give hosts more slots (--hosts %s*SLOTS), or add "
                       "--oversubscribe; --spawner fork starts all processes on this machine",
                       (unsigned long long)ranks, hosts, (unsigned long long)slots,
                       list->list[0].name);
}

/* Determine how many hosts are used, and the first rank of each. */
static void place_finish(struct place *place, const struct place_deal *deal)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < deal->hosts && deal->ranks[i] > 0; i++) {
        uint32_t ranks = deal->ranks[i];
        deal->ranks[i] = sum;
        sum += ranks;
        place->hosts = i + 1;
    }
    deal->ranks[place->hosts] = sum;
    place->ranks = sum;
    place->first = deal->ranks;
}

bool place_ranks(struct place *place, const struct hosts *hosts,
                 const struct place_request *request, char why[HOSTS_WHY])
{
    static const struct host here = {.here = true};
    const struct hosts alone = {.list = (struct host *)(uintptr_t)&here, .count = 1};
    *place = (struct place){0};
    if (!place_check_hosts(hosts, request, why)) return false;
    struct place_deal deal = {.list = hosts->count > 0 ? hosts : &alone};
    deal.hosts = request->hosts > 0 ? request->hosts : deal.list->count;
    uint64_t ranks = request->ranks;
    if (ranks == 0) ranks = deal.list->counted ? hosts_slots(deal.list, deal.hosts) : deal.hosts;
    if (!place_check_ranks(deal.list, request, deal.hosts, ranks, why)) return false;
    deal.ranks = calloc((size_t)deal.hosts + 1, sizeof(*deal.ranks));
    if (deal.ranks == NULL)
        return aqi_explain(why, HOSTS_WHY, "no memory for %u hosts", deal.hosts);
    uint64_t slots = deal.list->counted ? hosts_slots(deal.list, deal.hosts) : ranks;
    uint32_t rounds = (uint32_t)((ranks - 1) / slots);
    for (uint32_t i = 0; rounds > 0 && i < deal.hosts; i++)
        deal.ranks[i] = rounds * place_room(&deal, i);
    uint32_t rest = (uint32_t)(ranks - rounds * slots);
    bool evenly = request->hosts > 0 || !deal.list->counted;
    (evenly ? place_spread : place_fill)(&deal, rest);
    place_finish(place, &deal);
    return true;
}
