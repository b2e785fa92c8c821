/* Teams: making and destroying them, finding them by what messages call them, translating ranks. */
#include "core/coll_impl.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 64 };

static struct {
    struct aqi_spin lock;
    aq_team *buckets[BUCKETS]; /* by the hash of the id */
    aq_team neighborhood, host;
    aq_rank neighborhoods, hosts, my_neighborhood, my_host;
    uint32_t made; /* teams of which this process was rank 0: half of an id */
} teams;

/* Ids of the teams of the library: no process has made them. */
enum { ID_WORLD, ID_NEIGHBORHOOD, ID_HOST, ID_FIRST };

static void teams_lock(void)
{
    if (core.multi) aqi_spin_lock(&teams.lock);
}

static void teams_unlock(void)
{
    if (core.multi) aqi_spin_unlock(&teams.lock);
}

static aq_team **bucket_of(uint32_t root, uint32_t count)
{
    return &teams.buckets[(root * 31 + count) % BUCKETS];
}

aq_team *team_find(uint32_t root, uint32_t count)
{
    teams_lock();
    aq_team *team = *bucket_of(root, count);
    while (team != NULL && (team->id[0] != root || team->id[1] != count))
        team = team->next;
    teams_unlock();
    return team;
}

static void enter(aq_team *team)
{
    teams_lock();
    aq_team **bucket = bucket_of(team->id[0], team->id[1]);
    team->next = *bucket;
    *bucket = team;
    teams_unlock();
}

static void leave(aq_team *team)
{
    teams_lock();
    aq_team **at = bucket_of(team->id[0], team->id[1]);
    while (*at != NULL && *at != team)
        at = &(*at)->next;
    if (*at != NULL) *at = team->next;
    teams_unlock();
}

bool team_each(bool (*fn)(aq_team *team))
{
    if (core.multi && !aqi_spin_try(&teams.lock)) return false;
    bool go = true;
    for (unsigned b = 0; b < BUCKETS && go; b++)
        for (aq_team *team = teams.buckets[b]; team != NULL && go; team = team->next)
            go = fn(team);
    teams_unlock();
    return go;
}

/* --- the teams of the library ---------------------------------------------------------------- */

/* Make a team ready whose ranks are set; its memory comes from a block of its rank 0. */
static aq_status equip(aq_team *team, uint32_t root, uint32_t count,
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
    enter(team);
    return AQ_OK;
}

static void unequip(aq_team *team)
{
    leave(team);
    coll_close(team); /* may hold an operation of the barrier */
    core_barrier_close(team);
    free((void *)(uintptr_t)team->map);
    team->map = NULL;
}

/* The members of a built-in team: those whose place is ours. */
static aq_status gather_places(aq_team *team, uint32_t (*place_of)(uint32_t), aq_rank *count,
                               aq_rank *mine)
{
    uint32_t size = core.params.size, here = place_of(core.params.rank);
    aq_rank *map = malloc(size * sizeof(*map));
    if (map == NULL) return aqi_fail(AQ_ENOMEM, "core", "no memory for a team");
    *team = (aq_team){.map = map};
    *count = *mine = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        uint32_t first = 0;
        while (place_of(first) != place_of(rank))
            first++;
        if (first == rank && place_of(rank) == here) *mine = *count;
        *count += first == rank;
        if (place_of(rank) != here) continue;
        if (rank == core.params.rank) team->rank = team->size;
        map[team->size++] = rank;
    }
    return AQ_OK;
}

aq_status core_teams_open(void)
{
    struct scratch_block block;
    memset(&teams, 0, sizeof(teams));
    teams.made = ID_FIRST;
    core_coll_handlers();
    scratch_block_of(&core.world, SCRATCH_WORLD, &block);
    aq_status st = equip(&core.world, 0, ID_WORLD, &block);
    if (st == AQ_OK)
        st = gather_places(&teams.neighborhood, scratch_node_of, &teams.neighborhoods,
                           &teams.my_neighborhood);
    if (st == AQ_OK) {
        scratch_block_of(&teams.neighborhood, SCRATCH_NEIGHBORS, &block);
        st = equip(&teams.neighborhood, teams.neighborhood.map[0], ID_NEIGHBORHOOD, &block);
    }
    if (st == AQ_OK) st = gather_places(&teams.host, scratch_host_of, &teams.hosts, &teams.my_host);
    if (st == AQ_OK) {
        scratch_block_of(&teams.host, SCRATCH_HOST, &block);
        st = equip(&teams.host, teams.host.map[0], ID_HOST, &block);
    }
    return st;
}

void core_teams_close(void)
{
    unequip(&core.world);
    unequip(&teams.neighborhood);
    unequip(&teams.host);
    /* The program's own, if it has not destroyed them. */
    for (unsigned b = 0; b < BUCKETS; b++)
        while (teams.buckets[b] != NULL) {
            aq_team *team = teams.buckets[b];
            unequip(team);
            free(team);
        }
}

static bool built_in(const aq_team *team)
{
    return team == &core.world || team->pair || team == &teams.neighborhood || team == &teams.host;
}

aq_status core_team_usable(const char *call, const aq_team *team)
{
    aq_status st = aqi_core_callable(call);
    if (st != AQ_OK) return st;
    if (team == NULL) return aqi_fail(AQ_EINVAL, "core", "%s: the team is NULL", call);
    if (team->pair)
        return aqi_fail(AQ_EINVAL, "core",
                        "%s: a team from aq_team_pair only addresses: it has no collectives", call);
    return AQ_OK;
}

/* --- making teams ---------------------------------------------------------------------------- */

/* What rank 0 of a new team says to its members through the parent. */
struct offer {
    uint32_t root, count;
    struct scratch_block block;
    int32_t status;
    uint32_t size;
    uint64_t hash; /* of the members: lists that differ are found out */
};

static uint64_t hash_members(const aq_team *team)
{
    uint64_t hash = 1469598103934665603u;
    for (aq_rank i = 0; i < team->size; i++)
        hash = (hash ^ team->map[i]) * 1099511628211u;
    return hash;
}

/* What one member could not do, all must hear; `answers` has room for one of each. */
static aq_status agree(const char *call, aq_team *parent, const aq_team *team, aq_status mine,
                       struct offer *answers)
{
    struct offer answer = {.status = mine};
    struct coll_args args = {
        .kind = COLL_ALLGATHER, .src = &answer, .dst = answers, .nbytes = sizeof(answer)};
    aq_status st = coll_run(call, parent, &args);
    if (st != AQ_OK || mine != AQ_OK) return st != AQ_OK ? st : mine;
    for (aq_rank i = 0; st == AQ_OK && team != NULL && i < team->size; i++) {
        const struct offer *other = &answers[aq_team_from_job(parent, team->map[i])];
        if (other->status != AQ_OK)
            st = aqi_fail((aq_status)other->status, "core",
                          "%s: no team, because job rank %u could not make it: %s", call,
                          team->map[i], aq_status_text((aq_status)other->status));
    }
    return st;
}

/* Do all members mean the same team? */
static aq_status compare(const char *call, const aq_team *parent, const aq_team *team,
                         const struct offer *offers)
{
    uint64_t hash = hash_members(team);
    for (aq_rank i = 0; i < team->size; i++) {
        const struct offer *other = &offers[aq_team_from_job(parent, team->map[i])];
        if (other->status == AQ_OK && (other->size != team->size || other->hash != hash))
            return aqi_fail(AQ_EMISMATCH, "core", "%s: job rank %u gave another list of members",
                            call, team->map[i]);
    }
    return AQ_OK;
}

/*
 * `team` has its members, or is NULL for a caller that joins nothing. Three steps, all through the
 * parent: rank 0 of each new team says its id and memory; everybody says whether it could; and when
 * that is known everywhere all have entered the team and messages for it find it.
 */
static aq_status make(const char *call, aq_team *parent, aq_team *team, aq_status mine,
                      aq_team **out)
{
    struct offer offer = {.status = mine}, *offers = malloc(parent->size * sizeof(offer));
    bool entered = false;
    if (offers == NULL) return aqi_fail(AQ_ENOMEM, "core", "%s: no memory", call);
    if (team != NULL) {
        offer.hash = hash_members(team);
        offer.size = team->size;
    }
    if (team != NULL && team->rank == 0) {
        offer.root = core.params.rank;
        teams_lock();
        offer.count = teams.made++;
        teams_unlock();
        scratch_alloc(team, &offer.block);
    }
    struct coll_args args = {
        .kind = COLL_ALLGATHER, .src = &offer, .dst = offers, .nbytes = sizeof(offer)};
    aq_status st = coll_run(call, parent, &args);
    if (st == AQ_OK && team != NULL) {
        const struct offer *first = &offers[aq_team_from_job(parent, team->map[0])];
        mine = compare(call, parent, team, offers);
        if (mine == AQ_OK) mine = equip(team, first->root, first->count, &first->block);
        entered = true;
    }
    if (st == AQ_OK) st = agree(call, parent, team, mine, offers);
    free(offers);
    if (st == AQ_OK) {
        *out = team;
        return AQ_OK;
    }
    if (team == NULL) return st;
    if (team->rank == 0) scratch_free(&offer.block);
    if (entered) unequip(team);
    free((void *)(uintptr_t)team->map);
    free(team);
    return st;
}

static aq_team *team_new(size_t size)
{
    aq_team *team = calloc(1, sizeof(*team));
    aq_rank *map = calloc(size, sizeof(*map));
    if (team == NULL || map == NULL) {
        free(team);
        free(map);
        aqi_fail(AQ_ENOMEM, "core", "no memory for a team of %zu", size);
        return NULL;
    }
    team->size = (aq_rank)size;
    team->map = map;
    return team;
}

struct wish {
    int32_t color, key;
    aq_rank rank; /* in the parent */
};

static int by_key(const void *a, const void *b)
{
    const struct wish *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* The members with our colour, sorted. NULL: no memory. */
static aq_team *same_color(const aq_team *parent, struct wish *wishes, int color)
{
    size_t count = 0;
    for (aq_rank i = 0; i < parent->size; i++)
        if (wishes[i].color == color) wishes[count++] = wishes[i];
    aq_team *team = team_new(count);
    if (team == NULL) return NULL;
    qsort(wishes, count, sizeof(*wishes), by_key);
    aq_rank *map = (aq_rank *)(uintptr_t)team->map;
    for (aq_rank i = 0; i < count; i++) {
        if (wishes[i].rank == parent->rank) team->rank = i;
        map[i] = aq_team_to_job(parent, wishes[i].rank);
    }
    return team;
}

aq_status aq_team_split(aq_team *team, int color, int key, unsigned flags, aq_team **team_out)
{
    static const char call[] = "aq_team_split";
    aq_status st = core_team_usable(call, team);
    if (st != AQ_OK) return st;
    if (color < AQ_COLOR_NONE || flags != 0 || (team_out == NULL && color != AQ_COLOR_NONE))
        return aqi_fail(AQ_EINVAL, "core",
                        "%s: colour %d (0 and up, or AQ_COLOR_NONE), flags %#x (0), or no place "
                        "for the team",
                        call, color, flags);
    struct wish wish = {color, key, team->rank}, *wishes = malloc(team->size * sizeof(wish));
    if (wishes == NULL) return aqi_fail(AQ_ENOMEM, "core", "%s: no memory", call);
    struct coll_args args = {
        .kind = COLL_ALLGATHER, .src = &wish, .dst = wishes, .nbytes = sizeof(wish)};
    st = coll_run(call, team, &args);
    aq_team *new = NULL;
    if (st == AQ_OK) {
        aq_status mine = AQ_OK;
        if (color != AQ_COLOR_NONE) new = same_color(team, wishes, color);
        if (color != AQ_COLOR_NONE && new == NULL) mine = AQ_ENOMEM;
        st = make(call, team, new, mine, &new);
        if (st == AQ_OK && mine != AQ_OK) st = mine;
    }
    free(wishes);
    if (st == AQ_OK && team_out != NULL) *team_out = new;
    return st;
}

/* The team of a list; NULL: `*st` says what is wrong with it. */
static aq_team *from_list(const char *call, const aq_team *parent, const aq_rank *members,
                          size_t count, aq_status *st)
{
    aq_team *team = NULL;
    bool *seen = calloc(parent->size, sizeof(*seen));
    *st = AQ_OK;
    for (size_t i = 0; seen != NULL && i < count && *st == AQ_OK; i++) {
        if (members[i] >= parent->size)
            *st = aqi_fail(AQ_ERANK, "core", "%s: rank %u is not in the parent, which has %u", call,
                           members[i], parent->size);
        else if (seen[members[i]])
            *st = aqi_fail(AQ_EINVAL, "core", "%s: rank %u is listed twice", call, members[i]);
        else
            seen[members[i]] = true;
    }
    if (seen != NULL && *st == AQ_OK && !seen[parent->rank])
        *st = aqi_fail(AQ_EINVAL, "core", "%s: the caller, rank %u, is not in its own list", call,
                       parent->rank);
    if (*st == AQ_OK) team = seen != NULL ? team_new(count) : NULL;
    if (*st == AQ_OK && team == NULL) *st = AQ_ENOMEM;
    for (size_t i = 0; team != NULL && i < count; i++) {
        ((aq_rank *)(uintptr_t)team->map)[i] = aq_team_to_job(parent, members[i]);
        if (members[i] == parent->rank) team->rank = (aq_rank)i;
    }
    free(seen);
    return team;
}

aq_status aq_team_create(aq_team *parent, const aq_rank *members, size_t count, unsigned flags,
                         aq_team **team_out)
{
    static const char call[] = "aq_team_create";
    aq_status st = core_team_usable(call, parent);
    if (st != AQ_OK) return st;
    aq_team *new = NULL;
    aq_status mine = AQ_OK;
    if (flags != 0 || (count != 0 && (members == NULL || team_out == NULL)))
        mine = aqi_fail(AQ_EINVAL, "core", "%s: flags %#x (0), or a pointer is NULL", call, flags);
    else if (count != 0)
        new = from_list(call, parent, members, count, &mine);
    st = make(call, parent, new, mine, &new);
    if (mine != AQ_OK) return mine;
    if (st == AQ_OK && team_out != NULL) *team_out = new;
    return st;
}

aq_status aq_team_destroy(aq_team *team)
{
    static const char call[] = "aq_team_destroy";
    if (team == NULL) return AQ_OK;
    aq_status st = aqi_core_callable(call);
    if (st != AQ_OK) return st;
    if (built_in(team))
        return aqi_fail(AQ_EINVAL, "core", "%s: a team of the library, which ends with it", call);
    if (core_barrier_pending(team))
        return aqi_fail(AQ_ESTATE, "core", "%s: a barrier is pending on it: wait for it first",
                        call);
    if (!coll_idle(team))
        return aqi_fail(AQ_ESTATE, "core", "%s: collectives are under way on it: wait for them",
                        call);
    /* Who leaves this barrier knows that all are here; who made the memory takes it back after a
     * second one, when none looks at it any more. */
    st = aq_barrier(team);
    struct scratch_block block = {.offset = team->block[0], .size = team->block[1]};
    if (st == AQ_OK && block.size != 0) {
        coll_shm_free(team->coll->shm);
        team->coll->shm = NULL;
        st = aq_barrier(team);
    }
    if (team->rank == 0 && st == AQ_OK) scratch_free(&block);
    unequip(team);
    free(team);
    return st;
}

/* --- asking ---------------------------------------------------------------------------------- */

aq_team *aq_team_neighborhood(void)
{
    return atomic_load(&core.open) ? &teams.neighborhood : NULL;
}

aq_team *aq_team_host(void)
{
    return atomic_load(&core.open) ? &teams.host : NULL;
}

void aq_job_neighborhoods(aq_rank *count, aq_rank *mine)
{
    bool open = atomic_load(&core.open);
    *count = open ? teams.neighborhoods : 1;
    *mine = open ? teams.my_neighborhood : 0;
}

void aq_job_hosts(aq_rank *count, aq_rank *mine)
{
    bool open = atomic_load(&core.open);
    *count = open ? teams.hosts : 1;
    *mine = open ? teams.my_host : 0;
}

aq_rank aq_team_to_job(const aq_team *team, aq_rank rank)
{
    if (rank >= team->size) return AQ_RANK_NONE;
    return team->map != NULL ? team->map[rank] : rank;
}

aq_rank aq_team_from_job(const aq_team *team, aq_rank job_rank)
{
    if (team->map == NULL) return job_rank < team->size ? job_rank : AQ_RANK_NONE;
    for (aq_rank i = 0; i < team->size; i++)
        if (team->map[i] == job_rank) return i;
    return AQ_RANK_NONE;
}

aq_rank aq_team_translate(const aq_team *team, aq_rank rank, const aq_team *other)
{
    aq_rank job_rank = aq_team_to_job(team, rank);
    return job_rank == AQ_RANK_NONE ? AQ_RANK_NONE : aq_team_from_job(other, job_rank);
}
