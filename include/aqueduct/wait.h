/* Waiting with poll(), for programs that also wait for something else. */
#ifndef AQUEDUCT_WAIT_H
#define AQUEDUCT_WAIT_H

#include <aqueduct/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A file descriptor that becomes readable when the library has something to do for this process:
 * messages, answers, requests for connections, the loss of a peer, the end of the job.
 *
 * For poll(), select() or an epoll set; nothing is to be read from it. It is readable in time only
 * after aq_wait_prepare, so a loop is: prepare; if that says AQ_OK, poll(); aq_poll; look at what
 * came. It stays the library's and is closed by aq_finalize.
 *
 * Blocking    Never.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK      `*fd` is the same at each call.
 * @return AQ_EINVAL  `fd` is NULL.
 * @return AQ_ELIMIT  No file descriptor is free.
 * @return AQ_ESTATE, AQ_ECONTEXT, AQ_ESYS, AQ_ENOMEM
 */
AQ_API AQ_MUST_USE aq_status aq_wait_fd(int *fd);

/**
 * About to sleep on the descriptor of aq_wait_fd: ask to be woken.
 *
 * To be called right before poll(), each time: other calls that wait may undo it. Peers pay for
 * waking this process only once it was called.
 *
 * Blocking    Never; runs no handler.
 * Threads     One at a time sleeps on the descriptor; not from inside a handler. With
 *             AQ_THREAD_MULTIPLE or the progress thread, others may make progress at the same time;
 *             what they take counts as there, too, and wakes.
 *
 * @return AQ_OK     Sleep: what arrives from now on makes the descriptor readable.
 * @return AQ_AGAIN  Something is there already, or another thread has taken something since the
 *                   last call: call aq_poll instead, and look at what the program waits for.
 * @return AQ_ESTATE, AQ_ECONTEXT, AQ_ELIMIT, AQ_ESYS, AQ_ENOMEM
 */
AQ_API AQ_MUST_USE aq_status aq_wait_prepare(void);

#ifdef __cplusplus
}
#endif
#endif
