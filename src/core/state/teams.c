/* The teams of this process, by what messages call them. */
#include "core/state/state.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 64 };

static struct {
    struct aqi_spin lock;
    aq_team *bucket[BUCKETS]; /* by the hash of the id */
} teams;

void core_teams_reset(void)
{
    memset(&teams, 0, sizeof(teams));
}

static void teams_lock(void)
{
    if (core.multi) aqi_spin_lock(&teams.lock);
}

static void teams_unlock(void)
{
    if (core.multi) aqi_spin_unlock(&teams.lock);
}

static aq_team **teams_bucket_of(uint32_t root, uint32_t count)
{
    return &teams.bucket[(root * 31 + count) % BUCKETS];
}

aq_team *core_team_find(uint32_t root, uint32_t count)
{
    teams_lock();
    aq_team *team = *teams_bucket_of(root, count);
    while (team != NULL && (team->id[0] != root || team->id[1] != count))
        team = team->next;
    teams_unlock();
    return team;
}

void core_team_enter(aq_team *team)
{
    teams_lock();
    aq_team **bucket = teams_bucket_of(team->id[0], team->id[1]);
    team->next = *bucket;
    *bucket = team;
    teams_unlock();
}

void core_team_leave(aq_team *team)
{
    teams_lock();
    aq_team **at = teams_bucket_of(team->id[0], team->id[1]);
    while (*at != NULL && *at != team)
        at = &(*at)->next;
    if (*at != NULL) *at = team->next;
    teams_unlock();
}

void core_teams_hold(bool hold)
{
    if (hold)
        teams_lock();
    else
        teams_unlock();
}

bool core_team_each(bool (*fn)(aq_team *team))
{
    if (core.multi && !aqi_spin_try(&teams.lock)) return false;
    bool go = true;
    for (unsigned b = 0; b < BUCKETS && go; b++)
        for (aq_team *team = teams.bucket[b]; team != NULL && go; team = team->next)
            go = fn(team);
    teams_unlock();
    return go;
}

aq_team *core_team_any(void)
{
    aq_team *team = NULL;
    for (unsigned b = 0; b < BUCKETS && team == NULL; b++)
        team = teams.bucket[b];
    return team;
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
