/* The teams of this process, by their ids in messages, and the ranks of their members. */
#include "core/state/state.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024 };

struct aqi_spin core_teams_lock;
static struct {
    aq_team *bucket[BUCKETS]; /* by the hash of the id */
    aq_team *all;
    aq_team *active; /* teams that had operations when last visited */
} teams;
/*
 * Teams activated since then. Added without core_teams_lock, since the thread that adds one holds
 * the lock of the operations, which follows core_teams_lock in the lock order.
 */
static _Atomic(aq_team *) teams_woken;

void core_teams_reset(void)
{
    memset(&teams, 0, sizeof(teams));
    atomic_store(&teams_woken, NULL);
}

static unsigned teams_bucket_of(uint32_t root, uint32_t count)
{
    return (root * 31 + count) % BUCKETS;
}

aq_team *core_team_find(uint32_t root, uint32_t count)
{
    core_lock(&core_teams_lock);
    aq_team *team = teams.bucket[teams_bucket_of(root, count)];
    while (team != NULL && (team->id[0] != root || team->id[1] != count))
        team = team->next;
    core_unlock(&core_teams_lock);
    return team;
}

void core_team_enter(aq_team *team)
{
    core_lock(&core_teams_lock);
    unsigned b = teams_bucket_of(team->id[0], team->id[1]);
    team->next = teams.bucket[b];
    teams.bucket[b] = team;
    team->of_all = teams.all;
    team->at_all = &teams.all;
    if (teams.all != NULL) teams.all->at_all = &team->of_all;
    teams.all = team;
    core_unlock(&core_teams_lock);
}

/* Called with the lock held. */
static void teams_take_woken(void)
{
    if (atomic_load_explicit(&teams_woken, memory_order_relaxed) == NULL) return;
    /* Reads what the release in core_team_activate has published. */
    aq_team *team = atomic_exchange_explicit(&teams_woken, NULL, memory_order_acquire);
    while (team != NULL) {
        aq_team *next = team->of_active;
        team->of_active = teams.active;
        teams.active = team;
        team = next;
    }
}

void core_team_leave(aq_team *team)
{
    core_lock(&core_teams_lock);
    aq_team **at = &teams.bucket[teams_bucket_of(team->id[0], team->id[1])];
    while (*at != NULL && *at != team)
        at = &(*at)->next;
    if (*at != NULL) {
        *at = team->next;
        *team->at_all = team->of_all;
        if (team->of_all != NULL) team->of_all->at_all = team->at_all;
        teams_take_woken();
        for (at = &teams.active; *at != NULL && *at != team;)
            at = &(*at)->of_active;
        if (*at != NULL) *at = team->of_active;
    }
    core_unlock(&core_teams_lock);
}

bool core_team_each(bool (*fn)(aq_team *team))
{
    if (!core_try_lock(&core_teams_lock)) return false;
    bool go = true;
    for (aq_team *team = teams.all; team != NULL && go; team = team->of_all)
        go = fn(team);
    core_unlock(&core_teams_lock);
    return go;
}

void core_team_activate(aq_team *team)
{
    if (team->active) return;
    team->active = true;
    aq_team *first = atomic_load_explicit(&teams_woken, memory_order_relaxed);
    do
        team->of_active = first;
    while (!atomic_compare_exchange_weak_explicit(&teams_woken, &first, team, memory_order_release,
                                                  memory_order_relaxed));
}

void core_team_each_active(bool (*fn)(aq_team *team))
{
    if (!core_try_lock(&core_teams_lock)) return;
    teams_take_woken();
    for (aq_team **at = &teams.active, *team; (team = *at) != NULL;) {
        /* Once it is inactive, it may be activated again, and linked elsewhere. */
        aq_team *next = team->of_active;
        if (fn(team))
            at = &team->of_active;
        else
            *at = next;
    }
    core_unlock(&core_teams_lock);
}

aq_team *core_team_any(void)
{
    return teams.all;
}

aq_team *core_team_new(size_t size)
{
    aq_team *team = calloc(1, sizeof(*team));
    aq_rank *map = calloc(size, sizeof(*map));
    if (team == NULL || map == NULL) {
        free(team);
        free(map);
        aqi_fail(AQ_ENOMEM, "core", "no memory for a team of %zu", size);
        return NULL;
    }
    *team = (aq_team){.size = (aq_rank)size, .map = map, .at = map, .routes = core.routes};
    return team;
}

void core_team_clear(aq_team *team)
{
    if (team->at != team->map) free((void *)(uintptr_t)team->at);
    free((void *)(uintptr_t)team->map);
    team->map = team->at = NULL;
}

void core_team_free(aq_team *team)
{
    core_team_clear(team);
    free(team);
}

/* --- ranks ----------------------------------------------------------------------------------- */

aq_rank aq_team_to_job(const aq_team *team, aq_rank rank)
{
    if (team == NULL || rank >= team->size) return AQ_RANK_NONE;
    return team->map != NULL ? team->map[rank] : rank;
}

aq_rank aq_team_from_job(const aq_team *team, aq_rank job_rank)
{
    if (team == NULL) return AQ_RANK_NONE;
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
