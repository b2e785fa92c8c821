/* Split-phase barriers, named and anonymous. */
#ifndef AQUEDUCT_BARRIER_H
#define AQUEDUCT_BARRIER_H

#include <aqueduct/event.h>
#include <aqueduct/team.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Wait until every member of the team has called this. The barrier has no name.
 *
 * All forms of barriers follow the rules for collectives (aq_coll_broadcast): the members start the
 * same barriers in the same order.
 *
 * Ordering    Release and acquire: operations that a member completed before the barrier are
 *             visible to all members after it.
 * Blocking    Until all members have called it; runs handlers.
 * Threads     One at a time per team; not from a handler.
 *
 * @return AQ_OK      All have arrived.
 * @return AQ_ESTATE  A notify without its wait is pending, or not initialized.
 * @return AQ_EPEER   A member died.
 * @return AQ_EINVAL  The team is NULL or a pair (aq_team_pair).
 * @return AQ_ENOMEM, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_barrier(aq_team *team);

/**
 * Start a barrier that completes through an event; several may be outstanding.
 *
 * Completion  `*ev` completes when all members have started the barrier.
 * Ordering    Release at the start, acquire at completion.
 * Blocking    Never.
 * Threads     One at a time per team; not from a handler.
 *
 * @return AQ_OK      Started; `*ev` is valid (AQ_EVENT_DONE if already complete). Waiting for it
 *                    returns AQ_EPEER if a member died.
 * @return AQ_EINVAL  The team is NULL or a pair, `flags` has a bit other than AQ_IMMEDIATE (which
 *                    has no effect), or `ev` is NULL.
 * @return AQ_ENOMEM, AQ_EPEER, AQ_ESTATE, AQ_ECONTEXT  Nothing was started.
 */
AQ_API AQ_MUST_USE aq_status aq_barrier_nb(aq_team *team, unsigned flags, aq_event *ev);

#define AQ_BARRIER_ANONYMOUS 0x10u /**< `id` is ignored; matches any name */
#define AQ_BARRIER_MISMATCH  0x20u /**< make the wait of every member return AQ_EMISMATCH */

/**
 * Announce that this process has reached the barrier. Each notify must be followed by one completed
 * wait before the next notify on the team. Barriers of several teams may be pending at once, and
 * other communication, including collectives, is allowed between notify and wait.
 *
 * With `flags` 0 the barrier is named `id`: all members that give a name must give the same one.
 *
 * Ordering    Release: operations completed before are visible to all members after their wait.
 * Blocking    May poll for resources and run handlers meanwhile.
 * Threads     One at a time per team; not from a handler.
 *
 * @return AQ_OK      Notified.
 * @return AQ_ESTATE  The previous notify has not been waited for, or not initialized.
 * @return AQ_EINVAL  The team is NULL or a pair (aq_team_pair), or a flag is unknown.
 * @return AQ_ENOMEM, AQ_ECONTEXT, AQ_EPEER
 */
AQ_API AQ_MUST_USE aq_status aq_barrier_notify(aq_team *team, int id, unsigned flags);

/**
 * Wait until every member of the team has notified, at most for `timeout_ns` (AQ_FOREVER: no limit;
 * 0: poll once and test).
 *
 * Ordering    Acquire.
 * Blocking    Until all members have notified or the time expires; runs handlers.
 * Threads     One at a time per team; not from a handler.
 *
 * @return AQ_OK         All have arrived.
 * @return AQ_AGAIN      Timed out; the barrier stays pending.
 * @return AQ_EMISMATCH  All have arrived, but two members used different names or one passed
 *                       AQ_BARRIER_MISMATCH (every member gets this), or the caller passes a name
 *                       here that differs from the one agreed on.
 * @return AQ_ESTATE     Called without a notify, or not initialized.
 * @return AQ_EPEER      A member died.
 */
AQ_API AQ_MUST_USE aq_status aq_barrier_wait(aq_team *team, int id, unsigned flags,
                                             uint64_t timeout_ns);

/**
 * Get the name of the last completed barrier of a team.
 *
 * Blocking    Never.
 * Threads     One at a time per team, and not between notify and wait.
 *
 * @return AQ_OK        `*id` is the name given by all members that were not anonymous.
 * @return AQ_AGAIN     All were anonymous, or there was no barrier yet.
 * @return AQ_EMISMATCH The names differed.
 * @return AQ_ESTATE    Between notify and wait, or not initialized.
 * @return AQ_EINVAL    A pointer is NULL, or the team is a pair.
 * @return AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_barrier_result(aq_team *team, int *id);

#ifdef __cplusplus
}
#endif
#endif
