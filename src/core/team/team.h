/* Making and destroying teams. */
#ifndef AQI_CORE_TEAM_H
#define AQI_CORE_TEAM_H

#include "core/coll/coll.h"

/* team.c */
aq_status core_teams_open(void);
void core_teams_close(void);
/* Make a team ready that has its members; `block` is its scratch memory, of rank 0. */
aq_status team_equip(aq_team *team, uint32_t root, uint32_t count,
                     const struct scratch_block *block);
/* The first collective over the parent: fails in all members if one cannot begin. */
aq_status team_begin(const char *call, aq_team *parent, aq_status mine);
/* An all-gather over the parent. */
aq_status team_exchange(const char *call, aq_team *parent, const void *mine, void *all,
                        size_t nbytes);
/* The end of every call that makes teams: see there. Frees `team` when it fails. */
aq_status team_make(const char *call, aq_team *parent, aq_team *team, aq_status mine,
                    aq_team **out);
/* Free a team, in use or not, without telling the others. */
void team_drop(aq_team *team);

/* make.c: name the endpoints that the parent names of its members. */
aq_status team_inherit_eps(aq_team *team, const aq_team *parent);

/* shrink.c: the status of a call that made `team`. Where the job survives deaths, it fails for all
 * living members of `parent` if it failed for one by a death, and none keeps the team. */
aq_status team_settle(const char *call, aq_team *parent, aq_status st, aq_team *team);

#endif
