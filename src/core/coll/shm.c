/*
 * Collectives in shared memory, in rounds: each member writes its part to its own area, arrives,
 * and, when all have arrived, reads what it needs. There are two areas, used alternately, so
 * arriving at a round implies that the one before has been read.
 *
 * In small teams, members poll each other's lines (flat). In large ones, they count arrivals in one
 * word (counted): the last to arrive does the work that needs all parts and releases the others, so
 * that each runs only once per round if there are more ranks than cores.
 */
#include "core/coll/shm.h"

#include "base/shmem.h"

#include <stdlib.h>
#include <string.h>

/* --- the layout of a block ------------------------------------------------------------------- */

static size_t shm_stuck_offset(uint32_t members)
{
    return aqi_round_up(sizeof(struct shm_head) + members, AQI_CACHE_LINE);
}

static size_t shm_head_bytes(uint32_t members)
{
    return aqi_round_up(shm_stuck_offset(members) + members * sizeof(struct shm_stuck),
                        AQI_CACHE_LINE);
}

static size_t shm_slot_bytes(uint32_t members)
{
    return sizeof(struct shm_slot_head) + 2 * (size_t)members * sizeof(struct shm_line);
}

static size_t shm_control_bytes(uint32_t members)
{
    return aqi_round_up(shm_head_bytes(members) + (SHM_SLOTS + 1) * shm_slot_bytes(members),
                        aqi_page_size());
}

size_t coll_shm_least(uint32_t members)
{
    return shm_control_bytes(members) + 2 * SHM_SLOTS * SHM_LEAST_CHUNK * ((size_t)members + 1);
}

void coll_shm_clear(void *at, uint32_t members)
{
    memset(at, 0, shm_control_bytes(members));
}

struct coll_shm *coll_shm_new(aq_team *team, const struct scratch_block *block)
{
    unsigned char *base = scratch_at(team, block);
    struct coll_shm *shm = calloc(1, sizeof(*shm));
    if (shm == NULL || base == NULL) {
        free(shm);
        return NULL;
    }
    uint32_t n = team->size;
    size_t area = (block->size - shm_control_bytes(n)) / (2 * SHM_SLOTS) / AQI_CACHE_LINE;
    shm->head = (struct shm_head *)(void *)base;
    shm->stuck = (struct shm_stuck *)(void *)(base + shm_stuck_offset(n));
    shm->members = n;
    shm->self = team->rank;
    shm->flat = block->flat != 0;
    shm->crowded = block->crowded != 0;
    shm->area = area * AQI_CACHE_LINE;
    shm->chunk = shm->area / (n + 1) / AQI_CACHE_LINE * AQI_CACHE_LINE;
    shm->chunk = aqi_min(shm->chunk, shm->crowded ? SHM_CROWDED_CHUNK : SHM_MOST_CHUNK);
    for (unsigned i = 0; i <= SHM_SLOTS; i++) {
        unsigned char *slot = base + shm_head_bytes(n) + i * shm_slot_bytes(n);
        shm->slots[i].head = (struct shm_slot_head *)(void *)slot;
        shm->slots[i].lines = (struct shm_line *)(void *)(slot + sizeof(struct shm_slot_head));
        shm->slots[i].members = n;
        shm->slots[i].data = base + shm_control_bytes(n) + i * 2 * shm->area;
    }
    return shm;
}

/* --- arriving, and detecting that all have arrived ------------------------------------------- */

/*
 * Call after publishing our round: sleepers announce themselves before they check (coll_shm_doze).
 */
static inline void shm_wake_sleepers(aq_team *team, struct coll_shm *shm)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (AQI_LIKELY(atomic_load_explicit(&shm->head->sleepers, memory_order_acquire) == 0)) return;
    for (aq_rank i = 0; i < team->size; i++) {
        _Atomic uint8_t *asleep = &shm->head->asleep[i];
        /* Only one member wakes it; the others see 0. */
        if (atomic_load_explicit(asleep, memory_order_relaxed) == 0 ||
            atomic_exchange(asleep, 0) == 0)
            continue;
        atomic_fetch_sub(&shm->head->sleepers, 1);
        struct core_route *route = &core.routes[aq_team_to_job(team, i)];
        /* If its ring is full, it will not sleep; a fault decorator may reject the send. */
        for (int attempt = 0; attempt < 100; attempt++)
            if (core_try_send(route, CORE_HANDLER_WAKE, NULL, 0) != AQ_AGAIN) break;
    }
}

/* Our line for the next round, to be written before shm_arrive. */
struct shm_line *shm_line_next(struct coll_shm *shm, struct coll_slot *slot)
{
    return shm_line_of(slot, shm->self, slot->round + 1);
}

/* Acquire: makes visible all that the others published with this round. */
static inline bool shm_all_at(const struct coll_shm *shm, const struct coll_slot *slot,
                              uint32_t round, uint32_t *seen)
{
    if (!shm->flat)
        return atomic_load_explicit(&shm_release_of(slot, round)->round, memory_order_acquire) ==
               round;
    while (*seen < shm->members && atomic_load_explicit(&shm_line_of(slot, *seen, round)->round,
                                                        memory_order_acquire) == round)
        ++*seen;
    return *seen == shm->members;
}

static bool shm_all_here(const struct coll_shm *shm, const struct coll_slot *slot, uint32_t *seen)
{
    return shm_all_at(shm, slot, slot->round, seen);
}

/*
 * Release. Returns true if we are the last of a counted round: then do the work of the last, and
 * call shm_release.
 */
static bool shm_arrive(aq_team *team, struct coll_shm *shm, struct coll_slot *slot, uint32_t sum)
{
    uint32_t round = ++slot->round;
    atomic_store_explicit(&shm_line_of(slot, shm->self, round)->round, round, memory_order_release);
    if (shm->flat) {
        /* Members that polled the line still hold it in their caches. */
        aqi_prefetch_write(shm_line_of(slot, shm->self, round + 1));
        shm_wake_sleepers(team, shm);
        return false;
    }
    uint64_t before = atomic_fetch_add_explicit(&slot->head->arrived, (uint64_t)sum << 32 | 1,
                                                memory_order_acq_rel);
    return (uint32_t)before + 1 == round * shm->members;
}

/* For the last to arrive: whether all added this sum. The count below carries when it wraps. */
static bool shm_sums_alike(const struct coll_shm *shm, struct coll_slot *slot, uint32_t sum)
{
    uint64_t arrived = atomic_load_explicit(&slot->head->arrived, memory_order_relaxed);
    uint32_t want = slot->head->sum_before + sum * shm->members;
    if ((uint32_t)arrived < shm->members) want++;
    slot->head->sum_before = (uint32_t)(arrived >> 32);
    return want == (uint32_t)(arrived >> 32);
}

static void shm_release(aq_team *team, struct coll_shm *shm, struct coll_slot *slot)
{
    atomic_store_explicit(&shm_release_of(slot, slot->round)->round, slot->round,
                          memory_order_release);
    shm_wake_sleepers(team, shm);
}

/* --- the barrier ----------------------------------------------------------------------------- */

struct coll_name coll_name_combine(struct coll_name a, struct coll_name b)
{
    if (a.state == COLL_NAME_NONE) return b;
    if (b.state == COLL_NAME_NONE) return a;
    if (a.state == COLL_NAME_GIVEN && b.state == COLL_NAME_GIVEN && a.id == b.id) return a;
    return (struct coll_name){COLL_NAME_MISMATCH, 0};
}

static struct coll_name shm_all_names(const aq_team *team, struct coll_shm *shm,
                                      struct coll_slot *slot)
{
    struct coll_name agreed = {COLL_NAME_NONE, 0};
    for (uint32_t i = 0; i < shm->members; i++) {
        const struct shm_line *line = shm_line_of(slot, i, slot->round);
        if (AQI_UNLIKELY(line->code != team->barrier_code))
            coll_mismatch(team, coll_signature_of_barrier(team->barrier_code), i,
                          coll_signature_of_barrier(line->code));
        agreed = coll_name_combine(agreed, line->name);
    }
    return agreed;
}

/* Names are rare: a counted round reads them only if some member gave one. */
void coll_shm_arrive(aq_team *team, struct coll_name name)
{
    struct coll_shm *shm = team->coll->shm;
    struct coll_slot *slot = &shm->slots[SHM_SLOTS];
    struct shm_line *line = shm_line_next(shm, slot);
    line->name = name;
    line->code = team->barrier_code;
    shm->barrier_seen = 0;
    atomic_store_explicit(&shm->barrier_round, slot->round + 1, memory_order_relaxed);
    if (!shm->flat && name.state != COLL_NAME_NONE)
        atomic_fetch_add_explicit(&slot->head->named, 1, memory_order_relaxed);
    if (!shm_arrive(team, shm, slot, team->barrier_code)) return;
    bool alike = shm_sums_alike(shm, slot, team->barrier_code);
    struct shm_line *release = shm_release_of(slot, slot->round);
    release->name = (struct coll_name){COLL_NAME_NONE, 0};
    uint32_t named = atomic_load_explicit(&slot->head->named, memory_order_relaxed);
    if (named != slot->head->named_before || AQI_UNLIKELY(!alike))
        release->name = shm_all_names(team, shm, slot);
    slot->head->named_before = named;
    shm_release(team, shm, slot);
}

bool coll_shm_arrived(aq_team *team, struct coll_name *agreed)
{
    struct coll_shm *shm = team->coll->shm;
    struct coll_slot *slot = &shm->slots[SHM_SLOTS];
    if (!shm_all_here(shm, slot, &shm->barrier_seen)) return false;
    atomic_store_explicit(&shm->barrier_done, slot->round, memory_order_relaxed);
    *agreed = shm->flat ? shm_all_names(team, shm, slot) : shm_release_of(slot, slot->round)->name;
    return true;
}

/* --- operations ------------------------------------------------------------------------------ */

static bool shm_takes(const aq_team *team, const struct coll_args *args)
{
    return team->coll->shm != NULL && shm_unit(team->coll->shm, args) != 0;
}

static aq_status shm_prepare(aq_team *team, struct coll_op *op)
{
    size_t unit = shm_unit(team->coll->shm, &op->args), most = coll_longest(team, &op->args);
    /* A direct fold begins with the member whose buffer receives the result, so out of order. */
    bool large = most >= SHM_DIRECT_LEAST && op->args.kind != COLL_BARRIER && !op->args.ordered;
    op->shm = (struct coll_shm_state){.phase = op->args.vary || large ? SHM_ADDRESSES : SHM_CHUNK,
                                      .unit = unit,
                                      .most = most,
                                      .length = aqi_min(unit, most)};
    return AQ_OK;
}

static void shm_begin(aq_team *team, struct coll_op *op)
{
    op->slot = (uint8_t)(team->coll->shm_started++ % SHM_SLOTS);
}

static void shm_stage_round(const struct shm_view *v)
{
    switch (v->op->shm.phase) {
    case SHM_ADDRESSES:
        shm_buffers_stage(v);
        break;
    case SHM_CHUNK:
        shm_stage(v);
        break;
    case SHM_SLICE:
        shm_slice_stage(v);
        break;
    default:
        break;
    }
}

static enum coll_phase shm_next_chunk(const struct coll_shm *shm, struct coll_op *op)
{
    op->shm.first = shm_group_end(shm, op);
    if (op->shm.first < shm->members) return SHM_CHUNK;
    op->shm.first = 0;
    op->shm.at += op->shm.length;
    op->shm.length = aqi_min(op->shm.unit, op->shm.most - op->shm.at);
    return op->shm.length == 0 ? SHM_DONE : SHM_CHUNK;
}

/* All have arrived: read the data of the round; returns the phase of the next one. */
static enum coll_phase shm_take(const struct shm_view *v)
{
    switch (v->op->shm.phase) {
    case SHM_ADDRESSES:
        return shm_buffers_read(v);
    case SHM_CHUNK:
        if (shm_in_slices(v->shm, v->op)) return SHM_SLICE;
        shm_read(v);
        return shm_next_chunk(v->shm, v->op);
    case SHM_SLICE:
        shm_slice_read(v);
        return shm_next_chunk(v->shm, v->op);
    case SHM_DIRECT:
        if (shm_some_left(v->shm)) v->op->status = AQ_EPEER;
        if (!v->op->shm.more) return SHM_DONE;
        v->op->shm.more = false;
        shm_direct_rest(v);
        return SHM_DIRECT;
    default:
        return SHM_DONE;
    }
}

/* --- checking that all are in the same operation --------------------------------------------- */

/* Added to the counter in the first round of an operation. */
static uint32_t shm_sum_of(const struct coll_op *op)
{
    const struct coll_signature *mine = &op->signature;
    uint64_t word = coll_mix((uint64_t)mine->root << 32 | mine->bytes, mine->what);
    return op->shm.checked ? 0 : (uint32_t)(word >> 32);
}

static bool shm_alike(const struct shm_view *v)
{
    for (uint32_t i = 0; i < v->shm->members; i++) {
        const struct shm_line *line = shm_line_of(v->slot, i, v->slot->round);
        if (AQI_LIKELY(coll_signature_same(&line->signature, &v->op->signature))) continue;
        coll_mismatch(v->team, v->op->signature, i, line->signature);
        return false;
    }
    return true;
}

static bool shm_push(aq_team *team, struct coll_op *op, bool *no_room)
{
    (void)no_room;
    struct coll_shm *shm = team->coll->shm;
    struct shm_view v = {team, shm, &shm->slots[op->slot], op};
    do {
        if (!op->shm.waiting) {
            uint32_t sum = shm_sum_of(op);
            shm_stage_round(&v);
            shm_line_next(shm, v.slot)->signature = op->signature;
            op->shm.waiting = true;
            op->shm.seen = 0;
            if (shm_arrive(team, shm, v.slot, sum)) {
                if (AQI_UNLIKELY(!shm_sums_alike(shm, v.slot, sum)) && !shm_alike(&v)) return false;
                if (op->shm.phase == SHM_CHUNK && !shm_in_slices(shm, op)) shm_last(&v);
                shm_release(team, shm, v.slot);
            }
        }
        if (!shm_all_here(shm, v.slot, &op->shm.seen)) return false;
        if (shm->flat && !op->shm.checked && !shm_alike(&v)) return false;
        op->shm.checked = true;
        op->shm.waiting = false;
        team->coll->moved = true;
        op->shm.phase = shm_take(&v);
    } while (op->shm.phase != SHM_DONE);
    return true;
}

static bool shm_ready(const aq_team *team, const struct coll_op *op)
{
    struct coll_shm *shm = team->coll->shm;
    uint32_t seen = 0;
    return !op->shm.waiting || shm_all_here(shm, &shm->slots[op->slot], &seen);
}

const struct coll_engine coll_shm_engine = {.takes = shm_takes,
                                            .prepare = shm_prepare,
                                            .begin = shm_begin,
                                            .push = shm_push,
                                            .ready = shm_ready};

/*
 * A member that learns of a death leaves, and may reuse its buffers while members that have seen
 * the round complete still read them: afterwards, those must see that it has left.
 */
AQI_COLD void coll_shm_leave(const aq_team *team)
{
    atomic_store_explicit(&team->coll->shm->head->left, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

/* --- sleeping -------------------------------------------------------------------------------- */

/* Whether we arrived at the barrier, which takes no lock, and have not seen it end. */
static bool shm_at_barrier(const struct coll_shm *shm, uint32_t *round)
{
    *round = atomic_load_explicit(&shm->barrier_round, memory_order_relaxed);
    return *round != atomic_load_explicit(&shm->barrier_done, memory_order_relaxed);
}

/*
 * Announce that we sleep, then check once more: either we see the round, or the member that arrives
 * sees us.
 */
bool coll_shm_doze(aq_team *team)
{
    struct coll_shm *shm = team->coll->shm;
    uint32_t seen = 0, round;
    if (team->coll->first == NULL && !shm_at_barrier(shm, &round)) return true;
    if (atomic_exchange(&shm->head->asleep[shm->self], 1) == 0)
        atomic_fetch_add(&shm->head->sleepers, 1);
    atomic_thread_fence(memory_order_seq_cst);
    if (shm_at_barrier(shm, &round) && shm_all_at(shm, &shm->slots[SHM_SLOTS], round, &seen)) {
        /* Once per barrier: the program may wait for it much later. */
        atomic_store_explicit(&shm->barrier_done, round, memory_order_relaxed);
        return false;
    }
    return !coll_any_ready(team);
}
