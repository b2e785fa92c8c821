/* The event loop of a launcher or agent: calls back when descriptors are ready. One per process,
 * used by one thread. */
#ifndef AQI_LOOP_H
#define AQI_LOOP_H

#include "base/list.h"

#include <errno.h>
#include <sys/epoll.h>

/* Part of the owner's struct, which `ready` finds with AQI_OF (list.h). */
struct aqi_source {
    int fd;                   /* -1: closed */
    uint32_t watched, events; /* epoll events: to wait for, and last reported */
    void (*ready)(struct aqi_source *source);
    struct aqi_source *resting; /* the next source paused by aqi_source_accept */
};

/*
 * Create the epoll set. aqrun creates it early, so that its descriptor is low; in a rank the
 * control socket replaces it. If the kernel refuses to watch a descriptor, the process cannot
 * continue: `failed` is called with the reason, and must end it, now or soon.
 *
 * @return AQ_ESYS  It cannot be created; aq_error_message() says why.
 */
aq_status aqi_loop_open(void (*failed)(const char *why), int *epoll);
/* All sources must have been closed. */
void aqi_loop_close(void);

void aqi_source_open(struct aqi_source *source, int fd, void (*ready)(struct aqi_source *));
/* Set the events for which `ready` is called from now on; 0: none, not even a hang-up. */
void aqi_source_watch(struct aqi_source *source, uint32_t events);
/* The same, but failure is not fatal: returns an errno, or 0. */
int aqi_source_try_watch(struct aqi_source *source, uint32_t events);
/* Whether accept or a similar call failed for lack of descriptors or memory. */
static inline bool aqi_lacks_descriptors(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}
/*
 * Accept a connection of a listener that is watched for EPOLLIN. Returns a descriptor, or -1. If
 * descriptors or memory have run out, the listener pauses for 100 ms; otherwise it would be
 * reported as ready, and fail, over and over.
 */
int aqi_source_accept(struct aqi_source *source);
/* Also closes the descriptor. The source may be freed immediately, even in a callback. */
void aqi_source_close(struct aqi_source *source);

/* Wait for events until `deadline_ns` (aqi_now_ns) at the latest, and call back for each. */
void aqi_loop_once(uint64_t deadline_ns);

#endif
