/* Waiting with poll(), for programs that also wait for other descriptors. */
#ifndef AQUEDUCT_WAIT_H
#define AQUEDUCT_WAIT_H

#include <aqueduct/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Get a file descriptor that becomes readable when the library has work to do in this process:
 * messages, replies, connection requests, the loss of a peer, the end of the job.
 *
 * For use with poll(), select() or epoll; do not read from it. It is reliably readable only after
 * aq_wait_prepare, so the loop is: aq_wait_prepare; if it returns AQ_OK, poll(); aq_poll; check
 * what arrived. The descriptor belongs to the library and is closed by aq_finalize.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK      `*fd` is the same for each call.
 * @return AQ_EINVAL  `fd` is NULL.
 * @return AQ_ELIMIT  No file descriptor is available.
 * @return AQ_ESTATE, AQ_ECONTEXT, AQ_ESYS, AQ_ENOMEM
 */
AQ_API AQ_MUST_USE aq_status aq_wait_fd(int *fd);

/**
 * Arm the descriptor of aq_wait_fd before sleeping on it.
 *
 * Call it right before each poll(): other calls that wait may disarm the descriptor. Peers pay the
 * cost of waking this process only after such a call.
 *
 * Blocking    Never; runs no handlers.
 * Threads     Only one at a time may sleep on the descriptor; not from a handler. With
 *             AQ_THREAD_MULTIPLE or the progress thread, other threads may make progress meanwhile;
 *             what they handle also counts as an arrival and wakes the sleeper.
 *
 * @return AQ_OK     Sleep: whatever arrives from now on makes the descriptor readable.
 * @return AQ_AGAIN  Something has already arrived, or another thread has handled something since
 *                   the last call: call aq_poll instead, and check what the program waits for.
 * @return AQ_ESTATE, AQ_ECONTEXT, AQ_ELIMIT, AQ_ESYS, AQ_ENOMEM
 */
AQ_API AQ_MUST_USE aq_status aq_wait_prepare(void);

#ifdef __cplusplus
}
#endif
#endif
