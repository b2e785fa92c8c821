/*
 * udp: the thread that watches the sockets of all transports of this process while the program does
 * not (udp_idle.c). A server has a transport for each connection, so none has a thread of its own.
 */
#include "transport/udp/udp_impl.h"

#include "base/kick.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#define HELPER_STOP UINT64_MAX /* the event that ends the thread */

/* There is one while there are users, of the process that has started it: a forked child has none,
 * and starts another one when it opens a transport. */
static struct {
    pthread_mutex_t turn; /* held by the thread in its turns, and to come and go */
    pthread_t thread;
    _Atomic pid_t owner;
    int epoll, stop;
    struct udp_tp **places; /* of users; NULL: free */
    uint32_t size, users;
} helper = {.turn = PTHREAD_MUTEX_INITIALIZER};

uint64_t udp_helper_event(const struct udp_tp *udp, bool tick)
{
    return 2 * (uint64_t)udp->idle.place + tick;
}

/* An event may be older than the user of its place: that one looks in vain. */
static void *udp_helper_main(void *arg)
{
    int epoll = (int)(intptr_t)arg;
    struct epoll_event event;
    for (;;) {
        int n = epoll_wait(epoll, &event, 1, -1);
        if (n < 0 && errno != EINTR) return NULL;
        if (n <= 0) continue;
        if (event.data.u64 == HELPER_STOP) return NULL;
        pthread_mutex_lock(&helper.turn);
        struct udp_tp *udp = helper.places[event.data.u64 / 2];
        if (udp != NULL) udp_idle_wake(udp, event.data.u64 % 2 != 0);
        pthread_mutex_unlock(&helper.turn);
    }
}

static int udp_helper_start(void)
{
    struct epoll_event stop = {.events = EPOLLIN, .data.u64 = HELPER_STOP};
    helper.epoll = epoll_create1(EPOLL_CLOEXEC);
    helper.stop = aqi_kick_new();
    int err = helper.epoll < 0 || helper.stop < 0 ||
                      epoll_ctl(helper.epoll, EPOLL_CTL_ADD, helper.stop, &stop) != 0
                  ? errno
                  : 0;
    if (err == 0)
        err = aqi_thread_start(&helper.thread, udp_helper_main, (void *)(intptr_t)helper.epoll);
    if (err == 0) {
        helper.owner = getpid();
        return 0;
    }
    if (helper.epoll >= 0) close(helper.epoll);
    if (helper.stop >= 0) close(helper.stop);
    return err;
}

/* Without its lock, which the thread may have held when this process was forked. */
static void udp_helper_forget_parent(void)
{
    if (helper.owner == 0 || helper.owner == getpid()) return;
    pthread_mutex_init(&helper.turn, NULL);
    helper.owner = 0;
    helper.places = NULL;
    helper.size = helper.users = 0;
}

static int udp_helper_find_place(uint32_t *place)
{
    for (*place = 0; *place < helper.size; ++*place)
        if (helper.places[*place] == NULL) return 0;
    uint32_t size = helper.size == 0 ? 4 : 2 * helper.size;
    struct udp_tp **places = realloc(helper.places, size * sizeof(struct udp_tp *));
    if (places == NULL) return ENOMEM;
    for (uint32_t i = helper.size; i < size; i++)
        places[i] = NULL;
    helper.places = places;
    helper.size = size;
    return 0;
}

int udp_helper_join(struct udp_tp *udp)
{
    udp_helper_forget_parent();
    pthread_mutex_lock(&helper.turn);
    int err = udp_helper_find_place(&udp->idle.place);
    if (err == 0 && helper.users == 0) err = udp_helper_start();
    if (err == 0) {
        helper.places[udp->idle.place] = udp;
        helper.users++;
        udp->idle.watched = helper.epoll;
        udp->idle.owner = helper.owner;
    }
    pthread_mutex_unlock(&helper.turn);
    return err;
}

void udp_helper_leave(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    if (idle->owner != getpid()) return; /* in a forked child */
    pthread_mutex_lock(&helper.turn);
    helper.places[idle->place] = NULL;
    for (unsigned i = 0; i < idle->socket_count; i++)
        (void)epoll_ctl(idle->watched, EPOLL_CTL_DEL, idle->sockets[i], NULL);
    (void)epoll_ctl(idle->watched, EPOLL_CTL_DEL, idle->tick, NULL);
    bool last = --helper.users == 0;
    pthread_t thread = helper.thread;
    int epoll = helper.epoll, stop = helper.stop;
    pthread_mutex_unlock(&helper.turn); /* the next user starts another thread */
    if (!last) return;
    aqi_kick(stop);
    pthread_join(thread, NULL);
    close(epoll);
    close(stop);
}
