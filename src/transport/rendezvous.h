/*
 * The rendezvous of a transport with processes that were not started with ours: the optional group
 * of operations behind AQI_CAP_RENDEZVOUS, beside the table of transport.h.
 *
 * A transport only carries messages (hello.h says what is in them) between a listener's URI and
 * whoever calls there; each conversation is a *control channel*. The core does the rest, the same
 * for all transports: it opens a transport of two ranks for each connection, with what the messages
 * bring, tries again, gives up in time, accepts and refuses. The channel stays for the life of the
 * connection and is how the end of the other process is noticed without traffic.
 *
 * Threads. The caller makes one call at a time, all of them, so no lock is needed; wait_fd any
 * time. Hooks are called from progress only, and may call send, close_channel, connect and
 * unlisten.
 */
#ifndef AQI_RENDEZVOUS_H
#define AQI_RENDEZVOUS_H

#include "base/base.h"

#define AQI_RENDEZVOUS_FDS 4           /* objects of a transport that go with a message */
#define AQI_HANDSHAKE_MAX  (40u << 10) /* bytes of a message; hello.h has less */

struct aqi_rendezvous;      /* an open rendezvous */
struct aqi_listener;        /* a URI at which we can be called */
struct aqi_control_channel; /* a conversation with one other process */

struct aqi_handshake {
    const void *bytes;
    size_t len;
    int *fds; /* sending: borrowed. Receiving: who keeps one puts -1 in its place */
    unsigned nfds;
};

/* Who wrote, as the system says; pid 0 and uid UINT32_MAX: it cannot tell. */
struct aqi_writer {
    int64_t pid;
    uint32_t uid;
    bool ours; /* the same user, as the system says; or it has shown that it knows our secret */
};

struct aqi_rendezvous_hooks {
    /* Somebody calls `listener`. Returns the caller's own pointer for the channel; NULL: close it.
     */
    void *(*call)(void *arg, void *listener_user, struct aqi_control_channel *channel,
                  const struct aqi_writer *writer, struct aqi_handshake *message);
    /* The other side wrote on a channel. */
    void (*message)(void *arg, void *channel_user, const struct aqi_writer *writer,
                    struct aqi_handshake *message);
    /*
     * The other side closed it, or its process has ended: nothing more comes, and our end is still
     * to be closed. `why` is for people; NULL: there is no more to say. AQ_EPEER or AQ_AGAIN before
     * any answer to connect: the call is lost, perhaps because nobody had room for it; calling
     * again is right. AQ_EREFUSED: nobody listens there. Another status: the call cannot be.
     */
    void (*closed)(void *arg, void *channel_user, aq_status status, const char *why);
    void *arg;
};

struct aqi_rendezvous_ops {
    aq_status (*open)(const struct aqi_rendezvous_hooks *hooks, struct aqi_rendezvous **rendezvous);
    /* Ends listeners and channels that are left. Cannot fail. */
    void (*close)(struct aqi_rendezvous *rendezvous);

    /*
     * Listen at a URI "name://…"; NULL or one that ends with "/": the transport makes it unique.
     * `uri_out` (AQI_URI_MAX) gets what clients are to call.
     *
     * @return AQ_ESTATE  Somebody listens there already.
     * @return AQ_EINVAL  Not a URI of this transport.
     */
    aq_status (*listen)(struct aqi_rendezvous *rendezvous, const char *uri, void *user,
                        struct aqi_listener **listener, char *uri_out);
    void (*unlisten)(struct aqi_rendezvous *rendezvous, struct aqi_listener *listener);

    /*
     * Call. What becomes of it comes as a message, or by closed.
     *
     * @return AQ_AGAIN     The listener has no room now: try again, later and later.
     * @return AQ_EREFUSED  Nobody listens there. Not logged; over a network `closed` says it.
     * @return AQ_EINVAL    Not a URI of this transport, or no such host.
     */
    aq_status (*connect)(struct aqi_rendezvous *rendezvous, const char *uri,
                         const struct aqi_handshake *message, void *user,
                         struct aqi_control_channel **channel);
    /* In order. What a process that dies has sent before may get lost, where it lingers.
     * @return AQ_EPEER  It has closed it. Not logged. */
    aq_status (*send)(struct aqi_control_channel *channel, const struct aqi_handshake *message);
    void (*close_channel)(struct aqi_control_channel *channel);

    /* Bounded work; returns how many things happened. */
    unsigned (*progress)(struct aqi_rendezvous *rendezvous);
    /* Readable when progress has something to do. */
    int (*wait_fd)(struct aqi_rendezvous *rendezvous);
    /* What to say to people of a call that nobody has answered in time. */
    const char *(*unanswered)(struct aqi_control_channel *channel);
    /* Can it be known whether a writer is `ours`? */
    bool (*knows_writers)(const struct aqi_rendezvous *rendezvous);
    bool objects; /* descriptors go with messages; else they are AQ_ENOTSUP */
    bool lingers; /* what was said last may have to be said again: progress after close_channel */
};

#endif
