/*
 * Neighbourhoods: which ranks load and store each other's memory. A transport's mapping may work
 * for one rank and not for the next, so the ranks agree: a neighbourhood is a set of ranks of one
 * host, in one group of AQ_NEIGHBORHOOD, each of which maps all the others.
 */
#include "core/mem/mem.h"

#include <stdlib.h>

static struct {
    struct core_place *places; /* by job rank */
    uint32_t *nodes;           /* the lowest rank of the neighbourhood */
} neighbors;

aq_status core_neighbors_group(uint32_t local_rank, uint32_t *group)
{
    const char *list = aqi_core_config.neighborhood, *at = list;
    uint64_t before = 0;
    *group = 0;
    for (;;) {
        char *end;
        unsigned long size = strtoul(at, &end, 10);
        bool legal = end != at && *at >= '0' && *at <= '9' && size <= UINT32_MAX;
        if (legal && size == 0 && at == list && *end == 0) return AQ_OK;
        if (!legal || size == 0 || (*end != ',' && *end != 0) || (*end == ',' && end[1] == 0))
            return aqi_fail(AQ_ESETTING, "core",
                            "AQ_NEIGHBORHOOD=\"%s\": use 0, the most ranks of a neighbourhood, or "
                            "a list of sizes such as 1,5,2",
                            list);
        before += size;
        if (local_rank < before) return AQ_OK;
        ++*group;
        at = *end == ',' ? end + 1 : list;
    }
}

/* Allocating is collective: who would do without can only leave the others waiting. */
static aq_status neighbors_same_allocator(void)
{
    for (uint32_t rank = 1; rank < core.params.size; rank++)
        if (neighbors.places[rank].allocator != neighbors.places[0].allocator)
            return aqi_fail(AQ_ESETTING, "core",
                            "rank %u gets its memory from another transport than rank 0: give all "
                            "processes the same hide=alloc in AQ_FAULT",
                            rank);
    return AQ_OK;
}

aq_status core_neighbors_open(void)
{
    uint32_t size = core.params.size;
    struct core_place mine = {.host = core.params.host,
                              .crowded = core.params.local_size > core.params.cores,
                              .allocator = core_scratch_allocator()};
    aq_status st = core_neighbors_group(core.params.local_rank, &mine.group);
    if (st != AQ_OK) return st;
    neighbors.places = calloc(size, sizeof(*neighbors.places));
    neighbors.nodes = calloc(size, sizeof(*neighbors.nodes));
    if (neighbors.places == NULL || neighbors.nodes == NULL)
        return aqi_fail(AQ_ENOMEM, "core", "no memory for the places of %u ranks", size);
    st = core.boot.allgather(core.boot.arg, &mine, sizeof(mine), neighbors.places);
    return st == AQ_OK ? neighbors_same_allocator() : st;
}

void core_neighbors_close(void)
{
    free(neighbors.places);
    free(neighbors.nodes);
    neighbors.places = NULL;
    neighbors.nodes = NULL;
}

bool core_is_apart(uint32_t job_rank)
{
    const struct core_place *a = &neighbors.places[job_rank],
                            *b = &neighbors.places[core.params.rank];
    return a->host != b->host || a->group != b->group;
}

const struct core_place *core_place_of(uint32_t job_rank)
{
    return &neighbors.places[job_rank];
}

uint32_t core_node_of(uint32_t job_rank)
{
    return neighbors.nodes[job_rank];
}

/* What a rank found out: the lowest rank that it maps, and whether it maps all who say the same. */
static uint32_t neighbors_lowest(bool (*maps)(uint32_t job_rank))
{
    for (uint32_t rank = 0; rank < core.params.size; rank++)
        if (maps(rank)) return rank;
    return core.params.rank;
}

static uint8_t neighbors_maps_all(bool (*maps)(uint32_t job_rank), const uint32_t *claims)
{
    for (uint32_t rank = 0; rank < core.params.size; rank++)
        if (claims[rank] == claims[core.params.rank] && !maps(rank)) return 0;
    return 1;
}

/* Who does not map all is alone; the rest of those with the same claim map each other. */
static void neighbors_settle(const uint32_t *claims, const uint8_t *able, uint32_t *first_of)
{
    uint32_t size = core.params.size;
    for (uint32_t rank = 0; rank < size; rank++)
        first_of[rank] = size;
    for (uint32_t rank = 0; rank < size; rank++) {
        uint32_t claim = claims[rank] < size ? claims[rank] : rank;
        neighbors.nodes[rank] = rank;
        if (!able[rank]) continue;
        if (first_of[claim] == size) first_of[claim] = rank;
        neighbors.nodes[rank] = first_of[claim];
    }
}

aq_status core_neighbors_agree(bool (*maps)(uint32_t job_rank))
{
    uint32_t size = core.params.size, claim = neighbors_lowest(maps);
    uint32_t *claims = calloc(size, sizeof(*claims)), *first_of = calloc(size, sizeof(*first_of));
    uint8_t mine, *able = calloc(size, sizeof(*able));
    aq_status st = AQ_OK;
    if (claims == NULL || first_of == NULL || able == NULL)
        st = aqi_fail(AQ_ENOMEM, "core", "no memory for the neighbours of %u ranks", size);
    if (st == AQ_OK) st = core.boot.allgather(core.boot.arg, &claim, sizeof(claim), claims);
    if (st == AQ_OK) {
        mine = neighbors_maps_all(maps, claims);
        st = core.boot.allgather(core.boot.arg, &mine, sizeof(mine), able);
    }
    if (st == AQ_OK) neighbors_settle(claims, able, first_of);
    free(claims);
    free(first_of);
    free(able);
    return st;
}
