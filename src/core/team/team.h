/* Making and destroying teams. */
#ifndef AQI_CORE_TEAM_H
#define AQI_CORE_TEAM_H

#include "core/coll/coll.h"

/* team.c */
aq_status core_teams_open(void);
void core_teams_close(void);
/* Prepare a team that has its members; `block` is its scratch memory, allocated by rank 0. */
aq_status team_equip(aq_team *team, uint32_t root, uint32_t count,
                     const struct scratch_block *block);
/* The first collective over the parent: fails in all members if one cannot begin. */
aq_status team_begin(const char *call, aq_team *parent, aq_status mine);
/* An all-gather over the parent. */
aq_status team_exchange(const char *call, aq_team *parent, const void *mine, void *all,
                        size_t nbytes);
/* The last step of every call that makes teams: see team.c. Frees `team` on failure. */
aq_status team_make(const char *call, aq_team *parent, aq_team *team, aq_status mine,
                    aq_team **out);
/* Free a team, in use or not, without notifying the others. */
void team_drop(aq_team *team);

/* make.c: name the endpoints of its members that the parent names. */
aq_status team_inherit_eps(aq_team *team, const aq_team *parent);

/*
 * shrink.c: the final status of a call that made `team`. In a job that survives deaths, if a death
 * made it fail in one member of `parent`, it fails in all living ones, and none keeps the team.
 */
aq_status team_settle(const char *call, aq_team *parent, aq_status st, aq_team *team);

#endif
