/* Teams: ordered sets of processes, and how ranks of one translate to another. */
#ifndef AQUEDUCT_TEAM_H
#define AQUEDUCT_TEAM_H

#include <aqueduct/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The colour of a caller of aq_team_split that joins no team. */
#define AQ_COLOR_NONE (-1)

/**
 * Divide a team: the callers that give the same `color` form a new team.
 *
 * Ranks in the new team follow `key`, then the rank in `team`. With `color` AQ_COLOR_NONE the
 * caller takes part, joins nothing, and `team_out` may be NULL. A new team may be used at once; at
 * least 2^32 can be created in a job, and any number at one time that memory allows.
 *
 * Blocking    Collective over `team`, like the calls of <aqueduct/coll.h>; runs handlers.
 * Threads     One thread of each process for one team; not from inside a handler.
 *
 * @return AQ_OK        `*team_out` is valid until aq_team_destroy; NULL for AQ_COLOR_NONE.
 * @return AQ_EINVAL    `color` is below AQ_COLOR_NONE, unknown flags, or a pointer is NULL.
 * @return AQ_ENOMEM    Some member of the new team has no memory for it: none has the team.
 * @return AQ_EPEER     A member of `team` died.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_team_split(aq_team *team, int color, int key, unsigned flags,
                                           aq_team **team_out);

/**
 * Create teams from lists: every member of a new team gives the same list of its members.
 *
 * `members` holds `count` different ranks of `parent`, in the order that their ranks in the new
 * team are to have. The lists of two callers are the same or have no rank in common. `count` 0:
 * the caller joins nothing, and the pointers may be NULL.
 *
 * Blocking, Threads  As aq_team_split, collective over `parent`.
 *
 * @return AQ_OK        As aq_team_split.
 * @return AQ_ERANK     A member is not in `parent`.
 * @return AQ_EINVAL    The caller is not in its own list, or a rank is there twice.
 * @return AQ_EMISMATCH The lists of two members differ: none has the team.
 * @return AQ_ENOMEM, AQ_EPEER, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_team_create(aq_team *parent, const aq_rank *members, size_t count,
                                            unsigned flags, aq_team **team_out);

/**
 * Destroy a team that aq_team_split or aq_team_create made; NULL is ignored.
 *
 * The caller's operations on the team, and its domains of atomics, must be complete. Teams of the
 * library (the whole job, neighbourhood, host, pairs) cannot be destroyed.
 *
 * Blocking    Collective over the team: until every member has called it; runs handlers.
 * Threads     One thread of each process; not from inside a handler.
 *
 * @return AQ_OK      The team is gone.
 * @return AQ_EINVAL  It is a team of the library.
 * @return AQ_ESTATE  A collective or barrier of the caller is under way on it; it still exists.
 * @return AQ_EPEER   A member died; the team is gone all the same.
 * @return AQ_ECONTEXT
 */
AQ_API aq_status aq_team_destroy(aq_team *team);

/**
 * The team of the processes that can load and store each other's segments and scratch memory.
 *
 * Its members are in the order of their job ranks.
 *
 * Threads     Any, also inside handlers.
 *
 * @return     A team of the library, valid until aq_finalize; NULL before aq_init.
 */
AQ_API aq_team *aq_team_neighborhood(void);

/**
 * The team of the processes of this host, in the order of their job ranks.
 *
 * Threads     Any, also inside handlers.
 *
 * @return     A team of the library, valid until aq_finalize; NULL before aq_init.
 */
AQ_API aq_team *aq_team_host(void);

/**
 * How many neighbourhoods there are in the job, and which one is the caller's.
 *
 * They are counted from 0 in the order of their lowest job ranks. Before aq_init: 1 and 0.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API void aq_job_neighborhoods(aq_rank *count, aq_rank *mine);

/**
 * How many hosts there are in the job, and which one is the caller's; as aq_job_neighborhoods.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API void aq_job_hosts(aq_rank *count, aq_rank *mine);

/**
 * The rank in `other` of the process that has `rank` in `team`.
 *
 * Blocking    Never.
 * Threads     Any, also inside handlers.
 *
 * @return     AQ_RANK_NONE if it is not a member of `other`, or `rank` is not in `team`.
 */
AQ_API aq_rank aq_team_translate(const aq_team *team, aq_rank rank, const aq_team *other);

/**
 * The job rank of a member of `team`.
 *
 * Threads     Any, also inside handlers.
 *
 * @return     AQ_RANK_NONE if there is no such rank.
 */
AQ_API aq_rank aq_team_to_job(const aq_team *team, aq_rank rank);

/**
 * The rank in `team` of a process given by its job rank.
 *
 * Threads     Any, also inside handlers.
 *
 * @return     AQ_RANK_NONE if it is not a member.
 */
AQ_API aq_rank aq_team_from_job(const aq_team *team, aq_rank job_rank);

#ifdef __cplusplus
}
#endif
#endif
