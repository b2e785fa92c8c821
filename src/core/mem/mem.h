/* Memory that peers reach: segments, endpoints, neighborhoods, scratch memory. */
#ifndef AQI_CORE_MEM_H
#define AQI_CORE_MEM_H

#include "core/state/state.h"

/* neighbors.c: where the ranks run, and which of them load and store each other's memory. */
struct core_place { /* the data that a rank publishes about itself; its addresses follow */
    uint32_t host, group, crowded; /* crowded: more ranks on the host than cores */
    uint32_t allocator;            /* the first transport that allocates memory */
};
void core_neighbors_here(struct core_place *place);
aq_status core_neighbors_open(void);
/* Collective. `maps` returns whether this process has mapped the memory of a rank. */
aq_status core_neighbors_agree(bool (*maps)(uint32_t job_rank));
void core_neighbors_close(void);
const struct core_place *core_place_of(uint32_t job_rank);
uint32_t core_node_of(uint32_t job_rank); /* the lowest rank of its neighborhood */
bool core_is_apart(uint32_t job_rank);    /* not mapped, even if it could be */

/* scratch.c */
uint32_t core_scratch_allocator(void); /* its index in core.tps, or core.tp_count */
aq_status core_scratch_open(void);
void core_scratch_close(void);
enum { SCRATCH_WORLD, SCRATCH_NEIGHBORS, SCRATCH_HOST, SCRATCH_BUILT_IN };
struct scratch_block {
    uint64_t offset;  /* in the scratch memory of the team's rank 0 */
    uint64_t size;    /* 0: none */
    uint32_t flat;    /* every member polls every other; else they count arrivals */
    uint32_t crowded; /* members share cores */
};
/* Set `block` to a block of at least `least` bytes, or to none. */
void scratch_block_of(const aq_team *team, unsigned built_in, size_t least,
                      struct scratch_block *block);
void scratch_alloc(const aq_team *team, size_t least, struct scratch_block *block); /* by rank 0 */
void scratch_free(const struct scratch_block *block);
void *scratch_at(const aq_team *team, const struct scratch_block *block);
/* Find the first gap of `size` bytes in [from, end) between the taken ranges, sorted by offset. */
struct scratch_range {
    uint64_t offset, size;
    struct scratch_range *next;
};
bool scratch_take(struct scratch_range **taken, uint64_t from, uint64_t end, uint64_t size,
                  uint64_t *offset);
void scratch_give(struct scratch_range **taken, uint64_t offset);

/*
 * card.c: the data that ranks exchange. A card has a fixed part of `fixed` bytes, followed for each
 * transport by an address or a key of up to the transport's maximum length.
 */
enum core_blob { CORE_ADDRESSES, CORE_KEYS };
#define CORE_CARD_MAX (64 + CORE_MAX_TRANSPORTS * (2 + AQI_KEY_MAX))
static_assert(AQI_ADDR_MAX <= AQI_KEY_MAX, "a card of keys is the largest");
size_t core_card_size(size_t fixed, enum core_blob what);
void core_card_set(void *card, size_t fixed, enum core_blob what, unsigned t, const void *blob,
                   size_t len);
const void *core_card_get(const void *card, size_t fixed, enum core_blob what, unsigned t,
                          size_t *len);
unsigned core_tp_index(const struct aqi_tp *tp); /* in core.tps; core.tp_count: a connection's */

/*
 * segment.c: the card of a segment (NULL or 0 bytes: none), after core_segment_register; and
 * mapping the peer's memory that a card describes.
 */
size_t core_segment_card_size(void);
void core_segment_register(aq_segment *segment);
void core_segment_deregister(aq_segment *segment);
void core_segment_card(const aq_segment *segment, void *card);
uint64_t core_segment_card_addr(const void *card);
aq_status core_segment_map(const struct core_route *route, const void *card, struct aqi_rmem **rmem,
                           size_t *size);
aq_status core_segment_learn(struct core_route *route, const void *card);
/* The registration of local memory that lies in a segment, for transports that use it. */
const struct aqi_mem *core_segment_mem(const struct aqi_tp *tp, const void *addr, size_t len);
/* Likewise, inline. Returns false if a call is needed. */
static AQI_INLINE bool core_local_mem_at_once(const struct aqi_tp *tp, const void *addr, size_t len,
                                              const struct aqi_mem **mem)
{
    const struct aq_segment *first = &core.segment;
    bool known = (tp->ops.caps & AQI_CAP_LOCAL) != 0;
    if (AQI_UNLIKELY(known &&
                     (core.tps[tp->index] != tp ||
                      !aqi_within((uintptr_t)addr, len, (uintptr_t)first->addr, first->size))))
        return false;
    *mem = known ? first->mems[tp->index] : NULL;
    return true;
}
static inline const struct aqi_mem *core_local_mem(const struct aqi_tp *tp, const void *addr,
                                                   size_t len)
{
    const struct aqi_mem *mem;
    return core_local_mem_at_once(tp, addr, len, &mem) ? mem : core_segment_mem(tp, addr, len);
}
/* Create a segment on behalf of `call`; with addr NULL, it gets memory of its own, zeroed. */
aq_status core_segment_new(void *addr, size_t size, aq_segment **segment, const char *call);
void core_segments_close(void); /* call it while the transports are still open */

/* endpoint.c: set up the routes to the endpoints with this index. */
void core_ep_reach(unsigned index);
bool core_is_ep(const aq_ep *ep);
bool core_is_segment(const aq_segment *segment);
void core_eps_close(void);
void core_eps_unbind(const aq_segment *segment);

bool core_hook_range_ok(void *arg, uint64_t addr, size_t len);

/* Set by conn; called when a segment is destroyed. */
struct core_mem_hooks {
    void (*hide)(const aq_segment *segment);
};
extern struct core_mem_hooks core_mem_hooks;

#endif
