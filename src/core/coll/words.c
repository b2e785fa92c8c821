/*
 * Barriers by remote writes (AQ_BARRIER): in each round a member writes a word into the memory of
 * another, at twice the distance of the previous round, once the word of that round has arrived
 * (dissemination: Hensgen, Finkel, Manber 1988). Such a barrier runs like an operation by messages,
 * except that its sends and receives are words. Errors (deaths, members in different operations)
 * are handled by messages as usual.
 *
 * Each process has a place for each of its teams: two words per round, used alternately, since no
 * member gets two barriers ahead of one that writes to it or reads from it. A word contains the
 * number of its barrier, so words need not be cleared. Nothing announces their arrival: a sleeping
 * thread checks every millisecond.
 */
#include "core/coll/coll.h"

#include "base/shmem.h"
#include "core/coll/shm.h"

#include <stdlib.h>
#include <string.h>

enum {
    WORDS_ROUNDS = 32,
    WORDS_PLACES = 64, /* place 0 means none; then those of built-in teams */
    WORDS_OWN = 1 + SCRATCH_BUILT_IN,
    WORDS_NUMBER_BITS = 22
};
enum { WORDS_PLACE_BYTES = 2 * WORDS_ROUNDS * sizeof(uint64_t) };

/* The member to which we write a word in a round. */
struct words_target {
    const struct core_route *route;
    struct aqi_rmem *rmem; /* NULL: its memory is written by messages */
    uint64_t addr;         /* of the team's place in its memory */
    struct aqi_comp comps[2];
};

struct coll_words {
    struct coll_words *next; /* in the list of those that have ended */
    uint32_t place, number;  /* our place; the number of the current or latest barrier */
    uint32_t rounds;
    bool usable;  /* all members have a place */
    bool leaders; /* only leaders take part */
    const _Atomic uint64_t *mine;
    struct words_target targets[];
};

static struct {
    unsigned char *memory; /* NULL: barriers go by messages */
    const unsigned char *cards;
    uint64_t taken;           /* a bit for each place; under core.lock */
    struct coll_words *ended; /* with writes that may be incomplete; under core.lock */
} words;
static_assert(WORDS_PLACES <= 8 * sizeof(words.taken), "a bit for each place");

/* --- memory ---------------------------------------------------------------------------------- */

/* Like a program's segment: messages and writes reach it, and it is freed in the same way. */
static aq_status words_allocate(aq_segment **out)
{
    size_t bytes = aqi_round_up(WORDS_PLACES * WORDS_PLACE_BYTES, aqi_page_size());
    aq_segment *segment;
    aq_status st = core_segment_new(NULL, bytes, &segment, "barriers by remote writes");
    if (st != AQ_OK) return st;
    memset(segment->addr, 0, bytes);
    segment->bound = true;
    core_segment_register(segment);
    *out = segment;
    return AQ_OK;
}

aq_status coll_words_open(void)
{
    unsigned char card[CORE_CARD_MAX];
    const void *cards;
    aq_segment *segment = NULL;
    memset(&words, 0, sizeof(words));
    if (!aqi_core_config.barrier || core.params.size == 1) return AQ_OK;
    aq_status st = words_allocate(&segment);
    if (st != AQ_OK) return st;
    core_segment_card(segment, card);
    st = core.boot.table(core.boot.arg, card, core_segment_card_size(), &cards);
    if (st != AQ_OK) return st;
    words.taken = (UINT64_C(1) << WORDS_OWN) - 1;
    words.cards = cards;
    words.memory = segment->addr;
    return AQ_OK;
}

static bool words_are_written(const struct coll_words *w)
{
    for (uint32_t round = 0; round < w->rounds; round++)
        for (unsigned turn = 0; turn < 2; turn++)
            if (atomic_load_explicit(&w->targets[round].comps[turn].remote, memory_order_acquire))
                return false;
    return true;
}

/* Free those that have ended and have no writes in flight; `all`: regardless (at close). */
static void words_sweep(bool all)
{
    for (struct coll_words **at = &words.ended; *at != NULL;) {
        struct coll_words *w = *at;
        if (!all && !words_are_written(w)) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        free(w);
    }
}

void coll_words_close(void)
{
    words_sweep(true);
    words.memory = NULL;
}

/* --- places ---------------------------------------------------------------------------------- */

static unsigned char *words_place(uint32_t place)
{
    return words.memory + place * WORDS_PLACE_BYTES;
}

uint32_t coll_words_built_in(unsigned part)
{
    return words.memory != NULL ? 1 + part : 0;
}

uint32_t coll_words_take(void)
{
    if (words.memory == NULL) return 0;
    aqi_spin_lock(&core.lock);
    uint32_t place = WORDS_OWN;
    while (place < WORDS_PLACES && (words.taken & UINT64_C(1) << place) != 0)
        place++;
    if (place < WORDS_PLACES) words.taken |= UINT64_C(1) << place;
    aqi_spin_unlock(&core.lock);
    if (place == WORDS_PLACES) return 0;
    memset(words_place(place), 0, WORDS_PLACE_BYTES);
    return place;
}

void coll_words_give(uint32_t place)
{
    if (place < WORDS_OWN) return;
    aqi_spin_lock(&core.lock);
    words.taken &= ~(UINT64_C(1) << place);
    aqi_spin_unlock(&core.lock);
}

/* Member `i` of the dissemination: a leader if there are several neighborhoods. */
static aq_rank words_member(const aq_team *team, aq_rank i)
{
    return team->shape != NULL ? team->shape->order[team->shape->start[i]] : i;
}

static aq_status words_find(const aq_team *team, aq_rank member, uint32_t place,
                            struct words_target *target)
{
    uint32_t rank = aq_team_to_job(team, member);
    size_t size;
    target->route = &core.routes[rank];
    for (unsigned turn = 0; turn < 2; turn++)
        target->comps[turn].shared = core.multi;
    const unsigned char *card = words.cards + rank * core_segment_card_size();
    target->addr = core_segment_card_addr(card) + place * WORDS_PLACE_BYTES;
    return core_segment_map(target->route, card, &target->rmem, &size);
}

aq_status coll_words_new(aq_team *team, uint32_t mine, const uint32_t *places)
{
    aq_rank n = team->shape != NULL ? team->shape->groups : team->size;
    aq_rank self = team->shape != NULL ? team->shape->mine : team->rank;
    uint32_t rounds = 0;
    if (mine == 0) return AQ_OK;
    while (UINT64_C(1) << rounds < n)
        rounds++;
    struct coll_words *w = calloc(1, sizeof(*w) + rounds * sizeof(w->targets[0]));
    if (w == NULL) return aqi_fail(AQ_ENOMEM, "core", "no memory for the barriers of a team");
    w->place = mine;
    w->rounds = rounds;
    w->leaders = team->shape != NULL;
    w->mine = (_Atomic uint64_t *)(void *)words_place(mine);
    w->usable = team->size > 1 && team->coll->shm == NULL;
    for (aq_rank i = 0; places != NULL && i < team->size; i++)
        w->usable = w->usable && places[i] != 0;
    team->coll->words = w;
    for (uint32_t round = 0; w->usable && round < rounds; round++) {
        aq_rank next = words_member(team, (aq_rank)((self + (UINT64_C(1) << round)) % n));
        aq_status st =
            words_find(team, next, places != NULL ? places[next] : mine, &w->targets[round]);
        if (st != AQ_OK) return st;
    }
    return AQ_OK;
}

/*
 * After the last barrier no member writes to its place, unless the team has failed: then keep it.
 */
void coll_words_free(struct coll_words *w, bool failed)
{
    if (w == NULL) return;
    if (!failed) coll_words_give(w->place);
    aqi_spin_lock(&core.lock);
    w->next = words.ended;
    words.ended = w;
    words_sweep(false);
    aqi_spin_unlock(&core.lock);
}

bool coll_words_begin(const aq_team *team)
{
    struct coll_words *w = team->coll->words;
    /* A team that is being destroyed has already left its neighborhoods. */
    if (w == NULL || !w->usable || w->leaders != (team->shape != NULL)) return false;
    w->number++;
    return true;
}

/* --- words ----------------------------------------------------------------------------------- */

/* From the top: id, state, number of the barrier, and code of the call that it is part of. */
enum { WORDS_NUMBER_MASK = (1 << WORDS_NUMBER_BITS) - 1 };

static uint64_t words_make(struct coll_name name, uint32_t number, uint8_t code)
{
    uint32_t low = name.state << (WORDS_NUMBER_BITS + 8) | (number & WORDS_NUMBER_MASK) << 8 | code;
    return (uint64_t)(uint32_t)name.id << 32 | low;
}

static size_t words_at(const struct coll_words *w, uint32_t round)
{
    return (w->number % 2) * WORDS_ROUNDS + round;
}

static aq_status words_put(struct words_target *target, struct aqi_comp *comp, uint64_t addr,
                           uint64_t word)
{
    const struct core_route *route = target->route;
    if (atomic_load_explicit(&comp->remote, memory_order_acquire) != 0) return AQ_AGAIN;
    if (comp->status != AQ_OK) return (aq_status)comp->status;
    atomic_store_explicit(&comp->local, 1, memory_order_relaxed);
    atomic_store_explicit(&comp->remote, 1, memory_order_relaxed);
    aq_status st = route->tp->ops.put(route->tp, route->peer, target->rmem, addr, &word,
                                      sizeof(word), NULL, comp);
    if (st != AQ_OK) atomic_store_explicit(&comp->remote, 0, memory_order_relaxed);
    return st;
}

aq_status coll_words_send(const aq_team *team, const struct coll_op *op,
                          const struct coll_step *step)
{
    struct coll_words *w = team->coll->words;
    struct words_target *target = &w->targets[step->tag];
    const struct aqi_rmem *rmem = target->rmem;
    struct coll_name name;
    memcpy(&name, step->from, sizeof(name));
    uint64_t word = words_make(name, w->number, op->args.code);
    uint64_t addr = target->addr + words_at(w, step->tag) * sizeof(word);
    if (rmem == NULL || rmem->local == NULL)
        return words_put(target, &target->comps[w->number % 2], addr, word);
    unsigned char *at = (unsigned char *)rmem->local + (addr - rmem->addr);
    /* Read by the acquire load of coll_words_receive. */
    atomic_store_explicit((_Atomic uint64_t *)(void *)at, word, memory_order_release);
    return AQ_OK;
}

bool coll_words_receive(const aq_team *team, const struct coll_op *op, const struct coll_step *step)
{
    const struct coll_words *w = team->coll->words;
    uint64_t word = atomic_load_explicit(&w->mine[words_at(w, step->tag)], memory_order_acquire);
    uint32_t low = (uint32_t)word, number = low >> 8 & WORDS_NUMBER_MASK;
    struct coll_name name = {.state = low >> (WORDS_NUMBER_BITS + 8), .id = (int32_t)(word >> 32)};
    if (number != (w->number & WORDS_NUMBER_MASK)) return false;
    if (AQI_UNLIKELY((uint8_t)low != op->args.code)) {
        struct coll_args theirs = op->args;
        theirs.code = (uint8_t)low;
        coll_mismatch(team, op->signature, aq_team_from_job(team, step->peer),
                      coll_signature_of(&theirs));
        return false;
    }
    memcpy(step->to, &name, sizeof(name));
    return true;
}
