/*
 * The shape of a team that spans neighborhoods: which members are in which, and the team of those
 * in ours. All members compute the same shape.
 */
#include "core/coll/coll.h"

#include <stdlib.h>

/* Number the neighborhoods by their first members. `group_of` has an entry for each number in
 * `nodes`. */
static void shape_number_groups(struct coll_shape *shape, aq_rank n, const uint32_t *nodes,
                                aq_rank *group_of)
{
    for (aq_rank i = 0; i < n; i++)
        group_of[nodes[i]] = AQ_RANK_NONE;
    for (aq_rank i = 0; i < n; i++) {
        if (group_of[nodes[i]] == AQ_RANK_NONE) group_of[nodes[i]] = shape->groups++;
        shape->group_of[i] = group_of[nodes[i]];
    }
}

/* Ranks by neighborhood: a counting sort. */
static void shape_sort_members(struct coll_shape *shape, aq_rank n)
{
    for (aq_rank i = 0; i < n; i++)
        shape->start[shape->group_of[i] + 1]++;
    for (aq_rank g = 0; g < shape->groups; g++)
        shape->start[g + 1] += shape->start[g];
    shape->sorted = true;
    for (aq_rank i = 0; i < n; i++) {
        shape->place[i] = shape->start[shape->group_of[i]]++;
        shape->order[shape->place[i]] = i;
        shape->sorted = shape->sorted && shape->place[i] == i;
    }
    for (aq_rank g = shape->groups; g > 0; g--)
        shape->start[g] = shape->start[g - 1];
    shape->start[0] = 0;
}

struct coll_shape *coll_shape_new(aq_rank n, aq_rank self, const uint32_t *nodes)
{
    uint32_t most = 0;
    for (aq_rank i = 0; i < n; i++)
        if (nodes[i] > most) most = nodes[i];
    struct coll_shape *shape = calloc(1, sizeof(*shape) + (4 * (size_t)n + 1) * sizeof(aq_rank));
    aq_rank *group_of = malloc(((size_t)most + 1) * sizeof(*group_of));
    if (shape != NULL && group_of != NULL) {
        shape->group_of = shape->tables;
        shape->order = shape->tables + n;
        shape->place = shape->order + n;
        shape->start = shape->place + n;
        shape_number_groups(shape, n, nodes, group_of);
        shape_sort_members(shape, n);
        shape->mine = shape->group_of[self];
    } else {
        free(shape);
        shape = NULL;
    }
    free(group_of);
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
    uint32_t *nodes = malloc(team->size * sizeof(*nodes));
    for (aq_rank i = 0; nodes != NULL && i < team->size; i++)
        nodes[i] = core_node_of(aq_team_to_job(team, i));
    struct coll_shape *shape = NULL;
    if (nodes != NULL) shape = coll_shape_new(team->size, team->rank, nodes);
    free(nodes);
    if (shape == NULL)
        return aqi_fail(AQ_ENOMEM, "core", "no memory for the neighborhoods of a team");
    if (shape->groups == 1 || shape->groups == team->size) {
        free(shape); /* all share memory, or none do */
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
