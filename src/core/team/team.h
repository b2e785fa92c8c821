/* Making teams and giving them up. */
#ifndef AQI_CORE_TEAM_H
#define AQI_CORE_TEAM_H

#include "core/coll/coll.h"

/* team.c: the teams of the library. */
aq_status core_teams_open(void);
void core_teams_close(void);

/* team.c: a team with room for `size` members, all zero; NULL, with the error recorded. */
aq_team *team_new(size_t size);
/* Make a team ready whose ranks are set; its memory comes from a block of its rank 0. */
aq_status team_equip(aq_team *team, uint32_t root, uint32_t count,
                     const struct scratch_block *block);
/* team/make.c: the endpoints that the parent names of its members. */
aq_status team_inherit_eps(aq_team *team, const aq_team *parent);
/* Collective over the parent: what one of its members cannot do none does. The first cause of it
 * is recorded for those who can. */
aq_status team_begin(const char *call, aq_team *parent, aq_status mine);
/* Of one that was never equipped. */
void team_free(aq_team *team);
/* The end of every call that makes teams: see there. Frees `team` when it fails. */
aq_status team_make(const char *call, aq_team *parent, aq_team *team, aq_status mine,
                    aq_team **out);
/* Free a team, in use or not, of which the others are not told. */
void team_drop(aq_team *team);
/* team/shrink.c: a call that made `team` has ended so for us. Where the job survives deaths it ends
 * alike for all members of `parent` who live: if one failed by a death, all do, and none has the
 * team. */
aq_status team_settle(const char *call, aq_team *parent, aq_status st, aq_team *team);

#endif
