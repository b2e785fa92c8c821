/*
 * Where a transport meets processes that were not started with ours: the optional group of
 * operations behind AQI_CAP_MEET, beside the table of transport.h.
 *
 * A transport only carries letters (hello.h says what is in them) between a listener's URI and
 * whoever calls there; each conversation is a *line*. The core does the rest, the same for all
 * transports: it opens a transport of two ranks for each connection, with what the letters bring,
 * tries again, gives up in time, accepts and refuses. The line stays for the life of the connection
 * and is how the end of the other process is noticed without traffic.
 *
 * Threads. The caller makes one call at a time, all of them, so no lock is needed; wait_fd any
 * time. Hooks are called from progress only, and may call send, hang_up, dial and unlisten.
 */
#ifndef AQI_MEET_H
#define AQI_MEET_H

#include "base/base.h"

#define AQI_MEET_FDS   4           /* objects of a transport that go with a letter */
#define AQI_LETTER_MAX (40u << 10) /* bytes of a letter; hello.h has less */

struct aqi_meet;     /* an open meeting place */
struct aqi_listener; /* a URI at which we can be called */
struct aqi_line;     /* a conversation with one other process */

struct aqi_letter {
    const void *bytes;
    size_t len;
    int *fds; /* sending: borrowed. Receiving: who keeps one puts -1 in its place */
    unsigned nfds;
};

/* Who wrote, as the system says; pid 0: it cannot tell. */
struct aqi_writer {
    int64_t pid;
    uint32_t uid;
};

struct aqi_meet_hooks {
    /* Somebody calls `listener`. Returns the caller's own pointer for the line; NULL: hang up. */
    void *(*call)(void *arg, void *listener_user, struct aqi_line *line,
                  const struct aqi_writer *writer, struct aqi_letter *letter);
    /* The other side wrote on a line. */
    void (*letter)(void *arg, void *line_user, const struct aqi_writer *writer,
                   struct aqi_letter *letter);
    /*
     * The other side hung up, or its process has ended: nothing more comes, and the line is still
     * to be hung up on. Before any answer to dial: the call is lost, perhaps because nobody had
     * room for it; calling again is right.
     */
    void (*hung_up)(void *arg, void *line_user);
    void *arg;
};

struct aqi_meet_ops {
    aq_status (*open)(const struct aqi_meet_hooks *hooks, struct aqi_meet **meet);
    /* Ends listeners and lines that are left. Cannot fail. */
    void (*close)(struct aqi_meet *meet);

    /*
     * Listen at a URI "name://…"; NULL or one that ends with "/": the transport makes it unique.
     * `uri_out` (AQI_URI_MAX) gets what clients are to call.
     *
     * @return AQ_ESTATE  Somebody listens there already.
     * @return AQ_EINVAL  Not a URI of this transport.
     */
    aq_status (*listen)(struct aqi_meet *meet, const char *uri, void *user,
                        struct aqi_listener **listener, char *uri_out);
    void (*unlisten)(struct aqi_meet *meet, struct aqi_listener *listener);

    /*
     * Call. What becomes of it comes as a letter, or by hung_up.
     *
     * @return AQ_AGAIN     The listener has no room now: try again, later and later.
     * @return AQ_EREFUSED  Nobody listens there. Not logged.
     */
    aq_status (*dial)(struct aqi_meet *meet, const char *uri, const struct aqi_letter *letter,
                      void *user, struct aqi_line **line);
    /* @return AQ_EPEER  It has hung up. Not logged. */
    aq_status (*send)(struct aqi_line *line, const struct aqi_letter *letter);
    void (*hang_up)(struct aqi_line *line);

    /* Bounded work; returns how many things happened. */
    unsigned (*progress)(struct aqi_meet *meet);
    /* Readable when progress has something to do. */
    int (*wait_fd)(struct aqi_meet *meet);
};

#endif
