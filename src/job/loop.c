/* The event loop: one epoll set, one thread. */
#include "job/loop.h"

#include "base/clock.h"
#include "base/fail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOP_EVENTS         64
#define LOOP_NS_PER_MS      1000000u
#define LOOP_LONGEST_NAP_MS 60000u
#define LOOP_REST_NS        100000000u

static struct {
    int epoll;
    void (*failed)(const char *why);
    struct epoll_event *events; /* being handled: [next, count) */
    int next, count;
    struct aqi_source *resting; /* listeners paused until rest_ns */
    uint64_t rest_ns;
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
    source->resting = NULL;
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

int aqi_source_accept(struct aqi_source *source)
{
    int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0 || !aqi_lacks_descriptors(errno)) return fd;
    aqi_source_watch(source, 0);
    source->resting = loop.resting;
    loop.resting = source;
    loop.rest_ns = aqi_now_ns() + LOOP_REST_NS;
    return -1;
}

static void loop_wake(void)
{
    if (loop.resting == NULL || aqi_now_ns() < loop.rest_ns) return;
    while (loop.resting != NULL) {
        struct aqi_source *source = loop.resting;
        loop.resting = source->resting;
        aqi_source_watch(source, EPOLLIN);
    }
}

void aqi_source_close(struct aqi_source *source)
{
    if (source->fd < 0) return;
    struct aqi_source **at = &loop.resting;
    while (*at != NULL && *at != source)
        at = &(*at)->resting;
    if (*at != NULL) *at = source->resting;
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
    loop_wake();
    if (loop.resting != NULL) deadline_ns = aqi_min(deadline_ns, loop.rest_ns);
    int count = epoll_wait(loop.epoll, events, LOOP_EVENTS, loop_nap_ms(deadline_ns));
    if (count < 0 && errno != EINTR) loop_failed("epoll_wait", errno);
    loop.events = events;
    loop.count = count;
    for (loop.next = 0; loop.next < loop.count;) {
        const struct epoll_event *event = &events[loop.next++];
        struct aqi_source *source = event->data.ptr;
        /* An earlier callback may have closed or disabled this source. */
        if (source == NULL || source->watched == 0) continue;
        source->events = event->events;
        source->ready(source);
    }
    loop.next = loop.count = 0;
}
