/*
 * Scratch memory: memory of each rank, which the ranks that map it use for collectives by load and
 * store. It is allocated by a transport, takes physical memory only where it is used, and is
 * divided among teams: a team gets a block from its rank 0.
 *
 * Ranks that map each other's scratch memory form a neighborhood (neighbors.c).
 */
#include "core/mem/mem.h"

#include "base/shmem.h"

#include <stdlib.h>
#include <string.h>

static struct {
    aq_segment mine;
    unsigned char **local; /* by job rank: mapped here, or NULL */
    uint64_t *sizes;
    struct scratch_range *taken;
} scratch;

uint32_t core_scratch_allocator(void)
{
    uint32_t t = 0;
    while (t < core.tp_count && (core.tps[t]->ops.caps & AQI_CAP_ALLOC) == 0)
        t++;
    return t;
}

/* Collective: core_neighbors_open has checked that all ranks allocate from the same transport. */
static aq_status scratch_get(void)
{
    uint32_t from = core_scratch_allocator();
    size_t size = aqi_round_up(aqi_core_config.scratch, aqi_page_size());
    if (from == core.tp_count || core.params.size == 1 || size == 0) return AQ_OK;
    aq_status st = core.tps[from]->ops.mem_alloc(core.tps[from], size, size, &scratch.mine.addr);
    if (st != AQ_OK) return st;
    scratch.mine.size = size;
    core_segment_register(&scratch.mine);
    return AQ_OK;
}

static aq_status scratch_learn(uint32_t rank, const void *card)
{
    struct aqi_rmem *rmem;
    size_t size;
    if (core_is_apart(rank)) return AQ_OK;
    aq_status st = core_segment_map(&core.routes[rank], card, &rmem, &size);
    if (st != AQ_OK || rmem == NULL) return st;
    scratch.local[rank] = rmem->local;
    scratch.sizes[rank] = size;
    return AQ_OK;
}

static bool scratch_maps(uint32_t job_rank)
{
    return scratch.local[job_rank] != NULL;
}

aq_status core_scratch_open(void)
{
    uint32_t size = core.params.size;
    unsigned char card[CORE_CARD_MAX];
    size_t bytes = core_segment_card_size();
    const void *cards;
    scratch.local = calloc(size, sizeof(*scratch.local));
    scratch.sizes = calloc(size, sizeof(*scratch.sizes));
    aq_status st = AQ_OK;
    if (!scratch.local || !scratch.sizes)
        st = aqi_fail(AQ_ENOMEM, "core", "no memory for the scratch areas of %u ranks", size);
    if (st == AQ_OK) st = scratch_get();
    if (st == AQ_OK) core_segment_card(&scratch.mine, card);
    if (st == AQ_OK) st = core.boot.table(core.boot.arg, card, bytes, &cards);
    for (uint32_t rank = 0; rank < size && st == AQ_OK; rank++)
        st = scratch_learn(rank, (const unsigned char *)cards + rank * bytes);
    return st == AQ_OK ? core_neighbors_agree(scratch_maps) : st;
}

void core_scratch_close(void)
{
    while (scratch.taken != NULL)
        scratch_give(&scratch.taken, scratch.taken->offset);
    core_segment_deregister(&scratch.mine);
    free(scratch.local);
    free(scratch.sizes);
    memset(&scratch, 0, sizeof(scratch));
}

/* Whether all members map each other. */
static bool scratch_reaches(const aq_team *team)
{
    uint32_t first = aq_team_to_job(team, 0);
    if (scratch.sizes[first] == 0) return false;
    for (aq_rank i = 0; i < team->size; i++)
        if (core_node_of(aq_team_to_job(team, i)) != core_node_of(first)) return false;
    return true;
}

/*
 * In a small team (or a larger one whose members all have a core), every member polls every other,
 * which takes the fewest hops.
 */
static void scratch_choose_ways(const aq_team *team, struct scratch_block *block)
{
    block->crowded = core_place_of(aq_team_to_job(team, 0))->crowded;
    block->flat = team->size <= (block->crowded ? 4 : 16);
}

/* Built-in teams have fixed places, so nothing is exchanged. The other half is for other teams. */
void scratch_block_of(const aq_team *team, unsigned built_in, size_t least,
                      struct scratch_block *block)
{
    uint64_t size = scratch.sizes[aq_team_to_job(team, 0)];
    const struct {
        uint64_t offset, size;
    } parts[SCRATCH_BUILT_IN] = {[SCRATCH_WORLD] = {0, size / 4},
                                 [SCRATCH_NEIGHBORS] = {size / 4, size / 8},
                                 [SCRATCH_HOST] = {size / 4 + size / 8, size / 8}};
    *block = (struct scratch_block){0};
    if (team->size == 1 || !scratch_reaches(team)) return;
    block->offset = aqi_round_up(parts[built_in].offset, aqi_page_size());
    block->size = parts[built_in].size / aqi_page_size() * aqi_page_size();
    scratch_choose_ways(team, block);
    if (block->size < least) block->size = 0;
}

bool scratch_take(struct scratch_range **taken, uint64_t from, uint64_t end, uint64_t size,
                  uint64_t *offset)
{
    struct scratch_range **at = taken;
    for (; *at != NULL && (*at)->offset - from < size; at = &(*at)->next)
        from = (*at)->offset + (*at)->size;
    if (*at == NULL && end - from < size) return false;
    struct scratch_range *range = malloc(sizeof(*range));
    if (range == NULL) return false;
    *range = (struct scratch_range){from, size, *at};
    *at = range;
    *offset = from;
    return true;
}

void scratch_give(struct scratch_range **taken, uint64_t offset)
{
    struct scratch_range **at = taken;
    while (*at != NULL && (*at)->offset != offset)
        at = &(*at)->next;
    if (*at == NULL) return;
    struct scratch_range *range = *at;
    *at = range->next;
    free(range);
}

/* A large block if there is room, else a smaller one, else none: then the team uses messages. */
void scratch_alloc(const aq_team *team, size_t least, struct scratch_block *block)
{
    least = aqi_round_up(least, aqi_page_size());
    *block = (struct scratch_block){0};
    if (team->size == 1 || !scratch_reaches(team)) return;
    aqi_spin_lock(&core.lock);
    uint64_t end = scratch.sizes[core.params.rank], from = aqi_round_up(end / 2, aqi_page_size());
    uint64_t size = end / 16 / aqi_page_size() * aqi_page_size();
    for (size = aqi_max(size, least); size >= least;
         size = size / 4 / aqi_page_size() * aqi_page_size())
        if (scratch_take(&scratch.taken, from, end, size, &block->offset)) {
            block->size = size;
            break;
        }
    aqi_spin_unlock(&core.lock);
    scratch_choose_ways(team, block);
}

void scratch_free(const struct scratch_block *block)
{
    if (block->size == 0) return;
    aqi_spin_lock(&core.lock);
    scratch_give(&scratch.taken, block->offset);
    aqi_spin_unlock(&core.lock);
}

void *scratch_at(const aq_team *team, const struct scratch_block *block)
{
    uint32_t first = aq_team_to_job(team, 0);
    if (block->size == 0 || scratch.local[first] == NULL ||
        !aqi_within(block->offset, block->size, 0, scratch.sizes[first]))
        return NULL;
    return scratch.local[first] + block->offset;
}
