/*
 * The rendezvous of a transport with processes that were not started together with this one: the
 * optional group of operations behind AQI_CAP_RENDEZVOUS, in addition to the table in transport.h.
 *
 * A transport only carries messages (defined in hello.h) between the listener at a URI and its
 * callers; each conversation is a *control channel*. The core does the rest, in the same way for
 * all transports: it opens a transport of two ranks for each connection, with the data from the
 * messages, and handles retries, timeouts, acceptance and refusals. The channel lives as long as
 * the connection, and shows the end of the peer's process without traffic.
 *
 * Threads. The caller makes one call at a time, so no lock is needed; wait_fd may be called at any
 * time. Hooks are called from progress only, and may call send, close_channel, connect and
 * unlisten.
 */
#ifndef AQI_RENDEZVOUS_H
#define AQI_RENDEZVOUS_H

#include "base/wire.h"

#define AQI_RENDEZVOUS_FDS 4           /* objects of a transport sent with a message */
#define AQI_HANDSHAKE_MAX  (40u << 10) /* bytes of a message; those of hello.h are smaller */

struct aqi_transport;
struct aqi_rendezvous;      /* an open rendezvous */
struct aqi_listener;        /* a URI at which we can be called */
struct aqi_control_channel; /* a conversation with one other process */

struct aqi_handshake {
    const void *bytes;
    size_t len;
    int *fds; /* sending: borrowed. Receiving: to keep one, replace it by -1 */
    unsigned nfds;
};

/* The sending process, as the system reports it; pid 0 and uid UINT32_MAX: unknown. */
struct aqi_writer {
    int64_t pid;
    uint32_t uid;
    bool ours; /* the same user, according to the system; or it has proved to know our secret */
};

struct aqi_rendezvous_hooks {
    /* A process calls the listener. Returns `channel_user` for the channel; NULL: close it. */
    void *(*call)(void *arg, void *listener_user, struct aqi_control_channel *channel,
                  const struct aqi_writer *writer, struct aqi_handshake *message);
    /* A message has arrived on a channel. */
    void (*message)(void *arg, void *channel_user, const struct aqi_writer *writer,
                    struct aqi_handshake *message);
    /*
     * The peer closed the channel, or its process has ended: nothing more arrives, but our end must
     * still be closed. `why` is text for users, or NULL. AQ_EPEER before any answer to connect: the
     * call is lost; call again. AQ_EREFUSED: there is no listener. Any other status: the call
     * cannot succeed.
     */
    void (*closed)(void *arg, void *channel_user, aq_status status, const char *why);
    /*
     * The interface with the address of a listener is up again (AQ_OK), has no carrier (AQ_EPEER),
     * is down (AQ_ESTATE), or has lost the address or is removed (AQ_EINVAL). NULL: not wanted.
     */
    void (*interface)(void *arg, void *listener_user, aq_status status);
    void *arg;
};

struct aqi_rendezvous_ops {
    enum aqi_wire wire; /* the format of the data that transports of a connection exchange */

    aq_status (*open)(const struct aqi_rendezvous_hooks *hooks, struct aqi_rendezvous **rendezvous);
    /* Closes all remaining listeners and channels. Cannot fail. */
    void (*close)(struct aqi_rendezvous *rendezvous);

    /*
     * Listen at a URI "name://…"; if it is NULL or ends with "/", the transport makes it unique.
     * `uri_out` (AQI_URI_MAX) receives the URI for clients.
     *
     * @return AQ_ESTATE  Another listener has this URI.
     * @return AQ_EINVAL  Not a URI of this transport.
     */
    aq_status (*listen)(struct aqi_rendezvous *rendezvous, const char *uri, void *user,
                        struct aqi_listener **listener, char *uri_out);
    void (*unlisten)(struct aqi_rendezvous *rendezvous, struct aqi_listener *listener);

    /*
     * Call a listener. The outcome arrives as a message or through `closed`.
     *
     * @return AQ_AGAIN     The listener has no room now: try again, with growing pauses.
     * @return AQ_EREFUSED  No listener. Not logged. Over a network, `closed` reports it.
     * @return AQ_EINVAL    Not a URI of this transport, or no such host.
     */
    aq_status (*connect)(struct aqi_rendezvous *rendezvous, const char *uri,
                         const struct aqi_handshake *message, void *user,
                         struct aqi_control_channel **channel);
    /*
     * Messages arrive in order. If the transport `lingers`, the last ones of a dying process may
     * get lost.
     *
     * @return AQ_EPEER  The peer has closed the channel. Not logged.
     */
    aq_status (*send)(struct aqi_control_channel *channel, const struct aqi_handshake *message);
    void (*close_channel)(struct aqi_control_channel *channel);

    /* Bounded work; returns the number of events handled. */
    unsigned (*progress)(struct aqi_rendezvous *rendezvous);
    /* Readable when progress has something to do. */
    int (*wait_fd)(struct aqi_rendezvous *rendezvous);
    /* Get the text for users about a call that was not answered in time. */
    void (*unanswered)(struct aqi_control_channel *channel, char *why, size_t len);
    /* Whether this transport can tell if a writer is `ours`. */
    bool (*knows_writers)(const struct aqi_rendezvous *rendezvous);
    bool objects; /* descriptors can travel with messages; else they are AQ_ENOTSUP */
    /* Opens connections with groups, by params.towards (AQI_CAP_GROUP). NULL: there are none. */
    const struct aqi_transport *group;
    bool lingers; /* the last messages may need retransmission: progress after close_channel */
};

#endif
