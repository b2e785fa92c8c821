/* Completion: events of single operations, and the implicit set of a thread. */
#ifndef AQUEDUCT_EVENT_H
#define AQUEDUCT_EVENT_H

#include <aqueduct/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An outstanding operation. AQ_EVENT_DONE is an event that is complete.
 *
 * A *root* event represents the whole operation and must be waited for (or tested until complete)
 * exactly once, which releases it. A *leaf* represents a part of the operation, is optional, and is
 * valid until its root is released.
 */
typedef struct aqi_op *aq_event;

/** The event of an operation that is already complete; all zero bits. */
#define AQ_EVENT_DONE ((aq_event)0)

/**
 * Passed in place of the pointer to the local-completion event of a message: local completion then
 * joins the thread's implicit set, or its access region, as AQ_NBI_LOCAL.
 */
#define AQ_EVENT_GROUP ((aq_event *)1)

/** The kinds of implicit operations, as a mask for aq_nbi_test and aq_nbi_wait. */
#define AQ_NBI_PUT    0x1u /**< puts, memsets, atomic set: visible at the target */
#define AQ_NBI_GET    0x2u /**< gets, atomic get: the data has arrived */
#define AQ_NBI_ATOMIC 0x4u /**< other atomics: performed, results have arrived */
#define AQ_NBI_LOCAL  0x8u /**< sources of puts and messages may be reused */
#define AQ_NBI_ALL    0xfu

/**
 * Return the leaf event of local completion: the source memory of the operation may be reused.
 *
 * Blocking    Never.
 * Threads     Any.
 *
 * @return     A leaf of `root`, or AQ_EVENT_DONE if local completion has already happened.
 */
AQ_API aq_event aq_event_local(aq_event root);

/**
 * Return the leaf event of the kinds in `mask` of the operations that `root` represents: those that
 * aq_nbi_wait(mask) would wait for outside an access region. For the event of a single operation,
 * kinds that do not apply to it count as complete.
 *
 * A leaf needs no release. Until its root is released, any number of leaves may be obtained, tested
 * and waited for, including the same one repeatedly.
 *
 * Blocking    Never.
 * Threads     Any.
 *
 * @return     A leaf of `root`, or AQ_EVENT_DONE if these kinds are already complete.
 */
AQ_API aq_event aq_event_leaf(aq_event root, unsigned mask);

/**
 * Test whether an event is complete, without making progress.
 *
 * Blocking    Never; runs no handlers (call aq_poll to make progress).
 * Threads     Any, but only one at a time per event.
 *
 * @return AQ_OK      Complete: a root is released, and `*event` becomes AQ_EVENT_DONE.
 * @return AQ_AGAIN   Not yet complete.
 * @return AQ_EPEER   The peer died; a root is released anyway.
 * @return AQ_EINVAL  `event` is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_event_test(aq_event *event);

/**
 * Wait for an event, at most for `timeout_ns` (AQ_FOREVER: no limit). On a timeout the event is
 * unchanged and its operation stays outstanding; nothing is canceled.
 *
 * Blocking    Until it is complete or the time expires, as aq_poll_for; runs handlers.
 * Threads     Any, but only one at a time per event; not from a handler.
 *
 * @return AQ_OK        Complete: a root is released, and `*event` becomes AQ_EVENT_DONE.
 * @return AQ_AGAIN     Timed out; not complete.
 * @return AQ_EPEER     The peer died; a root is released anyway.
 * @return AQ_ECONTEXT  Called from a handler.
 * @return AQ_EINVAL    `event` is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_event_wait(aq_event *event, uint64_t timeout_ns);

/**
 * Test whether all of `count` events are complete; complete ones become AQ_EVENT_DONE. Otherwise as
 * aq_event_test.
 *
 * @return AQ_OK      All are complete (or `count` is 0).
 * @return AQ_AGAIN   At least one is not complete.
 * @return AQ_EPEER   The peer of a completed one died; it is released anyway.
 * @return AQ_EINVAL  `events` is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_event_test_all(aq_event *events, size_t count);

/**
 * Test whether any of `count` events are complete; complete ones become AQ_EVENT_DONE. Otherwise as
 * aq_event_test.
 *
 * @return AQ_OK      At least one was completed by this call, or none was outstanding.
 * @return AQ_AGAIN   None is complete.
 * @return AQ_EPEER   The peer of a completed one died; it is released anyway.
 * @return AQ_EINVAL  `events` is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_event_test_some(aq_event *events, size_t count);

/**
 * Wait for all of `count` events, at most for `timeout_ns`. Each that is complete becomes
 * AQ_EVENT_DONE, even on a timeout.
 *
 * Blocking    Until all are complete or the time expires; runs handlers.
 * Threads     As aq_event_wait.
 *
 * @return AQ_OK        All are complete.
 * @return AQ_AGAIN     Timed out; at least one is not complete.
 * @return AQ_EPEER     The peer of at least one died; all are released.
 * @return AQ_ECONTEXT  Called from a handler.
 * @return AQ_EINVAL    `events` is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_event_wait_all(aq_event *events, size_t count, uint64_t timeout_ns);

/**
 * Wait until at least one of `count` events is complete, at most for `timeout_ns`; those that are
 * become AQ_EVENT_DONE.
 *
 * Blocking    As aq_event_wait; returns at once if none is outstanding.
 * Threads     As aq_event_wait.
 *
 * @return AQ_OK        At least one was completed, or none was outstanding.
 * @return AQ_AGAIN     Timed out; none is complete.
 * @return AQ_EPEER     The peer of a completed one died.
 * @return AQ_ECONTEXT  Called from a handler.
 * @return AQ_EINVAL    `events` is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_event_wait_some(aq_event *events, size_t count,
                                                uint64_t timeout_ns);

/**
 * Test whether the calling thread's implicit operations of the kinds in `mask` are complete.
 *
 * Covers operations that this thread started with an _nbi call outside an access region and has not
 * yet synchronized. AQ_NBI_LOCAL alone tests the sources only and synchronizes nothing else.
 *
 * Blocking    Never; runs no handlers.
 * Threads     Any; not from a handler, nor inside an access region.
 *
 * @return AQ_OK      All are complete.
 * @return AQ_AGAIN   Some are not.
 * @return AQ_ESTATE  Inside an access region, or not initialized.
 * @return AQ_EINVAL, AQ_ECONTEXT
 * @return AQ_EPEER   A peer died before its operation completed; reported once.
 */
AQ_API AQ_MUST_USE aq_status aq_nbi_test(unsigned mask);

/**
 * Wait for the calling thread's implicit operations of the kinds in `mask`, at most for
 * `timeout_ns` (AQ_FOREVER: no limit). On a timeout they stay outstanding.
 *
 * Blocking    Until they are complete or the time expires; runs handlers.
 * Threads     Any; not from a handler, nor inside an access region.
 *
 * @return AQ_OK        All are complete.
 * @return AQ_AGAIN     Timed out; some are not complete.
 * @return AQ_EPEER     A peer died before its operation completed.
 * @return AQ_ECONTEXT  Called from a handler.
 * @return AQ_ESTATE    Inside an access region.
 */
AQ_API AQ_MUST_USE aq_status aq_nbi_wait(unsigned mask, uint64_t timeout_ns);

/**
 * Begin an access region: implicit operations that this thread starts from now on share one event.
 *
 * Blocking    Never.
 * Threads     Any; the region belongs to the calling thread. Not from a handler.
 *
 * @return AQ_OK      Begun.
 * @return AQ_ESTATE  Already in an access region (regions do not nest), or not initialized.
 * @return AQ_ENOMEM  Not enough memory for the event.
 */
AQ_API AQ_MUST_USE aq_status aq_nbi_begin(void);

/**
 * End the access region; `*event` is the root event of all operations started in it.
 *
 * Blocking    Never.
 * Threads     The thread that began it; not from a handler.
 *
 * @return AQ_OK      `*event` is valid; AQ_EVENT_DONE if all are complete.
 * @return AQ_ESTATE  Not in an access region.
 */
AQ_API AQ_MUST_USE aq_status aq_nbi_end(aq_event *event);

#ifdef __cplusplus
}
#endif
#endif
