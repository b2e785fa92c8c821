/* Completion: events of single operations and the implicit set of a thread. */
#ifndef AQUEDUCT_EVENT_H
#define AQUEDUCT_EVENT_H

#include <aqueduct/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An operation under way. AQ_EVENT_DONE is one that is complete.
 *
 * A *root* event stands for the whole operation and must be waited for (or tested until it
 * succeeds) exactly once; that releases it. A *leaf* stands for a part, is optional, and is valid
 * until its root is released.
 */
typedef struct aqi_op *aq_event;

/** The event of an operation that is already complete; all zero bits. */
#define AQ_EVENT_DONE ((aq_event)0)

/**
 * In place of a place for the event of a message's local completion: count it in the thread's
 * implicit set, or in its access region, as AQ_NBI_LOCAL.
 */
#define AQ_EVENT_GROUP ((aq_event *)1)

/** The kinds of implicit operations, as a mask for aq_nbi_test and aq_nbi_wait. */
#define AQ_NBI_PUT    0x1u /**< puts, memsets, atomic set: visible at the target */
#define AQ_NBI_GET    0x2u /**< gets, atomic get: the data has arrived */
#define AQ_NBI_ATOMIC 0x4u /**< other atomics: performed, results have arrived */
#define AQ_NBI_LOCAL  0x8u /**< sources of puts and messages may be reused */
#define AQ_NBI_ALL    0xfu

/**
 * The leaf event of local completion: the source memory of the operation may be reused.
 *
 * Blocking    Never.
 * Threads     Any.
 *
 * @return     A leaf of `root`, or AQ_EVENT_DONE when local completion has already happened.
 */
AQ_API aq_event aq_event_local(aq_event root);

/**
 * The leaf event of some kinds of the operations that `root` stands for: what aq_nbi_wait(mask)
 * would have waited for, had they been outside the access region. For the event of one operation
 * the kinds that it is not of are complete.
 *
 * A leaf creates nothing to release. Until its root is released any number of leaves may be asked
 * for, tested and waited for, the same one repeatedly too.
 *
 * Blocking    Never.
 * Threads     Any.
 *
 * @return     A leaf of `root`, or AQ_EVENT_DONE when these kinds are complete already.
 */
AQ_API aq_event aq_event_leaf(aq_event root, unsigned mask);

/**
 * Ask whether an event is complete, without making progress.
 *
 * Blocking    Never; runs no handler (call aq_poll for progress).
 * Threads     Any, but one at a time for one event.
 *
 * @return AQ_OK     Complete: a root is released, and `*event` becomes AQ_EVENT_DONE.
 * @return AQ_AGAIN  Not yet.
 * @return AQ_EPEER  The peer died; a root is released all the same.
 * @return AQ_EINVAL  `event` is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_event_test(aq_event *event);

/**
 * Wait for an event.
 *
 * Blocking    Until it is complete; runs handlers.
 * Threads     Any, but one at a time for one event; not from inside a handler.
 *
 * @return AQ_OK        Complete: a root is released, and `*event` becomes AQ_EVENT_DONE.
 * @return AQ_EPEER     The peer died; the root is released all the same.
 * @return AQ_ECONTEXT  Called from a handler.
 * @return AQ_EINVAL  `event` is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_event_wait(aq_event *event);

/**
 * Ask whether all of `count` events are complete; those that are become AQ_EVENT_DONE. Otherwise as
 * aq_event_test.
 *
 * @return AQ_OK     All complete (also when `count` is 0).
 * @return AQ_AGAIN  At least one is not.
 * @return AQ_EPEER  The peer of one that completed died; it is released all the same.
 * @return AQ_EINVAL  `events` is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_event_test_all(aq_event *events, size_t count);

/**
 * Ask whether some of `count` events are complete; those that are become AQ_EVENT_DONE. Otherwise
 * as aq_event_test.
 *
 * @return AQ_OK     At least one was completed by this call, or none was outstanding.
 * @return AQ_AGAIN  None is complete.
 * @return AQ_EPEER  The peer of one that completed died; it is released all the same.
 * @return AQ_EINVAL  `events` is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_event_test_some(aq_event *events, size_t count);

/**
 * Wait for all of `count` events; each becomes AQ_EVENT_DONE.
 *
 * Blocking    Until all are complete; runs handlers.
 * Threads     As aq_event_wait.
 *
 * @return AQ_OK        All complete.
 * @return AQ_EPEER     The peer of at least one died; all are released.
 * @return AQ_ECONTEXT  Called from a handler.
 * @return AQ_EINVAL  `events` is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_event_wait_all(aq_event *events, size_t count);

/**
 * Wait until at least one of `count` events is complete; those that are become AQ_EVENT_DONE.
 *
 * Blocking    As aq_event_wait; returns at once when none is outstanding.
 * Threads     As aq_event_wait.
 *
 * @return AQ_OK        At least one was completed, or none was outstanding.
 * @return AQ_EPEER     The peer of one that completed died.
 * @return AQ_ECONTEXT  Called from a handler.
 * @return AQ_EINVAL  `events` is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_event_wait_some(aq_event *events, size_t count);

/**
 * Wait for an event, but no longer than `timeout_ns`: aq_event_test with patience. The event stays
 * as it is when the time is over, and its operation under way; nothing is cancelled.
 *
 * Blocking    For `timeout_ns` at most, as aq_poll_for; runs handlers.
 * Threads     As aq_event_wait.
 *
 * @return AQ_AGAIN  The time is over, and it is not complete.
 * @return As aq_event_wait otherwise.
 */
AQ_API AQ_MUST_USE aq_status aq_event_wait_for(aq_event *event, uint64_t timeout_ns);

/**
 * Wait for all of `count` events, but no longer than `timeout_ns`; those that are complete become
 * AQ_EVENT_DONE in any case. Otherwise as aq_event_wait_for.
 *
 * @return AQ_AGAIN  The time is over, and at least one is not complete.
 * @return As aq_event_wait_all otherwise.
 */
AQ_API AQ_MUST_USE aq_status aq_event_wait_all_for(aq_event *events, size_t count,
                                                   uint64_t timeout_ns);

/**
 * Wait until at least one of `count` events is complete, but no longer than `timeout_ns`. Otherwise
 * as aq_event_wait_for.
 *
 * @return AQ_AGAIN  The time is over, and none is complete.
 * @return As aq_event_wait_some otherwise.
 */
AQ_API AQ_MUST_USE aq_status aq_event_wait_some_for(aq_event *events, size_t count,
                                                    uint64_t timeout_ns);

/**
 * Ask whether the calling thread's implicit operations of the kinds in `mask` are complete.
 *
 * Covers what this thread started with an _nbi call outside an access region and has not yet
 * synchronised. AQ_NBI_LOCAL alone asks about the sources only and synchronises nothing else.
 *
 * Blocking    Never; runs no handler.
 * Threads     Any; not from inside a handler; not inside an access region.
 *
 * @return AQ_OK     All complete.
 * @return AQ_AGAIN  Some are not.
 * @return AQ_ESTATE  Inside an access region, or not initialised.
 * @return AQ_EINVAL, AQ_ECONTEXT
 * @return AQ_EPEER  A peer died before its operation completed; that is reported once.
 */
AQ_API AQ_MUST_USE aq_status aq_nbi_test(unsigned mask);

/**
 * Wait for the calling thread's implicit operations of the kinds in `mask`.
 *
 * Blocking    Until they are complete; runs handlers.
 * Threads     Any; not from inside a handler; not inside an access region.
 *
 * @return AQ_OK        All complete.
 * @return AQ_EPEER     A peer died before its operation completed.
 * @return AQ_ECONTEXT  Called from a handler.
 * @return AQ_ESTATE    Inside an access region.
 */
AQ_API AQ_MUST_USE aq_status aq_nbi_wait(unsigned mask);

/**
 * Begin an access region: implicit operations of this thread now belong to one event.
 *
 * Blocking    Never.
 * Threads     Any; the region is the calling thread's. Not from inside a handler.
 *
 * @return AQ_OK      Begun.
 * @return AQ_ESTATE  Already inside one (regions do not nest), or not initialised.
 * @return AQ_ENOMEM  No memory for the event.
 */
AQ_API AQ_MUST_USE aq_status aq_nbi_begin(void);

/**
 * End the access region; `*event` is the root event of all operations started inside it.
 *
 * Blocking    Never.
 * Threads     The one that began it; not from inside a handler.
 *
 * @return AQ_OK      `*event` is valid; AQ_EVENT_DONE if all are complete.
 * @return AQ_ESTATE  Not inside a region.
 */
AQ_API AQ_MUST_USE aq_status aq_nbi_end(aq_event *event);

#ifdef __cplusplus
}
#endif
#endif
