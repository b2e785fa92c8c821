/* The teams of this process, by what messages call them. */
#include "core/state/state.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 64 };

struct aqi_spin core_teams_lock;
static struct {
    aq_team *bucket[BUCKETS]; /* by the hash of the id */
    uint64_t used;            /* bit b: bucket b is not empty; each poll of collectives asks all */
} teams;
static_assert(BUCKETS == 64, "one bit each");

void core_teams_reset(void)
{
    memset(&teams, 0, sizeof(teams));
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
    teams.used |= UINT64_C(1) << b;
    core_unlock(&core_teams_lock);
}

void core_team_leave(aq_team *team)
{
    core_lock(&core_teams_lock);
    unsigned b = teams_bucket_of(team->id[0], team->id[1]);
    aq_team **at = &teams.bucket[b];
    while (*at != NULL && *at != team)
        at = &(*at)->next;
    if (*at != NULL) *at = team->next;
    if (teams.bucket[b] == NULL) teams.used &= ~(UINT64_C(1) << b);
    core_unlock(&core_teams_lock);
}

bool core_team_each(bool (*fn)(aq_team *team))
{
    if (!core_try_lock(&core_teams_lock)) return false;
    bool go = true;
    for (uint64_t left = teams.used; left != 0 && go; left &= left - 1)
        for (aq_team *team = teams.bucket[__builtin_ctzll(left)]; team != NULL && go;
             team = team->next)
            go = fn(team);
    core_unlock(&core_teams_lock);
    return go;
}

aq_team *core_team_any(void)
{
    return teams.used != 0 ? teams.bucket[__builtin_ctzll(teams.used)] : NULL;
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
