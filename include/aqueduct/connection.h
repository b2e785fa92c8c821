/* Connections by URI: between programs that were not started together. */
#ifndef AQUEDUCT_CONNECTION_H
#define AQUEDUCT_CONNECTION_H

#include <aqueduct/am.h>
#include <aqueduct/job.h>
#include <aqueduct/segment.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A place where this process can be called. */
typedef struct aq_listener aq_listener;

/** A connection with one other process, from the call or the request on until it is closed. */
typedef struct aq_connection aq_connection;

/** What a connection is at the moment. */
typedef enum aq_connection_state {
    AQ_CONNECTION_CALLING = 1, /**< client: no answer yet */
    AQ_CONNECTION_ASKED = 2,   /**< server: a request that waits to be accepted or rejected */
    AQ_CONNECTION_JOINING = 3, /**< server: accepted; the client has not confirmed yet */
    AQ_CONNECTION_OPEN = 4,    /**< both sides can communicate */
    AQ_CONNECTION_ENDED = 5    /**< never came about, was closed by the peer, or lost it */
} aq_connection_state;

/** What has happened to a connection. */
typedef enum aq_connection_event_type {
    AQ_CONNECTION_REQUEST = 1, /**< server: somebody calls: accept or reject it */
    AQ_CONNECTION_OPENED = 2,  /**< it is open; for a client only after aq_connect_start */
    AQ_CONNECTION_FAILED = 3,  /**< client: refused, timed out or impossible; see `status` */
    AQ_CONNECTION_CLOSED = 4,  /**< the peer has closed it in good order; all it sent has come */
    AQ_CONNECTION_LOST = 5     /**< the peer died, gave up, or sent what makes no sense */
} aq_connection_event_type;

/** One event, as aq_connection_next_event gives it. */
typedef struct aq_connection_event {
    aq_connection_event_type type;
    aq_status status;          /**< why, of FAILED, CLOSED and LOST; else AQ_OK */
    aq_connection *connection; /**< to be closed by the program after the last event, too */
    aq_listener *listener;     /**< of a REQUEST: where it came in; else NULL */
    void *context;             /**< of the connection; of a REQUEST that of the listener */
} aq_connection_event;

/** What is known of a connection. */
typedef struct aq_connection_info {
    aq_connection_state state;
    aq_status status;   /**< why it ended; else AQ_OK */
    uint32_t code;      /**< the server's own, from aq_connection_reject */
    const char *reason; /**< why it ended, for people; "" while it has not */
    int64_t pid;        /**< the peer's process; 0: not known (yet, or in another pid namespace) */
    uint32_t uid;       /**< the peer's user, as the system says; UINT32_MAX: not known */
    const void *data;   /**< what the peer gave with its call or acceptance; until it is closed */
    size_t nbytes;      /**< of `data` */
} aq_connection_info;

#define AQ_LISTEN_ANYBODY  0x1u /**< take calls of all users, also without a secret */
#define AQ_CONNECT_ANYBODY 0x1u /**< the server may be another user; no secret is needed */
#define AQ_CONNECT_WAIT    0x2u /**< while nobody listens, keep trying until the time is out */

/** How to connect. Zero and NULL are defaults; set struct_size to sizeof(aq_connect_params). */
typedef struct aq_connect_params {
    size_t struct_size;
    const void *data;    /**< for the server, up to AQ_CONN_DATA bytes */
    size_t nbytes;       /**< of `data` */
    uint64_t timeout_ns; /**< 0: AQ_CONN_TIMEOUT */
    unsigned flags;      /**< AQ_CONNECT_ */
    aq_segment *segment; /**< what the peer may access; NULL: that of the first endpoint, if any */
    void *context;       /**< for aq_connection_context */
} aq_connect_params;

/** How to accept. Zero and NULL are defaults; set struct_size to sizeof(aq_accept_params). */
typedef struct aq_accept_params {
    size_t struct_size;
    const void *data;    /**< for the client, up to AQ_CONN_DATA bytes */
    size_t nbytes;       /**< of `data` */
    aq_segment *segment; /**< what the peer may access; NULL: that of the first endpoint, if any */
    void *context;       /**< for aq_connection_context */
} aq_accept_params;

/**
 * Listen at a URI, so that other programs can connect.
 *
 * `uri` is "shm://" and an absolute path, such as "shm:///services/time", for programs of this
 * host, in the same network namespace (containers often have one of their own). NULL, or a path
 * that ends with "/", is made unique with the process's id and a number: aq_listener_uri says what
 * clients are to call. Nothing of it is in the file system, and it is free again as soon as this
 * process ends, however it ends.
 *
 * Or "udp://HOST:PORT", with an IPv6 address in brackets, for those of other hosts, too: HOST is an
 * address or name of this host, 0.0.0.0 or [::] for all of them; without a port, or with 0, one is
 * chosen. Who calls must know the secret of AQ_CONNECT_SECRET, unless AQ_LISTEN_ANYBODY is set.
 *
 * Requests come as events (aq_connection_next_event); at most
 * AQ_CONN_BACKLOG may wait, further callers try again until their time is out.
 *
 * Blocking    Never.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK        `*listener` is valid until aq_listener_close.
 * @return AQ_ESTATE    Somebody listens there already, or the library is not initialised.
 * @return AQ_EINVAL    Not an address (of this host), unknown flags, or a pointer is NULL.
 * @return AQ_EACCESS   Over a network: there is no secret, and AQ_LISTEN_ANYBODY is not set; or
 *                      others may read its file.
 * @return AQ_ESETTING  Over a network: AQ_CONNECT_SECRET is neither file:PATH nor fd:NUMBER, what
 * it names cannot be read, or does not hold 16 to 4095 bytes.
 * @return AQ_ENOTSUP   No transport in use can listen (there).
 * @return AQ_ELIMIT, AQ_ENOMEM, AQ_ESYS, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_listen(const char *uri, unsigned flags, void *context,
                                       aq_listener **listener);

/**
 * What clients are to call.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API const char *aq_listener_uri(const aq_listener *listener);

/**
 * Listen no more; NULL is ignored.
 *
 * Requests that have not been taken as events are refused; connections stay.
 *
 * Blocking    Never.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK      The address is free.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API aq_status aq_listener_close(aq_listener *listener);

/**
 * Connect to a listener and wait until it has accepted.
 *
 * Tries again with growing pauses while the listener has no room. Nobody listening is a refusal at
 * once, unless AQ_CONNECT_WAIT is set; over a network, if the other host says so. A name in `uri`
 * is looked up by the system, which may take its time. The peer is rank 1 of aq_connection_team.
 *
 * Blocking    Runs handlers; at most for the time-out.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK         `*connection` is open; to be closed with aq_connection_close.
 * @return AQ_EREFUSED   Nobody listens there, or the server rejected; the message has its reason.
 * @return AQ_ETIMEOUT   No answer in time.
 * @return AQ_EACCESS    The server is another user, and AQ_CONNECT_ANYBODY is not set; or it has
 *                       not our AQ_CONNECT_SECRET; or, over a network, there is none, or others
 *                       may read its file.
 * @return AQ_ESETTING   As of aq_listen; or another setting that connections over a network use is
 *                       not legal (AQ_UDP_MTU, AQ_UDP_LOSSY).
 * @return AQ_EMISMATCH  The server has another version of the library.
 * @return AQ_ESIZE      More data than AQ_CONN_DATA, here or at the server.
 * @return AQ_EINVAL, AQ_ENOTSUP, AQ_ELIMIT, AQ_ENOMEM, AQ_EPROTO, AQ_ESTATE, AQ_ECONTEXT, AQ_ESYS
 */
AQ_API AQ_MUST_USE aq_status aq_connect(const char *uri, const aq_connect_params *params,
                                        aq_connection **connection);

/**
 * Begin to connect, as aq_connect does.
 *
 * The result comes as an event, AQ_CONNECTION_OPENED or AQ_CONNECTION_FAILED; or ask for it with
 * aq_connect_test or aq_connect_wait, which take the event away.
 *
 * Blocking    Never.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK        Begun; `*connection` is to be closed with aq_connection_close, also if it
 *                      fails.
 * @return AQ_EACCESS   Over a network: there is no secret, or others may read its file.
 * @return AQ_ESETTING  As of aq_connect.
 * @return AQ_EINVAL, AQ_ENOTSUP, AQ_ESIZE, AQ_ELIMIT, AQ_ENOMEM, AQ_ESTATE, AQ_ECONTEXT, AQ_ESYS
 */
AQ_API AQ_MUST_USE aq_status aq_connect_start(const char *uri, const aq_connect_params *params,
                                              aq_connection **connection);

/**
 * Is a started connection open? Makes no progress: call aq_poll in between.
 *
 * Blocking    Never.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK     Open.
 * @return AQ_AGAIN  Not decided.
 * @return           Else the failure, as of aq_connect.
 */
AQ_API AQ_MUST_USE aq_status aq_connect_test(aq_connection *connection);

/**
 * Wait until a started connection is open or has failed.
 *
 * Blocking    Runs handlers; at most for its time-out.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK  Open.
 * @return        Else the failure, as of aq_connect; it is still to be closed.
 */
AQ_API AQ_MUST_USE aq_status aq_connect_wait(aq_connection *connection);

/**
 * Take the oldest event of all connections and listeners of this process.
 *
 * Looks for new requests and ended connections itself now and then, but makes no other progress and
 * runs no handler. The end of a connection is told after all that its peer sent is delivered: if
 * something is left, that takes aq_poll or another call that makes progress.
 *
 * Blocking    Never.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK     `*event` is filled in.
 * @return AQ_AGAIN  There is none.
 * @return AQ_EINVAL, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_connection_next_event(aq_connection_event *event);

/**
 * Accept a request.
 *
 * When the client has confirmed, the event AQ_CONNECTION_OPENED comes, and messages of the client
 * only after it; if the client has given up, AQ_CONNECTION_LOST.
 *
 * Blocking    Never.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK         The answer is on its way.
 * @return AQ_EPEER      The client has given up or died; close the connection.
 * @return AQ_EPROTO     What it brought is not as it should be; likewise.
 * @return AQ_ESTATE     Not a request that waits for an answer.
 * @return AQ_ESIZE      More data than AQ_CONN_DATA.
 * @return AQ_EINVAL, AQ_ENOMEM, AQ_ELIMIT, AQ_ESETTING, AQ_ECONTEXT, AQ_ESYS
 */
AQ_API AQ_MUST_USE aq_status aq_connection_accept(aq_connection *connection,
                                                  const aq_accept_params *params);

/**
 * Reject a request and close it: the client's call fails with AQ_EREFUSED, `code` and `reason`.
 *
 * `reason` is text for people, up to 199 bytes; NULL: none.
 *
 * Blocking    Never.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK      `connection` is no more.
 * @return AQ_ESTATE  Not a request that waits for an answer.
 * @return AQ_EINVAL, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_connection_reject(aq_connection *connection, uint32_t code,
                                                  const char *reason);

/**
 * Close a connection in any state and give everything back; NULL is ignored.
 *
 * What was sent before is delivered to the peer, which then sees AQ_CONNECTION_CLOSED. Operations
 * under way are waited for, at most for AQ_CONN_TIMEOUT; they fail with AQ_EPEER after that. No
 * other thread uses the connection or its team any more, and events of operations on it have been
 * waited for. Its events that were not taken are forgotten.
 *
 * Blocking    Runs handlers if something is under way.
 * Threads     Any one; not from inside a handler.
 *
 * @return AQ_OK      `connection`, its team and its data are no more.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API aq_status aq_connection_close(aq_connection *connection);

/**
 * The team of an open connection: this process is rank 0, the peer rank 1, on both sides.
 *
 * It takes messages, puts, gets, scattered transfers and atomics; it has no collectives. Handlers
 * see messages of the peer with `source` 1 and ask aq_connection_of which connection it is. Once
 * the peer is lost, operations fail with AQ_EPEER. Valid until the connection is closed.
 *
 * Threads     Any, also inside handlers.
 *
 * @return     NULL before the connection is open.
 */
AQ_API aq_team *aq_connection_team(aq_connection *connection);

/**
 * The connection by which a message came; inside its handler.
 *
 * Blocking    Never.
 * Threads     The handler's.
 *
 * @return     NULL: it came from a process of the job.
 */
AQ_API aq_connection *aq_connection_of(const aq_am *am);

/**
 * What is known of a connection.
 *
 * Blocking    Never.
 * Threads     Any, also inside handlers.
 *
 * @return AQ_OK      `*info` is filled in.
 * @return AQ_EINVAL  A pointer is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_connection_query(const aq_connection *connection,
                                                 aq_connection_info *info);

/**
 * The program's own pointer, as given when connecting or accepting, or set since.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API void *aq_connection_context(const aq_connection *connection);

/**
 * Set the program's own pointer.
 *
 * Threads     Any one at a time, also inside handlers.
 */
AQ_API void aq_connection_set_context(aq_connection *connection, void *context);

#ifdef __cplusplus
}
#endif
#endif
