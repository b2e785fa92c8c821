/* Teams: ordered sets of processes, and translation of ranks between them. */
#ifndef AQUEDUCT_TEAM_H
#define AQUEDUCT_TEAM_H

#include <aqueduct/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The color with which a caller of aq_team_split joins no team. */
#define AQ_COLOR_NONE (-1)

/**
 * Split a team: callers that pass the same `color` form a new team.
 *
 * Ranks in the new team are ordered by `key`, then by rank in `team`. Each member keeps the
 * endpoint that `team` names for it. With `color` AQ_COLOR_NONE the caller takes part but joins no
 * team, and `team_out` may be NULL. A new team may be used at once. At least 2^32 teams can be
 * created in a job; how many can exist at once is limited only by memory.
 *
 * Blocking    Collective over `team`, like the calls of <aqueduct/coll.h>; runs handlers.
 * Threads     One thread per process and team; not from a handler.
 *
 * @return AQ_OK        `*team_out` is valid until aq_team_destroy; NULL for AQ_COLOR_NONE.
 * @return AQ_EINVAL    `color` is below AQ_COLOR_NONE, a flag is unknown, or a pointer is NULL,
 *                      here or in another member of `team`: no member has a new team.
 * @return AQ_ENOMEM    A member is out of memory: no member has the team.
 * @return AQ_EPEER     A member of `team` died.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_team_split(aq_team *team, int color, int key, unsigned flags,
                                           aq_team **team_out);

/**
 * Create teams from lists: every member of a new team passes the same list of its members.
 *
 * `members` holds `count` different ranks of `parent`, in the order of their ranks in the new team.
 * The lists of any two callers must be equal or disjoint. With `count` 0 the caller joins no team,
 * and the pointers may be NULL.
 *
 * Blocking, Threads  As aq_team_split, collective over `parent`.
 *
 * @return AQ_OK        As aq_team_split.
 * @return AQ_ERANK     A member is not in `parent`.
 * @return AQ_EINVAL    The caller is not in its own list, or a rank is listed twice.
 * @return AQ_EMISMATCH The lists of two members differ: no member has the team.
 * @return AQ_ENOMEM, AQ_EPEER, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_team_create(aq_team *parent, const aq_rank *members, size_t count,
                                            unsigned flags, aq_team **team_out);

/**
 * Create teams from lists that also select the endpoint of each member.
 *
 * `eps[i]` is the index of an endpoint in the process of `members[i]`; NULL: those that `parent`
 * names, as aq_team_create. One-sided operations, messages and segment queries on the new team go
 * from the caller's endpoint in it (aq_team_ep) to those of the other members; collectives and
 * barriers are between the processes. A process is in a team only once, with one endpoint.
 *
 * Blocking, Threads  As aq_team_create.
 *
 * @return AQ_OK        As aq_team_create.
 * @return AQ_EINVAL    As aq_team_create, an index is not below aq_ep_max(), or the caller has not
 *                      created its own endpoint: no member of the list has the team.
 * @return AQ_ENOTSUP   The caller's endpoint was created without AQ_EP_COLL: no member has the
 *                      team.
 * @return AQ_EMISMATCH The members or endpoints of two lists differ: no member has the team.
 * @return AQ_ERANK, AQ_ENOMEM, AQ_EPEER, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_team_create_eps(aq_team *parent, const aq_rank *members,
                                                const unsigned *eps, size_t count, unsigned flags,
                                                aq_team **team_out);

/**
 * Return the index of the endpoint that `team` names in the process with `rank`.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return     aq_ep_max() if there is no such rank.
 */
AQ_API unsigned aq_team_ep_index(const aq_team *team, aq_rank rank);

/**
 * Create a team of the surviving members of `team`, in the same order.
 *
 * For jobs that continue when a process dies (aq_on_peer_lost). Collectives on `team`, including
 * aq_team_split and aq_team_create, need the dead members; those on the new team do not. All
 * callers that get AQ_OK have the same members. `team` may be the team of the job, and need not
 * have dead members. Waits of survivors on `team` end with AQ_EPEER, so that they can call this; a
 * process that has not noticed the death and waits for something else must be notified by the
 * program, for example from an aq_on_peer_lost callback.
 *
 * Blocking    Collective over the surviving members of `team`; runs handlers.
 * Threads     One thread per process and team; not from a handler.
 *
 * @return AQ_OK        `*team_out` is valid until aq_team_destroy.
 * @return AQ_EPEER     Another member died meanwhile; all callers get this. Call it again.
 * @return AQ_ENOMEM    A member is out of memory: no member has the team.
 * @return AQ_EINVAL    A flag is unknown, or a pointer is NULL.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_team_shrink(aq_team *team, unsigned flags, aq_team **team_out);

/**
 * Destroy a team created by aq_team_split, aq_team_create, aq_team_create_eps or aq_team_shrink;
 * NULL is ignored.
 *
 * The caller's operations on the team, including atomics through its domains, must be complete.
 * Teams owned by the library (the whole job, neighborhood, host, pairs) cannot be destroyed.
 *
 * Blocking    Collective over the team: until every member has called it; runs handlers.
 * Threads     One thread per process; not from a handler.
 *
 * @return AQ_OK      The team is destroyed.
 * @return AQ_EINVAL  The team is owned by the library.
 * @return AQ_ESTATE  A collective or barrier of the caller is in progress on the team, which still
 *                    exists; or the team was already destroyed.
 * @return AQ_EPEER   A member died; the team is destroyed anyway.
 * @return AQ_ECONTEXT
 */
AQ_API aq_status aq_team_destroy(aq_team *team);

/**
 * Return the team of processes that can load and store each other's segments and scratch memory.
 *
 * Its members are ordered by job rank.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return     A team owned by the library, valid until aq_finalize; NULL before aq_init.
 */
AQ_API aq_team *aq_team_neighborhood(void);

/**
 * Return the team of the processes of this host, ordered by job rank.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return     A team owned by the library, valid until aq_finalize; NULL before aq_init.
 */
AQ_API aq_team *aq_team_host(void);

/**
 * Get the number of neighborhoods in the job, and the index of the caller's.
 *
 * They are counted from 0 in the order of their lowest job ranks. Before aq_init: 1 and 0.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API void aq_job_neighborhoods(aq_rank *count, aq_rank *mine);

/**
 * Get the number of hosts in the job, and the index of the caller's; as aq_job_neighborhoods.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API void aq_job_hosts(aq_rank *count, aq_rank *mine);

/**
 * Translate `rank` in `team` to the rank of the same process in `other`.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return     The rank, or AQ_RANK_NONE if the process is not in `other` or `rank` is not in
 *             `team`.
 */
AQ_API aq_rank aq_team_translate(const aq_team *team, aq_rank rank, const aq_team *other);

/**
 * Return the job rank of a member of `team`.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return     AQ_RANK_NONE if there is no such rank.
 */
AQ_API aq_rank aq_team_to_job(const aq_team *team, aq_rank rank);

/**
 * Return the rank in `team` of the process with this job rank.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return     AQ_RANK_NONE if it is not a member.
 */
AQ_API aq_rank aq_team_from_job(const aq_team *team, aq_rank job_rank);

#ifdef __cplusplus
}
#endif
#endif
