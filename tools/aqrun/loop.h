/* The event loop: descriptors that call back when they are ready. */
#ifndef AQRUN_LOOP_H
#define AQRUN_LOOP_H

#include "base/base.h"

#include <sys/epoll.h>

/* Part of the struct that it calls back for; `ready` finds that with AQRUN_OF. */
struct source {
    int fd;                   /* -1: closed */
    uint32_t watched, events; /* of epoll: those it waits for, and the last that came */
    void (*ready)(struct source *source);
};

#define AQRUN_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* The only epoll set of aqrun. Its number is low, and in a rank the control socket takes it over.
 */
int loop_open(void);

void source_open(struct source *source, int fd, void (*ready)(struct source *));
/* Which events call back from now on; 0: none, not even a hang-up. */
void source_watch(struct source *source, uint32_t events);
void source_close(struct source *source);

/* Wait for events until `deadline_ns` of aqi_now_ns at most, and call back for each. */
void loop_once(uint64_t deadline_ns);

#endif
