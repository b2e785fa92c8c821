/* The event loop: one epoll set, one thread. */
#include "job/loop.h"

#include "base/clock.h"
#include "base/fail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOOP_EVENTS         64
#define LOOP_NS_PER_MS      1000000u
#define LOOP_LONGEST_NAP_MS 60000u

static struct {
    int epoll;
    void (*failed)(const char *why);
    struct epoll_event *events; /* those being handled: [next, count) */
    int next, count;
} loop = {.epoll = -1};

static void loop_failed(const char *what, int error)
{
    char why[128];
    snprintf(why, sizeof(why), "%s: %s", what, strerror(error));
    loop.failed(why);
}

aq_status aqi_loop_open(void (*failed)(const char *why), int *epoll)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) return aqi_fail_errno(AQ_ESYS, errno, "job", "epoll_create1");
    loop.epoll = *epoll = fd;
    loop.failed = failed;
    return AQ_OK;
}

void aqi_loop_close(void)
{
    close(loop.epoll);
    loop.epoll = -1;
}

void aqi_source_open(struct aqi_source *source, int fd, void (*ready)(struct aqi_source *))
{
    source->fd = fd;
    source->watched = 0;
    source->ready = ready;
}

int aqi_source_try_watch(struct aqi_source *source, uint32_t events)
{
    if (source->fd < 0 || source->watched == events) return 0;
    struct epoll_event event = {.events = events, .data.ptr = source};
    int change = source->watched == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    if (epoll_ctl(loop.epoll, change, source->fd, &event) != 0) return errno;
    source->watched = events;
    return 0;
}

void aqi_source_watch(struct aqi_source *source, uint32_t events)
{
    int error = aqi_source_try_watch(source, events);
    if (error == 0) return;
    char what[64];
    snprintf(what, sizeof(what), "epoll_ctl of descriptor %d", source->fd);
    loop_failed(what, error);
}

void aqi_source_close(struct aqi_source *source)
{
    if (source->fd < 0) return;
    aqi_source_watch(source, 0);
    close(source->fd);
    source->fd = -1;
    for (int i = loop.next; i < loop.count; i++)
        if (loop.events[i].data.ptr == source) loop.events[i].data.ptr = NULL;
}

static int loop_nap_ms(uint64_t deadline_ns)
{
    uint64_t now = aqi_now_ns();
    if (deadline_ns <= now) return 0;
    uint64_t nap = (deadline_ns - now + LOOP_NS_PER_MS - 1) / LOOP_NS_PER_MS;
    return (int)aqi_min(nap, LOOP_LONGEST_NAP_MS);
}

void aqi_loop_once(uint64_t deadline_ns)
{
    struct epoll_event events[LOOP_EVENTS];
    int count = epoll_wait(loop.epoll, events, LOOP_EVENTS, loop_nap_ms(deadline_ns));
    if (count < 0 && errno != EINTR) loop_failed("epoll_wait", errno);
    loop.events = events;
    loop.count = count;
    for (loop.next = 0; loop.next < loop.count;) {
        const struct epoll_event *event = &events[loop.next++];
        struct aqi_source *source = event->data.ptr;
        /* One callback may have closed or silenced another's source. */
        if (source == NULL || source->watched == 0) continue;
        source->events = event->events;
        source->ready(source);
    }
    loop.next = loop.count = 0;
}
