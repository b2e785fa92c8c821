/* Connections by URI, between programs that were not started together. */
#ifndef AQUEDUCT_CONNECTION_H
#define AQUEDUCT_CONNECTION_H

#include <aqueduct/am.h>
#include <aqueduct/job.h>
#include <aqueduct/segment.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An address at which this process accepts connections. */
typedef struct aq_listener aq_listener;

/** A connection to another process, from connecting until it is closed; or to a multicast group. */
typedef struct aq_connection aq_connection;

/** The state of a connection. */
typedef enum aq_connection_state {
    AQ_CONNECTION_CALLING = 1, /**< client: no reply yet */
    AQ_CONNECTION_ASKED = 2,   /**< server: a request that has not been accepted or rejected yet */
    AQ_CONNECTION_JOINING = 3, /**< server: accepted; the client has not confirmed yet */
    AQ_CONNECTION_OPEN = 4,    /**< both sides can communicate */
    AQ_CONNECTION_ENDED = 5    /**< failed, closed by the peer, or the peer was lost */
} aq_connection_state;

/** Types of connection events. */
typedef enum aq_connection_event_type {
    AQ_CONNECTION_REQUEST = 1, /**< server: a client's request, to be accepted or rejected */
    AQ_CONNECTION_OPENED = 2,  /**< open; a client gets this only after aq_connect_start */
    AQ_CONNECTION_FAILED = 3,  /**< client: refused, timed out or impossible; see `status` */
    AQ_CONNECTION_CLOSED = 4,  /**< closed by the peer; everything it sent has been delivered */
    AQ_CONNECTION_LOST = 5,    /**< the peer died, abandoned its request, or sent malformed data */
    AQ_CONNECTION_SILENT = 6,  /**< no reply for the time set by aq_connection_keepalive */
    AQ_LISTENER_DOWN = 7,      /**< the network interface of a listener is down; see `status` */
    AQ_LISTENER_UP = 8         /**< the network interface is up again */
} aq_connection_event_type;

/** A connection event, as returned by aq_connection_next_event. */
typedef struct aq_connection_event {
    aq_connection_event_type type;
    aq_status status;          /**< the cause, for FAILED, CLOSED, LOST and DOWN; otherwise AQ_OK */
    aq_connection *connection; /**< must be closed by the program, even after the last event; NULL
                                  for events of a listener */
    aq_listener *listener;     /**< for REQUEST, DOWN and UP; otherwise NULL */
    void *context;             /**< the connection's; for events of a listener, the listener's */
    uint64_t aqi_reserved[4];
} aq_connection_event;

/** Properties of a connection. */
typedef struct aq_connection_info {
    aq_connection_state state;
    aq_status status;   /**< why it ended; otherwise AQ_OK */
    uint32_t code;      /**< the server's code, from aq_connection_reject */
    const char *reason; /**< why it ended, as text; "" if it has not */
    int64_t pid;        /**< the peer's process; 0: not (yet) known, or in another pid namespace */
    uint32_t uid;       /**< the peer's user, as reported by the system; UINT32_MAX: not known */
    const void *data;   /**< data that the peer passed to connect or accept; valid until closed */
    size_t nbytes;      /**< size of `data` */
    unsigned flags; /**< AQ_CONNECT_ORDERED, _UNRELIABLE and _GROUP_…, as the client set them */
    uint64_t aqi_reserved[3];
} aq_connection_info;

#define AQ_LISTEN_ANYBODY  0x100000u /**< accept clients of all users, also without a secret */
#define AQ_CONNECT_ANYBODY 0x200000u /**< the server may be another user's; no secret is needed */
#define AQ_CONNECT_WAIT    0x400000u /**< while nothing listens, keep trying until the timeout */
#define AQ_CONNECT_ORDERED 0x800000u /**< keep the order of messages, see aq_connection_team */

#define AQ_CONNECT_UNRELIABLE                                                                      \
    0x20000000u /**< requests over udp may be lost, see aq_connection_team */
#define AQ_CONNECT_GROUP_SEND    0x40000000u /**< send to a multicast group, see aq_connect */
#define AQ_CONNECT_GROUP_RECEIVE 0x80000000u /**< receive from a multicast group */

/** Flag of aq_connection_send and of region accesses: begin only when everything that this process
 * has begun on the connection is complete. */
#define AQ_FENCE 0x400u

/** Options of aq_connect. Zero and NULL are defaults: begin with aq_connect_defaults(). */
typedef struct aq_connect_params {
    size_t struct_size;  /**< sizeof(aq_connect_params) */
    const void *data;    /**< for the server, up to AQ_CONN_DATA bytes */
    size_t nbytes;       /**< size of `data` */
    uint64_t timeout_ns; /**< 0: AQ_CONN_TIMEOUT */
    unsigned flags;      /**< AQ_CONNECT_ */
    aq_segment *segment; /**< the peer may access it; NULL: that of the first endpoint, if any */
    void *context;       /**< for aq_connection_context */
} aq_connect_params;

/**
 * Return the default options of aq_connect.
 *
 * Blocking    Never.
 * Threads     Any.
 */
static inline aq_connect_params aq_connect_defaults(void)
{
    aq_connect_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    return params;
}

/** Options of aq_connection_accept. Zero and NULL are defaults: begin with aq_accept_defaults(). */
typedef struct aq_accept_params {
    size_t struct_size;  /**< sizeof(aq_accept_params) */
    const void *data;    /**< for the client, up to AQ_CONN_DATA bytes */
    size_t nbytes;       /**< size of `data` */
    aq_segment *segment; /**< the peer may access it; NULL: that of the first endpoint, if any */
    void *context;       /**< for aq_connection_context */
} aq_accept_params;

/**
 * Return the default options of aq_connection_accept.
 *
 * Blocking    Never.
 * Threads     Any.
 */
static inline aq_accept_params aq_accept_defaults(void)
{
    aq_accept_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    return params;
}

/**
 * Listen at a URI, so that other programs can connect.
 *
 * `uri` is "shm://" followed by an absolute path, such as "shm:///services/time", for programs on
 * this host in the same network namespace. (Containers often have their own: set AQ_SHM_FOLDER to a
 * folder that they share.) NULL, or a path that ends with "/", is made unique with the process id
 * and a number; aq_listener_uri returns the result for clients. Unless AQ_SHM_FOLDER is set,
 * nothing is created in the file system, and the address is free again as soon as this process
 * ends, however it ends.
 *
 * To be reachable from other hosts as well, `uri` is "udp://HOST:PORT", with an IPv6 address in
 * brackets. HOST is an address or name of this host; 0.0.0.0 or [::] stands for all of them. If the
 * port is missing or 0, one is chosen. Clients must know the secret of AQ_CONNECT_SECRET, unless
 * AQ_LISTEN_ANYBODY is set.
 *
 * Requests arrive as events (aq_connection_next_event). At most AQ_CONN_BACKLOG may be pending;
 * further clients retry until they time out.
 *
 * If the interface with the address of HOST stops working, AQ_LISTENER_DOWN is reported, with the
 * cause as status: AQ_EPEER if it has no carrier (such as no cable), AQ_ESTATE if it is down,
 * AQ_EINVAL if it was removed or has lost the address. It is reported again if the cause changes.
 * AQ_LISTENER_UP follows when the interface works again. A listener at 0.0.0.0 or [::] is down only
 * if all interfaces but loopback are. Neither event closes the listener or its connections; use
 * aq_connection_keepalive to detect peers that have become unreachable.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK        `*listener` is valid until aq_listener_close.
 * @return AQ_ESTATE    The address is already in use, or the library is not initialized.
 * @return AQ_EINVAL    `uri` is malformed or not an address of this host, a flag is unknown, or a
 *                      pointer is NULL.
 * @return AQ_EACCESS   Over a network: there is no secret, and AQ_LISTEN_ANYBODY is not set; or
 *                      other users may read the secret's file.
 * @return AQ_ESETTING  Over a network: AQ_CONNECT_SECRET is neither file:PATH nor fd:NUMBER, or
 *                      the file cannot be read or does not contain 16 to 4095 bytes.
 * @return AQ_ENOTSUP   No transport in use can listen at this kind of address.
 * @return AQ_ELIMIT, AQ_ENOMEM, AQ_ESYS, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_listen(const char *uri, unsigned flags, void *context,
                                       aq_listener **listener);

/**
 * Return the URI for clients to connect to.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API const char *aq_listener_uri(const aq_listener *listener);

/**
 * Get a file descriptor that is readable as long as a listener has pending events, as taken by
 * aq_listener_next_event.
 *
 * For use with poll(), select() or epoll; do not read from it. Threads of a server can thus sleep
 * on the descriptors of their listeners, several of them on one descriptor. Events arrive only
 * while another thread makes progress: the progress thread (aq_job_progress_thread), or a thread of
 * the program that calls aq_poll or sleeps on the descriptor of aq_wait_fd. If all threads sleep on
 * listeners, no descriptor becomes readable. The descriptor belongs to the library and is closed by
 * aq_listener_close.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK      `*fd` is the same for each call.
 * @return AQ_EINVAL  A pointer is NULL.
 * @return AQ_ELIMIT  No file descriptor is available.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_listener_fd(aq_listener *listener, int *fd);

/**
 * Close a listener; NULL is ignored.
 *
 * Requests that have not been taken as events are refused; existing connections stay open, and
 * aq_connection_next_event takes their events. From now on, no other thread may use the listener or
 * sleep on its descriptor.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK      The address is free.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API aq_status aq_listener_close(aq_listener *listener);

/**
 * Connect to a listener and wait until it has accepted.
 *
 * Retries with growing pauses while the listener's backlog is full. If nothing listens there, the
 * call fails at once unless AQ_CONNECT_WAIT is set; over a network, it does so only if the other
 * host reports this, and otherwise at the timeout. A host name in `uri` is resolved by the system,
 * which may take a while. The peer is rank 1 of aq_connection_team.
 *
 * With AQ_CONNECT_GROUP_SEND, AQ_CONNECT_GROUP_RECEIVE or both, `uri` is the address of a multicast
 * group, "udp://239.1.2.3:5000" or "udp://[ff02::1234]:5000", and the connection is open at once:
 * there is no server. Short and Medium requests to rank 1 go to all processes that have opened the
 * group to receive, but do not come back to the connection that sent them. Each arrives once or
 * never, in any order; a receiver that makes no calls loses what does not fit its socket buffer
 * (AQ_UDP_BUFFER). aq_am_max_medium() is the payload of one datagram on the interface. Receivers
 * cannot answer: replies, Longs, memory operations, regions, keepalive and events that wait for a
 * handler return AQ_ENOTSUP.
 *
 * Any number of processes may send and receive. Datagrams stay in the local network unless
 * AQ_UDP_MULTICAST_TTL is larger than 1. The interface is the one named after the address
 * ("udp://239.1.2.3%eth0:5000"), or AQ_UDP_INTERFACE, or that of the route. Members must have the
 * same AQ_CONNECT_SECRET; without one, AQ_CONNECT_ANYBODY is needed. A message for a handler that
 * is not registered is dropped.
 *
 * Blocking    At most for the timeout; runs handlers.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK         `*connection` is open; close it with aq_connection_close.
 * @return AQ_EREFUSED   Nothing listens there, or the server rejected the request;
 *                       aq_error_message() gives its reason.
 * @return AQ_ETIMEOUT   No reply within the timeout.
 * @return AQ_EACCESS    The server belongs to another user, and AQ_CONNECT_ANYBODY is not set; it
 *                       does not have this process's AQ_CONNECT_SECRET; or, over a network, there
 *                       is no secret, or other users may read its file.
 * @return AQ_ESETTING   As with aq_listen; or another setting for connections over a network is
 *                       invalid (AQ_UDP_MTU, AQ_UDP_LOSSY).
 * @return AQ_EMISMATCH  The server has another version of the library.
 * @return AQ_ESIZE      More data than AQ_CONN_DATA, here or at the server.
 * @return AQ_EINVAL     `uri` is malformed; it is a group's and no group flag is set, or vice
 *                       versa; the interface does not exist or does not support multicast; or
 *                       AQ_CONNECT_ORDERED or data is given for a group.
 * @return AQ_ESTATE     The library is not initialized; or another program uses the port of the
 *                       group and does not share it.
 * @return AQ_ENOTSUP, AQ_ELIMIT, AQ_ENOMEM, AQ_EPROTO, AQ_ECONTEXT, AQ_ESYS
 */
AQ_API AQ_MUST_USE aq_status aq_connect(const char *uri, const aq_connect_params *params,
                                        aq_connection **connection);

/**
 * Start to connect; otherwise as aq_connect.
 *
 * The result is reported by an event, AQ_CONNECTION_OPENED or AQ_CONNECTION_FAILED, or by
 * aq_connect_test or aq_connect_wait, which consume the event.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK        Started; close `*connection` with aq_connection_close, even if connecting
 *                      fails.
 * @return AQ_EACCESS   Over a network: there is no secret, or other users may read its file.
 * @return AQ_ESETTING  As with aq_connect.
 * @return AQ_EINVAL, AQ_ENOTSUP, AQ_ESIZE, AQ_ELIMIT, AQ_ENOMEM, AQ_ESTATE, AQ_ECONTEXT, AQ_ESYS
 */
AQ_API AQ_MUST_USE aq_status aq_connect_start(const char *uri, const aq_connect_params *params,
                                              aq_connection **connection);

/**
 * Test whether a started connection is open. Makes no progress: call aq_poll in between.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK     Open.
 * @return AQ_AGAIN  Not yet known.
 * @return           Otherwise the failure, as with aq_connect.
 */
AQ_API AQ_MUST_USE aq_status aq_connect_test(aq_connection *connection);

/**
 * Wait until a started connection is open or has failed.
 *
 * Blocking    At most for its timeout; runs handlers.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK  Open.
 * @return        Otherwise the failure, as with aq_connect; the connection must still be closed.
 */
AQ_API AQ_MUST_USE aq_status aq_connect_wait(aq_connection *connection);

/**
 * Take the oldest event of all connections and listeners of this process.
 *
 * The call itself checks occasionally for new requests and ended connections, but makes no other
 * progress and runs no handlers. The end of a connection is reported after everything that its peer
 * sent has been handled; if messages remain, call aq_poll or another call that makes progress.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK     `*event` is filled in.
 * @return AQ_AGAIN  There is no event.
 * @return AQ_EINVAL, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_connection_next_event(aq_connection_event *event);

/**
 * Take the oldest event of a listener: a request there, or an event of a connection that it
 * accepted.
 *
 * As aq_connection_next_event, which takes events of all listeners as well: each event is taken
 * once, by either call.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler. If several threads sleep on one descriptor
 *             (aq_listener_fd), all may wake up for an event that one of them takes.
 *
 * @return AQ_OK     `*event` is filled in.
 * @return AQ_AGAIN  There is no event.
 * @return AQ_EINVAL, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_listener_next_event(aq_listener *listener,
                                                    aq_connection_event *event);

/**
 * Accept a request.
 *
 * When the client has confirmed, AQ_CONNECTION_OPENED is reported; messages of the client are
 * handled only after that. If the client has abandoned its request, AQ_CONNECTION_LOST is reported.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK         The reply has been sent.
 * @return AQ_EPEER      The client abandoned its request or died; close the connection.
 * @return AQ_EPROTO     The client's request is malformed; close the connection.
 * @return AQ_ESTATE     Not a request that is waiting for a reply.
 * @return AQ_ESIZE      More data than AQ_CONN_DATA.
 * @return AQ_EINVAL, AQ_ENOMEM, AQ_ELIMIT, AQ_ESETTING, AQ_ECONTEXT, AQ_ESYS
 */
AQ_API AQ_MUST_USE aq_status aq_connection_accept(aq_connection *connection,
                                                  const aq_accept_params *params);

/**
 * Reject a request and close its connection: the client's aq_connect fails with AQ_EREFUSED, `code`
 * and `reason`.
 *
 * `reason` is human-readable text of up to 199 bytes; NULL: none.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK      `connection` is closed.
 * @return AQ_ESTATE  Not a request that is waiting for a reply.
 * @return AQ_EINVAL, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_connection_reject(aq_connection *connection, uint32_t code,
                                                  const char *reason);

/**
 * Close a connection in any state and release its resources; NULL is ignored.
 *
 * Messages sent before are delivered to the peer, which then gets AQ_CONNECTION_CLOSED. The call
 * waits for outstanding operations, at most for AQ_CONN_TIMEOUT; after that they fail with
 * AQ_EPEER. No other thread may use the connection or its team from now on, and events of
 * operations on it must have been waited for. Its pending events are discarded.
 *
 * Blocking    Only if operations are outstanding; runs handlers meanwhile.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK      `connection`, its team and its data are no longer valid.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API aq_status aq_connection_close(aq_connection *connection);

/**
 * Report a peer that does not answer for `ns` nanoseconds; 0 disables this (the default).
 *
 * This process probes the peer several times in that period, and the peer's library answers when it
 * makes progress. If no answer arrives, AQ_CONNECTION_SILENT is reported, at most `ns` / 4 late,
 * and not again before the peer has answered. Thus a process that is stopped, or makes no calls for
 * long, is detected over all transports. The connection stays open: close it, or continue to use
 * it.
 *
 * Blocking    Never. The event needs progress of this process.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK
 * @return AQ_ESTATE  The connection is not open, or the library is not initialized.
 * @return AQ_EINVAL, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_connection_keepalive(aq_connection *connection, uint64_t ns);

/**
 * Return the team of an open connection: on both sides, this process is rank 0 and the peer is rank
 * 1.
 *
 * The team supports messages, puts, gets, vector, indexed and strided transfers, and atomics; it
 * has no collectives. Handlers see messages of the peer with `source` 1 and find the connection
 * with aq_connection_of. Once the peer is lost, operations fail with AQ_EPEER. The team is valid
 * until the connection is closed.
 *
 * With AQ_CONNECT_UNRELIABLE, set by the client, Short and Medium requests over udp are
 * unacknowledged datagrams: each arrives once, several times or never, and the calls never wait for
 * the peer. aq_am_max_medium() is the payload of one datagram. The events of aq_connection_send
 * complete when the datagram has left; with AQ_SEND_HANDLED, set a timeout. Everything else, and
 * every message over shm, is reliable.
 *
 * Ordering    With AQ_CONNECT_ORDERED, set by the client, request handlers run one at a time in the
 *             order of the peer's calls, and so do reply handlers; requests and replies are
 *             unordered relative to each other. A Long takes its place in this order when its
 *             payload has arrived, unless the call waits for that. Puts, gets and atomics are
 *             unordered. Without the flag, nothing is ordered.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return     NULL before the connection is open.
 */
AQ_API aq_team *aq_connection_team(aq_connection *connection);

/**
 * Return the connection over which a message arrived; for use in its handler.
 *
 * Blocking    Never.
 * Threads     The thread that runs the handler.
 *
 * @return     NULL if the message is from a process of the job.
 */
AQ_API aq_connection *aq_connection_of(const aq_am *am);

/**
 * Query the properties of a connection.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return AQ_OK      `*info` is filled in.
 * @return AQ_EINVAL  A pointer is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_connection_query(const aq_connection *connection,
                                                 aq_connection_info *info);

/**
 * Return the program's own pointer, as given when connecting or accepting, or set since.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API void *aq_connection_context(const aq_connection *connection);

/**
 * Set the program's own pointer.
 *
 * Threads     One at a time; may be called from a handler.
 */
AQ_API void aq_connection_set_context(aq_connection *connection, void *context);

#ifdef __cplusplus
}
#endif
#endif
