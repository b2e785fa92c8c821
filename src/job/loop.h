/* The event loop of a launcher or agent: callbacks for ready descriptors. There is one per process,
 * for one thread. */
#ifndef AQI_LOOP_H
#define AQI_LOOP_H

#include "base/base.h"

#include <errno.h>
#include <sys/epoll.h>

/* Part of the owner's struct, which `ready` finds with AQI_SOURCE_OF. */
struct aqi_source {
    int fd;                   /* -1: closed */
    uint32_t watched, events; /* of epoll: those to wait for, and the last ones reported */
    void (*ready)(struct aqi_source *source);
    struct aqi_source *resting; /* the next one that aqi_source_accept has silenced */
};

#define AQI_SOURCE_OF(pointer, type, member)                                                       \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/*
 * Create the epoll set. aqrun creates it early, so that its descriptor is low; in a rank the
 * control socket replaces it. If the kernel refuses to watch a descriptor, the process cannot
 * continue: `failed` is called with the reason, and must end it, now or soon.
 *
 * @return AQ_ESYS  It cannot be created; aq_error_message() says why.
 */
aq_status aqi_loop_open(void (*failed)(const char *why), int *epoll);
/* All sources have been closed. */
void aqi_loop_close(void);

void aqi_source_open(struct aqi_source *source, int fd, void (*ready)(struct aqi_source *));
/* The events that call back from now on; 0: none, not even a hang-up. */
void aqi_source_watch(struct aqi_source *source, uint32_t events);
/* Likewise, but a refusal is not fatal: returns an errno, or 0. */
int aqi_source_try_watch(struct aqi_source *source, uint32_t events);
/* Whether accept or the like has failed for want of descriptors or memory. */
static inline bool aqi_lacks_descriptors(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}
/*
 * Accept a connection of a listener that is watched for EPOLLIN: a descriptor, or -1. If
 * descriptors or memory have run out, the listener rests for a tenth of a second; otherwise it
 * would be ready, and fail, again and again.
 */
int aqi_source_accept(struct aqi_source *source);
/* Closes the descriptor, too; it may be freed at once, also in a callback. */
void aqi_source_close(struct aqi_source *source);

/* Wait for events until `deadline_ns` of aqi_now_ns at most, and call back for each. */
void aqi_loop_once(uint64_t deadline_ns);

#endif
