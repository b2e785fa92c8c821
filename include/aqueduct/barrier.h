/* Split-phase barriers, named and anonymous. */
#ifndef AQUEDUCT_BARRIER_H
#define AQUEDUCT_BARRIER_H

#include <aqueduct/team.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AQ_BARRIER_ANONYMOUS 0x10u /**< `id` is ignored and matches everything */
#define AQ_BARRIER_MISMATCH  0x20u /**< make every member's wait report AQ_EMISMATCH */

/**
 * Say that this process has reached the barrier. Each notify is followed by one wait (or a
 * successful try) before the next notify of the team. Barriers of several teams may be pending at
 * once, and any traffic and collectives go on between the two (see aq_coll_barrier_nb for those
 * that complete by events).
 *
 * `flags` 0 names the barrier `id`: all members that name it must name the same.
 *
 * Ordering    Release: what was complete before is seen by all after their wait.
 * Blocking    May poll for resources, and so may run handlers.
 * Threads     One at a time for one team; not from inside a handler.
 *
 * @return AQ_OK      Notified.
 * @return AQ_ESTATE  A notify without its wait is pending, or not initialised.
 * @return AQ_EINVAL  The team is NULL or a pair (aq_team_pair), or unknown flags.
 * @return AQ_ENOMEM, AQ_ECONTEXT, AQ_EPEER
 */
AQ_API AQ_MUST_USE aq_status aq_barrier_notify(aq_team *team, int id, unsigned flags);

/**
 * Wait until every member of the team has notified.
 *
 * Ordering    Acquire.
 * Blocking    Until then; runs handlers.
 * Threads     One at a time for one team; not from inside a handler.
 *
 * @return AQ_OK         All have arrived.
 * @return AQ_EMISMATCH  All have arrived, but two named different ids or one passed
 *                       AQ_BARRIER_MISMATCH (everybody gets it), or the caller names another id
 *                       here than those that gave one agreed on.
 * @return AQ_ESTATE     Without notify, or not initialised.
 * @return AQ_EPEER      A member died.
 */
AQ_API AQ_MUST_USE aq_status aq_barrier_wait(aq_team *team, int id, unsigned flags);

/**
 * Poll once and ask whether the barrier is complete. Otherwise as aq_barrier_wait.
 *
 * Blocking    Never; may run handlers.
 *
 * @return AQ_AGAIN  Not yet; the barrier stays pending.
 * @return As aq_barrier_wait otherwise.
 */
AQ_API AQ_MUST_USE aq_status aq_barrier_try(aq_team *team, int id, unsigned flags);

/**
 * Wait until every member of the team has notified, but no longer than `timeout_ns`. Otherwise as
 * aq_barrier_wait.
 *
 * Blocking    For `timeout_ns` at most, as aq_poll_for; runs handlers.
 *
 * @return AQ_AGAIN  The time is over; the barrier stays pending.
 * @return As aq_barrier_wait otherwise.
 */
AQ_API AQ_MUST_USE aq_status aq_barrier_wait_for(aq_team *team, int id, unsigned flags,
                                                 uint64_t timeout_ns);

/**
 * Notify and wait, anonymously; as aq_barrier_wait and aq_barrier_notify.
 *
 * Ordering    Release and acquire: what any member had completed before is seen by all after it.
 *
 * @return AQ_OK      All have arrived.
 * @return AQ_ESTATE  A notify without its wait is pending, or not initialised.
 * @return As aq_barrier_notify and aq_barrier_wait.
 */
AQ_API AQ_MUST_USE aq_status aq_barrier(aq_team *team);

/**
 * What the last completed barrier of a team was named.
 *
 * Blocking    Never.
 * Threads     One at a time for one team, and not between notify and wait.
 *
 * @return AQ_OK        `*id` is the name that those who gave one agreed on.
 * @return AQ_AGAIN     All were anonymous, or there was no barrier yet.
 * @return AQ_EMISMATCH They disagreed.
 * @return AQ_ESTATE    Between notify and wait, or not initialised.
 * @return AQ_EINVAL    A pointer is NULL, or the team is a pair.
 * @return AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_barrier_result(aq_team *team, int *id);

#ifdef __cplusplus
}
#endif
#endif
