/* Teams: making and destroying them. */
#include "core/team/team.h"

#include <stdlib.h>
#include <string.h>

enum { TEAM_TOMBSTONES = 64 };

static struct {
    struct built_in {
        aq_team team;        /* the ranks with the same place as ours */
        aq_rank count, mine; /* number of places; index of ours */
    } neighborhood, host;
    _Atomic uint32_t made; /* teams that this process made as rank 0: half of an id */
    _Atomic unsigned destroyed;
    _Atomic(aq_team *) tombstones[TEAM_TOMBSTONES]; /* those destroyed last */
} teams;

/* Ids of the built-in teams, which no process made. */
enum {
    TEAM_ID_WORLD,
    TEAM_ID_NEIGHBORHOOD,
    TEAM_ID_HOST,
    TEAM_ID_WORLD_LOCAL,
    TEAM_ID_HOST_LOCAL,
    TEAM_ID_FIRST
};

/* --- the built-in teams ---------------------------------------------------------------------- */

aq_status team_equip(aq_team *team, uint32_t root, uint32_t count,
                     const struct scratch_block *block)
{
    team->id[0] = root;
    team->id[1] = count;
    aq_status st = coll_open(team);
    if (st == AQ_OK) st = core_barrier_open(team);
    if (st != AQ_OK) return st;
    team->block[0] = block->offset;
    team->block[1] = block->size;
    if (block->size != 0) {
        team->coll->shm = coll_shm_new(team, block);
        if (team->coll->shm == NULL)
            return aqi_fail(AQ_ENOMEM, "core", "no memory for the scratch area of a team");
    }
    core_team_enter(team);
    return AQ_OK;
}

static void team_unequip(aq_team *team);

/* From now on, collectives of the team use messages between all members. */
static void team_unequip_local(aq_team *team)
{
    if (team->local != NULL) team_unequip(team->local);
    free(team->local);
    team->local = NULL;
    coll_shape_free(team);
}

static void team_unequip(aq_team *team)
{
    team_unequip_local(team); /* first, since its operations are parts of ours */
    core_team_leave(team);
    coll_close(team); /* may hold an operation of the barrier */
    core_barrier_close(team);
    core_team_clear(team);
}

static uint32_t team_host_of(uint32_t job_rank)
{
    return core_place_of(job_rank)->host;
}

static aq_status team_gather_places(struct built_in *b, uint32_t (*place_of)(uint32_t))
{
    aq_team *team = &b->team;
    uint32_t size = core.params.size, here = place_of(core.params.rank);
    aq_rank *map = malloc(size * sizeof(*map));
    if (map == NULL) return aqi_fail(AQ_ENOMEM, "core", "no memory for a team");
    *team = (aq_team){.map = map, .at = map, .routes = core.routes};
    for (uint32_t rank = 0; rank < size; rank++) {
        uint32_t first = 0;
        while (place_of(first) != place_of(rank))
            first++;
        if (first == rank && place_of(rank) == here) b->mine = b->count;
        b->count += first == rank;
        if (place_of(rank) != here) continue;
        if (rank == core.params.rank) team->rank = team->size;
        map[team->size++] = rank;
    }
    return AQ_OK;
}

/* A built-in team that may span neighborhoods. */
static aq_status team_equip_wide(aq_team *team, uint32_t root, uint32_t id, uint32_t local_id,
                                 unsigned part)
{
    struct scratch_block block;
    scratch_block_of(team, part, coll_shm_least(team->size), &block);
    aq_status st = team_equip(team, root, id, &block);
    if (st == AQ_OK) st = coll_shape_make(team);
    if (st == AQ_OK) st = coll_words_new(team, coll_words_built_in(part), NULL);
    if (st != AQ_OK || team->local == NULL) return st;
    scratch_block_of(team->local, part, coll_shm_least(team->local->size), &block);
    return team_equip(team->local, team->local->map[0], local_id, &block);
}

aq_status core_teams_open(void)
{
    struct scratch_block block;
    memset(&teams, 0, sizeof(teams));
    core_teams_reset();
    teams.made = TEAM_ID_FIRST;
    coll_register();
    aq_status st = coll_words_open();
    if (st == AQ_OK)
        st = team_equip_wide(&core.world, 0, TEAM_ID_WORLD, TEAM_ID_WORLD_LOCAL, SCRATCH_WORLD);
    aq_team *near = &teams.neighborhood.team, *host = &teams.host.team;
    if (st == AQ_OK) st = team_gather_places(&teams.neighborhood, core_node_of);
    if (st == AQ_OK) {
        scratch_block_of(near, SCRATCH_NEIGHBORS, coll_shm_least(near->size), &block);
        st = team_equip(near, near->map[0], TEAM_ID_NEIGHBORHOOD, &block);
        if (st == AQ_OK) st = coll_words_new(near, coll_words_built_in(SCRATCH_NEIGHBORS), NULL);
    }
    if (st == AQ_OK) st = team_gather_places(&teams.host, team_host_of);
    if (st == AQ_OK)
        st = team_equip_wide(host, host->map[0], TEAM_ID_HOST, TEAM_ID_HOST_LOCAL, SCRATCH_HOST);
    return st;
}

void core_teams_close(void)
{
    team_unequip(&core.world);
    team_unequip(&teams.neighborhood.team);
    team_unequip(&teams.host.team);
    for (unsigned i = 0; i < TEAM_TOMBSTONES; i++)
        free(teams.tombstones[i]);
    /* Teams that the program has not destroyed. */
    aq_team *team;
    while ((team = core_team_any()) != NULL) {
        if (team->whole != NULL) team = team->whole;
        team_unequip(team);
        free(team);
    }
    coll_words_close();
}

/* The scratch memory of a team if it is ours to free, since we are rank 0 and allocated it. */
static struct scratch_block team_block_made(const aq_team *team)
{
    if (team == NULL || team->rank != 0) return (struct scratch_block){0};
    return (struct scratch_block){.offset = team->block[0], .size = team->block[1]};
}

void team_drop(aq_team *team)
{
    struct scratch_block block = team_block_made(team), local_block = team_block_made(team->local);
    scratch_free(&block);
    scratch_free(&local_block);
    if (team->coll != NULL) team_unequip(team);
    core_team_free(team);
}

static bool team_built_in(const aq_team *team)
{
    return team == &core.world || team->pair || team == &teams.neighborhood.team ||
           team == &teams.host.team;
}

/* --- making teams ---------------------------------------------------------------------------- */

/* Sent by each member of a new team to the others, through the parent. */
struct offer {
    uint32_t root, count; /* set by rank 0: the id, and scratch memory */
    struct scratch_block block;
    struct scratch_block local_block; /* set by the first member of each neighborhood */
    uint32_t local_count;
    uint32_t words; /* place for its words (coll_words_take) */
    int32_t status;
    uint32_t size;
    uint64_t hash; /* of the members and endpoints: the lists must be equal */
};

static uint64_t team_hash_members(const aq_team *team)
{
    uint64_t hash = AQI_HASH_SEED;
    for (aq_rank i = 0; i < team->size; i++)
        hash = aqi_hash(hash, team->at[i]);
    return hash;
}

aq_status team_exchange(const char *call, aq_team *parent, const void *mine, void *all,
                        size_t nbytes)
{
    struct coll_args args = {
        .kind = COLL_ALLGATHER, .code = COLL_CODE_TEAM, .src = mine, .dst = all, .nbytes = nbytes};
    return coll_run(call, parent, &args);
}

/* A failure of one member fails all; `answers` has room for the parent's members. */
static aq_status team_agree(const char *call, aq_team *parent, const aq_team *team, aq_status mine,
                            struct offer *answers)
{
    struct offer answer = {.status = mine};
    aq_status st = team_exchange(call, parent, &answer, answers, sizeof(answer));
    if (st != AQ_OK || mine != AQ_OK) return st != AQ_OK ? st : mine;
    /* A rank cannot detect that its own list omits a rank that lists it. */
    for (aq_rank i = 0; i < parent->size; i++)
        if (answers[i].status == AQ_EMISMATCH)
            return aqi_fail(AQ_EMISMATCH, "core",
                            "%s: the team was not created, because the list of job rank %u differs "
                            "from those of others on it",
                            call, aq_team_to_job(parent, i));
    for (aq_rank i = 0; st == AQ_OK && team != NULL && i < team->size; i++) {
        const struct offer *other = &answers[aq_team_from_job(parent, team->map[i])];
        if (other->status != AQ_OK)
            st = aqi_fail((aq_status)other->status, "core",
                          "%s: the team was not created, because job rank %u failed: %s", call,
                          team->map[i], aq_status_text((aq_status)other->status));
    }
    return st;
}

/* Whether all members have passed the same list. */
static aq_status team_compare_offers(const char *call, const aq_team *parent, const aq_team *team,
                                     const struct offer *offers)
{
    uint64_t hash = team_hash_members(team);
    for (aq_rank i = 0; i < team->size; i++) {
        const struct offer *other = &offers[aq_team_from_job(parent, team->map[i])];
        if (other->status == AQ_OK && (other->size != team->size || other->hash != hash))
            return aqi_fail(AQ_EMISMATCH, "core", "%s: job rank %u passed another list of members",
                            call, team->map[i]);
    }
    return AQ_OK;
}

aq_status team_begin(const char *call, aq_team *parent, aq_status mine)
{
    uint32_t own = (uint32_t)-mine, worst = 0;
    struct coll_args args = {
        .kind = COLL_ALLREDUCE, .code = COLL_CODE_TEAM, .src = &own, .dst = &worst, .nbytes = 4};
    args.fn = coll_builtin(AQ_TYPE_U32, AQ_OP_MAX, &args.element);
    aq_status st = coll_run(call, parent, &args);
    if (st != AQ_OK || worst == 0) return st;
    if (mine == AQ_ENOMEM) return aqi_fail(mine, "core", "%s: out of memory", call);
    if (mine != AQ_OK) return mine;
    st = (aq_status) - (int)worst;
    return aqi_fail(st, "core", "%s: another member could not begin: %s", call, aq_status_text(st));
}

static void team_take_block(const aq_team *team, struct scratch_block *block)
{
    scratch_alloc(team, coll_shm_least(team->size), block);
    if (block->size != 0) coll_shm_clear(scratch_at(team, block), team->size);
}

static void team_make_offer(aq_team *team, struct offer *offer)
{
    offer->hash = team_hash_members(team);
    offer->size = team->size;
    offer->words = coll_words_take();
    if (team->rank == 0) {
        offer->root = core.params.rank;
        offer->count = atomic_fetch_add(&teams.made, 1);
        team_take_block(team, &offer->block);
    }
    if (offer->status == AQ_OK) offer->status = coll_shape_make(team);
    if (team->local == NULL || team->local->rank != 0) return;
    offer->local_count = atomic_fetch_add(&teams.made, 1);
    team_take_block(team->local, &offer->local_block);
}

static aq_status team_take_words(const aq_team *parent, aq_team *team, const struct offer *offers)
{
    uint32_t *places = malloc(team->size * sizeof(*places));
    if (places == NULL) return aqi_fail(AQ_ENOMEM, "core", "no memory for a team");
    for (aq_rank i = 0; i < team->size; i++)
        places[i] = offers[aq_team_from_job(parent, team->map[i])].words;
    aq_status st = coll_words_new(team, places[team->rank], places);
    free(places);
    return st;
}

static aq_status team_take_offers(const aq_team *parent, aq_team *team, const struct offer *offers)
{
    const struct offer *first = &offers[aq_team_from_job(parent, team->map[0])];
    aq_status st = team_equip(team, first->root, first->count, &first->block);
    if (st == AQ_OK) st = team_take_words(parent, team, offers);
    if (st != AQ_OK || team->local == NULL) return st;
    aq_rank lead = team->local->map[0];
    first = &offers[aq_team_from_job(parent, lead)];
    return team_equip(team->local, lead, first->local_count, &first->local_block);
}

/*
 * `team` has its members, or is NULL for a caller that joins none. Everything goes through the
 * parent: the members exchange offers, enter the team, and agree that all have succeeded. From then
 * on, messages for the team find it everywhere.
 */
aq_status team_make(const char *call, aq_team *parent, aq_team *team, aq_status mine, aq_team **out)
{
    struct offer offer = {.status = mine}, *offers = malloc(parent->size * sizeof(offer));
    uint64_t begun = aqi_trace_begin(AQI_TRACE_JOB);
    aq_status st = team_begin(call, parent, offers != NULL ? AQ_OK : AQ_ENOMEM);
    if (st == AQ_OK) {
        if (team != NULL) team_make_offer(team, &offer);
        st = team_exchange(call, parent, &offer, offers, sizeof(offer));
    }
    if (st == AQ_OK && team != NULL) {
        mine = offer.status != AQ_OK ? (aq_status)offer.status
                                     : team_compare_offers(call, parent, team, offers);
        if (mine == AQ_OK) mine = team_take_offers(parent, team, offers);
    }
    if (st == AQ_OK) st = team_agree(call, parent, team, mine, offers);
    free(offers);
    aqi_trace_end(AQI_TRACE_JOB, call, begun, AQI_TRACE_NOBODY, 0);
    if (st == AQ_OK) {
        *out = team;
        return AQ_OK;
    }
    if (team == NULL) return st;
    scratch_free(&offer.block);
    scratch_free(&offer.local_block);
    if (team->coll == NULL || team->coll->words == NULL) coll_words_give(offer.words);
    team_unequip(team);
    free(team);
    return st;
}

/* Keep its memory for a while, so that using it is an error and not a crash. */
static void team_leave_tombstone(aq_team *team)
{
    *team = (aq_team){.dead = true};
    free(atomic_exchange(&teams.tombstones[atomic_fetch_add(&teams.destroyed, 1) % TEAM_TOMBSTONES],
                         team));
}

aq_status aq_team_destroy(aq_team *team)
{
    if (team == NULL) return AQ_OK;
    aq_status st = aqi_core_callable(__func__);
    if (st != AQ_OK) return st;
    if (team->dead)
        return aqi_fail(AQ_ESTATE, "core", "%s: the team has already been destroyed", __func__);
    if (team_built_in(team))
        return aqi_fail(AQ_EINVAL, "core",
                        "%s: this is a team of the library, which exists until aq_finalize",
                        __func__);
    if (core_barrier_pending(team))
        return aqi_fail(AQ_ESTATE, "core",
                        "%s: a barrier on the team is pending: wait for it first", __func__);
    if (!coll_idle(team))
        return aqi_fail(AQ_ESTATE, "core",
                        "%s: collectives on the team are in progress: wait for them first",
                        __func__);
    /*
     * After the first barrier, all members have arrived; after the second, none uses the shared
     * memory, so rank 0 can free it.
     */
    st = core_barrier_of(__func__, COLL_CODE_DESTROY, team);
    struct scratch_block block = team_block_made(team), local_block = team_block_made(team->local);
    if (st == AQ_OK && (team->coll->shm != NULL || team->shape != NULL)) {
        struct coll_shm *shm = team->coll->shm;
        core_lock(&core_teams_lock); /* threads that are about to sleep visit every team */
        team->coll->shm = NULL;
        core_unlock(&core_teams_lock);
        free(shm);
        team_unequip_local(team);
        st = core_barrier_of(__func__, COLL_CODE_DESTROY, team);
    }
    if (st == AQ_OK) scratch_free(&block);
    if (st == AQ_OK) scratch_free(&local_block);
    team_unequip(team);
    team_leave_tombstone(team);
    return st;
}

/* --- queries --------------------------------------------------------------------------------- */

aq_team *aq_team_neighborhood(void)
{
    return atomic_load(&core.open) ? &teams.neighborhood.team : NULL;
}

aq_team *aq_team_host(void)
{
    return atomic_load(&core.open) ? &teams.host.team : NULL;
}

static void team_query_places(const struct built_in *b, aq_rank *count, aq_rank *mine)
{
    bool open = atomic_load(&core.open);
    *count = open ? b->count : 1;
    *mine = open ? b->mine : 0;
}

void aq_job_neighborhoods(aq_rank *count, aq_rank *mine)
{
    team_query_places(&teams.neighborhood, count, mine);
}

void aq_job_hosts(aq_rank *count, aq_rank *mine)
{
    team_query_places(&teams.host, count, mine);
}
