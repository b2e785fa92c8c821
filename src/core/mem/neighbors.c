/*
 * Neighborhoods: which ranks load and store each other's memory. Mapping may succeed in one rank
 * and fail in the next, so the ranks agree: a neighborhood is a set of ranks of one host, in one
 * group of AQ_NEIGHBORHOOD, that all map each other.
 */
#include "core/mem/mem.h"

#include <stdlib.h>
#include <string.h>

static uint32_t *neighbors_nodes; /* by job rank: the lowest rank of the neighborhood */

/* Allocating is collective: a rank that does not take part would leave the others waiting. */
static aq_status neighbors_same_allocator(void)
{
    for (uint32_t rank = 1; rank < core.params.size; rank++)
        if (core_place_of(rank)->allocator != core_place_of(0)->allocator)
            return aqi_fail(AQ_ESETTING, "core",
                            "rank %u allocates memory from a different transport than rank 0: give "
                            "all processes the same hide=alloc in AQ_FAULT",
                            rank);
    return AQ_OK;
}

void core_neighbors_here(struct core_place *place)
{
    *place = (struct core_place){.host = core.params.host,
                                 .crowded = core.params.local_size > core.params.cores,
                                 .allocator = core_scratch_allocator(),
                                 .group = core_neighbors_group(core.params.local_rank)};
}

aq_status core_neighbors_open(void)
{
    uint32_t size = core.params.size;
    neighbors_nodes = calloc(size, sizeof(*neighbors_nodes));
    if (neighbors_nodes == NULL)
        return aqi_fail(AQ_ENOMEM, "core", "no memory for the neighbors of %u ranks", size);
    return neighbors_same_allocator();
}

void core_neighbors_close(void)
{
    free(neighbors_nodes);
    neighbors_nodes = NULL;
}

const struct core_place *core_place_of(uint32_t job_rank)
{
    return (const void *)(core.cards + (size_t)job_rank * core.card_bytes);
}

bool core_is_apart(uint32_t job_rank)
{
    const struct core_place *a = core_place_of(job_rank), *b = core_place_of(core.params.rank);
    return a->host != b->host || a->group != b->group;
}

uint32_t core_node_of(uint32_t job_rank)
{
    return neighbors_nodes[job_rank];
}

/* The ranks that a rank maps. Each maps itself, so ranks with equal claims map each other. */
struct neighbors_claim {
    uint32_t lowest, count; /* count 0: not even itself */
    uint64_t hash;
};

static struct neighbors_claim neighbors_claim_of(bool (*maps)(uint32_t job_rank))
{
    struct neighbors_claim claim = {.lowest = core.params.rank, .hash = AQI_HASH_SEED};
    for (uint32_t rank = 0; maps(core.params.rank) && rank < core.params.size; rank++) {
        if (!maps(rank)) continue;
        if (claim.count++ == 0) claim.lowest = rank;
        claim.hash = aqi_hash(claim.hash, rank);
    }
    return claim;
}

static void neighbors_settle(const struct neighbors_claim *claims)
{
    for (uint32_t rank = 0; rank < core.params.size; rank++) {
        uint32_t node = claims[rank].count != 0 ? claims[rank].lowest : rank;
        if (node > rank) node = rank;
        while (node < rank && memcmp(&claims[node], &claims[rank], sizeof(*claims)) != 0)
            node++;
        neighbors_nodes[rank] = node;
    }
}

aq_status core_neighbors_agree(bool (*maps)(uint32_t job_rank))
{
    uint32_t size = core.params.size;
    struct neighbors_claim mine = neighbors_claim_of(maps), *claims = calloc(size, sizeof(mine));
    if (claims == NULL)
        return aqi_fail(AQ_ENOMEM, "core", "no memory for the neighbors of %u ranks", size);
    aq_status st = core.boot.allgather(core.boot.arg, &mine, sizeof(mine), claims);
    if (st == AQ_OK) neighbors_settle(claims);
    free(claims);
    return st;
}
