/*
 * Makes a team of the survivors of another, whose collectives no longer work. The launcher sends
 * all of them the same list of living members; they make the new team through an interim one that
 * needs no shared memory, and agree that it exists.
 */
#include "core/team/team.h"

#include <stdlib.h>
#include <string.h>

/* In the id of an interim team, the rank has this bit set, which no process's rank has. */
#define SHRINK_INTERIM 0x80000000u

/* Ids of interim teams repeat after this many agreements. */
#define SHRINK_COUNT 0x4000u

/* Three sets of ranks. */
struct shrink {
    const char *call;
    aq_team *team;
    uint8_t *members;
    uint8_t *living; /* the result of the first agreement */
    uint8_t *now;
};

static void shrink_open(struct shrink *s, const char *call, aq_team *team)
{
    size_t bytes = core_set_bytes();
    uint8_t *sets = calloc(3, bytes);
    if (sets == NULL) /* the others would wait forever */
        core.boot.fatal(core.boot.arg, "no memory for the members of a team");
    *s = (struct shrink){call, team, sets, sets + bytes, sets + 2 * bytes};
    for (aq_rank i = 0; i < team->size; i++) {
        uint32_t rank = aq_team_to_job(team, i);
        s->members[rank / 8] |= (uint8_t)(1u << rank % 8);
    }
}

/*
 * The agreements of a team share one counter: members that are in different calls after a death
 * still take part in the same agreement, and both calls fail.
 */
static aq_status shrink_agree(struct shrink *s, aq_status mine, uint8_t *living)
{
    uint64_t what = (uint64_t)s->team->id[0] << 32 | s->team->id[1];
    return core_agree(what, s->team->agreed++, mine, s->members, living);
}

/* Also fails if another member has died since the first agreement. */
static aq_status shrink_agree_again(struct shrink *s, aq_status mine)
{
    aq_status st = shrink_agree(s, mine, s->now);
    return st == AQ_OK && memcmp(s->living, s->now, core_set_bytes()) != 0 ? AQ_EPEER : st;
}

aq_status team_settle(const char *call, aq_team *parent, aq_status st, aq_team *team)
{
    struct shrink s;
    if (!core.params.survive || parent->size == 1) return st;
    shrink_open(&s, call, parent);
    aq_status all = shrink_agree(&s, st == AQ_EPEER ? st : AQ_OK, s.living);
    free(s.members);
    if (all == AQ_OK || st != AQ_OK) return st;
    if (team != NULL) team_drop(team);
    return aqi_fail(all, "core",
                    "%s: the team was not created, because a member of the parent died", call);
}

/* A team of the living, in the order of the old team. */
static aq_team *shrink_team_of_living(const struct shrink *s)
{
    aq_team *found = core_team_new(s->team->size);
    if (found == NULL) return NULL;
    aq_rank *map = (aq_rank *)(uintptr_t)found->map;
    found->size = 0;
    for (aq_rank i = 0; i < s->team->size; i++) {
        uint32_t rank = aq_team_to_job(s->team, i);
        if (!core_set_has(s->living, rank)) continue;
        if (rank == core.params.rank) found->rank = found->size;
        map[found->size++] = rank;
    }
    if (team_inherit_eps(found, s->team) == AQ_OK) return found;
    core_team_free(found);
    return NULL;
}

static aq_status shrink_enter(const struct shrink *s, aq_team *interim)
{
    static const struct scratch_block none;
    uint32_t root = s->team->id[0] | SHRINK_INTERIM | s->team->agreed % SHRINK_COUNT << 17;
    return team_equip(interim, root, s->team->id[1], &none);
}

/* The second agreement confirms that all have entered the interim team. */
static aq_status shrink_make(struct shrink *s, aq_team *interim, aq_team **out)
{
    aq_status st = shrink_agree_again(s, interim != NULL ? shrink_enter(s, interim) : AQ_ENOMEM);
    if (st != AQ_OK) return st;
    aq_team *new = shrink_team_of_living(s);
    st = team_make(s->call, interim, new, new != NULL ? AQ_OK : AQ_ENOMEM, &new);
    bool made = st == AQ_OK && new != NULL;
    st = shrink_agree_again(s, made ? AQ_OK : st == AQ_OK ? AQ_ENOMEM : st);
    if (st == AQ_OK)
        *out = new;
    else if (made)
        team_drop(new);
    return st;
}

aq_status aq_team_shrink(aq_team *team, unsigned flags, aq_team **team_out)
{
    struct shrink s;
    aq_status st = core_team_usable(__func__, team);
    if (st != AQ_OK) return st;
    if (flags != 0 || team_out == NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: flags %#x (must be 0), or the team pointer is NULL",
                        __func__, flags);
    shrink_open(&s, __func__, team);
    st = shrink_agree(&s, AQ_OK, s.living);
    if (st == AQ_OK) {
        aq_team *interim = shrink_team_of_living(&s);
        st = shrink_make(&s, interim, team_out);
        if (interim != NULL) team_drop(interim);
    }
    free(s.members);
    if (st == AQ_OK) return AQ_OK;
    return aqi_fail(st, "core", "%s: %s", __func__,
                    st == AQ_EPEER ? "another member died in the meantime: call it again"
                                   : "a member of the team could not create it");
}
