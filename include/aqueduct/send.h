/* Messages on connections: gathered payloads, delivery events and timeouts. */
#ifndef AQUEDUCT_SEND_H
#define AQUEDUCT_SEND_H

#include <aqueduct/connection.h>
#include <aqueduct/vis.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AQ_SEND_HANDLED 0x800u /**< the event waits until the handler has run at the peer */

/** Options of aq_connection_send. Zero and NULL are defaults: begin with aq_send_defaults(). */
typedef struct aq_send_params {
    size_t struct_size;   /**< sizeof(aq_send_params) */
    const aq_vec *pieces; /**< of the payload, in this order */
    size_t count;         /**< number of pieces */
    const aq_arg *args;   /**< for the handler */
    unsigned nargs;       /**< number of arguments */
    unsigned flags;       /**< AQ_IMMEDIATE, AQ_FENCE, AQ_SEND_HANDLED */
    uint64_t timeout_ns;  /**< 0: that of aq_connection_send_timeout */
} aq_send_params;

/**
 * Return the default options of aq_connection_send.
 *
 * Blocking    Never.
 * Threads     Any.
 */
static inline aq_send_params aq_send_defaults(void)
{
    aq_send_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    return params;
}

/**
 * Send a Medium request to the peer of a connection.
 *
 * The payload is gathered from the pieces and has at most aq_am_max_medium() bytes. A single piece
 * is copied once, by the transport; several pieces are copied twice. To let the transport send from
 * the program's memory, use aq_am_medium with an event, or aq_am_long.
 *
 * If the message has not been delivered (with AQ_SEND_HANDLED: handled) in time, `*ev` completes
 * with AQ_ETIMEOUT; the peer may still get the message later. Timeouts expire only while this
 * process makes progress.
 *
 * Completion  Pieces and arguments may be reused on return. With `ev` NULL nothing is reported.
 *             Otherwise `*ev`, a root event, completes when the message is delivered: the peer's
 *             process has it and will handle it when it makes progress, even if this process has
 *             ended by then. With AQ_SEND_HANDLED it completes when the handler has run, and the
 *             handler of its reply, if any, has run here.
 * Ordering    On an ordered connection, that of the calls (see aq_connection_team). With AQ_FENCE,
 *             everything that this process has begun on the connection is complete before the
 *             message leaves.
 * Blocking    Until there is room for the message and, with AQ_FENCE, until earlier operations are
 *             complete; at most for the timeout. Runs handlers meanwhile. Never with AQ_IMMEDIATE.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK        Sent; `*ev` must be waited for. It fails with AQ_EPEER if the peer was lost
 *                      before.
 * @return AQ_AGAIN     Only with AQ_IMMEDIATE: not now; nothing was sent.
 * @return AQ_ETIMEOUT  There was no room in time; nothing was sent.
 * @return AQ_ESIZE     The payload is too long.
 * @return AQ_ESTATE    The connection is not open, or the library is not initialized.
 * @return AQ_EHANDLER, AQ_EINVAL, AQ_ENOMEM, AQ_EPEER, AQ_ECONTEXT  Nothing was sent.
 */
AQ_API AQ_MUST_USE aq_status aq_connection_send(aq_connection *connection, aq_handler handler,
                                                const aq_send_params *params, aq_event *ev);

/**
 * Set the timeout of messages that aq_connection_send sends from now on, in nanoseconds; 0: none
 * (the default).
 *
 * Blocking    Never.
 * Threads     One at a time; not from a handler.
 *
 * @return AQ_OK
 * @return AQ_EINVAL, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_connection_send_timeout(aq_connection *connection, uint64_t ns);

#ifdef __cplusplus
}
#endif
#endif
