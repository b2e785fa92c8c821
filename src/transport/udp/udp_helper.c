/*
 * udp: the thread that watches the sockets of all transports of this process while the program does
 * not (udp_idle.c). A server has a transport for each connection, so they share one thread.
 */
#include "transport/udp/udp_impl.h"

#include "base/array.h"
#include "base/kick.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#define HELPER_STOP UINT64_MAX /* the event that ends the thread */

struct udp_helper_place {
    struct udp_tp *user; /* NULL: free */
    uint32_t generation; /* of users: events for previous ones are dropped */
    bool busy;           /* the thread is serving it */
};

/* There is a thread while there are users, in the process `owner`: a forked child starts another
 * one when it opens a transport. */
static struct {
    pthread_mutex_t lock; /* protects the following; not held in turns, which may block */
    pthread_cond_t done;  /* a turn has ended */
    pthread_t thread;
    int epoll, stop;
    struct udp_helper_place *places;
    size_t size;
    uint32_t users;
    _Atomic pid_t owner;
} helper = {.lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static uint64_t udp_helper_event(const struct udp_tp *udp, bool tick)
{
    return (uint64_t)udp->idle.generation << 32 | 2 * udp->idle.place | tick;
}

/* Serve the user of an event, if it still exists. */
static void udp_helper_turn(uint64_t event)
{
    uint32_t place = (uint32_t)event / 2, generation = (uint32_t)(event >> 32);
    pthread_mutex_lock(&helper.lock);
    struct udp_helper_place *at = place < helper.size ? &helper.places[place] : NULL;
    struct udp_tp *udp = at != NULL && at->generation == generation ? at->user : NULL;
    if (udp != NULL) {
        at->busy = true;
        pthread_mutex_unlock(&helper.lock);
        udp_idle_wake(udp, event % 2 != 0);
        pthread_mutex_lock(&helper.lock);
        helper.places[place].busy = false; /* the array may have moved */
        pthread_cond_broadcast(&helper.done);
    }
    pthread_mutex_unlock(&helper.lock);
}

static void *udp_helper_main(void *arg)
{
    int epoll = (int)(intptr_t)arg;
    struct epoll_event event;
    for (;;) {
        int n = epoll_wait(epoll, &event, 1, -1);
        if (n < 0 && errno != EINTR) return NULL;
        if (n <= 0) continue;
        if (event.data.u64 == HELPER_STOP) return NULL;
        udp_helper_turn(event.data.u64);
    }
}

static bool udp_helper_add(int fd, uint64_t data)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = data};
    return epoll_ctl(helper.epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static int udp_helper_start(void)
{
    helper.epoll = epoll_create1(EPOLL_CLOEXEC);
    helper.stop = helper.epoll >= 0 ? aqi_kick_new() : -1;
    int err = helper.stop < 0 || !udp_helper_add(helper.stop, HELPER_STOP) ? errno : 0;
    if (err == 0)
        err = aqi_thread_start(&helper.thread, udp_helper_main, (void *)(intptr_t)helper.epoll);
    if (err == 0) return 0;
    if (helper.epoll >= 0) close(helper.epoll);
    if (helper.stop >= 0) close(helper.stop);
    return err;
}

/* Start over in a forked child: the parent's thread may have held the lock at the fork. */
static void udp_helper_forget_parent(void)
{
    pid_t was = helper.owner, self = getpid();
    if (was == self || !atomic_compare_exchange_strong(&helper.owner, &was, self) || was == 0)
        return;
    pthread_mutex_init(&helper.lock, NULL);
    pthread_cond_init(&helper.done, NULL);
    helper.places = NULL;
    helper.size = 0;
    helper.users = 0;
}

static int udp_helper_find_place(uint32_t *place)
{
    for (*place = 0; *place < helper.size; ++*place)
        if (helper.places[*place].user == NULL) return 0;
    if (!aqi_array_grow(&helper.places, &helper.size, *place + 1, sizeof(*helper.places)))
        return ENOMEM;
    for (size_t i = *place; i < helper.size; i++)
        helper.places[i] = (struct udp_helper_place){0};
    return 0;
}

/* With the lock held, and a thread running. */
static int udp_helper_enter(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    struct udp_helper_place *at = &helper.places[idle->place];
    idle->watched = helper.epoll;
    idle->owner = helper.owner;
    idle->generation = ++at->generation;
    if (!udp_helper_add(idle->tick, udp_helper_event(udp, true))) return errno;
    at->user = udp;
    helper.users++;
    return 0;
}

bool udp_helper_watch(const struct udp_tp *udp, int socket, bool on)
{
    struct epoll_event once = {.events = EPOLLIN | EPOLLONESHOT,
                               .data.u64 = udp_helper_event(udp, false)};
    int epoll = udp->idle.watched;
    if (!on) return epoll_ctl(epoll, EPOLL_CTL_DEL, socket, NULL) == 0;
    return epoll_ctl(epoll, EPOLL_CTL_MOD, socket, &once) == 0 ||
           epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &once) == 0;
}

/* Unlock, and end the thread if nothing uses it. The next user starts another one. */
static void udp_helper_unlock(void)
{
    bool last = helper.users == 0;
    pthread_t thread = helper.thread;
    int epoll = helper.epoll, stop = helper.stop;
    pthread_mutex_unlock(&helper.lock);
    if (!last) return;
    aqi_kick(stop);
    pthread_join(thread, NULL);
    close(epoll);
    close(stop);
}

int udp_helper_join(struct udp_tp *udp)
{
    udp_helper_forget_parent();
    pthread_mutex_lock(&helper.lock);
    int err = udp_helper_find_place(&udp->idle.place);
    if (err == 0 && helper.users == 0) err = udp_helper_start();
    if (err != 0) {
        pthread_mutex_unlock(&helper.lock);
        return err;
    }
    err = udp_helper_enter(udp);
    udp_helper_unlock();
    return err;
}

void udp_helper_leave(struct udp_tp *udp)
{
    struct udp_idle *idle = &udp->idle;
    if (idle->owner != getpid()) return; /* in a forked child */
    pthread_mutex_lock(&helper.lock);
    helper.places[idle->place].generation++;
    while (helper.places[idle->place].busy)
        pthread_cond_wait(&helper.done, &helper.lock);
    for (unsigned i = 0; i < idle->socket_count; i++)
        (void)udp_helper_watch(udp, idle->sockets[i], false);
    (void)epoll_ctl(idle->watched, EPOLL_CTL_DEL, idle->tick, NULL);
    helper.places[idle->place].user = NULL;
    helper.users--;
    udp_helper_unlock();
}
