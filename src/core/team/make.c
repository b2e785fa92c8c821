/* Making teams by colors and lists, and which endpoints of their members they name. */
#include "core/team/team.h"

#include <stdlib.h>

/* --- endpoints ------------------------------------------------------------------------------- */

unsigned aq_team_ep_index(const aq_team *team, aq_rank rank)
{
    aq_status st = AQ_OK;
    const struct core_route *route = core_route_to(team, rank, "aq_team_ep_index", &st);
    return route != NULL ? aqi_am_to_ep(route->to) : CORE_EPS;
}

/* Use endpoint `index` as this process's own, if its capabilities allow that. */
static aq_status team_own_ep(const char *call, aq_team *team, unsigned index)
{
    aq_ep *ep = atomic_load(&core.eps[index]);
    if (ep == NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: this process has no endpoint %u", call, index);
    if ((ep->capabilities & AQ_EP_COLL) == 0)
        return aqi_fail(AQ_ENOTSUP, "core", "%s: endpoint %u was created without AQ_EP_COLL", call,
                        index);
    team->ep = ep;
    team->from = aqi_am_from(index);
    return AQ_OK;
}

/* Use endpoint `eps[i]` of member `i` of a new team. */
static aq_status team_name_eps(const char *call, aq_team *team, const unsigned *eps)
{
    unsigned all = 0;
    for (aq_rank i = 0; i < team->size; i++) {
        if (eps[i] >= CORE_EPS)
            return aqi_fail(AQ_EINVAL, "core",
                            "%s: endpoint %u in entry %u is out of range: indices are below %u",
                            call, eps[i], i, CORE_EPS);
        all |= eps[i];
    }
    if (all == 0) return AQ_OK;
    aq_status st = team_own_ep(call, team, eps[team->rank]);
    if (st != AQ_OK) return st;
    uint32_t *at = malloc(team->size * sizeof(*at));
    if (at == NULL) return aqi_fail(AQ_ENOMEM, "core", "%s: out of memory", call);
    for (aq_rank i = 0; i < team->size; i++) {
        core_ep_reach(eps[i]);
        at[i] = eps[i] * core.params.size + team->map[i];
    }
    team->at = at;
    return AQ_OK;
}

aq_status team_inherit_eps(aq_team *team, const aq_team *parent)
{
    if (parent->at == parent->map) return AQ_OK;
    unsigned *eps = malloc(team->size * sizeof(*eps));
    if (eps == NULL) return aqi_fail(AQ_ENOMEM, "core", "no memory for a team");
    for (aq_rank i = 0; i < team->size; i++)
        eps[i] = aq_team_ep_index(parent, aq_team_from_job(parent, team->map[i]));
    aq_status st = team_name_eps("a new team", team, eps);
    free(eps);
    return st;
}

/* --- by colors ------------------------------------------------------------------------------- */

struct wish {
    int32_t color, key;
    aq_rank rank; /* in the parent */
};

static int team_by_key(const void *a, const void *b)
{
    const struct wish *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* A team of the members with our color, sorted by key. NULL: no memory. */
static aq_team *team_of_color(const aq_team *parent, struct wish *wishes, int color)
{
    size_t count = 0;
    for (aq_rank i = 0; i < parent->size; i++)
        if (wishes[i].color == color) wishes[count++] = wishes[i];
    aq_team *team = core_team_new(count);
    if (team == NULL) return NULL;
    qsort(wishes, count, sizeof(*wishes), team_by_key);
    aq_rank *map = (aq_rank *)(uintptr_t)team->map;
    for (aq_rank i = 0; i < count; i++) {
        if (wishes[i].rank == parent->rank) team->rank = i;
        map[i] = aq_team_to_job(parent, wishes[i].rank);
    }
    if (team_inherit_eps(team, parent) == AQ_OK) return team;
    core_team_free(team);
    return NULL;
}

/* Gather the wishes of all members; fails in all if one has an invalid wish or no memory. */
static aq_status team_gather_wishes(const char *call, aq_team *team, const struct wish *mine,
                                    aq_status can, struct wish *wishes)
{
    if (can == AQ_OK && wishes == NULL) can = AQ_ENOMEM;
    aq_status st = team_begin(call, team, can);
    return st == AQ_OK ? team_exchange(call, team, mine, wishes, sizeof(*mine)) : st;
}

aq_status aq_team_split(aq_team *team, int color, int key, unsigned flags, aq_team **team_out)
{
    aq_team *new = NULL;
    aq_status mine = AQ_OK, st = core_team_usable(__func__, team);
    if (st != AQ_OK) return st;
    struct wish wish = {color, key, team->rank}, *wishes = malloc(team->size * sizeof(wish));
    if (color < AQ_COLOR_NONE || flags != 0 || (team_out == NULL && color != AQ_COLOR_NONE))
        mine = AQ_EINVAL;
    st = team_gather_wishes(__func__, team, &wish, mine, wishes);
    if (st == AQ_OK) {
        if (color != AQ_COLOR_NONE) new = team_of_color(team, wishes, color);
        if (color != AQ_COLOR_NONE && new == NULL) mine = AQ_ENOMEM;
        st = team_make(__func__, team, new, mine, &new);
        if (st == AQ_OK && mine != AQ_OK) st = mine;
    }
    free(wishes);
    st = team_settle(__func__, team, st, new);
    if (mine == AQ_EINVAL)
        return aqi_fail(AQ_EINVAL, "core",
                        "%s: color %d (must be AQ_COLOR_NONE or at least 0), flags %#x (must be "
                        "0), or the team pointer is NULL",
                        __func__, color, flags);
    if (st == AQ_OK && team_out != NULL) *team_out = new;
    return st;
}

/* --- by lists -------------------------------------------------------------------------------- */

/* `seen` has an entry for each rank of the parent, all false; NULL if out of memory. */
static aq_status team_check_list(const char *call, const aq_team *parent, const aq_rank *members,
                                 size_t count, bool *seen)
{
    if (seen == NULL) return aqi_fail(AQ_ENOMEM, "core", "%s: out of memory", call);
    for (size_t i = 0; i < count; i++) {
        if (members[i] >= parent->size)
            return aqi_fail(AQ_ERANK, "core",
                            "%s: rank %u is not in the parent, which has %u ranks", call,
                            members[i], parent->size);
        if (seen[members[i]])
            return aqi_fail(AQ_EINVAL, "core", "%s: rank %u is listed twice", call, members[i]);
        seen[members[i]] = true;
    }
    if (!seen[parent->rank])
        return aqi_fail(AQ_EINVAL, "core", "%s: the list does not contain the caller, rank %u",
                        call, parent->rank);
    return AQ_OK;
}

/* `eps` NULL: use the endpoints that the parent names. Returns NULL on failure, with `*st` set. */
static aq_team *team_of_list(const char *call, const aq_team *parent, const aq_rank *members,
                             const unsigned *eps, size_t count, aq_status *st)
{
    bool *seen = calloc(parent->size, sizeof(*seen));
    *st = team_check_list(call, parent, members, count, seen);
    aq_team *team = *st == AQ_OK ? core_team_new(count) : NULL;
    free(seen);
    if (*st == AQ_OK && team == NULL) *st = AQ_ENOMEM;
    for (size_t i = 0; team != NULL && i < count; i++) {
        ((aq_rank *)(uintptr_t)team->map)[i] = aq_team_to_job(parent, members[i]);
        if (members[i] == parent->rank) team->rank = (aq_rank)i;
    }
    if (team == NULL) return NULL;
    *st = eps != NULL ? team_name_eps(call, team, eps) : team_inherit_eps(team, parent);
    if (*st == AQ_OK) return team;
    core_team_free(team);
    return NULL;
}

static aq_status team_create(const char *call, aq_team *parent, const aq_rank *members,
                             const unsigned *eps, size_t count, unsigned flags, aq_team **team_out)
{
    aq_status st = core_team_usable(call, parent);
    if (st != AQ_OK) return st;
    aq_team *new = NULL;
    aq_status mine = AQ_OK;
    if (flags != 0 || (count != 0 && (members == NULL || team_out == NULL)))
        mine = aqi_fail(AQ_EINVAL, "core", "%s: flags %#x (must be 0), or a pointer is NULL", call,
                        flags);
    else if (count != 0)
        new = team_of_list(call, parent, members, eps, count, &mine);
    st = team_make(call, parent, new, mine, &new);
    st = team_settle(call, parent, st, new);
    if (mine != AQ_OK) return mine;
    if (st == AQ_OK && team_out != NULL) *team_out = new;
    return st;
}

aq_status aq_team_create(aq_team *parent, const aq_rank *members, size_t count, unsigned flags,
                         aq_team **team_out)
{
    return team_create("aq_team_create", parent, members, NULL, count, flags, team_out);
}

aq_status aq_team_create_eps(aq_team *parent, const aq_rank *members, const unsigned *eps,
                             size_t count, unsigned flags, aq_team **team_out)
{
    return team_create("aq_team_create_eps", parent, members, eps, count, flags, team_out);
}
