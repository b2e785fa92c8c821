/*
 * The shape of a team that spans neighbourhoods: which members are in which, and the team of those
 * in ours. Every member computes the same from what all know.
 */
#include "core/coll/coll.h"

#include <stdlib.h>

/* Number the neighbourhoods by their first members; `node_group` has an entry for each job rank. */
static void shape_number_groups(const aq_team *team, struct coll_shape *shape, aq_rank *node_group)
{
    for (aq_rank i = 0; i < core.params.size; i++)
        node_group[i] = AQ_RANK_NONE;
    for (aq_rank i = 0; i < team->size; i++) {
        uint32_t node = core_node_of(aq_team_to_job(team, i));
        if (node_group[node] == AQ_RANK_NONE) node_group[node] = shape->groups++;
        shape->group_of[i] = node_group[node];
    }
    shape->mine = shape->group_of[team->rank];
}

/* Ranks by neighbourhood: a sort by counting. */
static void shape_sort_members(const aq_team *team, struct coll_shape *shape)
{
    for (aq_rank i = 0; i < team->size; i++)
        shape->start[shape->group_of[i] + 1]++;
    for (aq_rank g = 0; g < shape->groups; g++)
        shape->start[g + 1] += shape->start[g];
    shape->sorted = true;
    for (aq_rank g = 0, at = 0; g < shape->groups; g++)
        for (aq_rank i = 0; i < team->size; i++) {
            if (shape->group_of[i] != g) continue;
            shape->sorted = shape->sorted && at == i;
            shape->place[i] = at;
            shape->order[at++] = i;
        }
}

static struct coll_shape *shape_new(const aq_team *team)
{
    size_t n = team->size;
    struct coll_shape *shape = calloc(1, sizeof(*shape) + (4 * n + 1) * sizeof(aq_rank));
    aq_rank *node_group = calloc(core.params.size, sizeof(*node_group));
    if (shape == NULL || node_group == NULL) {
        free(shape);
        free(node_group);
        aqi_fail(AQ_ENOMEM, "core", "no memory for the neighbourhoods of a team");
        return NULL;
    }
    shape->group_of = shape->tables;
    shape->order = shape->tables + n;
    shape->place = shape->tables + 2 * n;
    shape->start = shape->tables + 3 * n;
    shape_number_groups(team, shape, node_group);
    shape_sort_members(team, shape);
    free(node_group);
    return shape;
}

static aq_team *shape_local_team(aq_team *team)
{
    const struct coll_shape *shape = team->shape;
    aq_rank size = coll_group_size(shape, shape->mine), first = shape->start[shape->mine];
    aq_team *local = core_team_new(size);
    if (local == NULL) return NULL;
    aq_rank *map = (aq_rank *)(uintptr_t)local->map;
    for (aq_rank i = 0; i < size; i++)
        map[i] = aq_team_to_job(team, shape->order[first + i]);
    local->rank = shape->place[team->rank] - first;
    local->whole = team;
    return local;
}

aq_status coll_shape_make(aq_team *team)
{
    struct coll_shape *shape = shape_new(team);
    if (shape == NULL) return AQ_ENOMEM;
    if (shape->groups == 1 || shape->groups == team->size) {
        free(shape); /* shared memory for all, or for nobody */
        return AQ_OK;
    }
    team->shape = shape;
    if (coll_group_size(shape, shape->mine) == 1) return AQ_OK;
    team->local = shape_local_team(team);
    return team->local != NULL ? AQ_OK : AQ_ENOMEM;
}

void coll_shape_free(aq_team *team)
{
    free(team->shape);
    team->shape = NULL;
}
