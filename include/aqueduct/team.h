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
 * Ranks in the new team follow `key`, then the rank in `team`. Its members have the endpoints that
 * `team` names. With `color` AQ_COLOR_NONE the
 * caller takes part, joins nothing, and `team_out` may be NULL. A new team may be used at once; at
 * least 2^32 can be created in a job, and any number at one time that memory allows.
 *
 * Blocking    Collective over `team`, like the calls of <aqueduct/coll.h>; runs handlers.
 * Threads     One thread of each process for one team; not from inside a handler.
 *
 * @return AQ_OK        `*team_out` is valid until aq_team_destroy; NULL for AQ_COLOR_NONE.
 * @return AQ_EINVAL    `color` is below AQ_COLOR_NONE, unknown flags, or a pointer is NULL, here or
 *                      in another member of `team`: nobody has a new team.
 * @return AQ_ENOMEM    Some member has no memory for it: none has the team.
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
 * Create teams from lists that also say which endpoint of each member the team names.
 *
 * `eps[i]` is the index of an endpoint in the process of `members[i]`; NULL: those that `parent`
 * names, as aq_team_create. One-sided operations, messages and segment queries on the new team go
 * from the caller's endpoint there (aq_team_ep) to those of the others; collectives and barriers
 * are among the processes. A process is in a team once, with one endpoint.
 *
 * Blocking, Threads  As aq_team_create.
 *
 * @return AQ_OK        As aq_team_create.
 * @return AQ_EINVAL    As aq_team_create, an index is not below aq_ep_max(), or the caller has not
 *                      created its own endpoint: none of the list's members has the team.
 * @return AQ_ENOTSUP   The caller's endpoint was created without AQ_EP_COLL: likewise.
 * @return AQ_EMISMATCH The members or endpoints of two lists differ: none has the team.
 * @return AQ_ERANK, AQ_ENOMEM, AQ_EPEER, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_team_create_eps(aq_team *parent, const aq_rank *members,
                                                const unsigned *eps, size_t count, unsigned flags,
                                                aq_team **team_out);

/**
 * The index of the endpoint that `team` names in the process of its `rank`.
 *
 * Threads     Any, also inside handlers.
 *
 * @return     aq_ep_max() if there is no such rank.
 */
AQ_API unsigned aq_team_ep_index(const aq_team *team, aq_rank rank);

/**
 * Make a team of those members of `team` who live, in the order that they have there.
 *
 * For jobs that go on when a process dies (aq_on_peer_lost): collectives of `team`, so also
 * aq_team_split and aq_team_create, need the dead; those of the new team do not. All who return
 * AQ_OK have the same members. `team` may be the team of the job, and have no dead. Waits that the
 * living are in on `team` end with AQ_EPEER, so that they can come here; whoever knows of no death
 * and waits for something else has to be told by the program, from its aq_on_peer_lost say.
 *
 * Blocking    Collective over the living members of `team`; runs handlers.
 * Threads     One thread of each process for one team; not from inside a handler.
 *
 * @return AQ_OK        `*team_out` is valid until aq_team_destroy.
 * @return AQ_EPEER     Another member died meanwhile. All hear that: call it again.
 * @return AQ_ENOMEM    Some member has no memory for it: none has the team.
 * @return AQ_EINVAL    Unknown flags, or a pointer is NULL.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_team_shrink(aq_team *team, unsigned flags, aq_team **team_out);

/**
 * Destroy a team that aq_team_split, aq_team_create, aq_team_create_eps or aq_team_shrink made;
 * NULL is ignored.
 *
 * The caller's operations on the team, and its domains of atomics, must be complete. Teams of the
 * library (the whole job, neighbourhood, host, pairs) cannot be destroyed.
 *
 * Blocking    Collective over the team: until every member has called it; runs handlers.
 * Threads     One thread of each process; not from inside a handler.
 *
 * @return AQ_OK      The team is gone.
 * @return AQ_EINVAL  It is a team of the library.
 * @return AQ_ESTATE  A collective or barrier of the caller is under way on it, and it still exists;
 *                    or it has been destroyed already.
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
