/*
 * Private to links: link.c (streams), link_call.c (connecting), link_listen.c (unauthenticated
 * callers).
 */
#ifndef JOB_LINK_IMPL_H
#define JOB_LINK_IMPL_H

#include "base/inet.h"
#include "job/link.h"
#include "job/loop.h"

enum link_state {
    LINK_CALLING,  /* trying the addresses of the called host */
    LINK_STRANGER, /* accepted, but not yet authenticated */
    LINK_OPEN,
    LINK_CLOSING, /* its last frame is queued or sent; received data is ignored */
    LINK_DOOMED   /* its socket is closed; the next tick reports its end and frees it */
};

/* A queued frame. */
struct link_item {
    struct link_item *next;
    size_t len;
    uint8_t bytes[];
};

struct link_call;

struct aqi_link {
    struct aqi_links *links;
    struct aqi_node node;  /* in `all` */
    struct aqi_node dirty; /* in `dirty` */
    enum link_state state;
    bool stranger;      /* not authenticated, perhaps doomed */
    bool last_received; /* the other side's last frame has arrived */
    aq_status status;
    char *why; /* of a doomed link; NULL: out of memory */
    void *owner;
    struct aqi_source source;
    struct aqi_seal seal;
    struct link_call *call; /* LINK_CALLING */
    struct link_item *first, **last;
    size_t sent;          /* bytes of the first item */
    size_t backlog;       /* bytes queued in the memory of this process */
    uint64_t received_ns; /* when a frame last arrived */
    uint64_t sent_ns;     /* when data was last sent */
    uint64_t beat_ns;     /* interval of keep-alives */
    uint64_t deadline_ns; /* of the states with a time limit */
    char name[AQI_LINK_NAME_BYTES];
};

struct aqi_links {
    struct aqi_seal_job job;
    struct aqi_links_config config; /* without the key */
    struct aqi_node all;            /* in the order in which they began */
    struct aqi_node dirty;          /* those to flush */
    unsigned doomed, strangers;     /* the latter without doomed ones */
    uint64_t next_ns;               /* no deadline is earlier */
    struct aqi_source listener;
    uint16_t port;
    bool only_v4;
    bool ignore_silence;           /* silence is ignored */
    uint64_t listen_ns;            /* when to accept again; UINT64_MAX: accepting is not paused */
    uint64_t stranger_ns;          /* when strangers may be reported again */
    unsigned strangers_unreported; /* number of strangers since the last report */
    uint8_t room[128u << 10];      /* receive buffer */
};

/* link.c */
struct aqi_link *link_new(struct aqi_links *links, enum link_state state);
/* Fail the link for this reason, given without the name of the link. Only the first reason is
 * kept. */
void link_doom(struct aqi_link *link, aq_status status, const char *fmt, ...) AQI_PRINTF(3, 4);
#define LINK_PACKET 576 /* in bytes: every path carries packets of this size */
/* Limit the packets of a socket to that size in both directions; call before it connects or
 * listens. */
void link_keep_short(int fd);
/* Begin the handshake on this connected socket. */
void link_begin(struct aqi_link *link, int fd, enum aqi_seal_role role,
                const struct aqi_seal_call *call);
/* Ensure that the next tick is not later than this time. */
void link_due(struct aqi_links *links, uint64_t at_ns);

/* link_call.c */
/*
 * The handshake with the current address has failed: try the next one. `again`: retry it later, as
 * it may have been too busy.
 */
void link_call_refused(struct aqi_link *link, aq_status status, bool again, const char *why);
/* Do the work that is due; returns the time of the next call. */
uint64_t link_call_tick(struct aqi_link *link, uint64_t now);
/* The handshake has succeeded, or is not needed any longer. */
void link_call_drop(struct aqi_link *link);

/* link_listen.c */
/* Report a rejected stranger, or why callers must wait; at most once a second. */
void link_listen_report(struct aqi_links *links, const char *why);
uint64_t link_listen_tick(struct aqi_links *links, uint64_t now);

#endif
