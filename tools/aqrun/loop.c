/* The event loop of aqrun: one epoll set, one thread. */
#include "loop.h"

#include "base/clock.h"
#include "job.h"

#include <errno.h>
#include <unistd.h>

#define LOOP_EVENTS         64
#define LOOP_NS_PER_MS      1000000u
#define LOOP_LONGEST_NAP_MS 60000u

static int loop_epoll = -1;

int loop_open(void)
{
    loop_epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop_epoll < 0) die("epoll_create1: %s", strerror(errno));
    return loop_epoll;
}

void source_open(struct source *source, int fd, void (*ready)(struct source *))
{
    source->fd = fd;
    source->watched = 0;
    source->ready = ready;
}

void source_watch(struct source *source, uint32_t events)
{
    if (source->fd < 0 || source->watched == events) return;
    struct epoll_event event = {.events = events, .data.ptr = source};
    int change = source->watched == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    if (epoll_ctl(loop_epoll, change, source->fd, &event) != 0)
        die("epoll_ctl of descriptor %d: %s", source->fd, strerror(errno));
    source->watched = events;
}

void source_close(struct source *source)
{
    if (source->fd < 0) return;
    source_watch(source, 0);
    close(source->fd);
    source->fd = -1;
}

static int loop_nap_ms(uint64_t deadline_ns)
{
    uint64_t now = aqi_now_ns();
    if (deadline_ns <= now) return 0;
    uint64_t nap = (deadline_ns - now + LOOP_NS_PER_MS - 1) / LOOP_NS_PER_MS;
    return (int)aqi_min(nap, LOOP_LONGEST_NAP_MS);
}

void loop_once(uint64_t deadline_ns)
{
    struct epoll_event events[LOOP_EVENTS];
    int count = epoll_wait(loop_epoll, events, LOOP_EVENTS, loop_nap_ms(deadline_ns));
    if (count < 0 && errno != EINTR) die("epoll_wait: %s", strerror(errno));
    for (int i = 0; i < count; i++) {
        struct source *source = events[i].data.ptr;
        /* One callback may have closed or silenced another's source. */
        if (source->fd < 0 || source->watched == 0) continue;
        source->events = events[i].events;
        source->ready(source);
    }
}
